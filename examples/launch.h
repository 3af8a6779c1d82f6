// SPDX-License-Identifier: BSD-3-Clause
// launch.h - opens a rank, allocates windows, launches a body as a kernel or on host threads
//
// For the examples; tests and measurements use it, too.
#ifndef GIN_EXAMPLES_LAUNCH_H
#define GIN_EXAMPLES_LAUNCH_H

#include <gin.h>
#include <gin_device.cuh>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vector>

// Ends the process, which the other ranks then see as dead. No destructor runs: other threads may
// be ranks.
[[noreturn]] inline void stop(const char *what, const char *why, const char *file, int line)
{
	fflush(stdout);
	fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, why);
	_exit(1);
}

// Ends the process with libgin's error sentence unless `ok`.
inline void check(bool ok, const char *what, const char *file = __builtin_FILE(),
		  int line = __builtin_LINE())
{
	if (!ok)
		stop(what, ginGetLastError(), file, line);
}

#define CHECK(call) check((call) == ginSuccess, #call)

#ifdef __CUDACC__
inline void checkCuda(cudaError_t result, const char *what, const char *file = __builtin_FILE(),
		      int line = __builtin_LINE())
{
	if (result != cudaSuccess)
		stop(what, cudaGetErrorString(result), file, line);
}

#define CUDA(call) checkCuda(call, #call)
#endif

struct Rank {
	ginComm_t comm;
	int rank, nRanks, device; // device: GIN_DEVICE_NONE on host threads
#ifdef __CUDACC__
	cudaStream_t stream; // of launch() and copyBytes()
#endif
};

// Ends the program unless a kernel's result is ginSuccess: with the cause that the host knows.
inline void checkKernel(const Rank &r, const ginDevComm &dc, ginResult_t result)
{
	ginErrorRecord_t record;
	ginResult_t cause = ginSuccess;

	if (result != ginSuccess)
		CHECK(ginDevCommGetError(r.comm, &dc, &record));
	if (result == ginErrorPeer || result == ginErrorAborted)
		CHECK(ginCommGetAsyncError(r.comm, &cause));
	check(result == ginSuccess, ginGetErrorString(result));
}

// The calling process's rank of `comm`. rankClose() destroys both.
inline Rank rankTake(ginComm_t comm)
{
	Rank r = {};
	r.comm = comm;
	CHECK(ginCommRank(r.comm, &r.rank));
	CHECK(ginCommSize(r.comm, &r.nRanks));
	CHECK(ginCommDevice(r.comm, &r.device));
#ifdef __CUDACC__
	if (r.device >= 0) {
		CUDA(cudaSetDevice(r.device));
		CUDA(cudaStreamCreateWithFlags(&r.stream, cudaStreamNonBlocking));
	}
#else
	check(r.device < 0, "built without nvcc, for host threads: try CUDA_VISIBLE_DEVICES=");
#endif
	return r;
}

inline Rank rankOpen(const ginConfig_t *config = nullptr)
{
	ginComm_t comm;
	CHECK(ginCommInit(config, &comm));
	return rankTake(comm);
}

inline void rankClose(const Rank &r)
{
#ifdef __CUDACC__
	if (r.device >= 0)
		CUDA(cudaStreamDestroy(r.stream));
#endif
	CHECK(ginCommDestroy(r.comm));
}

// Copies between host memory and memory that kernels use.
inline void copyBytes(const Rank &r, void *dst, const void *src, size_t bytes)
{
#ifdef __CUDACC__
	if (r.device >= 0) {
		CUDA(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, r.stream));
		CUDA(cudaStreamSynchronize(r.stream));
		return;
	}
#endif
	(void)r;
	if (bytes)
		memcpy(dst, src, bytes);
}

// Memory that is registered as a window.
struct Window {
	void *ptr;
	ginWindow_t window;
};

// Collective. Allocates memory with a copy of `elements`, and registers it as a window.
template <class Element> Window registerCopy(const Rank &r, const std::vector<Element> &elements)
{
	size_t bytes = elements.size() * sizeof(Element);
	Window w;
	CHECK(ginMemAlloc(r.comm, bytes, &w.ptr));
	copyBytes(r, w.ptr, elements.data(), bytes);
	CHECK(ginWindowRegister(r.comm, w.ptr, bytes, 0, &w.window));
	return w;
}

// Collective.
inline void freeWindow(const Rank &r, const Window &w)
{
	CHECK(ginWindowDeregister(r.comm, w.window));
	CHECK(ginMemFree(r.comm, w.ptr));
}

// A word, 0 at first, that a kernel writes and the host reads after the kernel has ended.
template <class Word> Word *resultWord(const Rank &r)
{
	void *ptr = nullptr;
#ifdef __CUDACC__
	if (r.device >= 0)
		CUDA(cudaHostAlloc(&ptr, sizeof(Word), cudaHostAllocDefault));
#endif
	if (r.device < 0)
		ptr = malloc(sizeof(Word));
	check(ptr != nullptr, "memory");
	memset(ptr, 0, sizeof(Word));
	return static_cast<Word *>(ptr);
}

#ifdef __CUDACC__
template <class Body> __global__ void runKernel(const __grid_constant__ Body body)
{
	body();
}
#endif

template <class Body> void runHost(void *body)
{
	(*static_cast<Body *>(body))();
}

// Runs the body as a kernel if the rank has a GPU, otherwise on host threads. Waits until it ends.
template <class Body> void launch(const Rank &r, uint32_t grid, uint32_t block, Body body)
{
	if (r.device < 0) {
		CHECK(ginHostLaunch(grid, block, runHost<Body>, &body));
		return;
	}
#ifdef __CUDACC__
	runKernel<<<grid, block, 0, r.stream>>>(body);
	CUDA(cudaGetLastError());
	CUDA(cudaStreamSynchronize(r.stream));
#endif
}

// Prints the result of this rank. Returns the exit status of the program.
inline int report(const Rank &r, size_t wrong)
{
	printf("rank %d of %d on %s: %s\n", r.rank, r.nRanks,
	       r.device < 0 ? "host threads" : "a GPU",
	       wrong ? "WRONG BYTES" : "all bytes verified");
	return wrong != 0;
}

#endif
