/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context_checks.cuh - checks of the arguments of the calls on a context
 */
#ifndef GIN_CONTEXT_CHECKS_CUH
#define GIN_CONTEXT_CHECKS_CUH

#include "checks.cuh"
#include "context_base.cuh"

/* Between GinContext and the classes with calls. Without `checks` every function is empty. */
template <uint32_t routes, bool checks> class GinContextChecks : public GinContext<routes>
{
	using Base = GinContext<routes>;

public:
	using Base::context;
	using Base::dc;

protected:
	using Base::Base;

	/*
	 * With -DGIN_DEVICE_CHECKS: checks the context and the arguments that `list` adds.
	 * Otherwise ginSuccess. A list captures `options` only if `checks` is set: a reference to
	 * it takes registers.
	 */
	template <class Coop, class List>
	GIN_FN ginResult_t check(Coop coop, uint32_t call, int peer, List list) const
	{
		if constexpr (!checks)
			return ginSuccess;
		else
			return ginCheckCall(dc, coop, call, context, peer, [&](ginArguments &a) {
				a.below(ginArgumentContext, context, dc.contexts);
				list(a);
			});
	}

	/* The world rank of a team's rank; -1, after a record, if the team has no such rank. */
	GIN_FN int inTeam(uint32_t call, ginTeam team, int peer) const
	{
		return check(GinThread{}, call, -1,
			     [&](ginArguments &a) {
				     a.team(team);
				     a.rankBelow(ginArgumentPeer, peer, team.nRanks);
			     }) == ginSuccess
			       ? ginTeamToWorld(dc, team, peer)
			       : -1;
	}

	/*
	 * The source of putFrom(): there is a list of this rank's windows if the gdaki route is in
	 * use.
	 */
	GIN_FN void checkSource(ginArguments &a, const void *src, size_t bytes) const
	{
		const uintptr_t address = reinterpret_cast<uintptr_t>(src);
		struct ginMlx5Memory found = {0, 0};
		a.note(address);
		if (bytes &&
		    (!src || (dc.sources && !ginSourceFind(dc.sources, address, bytes, &found))))
			a.refuse(ginArgumentSource, ginFaultNoWindow, 0, bytes);
	}

	/* An aligned word of a window at a peer. */
	GIN_FN ginResult_t checkWord(uint32_t call, int peer, ginWindow_t win, size_t off,
				     uint32_t bytes) const
	{
		return check(GinThread{}, call, peer, [&](ginArguments &a) {
			a.peer(peer);
			a.bytes(ginArgumentTarget, win, peer, off, bytes, bytes);
		});
	}

	/* By one thread: is it a word of this rank's part, a signal, a counter? */
	GIN_FN bool hasWord(uint32_t call, uint32_t which, ginWindow_t win, size_t off,
			    uint32_t bytes) const
	{
		return check(GinThread{}, call, -1, [&](ginArguments &a) {
			       a.own(which, win, off, bytes, bytes);
		       }) == ginSuccess;
	}

	GIN_FN bool hasSignal(uint32_t call, uint32_t id) const
	{
		return check(GinThread{}, call, -1, [&](ginArguments &a) {
			       a.below(ginArgumentSignal, id, dc.signals);
		       }) == ginSuccess;
	}

	GIN_FN bool hasCounter(uint32_t call, uint32_t id) const
	{
		return check(GinThread{}, call, -1, [&](ginArguments &a) {
			       a.below(ginArgumentCounter, id, dc.counters);
		       }) == ginSuccess;
	}
};

#endif
