/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.cuh - the gdaki route: how a barrier drains send queues and signals a peer
 *
 * Called by include/gin/barrier.cuh: ginGdakiDrain() before the first round, ginGdakiBarrierSet()
 * for each word that a round sets at a peer on this route. Calls queue.cuh.
 *
 * A rank may learn from a third rank that this rank has reached the barrier. So before this rank
 * sets its first word, all of its puts have to be in the peers' memory. A completion says only that
 * the peer's NIC has the data: PCIe, which may reorder data, may not have delivered it. A READ at
 * the peer pushes all earlier writes of all queue pairs to memory. So for each peer ginGdakiDrain()
 *
 * 1. waits until all posts of other contexts are completed (ginGdakiDrainQueue),
 * 2. posts a READ of 8 bytes by the barrier's own context, unless `pushed` says that nothing was
 *    posted since the last READ (ginGdakiPush),
 * 3. in a second pass waits until everything, the READs included, is completed.
 *
 * One thread alone may use another context, so the barrier only loads the words of that context's
 * queues. The exception is `pushed`, which only barriers use.
 */
#ifndef GIN_GDAKI_BARRIER_CUH
#define GIN_GDAKI_BARRIER_CUH

#include "call.cuh"

/*
 * Waits until all posts in the queue are completed: the WQEBBs below *end. Changes no index of the
 * queue and does not ring.
 */
GIN_FN ginResult_t ginGdakiDrainQueue(struct ginSendQueue *q, uint64_t *end,
				      struct ginSendPatience &wait)
{
	ginResult_t result = ginSendState(q);

	*end = ginSendTicket(q);
	while (result == ginSuccess && ginSendCompleted(q, ginSendDone(q, ginSharingGpu)) < *end) {
		uint64_t reserved = ginSendTicket(q);
		if (reserved < *end) /* a thread has undone its reservation */
			*end = reserved;
		result = ginSendState(q);
		if (result == ginSuccess)
			result = ginResultOf(ginSendPatienceStep(wait));
	}
	return result;
}

/* Hands over the one WQE of a barrier and rings. N, release end: the fence covers direct puts. */
GIN_FN void ginGdakiBarrierRing(struct ginSendQueue *q, struct ginSendRange range)
{
	ginSourceRelease(ginScopeSystem);
	ginSendHandOver(q, q->fixed, range, false, ginSharingGpu);
}

/*
 * Sets a barrier's word at the peer to `epoch`, by an inline WRITE. B: releases by
 * ginSourceRelease(), the peer acquires by ginBarrierObserve(). `word`: the number of the word
 * among the peer's signals.
 */
GIN_FN ginResult_t ginGdakiBarrierSet(const ginDevComm *dc, struct ginSendQueue *q,
				      const struct ginPeer *peer, uint64_t word, uint64_t epoch,
				      uint64_t timeout, uint64_t from)
{
	struct ginSendPatience wait = ginSendPatienceStart(dc, timeout, from);
	struct ginSendRange range = {0, 1};
	ginResult_t result = ginSendReserveWait(q, &range, wait, ginSharingGpu);

	if (result != ginSuccess)
		return result;
	ginMlx5StoreWqebb(
		ginSendWqebb(q->fixed, range.first),
		ginMlx5WriteInline8(ginSendSlot(q->fixed, range, 0),
				    {peer->nicSignals + word * sizeof(uint64_t), peer->nicKey},
				    epoch));
	ginLocalCas(&q->pushed, range.first, range.first + 1);
	ginGdakiBarrierRing(q, range);
	return ginSuccess;
}

/* Posts a READ of 8 bytes at the peer `number`, in the queue of a context. */
GIN_FN_COLD ginResult_t ginGdakiPush(const ginDevComm *dc, uint32_t context, int number,
				     uint64_t deadline, uint64_t from)
{
	struct ginSendPatience wait = {dc, deadline, from, 0};
	struct ginSendQueue *q = ginGdakiQueue(*dc, context, number);
	struct ginSendRange range = {0, 1};
	ginResult_t result = ginSendReserveWait(q, &range, wait, ginSharingGpu);

	if (result != ginSuccess)
		return result;
	const struct ginPeer *peer = &dc->peers[ginUnshared(static_cast<uint32_t>(number))];
	ginMlx5StoreWqebb(ginSendWqebb(q->fixed, range.first),
			  ginMlx5Read(ginSendSlot(q->fixed, range, 0),
				      {peer->nicSignals, peer->nicKey},
				      {q->fixed.sink, q->fixed.sinkKey}, 8));
	ginEndRaise(&q->pushed, range.first + 1);
	ginGdakiBarrierRing(q, range);
	return ginSuccess;
}

/*
 * For the queue of context `c` to the peer `number`; dc->contexts: the shared queue of a direct
 * peer. First pass: posts a READ in the queue of context `own` after all posts of the queue, unless
 * a READ follows them already. Second pass (`wait`): waits.
 */
GIN_FN ginResult_t ginGdakiDrainStep(const ginDevComm *dc, uint32_t c, uint32_t own, int number,
				     bool wait, uint64_t deadline, uint64_t from)
{
	struct ginSendPatience patience = {dc, deadline, from, 0};
	struct ginSendQueue *q = ginGdakiQueue(*dc, c, number);
	const bool pushed = ginDoneLook(&q->pushed, ginSharingGpu) == ginSendTicket(q);
	ginResult_t result = ginSuccess;
	uint64_t end = 0;

	if (!wait && pushed)
		return ginSuccess;
	if (wait || c != own)
		result = ginGdakiDrainQueue(q, &end, patience);
	if (wait || result != ginSuccess)
		return result;
	result = ginGdakiPush(dc, own, number, deadline, from);
	/*
	 * After the READ is reserved: a thread that sees this `pushed` waits for the READ, too. P.
	 */
	if (result == ginSuccess && c != own)
		ginEndRaise(&q->pushed, end);
	return result;
}

/*
 * When it returns, all that any context posted to these peers is in their memory. In two passes
 * over the peers: all queues to a peer on this route; for a direct peer its shared queue, which
 * carries words in windows, if it was ever used.
 */
GIN_FN ginResult_t ginGdakiDrain(const ginDevComm *dc, uint32_t own, uint64_t peers,
				 uint64_t timeout, uint64_t from)
{
	const struct ginPeerSet set = ginFromUnpack(peers);
	const uint64_t deadline = ginSendPatienceStart(dc, timeout, from).deadline;
	ginResult_t result = ginSuccess;

	GIN_NO_UNROLL
	for (uint32_t i = 0; i < 2 * set.count; i++) {
		const uint32_t at = ginUnshared(i);
		int number = static_cast<int>(set.first + at % set.count * set.stride);
		bool nic = ginPeerRoute(&dc->peers[number]) == ginRouteGdaki;
		uint32_t c = 0, end = dc->contexts;
		if (!nic) {
			c = end;
			end += ginLocalLoad(&dc->results[c].words) != 0;
		}
		GIN_NO_UNROLL
		for (; c < end; c++) {
			result = ginGdakiDrainStep(dc, c, nic ? own : c, number, at >= set.count,
						   deadline, from);
			if (result != ginSuccess)
				return result;
		}
	}
	return result;
}

#endif
