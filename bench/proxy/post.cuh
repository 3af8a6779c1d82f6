// SPDX-License-Identifier: BSD-3-Clause
// post.cuh - what a post costs the threads that make it; the ring never fills
//
// With GIN_PROXY_THREADS=0 nobody takes descriptors while they are posted, as nobody takes those of the
// other shapes; with a proxy thread a CPU reads the lines that the GPU writes.
#ifndef GIN_BENCH_PROXY_POST_CUH
#define GIN_BENCH_PROXY_POST_CUH

#include "raw.cuh"

enum { POSTS = 16384, RING = 65536 };

template <Shape shape> struct PostRaw {
	char *ring;
	uint64_t *payload, *ns;

	__device__ void operator()() const
	{
		uint64_t start = ginNow();
		for (uint32_t i = 0; i < POSTS; i++) {
			payload[i & 15] = i;
			postRaw<shape>(ring + static_cast<size_t>(i) * bytesOf(shape), i + 1);
		}
		*ns = ginNow() - start;
	}
};

// Runs it some times, and `between` them and after the last.
template <class Body, class Between>
void timePosts(Rank &r, const char *what, uint32_t threads, const Body &body, Between between)
{
	std::vector<double> each;

	for (int i = 0; i < 7; i++) {
		launch(r, 1, threads, body);
		each.push_back(static_cast<double>(*body.ns) / POSTS);
		between();
	}
	say(r, what, median(each), "ns");
}

template <Shape shape> void measureRaw(Rank &r, const char *what)
{
	Pinned<char> ring(static_cast<size_t>(POSTS) * 128);
	Pinned<uint64_t> ns(1);
	uint64_t *payload;

	CUDA(cudaMalloc(&payload, 4096));
	timePosts(r, what, 1, PostRaw<shape>{ring.at, payload, ns.at}, [] {});
	cudaFree(payload);
}

// The order that a post of many threads needs, by hand: a ticket for all who come together, room, the
// release of the payload and 64 bytes.
template <bool released> struct PostBare {
	char *ring;
	uint64_t *payload, *words, *ns; // words: the next ticket, and how many have left the ring

	__device__ void operator()() const
	{
		uint32_t lane = threadIdx.x % 32, posters = min(blockDim.x, 32);
		uint64_t start = ginNow();
		for (uint32_t i = 0; i < POSTS / blockDim.x; i++) {
			if (!released)
				payload[threadIdx.x] = i;
			uint64_t first = 0, taken = 0;
			if (lane == 0) {
				first = ginTicketAdd(words, posters);
				taken = ginShadowObserve(words + 16);
			}
			if (!released)
				asm volatile("fence.acq_rel.gpu;" ::: "memory");
			if (posters > 1)
				first = __shfl_sync(~0u, first, 0);
			if (lane == 0 && first + posters - taken > RING)
				return;
			uint64_t place = (first + lane) % RING;
			postRaw<shapeRelaxed64>(ring + place * 64, (first + lane) / RING + 1);
		}
		uint64_t took = ginNow() - start;
		if (threadIdx.x == 0)
			*ns = took;
	}
};

template <bool released> void measureBare(Rank &r, const char *what, uint32_t threads)
{
	Pinned<char> ring(static_cast<size_t>(RING) * 64);
	Pinned<uint64_t> ns(1);
	uint64_t *words;
	auto empty = [&words] { CUDA(cudaMemset(words, 0, 8192)); };

	CUDA(cudaMalloc(&words, 8192));
	empty();
	timePosts(r, what, threads, PostBare<released>{ring.at, words + 512, words, ns.at}, empty);
	cudaFree(words);
}

// Puts of 8 bytes to this rank, each by a thread of its own.
struct PostPuts {
	ginDevComm dc;
	ginWindow_t win;
	uint64_t *payload, *ns;
	ginSharing sharing;
	bool released;

	__device__ void operator()() const
	{
		Gin gin(dc, 0, sharing);
		ginOptions options;
		if (released)
			options.given = ginScopeSystem;
		int self = static_cast<int>(dc.rank);
		uint64_t start = ginNow();
		for (uint32_t i = 0; i < POSTS / ginBlockSize(); i++) {
			if (!released)
				payload[threadIdx.x] = i;
			gin.put(self, win, threadIdx.x * 8, win, 4096, 8, GinNone{}, GinNone{},
				GinThread{}, options);
		}
		uint64_t took = ginNow() - start;
		if (threadIdx.x == 0)
			*ns = took;
	}
};

// All that was posted is done.
inline void drainPosts(Rank &r)
{
	for (int did = 1; did;)
		CHECK(ginCommProgress(r.comm, &did));
}

inline void measurePuts(Rank &r, const char *what, uint32_t threads, ginSharing sharing,
			bool released)
{
	Window win(r, 65536);
	Device device(r, RING);
	Pinned<uint64_t> ns(1);

	timePosts(r, what, threads,
		  PostPuts{device.dc, win.win, reinterpret_cast<uint64_t *>(win.ptr + 8192), ns.at,
			   sharing, released},
		  [&r] { drainPosts(r); });
}

inline void measurePosts(Rank &r)
{
	measureRaw<shapeRelaxed16>(r, "post, 16 B relaxed, no ticket, no fence");
	measureRaw<shapeRelease16>(r, "post, 16 B st.release.sys (MSCCL++'s shape), no ticket");
	measureRaw<shapeRelaxed64>(r, "post, 64 B relaxed, no ticket, no fence");
	measureRaw<shapeGpu64>(r, "post, fence.gpu + 64 B, no ticket");
	measureRaw<shapeSystem128>(r, "post, fence.sys + 128 B (NCCL's shape), no ticket");
	measureBare<false>(r, "post, ticket, room, fence.gpu + 64 B, one thread (bare)", 1);
	measureBare<true>(r, "post, ticket, room, 64 B, one thread (bare)", 1);
	measureBare<true>(r, "post, ticket, room, 64 B, each of 32 threads (bare)", 32);
	measurePuts(r, "put, one thread", 1, ginSharingGpu, false);
	measurePuts(r, "put, one thread, alone on the context", 1, ginSharingThread, false);
	measurePuts(r, "put, one thread, released", 1, ginSharingGpu, true);
	measurePuts(r, "put, one thread, released, alone", 1, ginSharingThread, true);
	measurePuts(r, "put, each of a warp's 32 threads", 32, ginSharingGpu, false);
	measurePuts(r, "put, each of a warp's 32 threads, released", 32, ginSharingGpu, true);
	measurePuts(r, "put, each of 256 threads, released", 256, ginSharingGpu, true);
}

// The same while a CPU takes them.
inline void measureTaken(Rank &r)
{
	measurePuts(r, "put, one thread, taken meanwhile", 1, ginSharingGpu, false);
	measurePuts(r, "put, one thread, released, alone, taken meanwhile", 1, ginSharingThread,
		    true);
	measurePuts(r, "put, each of a warp's 32 threads, taken meanwhile", 32, ginSharingGpu,
		    false);
}

#endif
