// SPDX-License-Identifier: BSD-3-Clause
// steps.cuh - a post by the functions of gin/proxy/ring.cuh, with one more step in each row
#ifndef GIN_BENCH_PROXY_STEPS_CUH
#define GIN_BENCH_PROXY_STEPS_CUH

#include "post.cuh"

enum Steps {
	stepWrite,    // take a ticket, check for room, write the descriptor
	stepPosted,   // also record the post, for flush
	stepTogether, // also find threads that post together, and check that the peer is alive
	stepCalled    // all steps, by a function call that is not inlined
};

// Puts of 8 bytes to this rank, without a fence. The descriptor is made before the loop.
template <Steps steps, bool alone> struct PostSteps {
	ginDevComm dc;
	ginWindow_t win;
	uint64_t *ns;

	__device__ ginPostedAs byHand(const ginReadyCall &call, const ginRing &ring) const
	{
		ginPosting p = {call.describe(), ring, nullptr, ginRingReserve(ring, 1)};

		if (!ginRingKeep(ring, p.ticket, 1, ginRingConsumed(ring)))
			return {0, ginPostedFull, ginSuccess};
		ginRingWrite(&p, p.d.word[0]);
		if (steps >= stepPosted)
			ginRingRecordPosted(ring, ginDescriptorPeer(p.d), p.ticket + 1);
		return ginPostedResult(&p, ginPostedOk, &dc.abortLine->word);
	}

	__device__ ginPostedAs post(const ginReadyCall &call, const ginRing &ring,
				    const ginPeer *to) const
	{
		if constexpr (steps == stepCalled)
			return ginPostNowCold<alone>(call, ring, to, &dc.abortLine->word);
		else if constexpr (steps == stepTogether)
			return ginPostNow<alone>(call, ring, to, &dc.abortLine->word);
		else
			return byHand(call, ring);
	}

	__device__ void operator()() const
	{
		const int self = static_cast<int>(dc.rank);
		const ginRing ring = ginRingOf(dc, 0, alone);
		const ginSource source = ginSourceIn(win, 4096);
		const ginReadyCall call = {
			ginDescribePut(self, ginDescribeOffset(win, threadIdx.x * 8), source, 8,
				       ginSignalOf(GinNone{}), UINT32_MAX),
			ginScopeThread};
		uint64_t start = ginNow();

		for (uint32_t i = 0; i < POSTS / ginBlockSize(); i++)
			if (post(call, ring, dc.peers + self).posted != ginPostedOk)
				return;
		uint64_t took = ginNow() - start;
		if (threadIdx.x == 0)
			*ns = took;
	}
};

template <Steps steps, bool alone> void measureSteps(ProxyRank &r, const char *what)
{
	ProxyWindow win(r, 65536);
	ProxyDevComm device(r, RING);
	Pinned<uint64_t> ns(1);

	timePosts(r, what, 1, PostSteps<steps, alone>{device.dc, win.win, ns.at},
		  [&r] { drainPosts(r); });
}

// Rows between two rows of post.cuh: the post by hand (bare), and Gin::put.
inline void measurePostSteps(ProxyRank &r)
{
	measureSteps<stepWrite, false>(r, "steps, released: ticket, room, descriptor");
	measureSteps<stepPosted, false>(r, "steps, released: also record the post for flush");
	measureSteps<stepTogether, false>(r, "steps, released: also post together, check the peer");
	measureSteps<stepCalled, false>(r, "steps, released: all, by a function call");
	measureSteps<stepWrite, true>(r, "steps, released, alone: ticket, room, descriptor");
	measureSteps<stepPosted, true>(r, "steps, released, alone: also record the post for flush");
	measureSteps<stepTogether, true>(r, "steps, released, alone: also check the peer");
	measureSteps<stepCalled, true>(r, "steps, released, alone: all, by a function call");
}

#endif
