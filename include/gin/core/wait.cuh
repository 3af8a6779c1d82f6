/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.cuh - how device calls wait
 *
 * A wait for a word of memory goes through ginPollStep() or ginPollUntil(): both end it by timeout,
 * abort, the failure of a peer, or the failure of the ring. A wait for a send queue goes through
 * ginSendPatienceStep() (gdaki/queue.cuh), which ends for the same reasons.
 */
#ifndef GIN_WAIT_CUH
#define GIN_WAIT_CUH

#include "error.cuh"
#include "how.cuh"
#include "mirror.cuh"
#include "options.cuh"

/* What a thread waits for, if the host asks: as in ginWaitRecord. Call 0: it does not tell. */
struct ginWaitWhat {
	uint32_t call = 0, context = 0;
	uint32_t id = UINT32_MAX;
	uint32_t peer = UINT32_MAX;
	bool brief = false; /* without `from` and `expected`, which would take registers */
};

/* A wait in progress. */
struct ginPoll {
	const ginDevComm *dc;
	struct ginMirroredWord *queue; /* of the word that holds the failure of the ring, or NULL */
	uint64_t end;  /* the deadline; before the first reading of the clock: the duration */
	uint64_t from; /* of ginFromPack() */
	struct ginWaitWhat what;
	/*
	 * Low half: when the wait last read the abort line, in units of 2^8 ns; high half: when it
	 * began, in units of 2^30 ns. Of a wait that does not tell: when it last read the line, in
	 * ns. 0: no clock read yet.
	 */
	uint32_t times;
	uint32_t steps;
	int32_t failed; /* the peer whose failure ended the wait, or -1 */
};

/* `dc`: ginDevComm.self. */
GIN_FN struct ginPoll ginPollFor(const ginDevComm *dc, uint64_t timeout, uint64_t from,
				 const struct ginWaitWhat &what = {})
{
	timeout = timeout ? timeout : dc->timeout;
	return {dc, nullptr, timeout ? timeout : GIN_FOREVER, from, what, 0, 0, -1};
}

GIN_FN struct ginPoll ginPollStart(const ginDevComm &dc, const ginOptions &options,
				   const struct ginWaitWhat &what = {})
{
	return ginPollFor(dc.self, options.timeout, ginFromPack(options.from), what);
}

/* NULL: the state does not matter. */
GIN_FN uint32_t ginPeerStateOf(const struct ginPeer *peer)
{
	return peer ? ginPeerObserve(peer).state : static_cast<uint32_t>(ginPeerAlive);
}

/*
 * Failed or masked, connected or not. bench/registers/run holds both forms: kernels whose calls are
 * inlined need fewer registers with ==, the others with &.
 */
GIN_FN bool ginPeerHasFailed(const struct ginPeer &peer)
{
	return GIN_CALLS ? peer.state & ginPeerFailed : peer.state == ginPeerFailed;
}

/* The first peer of `from` that has failed or is masked, or -1. */
GIN_FN int32_t ginFailedOf(const struct ginPeer *peers, const ginPeerSet &from)
{
	for (uint32_t i = 0; i < from.count; i++) {
		uint32_t peer = from.first + i * from.stride;
		if (ginPeerHasFailed(ginPeerObserve(&peers[peer])))
			return static_cast<int32_t>(peer);
	}
	return -1;
}

/*
 * Tells the host of a wait, unless another wait with this id, or an id 32 above it, has told for
 * the question: then one of them may tell for the next one. Callers hold many registers: a slot
 * that depends on more, or fields that are computed, take two more from a kernel for direct peers.
 */
GIN_FN void ginWaitTell(const ginDevComm *dc, uint32_t question, const struct ginWaitWhat &what,
			uint64_t from, uint64_t expected, uint64_t seen, uint64_t now,
			uint32_t times)
{
	uint32_t slot = (what.id + question) % GIN_WAITS;

	if (!ginWaitClaim(dc->waitClaims + slot, question))
		return;
	struct ginWaitRecord *record = dc->waits + slot;
	ginWaitStore(&record->call, what.call);
	ginWaitStore(&record->context, what.context);
	ginWaitStore(&record->id, what.id);
	ginWaitStore(&record->peer, what.peer);
	if (!what.brief) {
		ginWaitStore(&record->expected, expected);
		ginWaitStore(&record->from, from);
	}
	ginWaitStore(&record->seen, seen);
	ginWaitStore(&record->now, now);
	ginWaitStore(&record->times, times);
	ginWaitPublish(&record->question, question);
}

/*
 * The result with which the abort line ends this wait, or ginSuccess. With poll.from only its peers
 * count, otherwise all peers that are not masked. `least`, `seen`: for the host, if it asks.
 */
GIN_FN ginResult_t ginPollAbort(struct ginPoll &poll, uint64_t now, uint64_t least, uint64_t seen)
{
	uint64_t word = ginMirroredLook(poll.dc->abort);
	ginResult_t result = ginResultOf(word);

	if (poll.what.call && word & GIN_LINE_ASKS)
		ginWaitTell(poll.dc, static_cast<uint32_t>(word >> 56), poll.what, poll.from, least,
			    seen, now, poll.times);

	if (result != ginErrorPeer)
		return result;
	if (poll.from)
		poll.failed = ginFailedOf(poll.dc->peers, ginFromUnpack(poll.from));
	else
		poll.failed = ginAbortPeer(word);
	/* Two tests of poll.from: with one test ptxas takes two more registers for a barrier. */
	if (!poll.from && poll.failed == GIN_LINE_MASKED)
		return ginSuccess;
	return poll.from && poll.failed < 0 ? ginSuccess : ginErrorPeer;
}

/* The wait reads the abort line now; `begun`: the high half of ginPoll.times. */
GIN_FN void ginPollLooks(struct ginPoll &poll, uint32_t begun, uint64_t now)
{
	if (poll.what.call)
		poll.times = (begun & 0xffff0000u) | (static_cast<uint32_t>(now >> 8) & 0xffff) | 1;
	else
		poll.times = static_cast<uint32_t>(now) | 1;
}

/* Is it 4 us since the wait has read the abort line? */
GIN_FN bool ginPollIsDue(const struct ginPoll &poll, uint64_t now)
{
	if (poll.what.call)
		return ((static_cast<uint32_t>(now >> 8) - poll.times + 1) & 0xffff) >= 17;
	return static_cast<uint32_t>(now) - poll.times + 1 >= 4001;
}

/* Starts the clock of a wait. */
GIN_FN void ginPollBegin(struct ginPoll &poll, uint64_t now)
{
	const uint64_t never = GIN_FOREVER >> 1;

	poll.end = poll.end < never - now ? now + poll.end : never;
	ginPollLooks(poll, static_cast<uint32_t>(now >> 30) << 16, now);
}

/*
 * Reads the clock; ginSuccess: go on waiting. Reads the abort line and the ring's failure, in host
 * memory, every 4 us.
 */
GIN_FN ginResult_t ginPollClock(struct ginPoll &poll, uint64_t least = 0, uint64_t seen = 0)
{
	uint64_t now = ginNow();
	if (!poll.times) /* most waits end before this */
		ginPollBegin(poll, now);
	if (ginPollIsDue(poll, now)) {
		ginPollLooks(poll, poll.times, now);
		ginResult_t result = ginPollAbort(poll, now, least, seen);
		if (result == ginSuccess && poll.queue)
			result = ginResultOf(ginMirroredLookCalled(poll.queue));
		if (result != ginSuccess)
			return result;
	}
	return now >= poll.end ? ginErrorTimeout : ginSuccess;
}

/*
 * For a wait in several steps with one timeout: the deadline, for ginPollResume() of the next step;
 * 0: no clock read yet.
 */
GIN_FN uint64_t ginPollEnd(const struct ginPoll &poll)
{
	return poll.times ? poll.end : 0;
}

/* The next reading of the clock reads the abort line, too. */
GIN_FN void ginPollResume(struct ginPoll &poll, uint64_t end)
{
	if (!end)
		return;
	poll.end = end;
	uint64_t now = ginNow();
	ginPollLooks(poll, static_cast<uint32_t>(now >> 30) << 16, now - (17 << 8));
}

/* A loop reads the clock once in GIN_LOOKS loads or steps. */
#define GIN_LOOKS 16u

/* One pass of a waiting loop; ginSuccess: go on. `least`, `seen`: for the host, if it asks. */
GIN_FN ginResult_t ginPollStep(struct ginPoll &poll, uint64_t least = 0, uint64_t seen = 0)
{
	ginYield();
	return ++poll.steps % GIN_LOOKS ? ginSuccess : ginPollClock(poll, least, seen);
}

/* Is `seen` at least `least`, where both roll over at 2^bits? */
GIN_FN bool ginReached(uint64_t seen, uint64_t least, uint32_t bits)
{
	return static_cast<int64_t>((seen - least) << ((64 - bits) & 63)) >= 0;
}

/* Loads up to GIN_LOOKS times; true: the word is at least `least`. *seen: the last value. */
template <class Look>
GIN_FN bool ginLookOften(Look &look, uint64_t least, uint32_t bits, uint64_t *seen)
{
	GIN_NO_UNROLL
	for (uint32_t i = 0; i < GIN_LOOKS; i++) {
		*seen = look();
		if (ginReached(*seen, least, bits))
			return true;
		ginYield();
	}
	return false;
}

/*
 * The first loads of a wait, with only a compare between them. Measured: with ginPollStep() in
 * between, a wait sees its signal 0.06 us later.
 */
template <class Look> GIN_FN bool ginLookBriefly(Look look, uint64_t least, uint32_t bits)
{
	uint64_t seen = 0;
	return ginLookOften(look, least, bits, &seen);
}

/* Waits until the word is at least `least`. *seen: the last value. */
template <class Look> GIN_FN ginResult_t ginPollUntil(struct ginPoll &poll, Look look,
						      uint64_t least, uint32_t bits, uint64_t *seen)
{
	ginResult_t result = ginSuccess;

	while (result == ginSuccess && !ginLookOften(look, least, bits, seen))
		result = ginPollClock(poll, least, *seen);
	return result;
}

/* Loads one word of a signal or of a window. S, acquire end. */
struct ginWordLook {
	const uint64_t *word;

	GIN_FN uint64_t operator()() const { return ginSignalObserve(word); }
};

/* Loads a value word of a window. */
template <class Word> struct ginValueLook {
	const Word *word;

	GIN_FN uint64_t operator()() const { return ginValueObserve(word); }
};

/*
 * Loads the sum of a signal's words in GPU memory; NULL: no agent raises that word. S, acquire end.
 */
struct ginGpuLook {
	const uint64_t *gpu, *nic;

	GIN_FN uint64_t operator()() const
	{
		return (gpu ? ginSignalObserve(gpu) : 0) + (nic ? ginSignalObserve(nic) : 0);
	}
};

/* Loads the sum of all words of a signal. S, acquire end. */
struct ginSignalLook {
	ginGpuLook gpus;
	ginHostLook cpu; /* without a word if CPUs do not raise the signal */

	GIN_FN uint64_t operator()() { return gpus() + (cpu.present() ? cpu() : 0); }
};

/* Loads the sum of a counter's words. C, acquire end. */
struct ginCounterLook {
	const uint64_t *gpu;
	ginHostLook cpu;

	GIN_FN uint64_t operator()()
	{
		return ginCounterObserve(gpu) + (cpu.present() ? cpu() : 0);
	}
};

/* The condition of a wait; and the call, context and id for the error record. */
struct ginWaitFor {
	uint32_t call, context, id;
	uint32_t bits; /* as in ginOptions, like `timeout` */
	uint64_t least, timeout;
	uint64_t from; /* of ginFromPack() */
	struct ginMirroredWord
		*failed; /* of the word that holds the failure of the ring, or NULL */
};

/*
 * Counts waiting host threads for ginDevCommDestroy(), which finds waiting GPU threads by the abort
 * line.
 */
GIN_FN void ginWaitCount(struct ginMirroredWord *abort, int64_t change)
{
#if !GIN_ON_GPU
	ginFetchAdd<ginRelaxed, ginScopeSystem>(&abort->waiting, static_cast<uint64_t>(change));
#else
	(void)abort;
	(void)change;
#endif
}

/* The longer wait, after ginLookBriefly(). Writes the error record on failure. */
template <class Look> GIN_FN_CALLED ginResult_t ginWaitOn(const ginDevComm *dc, ginCold<Look> look,
							  ginCold<struct ginWaitFor> what)
{
	struct ginPoll poll =
		ginPollFor(dc, what.timeout, what.from, {what.call, what.context, what.id});
	uint64_t seen = 0;

	poll.queue = what.failed;
	ginWaitCount(dc->abort, 1);
	ginResult_t result = ginPollUntil(poll, Look(look), what.least, what.bits, &seen);
	ginWaitCount(dc->abort, -1);
	if (result != ginSuccess)
		ginErrorLeave(dc, result, what.call, what.context, poll.failed, what.id, what.least,
			      seen);
	return result;
}

#endif
