// SPDX-License-Identifier: BSD-3-Clause
// rig.cuh - queues without a NIC, used by both libraries: memory, timing, verification
//
// WQEs, doorbell records and CQEs are in GPU memory, as in production. The doorbell register is a
// word of host memory: a store to it crosses PCIe, like a store to a NIC. Either fewer WQEs are
// posted than there are slots, or one block plays the NIC: it polls the doorbell record and writes
// completions.
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
constexpr uint32_t FEW_SLOTS = 1024; // with a block that plays the NIC: posts have to wait for room
constexpr uint64_t PATIENCE = 5000000000; // ns

// The threads, calls and queues of a measurement.
struct Shape {
	uint32_t grid, block, queues;
	uint32_t calls;	       // per thread
	uint32_t wqes;	       // per call
	bool nic;	       // a block plays the NIC
	uint32_t together = 1; // threads that make one call together

	uint64_t posted() const // WQEs per queue
	{
		return static_cast<uint64_t>(grid) / queues * block / together * calls * wqes;
	}

	GIN_FN uint32_t slots() const { return nic ? FEW_SLOTS : SLOTS; }
};

// The memory of one queue that a NIC uses.
struct Hardware {
	ginMlx5Wqebb *wqes;
	ginMlx5DoorbellRecord *record;
	uint64_t *doorbell;
	ginMlx5Cqe *cqes; // [SLOTS]; a collapsed CQ is the first
};

// Results of a kernel.
struct PostOutcome {
	uint64_t first, last; // ns
	uint32_t failed, finished;
};

struct QueueRig {
	char *wqes, *records, *cqes;
	uint64_t *doorbells;
	PostOutcome *outcome;

	QueueRig()
	{
		size_t bytes = static_cast<size_t>(QUEUES) * SLOTS * sizeof(ginMlx5Wqebb);
		CUDA(cudaMalloc(&wqes, bytes));
		CUDA(cudaMemset(wqes, 0, bytes));
		CUDA(cudaMalloc(&records, QUEUES * 128));
		CUDA(cudaMalloc(&cqes, SLOTS * sizeof(ginMlx5Cqe)));
		CUDA(cudaHostAlloc(&doorbells, QUEUES * DOORBELL_STRIDE, cudaHostAllocMapped));
		CUDA(cudaMallocManaged(&outcome, sizeof(*outcome)));
	}

	~QueueRig()
	{
		for (void *at : {wqes, records, cqes})
			cudaFree(at);
		cudaFreeHost(doorbells);
		cudaFree(outcome);
	}

	QueueRig(const QueueRig &) = delete;
	QueueRig &operator=(const QueueRig &) = delete;

	// All queues share the CQEs: without a block that plays the NIC, no thread reads them.
	Hardware hardware(uint32_t queue) const
	{
		size_t offset = static_cast<size_t>(queue) * SLOTS * sizeof(ginMlx5Wqebb);
		return {reinterpret_cast<ginMlx5Wqebb *>(wqes + offset),
			reinterpret_cast<ginMlx5DoorbellRecord *>(records + queue * 128),
			doorbells + queue * DOORBELL_STRIDE / 8,
			reinterpret_cast<ginMlx5Cqe *>(cqes)};
	}

	// Back to the state before the first post.
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

// Run by one thread: completes the WQEs that the doorbell record announces, until all posting
// threads have finished.
template <class Side>
__device__ void serve(Hardware hardware, uint32_t slots, PostOutcome *outcome, uint32_t posters)
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

// Arguments of a post, in addition to the queue.
struct Call {
	ginDevComm dc;
	ginWindow_t window;
};

// Base of all ways to post. Each is a type with operator()(number of the call).
template <class Side> struct Poster {
	typename Side::Queue *q;
	const Call &call;
	uint32_t context; // the queue's number
};

template <class Side> struct PostJob {
	typename Side::Queue *queues;
	Hardware hardware; // of the first queue
	Shape shape;
	Call call;
	PostOutcome *outcome;
};

template <class Side, class Post>
__global__ void postMany(const __grid_constant__ PostJob<Side> job)
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

// Is it the expected WQE for this index? Counts atomic WQEs.
inline bool isElement(const ginMlx5Wqebb &wqe, uint32_t index, uint32_t queue, uint64_t *atomics)
{
	uint32_t opcode = wqe.segment[0].word[0] >> 24;
	uint32_t segments = opcode == ginMlx5OpFetchAdd ? 4 : 3;

	*atomics += opcode == ginMlx5OpFetchAdd;
	return (opcode == ginMlx5OpWrite || opcode == ginMlx5OpFetchAdd) &&
	       wqe.segment[0].word[0] == ginMlx5OpcodeWord(index, opcode, 0) &&
	       wqe.segment[0].word[1] == (queue | segments << 24);
}

// Checks that all WQEs are there, each once, and that record and doorbell announce the last one.
inline void verifyQueue(const QueueRig &rig, const Shape &shape, uint32_t number)
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

// Nanoseconds from the first call of any thread to the end of the last call.
template <class Side, class Post> double timeOnce(QueueRig &rig, Side &side, const Shape &shape)
{
	PostJob<Side> job = {side.queues, rig.hardware(0), shape, side.call(), rig.outcome};

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
