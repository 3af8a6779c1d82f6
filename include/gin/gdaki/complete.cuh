/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * complete.cuh - the gdaki route: gets, flush and wait, counters, atomics
 *
 * Called by context.cuh and detail/context_base.cuh, on the first thread of the calling coop.
 * Calls post.cuh to post and queue.cuh to wait. In this file:
 *
 * gets       ginGdakiGet() posts READs and ginGetsRecord() notes their end.
 * flush      ginGdakiFlush(), for all queues of a context, and ginGdakiWait(), for one queue and a
 *            ticket: ginGetsDumpAll(), then ginSendWait().
 * counters   ginGdakiCreditCounters() raises the counters of completed puts; ginGdakiWaitCounter()
 *            repeats it until a counter has reached a value.
 * atomics    ginGdakiAtomic() posts; if the caller wants the old value, ginGdakiAtomicWait() gives the
 *            NIC a result slot (struct ginSendResults), waits and reads it.
 *
 * Gets and DUMPs. A CQE does not prove that the bytes of a READ are in memory; that of a DUMP
 * after the READ does. A DUMP holds up the WQEs after it for a round trip, so gets post READs
 * alone and many READs are under way at a time. A thread that waits posts one DUMP for all gets
 * before it (ginGetsDumpAll), and flushAsync posts it with its ticket (ginGetsTicket).
 */
#ifndef GIN_GDAKI_COMPLETE_CUH
#define GIN_GDAKI_COMPLETE_CUH

#include "call.cuh"
#include "../detail/results.cuh"

/* READs into the window `into` were posted below `end`. E, release end. */
GIN_FN void ginGetsRecord(struct ginSendQueue *q, const struct ginWindowTable *into, uint64_t end)
{
	struct ginSendGets *gets = &q->gets[into->fence == ginScopeSystem];

	ginLocalStore(&gets->into, reinterpret_cast<uintptr_t>(into));
	ginEndRaise(&gets->read, end);
}

/* More than GIN_WORK_MAX_BYTES are several posts. */
GIN_FN_COLD ginResult_t ginGdakiGet(const ginDevComm *dc, struct ginSendQueue *queue,
				    const struct ginPeer *peer, uint32_t context, uint32_t how,
				    const struct ginWindowPeer *there, uint64_t off,
				    const struct ginWindowTable *here, uint64_t hereOff,
				    uint64_t bytes, uint64_t timeout, uint64_t from)
{
	const struct ginWorkTo to = {dc, queue, peer, context, how, timeout, from};
	struct ginWork p = {};

	p.op = ginOpGet;
	p.remote = ginGdakiRemote(there, off);
	if (bytes)
		p.local = ginGdakiLocal(here, hereOff);
	for (;;) {
		p.bytes = bytes <= GIN_WORK_MAX_BYTES ? bytes : GIN_WORK_MAX_BYTES;
		p.messages = ginWorkMessages(p.bytes);
		ginResult_t result = ginGdakiPost(to, p);
		if (result == ginSuccess && bytes)
			ginGetsRecord(queue, here, p.end);
		if (result != ginSuccess || bytes == p.bytes)
			return result;
		p.remote = ginWorkPart(p.remote, 8);
		p.local = ginWorkPart(p.local, 8);
		bytes -= p.bytes;
	}
}

/*
 * Is there a READ with no DUMP after it? A DUMP of a higher index follows the READ, whichever
 * thread posted it.
 */
GIN_FN bool ginGetsUndumped(const struct ginSendGets *gets)
{
	return ginLocalLoad(&gets->read) > ginLocalLoad(&gets->dumped);
}

/*
 * Writes and hands over a DUMP in the reserved slot. E: acquire end for `read`, release end for
 * `dumped`.
 */
GIN_FN void ginGetsPostDump(struct ginSendQueue *q, struct ginSendGets *gets,
			    struct ginSendRange range, ginSharing sharing)
{
	ginDoneLook(&gets->read, ginSharingGpu);
	const struct ginWindowTable *into = reinterpret_cast<const struct ginWindowTable *>(
		static_cast<uintptr_t>(ginLocalLoad(&gets->into)));
	struct ginMlx5Slot slot = ginSendSlot(q->fixed, range, 0);

	slot.flags |= ginMlx5FenceAndSmall;
	ginMlx5StoreWqebb(ginSendWqebb(q->fixed, range.first),
			  ginMlx5Dump(slot, {into->nicAddress, into->nicKey}, 1));
	ginEndRaise(&gets->dumped, range.first + 1);
	ginSendHandOver(q, q->fixed, range, false, sharing);
}

/*
 * Posts a DUMP for all gets that need one. Raises *end to an index whose completion proves that
 * the bytes of all gets are there.
 */
GIN_FN ginResult_t ginGetsDumpAll(struct ginSendQueue *q, uint64_t *end, struct ginSendPatience &wait,
				  ginSharing sharing)
{
	struct ginSendRange range = {0, 1};

	GIN_NO_UNROLL
	for (struct ginSendGets *gets = q->gets; gets < q->gets + 2; gets++) {
		if (ginGetsUndumped(gets)) {
			ginResult_t result = ginSendReserveWait(q, &range, wait, sharing);
			if (result != ginSuccess)
				return result;
			ginGetsPostDump(q, gets, range, sharing);
		}
		uint64_t dumped = ginLocalLoad(&gets->dumped);
		if (*end < dumped)
			*end = dumped;
	}
	return ginSuccess;
}

/*
 * A ticket for all that was posted, after posting DUMPs if there is room for them
 * (GIN_SEND_DUMPED).
 */
GIN_FN_COLD uint64_t ginGetsTicket(struct ginSendQueue *q, ginSharing sharing)
{
	struct ginSendRange range = {0, 1};

	GIN_NO_UNROLL
	for (struct ginSendGets *gets = q->gets; gets < q->gets + 2; gets++) {
		if (!ginGetsUndumped(gets))
			continue;
		if (!ginSendReserveFree(q, 1, 1, &range.first, sharing) &&
		    !(ginSendRefresh(q, sharing),
		      ginSendReserveFree(q, 1, 1, &range.first, sharing)))
			return ginSendTicket(q);
		ginGetsPostDump(q, gets, range, sharing);
	}
	return ginSendTicket(q) | GIN_SEND_DUMPED;
}

/*
 * Waits until all WQEBBs below the ticket are completed and the bytes of the gets among them are
 * there.
 */
GIN_FN ginResult_t ginGdakiWaitQueue(struct ginSendQueue *q, uint64_t ticket, struct ginSendPatience &wait,
				     ginSharing sharing)
{
	uint64_t end = ticket & ~GIN_SEND_DUMPED, gets = 0;
	ginResult_t result = ginSuccess;

	if (!(ticket & GIN_SEND_DUMPED))
		gets = ginLocalLoad(&q->gets[0].read) | ginLocalLoad(&q->gets[1].read);
	bool done = ginSendDone(q, sharing) >= end;
	if (!gets && done) /* most queues have nothing to wait for */
		return ginSendState(q);
	if (gets)
		result = ginGetsDumpAll(q, &end, wait, sharing);
	if (result != ginSuccess)
		return result;
	return ginSendWait(q, end, wait, sharing);
}

/* Waits for a ticket of the queue to `peer`. */
GIN_FN_COLD ginResult_t ginGdakiWait(const ginDevComm *dc, struct ginSendQueue *q, int peer,
				     uint32_t context, uint32_t how, uint64_t ticket,
				     uint64_t timeout, uint64_t from)
{
	struct ginSendPatience wait = {dc, timeout, from, 0, 0};
	ginResult_t result = ginGdakiWaitQueue(q, ticket, wait, ginHowSharing(how));

	if (result != ginSuccess)
		ginErrorLeave(dc, result, ginCallFlush, context, peer, UINT32_MAX,
			      ticket & ~GIN_SEND_DUMPED, ginSendDone(q, ginHowSharing(how)));
	return result;
}

/*
 * Waits for all that the context posted, and for all that any context posted to the queues that
 * all contexts share, once there was such a post.
 */
GIN_FN_COLD ginResult_t ginGdakiFlush(const ginDevComm *dc, uint32_t context, uint32_t how,
				      uint64_t timeout, uint64_t from)
{
	struct ginSendPatience wait = {dc, timeout, from, 0, 0};
	struct ginSendQueue *q = ginGdakiQueues(*dc, context);
	uint32_t own = dc->nSendQueues, all = own;
	ginResult_t result = ginSuccess;

	if (ginLocalLoad(&dc->results[dc->contexts].words))
		all = dc->nRanks;
	GIN_NO_UNROLL
	for (uint32_t i = 0; result == ginSuccess && i < all; i++, q++) {
		if (i == own)
			q = ginGdakiQueues(*dc, dc->contexts);
		result = ginGdakiWaitQueue(q, ginSendTicket(q), wait,
					   i < own ? ginHowSharing(how) : ginSharingGpu);
	}
	if (result != ginSuccess)
		ginErrorLeave(dc, result, ginCallFlush, context, -1, UINT32_MAX, 0, 0);
	return result;
}

/*
 * Raises the counters of completed puts in all queues of the context. Returns the error of a queue
 * that still has a counter to raise.
 */
GIN_FN_COLD ginResult_t ginGdakiCreditCounters(const ginDevComm *dc, uint32_t context, uint32_t how)
{
	struct ginSendQueue *q = ginGdakiQueues(*dc, context);
	const ginSharing sharing = ginHowSharing(how);
	ginResult_t result = ginSuccess;

	GIN_NO_UNROLL
	for (uint32_t i = 0; i < dc->nSendQueues; i++, q++) {
		if (ginLocalLoad(&q->counted) <= ginSendDone(q, sharing))
			continue;
		if (ginSendRefresh(q, sharing) >= ginLocalLoad(&q->counted))
			continue;
		ginSendRingPending(q, false, sharing);
		if (result == ginSuccess)
			result = ginSendState(q);
	}
	return result;
}

/* Waits until the counter has reached `least`. C, acquire end. */
GIN_FN_COLD ginResult_t ginGdakiWaitCounter(const ginDevComm *dc, uint32_t context, uint32_t how,
					    uint32_t id, uint64_t least, uint32_t bits,
					    uint64_t timeout, uint64_t from)
{
	const uint64_t *word = dc->counter + static_cast<size_t>(context) * dc->counters + id;
	struct ginSendPatience wait = {dc, timeout, from, 0, 0};

	for (;;) {
		uint64_t ends = GIN_SEND_NO_PEER | ginGdakiCreditCounters(dc, context, how);
		uint64_t seen = ginCounterObserve(word);
		if (ginReached(seen, least, bits))
			return ginSuccess;
		if (ginAbortResult(ends) == ginSuccess)
			ends = ginSendPatienceStep(wait);
		if (ginAbortResult(ends) == ginSuccess)
			continue;
		ginErrorLeave(dc, ginAbortResult(ends), ginCallWaitCounter, context,
			      static_cast<int>(ends >> 32), id, least, seen);
		return ginAbortResult(ends);
	}
}

/*
 * Has the NIC stopped writing the slot of an abandoned atomic? `abandoned`: as in ginSendResults.
 * After an error no WQE writes any more.
 */
GIN_FN bool ginGdakiResultWritten(const ginDevComm *dc, uint32_t context, ginSharing sharing,
				  uint64_t abandoned)
{
	struct ginSendQueue *q =
		ginGdakiQueues(*dc, context) + (abandoned - 1) % dc->nRanks;

	return ginSendRefresh(q, sharing) >= (abandoned - 1) / dc->nRanks ||
	       ginSendState(q) != ginSuccess;
}

/*
 * Takes a slot whose caller has given up, if the NIC has stopped writing it; else
 * GIN_QUEUE_RESULTS.
 */
GIN_FN uint32_t ginGdakiResultReclaim(const ginDevComm *dc, uint32_t context, ginSharing sharing)
{
	struct ginSendResults *results = dc->results + context;
	uint32_t i;

	GIN_NO_UNROLL
	for (i = 0; i < GIN_QUEUE_RESULTS; i++) {
		uint64_t abandoned = ginLocalLoad(&results->abandoned[i]);
		if (abandoned && ginGdakiResultWritten(dc, context, sharing, abandoned) &&
		    ginLocalCas(&results->abandoned[i], abandoned, 0))
			break;
	}
	return i;
}

/* Takes a result slot, waiting for one. Returns the slot, or GIN_QUEUE_RESULTS + ginResult_t. */
GIN_FN_COLD uint32_t ginGdakiResultTake(const ginDevComm *dc, uint32_t context, uint32_t how,
					uint64_t start, uint64_t timeout, uint64_t from)
{
	struct ginSendPatience wait = {dc, timeout, from, 0, 0};

	wait.start = start;
	for (;;) {
		uint32_t slot = ginSlotTake(&dc->results[context].freeResults);
		if (slot == GIN_QUEUE_RESULTS)
			slot = ginGdakiResultReclaim(dc, context, ginHowSharing(how));
		if (slot != GIN_QUEUE_RESULTS)
			return slot;
		ginResult_t result = ginAbortResult(ginSendPatienceStep(wait));
		if (result != ginSuccess)
			return GIN_QUEUE_RESULTS + static_cast<uint32_t>(result);
	}
}

/*
 * Waits until all WQEBBs below `end` are completed and frees the result slot. After a failure
 * abandons the slot: ginGdakiResultReclaim() takes it.
 */
GIN_FN_COLD ginResult_t ginGdakiResultWait(const ginDevComm *dc, struct ginSendQueue *q,
					   uint32_t results, uint32_t how, uint64_t end,
					   uint32_t slot, uint64_t start, uint64_t timeout,
					   uint64_t from)
{
	struct ginSendPatience wait = {dc, timeout, from, 0, 0};
	uint64_t queue = static_cast<uint64_t>(q - ginGdakiQueues(*dc, results));

	wait.start = start;
	ginResult_t result = ginSendWait(q, end, wait, ginHowSharing(how));
	if (result != ginSuccess)
		ginLocalStore(&dc->results[results].abandoned[slot], 1 + queue + end * dc->nRanks);
	return result;
}

/* The old value in a result slot. Devices write 4 bytes in network order and 8 in the host's. */
GIN_FN uint64_t ginGdakiResultLoad(const struct ginSendResults *results, uint32_t slot,
				   uint64_t bytes)
{
	uint64_t word = ginHostWordObserve(&results->result[slot]);
	return bytes == 8 ? word : ginMlx5Swap(static_cast<uint32_t>(word));
}

/* Posts an atomic. The old value goes to `local`. */
template <enum ginOp op, uint32_t bytes>
GIN_FN uint32_t ginGdakiPostAtomic(const struct ginWorkTo &to, struct ginWork &p,
				   const struct ginWindowPeer *there, uint64_t off,
				   uint64_t operand, uint64_t compare)
{
	if ((bytes == 4 || op == ginOpSwap) && !to.queue->fixed.masked)
		return ginErrorUnsupported;
	p.op = op;
	p.scope = ginScopeSystem;
	p.remote = {there->nicAddress + off, there->nicStrictKey};
	p.bytes = bytes;
	p.operand = operand;
	p.compare = compare;
	return ginWorkNow(to, p);
}

/* `bytes`: 4 or 8. The caller does not want the old value. */
template <enum ginOp op, uint32_t bytes>
GIN_FN_COLD ginResult_t ginGdakiAtomic(const ginDevComm *dc, struct ginSendQueue *queue,
				       const struct ginPeer *peer, uint32_t context, uint32_t how,
				       const struct ginWindowPeer *there, uint64_t off,
				       uint64_t operand, uint64_t compare, uint64_t timeout,
				       uint64_t from)
{
	const struct ginWorkTo to = {dc, queue, peer, context, how, timeout, from};
	struct ginWork p = {};

	p.local = {queue->fixed.sink, queue->fixed.sinkKey};
	uint32_t sent = ginGdakiPostAtomic<op, bytes>(to, p, there, off, operand, compare);
	if (sent == ginSentOk)
		return ginSuccess;
	return ginWorkFail(dc, queue, peer, context, how, sent, 0);
}

/*
 * Takes a result slot, posts, waits, and reads the old value. `results`: the context of the queue.
 * After a timeout the NIC may still do the atomic.
 */
template <enum ginOp op, uint32_t bytes>
GIN_FN_COLD ginResult_t ginGdakiAtomicOld(const ginDevComm *dc, struct ginSendQueue *queue,
					  const struct ginPeer *peer, uint32_t context,
					  uint32_t how, uint32_t results,
					  const struct ginWindowPeer *there, uint64_t off,
					  uint64_t operand, uint64_t compare, uint64_t *old,
					  uint64_t timeout, uint64_t from)
{
	const struct ginWorkTo to = {dc, queue, peer, context, how, timeout, from};
	struct ginSendResults *of = dc->results + results;
	uint64_t start = ginNow();
	struct ginWork p = {};

	uint32_t slot = ginGdakiResultTake(dc, results, how, start, timeout, from);
	if (slot >= GIN_QUEUE_RESULTS)
		return ginWorkFail(dc, queue, peer, context, how, slot - GIN_QUEUE_RESULTS,
				   0);
	p.local = {of->nicAddress + slot * sizeof(uint64_t), of->nicKey};
	uint32_t sent = ginGdakiPostAtomic<op, bytes>(to, p, there, off, operand, compare);
	bool posted = sent == ginSentOk;
	if (posted)
		sent = ginGdakiResultWait(dc, queue, results, how, p.end, slot, start, timeout,
					  from);
	if (sent == ginSentOk)
		*old = ginGdakiResultLoad(of, slot, bytes);
	if (!posted || sent == ginSentOk)
		ginSlotFree(&of->freeResults, slot);
	if (sent == ginSentOk)
		return ginSuccess;
	return ginWorkFail(dc, queue, peer, context, how, sent, 0);
}

#endif
