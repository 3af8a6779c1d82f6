// SPDX-License-Identifier: BSD-3-Clause
// signal_steps - what a signal costs beyond a word that one GPU adds to and the other polls, step by step
//
// Two GPUs of one process send each other a word's worth of signals, there and back; one line for each
// way to signal and to wait: nanoseconds one way, the median of some runs, the smallest and largest. Each
// sender first waits for a random time, which is taken off again: without it a round trip falls into step
// with the looks of the waits, and a figure says which look came first.
//
// By hand, or by libgin, whose calls get a device communicator made by hand.
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

enum { TRIPS = 10000, WARM_UP = 100, RUNS = 7 };

enum Wait {
	waitBare,	// looks, and nothing else: it can never give up
	waitBesideCall, // the same looks, beside a call that is never made
	waitGivesUp,	// 16 looks, then a call that would go on
	waitGin
};

enum Signal {
	signalBare,  // to an address that is known
	signalNear,  // to the peer's, which is looked up in the parameters
	signalAlive, // and the peer's state is looked at behind it
	signalGin
};

struct Side {
	ginDevComm dc;
	uint64_t *mine, *theirs;
	double *ns; // a round trip, without the random waits
	double nsPerCycle;
	int peer;
	bool first;
};

__device__ ginResult_t giveUp(const Side &side, uint64_t least)
{
	return ginWaitOn(side.dc.self, ginWordLook{side.mine},
			 {ginCallWaitSignal, 0, 0, 64, least, 0, {}, nullptr});
}

template <Wait how> __device__ ginResult_t await(const Side &side, uint64_t least)
{
	if constexpr (how == waitGin) {
		return Gin(side.dc, 0).waitSignal(0, least);
	} else if constexpr (how == waitGivesUp) {
		const ginWordLook look = {side.mine};
		if (ginLookBriefly(look, least, 64))
			return ginSuccess;
		return giveUp(side, least);
	} else {
		uint64_t seen;
		do
			seen = ginSignalObserve(side.mine);
		while (seen < least);
		return how == waitBesideCall && seen == ~0ull ? giveUp(side, least) : ginSuccess;
	}
}

// Weak ones of a caller that has released, or strong ones.
template <Signal how, bool strong> __device__ ginResult_t send(const Side &side)
{
	uint64_t *word = how == signalBare ? side.theirs : ginDirectSignals(side.dc, side.peer);
	ginOptions released;

	if (how == signalGin && strong)
		return Gin(side.dc, 0).signal(side.peer, GinSignalInc{0});
	released.given = ginScopeSystem;
	if (how == signalGin)
		return Gin(side.dc, 0)
			.signal(side.peer, GinWeakSignalInc{0}, GinThread{}, released);
	if (strong)
		ginSignalPublish(true, word, 1);
	else
		ginSignalPublishRelaxed(true, word, 1);
	if (how == signalAlive && ginPeerObserve(&side.dc.peers[side.peer]).state != ginPeerAlive)
		return ginErrorPeer;
	return ginSuccess;
}

// Up to 512 cycles, and a few: what it took.
__device__ uint64_t spin(uint32_t *random)
{
	uint64_t begin = clock64();

	*random = *random * 1664525u + 1013904223u;
	while (clock64() - begin < *random >> 23)
		;
	return clock64() - begin;
}

template <Wait wait, Signal signal, bool strong>
__global__ void pingPong(const __grid_constant__ Side side)
{
	uint32_t random = side.first ? 12345 : 54321;
	uint64_t spun = 0, begin = 0;
	ginResult_t result = ginSuccess;

	for (uint64_t i = 1; result == ginSuccess && i <= WARM_UP + TRIPS; i++) {
		if (i == WARM_UP + 1)
			spun = 0, begin = ginNow();
		if (!side.first)
			result = await<wait>(side, i);
		spun += spin(&random);
		if (result == ginSuccess)
			result = send<signal, strong>(side);
		if (result == ginSuccess && side.first)
			result = await<wait>(side, i);
	}
	double took = static_cast<double>(ginNow() - begin);
	double waited = static_cast<double>(spun) * side.nsPerCycle;
	*side.ns = result == ginSuccess ? (side.first ? took : 0) - waited : 1e30;
}

struct Rig {
	Side side[2];

	Rig()
	{
		int count = 0, kHz;
		uint64_t *words[2];

		if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) {
			printf("two GPUs are needed, there are %d\n", count);
			exit(77);
		}
		CUDA(cudaDeviceGetAttribute(&kHz, cudaDevAttrClockRate, 0));
		for (int d = 0; d < 2; d++) {
			CUDA(cudaSetDevice(d));
			CUDA(cudaDeviceEnablePeerAccess(1 - d, 0));
			CUDA(cudaMalloc(&words[d], 4096));
		}
		for (int d = 0; d < 2; d++)
			fill(d, words[d], words[1 - d], 1e6 / kHz);
	}

	template <class Type> static Type *onGpu(const Type &from)
	{
		Type *at;
		CUDA(cudaMalloc(&at, sizeof(from)));
		CUDA(cudaMemcpy(at, &from, sizeof(from), cudaMemcpyHostToDevice));
		return at;
	}

	void fill(int d, uint64_t *mine, uint64_t *theirs, double nsPerCycle)
	{
		struct Peers {
			ginPeer peer[2];
		} peers = {};
		Side &s = side[d] = {};
		ginAbortLine *line;

		CUDA(cudaSetDevice(d));
		CUDA(cudaHostAlloc(&line, sizeof(*line), cudaHostAllocPortable));
		*line = {};
		CUDA(cudaHostAlloc(&s.ns, sizeof(*s.ns), cudaHostAllocPortable));
		s.mine = mine;
		s.theirs = theirs;
		s.nsPerCycle = nsPerCycle;
		s.peer = 1 - d;
		s.first = d == 0;
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
		s.dc.nearSignals[d] = mine;
		s.dc.nearSignals[1 - d] = theirs;
		s.dc.abortLine = line;
		s.dc.abort = onGpu(ginWatch{&line->word, {0, 0, 0}, 0});
		s.dc.self = onGpu(s.dc);
	}

	template <Wait wait, Signal signal, bool strong = false> void measure(const char *what)
	{
		std::vector<double> ns;

		for (int i = 0; i < RUNS; i++) {
			for (const Side &s : side)
				CUDA(cudaMemset(s.mine, 0, sizeof(*s.mine)));
			for (int d = 0; d < 2; d++) {
				CUDA(cudaSetDevice(d));
				CUDA(cudaDeviceSynchronize());
			}
			for (int d = 0; d < 2; d++) {
				CUDA(cudaSetDevice(d));
				pingPong<wait, signal, strong><<<1, 1>>>(side[d]);
				CUDA(cudaGetLastError());
			}
			for (int d = 0; d < 2; d++) {
				CUDA(cudaSetDevice(d));
				CUDA(cudaDeviceSynchronize());
			}
			ns.push_back((*side[0].ns + *side[1].ns) / TRIPS / 2);
		}
		std::sort(ns.begin(), ns.end());
		printf("%-62s %8.1f ns (%.1f to %.1f)\n", what, ns[RUNS / 2], ns.front(),
		       ns.back());
		fflush(stdout);
	}
};

int main()
{
	Rig rig;

	rig.measure<waitBare, signalBare>("weak signal and wait by hand (limit)");
	rig.measure<waitBesideCall, signalBare>("the same beside a call that is never made");
	rig.measure<waitGivesUp, signalBare>("a wait that can give up");
	rig.measure<waitGin, signalBare>("the wait by Gin::waitSignal");
	rig.measure<waitBare, signalNear>("the peer's word looked up");
	rig.measure<waitBare, signalAlive>("and the peer's state looked at behind the signal");
	rig.measure<waitBare, signalGin>("the signal by Gin::signal");
	rig.measure<waitGin, signalGin>("both by Gin");
	rig.measure<waitBare, signalBare, true>("strong signal and wait by hand (limit)");
	rig.measure<waitGin, signalBare, true>("strong, the wait by Gin::waitSignal");
	rig.measure<waitBare, signalGin, true>("strong, the signal by Gin::signal");
	rig.measure<waitGin, signalGin, true>("strong, both by Gin");
	return 0;
}
