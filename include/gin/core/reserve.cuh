/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reserve.cuh - common to posts to the proxy and to the NIC
 *
 * The source of a put, and how far it must be released; and the lanes of a warp that post together
 * to one ring or send queue: one lane reserves and hands over for all of them.
 */
#ifndef GIN_RESERVE_CUH
#define GIN_RESERVE_CUH

#include "how.cuh"
#include "target.cuh"

/*
 * The source of a put: in a window, or at an address in any window of this rank. `anywhere` says
 * which, and is a constant in every call.
 */
struct ginSource {
	bool anywhere;
	const void *address; /* if `anywhere` */
	ginWindow_t window;  /* if not */
	size_t offset;

	/* The address, or the table of the window: an argument of a network call. */
	GIN_FN uint64_t word() const
	{
		return anywhere ? reinterpret_cast<uintptr_t>(address)
				: reinterpret_cast<uintptr_t>(window.table);
	}
};

GIN_FN constexpr ginSource ginSourceIn(ginWindow_t window, size_t offset)
{
	return {false, nullptr, window, offset};
}

GIN_FN constexpr ginSource ginSourceAnywhere(const void *address)
{
	return {true, address, {nullptr}, 0};
}

/* The source, from `how` and ginSource.word(). */
GIN_FN struct ginSource ginSourceOf(uint32_t how, uint64_t word, uint64_t offset)
{
	return {ginHowHas(how, GIN_HOW_ANYWHERE),
		reinterpret_cast<const void *>(static_cast<uintptr_t>(word)),
		{reinterpret_cast<struct ginWindowTable *>(static_cast<uintptr_t>(word))},
		offset};
}

/*
 * The scope that a call has left to release, if the caller has released to `given` and the call
 * needs `required`: enum ginScope.
 */
GIN_FN uint32_t ginFenceLeft(uint32_t given, uint32_t required)
{
	if (given >= ginScopeSystem) /* usually a constant */
		return ginScopeThread;
	return given >= required ? static_cast<uint32_t>(ginScopeThread) : required;
}

/*
 * The scope that is left to release for a put: its window's, or the `asked` scope if that is wider.
 */
GIN_FN uint32_t ginPutFence(const ginSource &src, uint32_t given, uint32_t asked)
{
	uint32_t required = static_cast<uint32_t>(ginScopeSystem);
	if (!src.anywhere)
		required = src.window.table->fence;
	return ginFenceLeft(given, required < asked ? asked : required);
}

/* Lanes of a warp that execute together and post to one ring or send queue. */
struct ginTogether {
	uint32_t count;
	uint32_t rank; /* of this lane; lane 0 leads */
	uint32_t mask; /* of the lanes; on a GPU */
};

#if GIN_ON_GPU
/*
 * Hides `key` from ptxas. If ptxas knows that all lanes have one key, it takes the match mask from
 * any lane that executes at that moment (R2UR; ptxas of CUDA 13.0). Where a branch ends, lanes with
 * another mask may have joined by then, and lanes would wait for each other forever. The code adds
 * 0 to the key: a block has at most 1024 threads.
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

/* The lanes of a mask, which is not 0. */
GIN_FN struct ginTogether ginTogetherOf(uint32_t mask)
{
#if GIN_ON_GPU
	uint32_t below = mask & ((1u << ginLane()) - 1);
	return {static_cast<uint32_t>(__popc(mask)), static_cast<uint32_t>(__popc(below)), mask};
#else
	return {1, 0, mask};
#endif
}

/* The lanes with this lane's `key`. `held`: if not 0, these lanes. */
GIN_FN struct ginTogether ginTogetherAs(uint64_t key, uint32_t held)
{
#if GIN_ON_GPU
	uint32_t mask = held ? held : __activemask();
	if (!held && (mask & (mask - 1)))
		mask = __match_any_sync(mask, ginHiddenKey(key));
	return ginTogetherOf(mask);
#else
	(void)key;
	return {1, 0, held};
#endif
}

/* The lanes with this lane's `key`. `alone`: only this lane. */
GIN_FN struct ginTogether ginTogetherFor(uint64_t key, bool alone)
{
	if (alone)
		return {1, 0, 0};
	return ginTogetherAs(key, 0);
}

/* The leader's `value`, on every lane. */
GIN_FN uint64_t ginFromLeader(const struct ginTogether &all, uint64_t value)
{
#if GIN_ON_GPU
	if (all.count > 1)
		return __shfl_sync(all.mask, value, __ffs(static_cast<int>(all.mask)) - 1);
#endif
	(void)all;
	return value;
}

/* The first `count` lanes. All lanes call it; only the first `count` may use what it returns. */
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

/* Is `mine` true on one of the lanes? */
GIN_FN bool ginAnyOf(const struct ginTogether &all, bool mine)
{
#if GIN_ON_GPU
	if (all.count > 1)
		return __any_sync(all.mask, mine);
#endif
	(void)all;
	return mine;
}

/* The lanes meet: what each lane wrote before is visible to all of them after. */
GIN_FN void ginMeetAll(const struct ginTogether &all)
{
#if GIN_ON_GPU
	if (all.count > 1)
		__syncwarp(all.mask);
#endif
	(void)all;
}

#endif
