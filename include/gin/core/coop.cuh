/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coop.cuh - the threads that make one call together
 *
 * All threads of the coop make the call, with equal arguments. A coop is any type with
 *   thread_rank()  0 to size() - 1
 *   size()         the number of threads
 *   sync()         waits for all threads; all writes before it are visible to all after it
 *   any(mine)      returns on every thread whether one of them passed true. Optional: without it
 *                  the threads may get different results from one call.
 * and, optionally, these constants:
 *   anyIsSync      any() also is a sync(); a vote alone orders no memory
 *   leaders        the first `leaders` threads are lanes of one warp: they poll together, because
 *                  diverging costs more than redundant loads. Default 1.
 *   inFlight       accesses that each thread has in flight in a long copy, 4 registers each.
 *                  Default 4; at least 8 if the size is fixed and the kernel has network routes.
 *   fixedSize      the size, if it is a constant
 */
#ifndef GIN_COOP_CUH
#define GIN_COOP_CUH

#include "target.cuh"

/* Lanes of a warp that execute together; host threads never do. */
#define GIN_TOGETHER (GIN_ON_GPU ? 32u : 1u)

/* One thread. */
struct GinThread {
	static constexpr bool anyIsSync = true;
	static constexpr uint32_t leaders = 1;
	static constexpr uint32_t fixedSize = 1;

	GIN_FN uint32_t thread_rank() const { return 0; }
	GIN_FN uint32_t size() const { return 1; }
	GIN_FN void sync() const {}
	GIN_FN bool any(bool mine) const { return mine; }
};

/* Lanes of one warp. All of them pass one mask, with the bits of exactly these lanes. */
struct GinLanes {
	static constexpr bool anyIsSync = true;
	static constexpr uint32_t leaders = GIN_TOGETHER;

	uint32_t mask;

	GIN_FN uint32_t thread_rank() const
	{
		uint32_t below = mask & ((1u << ginLane()) - 1);
		return ginPopulation(below);
	}

	GIN_FN uint32_t size() const { return ginPopulation(mask); }
	GIN_FN void sync() const { meet(false); }
	GIN_FN bool any(bool mine) const { return meet(mine); }

private:
	GIN_FN static uint32_t ginPopulation(uint32_t bits)
	{
#if GIN_ON_GPU
		return static_cast<uint32_t>(__popc(bits));
#else
		return static_cast<uint32_t>(__builtin_popcount(bits));
#endif
	}

	GIN_FN bool meet(bool mine) const
	{
#if GIN_ON_GPU
		__syncwarp(mask); /* a vote alone orders no memory */
		return __any_sync(mask, mine);
#else
		uint64_t warp = ginThreadIndex() / GIN_WARP_SIZE;
		return ginHostMeet(1, warp << 32 | mask, size(), mine);
#endif
	}
};

/* An aligned tile of 1, 2, 4, 8, 16 or 32 lanes of a warp; of threads of a block on the host. */
template <uint32_t lanes> struct GinTile {
	static_assert(lanes && !(lanes & (lanes - 1)) && lanes <= 32, "1, 2, 4, 8, 16 or 32 lanes");
	static constexpr bool anyIsSync = true;
	static constexpr uint32_t leaders = GIN_ON_GPU ? lanes : 1;
	static constexpr uint32_t fixedSize = lanes;

	GIN_FN uint32_t thread_rank() const { return ginThreadIndex() % lanes; }
	GIN_FN uint32_t size() const { return lanes; }
	GIN_FN void sync() const { any(false); }

	GIN_FN bool any(bool mine) const
	{
#if GIN_ON_GPU
		uint32_t first = ginThreadIndex() % 32 / lanes * lanes;
		return GinLanes{(lanes == 32 ? 0xffffffffu : (1u << lanes % 32) - 1) << first}.any(
			mine);
#else
		uint64_t tile = ginThreadIndex() / lanes;
		return ginHostMeet(3, tile << 8 | lanes, lanes, mine);
#endif
	}
};

/*
 * All lanes of a warp. On a GPU 32 lanes: the block size must be a multiple of 32. On the host
 * GIN_HOST_WARP threads, or fewer at the end of a block.
 */
struct GinWarp {
	static constexpr bool anyIsSync = true;
	static constexpr uint32_t leaders = GIN_TOGETHER;
	static constexpr uint32_t fixedSize = GIN_ON_GPU ? 32 : 0;

	GIN_FN uint32_t thread_rank() const { return ginLane(); }

	GIN_FN uint32_t size() const
	{
#if GIN_ON_GPU
		return GIN_WARP_SIZE;
#else
		uint32_t left = ginBlockSize() - ginThreadIndex() / GIN_WARP_SIZE * GIN_WARP_SIZE;
		return left < GIN_WARP_SIZE ? left : GIN_WARP_SIZE;
#endif
	}

	GIN_FN void sync() const
	{
		meet(false);
	}
	GIN_FN bool any(bool mine) const
	{
		return meet(mine);
	}

private:
	GIN_FN bool meet(bool mine) const
	{
#if GIN_ON_GPU
		__syncwarp(); /* a vote alone orders no memory */
		return __any_sync(0xffffffffu, mine);
#else
		return ginHostMeet(4, ginThreadIndex() / GIN_WARP_SIZE, size(), mine);
#endif
	}
};

/*
 * `warps` whole warps of the block, from warp number `first`. `id` is the number of the hardware's
 * named barrier, 1 to 15: spans in use at a time need different numbers.
 */
struct GinWarpSpan {
	static constexpr bool anyIsSync = true;
	static constexpr uint32_t leaders = GIN_TOGETHER;

	uint32_t first;
	uint32_t warps;
	uint32_t id;

	GIN_FN uint32_t thread_rank() const { return ginThreadIndex() - first * GIN_WARP_SIZE; }
	GIN_FN uint32_t size() const { return warps * GIN_WARP_SIZE; }

	GIN_FN void sync() const
	{
#if GIN_ON_GPU
		asm volatile("barrier.cta.sync %0, %1;" ::"r"(id), "r"(size()) : "memory");
#else
		any(false);
#endif
	}

	GIN_FN bool any(bool mine) const
	{
#if GIN_ON_GPU
		uint32_t result;
		asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0;"
			     " barrier.cta.red.or.pred q, %2, %3, p; selp.u32 %0, 1, 0, q; }"
			     : "=r"(result)
			     : "r"(static_cast<uint32_t>(mine)), "r"(id), "r"(size())
			     : "memory");
		return result != 0;
#else
		return ginHostMeet(2, static_cast<uint64_t>(first) << 8 | id, size(), mine);
#endif
	}
};

/* A thread block. */
struct GinCta {
	static constexpr bool anyIsSync = true;
	static constexpr uint32_t leaders = GIN_TOGETHER;

	GIN_FN uint32_t thread_rank() const { return ginThreadIndex(); }
	GIN_FN uint32_t size() const { return ginBlockSize(); }

	GIN_FN void sync() const
	{
#if GIN_ON_GPU
		__syncthreads();
#else
		any(false);
#endif
	}

	GIN_FN bool any(bool mine) const
	{
#if GIN_ON_GPU
		return __syncthreads_or(mine);
#else
		return ginHostMeet(5, 0, size(), mine);
#endif
	}
};

/* A coop chosen at run time. */
enum ginCoopKind { ginCoopThread = 0, ginCoopWarp = 1, ginCoopCta = 2, ginCoopSpan = 3 };

struct GinAnyCoop {
	static constexpr bool anyIsSync = true;

	uint32_t kind; /* enum ginCoopKind, or of ginCoopOfSpan() */

	GIN_FN uint32_t thread_rank() const
	{
		if (kind == ginCoopThread)
			return 0;
		if (kind == ginCoopWarp)
			return GinWarp{}.thread_rank();
		return kind == ginCoopCta ? GinCta{}.thread_rank() : span().thread_rank();
	}

	GIN_FN uint32_t size() const
	{
		if (kind == ginCoopThread)
			return 1;
		if (kind == ginCoopWarp)
			return GinWarp{}.size();
		return kind == ginCoopCta ? GinCta{}.size() : span().size();
	}

	GIN_FN void sync() const { any(false); }

	GIN_FN bool any(bool mine) const
	{
		if (kind == ginCoopThread)
			return mine;
		if (kind == ginCoopWarp)
			return GinWarp{}.any(mine);
		return kind == ginCoopCta ? GinCta{}.any(mine) : span().any(mine);
	}

private:
	GIN_FN GinWarpSpan span() const
	{
		return {kind >> 16 & 0xff, kind >> 24, kind >> 8 & 0xff};
	}
};

/* GinWarpSpan{first, warps, id} as GinAnyCoop.kind. */
GIN_FN constexpr uint32_t ginCoopOfSpan(uint32_t first, uint32_t warps, uint32_t id)
{
	return ginCoopSpan | id << 8 | first << 16 | warps << 24;
}

template <class Coop> GIN_FN constexpr auto ginLeaders(int) -> decltype(Coop::leaders)
{
	return Coop::leaders;
}

template <class Coop> GIN_FN constexpr uint32_t ginLeaders(long)
{
	return 1;
}

template <class Coop> GIN_FN constexpr auto ginInFlight(int) -> decltype(Coop::inFlight)
{
	return Coop::inFlight;
}

template <class Coop> GIN_FN constexpr uint32_t ginInFlight(long)
{
	return 4;
}

template <class Coop> GIN_FN constexpr auto ginFixedSize(int) -> decltype(Coop::fixedSize)
{
	return Coop::fixedSize;
}

template <class Coop> GIN_FN constexpr uint32_t ginFixedSize(long)
{
	return 0;
}

/* The rank of this thread in the coop. As ginUnshared(). */
template <class Coop> GIN_FN uint32_t ginRankAgain(Coop coop)
{
	return ginUnshared(coop.thread_rank());
}

GIN_FN uint32_t ginRankAgain(GinCta)
{
	return ginThreadIndexAgain();
}

/* Is any() of the coop a sync, too? */
template <class Coop> GIN_FN constexpr auto ginVoteIsSync(int) -> decltype(Coop::anyIsSync)
{
	return Coop::anyIsSync;
}

template <class Coop> GIN_FN constexpr bool ginVoteIsSync(long)
{
	return false;
}

/* Is this thread one of the first ginLeaders() threads, which poll together? */
template <class Coop> GIN_FN bool ginLeads(Coop coop)
{
	return coop.size() <= ginLeaders<Coop>(0) || coop.thread_rank() < ginLeaders<Coop>(0);
}

/* The largest result of the coop, by one vote per bit from the top bit. */
template <class Coop> GIN_FN_CALLED ginResult_t ginAgreeWorst(ginCold<Coop> coop, ginResult_t mine)
{
	uint32_t agreed = 0;
	for (uint32_t bit = 16; bit; bit >>= 1) {
		bool candidate = (mine & ~(2 * bit - 1)) == agreed;
		if (coop.any(candidate && (mine & bit)))
			agreed |= bit;
	}
	return static_cast<ginResult_t>(agreed);
}

/*
 * An argument of type ginOverload2 prefers overloads with ginOverload2, then ginOverload1, then
 * ginOverload0.
 */
struct ginOverload0 {
};
struct ginOverload1 : ginOverload0 {
};
struct ginOverload2 : ginOverload1 {
};

/*
 * The closing vote of a call, which replaces its closing sync. Every thread gets ginSuccess if
 * every thread has it, otherwise the largest result of the coop. Success costs one vote.
 */
template <class Coop> GIN_FN auto ginAgreeBy(Coop coop, ginResult_t mine, ginOverload2)
	-> decltype(Coop::anyIsSync, ginSuccess)
{
	return coop.any(mine != ginSuccess) ? ginAgreeWorst<Coop>(coop, mine) : ginSuccess;
}

/* For a coop whose any() is not a sync(). */
template <class Coop> GIN_FN auto ginAgreeBy(Coop coop, ginResult_t mine, ginOverload1)
	-> decltype(coop.any(true), ginSuccess)
{
	coop.sync();
	return coop.any(mine != ginSuccess) ? ginAgreeWorst<Coop>(coop, mine) : ginSuccess;
}

/* For a coop without any(). */
template <class Coop> GIN_FN ginResult_t ginAgreeBy(Coop coop, ginResult_t mine, ginOverload0)
{
	coop.sync();
	return mine;
}

template <class Coop> GIN_FN ginResult_t ginAgree(Coop coop, ginResult_t mine)
{
	if constexpr (ginFixedSize<Coop>(0) == 1)
		return mine;
	else
		return ginAgreeBy(coop, mine, ginOverload2{});
}

#endif
