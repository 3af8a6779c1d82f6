/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ht.cuh - common to the kernels of high throughput: waits for words, slots, places
 *
 * A failure is one of this rank: it ends all waits of this rank, and leaves a mark at the other
 * ranks, which ends their waits for it.
 */
#ifndef GIN_EP_HT_CUH
#define GIN_EP_HT_CUH

#include "list.cuh"

/* This rank has failed: its later kernels return at once, and peers stop waiting for it. */
GIN_FN_COLD void epHtStop(const epArgs &args, ginResult_t result)
{
	const epPlan &plan = args.plan;
	if (!epWordSetOnce(&plan.state->failed, result))
		return;
	epPageStore(&plan.page->failed, result);
	GIN_NO_UNROLL
	for (uint32_t r = 0; r < plan.nRanks && result != ginErrorAborted; r++)
		if (r != plan.rank)
			ginDirectStore(epSlabOf(plan, r) + epMarkAt(plan, plan.rank), uint64_t{1});
}

/* The first failure of a kernel; `rank` -1: no rank's fault but this one's. */
GIN_FN_COLD void epHtFail(const epArgs &args, uint32_t number, int32_t rank, ginResult_t result,
			  uint32_t epoch, uint64_t expected, uint64_t seen)
{
	const epPlan &plan = args.plan;
	epRecord(args, number, rank, result, epoch, expected, seen);
	if (rank >= 0) {
		epWordStore(&plan.observed[rank], 1);
		epPageStore(&plan.pageObserved[rank], 1);
	}
	epHtStop(args, result);
}

/* Has the word its tag? Looks again after a mark, which may come with the word. L. */
GIN_FN_COLD bool epHtAwaitLong(const epArgs &args, uint32_t number, uint32_t from, size_t at,
			       uint32_t tag, uint32_t epoch)
{
	const epPlan &plan = args.plan;
	const uint64_t expected = uint64_t{tag} << 32;
	ginPoll poll = ginPollStart(args.dc, epFrom(args, from));
	ginResult_t result = ginSuccess;
	bool marked = false;
	uint64_t seen;
	while (seen = epTaggedLoad(plan.own + at), seen >> 32 != tag) {
		if (epWordLoad(&plan.state->failed))
			return false;
		if (!marked && (result = ginPollStep(poll)) == ginSuccess) {
			marked = epTaggedLoad(plan.own + epMarkAt(plan, from)) != 0;
			continue;
		}
		if (marked)
			result = ginErrorPeer, seen = expected + EP_GAVE_UP;
		epHtFail(args, number, static_cast<int32_t>(from), result, epoch, expected, seen);
		return false;
	}
	return true;
}

class EpHt : public EpBlock
{
protected:
	const epHtPlan &ht;
	const epHtCall &call;
	epHtHandle *const handle;
	const uint32_t number; /* enum ginEpCall */
	uint32_t epoch;

	/* Where rows of this rank go at a rank: the first one and its meta. In scratch. */
	struct Place {
		char *row, *meta;
	};
	Place *const places; /* [ranks] */

	GIN_FN EpHt(const epArgs &a, char *shared, uint32_t n)
	    : EpBlock(a, shared), ht(a.ht.plan), call(a.ht.call), handle(call.handle), number(n),
	      epoch(0), places(reinterpret_cast<Place *>(shared))
	{
	}

public:
	static constexpr uint32_t perSm = 1;

	GIN_FN static size_t scratchBytes(const epPlan &plan)
	{
		return plan.nRanks > GIN_EP_HT_MAX_RANKS ? 0 /* not run */
							 : plan.nRanks * sizeof(Place);
	}

protected:
	/* 0: dispatch, 1: combine. */
	GIN_FN uint32_t which() const { return number == ginEpCallHtCombine ? 1 : 0; }

	/* One thread waits for the word of `from` with the tag; *value: its value. */
	GIN_FN bool await(uint32_t from, size_t at, uint32_t tag, uint32_t *value) const
	{
		uint64_t seen = 0;
		GIN_NO_UNROLL
		for (uint32_t look = 0; look < EP_LOOKS && seen >> 32 != tag; look++)
			seen = epTaggedLoad(plan.own + at);
		if (seen >> 32 != tag) {
			if (!epHtAwaitLong(args, number, from, at, tag, epoch))
				return false;
			seen = epTaggedLoad(plan.own + at);
		}
		*value = static_cast<uint32_t>(seen);
		return true;
	}

	/*
	 * A word at a rank, with the tag of this epoch. L, release end: on a GPU the caller has
	 * made a fence to the system.
	 */
	GIN_FN void post(uint32_t rank, size_t at, uint32_t value) const
	{
		epTagStore(epSlabOf(plan, rank) + at, uint64_t{epoch + 1} << 32 | value);
	}

	/* The row of token t among this rank's rows at rank r; EP_NONE: it does not go there. */
	GIN_FN uint32_t slotOf(uint32_t t, uint32_t r) const
	{
		const epHtPair pair = epHtPairsOf(plan, handle, t / EP_HT_GROUP)[r];
		const uint32_t bit = 1u << t % EP_HT_GROUP;
		return pair.bits & bit ? pair.before + epBits(pair.bits & (bit - 1)) : EP_NONE;
	}

	/*
	 * Does the handle fit the call, and have tensors and pool room for n rows? By all threads,
	 * alike.
	 */
	GIN_FN bool begin()
	{
		epoch = epWordLoad(&plan.state->epoch[which()]);
		const uint32_t most = ht.rows < call.room ? ht.rows : call.room;
		const bool fits = handle->tag == EP_HT_TAG && handle->tokens == call.tokens;
		if (fits && handle->rows <= most)
			return true;
		if (ginBlockIndex() == 0 && thread() == 0)
			epHtFail(args, number, -1,
				 fits ? ginErrorInvalidArgument : ginErrorInvalidUsage, epoch,
				 fits ? handle->rows : call.tokens, fits ? most : handle->tokens);
		return false;
	}

	/* What has to be equal at both ends of a row. */
	GIN_FN uint32_t shape() const
	{
		const uint32_t sizes = call.rowBytes / 16 * 8191 + call.metaBytes / 4;
		return sizes + handle->epoch * 2654435761u;
	}

	/*
	 * Tells all ranks where their rows begin in the pool. It is free: this rank's earlier
	 * kernels have ended. By block 0.
	 */
	GIN_FN void postPlaces() const
	{
		ginFence<ginScopeSystem>();
		GIN_NO_UNROLL
		for (uint32_t r = thread(); r < ranks(); r += threads()) {
			const size_t at = epHtPlaceAt(plan, ht, which(), epoch % 2, plan.rank);
			post(r, at, epHtStartOf(plan, handle)[r]);
			post(r, at + sizeof(uint64_t), shape());
		}
	}

	/*
	 * Waits for the places of all ranks: no rank reads any more what an earlier call has put
	 * into a pool. False: a rank is lost, or its rows are others.
	 */
	GIN_FN bool awaitPlaces() const
	{
		bool lost = false;
		GIN_NO_UNROLL
		for (uint32_t r = thread(); r < ranks(); r += threads())
			lost = !awaitPlace(r) || lost;
		return !GinCta{}.any(lost);
	}

	/* The last block gets true: all blocks have come here. By all threads of the block. T. */
	GIN_FN bool isLastBlock() const
	{
		bool flagged;
		return isLast(number - ginEpCallHtNotify + 1, 0, false, &flagged);
	}

	GIN_FN bool hasFailed() const { return epWordLoad(&plan.state->failed) != 0; }

private:
	GIN_FN bool awaitPlace(uint32_t r) const
	{
		const size_t at = epHtPlaceAt(plan, ht, which(), epoch % 2, r);
		uint32_t start, other;
		if (!await(r, at, epoch + 1, &start) ||
		    !await(r, at + sizeof(uint64_t), epoch + 1, &other))
			return false;
		if (other != shape()) {
			epHtFail(args, number, static_cast<int32_t>(r), ginErrorInvalidArgument,
				 epoch, shape(), other);
			return false;
		}
		char *const slab = epSlabOf(plan, r);
		places[r] = {slab + ht.poolAt + size_t{start} * call.rowBytes,
			     slab + ht.metaAt + size_t{start} * call.metaBytes};
		return true;
	}
};

#endif
