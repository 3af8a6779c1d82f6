/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post.cuh - one post: a put, value, get or atomic, and the signal after it
 *
 * Called by call.cuh and complete.cuh, which fill in a struct ginWork. Calls queue.cuh. A post
 * reserves room (ginWorkReserve...), writes its WQEs (ginWorkWrite), hands them over and rings
 * (ginWorkHandOver, or ginWorkRingAlone for a thread that has the queue for itself).
 *
 * Lanes of a warp that post to one queue at one time, each a post of equally many WQEBBs, post
 * together (detail/reserve.cuh): one lane reserves for all, each lane writes its own WQEs, and one
 * lane hands over.
 *
 * Everything here is inlined into the operations of call.cuh and complete.cuh, where the operation
 * is a constant: a post lives in registers. What is seldom needed is not inlined: waiting for room
 * (ginWorkWaitRoom) and what follows the failure of a peer or queue (ginWorkVoid, ginWorkFail).
 */
#ifndef GIN_GDAKI_POST_CUH
#define GIN_GDAKI_POST_CUH

#include "../detail/how.cuh"
#include "../detail/reserve.cuh"
#include "../proxy/descriptor.h"
#include "queue.cuh"

/* Who posts to whom, and what a wait and the error record need. Nothing takes its address. */
struct ginWorkTo {
	const ginDevComm *dc; /* ginDevComm.self; loaded from only after a failure or without room */
	struct ginSendQueue *queue;
	const struct ginPeer *peer;
	uint32_t context;
	uint32_t how; /* detail/how.cuh: sharing, given, required, aggregate, raises */
	uint64_t timeout, from;
};

/* One post. Which members count depends on `op`. */
struct ginWork {
	enum ginOp op;
	uint32_t scope; /* enum ginScope to which the source must be released */
	struct ginMlx5Memory remote, local;
	uint64_t bytes; /* of the put, get or value; width of an atomic */
	uint32_t messages; /* WQEs of the put or get */
	uint64_t operand, compare;
	uint32_t value[8];
	bool raises;		   /* a signal: the last WQE adds `add` to `word` */
	struct ginMlx5Memory word;
	uint64_t add;
	uint64_t *counters; /* the context's; NULL: the put does not count */
	uint32_t counter;
	uint64_t end; /* set by posting: one above the index of the last WQE of all lanes */
};

/* What ginWorkNow() returns: one of these, or an error: ginResult_t. */
enum ginSent { ginSentOk = 0, ginSentPeerLost = 256, ginSentQueueLost = 257 };

/* Bytes that one post moves at most: 8 WQEs, so that the smallest queue has room for it. */
#define GIN_WORK_MAX_BYTES (8ull * GIN_MLX5_MESSAGE_BYTES)

/* The one WQE of two WQEBBs. */
GIN_FN bool ginWorkIsSwap8(const struct ginWork &p)
{
	return p.op == ginOpSwap && p.bytes == 8;
}

/* WQEBBs that move data or make up an atomic. */
GIN_FN uint32_t ginWorkDataWqebbs(const struct ginWork &p)
{
	switch (p.op) {
	case ginOpPut:
	case ginOpGet:
		return p.messages;
	case ginOpPutValue:
		return p.bytes > GIN_MLX5_INLINE_BYTES ? 2 : 1;
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
 * and to a swap of 8 bytes: the CQE of a WQE of two WQEBBs gives the index of its first, so the
 * last WQE of a post has to be one of a single WQEBB.
 */
GIN_FN uint32_t ginWorkWqebbs(const struct ginWork &p)
{
	uint32_t count = ginWorkDataWqebbs(p) + p.raises;

	return count + (!count || ginWorkIsSwap8(p));
}

/* WQEs of a put or get of `bytes` bytes. */
GIN_FN uint32_t ginWorkMessages(uint64_t bytes)
{
	return static_cast<uint32_t>((bytes + GIN_MLX5_MESSAGE_BYTES - 1) / GIN_MLX5_MESSAGE_BYTES);
}

/* The memory of the i-th WQE of a message that is longer than one WQE moves. */
GIN_FN struct ginMlx5Memory ginWorkPart(struct ginMlx5Memory memory, uint32_t i)
{
	memory.address += static_cast<uint64_t>(i) * GIN_MLX5_MESSAGE_BYTES;
	return memory;
}

GIN_FN uint32_t ginWorkPartBytes(const struct ginWork &p, uint32_t i)
{
	const uint64_t most = GIN_MLX5_MESSAGE_BYTES, left = p.bytes - i * most;

	if (p.messages == 1)
		return static_cast<uint32_t>(p.bytes);
	return static_cast<uint32_t>(left < most ? left : most);
}

/* WQE `i` of a put or get. */
GIN_FN struct ginMlx5Wqebb ginWorkMessage(const struct ginWork &p, struct ginMlx5Slot slot,
					  uint32_t i)
{
	struct ginMlx5Memory remote = ginWorkPart(p.remote, i), local = ginWorkPart(p.local, i);
	uint32_t bytes = ginWorkPartBytes(p, i);

	return p.op == ginOpGet ? ginMlx5Read(slot, remote, local, bytes)
				: ginMlx5Write(slot, remote, local, bytes);
}

/* WQE `i` of a value: all in one, or 16 bytes in the first and the rest in the second. */
GIN_FN struct ginMlx5Wqebb ginWorkValue(const struct ginWork &p, struct ginMlx5Slot slot,
					uint32_t i)
{
	uint32_t bytes = static_cast<uint32_t>(p.bytes);

	if (bytes > GIN_MLX5_INLINE_BYTES)
		bytes = i ? bytes - 16 : 16;
	return ginMlx5WriteInline(slot, {p.remote.address + 16 * i, p.remote.key}, p.value + 4 * i,
				  bytes);
}

/* An atomic of 4 bytes is a masked one. A swap compares no bit. */
GIN_FN struct ginMlx5Wqebb ginWorkAtomic4(const struct ginWork &p, struct ginMlx5Slot slot)
{
	uint32_t operand = static_cast<uint32_t>(p.operand);
	uint32_t mask = p.op == ginOpSwap ? 0 : UINT32_MAX;

	if (p.op == ginOpFetchAdd)
		return ginMlx5MaskedFetchAdd4(slot, p.remote, p.local, operand, 0);
	return ginMlx5MaskedCompareSwap4(
		slot, p.remote, p.local,
		{static_cast<uint32_t>(p.compare), mask, operand, UINT32_MAX});
}

/* An atomic of 8 bytes; WQEBB `i` of a swap, which has two. */
GIN_FN struct ginMlx5Wqebb ginWorkAtomic8(const struct ginWork &p, struct ginMlx5Slot slot,
					  uint32_t i)
{
	if (p.op == ginOpFetchAdd)
		return ginMlx5FetchAdd(slot, p.remote, p.local, p.operand);
	if (p.op == ginOpCompareSwap)
		return ginMlx5CompareSwap(slot, p.remote, p.local, p.compare, p.operand);
	struct ginMlx5TwoWqebbs two = ginMlx5MaskedCompareSwap8(slot, p.remote, p.local,
								{0, 0, p.operand, UINT64_MAX});
	return i ? two.wqebb[1] : two.wqebb[0];
}

/* WQEBB `i` of the data. */
GIN_FN struct ginMlx5Wqebb ginWorkData(const struct ginWork &p, struct ginMlx5Slot slot, uint32_t i)
{
	if (p.op == ginOpPut || p.op == ginOpGet)
		return ginWorkMessage(p, slot, i);
	if (p.op == ginOpPutValue)
		return ginWorkValue(p, slot, i);
	return p.bytes == 4 ? ginWorkAtomic4(p, slot) : ginWorkAtomic8(p, slot, i);
}

/* Writes WQEBB `i` of the data at index `at` of the range. */
GIN_FN void ginWorkStore(const struct ginWork &p, const struct ginSendFixed &f,
			 struct ginSendRange range, uint32_t at, uint32_t i)
{
	ginMlx5StoreWqebb(ginSendWqebb(f, range.first + at),
			  ginWorkData(p, ginSendSlot(f, range, at), i));
}

/* Writes this post's WQEs, from index `at` of the range on. */
GIN_FN void ginWorkWrite(const struct ginWork &p, const struct ginSendFixed &f, struct ginSendRange range, uint32_t at)
{
	const uint32_t data = ginWorkDataWqebbs(p), all = ginWorkWqebbs(p);
	const uint32_t last = at + all - 1;

	if (data > 0)
		ginWorkStore(p, f, range, at, 0);
	GIN_NO_UNROLL
	for (uint32_t i = 1; i < data; i++)
		ginWorkStore(p, f, range, at + i, i);
	if (p.raises)
		ginMlx5StoreWqebb(ginSendWqebb(f, range.first + last),
				  ginMlx5FetchAdd(ginSendSlot(f, range, last), p.word,
						  {f.sink, f.sinkKey}, p.add));
	else if (all > data)
		ginMlx5StoreWqebb(ginSendWqebb(f, range.first + last),
				  ginMlx5Nop(ginSendSlot(f, range, last)));
	if (p.counters)
		ginSlotCounterSet(&f.counter[(range.first + last) & ginSendMask(f)], p.counter + 1);
}

/*
 * Instead of ginWorkWrite(), or over what it has written, after a failure: `count` NOPs, from
 * index `at` of the range on. No counter is raised for them.
 */
GIN_FN_COLD void ginWorkVoid(struct ginSendQueue *q, uint64_t first, uint32_t all, uint32_t at,
			     uint32_t count)
{
	const struct ginSendRange range = {first, all};

	GIN_NO_UNROLL
	for (uint32_t i = at; i < at + count; i++) {
		ginMlx5StoreWqebb(ginSendWqebb(q->fixed, first + i),
				  ginMlx5Nop(ginSendSlot(q->fixed, range, i)));
		ginSlotCounterSet(&q->fixed.counter[(first + i) & ginSendMask(q->fixed)], 0);
	}
}

/* ginWorkVoid(), after which the queue's constants are loaded again: few registers. */
GIN_FN struct ginSendFixed ginWorkVoidAll(struct ginSendQueue *q, struct ginSendRange range,
					  uint32_t at, uint32_t count)
{
	ginWorkVoid(q, range.first, range.count, at, count);
	return ginSendLoadFixed(q);
}

GIN_FN uint32_t ginSendOutcome(uint32_t state, uint64_t latched)
{
	if (latched)
		return ginSentQueueLost;
	return state == ginPeerAlive ? ginSentOk : ginSentPeerLost;
}

/*
 * After a post that has failed: writes the error record and returns the result. `sent`: of
 * ginWorkNow(). `word`: the address of the signal's word, if `how` raises one by id.
 */
GIN_FN_COLD ginResult_t ginWorkFail(const ginDevComm *dc, const struct ginSendQueue *q,
				    const struct ginPeer *peer, uint32_t context, uint32_t how,
				    uint32_t sent, uint64_t word)
{
	uint32_t id = UINT32_MAX;
	ginResult_t result = static_cast<ginResult_t>(sent);

	if (ginHowHas(how, GIN_HOW_RAISES) && !ginHowHas(how, GIN_HOW_AT))
		id = static_cast<uint32_t>((word - peer->nicSignals) / sizeof(uint64_t)) -
		     context * dc->signals;
	if (sent == ginSentQueueLost)
		result = ginSendState(q);
	else if (sent == ginSentPeerLost)
		result = ginPeerLost(&dc->abortLine->word);
	ginErrorLeave(dc, result, ginHowCall(how), context, static_cast<int>(peer - dc->peers), id,
		      0, 0);
	return result;
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

/* Is the source to be released to the system, which the hand-over to another thread does not do? */
GIN_FN bool ginWorkToSystem(const struct ginWorkTo &to, const struct ginWork &p)
{
	return ginFenceLeft(ginHowGiven(to.how), p.scope) == ginScopeSystem;
}

/* The lanes of a mask; 0: this lane alone. */
GIN_FN struct ginTogether ginTogetherOf(uint32_t mask)
{
#if GIN_ON_GPU
	if (mask) {
		uint32_t below = mask & ((1u << ginLane()) - 1);
		return {static_cast<uint32_t>(__popc(mask)), static_cast<uint32_t>(__popc(below)),
			mask};
	}
#endif
	return {1, 0, mask};
}

/* Room for the posts of some lanes. */
struct ginWorkRoom {
	uint64_t first;
	uint32_t lanes;	 /* that post together; 0: this lane posts alone */
	uint32_t result; /* enum ginSent; not ginSentOk: nothing is reserved */
};

/* Lanes whose posts differ in the kind form groups of their own: the WQEBBs of a post, and bits. */
enum {
	GIN_WORK_EACH = 15,
	GIN_WORK_COUNTS = 16,
	GIN_WORK_AGGREGATES = 32,
	GIN_WORK_ALONE = 64 /* without other lanes */
};

GIN_FN uint64_t ginWorkKey(const struct ginSendQueue *q, uint32_t kind)
{
	return reinterpret_cast<uintptr_t>(q) ^ static_cast<uint64_t>(kind) << 48;
}

/*
 * A wait for room, in local memory: registers belong to the post that waits, and the wait is
 * seldom. `volatile` keeps the fields there.
 */
struct ginWorkWait {
	const ginDevComm *dc;
	struct ginSendQueue *queue;
	const struct ginPeer *peer;
	uint64_t timeout, from, start;
	uint32_t kind, sharing, steps;
};

/* Tries to reserve what there is room for. result: 0 for no room, else 1 + enum ginSent. */
GIN_FN struct ginWorkRoom ginWorkTryRoom(struct ginSendQueue *q, uint32_t kind, ginSharing sharing)
{
	struct ginTogether group = ginTogetherFor(
		ginWorkKey(q, kind), kind & GIN_WORK_ALONE || sharing == ginSharingThread);
	uint64_t first = 0, got = 0;

	if (!group.rank)
		got = ginSendReserveFree(q, kind & GIN_WORK_EACH, group.count, &first, sharing);
	got = ginFromLeader(group, got);
	first = ginFromLeader(group, first);
	group = ginFirstOf(group, static_cast<uint32_t>(got));
	return {first, group.mask, group.rank < got};
}

/* Waits for room, after a first reservation has found none. */
GIN_FN_COLD struct ginWorkRoom ginWorkWaitRoom(const ginDevComm *dc, struct ginSendQueue *q,
					       const struct ginPeer *peer, uint32_t kind,
					       uint32_t sharing, uint64_t timeout, uint64_t from)
{
	volatile struct ginWorkWait wait = {dc, q, peer, timeout, from, 0, kind, sharing, 0};

	for (;;) {
		const ginSharing shared = static_cast<ginSharing>(wait.sharing);
		if (ginLocalLoad(&wait.queue->latched))
			return {0, 0, ginSentQueueLost};
		if (ginPeerObserve(wait.peer).state != ginPeerAlive)
			return {0, 0, ginSentPeerLost};
		ginSendRefresh(wait.queue, shared);
		struct ginWorkRoom room = ginWorkTryRoom(wait.queue, wait.kind, shared);
		if (room.result)
			return {room.first, room.lanes, ginSentOk};
		ginSendRingPending(wait.queue, wait.steps % 4096 == 4095, shared);
		struct ginSendPatience patience = {wait.dc, wait.timeout, wait.from, wait.start,
						   wait.steps};
		uint64_t ends = ginSendPatienceStep(patience);
		wait.start = patience.start;
		wait.steps = patience.steps;
		if (ginAbortResult(ends) != ginSuccess)
			return {0, 0, static_cast<uint32_t>(ginAbortResult(ends))};
	}
}

/* ginWorkWaitRoom(), for the post of `to`. */
GIN_FN struct ginWorkRoom ginWorkRoomFor(const struct ginWorkTo &to, uint32_t kind)
{
	return ginWorkWaitRoom(to.dc, to.queue, to.peer, kind,
			       static_cast<uint32_t>(ginHowSharing(to.how)), to.timeout, to.from);
}

/*
 * By a thread that shares the queue; lanes post together. The reservation takes longest, so it
 * starts first: nothing before it depends on a load, and all other loads overlap with it. So a
 * lane may reserve before it knows of a failure; it then writes NOPs.
 */
GIN_FN uint32_t ginWorkShared(const struct ginWorkTo &to, struct ginWork &p)
{
	struct ginSendQueue *q = to.queue;
	const ginSharing sharing = ginHowSharing(to.how);
	const bool aggregate = ginHowHas(to.how, GIN_HOW_AGGREGATE);
	const uint32_t each = ginWorkWqebbs(p);
	uint32_t state = ginPeerObserve(to.peer).state;
	uint64_t latched = ginLocalLoad(&q->latched);
	const uint32_t kind = each | (p.counters ? static_cast<uint32_t>(GIN_WORK_COUNTS) : 0) |
			      (aggregate ? static_cast<uint32_t>(GIN_WORK_AGGREGATES) : 0);
	struct ginTogether group = ginTogetherFor(ginWorkKey(q, kind), false);
	struct ginSendRange range = {0, each * group.count};
	uint64_t room = 0;

	if (!group.rank)
		room = ginTicketAdd(&q->reserved, range.count);
	struct ginSendFixed f = ginSendLoadFixed(q);
	uint64_t done = ginSendDone(q, sharing);
	if (group.rank || !ginSendKeep(q, f.logDepth, range.count, room, done, sharing))
		room = UINT64_MAX;
	room = ginFromLeader(group, room);
	uint32_t outcome = ginSendOutcome(state, latched);
	if (room == UINT64_MAX) {
		struct ginWorkRoom late = ginWorkRoomFor(to, kind);
		if (late.result != ginSentOk)
			return late.result;
		f = ginSendLoadFixed(q);
		room = late.first;
		group = ginTogetherOf(late.lanes);
		range.count = each * group.count;
		outcome = ginSentOk;
	}
	range.first = room;
	p.end = range.first + range.count;
	if (outcome == ginSentOk)
		ginWorkWrite(p, f, range, group.rank * each);
	else
		f = ginWorkVoidAll(q, range, group.rank * each, each);
	bool toSystem = ginAnyOf(group, ginWorkToSystem(to, p));
	ginMeetAll(group);
	if (!group.rank) {
		if (p.counters)
			ginSendCounterFollows(q, p.counters, p.end);
		if (toSystem) /* cumulative: it covers the sources of all lanes */
			ginSourceRelease(ginScopeSystem);
		ginSendHandOver(q, f, range, aggregate, sharing);
	}
	return outcome;
}

/* In few registers and not fast: by one lane. */
GIN_FN uint32_t ginWorkSlowly(const struct ginWorkTo &to, struct ginWork &p)
{
	struct ginSendQueue *q = to.queue;
	struct ginSendRange range = {0, ginWorkWqebbs(p)};
	struct ginWorkRoom room = ginWorkRoomFor(to, range.count | GIN_WORK_ALONE);

	if (room.result != ginSentOk)
		return room.result;
	range.first = room.first;
	ginWorkWrite(p, q->fixed, range, 0);
	if (p.counters)
		ginSendCounterFollows(q, p.counters, range.first + range.count);
	if (ginWorkToSystem(to, p))
		ginSourceRelease(ginScopeSystem);
	ginSendHandOver(q, q->fixed, range, ginHowHas(to.how, GIN_HOW_AGGREGATE),
			ginHowSharing(to.how));
	return ginSentOk;
}

/*
 * By a thread that has the queue for itself. The loads of the peer's and the queue's state go on
 * while the fence waits for the WQEs; after a failure the WQEs are overwritten by NOPs.
 */
GIN_FN uint32_t ginWorkAlone(const struct ginWorkTo &to, struct ginWork &p)
{
	struct ginSendQueue *q = to.queue;
	struct ginSendFixed f = ginSendLoadFixed(q);
	struct ginSendRange range = {0, ginWorkWqebbs(p)};

	if (!ginSendReserveTry(q, f.logDepth, range.count, &range.first, ginSharingThread)) {
		struct ginWorkRoom late = ginWorkRoomFor(to, range.count);
		if (late.result != ginSentOk)
			return late.result;
		f = ginSendLoadFixed(q);
		range.first = late.first;
	}
	const bool gpuMemory = f.gpuMemory && !ginWorkToSystem(to, p);
	p.end = range.first + range.count;
	ginWorkWrite(p, f, range, 0);
	uint32_t state = ginPeerObserve(to.peer).state;
	uint64_t latched = ginLocalLoad(&q->latched);
	ginNicRelease(gpuMemory);
	uint32_t outcome = ginSendOutcome(state, latched);
	if (outcome != ginSentOk) {
		f = ginWorkVoidAll(q, range, 0, range.count);
		ginNicRelease(gpuMemory);
	}
	if (p.counters)
		ginSendCounterFollows(q, p.counters, p.end);
	ginSendRingAlone(q, f, range.first, p.end, !ginHowHas(to.how, GIN_HOW_AGGREGATE));
	return outcome;
}

/* Posts, waiting for room. Returns enum ginSent; not ginSentOk: call ginWorkFail(). */
GIN_FN uint32_t ginWorkNow(const struct ginWorkTo &to, struct ginWork &p)
{
	return ginHowSharing(to.how) == ginSharingThread ? ginWorkAlone(to, p)
							 : ginWorkShared(to, p);
}

#endif
