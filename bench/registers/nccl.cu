// SPDX-License-Identifier: BSD-3-Clause nccl.cu - three kernels of kernels.cuh by NCCL's device
// API; compiled by bench/registers/run where its headers are
#include <nccl.h>
#include <nccl_device.h>

struct NcclArguments {
	ncclDevComm dc;
	ncclWindow_t send, recv;
	size_t bytes;
};

__device__ inline size_t piece(const NcclArguments &a, uint32_t rank)
{
	return (static_cast<size_t>(rank) * gridDim.x + blockIdx.x) * a.bytes;
}

__device__ inline void puts(const NcclArguments &a, const ncclGin &gin)
{
	for (uint32_t r = threadIdx.x; r < a.dc.nRanks; r += blockDim.x)
		gin.put(ncclTeamWorld(a.dc), static_cast<int>(r), a.recv, piece(a, a.dc.rank),
			a.send, piece(a, r), a.bytes, ncclGin_SignalInc{blockIdx.x});
}

extern "C" __global__ void kernel_put_loop(NcclArguments a)
{
	puts(a, ncclGin(a.dc, 0));
}

extern "C" __global__ void kernel_put_each(NcclArguments a)
{
	const size_t at = (static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x) * a.bytes;
	const int next = static_cast<int>((a.dc.rank + 1) % a.dc.nRanks);

	ncclGin(a.dc, 0).put(ncclTeamWorld(a.dc), next, a.recv, at, a.send, at, a.bytes,
			     ncclGin_SignalInc{blockIdx.x});
}

extern "C" __global__ void kernel_exchange(NcclArguments a)
{
	ncclGin gin(a.dc, 0);
	const uint64_t before = gin.readSignal(blockIdx.x);
	ncclGinBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), gin, ncclTeamTagRail(),
						   blockIdx.x);

	barrier.sync(ncclCoopCta(), cuda::memory_order_relaxed, ncclGinFenceLevel::Relaxed);
	puts(a, gin);
	gin.waitSignal(ncclCoopCta(), blockIdx.x, before + a.dc.nRanks);
	gin.flush(ncclCoopCta());
	barrier.sync(ncclCoopCta(), cuda::memory_order_relaxed, ncclGinFenceLevel::Relaxed);
}
