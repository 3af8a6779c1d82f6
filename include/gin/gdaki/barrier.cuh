/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.cuh - the gdaki route: what a barrier waits for, and how it tells a peer
 *
 * Before a rank tells that it has come, what it has put is in the peers' memory, as a third rank may
 * tell them. A completion says that the peer's NIC has it; PCIe may still have it under way, relaxed as
 * data is. So a barrier READs 8 bytes from each peer that something was posted to since: a READ at the
 * peer pushes all writes before it, of whatever queue pair. It goes by the barrier's own context; what
 * other contexts have posted is completed before. Theirs may be used by one thread alone, so they are
 * only looked at: of their words just `pushed` is written, which is for barriers.
 */
#ifndef GIN_GDAKI_BARRIER_CUH
#define GIN_GDAKI_BARRIER_CUH

#include "call.cuh"

/* All that was posted in the queue is completed; *end is up to where. Raises and rings nothing. */
GIN_FN_COLD ginResult_t ginGdakiDrainQueue(struct ginSendQueue *q, uint64_t *end,
					   struct ginPoll *poll)
{
	ginResult_t result = ginSendState(q);

	*end = ginSendTicket(q);
	while (result == ginSuccess && ginSendCompleted(q, ginSendDone(q, ginSharingGpu)) < *end) {
		uint64_t reserved = ginSendTicket(q);
		if (reserved < *end) /* somebody has given back */
			*end = reserved;
		result = ginSendState(q);
		if (result == ginSuccess)
			result = ginPollStep(*poll);
	}
	return result;
}

/* Posts one WQE for a barrier: a READ, or its word. By steps of its own, which need few registers. */
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

/* Sets a barrier's word at the peer, by value. All that the caller has seen comes before it. */
GIN_FN_COLD ginResult_t ginGdakiBarrierSet(const ginDevComm &dc, uint32_t context, int peer,
					   uint64_t word, uint64_t epoch, const ginOptions &options)
{
	const struct ginPeer *to = &dc.peers[peer];
	struct ginPoll poll = ginPollStart(dc, options);

	return ginGdakiBarrierPost(ginGdakiQueue(dc, context, peer),
				   {to->nicSignals + word * sizeof(uint64_t), to->nicKey}, &epoch,
				   &poll);
}

/* Posts a READ behind what a context has posted to the peer, unless one was. */
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
	/* Behind the READ's reservation: who sees this waits for that READ, too. */
	if (result == ginSuccess && q != by)
		ginEndRaise(&q->pushed, end);
	return result;
}

/* All that was posted to the peer, in all contexts: READs are on their way, or, `wait`, all is done. */
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

/* The same of words in windows of a direct peer, which have one queue. */
GIN_FN ginResult_t ginGdakiDrainShared(const ginDevComm &dc, int peer, bool wait,
				       struct ginPoll *poll)
{
	uint64_t end;

	return wait ? ginGdakiDrainQueue(ginGdakiQueue(dc, dc.contexts, peer), &end, poll)
		    : ginGdakiPushQueue(dc, dc.contexts, dc.contexts, peer, poll);
}

/* What was posted to these peers, in all contexts, is in their memory. */
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
