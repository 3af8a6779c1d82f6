/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * clang.cuh - the parts of CUDA that the headers use, for clang 16 and newer without a CUDA toolkit
 *
 * target.cuh includes it under `clang++ -x cuda -nocudainc --cuda-device-only`; the Makefile target
 * `bitcode` has the whole command. Synchronising instructions are inline PTX, not LLVM intrinsics:
 * the intrinsics change between releases of LLVM, and a bitcode file must be readable by newer
 * releases than the one that wrote it.
 */
#ifndef GIN_CLANG_CUH
#define GIN_CLANG_CUH

#if defined(__clang__) && defined(__CUDA__) && !defined(__CUDACC__)

#include <stddef.h>
#include <stdint.h>

#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))

#define GIN_CLANG_FN static __device__ __forceinline__

/* threadIdx, blockIdx and so on: each use of a member reads its register. */
#define GIN_CLANG_REGISTER(name)                                                                   \
	struct ginClang_##name {                                                                   \
		unsigned x, y, z;                                                                  \
		__device__ __forceinline__ ginClang_##name()                                       \
		{                                                                                  \
			asm("mov.u32 %0, %%" #name ".x;" : "=r"(x));                               \
			asm("mov.u32 %0, %%" #name ".y;" : "=r"(y));                               \
			asm("mov.u32 %0, %%" #name ".z;" : "=r"(z));                               \
		}                                                                                  \
	}
GIN_CLANG_REGISTER(tid);
GIN_CLANG_REGISTER(ntid);
GIN_CLANG_REGISTER(ctaid);
GIN_CLANG_REGISTER(nctaid);
#define threadIdx (ginClang_tid())
#define blockDim (ginClang_ntid())
#define blockIdx (ginClang_ctaid())
#define gridDim (ginClang_nctaid())

/* Macros, because some of the names are builtins of clang. */
#define __syncthreads() ginClangBlockSync()
#define __syncthreads_or(mine) ginClangBlockAny(mine)
#define __syncwarp(...) ginClangWarpSync(__VA_ARGS__)
#define __activemask() ginClangActiveMask()
#define __any_sync(mask, mine) ginClangAny(mask, mine)
#define __ballot_sync(mask, mine) ginClangBallot(mask, mine)
#define __match_any_sync(mask, value) ginClangMatch(mask, value)
#define __shfl_sync(mask, value, from) ginClangShuffle(mask, value, from)
#define __popc(bits) static_cast<int>(__builtin_popcount(bits))
#define __ffs(bits) __builtin_ffs(bits)
#define __byte_perm(low, high, selector) ginClangBytes(low, high, selector)
#define atomicCAS(word, compare, value) ginClangCas(word, compare, value)
#define __cvta_generic_to_shared(pointer) ginClangToShared(pointer)
#define memcpy(to, from, bytes) __builtin_memcpy(to, from, bytes)

GIN_CLANG_FN void ginClangBlockSync()
{
	asm volatile("bar.sync 0;" ::: "memory");
}

GIN_CLANG_FN int ginClangBlockAny(bool mine)
{
	int any;
	asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0;"
		     " bar.red.or.pred q, 0, p; selp.s32 %0, 1, 0, q; }"
		     : "=r"(any)
		     : "r"(static_cast<unsigned>(mine))
		     : "memory");
	return any;
}

GIN_CLANG_FN void ginClangWarpSync(unsigned mask = 0xffffffffu)
{
	asm volatile("bar.warp.sync %0;" ::"r"(mask) : "memory");
}

GIN_CLANG_FN unsigned ginClangActiveMask()
{
	unsigned mask;
	asm volatile("activemask.b32 %0;" : "=r"(mask));
	return mask;
}

GIN_CLANG_FN int ginClangAny(unsigned mask, bool mine)
{
	int any;
	asm volatile("{ .reg .pred p, q; setp.ne.u32 p, %1, 0;"
		     " vote.sync.any.pred q, p, %2; selp.s32 %0, 1, 0, q; }"
		     : "=r"(any)
		     : "r"(static_cast<unsigned>(mine)), "r"(mask)
		     : "memory");
	return any;
}

GIN_CLANG_FN unsigned ginClangBallot(unsigned mask, bool mine)
{
	unsigned lanes;
	asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, %2; }"
		     : "=r"(lanes)
		     : "r"(static_cast<unsigned>(mine)), "r"(mask)
		     : "memory");
	return lanes;
}

GIN_CLANG_FN unsigned ginClangMatch(unsigned mask, uint32_t value)
{
	unsigned lanes;
	asm volatile("match.any.sync.b32 %0, %1, %2;"
		     : "=r"(lanes)
		     : "r"(value), "r"(mask)
		     : "memory");
	return lanes;
}

GIN_CLANG_FN unsigned ginClangMatch(unsigned mask, uint64_t value)
{
	unsigned lanes;
	asm volatile("match.any.sync.b64 %0, %1, %2;"
		     : "=r"(lanes)
		     : "l"(value), "r"(mask)
		     : "memory");
	return lanes;
}

GIN_CLANG_FN uint32_t ginClangShuffle(unsigned mask, uint32_t value, int from)
{
	uint32_t got;
	asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, %3;"
		     : "=r"(got)
		     : "r"(value), "r"(from), "r"(mask)
		     : "memory");
	return got;
}

GIN_CLANG_FN uint64_t ginClangShuffle(unsigned mask, uint64_t value, int from)
{
	uint32_t low = ginClangShuffle(mask, static_cast<uint32_t>(value), from);
	uint32_t high = ginClangShuffle(mask, static_cast<uint32_t>(value >> 32), from);
	return static_cast<uint64_t>(high) << 32 | low;
}

GIN_CLANG_FN uint32_t ginClangBytes(uint32_t low, uint32_t high, uint32_t selector)
{
	uint32_t bytes;
	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(selector));
	return bytes;
}

GIN_CLANG_FN uint32_t ginClangCas(uint32_t *word, uint32_t compare, uint32_t value)
{
	uint32_t old;
	asm volatile("atom.relaxed.gpu.cas.b32 %0, [%1], %2, %3;"
		     : "=r"(old)
		     : "l"(word), "r"(compare), "r"(value)
		     : "memory");
	return old;
}

GIN_CLANG_FN size_t ginClangToShared(const void *pointer)
{
	size_t address;
	asm("cvta.to.shared.u64 %0, %1;" : "=l"(address) : "l"(pointer));
	return address;
}

#endif
#endif
