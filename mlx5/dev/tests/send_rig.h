/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send_rig.h - send queues of gin/core/send_queue.h on the engine that is linked in, for threads of
 * the host or, compiled by nvcc, of a GPU
 *
 *	QUEUES=n	how many, LOG_DEPTH=n of 2^n WQEBBs each, GRID, BLOCK for how many threads
 *	SHARING=cta|thread	each queue is a block's or a thread's; else the blocks share them
 *	MEMORY=gpu	queues and window in GPU memory; else in host memory, which the GPU maps
 *	SEED=n
 */
#ifndef MLX5DEV_TESTS_SEND_RIG_H
#define MLX5DEV_TESTS_SEND_RIG_H

#include <gin/gdaki/queue.cuh>
#include <gin/core/host_launch.h>

#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vector>

extern "C" {
#include "mlx5/dev/device/device.h"
#include "mlx5/dev/engine/doorbell.h"
#include "mlx5/dev/device/fault.h"
#include "numbers.h"
#include "queue.h"
}

#define EXPECT(condition) require(condition, #condition, __FILE__, __LINE__)
#define CUDA(call) require((call) == cudaSuccess, #call, __FILE__, __LINE__)

inline void require(bool ok, const char *what, const char *file, int line)
{
	if (ok)
		return;
	fprintf(stderr, "%s:%d: %s\n", file, line, what);
	fflush(stderr);
	_exit(1);
}

inline bool settingIs(const char *name, const char *value)
{
	const char *text = getenv(name);
	return text && !strcmp(text, value);
}

constexpr uint64_t PATIENCE = 60000000000; /* ns; whoever waits longer has found a fault of ours */

#ifdef __CUDACC__
constexpr bool ON_GPU = true;

template <class Body> __global__ void runKernel(const __grid_constant__ Body body)
{
	body();
}

template <class Body> void launch(uint32_t grid, uint32_t block, const Body &body)
{
	runKernel<<<grid, block>>>(body);
	CUDA(cudaGetLastError());
	CUDA(cudaDeviceSynchronize());
}

inline void copyBytes(void *to, const void *from, size_t bytes)
{
	CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
}

/* Memory that threads alone use. */
inline void *threadMemory(size_t bytes)
{
	void *at;
	CUDA(cudaMalloc(&at, bytes));
	CUDA(cudaMemset(at, 0, bytes));
	return at;
}

/* Memory that the device uses, too; the value is that of each byte. */
inline void *sharedMemory(size_t bytes, int value)
{
	void *at;

	if (settingIs("MEMORY", "gpu")) {
		CUDA(cudaMalloc(&at, bytes < 65536 ? 65536 : bytes));
		CUDA(cudaMemset(at, value, bytes));
		return at;
	}
	bytes = (bytes + 4095) / 4096 * 4096;
	at = aligned_alloc(4096, bytes);
	EXPECT(at);
	CUDA(cudaHostRegister(at, bytes, cudaHostRegisterMapped));
	return memset(at, value, bytes);
}

/* A doorbell page, as threads see it. */
inline uint64_t *doorbellFor(uint64_t *doorbell)
{
	uint8_t *page = reinterpret_cast<uint8_t *>(doorbell) - DOORBELL_REGISTER;
	CUDA(cudaHostRegister(page, DOORBELL_PAGE_BYTES, cudaHostRegisterMapped));
	return doorbell;
}

inline void requireGpu()
{
	int gpus, same = 0;

	if (cudaGetDeviceCount(&gpus) != cudaSuccess || !gpus) {
		printf("there is no GPU\n");
		exit(77);
	}
	CUDA(cudaDeviceGetAttribute(&same, cudaDevAttrCanUseHostPointerForRegisteredMem, 0));
	if (!same) {
		printf("this GPU has other addresses for host memory than CPUs\n");
		exit(77);
	}
}
#else
constexpr bool ON_GPU = false;

template <class Body> void runHost(void *body)
{
	(*static_cast<const Body *>(body))();
}

template <class Body> void launch(uint32_t grid, uint32_t block, Body body)
{
	EXPECT(ginHostLaunch(grid, block, runHost<Body>, &body) == ginSuccess);
}

inline void copyBytes(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

inline void *threadMemory(size_t bytes)
{
	void *at = calloc(1, bytes);
	EXPECT(at);
	return at;
}

inline void *sharedMemory(size_t bytes, int value)
{
	void *at = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
	EXPECT(at);
	return memset(at, value, bytes);
}

inline uint64_t *doorbellFor(uint64_t *doorbell)
{
	return doorbell;
}

inline void requireGpu()
{
}
#endif

inline void fetch(void *to, const void *from, size_t bytes)
{
	copyBytes(to, from, bytes);
}

/*
 * Words that the device may still change: what is in flight when a queue pair breaks is executed.
 */
inline std::vector<uint64_t> fetchWords(const void *from, size_t count)
{
	std::vector<uint64_t> words(count);

	if (ON_GPU)
		fetch(words.data(), from, count * sizeof(words[0]));
	for (size_t i = 0; !ON_GPU && i < count; i++)
		words[i] =
			__atomic_load_n(static_cast<const uint64_t *>(from) + i, __ATOMIC_ACQUIRE);
	return words;
}

GIN_FN void countBad(uint32_t *bad, ginResult_t result)
{
#if GIN_ON_GPU
	atomicAdd(bad, 1);
#else
	__atomic_fetch_add(bad, 1, __ATOMIC_RELAXED);
#endif
	ginLocalStore(reinterpret_cast<uint64_t *>(bad) + 1, static_cast<uint64_t>(result));
}

/* Arguments of a kernel: which thread posts to which queue, and what every call needs. */
struct Posters {
	ginSendQueue *queues;
	uint32_t nQueues, key;
	ginSharing sharing;
	ginDevComm dc;
	uint32_t *bad; /* calls that failed, and what the last of them returned */

	GIN_FN uint32_t self() const { return ginBlockIndex() * ginBlockSize() + ginThreadIndex(); }

	/* One for a block, so that all threads of a warp have one value; or one for each thread. */
	GIN_FN ginSendQueue *queue() const
	{
		return &queues[(sharing == ginSharingThread ? self() : ginBlockIndex()) % nQueues];
	}

	GIN_FN ginSendPatience poll() const { return ginSendPatienceStart(&dc, PATIENCE, 0); }
};

/* Waits for all that was posted, by a thread for each queue, and leaves what came of it. */
struct Finish {
	Posters posters;
	uint32_t *results;

	GIN_FN void operator()() const
	{
		ginSendQueue *q = &posters.queues[ginBlockIndex()];
		ginSendPatience poll = posters.poll();
		results[ginBlockIndex()] = static_cast<uint32_t>(
			ginSendWait(q, ginSendTicket(q), poll, posters.sharing));
	}
};

/* The queues, their window, which NIC addresses number from 0, and the threads. */
class SendRig
{
public:
	uint32_t nQueues, logDepth, grid, block, key;
	ginSharing sharing;
	std::vector<struct queue> mine, peers;
	ginSendQueue *queues;
	uint8_t *window;
	size_t windowBytes;

	SendRig(uint32_t defaultGrid, uint32_t defaultBlock, uint32_t defaultQueues,
		uint32_t defaultLog)
	    : nQueues(static_cast<uint32_t>(numberOr("QUEUES", defaultQueues))),
	      logDepth(static_cast<uint32_t>(numberOr("LOG_DEPTH", defaultLog))),
	      grid(static_cast<uint32_t>(numberOr("GRID", defaultGrid))),
	      block(static_cast<uint32_t>(numberOr("BLOCK", defaultBlock))), key(0),
	      sharing(ginSharingGpu), mine(nQueues), peers(nQueues), queues(nullptr),
	      window(nullptr), windowBytes(0), doorbells(nQueues), turns(nullptr),
	      counters(nullptr), bad(nullptr), results(nullptr), line(nullptr), watch(nullptr)
	{
		if (settingIs("SHARING", "cta"))
			sharing = ginSharingCta;
		if (settingIs("SHARING", "thread"))
			sharing = ginSharingThread;
		EXPECT(sharing == ginSharingGpu ||
		       nQueues >= (sharing == ginSharingCta ? grid : threads()));
		requireGpu();
		queueMemory = sharedMemory;
		hostOpen();
	}

	SendRig(const SendRig &) = delete;
	SendRig &operator=(const SendRig &) = delete;

	uint32_t threads() const { return grid * block; }

	/* Unused old values go to the window's last 8 bytes. */
	void open(size_t bytes)
	{
		const unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
		windowBytes = (bytes + 8 + 4095) / 4096 * 4096;
		window = static_cast<uint8_t *>(sharedMemory(windowBytes, 0));
		key = hostRegister(window, windowBytes, 0, access);
		EXPECT(key);
		for (uint32_t i = 0; i < nQueues; i++)
			openQueue(i);
		size_t slots = static_cast<size_t>(nQueues) << logDepth;
		queues = static_cast<ginSendQueue *>(threadMemory(nQueues * sizeof(*queues)));
		turns = static_cast<uint32_t *>(threadMemory(slots * sizeof(*turns)));
		counters = static_cast<uint32_t *>(threadMemory(slots * sizeof(*counters)));
		bad = static_cast<uint32_t *>(threadMemory(16));
		results = static_cast<uint32_t *>(threadMemory(nQueues * sizeof(*results)));
		line = static_cast<ginAbortLine *>(threadMemory(sizeof(*line)));
		watch = static_cast<ginMirroredWord *>(threadMemory(sizeof(*watch)));
		const ginMirroredWord onLine = {&line->word, {0, 0, 0}, 0};
		copyBytes(watch, &onLine, sizeof(onLine));
		for (uint32_t i = 0; i < nQueues; i++)
			fresh(i);
	}

	/* The i-th as before its first post. */
	void fresh(uint32_t i)
	{
		const uint32_t turn = GIN_TURN;
		std::vector<uint32_t> none(1u << logDepth);
		struct ginMlx5Cqe empty = {};
		ginSendQueue q = {};

		empty.state = ginMlx5CqeEmpty();
		q.fixed.wqes = reinterpret_cast<ginMlx5Wqebb *>(mine[i].wq);
		q.fixed.turn = turns + (static_cast<size_t>(i) << logDepth);
		q.fixed.counter = counters + (static_cast<size_t>(i) << logDepth);
		q.fixed.cqe = reinterpret_cast<ginMlx5Cqe *>(mine[i].cq);
		q.fixed.record = reinterpret_cast<ginMlx5DoorbellRecord *>(mine[i].records);
		q.fixed.doorbell = doorbells[i];
		q.fixed.queue = ginMlx5Queue(mine[i].qpn);
		q.fixed.logDepth = logDepth;
		q.fixed.sinkKey = ginMlx5Key(key);
		q.fixed.sink = static_cast<uint32_t>(windowBytes - 8);
		q.fixed.gpuMemory = settingIs("MEMORY", "gpu");
		copyBytes(mine[i].cq, &empty, sizeof(empty));
		copyBytes(q.fixed.turn, none.data(), none.size() * sizeof(none[0]));
		copyBytes(q.fixed.turn, &turn, sizeof(turn));
		copyBytes(&queues[i], &q, sizeof(q));
	}

	/* The i-th as it was after open(), whatever has happened to it. Nobody posts. */
	void mend(uint32_t i)
	{
		while (__atomic_load_n(mine[i].uar.doorbell, __ATOMIC_RELAXED))
			sched_yield(); /* the device has not seen the last one */
		queueReset(&mine[i]);
		queueReset(&peers[i]);
		connect(i);
		fresh(i);
	}

	Posters posters() const
	{
		ginDevComm dc = {};
		dc.abortLine = line;
		dc.abort = watch;
		return {queues, nQueues, key, sharing, dc, bad};
	}

	ginSendQueue look(uint32_t i) const
	{
		ginSendQueue q;
		fetch(&q, &queues[i], sizeof(q));
		return q;
	}

	/* What waiting for all of each queue came to; and nobody has called countBad(). */
	std::vector<ginResult_t> finish() const
	{
		std::vector<uint32_t> seen(nQueues);
		std::vector<ginResult_t> all;
		uint32_t wrong[4];

		launch(nQueues, 1, Finish{posters(), results});
		fetch(seen.data(), results, nQueues * sizeof(seen[0]));
		fetch(wrong, bad, sizeof(wrong));
		if (wrong[0])
			fprintf(stderr, "%u threads failed, one with result %u\n", wrong[0],
				wrong[2]);
		EXPECT(!wrong[0]);
		for (uint32_t result : seen)
			all.push_back(static_cast<ginResult_t>(result));
		return all;
	}

	std::vector<uint8_t> image() const
	{
		std::vector<uint8_t> bytes(windowBytes);
		fetch(bytes.data(), window, windowBytes);
		return bytes;
	}

private:
	std::vector<uint64_t *> doorbells;
	uint32_t *turns, *counters, *bad, *results;
	ginAbortLine *line;
	ginMirroredWord *watch; /* of it */

	void connect(uint32_t i)
	{
		const struct queue_options options = {};

		queueConnect(&mine[i], peers[i].qpn, &options);
		queueConnect(&peers[i], mine[i].qpn, &options);
	}

	void openQueue(uint32_t i)
	{
		struct queue_options options = {};
		options.collapsed = true;
		options.logSize = logDepth;
		queueCreate(&mine[i], &options);
		queueCreate(&peers[i], &options);
		connect(i);
		doorbells[i] = doorbellFor(mine[i].uar.doorbell);
	}
};

#endif
