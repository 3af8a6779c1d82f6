/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.cuh - all ranks of a team have come here
 *
 * Few ranks that are all direct peers of each other tell each other: a word each for every other. More,
 * or others, by dissemination: in round k a rank tells the one 2^k further on, and hears from the one
 * 2^k before, so that after log2(n) rounds each has heard of all. A word has one writer and is set to
 * the barrier's epoch: writing it again, after a timeout, changes nothing.
 */
#ifndef GIN_BARRIER_CUH
#define GIN_BARRIER_CUH

#include "context.cuh"
#include "gdaki/barrier.cuh"

/*
 * Barrier `index` of the device communicator, 0 to barriers - 1. An index belongs to one team: a rank
 * uses it with that team only, as it counts how often it was passed; teams without a common rank may
 * share one. Made by all threads of a coop, which make the calls too. What any rank of the team wrote
 * or put before it arrived, in whatever context, is visible to all after the wait.
 */
class GinBarrier
{
public:
	GIN_FN GinBarrier(const ginDevComm &devComm, ginTeam team_, uint32_t index_)
	    : dc(devComm), team(team_), index(index_)
	{
	}

	/*
	 * This rank has come; it need not wait for the others yet. With peers on a route with queues
	 * it waits until what this rank has posted is done. ginErrorTimeout, ginErrorPeer,
	 * ginErrorAborted. A direct peer that has failed ends the wait, and may end the arrival.
	 */
	template <class Coop = GinThread>
	GIN_FN ginResult_t arrive(Coop coop = {}, ginOptions options = {}) const
	{
		ginResult_t result = ginSuccess;
		coop.sync(); /* it covers what the coop did before */
		if (coop.thread_rank() == 0)
			result = begin(options);
		return ginAgree(coop, result);
	}

	/*
	 * All have come. After arrive(). An acquire for the whole coop. ginErrorTimeout: repeat the
	 * wait, or arrive and wait; ginErrorPeer, ginErrorAborted. Without options.from it depends
	 * on the team.
	 */
	template <class Coop = GinThread>
	GIN_FN ginResult_t wait(Coop coop = {}, ginOptions options = {}) const
	{
		ginResult_t result = ginSuccess;
		if (coop.thread_rank() == 0)
			result = finish(options);
		return ginAgree(coop, result);
	}

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

	/* The epoch that this rank is coming to; by one thread, as it changes in rounds(). */
	GIN_FN uint64_t next() const { return ginLocalLoad(&dc.epoch[index]) + 1; }

	GIN_FN size_t wordIndex(uint32_t round) const
	{
		return static_cast<size_t>(dc.contexts) * dc.signals +
		       static_cast<size_t>(index) * GIN_BARRIER_ROUNDS + round;
	}

	/* What this rank has posted, in any context, is done. */
	GIN_FN ginResult_t drain(const ginOptions &options) const
	{
		struct ginPoll own = ginPollStart(dc, options);
		ginResult_t result = ginSuccess;
		for (uint32_t c = 0; dc.queues && result == ginSuccess && c < dc.contexts; c++)
			result = ginRingDrain(dc.queues + c, teamSet(), &own);
		if (dc.sendQueues)
			result = ginGdakiDrain(*dc.self, index % dc.contexts, teamSet(), &own);
		if (result != ginSuccess)
			leaveError(result, -1, next(), next() - 1);
		return result;
	}

	/* Before it tells anybody: others tell others. */
	GIN_FN ginResult_t begin(const ginOptions &options) const
	{
		ginResult_t result = dc.route == ginRouteDirect ? ginSuccess : drain(options);
		if (result != ginSuccess)
			return result;
		if (!isFlat())
			return tell(0, next(), options);
		tellAll(next());
		return ginSuccess;
	}

	/* Few that are direct peers of each other; the same answer on all ranks of the team. */
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
		uint64_t *near = ginDirectNear(dc, world);
		return near ? near : ginPeerObserve(&dc.peers[world]).signals;
	}

	/*
	 * B, release end: pairs with ginBarrierObserve in hear() at all of them, in this rank's words. A
	 * failed peer's memory stays; it is the wait that ends for it.
	 */
	GIN_FN void tellAll(uint64_t epoch) const
	{
		size_t word = wordIndex(static_cast<uint32_t>(team.rank));
		ginBarrierRelease();
		for (int peer = 0; peer < team.nRanks; peer++)
			if (peer != team.rank)
				ginBarrierTell(signalsOf(ginTeamToWorld(dc, team, peer)) + word,
					       epoch);
	}

	/* The proxy, or the peer's NIC, sets the word: an index has its context. */
	GIN_FN ginResult_t post(int world, uint32_t round, uint64_t epoch,
				const ginOptions &options) const
	{
		if (dc.sendQueues)
			return ginGdakiBarrierSet(*dc.self, index % dc.contexts, world,
						  wordIndex(round), epoch, ginOptions(options));
		struct ginPoll own = ginPollStart(dc, options);
		return ginPostBarrier(dc.queues + index % dc.contexts, world,
				      index * GIN_BARRIER_ROUNDS + round, epoch, &own);
	}

	/* B, release end: pairs with ginBarrierObserve in hear() at that peer. */
	GIN_FN ginResult_t tell(uint32_t round, uint64_t epoch, const ginOptions &options) const
	{
		int peer = (team.rank + static_cast<int>(1u << round)) % team.nRanks;
		int world = ginTeamToWorld(dc, team, peer);
		struct ginPeer to = ginPeerObserve(&dc.peers[world]);
		ginResult_t result = ginSuccess;
		if (to.state != ginPeerAlive) {
			result = ginPeerLost(&dc.abortLine->word);
		} else if (to.route != ginRouteDirect) {
			result = post(world, round, epoch, options);
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

	/* The class of the words that the rank writes from which this one hears. */
	GIN_FN ginWriterClass writer(uint32_t round) const
	{
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

	/* The word of a round. */
	GIN_FN const uint64_t *wordOf(uint32_t round) const
	{
		ginWriterClass by = writer(round);
		return dc.signal[by] +
		       wordIndex(round) * (by == ginWriterCpu ? GIN_CPU_WORD_STRIDE : 1);
	}

	/* B, acquire end. */
	GIN_FN ginResult_t hear(const uint64_t *word, uint64_t epoch, const ginOptions &options,
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

	/* One timeout for all words: what is kept of the wait from one to the next is its start. */
	GIN_FN ginResult_t hearAll(uint64_t epoch, const ginOptions &options) const
	{
		uint64_t start = 0;
		ginResult_t result = ginSuccess;
		GIN_NO_UNROLL
		for (uint32_t peer = 0; result == ginSuccess && peer < nRanks(); peer++)
			if (peer != static_cast<uint32_t>(team.rank))
				result = hear(dc.signal[ginWriterGpu] + wordIndex(peer), epoch,
					      options, &start);
		return result;
	}

	GIN_FN ginResult_t rounds(uint64_t epoch, const ginOptions &options) const
	{
		uint64_t start = 0;
		ginResult_t result = ginSuccess;
		for (uint32_t k = 0; result == ginSuccess && (1u << k) < nRanks(); k++) {
			if (k)
				result = tell(k, epoch, options);
			if (result == ginSuccess)
				result = hear(wordOf(k), epoch, options, &start);
		}
		return result;
	}

	/* The first looks at all words, with which most waits end. B, acquire end. */
	GIN_FN bool areThere(uint64_t epoch) const
	{
		bool there = true;
		GIN_NO_UNROLL
		for (uint32_t peer = 0; there && peer < nRanks(); peer++) {
			const uint64_t *word = dc.signal[ginWriterGpu] + wordIndex(peer);
			auto look = [word] { return ginBarrierObserve(word); };
			if (peer != static_cast<uint32_t>(team.rank))
				there = ginLookBriefly(look, epoch, 64);
		}
		return there;
	}

	/* Who ends the wait by failing: all of the team, if nothing else is asked for. */
	GIN_FN ginOptions onTeam(ginOptions options) const
	{
		if (!options.from.count)
			options.from = teamSet();
		return options;
	}

	/* All other looks; by what memory holds, see wait.cuh. */
	GIN_FN_COLD static ginResult_t listen(const ginDevComm *dc, ginTeam team, uint32_t index,
					      uint64_t epoch, ginOptions options)
	{
		const GinBarrier barrier(*dc, team, index);
		return barrier.hearAll(epoch, barrier.onTeam(options));
	}

	GIN_FN ginResult_t finish(const ginOptions &options) const
	{
		uint64_t epoch = next();
		ginResult_t result = ginSuccess;
		if (!isFlat())
			result = rounds(epoch, onTeam(options));
		else if (!areThere(epoch))
			result = listen(dc.self, team, index, epoch, options);
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

#endif
