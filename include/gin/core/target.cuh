/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * target.cuh - one source for GPU threads and host threads
 *
 * GIN_ON_GPU is 1 where nvcc, NVRTC or clang compiles for a GPU. It is 0 in nvcc's host pass and
 * under g++ or clang++: a host thread of ginHostLaunch() acts as a GPU thread there.
 */
#ifndef GIN_TARGET_CUH
#define GIN_TARGET_CUH

#include "abi.h"

/*
 * Compilers for GPUs alone: NVRTC, and clang -x cuda without CUDA's headers, which would define
 * __CUDACC__.
 */
#if defined(__CUDACC_RTC__)
#define GIN_ONLY_GPU 1
#elif defined(__clang__) && defined(__CUDA__) && !defined(__CUDACC__)
#define GIN_ONLY_GPU 1
#include "clang.cuh"
#else
#define GIN_ONLY_GPU 0
#include <string.h>

#include "host_launch.h"
#endif

#if GIN_ONLY_GPU
#define GIN_FN __device__ __forceinline__
#elif defined(__CUDACC__)
#define GIN_FN __host__ __device__ __forceinline__
#else
#define GIN_FN inline
#endif

/*
 * For large functions that kernels call: never inlined, unless with -DGIN_NO_CALLS. Kernels that
 * change their number of registers (setmaxnreg) cannot call functions. In relocatable device code
 * (-rdc=true) ptxas limits the registers of a function to those of its callers' launch bounds only
 * if no other file can call it: hence static. A class has no such functions.
 */
#ifdef GIN_NO_CALLS
#define GIN_FN_CALLED GIN_FN
#elif GIN_ONLY_GPU
#define GIN_FN_CALLED inline __device__ __noinline__
#elif defined(__CUDACC_RDC__)
#define GIN_FN_CALLED [[maybe_unused]] static __host__ __device__ __noinline__
#elif defined(__CUDACC__)
#define GIN_FN_CALLED inline __host__ __device__ __noinline__
#else
#define GIN_FN_CALLED inline
#endif

/*
 * For functions that run rarely, called where the caller uses many registers. A called function
 * takes only registers that none of its callers uses, so nvcc inlines these: that saves a kernel up
 * to 30 registers, and its calls time. With GIN_CALLS, as for other compilers, they are calls, and
 * kernels compile in about half of the time (docs/performance.md).
 */
#ifndef GIN_CALLS
#if defined(__NVCC__) && !GIN_ONLY_GPU
#define GIN_CALLS 0
#else
#define GIN_CALLS 1
#endif
#endif
#if GIN_CALLS
#define GIN_FN_COLD GIN_FN_CALLED
#else
#define GIN_FN_COLD GIN_FN
#endif

/* Inlined, except in a file of LLVM bitcode, which has all calls: there one function. */
#if GIN_ONLY_GPU && !defined(__CUDACC_RTC__)
#define GIN_FN_SHARED inline __device__ __noinline__
#else
#define GIN_FN_SHARED GIN_FN
#endif

/*
 * A parameter of a function that is not inlined. nvcc passes a small struct in registers. In LLVM
 * IR a struct by value is a copy in memory (byval), which some readers of bitcode mishandle:
 * bitcode gets a reference.
 */
#if GIN_ONLY_GPU && !defined(__CUDACC_RTC__)
template <class Type, bool isClass> struct ginColdOf {
	using type = Type;
};
template <class Type> struct ginColdOf<Type, true> {
	using type = const Type &;
};
template <class Type> struct ginColdParameter : ginColdOf<Type, __is_class(Type)> {
};
template <class Type> using ginCold = typename ginColdParameter<Type>::type;
#else
template <class Type> using ginCold = Type;
#endif

#if defined(__CUDA_ARCH__) || GIN_ONLY_GPU
#define GIN_ON_GPU 1
#else
#define GIN_ON_GPU 0
#endif

#if GIN_ON_GPU && __CUDA_ARCH__ < 700
#error "libgin needs a GPU of compute capability 7.0 or newer: compile with -arch=sm_70, say"
#endif

/* Before a loop that runs rarely and should stay small. */
#if GIN_ON_GPU
#define GIN_NO_UNROLL _Pragma("unroll 1")
#else
#define GIN_NO_UNROLL
#endif

/* Lanes of a GinWarp. */
#if GIN_ON_GPU
#define GIN_WARP_SIZE 32u
#else
#define GIN_WARP_SIZE GIN_HOST_WARP
#endif

/* Linear number of this thread in its block. */
GIN_FN uint32_t ginThreadIndex()
{
#if GIN_ON_GPU
	return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
#else
	return ginHostSelf()->thread;
#endif
}

/* ginThreadIndex(), read again. As ginUnshared(). */
GIN_FN uint32_t ginThreadIndexAgain()
{
#if GIN_ON_GPU
	uint32_t x, y = 0, z = 0;
	if (blockDim.y * blockDim.z != 1) {
		asm volatile("mov.u32 %0, %%tid.y;" : "=r"(y));
		asm volatile("mov.u32 %0, %%tid.z;" : "=r"(z));
	}
	asm volatile("mov.u32 %0, %%tid.x;" : "=r"(x));
	return x + blockDim.x * (y + blockDim.y * z);
#else
	return ginThreadIndex();
#endif
}

/* Number of this thread in its warp. */
GIN_FN uint32_t ginLane()
{
#if GIN_ON_GPU
	uint32_t lane;
	asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
	return lane;
#else
	return ginThreadIndex() % GIN_WARP_SIZE;
#endif
}

GIN_FN uint32_t ginBlockSize()
{
#if GIN_ON_GPU
	return blockDim.x * blockDim.y * blockDim.z;
#else
	return ginHostSelf()->block->size;
#endif
}

GIN_FN uint32_t ginBlockIndex()
{
#if GIN_ON_GPU
	return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
#else
	return ginHostSelf()->blockIndex;
#endif
}

GIN_FN uint32_t ginGridSize()
{
#if GIN_ON_GPU
	return gridDim.x * gridDim.y * gridDim.z;
#else
	return ginHostSelf()->gridSize;
#endif
}

/*
 * `value`, computed where it is used: a loop around the call keeps nothing in registers that is
 * computed from it. bench/registers/run has limits for calls in loops.
 */
GIN_FN uint32_t ginUnshared(uint32_t value)
{
#if GIN_ON_GPU
	asm volatile("" : "+r"(value));
#endif
	return value;
}

GIN_FN uint64_t ginUnshared(uint64_t value)
{
#if GIN_ON_GPU
	asm volatile("" : "+l"(value));
#endif
	return value;
}

template <class Type> GIN_FN Type *ginUnshared(Type *pointer)
{
#if GIN_ON_GPU
	asm volatile("" : "+l"(pointer));
#endif
	return pointer;
}

/* Nanoseconds of a clock that never goes back. Use differences only. */
GIN_FN uint64_t ginNow()
{
#if GIN_ON_GPU
	uint64_t now;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	return now;
#else
	return ginHostNow();
#endif
}

#endif
