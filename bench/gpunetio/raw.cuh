// SPDX-License-Identifier: BSD-3-Clause
// raw.cuh - limits: the stores and fences of a post alone, and the steps that a shared queue needs
#ifndef GIN_BENCH_GPUNETIO_RAW_CUH
#define GIN_BENCH_GPUNETIO_RAW_CUH

#include "ours.cuh"

// The stores of a post in order, and the fences between them.
enum Order {
	SYSTEM_FENCES, // WQE, fence, record, fence, doorbell
	GPU_FENCES,    // like SYSTEM_FENCES, with fences of GPU scope
	ONE_FENCE,     // WQE, fence, record, doorbell
	RELEASE_FENCE, // like ONE_FENCE, with a fence that only releases: libgin's order
	NO_MMIO,       // like ONE_FENCE, the doorbell by a plain store of system scope
	NO_FENCE       // WQE, record, doorbell: too weak for a NIC
};

template <Order order> __device__ void fence()
{
	if (order == SYSTEM_FENCES)
		asm volatile("fence.acq_rel.sys;" ::: "memory");
	else if (order == RELEASE_FENCE)
		ginReleaseFence<ginScopeDevice>();
	else if (order != NO_FENCE)
		asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

template <Order order> struct RawPost : Poster<Ours> {
	__device__ ginResult_t operator()(uint32_t i) const
	{
		const ginSendFixed f = q->fixed;
		uint64_t ring = ginMlx5Doorbell(f.queue, i + 1);
		ginSendRange range = {i, 1};

		writeElements<PUT>(f, range, 0, i);
		fence<order>();
		asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(&f.record->send),
			     "r"(ginMlx5RecordWord(i + 1))
			     : "memory");
		if (order == SYSTEM_FENCES || order == GPU_FENCES)
			fence<order>();
		if (order == NO_MMIO)
			asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(f.doorbell),
				     "l"(ring)
				     : "memory");
		else
			asm volatile("st.mmio.relaxed.sys.global.u64 [%0], %1;" ::"l"(f.doorbell),
				     "l"(ring)
				     : "memory");
		return ginSuccess;
	}
};

// A post to a queue that other threads may share: reserve slots, check for room, write the WQEs,
// release them to the ringer, ring, and pass the turn on. `lanes`, 1 or 32: the lanes of a warp
// post together. No other thread posts.
template <uint32_t lanes> struct RawShared : Poster<Ours> {
	__device__ ginResult_t operator()(uint32_t) const
	{
		const ginSendFixed f = q->fixed;
		uint64_t first = 0, done = 0;

		if (ginLane() == 0) {
			first = ginTicketAdd(&q->reserved, lanes);
			done = ginDoneLook(&q->done, ginSharingGpu);
		}
		if (lanes > 1) {
			first = __shfl_sync(~0u, first, 0);
			done = __shfl_sync(~0u, done, 0);
		}
		if (first + lanes - done > 1ull << f.logDepth)
			return ginErrorTimeout;
		writeElements<PUT>(f, {first, lanes}, ginLane() % lanes, 0);
		if (lanes > 1)
			__syncwarp();
		if (ginLane() == 0)
			ring(f, first, first + lanes);
		if (lanes > 1)
			__syncwarp();
		return ginSuccess;
	}

private:
	__device__ void ring(const ginSendFixed &f, uint64_t from, uint64_t to) const
	{
		uint32_t low = static_cast<uint32_t>(to);
		uint32_t slot = static_cast<uint32_t>(from & ginSendMask(f));

		ginTurnRelease(ginSharingGpu);
		if (ginTurnMark(&f.turn[slot], lanes, ginSharingGpu) != GIN_TURN)
			__trap();
		ginNicRing(&f.record->send, ginMlx5RecordWord(low), f.doorbell,
			   ginMlx5Doorbell(f.queue, low));
		if (!ginTurnPutDown(&f.turn[to & ginSendMask(f)], ginSharingGpu))
			__trap();
	}
};

#endif
