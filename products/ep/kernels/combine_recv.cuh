/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * combine_recv.cuh - the sum of a token's rows, at the token's rank
 *
 * GIN_EP_REDUCE_NONE: weight * row, added in the order of k. GIN_EP_REDUCE_RANK: the ranks' sums,
 * added in the order of ranks. In float, rounded once. A lost rank's rows are left out.
 */
#ifndef GIN_EP_COMBINE_RECV_CUH
#define GIN_EP_COMBINE_RECV_CUH

#include "combine_send.cuh"

template <bool direct, uint32_t reduce> class EpCombineRecv : public EpList
{
	uint32_t epoch, half;
	uint32_t *absent;   /* [ranks]: gets no rows of this rank, or is lost */
	uint32_t *gone;	    /* [ranks]: is masked or lost */
	uint32_t *entries;  /* [GIN_EP_MAX_TOPK] of the token */
	uint32_t *bringers; /* [GIN_EP_MAX_TOPK]: rank of an item that brings a part, or EP_NONE */
	uint32_t *parts;    /* the number of sources */
	epSource *sources;  /* [GIN_EP_MAX_TOPK] */

public:
	GIN_FN EpCombineRecv(const epArgs &a, char *shared, bool isPlain = false)
	    : EpList(a, shared, isPlain), epoch(0), half(0)
	{
		sources = reinterpret_cast<epSource *>(scratch);
		entries = reinterpret_cast<uint32_t *>(sources + GIN_EP_MAX_TOPK);
		bringers = entries + GIN_EP_MAX_TOPK;
		parts = bringers + GIN_EP_MAX_TOPK;
		absent = parts + 1;
		gone = absent + ranks();
	}

	GIN_FN static size_t scratchBytes(const epPlan &plan)
	{
		return GIN_EP_MAX_TOPK * (sizeof(epSource) + 2 * sizeof(uint32_t)) +
		       (1 + 2 * plan.nRanks) * sizeof(uint32_t);
	}

	/* In a kernel that does not send. False: an earlier call has failed. */
	GIN_FN bool enter(uint32_t *sent)
	{
		if (stopped())
			return false;
		epGiveCredits<direct>(args, ginEpCallCombineRecv);
		*sent = epWordLoad(&call.handle->epoch[1]);
		return true;
	}

	/*
	 * EpDispatchRecv prepares scratch here, before receive(). A combine has nothing to prepare.
	 */
	GIN_FN void begin() const {}

	/* `sent`: the kernel has sent the epoch, too. */
	GIN_FN void receive(uint32_t ofSend, bool sent)
	{
		const uint32_t first = turnOf(receiveFirst());
		bool any = false;
		epoch = ofSend;
		half = epoch % 2;
		if (first < call.tokens && epTeam() == 0)
			findParts(first, false);
		GIN_NO_UNROLL
		for (uint32_t r = threads() - 1 - thread(); r < ranks(); r += threads())
			any = awaitRank(r) || any;
		/* The first token has fewer parts if a rank is lost. */
		bool found = !GinCta{}.any(any);
		GIN_NO_UNROLL
		for (uint32_t t = first; t < call.tokens; t += ginGridSize()) {
			if (!found)
				findPartsAgain(t);
			addToken(t);
			found = false;
		}
		leave(sent);
	}

private:
	/* The last block owes credits to the ranks whose parts have come. */
	GIN_FN void leave(bool sent) const
	{
		bool flagged;
		if (!isLast(ginEpCallCombineRecv, half, false, &flagged))
			return;
		GIN_NO_UNROLL
		for (uint32_t r = threads() - 1 - thread(); r < ranks(); r += threads())
			if (!gone[r])
				epOwe(plan, epPartsFree, half, r);
		if (sent && thread() == 0)
			advance(1, epoch);
	}

	/* True: the rank is lost, or masked. */
	GIN_FN bool awaitRank(uint32_t r) const
	{
		const uint64_t before = call.waitCost ? ginNow() : epTraceBegin(args);
		const uint32_t out = epMaskOf(plan, r);
		gone[r] =
			out || !epAwaitRows<direct>(args, ginEpCallCombineRecv, epParts, r, epoch);
		if (call.waitCost && ginBlockIndex() == 0)
			call.waitCost[r] += static_cast<int64_t>(ginNow() - before);
		if (epTraces(args) && ginBlockIndex() == 0 && !out)
			epTraceWaited(args, ginCallEpCombine, r, epoch, before, !gone[r]);
		return gone[r];
	}

	/* By all threads of the block, after the waits. */
	GIN_FN void findPartsAgain(uint32_t t) const
	{
		sync(); /* all threads have added the earlier parts */
		if (epTeam() == 0)
			findParts(t, true);
		sync();
	}

	/*
	 * The parts of a token, in the order of the sum. By one team of the block: on a GPU a lane
	 * for each item. `waited`: the block has waited for all ranks, and gone[] says which ones
	 * are lost.
	 */
#if GIN_ON_GPU
	GIN_FN void findParts(uint32_t t, bool waited) const
	{
		const uint32_t k = ginLane(), earlier = (1u << k) - 1, i = t * call.topk + k;
		const bool none = reduce == GIN_EP_REDUCE_NONE, has = k < call.topk;
		/* All loads are in flight before the first result is used. */
		const int64_t index = has ? indexAt(i) : -1;
		const float weight = none && has ? weightAt(i) : 1.0f;
		markAbsent(waited);
		bool bad;
		const uint32_t entry = laneEntry(index, k, lanesOfToken(), &bad);
		const uint32_t rank = entry == EP_NONE ? EP_NONE : epRankIn(entry);
		const bool first = !(__match_any_sync(0xffffffffu, rank) & earlier);
		const uint32_t bringer = none || first ? rank : EP_NONE;
		const bool present = bringer != EP_NONE && !absent[bringer];
		const uint32_t all = __ballot_sync(0xffffffffu, present);
		uint32_t before = 0, at = 0;
		GIN_NO_UNROLL
		for (uint32_t j = 0; j < call.topk; j++) {
			const uint32_t other =
				__shfl_sync(0xffffffffu, bringer, static_cast<int>(j));
			const bool less = none ? j < k : other < bringer;
			before += other != EP_NONE && less ? 1 : 0;
			at += all >> j & (less ? 1u : 0u);
		}
		if (present)
			sources[at] = {plan.own + epPartAt(plan, half, partOf(t, k, before)),
				       nullptr, weight};
		if (k == 0)
			*parts = epBits(all);
	}
#else
	GIN_FN void findParts(uint32_t t, bool waited) const
	{
		const uint32_t lane = epTeamLane(), lanes = epTeamSize();
		if (lane == 0) {
			*parts = 0;
			listToken(t, entries, 0);
		}
		markAbsent(waited);
		GIN_NO_UNROLL
		for (uint32_t k = lane; k < call.topk; k += lanes)
			bringers[k] = brings(k) ? epRankIn(entries[k]) : EP_NONE;
		epTeamSync();
		GIN_NO_UNROLL
		for (uint32_t k = lane; k < call.topk; k += lanes)
			findPart(t, k);
	}
#endif

	/* By one team: ranks that bring no part. */
	GIN_FN void markAbsent(bool waited) const
	{
		GIN_NO_UNROLL
		for (uint32_t r = epTeamLane(); r < ranks(); r += epTeamSize())
			absent[r] = sentOf(call.handle)[r] == 0 || (waited && gone[r]);
		epTeamSync();
	}

	GIN_FN void addToken(uint32_t t) const
	{
		char *out = call.out.data + t * call.out.inner;
		const uint32_t n = *parts;
		GIN_NO_UNROLL
		for (uint32_t p = thread(); p < call.hidden / 8; p += threads()) {
			epEight eight = {};
			eight.addRows(sources, n, p);
			epPieceStore(out + p * 16, eight.rounded());
		}
	}

	/* Does item k bring a part: the item itself, or the sum of its rank? */
	GIN_FN bool brings(uint32_t k) const
	{
		const uint32_t entry = entries[k];
		if (entry == EP_NONE)
			return false;
		return reduce == GIN_EP_REDUCE_NONE || firstEntry(k);
	}

	/* Is part j before part k in the sum? */
	GIN_FN bool before(uint32_t j, uint32_t k) const
	{
		if (bringers[j] == EP_NONE)
			return false;
		return reduce == GIN_EP_REDUCE_NONE ? j < k : bringers[j] < bringers[k];
	}

	/* The part that item k brings, if it brings one: sources are in the order of the sum. */
	GIN_FN void findPart(uint32_t t, uint32_t k) const
	{
		if (bringers[k] == EP_NONE || absent[bringers[k]])
			return;
		uint32_t ranksBefore = 0, index = 0;
		GIN_NO_UNROLL
		for (uint32_t j = 0; j < call.topk; j++) {
			if (!before(j, k))
				continue;
			ranksBefore++;
			index += absent[bringers[j]] ? 0 : 1;
		}
		const bool none = reduce == GIN_EP_REDUCE_NONE;
		sources[index] = {
			plan.own + epPartAt(plan, half, partOf(t, k, ranksBefore)), nullptr,
			none && call.topkWeights ? call.topkWeights[t * call.topk + k] : 1.0f};
		epScratchAdd(parts, 1);
	}

	/*
	 * The row in parts of item k, whose rank comes after `ranksBefore` ranks of the token; see
	 * epItemParts.
	 */
	GIN_FN uint32_t partOf(uint32_t t, uint32_t k, uint32_t ranksBefore) const
	{
		const bool none = reduce == GIN_EP_REDUCE_NONE;
		if (direct)
			return t * plan.partsOfToken + (none ? k : ranksBefore);
		const epItemParts at = epItemPartsIn(plan, call.handle)[t * call.topk + k];
		const uint32_t part = none ? at.item : at.sum;
		return part < plan.maxTokens * plan.partsOfToken ? part
								 : 0; /* a handle of another K */
	}

	/* Is no item before k at its rank? */
	GIN_FN bool firstEntry(uint32_t k) const
	{
		bool any = false;
		GIN_NO_UNROLL
		for (uint32_t j = 0; j < k; j++)
			any |= epRankIn(entries[j]) == epRankIn(entries[k]);
		return !any;
	}
};

#endif
