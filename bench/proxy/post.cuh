// SPDX-License-Identifier: BSD-3-Clause
// post.cuh - what a post costs the posting threads; the ring never fills
//
// With GIN_PROXY_THREADS=0 no CPU reads descriptors while they are posted, as in the measurements
// of other proxies' shapes. With a proxy thread, a CPU reads the lines that the GPU writes.
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

// Runs the body several times, and between() after each run. ROWS=word: only rows whose name has
// the word.
template <class Body, class Between>
void timePosts(Rank &r, const char *what, uint32_t threads, const Body &body, Between between)
{
	const char *only = getenv("ROWS");
	std::vector<double> each;

	if (only && !strstr(what, only))
		return;
	for (int i = 0; i < 7; i++) {
		launch(r, 1, threads, body);
		each.push_back(static_cast<double>(*body.ns) / POSTS);
		between();
	}
	printRow(r, what, median(each), "ns");
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

// A post by hand, with the steps that a shared ring needs: a ticket for all lanes that post
// together, a check for room, a release of the payload unless `released`, and 64 bytes.
template <bool released> struct PostBare {
	char *ring;
	uint64_t *payload, *words, *ns; // words: next ticket; at 16, the number of consumed ones

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
			uint64_t slot = (first + lane) % RING;
			postRaw<shapeRelaxed64>(ring + slot * 64, (first + lane) / RING + 1);
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

// Each thread puts 8 bytes to this rank, again and again. What it promises is known to the
// compiler, as in most kernels. `routes`: of the kernel.
template <ginSharing sharing, bool released, uint32_t routes = GIN_ROUTES_ALL> struct PostPuts {
	ginDevComm dc;
	ginWindow_t win;
	uint64_t *payload, *ns;

	__device__ void operator()() const
	{
		GinOn<routes> gin(dc, 0, sharing);
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

// Completes all posted descriptors.
inline void drainPosts(Rank &r)
{
	for (int did = 1; did;)
		CHECK(ginCommProgress(r.comm, &did));
}

template <ginSharing sharing, bool released, uint32_t routes = GIN_ROUTES_ALL>
void measurePuts(Rank &r, const char *what, uint32_t threads)
{
	Buffer win(r, 65536);
	Device device(r, 1, 1, RING);
	Pinned<uint64_t> ns(1);

	timePosts(r, what, threads,
		  PostPuts<sharing, released, routes>{device.dc, win.window,
						      reinterpret_cast<uint64_t *>(win.ptr + 8192),
						      ns.at},
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
	measurePuts<ginSharingGpu, false>(r, "put, one thread", 1);
	measurePuts<ginSharingThread, false>(r, "put, one thread, alone on the context", 1);
	measurePuts<ginSharingGpu, true>(r, "put, one thread, released", 1);
	measurePuts<ginSharingThread, true>(r, "put, one thread, released, alone", 1);
	measurePuts<ginSharingGpu, false, GIN_ROUTES_PROXY>(r, "put, one thread, GinOn<PROXY>", 1);
	measurePuts<ginSharingThread, true, GIN_ROUTES_PROXY>(
		r, "put, one thread, released, alone, GinOn<PROXY>", 1);
	measurePuts<ginSharingGpu, false>(r, "put, each of a warp's 32 threads", 32);
	measurePuts<ginSharingGpu, true>(r, "put, each of a warp's 32 threads, released", 32);
	measurePuts<ginSharingGpu, true>(r, "put, each of 256 threads, released", 256);
}

// Puts while a proxy thread consumes the descriptors.
inline void measureTaken(Rank &r)
{
	measurePuts<ginSharingGpu, false>(r, "put, one thread, taken meanwhile", 1);
	measurePuts<ginSharingThread, true>(r, "put, one thread, released, alone, taken meanwhile",
					    1);
	measurePuts<ginSharingGpu, false>(r, "put, each of a warp's 32 threads, taken meanwhile",
					  32);
}

#endif
