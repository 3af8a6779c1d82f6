// SPDX-License-Identifier: BSD-3-Clause
// rank.cuh - shared by the measurements of the proxy: a rank on a GPU, windows, kernels, time
#ifndef GIN_BENCH_PROXY_RANK_CUH
#define GIN_BENCH_PROXY_RANK_CUH

#include <gin.h>
#include <gin_device.cuh>

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

inline void require(bool ok, const char *what, const char *file, int line)
{
	if (ok)
		return;
	fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, ginGetLastError());
	exit(1);
}

#define CHECK(call) require((call) == ginSuccess, #call, __FILE__, __LINE__)
#define CUDA(call) require((call) == cudaSuccess, #call, __FILE__, __LINE__)
#define DRIVER(call) require((call) == CUDA_SUCCESS, #call, __FILE__, __LINE__)

struct ProxyRank {
	ginComm_t comm;
	int rank, nRanks, device;
	cudaStream_t stream;
};

// Memory that is registered as a window: GPU memory or, with `host`, pinned host memory.
struct ProxyWindow {
	ProxyRank &rank;
	char *ptr = nullptr;
	ginWindow_t win;

	ProxyWindow(ProxyRank &r, size_t bytes, bool host = false) : rank(r)
	{
		void *at;
		CHECK((host ? ginMemAllocHost : ginMemAlloc)(r.comm, bytes, &at));
		ptr = static_cast<char *>(at);
		CUDA(cudaMemset(at, 0, bytes));
		CUDA(cudaDeviceSynchronize());
		CHECK(ginWindowRegister(r.comm, at, bytes, 0, &win));
	}

	~ProxyWindow()
	{
		CHECK(ginWindowDeregister(rank.comm, win));
		CHECK(ginMemFree(rank.comm, ptr));
	}
};

struct ProxyDevComm {
	ProxyRank &rank;
	ginDevComm dc;

	ProxyDevComm(ProxyRank &r, uint32_t depth) : rank(r)
	{
		ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
		want.queueDepth = depth;
		want.timeout = 20000000000ull;
		CHECK(ginDevCommCreate(r.comm, &want, &dc));
	}

	~ProxyDevComm() { CHECK(ginDevCommDestroy(rank.comm, &dc)); }
};

// Pinned memory that kernels and this program use.
template <class Word> struct Pinned {
	Word *at = nullptr;

	explicit Pinned(size_t count)
	{
		CUDA(cudaHostAlloc(&at, count * sizeof(Word), cudaHostAllocMapped));
		memset(static_cast<void *>(at), 0, count * sizeof(Word));
	}

	~Pinned() { cudaFreeHost(at); }
};

template <class Body> __global__ void runKernel(const __grid_constant__ Body body)
{
	body();
}

template <class Body>
void launch(ProxyRank &r, uint32_t grid, uint32_t block, const Body &body, size_t shared = 0)
{
	runKernel<<<grid, block, shared, r.stream>>>(body);
	CUDA(cudaGetLastError());
	CUDA(cudaStreamSynchronize(r.stream));
}

inline double nowNs()
{
	return std::chrono::duration<double, std::nano>(
		       std::chrono::steady_clock::now().time_since_epoch())
		.count();
}

inline double median(std::vector<double> values)
{
	std::sort(values.begin(), values.end());
	return values[values.size() / 2];
}

// Rank 0 prints one row of the table.
inline void printRow(const ProxyRank &r, const char *what, double value, const char *unit)
{
	if (r.rank != 0)
		return;
	printf("%-58s %10.2f %s\n", what, value, unit);
	fflush(stdout); // a run that is ended keeps its rows
}

// Another GPU that this one may write, or this one where it is alone
inline int otherDevice(const ProxyRank &r)
{
	int count, other;

	CUDA(cudaGetDeviceCount(&count));
	other = (r.device + 1) % count;
	if (other != r.device) {
		cudaDeviceEnablePeerAccess(other, 0);
		cudaGetLastError(); // it may be enabled already
	}
	return other;
}

inline void meet(ProxyRank &r)
{
	CHECK(ginCommAllgather(r.comm, nullptr, nullptr, 0));
}

#endif
