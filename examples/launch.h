// SPDX-License-Identifier: BSD-3-Clause
// launch.h - shared by the examples: opens ranks, allocates windows, launches a body as a kernel or
// on host threads
#ifndef GIN_EXAMPLES_LAUNCH_H
#define GIN_EXAMPLES_LAUNCH_H

#include <gin.h>
#include <gin_device.cuh>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

// Ends the program with libgin's error sentence unless `ok`.
inline void check(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s\n", what, ginGetLastError());
	exit(1);
}

#define CHECK(call) check((call) == ginSuccess, #call)

struct Ranks {
	ginComm_t comm;
	int rank, nRanks, device; // device: GIN_DEVICE_NONE on host threads
};

// Ends the program unless a kernel's result is ginSuccess: with the cause that the host knows.
inline void checkKernel(const Ranks &r, const ginDevComm &dc, ginResult_t result)
{
	ginErrorRecord_t record;
	ginResult_t cause = ginSuccess;

	if (result != ginSuccess)
		CHECK(ginDevCommGetError(r.comm, &dc, &record));
	if (result == ginErrorPeer || result == ginErrorAborted)
		CHECK(ginCommGetAsyncError(r.comm, &cause));
	check(result == ginSuccess, ginGetErrorString(result));
}

inline Ranks describe(ginComm_t comm)
{
	Ranks r;
	r.comm = comm;
	CHECK(ginCommRank(r.comm, &r.rank));
	CHECK(ginCommSize(r.comm, &r.nRanks));
	CHECK(ginCommDevice(r.comm, &r.device));
#ifdef __CUDACC__
	if (r.device >= 0)
		check(cudaSetDevice(r.device) == cudaSuccess, "cudaSetDevice");
#else
	check(r.device < 0, "built without nvcc, for host threads: try CUDA_VISIBLE_DEVICES=");
#endif
	return r;
}

inline Ranks openRanks(const ginConfig_t *config = nullptr)
{
	ginComm_t comm;
	CHECK(ginCommInit(config, &comm));
	return describe(comm);
}

// Copies between host memory and memory that kernels use.
inline void copyBytes(const Ranks &r, void *dst, const void *src, size_t bytes)
{
#ifdef __CUDACC__
	if (r.device >= 0) {
		check(cudaMemcpy(dst, src, bytes, cudaMemcpyDefault) == cudaSuccess, "cudaMemcpy");
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
template <class Element> Window registerCopy(const Ranks &r, const std::vector<Element> &elements)
{
	size_t bytes = elements.size() * sizeof(Element);
	Window w;
	CHECK(ginMemAlloc(r.comm, bytes, &w.ptr));
	copyBytes(r, w.ptr, elements.data(), bytes);
	CHECK(ginWindowRegister(r.comm, w.ptr, bytes, 0, &w.window));
	return w;
}

// Collective.
inline void freeWindow(const Ranks &r, const Window &w)
{
	CHECK(ginWindowDeregister(r.comm, w.window));
	CHECK(ginMemFree(r.comm, w.ptr));
}

// A word, 0 at first, that a kernel writes and the host reads after the kernel has ended.
template <class Word> Word *resultWord(const Ranks &r)
{
	void *ptr = nullptr;
#ifdef __CUDACC__
	if (r.device >= 0)
		check(cudaHostAlloc(&ptr, sizeof(Word), cudaHostAllocDefault) == cudaSuccess,
		      "cudaHostAlloc");
#endif
	if (r.device < 0)
		ptr = malloc(sizeof(Word));
	check(ptr != nullptr, "memory");
	memset(ptr, 0, sizeof(Word));
	return static_cast<Word *>(ptr);
}

#ifdef __CUDACC__
template <class Body> __global__ void kernel(Body body)
{
	body();
}
#endif

template <class Body> void hostFunction(void *body)
{
	(*static_cast<Body *>(body))();
}

// Runs the body as a kernel if the rank has a GPU, otherwise on host threads. Waits until it ends.
template <class Body> void launch(const Ranks &r, uint32_t grid, uint32_t block, Body body)
{
	if (r.device < 0) {
		CHECK(ginHostLaunch(grid, block, hostFunction<Body>, &body));
		return;
	}
#ifdef __CUDACC__
	kernel<<<grid, block>>>(body);
	check(cudaDeviceSynchronize() == cudaSuccess, cudaGetErrorString(cudaGetLastError()));
#endif
}

// Prints the result of this rank. Returns the exit status of the program.
inline int report(const Ranks &r, size_t wrong)
{
	printf("rank %d of %d on %s: %s\n", r.rank, r.nRanks,
	       r.device < 0 ? "host threads" : "a GPU",
	       wrong ? "WRONG BYTES" : "all bytes verified");
	return wrong != 0;
}

#endif
