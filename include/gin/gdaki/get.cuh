/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * get.cuh - the gdaki route: gets, and what makes their bytes visible
 *
 * A get is READs alone, so that many are under way at a time. The DUMP that a CQE needs to prove that their
 * bytes are in memory is posted by who waits, once for all gets before it, or with a ticket for a later
 * wait. What follows it in the queue stands behind the READs that it waits for.
 */
#ifndef GIN_GDAKI_GET_CUH
#define GIN_GDAKI_GET_CUH

#include "call.cuh"

/* P, release end: READs were posted, below `end`. */
GIN_FN void ginGetsRaise(struct ginSendQueue *q, const struct ginWindowTable *into, uint64_t end)
{
	struct ginSendGets *gets = &q->gets[into->fence == ginScopeSystem];

	ginLocalStore(&gets->into, reinterpret_cast<uintptr_t>(into));
	ginEndRaise(&gets->read, end);
}

GIN_FN_COLD ginResult_t ginSendGet(struct ginSender me, int peer, ginWindow_t srcWin, size_t srcOff,
				   ginWindow_t dstWin, size_t dstOff, size_t bytes,
				   const ginOptions &options)
{
	struct ginSend p;

	ginSendBegin(&p, me, ginOpGet, peer, ginScopeThread, options);
	p.remote = ginSendThere(srcWin, srcOff, peer);
	p.bytes = bytes;
	p.hold = options.aggregate;
	ginResult_t result = ginSendMove(&p, me, ginSourceIn(dstWin, dstOff));
	if (result == ginSuccess && bytes)
		ginGetsRaise(p.queue, dstWin.table, ginSendEnd(&p));
	return result;
}

/* Are there any without a DUMP? One of a higher index is behind them, whatever who posted it knew. */
GIN_FN bool ginGetsHidden(const struct ginSendGets *gets)
{
	return ginLocalLoad(&gets->read) > ginLocalLoad(&gets->dumped);
}

/* Writes and hands over the DUMP that was reserved. P, acquire end of the gets', release end of its own. */
GIN_FN void ginGetsDump(struct ginSendQueue *q, struct ginSendGets *gets, struct ginSendRange range,
			ginSharing sharing)
{
	ginDoneLook(&gets->read, ginSharingGpu);
	const struct ginWindowTable *into = reinterpret_cast<const struct ginWindowTable *>(
		static_cast<uintptr_t>(ginLocalLoad(&gets->into)));
	struct ginMlx5Slot slot = ginSendSlot(q->fixed, range, 0);

	slot.flags |= ginMlx5FenceAndSmall;
	ginMlx5StoreWqebb(ginSendPlace(q->fixed, range.first),
			  ginMlx5Dump(slot, {into->nicAddress, into->nicKey}, 1));
	ginEndRaise(&gets->dumped, range.first + 1);
	ginSendHandOver<const ginSendFixed &>(q, q->fixed, range, false, sharing);
}

/* A DUMP for all gets that need one, by who waits. *end is raised to where the bytes of all are there. */
GIN_FN_COLD ginResult_t ginGetsShow(struct ginSendQueue *q, uint64_t *end, struct ginPoll *poll,
				    ginSharing sharing)
{
	struct ginSendRange range = {0, 1};

	for (struct ginSendGets *gets = q->gets; gets < q->gets + 2; gets++) {
		if (ginGetsHidden(gets)) {
			ginResult_t result = ginSendClaim(q, &range, *poll, sharing);
			if (result != ginSuccess)
				return result;
			ginGetsDump(q, gets, range, sharing);
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
		if (!ginGetsHidden(gets))
			continue;
		if (!ginSendTryAgain(q, 1, 1, &range.first, sharing))
			return ginSendTicket(q);
		ginGetsDump(q, gets, range, sharing);
	}
	return ginSendTicket(q) | GIN_SEND_SHOWN;
}

#endif
