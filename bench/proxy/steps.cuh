// SPDX-License-Identifier: BSD-3-Clause
// steps.cuh - a post by the functions of gin/proxy/ring.cuh, with one more step in each row
#ifndef GIN_BENCH_PROXY_STEPS_CUH
#define GIN_BENCH_PROXY_STEPS_CUH

#include "post.cuh"

enum Steps {
	stepWrite,    // take a ticket, check for room, write the descriptor
	stepPosted,   // also record the post, for flush
	stepTogether, // also find threads that post together, and check that the peer is alive
	stepCalled // all steps, by the function that Gin::put calls, which makes the descriptor too
};

// Puts of 8 bytes to this rank, without a fence. The descriptor is made before the loop.
template <Steps steps, bool alone> struct PostSteps {
	ginDevComm dc;
	ginWindow_t win;
	uint64_t *ns;

	__device__ uint64_t byHand(const ginReadyCall &call, ginQueue *queue) const
	{
		const uint64_t ticket = ginRingReserve<alone>(queue, 1);
		const uint64_t consumed = ginRingConsumed<alone>(queue);
		const ginRing ring = ginRingOf(queue);

		if (!ginRingKeep<alone>(ring, ticket, 1, consumed))
			return GIN_POSTED_FULL;
		ginRingWrite(ring, ticket, call.d, true);
		if (steps >= stepPosted)
			ginRingRecordPosted(ring, ginDescriptorPeer(call.d), ticket + 1);
		return ticket + 1;
	}

	__device__ uint64_t post(const ginReadyCall &call, ginQueue *queue, const ginPeer *to,
				 int self, uint64_t at) const
	{
		if constexpr (steps == stepCalled)
			return ginProxyPut(alone, queue, to, how(), self, win.table, at,
					   reinterpret_cast<uint64_t>(win.table), 4096ull, 8ull,
					   nullptr, 0ull, 0ull, UINT32_MAX);
		else if constexpr (steps == stepTogether)
			return ginPostNow<alone>(call, queue, to, 0);
		else
			return byHand(call, queue);
	}

	__device__ uint32_t how() const
	{
		ginOptions released;
		released.given = ginScopeSystem;
		return ginHow(ginCallPut, alone ? ginSharingThread : ginSharingGpu,
			      ginSignalOf(GinNone{}), released);
	}

	__device__ void operator()() const
	{
		const int self = static_cast<int>(dc.rank);
		const uint64_t at = threadIdx.x * 8;
		const ginSource source = ginSourceIn(win, 4096);
		const ginReadyCall call = {ginDescribePut(self, ginDescribeOffset(win, at), source,
							  8, ginSignalOf(GinNone{}), UINT32_MAX),
					   ginScopeThread};
		uint64_t start = ginNow();

		for (uint32_t i = 0; i < POSTS / ginBlockSize(); i++)
			if (post(call, dc.queues, dc.peers + self, self, at) & GIN_QUEUE_FAILED)
				return;
		uint64_t took = ginNow() - start;
		if (threadIdx.x == 0)
			*ns = took;
	}
};

template <Steps steps, bool alone> void measureSteps(Rank &r, const char *what)
{
	Buffer win(r, 65536);
	Device device(r, 1, 1, RING);
	Pinned<uint64_t> ns(1);

	timePosts(r, what, 1, PostSteps<steps, alone>{device.dc, win.window, ns.at},
		  [&r] { drainPosts(r); });
}

// Rows between two rows of post.cuh: the post by hand (bare), and Gin::put.
inline void measurePostSteps(Rank &r)
{
	measureSteps<stepWrite, false>(r, "steps, released: ticket, room, descriptor");
	measureSteps<stepPosted, false>(r, "steps, released: also record the post for flush");
	measureSteps<stepTogether, false>(r, "steps, released: also post together, check the peer");
	measureSteps<stepCalled, false>(r, "steps, released: all, without class Gin");
	measureSteps<stepWrite, true>(r, "steps, released, alone: ticket, room, descriptor");
	measureSteps<stepPosted, true>(r, "steps, released, alone: also record the post for flush");
	measureSteps<stepTogether, true>(r, "steps, released, alone: also check the peer");
	measureSteps<stepCalled, true>(r, "steps, released, alone: all, without class Gin");
}

#endif
