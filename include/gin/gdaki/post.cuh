/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post.cuh - one post: a put, value, get or atomic, and the signal after it
 *
 * Called by call.cuh and complete.cuh, which describe a post by a struct ginWork and a word of
 * constants, `what`. Calls queue.cuh. Two functions post:
 *
 *   ginWorkNow()   if there is room. Inlined into a leaf function for each operation, where `what`
 *                  is a constant and the struct ginWork is in registers.
 *   ginWorkLate()  everything that is seldom, for all operations: waits for room, posts messages
 *                  that are too long for one post, writes the error record. Not inlined; its struct
 *                  ginWork is in local memory.
 *
 * Both reserve room, write the WQEs by ginWorkWrite(), and hand them over by ginWorkHandOver().
 *
 * Lanes of a warp that post to one queue at one time, each a post of equally many WQEBBs, post
 * together (detail/reserve.cuh): one lane reserves for all, each lane writes its own WQEs, and one
 * lane hands over.
 */
#ifndef GIN_GDAKI_POST_CUH
#define GIN_GDAKI_POST_CUH

#include "../detail/how.cuh"
#include "../detail/reserve.cuh"
#include "../proxy/descriptor.h"
#include "queue.cuh"

/* `what`: the lowest bit of each field. */
enum {
	GIN_WORK_OP = 0,    /* 4 bits, enum ginOp */
	GIN_WORK_WIDTH = 4, /* 6 bits: bytes of a value or atomic */
	GIN_WORK_DATA = 10, /* 4 bits: WQEBBs of the data; 0: a signal alone, or nothing */
	GIN_WORK_RAISES = 14,
	GIN_WORK_COUNTS = 15,
	GIN_WORK_AGGREGATE = 16, /* no doorbell for this post alone */
	GIN_WORK_SYSTEM = 17	 /* the source has yet to be released to the system */
};

/* In `what`: operation and width, by which the functions for a late post differ. */
#define GIN_WORK_KIND 0x3ffu

/* Addresses and keys of one post, as the NIC has them: what `what` does not tell. */
struct ginWork {
	uint64_t remote, word; /* the data's at the peer; the signal's */
	uint32_t remoteKey, wordKey;
	uint64_t add; /* to the signal */
	/* A value: its bytes. Others: as the functions below. */
	uint64_t data[4];
};

static_assert(sizeof(struct ginWork) == 64, "a wait may have 64 bytes of local memory");

/* A put or get. `second`: of a put the context's counters, of a get the target's window. */
GIN_FN void ginWorkSetMessage(struct ginWork &p, uint64_t local, uint32_t localKey, uint64_t bytes,
			      const void *second, uint32_t counter)
{
	p.data[0] = local;
	p.data[1] = bytes;
	p.data[2] = reinterpret_cast<uintptr_t>(second);
	p.data[3] = static_cast<uint64_t>(counter) << 32 | localKey;
}

/* An atomic; the old value goes to `local`. */
GIN_FN void ginWorkSetAtomic(struct ginWork &p, uint64_t local, uint32_t localKey, uint64_t operand,
			     uint64_t compare)
{
	p.data[0] = local;
	p.data[1] = operand;
	p.data[2] = compare;
	p.data[3] = localKey;
}

GIN_FN struct ginMlx5Memory ginWorkLocal(const struct ginWork &p)
{
	return {p.data[0], static_cast<uint32_t>(p.data[3])};
}

GIN_FN struct ginMlx5Memory ginWorkRemote(const struct ginWork &p)
{
	return {p.remote, p.remoteKey};
}

GIN_FN uint32_t ginWorkData(uint32_t what)
{
	return what >> GIN_WORK_DATA & 15;
}

GIN_FN bool ginWorkHas(uint32_t what, uint32_t bit)
{
	return what >> bit & 1;
}

/* A put or get. */
GIN_FN bool ginWorkIsMessage(uint32_t what)
{
	return (what & 15) == ginOpPut || (what & 15) == ginOpGet;
}

/* The one WQE of two WQEBBs. */
GIN_FN bool ginWorkIsSwap8(uint32_t what)
{
	return (what & GIN_WORK_KIND) == (ginOpSwap | 8u << GIN_WORK_WIDTH);
}

/*
 * All WQEBBs of the post: the data's, then one for the signal. A NOP is added to a post of nothing
 * and to a swap of 8 bytes: the CQE of a WQE of two WQEBBs gives the index of its first, so the
 * last WQE of a post has to be one of a single WQEBB.
 */
GIN_FN uint32_t ginWorkWqebbs(uint32_t what)
{
	uint32_t count = ginWorkData(what) + ginWorkHas(what, GIN_WORK_RAISES);

	return count + (!count || ginWorkIsSwap8(what));
}

/* `what` of an operation with `data` WQEBBs of data and a call's `how`. */
GIN_FN constexpr uint32_t ginWorkKind(enum ginOp op, uint32_t width)
{
	return static_cast<uint32_t>(op) << GIN_WORK_OP | width << GIN_WORK_WIDTH;
}

GIN_FN constexpr uint32_t ginWorkWhat(enum ginOp op, uint32_t width, uint32_t data, uint32_t how)
{
	return ginWorkKind(op, width) | data << GIN_WORK_DATA |
	       (how >> GIN_HOW_RAISES & 1) << GIN_WORK_RAISES |
	       (how >> GIN_HOW_AGGREGATE & 1) << GIN_WORK_AGGREGATE;
}

/* GIN_WORK_SYSTEM, if the caller has not released a source in memory that needs `scope`. */
GIN_FN uint32_t ginWorkRelease(uint32_t how, uint32_t scope)
{
	uint32_t required = scope > ginHowRequired(how) ? scope : ginHowRequired(how);

	bool system = ginFenceLeft(ginHowGiven(how), required) == ginScopeSystem;

	return static_cast<uint32_t>(system) << GIN_WORK_SYSTEM;
}

/*
 * The part of `how` that changes a post's code: the functions that post now are compiled for each
 * shape that a kernel uses.
 */
enum {
	GIN_SHAPE_CTA = 1, /* GIN_SHAPE_CTA, GIN_SHAPE_ALONE or neither: enum ginSharing */
	GIN_SHAPE_ALONE = 2,
	GIN_SHAPE_RAISES = 4,
	GIN_SHAPE_AT = 8,
	GIN_SHAPE_COUNTS = 16
};

template <uint32_t bits> struct ginShape {
	static constexpr uint32_t value = bits;
};

GIN_FN uint32_t ginShapeOf(uint32_t how, bool counts)
{
	return static_cast<uint32_t>(ginHowSharing(how)) |
	       static_cast<uint32_t>(ginHowHas(how, GIN_HOW_RAISES)) * GIN_SHAPE_RAISES |
	       static_cast<uint32_t>(ginHowHas(how, GIN_HOW_AT)) * GIN_SHAPE_AT |
	       static_cast<uint32_t>(counts) * GIN_SHAPE_COUNTS;
}

/* Calls f(ginShape<shape>()). Of `shape` only the bits `left` may be set. */
template <uint32_t left, uint32_t known = 0, class F>
GIN_FN uint64_t ginWithShape(uint32_t shape, const F &f)
{
	if constexpr (left == 0) {
		return f(ginShape<known>());
	} else {
		constexpr uint32_t bit = left & -left;
		return shape & bit ? ginWithShape<left ^ bit, known | bit>(shape, f)
				   : ginWithShape<left ^ bit, known>(shape, f);
	}
}

/* `how` with the bits of the shape as constants. */
template <uint32_t shape> GIN_FN uint32_t ginShapedHow(uint32_t how)
{
	constexpr uint32_t mask = 3u << GIN_HOW_SHARING | 1u << GIN_HOW_RAISES | 1u << GIN_HOW_AT;

	return (how & ~mask) | (shape & 3) << GIN_HOW_SHARING |
	       (shape & GIN_SHAPE_RAISES ? 1u << GIN_HOW_RAISES : 0) |
	       (shape & GIN_SHAPE_AT ? 1u << GIN_HOW_AT : 0);
}

/* WQEs of a put or get of `bytes` bytes. */
GIN_FN uint32_t ginWorkMessages(uint64_t bytes)
{
	return static_cast<uint32_t>((bytes + GIN_MLX5_MESSAGE_BYTES - 1) / GIN_MLX5_MESSAGE_BYTES);
}

/* WQE `i` of a put or get. */
GIN_FN struct ginMlx5Wqebb ginWorkMessage(const struct ginWork &p, uint32_t what,
					  struct ginMlx5Slot slot, uint32_t i)
{
	const uint64_t from = static_cast<uint64_t>(i) * GIN_MLX5_MESSAGE_BYTES;
	struct ginMlx5Memory remote = ginWorkRemote(p), local = ginWorkLocal(p);
	uint64_t bytes = p.data[1] - from;

	if (ginWorkData(what) > 1 && bytes > GIN_MLX5_MESSAGE_BYTES)
		bytes = GIN_MLX5_MESSAGE_BYTES;

	remote.address += from;
	local.address += from;
	return (what & 15) == ginOpGet
		       ? ginMlx5Read(slot, remote, local, static_cast<uint32_t>(bytes))
		       : ginMlx5Write(slot, remote, local, static_cast<uint32_t>(bytes));
}

/* WQE `i` of a value: all in one, or 16 bytes in the first and the rest in the second. */
GIN_FN struct ginMlx5Wqebb ginWorkValue(const struct ginWork &p, uint32_t what,
					struct ginMlx5Slot slot, uint32_t i)
{
	const uint64_t a = i ? p.data[2] : p.data[0], b = i ? p.data[3] : p.data[1];
	const uint32_t word[8] = {
		static_cast<uint32_t>(a),	  static_cast<uint32_t>(a >> 32),
		static_cast<uint32_t>(b),	  static_cast<uint32_t>(b >> 32),
		static_cast<uint32_t>(p.data[2]), static_cast<uint32_t>(p.data[2] >> 32),
		static_cast<uint32_t>(p.data[3]), static_cast<uint32_t>(p.data[3] >> 32)};
	uint32_t bytes = what >> GIN_WORK_WIDTH & 63;

	if (bytes > GIN_MLX5_INLINE_BYTES)
		bytes = i ? bytes - 16 : 16;
	return ginMlx5WriteInline(slot, {p.remote + 16 * i, p.remoteKey}, word, bytes);
}

/* An atomic of 4 bytes is a masked one. A swap compares no bit. */
GIN_FN struct ginMlx5Wqebb ginWorkAtomic4(const struct ginWork &p, uint32_t what,
					  struct ginMlx5Slot slot)
{
	uint32_t operand = static_cast<uint32_t>(p.data[1]);
	uint32_t mask = (what & 15) == ginOpSwap ? 0 : UINT32_MAX;

	if ((what & 15) == ginOpFetchAdd)
		return ginMlx5MaskedFetchAdd4(slot, ginWorkRemote(p), ginWorkLocal(p), operand, 0);
	return ginMlx5MaskedCompareSwap4(
		slot, ginWorkRemote(p), ginWorkLocal(p),
		{static_cast<uint32_t>(p.data[2]), mask, operand, UINT32_MAX});
}

/* An atomic of 8 bytes; WQEBB `i` of a swap, which has two. */
GIN_FN struct ginMlx5Wqebb ginWorkAtomic8(const struct ginWork &p, uint32_t what,
					  struct ginMlx5Slot slot, uint32_t i)
{
	struct ginMlx5Memory remote = ginWorkRemote(p), local = ginWorkLocal(p);

	if ((what & 15) == ginOpFetchAdd)
		return ginMlx5FetchAdd(slot, remote, local, p.data[1]);
	if ((what & 15) == ginOpCompareSwap)
		return ginMlx5CompareSwap(slot, remote, local, p.data[2], p.data[1]);
	struct ginMlx5TwoWqebbs two =
		ginMlx5MaskedCompareSwap8(slot, remote, local, {0, 0, p.data[1], UINT64_MAX});
	return i ? two.wqebb[1] : two.wqebb[0];
}

/* Writes WQEBB `i` of the data. */
GIN_FN void ginWorkStore(const struct ginWork &p, uint32_t what, struct ginMlx5Wqebb *wqe,
			 struct ginMlx5Slot slot, uint32_t i)
{
	if (ginWorkIsMessage(what))
		ginMlx5StoreWqebb(wqe, ginWorkMessage(p, what, slot, i));
	else if ((what & 15) == ginOpPutValue)
		ginMlx5StoreWqebb(wqe, ginWorkValue(p, what, slot, i));
	else if ((what >> GIN_WORK_WIDTH & 63) == 4)
		ginMlx5StoreWqebb(wqe, ginWorkAtomic4(p, what, slot));
	else
		ginMlx5StoreWqebb(wqe, ginWorkAtomic8(p, what, slot, i));
}

/*
 * The only writer of WQEs: WQEBB `i` of a post that begins at index `at` of the range. The last
 * WQEBB names the counter.
 */
GIN_FN void ginWorkWrite(const struct ginWork &p, uint32_t what, const struct ginSendFixed &f,
			 struct ginSendRange range, uint32_t at, uint32_t i)
{
	struct ginMlx5Wqebb *wqe = ginSendWqebb(f, range.first + at + i);
	struct ginMlx5Slot slot = ginSendSlot(f, range, at + i);

	if (i < ginWorkData(what))
		ginWorkStore(p, what, wqe, slot, i);
	else if (ginWorkHas(what, GIN_WORK_RAISES))
		ginMlx5StoreWqebb(wqe, ginMlx5FetchAdd(slot, {p.word, p.wordKey},
						       {f.sink, f.sinkKey}, p.add));
	else
		ginMlx5StoreWqebb(wqe, ginMlx5Nop(slot));
	if (ginWorkHas(what, GIN_WORK_COUNTS) && i + 1 == ginWorkWqebbs(what))
		ginSlotCounterSet(&f.counter[(range.first + at + i) & ginSendMask(f)],
				  static_cast<uint32_t>(p.data[3] >> 32) + 1);
}

/* All WQEs of a post. */
GIN_FN void ginWorkWriteAll(const struct ginWork &p, uint32_t what, const struct ginSendFixed &f,
			    struct ginSendRange range, uint32_t at)
{
	for (uint32_t i = 0; i < ginWorkWqebbs(what); i++)
		ginWorkWrite(p, what, f, range, at, i);
}

/*
 * After a failure, over what ginWorkWrite() has written: control segments of NOPs, of which the NIC
 * reads no more. No counter is raised for them.
 */
GIN_FN void ginWorkVoid(uint32_t what, const struct ginSendFixed &f, struct ginSendRange range,
			uint32_t at)
{
	const uint32_t end = at + ginWorkWqebbs(what);

	GIN_NO_UNROLL
	for (uint32_t i = at; i < end; i++)
		ginMlx5Store(&ginSendWqebb(f, range.first + i)->segment[0],
			     ginMlx5Nop(ginSendSlot(f, range, i)).segment[0]);
	if (ginWorkHas(what, GIN_WORK_COUNTS))
		ginSlotCounterSet(&f.counter[(range.first + end - 1) & ginSendMask(f)], 0);
}

/*
 * What a post returns: the index above its last WQE and above those of the lanes that post with it;
 * or one of these; or GIN_WORK_FAILED + ginResult_t, which is below 256.
 */
#define GIN_WORK_FULL 0ull /* nothing is reserved */
#define GIN_WORK_FAILED (1ull << 63)
#define GIN_WORK_PEER_LOST (GIN_WORK_FAILED + 256)
#define GIN_WORK_QUEUE_LOST (GIN_WORK_FAILED + 257)

GIN_FN bool ginWorkOk(uint64_t end)
{
	return static_cast<int64_t>(end) > 0;
}

/* What a post returns, of the peer's and the queue's state. */
GIN_FN uint64_t ginWorkOutcome(uint32_t state, uint64_t latched, uint64_t end)
{
	if (latched)
		return GIN_WORK_QUEUE_LOST;
	return state == ginPeerAlive ? end : GIN_WORK_PEER_LOST;
}

/*
 * Before the doorbell, by the thread that hands over: some slot below `end` names a counter. W, N
 * and K carry both words to the thread that credits.
 */
GIN_FN void ginWorkCounterFollows(struct ginSendQueue *q, const struct ginWork &p, uint32_t what,
				  uint64_t end)
{
	if (!ginWorkHas(what, GIN_WORK_COUNTS))
		return;
	ginPointerSet(&q->counters,
		      reinterpret_cast<uint64_t *>(static_cast<uintptr_t>(p.data[2])));
	ginLocalMax(&q->counted, end);
}

/* Hands over for the lanes that post together; all of them call it. */
GIN_FN void ginWorkHandOver(struct ginSendQueue *q, const struct ginSendFixed &f,
			    const struct ginTogether &group, struct ginSendRange range,
			    const struct ginWork &p, uint32_t what, ginSharing sharing)
{
	bool toSystem = ginAnyOf(group, ginWorkHas(what, GIN_WORK_SYSTEM));

	ginMeetAll(group);
	if (group.rank)
		return;
	ginWorkCounterFollows(q, p, what, range.first + range.count);
	if (toSystem) /* cumulative: it covers the sources of all lanes */
		ginSourceRelease(ginScopeSystem);
	ginSendHandOver(q, f, range, ginWorkHas(what, GIN_WORK_AGGREGATE), sharing);
}

/* Lanes with one key post together: to one queue, equally many WQEBBs, with equal flags. */
GIN_FN uint64_t ginWorkKey(const struct ginSendQueue *q, uint32_t what)
{
	uint64_t kind = ginWorkWqebbs(what) | (what >> GIN_WORK_COUNTS & 3) << 4;

	return reinterpret_cast<uintptr_t>(q) ^ kind << 48;
}

/*
 * By a thread that shares the queue; lanes post together. The reservation takes longest, so it
 * starts first: nothing before it depends on a load, and all other loads overlap with it. So a
 * lane may reserve before it knows of a failure; it then writes NOPs.
 */
template <class Describe>
GIN_FN uint64_t ginWorkShared(struct ginSendQueue *q, const struct ginPeer *peer,
			      ginSharing sharing, uint32_t what, const Describe &describe)
{
	struct ginWork p = {};
	const uint32_t each = ginWorkWqebbs(what);
	uint32_t state = ginPeerObserve(peer).state;
	uint64_t latched = ginLocalLoad(&q->latched);
	struct ginTogether group = ginTogetherFor(ginWorkKey(q, what), false);
	struct ginSendRange range = {0, each * group.count};

	if (!group.rank)
		range.first = ginTicketAdd(&q->reserved, range.count);
	what |= describe(p);
	const struct ginSendFixed f = ginSendLoadFixed(q);
	uint64_t done = ginSendDone(q, sharing);
	if (group.rank || !ginSendKeep(q, f.logDepth, range.count, range.first, done, sharing))
		range.first = UINT64_MAX;
	range.first = ginFromLeader(group, range.first);
	if (range.first == UINT64_MAX)
		return GIN_WORK_FULL;
	uint64_t end = ginWorkOutcome(state, latched, range.first + range.count);
	ginWorkWriteAll(p, what, f, range, group.rank * each);
	if (!ginWorkOk(end))
		ginWorkVoid(what, f, range, group.rank * each);
	ginWorkHandOver(q, f, group, range, p, what, sharing);
	return end;
}

/*
 * By a thread that has the queue for itself. The loads of the peer's and the queue's state are under
 * way beside the load of `reserved`. If they came before the fence, ptxas would wait for them there.
 */
template <class Describe> GIN_FN uint64_t ginWorkAlone(struct ginSendQueue *q,
						       const struct ginPeer *peer, uint32_t what,
						       const Describe &describe)
{
	struct ginWork p = {};
	uint32_t state = ginPeerObserve(peer).state;
	uint64_t latched = ginLocalLoad(&q->latched);
	const struct ginSendFixed f = ginSendLoadFixed(q);
	struct ginSendRange range = {0, ginWorkWqebbs(what)};

	what |= describe(p);
	const bool gpuMemory = f.gpuMemory && !ginWorkHas(what, GIN_WORK_SYSTEM);
	if (!ginSendReserveTry(q, f.logDepth, range.count, &range.first, ginSharingThread))
		return GIN_WORK_FULL;
	const uint64_t next = range.first + range.count;
	uint64_t end = ginWorkOutcome(state, latched, next);
	ginWorkWriteAll(p, what, f, range, 0);
	if (!ginWorkOk(end))
		ginWorkVoid(what, f, range, 0);
	ginNicRelease(gpuMemory);
	ginWorkCounterFollows(q, p, what, next);
	ginSendRingAlone(q, f, range.first, next, !ginWorkHas(what, GIN_WORK_AGGREGATE));
	return end;
}

/*
 * Posts if there is room. describe(p), called when the reservation is under way, fills in `p` and
 * returns bits for `what`: GIN_WORK_SYSTEM or 0.
 */
template <class Describe> GIN_FN uint64_t ginWorkNow(struct ginSendQueue *q,
						     const struct ginPeer *peer, ginSharing sharing,
						     uint32_t what, const Describe &describe)
{
	return sharing == ginSharingThread ? ginWorkAlone(q, peer, what, describe)
					   : ginWorkShared(q, peer, sharing, what, describe);
}

/* The lowest bit of the context's number in `how` of late posts: for the error record. */
#define GIN_WORK_CONTEXT 16

GIN_FN uint32_t ginWorkHow(uint32_t context, uint32_t how)
{
	return how | context << GIN_WORK_CONTEXT;
}

/*
 * After a post that has failed: writes the error record, and returns GIN_WORK_FAILED + ginResult_t.
 * `word`: the address of the signal's word, if `how` raises one by id.
 */
GIN_FN_COLD uint64_t ginWorkFail(const ginDevComm *dc, const struct ginSendQueue *q,
				 const struct ginPeer *peer, uint32_t how, uint64_t failed,
				 uint64_t word)
{
	uint32_t id = UINT32_MAX;
	ginResult_t result = ginAbortResult(failed);

	if (ginHowHas(how, GIN_HOW_RAISES) && !ginHowHas(how, GIN_HOW_AT))
		id = static_cast<uint32_t>((word - peer->nicSignals) / sizeof(uint64_t)) -
		     (how >> GIN_WORK_CONTEXT) * dc->signals;
	if (failed == GIN_WORK_QUEUE_LOST)
		result = ginSendState(q);
	else if (failed == GIN_WORK_PEER_LOST)
		result = ginPeerLost(&dc->abortLine->word);
	ginErrorLeave(dc, result, ginHowCall(how), how >> GIN_WORK_CONTEXT,
		      static_cast<int>(peer - dc->peers), id, 0, 0);
	return GIN_WORK_FAILED + static_cast<uint64_t>(result);
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

/* Room for the posts of all lanes that post together. */
struct ginWorkPlace {
	uint64_t first; /* index; or what the post returns, with GIN_WORK_FAILED */
	uint32_t lanes; /* ginTogetherOf() */
};

/* Waits for room. */
GIN_FN_COLD struct ginWorkPlace ginWorkRoom(const ginDevComm *dc, struct ginSendQueue *q,
					    const struct ginPeer *peer, uint32_t how, uint32_t what,
					    uint64_t timeout, uint64_t from)
{
	const ginSharing sharing = ginHowSharing(how);
	struct ginSendPatience wait = ginSendPatienceStart(dc, timeout, from);
	uint64_t first = 0;

	for (;;) {
		if (ginLocalLoad(&q->latched))
			return {GIN_WORK_QUEUE_LOST, 0};
		if (ginPeerObserve(peer).state != ginPeerAlive)
			return {GIN_WORK_PEER_LOST, 0};
		ginSendRefresh(q, sharing);
		struct ginTogether group =
			ginTogetherFor(ginWorkKey(q, what), sharing == ginSharingThread);
		uint64_t got = 0;
		if (!group.rank)
			got = ginSendReserveFree(q, ginWorkWqebbs(what), group.count, &first,
						 sharing);
		got = ginFromLeader(group, got);
		first = ginFromLeader(group, first);
		group = ginFirstOf(group, static_cast<uint32_t>(got));
		if (group.rank < got)
			return {first, group.mask};
		ginResult_t result = ginSendPollStep(q, wait, sharing);
		if (result != ginSuccess)
			return {GIN_WORK_FAILED + static_cast<uint64_t>(result), 0};
	}
}

/*
 * ginWorkWrite() of a post in local memory: not inlined, so that a wait keeps the post there and
 * not in registers.
 */
template <uint32_t kind> GIN_FN_COLD void ginWorkWriteLate(const struct ginWork *p, uint32_t what,
							   struct ginSendQueue *q, uint64_t first,
							   uint32_t all, uint32_t at, uint32_t i)
{
	ginWorkWrite(*p, (what & ~GIN_WORK_KIND) | kind, q->fixed, {first, all}, at, i);
}

/* Bytes that one post moves at most: 8 WQEs, so that the smallest queue has room for it. */
#define GIN_WORK_MAX_BYTES (8ull * GIN_MLX5_MESSAGE_BYTES)

/* `what` of the next post of a put or get: all that is left, or the first GIN_WORK_MAX_BYTES. */
GIN_FN uint32_t ginWorkPiece(uint32_t what, uint64_t bytes)
{
	what &= ~(15u << GIN_WORK_DATA);
	if (bytes <= GIN_WORK_MAX_BYTES)
		return what | ginWorkMessages(bytes) << GIN_WORK_DATA;
	what &= ~(1u << GIN_WORK_RAISES | 1u << GIN_WORK_COUNTS);
	return what | 8u << GIN_WORK_DATA;
}

/* READs into the window `into` were posted below `end`. P, release end. */
GIN_FN void ginGetsRecord(struct ginSendQueue *q, const struct ginWindowTable *into, uint64_t end)
{
	struct ginSendGets *gets = &q->gets[into->fence == ginScopeSystem];

	ginLocalStore(&gets->into, reinterpret_cast<uintptr_t>(into));
	ginEndRaise(&gets->read, end);
}

/* After a get. */
GIN_FN void ginWorkRecord(struct ginSendQueue *q, const struct ginWork &p, uint64_t end)
{
	ginGetsRecord(
		q,
		reinterpret_cast<const struct ginWindowTable *>(static_cast<uintptr_t>(p.data[2])),
		end);
}

/*
 * Posts, waiting for room, and writes the error record. `early`: what ginWorkNow() returned. A put
 * or get of more than GIN_WORK_MAX_BYTES is several posts; the last one has the signal and the
 * counter.
 */
template <uint32_t kind>
GIN_FN_COLD uint64_t ginWorkLate(const ginDevComm *dc, struct ginSendQueue *q,
				 const struct ginPeer *peer, uint32_t how, uint32_t what,
				 uint64_t early, uint64_t timeout, uint64_t from, uint64_t remote,
				 uint32_t remoteKey, uint64_t word, uint32_t wordKey, uint64_t add,
				 uint64_t d0, uint64_t d1, uint64_t d2, uint64_t d3)
{
	struct ginWork p = {remote, word, remoteKey, wordKey, add, {d0, d1, d2, d3}};
	struct ginWorkPlace at = {early, 0};

	for (;;) {
		const uint32_t piece =
			ginWorkIsMessage(kind) ? ginWorkPiece(what, p.data[1]) : what;
		if (at.first == GIN_WORK_FULL)
			at = ginWorkRoom(dc, q, peer, how, piece, timeout, from);
		if (at.first & GIN_WORK_FAILED)
			return ginWorkFail(dc, q, peer, how, at.first, p.word);
		const struct ginTogether group = ginTogetherOf(at.lanes);
		const uint32_t each = ginWorkWqebbs(piece);
		const struct ginSendRange range = {at.first, each * group.count};
		GIN_NO_UNROLL
		for (uint32_t i = 0; i < each; i++)
			ginWorkWriteLate<kind>(&p, piece, q, range.first, range.count,
					       group.rank * each, i);
		ginWorkHandOver(q, q->fixed, group, range, p, piece, ginHowSharing(how));
		if (kind == ginOpGet && p.data[1])
			ginWorkRecord(q, p, range.first + range.count);
		if (!ginWorkIsMessage(kind) || p.data[1] <= GIN_WORK_MAX_BYTES)
			return range.first + range.count;
		p.remote += GIN_WORK_MAX_BYTES;
		p.data[0] += GIN_WORK_MAX_BYTES;
		p.data[1] -= GIN_WORK_MAX_BYTES;
		at.first = GIN_WORK_FULL;
	}
}

/* ginWorkLate() of a post that ginWorkNow() has not done. */
template <uint32_t kind>
GIN_FN ginResult_t ginWorkElse(const ginDevComm *dc, struct ginSendQueue *q,
			       const struct ginPeer *peer, uint32_t context, uint32_t how,
			       uint32_t what, uint64_t early, uint64_t timeout, uint64_t from,
			       const struct ginWork &p)
{
	uint64_t end = ginWorkLate<kind>(dc, q, peer, ginWorkHow(context, how), what, early,
					 timeout, from, p.remote, p.remoteKey, p.word, p.wordKey,
					 p.add, p.data[0], p.data[1], p.data[2], p.data[3]);

	return ginWorkOk(end) ? ginSuccess : ginAbortResult(end);
}

#endif
