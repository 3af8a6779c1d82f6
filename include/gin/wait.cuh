/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.cuh - the one poll step of every loop that waits, and the error record
 */
#ifndef GIN_WAIT_CUH
#define GIN_WAIT_CUH

#include "memory.cuh"

/* ginOptions.timeout: wait until success, abort or a peer's failure. */
#define GIN_FOREVER UINT64_MAX

/* What a call can be told beside its operands. */
struct ginOptions {
	uint64_t timeout = 0; /* nanoseconds that the call may wait; 0: the device communicator's */
};

/* A wait in progress. */
struct ginPoll {
	uint64_t timeout; /* GIN_FOREVER: none */
	uint64_t start;	  /* of the first look at the clock */
	uint64_t looked;  /* when the abort line was last read */
	uint32_t steps;
};

GIN_FN struct ginPoll ginPollStart(const ginDevComm &dc, ginOptions options)
{
	uint64_t timeout = options.timeout ? options.timeout : dc.timeout;
	return {timeout ? timeout : GIN_FOREVER, 0, 0, 0};
}

GIN_FN ginResult_t ginAbortResult(uint64_t word)
{
	return static_cast<ginResult_t>(word & 0xffffffffu);
}

/*
 * One turn of a waiting loop: ginSuccess to go on, else why to stop. The clock is read every 16th
 * step only, and the abort line, a load from host memory, every 4 us. On the host each step yields:
 * the thread waited for may need this core.
 */
GIN_FN ginResult_t ginPollStep(const ginDevComm &dc, struct ginPoll &poll)
{
#if !GIN_ON_GPU
	sched_yield();
#endif
	if (++poll.steps % 16)
		return ginSuccess;
	uint64_t now = ginNow();
	if (!poll.start)
		poll.start = now;
	if (now - poll.looked >= 4000) {
		poll.looked = now;
		uint64_t word = ginAbortObserve(dc.abortLine);
		if (word)
			return ginAbortResult(word);
	}
	return now - poll.start >= poll.timeout ? ginErrorTimeout : ginSuccess;
}

/* Leave word of a failure where the host can read it, unless an earlier one did. Any thread. */
GIN_FN void ginErrorLeave(const ginDevComm &dc, const struct ginErrorRecord &error)
{
	if (!ginErrorClaim(dc.errorClaim))
		return;
	struct ginErrorRecord *record = dc.errorRecord;
	record->result = error.result;
	record->call = error.call;
	record->context = error.context;
	record->peer = error.peer;
	record->signal = error.signal;
	record->expected = error.expected;
	record->seen = error.seen;
	ginErrorPublish(&record->valid);
}

#endif
