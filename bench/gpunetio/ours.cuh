// SPDX-License-Identifier: BSD-3-Clause
// ours.cuh - libgin's side: posts by gin/gdaki/queue.cuh and gin/core/mlx5.h
#ifndef GIN_BENCH_GPUNETIO_OURS_CUH
#define GIN_BENCH_GPUNETIO_OURS_CUH

#include "rig.cuh"

#include <gin/proxy/ring.cuh>

#include "test/common/mlx5_encoders.h"

struct Ours {
	using Queue = ginSendQueue;

	ginSendQueue *queues;
	uint32_t *turns, *counters;
	ginMlx5Cqe *cqes;
	ginAbortLine *line;
	ginMirroredWord *watch;
	ginDevComm *self;

	Ours()
	{
		size_t slots = static_cast<size_t>(QUEUES) * SLOTS;
		CUDA(cudaMalloc(&queues, QUEUES * sizeof(*queues)));
		CUDA(cudaMalloc(&turns, slots * sizeof(*turns)));
		CUDA(cudaMalloc(&counters, slots * sizeof(*counters)));
		CUDA(cudaMemset(counters, 0, slots * sizeof(*counters)));
		CUDA(cudaHostAlloc(&line, sizeof(*line), cudaHostAllocMapped));
		memset(static_cast<void *>(line), 0, sizeof(*line));
		const ginMirroredWord onLine = {&line->word, {0, 0, 0}, 0};
		CUDA(cudaMalloc(&watch, sizeof(*watch)));
		CUDA(cudaMemcpy(watch, &onLine, sizeof(onLine), cudaMemcpyHostToDevice));
		CUDA(cudaMalloc(&self, sizeof(*self)));
	}

	~Ours()
	{
		cudaFree(queues);
		cudaFree(turns);
		cudaFree(counters);
		cudaFree(watch);
		cudaFree(self);
		cudaFreeHost(line);
	}

	Ours(const Ours &) = delete;
	Ours &operator=(const Ours &) = delete;

	Call call() const
	{
		ginDevComm dc = {};
		dc.abortLine = line;
		dc.abort = watch;
		dc.timeout = PATIENCE;
		dc.self = self;
		CUDA(cudaMemcpy(self, &dc, sizeof(dc), cudaMemcpyHostToDevice));
		return {dc, {}};
	}

	ginSendQueue fresh(const QueueRig &rig, const Shape &shape, uint32_t number) const
	{
		Hardware hardware = rig.hardware(number);
		ginSendQueue q = {};
		q.fixed.wqes = hardware.wqes;
		q.fixed.turn = turns + static_cast<size_t>(number) * SLOTS;
		q.fixed.counter = counters + static_cast<size_t>(number) * SLOTS;
		q.fixed.cqe = hardware.cqes;
		q.fixed.record = hardware.record;
		q.fixed.doorbell = hardware.doorbell;
		q.fixed.queue = ginMlx5Queue(NUMBER + number);
		q.fixed.logDepth = static_cast<uint32_t>(__builtin_ctz(shape.slots()));
		q.fixed.sinkKey = ginMlx5Key(0x2222);
		q.fixed.sink = 128;
		q.fixed.gpuMemory = 1;
		return q;
	}

	void reset(const QueueRig &rig, const Shape &shape)
	{
		const uint32_t turn = GIN_TURN;
		std::vector<ginSendQueue> all;

		for (uint32_t i = 0; i < shape.queues; i++)
			all.push_back(fresh(rig, shape, i));
		CUDA(cudaMemcpy(queues, all.data(), all.size() * sizeof(all[0]),
				cudaMemcpyHostToDevice));
		CUDA(cudaMemset(turns, 0, shape.queues * SLOTS * sizeof(*turns)));
		for (const ginSendQueue &q : all)
			CUDA(cudaMemcpy(q.fixed.turn, &turn, sizeof(turn), cudaMemcpyHostToDevice));
	}

	// Writes the CQE of a collapsed CQ.
	static __device__ void complete(ginMlx5Cqe *cqe, uint32_t, uint64_t, uint64_t end)
	{
		uint32_t state = ginMlx5Swap((static_cast<uint32_t>(end) - 1) << 16);
		asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(&cqe->state), "r"(state)
			     : "memory");
	}
};

// What is posted, as NCCL does it: a put of 4096 bytes; the signal is an atomic add.
enum What { PUT, PUT_SIGNAL, PUT_VALUE };

GIN_FN constexpr uint32_t wqesOf(What what)
{
	return what == PUT_SIGNAL ? 2 : 1;
}

// Writes the WQEs of one call, from slot `at` of the range on.
template <What what>
__device__ void writeElements(const ginSendFixed &f, ginSendRange range, uint32_t at, uint32_t i)
{
	const ginMlx5Memory there = {4096, ginMlx5Key(0x1234)}, here = {8192, ginMlx5Key(0x5678)};
	const ginMlx5Memory signal = {64, ginMlx5Key(0x1111)}, sink = {f.sink, f.sinkKey};
	ginMlx5Slot slot = ginSendSlot(f, range, at);

	ginMlx5StoreWqebb(ginSendWqebb(f, range.first + at),
			  what == PUT_VALUE ? ginMlx5WriteInline8(slot, there, i)
					    : ginMlx5Write(slot, there, here, 4096));
	if (what == PUT_SIGNAL)
		ginMlx5StoreWqebb(ginSendWqebb(f, range.first + at + 1),
				  ginMlx5FetchAdd(ginSendSlot(f, range, at + 1), signal, sink, 1));
}

// Each thread posts by itself.
template <What what, ginSharing sharing> struct OursEach : Poster<Ours> {
	__device__ ginResult_t operator()(uint32_t i) const
	{
		ginSendPatience wait = ginSendPatienceStart(call.dc.self, 0, 0);
		const ginSendFixed f = q->fixed;
		ginSendRange range = {0, wqesOf(what)};

		ginResult_t result = ginSendReserveWait(q, &range, wait, sharing);
		if (result != ginSuccess)
			return result;
		writeElements<what>(f, range, 0, i);
		ginSendHandOver(q, f, range, false, sharing);
		return ginSuccess;
	}
};

// The lanes of a warp post together: each lane writes its WQE, one reservation and one doorbell.
template <What what, ginSharing sharing> struct OursTogether : Poster<Ours> {
	__device__ ginResult_t operator()(uint32_t i) const
	{
		ginTogether all = ginTogetherFor(reinterpret_cast<uintptr_t>(q), false);
		const ginSendFixed f = q->fixed;
		ginSendRange range = {0, all.count * wqesOf(what)};
		ginResult_t result = ginSuccess;

		if (all.rank == 0) {
			ginSendPatience wait = ginSendPatienceStart(call.dc.self, 0, 0);
			result = ginSendReserveWait(q, &range, wait, sharing);
		}
		result = static_cast<ginResult_t>(ginFromLeader(all, result));
		range.first = ginFromLeader(all, range.first);
		if (result != ginSuccess)
			return result;
		writeElements<what>(f, range, all.rank * wqesOf(what), i);
		__syncwarp(all.mask);
		if (all.rank == 0)
			ginSendHandOver(q, f, range, false, sharing);
		__syncwarp(all.mask);
		return ginSuccess;
	}
};

// A warp posts one put: four lanes store one segment each.
template <ginSharing sharing> struct OursWarp : Poster<Ours> {
	__device__ ginResult_t operator()(uint32_t) const
	{
		const ginTogether all = {32, ginLane(), ~0u};
		const ginSendFixed f = q->fixed;
		ginSendRange range = {0, 1};
		ginResult_t result = ginSuccess;

		__syncwarp();
		if (all.rank == 0) {
			ginSendPatience wait = ginSendPatienceStart(call.dc.self, 0, 0);
			result = ginSendReserveWait(q, &range, wait, sharing);
		}
		result = static_cast<ginResult_t>(ginFromLeader(all, result));
		range.first = ginFromLeader(all, range.first);
		if (result != ginSuccess)
			return result;
		ginMlx5Wqebb wqe =
			ginMlx5Write(ginSendSlot(f, range, 0), {4096, ginMlx5Key(0x1234)},
				     {8192, ginMlx5Key(0x5678)}, 4096);
		if (all.rank < 4)
			ginMlx5Store(&ginSendWqebb(f, range.first)->segment[all.rank],
				     ginMlx5SegmentOf(wqe, all.rank));
		__syncwarp();
		if (all.rank == 0)
			ginSendHandOver(q, f, range, false, sharing);
		__syncwarp();
		return ginSuccess;
	}
};

#endif
