/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels.cu - the entry points of the fatbin; products/ep/lib/gpu.c finds them by their names */
#define GIN_CALLS 1 /* inlined they take many minutes to compile */
#include "kernels.cuh"

#define EP_ABI_ENTRY(abi) EP_ABI_PASTE(abi)
#define EP_ABI_PASTE(abi) gin_ep_abi_##abi

/* Never run: products/ep/lib/gpu.c looks for the name, which has the device layout in it. */
extern "C" __global__ void EP_ABI_ENTRY(GIN_DEVICE_ABI)()
{
}

extern __shared__ __align__(16) char epShared[];

#define EP_ENTRY(name, function, ...)                                                              \
	namespace gin_ep::name                                                                     \
	{                                                                                          \
	__global__ void __launch_bounds__(__VA_ARGS__::mostThreads, __VA_ARGS__::perSm)            \
		function(const __grid_constant__ epArgs args)                                      \
	{                                                                                          \
		epRun<__VA_ARGS__>(args, epShared);                                                \
	}                                                                                          \
	}
EP_VARIANTS(EP_ENTRY)
