// SPDX-License-Identifier: BSD-3-Clause
// signal_steps - what each step of a signal and a wait costs, beyond an atomic add and a poll
//
// Two GPUs of one process play ping-pong with signals. One line for each way to signal and to wait:
// nanoseconds one way, as median, smallest and largest of several runs. Before each signal the
// sender spins for a random time, which is subtracted: otherwise signals would always arrive at one
// phase of the polling loop, and the result would depend on that phase.
//
// Signals and waits are made by hand, or by libgin with a device communicator that is made by hand.
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
	waitBare,	// polls only: the wait cannot time out
	waitBesideCall, // polls; the code contains a call that is never made
	waitGivesUp,	// polls 16 times, then calls a function that goes on polling
	waitGin
};

enum Signal {
	signalBare,  // the address is known
	signalNear,  // the peer's address is looked up in the kernel parameters
	signalAlive, // like signalNear, and then checks the peer's state
	signalGin
};

struct SignalSide {
	ginDevComm dc;
	uint64_t *mine, *theirs;
	double *ns; // of all round trips, without the random waits
	double nsPerCycle;
	int peer;
	bool first;
};

__device__ ginResult_t giveUp(const SignalSide &side, uint64_t least)
{
	return ginWaitOn(side.dc.self, ginWordLook{side.mine},
			 {ginCallWaitSignal, 0, 0, 64, least, 0, {}, nullptr});
}

template <Wait how> __device__ ginResult_t await(const SignalSide &side, uint64_t least)
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

// A strong signal, or a weak signal of a caller that has released.
template <Signal how, bool strong> __device__ ginResult_t send(const SignalSide &side)
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

// Spins for up to 512 cycles; returns the cycles spent.
__device__ uint64_t spin(uint32_t *random)
{
	uint64_t begin = clock64();

	*random = *random * 1664525u + 1013904223u;
	while (clock64() - begin < *random >> 23)
		;
	return clock64() - begin;
}

template <Wait wait, Signal signal, bool strong>
__global__ void pingPong(const __grid_constant__ SignalSide side)
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

struct SignalRig {
	SignalSide side[2];

	SignalRig()
	{
		int count = 0, kHz;
		uint64_t *words[2];

		if (cudaGetDeviceCount(&count) != cudaSuccess || count < 2) {
			printf("two GPUs are needed, but there are %d\n", count);
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
		SignalSide &s = side[d] = {};
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
		s.dc.directSignals[d] = mine;
		s.dc.directSignals[1 - d] = theirs;
		s.dc.abortLine = line;
		s.dc.abort = onGpu(ginMirroredWord{&line->word, {0, 0, 0}, 0});
		s.dc.self = onGpu(s.dc);
	}

	template <Wait wait, Signal signal, bool strong = false> void measure(const char *what)
	{
		std::vector<double> ns;

		for (int i = 0; i < RUNS; i++) {
			for (const SignalSide &s : side)
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
	SignalRig rig;

	rig.measure<waitBare, signalBare>("weak signal and wait by hand (limit)");
	rig.measure<waitBesideCall, signalBare>(
		"wait by hand, in code with a call that is never made");
	rig.measure<waitGivesUp, signalBare>("wait by hand that can time out");
	rig.measure<waitGin, signalBare>("wait by Gin::waitSignal");
	rig.measure<waitBare, signalNear>("signal by hand, the peer's address looked up");
	rig.measure<waitBare, signalAlive>(
		"signal by hand, address looked up, peer's state checked");
	rig.measure<waitBare, signalGin>("signal by Gin::signal");
	rig.measure<waitGin, signalGin>("signal and wait by Gin");
	rig.measure<waitBare, signalBare, true>("strong signal and wait by hand (limit)");
	rig.measure<waitGin, signalBare, true>("strong signal, wait by Gin::waitSignal");
	rig.measure<waitBare, signalGin, true>("strong signal by Gin::signal");
	rig.measure<waitGin, signalGin, true>("strong signal and wait by Gin");
	return 0;
}
