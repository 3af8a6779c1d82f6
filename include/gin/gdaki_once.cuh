/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gdaki_once.cuh - the gdaki route: the commonest posts, in registers
 *
 * A put of one WQE, or its signal, or both; there is room, and nothing counts. All else, and whoever has
 * to wait, goes by gdaki_post.cuh; both reserve, hand over and ring in the same way.
 */
#ifndef GIN_GDAKI_ONCE_CUH
#define GIN_GDAKI_ONCE_CUH

#include "gdaki_call.cuh"

struct ginSendOnce {
	struct ginSendQueue *queue;
	const struct ginPeer *to;
	struct ginMlx5Memory remote, local, word;
	uint64_t add;
	uint32_t bytes; /* 0: the signal alone */
	bool raises;
	bool far; /* a source that has yet to be released to the system */
	bool hold;
};

GIN_FN uint32_t ginSendOnceCount(const struct ginSendOnce &s)
{
	return (s.bytes ? 1 : 0) + s.raises;
}

/* A WQE of the range, at its place; a NOP, when it goes nowhere. */
GIN_FN void ginSendOnceStore(struct ginSendQueue *q, struct ginSendRange range, uint32_t i,
			     const ginMlx5Wqebb &wqe, bool well)
{
	struct ginMlx5Wqebb *place = ginSendPlace(q, range.first + i);

	if (well)
		ginMlx5StoreWqebb(place, wqe);
	else
		ginMlx5StoreWqebb(place, ginMlx5Nop(ginSendSlot(q, range, i)));
}

/* This thread's WQEs, from index `at` of the range on. */
GIN_FN void ginSendOnceWrite(const struct ginSendOnce &s, struct ginSendRange range, uint32_t at,
			     bool well)
{
	struct ginSendQueue *q = s.queue;
	uint32_t i = at;

	if (s.bytes) {
		struct ginMlx5Slot slot = ginSendSlot(q, range, i);
		ginSendOnceStore(q, range, i++, ginMlx5Write(slot, s.remote, s.local, s.bytes),
				 well);
	}
	if (s.raises) {
		struct ginMlx5Slot slot = ginSendSlot(q, range, i);
		ginSendOnceStore(q, range, i,
				 ginMlx5FetchAdd(slot, s.word, {q->sink, q->sinkKey}, s.add), well);
	}
}

/* By a thread that has the queue for itself: the looks go on while the fence waits for the WQEs. */
GIN_FN uint32_t ginSendOnceAlone(const struct ginSendOnce &s)
{
	struct ginSendQueue *q = s.queue;
	const bool near = q->near && !s.far;
	struct ginSendRange range = {0, ginSendOnceCount(s)};

	if (!ginSendTry(q, range.count, &range.first, ginSharingThread))
		return ginSentFull;
	ginSendOnceWrite(s, range, 0, true);
	uint32_t state = ginPeerObserve(s.to).state;
	uint64_t latched = ginLocalLoad(&q->latched);
	ginNicFence(near);
	uint32_t fate = ginSendFate(state, latched);
	if (fate != ginSentWell) {
		ginSendOnceWrite(s, range, 0, false);
		ginNicFence(near);
	}
	ginSendAlone(q, range.first, range.first + range.count, !s.hold);
	return fate;
}

/* Others may post theirs along. */
GIN_FN uint32_t ginSendOnceShared(const struct ginSendOnce &s, ginSharing sharing)
{
	struct ginSendQueue *q = s.queue;
	uint32_t each = ginSendOnceCount(s);
	uint32_t state = ginPeerObserve(s.to).state;
	uint64_t latched = ginLocalLoad(&q->latched), first = 0;
	struct ginTogether all = ginTogetherFor(
		reinterpret_cast<uintptr_t>(q) ^ static_cast<uint64_t>(each) << 48, false);
	bool room = !all.rank && each * all.count <= 1u << q->logDepth &&
		    ginSendTry(q, each * all.count, &first, sharing);

	if (!ginFromLeader(all, room))
		return ginSentFull;
	first = ginFromLeader(all, first);
	struct ginSendRange range = {first, each * all.count};
	uint32_t fate = ginSendFate(state, latched);
	ginSendOnceWrite(s, range, all.rank * each, fate == ginSentWell);
	bool rings = ginAnyOf(all, !s.hold), far = ginAnyOf(all, s.far);
	ginMeetAll(all);
	if (all.rank)
		return fate;
	if (far) /* cumulative: it stands for all of them */
		ginSourceRelease(ginScopeSystem);
	ginSendHandOver(q, range, !rings, sharing);
	return fate;
}

/* A put, or with no bytes its signal, as the caller has it. */
struct ginPutOnce {
	struct ginSendQueue *queue;
	const struct ginPeer *to;
	ginWindow_t dst, src;
	size_t dstOff, srcOff;
	struct ginSignalOp remote;
	uint32_t firstSignal; /* of the context */
	uint32_t bytes;
	int peer;
	uint8_t given, required; /* enum ginScope, as in ginOptions */
	uint8_t sharing;	 /* enum ginSharing */
	bool hold;
};

/* enum ginSent; ginSentFull: nothing is done, and it is for gdaki_post.cuh. */
GIN_FN_COLD uint32_t ginSendPutOnce(struct ginPutOnce put)
{
	struct ginSendOnce s = {};

	s.queue = put.queue;
	s.to = put.to;
	s.bytes = put.bytes;
	s.raises = put.remote.present;
	s.hold = put.hold;
	uint32_t required = put.required;
	if (s.bytes) {
		s.remote = ginSendThere(put.dst, put.dstOff, put.peer);
		s.local = {put.src.table->nicAddress + put.srcOff, put.src.table->nicKey};
		if (required < put.src.table->fence)
			required = put.src.table->fence;
	}
	s.far = required == ginScopeSystem && put.given < required;
	if (s.raises) {
		s.word = ginSendWord(put.to, put.firstSignal, put.peer, put.remote);
		s.add = put.remote.value;
	}
	ginSharing sharing = static_cast<ginSharing>(put.sharing);
	return sharing == ginSharingThread ? ginSendOnceAlone(s) : ginSendOnceShared(s, sharing);
}

#endif
