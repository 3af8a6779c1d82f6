// SPDX-License-Identifier: BSD-3-Clause
// two_gpus.cuh - ping-pong between two GPUs of one process, with device communicators made by hand
//
// A ping-pong is a kernel on each GPU. Before each message the sender spins for a random time, which
// is subtracted: otherwise messages would always arrive at one phase of the polling loop, and the
// result would depend on that phase.
#ifndef GIN_BENCH_TWO_GPUS_CUH
#define GIN_BENCH_TWO_GPUS_CUH

#include <gin_device.cuh>

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA(call)                                                                                 \
	do {                                                                                       \
		cudaError_t error = (call);                                                        \
		if (error != cudaSuccess) {                                                        \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error));             \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

enum { TRIPS = 10000, WARM_UP = 100, RUNS = 7, WINDOW_BYTES = 1 << 20 };

// What the kernel on one GPU knows. `mine` and `theirs` are the parts of one window.
struct PairSide {
	ginDevComm dc;
	ginWindow_t window;
	char *mine, *theirs;
	double *ns; // of all round trips, without the random waits
	double nsPerCycle;
	int peer;
	bool first;
};

// Spins for up to 512 cycles; returns the cycles spent.
__device__ inline uint64_t spin(uint32_t *random)
{
	uint64_t begin = clock64();

	*random = *random * 1664525u + 1013904223u;
	while (clock64() - begin < *random >> 23)
		;
	return clock64() - begin;
}

// Runs `trips` round trips of a Turns, which has send(i) and receive(i) for message i.
template <class Turns> __device__ void pingPong(const PairSide &side, Turns &turns, uint32_t trips)
{
	uint32_t random = side.first ? 12345 : 54321;
	uint64_t spun = 0, begin = 0;
	ginResult_t result = ginSuccess;

	for (uint32_t i = 1; result == ginSuccess && i <= WARM_UP + trips; i++) {
		if (i == WARM_UP + 1)
			spun = 0, begin = ginNow();
		if (!side.first)
			result = turns.receive(i);
		spun += spin(&random);
		if (result == ginSuccess)
			result = turns.send(i);
		if (result == ginSuccess && side.first)
			result = turns.receive(i);
	}
	double took = static_cast<double>(ginNow() - begin);
	double waited = static_cast<double>(spun) * side.nsPerCycle;
	if (threadIdx.x == 0)
		*side.ns = result == ginSuccess ? (side.first ? took : 0) - waited : 1e30;
}

// Two GPUs, each with a window and a device communicator of two direct peers.
struct TwoGpus {
	PairSide side[2];

	TwoGpus()
	{
		int count = 0, kHz;
		char *parts[2];

		if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) {
			printf("two GPUs are needed, but there are %d\n", count);
			exit(77);
		}
		CUDA(cudaDeviceGetAttribute(&kHz, cudaDevAttrClockRate, 0));
		for (int d = 0; d < 2; d++) {
			CUDA(cudaSetDevice(d));
			CUDA(cudaDeviceEnablePeerAccess(1 - d, 0));
			CUDA(cudaMalloc(&parts[d], WINDOW_BYTES));
		}
		for (int d = 0; d < 2; d++)
			fill(d, parts, 1e6 / kHz);
	}

	template <class Type> static Type *onGpu(const Type &from)
	{
		Type *at;
		CUDA(cudaMalloc(&at, sizeof(from)));
		CUDA(cudaMemcpy(at, &from, sizeof(from), cudaMemcpyHostToDevice));
		return at;
	}

	void fill(int d, char *const parts[2], double nsPerCycle)
	{
		PairSide &s = side[d] = {};

		CUDA(cudaSetDevice(d));
		CUDA(cudaHostAlloc(&s.ns, sizeof(*s.ns), cudaHostAllocPortable));
		s.mine = parts[d];
		s.theirs = parts[1 - d];
		s.nsPerCycle = nsPerCycle;
		s.peer = 1 - d;
		s.first = d == 0;
		s.window = windowOf(d, parts);
		describe(s, d);
		keepSelf(s.dc);
	}

	// The copy names itself, too.
	static void keepSelf(ginDevComm &dc)
	{
		ginDevComm *self;

		CUDA(cudaMalloc(&self, sizeof(dc)));
		dc.self = self;
		CUDA(cudaMemcpy(self, &dc, sizeof(dc), cudaMemcpyHostToDevice));
	}

	static ginWindow_t windowOf(int d, char *const parts[2])
	{
		struct Table {
			ginWindowTable own;
			ginWindowPeer part[2];
		} table = {};

		table.own.rank = static_cast<uint32_t>(d);
		table.own.nRanks = 2;
		table.own.fence = ginScopeDevice;
		table.own.agent = ginAgentGpu;
		for (int i = 0; i < 2; i++)
			table.part[i] = {parts[i], WINDOW_BYTES, 0, 0, 0};
		return {&onGpu(table)->own};
	}

	// Signals are the first words of the parts.
	static void describe(PairSide &s, int d)
	{
		struct Peers {
			ginPeer peer[2];
		} peers = {};
		uint64_t *mine = reinterpret_cast<uint64_t *>(s.mine);
		uint64_t *theirs = reinterpret_cast<uint64_t *>(s.theirs);
		ginAbortLine *line;
		uint32_t *claim;

		CUDA(cudaHostAlloc(&line, sizeof(*line), cudaHostAllocPortable));
		*line = {};
		CUDA(cudaHostAlloc(&s.dc.errorRecord, sizeof(ginErrorRecord),
				   cudaHostAllocPortable));
		*s.dc.errorRecord = {};
		CUDA(cudaMalloc(&claim, sizeof(*claim)));
		CUDA(cudaMemset(claim, 0, sizeof(*claim)));
		peers.peer[d] = {ginRouteDirect, ginPeerAlive, mine, 0, 0, 0};
		peers.peer[1 - d] = {ginRouteDirect, ginPeerAlive, theirs, 0, 0, 0};
		s.dc.size = sizeof(s.dc);
		s.dc.abi = GIN_DEVICE_ABI;
		s.dc.rank = static_cast<uint32_t>(d);
		s.dc.nRanks = 2;
		s.dc.contexts = s.dc.signals = 1;
		s.dc.route = ginRouteDirect;
		s.dc.timeout = 5000000000;
		s.dc.peers = onGpu(peers)->peer;
		s.dc.signal[ginWriterGpu] = mine;
		s.dc.directSignals[d] = mine;
		s.dc.directSignals[1 - d] = theirs;
		s.dc.abortLine = line;
		s.dc.abort = onGpu(ginMirroredWord{&line->word, {0, 0, 0}, 0});
		s.dc.errorClaim = claim;
	}

	void each(void (*call)(const PairSide &side))
	{
		for (int d = 0; d < 2; d++) {
			CUDA(cudaSetDevice(d));
			call(side[d]);
		}
	}

	// One line: nanoseconds one way, as median, smallest and largest of several runs. launch(side)
	// starts the kernel of one GPU, which runs `trips` round trips.
	template <class Launch>
	void measure(const char *what, Launch launch, uint32_t trips = TRIPS)
	{
		std::vector<double> ns;

		for (int i = 0; i < RUNS; i++) {
			each([](const PairSide &s) { CUDA(cudaMemset(s.mine, 0, WINDOW_BYTES)); });
			each([](const PairSide &) { CUDA(cudaDeviceSynchronize()); });
			for (int d = 0; d < 2; d++) {
				CUDA(cudaSetDevice(d));
				launch(side[d]);
				CUDA(cudaGetLastError());
			}
			each([](const PairSide &) { CUDA(cudaDeviceSynchronize()); });
			ns.push_back((*side[0].ns + *side[1].ns) / trips / 2);
		}
		std::sort(ns.begin(), ns.end());
		printf("%-62s %8.1f ns (%.1f to %.1f)\n", what, ns[RUNS / 2], ns.front(),
		       ns.back());
		fflush(stdout);
	}
};

#endif
