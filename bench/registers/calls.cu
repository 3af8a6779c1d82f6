// SPDX-License-Identifier: BSD-3-Clause calls.cu - every device call alone and in a loop, and the
// kernels of kernels.cuh; compiled by bench/registers/run
//
// ROUTES: the routes that the kernels are compiled for. KERNELS_ALONE: without the calls.
#include "kernels.cuh"

#define CALL(name, call)                                                                           \
	extern "C" __global__ void name(ginDevComm dc, ginWindow_t w, ginWindow_t v, size_t n,     \
					uint64_t *out)                                             \
	{                                                                                          \
		const GinOn<ROUTES> gin(dc, blockIdx.x);                                           \
		const GinBarrierOn<ROUTES> barrier(dc, ginTeamWorld(dc), blockIdx.x);              \
		[[maybe_unused]] const int peer = static_cast<int>(threadIdx.x);                   \
		call;                                                                              \
	}                                                                                          \
	extern "C" __global__ void name##_in_a_loop(ginDevComm dc, ginWindow_t w, ginWindow_t v,   \
						    size_t n, uint64_t *out)                       \
	{                                                                                          \
		const GinOn<ROUTES> gin(dc, blockIdx.x);                                           \
		const GinBarrierOn<ROUTES> barrier(dc, ginTeamWorld(dc), blockIdx.x);              \
		for (int peer = static_cast<int>(threadIdx.x); peer < static_cast<int>(dc.nRanks); \
		     peer += static_cast<int>(blockDim.x))                                         \
			call;                                                                      \
	}

struct Bytes32 {
	uint64_t word[4];
};

__device__ inline uint64_t waited(const GinOn<ROUTES> &gin, int peer)
{
	return gin.wait(gin.flushAsync(peer));
}

__device__ inline GinPacketsOn<ROUTES> packets(const ginDevComm &dc, ginWindow_t w, size_t n,
					       int peer)
{
	return {dc, blockIdx.x, ginPacketBox{w, n, 4096, 0}, peer};
}

#ifndef KERNELS_ALONE
CALL(put, *out = gin.put(peer, w, n, v, n, n))
CALL(put_signal, *out = gin.put(peer, w, n, v, n, n, GinSignalInc{3}))
CALL(put_signal_add_counter,
     *out = gin.put(peer, w, n, v, n, n, GinSignalAdd{3, n}, GinCounterInc{1}))
CALL(put_signal_at, *out = gin.put(peer, w, n, v, n, n, GinSignalIncAt{w, n}))
CALL(put_by_warp, *out = gin.put(peer, w, n, v, n, n, GinSignalInc{3}, GinNone{}, GinWarp{}))
CALL(put_by_block, *out = gin.put(peer, w, n, v, n, n, GinSignalInc{3}, GinNone{}, GinCta{}))
CALL(put_from, *out = gin.putFrom(peer, w, n, out, n, GinSignalInc{3}))
CALL(put_value, *out = gin.putValue(peer, w, n, n, GinSignalInc{3}))
CALL(put_value_32,
     *out = gin.putValue(peer, w, n, Bytes32{{n, n + 1, n + 2, n + 3}}, GinSignalInc{3}))
CALL(get, *out = gin.get(peer, w, n, v, n, n))
CALL(get_by_block, *out = gin.get(peer, w, n, v, n, n, GinCta{}))
CALL(signal, *out = gin.signal(peer, GinSignalInc{3}))
CALL(signal_at, *out = gin.signal(peer, GinSignalAddAt{w, n, n}))
CALL(atomic_add, *out = gin.atomicFetchAdd(peer, w, n, n))
CALL(atomic_add_old, gin.atomicFetchAdd(peer, w, n, n, out))
CALL(atomic_compare_swap_old, gin.atomicCompareSwap(peer, w, n, n, uint64_t{1}, out))
CALL(atomic_swap_old,
     gin.atomicSwap(peer, w, n, static_cast<uint32_t>(n), reinterpret_cast<uint32_t *>(out)))
CALL(flush, *out = gin.flush())
CALL(flush_by_block, *out = gin.flush(GinCta{}))
CALL(flush_async_wait, *out = waited(gin, peer))
CALL(read_signal, *out = gin.readSignal(3))
CALL(reset_signal, gin.resetSignal(3))
CALL(wait_signal, *out = gin.waitSignal(3, n))
CALL(wait_signal_by_block, *out = gin.waitSignal(3, n, GinCta{}))
CALL(wait_signal_at, *out = gin.waitSignal(w, n, n))
CALL(wait_signal_meet_shadow, *out = gin.waitSignalMeetShadow(3, GinCta{}))
CALL(wait_signal_follow_shadow, *out = gin.waitSignalFollowShadow(3, n, out, out + 1, GinCta{}))
CALL(read_counter, *out = gin.readCounter(1))
CALL(wait_counter, *out = gin.waitCounter(1, n))
CALL(barrier_arrive, *out = barrier.arrive(GinCta{}))
CALL(barrier_wait, *out = barrier.wait(GinCta{}))
CALL(barrier_sync, *out = barrier.sync(GinCta{}))
CALL(packets_send, *out = packets(dc, w, n, peer).send(out, n))
CALL(packets_send_by_warp, *out = packets(dc, w, n, peer).send(out, n, GinWarp{}))
CALL(packets_send_by_block, *out = packets(dc, w, n, peer).send(out, n, GinCta{}))
CALL(packets_receive, *out = packets(dc, w, n, peer).receive(out, n))
CALL(packets_receive_by_warp, *out = packets(dc, w, n, peer).receive(out, n, GinWarp{}))
CALL(packets_receive_by_block, *out = packets(dc, w, n, peer).receive(out, n, GinCta{}))
#endif

// A message there, one back, and one more: three calls in the code of the kernel.
__device__ inline uint64_t sendReceiveSend(const ginDevComm &dc, ginWindow_t w, size_t n, int peer,
					   uint64_t *out)
{
	GinPacketsOn<ROUTES> turns = packets(dc, w, n, peer);
	uint64_t results = turns.send(out, n, GinWarp{});
	results += turns.receive(out, n, GinWarp{});
	return results + turns.send(out, n, GinWarp{});
}

// Two puts, each with a wait after it, in the code of the kernel.
__device__ inline uint64_t putTwice(const GinOn<ROUTES> &gin, ginWindow_t w, ginWindow_t v,
				    size_t n, int peer)
{
	uint64_t results = gin.put(peer, w, n, v, n, n, GinSignalInc{3});
	results += gin.waitSignal(3, n);
	results += gin.put(peer, w, n, v, n, n, GinSignalInc{3});
	return results + gin.waitSignal(3, n);
}

#ifndef KERNELS_ALONE
CALL(put_twice, *out = putTwice(gin, w, v, n, peer))
CALL(packets_send_receive_send, *out = sendReceiveSend(dc, w, n, peer, out))
#endif

#define KERNEL_OF(name, bounds, Body)                                                              \
	extern "C" __global__ void bounds name(Body<ROUTES> body)                                  \
	{                                                                                          \
		body();                                                                            \
	}
#define KERNEL(name, Body) KERNEL_OF(name, , Body)
KERNEL(kernel_exchange, Exchange)
KERNEL(kernel_put_each, PutEach)
KERNEL(kernel_put_loop, PutLoop)
KERNEL(kernel_alltoall, GridAllToAll)
KERNEL(kernel_rms_norm, RmsNorm)
#if GIN_CALLS
#define BOUNDED(name, Body) KERNEL_OF(name, __launch_bounds__(1024, 1), Body)
BOUNDED(bounded_exchange, Exchange)
BOUNDED(bounded_put_each, PutEach)
BOUNDED(bounded_put_loop, PutLoop)
BOUNDED(bounded_alltoall, GridAllToAll)
BOUNDED(bounded_rms_norm, RmsNorm)
#endif
