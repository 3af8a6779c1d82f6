/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * action.cuh - what a put does besides moving bytes
 *
 * Remote actions raise a signal at the target, once the put is visible there: by id, a word of the
 * context, or any aligned 8-byte word of a window. A strong one also makes all earlier puts of the
 * same context to the same peer visible; a weak one its own put alone. Local actions count puts
 * whose source bytes may be reused.
 */
#ifndef GIN_ACTION_CUH
#define GIN_ACTION_CUH

#include "detail/target.cuh"

/* Neither remote nor local action. */
struct GinNone {
};

/* Add 1 to signal `id`, or `value`; sums wrap at 2^64. */
struct GinSignalInc {
	uint32_t id;
};
struct GinSignalAdd {
	uint32_t id;
	uint64_t value;
};
struct GinWeakSignalInc {
	uint32_t id;
};
struct GinWeakSignalAdd {
	uint32_t id;
	uint64_t value;
};

/* The same to the word at byte `offset` of `window` at the target. */
struct GinSignalIncAt {
	ginWindow_t window;
	size_t offset;
};
struct GinSignalAddAt {
	ginWindow_t window;
	size_t offset;
	uint64_t value;
};
struct GinWeakSignalIncAt {
	ginWindow_t window;
	size_t offset;
};
struct GinWeakSignalAddAt {
	ginWindow_t window;
	size_t offset;
	uint64_t value;
};

/* Add 1 to this rank's counter `id` when the source bytes of the put may be reused. */
struct GinCounterInc {
	uint32_t id;
};

/* Any remote action, in one form. */
struct ginSignalOp {
	bool present;
	bool strong;
	bool at;	    /* the word at the window's offset; else by id */
	uint32_t id;	    /* UINT32_MAX, when it is not by id */
	ginWindow_t window; /* only then */
	size_t offset;
	uint64_t value;
};

GIN_FN constexpr ginSignalOp ginSignalById(bool strong, uint32_t id, uint64_t value)
{
	return {true, strong, false, id, {nullptr}, 0, value};
}

GIN_FN constexpr ginSignalOp ginSignalByOffset(bool strong, ginWindow_t window, size_t offset,
					       uint64_t value)
{
	return {true, strong, true, UINT32_MAX, window, offset, value};
}

GIN_FN constexpr ginSignalOp ginSignalOf(GinNone)
{
	return {false, false, false, UINT32_MAX, {nullptr}, 0, 0};
}
GIN_FN constexpr ginSignalOp ginSignalOf(GinSignalInc a)
{
	return ginSignalById(true, a.id, 1);
}
GIN_FN constexpr ginSignalOp ginSignalOf(GinSignalAdd a)
{
	return ginSignalById(true, a.id, a.value);
}
GIN_FN constexpr ginSignalOp ginSignalOf(GinWeakSignalInc a)
{
	return ginSignalById(false, a.id, 1);
}
GIN_FN constexpr ginSignalOp ginSignalOf(GinWeakSignalAdd a)
{
	return ginSignalById(false, a.id, a.value);
}
GIN_FN constexpr ginSignalOp ginSignalOf(GinSignalIncAt a)
{
	return ginSignalByOffset(true, a.window, a.offset, 1);
}
GIN_FN constexpr ginSignalOp ginSignalOf(GinSignalAddAt a)
{
	return ginSignalByOffset(true, a.window, a.offset, a.value);
}
GIN_FN constexpr ginSignalOp ginSignalOf(GinWeakSignalIncAt a)
{
	return ginSignalByOffset(false, a.window, a.offset, 1);
}
GIN_FN constexpr ginSignalOp ginSignalOf(GinWeakSignalAddAt a)
{
	return ginSignalByOffset(false, a.window, a.offset, a.value);
}
GIN_FN constexpr ginSignalOp ginSignalOf(ginSignalOp a)
{
	return a;
}

/* Any local action: the counter to raise, or UINT32_MAX. */
GIN_FN constexpr uint32_t ginCounterOf(GinNone)
{
	return UINT32_MAX;
}
GIN_FN constexpr uint32_t ginCounterOf(GinCounterInc a)
{
	return a.id;
}

#endif
