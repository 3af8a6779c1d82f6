/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barrier.h - NCCL's hybrid barrier: of the ranks of a domain, and of the rails between domains
 *
 * A barrier of all ranks is one barrier of libgin, in which each message takes the route of its
 * pair. lsaBarrier() and ginBarrier() are the two halves, with barriers of their own.
 */
#ifndef GIN_COMPAT_NCCL_BARRIER_H
#define GIN_COMPAT_NCCL_BARRIER_H

#include "gin_barrier.h"
#include "lsa_barrier.h"

template <class Coop> struct ncclBarrierSession {
	enum Kind { world, parts, lsa, rail };

	const Kind kind;
	ncclLsaBarrierSession<Coop> inner;
	ncclGinBarrierSession<Coop> outer;
	ncclGinBarrierSession<Coop> all; /* of the world */

	/* sync() is a barrier of the inner team, the outer team, and the inner team again. */
	GIN_FN ncclBarrierSession(Coop coop, ncclTeam_t innerTeam, ncclTeam_t outerTeam,
				  ncclGin const &gin, ncclLsaBarrierHandle_t innerHandle,
				  ncclGinBarrierHandle_t outerHandle, uint32_t index,
				  bool multimem = false, ncclMultimemHandle_t multimemHandle = {})
	    : kind(parts),
	      inner(coop, gin.comm, innerTeam, innerHandle, index, multimem, multimemHandle),
	      outer(coop, gin, outerTeam, outerHandle, index),
	      all(coop, gin, outerTeam, outerHandle, index)
	{
	}

	GIN_FN ncclBarrierSession(Coop coop, ncclTeamTagWorld, ncclGin const &gin, uint32_t index,
				  bool multimem = false)
	    : ncclBarrierSession(world, coop, gin, index, multimem)
	{
	}

	GIN_FN ncclBarrierSession(Coop coop, ncclTeamTagLsa, ncclDevComm const &devComm,
				  uint32_t index, bool multimem = false)
	    : ncclBarrierSession(lsa, coop, ncclGin(devComm, 0), index, multimem)
	{
	}

	GIN_FN ncclBarrierSession(Coop coop, ncclTeamTagRail, ncclGin const &gin, uint32_t index)
	    : ncclBarrierSession(rail, coop, gin, index, false)
	{
	}

	ncclBarrierSession(ncclBarrierSession const &) = delete;

	GIN_FN ncclLsaBarrierSession<Coop> &lsaBarrier() { return inner; }
	GIN_FN ncclGinBarrierSession<Coop> &ginBarrier() { return outer; }

	GIN_FN void sync(Coop coop, cuda::memory_order order,
			 ncclGinFenceLevel fence = ncclGinBarrierSession<Coop>::both) const
	{
		if (kind == parts || kind == lsa)
			inner.sync(coop, order);
		if (kind == parts || kind == rail)
			outer.sync(coop, order, fence);
		if (kind == parts)
			inner.sync(coop, order);
		if (kind == world)
			all.sync(coop, order, fence);
	}

	/*
	 * After ncclTimeout the call may be repeated, but not for teams of the program's own. Each
	 * of its barriers has the whole timeout.
	 */
	GIN_FN ncclResult_t sync(Coop coop, cuda::memory_order order, ncclGinFenceLevel fence,
				 uint64_t timeoutCycles) const
	{
		ncclResult_t result = ncclSuccess;
		if (kind == parts || kind == lsa)
			result = inner.sync(coop, order, timeoutCycles);
		if (result == ncclSuccess && (kind == parts || kind == rail))
			result = outer.sync(coop, order, fence, timeoutCycles);
		if (result == ncclSuccess && kind == parts)
			result = inner.sync(coop, order, timeoutCycles);
		if (result == ncclSuccess && kind == world)
			result = all.sync(coop, order, fence, timeoutCycles);
		return result;
	}

private:
	GIN_FN ncclBarrierSession(Kind which, Coop coop, ncclGin const &gin, uint32_t index,
				  bool multimem)
	    : kind(which), inner(coop, gin.comm, ncclTeamLsa(gin.comm), gin.comm.hybridLsaBarrier,
				 index, multimem),
	      outer(coop, gin, ncclTeamRail(gin.comm), gin.comm.hybridRailGinBarrier, index),
	      all(coop, gin, ncclTeamWorld(gin.comm), gin.comm.hybridWorldGinBarrier, index)
	{
	}
};

template <class Coop>
GIN_FN void ncclBarrier(Coop coop, ncclTeamTagWorld tag, ncclGin const &gin, uint32_t index,
			cuda::memory_order order = cuda::memory_order_acq_rel,
			ncclGinFenceLevel fence = ncclGinBarrierSession<Coop>::both,
			bool multimem = false)
{
	ncclBarrierSession<Coop>(coop, tag, gin, index, multimem).sync(coop, order, fence);
}

template <class Coop>
GIN_FN void ncclBarrier(Coop coop, ncclTeamTagRail tag, ncclGin const &gin, uint32_t index,
			cuda::memory_order order = cuda::memory_order_acq_rel,
			ncclGinFenceLevel fence = ncclGinBarrierSession<Coop>::both)
{
	ncclBarrierSession<Coop>(coop, tag, gin, index).sync(coop, order, fence);
}

#endif
