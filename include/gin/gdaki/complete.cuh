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

GIN_FN_COLD ginResult_t ginGdakiGet(struct ginGdakiContext me, int peer, ginWindow_t srcWin,
				    size_t srcOff, ginWindow_t dstWin, size_t dstOff, size_t bytes,
				    const ginOptions &options)
{
	struct ginWork p;

	ginGdakiWork(&p, me, ginOpGet, peer, ginScopeThread, options);
	p.remote = ginGdakiRemote(srcWin, srcOff, peer);
	p.bytes = bytes;
	p.aggregate = options.aggregate;
	ginResult_t result = ginGdakiPostData(&p, me, ginSourceIn(dstWin, dstOff));
	if (result == ginSuccess && bytes)
		ginGetsRecord(p.queue, dstWin.table, ginWorkEnd(&p));
	return result;
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
	ginSendHandOver<const ginSendFixed &>(q, q->fixed, range, false, sharing);
}

/*
 * Posts a DUMP for all gets that need one. Raises *end to an index whose completion proves that
 * the bytes of all gets are there.
 */
GIN_FN_COLD ginResult_t ginGetsDumpAll(struct ginSendQueue *q, uint64_t *end, struct ginPoll *poll,
				       ginSharing sharing)
{
	struct ginSendRange range = {0, 1};

	for (struct ginSendGets *gets = q->gets; gets < q->gets + 2; gets++) {
		if (ginGetsUndumped(gets)) {
			ginResult_t result = ginSendReserveWait(q, &range, *poll, sharing);
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

	for (struct ginSendGets *gets = q->gets; gets < q->gets + 2; gets++) {
		if (!ginGetsUndumped(gets))
			continue;
		if (!ginSendReserveFree(q, 1, 1, &range.first, sharing))
			return ginSendTicket(q);
		ginGetsPostDump(q, gets, range, sharing);
	}
	return ginSendTicket(q) | GIN_SEND_DUMPED;
}

/*
 * Waits until all WQEBBs below the ticket are completed and the bytes of the gets among them are
 * there.
 */
GIN_FN_COLD ginResult_t ginGdakiWait(struct ginSendQueue *q, uint64_t ticket, struct ginPoll *poll,
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
		result = ginGetsDumpAll(q, &end, poll, sharing);
	if (result != ginSuccess)
		return result;
	return ginSendWait(q, end, *poll, sharing);
}

/* Waits for all that was posted in `count` queues from `q` on. */
GIN_FN ginResult_t ginGdakiWaitAll(struct ginSendQueue *q, uint32_t count, struct ginPoll *poll,
				   ginSharing sharing)
{
	ginResult_t result = ginSuccess;

	for (uint32_t i = 0; result == ginSuccess && i < count; i++, q++)
		result = ginGdakiWait(q, ginSendTicket(q), poll, sharing);
	return result;
}

/*
 * Waits for all that the context posted, and for all that any context posted to the shared queues.
 */
GIN_FN_COLD ginResult_t ginGdakiFlush(struct ginGdakiContext me, struct ginPoll *poll)
{
	const ginDevComm &dc = *me.dc;
	ginResult_t result =
		ginGdakiWaitAll(ginGdakiQueues(dc, me.context), dc.nSendQueues, poll, me.sharing);

	if (result != ginSuccess || !ginLocalLoad(&dc.results[dc.contexts].words))
		return result;
	return ginGdakiWaitAll(ginGdakiQueues(dc, dc.contexts), dc.nRanks - dc.nSendQueues, poll,
			       ginSharingGpu);
}

/*
 * Raises the counters of completed puts in all queues of the context. Returns the error of a queue
 * that still has a counter to raise.
 */
GIN_FN_COLD ginResult_t ginGdakiCreditCounters(struct ginGdakiContext me)
{
	struct ginSendQueue *q = ginGdakiQueues(*me.dc, me.context);
	ginResult_t result = ginSuccess;

	GIN_NO_UNROLL
	for (uint32_t i = 0; i < me.dc->nSendQueues; i++, q++) {
		if (ginLocalLoad(&q->counted) <= ginSendDone(q, me.sharing))
			continue;
		if (ginSendRefresh(q, me.sharing) >= ginLocalLoad(&q->counted))
			continue;
		ginSendRingPending(q, false, me.sharing);
		if (result == ginSuccess)
			result = ginSendState(q);
	}
	return result;
}

/* Waits until the counter has reached `least`; *seen is its last value. C, acquire end. */
GIN_FN_COLD ginResult_t ginGdakiWaitCounter(struct ginGdakiContext me, uint32_t id, uint64_t least,
					    uint32_t bits, struct ginPoll *poll, uint64_t *seen)
{
	const uint64_t *word = ginGdakiCounters(*me.dc, me.context) + id;

	for (;;) {
		ginResult_t result = ginGdakiCreditCounters(me);
		*seen = ginCounterObserve(word);
		if (ginReached(*seen, least, bits))
			return ginSuccess;
		if (result == ginSuccess)
			result = ginPollStep(*poll);
		if (result != ginSuccess)
			return result;
	}
}

/*
 * Has the NIC stopped writing the slot of an abandoned atomic? `abandoned`: as in ginSendResults.
 * After an error no WQE writes any more.
 */
GIN_FN bool ginGdakiResultWritten(const struct ginGdakiContext &me, uint64_t abandoned)
{
	struct ginSendQueue *q =
		ginGdakiQueues(*me.dc, me.context) + (abandoned - 1) % me.dc->nRanks;

	return ginSendRefresh(q, me.sharing) >= (abandoned - 1) / me.dc->nRanks ||
	       ginSendState(q) != ginSuccess;
}

/*
 * Takes a slot whose caller has given up, if the NIC has stopped writing it; else
 * GIN_QUEUE_RESULTS.
 */
GIN_FN_COLD uint32_t ginGdakiResultReclaim(struct ginGdakiContext me)
{
	struct ginSendResults *results = me.dc->results + me.context;

	for (uint32_t i = 0; i < GIN_QUEUE_RESULTS; i++) {
		uint64_t abandoned = ginLocalLoad(&results->abandoned[i]);
		if (abandoned && ginGdakiResultWritten(me, abandoned) &&
		    ginLocalCas(&results->abandoned[i], abandoned, 0))
			return i;
	}
	return GIN_QUEUE_RESULTS;
}

/* Takes a result slot, waiting for one. */
GIN_FN ginResult_t ginGdakiResultTake(const struct ginGdakiContext &me, uint32_t *slot,
				      struct ginPoll *poll)
{
	for (;;) {
		*slot = ginSlotTake(&me.dc->results[me.context].freeResults);
		if (*slot == GIN_QUEUE_RESULTS)
			*slot = ginGdakiResultReclaim(me);
		if (*slot != GIN_QUEUE_RESULTS)
			return ginSuccess;
		ginResult_t result = ginPollStep(*poll);
		if (result != ginSuccess)
			return result;
	}
}

/* The old value in a result slot. Devices write 4 bytes in network order and 8 in the host's. */
GIN_FN uint64_t ginGdakiResultLoad(const struct ginSendResults *results, uint32_t slot,
				   uint64_t bytes)
{
	uint64_t word = ginHostWordObserve(&results->result[slot]);
	return bytes == 8 ? word : ginMlx5Swap(static_cast<uint32_t>(word));
}

/*
 * Takes a result slot, posts, waits, and reads the old value. After a timeout the NIC may still do
 * the atomic.
 */
GIN_FN ginResult_t ginGdakiAtomicWait(const struct ginGdakiContext &me, struct ginWork *p, int peer,
				      uint64_t *old, const ginOptions &options)
{
	const ginDevComm &dc = *me.dc;
	struct ginSendResults *results = dc.results + me.context;
	struct ginPoll poll = ginPollStart(dc, options);
	uint32_t slot;

	ginResult_t result = ginGdakiResultTake(me, &slot, &poll);
	if (result != ginSuccess)
		return result;
	p->local = {results->nicAddress + slot * sizeof(uint64_t), results->nicKey};
	result = ginWorkPost(p);
	if (result != ginSuccess) {
		ginSlotFree(&results->freeResults, slot);
		return result;
	}
	result = ginSendWait(p->queue, ginWorkEnd(p), poll, me.sharing);
	if (result != ginSuccess) { /* ginGdakiResultReclaim() takes the slot */
		ginLocalStore(&results->abandoned[slot],
			      1 + dc.peers[peer].sendQueue + ginWorkEnd(p) * dc.nRanks);
		return result;
	}
	*old = ginGdakiResultLoad(results, slot, p->bytes);
	ginSlotFree(&results->freeResults, slot);
	return ginSuccess;
}

/* `bytes`: 4 or 8. `old`: NULL if the caller does not want the old value. */
GIN_FN_COLD ginResult_t ginGdakiAtomic(struct ginGdakiContext me, enum ginOp op, int peer,
				       ginWindow_t win, size_t off, uint32_t bytes,
				       uint64_t operand, uint64_t compare, uint64_t *old,
				       const ginOptions &options)
{
	const struct ginWindowPeer &at = ginWindowAt(win, peer);
	struct ginWork p;

	ginGdakiWork(&p, me, op, peer, ginFenceLeft(options.given, ginScopeSystem), options);
	p.remote = {at.nicAddress + off, at.nicStrictKey};
	p.bytes = bytes;
	p.operand = operand;
	p.compare = compare;
	if (!p.fixed.masked && (bytes == 4 || op == ginOpSwap))
		return ginErrorUnsupported;
	if (old)
		return ginGdakiAtomicWait(me, &p, peer, old, options);
	return ginWorkPost(&p);
}

#endif
