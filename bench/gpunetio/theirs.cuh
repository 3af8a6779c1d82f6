// SPDX-License-Identifier: BSD-3-Clause
// theirs.cuh - GPUNetIO's side: posts by NVIDIA's device functions, from NCCL's headers
#ifndef GIN_BENCH_GPUNETIO_THEIRS_CUH
#define GIN_BENCH_GPUNETIO_THEIRS_CUH

#include "ours.cuh"

#include <cuda.h> // the next header chooses st.mmio by CUDA_VERSION
#include <doca_gpunetio_device.h>

struct Theirs {
	using Queue = doca_gpu_dev_verbs_qp;

	doca_gpu_dev_verbs_qp *queues;

	Theirs() { CUDA(cudaMalloc(&queues, QUEUES * sizeof(*queues))); }

	~Theirs() { cudaFree(queues); }

	Theirs(const Theirs &) = delete;
	Theirs &operator=(const Theirs &) = delete;

	Call call() const { return {}; }

	// Filled in like NCCL's host code does.
	static doca_gpu_dev_verbs_qp fresh(const QueueRig &rig, const Shape &shape, uint32_t number)
	{
		Hardware hardware = rig.hardware(number);
		uint32_t shifted = (NUMBER + number) << 8;
		doca_gpu_dev_verbs_qp q = {};
		q.sq_num = NUMBER + number;
		q.sq_num_shift8 = shifted;
		q.sq_num_shift8_be = ginMlx5Swap(shifted);
		q.sq_num_shift8_be_1ds = ginMlx5Swap(shifted | 1);
		q.sq_num_shift8_be_2ds = ginMlx5Swap(shifted | 2);
		q.sq_num_shift8_be_3ds = ginMlx5Swap(shifted | 3);
		q.sq_num_shift8_be_4ds = ginMlx5Swap(shifted | 4);
		q.sq_wqe_num = static_cast<uint16_t>(shape.slots());
		q.sq_wqe_mask = static_cast<uint16_t>(shape.slots() - 1);
		q.sq_wqe_daddr = reinterpret_cast<uint8_t *>(hardware.wqes);
		q.sq_dbrec = &hardware.record->send;
		q.sq_db = hardware.doorbell;
		q.cq_sq.cqe_daddr = reinterpret_cast<uint8_t *>(hardware.cqes);
		q.cq_sq.cqe_num = shape.slots();
		q.cq_sq.cqe_mask = shape.slots() - 1;
		q.cq_sq.cqe_size = sizeof(ginMlx5Cqe);
		q.nic_handler = DOCA_GPUNETIO_VERBS_NIC_HANDLER_GPU_SM_DB;
		return q;
	}

	void reset(const QueueRig &rig, const Shape &shape)
	{
		std::vector<doca_gpu_dev_verbs_qp> all;

		for (uint32_t i = 0; i < shape.queues; i++)
			all.push_back(fresh(rig, shape, i));
		CUDA(cudaMemcpy(queues, all.data(), all.size() * sizeof(all[0]),
				cudaMemcpyHostToDevice));
	}

	// Writes a CQE for each WQE. Its last byte has the owner bit, which changes with each lap.
	static __device__ void complete(ginMlx5Cqe *cqes, uint32_t slots, uint64_t at, uint64_t end)
	{
		for (; at < end; at++) {
			uint32_t owner = at & slots ? 1 : 0;
			uint32_t state =
				ginMlx5Swap(static_cast<uint32_t>(at & 0xffff) << 16 | owner);
			asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(
					     &cqes[at & (slots - 1)].state),
				     "r"(state)
				     : "memory");
		}
	}
};

constexpr auto THEIR_DOORBELL = DOCA_GPUNETIO_VERBS_NIC_HANDLER_GPU_SM_DB;
constexpr auto THEIR_THREAD = DOCA_GPUNETIO_VERBS_EXEC_SCOPE_THREAD;
constexpr auto THEIR_WARP = DOCA_GPUNETIO_VERBS_EXEC_SCOPE_WARP;

GIN_FN constexpr doca_gpu_dev_verbs_resource_sharing_mode theirSharing(ginSharing sharing)
{
	return sharing == ginSharingThread ? DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_EXCLUSIVE
	       : sharing == ginSharingCta  ? DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_CTA
					   : DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_GPU;
}

// Each thread posts: by itself, or with `scope` warp all 32 threads in one call.
template <What what, ginSharing sharing,
	  doca_gpu_dev_verbs_exec_scope scope = DOCA_GPUNETIO_VERBS_EXEC_SCOPE_THREAD>
struct TheirsEach : Poster<Theirs> {
	__device__ ginResult_t operator()(uint32_t i) const
	{
		constexpr auto mode = theirSharing(sharing);
		const doca_gpu_dev_verbs_addr there = {4096, ginMlx5Key(0x1234)},
					      here = {8192, ginMlx5Key(0x5678)};
		const doca_gpu_dev_verbs_addr signal = {64, ginMlx5Key(0x1111)},
					      sink = {128, ginMlx5Key(0x2222)};

		if constexpr (what == PUT)
			doca_gpu_dev_verbs_put<mode, THEIR_DOORBELL, scope>(q, there, here, 4096);
		else if constexpr (what == PUT_SIGNAL)
			doca_gpu_dev_verbs_put_signal<DOCA_GPUNETIO_VERBS_SIGNAL_OP_ADD, mode,
						      THEIR_DOORBELL, scope>(q, there, here, 4096,
									     signal, sink, 1);
		else
			doca_gpu_dev_verbs_p<uint64_t, mode, THEIR_DOORBELL, scope>(q, there, i);
		return ginSuccess;
	}
};

// A warp posts one put, as NCCL's ncclGin does it.
template <ginSharing sharing> struct TheirsWarp : TheirsEach<PUT, sharing> {
	__device__ ginResult_t operator()(uint32_t i) const
	{
		__syncwarp();
		if (ginLane() == 0)
			TheirsEach<PUT, sharing>::operator()(i);
		__syncwarp();
		return ginSuccess;
	}
};

#endif
