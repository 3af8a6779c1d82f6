/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * together.cuh - threads of a warp that come to the same queue at the same time, each for itself
 *
 * They reserve once, and one of them does what is done once.
 */
#ifndef GIN_TOGETHER_CUH
#define GIN_TOGETHER_CUH

#include "target.cuh"

/* Threads of a warp that execute together, for the same queue. */
struct ginTogether {
	uint32_t count;
	uint32_t rank; /* of this one; 0 leads */
	uint32_t mask; /* lanes, on a GPU */
};

#if GIN_ON_GPU
/*
 * `key`, hidden from ptxas. Where that knows that all lanes have the same one it takes the mask of those who
 * come together for the same, too, in all who go on together, and a shuffle takes it from any of them
 * (R2UR; ptxas of CUDA 13.0). But others may have joined them meanwhile, with a mask of their own, where
 * both leave a branch: lanes then waited for each other forever. What is added is 0: blocks have at most
 * 1024 threads.
 */
GIN_FN uint64_t ginHiddenKey(uint64_t key)
{
	asm("{\n\t.reg .b32 x;\n\t.reg .b64 zero;\n\t"
	    "mov.u32 x, %%tid.x;\n\tshr.u32 x, x, 10;\n\tcvt.u64.u32 zero, x;\n\t"
	    "add.u64 %0, %0, zero;\n\t}"
	    : "+l"(key));
	return key;
}
#endif

/* Those with the same `key`; just this one when it is alone. */
GIN_FN struct ginTogether ginTogetherFor(uint64_t key, bool alone)
{
#if GIN_ON_GPU
	uint32_t active = __activemask();
	if (!alone && (active & (active - 1))) {
		uint32_t mask = __match_any_sync(active, ginHiddenKey(key));
		uint32_t below = mask & ((1u << ginLane()) - 1);
		return {static_cast<uint32_t>(__popc(mask)), static_cast<uint32_t>(__popc(below)),
			mask};
	}
#else
	(void)key, (void)alone;
#endif
	return {1, 0, 0};
}

/* What the leader has, for all of them. */
GIN_FN uint64_t ginFromLeader(const struct ginTogether &all, uint64_t value)
{
#if GIN_ON_GPU
	if (all.count > 1)
		return __shfl_sync(all.mask, value, __ffs(static_cast<int>(all.mask)) - 1);
#endif
	(void)all;
	return value;
}

/* The first `count` of them; by all of them, and for those only. */
GIN_FN struct ginTogether ginFirstOf(const struct ginTogether &all, uint32_t count)
{
#if GIN_ON_GPU
	if (all.count > 1 && count < all.count)
		return {count, all.rank, __ballot_sync(all.mask, all.rank < count)};
#else
	(void)count;
#endif
	return all;
}

/* Does one of them say so? */
GIN_FN bool ginAnyOf(const struct ginTogether &all, bool mine)
{
#if GIN_ON_GPU
	if (all.count > 1)
		return __any_sync(all.mask, mine);
#endif
	(void)all;
	return mine;
}

/* What each of them wrote before is visible to all of them after. */
GIN_FN void ginMeetAll(const struct ginTogether &all)
{
#if GIN_ON_GPU
	if (all.count > 1)
		__syncwarp(all.mask);
#endif
	(void)all;
}

#endif
