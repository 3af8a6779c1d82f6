/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lsa_barrier.h - a barrier among ranks of an NVLink domain, in NCCL's words
 *
 * All that a rank wrote or put to the team before it arrived is visible after the wait. With a
 * memory order that does not release (acquire, relaxed) the barrier does not fence: only writes
 * that the rank has released before are visible. Every wait is an acquire.
 */
#ifndef GIN_COMPAT_NCCL_LSA_BARRIER_H
#define GIN_COMPAT_NCCL_LSA_BARRIER_H

#include "gin/barrier.cuh"
#include "action.h"
#include "coop.h"

/*
 * libgin has no multicast memory, and ncclDevCommCreate() refuses it: a kernel that asks for it
 * ends here, before it uses an address that is NULL.
 */
GIN_FN void ginNcclNoMulticast()
{
#if GIN_ON_GPU
	asm volatile("trap;");
	__builtin_unreachable();
#else
	__builtin_trap();
#endif
}

template <class Coop> struct ncclLsaBarrierSession {
	/* All ranks of the team are direct peers. */
	using Own = GinBarrierOn<GIN_ROUTES_DIRECT, ginChecks, true>;

	ncclDevComm const &comm;
	const ncclTeam_t team;
	const ncclLsaBarrierHandle_t handle;
	const uint32_t number;

	GIN_FN ncclLsaBarrierSession(Coop, ncclDevComm const &devComm, ncclTeam_t barrierTeam,
				     ncclLsaBarrierHandle_t barriers, uint32_t barrierIndex,
				     bool multimem = false, ncclMultimemHandle_t = {})
	    : comm(devComm), team(barrierTeam), handle(barriers), number(barrierIndex)
	{
		if (multimem)
			ginNcclNoMulticast();
	}

	GIN_FN ncclLsaBarrierSession(Coop coop, ncclDevComm const &devComm, ncclTeamTagLsa,
				     uint32_t barrierIndex, bool multimem = false)
	    : ncclLsaBarrierSession(coop, devComm, ncclTeamLsa(devComm), devComm.lsaBarrier,
				    barrierIndex, multimem)
	{
	}

	ncclLsaBarrierSession(ncclLsaBarrierSession const &) = delete;

	/* The index is computed at each call: between calls it would take a register. */
	GIN_FN Own own() const
	{
		const uint32_t index = handle.first + number * width(comm);
		return {comm.gin, {team.nRanks, team.rank, team.stride}, index};
	}

	GIN_FN void arrive(Coop coop, cuda::memory_order order) const
	{
		own().arrive(withoutVote(coop), ginNcclReleased(order));
	}

	GIN_FN void wait(Coop coop, cuda::memory_order) const { own().wait(withoutVote(coop)); }

	GIN_FN void sync(Coop coop, cuda::memory_order order) const
	{
		own().sync(withoutVote(coop), ginNcclReleased(order));
	}

	/* After ncclTimeout the call may be repeated. */
	GIN_FN ncclResult_t wait(Coop coop, cuda::memory_order, uint64_t timeoutCycles) const
	{
		return ginNcclResult(own().wait(
			ginNcclCoop(coop), ginTimeout(ginNcclNanoseconds(comm, timeoutCycles))));
	}

	GIN_FN ncclResult_t sync(Coop coop, cuda::memory_order order, uint64_t timeoutCycles) const
	{
		ginOptions options = ginNcclReleased(order);
		options.timeout = ginNcclNanoseconds(comm, timeoutCycles);
		return ginNcclResult(own().sync(ginNcclCoop(coop), options));
	}

private:
	/*
	 * The coop for a call whose result is not used: it has no any(), so it meets at the end and
	 * does not vote. After a failed vote a function is called; measured: with that call
	 * nccl-tests' vectorized all-reduce takes up to 14 registers more.
	 */
	GIN_FN static ginNcclOwnCoop<Coop> withoutVote(Coop coop) { return {coop}; }

	/* The number of libgin's barriers that make one LSA barrier. */
	GIN_FN static uint32_t width(ncclDevComm const &devComm)
	{
		return (static_cast<uint32_t>(devComm.lsaSize) + GIN_BARRIER_ROUNDS - 1) /
		       GIN_BARRIER_ROUNDS;
	}
};

#endif
