// SPDX-License-Identifier: BSD-3-Clause one.cu - a kernel with a put, a wait and a flush, by libgin
// or, with -DBY_NCCL, by NCCL's device API; bench/registers/compile measures how nvcc compiles it
#ifdef BY_NCCL
#include <nccl.h>
#include <nccl_device.h>

extern "C" __global__ void kernel(ncclDevComm dc, ncclWindow_t to, ncclWindow_t from, size_t bytes)
{
	ncclGin gin(dc, 0);
	const uint64_t before = gin.readSignal(0);
	const int next = static_cast<int>((dc.rank + 1) % dc.nRanks);

	gin.put(ncclTeamWorld(dc), next, to, 0, from, 0, bytes, ncclGin_SignalInc{0});
	gin.waitSignal(ncclCoopCta(), 0, before + 1);
	gin.flush(ncclCoopCta());
}
#else
#include <gin_device.cuh>

extern "C" __global__ void kernel(ginDevComm dc, ginWindow_t to, ginWindow_t from, size_t bytes)
{
	const Gin gin(dc, 0);
	const uint64_t before = gin.readSignal(0);
	const int next = static_cast<int>((dc.rank + 1) % dc.nRanks);

	gin.put(next, to, 0, from, 0, bytes, GinSignalInc{0});
	gin.waitSignal(0, before + 1, GinCta{});
	gin.flush(GinCta{});
}
#endif
