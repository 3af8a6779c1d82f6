/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * atomic.cuh - atomics by the NIC, and the places into which it writes old values
 */
#ifndef GIN_GDAKI_ATOMIC_CUH
#define GIN_GDAKI_ATOMIC_CUH

#include "call.cuh"
#include "../detail/places.cuh"

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
