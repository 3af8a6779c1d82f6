// SPDX-License-Identifier: BSD-3-Clause
// launch.cuh - runs a body as a kernel or on host threads, with shared memory
#ifndef GIN_PERF_LAUNCH_CUH
#define GIN_PERF_LAUNCH_CUH

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <gin_device.cuh>

#include "kernel_fit.h"

// Ends the process without cleaning up: the other ranks notice that this rank died.
__attribute__((format(printf, 2, 3))) static inline void die(int rank, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fflush(stdout);
	fprintf(stderr, "%s: rank %d: ", program_invocation_short_name, rank);
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
	fflush(stderr);
	_exit(1);
}

// Shared memory of each block; on host threads, ordinary memory that run() allocates.
struct Shared {
	char *host = nullptr;
	uint32_t bytes = 0;

	GIN_FN char *ofBlock() const
	{
#if GIN_ON_GPU
		extern __shared__ __align__(128) char sharedOfBlock[];
		return sharedOfBlock;
#else
		return host + static_cast<size_t>(ginBlockIndex()) * bytes;
#endif
	}
};

// Largest block of a kernel whose calls use this coop: 1024 threads need a CTA coop.
template <class Coop> GIN_FN constexpr uint32_t mostThreadsOf(Coop)
{
	return 512;
}
GIN_FN constexpr uint32_t mostThreadsOf(GinCta)
{
	return 1024;
}

#ifdef __CUDACC__
#define CUDA(rank, call)                                                                           \
	do {                                                                                       \
		cudaError_t cudaResult = (call);                                                   \
		if (cudaResult != cudaSuccess)                                                     \
			die(rank, "%s: %s", #call, cudaGetErrorString(cudaResult));                \
	} while (0)

// The bounds let each thread use all registers that the body's largest block can have.
template <class Body> __global__ void __launch_bounds__(Body::mostThreads, 1)
	bodyKernel(const __grid_constant__ Body body)
{
	body();
}
#endif

template <class Body> void bodyFunction(void *body)
{
	(*static_cast<const Body *>(body))();
}

// A GPU and its stream, or host threads.
struct Machine {
	int rank = 0;
	bool gpu = false;
#ifdef __CUDACC__
	cudaStream_t stream = nullptr;
#endif

	void useDevice(int device)
	{
		gpu = device >= 0;
#ifdef __CUDACC__
		if (!gpu)
			return;
		CUDA(rank, cudaSetDevice(device));
		CUDA(rank, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
#endif
	}

	// Runs the body and waits for it.
	template <class Body> void run(uint32_t grid, uint32_t block, Body body) const
	{
#ifdef __CUDACC__
		if (gpu) {
			runKernel(grid, block, body);
			return;
		}
#endif
		size_t bytes = (static_cast<size_t>(grid) * body.shared.bytes + 127) / 128 * 128;
		if (bytes)
			body.shared.host = static_cast<char *>(aligned_alloc(128, bytes));
		if (bytes && !body.shared.host)
			die(rank, "no memory: %zu bytes for the shared memory of host threads",
			    bytes);
		if (ginHostLaunch(grid, block, bodyFunction<Body>, &body) != ginSuccess)
			die(rank, "cannot start %u x %u host threads", grid, block);
		free(body.shared.host);
	}

	// What the body's kernel takes of an SM, in blocks of `block` threads. After run().
	template <class Body> KernelFit fitOf(uint32_t block, const Body &body) const
	{
		KernelFit fit;
#ifdef __CUDACC__
		if (gpu)
			fitKernel<Body>(static_cast<int>(block), body.shared.bytes, fit);
#else
		(void)block;
		(void)body;
#endif
		return fit;
	}

	// Memory that bodies write and the host reads after run().
	template <class Word> Word *results(size_t count) const
	{
		void *at = nullptr;
#ifdef __CUDACC__
		if (gpu)
			CUDA(rank, cudaHostAlloc(&at, count * sizeof(Word), cudaHostAllocPortable));
#endif
		if (!gpu)
			at = malloc(count * sizeof(Word));
		if (!at)
			die(rank, "no memory for results");
		return static_cast<Word *>(at);
	}

	void freeResults(void *at) const
	{
#ifdef __CUDACC__
		if (gpu)
			cudaFreeHost(at);
#endif
		if (!gpu)
			free(at);
	}

	// Copies between host memory and memory that bodies use.
	void copy(void *dst, const void *src, size_t bytes) const
	{
#ifdef __CUDACC__
		if (gpu) {
			CUDA(rank, cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream));
			CUDA(rank, cudaStreamSynchronize(stream));
			return;
		}
#endif
		memcpy(dst, src, bytes);
	}

private:
#ifdef __CUDACC__
	template <class Body> void runKernel(uint32_t grid, uint32_t block, const Body &body) const
	{
		if (body.shared.bytes > 48u << 10)
			CUDA(rank, cudaFuncSetAttribute(bodyKernel<Body>,
							cudaFuncAttributeMaxDynamicSharedMemorySize,
							static_cast<int>(body.shared.bytes)));
		bodyKernel<<<grid, block, body.shared.bytes, stream>>>(body);
		CUDA(rank, cudaGetLastError());
		CUDA(rank, cudaStreamSynchronize(stream));
	}

	template <class Body> void fitKernel(int block, size_t dynamicBytes, KernelFit &fit) const
	{
		cudaFuncAttributes kernel;
		int device, most;
		CUDA(rank, cudaGetDevice(&device));
		CUDA(rank, cudaFuncGetAttributes(&kernel, bodyKernel<Body>));
		CUDA(rank, cudaOccupancyMaxActiveBlocksPerMultiprocessor(
				   &fit.blocksPerSm, bodyKernel<Body>, block, dynamicBytes));
		CUDA(rank,
		     cudaDeviceGetAttribute(&most, cudaDevAttrMaxThreadsPerMultiProcessor, device));
		fit.registers = kernel.numRegs;
		fit.localBytes = static_cast<int>(kernel.localSizeBytes);
		fit.sharedBytes = static_cast<int>(kernel.sharedSizeBytes + dynamicBytes);
		fit.occupancy = static_cast<double>(fit.blocksPerSm) * block / most;
	}
#endif
};

#endif
