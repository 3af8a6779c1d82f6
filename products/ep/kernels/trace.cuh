/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.cuh - records of calls for GIN_TRACE, and counts of their bytes
 *
 * Written by kernels of host threads, and by kernels of a GPU that are compiled with -DGIN_TRACE.
 * A call leaves a record for each rank to which it has sent. Most waits are made by all blocks at
 * one time: block 0 records them. Where one block waits alone, it records the wait. Calls of GIN
 * by a kernel of ep leave no record: their bytes would count twice.
 */
#ifndef GIN_EP_TRACE_CUH
#define GIN_EP_TRACE_CUH

#include "products/ep/include/gin_ep.h"

#include "gin/core/trace.cuh"

#include "layout.cuh"
#include "memory.cuh"

/* GIN's calls as kernels of ep make them. */
template <uint32_t routes> using EpGin = GinOn<routes, ginChecks, false>;

/* Does the kernel write records? Known at compile time to be false without -DGIN_TRACE. */
GIN_FN bool epTraces(const epArgs &args)
{
	return ginTraces && args.dc.trace->records;
}

/* When a call or a wait begins. */
GIN_FN uint64_t epTraceBegin(const epArgs &args)
{
	return epTraces(args) ? ginNow() : 0;
}

/* The call of a record, by enum ginEpCall. */
GIN_FN uint32_t epTraceCall(uint32_t number)
{
	return number == ginEpCallHtNotify ? ginCallEpNotify
	       : number == ginEpCallCombineSend || number == ginEpCallCombineRecv ||
			       number == ginEpCallHtCombine
		       ? ginCallEpCombine
		       : ginCallEpDispatch;
}

/* The call has sent `bytes` to a rank; `gets`: has loaded them there. By one thread. */
GIN_FN void epTraceSent(const epArgs &args, uint32_t number, uint32_t rank, uint32_t epoch,
			uint64_t begin, uint64_t bytes, bool gets = false)
{
	const uint32_t route = args.plan.allDirect ? static_cast<uint32_t>(ginRouteDirect)
						   : args.dc.peers[rank].route;
	ginTraceWrite(args.dc.trace, begin,
		      ginTraceWhat(epTraceCall(number), route,
				   gets ? GIN_TRACE_GETS : GIN_TRACE_ARRIVES, 0),
		      ginTraceWhom(static_cast<int>(rank), UINT32_MAX), bytes, epoch, 0);
}

/*
 * One thread has waited for a rank; `come`: with success. A rank that is masked, and so is not
 * waited for, leaves no record. `call`: of enum ginCall.
 */
GIN_FN void epTraceWaited(const epArgs &args, uint32_t call, uint32_t rank, uint32_t epoch,
			  uint64_t begin, bool come)
{
	if (!epTraces(args) || rank == args.plan.rank ||
	    (!come && epWordLoad(&args.plan.masked[rank])))
		return;
	const uint32_t failed = epWordLoad(&args.plan.state->failed);
	const uint32_t lost = failed ? failed : static_cast<uint32_t>(ginErrorPeer);
	const uint32_t result = come ? 0 : lost;
	ginTraceWrite(args.dc.trace, begin,
		      ginTraceWhat(call, ginRouteNone, GIN_TRACE_AWAITS, 0) | result << 8,
		      ginTraceWhom(static_cast<int>(rank), UINT32_MAX), 0, epoch, 0);
}

#endif
