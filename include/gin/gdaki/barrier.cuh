/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.cuh - the gdaki route: what a barrier waits for, and how it signals a peer
 *
 * Called by include/gin/barrier.cuh: ginGdakiDrain() before the first round, ginGdakiBarrierSet()
 * for each word that a round sets at a peer on this route. Calls queue.cuh.
 *
 * A rank may learn from a third rank that this rank has reached the barrier. So before this rank
 * sets its first word, all of its puts have to be in the peers' memory. A completion says only
 * that the peer's NIC has the data: PCIe, which may reorder data, may still hold it. A READ at the
 * peer pushes all writes before it to memory, of whatever queue pair. So for each peer
 * ginGdakiDrain()
 *
 * 1. waits until what other contexts have posted is completed (ginGdakiDrainQueue),
 * 2. posts a READ of 8 bytes by the barrier's own context, unless `pushed` says that nothing was
 *    posted since the last one (ginGdakiPushQueue),
 * 3. in a second pass waits until everything, the READs included, is completed.
 *
 * One thread alone may use another context, so the barrier only loads the words of that context's
 * queues. The exception is `pushed`, which only barriers use.
 */
#ifndef GIN_GDAKI_BARRIER_CUH
#define GIN_GDAKI_BARRIER_CUH

#include "call.cuh"

/*
 * Waits until all that was posted in the queue is completed; *end is the index up to which.
 * Changes no index of the queue and does not ring.
 */
GIN_FN_COLD ginResult_t ginGdakiDrainQueue(struct ginSendQueue *q, uint64_t *end,
					   struct ginPoll *poll)
{
	ginResult_t result = ginSendState(q);

	*end = ginSendTicket(q);
	while (result == ginSuccess && ginSendCompleted(q, ginSendDone(q, ginSharingGpu)) < *end) {
		uint64_t reserved = ginSendTicket(q);
		if (reserved < *end) /* a thread has undone its reservation */
			*end = reserved;
		result = ginSendState(q);
		if (result == ginSuccess)
			result = ginPollStep(*poll);
	}
	return result;
}

/*
 * Posts one WQE: an inline WRITE of *epoch, or with NULL a READ. Not by post.cuh, which needs more
 * registers.
 */
GIN_FN_COLD ginResult_t ginGdakiBarrierPost(struct ginSendQueue *q, struct ginMlx5Memory remote,
					    const uint64_t *epoch, struct ginPoll *poll)
{
	struct ginSendRange range = {0, 1};
	ginResult_t result = ginSendReserveWait(q, &range, *poll, ginSharingGpu);

	if (result != ginSuccess)
		return result;
	const struct ginSendFixed &f = q->fixed;
	struct ginMlx5Wqebb *wqe = ginSendWqebb(f, range.first);
	struct ginMlx5Slot slot = ginSendSlot(f, range, 0);
	if (epoch) {
		ginMlx5StoreWqebb(wqe, ginMlx5WriteInline8(slot, remote, *epoch));
		ginLocalCas(&q->pushed, range.first, range.first + 1);
	} else {
		ginMlx5StoreWqebb(wqe, ginMlx5Read(slot, remote, {f.sink, f.sinkKey}, 8));
		ginEndRaise(&q->pushed, range.first + 1);
	}
	ginSourceRelease(ginScopeSystem);
	ginSendHandOver<const ginSendFixed &>(q, f, range, false, ginSharingGpu);
	return ginSuccess;
}

/*
 * Sets a barrier's word at the peer to `epoch`. B: ginGdakiBarrierPost() releases by
 * ginSourceRelease(), the peer acquires by ginBarrierObserve().
 */
GIN_FN_COLD ginResult_t ginGdakiBarrierSet(const ginDevComm &dc, uint32_t context, int peer,
					   uint64_t word, uint64_t epoch, const ginOptions &options)
{
	const struct ginPeer *to = &dc.peers[peer];
	struct ginPoll poll = ginPollStart(dc, options);

	return ginGdakiBarrierPost(ginGdakiQueue(dc, context, peer),
				   {to->nicSignals + word * sizeof(uint64_t), to->nicKey}, &epoch,
				   &poll);
}

/*
 * Posts a READ in context `own` after all that `context` has posted to the peer, unless one was
 * posted since.
 */
GIN_FN ginResult_t ginGdakiPushQueue(const ginDevComm &dc, uint32_t context, uint32_t own, int peer,
				     struct ginPoll *poll)
{
	struct ginSendQueue *q = ginGdakiQueue(dc, context, peer);
	struct ginSendQueue *by = ginGdakiQueue(dc, own, peer);
	const struct ginPeer *to = &dc.peers[peer];
	ginResult_t result = ginSuccess;
	uint64_t end = 0;

	if (ginDoneLook(&q->pushed, ginSharingGpu) == ginSendTicket(q))
		return ginSuccess;
	if (q != by)
		result = ginGdakiDrainQueue(q, &end, poll);
	if (result == ginSuccess)
		result = ginGdakiBarrierPost(by, {to->nicSignals, to->nicKey}, nullptr, poll);
	/* After reserving the READ: a thread that sees this `pushed` waits for that READ too. E. */
	if (result == ginSuccess && q != by)
		ginEndRaise(&q->pushed, end);
	return result;
}

/*
 * For one peer on this route, in all contexts: first pass, posts READs; second pass (`wait`),
 * waits.
 */
GIN_FN ginResult_t ginGdakiDrainPeer(const ginDevComm &dc, uint32_t own, int peer, bool wait,
				     struct ginPoll *poll)
{
	ginResult_t result = ginSuccess;
	uint64_t end;

	for (uint32_t c = 0; result == ginSuccess && c < dc.contexts; c++)
		result = wait ? ginGdakiDrainQueue(ginGdakiQueue(dc, c, peer), &end, poll)
			      : ginGdakiPushQueue(dc, c, own, peer, poll);
	return result;
}

/* The two passes for the shared queue of a direct peer, which carries words in windows. */
GIN_FN ginResult_t ginGdakiDrainShared(const ginDevComm &dc, int peer, bool wait,
				       struct ginPoll *poll)
{
	uint64_t end;

	return wait ? ginGdakiDrainQueue(ginGdakiQueue(dc, dc.contexts, peer), &end, poll)
		    : ginGdakiPushQueue(dc, dc.contexts, dc.contexts, peer, poll);
}

/* All that any context posted to these peers is in their memory. */
GIN_FN ginResult_t ginGdakiDrain(const ginDevComm &dc, uint32_t own, const ginPeerSet &peers,
				 struct ginPoll *poll)
{
	const bool words = ginLocalLoad(&dc.results[dc.contexts].words);
	ginResult_t result = ginSuccess;

	for (uint32_t i = 0; result == ginSuccess && i < 2 * peers.count; i++) {
		int peer = static_cast<int>(peers.first + i % peers.count * peers.stride);
		if (ginPeerRoute(&dc.peers[peer]) == ginRouteGdaki)
			result = ginGdakiDrainPeer(dc, own, peer, i >= peers.count, poll);
		else if (words)
			result = ginGdakiDrainShared(dc, peer, i >= peers.count, poll);
	}
	return result;
}

#endif
