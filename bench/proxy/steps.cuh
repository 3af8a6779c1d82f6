// SPDX-License-Identifier: BSD-3-Clause
// steps.cuh - a post by the parts of gin/proxy/ring.cuh, one more in each row, to see which of them costs what
#ifndef GIN_BENCH_PROXY_STEPS_CUH
#define GIN_BENCH_PROXY_STEPS_CUH

#include "post.cuh"

enum Steps {
	stepWrite,    // a ticket, room, the descriptor into its place
	stepPosted,   // and what flush has to know
	stepTogether, // and who else posts along, and whether the peer is alive
	stepCalled    // all of that by a call that is not inline
};

// A released put of 8 bytes to this rank, whose descriptor is made beforehand.
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

template <Steps steps, bool alone> void measureSteps(Rank &r, const char *what)
{
	Window win(r, 65536);
	Device device(r, RING);
	Pinned<uint64_t> ns(1);

	timePosts(r, what, 1, PostSteps<steps, alone>{device.dc, win.win, ns.at},
		  [&r] { drainPosts(r); });
}

// Beside the rows of post.cuh: bare in front of them, Gin::put behind them.
inline void measurePostSteps(Rank &r)
{
	measureSteps<stepWrite, false>(r, "steps, released: ticket, room, descriptor");
	measureSteps<stepPosted, false>(r, "steps, released: and what flush has to know");
	measureSteps<stepTogether, false>(r, "steps, released: and who posts along, the peer");
	measureSteps<stepCalled, false>(r, "steps, released: by a call that is not inline");
	measureSteps<stepWrite, true>(r, "steps, released, alone: ticket, room, descriptor");
	measureSteps<stepPosted, true>(r, "steps, released, alone: and what flush has to know");
	measureSteps<stepTogether, true>(r, "steps, released, alone: and the peer");
	measureSteps<stepCalled, true>(r, "steps, released, alone: by a call that is not inline");
}

#endif
