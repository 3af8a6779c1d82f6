/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coop.cuh - the threads that make one call together
 *
 * All threads of the coop make the call, with the same arguments. A coop has
 *   thread_rank()  0 to size() - 1
 *   size()
 *   sync()         all have arrived; what each wrote before is visible to all after
 *   any(mine)      sync() that also tells all whether one of them said true
 */
#ifndef GIN_COOP_CUH
#define GIN_COOP_CUH

#include "target.cuh"

/* One thread. */
struct GinThread {
	GIN_FN uint32_t thread_rank() const { return 0; }
	GIN_FN uint32_t size() const { return 1; }
	GIN_FN void sync() const {}
	GIN_FN bool any(bool mine) const { return mine; }
};

/*
 * A warp, all of its lanes: 32 on a GPU, where the block must be a multiple of that, GIN_HOST_WARP
 * host threads, fewer at a block's end.
 */
struct GinWarp {
	GIN_FN uint32_t thread_rank() const { return ginThreadIndex() % GIN_WARP_SIZE; }

	GIN_FN uint32_t size() const
	{
#if GIN_ON_GPU
		return GIN_WARP_SIZE;
#else
		return ginHostSelf()->warp->size;
#endif
	}

	GIN_FN void sync() const
	{
#if GIN_ON_GPU
		__syncwarp();
#else
		ginHostSync(ginHostSelf()->warp);
#endif
	}

	GIN_FN bool any(bool mine) const
	{
#if GIN_ON_GPU
		__syncwarp(); /* a vote alone orders no memory */
		return __any_sync(0xffffffffu, mine);
#else
		ginHostThread *self = ginHostSelf();
		return ginHostAny(self->warp, &self->warpPhase, thread_rank() == 0, mine);
#endif
	}
};

/* A thread block. */
struct GinCta {
	GIN_FN uint32_t thread_rank() const { return ginThreadIndex(); }
	GIN_FN uint32_t size() const { return ginBlockSize(); }

	GIN_FN void sync() const
	{
#if GIN_ON_GPU
		__syncthreads();
#else
		ginHostSync(ginHostSelf()->block);
#endif
	}

	GIN_FN bool any(bool mine) const
	{
#if GIN_ON_GPU
		return __syncthreads_or(mine);
#else
		ginHostThread *self = ginHostSelf();
		return ginHostAny(self->block, &self->blockPhase, thread_rank() == 0, mine);
#endif
	}
};

/*
 * The closing vote of a call, in the place of its closing sync: all get ginSuccess when all have
 * it, else all get the largest result of any. Success costs the one vote; a failure settles the
 * largest by a vote per bit, from the top, in which those with a smaller one drop out.
 */
template <class Coop> GIN_FN ginResult_t ginAgree(Coop coop, ginResult_t mine)
{
	if (!coop.any(mine != ginSuccess))
		return ginSuccess;
	uint32_t agreed = 0;
	for (uint32_t bit = 16; bit; bit >>= 1) {
		bool candidate = (mine & ~(2 * bit - 1)) == agreed;
		if (coop.any(candidate && (mine & bit)))
			agreed |= bit;
	}
	return static_cast<ginResult_t>(agreed);
}

#endif
