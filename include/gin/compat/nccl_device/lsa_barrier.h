/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lsa_barrier.h - a barrier among ranks of an NVLink domain, in NCCL's words
 *
 * Every order of memory is as acquire and release together: what a rank wrote or put to the team
 * before it arrived is visible after the wait.
 */
#ifndef GIN_COMPAT_NCCL_LSA_BARRIER_H
#define GIN_COMPAT_NCCL_LSA_BARRIER_H

#include "../../barrier.cuh"
#include "action.h"
#include "coop.h"

template <class Coop> struct ncclLsaBarrierSession {
	/* All ranks of the team are direct peers; a team of one rank needs no route. */
	using Own = GinBarrierOn<GIN_ROUTES_DIRECT>;

	ncclDevComm const &comm;
	const ncclTeam_t team;
	const uint32_t index;

	GIN_FN ncclLsaBarrierSession(Coop, ncclDevComm const &devComm, ncclTeam_t barrierTeam,
				     ncclLsaBarrierHandle_t handle, uint32_t barrierIndex,
				     bool multimem = false, ncclMultimemHandle_t = {})
	    : comm(devComm), team(barrierTeam), index(handle.first + barrierIndex)
	{
		(void)multimem;
	}

	GIN_FN ncclLsaBarrierSession(Coop coop, ncclDevComm const &devComm, ncclTeamTagLsa,
				     uint32_t barrierIndex, bool multimem = false)
	    : ncclLsaBarrierSession(coop, devComm, ncclTeamLsa(devComm), devComm.lsaBarrier,
				    barrierIndex, multimem)
	{
	}

	ncclLsaBarrierSession(ncclLsaBarrierSession const &) = delete;

	GIN_FN Own own() const { return {comm.gin, {team.nRanks, team.rank, team.stride}, index}; }

	GIN_FN void arrive(Coop coop, cuda::memory_order) const { own().arrive(ginNcclCoop(coop)); }

	GIN_FN void wait(Coop coop, cuda::memory_order) const { own().wait(ginNcclCoop(coop)); }

	GIN_FN void sync(Coop coop, cuda::memory_order) const { own().sync(ginNcclCoop(coop)); }

	/* After ncclTimeout the call may be repeated. */
	GIN_FN ncclResult_t wait(Coop coop, cuda::memory_order, uint64_t timeoutCycles) const
	{
		return ginNcclResult(own().wait(
			ginNcclCoop(coop), ginTimeout(ginNcclNanoseconds(comm, timeoutCycles))));
	}

	GIN_FN ncclResult_t sync(Coop coop, cuda::memory_order, uint64_t timeoutCycles) const
	{
		return ginNcclResult(own().sync(
			ginNcclCoop(coop), ginTimeout(ginNcclNanoseconds(comm, timeoutCycles))));
	}
};

#endif
