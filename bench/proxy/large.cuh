// SPDX-License-Identifier: BSD-3-Clause
// large.cuh - large puts, while SMs are idle and while they are busy with another kernel
#ifndef GIN_BENCH_PROXY_LARGE_CUH
#define GIN_BENCH_PROXY_LARGE_CUH

#include "raw.cuh"

constexpr size_t LARGE = 256u << 20;
enum { LARGE_PUTS = 16 };

struct LargePuts {
	ginDevComm dc;
	ginWindow_t to, from;
	uint64_t *ns;

	__device__ void operator()() const
	{
		Gin gin(dc, 0);
		int peer = static_cast<int>((dc.rank + 1) % dc.nRanks);
		uint64_t start = ginNow();
		for (int i = 0; i < LARGE_PUTS; i++)
			gin.put(peer, to, 0, from, 0, LARGE);
		gin.flush();
		*ns = ginNow() - start;
	}
};

// Keeps an SM busy. It polls the clock only: polling host memory would slow down the descriptors.
struct Busy {
	uint64_t ns;

	__device__ void operator()() const
	{
		uint64_t end = ginNow() + ns;
		while (ginNow() < end)
			__nanosleep(1000);
	}
};

// Allocated before the busy kernel starts, and freed after it: freeing pinned memory waits for all
// kernels.
struct Large {
	Rank &rank;
	Buffer to, from;
	Device device;
	Pinned<uint64_t> ns;

	explicit Large(Rank &r) : rank(r), to(r, LARGE), from(r, LARGE), device(r, 1, 1, 64), ns(1)
	{
	}

	double once()
	{
		meet(rank);
		if (rank.rank == 0)
			launch(rank, 1, 1, LargePuts{device.dc, to.window, from.window, ns.at});
		meet(rank);
		return rank.rank ? 0
				 : static_cast<double>(LARGE) * LARGE_PUTS /
					   static_cast<double>(*ns.at);
	}

	void measure(const char *what)
	{
		std::vector<double> each;
		for (int i = 0; i < 3; i++)
			each.push_back(once());
		printRow(rank, what, median(each), "GB/s");
	}
};

inline void measureEngineLarge(Rank &r)
{
	const int other = otherDevice(r);
	char *here, *there;
	cudaEvent_t start, end;
	std::vector<double> each;
	float ms;

	CUDA(cudaMalloc(&here, LARGE));
	CUDA(cudaSetDevice(other));
	CUDA(cudaMalloc(&there, LARGE));
	CUDA(cudaSetDevice(r.device));
	CUDA(cudaEventCreate(&start));
	CUDA(cudaEventCreate(&end));
	for (int i = 0; i < 3; i++) {
		CUDA(cudaEventRecord(start, r.stream));
		for (int k = 0; k < LARGE_PUTS; k++)
			CUDA(cudaMemcpyAsync(there, here, LARGE, cudaMemcpyDefault, r.stream));
		CUDA(cudaEventRecord(end, r.stream));
		CUDA(cudaEventSynchronize(end));
		CUDA(cudaEventElapsedTime(&ms, start, end));
		each.push_back(static_cast<double>(LARGE) * LARGE_PUTS / ms / 1e6);
	}
	cudaFree(here);
	cudaFree(there);
	printRow(r, "copy engine, 256 MiB (limit)", median(each), "GB/s");
}

// Each SM but one runs a CTA that takes all shared memory of the SM.
inline void measureBusy(Rank &r, Large &puts)
{
	cudaStream_t other;
	int sms, most;

	CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, r.device));
	CUDA(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, r.device));
	CUDA(cudaFuncSetAttribute(runKernel<Busy>, cudaFuncAttributeMaxDynamicSharedMemorySize,
				  most));
	CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	runKernel<<<static_cast<uint32_t>(sms - 1), 1024, static_cast<size_t>(most), other>>>(
		Busy{1500000000});
	CUDA(cudaGetLastError());
	puts.measure("put of 256 MiB, all SMs but one busy");
	CUDA(cudaStreamSynchronize(other));
}

inline void measureLargePuts(Rank &r)
{
	Large puts(r);

	if (r.rank == 0)
		measureEngineLarge(r);
	puts.measure("put of 256 MiB");
	measureBusy(r, puts);
}

#endif
