/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gin_barrier.h - a barrier among the ranks of any team, in NCCL's words
 *
 * The barrier always covers the puts of all contexts to ranks of the team, so the fence levels None
 * and Put are one. Get flushes first. The messages go by the context of the ncclGin, by context 0
 * with ncclGinAllContexts.
 */
#ifndef GIN_COMPAT_NCCL_GIN_BARRIER_H
#define GIN_COMPAT_NCCL_GIN_BARRIER_H

#include "gin/barrier.cuh"
#include "gin.h"

enum ncclGinFenceLevel : uint32_t { None = 0, Put = 1, Get = 2, Relaxed = 0 };

GIN_FN constexpr ncclGinFenceLevel operator|(ncclGinFenceLevel a, ncclGinFenceLevel b)
{
	return static_cast<ncclGinFenceLevel>(static_cast<uint32_t>(a) | static_cast<uint32_t>(b));
}

GIN_FN constexpr ncclGinFenceLevel operator&(ncclGinFenceLevel a, ncclGinFenceLevel b)
{
	return static_cast<ncclGinFenceLevel>(static_cast<uint32_t>(a) & static_cast<uint32_t>(b));
}

struct ncclGinAllContexts {
	ncclDevComm const &comm;

	GIN_FN constexpr ncclGinAllContexts(ncclDevComm const &devComm) : comm(devComm) {}
};

template <class Coop> struct ncclGinBarrierSession {
	using Own = GinBarrierOn<GIN_NCCL_ROUTES_OF(NCCL_GIN_BACKEND_MASK_ALL)>;

	static constexpr ncclGinFenceLevel both = ncclGinFenceLevel::Put | ncclGinFenceLevel::Get;

	ncclDevComm const &comm;
	const uint32_t first, last; /* the contexts whose gets a fence waits for */
	const ncclTeam_t team;
	const uint32_t index;

	GIN_FN ncclGinBarrierSession(Coop, ncclGin const &gin, ncclTeam_t barrierTeam,
				     ncclGinBarrierHandle_t handle, uint32_t barrierIndex)
	    : comm(gin.comm), first(gin.contextId), last(gin.contextId), team(barrierTeam),
	      index(handle.first + barrierIndex)
	{
	}

	GIN_FN ncclGinBarrierSession(Coop, ncclGinAllContexts all, ncclTeam_t barrierTeam,
				     ncclGinBarrierHandle_t handle, uint32_t barrierIndex)
	    : comm(all.comm), first(0), last(static_cast<uint32_t>(all.comm.ginContextCount) - 1),
	      team(barrierTeam), index(handle.first + barrierIndex)
	{
	}

	/* `gin`: an ncclGin or ncclGinAllContexts. */
	template <class Gins>
	GIN_FN ncclGinBarrierSession(Coop coop, Gins gin, ncclTeamTagRail, uint32_t barrierIndex)
	    : ncclGinBarrierSession(coop, gin, ncclTeamRail(gin.comm), gin.comm.railGinBarrier,
				    barrierIndex)
	{
	}

	template <class Gins>
	GIN_FN ncclGinBarrierSession(Coop coop, Gins gin, ncclTeamTagWorld, uint32_t barrierIndex)
	    : ncclGinBarrierSession(coop, gin, ncclTeamWorld(gin.comm), gin.comm.worldGinBarrier,
				    barrierIndex)
	{
	}

	ncclGinBarrierSession(ncclGinBarrierSession const &) = delete;

	GIN_FN void sync(Coop coop, cuda::memory_order, ncclGinFenceLevel fence = both) const
	{
		if (flushGets(coop, fence, ginOptions()) == ginSuccess)
			own().sync(ginNcclCoop(coop));
	}

	/* After ncclTimeout the call may be repeated. */
	GIN_FN ncclResult_t sync(Coop coop, cuda::memory_order, ncclGinFenceLevel fence,
				 uint64_t timeoutCycles) const
	{
		const ginOptions options = ginTimeout(ginNcclNanoseconds(comm, timeoutCycles));
		ginResult_t result = flushGets(coop, fence, options);
		if (result == ginSuccess)
			result = own().sync(ginNcclCoop(coop), options);
		return ginNcclResult(result);
	}

	GIN_FN Own own() const
	{
		return {comm.gin, {team.nRanks, team.rank, team.stride}, index, first};
	}

	GIN_FN ginResult_t flushGets(Coop coop, ncclGinFenceLevel fence,
				     const ginOptions &options) const
	{
		ginResult_t result = ginSuccess;
		if (!(fence & ncclGinFenceLevel::Get))
			return ginSuccess;
		GIN_NO_UNROLL
		for (uint32_t c = first; c <= last && result == ginSuccess; c++)
			result = ncclGin(comm, static_cast<int>(c))
					 .own()
					 .flush(ginNcclCoop(coop), options);
		return result;
	}
};

/* `gin`: an ncclGin or ncclGinAllContexts. */
template <class Coop, class Gins>
GIN_FN void ncclGinBarrier(Coop coop, Gins gin, ncclTeam_t team, ncclGinBarrierHandle_t handle,
			   uint32_t index, cuda::memory_order order = cuda::memory_order_acq_rel,
			   ncclGinFenceLevel fence = ncclGinBarrierSession<Coop>::both)
{
	ncclGinBarrierSession<Coop>(coop, gin, team, handle, index).sync(coop, order, fence);
}

/* `Tag`: ncclTeamTagRail or ncclTeamTagWorld. */
template <class Coop, class Gins, class Tag>
GIN_FN void ncclGinBarrier(Coop coop, Gins gin, Tag tag, uint32_t index,
			   cuda::memory_order order = cuda::memory_order_acq_rel,
			   ncclGinFenceLevel fence = ncclGinBarrierSession<Coop>::both)
{
	ncclGinBarrierSession<Coop>(coop, gin, tag, index).sync(coop, order, fence);
}

#endif
