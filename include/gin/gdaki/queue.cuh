/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue.cuh - GPU threads and one send queue: room, turn, doorbell, completion
 *
 * Called by post.cuh (posts), complete.cuh (waits) and barrier.cuh. Calls the memory accesses of
 * ordering.cuh, whose labels the comments use, and the encoders of mlx5.h.
 * test/model/send.pml is a model of all steps but the second.
 *
 * A post takes five steps:
 *
 * 1. reserve     adds to `reserved`, then checks for room and undoes the addition if there is none:
 *                ginWorkShared() by ginTicketAdd() and ginSendKeep(), so that other loads overlap
 *                with the addition; a thread alone and other callers by ginSendReserveTry(). A
 *                thread that found no room retries by ginSendReserveFree(). ginSendReserveWait()
 *                tries and retries. After an error or a timeout nothing is reserved.
 * 2. write       Each lane stores its WQEs at its indexes: ginSendWqebb(), ginSendSlot().
 * 3. hand over   One thread for all lanes that post together swaps a mark into the turn word of the
 *                first index: ginSendHandOverReleased() after a release by the caller, or
 *                ginSendHandOver(), which releases by itself.
 * 4. ring        If that word held the turn, the thread is the ringer: ginSendRingAndPutDown(). It
 *                rings for the WQEs and puts the turn down in the word after them.
 * 5. complete    ginSendRefresh() reads the CQE and raises `done`; ginSendWait() waits for it.
 *
 * The turn (steps 3 and 4). The NIC reads WQEs in the order of indexes, but threads finish writing
 * them in any order. One token, the turn, moves along the queue. It lies in the turn word of the
 * first index that has not been handed over, or the ringer holds it. A thread that has written its
 * WQEs swaps a mark, the number of its WQEBBs, into its first turn word. If the word held the turn,
 * the thread becomes the ringer; otherwise it returns, and the ringer that brings the turn there
 * finds the mark. So no thread waits for a slower one.
 *
 * The ringer rings for its own WQEs and puts the turn down without looking for marks first: a
 * thread that posts alone finds none. If the next word has been marked meanwhile, the ringer keeps
 * the turn (ginSendRingMarked): it takes all marks that follow, clears their words, rings once,
 * and tries again to put the turn down. Only the ringer writes the doorbell record and the
 * doorbell, so neither needs a lock and a doorbell never announces less than an earlier one.
 *
 * Aggregated posts. A post with the option `aggregate` says so in its mark and does not ring by
 * itself. The next post without the option rings for it, or a thread that waits for room or for
 * completion does: ginSendRingPending() picks the turn up and rings.
 *
 * Lost doorbells. No fence stands between the doorbell record and the doorbell. If a NIC drops a
 * doorbell and then reads the older record, a later doorbell repairs it: that of the next post, or
 * of a waiting thread, which rings again from time to time (ginSendRingPending). If no thread posts
 * or waits again, nothing repairs it. But a doorbell is lost for good only if the record arrives
 * after the NIC reads it, two PCIe crossings after the doorbell.
 *
 * Completion (step 5). The CQ is collapsed and the last WQE of each post has a CQE, so one word has
 * the low 16 bits of the last completed index, and whether that WQE succeeded. `done` is at most
 * one depth below that index, and a depth is at most half of what 16 bits count, so `done` extends
 * the 16 bits to a whole index. Read `done` before the CQE: other threads may raise `done` above an
 * older CQE, and the difference would look like one of almost 65536. A WQE of two WQEBBs is
 * reported by the index of its first; a NOP after it gives the post a CQE of its own.
 *
 * Counters. A put that counts stores its counter's number next to the slot of its last WQE. The
 * thread that raises `done` past such a slot first sets GIN_SEND_CREDITING in `done`, raises the
 * counters, then `done` (ginSendCreditCounters). So when `done` passes a WQE, its counter has been
 * raised, and no thread uses its slot before. Meanwhile other threads read the old `done` and
 * retry. `counted`, read after the CQE, tells whether there is a counter to raise; if not, one
 * compare-and-swap raises `done`. A thread that only waits for a counter polls the queues itself:
 * ginGdakiCreditCounters() in complete.cuh.
 *
 * Errors. After a WQE has failed the NIC flushes all WQEs that follow, each with an error CQE over
 * the one before. The first thread that sees an error CQE latches it (ginSendLatchError); the
 * syndrome is ginMlx5Flushed if the cause was overwritten. Every later call on the queue returns
 * that error.
 *
 * Sharing. By the GPU or by one block: the steps above, with accesses of that scope. By one thread:
 * no atomics; ginSendRingAlone() rings, and moves the turn to the word after the post, where the
 * next thread that uses the queue expects it.
 */
#ifndef GIN_GDAKI_QUEUE_CUH
#define GIN_GDAKI_QUEUE_CUH

#include "../core/how.cuh"
#include "../core/ordering.cuh"
#include "../core/wait.cuh"

/* WQEBBs of one queue that one reservation covers. */
struct ginSendRange {
	uint64_t first;
	uint32_t count; /* at most the depth */
};

/* What the steps of a post need of q->fixed: a bit for each word of 8 bytes. */
enum {
	GIN_SEND_WRITE = 0xc3, /* to write WQEs */
	GIN_SEND_COUNT = 0x30, /* to name a counter */
	GIN_SEND_TURN = 0x04,
	GIN_SEND_RING = 0x38
};

/* Loads those of the two words at byte `at` that `words` has, by one load. */
GIN_FN void ginSendLoadPair(struct ginSendFixed *fixed, const struct ginSendQueue *q,
			    uint32_t words, uint32_t at)
{
	const char *from = reinterpret_cast<const char *>(&q->fixed) + at;
	char *to = reinterpret_cast<char *>(fixed) + at;
	const uint32_t pair = words >> at / 8 & 3, second = pair == 2 ? 8 : 0;

	if (pair == 3) {
		const ginWord16 both = ginDataLoad<ginWord16>(from);
		memcpy(to, &both, sizeof(both));
	} else if (pair) {
		const uint64_t word = ginDataLoad<uint64_t>(from + second);
		memcpy(to + second, &word, sizeof(word));
	}
}

/* `fixed` with these words, by loads that stay where they are. */
GIN_FN struct ginSendFixed ginSendLoad(struct ginSendFixed fixed, const struct ginSendQueue *q,
				       uint32_t words)
{
	static_assert(sizeof(fixed) == 64, "one cache line");
	ginSendLoadPair(&fixed, q, words, 0);
	ginSendLoadPair(&fixed, q, words, 16);
	ginSendLoadPair(&fixed, q, words, 32);
	ginSendLoadPair(&fixed, q, words, 48);
	return fixed;
}

GIN_FN uint32_t ginSendMask(const struct ginSendFixed &f)
{
	return (1u << f.logDepth) - 1;
}

GIN_FN struct ginMlx5Wqebb *ginSendWqebb(const struct ginSendFixed &f, uint64_t index)
{
	return &f.wqes[index & ginSendMask(f)];
}

/* The i-th WQEBB of a range, for the encoders of mlx5.h. The last WQE of a range asks for a CQE. */
GIN_FN struct ginMlx5Slot ginSendSlot(const struct ginSendFixed &f, struct ginSendRange range,
				      uint32_t i)
{
	return {f.queue, static_cast<uint32_t>(range.first) + i,
		i + 1 == range.count ? static_cast<uint32_t>(ginMlx5Signaled) : 0u};
}

/* Keeps the first error of the queue. `state`: of the error CQE. */
GIN_FN_COLD void ginSendLatchError(struct ginSendQueue *q, uint32_t state)
{
	uint32_t error = ginCqeWord(&q->fixed.cqe->timestampLow);
	uint64_t why = ginMlx5CqeCounter(state) | ginMlx5CqeVendorSyndrome(error) << 16 |
		       ginMlx5CqeSyndrome(error) << 24;

	ginLocalCas(&q->latched, 0, why << 32 | ginErrorPeer);
}

/* All WQEBBs below it are completed and counted. F, acquire end. */
GIN_FN uint64_t ginSendDone(const struct ginSendQueue *q, ginSharing sharing)
{
	return ginDoneLook(&q->done, sharing) & ~GIN_SEND_CREDITING;
}

/*
 * The state word of the CQE. If it is in host memory one thread at a time loads it, as in
 * mirror.cuh; the others get the state of an empty CQE, and use `done`. K, acquire end.
 */
GIN_FN uint32_t ginSendCqeState(struct ginSendQueue *q)
{
	if (q->fixed.gpuMemory)
		return ginCqeObserve(&q->fixed.cqe->state);
	if (ginMirrorCome(&q->looking))
		return ginMlx5CqeEmpty();
	uint32_t state = ginCqeObserve(&q->fixed.cqe->state);
	ginMirrorLeave(&q->looking);
	return state;
}

/*
 * The index below which the CQE reports completion. `done`: loaded before the call. Changes no
 * index of the queue, so threads that do not share the queue may call it too. K, acquire end.
 */
GIN_FN uint64_t ginSendCompleted(struct ginSendQueue *q, uint64_t done)
{
	uint32_t state = ginSendCqeState(q);
	uint32_t opcode = ginMlx5CqeOpcode(state);

	if (opcode == ginMlx5CqeInvalid)
		return done;
	if (opcode != ginMlx5CqeRequest) {
		ginSendLatchError(q, state);
		return done;
	}
	return done + ((ginMlx5CqeCounter(state) + 1 - static_cast<uint32_t>(done)) & 0xffff);
}

/*
 * Raises the counters of the WQEs from `from` to `to`, then `done`. Returns `done`. C and F,
 * release ends.
 */
GIN_FN_COLD uint64_t ginSendCreditCounters(struct ginSendQueue *q, uint64_t from, uint64_t to,
					   ginSharing sharing)
{
	if (sharing != ginSharingThread && !ginLocalCas(&q->done, from, from | GIN_SEND_CREDITING))
		return ginSendDone(q, sharing);
	GIN_NO_UNROLL
	for (uint64_t i = from; i < to && i < ginLocalLoad(&q->counted); i++) {
		uint32_t counter = ginSlotCounterTake(&q->fixed.counter[i & ginSendMask(q->fixed)]);
		if (counter)
			ginCounterPublish(&ginPointerOf(&q->counters)[counter - 1]);
	}
	ginDoneCredited(&q->done, to);
	return to;
}

/* Brings `done` up to date with the CQE and returns it. K, acquire end; F, both ends. */
GIN_FN_COLD uint64_t ginSendRefresh(struct ginSendQueue *q, ginSharing sharing)
{
	uint64_t done = ginDoneLook(&q->done, sharing);
	uint64_t now = ginSendCompleted(q, done & ~GIN_SEND_CREDITING);

	if (done & GIN_SEND_CREDITING)
		return done & ~GIN_SEND_CREDITING;
	if (now == done)
		return done;
	if (ginLocalLoad(&q->counted) > done)
		return ginSendCreditCounters(q, done, now, sharing);
	return ginDoneRaise(&q->done, done, now, sharing) ? now : ginSendDone(q, sharing);
}

/* ginSuccess, or the first error of the queue. */
GIN_FN ginResult_t ginSendState(const struct ginSendQueue *q)
{
	return ginResultOf(ginLocalLoad(&q->latched));
}

/*
 * The ringer announces all WQEBBs below `next`, after ginNicRelease(), ginNicFence() or a release
 * by hand-over. N, release end.
 */
GIN_FN void ginSendRingDoorbell(struct ginSendQueue *q, const struct ginSendFixed &f, uint64_t next)
{
	uint32_t low = static_cast<uint32_t>(next);

	ginNicRing(&f.record->send, ginMlx5RecordWord(low), f.doorbell,
		   ginMlx5Doorbell(f.queue, low));
	ginLocalStore(&q->rung, next);
}

GIN_FN uint32_t *ginSendTurnWord(const struct ginSendFixed &f, uint64_t index)
{
	return &f.turn[index & ginSendMask(f)];
}

/*
 * The ringer takes the marks from *at on and moves *at past them. Returns whether one of them asks
 * for a doorbell. W, acquire end.
 */
GIN_FN bool ginSendTakeMarks(const struct ginSendFixed &f, uint64_t *at)
{
	uint64_t from = *at;
	bool ring = false;

	for (;;) {
		uint32_t mark = ginTurnTake(ginSendTurnWord(f, *at));
		if (!mark)
			break;
		ring |= !(mark & GIN_TURN_AGGREGATE);
		*at += mark & GIN_TURN_COUNT;
	}
	if (!ring && *at != from)
		ginTurnTaken();
	return ring;
}

/*
 * The ringer puts the turn down at `at`. False: that word has a mark, and the caller keeps the
 * turn. W, release end.
 */
GIN_FN bool ginSendPutDownTurn(struct ginSendQueue *q, const struct ginSendFixed &f, uint64_t at,
			       ginSharing sharing)
{
	ginLocalStore(&q->handed, at);
	return ginTurnPutDown(ginSendTurnWord(f, at), sharing);
}

/*
 * By the ringer, which has found a mark at `at`: rings for all marks from there on, then puts the
 * turn down.
 */
GIN_FN_COLD void ginSendRingMarked(struct ginSendQueue *q, uint64_t at, ginSharing sharing)
{
	const struct ginSendFixed &f = q->fixed;

	do {
		if (ginSendTakeMarks(f, &at)) {
			ginNicFence(f.gpuMemory);
			ginSendRingDoorbell(q, f, at);
		}
	} while (!ginSendPutDownTurn(q, f, at, sharing));
}

/*
 * By a thread that has the queue to itself, after ginNicRelease(): rings for all WQEBBs below `at`
 * if `ring`, and moves the turn from `from` to `at`.
 */
GIN_FN void ginSendRingAlone(struct ginSendQueue *q, const struct ginSendFixed &f, uint64_t from,
			     uint64_t at, bool ring)
{
	if (ring)
		ginSendRingDoorbell(q, f, at);
	if (from == at)
		return;
	ginTurnClear(ginSendTurnWord(f, from));
	ginTurnLay(ginSendTurnWord(f, at));
	ginLocalStore(&q->handed, at);
}

/*
 * By the ringer: rings for all WQEBBs below `at` if `ring`, then puts the turn down there. Every
 * hand-over was a release in the scope of `sharing`. If that scope is the device and the NIC reads
 * this GPU's memory, no further fence is needed. W, release end.
 */
GIN_FN void ginSendRingAndPutDown(struct ginSendQueue *q, const struct ginSendFixed &f, uint64_t at,
				  bool ring, ginSharing sharing)
{
	if (ring) {
		if (!f.gpuMemory || sharing != ginSharingGpu)
			ginNicRelease(f.gpuMemory);
		ginSendRingDoorbell(q, f, at);
	}
	if (!ginSendPutDownTurn(q, f, at, sharing))
		ginSendRingMarked(q, at, sharing);
}

/*
 * As ginSendHandOver(), by a thread that shares the queue, after ginTurnRelease(). W, release end,
 * second half.
 */
GIN_FN void ginSendHandOverReleased(struct ginSendQueue *q, const struct ginSendFixed &f,
				    struct ginSendRange range, bool aggregate, ginSharing sharing)
{
	uint32_t *word = ginSendTurnWord(f, range.first);

	if (ginTurnMark(word, range.count | (aggregate ? GIN_TURN_AGGREGATE : 0), sharing) !=
	    GIN_TURN)
		return;
	ginTurnClear(word);
	ginSendRingAndPutDown(q, f, range.first + range.count, !aggregate, sharing);
}

/*
 * Hands over the WQEs of a range. One thread calls it, after all lanes that wrote have
 * synchronised with it. `aggregate`: these WQEs alone need no doorbell. W, release end. `f`: a copy
 * of q->fixed.
 */
GIN_FN void ginSendHandOver(struct ginSendQueue *q, const struct ginSendFixed &f,
			    struct ginSendRange range, bool aggregate, ginSharing sharing)
{
	if (sharing == ginSharingThread) {
		ginNicRelease(f.gpuMemory);
		ginSendRingAlone(q, f, range.first, range.first + range.count, !aggregate);
		return;
	}
	ginTurnRelease(sharing);
	ginSendHandOverReleased(q, f, range, aggregate, sharing);
}

/*
 * Rings for aggregated posts; with `again` also if there are none, because the NIC may have lost a
 * doorbell. If another thread is the ringer, it rings for the marks that it finds, and the caller
 * retries.
 */
GIN_FN_COLD void ginSendRingPending(struct ginSendQueue *q, bool again, ginSharing sharing)
{
	uint64_t at = ginLocalLoad(&q->handed);

	if (at == 0 || (!again && at == ginLocalLoad(&q->rung)))
		return;
	const struct ginSendFixed &f = q->fixed;
	if (sharing == ginSharingThread) {
		ginNicRelease(f.gpuMemory);
		ginSendRingAlone(q, f, at, at, true);
		return;
	}
	if (ginTurnPickUp(ginSendTurnWord(f, at), sharing)) /* `at` may be one lap old */
		ginSendRingAndPutDown(q, f, ginLocalLoad(&q->handed), true, sharing);
}

/* A wait in progress, smaller than struct ginPoll, while the caller keeps a post. */
struct ginSendPatience {
	const ginDevComm *dc; /* ginDevComm.self */
	uint64_t deadline;    /* ginNow(); UINT64_MAX: none */
	uint64_t from;	      /* ginFromPack() */
	uint32_t steps;
};

/* `timeout`: as in ginOptions. */
GIN_FN struct ginSendPatience ginSendPatienceStart(const ginDevComm *dc, uint64_t timeout,
						   uint64_t from)
{
	uint64_t most = timeout ? timeout : dc->timeout, now = ginNow();
	bool ends = most && most < UINT64_MAX - now;

	return {dc, ends ? now + most : UINT64_MAX, from, 0};
}

/* In ginSendPatienceEnds(): -1, no peer. */
#define GIN_SEND_NO_PEER (0xffffffffull << 32)

/*
 * Is the wait over? The low half of the answer is a ginResult_t, the high half the peer whose
 * failure ended the wait, or -1.
 */
GIN_FN_COLD uint64_t ginSendPatienceEnds(const ginDevComm *dc, uint64_t deadline, uint64_t from)
{
	struct ginPoll poll = ginPollFor(dc, 1, from);
	ginResult_t result = ginPollAbort(poll, 0, 0, 0);

	if (result == ginSuccess && ginNow() >= deadline)
		result = ginErrorTimeout;
	return static_cast<uint64_t>(static_cast<uint32_t>(poll.failed)) << 32 |
	       static_cast<uint32_t>(result);
}

/*
 * One pass of a waiting loop; ginSuccess in the low half: go on. Otherwise what
 * ginSendPatienceEnds() returns.
 */
GIN_FN uint64_t ginSendPatienceStep(struct ginSendPatience &wait)
{
	ginYield();
	if (++wait.steps % GIN_LOOKS)
		return ginSuccess;
	return ginSendPatienceEnds(wait.dc, wait.deadline, wait.from);
}

/* One step of a loop that waits for the queue. */
GIN_FN ginResult_t ginSendPollStep(struct ginSendQueue *q, struct ginSendPatience &wait,
				   ginSharing sharing)
{
	ginSendRingPending(q, wait.steps % 4096 == 4095, sharing);
	ginResult_t result = ginSendState(q);
	return result == ginSuccess ? ginResultOf(ginSendPatienceStep(wait)) : result;
}

/* Is there room for the WQEBBs below `end`? It is at most 2^31 above `done`. */
GIN_FN bool ginSendFits(uint64_t end, uint64_t done, uint32_t logDepth)
{
	return static_cast<uint32_t>(end) - static_cast<uint32_t>(done) <= 1u << logDepth;
}

/*
 * Keeps the reservation of `count` WQEBBs from `first` on if there is room for it, or undoes it.
 * `done`: loaded before the reservation, or while it is in flight.
 *
 * Only the newest reservation can be undone. Until this reservation is the newest, wait: the newer
 * one is undone first, or a thread raises `done`, which makes room for this one. Callers that fail
 * retry by ginSendReserveFree(). There is never room for more than the depth.
 */
GIN_FN bool ginSendKeep(struct ginSendQueue *q, uint32_t logDepth, uint32_t count, uint64_t first,
			uint64_t done, ginSharing sharing)
{
	while (!ginSendFits(first + count, done, logDepth)) {
		if (ginLocalCas(&q->reserved, first + count, first))
			return false;
		ginYield();
		done = ginSendDone(q, sharing);
	}
	return true;
}

/* Reserves first, then checks for room by `done` alone; false: nothing is reserved. */
GIN_FN bool ginSendReserveTry(struct ginSendQueue *q, uint32_t logDepth, uint32_t count,
			      uint64_t *first, ginSharing sharing)
{
	if (sharing == ginSharingThread) {
		*first = ginOwnLoad(&q->reserved);
		if (!ginSendFits(*first + count, ginSendDone(q, sharing), logDepth))
			return false;
		ginLocalStore(&q->reserved, *first + count);
		return true;
	}
	*first = ginTicketAdd(&q->reserved, count);
	uint64_t done = ginSendDone(q, sharing); /* this load and the atomic overlap */
	return ginSendKeep(q, logDepth, count, *first, done, sharing);
}

/*
 * Retry path, after ginSendRefresh(): reserves only room already seen free, so nothing has to be
 * undone and no other thread waits. For at most `posts` posts of `each` WQEBBs; returns the number
 * of posts.
 */
GIN_FN uint32_t ginSendReserveFree(struct ginSendQueue *q, uint32_t each, uint32_t posts,
				   uint64_t *first, ginSharing sharing)
{
	uint64_t depth = 1ull << q->fixed.logDepth, next = ginLocalLoad(&q->reserved);
	uint64_t used = next - ginSendDone(q, sharing);

	if (used + each > depth) /* or other threads have reserved since the load */
		return 0;
	uint64_t fit = static_cast<uint32_t>(depth - used) / each;
	if (fit > posts)
		fit = posts;
	*first = next;
	if (sharing == ginSharingThread)
		ginLocalStore(&q->reserved, next + fit * each);
	else if (!ginLocalCas(&q->reserved, next, next + fit * each))
		return 0;
	return static_cast<uint32_t>(fit);
}

/* Reserves range->count WQEBBs, waiting for room. With an error nothing is reserved. */
GIN_FN ginResult_t ginSendReserveWait(struct ginSendQueue *q, struct ginSendRange *range,
				      struct ginSendPatience &wait, ginSharing sharing)
{
	ginResult_t result = ginSendState(q);
	if (result != ginSuccess ||
	    ginSendReserveTry(q, q->fixed.logDepth, range->count, &range->first, sharing))
		return result;
	do {
		result = ginSendPollStep(q, wait, sharing);
		if (result != ginSuccess)
			return result;
		ginSendRefresh(q, sharing);
	} while (!ginSendReserveFree(q, range->count, 1, &range->first, sharing));
	return ginSuccess;
}

/*
 * Waits until all WQEBBs below `end` are completed. `end` may lie above every kept reservation, if
 * it was read while a thread held a reservation that the thread then undid: `reserved` below `end`
 * lowers it.
 */
GIN_FN ginResult_t ginSendWait(struct ginSendQueue *q, uint64_t end, struct ginSendPatience &wait,
			       ginSharing sharing)
{
	ginResult_t result = ginSendState(q);

	while (result == ginSuccess && ginSendRefresh(q, sharing) < end) {
		uint64_t reserved = ginLocalLoad(&q->reserved);
		if (reserved < end)
			end = reserved;
		result = ginSendPollStep(q, wait, sharing);
	}
	return result;
}

/* The index for which a flush waits: above all WQEBBs that any thread has reserved so far. */
GIN_FN uint64_t ginSendTicket(const struct ginSendQueue *q)
{
	return ginLocalLoad(&q->reserved);
}

#endif
