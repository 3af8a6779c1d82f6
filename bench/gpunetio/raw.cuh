// SPDX-License-Identifier: BSD-3-Clause
// raw.cuh - bare posts by one thread: no room, no turn; what stores and fences alone cost
#ifndef GIN_BENCH_GPUNETIO_RAW_CUH
#define GIN_BENCH_GPUNETIO_RAW_CUH

#include "ours.cuh"

// The order of what a post stores, and what stands between.
enum Order {
	SYSTEM_FENCES, // WQE, fence, record, fence, doorbell
	GPU_FENCES,    // the same with fences of the GPU's scope
	ONE_FENCE,     // WQE, fence, record, doorbell: as ginNicRing() does
	NO_MMIO,       // the same, the doorbell by a plain store of system scope
	NO_FENCE       // WQE, record, doorbell: no NIC could work with that
};

template <Order order> __device__ void fence()
{
	if (order == SYSTEM_FENCES)
		asm volatile("fence.acq_rel.sys;" ::: "memory");
	else if (order != NO_FENCE)
		asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

template <Order order> struct RawPost : Poster<Ours> {
	__device__ ginResult_t operator()(uint32_t i) const
	{
		uint64_t ring = ginMlx5Doorbell(q->queue, i + 1);
		ginSendRange range = {i, 1};

		writeElements<PUT>(q, range, 0, i);
		fence<order>();
		asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(&q->record->send),
			     "r"(ginMlx5RecordWord(i + 1))
			     : "memory");
		if (order == SYSTEM_FENCES || order == GPU_FENCES)
			fence<order>();
		if (order == NO_MMIO)
			asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(q->doorbell),
				     "l"(ring)
				     : "memory");
		else
			asm volatile("st.mmio.relaxed.sys.global.u64 [%0], %1;" ::"l"(q->doorbell),
				     "l"(ring)
				     : "memory");
		return ginSuccess;
	}
};

#endif
