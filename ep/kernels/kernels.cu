/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels.cu - the entry points of the fatbin; ep/lib/gpu.c finds them by their names */
#include "kernels.cuh"

#define EP_ABI_ENTRY(abi) EP_ABI_PASTE(abi)
#define EP_ABI_PASTE(abi) gin_ep_abi_##abi

/* Never run: ep/lib/gpu.c looks for the name, which has the device layout in it. */
extern "C" __global__ void EP_ABI_ENTRY(GIN_DEVICE_ABI)()
{
}

/*
 * Each warp loads a word of one cache line of the kernel's parameters, which are new for each launch: the
 * first use of a line then waits for one load and not for loads of other lines before it.
 */
__device__ static void touchParameters(const epArgs &args)
{
	enum { LINE = 16 }; /* words */
	__shared__ uint32_t sink[32];
	const uint32_t *const words = reinterpret_cast<const uint32_t *>(&args);
	const uint32_t sinkAt = static_cast<uint32_t>(__cvta_generic_to_shared(sink + epTeam()));
	const uint32_t end = sizeof(args) / sizeof(uint32_t), step = epTeams() * LINE;

	/* Two loads are in flight. */
	for (uint32_t at = epTeam() * LINE; at < end; at += 2 * step) {
		const uint32_t word = words[at], other = words[at + step < end ? at + step : at];
		asm volatile("st.shared.u32 [%0], %1;" ::"r"(sinkAt), "r"(word + other));
	}
}

#define EP_ENTRY(name, ...)                                                                        \
	extern "C" __global__ void __launch_bounds__(512, 2)                                       \
		gin_ep_##name(const __grid_constant__ epArgs args)                                 \
	{                                                                                          \
		extern __shared__ __align__(16) char shared[];                                     \
		touchParameters(args);                                                             \
		epRun<__VA_ARGS__>(args, shared);                                                  \
	}
EP_VARIANTS(EP_ENTRY)
