/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * harness.h - a rank of the semantics suite, on a GPU or on host threads
 *
 * A test's body is a functor that every thread of a launch runs. Compiled by nvcc it is a kernel
 * when the rank has a GPU; otherwise, and under g++ and clang++, ginHostLaunch() runs it. Ranks and
 * launches are those of the examples.
 */
#ifndef GIN_TEST_HARNESS_H
#define GIN_TEST_HARNESS_H

#include <map>
#include <mutex>
#include <vector>

#include "examples/launch.h"
#include "numbers.h"
#include "ranks.h"

#define EXPECT(condition) check(condition, #condition)

/*
 * EXPECT_WHY=words: the reason for the route to some peer has the words, so the route is what the
 * test is about.
 */
inline void expectWhy(const Rank &r)
{
	const char *words = getenv("EXPECT_WHY");
	bool found = !words || !*words;

	for (int peer = 0; peer < r.nRanks && !found; peer++) {
		ginPeerInfo_t info = GIN_PEER_INFO_INIT;
		CHECK(ginCommQueryPeer(r.comm, peer, &info));
		found = strstr(info.why, words) != nullptr;
		if (!found && peer + 1 == r.nRanks)
			fprintf(stderr, "rank %d to %d by %s: %s\n", r.rank, peer, info.backend,
				info.why);
	}
	EXPECT(found);
}

inline void rankOpen(Rank &r, const ginConfig_t *config)
{
	r = rankOpen(config);
	expectWhy(r);
}

#ifdef __CUDACC__
template <uint32_t most, class Body> __global__ void __launch_bounds__(most, 1)
	runBounded(const __grid_constant__ Body body)
{
	body();
}
#endif

/*
 * For blocks of up to `most` threads: nvcc gives the kernel no more registers than they can have.
 */
template <uint32_t most, class Body>
void launchBounded(Rank &r, uint32_t grid, uint32_t block, Body body)
{
	EXPECT(block <= most);
#ifdef __CUDACC__
	if (r.device >= 0) {
		runBounded<most><<<grid, block, 0, r.stream>>>(body);
		CUDA(cudaGetLastError());
		CUDA(cudaStreamSynchronize(r.stream));
		return;
	}
#endif
	launch(r, grid, block, body);
}

/* A barrier of all ranks. It uses no puts and signals: these are under test. */
inline void meet(Rank &r)
{
	CHECK(ginCommAllgather(r.comm, nullptr, nullptr, 0));
}

#ifdef __CUDACC__
/*
 * Pinned once, and kept: cudaFreeHost() waits for the kernels of all ranks of the process, see
 * gin_proxy(7).
 */
class PinnedWords
{
	std::mutex mutex;
	std::multimap<size_t, uint64_t *> unused; /* by their count */

public:
	uint64_t *take(size_t count)
	{
		std::lock_guard<std::mutex> lock(mutex);
		auto found = unused.find(count);
		uint64_t *words;

		if (found == unused.end()) {
			CUDA(cudaHostAlloc(&words, count * sizeof(*words), cudaHostAllocPortable));
			return words;
		}
		words = found->second;
		unused.erase(found);
		return words;
	}

	void giveBack(size_t count, uint64_t *words)
	{
		std::lock_guard<std::mutex> lock(mutex);
		unused.insert({count, words});
	}
};

inline PinnedWords &pinnedWords()
{
	static PinnedWords words;
	return words;
}
#endif

/* Words that a body writes and the host reads after launch(). */
struct Results {
	uint64_t *words;
	size_t count;

	Results(Rank &r, size_t n) : words(nullptr), count(n), gpu(r.device >= 0)
	{
#ifdef __CUDACC__
		if (gpu)
			words = pinnedWords().take(n);
#endif
		if (!gpu)
			words = static_cast<uint64_t *>(malloc(n * sizeof(*words)));
		EXPECT(words != nullptr);
		clear();
	}

	~Results()
	{
#ifdef __CUDACC__
		if (gpu)
			pinnedWords().giveBack(count, words);
#endif
		if (!gpu)
			free(words);
	}

	Results(const Results &) = delete;
	Results &operator=(const Results &) = delete;

	void clear()
	{
		memset(words, 0xee, count * sizeof(*words));
	}

	bool all(uint64_t value) const
	{
		for (size_t i = 0; i < count; i++)
			if (words[i] != value)
				return false;
		return true;
	}

private:
	bool gpu;
};

/* ginMemAlloc() or ginMemAllocHost(). */
typedef ginResult_t Allocator(ginComm_t comm, size_t bytes, void **ptr);

/* Memory that is registered as one window. */
struct Buffer {
	Rank &rank;
	size_t bytes;
	char *ptr;
	ginWindow_t window;

	Buffer(Rank &r, size_t n, Allocator *alloc = ginMemAlloc)
	    : rank(r), bytes(n), ptr(nullptr), window()
	{
		void *at = nullptr;
		CHECK(alloc(r.comm, n, &at));
		ptr = static_cast<char *>(at);
		CHECK(ginWindowRegister(r.comm, at, n, 0, &window));
	}

	~Buffer()
	{
		CHECK(ginWindowDeregister(rank.comm, window));
		CHECK(ginMemFree(rank.comm, ptr));
	}

	Buffer(const Buffer &) = delete;
	Buffer &operator=(const Buffer &) = delete;

	void write(const std::vector<unsigned char> &from)
	{
		copyBytes(rank, ptr, from.data(), bytes);
	}

	std::vector<unsigned char> read() const
	{
		std::vector<unsigned char> out(bytes);
		copyBytes(rank, out.data(), ptr, bytes);
		return out;
	}

	void poison() { write(std::vector<unsigned char>(bytes, 0x5a)); }
};

/* The depth of a context's queue: QUEUE_DEPTH, otherwise libgin's default. */
inline uint32_t queueDepth()
{
	ginDevCommRequirements_t preset = GIN_DEV_COMM_REQUIREMENTS_INIT;
	return static_cast<uint32_t>(numberOr("QUEUE_DEPTH", preset.queueDepth));
}

/* A device communicator for the life of the object. */
struct Device {
	Rank &rank;
	ginDevComm dc;

	Device(Rank &r, uint32_t contexts, uint32_t signals, uint32_t depth = queueDepth())
	    : rank(r)
	{
		ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
		want.contexts = contexts;
		want.signals = signals;
		want.timeout = 60000000000ull;
		want.queueDepth = depth;
		CHECK(ginDevCommCreate(r.comm, &want, &dc));
	}

	~Device() { CHECK(ginDevCommDestroy(rank.comm, &dc)); }

	Device(const Device &) = delete;
	Device &operator=(const Device &) = delete;
};

/*
 * Ranks that are threads share a GPU and wait for each other there: no kernel may be loaded
 * meanwhile.
 */
inline void shareGpu()
{
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
}

/* For windows in which signals are raised at offsets, or atomics done. */
inline Allocator *wordsAllocator(Rank &r)
{
	ginCommInfo_t info = GIN_COMM_INFO_INIT;
	CHECK(ginCommQuery(r.comm, &info));
	return info.deviceAtomics ? ginMemAlloc : ginMemAllocHost;
}

/*
 * Many on a GPU, few on host threads, and on a GPU with FEW_ROUNDS=1: where the route is a slow
 * one.
 */
inline uint32_t roundsFor(const Rank &r, uint32_t few, uint32_t many)
{
	return r.device < 0 || getenv("FEW_ROUNDS") ? few : many;
}

struct Settle {
	ginDevComm dc;
	uint64_t *result;

	GIN_FN void operator()() const
	{
		*result = GinBarrier(dc, ginTeamWorld(dc), dc.barriers - 1).sync();
	}
};

/*
 * A barrier of all ranks after which all puts and signals of their kernels by this device
 * communicator are there: rule 10. Without it, the end of the kernels guarantees that only on a
 * route without queues.
 */
inline void settle(Rank &r, const Device &device)
{
	Results result(r, 1);
	launch(r, 1, 1, Settle{device.dc, result.words});
	EXPECT(result.all(ginSuccess));
}

#endif
