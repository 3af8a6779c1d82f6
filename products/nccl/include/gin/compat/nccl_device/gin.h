/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gin.h - ncclGin: the calls on one context, in NCCL's words
 *
 * Each member is one call of libgin's class GinOn. A void member drops the result: a failure ends
 * later waits, and ncclCommGetAsyncError() reports it. Arguments without a meaning in libgin are
 * accepted: descriptors in shared memory, segment types, memory orders (every wait is an acquire,
 * every strong signal a release).
 */
#ifndef GIN_COMPAT_NCCL_GIN_H
#define GIN_COMPAT_NCCL_GIN_H

#include "gin/context.cuh"
#include "action.h"
#include "coop.h"
#include "ptr.h"

/*
 * Bits of `backendMask` name the backends of network pairs for which the kernel has code; direct
 * peers always work.
 */
template <unsigned backendMask> struct ncclGin_BackendMask {
	ncclDevComm const &comm;
	uint32_t nConnections : 8, connectionId : 8, _ginBackend : 8;
	uint32_t contextId;
	ncclGinResourceSharingMode resourceSharingMode;
	void *_ginHandle; /* ncclGinGdakiGPUContext[contexts] */

	using Own = GinOn<GIN_NCCL_ROUTES_OF(backendMask)>;

	GIN_FN
	ncclGin_BackendMask(ncclDevComm const &devComm, int contextIndex,
			    ncclGinResourceSharingMode sharing = NCCL_GIN_RESOURCE_SHARING_GPU)
	    : comm(devComm), nConnections(1), connectionId(0), _ginBackend(0),
	      contextId(static_cast<uint32_t>(contextIndex)), resourceSharingMode(sharing),
	      _ginHandle(devComm.ginHandle)
	{
	}

	/* libgin's object for this context. */
	GIN_FN Own own() const
	{
		return {comm.gin, contextId, static_cast<ginSharing>(resourceSharingMode)};
	}

	template <class RemoteAction = ncclGin_None, class LocalAction = ncclGin_None,
		  class Coop = ncclCoopThread, class DescriptorSmem = ncclGin_None,
		  class SegmentType = ncclGin_SegmentDevice>
	GIN_FN void put(ncclTeam_t team, int peer, ncclWindow_t dstWnd, size_t dstOffset,
			ncclWindow_t srcWnd, size_t srcOffset, size_t bytes,
			RemoteAction remote = {}, LocalAction local = {}, Coop coop = {},
			DescriptorSmem = {}, cuda::thread_scope given = cuda::thread_scope_thread,
			cuda::thread_scope required = cuda::thread_scope_device,
			uint32_t optFlags = ncclGinOptFlagsDefault, SegmentType = {}) const
	{
		own().put(world(team, peer), ginNcclWindow(dstWnd), dstOffset,
			  ginNcclWindow(srcWnd), srcOffset, bytes, ginNcclRemote(remote),
			  ginNcclLocal(local), ginNcclCoop(coop),
			  ginNcclOptions(given, required, optFlags));
	}

	template <class T, class RemoteAction = ncclGin_None, class LocalAction = ncclGin_None,
		  class Coop = ncclCoopThread, class DescriptorSmem = ncclGin_None,
		  class SegmentType = ncclGin_SegmentDevice>
	GIN_FN void put(ncclTeam_t team, int peer, ncclSymPtr<T> dst, ncclSymPtr<T> src,
			size_t elements, RemoteAction remote = {}, LocalAction local = {},
			Coop coop = {}, DescriptorSmem smem = {},
			cuda::thread_scope given = cuda::thread_scope_thread,
			cuda::thread_scope required = cuda::thread_scope_device,
			uint32_t optFlags = ncclGinOptFlagsDefault, SegmentType segment = {}) const
	{
		put(team, peer, dst.window, dst.offset, src.window, src.offset,
		    elements * sizeof(T), remote, local, coop, smem, given, required, optFlags,
		    segment);
	}

	template <class T, class RemoteAction = ncclGin_None, class Coop = ncclCoopThread,
		  class DescriptorSmem = ncclGin_None>
	GIN_FN void putValue(ncclTeam_t team, int peer, ncclWindow_t dstWnd, size_t dstOffset,
			     T value, RemoteAction remote = {}, Coop coop = {}, DescriptorSmem = {},
			     cuda::thread_scope given = cuda::thread_scope_thread,
			     cuda::thread_scope required = cuda::thread_scope_device,
			     uint32_t optFlags = ncclGinOptFlagsDefault) const
	{
		own().putValue(world(team, peer), ginNcclWindow(dstWnd), dstOffset, value,
			       ginNcclRemote(remote), ginNcclCoop(coop),
			       ginNcclOptions(given, required, optFlags));
	}

	template <class T, class RemoteAction = ncclGin_None, class Coop = ncclCoopThread,
		  class DescriptorSmem = ncclGin_None>
	GIN_FN void putValue(ncclTeam_t team, int peer, ncclSymPtr<T> dst, T value,
			     RemoteAction remote = {}, Coop coop = {}, DescriptorSmem smem = {},
			     cuda::thread_scope given = cuda::thread_scope_thread,
			     cuda::thread_scope required = cuda::thread_scope_device,
			     uint32_t optFlags = ncclGinOptFlagsDefault) const
	{
		putValue(team, peer, dst.window, dst.offset, value, remote, coop, smem, given,
			 required, optFlags);
	}

	template <class RemoteAction, class Coop = ncclCoopThread,
		  class DescriptorSmem = ncclGin_None>
	GIN_FN void signal(ncclTeam_t team, int peer, RemoteAction remote, Coop coop = {},
			   DescriptorSmem = {},
			   cuda::thread_scope given = cuda::thread_scope_thread,
			   cuda::thread_scope required = cuda::thread_scope_device,
			   uint32_t optFlags = ncclGinOptFlagsDefault) const
	{
		own().signal(world(team, peer), ginNcclRemote(remote), ginNcclCoop(coop),
			     ginNcclOptions(given, required, optFlags));
	}

	template <class Coop = ncclCoopThread, class DescriptorSmem = ncclGin_None,
		  class SegmentType = ncclGin_SegmentDevice>
	GIN_FN void get(ncclTeam_t team, int peer, ncclWindow_t remoteWnd, size_t remoteOffset,
			ncclWindow_t localWnd, size_t localOffset, size_t bytes, Coop coop = {},
			DescriptorSmem = {}, uint32_t optFlags = ncclGinOptFlagsDefault,
			SegmentType = {}) const
	{
		(void)optFlags;
		own().get(world(team, peer), ginNcclWindow(remoteWnd), remoteOffset,
			  ginNcclWindow(localWnd), localOffset, bytes, ginNcclCoop(coop));
	}

	/* The first thread of the coop writes *request. */
	template <class Coop = ncclCoopThread, class DescriptorSmem = ncclGin_None>
	GIN_FN void flushAsync(ncclTeam_t team, uint32_t peer, ncclGinRequest_t *request,
			       Coop coop = {}, uint32_t optFlags = ncclGinOptFlagsDefault,
			       DescriptorSmem = {}) const
	{
		const auto threads = ginNcclCoop(coop);
		const ginRequest made =
			own().flushAsync(world(team, static_cast<int>(peer)), threads);
		(void)optFlags;
		if (threads.thread_rank() == 0)
			*request = {{made.opaque[0], made.opaque[1]}};
		threads.sync();
	}

	template <class Coop = ncclCoopThread, class DescriptorSmem = ncclGin_None>
	GIN_FN void wait(ncclGinRequest_t &request, Coop coop = {}, DescriptorSmem = {},
			 cuda::memory_order = cuda::memory_order_acquire) const
	{
		waitFor(request, coop, ginOptions());
	}

	template <class Coop, class DescriptorSmem>
	GIN_FN ncclResult_t wait(ncclGinRequest_t &request, Coop coop, DescriptorSmem,
				 cuda::memory_order, uint64_t timeoutCycles) const
	{
		return ginNcclResult(waitFor(request, coop, timed(timeoutCycles)));
	}

	template <class Coop, class DescriptorSmem = ncclGin_None> GIN_FN void
	flush(Coop coop, cuda::memory_order = cuda::memory_order_acquire, DescriptorSmem = {}) const
	{
		own().flush(ginNcclCoop(coop));
	}

	template <class Coop, class DescriptorSmem>
	GIN_FN ncclResult_t flush(Coop coop, cuda::memory_order, DescriptorSmem,
				  uint64_t timeoutCycles) const
	{
		return ginNcclResult(own().flush(ginNcclCoop(coop), timed(timeoutCycles)));
	}

	GIN_FN uint64_t readCounter(ncclGinCounter_t counter, int bits = 56,
				    cuda::memory_order = cuda::memory_order_acquire) const
	{
		return ginNcclLow(own().readCounter(counter), bits);
	}

	template <class Coop>
	GIN_FN void waitCounter(Coop coop, ncclGinCounter_t counter, uint64_t least, int bits = 56,
				cuda::memory_order = cuda::memory_order_acquire) const
	{
		own().waitCounter(counter, least, ginNcclCoop(coop), ginNcclBits(bits));
	}

	template <class Coop>
	GIN_FN ncclResult_t waitCounter(Coop coop, ncclGinCounter_t counter, uint64_t least,
					int bits, cuda::memory_order, uint64_t timeoutCycles) const
	{
		return ginNcclResult(own().waitCounter(counter, least, ginNcclCoop(coop),
						       timed(timeoutCycles, bits)));
	}

	GIN_FN void resetCounter(ncclGinCounter_t counter) const { own().resetCounter(counter); }

	GIN_FN uint64_t readSignal(ncclGinSignal_t signal, int bits = 64,
				   cuda::memory_order = cuda::memory_order_acquire) const
	{
		return ginNcclLow(own().readSignal(signal), bits);
	}

	GIN_FN uint64_t readSignal(ncclWindow_t window, size_t offset, int bits = 64,
				   cuda::memory_order = cuda::memory_order_acquire) const
	{
		return ginNcclLow(own().readSignal(ginNcclWindow(window), offset), bits);
	}

	template <class Coop>
	GIN_FN void waitSignal(Coop coop, ncclGinSignal_t signal, uint64_t least, int bits = 64,
			       cuda::memory_order = cuda::memory_order_acquire) const
	{
		own().waitSignal(signal, least, ginNcclCoop(coop), ginNcclBits(bits));
	}

	template <class Coop>
	GIN_FN ncclResult_t waitSignal(Coop coop, ncclGinSignal_t signal, uint64_t least, int bits,
				       cuda::memory_order, uint64_t timeoutCycles) const
	{
		return ginNcclResult(own().waitSignal(signal, least, ginNcclCoop(coop),
						      timed(timeoutCycles, bits)));
	}

	template <class Coop>
	GIN_FN void waitSignal(Coop coop, ncclWindow_t window, size_t offset, uint64_t least,
			       int bits = 64, cuda::memory_order = cuda::memory_order_acquire) const
	{
		own().waitSignal(ginNcclWindow(window), offset, least, ginNcclCoop(coop),
				 ginNcclBits(bits));
	}

	template <class Coop> GIN_FN ncclResult_t waitSignal(Coop coop, ncclWindow_t window,
							     size_t offset, uint64_t least,
							     int bits, cuda::memory_order,
							     uint64_t timeoutCycles) const
	{
		return ginNcclResult(own().waitSignal(ginNcclWindow(window), offset, least,
						      ginNcclCoop(coop),
						      timed(timeoutCycles, bits)));
	}

	GIN_FN void resetSignal(ncclGinSignal_t signal) const { own().resetSignal(signal); }

	GIN_FN void resetSignal(ncclWindow_t window, size_t offset) const
	{
		own().resetSignal(ginNcclWindow(window), offset);
	}

	GIN_FN uint64_t *getSignalShadowPtr(ncclGinSignal_t signal) const
	{
		return own().signalShadow(signal);
	}

	GIN_FN void increaseSignalShadow(ncclGinSignal_t signal, uint64_t delta) const
	{
		own().increaseSignalShadow(signal, delta);
	}

	template <class Coop>
	GIN_FN void waitSignalMeetShadow(Coop coop, ncclGinSignal_t signal, int bits = 64,
					 cuda::memory_order = cuda::memory_order_acquire) const
	{
		own().waitSignalMeetShadow(signal, ginNcclCoop(coop), ginNcclBits(bits));
	}

	template <class Coop, class Uint>
	GIN_FN void waitSignalFollowShadow(Coop coop, ncclGinSignal_t signal, Uint leastDelta,
					   Uint *before, Uint *delta, int bits = 64,
					   cuda::memory_order = cuda::memory_order_acquire) const
	{
		uint64_t old = 0, increase = 0;
		own().waitSignalFollowShadow(signal, static_cast<uint64_t>(leastDelta), &old,
					     &increase, ginNcclCoop(coop), ginNcclBits(bits));
		*before = static_cast<Uint>(old);
		*delta = static_cast<Uint>(increase);
	}

private:
	/*
	 * The world rank of number `peer` of the team. For the team of all ranks that is `peer`:
	 * without the test a kernel would keep this rank in a register, and load it twice.
	 */
	GIN_FN int world(ncclTeam_t team, int peer) const
	{
		if (team.stride == 1 && team.nRanks == comm.nRanks)
			return peer;
		return ncclTeamRankToWorld(comm, team, peer);
	}

	GIN_FN ginOptions timed(uint64_t cycles, int bits = 64) const
	{
		ginOptions options = ginNcclBits(bits);
		options.timeout = ginNcclNanoseconds(comm, cycles);
		return options;
	}

	/* Only the first thread of the coop needs the request of flushAsync(): it waits. */
	template <class Coop> GIN_FN ginResult_t waitFor(const ncclGinRequest_t &request, Coop coop,
							 const ginOptions &options) const
	{
		const auto threads = ginNcclCoop(coop);
		ginResult_t result = ginSuccess;

		threads.sync();
		if (threads.thread_rank() == 0)
			result = own().wait({{request.opaque[0], request.opaque[1]}}, GinThread{},
					    options);
		return ginAgree(threads, result);
	}
};

template <ncclNetDeviceType backend> using ncclGin_BackendOne =
	ncclGin_BackendMask<1u << static_cast<unsigned>(backend)>;

using ncclGin = ncclGin_BackendMask<NCCL_GIN_BACKEND_MASK_ALL>;

#endif
