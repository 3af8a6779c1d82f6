/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post.cuh - one post to a send queue: WQEs of one kind, and what is raised behind them
 *
 * Threads of a warp that post to the same queue at the same time, each its own post of as many WQEBBs,
 * do so together: one of them reserves for all, each writes its own, and one hands over and rings.
 */
#ifndef GIN_GDAKI_POST_CUH
#define GIN_GDAKI_POST_CUH

#include "../proxy/descriptor.h"
#include "queue.cuh"
#include "../detail/together.cuh"

/*
 * A post on its way, as one thread makes it. In memory, behind the look at the route.
 * Which members count depends on `op`.
 */
struct ginSend {
	struct ginSendQueue *queue;
	struct ginSendFixed fixed; /* the queue's */
	const struct ginPeer *to;  /* NULL: whatever the peer's state is */
	uint32_t context;
	enum ginOp op;
	ginSharing sharing;
	uint32_t scope;	  /* how far the source has yet to be released, beyond what the queue is */
	uint32_t counter; /* 1 + the one to raise; 0: none */
	bool hold;	  /* others follow, which ring */
	bool raises;	  /* adds `add` to the peer's `word` behind all else */
	struct ginMlx5Memory remote, local, word, sink;
	uint64_t add;
	uint64_t bytes; /* put, get; of a value; of an atomic's word */
	uint64_t operand, compare;
	const uint32_t *value;
	const ginDevComm *dc;
	const ginOptions *options;
	/* What becomes of it; `all`, who post together, have `range`, and this one `each` of it. */
	uint32_t each, fate; /* enum ginSent */
	struct ginTogether all;
	struct ginSendRange range;
};

/* These, or the queue's error. */
enum ginSent { ginSentFull = 0, ginSentWell = 1, ginSentPeerLost = 2, ginSentQueueLost = 3 };

/* Bytes that one post moves at most, so that the least depth has room for it. */
#define GIN_SEND_BYTES (8ull * GIN_MLX5_MESSAGE_BYTES)

GIN_FN bool ginSendIsSwap8(const struct ginSend *p)
{
	return p->op == ginOpSwap && p->bytes == 8;
}

/* WQEBBs that move data, or are an atomic's. */
GIN_FN uint32_t ginSendMoves(const struct ginSend *p)
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
		return ginSendIsSwap8(p) ? 2 : 1;
	default:
		return 0;
	}
}

/*
 * What stands behind them: a NOP whose CQE counts two WQEBBs of one WQE; then what is raised. A post of
 * nothing is a NOP.
 */
GIN_FN uint32_t ginSendCount(const struct ginSend *p)
{
	uint32_t count = ginSendMoves(p) + p->raises;

	if (!count || ginSendIsSwap8(p))
		count++;
	return count;
}

/* The i-th part of a message that is longer than one may be. */
GIN_FN struct ginMlx5Memory ginSendPart(struct ginMlx5Memory memory, uint32_t i)
{
	memory.address += static_cast<uint64_t>(i) * GIN_MLX5_MESSAGE_BYTES;
	return memory;
}

GIN_FN uint32_t ginSendPartBytes(const struct ginSend *p, uint32_t i)
{
	const uint64_t most = GIN_MLX5_MESSAGE_BYTES, left = p->bytes - i * most;
	return static_cast<uint32_t>(left < most ? left : most);
}

/* A value: all in one WQE, or 16 bytes and the rest. */
GIN_FN void ginSendValue(const struct ginSend *p, struct ginMlx5Wqebb *place,
			 struct ginMlx5Slot slot, uint32_t i)
{
	uint32_t bytes = static_cast<uint32_t>(p->bytes);
	struct ginMlx5Memory to = {p->remote.address + 16 * i, p->remote.key};

	if (bytes > GIN_MLX5_INLINE_BYTES)
		bytes = i ? bytes - 16 : 16;
	ginMlx5StoreWqebb(place, ginMlx5WriteInline(slot, to, p->value + 4 * i, bytes));
}

/* Of 4 bytes; a swap compares no bit. */
GIN_FN void ginSendAtomic4(const struct ginSend *p, struct ginMlx5Wqebb *place,
			   struct ginMlx5Slot slot)
{
	uint32_t operand = static_cast<uint32_t>(p->operand);
	uint32_t mask = p->op == ginOpSwap ? 0 : UINT32_MAX;

	if (p->op == ginOpFetchAdd)
		ginMlx5StoreWqebb(place,
				  ginMlx5MaskedFetchAdd4(slot, p->remote, p->local, operand, 0));
	else
		ginMlx5StoreWqebb(place,
				  ginMlx5MaskedCompareSwap4(slot, p->remote, p->local,
							    {static_cast<uint32_t>(p->compare),
							     mask, operand, UINT32_MAX}));
}

/* The first WQEBB of two, or the second. */
GIN_FN void ginSendSwap8(const struct ginSend *p, struct ginMlx5Wqebb *place,
			 struct ginMlx5Slot slot, uint32_t i)
{
	struct ginMlx5TwoWqebbs two = ginMlx5MaskedCompareSwap8(slot, p->remote, p->local,
								{0, 0, p->operand, UINT64_MAX});
	if (i)
		ginMlx5StoreWqebb(place, two.wqebb[1]);
	else
		ginMlx5StoreWqebb(place, two.wqebb[0]);
}

GIN_FN void ginSendAtomic8(const struct ginSend *p, struct ginMlx5Wqebb *place,
			   struct ginMlx5Slot slot, uint32_t i)
{
	if (p->op == ginOpSwap)
		ginSendSwap8(p, place, slot, i);
	else if (p->op == ginOpFetchAdd)
		ginMlx5StoreWqebb(place, ginMlx5FetchAdd(slot, p->remote, p->local, p->operand));
	else
		ginMlx5StoreWqebb(place, ginMlx5CompareSwap(slot, p->remote, p->local, p->compare,
							    p->operand));
}

/* All but puts and signals. */
GIN_FN void ginSendStore(const struct ginSend *p, struct ginMlx5Wqebb *place,
			 struct ginMlx5Slot slot, uint32_t i)
{
	if (i >= ginSendMoves(p))
		ginMlx5StoreWqebb(place, ginMlx5Nop(slot));
	else if (p->op == ginOpGet)
		ginMlx5StoreWqebb(place,
				  ginMlx5Read(slot, ginSendPart(p->remote, i),
					      ginSendPart(p->local, i), ginSendPartBytes(p, i)));
	else if (p->op == ginOpPutValue)
		ginSendValue(p, place, slot, i);
	else if (p->bytes == 4)
		ginSendAtomic4(p, place, slot);
	else
		ginSendAtomic8(p, place, slot, i);
}

/* The i-th of this thread's, at its place; `slot.flags` say whether it is the last of all. */
GIN_FN void ginSendStoreOne(const struct ginSend *p, struct ginMlx5Wqebb *place,
			    struct ginMlx5Slot slot, uint32_t i, bool last)
{
	if (p->raises && last)
		ginMlx5StoreWqebb(place, ginMlx5FetchAdd(slot, p->word, p->sink, p->add));
	else if (p->op == ginOpPut && p->bytes)
		ginMlx5StoreWqebb(place,
				  ginMlx5Write(slot, ginSendPart(p->remote, i),
					       ginSendPart(p->local, i), ginSendPartBytes(p, i)));
	else
		ginSendStore(p, place, slot, i);
}

/* Writes this thread's part of the range; NOPs when its post goes nowhere. */
GIN_FN void ginSendWrite(const struct ginSend *p)
{
	uint32_t at = p->all.rank * p->each;

	GIN_NO_UNROLL
	for (uint32_t i = 0; i < p->each; i++) {
		struct ginMlx5Slot slot = ginSendSlot(p->fixed, p->range, at + i);
		struct ginMlx5Wqebb *place = ginSendPlace(p->fixed, p->range.first + at + i);
		if (p->fate != ginSentWell)
			ginMlx5StoreWqebb(place, ginMlx5Nop(slot));
		else
			ginSendStoreOne(p, place, slot, i, i + 1 == p->each);
	}
	uint64_t last = p->range.first + at + p->each - 1;
	if (p->counter)
		ginSlotCounterSet(&p->fixed.counter[last & ginSendMask(p->fixed)],
				  p->fate == ginSentWell ? p->counter : 0);
}

GIN_FN uint32_t ginSendFate(uint32_t state, uint64_t latched)
{
	if (latched)
		return ginSentQueueLost;
	return state == ginPeerAlive ? ginSentWell : ginSentPeerLost;
}

/* What the call returns; not for ginSentFull. */
GIN_FN ginResult_t ginSendResult(uint32_t fate, const struct ginSendQueue *q,
				 const uint64_t *abortWord)
{
	if (fate == ginSentWell)
		return ginSuccess;
	return fate == ginSentQueueLost ? ginSendState(q) : ginPeerLost(abortWord);
}

/* Room for as many as there is of `posts` posts of `each` WQEBBs; how many, and from where on. */
GIN_FN uint32_t ginSendRoom(const struct ginSend *p, uint32_t posts, bool again, uint64_t *first)
{
	uint32_t all = p->each * posts;

	if (again || all > 1u << p->fixed.logDepth)
		return ginSendTryAgain(p->queue, p->each, posts, first, p->sharing);
	return ginSendTry(p->queue, p->fixed.logDepth, all, first, p->sharing) ? posts : 0;
}

/* Reserves; false: there was no room. By a thread that has the queue for itself: ginSendGo looks. */
GIN_FN bool ginSendReserveAlone(struct ginSend *p, bool again)
{
	uint64_t first = 0;

	p->each = ginSendCount(p);
	p->all = {1, 0, 0};
	p->fate = ginSentWell;
	if (ginSendRoom(p, 1, again, &first)) {
		p->range = {first, p->each};
		return true;
	}
	p->fate = ginSendFate(ginPeerStateOf(p->to), ginLocalLoad(&p->queue->latched));
	return false;
}

/*
 * The same together with others. The looks at the peer and the queue and the ticket's way from memory
 * overlap: who has reserved and then sees that one of them has failed posts NOPs.
 */
GIN_FN bool ginSendReserveShared(struct ginSend *p, bool again)
{
	uint32_t state = ginPeerStateOf(p->to);
	uint64_t latched = ginLocalLoad(&p->queue->latched), first = 0;
	uint32_t got = 0;

	p->each = ginSendCount(p);
	p->all = ginTogetherFor(reinterpret_cast<uintptr_t>(p->queue) ^
					static_cast<uint64_t>(p->each) << 48,
				false);
	if (!p->all.rank)
		got = ginSendRoom(p, p->all.count, again, &first);
	got = static_cast<uint32_t>(ginFromLeader(p->all, got));
	first = ginFromLeader(p->all, first);
	p->all = ginFirstOf(p->all, got);
	p->range = {first, got * p->each};
	p->fate = ginSendFate(state, latched);
	return p->all.rank < got;
}

/* `again`: it was tried before. False: nothing is reserved, and p->fate says why. */
GIN_FN bool ginSendReserve(struct ginSend *p, bool again)
{
	if (p->sharing == ginSharingThread ? ginSendReserveAlone(p, again)
					   : ginSendReserveShared(p, again))
		return true;
	if (p->fate == ginSentWell)
		p->fate = ginSentFull;
	return false;
}

/* The counters of a context. */
GIN_FN uint64_t *ginSendCounters(const ginDevComm &dc, uint32_t context)
{
	return dc.counter + static_cast<size_t>(context) * dc.counters;
}

/* By the one who hands over: some below `end` count. Before the doorbell, as the slots' counters. */
GIN_FN void ginSendCounts(struct ginSendQueue *q, uint64_t *counters, uint64_t end)
{
	ginPointerSet(&q->counters, counters);
	ginLocalMax(&q->counted, end);
}

/* What to wait for, once it is posted. */
GIN_FN uint64_t ginSendEnd(const struct ginSend *p)
{
	return p->range.first + p->range.count;
}

/*
 * By a thread that has the queue for itself: the looks at the peer and the queue go on while the fence
 * waits for the WQEs. When one of them has failed the WQEs become NOPs.
 */
GIN_FN void ginSendGo(struct ginSend *p)
{
	const bool near = p->fixed.near && p->scope != ginScopeSystem;
	uint32_t state = ginPeerStateOf(p->to);
	uint64_t latched = ginLocalLoad(&p->queue->latched);

	ginNicFence(near);
	p->fate = ginSendFate(state, latched);
	if (p->fate != ginSentWell) {
		ginSendWrite(p);
		ginNicFence(near);
	}
	if (p->counter)
		ginSendCounts(p->queue, ginSendCounters(*p->dc, p->context), ginSendEnd(p));
	ginSendAlone(p->queue, p->fixed, p->range.first, p->range.first + p->range.count, !p->hold);
}

/* By all who have written: one of them hands over, and rings. */
GIN_FN void ginSendTogether(const struct ginSend *p)
{
	bool counts = ginAnyOf(p->all, p->counter), rings = ginAnyOf(p->all, !p->hold);
	bool far = ginAnyOf(p->all, p->scope == ginScopeSystem);

	ginMeetAll(p->all);
	if (p->all.rank)
		return;
	if (counts)
		ginSendCounts(p->queue, ginSendCounters(*p->dc, p->context), ginSendEnd(p));
	if (far) /* cumulative: it stands for all of them */
		ginSourceRelease(ginScopeSystem);
	ginSendHandOver<const ginSendFixed &>(p->queue, p->fixed, p->range, !rings, p->sharing);
}

/* Waits until there is room. */
GIN_FN_COLD ginResult_t ginSendReserveWaiting(struct ginSend *p)
{
	struct ginPoll poll = ginPollStart(*p->dc, *p->options);

	while (p->fate == ginSentFull) {
		ginResult_t result = ginSendPollStep(p->queue, poll, p->sharing);
		if (result != ginSuccess)
			return result;
		if (ginSendReserve(p, true))
			return ginSuccess;
	}
	return ginSendResult(p->fate, p->queue, &p->dc->abortLine->word);
}

/* Once it is reserved. */
GIN_FN void ginSendReserved(struct ginSend *p)
{
	ginSendWrite(p);
	if (p->sharing == ginSharingThread)
		ginSendGo(p);
	else
		ginSendTogether(p);
}

/* Posts, and waits for room. Others may post theirs along. */
GIN_FN_COLD ginResult_t ginSendPost(struct ginSend *p)
{
	if (!ginSendReserve(p, false)) {
		ginResult_t result = ginSendReserveWaiting(p);
		if (result != ginSuccess)
			return result;
	}
	ginSendReserved(p);
	return ginSendResult(p->fate, p->queue, &p->dc->abortLine->word);
}

#endif
