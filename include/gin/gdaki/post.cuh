/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post.cuh - one post: a put, value, get or atomic, and the signal after it
 *
 * Called by call.cuh and complete.cuh, which describe a post: a struct ginWork, addresses and keys,
 * the word `how` of the call, and a type ginWorkKind. Calls queue.cuh and the encoders of mlx5.h.
 *
 *   ginWorkNow()   posts if there is room: reserves, writes the WQEs, hands them over and rings, by
 *                  ginWorkShared() or ginWorkAlone(). Inlined into each call, where the shape is a
 *                  constant.
 *   ginWorkRoom()  the rare paths: waits for room and reserves it, or writes the error record. Not
 *                  inlined.
 *   ginWorkPost()  the loop around both.
 *
 * Lanes of a warp that execute together and post to one send queue, each an equal number of WQEBBs,
 * post together (core/reserve.cuh): one lane reserves for all, each lane writes its own WQEs, and
 * one lane hands over.
 */
#ifndef GIN_GDAKI_POST_CUH
#define GIN_GDAKI_POST_CUH

#include "../core/how.cuh"
#include "../core/op.h"
#include "../core/reserve.cuh"
#include "queue.cuh"

/* Addresses and keys of one post, as the NIC knows them, and its values. */
struct ginWork {
	uint64_t remote, word; /* addresses: of the data at the peer; of the signal */
	uint32_t remoteKey, wordKey;
	uint64_t add; /* to the signal */
	/* A value: its bytes. Other operations: set by the functions below. */
	uint64_t data[4];
};

/*
 * A put or get of at most GIN_MLX5_MESSAGE_BYTES. `counters`: the context's; NULL: it does not
 * count.
 */
GIN_FN void ginWorkSetMessage(struct ginWork &p, uint64_t local, uint32_t localKey, uint32_t bytes,
			      const uint64_t *counters, uint32_t counter)
{
	p.data[0] = local;
	p.data[1] = bytes;
	p.data[2] = reinterpret_cast<uintptr_t>(counters);
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

/* A kind of posts: the operation, and the bytes of a value or atomic. */
template <enum ginOp operation, uint32_t size = 0> struct ginWorkKind {
	static constexpr enum ginOp op = operation;
	static constexpr uint32_t bytes = size;
	static constexpr bool isLong = op == ginOpPutValue && bytes > GIN_MLX5_INLINE_BYTES;
	/*
	 * The one WQE of two WQEBBs. A NOP follows it: its CQE gives the index of its first WQEBB,
	 * so the last WQE of a post has to be one of a single WQEBB.
	 */
	static constexpr bool isSwap8 = op == ginOpSwap && bytes == 8;
	/* WQEBBs of the data. */
	static constexpr uint32_t data = op == ginOpSignal ? 0 : isLong || isSwap8 ? 2 : 1;

	/* WQEBBs of the post: the data's, the signal's, the NOP's. */
	GIN_FN static uint32_t wqebbs(uint32_t how)
	{
		return data + ginHowHas(how, GIN_HOW_RAISES) + isSwap8;
	}
};

/* GIN_HOW_SYSTEM, if the caller has not released a source in memory that needs `scope`. */
GIN_FN uint32_t ginWorkRelease(uint32_t how, uint32_t scope)
{
	uint32_t required = scope > ginHowRequired(how) ? scope : ginHowRequired(how);

	bool system = ginFenceLeft(ginHowGiven(how), required) == ginScopeSystem;

	return static_cast<uint32_t>(system) << GIN_HOW_SYSTEM;
}

/*
 * Bits of `how` that change a post's code: constants, if the types of a call tell them.
 */
enum {
	GIN_SHAPE_RAISES = 1 << GIN_HOW_RAISES,
	GIN_SHAPE_AT = 1 << GIN_HOW_AT,
	GIN_SHAPE_COUNTS = 1 << GIN_HOW_COUNTS
};

/*
 * Without GIN_SHAPES a post is compiled once, for each value of `how`; a thread alone posts as
 * threads that share the queue, which is always right.
 */
#ifndef GIN_SHAPES
#define GIN_SHAPES 1
#endif

/* The bits of `how` that the types of a call's actions tell, and which of them are set. */
template <uint32_t setBits, uint32_t knownBits> struct ginShape {
	static constexpr uint32_t set = GIN_SHAPES ? setBits & knownBits : 0;
	static constexpr uint32_t known = GIN_SHAPES ? knownBits : 0;
};

/* The shape of a call with actions of these types. */
template <class Remote, class Local = GinNone> using ginActionShape =
	ginShape<(ginSignalOf(Remote{}).present ? GIN_SHAPE_RAISES : 0) |
			 (ginSignalOf(Remote{}).at ? GIN_SHAPE_AT : 0) |
			 (ginCounterOf(Local{}) != UINT32_MAX ? GIN_SHAPE_COUNTS : 0),
		 (ginActionTyped<Remote>::value ? GIN_SHAPE_RAISES | GIN_SHAPE_AT : 0) |
			 (ginActionTyped<Local>::value ? GIN_SHAPE_COUNTS : 0)>;

/* The shape of a signal without data. */
template <class Shape> using ginSignalShape =
	ginShape<Shape::set | GIN_SHAPE_RAISES,
		 (Shape::known & GIN_SHAPE_AT) | GIN_SHAPE_RAISES | GIN_SHAPE_COUNTS>;

/*
 * How a post is compiled: for a shape, and for threads that share the queue or for one alone. With
 * GIN_CALLS also for the threads of one block, which otherwise post as threads of the GPU.
 */
template <class Shape, uint32_t sharing> struct ginWorkForm {
	static constexpr bool alone = sharing == ginSharingThread;

	/* `how`, with what is known as constants. */
	GIN_FN static uint32_t how(uint32_t how)
	{
		constexpr bool open = GIN_SHAPES && !GIN_CALLS && !alone;
		constexpr uint32_t known = (open ? 2u : 3u) << GIN_HOW_SHARING;

		return (how & ~(Shape::known | known)) | Shape::set | sharing << GIN_HOW_SHARING;
	}
};

/* Post::post(args...), as one function where cold functions are calls (GIN_FN_COLD). */
template <class Post, class... Args> GIN_FN_COLD uint64_t ginPostCalled(ginCold<Args>... args)
{
	return Post::post(args...);
}

template <bool called, class Post, class... Args> GIN_FN uint64_t ginWorkBy(Args... args)
{
	if constexpr (called)
		return ginPostCalled<Post, Args...>(args...);
	else
		return Post::post(args...);
}

/*
 * Post<form>::post(args...). An inlined post takes some 200 ns less, but more time to compile. A
 * kernel for the gdaki route alone inlines it; `called`: a kernel for several network routes.
 */
template <class Shape, bool called, template <class> class Post, class... Args>
GIN_FN uint64_t ginWorkShaped(uint32_t how, Args... args)
{
	using Shared = Post<ginWorkForm<Shape, ginSharingGpu>>;
	using Block = Post<ginWorkForm<Shape, ginSharingCta>>;
	using Alone = Post<ginWorkForm<Shape, ginSharingThread>>;

	if constexpr (GIN_SHAPES && GIN_CALLS)
		if (how & ginSharingCta << GIN_HOW_SHARING)
			return ginWorkBy<called, Block, Args...>(args...);
	if constexpr (GIN_SHAPES)
		if (how & ginSharingThread << GIN_HOW_SHARING)
			return ginWorkBy<called, Alone, Args...>(args...);
	return ginWorkBy<called, Shared, Args...>(args...);
}

/* The WQE of a put or get; without bytes a NOP, whose other segments the NIC does not read. */
GIN_FN struct ginMlx5Wqebb ginWorkMessage(const struct ginWork &p, enum ginOp op,
					  struct ginMlx5Slot slot)
{
	const struct ginMlx5Memory remote = ginWorkRemote(p), local = ginWorkLocal(p);
	const uint32_t bytes = static_cast<uint32_t>(p.data[1]);
	struct ginMlx5Wqebb wqe = op == ginOpGet ? ginMlx5Read(slot, remote, local, bytes)
						 : ginMlx5Write(slot, remote, local, bytes);

	if (!bytes)
		wqe.segment[0] = ginMlx5Nop(slot).segment[0];
	return wqe;
}

/* The WQE of the signal after the data; a NOP if more posts of the message follow. */
GIN_FN struct ginMlx5Wqebb ginWorkSignal(const struct ginWork &p, uint32_t how,
					 const struct ginSendFixed &f, struct ginMlx5Slot slot)
{
	struct ginMlx5Wqebb wqe =
		ginMlx5FetchAdd(slot, {p.word, p.wordKey}, {f.sink, f.sinkKey}, p.add);

	if (ginHowHas(how, GIN_HOW_PART))
		wqe.segment[0] = ginMlx5Nop(slot).segment[0];
	return wqe;
}

/* WQE `i` of a value: one WQE has all bytes, or the first has 16 and the second has the rest. */
GIN_FN struct ginMlx5Wqebb ginWorkValue(const struct ginWork &p, uint32_t bytes,
					struct ginMlx5Slot slot, uint32_t i)
{
	const uint64_t a = i ? p.data[2] : p.data[0], b = i ? p.data[3] : p.data[1];
	const uint32_t word[8] = {
		static_cast<uint32_t>(a),	  static_cast<uint32_t>(a >> 32),
		static_cast<uint32_t>(b),	  static_cast<uint32_t>(b >> 32),
		static_cast<uint32_t>(p.data[2]), static_cast<uint32_t>(p.data[2] >> 32),
		static_cast<uint32_t>(p.data[3]), static_cast<uint32_t>(p.data[3] >> 32)};

	if (bytes > GIN_MLX5_INLINE_BYTES)
		bytes = i ? bytes - 16 : 16;
	return ginMlx5WriteInline(slot, {p.remote + 16 * i, p.remoteKey}, word, bytes);
}

/* An atomic of 4 bytes is a masked one. A swap compares no bit. */
GIN_FN struct ginMlx5Wqebb ginWorkAtomic4(const struct ginWork &p, enum ginOp op,
					  struct ginMlx5Slot slot)
{
	uint32_t operand = static_cast<uint32_t>(p.data[1]);
	uint32_t mask = op == ginOpSwap ? 0 : UINT32_MAX;

	if (op == ginOpFetchAdd)
		return ginMlx5MaskedFetchAdd4(slot, ginWorkRemote(p), ginWorkLocal(p), operand, 0);
	return ginMlx5MaskedCompareSwap4(
		slot, ginWorkRemote(p), ginWorkLocal(p),
		{static_cast<uint32_t>(p.data[2]), mask, operand, UINT32_MAX});
}

/* An atomic of 8 bytes; WQEBB `i` of a swap, which has two. */
GIN_FN struct ginMlx5Wqebb ginWorkAtomic8(const struct ginWork &p, enum ginOp op,
					  struct ginMlx5Slot slot, uint32_t i)
{
	struct ginMlx5Memory remote = ginWorkRemote(p), local = ginWorkLocal(p);

	if (op == ginOpFetchAdd)
		return ginMlx5FetchAdd(slot, remote, local, p.data[1]);
	if (op == ginOpCompareSwap)
		return ginMlx5CompareSwap(slot, remote, local, p.data[2], p.data[1]);
	struct ginMlx5TwoWqebbs two =
		ginMlx5MaskedCompareSwap8(slot, remote, local, {0, 0, p.data[1], UINT64_MAX});
	return i ? two.wqebb[1] : two.wqebb[0];
}

/* WQEBB `i` of the data. */
template <class Kind>
GIN_FN struct ginMlx5Wqebb ginWorkData(const struct ginWork &p, struct ginMlx5Slot slot, uint32_t i)
{
	if constexpr (Kind::op == ginOpPut || Kind::op == ginOpGet)
		return ginWorkMessage(p, Kind::op, slot);
	else if constexpr (Kind::op == ginOpPutValue)
		return ginWorkValue(p, Kind::bytes, slot, i);
	else if constexpr (Kind::bytes == 4)
		return ginWorkAtomic4(p, Kind::op, slot);
	else
		return ginWorkAtomic8(p, Kind::op, slot, i);
}

/*
 * The only writer of WQEs: those of a post that begins at index `at` of the range. The last WQEBB
 * names the counter.
 */
template <class Kind> GIN_FN void ginWorkWrite(const struct ginWork &p, uint32_t how,
					       const struct ginSendFixed &f,
					       struct ginSendRange range, uint32_t at)
{
	for (uint32_t i = 0; i < Kind::wqebbs(how); i++) {
		struct ginMlx5Wqebb *wqe = ginSendWqebb(f, range.first + at + i);
		struct ginMlx5Slot slot = ginSendSlot(f, range, at + i);

		if (Kind::data != 0 && i < Kind::data)
			ginMlx5StoreWqebb(wqe, ginWorkData<Kind>(p, slot, i));
		else if (ginHowHas(how, GIN_HOW_RAISES))
			ginMlx5StoreWqebb(wqe, ginWorkSignal(p, how, f, slot));
		else
			ginMlx5StoreWqebb(wqe, ginMlx5Nop(slot));
		if (ginHowHas(how, GIN_HOW_COUNTS) && i + 1 == Kind::wqebbs(how))
			ginSlotCounterSet(&f.counter[(range.first + at + i) & ginSendMask(f)],
					  static_cast<uint32_t>(p.data[3] >> 32) + 1);
	}
}

/*
 * After a failure: overwrites the `each` WQEBBs of ginWorkWrite() with control segments of NOPs;
 * the NIC reads no other segment of a NOP. No counter is raised for them.
 */
GIN_FN void ginWorkVoid(uint32_t how, uint32_t each, const struct ginSendFixed &f,
			struct ginSendRange range, uint32_t at)
{
	const uint32_t end = at + each;

	GIN_NO_UNROLL
	for (uint32_t i = at; i < end; i++)
		ginMlx5Store(&ginSendWqebb(f, range.first + i)->segment[0],
			     ginMlx5Nop(ginSendSlot(f, range, i)).segment[0]);
	if (ginHowHas(how, GIN_HOW_COUNTS))
		ginSlotCounterSet(&f.counter[(range.first + end - 1) & ginSendMask(f)], 0);
}

/*
 * A post returns the index above the last WQE of all lanes that post together, or one of these
 * values, or GIN_WORK_FAILED + ginResult_t, which is below 256.
 */
#define GIN_WORK_FULL 0ull /* nothing is reserved */
#define GIN_WORK_FAILED (1ull << 63)
#define GIN_WORK_PEER_LOST (GIN_WORK_FAILED + 256)
#define GIN_WORK_QUEUE_LOST (GIN_WORK_FAILED + 257)

GIN_FN bool ginWorkOk(uint64_t end)
{
	return static_cast<int64_t>(end) > 0;
}

/* The return value of a post, from the state of peer and send queue. */
GIN_FN uint64_t ginWorkOutcome(uint32_t state, uint32_t latched, uint64_t end)
{
	if (latched)
		return GIN_WORK_QUEUE_LOST;
	return state == ginPeerAlive ? end : GIN_WORK_PEER_LOST;
}

/*
 * Before the doorbell, by the thread that hands over: notes that some slot below `end` names a
 * counter. W, N and K carry both words to the thread that credits.
 */
GIN_FN void ginWorkCounterFollows(struct ginSendQueue *q, const struct ginWork &p, uint32_t how,
				  uint64_t end)
{
	if (!ginHowHas(how, GIN_HOW_COUNTS))
		return;
	ginPointerSet(&q->counters,
		      reinterpret_cast<uint64_t *>(static_cast<uintptr_t>(p.data[2])));
	ginLocalMax(&q->counted, end);
}

/*
 * 1: a post loads all fields before it reserves. 0: it reserves first, and loads the doorbell
 * fields after it has written the WQEs, which takes fewer registers where cold functions are calls.
 */
#define GIN_WORK_EARLY (!GIN_CALLS)

/*
 * Lanes with one key post together: to one send queue, an equal number of WQEBBs, with equal flags.
 */
GIN_FN uint64_t ginWorkKey(const struct ginSendQueue *q, uint32_t each, uint32_t how)
{
	uint64_t kind =
		each | ginHowHas(how, GIN_HOW_COUNTS) << 4 | ginHowHas(how, GIN_HOW_AGGREGATE) << 5;

	return reinterpret_cast<uintptr_t>(q) ^ kind << 48;
}

/* Room that ginWorkRoom() has reserved. */
struct ginWorkHeld {
	uint64_t first; /* index; without lanes: the return value of the post */
	uint32_t lanes; /* that post together, this lane included: ginTogetherOf(); 0: no room */
};

/*
 * By a thread that shares the send queue; lanes post together. The atomic of the reservation is the
 * slowest step, and nothing before it depends on a load. GIN_WORK_EARLY issues all loads before it:
 * later loads would start after it has returned. A lane may reserve before it knows of a failure;
 * it then writes NOPs.
 */
template <class Kind, class Describe>
GIN_FN uint64_t ginWorkShared(struct ginSendQueue *q, const struct ginPeer *peer, uint32_t how,
			      struct ginWorkHeld held, const Describe &describe)
{
	struct ginWork p = {};
	const ginSharing sharing = ginHowSharing(how);
	const uint32_t each = Kind::wqebbs(how);
	uint32_t state = ginPeerObserve(peer).state;
	uint32_t latched = ginSendState(q);
	struct ginTogether group = ginTogetherAs(ginWorkKey(q, each, how), held.lanes);
	struct ginSendRange range = {held.first, each * group.count};
	const bool reserves = !held.lanes && !group.rank;

	/* 1. Reserve. */
	if (!GIN_WORK_EARLY && reserves)
		range.first = ginTicketAdd(&q->reserved, range.count);
	const uint32_t more = describe(p);
	struct ginSendFixed f = ginSendLoad(
		{}, q, GIN_SEND_WRITE | (ginHowHas(how, GIN_HOW_COUNTS) ? GIN_SEND_COUNT : 0));
	if (GIN_WORK_EARLY)
		f = ginSendLoad(f, q, GIN_SEND_TURN);
	uint64_t done = ginDoneLookFirst(&q->done) & ~GIN_SEND_CREDITING;
	if (GIN_WORK_EARLY && reserves)
		range.first = ginTicketAdd(&q->reserved, range.count);
	ginDoneSeen();
	if (!held.lanes) {
		if (group.rank ||
		    !ginSendKeep(q, f.logDepth, range.count, range.first, done, sharing))
			range.first = UINT64_MAX;
		range.first = ginFromLeader(group, range.first);
		if (range.first == UINT64_MAX)
			return GIN_WORK_FULL;
	}
	/* 2. Write. */
	uint64_t end = ginWorkOutcome(state, latched, range.first + range.count);
	ginWorkWrite<Kind>(p, how | more, f, range, group.rank * each);
	if (!ginWorkOk(end))
		ginWorkVoid(how, each, f, range, group.rank * each);
	/* 3. Hand over, one lane for all. The fence is cumulative: it covers all their sources. */
	const bool toSystem = ginAnyOf(group, ginHowHas(more, GIN_HOW_SYSTEM));
	if (!GIN_WORK_EARLY)
		f = ginSendLoad(f, q, GIN_SEND_TURN | GIN_SEND_RING);
	ginMeetAll(group);
	if (group.rank)
		return end;
	ginWorkCounterFollows(q, p, how, range.first + range.count);
	if (toSystem)
		ginSourceRelease(ginScopeSystem);
	ginTurnRelease(sharing);
	if (GIN_WORK_EARLY)
		f = ginSendLoad(f, q, GIN_SEND_RING); /* in flight during the exchange */
	/* 4. Ring, if the turn is here. */
	ginSendHandOverReleased(q, f, range, ginHowHas(how, GIN_HOW_AGGREGATE), sharing);
	return end;
}

/*
 * By a thread that has the send queue to itself. The loads of the state of peer and queue are in
 * flight together with the load of `reserved`.
 */
template <class Kind, class Describe>
GIN_FN uint64_t ginWorkAlone(struct ginSendQueue *q, const struct ginPeer *peer, uint32_t how,
			     struct ginWorkHeld held, const Describe &describe)
{
	struct ginWork p = {};
	const uint32_t each = Kind::wqebbs(how);
	uint32_t state = ginPeerObserve(peer).state;
	uint32_t latched = ginSendState(q);
	struct ginSendFixed f = ginSendLoad({}, q, GIN_SEND_WRITE);
	f = ginSendLoad(f, q, GIN_SEND_TURN | GIN_SEND_RING);
	struct ginSendRange range = {held.first, each};
	how |= describe(p);
	const bool gpuMemory = f.gpuMemory && !ginHowHas(how, GIN_HOW_SYSTEM);
	if (!held.lanes &&
	    !ginSendReserveTry(q, f.logDepth, range.count, &range.first, ginSharingThread))
		return GIN_WORK_FULL;
	const uint64_t next = range.first + range.count;
	uint64_t end = ginWorkOutcome(state, latched, next);
	ginWorkWrite<Kind>(p, how, f, range, 0);
	if (!ginWorkOk(end))
		ginWorkVoid(how, each, f, range, 0);
	ginNicRelease(gpuMemory);
	ginWorkCounterFollows(q, p, how, next);
	ginSendRingAlone(q, f, range.first, next, !ginHowHas(how, GIN_HOW_AGGREGATE));
	return end;
}

/*
 * Posts if there is room, or in the room that ginWorkRoom() has reserved. describe(p), called while
 * the reservation is in flight, fills in `p` and returns bits for `how`: GIN_HOW_SYSTEM,
 * GIN_HOW_PART.
 */
template <bool alone, class Kind, class Describe>
GIN_FN uint64_t ginWorkNow(struct ginSendQueue *q, const struct ginPeer *peer, uint32_t how,
			   struct ginWorkHeld held, const Describe &describe)
{
	if constexpr (alone)
		return ginWorkAlone<Kind>(q, peer, how, held, describe);
	else
		return ginWorkShared<Kind>(q, peer, how, held, describe);
}

/* `how` of ginWorkRoom() and ginWorkFail(): with the context. */
GIN_FN uint32_t ginWorkHow(uint32_t context, uint32_t how)
{
	return how | context << GIN_HOW_CONTEXT;
}

/*
 * After a post that has failed: writes the error record, and returns GIN_WORK_FAILED + ginResult_t.
 * `id`: of the signal, or UINT32_MAX.
 */
GIN_FN_COLD uint64_t ginWorkFail(const ginDevComm *dc, const struct ginSendQueue *q,
				 const struct ginPeer *peer, uint32_t how, uint64_t failed,
				 uint32_t id)
{
	ginResult_t result = ginResultOf(failed);

	if (failed == GIN_WORK_QUEUE_LOST)
		result = ginSendState(q);
	else if (failed == GIN_WORK_PEER_LOST)
		result = ginPeerLost(&dc->abortLine->word);
	ginErrorLeave(dc, result, ginHowCall(how), how >> GIN_HOW_CONTEXT,
		      static_cast<int>(peer - dc->peers), id, 0, 0);
	return GIN_WORK_FAILED + static_cast<uint64_t>(result);
}

/* Reserves room that it has seen free, for the lanes that call it together. */
GIN_FN struct ginWorkHeld ginWorkTryAgain(struct ginSendQueue *q, uint32_t each, uint32_t how)
{
	const ginSharing sharing = ginHowSharing(how);
	struct ginTogether group =
		ginTogetherFor(ginWorkKey(q, each, how), sharing == ginSharingThread);
	uint64_t got = 0, first = 0;

	if (!group.rank)
		got = ginSendReserveFree(q, each, group.count, &first, sharing);
	got = ginFromLeader(group, got);
	first = ginFromLeader(group, first);
	group = ginFirstOf(group, static_cast<uint32_t>(got));
	if (group.rank >= got)
		return {GIN_WORK_FULL, 0};
	return {first, group.mask ? group.mask : 1u << ginLane()};
}

/*
 * After a post of `each` WQEBBs that has returned `early`: reserves room, waiting for it, or writes
 * the error record. `how`: of ginWorkHow().
 */
GIN_FN_COLD struct ginWorkHeld ginWorkRoom(const ginDevComm *dc, struct ginSendQueue *q,
					   const struct ginPeer *peer, uint32_t how, uint32_t each,
					   uint32_t id, uint64_t early, uint64_t timeout,
					   uint64_t from)
{
	const ginSharing sharing = ginHowSharing(how);
	struct ginSendPatience wait = ginSendPatienceStart(dc, timeout, from);

	while (early == GIN_WORK_FULL) {
		ginSendRefresh(q, sharing);
		early = ginWorkOutcome(ginPeerObserve(peer).state, ginSendState(q), GIN_WORK_FULL);
		if (early != GIN_WORK_FULL)
			break;
		struct ginWorkHeld held = ginWorkTryAgain(q, each, how);
		if (held.lanes)
			return held;
		ginResult_t result = ginSendPollStep(q, wait, sharing);
		if (result != ginSuccess)
			early = GIN_WORK_FAILED + static_cast<uint64_t>(result);
	}
	return {ginWorkFail(dc, q, peer, how, early, id), 0};
}

/* The result of a call, from the return value of its post. */
GIN_FN ginResult_t ginWorkResult(uint64_t end)
{
	return ginWorkOk(end) ? ginSuccess : ginResultOf(end);
}

/* Refuses a call: writes the error record, and returns `result`. */
GIN_FN ginResult_t ginWorkRefuse(const ginDevComm *dc, const struct ginSendQueue *q,
				 const struct ginPeer *peer, uint32_t how, uint32_t id,
				 ginResult_t result)
{
	return ginResultOf(ginWorkFail(dc, q, peer, how, GIN_WORK_FAILED + result, id));
}

/*
 * Posts, waiting for room, by post(held), which calls ginWorkNow(). Returns as post() does, after
 * it has written an error record if the post failed. `how`: of ginWorkHow().
 */
template <class Post> GIN_FN uint64_t ginWorkPost(const ginDevComm *dc, struct ginSendQueue *q,
						  const struct ginPeer *peer, uint32_t how,
						  uint32_t each, uint32_t id, uint64_t timeout,
						  uint64_t from, const Post &post)
{
	struct ginWorkHeld held = {GIN_WORK_FULL, 0};

	for (;;) {
		uint64_t end = post(held);
		if (ginWorkOk(end))
			return end;
		held = ginWorkRoom(dc, q, peer, how, each, id, end, timeout, from);
		if (!held.lanes)
			return held.first;
	}
}

/* READs into the window `into` were posted below `end`. P, release end. */
GIN_FN void ginGetsRecord(struct ginSendQueue *q, const struct ginWindowTable *into, uint64_t end)
{
	struct ginSendGets *gets = &q->gets[into->fence == ginScopeSystem];

	ginLocalStore(&gets->into, reinterpret_cast<uintptr_t>(into));
	ginEndRaise(&gets->read, end);
}

#endif
