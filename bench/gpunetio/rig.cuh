// SPDX-License-Identifier: BSD-3-Clause
// rig.cuh - queues with no NIC behind them, the same memory for both sides; time; what was posted
//
// Elements, records and completions lie in GPU memory, as both sides have them in production; the
// doorbell register is a word of host memory, to which a store goes over PCIe as to an NIC's. Either
// fewer elements are posted than there are slots, or a block of its own plays the NIC: it follows
// the doorbell record and completes.
#ifndef GIN_BENCH_GPUNETIO_RIG_CUH
#define GIN_BENCH_GPUNETIO_RIG_CUH

#include <gin_device.cuh>
#include <gin/gdaki/queue.cuh>

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

inline void require(bool ok, const char *what, const char *file, int line)
{
	if (ok)
		return;
	fprintf(stderr, "%s:%d: %s: %s\n", file, line, what,
		cudaGetErrorString(cudaGetLastError()));
	exit(1);
}

#define EXPECT(condition) require(condition, #condition, __FILE__, __LINE__)
#define CUDA(call) require((call) == cudaSuccess, #call, __FILE__, __LINE__)

enum { QUEUES = 132, NUMBER = 0x1234, DOORBELL_STRIDE = 64 };
constexpr uint32_t SLOTS = 32768;
constexpr uint32_t FEW_SLOTS = 1024; // with an NIC: so that all look for room, and wait for some
constexpr uint64_t PATIENCE = 5000000000; // ns

// What a measurement does: who posts, how often, and to how many queues.
struct Shape {
	uint32_t grid, block, queues;
	uint32_t calls; // of each thread
	uint32_t wqes;	// of each call
	bool nic;
	uint32_t together = 1; // threads of one call

	uint64_t posted() const // to each queue
	{
		return static_cast<uint64_t>(grid) / queues * block / together * calls * wqes;
	}

	GIN_FN uint32_t slots() const { return nic ? FEW_SLOTS : SLOTS; }
};

// What the NIC has of one queue.
struct Hardware {
	ginMlx5Wqebb *wqes;
	ginMlx5DoorbellRecord *record;
	uint64_t *doorbell;
	ginMlx5Cqe *cqes; // [SLOTS]; a collapsed CQ is the first
};

// What kernels leave.
struct Outcome {
	uint64_t first, last; // ns
	uint32_t failed, finished;
};

struct Rig {
	char *wqes, *records, *cqes;
	uint64_t *doorbells;
	Outcome *outcome;

	Rig()
	{
		size_t bytes = static_cast<size_t>(QUEUES) * SLOTS * sizeof(ginMlx5Wqebb);
		CUDA(cudaMalloc(&wqes, bytes));
		CUDA(cudaMemset(wqes, 0, bytes));
		CUDA(cudaMalloc(&records, QUEUES * 128));
		CUDA(cudaMalloc(&cqes, SLOTS * sizeof(ginMlx5Cqe)));
		CUDA(cudaHostAlloc(&doorbells, QUEUES * DOORBELL_STRIDE, cudaHostAllocMapped));
		CUDA(cudaMallocManaged(&outcome, sizeof(*outcome)));
	}

	~Rig()
	{
		for (void *at : {wqes, records, cqes})
			cudaFree(at);
		cudaFreeHost(doorbells);
		cudaFree(outcome);
	}

	Rig(const Rig &) = delete;
	Rig &operator=(const Rig &) = delete;

	// All share the completions: where there is no NIC nobody looks at them.
	Hardware hardware(uint32_t queue) const
	{
		size_t offset = static_cast<size_t>(queue) * SLOTS * sizeof(ginMlx5Wqebb);
		return {reinterpret_cast<ginMlx5Wqebb *>(wqes + offset),
			reinterpret_cast<ginMlx5DoorbellRecord *>(records + queue * 128),
			doorbells + queue * DOORBELL_STRIDE / 8,
			reinterpret_cast<ginMlx5Cqe *>(cqes)};
	}

	// As before the first post.
	void reset()
	{
		std::vector<ginMlx5Cqe> empty(SLOTS);
		for (ginMlx5Cqe &cqe : empty)
			cqe.state = ginMlx5CqeEmpty();
		CUDA(cudaMemcpy(cqes, empty.data(), SLOTS * sizeof(ginMlx5Cqe),
				cudaMemcpyHostToDevice));
		CUDA(cudaMemset(records, 0, QUEUES * 128));
		memset(doorbells, 0, QUEUES * DOORBELL_STRIDE);
		*outcome = {UINT64_MAX, 0, 0, 0};
		CUDA(cudaDeviceSynchronize());
	}
};

// By one thread: completes what the record tells of, until all who post have finished.
template <class Side>
__device__ void serve(Hardware hardware, uint32_t slots, Outcome *outcome, uint32_t posters)
{
	uint64_t begin = ginNow(), seen = 0;

	while (ginNow() - begin < 2 * PATIENCE) {
		uint32_t send = ginCqeObserve(&hardware.record->send);
		uint32_t more = (ginMlx5Swap(send) - static_cast<uint32_t>(seen)) & 0xffff;

		if (more)
			Side::complete(hardware.cqes, slots, seen, seen + more);
		seen += more;
		if (!more && *const_cast<volatile uint32_t *>(&outcome->finished) == posters)
			return;
	}
}

// What a thread that posts is given, beside the queue.
struct Call {
	ginDevComm dc;
	ginWindow_t window;
};

// What posts: a type of its own for each way, called with the number of the call.
template <class Side> struct Poster {
	typename Side::Queue *q;
	const Call &call;
	uint32_t context; // the queue's number
};

template <class Side> struct Job {
	typename Side::Queue *queues;
	Hardware hardware; // of the first
	Shape shape;
	Call call;
	Outcome *outcome;
};

template <class Side, class Post> __global__ void postMany(const __grid_constant__ Job<Side> job)
{
	if (blockIdx.x == job.shape.grid) {
		if (threadIdx.x == 0)
			serve<Side>(job.hardware, job.shape.slots(), job.outcome,
				    job.shape.grid * job.shape.block);
		return;
	}
	uint32_t context = blockIdx.x % job.shape.queues;
	const Post post = Post{{job.queues + context, job.call, context}};
	ginResult_t result = ginSuccess;
	uint64_t begin = ginNow();

#pragma unroll 1
	for (uint32_t i = 0; i < job.shape.calls && result == ginSuccess; i++)
		result = post(i);
	uint64_t end = ginNow();
	if (result != ginSuccess)
		atomicAdd(&job.outcome->failed, 1);
	atomicMin(reinterpret_cast<unsigned long long *>(&job.outcome->first), begin);
	atomicMax(reinterpret_cast<unsigned long long *>(&job.outcome->last), end);
	__threadfence();
	atomicAdd(&job.outcome->finished, 1);
}

// Is that the WQE of this index? The opcodes are counted.
inline bool isElement(const ginMlx5Wqebb &wqe, uint32_t index, uint32_t queue, uint64_t *atomics)
{
	uint32_t opcode = wqe.segment[0].word[0] >> 24;
	uint32_t segments = opcode == ginMlx5OpFetchAdd ? 4 : 3;

	*atomics += opcode == ginMlx5OpFetchAdd;
	return (opcode == ginMlx5OpWrite || opcode == ginMlx5OpFetchAdd) &&
	       wqe.segment[0].word[0] == ginMlx5OpcodeWord(index, opcode, 0) &&
	       wqe.segment[0].word[1] == (queue | segments << 24);
}

// All elements are there, none twice, and doorbell and record tell of the last.
inline void verifyQueue(const Rig &rig, const Shape &shape, uint32_t number)
{
	Hardware hardware = rig.hardware(number);
	uint32_t queue = ginMlx5Queue(NUMBER + number);
	uint64_t posted = shape.posted(), atomics = 0;
	uint64_t there = std::min<uint64_t>(posted, shape.slots());
	std::vector<ginMlx5Wqebb> wqes(shape.slots());
	ginMlx5DoorbellRecord record;

	CUDA(cudaMemcpy(wqes.data(), hardware.wqes, wqes.size() * sizeof(wqes[0]),
			cudaMemcpyDeviceToHost));
	CUDA(cudaMemcpy(&record, hardware.record, sizeof(record), cudaMemcpyDeviceToHost));
	for (uint64_t i = posted - there; i < posted; i++)
		EXPECT(isElement(wqes[i % shape.slots()], static_cast<uint32_t>(i), queue,
				 &atomics));
	EXPECT(atomics * shape.wqes == there * (shape.wqes - 1));
	if (record.send != ginMlx5RecordWord(static_cast<uint32_t>(posted)))
		fprintf(stderr, "%llu posted, record %08x, doorbell %016llx\n",
			static_cast<unsigned long long>(posted), ginMlx5Swap(record.send),
			static_cast<unsigned long long>(*hardware.doorbell));
	EXPECT(record.send == ginMlx5RecordWord(static_cast<uint32_t>(posted)));
	EXPECT(*hardware.doorbell == ginMlx5Doorbell(queue, static_cast<uint32_t>(posted)));
}

// Nanoseconds from the first thread's first call to the last one's end.
template <class Side, class Post> double timeOnce(Rig &rig, Side &side, const Shape &shape)
{
	Job<Side> job = {side.queues, rig.hardware(0), shape, side.call(), rig.outcome};

	rig.reset();
	side.reset(rig, shape);
	if (getenv("VERBOSE"))
		fprintf(stderr, "%s\n", __PRETTY_FUNCTION__);
	postMany<Side, Post><<<shape.grid + shape.nic, shape.block>>>(job);
	CUDA(cudaGetLastError());
	CUDA(cudaDeviceSynchronize());
	EXPECT(!rig.outcome->failed);
	for (uint32_t i = 0; i < shape.queues; i++)
		verifyQueue(rig, shape, i);
	return static_cast<double>(rig.outcome->last - rig.outcome->first);
}

#endif
