/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.cuh - a barrier among the ranks of a team
 *
 * Up to 32 ranks that are all direct peers use a flat barrier: each rank writes one word at every
 * other rank. Other teams use dissemination: in round k a rank notifies the rank 2^k numbers above
 * and waits for the rank 2^k numbers below. After log2(n) rounds each rank knows that all have
 * arrived. A word has one writer, which sets it to the barrier's epoch: writing it again, after a
 * timeout, changes nothing.
 */
#ifndef GIN_BARRIER_CUH
#define GIN_BARRIER_CUH

#include "context.cuh"
#include "gdaki/barrier.cuh"

/* Index and context of a barrier in one word. The checks need a word that holds any numbers. */
template <bool checks> struct ginBarrierWord {
	using type = uint32_t;
	static constexpr uint32_t contextShift = 16;
};
template <> struct ginBarrierWord<true> {
	using type = uint64_t;
	static constexpr uint32_t contextShift = 32;
};

/*
 * Barrier `index` of the device communicator, 0 to barriers - 1. A rank uses an index with one team
 * only, because the index counts its epochs; teams without a common rank may share an index. All
 * threads of a coop make a GinBarrier and call it. All that any rank of the team wrote or put
 * before it arrived, in any context, is visible to all ranks after the wait.
 *
 * On a network route the barrier posts its messages into context `index` modulo the number of
 * contexts, or into the context that is given: a context whose sharing is promised to fewer threads
 * (ginSharing) needs that. Each rank may give another context.
 *
 * `routes` as for GinOn. Puts on other routes are not covered; ginErrorUnsupported: a rank of the
 * team is on another route.
 *
 * alwaysFlat: all ranks of the team are direct peers, and the barrier has the words of (nRanks +
 * GIN_BARRIER_ROUNDS - 1) / GIN_BARRIER_ROUNDS barriers from `index` on. It
 * has no code for dissemination. sync() loads the epoch before the coop meets: coops that use one
 * barrier one after another have to meet between their calls.
 */
template <uint32_t routes, bool checks = ginChecks, bool alwaysFlat = false,
	  bool traces = ginTraces>
class GinBarrierOn
{
	using Which = typename ginBarrierWord<checks>::type;

public:
	GIN_FN GinBarrierOn(const ginDevComm &devComm, ginTeam team_, Which index_)
	    : dc(devComm), team(team_), which(index_)
	{
	}

	GIN_FN GinBarrierOn(const ginDevComm &devComm, ginTeam team_, uint32_t index_,
			    uint32_t context_)
	    : dc(devComm), team(team_),
	      which(routes == GIN_ROUTES_DIRECT ? index_
						: index_ | (Which{context_} + 1) << contextShift)
	{
	}

	/*
	 * Announces this rank without waiting for the others. With peers on the proxy or gdaki
	 * route it waits until all posts of this rank to the team are done. ginErrorTimeout,
	 * ginErrorPeer, ginErrorAborted. If a direct peer has failed, wait() fails, and arrive()
	 * may.
	 */
	template <class Coop = GinThread>
	GIN_FN ginResult_t arrive(Coop coop = {}, ginOptions options = {}) const
	{
		ginResult_t result = ginSuccess;
		if constexpr (checks)
			result = check(coop);
		if (result != ginSuccess)
			return result;
		coop.sync(); /* the barrier covers what the coop did before */
		if (coop.thread_rank() == 0)
			result = again().begin(options);
		return ginAgree(coop, result);
	}

	/*
	 * Waits until all ranks have arrived; after arrive(). An acquire for the whole coop.
	 * ginErrorTimeout: repeat wait(), or arrive() and wait(). ginErrorPeer, ginErrorAborted.
	 * Without options.from the wait depends on all ranks of the team.
	 */
	template <class Coop = GinThread>
	GIN_FN ginResult_t wait(Coop coop = {}, ginOptions options = {}) const
	{
		ginResult_t result = ginSuccess;
		if constexpr (checks)
			result = check(coop);
		if (result != ginSuccess)
			return result;
		bool heard = false;
		if constexpr (routes != GIN_ROUTES_DIRECT && (routes & GIN_ROUTES_DIRECT) &&
			      ginFixedSize<Coop>(0) != 1 && ginVoteIsSync<Coop>(0))
			heard = ginUnshared(static_cast<uint32_t>(hearTogether(coop)));
		if (coop.thread_rank() == 0)
			result = again().finish(heard, again().next(), options);
		return heard ? ginSuccess : ginAgree(coop, result);
	}

	/* arrive() and wait(). */
	template <class Coop = GinThread>
	GIN_FN ginResult_t sync(Coop coop = {}, ginOptions options = {}) const
	{
		if constexpr (routes == GIN_ROUTES_DIRECT)
			return syncAtOnce(coop, options);
		ginResult_t result = arrive(coop, options);
		return result == ginSuccess ? wait(coop, options) : result;
	}

protected: /* of the traced class, too */
	/*
	 * As arrive() and wait(), by thread 0 alone, with two meetings of the coop instead of
	 * three, and one load of the epoch.
	 */
	template <class Coop>
	GIN_FN ginResult_t syncAtOnce(Coop coop, const ginOptions &options) const
	{
		ginResult_t result = ginSuccess;
		if constexpr (checks)
			result = check(coop);
		if (result != ginSuccess)
			return result;
		uint64_t epoch = alwaysFlat ? again().next() : 0; /* overlaps with the meeting */
		coop.sync(); /* the barrier covers what the coop did before */
		if (coop.thread_rank() == 0) {
			const GinBarrierOn now = again();
			if (!alwaysFlat)
				epoch = now.next();
			result = now.begin(epoch, options);
			if (result == ginSuccess)
				result = now.finish(false, epoch, options);
		}
		return ginAgree(coop, result);
	}

	const ginDevComm &dc;
	const ginTeam team;
	/* The index, and 1 + the context above it; 0: none is given. */
	const Which which;

	static constexpr uint32_t contextShift = ginBarrierWord<checks>::contextShift;
	/* ginWaitWhat.call: kernels for other routes, or with calls, lack registers for it. */
	static constexpr uint32_t told = routes == GIN_ROUTES_DIRECT || (routes == GIN_ROUTES_ALL &&
									 !(GIN_ON_GPU && GIN_CALLS))
						 ? ginCallBarrier
						 : ginCallNone;
	static_assert(GIN_MAX_CONTEXTS < 1u << 16, "1 + the context fits");

	template <class Coop> GIN_FN ginResult_t check(Coop coop) const
	{
		return ginCheckCall(dc, coop, ginCallBarrier, 0, -1, [&](ginArguments &a) {
			a.below(ginArgumentBarrier, index(), dc.barriers);
			a.team(team);
			a.below(ginArgumentContext, context(), dc.contexts);
		});
	}

	/* A barrier for direct peers alone posts nothing, and has no context. */
	GIN_FN uint32_t index() const
	{
		return static_cast<uint32_t>(routes == GIN_ROUTES_DIRECT
						     ? which
						     : which & ((Which{1} << contextShift) - 1));
	}

	/* For the host; 0 in kernels for direct peers alone, to which it would cost registers. */
	GIN_FN uint32_t toldRanks() const { return routes == GIN_ROUTES_DIRECT ? 0 : nRanks(); }

	/* The context whose ring or send queues take the messages of a network route. */
	GIN_FN uint32_t context() const
	{
		return which >> contextShift ? static_cast<uint32_t>(which >> contextShift) - 1
					     : index() % dc.contexts;
	}

	/* This barrier, its numbers as by ginUnshared(). */
	GIN_FN GinBarrierOn again() const
	{
		return GinBarrierOn(
			dc,
			{static_cast<int>(ginUnshared(static_cast<uint32_t>(team.nRanks))),
			 static_cast<int>(ginUnshared(static_cast<uint32_t>(team.rank))),
			 team.stride},
			ginUnshared(which));
	}

	/* The epoch of the barrier in progress. By one thread: finish() changes it. */
	GIN_FN uint64_t next() const { return ginLocalLoad(&dc.epoch[index()]) + 1; }

	GIN_FN size_t wordIndex(uint32_t round) const
	{
		return static_cast<size_t>(ginUnshared(dc.contexts)) * dc.signals +
		       static_cast<size_t>(index()) * GIN_BARRIER_ROUNDS + round;
	}

	GIN_FN uint32_t nRanks() const { return static_cast<uint32_t>(team.nRanks); }

	GIN_FN ginPeerSet teamSet() const
	{
		return {static_cast<uint32_t>(ginTeamToWorld(dc, team, 0)), nRanks(),
			static_cast<uint32_t>(team.stride)};
	}

	/* The peers that a wait depends on: the team, unless the caller names peers. */
	GIN_FN uint64_t waitsFor(uint64_t from) const
	{
		return from ? from : ginFromPack(teamSet());
	}

	/* Is the barrier flat? All ranks of the team get one answer. */
	GIN_FN bool isFlat() const
	{
		if (alwaysFlat)
			return true;
		if (nRanks() > GIN_BARRIER_ROUNDS)
			return false;
		if (dc.domainSize == dc.nRanks || nRanks() == 1)
			return true;
		uint32_t first = static_cast<uint32_t>(ginTeamToWorld(dc, team, 0));
		uint32_t last = static_cast<uint32_t>(ginTeamToWorld(dc, team, team.nRanks - 1));
		return first / dc.domainSize == last / dc.domainSize;
	}

	GIN_FN uint64_t *signalsOf(int world) const
	{
		uint64_t *known = ginDirectSignals(dc, world);
		return known ? known : ginPeerObserve(&dc.peers[world]).signals;
	}

	/*
	 * A barrier for direct peers alone has its two cold functions inline: as calls they cost
	 * its kernels four registers.
	 */
	GIN_FN static void leave(const ginDevComm *self, ginResult_t result, int peer,
				 uint32_t index, uint64_t expected, uint64_t seen)
	{
		if constexpr (routes == GIN_ROUTES_DIRECT)
			ginErrorLeaveHere(self, result, ginCallBarrier, 0, peer, index, expected,
					  seen);
		else
			ginErrorLeave(self, result, ginCallBarrier, 0, peer, index, expected, seen);
	}

	GIN_FN void leaveError(ginResult_t result, int peer, uint64_t expected, uint64_t seen) const
	{
		leave(dc.self, result, peer, index(), expected, seen);
	}

	GIN_FN static ginResult_t lost(const uint64_t *abortWord)
	{
		if constexpr (routes == GIN_ROUTES_DIRECT)
			return ginPeerLostHere(abortWord);
		else
			return ginPeerLost(abortWord);
	}

	/*
	 * Drains before the first notification, because notified ranks notify further ranks. Both
	 * may wait: the failure of a rank outside the team does not end them.
	 */
	GIN_FN ginResult_t begin(const ginOptions &options) const { return begin(next(), options); }

	GIN_FN ginResult_t begin(uint64_t epoch, const ginOptions &options) const
	{
		const uint64_t from = ginFromPack(options.from);
		ginResult_t result = ginSuccess;
		if (ginHasNetwork<routes>(dc))
			result = drain(dc.self, team.nRanks, team.rank, team.stride, which, epoch,
				       options.timeout, from);
		if (result != ginSuccess)
			return result;
		if (!isFlat())
			return notify(0, epoch, options.timeout, from);
		if (!(routes & GIN_ROUTES_DIRECT) && nRanks() > 1) {
			leaveError(ginErrorUnsupported, -1, epoch, epoch - 1);
			return ginErrorUnsupported;
		}
		notifyAll(epoch, options.given);
		return ginSuccess;
	}

	/* `heard`: all ranks have arrived. */
	GIN_FN ginResult_t finish(bool heard, uint64_t epoch, const ginOptions &options) const
	{
		ginResult_t result = ginSuccess;
		if (!heard && !isFlat())
			result = rounds(epoch, options);
		else if (!heard && !arrived(dc.signal[ginWriterGpu] + wordIndex(0), nRanks(),
					    team.rank, epoch))
			result = awaitAll(dc.self, team.nRanks, team.rank, team.stride, which,
					  epoch, options.timeout, ginFromPack(options.from));
		if (result == ginSuccess)
			ginLocalStore(&dc.epoch[index()], epoch);
		return result;
	}

	/*
	 * The first looks at the words of a barrier of direct peers, each word by another thread:
	 * one thread would load them one after another. False: there is only one word, a rank has
	 * not arrived soon, or the coop has too few threads. The vote is a sync, too, so every look
	 * is an acquire for the whole coop. B, acquire end.
	 */
	template <class Coop> GIN_FN bool hearTogether(Coop coop) const
	{
		return dc.domainSize == dc.nRanks && again().nRanks() > 2 &&
		       again().nRanks() <= GIN_BARRIER_ROUNDS && coop.size() >= again().nRanks() &&
		       !coop.any(!again().hears(ginRankAgain(coop)));
	}

	/* Has rank `rank` of the team arrived, as far as brief looks tell? */
	GIN_FN bool hears(uint32_t rank) const
	{
		const uint64_t *word = dc.signal[ginWriterGpu] + wordIndex(rank);
		auto look = [word] { return ginBarrierObserve(word); };
		return rank >= nRanks() || rank == static_cast<uint32_t>(team.rank) ||
		       ginLookBriefly(look, next(), 64);
	}

	/*
	 * B, release end: pairs with ginBarrierObserve at every other rank. The memory of a failed
	 * peer stays mapped; the wait reports the failure. If the caller has released to the system
	 * (`given`), its release comes before the words, and this one is left out.
	 */
	GIN_FN void notifyAll(uint64_t epoch, ginScope given) const
	{
		size_t word = wordIndex(static_cast<uint32_t>(team.rank));
		if (given != ginScopeSystem)
			ginBarrierRelease();
		GIN_NO_UNROLL
		for (int peer = 0; peer < team.nRanks; peer++)
			if (peer != team.rank)
				ginBarrierTell(signalsOf(ginTeamToWorld(dc, team, peer)) + word,
					       epoch);
	}

	/* The rounds of a barrier that is not flat; begin() has notified the peer of round 0. */
	GIN_FN ginResult_t rounds(uint64_t epoch, const ginOptions &options) const
	{
		const uint64_t from = ginFromPack(options.from);
		uint64_t end = 0;
		ginResult_t result = ginSuccess;
		GIN_NO_UNROLL
		for (uint32_t k = 0; result == ginSuccess && (1u << k) < nRanks(); k++) {
			const GinBarrierOn now = again();
			if (k)
				result = now.notify(k, epoch, options.timeout, from);
			if (result != ginSuccess)
				return result;
			end = await(dc.self, now.team.nRanks, now.team.rank, team.stride, now.which,
				    k, epoch, end, options.timeout, from);
			if (end & GIN_QUEUE_FAILED)
				result = static_cast<ginResult_t>(end & 0xff);
		}
		return result;
	}

	/* The world rank that a round notifies. */
	GIN_FN int peerOf(uint32_t round) const
	{
		int peer = (team.rank + static_cast<int>(1u << round)) % team.nRanks;
		return ginTeamToWorld(dc, team, peer);
	}

	/* Sets the word of a round at its peer. A post to the proxy waits for room here. */
	GIN_FN ginResult_t notify(uint32_t round, uint64_t epoch, uint64_t timeout,
				  uint64_t from) const
	{
		auto queue = [&] { return dc.queues + context(); };
		auto post = [&](uint32_t how) {
			return tell(dc.self, team.nRanks, team.rank, team.stride, which, round,
				    epoch, how, timeout, from);
		};
		uint64_t posted = routes & GIN_ROUTES_PROXY
					  ? ginPost(
						    dc.self, queue, 0, -1, 0, timeout,
						    [&] { return waitsFor(from); }, post)
					  : post(0);
		if (posted & GIN_QUEUE_FAILED)
			leaveError(ginPostedResult(posted), peerOf(round), epoch, epoch - 1);
		return ginPostedResult(posted);
	}

	/* The class of agents that writes the word of a round at this rank. */
	GIN_FN ginWriterClass writer(uint32_t round) const
	{
		if (routes == GIN_ROUTES_DIRECT)
			return ginWriterGpu;
		if (dc.route != ginRouteNone)
			return writerOf(dc.route);
		int back = static_cast<int>((1u << round) % nRanks());
		int peer = (team.rank + team.nRanks - back) % team.nRanks;
		int world = ginTeamToWorld(dc, team, peer);
		return writerOf(ginPeerRoute(&dc.peers[world]));
	}

	GIN_FN static ginWriterClass writerOf(uint32_t route)
	{
		if (route == ginRouteDirect)
			return ginWriterGpu;
		return route == ginRouteProxy ? ginWriterCpu : ginWriterNic;
	}

	/* This rank's word of a round. */
	GIN_FN const uint64_t *wordOf(uint32_t round) const
	{
		ginWriterClass by = writer(round);
		return dc.signal[by] +
		       wordIndex(round) * (by == ginWriterCpu ? GIN_CPU_WORD_STRIDE : 1);
	}

	/*
	 * The functions below take `self`, ginDevComm.self, because they rarely run (error.cuh).
	 * The three numbers of a team are ginTeam's, and `from` is packed.
	 */

	/*
	 * The first loads of the words of all ranks: most waits end here. B, acquire end.
	 */
	GIN_FN static bool arrived(const uint64_t *words, uint32_t nRanks, int rank, uint64_t epoch)
	{
		bool all = true;
		GIN_NO_UNROLL
		for (uint32_t peer = 0; all && peer < nRanks; peer++, words++) {
			auto look = [words] { return ginBarrierObserve(words); };
			if (peer != static_cast<uint32_t>(rank))
				all = ginLookBriefly(look, epoch, 64);
		}
		return all;
	}

	/* Waits until all posts of this rank to the team, of any context, are done. */
	GIN_FN static ginResult_t drain(const ginDevComm *self, int nRanks, int rank, int stride,
					Which which, uint64_t epoch, uint64_t timeout,
					uint64_t from)
	{
		const GinBarrierOn barrier(*self, {nRanks, rank, stride}, which);
		const uint64_t members = ginFromPack(barrier.teamSet());
		ginResult_t result = ginSuccess;
		from = barrier.waitsFor(from);
		if (ginHasProxy<routes>(*self))
			result = ginRingDrain(self, members, timeout, from);
		if (ginHasNic<routes>(*self))
			result = ginGdakiDrain(self, barrier.context(), members, timeout, from);
		if (result != ginSuccess)
			leave(self, result, -1, barrier.index(), epoch, epoch - 1);
		return result;
	}

	/*
	 * Sets the word of a round at its peer. B, release end: pairs with ginBarrierObserve in
	 * await() at the peer. A network route posts a store of the word, always into one
	 * context. Returns the outcome as ginPostNow() does, with any error in GIN_QUEUE_FAILED.
	 */
	GIN_FN static uint64_t tell(const ginDevComm *self, int nRanks, int rank, int stride,
				    Which which, uint32_t round, uint64_t epoch, uint32_t how,
				    uint64_t timeout, uint64_t from)
	{
		const GinBarrierOn barrier(*self, {nRanks, rank, stride}, which);
		int world = barrier.peerOf(round);
		struct ginPeer to = ginPeerObserve(&self->peers[world]);
		if (ginPeerHasFailed(to))
			return ginPostedFailed(lost(&self->abortLine->word));
		if (to.route != ginRouteDirect)
			return barrier.post(world, round, epoch, how, timeout,
					    barrier.waitsFor(from));
		if (!(routes & GIN_ROUTES_DIRECT))
			return ginPostedFailed(ginErrorUnsupported);
		ginBarrierRelease();
		ginBarrierTell(to.signals + barrier.wordIndex(round), epoch);
		return GIN_POSTED_NOTHING;
	}

	GIN_FN uint64_t post(int world, uint32_t round, uint64_t epoch, uint32_t how,
			     uint64_t timeout, uint64_t from) const
	{
		if (ginHasNic<routes>(dc))
			return ginPostedBy(ginGdakiBarrierSet(
				dc.self, ginGdakiQueue(dc, context(), world), &dc.peers[world],
				wordIndex(round), epoch, timeout, from));
		if (!ginHasProxy<routes>(dc))
			return ginPostedFailed(ginErrorUnsupported);
		return ginProxyBarrierSet(dc.queues + context(), world,
					  index() * GIN_BARRIER_ROUNDS + round, epoch, how);
	}

	/*
	 * Waits for the word of a round. `end`: the deadline that ginPollEnd() gave after the words
	 * before. Returns it for the next word; or writes the error record and returns
	 * GIN_QUEUE_FAILED and the error. B, acquire end.
	 */
	GIN_FN static uint64_t await(const ginDevComm *self, int nRanks, int rank, int stride,
				     Which which, uint32_t round, uint64_t epoch, uint64_t end,
				     uint64_t timeout, uint64_t from)
	{
		const GinBarrierOn barrier(*self, {nRanks, rank, stride}, which);
		const uint64_t *word = barrier.wordOf(round);
		auto look = [word] { return ginBarrierObserve(word); };
		struct ginPoll poll =
			ginPollFor(self, timeout, barrier.waitsFor(from),
				   {told, barrier.toldRanks(), barrier.index(), round, true});
		uint64_t seen = 0;
		ginPollResume(poll, end);
		ginResult_t result = ginPollUntil(poll, look, epoch, 64, &seen);
		if (result == ginSuccess)
			return ginPollEnd(poll);
		leave(self, result, poll.failed, barrier.index(), epoch, seen);
		return GIN_QUEUE_FAILED | static_cast<uint64_t>(result);
	}

	/* Waits for the words of all ranks of a flat barrier, with one timeout. */
	GIN_FN static ginResult_t awaitAll(const ginDevComm *self, int nRanks, int rank, int stride,
					   Which which, uint64_t epoch, uint64_t timeout,
					   uint64_t from)
	{
		const GinBarrierOn barrier(*self, {nRanks, rank, stride}, which);
		const uint64_t *word = self->signal[ginWriterGpu] + barrier.wordIndex(0);
		struct ginPoll poll = ginPollFor(self, timeout, barrier.waitsFor(from), {told});
		ginResult_t result = ginSuccess;
		GIN_NO_UNROLL
		for (int peer = 0; result == ginSuccess && peer < nRanks; peer++, word++) {
			poll.what = {told, barrier.toldRanks(), barrier.index(),
				     static_cast<uint32_t>(peer), true};
			auto look = [word] { return ginBarrierObserve(word); };
			uint64_t seen = 0;
			if (peer != rank)
				result = ginPollUntil(poll, look, epoch, 64, &seen);
			if (result != ginSuccess)
				leave(self, result, poll.failed, barrier.index(), epoch, seen);
		}
		return result;
	}
};

/* For every route. */
using GinBarrier = GinBarrierOn<GIN_ROUTES_ALL>;

#endif
