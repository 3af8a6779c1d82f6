/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * work.cuh - the content of a post, and the writer of its WQEs
 *
 * Called by post.cuh and by the calls that describe a post. Calls the encoders of mlx5.h. A post is
 * a struct ginWork, addresses and keys, the word `how` of its call, and a kind, a constant.
 */
#ifndef GIN_GDAKI_WORK_CUH
#define GIN_GDAKI_WORK_CUH

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
GIN_FN constexpr uint32_t ginWorkKind(enum ginOp op, uint32_t bytes)
{
	return static_cast<uint32_t>(op) | bytes << 4;
}

GIN_FN constexpr enum ginOp ginKindOp(uint32_t kind)
{
	return static_cast<enum ginOp>(kind & 15);
}

/* The one WQE of two WQEBBs. */
GIN_FN constexpr bool ginKindIsSwap8(uint32_t kind)
{
	return kind == ginWorkKind(ginOpSwap, 8);
}

/* WQEBBs of the data. */
GIN_FN constexpr uint32_t ginKindData(uint32_t kind)
{
	const bool isLong = ginKindOp(kind) == ginOpPutValue && kind >> 4 > GIN_MLX5_INLINE_BYTES;

	return ginKindOp(kind) == ginOpSignal ? 0 : isLong || ginKindIsSwap8(kind) ? 2 : 1;
}

/*
 * All WQEBBs of the post: the data's, then one for the signal. A NOP follows a swap of 8 bytes: the
 * CQE of a WQE of two WQEBBs gives the index of its first, so the last WQE of a post has to be one
 * of a single WQEBB.
 */
GIN_FN uint32_t ginWorkWqebbs(uint32_t kind, uint32_t how)
{
	return ginKindData(kind) + ginHowHas(how, GIN_HOW_RAISES) + ginKindIsSwap8(kind);
}

/* GIN_HOW_SYSTEM, if the caller has not released a source in memory that needs `scope`. */
GIN_FN uint32_t ginWorkRelease(uint32_t how, uint32_t scope)
{
	uint32_t required = scope > ginHowRequired(how) ? scope : ginHowRequired(how);

	bool system = ginFenceLeft(ginHowGiven(how), required) == ginScopeSystem;

	return static_cast<uint32_t>(system) << GIN_HOW_SYSTEM;
}

/*
 * The bits of `how` that change a post's code. Posts are compiled for each shape, a value of these
 * bits, that the types of a call allow.
 */
enum {
	GIN_SHAPE_CTA = ginSharingCta << GIN_HOW_SHARING,
	GIN_SHAPE_ALONE = ginSharingThread << GIN_HOW_SHARING,
	GIN_SHAPE_RAISES = 1 << GIN_HOW_RAISES,
	GIN_SHAPE_AT = 1 << GIN_HOW_AT,
	GIN_SHAPE_COUNTS = 1 << GIN_HOW_COUNTS
};

/* Post::post(args...), as one function where cold functions are calls (GIN_FN_COLD). */
template <class Post, class... Args> GIN_FN_COLD uint64_t ginPostCalled(ginCold<Args>... args)
{
	return Post::post(args...);
}

/*
 * The bits of the shape for which posts are compiled. Posts read the other bits at run time, which
 * costs nothing where posts are inlined; without GIN_SHAPE_ALONE all posts work as for
 * ginSharingGpu, which is always right.
 */
#ifndef GIN_SHAPES
#define GIN_SHAPES                                                                                 \
	(GIN_CALLS * GIN_SHAPE_CTA | GIN_SHAPE_ALONE | GIN_SHAPE_RAISES | GIN_SHAPE_AT |           \
	 GIN_SHAPE_COUNTS)
#endif

/* A shape as far as types define it: bits that are set, and open bits, which depend on values. */
template <uint32_t setBits, uint32_t openBits> struct ginShape {
	static constexpr uint32_t set = setBits, open = openBits;
};

/* The shape of a signal without data. */
template <class Shape> using ginSignalShape =
	ginShape<(Shape::set & GIN_SHAPE_AT) | (GIN_SHAPE_RAISES & GIN_SHAPES),
		 Shape::open &(GIN_SHAPE_CTA | GIN_SHAPE_ALONE | GIN_SHAPE_AT)>;

/* A set or an open bit of a shape: the type of the action decides. */
template <class Action> GIN_FN constexpr uint32_t ginShapeSet(bool has, uint32_t bit)
{
	return ginActionTyped<Action>::value && has ? bit & GIN_SHAPES : 0;
}

template <class Action> GIN_FN constexpr uint32_t ginShapeOpen(uint32_t bits)
{
	return ginActionTyped<Action>::value ? 0 : bits & GIN_SHAPES;
}

/* The shape of a call with actions of these types. */
template <class Remote, class Local = GinNone> using ginActionShape =
	ginShape<ginShapeSet<Remote>(ginSignalOf(Remote{}).present, GIN_SHAPE_RAISES) |
			 ginShapeSet<Remote>(ginSignalOf(Remote{}).at, GIN_SHAPE_AT) |
			 ginShapeSet<Local>(ginCounterOf(Local{}) != UINT32_MAX, GIN_SHAPE_COUNTS),
		 ((GIN_SHAPE_CTA | GIN_SHAPE_ALONE) & GIN_SHAPES) |
			 ginShapeOpen<Remote>(GIN_SHAPE_RAISES | GIN_SHAPE_AT) |
			 ginShapeOpen<Local>(GIN_SHAPE_COUNTS)>;

/*
 * Post<shape>::post(args...), for the shape of `how`, which Shape allows. An inlined post takes
 * some 200 ns less, but more registers and more time to compile. A kernel for the gdaki route alone
 * inlines it; `called`: a kernel for several network routes.
 */
template <class Shape, bool called, template <uint32_t> class Post, class... Args>
GIN_FN uint64_t ginWithShape(uint32_t how, Args... args)
{
	constexpr uint32_t set = Shape::set, bit = Shape::open & -Shape::open;
	constexpr uint32_t open = Shape::open ^ bit;

	if constexpr (bit) {
		/* At most one of GIN_SHAPE_CTA and GIN_SHAPE_ALONE is set. */
		constexpr uint32_t alone = bit == GIN_SHAPE_CTA ? 1u * GIN_SHAPE_ALONE : 0;
		using With = ginShape<set | bit, open & ~alone>;
		using Without = ginShape<set, open>;
		return how & bit ? ginWithShape<With, called, Post>(how, args...)
				 : ginWithShape<Without, called, Post>(how, args...);
	} else if constexpr (called) {
		return ginPostCalled<Post<set>, Args...>(args...);
	} else {
		return Post<set>::post(args...);
	}
}

/* `how`, with the bits of the shape as constants. */
template <uint32_t shape> GIN_FN uint32_t ginShapedHow(uint32_t how)
{
	constexpr uint32_t sharing = GIN_SHAPE_CTA | GIN_SHAPE_ALONE;
	constexpr bool open =
		(GIN_SHAPES & sharing) == GIN_SHAPE_ALONE && !(shape & GIN_SHAPE_ALONE);

	return (how & ~(GIN_SHAPES | (open ? 1u * GIN_SHAPE_ALONE : sharing))) | shape;
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

/* Writes WQEBB `i` of the data. `kind`: ginWorkKind(). */
template <uint32_t kind> GIN_FN void ginWorkStore(const struct ginWork &p, struct ginMlx5Wqebb *wqe,
						  struct ginMlx5Slot slot, uint32_t i)
{
	constexpr enum ginOp op = ginKindOp(kind);
	constexpr uint32_t bytes = kind >> 4;

	if constexpr (op == ginOpPut || op == ginOpGet)
		ginMlx5StoreWqebb(wqe, ginWorkMessage(p, op, slot));
	else if constexpr (op == ginOpPutValue)
		ginMlx5StoreWqebb(wqe, ginWorkValue(p, bytes, slot, i));
	else if constexpr (bytes == 4)
		ginMlx5StoreWqebb(wqe, ginWorkAtomic4(p, op, slot));
	else if constexpr (bytes == 8)
		ginMlx5StoreWqebb(wqe, ginWorkAtomic8(p, op, slot, i));
}

/*
 * The only writer of WQEs: WQEBB `i` of a post that begins at index `at` of the range. The last
 * WQEBB names the counter.
 */
template <uint32_t kind>
GIN_FN void ginWorkWrite(const struct ginWork &p, uint32_t how, const struct ginSendFixed &f,
			 struct ginSendRange range, uint32_t at, uint32_t i)
{
	struct ginMlx5Wqebb *wqe = ginSendWqebb(f, range.first + at + i);
	struct ginMlx5Slot slot = ginSendSlot(f, range, at + i);

	constexpr uint32_t data = ginKindData(kind);

	if (data != 0 && i < data)
		ginWorkStore<kind>(p, wqe, slot, i);
	else if (ginHowHas(how, GIN_HOW_RAISES))
		ginMlx5StoreWqebb(wqe, ginWorkSignal(p, how, f, slot));
	else
		ginMlx5StoreWqebb(wqe, ginMlx5Nop(slot));
	if (ginHowHas(how, GIN_HOW_COUNTS) && i + 1 == ginWorkWqebbs(kind, how))
		ginSlotCounterSet(&f.counter[(range.first + at + i) & ginSendMask(f)],
				  static_cast<uint32_t>(p.data[3] >> 32) + 1);
}

/* All WQEs of a post. */
template <uint32_t kind> GIN_FN void ginWorkWriteAll(const struct ginWork &p, uint32_t how,
						     const struct ginSendFixed &f,
						     struct ginSendRange range, uint32_t at)
{
	for (uint32_t i = 0; i < ginWorkWqebbs(kind, how); i++)
		ginWorkWrite<kind>(p, how, f, range, at, i);
}

/*
 * After a failure: overwrites the `each` WQEBBs of ginWorkWriteAll() with control segments of NOPs;
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

#endif
