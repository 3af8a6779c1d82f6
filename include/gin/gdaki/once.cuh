/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * once.cuh - the gdaki route: the commonest posts, in registers
 *
 * A put or a value of one WQE, or a signal, or both; and there is room. All else, and whoever has to
 * wait, goes by post.cuh; both reserve, hand over and ring in the same way.
 */
#ifndef GIN_GDAKI_ONCE_CUH
#define GIN_GDAKI_ONCE_CUH

#include "call.cuh"

/*
 * A call, beside its bytes. Flags are words: what a kernel always says the same is known to the compiler
 * beyond the call then, as it is not of a byte with padding behind it.
 */
struct ginCallOnce {
	struct ginSendQueue *queue;
	const struct ginPeer *to;
	ginWindow_t dst;
	size_t dstOff;
	struct ginSignalOp remote;
	uint32_t firstSignal; /* of the context */
	int peer;
	uint32_t sharing; /* enum ginSharing */
	uint32_t hold;
};

/* What is posted, as far as it takes loads to know. */
struct ginSendOnce {
	struct ginMlx5Memory remote, local, word;
	const uint32_t *value; /* the bytes, as words; NULL: they are at `local` */
	uint64_t add;
	uint32_t counter; /* 1 + the one to raise; 0: none */
	uint32_t bytes;	  /* 0: the signal alone */
	bool raises;
	bool far; /* a source that has yet to be released to the system */
};

/* The bytes of a put; of a signal alone none, in no window. */
struct ginSourceOnce {
	ginWindow_t window;
	size_t offset;
	uint64_t *counters; /* the context's */
	uint32_t counter;   /* 1 + the one to raise; 0: none */
	uint32_t bytes;
	uint32_t given, required; /* enum ginScope, as in ginOptions */

	GIN_FN void describe(struct ginSendOnce *s) const
	{
		const struct ginWindowTable *table = window.table;
		uint32_t needed = required;

		if (bytes) {
			s->local = {table->nicAddress + offset, table->nicKey};
			if (needed < table->fence)
				needed = table->fence;
		}
		s->far = needed == ginScopeSystem && given < needed;
	}
};

/* Those of a value. */
struct ginValueOnce {
	uint32_t word[GIN_MLX5_INLINE_BYTES / 4];
	uint32_t bytes;
	static constexpr uint64_t *counters = nullptr;
	static constexpr uint32_t counter = 0;

	GIN_FN void describe(struct ginSendOnce *s) const { s->value = word; }
};

template <class Bytes>
GIN_FN uint32_t ginSendOnceCount(const struct ginCallOnce &call, const Bytes &bytes)
{
	return (bytes.bytes ? 1 : 0) + call.remote.present;
}

template <class Bytes>
GIN_FN struct ginSendOnce ginSendOnceOf(const struct ginCallOnce &call, const Bytes &bytes)
{
	struct ginSendOnce s = {};

	s.bytes = bytes.bytes;
	s.counter = bytes.counter;
	s.raises = call.remote.present;
	bytes.describe(&s);
	if (s.bytes)
		s.remote = ginSendThere(call.dst, call.dstOff, call.peer);
	if (s.raises) {
		s.word = ginSendWord(call.to, call.firstSignal, call.peer, call.remote);
		s.add = call.remote.value;
	}
	return s;
}

/* A WQE of the range, at its place; a NOP, when it goes nowhere. */
GIN_FN void ginSendOnceStore(const struct ginSendFixed &f, struct ginSendRange range, uint32_t i,
			     const ginMlx5Wqebb &wqe, bool well)
{
	struct ginMlx5Wqebb *place = ginSendPlace(f, range.first + i);

	if (well)
		ginMlx5StoreWqebb(place, wqe);
	else
		ginMlx5StoreWqebb(place, ginMlx5Nop(ginSendSlot(f, range, i)));
}

/* Of the bytes. */
GIN_FN struct ginMlx5Wqebb ginSendOnceMove(const struct ginSendOnce &s, struct ginMlx5Slot slot)
{
	return s.value ? ginMlx5WriteInline(slot, s.remote, s.value, s.bytes)
		       : ginMlx5Write(slot, s.remote, s.local, s.bytes);
}

/* This thread's WQEs, from index `at` of the range on. */
GIN_FN void ginSendOnceWrite(const struct ginSendOnce &s, const struct ginSendFixed &f,
			     struct ginSendRange range, uint32_t at, bool well)
{
	uint32_t i = at;

	if (s.bytes) {
		struct ginMlx5Slot slot = ginSendSlot(f, range, i);
		ginSendOnceStore(f, range, i++, ginSendOnceMove(s, slot), well);
	}
	if (s.raises) {
		struct ginMlx5Slot slot = ginSendSlot(f, range, i);
		ginSendOnceStore(f, range, i++,
				 ginMlx5FetchAdd(slot, s.word, {f.sink, f.sinkKey}, s.add), well);
	}
	if (s.counter)
		ginSlotCounterSet(&f.counter[(range.first + i - 1) & ginSendMask(f)],
				  well ? s.counter : 0);
}

/* By a thread that has the queue for itself: the looks go on while the fence waits for the WQEs. */
template <class Bytes>
GIN_FN uint32_t ginSendOnceAlone(const struct ginCallOnce &call, const Bytes &bytes)
{
	struct ginSendQueue *q = call.queue;
	const struct ginSendOnce s = ginSendOnceOf(call, bytes);
	const struct ginSendFixed f = ginSendFixedOf(q);
	const bool near = f.near && !s.far;
	struct ginSendRange range = {0, ginSendOnceCount(call, bytes)};

	if (!ginSendTry(q, f.logDepth, range.count, &range.first, ginSharingThread))
		return ginSentFull;
	ginSendOnceWrite(s, f, range, 0, true);
	uint32_t state = ginPeerObserve(call.to).state;
	uint64_t latched = ginLocalLoad(&q->latched);
	ginNicFence(near);
	uint32_t fate = ginSendFate(state, latched);
	if (fate != ginSentWell) {
		ginSendOnceWrite(s, f, range, 0, false);
		ginNicFence(near);
	}
	if (s.counter)
		ginSendCounts(q, bytes.counters, range.first + range.count);
	ginSendAlone(q, f, range.first, range.first + range.count, !call.hold);
	return fate;
}

/*
 * Others may post theirs along. The way of the reservation from memory is the longest: it goes first, and
 * needs nothing that takes a load, so that all others are under way beside it.
 */
template <class Bytes>
GIN_FN uint32_t ginSendOnceShared(const struct ginCallOnce &call, const Bytes &bytes)
{
	struct ginSendQueue *q = call.queue;
	const ginSharing sharing = static_cast<ginSharing>(call.sharing);
	const uint32_t each = ginSendOnceCount(call, bytes);
	uint32_t state = ginPeerObserve(call.to).state;
	uint64_t latched = ginLocalLoad(&q->latched);
	uint64_t kind = each | (bytes.counter ? 4 : 0); /* those who count are together, too */
	struct ginTogether all = ginTogetherFor(reinterpret_cast<uintptr_t>(q) ^ kind << 48, false);
	struct ginSendRange range = {0, each * all.count};

	if (!all.rank)
		range.first = ginTicketAdd(&q->reserved, range.count);
	const struct ginSendOnce s = ginSendOnceOf(call, bytes);
	const struct ginSendFixed f = ginSendFixedOf(q);
	uint64_t done = ginSendDone(q, sharing);
	bool room =
		!all.rank && ginSendKeep(q, f.logDepth, range.count, range.first, done, sharing);
	if (!ginFromLeader(all, room))
		return ginSentFull;
	range.first = ginFromLeader(all, range.first);
	uint32_t fate = ginSendFate(state, latched);
	ginSendOnceWrite(s, f, range, all.rank * each, fate == ginSentWell);
	bool rings = ginAnyOf(all, !call.hold), far = ginAnyOf(all, s.far);
	ginMeetAll(all);
	if (all.rank)
		return fate;
	if (s.counter)
		ginSendCounts(q, bytes.counters, range.first + range.count);
	if (far) /* cumulative: it stands for all of them */
		ginSourceRelease(ginScopeSystem);
	ginSendHandOver(q, f, range, !rings, sharing);
	return fate;
}

template <class Bytes>
GIN_FN uint32_t ginSendOncePost(const struct ginCallOnce &call, const Bytes &bytes)
{
	return call.sharing == ginSharingThread ? ginSendOnceAlone(call, bytes)
						: ginSendOnceShared(call, bytes);
}

/* enum ginSent; ginSentFull: nothing is done, and it is for post.cuh. */
GIN_FN_COLD uint32_t ginSendPutOnce(struct ginCallOnce call, struct ginSourceOnce source)
{
	return ginSendOncePost(call, source);
}

GIN_FN_COLD uint32_t ginSendValueOnce(struct ginCallOnce call, struct ginValueOnce value)
{
	return ginSendOncePost(call, value);
}

#endif
