// SPDX-License-Identifier: BSD-3-Clause
// calls.cuh - posts by the calls of class Gin, with a device communicator that is made by hand
#ifndef GIN_BENCH_GPUNETIO_CALLS_CUH
#define GIN_BENCH_GPUNETIO_CALLS_CUH

#include "ours.cuh"

// Rank 0 of two ranks; the route to rank 1 is gdaki. Each queue is a context of its own.
struct Calls : Ours {
	struct WindowTable {
		ginWindowTable own;
		ginWindowPeer part[2];
	};

	ginPeer *peers;
	WindowTable *table;
	ginErrorRecord *record;
	uint32_t *claim;
	ginRoute all = ginRouteGdaki; // ginRouteNone: each call looks up the peer's route

	Calls()
	{
		const ginPeer behindNic = {
			ginRouteGdaki, ginPeerAlive, nullptr, 64, ginMlx5Key(0x1111), 0};
		const ginWindowPeer part = {nullptr, 1 << 20, 4096, ginMlx5Key(0x1234),
					    ginMlx5Key(0x1235)};
		const ginPeer both[2] = {behindNic, behindNic};
		WindowTable window = {{}, {part, part}};

		window.own.nRanks = 2;
		window.own.fence = ginScopeDevice;
		window.own.agent = ginAgentNic;
		window.own.nicKey = ginMlx5Key(0x5678);
		window.own.nicAddress = 8192;
		peers = gpuCopy(both, sizeof(both));
		table = gpuCopy(&window, sizeof(window));
		CUDA(cudaMalloc(&claim, sizeof(*claim)));
		CUDA(cudaMemset(claim, 0, sizeof(*claim)));
		CUDA(cudaHostAlloc(&record, sizeof(*record), cudaHostAllocMapped));
		*record = {};
	}

	~Calls()
	{
		cudaFree(peers);
		cudaFree(table);
		cudaFree(claim);
		cudaFreeHost(record);
	}

	template <class Type> static Type *gpuCopy(const Type *from, size_t bytes)
	{
		Type *at;
		CUDA(cudaMalloc(&at, bytes));
		CUDA(cudaMemcpy(at, from, bytes, cudaMemcpyHostToDevice));
		return at;
	}

	Call call() const
	{
		ginDevComm dc = Ours::call().dc;
		dc.size = sizeof(dc);
		dc.abi = GIN_DEVICE_ABI;
		dc.nRanks = 2;
		dc.domainSize = 1;
		dc.contexts = QUEUES;
		dc.signals = 1;
		dc.route = all;
		dc.peers = peers;
		dc.errorRecord = record;
		dc.errorClaim = claim;
		dc.sendQueues = queues;
		dc.nSendQueues = 1;
		CUDA(cudaMemcpy(self, &dc, sizeof(dc), cudaMemcpyHostToDevice));
		return {dc, {&table->own}};
	}
};

// `routes`: of the kernel.
template <What what, ginSharing sharing, class Coop = GinThread, uint32_t routes = GIN_ROUTES_ALL>
struct CallsEach : Poster<Ours> {
	__device__ ginResult_t operator()(uint32_t i) const
	{
		GinOn<routes> gin(call.dc, context, sharing);

		if constexpr (what == PUT)
			return gin.put(0, call.window, 0, call.window, 0, 4096, GinNone{},
				       GinNone{}, Coop{});
		else if constexpr (what == PUT_SIGNAL)
			return gin.put(0, call.window, 0, call.window, 0, 4096, GinSignalInc{0},
				       GinNone{}, Coop{});
		else
			return gin.putValue(0, call.window, 0, static_cast<uint64_t>(i), GinNone{},
					    Coop{});
	}
};

#endif
