/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post.cuh - one work request: a put, value, get or atomic, and the signal after it
 *
 * Called by call.cuh and complete.cuh, which fill in a struct ginWork. Calls queue.cuh.
 * ginWorkPost() is the whole of it:
 *
 * 1. ginWorkReserve()   reserves room; ginWorkReserveWait() waits for it if there is none
 * 2. ginWorkWrite()     encodes the WQEs into the reserved slots
 * 3. ginWorkPublishShared() or, by a thread that has the queue for itself, ginWorkPublishAlone()
 *                       hands the WQEs over and rings
 * 4. ginSendOutcomeResult()   is what the call returns
 *
 * Lanes of a warp that post to one queue at one time, each a post of equally many WQEBBs,
 * post together (detail/reserve.cuh): one lane reserves for all, each lane writes its own
 * WQEs, and one lane hands over.
 *
 * The commonest posts do not come here: call.cuh has a fast path for them.
 */
#ifndef GIN_GDAKI_POST_CUH
#define GIN_GDAKI_POST_CUH

#include "../proxy/descriptor.h"
#include "queue.cuh"
#include "../detail/reserve.cuh"

/*
 * One post of one thread. It is in local memory, so it is filled in below the branch on the route.
 * Which members count depends on `op`.
 */
struct ginWork {
	struct ginSendQueue *queue;
	struct ginSendFixed fixed; /* a copy of queue->fixed */
	const struct ginPeer *to;  /* NULL: do not look at the peer's state */
	uint32_t context;
	enum ginOp op;
	ginSharing sharing;
	uint32_t scope;	  /* enum ginScope to which the source has yet to be released */
	uint32_t counter; /* 1 + the one to raise; 0: none */
	bool aggregate;	  /* no doorbell for this post alone */
	bool raises;	  /* a signal: the last WQE adds `add` to `word` */
	struct ginMlx5Memory remote, local, word, sink;
	uint64_t add;
	uint64_t bytes; /* of the put, get or value; width of an atomic */
	uint64_t operand, compare;
	const uint32_t *value;
	const ginDevComm *dc;
	const ginOptions *options;
	/*
	 * Set by posting: the WQEBBs of this post, its outcome, and the lanes that post together
	 * with their range.
	 */
	uint32_t wqebbs;
	uint32_t outcome; /* enum ginSent */
	struct ginTogether group;
	struct ginSendRange range;
};

/* The outcome of a post. Full: the queue has no room and nothing was done. */
enum ginSent { ginSentFull = 0, ginSentOk = 1, ginSentPeerLost = 2, ginSentQueueLost = 3 };

/* Bytes that one post moves at most: 8 WQEs, so that the smallest queue has room for it. */
#define GIN_WORK_MAX_BYTES (8ull * GIN_MLX5_MESSAGE_BYTES)

/* The one WQE of two WQEBBs. */
GIN_FN bool ginWorkIsSwap8(const struct ginWork *p)
{
	return p->op == ginOpSwap && p->bytes == 8;
}

/* WQEBBs that move data or make up an atomic. */
GIN_FN uint32_t ginWorkDataWqebbs(const struct ginWork *p)
{
	switch (p->op) {
	case ginOpPut:
	case ginOpGet:
		return static_cast<uint32_t>((p->bytes + GIN_MLX5_MESSAGE_BYTES - 1) /
					     GIN_MLX5_MESSAGE_BYTES);
	case ginOpPutValue:
		return p->bytes > GIN_MLX5_INLINE_BYTES ? 2 : 1;
	case ginOpFetchAdd:
	case ginOpCompareSwap:
	case ginOpSwap:
		return ginWorkIsSwap8(p) ? 2 : 1;
	default:
		return 0;
	}
}

/*
 * All WQEBBs of the post: the data's, then one for the signal. A NOP is added to a post of nothing
 * and to a swap of 8 bytes: the CQE of a WQE of two WQEBBs gives the index of its first,
 * so the last WQE of a post has to be one of a single WQEBB.
 */
GIN_FN uint32_t ginWorkWqebbs(const struct ginWork *p)
{
	uint32_t count = ginWorkDataWqebbs(p) + p->raises;

	if (!count || ginWorkIsSwap8(p))
		count++;
	return count;
}

/* The memory of the i-th WQE of a message that is longer than one WQE moves. */
GIN_FN struct ginMlx5Memory ginWorkPart(struct ginMlx5Memory memory, uint32_t i)
{
	memory.address += static_cast<uint64_t>(i) * GIN_MLX5_MESSAGE_BYTES;
	return memory;
}

GIN_FN uint32_t ginWorkPartBytes(const struct ginWork *p, uint32_t i)
{
	const uint64_t most = GIN_MLX5_MESSAGE_BYTES, left = p->bytes - i * most;
	return static_cast<uint32_t>(left < most ? left : most);
}

/* A value: in one WQE, or 16 bytes in the first and the rest in the second. */
GIN_FN void ginWorkStoreValue(const struct ginWork *p, struct ginMlx5Wqebb *wqe,
			      struct ginMlx5Slot slot, uint32_t i)
{
	uint32_t bytes = static_cast<uint32_t>(p->bytes);
	struct ginMlx5Memory to = {p->remote.address + 16 * i, p->remote.key};

	if (bytes > GIN_MLX5_INLINE_BYTES)
		bytes = i ? bytes - 16 : 16;
	ginMlx5StoreWqebb(wqe, ginMlx5WriteInline(slot, to, p->value + 4 * i, bytes));
}

/* Atomics of 4 bytes are masked ones. A swap compares no bit. */
GIN_FN void ginWorkStoreAtomic4(const struct ginWork *p, struct ginMlx5Wqebb *wqe,
				struct ginMlx5Slot slot)
{
	uint32_t operand = static_cast<uint32_t>(p->operand);
	uint32_t mask = p->op == ginOpSwap ? 0 : UINT32_MAX;

	if (p->op == ginOpFetchAdd)
		ginMlx5StoreWqebb(wqe,
				  ginMlx5MaskedFetchAdd4(slot, p->remote, p->local, operand, 0));
	else
		ginMlx5StoreWqebb(wqe, ginMlx5MaskedCompareSwap4(slot, p->remote, p->local,
								 {static_cast<uint32_t>(p->compare),
								  mask, operand, UINT32_MAX}));
}

/* WQEBB `i` of the two of a swap of 8 bytes. */
GIN_FN void ginWorkStoreSwap8(const struct ginWork *p, struct ginMlx5Wqebb *wqe,
			      struct ginMlx5Slot slot, uint32_t i)
{
	struct ginMlx5TwoWqebbs two = ginMlx5MaskedCompareSwap8(slot, p->remote, p->local,
								{0, 0, p->operand, UINT64_MAX});
	if (i)
		ginMlx5StoreWqebb(wqe, two.wqebb[1]);
	else
		ginMlx5StoreWqebb(wqe, two.wqebb[0]);
}

GIN_FN void ginWorkStoreAtomic8(const struct ginWork *p, struct ginMlx5Wqebb *wqe,
				struct ginMlx5Slot slot, uint32_t i)
{
	if (p->op == ginOpSwap)
		ginWorkStoreSwap8(p, wqe, slot, i);
	else if (p->op == ginOpFetchAdd)
		ginMlx5StoreWqebb(wqe, ginMlx5FetchAdd(slot, p->remote, p->local, p->operand));
	else
		ginMlx5StoreWqebb(
			wqe, ginMlx5CompareSwap(slot, p->remote, p->local, p->compare, p->operand));
}

/* The WQEs of everything but puts and signals. */
GIN_FN void ginWorkStoreRare(const struct ginWork *p, struct ginMlx5Wqebb *wqe,
			     struct ginMlx5Slot slot, uint32_t i)
{
	if (i >= ginWorkDataWqebbs(p))
		ginMlx5StoreWqebb(wqe, ginMlx5Nop(slot));
	else if (p->op == ginOpGet)
		ginMlx5StoreWqebb(wqe,
				  ginMlx5Read(slot, ginWorkPart(p->remote, i),
					      ginWorkPart(p->local, i), ginWorkPartBytes(p, i)));
	else if (p->op == ginOpPutValue)
		ginWorkStoreValue(p, wqe, slot, i);
	else if (p->bytes == 4)
		ginWorkStoreAtomic4(p, wqe, slot);
	else
		ginWorkStoreAtomic8(p, wqe, slot, i);
}

/* Encodes WQEBB `i` of this post into `wqe`. `last`: it is the last of this post. */
GIN_FN void ginWorkStore(const struct ginWork *p, struct ginMlx5Wqebb *wqe, struct ginMlx5Slot slot,
			 uint32_t i, bool last)
{
	if (p->raises && last)
		ginMlx5StoreWqebb(wqe, ginMlx5FetchAdd(slot, p->word, p->sink, p->add));
	else if (p->op == ginOpPut && p->bytes)
		ginMlx5StoreWqebb(wqe,
				  ginMlx5Write(slot, ginWorkPart(p->remote, i),
					       ginWorkPart(p->local, i), ginWorkPartBytes(p, i)));
	else
		ginWorkStoreRare(p, wqe, slot, i);
}

/*
 * Step 2: writes this post's part of the range. If the outcome is not ginSentOk the slots, already
 * reserved, become NOPs and no counter is raised.
 */
GIN_FN void ginWorkWrite(const struct ginWork *p)
{
	uint32_t at = p->group.rank * p->wqebbs;

	GIN_NO_UNROLL
	for (uint32_t i = 0; i < p->wqebbs; i++) {
		struct ginMlx5Slot slot = ginSendSlot(p->fixed, p->range, at + i);
		struct ginMlx5Wqebb *wqe = ginSendWqebb(p->fixed, p->range.first + at + i);
		if (p->outcome != ginSentOk)
			ginMlx5StoreWqebb(wqe, ginMlx5Nop(slot));
		else
			ginWorkStore(p, wqe, slot, i, i + 1 == p->wqebbs);
	}
	uint64_t last = p->range.first + at + p->wqebbs - 1;
	if (p->counter)
		ginSlotCounterSet(&p->fixed.counter[last & ginSendMask(p->fixed)],
				  p->outcome == ginSentOk ? p->counter : 0);
}

GIN_FN uint32_t ginSendOutcome(uint32_t state, uint64_t latched)
{
	if (latched)
		return ginSentQueueLost;
	return state == ginPeerAlive ? ginSentOk : ginSentPeerLost;
}

/* What the call returns; not for ginSentFull. */
GIN_FN ginResult_t ginSendOutcomeResult(uint32_t outcome, const struct ginSendQueue *q,
					const uint64_t *abortWord)
{
	if (outcome == ginSentOk)
		return ginSuccess;
	return outcome == ginSentQueueLost ? ginSendState(q) : ginPeerLost(abortWord);
}

/*
 * Reserves for up to `posts` posts of p->wqebbs each. Returns for how many; *first is the first
 * index.
 */
GIN_FN uint32_t ginWorkReserveRoom(const struct ginWork *p, uint32_t posts, bool retry,
				   uint64_t *first)
{
	uint32_t total = p->wqebbs * posts;

	if (retry || total > 1u << p->fixed.logDepth)
		return ginSendReserveFree(p->queue, p->wqebbs, posts, first, p->sharing);
	return ginSendReserveTry(p->queue, p->fixed.logDepth, total, first, p->sharing) ? posts : 0;
}

/*
 * For a thread that has the queue for itself. Looks at the peer and the queue only if there is no
 * room: otherwise ginWorkPublishAlone() does.
 */
GIN_FN bool ginWorkReserveAlone(struct ginWork *p, bool retry)
{
	uint64_t first = 0;

	p->wqebbs = ginWorkWqebbs(p);
	p->group = {1, 0, 0};
	p->outcome = ginSentOk;
	if (ginWorkReserveRoom(p, 1, retry, &first)) {
		p->range = {first, p->wqebbs};
		return true;
	}
	p->outcome = ginSendOutcome(ginPeerStateOf(p->to), ginLocalLoad(&p->queue->latched));
	return false;
}

/*
 * For threads that share the queue. The loads of the peer's and the queue's state overlap with the
 * reservation, so a lane may reserve before it knows of a failure; it then posts NOPs.
 */
GIN_FN bool ginWorkReserveShared(struct ginWork *p, bool retry)
{
	uint32_t state = ginPeerStateOf(p->to);
	uint64_t latched = ginLocalLoad(&p->queue->latched), first = 0;
	uint32_t got = 0;

	p->wqebbs = ginWorkWqebbs(p);
	p->group = ginTogetherFor(reinterpret_cast<uintptr_t>(p->queue) ^
					  static_cast<uint64_t>(p->wqebbs) << 48,
				  false);
	if (!p->group.rank)
		got = ginWorkReserveRoom(p, p->group.count, retry, &first);
	got = static_cast<uint32_t>(ginFromLeader(p->group, got));
	first = ginFromLeader(p->group, first);
	p->group = ginFirstOf(p->group, got);
	p->range = {first, got * p->wqebbs};
	p->outcome = ginSendOutcome(state, latched);
	return p->group.rank < got;
}

/* Step 1. `retry`: there was no room before. False: nothing is reserved and p->outcome says why. */
GIN_FN bool ginWorkReserve(struct ginWork *p, bool retry)
{
	if (p->sharing == ginSharingThread ? ginWorkReserveAlone(p, retry)
					   : ginWorkReserveShared(p, retry))
		return true;
	if (p->outcome == ginSentOk)
		p->outcome = ginSentFull;
	return false;
}

GIN_FN uint64_t *ginGdakiCounters(const ginDevComm &dc, uint32_t context)
{
	return dc.counter + static_cast<size_t>(context) * dc.counters;
}

/*
 * Before the doorbell, by the thread that hands over: some slot below `end` names a counter. W, N
 * and K carry both words to the thread that credits.
 */
GIN_FN void ginSendCounterFollows(struct ginSendQueue *q, uint64_t *counters, uint64_t end)
{
	ginPointerSet(&q->counters, counters);
	ginLocalMax(&q->counted, end);
}

/* The index to wait for. */
GIN_FN uint64_t ginWorkEnd(const struct ginWork *p)
{
	return p->range.first + p->range.count;
}

/*
 * Step 3 for a thread that has the queue for itself. The loads of the peer's and the queue's state
 * go on while the fence waits for the WQEs; after a failure the WQEs are overwritten by NOPs.
 */
GIN_FN void ginWorkPublishAlone(struct ginWork *p)
{
	const bool gpuMemory = p->fixed.gpuMemory && p->scope != ginScopeSystem;
	uint32_t state = ginPeerStateOf(p->to);
	uint64_t latched = ginLocalLoad(&p->queue->latched);

	ginNicFence(gpuMemory);
	p->outcome = ginSendOutcome(state, latched);
	if (p->outcome != ginSentOk) {
		ginWorkWrite(p);
		ginNicFence(gpuMemory);
	}
	if (p->counter)
		ginSendCounterFollows(p->queue, ginGdakiCounters(*p->dc, p->context),
				      ginWorkEnd(p));
	ginSendRingAlone(p->queue, p->fixed, p->range.first, p->range.first + p->range.count,
			 !p->aggregate);
}

/*
 * Step 3 for threads that share the queue: all lanes that post together call it, and one hands
 * over.
 */
GIN_FN void ginWorkPublishShared(const struct ginWork *p)
{
	bool counts = ginAnyOf(p->group, p->counter), rings = ginAnyOf(p->group, !p->aggregate);
	bool systemRelease = ginAnyOf(p->group, p->scope == ginScopeSystem);

	ginMeetAll(p->group);
	if (p->group.rank)
		return;
	if (counts)
		ginSendCounterFollows(p->queue, ginGdakiCounters(*p->dc, p->context),
				      ginWorkEnd(p));
	if (systemRelease) /* cumulative: it covers the sources of all lanes */
		ginSourceRelease(ginScopeSystem);
	ginSendHandOver<const ginSendFixed &>(p->queue, p->fixed, p->range, !rings, p->sharing);
}

/* Step 1 after ginSentFull: waits for room. */
GIN_FN_COLD ginResult_t ginWorkReserveWait(struct ginWork *p)
{
	struct ginPoll poll = ginPollStart(*p->dc, *p->options);

	while (p->outcome == ginSentFull) {
		ginResult_t result = ginSendPollStep(p->queue, poll, p->sharing);
		if (result != ginSuccess)
			return result;
		if (ginWorkReserve(p, true))
			return ginSuccess;
	}
	return ginSendOutcomeResult(p->outcome, p->queue, &p->dc->abortLine->word);
}

/* Steps 2 and 3. */
GIN_FN void ginWorkPublish(struct ginWork *p)
{
	ginWorkWrite(p);
	if (p->sharing == ginSharingThread)
		ginWorkPublishAlone(p);
	else
		ginWorkPublishShared(p);
}

/* Posts, waiting for room. */
GIN_FN_COLD ginResult_t ginWorkPost(struct ginWork *p)
{
	if (!ginWorkReserve(p, false)) {
		ginResult_t result = ginWorkReserveWait(p);
		if (result != ginSuccess)
			return result;
	}
	ginWorkPublish(p);
	return ginSendOutcomeResult(p->outcome, p->queue, &p->dc->abortLine->word);
}

#endif
