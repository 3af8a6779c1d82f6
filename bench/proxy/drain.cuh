// SPDX-License-Identifier: BSD-3-Clause
// drain.cuh - how many descriptors per second one CPU thread consumes, when they move no data
#ifndef GIN_BENCH_PROXY_DRAIN_CUH
#define GIN_BENCH_PROXY_DRAIN_CUH

#include "raw.cuh"

enum { DRAIN_DEPTH = 4096, DRAIN_GRID = 8, DRAIN_BLOCK = 32, DRAIN_EACH = 20000 };

// Producers like libgin's, by hand: 64-byte descriptors with the lap in each word, tickets, and a
// check for room.
struct DrainRaw {
	char *ring;
	uint64_t *producer, *shadow;
	const uint64_t *consumed;

	__device__ void operator()() const
	{
		for (uint32_t i = 0; i < DRAIN_EACH; i++) {
			uint64_t ticket =
				atomicAdd(reinterpret_cast<unsigned long long *>(producer), 1ull);
			while (ticket - *const_cast<volatile uint64_t *>(shadow) >= DRAIN_DEPTH)
				*const_cast<volatile uint64_t *>(shadow) = lookRelaxed(consumed);
			postRaw<shapeRelaxed64>(ring + ticket % DRAIN_DEPTH * 64,
						ticket / DRAIN_DEPTH + 1);
		}
	}
};

inline bool isWhole(const char *slot, uint64_t lap)
{
	for (int i = 0; i < 8; i++)
		if (__atomic_load_n(reinterpret_cast<const uint64_t *>(slot) + i,
				    __ATOMIC_ACQUIRE) != lap)
			return false;
	return true;
}

inline void drainRaw(const char *ring, uint64_t *consumed, uint64_t count)
{
	for (uint64_t i = 0; i < count;) {
		uint64_t before = i;
		while (i < count && i - before < 64 &&
		       isWhole(ring + i % DRAIN_DEPTH * 64, i / DRAIN_DEPTH + 1))
			i++;
		if (i != before)
			__atomic_store_n(consumed, i, __ATOMIC_RELEASE);
	}
}

inline double drainRawOnce(Rank &r)
{
	const uint64_t count = static_cast<uint64_t>(DRAIN_GRID) * DRAIN_BLOCK * DRAIN_EACH;
	Pinned<char> ring(DRAIN_DEPTH * 64);
	Pinned<uint64_t> consumed(8);
	uint64_t *words;

	CUDA(cudaMalloc(&words, 256));
	CUDA(cudaMemset(words, 0, 256));
	CUDA(cudaDeviceSynchronize());
	double start = nowNs();
	std::thread drain(drainRaw, ring.at, consumed.at, count);
	launch(r, DRAIN_GRID, DRAIN_BLOCK, DrainRaw{ring.at, words, words + 16, consumed.at});
	drain.join();
	double took = nowNs() - start;
	cudaFree(words);
	return static_cast<double>(count) / took * 1000;
}

struct DrainPuts {
	ginDevComm dc;
	ginWindow_t win;

	__device__ void operator()() const
	{
		Gin gin(dc, 0);
		ginOptions options;
		options.given = ginScopeSystem;
		for (uint32_t i = 0; i < DRAIN_EACH; i++)
			gin.put(static_cast<int>(dc.rank), win, 0, win, 0, 0, GinNone{}, GinNone{},
				GinThread{}, options);
		__syncthreads();
		gin.flush(GinCta{});
	}
};

inline double drainPutsOnce(Rank &r, Device &device, ginWindow_t win)
{
	const uint64_t count = static_cast<uint64_t>(DRAIN_GRID) * DRAIN_BLOCK * DRAIN_EACH;
	double start = nowNs();
	launch(r, DRAIN_GRID, DRAIN_BLOCK, DrainPuts{device.dc, win});
	return static_cast<double>(count) / (nowNs() - start) * 1000;
}

inline void measureDrain(Rank &r)
{
	Buffer win(r, 4096);
	Device device(r, 1, 1, DRAIN_DEPTH);
	std::vector<double> raw, ours;

	for (int i = 0; i < 5; i++) {
		raw.push_back(drainRawOnce(r));
		ours.push_back(drainPutsOnce(r, device, win.window));
	}
	printRow(r, "256 producers, a consumer that only looks", median(raw), "M/s");
	printRow(r, "256 producers, puts of no bytes by one proxy thread", median(ours), "M/s");
}

#endif
