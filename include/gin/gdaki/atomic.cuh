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
GIN_FN bool ginSendSettled(const struct ginSender &me, uint64_t abandoned)
{
	struct ginSendQueue *q =
		ginSendQueues(*me.dc, me.context) + (abandoned - 1) % me.dc->nRanks;

	return ginSendRefresh(q, me.sharing) >= (abandoned - 1) / me.dc->nRanks ||
	       ginSendState(q) != ginSuccess;
}

/* One that its caller has given up, once the NIC has written it; else GIN_QUEUE_RESULTS. */
GIN_FN_COLD uint32_t ginSendReclaim(struct ginSender me)
{
	struct ginSendResults *results = me.dc->results + me.context;

	for (uint32_t i = 0; i < GIN_QUEUE_RESULTS; i++) {
		uint64_t abandoned = ginLocalLoad(&results->abandoned[i]);
		if (abandoned && ginSendSettled(me, abandoned) &&
		    ginLocalCas(&results->abandoned[i], abandoned, 0))
			return i;
	}
	return GIN_QUEUE_RESULTS;
}

/* A place for an old value; waits for one. */
GIN_FN ginResult_t ginSendPlaceTake(const struct ginSender &me, uint32_t *place,
				    struct ginPoll *poll)
{
	for (;;) {
		*place = ginPlaceTake(&me.dc->results[me.context].freeResults);
		if (*place == GIN_QUEUE_RESULTS)
			*place = ginSendReclaim(me);
		if (*place != GIN_QUEUE_RESULTS)
			return ginSuccess;
		ginResult_t result = ginPollStep(*poll);
		if (result != ginSuccess)
			return result;
	}
}

/* Devices answer 4 bytes in the order of the wire, and 8 in the host's. */
GIN_FN uint64_t ginSendOld(const struct ginSendResults *results, uint32_t place, uint64_t bytes)
{
	uint64_t word = ginHostWordObserve(&results->result[place]);
	return bytes == 8 ? word : ginMlx5Swap(static_cast<uint32_t>(word));
}

/* With a place: posts, waits, and reads the old value. After a timeout it may yet be done. */
GIN_FN ginResult_t ginSendAtomicWait(const struct ginSender &me, struct ginSend *p, int peer,
				     uint64_t *old, const ginOptions &options)
{
	const ginDevComm &dc = *me.dc;
	struct ginSendResults *results = dc.results + me.context;
	struct ginPoll poll = ginPollStart(dc, options);
	uint32_t place;

	ginResult_t result = ginSendPlaceTake(me, &place, &poll);
	if (result != ginSuccess)
		return result;
	p->local = {results->nicAddress + place * sizeof(uint64_t), results->nicKey};
	result = ginSendPost(p);
	if (result != ginSuccess) {
		ginPlaceGive(&results->freeResults, place);
		return result;
	}
	result = ginSendWait(p->queue, ginSendEnd(p), poll, me.sharing);
	if (result != ginSuccess) { /* whoever wants one takes it once the NIC has written it */
		ginLocalStore(&results->abandoned[place],
			      1 + dc.peers[peer].sendQueue + ginSendEnd(p) * dc.nRanks);
		return result;
	}
	*old = ginSendOld(results, place, p->bytes);
	ginPlaceGive(&results->freeResults, place);
	return ginSuccess;
}

/* Of `bytes`, 4 or 8. `old`: NULL when nobody wants it. */
GIN_FN_COLD ginResult_t ginSendAtomic(struct ginSender me, enum ginOp op, int peer, ginWindow_t win,
				      size_t off, uint32_t bytes, uint64_t operand,
				      uint64_t compare, uint64_t *old, const ginOptions &options)
{
	const struct ginWindowPeer &at = ginWindowAt(win, peer);
	struct ginSend p;

	ginSendBegin(&p, me, op, peer, ginFenceLeft(options.given, ginScopeSystem), options);
	p.remote = {at.nicAddress + off, at.nicStrictKey};
	p.bytes = bytes;
	p.operand = operand;
	p.compare = compare;
	if (!p.fixed.masked && (bytes == 4 || op == ginOpSwap))
		return ginErrorUnsupported;
	if (old)
		return ginSendAtomicWait(me, &p, peer, old, options);
	return ginSendPost(&p);
}

#endif
