// SPDX-License-Identifier: BSD-3-Clause
// trip.cuh - latency between two GPUs through the proxy, and the latencies of its parts
#ifndef GIN_BENCH_PROXY_TRIP_CUH
#define GIN_BENCH_PROXY_TRIP_CUH

#include "raw.cuh"

enum { TRIPS = 2000, TRIP_WARM = 200 };

enum TripKind { tripWeak, tripStrong, tripHostValue, tripValue, tripPut };

// Ping-pong with the other rank. *ns: time of all round trips after the warm-up.
struct Trips {
	ginDevComm dc;
	TripKind kind;
	ginWindow_t host, gpu;
	const uint64_t *hostWord, *gpuWord; // first words of this rank's windows
	uint64_t *ns;

	__device__ void send(const Gin &gin, int peer, uint64_t round) const
	{
		ginOptions released;
		released.given = ginScopeSystem;
		if (kind == tripWeak)
			gin.signal(peer, GinWeakSignalInc{0}, GinThread{}, released);
		else if (kind == tripStrong)
			gin.signal(peer, GinSignalInc{0});
		else if (kind == tripHostValue)
			gin.putValue(peer, host, 0, round);
		else if (kind == tripValue)
			gin.putValue(peer, gpu, 0, round);
		else
			gin.put(peer, gpu, 64, gpu, 128, 8, GinSignalInc{0});
	}

	__device__ void await(const Gin &gin, uint64_t round) const
	{
		const uint64_t *word = kind == tripHostValue ? hostWord : gpuWord;
		if (kind == tripHostValue || kind == tripValue)
			while (lookRelaxed(word) < round)
				;
		else
			gin.waitSignal(0, round);
	}

	__device__ void operator()() const
	{
		Gin gin(dc, 0);
		int peer = dc.nRanks == 1 ? 0 : 1 - static_cast<int>(dc.rank);
		uint64_t start = 0;
		for (uint32_t i = 1; i <= TRIP_WARM + TRIPS; i++) {
			if (i == TRIP_WARM + 1)
				start = ginNow();
			if (dc.rank == 0)
				send(gin, peer, i);
			await(gin, i);
			if (dc.rank == 1)
				send(gin, peer, i);
		}
		*ns = ginNow() - start;
		gin.flush();
	}
};

inline void measureTrip(Rank &r, const char *what, TripKind kind)
{
	Buffer host(r, 4096, ginMemAllocHost), gpu(r, 4096);
	std::vector<double> each;

	for (int i = 0; i < 5; i++) {
		Device device(r, 1, 1, 1024);
		Pinned<uint64_t> ns(1);
		CUDA(cudaMemset(gpu.ptr, 0, 4096));
		memset(host.ptr, 0, 4096);
		CUDA(cudaDeviceSynchronize());
		meet(r);
		launch(r, 1, 1,
		       Trips{device.dc, kind, host.window, gpu.window,
			     reinterpret_cast<uint64_t *>(host.ptr),
			     reinterpret_cast<uint64_t *>(gpu.ptr), ns.at});
		each.push_back(static_cast<double>(*ns.at) / TRIPS / (r.nRanks == 1 ? 1 : 2));
	}
	printRow(r, what, median(each) / 1000, "us");
}

struct Echo {
	char *slot;
	const uint64_t *answer;
	uint64_t *ns;

	__device__ void operator()() const
	{
		uint64_t start = 0;
		for (uint64_t i = 1; i <= TRIP_WARM + TRIPS; i++) {
			if (i == TRIP_WARM + 1)
				start = ginNow();
			postRaw<shapeRelaxed16>(slot, i);
			while (lookRelaxed(answer) < i)
				;
		}
		*ns = ginNow() - start;
	}
};

inline void echo(const uint64_t *slot, uint64_t *answer)
{
	for (uint64_t i = 1; i <= TRIP_WARM + TRIPS; i++) {
		while (__atomic_load_n(slot, __ATOMIC_ACQUIRE) < i)
			;
		__atomic_store_n(answer, i, __ATOMIC_RELEASE);
	}
}

inline void measureEcho(Rank &r)
{
	Pinned<uint64_t> words(64);
	std::vector<double> each;

	for (int i = 0; i < 5; i++) {
		memset(words.at, 0, 64 * sizeof(uint64_t));
		std::thread cpu(echo, words.at, words.at + 16);
		launch(r, 1, 1,
		       Echo{reinterpret_cast<char *>(words.at), words.at + 16, words.at + 32});
		cpu.join();
		each.push_back(static_cast<double>(words.at[32]) / TRIPS);
	}
	printRow(r, "GPU to CPU to GPU, words in host memory (limit)", median(each) / 1000, "us");
}

// Time from the call until this CPU sees the end of the operation.
template <class Send> void measureEngine(Rank &r, const char *what, Send send)
{
	Pinned<uint64_t> done(8);
	std::vector<double> each;

	for (uint64_t i = 1; i <= 500; i++) {
		double start = nowNs();
		send(i);
		DRIVER(cuStreamWriteValue64(r.stream, reinterpret_cast<CUdeviceptr>(done.at), i,
					    0));
		while (__atomic_load_n(done.at, __ATOMIC_ACQUIRE) < i)
			;
		each.push_back(nowNs() - start);
	}
	printRow(r, what, median(each) / 1000, "us");
}

inline void measureEngines(Rank &r)
{
	const int other = otherDevice(r);
	char *here, *there;

	CUDA(cudaMalloc(&here, 4096));
	CUDA(cudaSetDevice(other));
	CUDA(cudaMalloc(&there, 4096));
	CUDA(cudaSetDevice(r.device));
	measureEngine(r, "copy engine, 8 B, issued and seen by a CPU (limit)", [&](uint64_t) {
		CUDA(cudaMemcpyAsync(there, here, 8, cudaMemcpyDefault, r.stream));
	});
	measureEngine(r, "stream write, 8 B, issued and seen by a CPU (limit)", [&](uint64_t i) {
		DRIVER(cuStreamWriteValue64(r.stream, reinterpret_cast<CUdeviceptr>(there), i, 0));
	});
	cudaFree(here);
	cudaFree(there);
}

inline void measureTrips(Rank &r)
{
	measureEcho(r);
	measureEngines(r);
	meet(r);
	measureTrip(r, "signal, weak and released", tripWeak);
	measureTrip(r, "signal, strong", tripStrong);
	measureTrip(r, "putValue of 8 B into a host window, seen there", tripHostValue);
	measureTrip(r, "putValue of 8 B into GPU memory, seen there", tripValue);
	measureTrip(r, "put of 8 B and signal", tripPut);
}

#endif
