// SPDX-License-Identifier: BSD-3-Clause
// raw.cuh - posts of descriptors in the size and with the fence of other proxies, without a library
#ifndef GIN_BENCH_PROXY_RAW_CUH
#define GIN_BENCH_PROXY_RAW_CUH

#include "rank.cuh"

enum Shape {
	shapeRelaxed16, // 16 bytes, no fence
	shapeRelease16, // 16 bytes by st.release.sys, as MSCCL++ does
	shapeGpu64,	// fence.gpu and 64 bytes
	shapeSystem128, // fence.sys and 128 bytes, as NCCL's proxy does
	shapeRelaxed64	// 64 bytes, no fence
};

GIN_FN constexpr uint32_t bytesOf(Shape shape)
{
	return shape == shapeSystem128				? 128
	       : shape == shapeGpu64 || shape == shapeRelaxed64 ? 64
								: 16;
}

__device__ inline void store16(char *at, uint64_t value)
{
	asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %1};" ::"l"(at), "l"(value)
		     : "memory");
}

template <Shape shape> __device__ void postRaw(char *slot, uint64_t value)
{
	if (shape == shapeGpu64)
		asm volatile("fence.acq_rel.gpu;" ::: "memory");
	if (shape == shapeSystem128)
		asm volatile("fence.acq_rel.sys;" ::: "memory");
	if (shape == shapeRelease16)
		asm volatile("st.release.sys.global.v2.b64 [%0], {%1, %1};" ::"l"(slot), "l"(value)
			     : "memory");
	else
		for (uint32_t i = 0; i < bytesOf(shape); i += 16)
			store16(slot + i, value);
}

__device__ inline uint64_t lookRelaxed(const uint64_t *word)
{
	uint64_t value;
	asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
}

#endif
