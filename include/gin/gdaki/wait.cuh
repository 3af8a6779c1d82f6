/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wait.cuh - the gdaki route: waits for what was posted, in one queue or all of a context
 */
#ifndef GIN_GDAKI_WAIT_CUH
#define GIN_GDAKI_WAIT_CUH

#include "get.cuh"

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

#endif
