/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coop.cuh - the threads that make one call together
 *
 * All threads of the coop make the call, with the same arguments. A coop is any type with
 *   thread_rank()  0 to size() - 1
 *   size()
 *   sync()         all have arrived; what each wrote before is visible to all after
 *   any(mine)      tells all whether one of them said true; a type without it works too, but its
 *                  threads may return different results from one call
 * A type whose any() is a sync() too says so by `anyIsSync`; a vote alone orders no memory. `leaders`
 * of the first threads execute together, lanes of one warp: what one of them has to do, as polling a
 * word, all of them do, since to part them costs more. 1 where it is not said. A type of many threads
 * sets `inFlight`, accesses that each has in flight in a long copy, to less than the 8 that a few need;
 * one whose size the compiler knows says it by `fixedSize`.
 */
#ifndef GIN_COOP_CUH
#define GIN_COOP_CUH

#include "detail/target.cuh"

/* Host threads never execute together. */
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

/* Lanes of one warp, by a mask that is the same for all of them and holds each. */
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

/* `lanes` neighbouring lanes of a warp, 1, 2, 4 to 32; on the host neighbouring threads of a block. */
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
 * A warp, all of its lanes: 32 on a GPU, where the block must be a multiple of that, GIN_HOST_WARP
 * host threads, fewer at a block's end.
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
 * `warps` whole warps of the block from number `first` on. `id` is 1 to 15, and another for spans
 * that meet at the same time: it is the hardware's named barrier.
 */
struct GinWarpSpan {
	static constexpr bool anyIsSync = true;
	static constexpr uint32_t leaders = GIN_TOGETHER;
	static constexpr uint32_t inFlight = 4;

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
	static constexpr uint32_t inFlight = 4;

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

/* A coop that is chosen at run time. */
enum ginCoopKind { ginCoopThread = 0, ginCoopWarp = 1, ginCoopCta = 2 };

struct GinAnyCoop {
	static constexpr bool anyIsSync = true;

	uint32_t kind; /* enum ginCoopKind */

	GIN_FN uint32_t thread_rank() const
	{
		if (kind == ginCoopThread)
			return 0;
		return kind == ginCoopWarp ? GinWarp{}.thread_rank() : GinCta{}.thread_rank();
	}

	GIN_FN uint32_t size() const
	{
		if (kind == ginCoopThread)
			return 1;
		return kind == ginCoopWarp ? GinWarp{}.size() : GinCta{}.size();
	}

	GIN_FN void sync() const { any(false); }

	GIN_FN bool any(bool mine) const
	{
		if (kind == ginCoopThread)
			return mine;
		return kind == ginCoopWarp ? GinWarp{}.any(mine) : GinCta{}.any(mine);
	}
};

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
	return 8;
}

template <class Coop> GIN_FN constexpr auto ginFixedSize(int) -> decltype(Coop::fixedSize)
{
	return Coop::fixedSize;
}

template <class Coop> GIN_FN constexpr uint32_t ginFixedSize(long)
{
	return 0;
}

/* Is this thread one of those who do what the first one has to? */
template <class Coop> GIN_FN bool ginLeads(Coop coop)
{
	return coop.size() <= ginLeaders<Coop>(0) || coop.thread_rank() < ginLeaders<Coop>(0);
}

/* The largest result of the coop, by a vote per bit from the top: those with less drop out. */
template <class Coop> GIN_FN_COLD ginResult_t ginAgreeWorst(Coop coop, ginResult_t mine)
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
 * The closing vote of a call, in the place of its closing sync: all get ginSuccess when all have
 * it, else all get the largest result of any. Success costs the one vote.
 */
template <class Coop> GIN_FN auto ginAgreeBy(Coop coop, ginResult_t mine, int)
	-> decltype(Coop::anyIsSync, ginSuccess)
{
	return coop.any(mine != ginSuccess) ? ginAgreeWorst(coop, mine) : ginSuccess;
}

/* A coop whose vote is just a vote. */
template <class Coop> GIN_FN auto ginAgreeBy(Coop coop, ginResult_t mine, long)
	-> decltype(coop.any(true), ginSuccess)
{
	coop.sync();
	return coop.any(mine != ginSuccess) ? ginAgreeWorst(coop, mine) : ginSuccess;
}

/* A coop that cannot vote meets. */
template <class Coop> GIN_FN ginResult_t ginAgreeBy(Coop coop, ginResult_t mine, ...)
{
	coop.sync();
	return mine;
}

template <class Coop> GIN_FN ginResult_t ginAgree(Coop coop, ginResult_t mine)
{
	if constexpr (ginFixedSize<Coop>(0) == 1)
		return mine;
	else
		return ginAgreeBy(coop, mine, 0);
}

#endif
