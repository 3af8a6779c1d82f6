/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.cuh - a barrier among the ranks of a team
 *
 * Up to 32 ranks that are all direct peers use a flat barrier: each rank writes one word at every
 * other rank. Other teams use dissemination: in round k a rank notifies the rank 2^k numbers above
 * and waits for the rank 2^k numbers below, so that after log2(n) rounds each rank has heard of
 * all. A word has one writer, which sets it to the barrier's epoch: writing it again, after a
 * timeout, changes nothing.
 */
#ifndef GIN_BARRIER_CUH
#define GIN_BARRIER_CUH

#include "context.cuh"
#include "gdaki/barrier.cuh"

/*
 * Barrier `index` of the device communicator, 0 to barriers - 1. A rank uses an index with one team
 * only, because the index counts its epochs; teams without a common rank may share an index. All
 * threads of a coop make a GinBarrier and call it. What any rank of the team wrote or put before it
 * arrived, in any context, is visible to all ranks after the wait.
 *
 * `routes` as for GinOn. Puts on other routes are not covered; ginErrorUnsupported: a rank of the
 * team is on another route.
 */
template <uint32_t routes> class GinBarrierOn
{
public:
	GIN_FN GinBarrierOn(const ginDevComm &devComm, ginTeam team_, uint32_t index_)
	    : dc(devComm), team(team_), index(index_)
	{
	}

	/*
	 * Announces this rank without waiting for the others. With peers on the proxy or gdaki
	 * route it waits until everything that this rank has posted to the team is done.
	 * ginErrorTimeout, ginErrorPeer, ginErrorAborted. If a direct peer has failed, wait()
	 * fails, and arrive() may.
	 */
	template <class Coop = GinThread>
	GIN_FN ginResult_t arrive(Coop coop = {}, ginOptions options = {}) const
	{
		ginResult_t result = ginSuccess;
		coop.sync(); /* the barrier covers what the coop did before */
		if (coop.thread_rank() == 0)
			result = begin(options);
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
		if (coop.thread_rank() == 0)
			result = finish(options);
		return ginAgree(coop, result);
	}

	/* arrive() and wait(). */
	template <class Coop = GinThread>
	GIN_FN ginResult_t sync(Coop coop = {}, ginOptions options = {}) const
	{
		ginResult_t result = arrive(coop, options);
		return result == ginSuccess ? wait(coop, options) : result;
	}

private:
	const ginDevComm &dc;
	const ginTeam team;
	const uint32_t index;

	/* The epoch of the barrier under way. By one thread: finish() changes it. */
	GIN_FN uint64_t next() const { return ginLocalLoad(&dc.epoch[index]) + 1; }

	GIN_FN size_t wordIndex(uint32_t round) const
	{
		return static_cast<size_t>(dc.contexts) * dc.signals +
		       static_cast<size_t>(index) * GIN_BARRIER_ROUNDS + round;
	}

	/* Waits until everything that this rank has posted to the team, in any context, is done. */
	GIN_FN ginResult_t drain(const ginOptions &options) const
	{
		struct ginPoll own = ginPollStart(dc, options);
		ginResult_t result = ginSuccess;
		for (uint32_t c = 0;
		     ginHasProxy<routes>(dc) && result == ginSuccess && c < dc.contexts; c++)
			result = ginRingDrain(dc.queues + c, teamSet(), &own);
		if (ginHasNic<routes>(dc))
			result = ginGdakiDrain(*dc.self, index % dc.contexts, teamSet(), &own);
		if (result != ginSuccess)
			leaveError(result, -1, next(), next() - 1);
		return result;
	}

	/*
	 * Drains before the first notification, because notified ranks notify further ranks. Both
	 * may wait: the failure of a rank outside the team does not end them.
	 */
	GIN_FN ginResult_t begin(const ginOptions &options) const
	{
		ginResult_t result = ginSuccess;
		if (ginHasNetwork<routes>(dc))
			result = drain(onTeam(options));
		if (result != ginSuccess)
			return result;
		if (!isFlat())
			return notify(0, next(), onTeam(options));
		if (!(routes & GIN_ROUTES_DIRECT))
			return ginErrorUnsupported;
		notifyAll(next());
		return ginSuccess;
	}

	/* Whether the barrier is flat: all ranks of the team get one answer. */
	GIN_FN bool isFlat() const
	{
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
	 * B, release end: pairs with ginBarrierObserve at every other rank. The memory of a failed
	 * peer stays mapped; the wait reports the failure.
	 */
	GIN_FN void notifyAll(uint64_t epoch) const
	{
		size_t word = wordIndex(static_cast<uint32_t>(team.rank));
		ginBarrierRelease();
		for (int peer = 0; peer < team.nRanks; peer++)
			if (peer != team.rank)
				ginBarrierTell(signalsOf(ginTeamToWorld(dc, team, peer)) + word,
					       epoch);
	}

	/*
	 * Posts a store of the word, by the proxy or the peer's NIC. Barrier `index` uses one
	 * context.
	 */
	GIN_FN ginResult_t post(int world, uint32_t round, uint64_t epoch,
				const ginOptions &options) const
	{
		if (!ginHasNic<routes>(dc) && !ginHasProxy<routes>(dc))
			return ginErrorUnsupported;
		if (ginHasNic<routes>(dc))
			return ginGdakiBarrierSet(*dc.self, index % dc.contexts, world,
						  wordIndex(round), epoch, ginOptions(options));
		struct ginPoll own = ginPollStart(dc, options);
		return ginPostBarrier(dc.queues + index % dc.contexts, world,
				      index * GIN_BARRIER_ROUNDS + round, epoch, &own);
	}

	/* B, release end: pairs with ginBarrierObserve in await() at the peer of the round. */
	GIN_FN ginResult_t notify(uint32_t round, uint64_t epoch, const ginOptions &options) const
	{
		int peer = (team.rank + static_cast<int>(1u << round)) % team.nRanks;
		int world = ginTeamToWorld(dc, team, peer);
		struct ginPeer to = ginPeerObserve(&dc.peers[world]);
		ginResult_t result = ginSuccess;
		if (to.state != ginPeerAlive) {
			result = ginPeerLost(&dc.abortLine->word);
		} else if (to.route != ginRouteDirect) {
			result = post(world, round, epoch, options);
		} else if (!(routes & GIN_ROUTES_DIRECT)) {
			result = ginErrorUnsupported;
		} else {
			ginBarrierRelease();
			ginBarrierTell(to.signals + wordIndex(round), epoch);
		}
		if (result != ginSuccess)
			leaveError(result, world, epoch, epoch - 1);
		return result;
	}

	GIN_FN void leaveError(ginResult_t result, int peer, uint64_t expected, uint64_t seen) const
	{
		ginErrorLeave(dc.self, result, ginCallBarrier, 0, peer, index, expected, seen);
	}

	/* Which class of agents writes the word of a round at this rank. */
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

	/* Waits for one word. *start: when the whole wait began. B, acquire end. */
	GIN_FN ginResult_t await(const uint64_t *word, uint64_t epoch, const ginOptions &options,
				 uint64_t *start) const
	{
		auto look = [word] { return ginBarrierObserve(word); };
		struct ginPoll poll = ginPollStart(dc, options);
		uint64_t seen;
		poll.start = poll.looked = *start;
		ginResult_t result = ginPollUntil(poll, look, epoch, 64, &seen);
		*start = poll.start;
		if (result != ginSuccess)
			leaveError(result, poll.failed, epoch, seen);
		return result;
	}

	/* Waits for the words of all ranks, with one timeout from one start. */
	GIN_FN ginResult_t awaitAll(uint64_t epoch, const ginOptions &options) const
	{
		uint64_t start = 0;
		ginResult_t result = ginSuccess;
		GIN_NO_UNROLL
		for (uint32_t peer = 0; result == ginSuccess && peer < nRanks(); peer++)
			if (peer != static_cast<uint32_t>(team.rank))
				result = await(dc.signal[ginWriterGpu] + wordIndex(peer), epoch,
					       options, &start);
		return result;
	}

	GIN_FN ginResult_t rounds(uint64_t epoch, const ginOptions &options) const
	{
		uint64_t start = 0;
		ginResult_t result = ginSuccess;
		for (uint32_t k = 0; result == ginSuccess && (1u << k) < nRanks(); k++) {
			if (k)
				result = notify(k, epoch, options);
			if (result == ginSuccess)
				result = await(wordOf(k), epoch, options, &start);
		}
		return result;
	}

	/* The first loads of all words: most waits end here. B, acquire end. */
	GIN_FN bool arrived(uint64_t epoch) const
	{
		bool all = true;
		GIN_NO_UNROLL
		for (uint32_t peer = 0; all && peer < nRanks(); peer++) {
			const uint64_t *word = dc.signal[ginWriterGpu] + wordIndex(peer);
			auto look = [word] { return ginBarrierObserve(word); };
			if (peer != static_cast<uint32_t>(team.rank))
				all = ginLookBriefly(look, epoch, 64);
		}
		return all;
	}

	/* The options of a wait, which depends on the team unless the caller names peers. */
	GIN_FN ginOptions onTeam(ginOptions options) const
	{
		if (!options.from.count)
			options.from = teamSet();
		return options;
	}

	/* The longer wait. Cold, so it takes dc.self: see wait.cuh. */
	GIN_FN_COLD static ginResult_t awaitLong(const ginDevComm *dc, ginTeam team, uint32_t index,
						 uint64_t epoch, ginOptions options)
	{
		const GinBarrierOn barrier(*dc, team, index);
		return barrier.awaitAll(epoch, barrier.onTeam(options));
	}

	GIN_FN ginResult_t finish(const ginOptions &options) const
	{
		uint64_t epoch = next();
		ginResult_t result = ginSuccess;
		if (!isFlat())
			result = rounds(epoch, onTeam(options));
		else if (!arrived(epoch))
			result = awaitLong(dc.self, team, index, epoch, options);
		if (result == ginSuccess)
			ginLocalStore(&dc.epoch[index], epoch);
		return result;
	}

	GIN_FN uint32_t nRanks() const { return static_cast<uint32_t>(team.nRanks); }

	GIN_FN ginPeerSet teamSet() const
	{
		return {static_cast<uint32_t>(ginTeamToWorld(dc, team, 0)), nRanks(),
			static_cast<uint32_t>(team.stride)};
	}
};

/* For every route. */
using GinBarrier = GinBarrierOn<GIN_ROUTES_ALL>;

#endif
