/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * complete.cuh - the gdaki route: gets, flush and wait, counters, atomics
 *
 * Called by context.cuh and calls/context_base.cuh, on the first thread of the calling coop.
 * Calls post.cuh to post and queue.cuh to wait. In this file:
 *
 * gets       ginGdakiGet() posts READs.
 * flush      ginGdakiFlush(), for all queues of a context, and ginGdakiWait(), for one queue and a
 *            ticket: ginGetsDumpAll(), then ginSendWait().
 * counters   ginGdakiCreditCounters() raises the counters of completed puts; ginGdakiWaitCounter()
 *            repeats it until a counter has reached a value.
 * atomics    ginGdakiAtomic() posts. To a caller that wants the old value ginGdakiAtomicOld() gives
 *            the NIC a result slot (struct ginSendResults), posts, waits and reads the slot.
 *
 * Gets and DUMPs. A CQE does not prove that the bytes of a READ are in memory; that of a DUMP after
 * the READ does. A DUMP delays the WQEs after it by a round trip, so gets post READs without DUMPs,
 * and many READs are in flight at a time. A thread that waits posts one DUMP for all gets before it
 * (ginGetsDumpAll), and flushAsync posts it with its ticket (ginGetsTicket).
 */
#ifndef GIN_GDAKI_COMPLETE_CUH
#define GIN_GDAKI_COMPLETE_CUH

#include "call.cuh"
#include "../core/results.cuh"

/* Posts up to 1 GiB of a get. */
template <class Form> struct ginGdakiGetNow {
	GIN_FN static uint64_t post(struct ginSendQueue *queue, const struct ginPeer *peer,
				    uint32_t how, const struct ginWindowPeer *there, uint64_t off,
				    const struct ginWindowTable *here, uint64_t hereOff,
				    uint64_t bytes, struct ginWorkHeld held)
	{
		how = Form::how(how);
		uint64_t end = ginWorkNow<Form::alone, ginWorkKind<ginOpGet>>(
			queue, peer, how, held, [&](struct ginWork &p) {
				struct ginGdakiFrom to = ginGdakiHere(here, hereOff, how);
				ginGdakiTarget(p, how, there, off);
				ginWorkSetMessage(p, to.address, to.key,
						  bytes <= GIN_MLX5_MESSAGE_BYTES
							  ? static_cast<uint32_t>(bytes)
							  : 1u * GIN_MLX5_MESSAGE_BYTES,
						  nullptr, 0);
				return 0u;
			});
		if (ginWorkOk(end) && bytes)
			ginGetsRecord(queue, here, end);
		return end;
	}
};

template <bool called>
GIN_FN ginResult_t ginGdakiGet(const ginDevComm *dc, struct ginSendQueue *queue,
			       const struct ginPeer *peer, uint32_t context, uint32_t how,
			       const struct ginWindowPeer *there, uint64_t off,
			       const struct ginWindowTable *here, uint64_t hereOff, uint64_t bytes,
			       uint64_t timeout, uint64_t from)
{
	uint64_t end = GIN_WORK_FULL;

	for (;;) {
		end = ginWorkPost(dc, queue, peer, ginWorkHow(context, how), 1, UINT32_MAX, timeout,
				  from, [&](ginCold<struct ginWorkHeld> held) {
					  return ginWorkShaped<ginActionShape<GinNone>, called,
							       ginGdakiGetNow>(
						  how, queue, peer, how, there, off, here, hereOff,
						  bytes, held);
				  });
		if (!ginWorkOk(end) || bytes <= GIN_MLX5_MESSAGE_BYTES)
			return ginWorkResult(end);
		off += GIN_MLX5_MESSAGE_BYTES;
		hereOff += GIN_MLX5_MESSAGE_BYTES;
		bytes -= GIN_MLX5_MESSAGE_BYTES;
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
GIN_FN ginResult_t ginGetsDumpAll(struct ginSendQueue *q, uint64_t *end,
				  struct ginSendPatience &wait, ginSharing sharing)
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
 * A ticket for all posts so far, after posting DUMPs if there is room for them (GIN_SEND_DUMPED).
 */
GIN_FN_CALLED uint64_t ginGetsTicket(struct ginSendQueue *q, ginSharing sharing)
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
GIN_FN ginResult_t ginGdakiWaitQueue(struct ginSendQueue *q, uint64_t ticket,
				     struct ginSendPatience &wait, ginSharing sharing)
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
GIN_FN_CALLED ginResult_t ginGdakiWait(const ginDevComm *dc, struct ginSendQueue *q, int peer,
				       uint32_t context, uint32_t how, uint64_t ticket,
				       uint64_t timeout, uint64_t from)
{
	struct ginSendPatience wait = ginSendPatienceStart(dc, timeout, from);
	ginResult_t result = ginGdakiWaitQueue(q, ticket, wait, ginHowSharing(how));

	if (result != ginSuccess)
		ginErrorLeave(dc, result, ginCallFlush, context, peer, UINT32_MAX,
			      ticket & ~GIN_SEND_DUMPED, ginSendDone(q, ginHowSharing(how)));
	return result;
}

/*
 * Waits for all posts of the context, and for all posts of any context to the send queues that all
 * contexts share, if there was ever one.
 */
GIN_FN_CALLED ginResult_t ginGdakiFlush(const ginDevComm *dc, uint32_t context, uint32_t how,
					uint64_t timeout, uint64_t from)
{
	struct ginSendPatience wait = ginSendPatienceStart(dc, timeout, from);
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
GIN_FN_CALLED ginResult_t ginGdakiCreditCounters(const ginDevComm *dc, uint32_t context,
						 uint32_t how)
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
GIN_FN_CALLED ginResult_t ginGdakiWaitCounter(const ginDevComm *dc, uint32_t context, uint32_t how,
					      uint32_t id, uint64_t least, uint32_t bits,
					      uint64_t timeout, uint64_t from)
{
	const uint64_t *word = dc->counter + static_cast<size_t>(context) * dc->counters + id;
	struct ginSendPatience wait = ginSendPatienceStart(dc, timeout, from);

	for (;;) {
		uint64_t ends = GIN_SEND_NO_PEER | ginGdakiCreditCounters(dc, context, how);
		uint64_t seen = ginCounterObserve(word);
		if (ginReached(seen, least, bits))
			return ginSuccess;
		if (ginResultOf(ends) == ginSuccess)
			ends = ginSendPatienceStep(wait);
		if (ginResultOf(ends) == ginSuccess)
			continue;
		ginErrorLeave(dc, ginResultOf(ends), ginCallWaitCounter, context,
			      static_cast<int>(ends >> 32), id, least, seen);
		return ginResultOf(ends);
	}
}

/*
 * Has the NIC stopped writing the slot of an abandoned atomic? `abandoned`: as in ginSendResults.
 * After an error no WQE writes any more.
 */
GIN_FN bool ginGdakiResultWritten(const ginDevComm *dc, uint32_t context, ginSharing sharing,
				  uint64_t abandoned)
{
	struct ginSendQueue *q = ginGdakiQueues(*dc, context) + (abandoned - 1) % dc->nRanks;

	return ginSendRefresh(q, sharing) >= (abandoned - 1) / dc->nRanks ||
	       ginSendState(q) != ginSuccess;
}

/* Takes a result slot, waiting for one. Returns the slot, or GIN_QUEUE_RESULTS + ginResult_t. */
GIN_FN_CALLED uint32_t ginGdakiResultTake(const ginDevComm *dc, struct ginSendQueue *q,
					  const struct ginPeer *peer, uint32_t how,
					  uint32_t results, uint64_t deadline, uint64_t from)
{
	struct ginSendPatience wait = {dc, deadline, from, 0};
	struct ginSendResults *of = dc->results + results;
	ginResult_t result = ginSuccess;
	const uint32_t slot = ginSlotWait(
		&of->freeResults, of->abandoned,
		[&](uint32_t, uint64_t abandoned) {
			return ginGdakiResultWritten(dc, results, ginHowSharing(how), abandoned);
		},
		[&] { return ginResultOf(ginSendPatienceStep(wait)); }, &result);

	if (slot == GIN_QUEUE_RESULTS)
		ginWorkRefuse(dc, q, peer, how, UINT32_MAX, result);
	return slot + static_cast<uint32_t>(result);
}

/*
 * Waits until all WQEBBs below `end` are completed. After a failure abandons the slot:
 * ginSlotReclaim() takes it.
 */
GIN_FN_CALLED ginResult_t ginGdakiResultWait(const ginDevComm *dc, struct ginSendQueue *q,
					     const struct ginPeer *peer, uint32_t how,
					     uint32_t results, uint64_t end, uint32_t slot,
					     uint64_t deadline, uint64_t from)
{
	struct ginSendPatience wait = {dc, deadline, from, 0};
	uint64_t queue = static_cast<uint64_t>(q - ginGdakiQueues(*dc, results));

	ginResult_t result = ginSendWait(q, end, wait, ginHowSharing(how));
	if (result == ginSuccess)
		return ginSuccess;
	ginLocalStore(&dc->results[results].abandoned[slot], 1 + queue + end * dc->nRanks);
	return ginWorkRefuse(dc, q, peer, how, UINT32_MAX, result);
}

/* The old value in a result slot. Devices write 4 bytes in network order and 8 in the host's. */
GIN_FN uint64_t ginGdakiResultLoad(const struct ginSendResults *results, uint32_t slot,
				   uint64_t bytes)
{
	uint64_t word = ginHostWordObserve(&results->result[slot]);
	return bytes == 8 ? word : ginMlx5Swap(static_cast<uint32_t>(word));
}

/* The remote word and the operands of an atomic. The old value goes to `local`. */
GIN_FN struct ginWork ginGdakiAtomicWork(const struct ginWindowPeer *there, uint64_t off,
					 uint64_t operand, uint64_t compare, uint64_t local,
					 uint32_t localKey)
{
	struct ginWork p = {};

	p.remote = there->nicAddress + off;
	p.remoteKey = there->nicStrictKey;
	ginWorkSetAtomic(p, local, localKey, operand, compare);
	return p;
}

template <enum ginOp op, uint32_t bytes> struct ginGdakiAtomicNow {
	template <class Form> struct shaped {
		GIN_FN static uint64_t post(struct ginSendQueue *queue, const struct ginPeer *peer,
					    uint32_t how, const struct ginWindowPeer *there,
					    uint64_t off, uint64_t operand, uint64_t compare,
					    uint64_t local, uint32_t localKey,
					    struct ginWorkHeld held)
		{
			how = Form::how(how);
			return ginWorkNow<Form::alone, ginWorkKind<op, bytes>>(
				queue, peer, how, held, [&](struct ginWork &p) {
					p = ginGdakiAtomicWork(there, off, operand, compare, local,
							       localKey);
					return ginWorkRelease(how, ginScopeSystem);
				});
		}
	};
};

/* Posts an atomic. Returns as ginWorkPost(). */
template <bool called, enum ginOp op, uint32_t bytes>
GIN_FN uint64_t ginGdakiAtomicPost(const ginDevComm *dc, struct ginSendQueue *queue,
				   const struct ginPeer *peer, uint32_t context, uint32_t how,
				   const struct ginWindowPeer *there, uint64_t off,
				   uint64_t operand, uint64_t compare, uint64_t local,
				   uint32_t localKey, uint64_t timeout, uint64_t from)
{
	const uint32_t late = ginWorkHow(context, how);

	if ((bytes != 8 || op == ginOpSwap) && !queue->fixed.masked)
		return GIN_WORK_FAILED +
		       ginWorkRefuse(dc, queue, peer, late, UINT32_MAX, ginErrorUnsupported);
	return ginWorkPost(
		dc, queue, peer, late, ginWorkKind<op, bytes>::wqebbs(how), UINT32_MAX, timeout,
		from, [&](ginCold<struct ginWorkHeld> held) {
			return ginWorkShaped<ginActionShape<GinNone>, called,
					     ginGdakiAtomicNow<op, bytes>::template shaped>(
				how, queue, peer, how, there, off, operand, compare, local,
				localKey, held);
		});
}

/* An atomic whose caller does not want the old value. */
template <bool called, enum ginOp op, uint32_t bytes>
GIN_FN ginResult_t ginGdakiAtomic(const ginDevComm *dc, struct ginSendQueue *queue,
				  const struct ginPeer *peer, uint32_t context, uint32_t how,
				  const struct ginWindowPeer *there, uint64_t off, uint64_t operand,
				  uint64_t compare, uint64_t timeout, uint64_t from)
{
	return ginWorkResult(ginGdakiAtomicPost<called, op, bytes>(
		dc, queue, peer, context, how, there, off, operand, compare, queue->fixed.sink,
		queue->fixed.sinkKey, timeout, from));
}

/*
 * Takes a result slot, posts, waits, and reads the old value. `results`: the context of the queue.
 * After a timeout the NIC may still do the atomic.
 */
template <bool called, enum ginOp op, uint32_t bytes>
GIN_FN ginResult_t ginGdakiAtomicOld(const ginDevComm *dc, struct ginSendQueue *queue,
				     const struct ginPeer *peer, uint32_t context, uint32_t how,
				     uint32_t results, const struct ginWindowPeer *there,
				     uint64_t off, uint64_t operand, uint64_t compare,
				     uint64_t *old, uint64_t timeout, uint64_t from)
{
	struct ginSendResults *of = dc->results + results;
	const uint64_t deadline = ginSendPatienceStart(dc, timeout, from).deadline;
	uint32_t slot = ginGdakiResultTake(dc, queue, peer, ginWorkHow(context, how), results,
					   deadline, from);

	if (slot >= GIN_QUEUE_RESULTS)
		return static_cast<ginResult_t>(slot - GIN_QUEUE_RESULTS);
	uint64_t end = ginGdakiAtomicPost<called, op, bytes>(
		dc, queue, peer, context, how, there, off, operand, compare,
		of->nicAddress + slot * sizeof(uint64_t), of->nicKey, timeout, from);
	if (!ginWorkOk(end)) {
		ginSlotFree(&of->freeResults, slot);
		return ginResultOf(end);
	}
	ginResult_t result = ginGdakiResultWait(dc, queue, peer, ginWorkHow(context, how), results,
						end, slot, deadline, from);
	if (result != ginSuccess)
		return result;
	*old = ginGdakiResultLoad(of, slot, bytes);
	ginSlotFree(&of->freeResults, slot);
	return ginSuccess;
}

#endif
