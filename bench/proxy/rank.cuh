// SPDX-License-Identifier: BSD-3-Clause
// rank.cuh - shared by the measurements of the proxy: pinned memory, time, rows of a table
#ifndef GIN_BENCH_PROXY_RANK_CUH
#define GIN_BENCH_PROXY_RANK_CUH

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "test/common/harness.h"

#define DRIVER(call) check((call) == CUDA_SUCCESS, #call)

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

// With `shared` bytes of shared memory for each block
template <class Body>
void launchShared(const Rank &r, uint32_t grid, uint32_t block, size_t shared, const Body &body)
{
	runKernel<<<grid, block, shared, r.stream>>>(body);
	CUDA(cudaGetLastError());
	CUDA(cudaStreamSynchronize(r.stream));
}

inline double median(std::vector<double> values)
{
	std::sort(values.begin(), values.end());
	return values[values.size() / 2];
}

// Rank 0 prints one row of the table.
inline void printRow(const Rank &r, const char *what, double value, const char *unit)
{
	if (r.rank != 0)
		return;
	printf("%-58s %10.2f %s\n", what, value, unit);
	fflush(stdout); // a run that is ended keeps its rows
}

// Another GPU that this one may write, or this one where it is alone
inline int otherDevice(const Rank &r)
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

#endif
