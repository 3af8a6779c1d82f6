/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.cuh - the one poll step of every loop that waits, and the error record
 */
#ifndef GIN_WAIT_CUH
#define GIN_WAIT_CUH

#include "mirror.cuh"
#include "../options.cuh"

/* A wait in progress, and what it looks at while it lasts. */
struct ginPoll {
	struct ginWatch *abort;
	const struct ginPeer *peers;
	struct ginWatch *queue; /* of the word that says that the queue has failed, or NULL */
	uint64_t timeout;	/* GIN_FOREVER: none */
	ginPeerSet from;
	uint64_t start;	 /* of the first look at the clock */
	uint64_t looked; /* when it last looked at the abort line */
	uint32_t steps;
	int32_t failed; /* the peer that ended it, or -1 */
};

GIN_FN struct ginPoll ginPollStart(const ginDevComm &dc, const ginOptions &options)
{
	uint64_t timeout = options.timeout ? options.timeout : dc.timeout;
	return {dc.abort, dc.peers, nullptr, timeout ? timeout : GIN_FOREVER, options.from, 0,
		0,	  0,	    -1};
}

GIN_FN ginResult_t ginAbortResult(uint64_t word)
{
	return static_cast<ginResult_t>(word & 0xffffffffu);
}

/* NULL: whatever the peer's state is. */
GIN_FN uint32_t ginPeerStateOf(const struct ginPeer *peer)
{
	return peer ? ginPeerObserve(peer).state : static_cast<uint32_t>(ginPeerAlive);
}

/* The first of these peers that has failed, or -1. */
GIN_FN int32_t ginFailedOf(const struct ginPeer *peers, const ginPeerSet &from)
{
	for (uint32_t i = 0; i < from.count; i++) {
		uint32_t peer = from.first + i * from.stride;
		if (ginPeerObserve(&peers[peer]).state != ginPeerAlive)
			return static_cast<int32_t>(peer);
	}
	return -1;
}

/* Does what the abort line says end this wait? A peer that it does not depend on does not. */
GIN_FN ginResult_t ginPollAbort(struct ginPoll &poll)
{
	uint64_t word = ginWatchLook(poll.abort);
	ginResult_t result = ginAbortResult(word);

	if (result != ginErrorPeer)
		return result;
	if (poll.from.count)
		poll.failed = ginFailedOf(poll.peers, poll.from);
	else
		poll.failed = static_cast<int32_t>(word >> 32);
	return poll.from.count && poll.failed < 0 ? ginSuccess : ginErrorPeer;
}

/*
 * A look at the clock: ginSuccess to go on, else why to stop. The abort line and the queue's word, in
 * host memory, every 4 us.
 */
GIN_FN ginResult_t ginPollClock(struct ginPoll &poll)
{
	uint64_t now = ginNow();
	if (!poll.start)
		poll.start = poll.looked = now; /* most waits end before the first look */
	if (now - poll.looked >= 4000) {
		poll.looked = now;
		ginResult_t result = ginPollAbort(poll);
		if (result == ginSuccess && poll.queue)
			result = ginAbortResult(ginWatchLook(poll.queue));
		if (result != ginSuccess)
			return result;
	}
	return now - poll.start >= poll.timeout ? ginErrorTimeout : ginSuccess;
}

/* Looks, or steps of another waiting loop, from one look at the clock to the next. */
#define GIN_LOOKS 16u

/* One turn of a waiting loop. */
GIN_FN ginResult_t ginPollStep(struct ginPoll &poll)
{
	ginYield();
	return ++poll.steps % GIN_LOOKS ? ginSuccess : ginPollClock(poll);
}

/* Has `seen` come to `least`, where both roll over at 2^bits? */
GIN_FN bool ginReached(uint64_t seen, uint64_t least, uint32_t bits)
{
	return static_cast<int64_t>((seen - least) << ((64 - bits) & 63)) >= 0;
}

/* So many looks in a row; *seen is the last. Has the word come to `least`? */
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
 * The first looks of a wait, without what a longer one needs, and with nothing but a compare between
 * them: with ginPollStep there a signal took 0.06 us more to be seen.
 */
template <class Look> GIN_FN bool ginLookBriefly(Look look, uint64_t least, uint32_t bits)
{
	uint64_t seen;
	return ginLookOften(look, least, bits, &seen);
}

/* Look until the word has come to `least`; *seen is what it was last. */
template <class Look> GIN_FN ginResult_t ginPollUntil(struct ginPoll &poll, Look look,
						      uint64_t least, uint32_t bits, uint64_t *seen)
{
	ginResult_t result = ginSuccess;

	while (result == ginSuccess && !ginLookOften(look, least, bits, seen))
		result = ginPollClock(poll);
	return result;
}

/* A signal's word, or of a window. S, acquire end. */
struct ginWordLook {
	const uint64_t *word;

	GIN_FN uint64_t operator()() const { return ginSignalObserve(word); }
};

/* The sum of a signal's words in GPU memory; NULL: nobody raises that one. S, acquire end. */
struct ginGpuLook {
	const uint64_t *gpu, *nic;

	GIN_FN uint64_t operator()() const
	{
		return (gpu ? ginSignalObserve(gpu) : 0) + (nic ? ginSignalObserve(nic) : 0);
	}
};

/* All of its words. */
struct ginSignalLook {
	ginGpuLook gpus;
	ginHostLook cpu; /* of no word: CPUs raise none */

	GIN_FN uint64_t operator()() { return gpus() + (cpu.present() ? cpu() : 0); }
};

/* A counter's words. C and R, acquire ends. */
struct ginCounterLook {
	const uint64_t *gpu;
	ginHostLook cpu;

	GIN_FN uint64_t operator()()
	{
		return ginCounterObserve(gpu) + (cpu.present() ? cpu() : 0);
	}
};

/* What calls on a peer that has failed return. */
GIN_FN_COLD ginResult_t ginPeerLost(const uint64_t *abortWord)
{
	uint64_t why = ginHostWordObserve(abortWord);
	return why ? ginAbortResult(why) : ginErrorPeer;
}

/*
 * What is seldom called takes the device communicator as memory holds it, not what parameters hold: to be
 * handed over these would be loaded ahead of the branch around the call, in the way of every signal.
 */

/* Leave word of a failure where the host can read it, unless an earlier one did. Any thread. */
GIN_FN_COLD void ginErrorLeave(const ginDevComm *dc, ginResult_t result, uint32_t call,
			       uint32_t context, int peer, uint32_t id, uint64_t expected,
			       uint64_t seen)
{
	struct ginErrorRecord *record = dc->errorRecord;

	if (!ginErrorClaim(dc->errorClaim))
		return;
	record->result = static_cast<uint32_t>(result);
	record->call = call;
	record->context = context;
	record->peer = peer;
	record->id = id;
	record->expected = expected;
	record->seen = seen;
	ginErrorPublish(&record->valid);
}

/* What a wait waits for, and for its error record, in which call. */
struct ginWaitFor {
	uint32_t call, context, id;
	uint32_t bits; /* this and `from`, `timeout`: as in ginOptions */
	uint64_t least, timeout;
	ginPeerSet from;
	struct ginWatch *failed; /* of the word that says that the queue has failed, or NULL */
};

/* A wait that takes longer than a few looks. */
template <class Look>
GIN_FN_COLD ginResult_t ginWaitOn(const ginDevComm *dc, Look look, struct ginWaitFor what)
{
	struct ginPoll poll = ginPollStart(*dc, ginOptions{what.timeout, what.from});
	uint64_t seen;

	poll.queue = what.failed;
	ginResult_t result = ginPollUntil(poll, look, what.least, what.bits, &seen);
	if (result != ginSuccess)
		ginErrorLeave(dc, result, what.call, what.context, poll.failed, what.id, what.least,
			      seen);
	return result;
}

#endif
