/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * complete.cuh - the gdaki route: calls that wait for a completion
 */
#ifndef GIN_GDAKI_COMPLETE_CUH
#define GIN_GDAKI_COMPLETE_CUH

#include "call.cuh"
#include "../detail/places.cuh"

/* E, release end: READs were posted, below `end`. */
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

/* Are there any without a DUMP? One of a higher index is behind them, whatever who posted it knew. */
GIN_FN bool ginGetsUndumped(const struct ginSendGets *gets)
{
	return ginLocalLoad(&gets->read) > ginLocalLoad(&gets->dumped);
}

/* Writes and hands over the DUMP that was reserved. E, acquire end of the gets', release end of its own. */
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

/* A DUMP for all gets that need one, by who waits. *end is raised to where the bytes of all are there. */
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

/* A ticket for all that has been posted, with DUMPs before it if there is room. */
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
 * All that was posted is completed, and the bytes of gets are there, as far as the ticket, which others may
 * have given back.
 */
GIN_FN_COLD ginResult_t ginGdakiWait(struct ginSendQueue *q, uint64_t ticket, struct ginPoll *poll,
				     ginSharing sharing)
{
	uint64_t end = ticket & ~GIN_SEND_DUMPED, gets = 0;
	ginResult_t result = ginSuccess;

	if (!(ticket & GIN_SEND_DUMPED))
		gets = ginLocalLoad(&q->gets[0].read) | ginLocalLoad(&q->gets[1].read);
	bool done = ginSendDone(q, sharing) >= end;
	if (!gets && done) /* most have nothing to wait for */
		return ginSendState(q);
	if (gets)
		result = ginGetsDumpAll(q, &end, poll, sharing);
	if (result != ginSuccess)
		return result;
	return ginSendWait(q, end, *poll, sharing);
}

/* All that was posted in these queues. */
GIN_FN ginResult_t ginGdakiWaitAll(struct ginSendQueue *q, uint32_t count, struct ginPoll *poll,
				   ginSharing sharing)
{
	ginResult_t result = ginSuccess;

	for (uint32_t i = 0; result == ginSuccess && i < count; i++, q++)
		result = ginGdakiWait(q, ginSendTicket(q), poll, sharing);
	return result;
}

/* All that was posted in the context, to whomever, and to direct peers' words in any. */
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

/* Raises the counters of what is done, in all queues of the context; the error of one that counts. */
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

/* Waits until the counter is at least `least`; *seen is what it was last. C, acquire end. */
GIN_FN_COLD ginResult_t ginGdakiWaitCounter(struct ginGdakiContext me, uint32_t id, uint64_t least,
					    uint32_t bits, struct ginPoll *poll, uint64_t *seen)
{
	const uint64_t *word =
		me.dc->counter + static_cast<size_t>(me.context) * me.dc->counters + id;

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
 * Can the NIC not write the place any more? `abandoned`: as in ginSendResults. Behind an error no WQE
 * writes.
 */
GIN_FN bool ginGdakiResultWritten(const struct ginGdakiContext &me, uint64_t abandoned)
{
	struct ginSendQueue *q =
		ginGdakiQueues(*me.dc, me.context) + (abandoned - 1) % me.dc->nRanks;

	return ginSendRefresh(q, me.sharing) >= (abandoned - 1) / me.dc->nRanks ||
	       ginSendState(q) != ginSuccess;
}

/* One that its caller has given up, once the NIC has written it; else GIN_QUEUE_RESULTS. */
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

/* A place for an old value; waits for one. */
GIN_FN ginResult_t ginGdakiResultTake(const struct ginGdakiContext &me, uint32_t *slot,
				      struct ginPoll *poll)
{
	for (;;) {
		*slot = ginPlaceTake(&me.dc->results[me.context].freeResults);
		if (*slot == GIN_QUEUE_RESULTS)
			*slot = ginGdakiResultReclaim(me);
		if (*slot != GIN_QUEUE_RESULTS)
			return ginSuccess;
		ginResult_t result = ginPollStep(*poll);
		if (result != ginSuccess)
			return result;
	}
}

/* Devices answer 4 bytes in the order of the wire, and 8 in the host's. */
GIN_FN uint64_t ginGdakiResultLoad(const struct ginSendResults *results, uint32_t slot,
				   uint64_t bytes)
{
	uint64_t word = ginHostWordObserve(&results->result[slot]);
	return bytes == 8 ? word : ginMlx5Swap(static_cast<uint32_t>(word));
}

/* With a place: posts, waits, and reads the old value. After a timeout it may yet be done. */
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
		ginPlaceGive(&results->freeResults, slot);
		return result;
	}
	result = ginSendWait(p->queue, ginWorkEnd(p), poll, me.sharing);
	if (result != ginSuccess) { /* whoever wants one takes it once the NIC has written it */
		ginLocalStore(&results->abandoned[slot],
			      1 + dc.peers[peer].sendQueue + ginWorkEnd(p) * dc.nRanks);
		return result;
	}
	*old = ginGdakiResultLoad(results, slot, p->bytes);
	ginPlaceGive(&results->freeResults, slot);
	return ginSuccess;
}

/* Of `bytes`, 4 or 8. `old`: NULL when nobody wants it. */
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
