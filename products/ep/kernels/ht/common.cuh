/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * common.cuh - common to the kernels of high throughput: waits for words, slots, places
 *
 * A failure is one of this rank: it ends all waits of this rank, and leaves a mark at the other
 * ranks, which ends their waits for it.
 */
#ifndef GIN_EP_HT_CUH
#define GIN_EP_HT_CUH

#include "../list.cuh"
#include "move.cuh"

/* Several domains: ends the waits of rail peers for this rank, and waits of this rank for them. */
GIN_FN_COLD void epHtMarkRail(const epArgs &args);

/*
 * This rank has failed: its later kernels return at once, and peers stop waiting for it. `rail`:
 * there are several domains.
 */
template <bool rail> GIN_FN_COLD void epHtStop(const epArgs &args, ginResult_t result)
{
	const epPlan &plan = args.plan;
	const uint32_t first = rail ? args.ht.plan.firstPeer : 0;
	const uint32_t end = rail ? first + args.ht.plan.domainSize : plan.nRanks;
	if (!epWordSetOnce(&plan.state->failed, result))
		return;
	epPageStore(&plan.page->failed, result);
	GIN_NO_UNROLL
	for (uint32_t r = first; r < end && result != ginErrorAborted; r++)
		if (r != plan.rank)
			ginDirectStore(epSlabOf(plan, r) + epMarkAt(plan, plan.rank), uint64_t{1});
	if (rail && result != ginErrorAborted)
		epHtMarkRail(args);
}

/* The first failure of a kernel; `rank` -1: no rank's fault but this one's. */
template <bool rail> GIN_FN_COLD void epHtFail(const epArgs &args, uint32_t number, int32_t rank,
					       ginResult_t result, uint32_t epoch,
					       uint64_t expected, uint64_t seen)
{
	const epPlan &plan = args.plan;
	epRecord(args, number, rank, result, epoch, expected, seen);
	if (rank >= 0) {
		epWordStore(&plan.observed[rank], 1);
		epPageStore(&plan.pageObserved[rank], 1);
	}
	epHtStop<rail>(args, result);
}

/*
 * Several domains: a wait may depend on a rank that waits itself for the rank that is lost. It has
 * so many times the limit: the rank that is nearest to the lost one gives up first, and names it.
 */
#define EP_HT_PATIENT_RAIL 2u	 /* for a rail peer, which may wait for its domain */
#define EP_HT_PATIENT_FORWARD 3u /* for what a peer forwards */

GIN_FN ginOptions epHtFrom(const epArgs &args, uint32_t rank, uint32_t times)
{
	ginOptions options = epFrom(args, rank);
	if (args.plan.timeout && args.plan.timeout < GIN_FOREVER / 8)
		options.timeout = args.plan.timeout * times;
	return options;
}

/* Has the word its tag? Looks again after a mark, which may come with the word. L. */
template <bool rail, uint32_t times>
GIN_FN_COLD bool epHtAwaitLong(const epArgs &args, uint32_t number, uint32_t from, size_t at,
			       uint32_t tag, uint32_t epoch)
{
	const epPlan &plan = args.plan;
	const uint64_t expected = uint64_t{tag} << 32;
	ginPoll poll =
		ginPollStart(args.dc, times > 1 ? epHtFrom(args, from, times) : epFrom(args, from),
			     {epTraceCall(number), 0, from, from});
	ginResult_t result = ginSuccess;
	bool marked = false;
	uint64_t seen;
	while (seen = epTaggedLoad(plan.own + at), seen >> 32 != tag) {
		if (epWordLoad(&plan.state->failed))
			return false;
		if (!marked && (result = ginPollStep(poll, tag, seen >> 32)) == ginSuccess) {
			marked = epTaggedLoad(plan.own + epMarkAt(plan, from)) != 0;
			continue;
		}
		if (marked)
			result = ginErrorPeer, seen = expected + EP_GAVE_UP;
		epHtFail<rail>(args, number, static_cast<int32_t>(from), result, epoch, expected,
			       seen);
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
	const bool rail;       /* known at compile time: there are several domains */
	uint32_t epoch;
	uint32_t ends; /* shape() */

	/*
	 * Where rows go in a pool: the first one and its meta. In scratch. [r]: this rank's rows at
	 * rank r. Several domains: rows of the rail peer in the domain of r, at nearOf(r).
	 */
	epHtTo *const places; /* [ranks] */

	GIN_FN EpHt(const epArgs &a, char *shared, uint32_t n, bool isRail = false)
	    : EpBlock(a, shared), ht(a.ht.plan), call(a.ht.call), handle(call.handle), number(n),
	      rail(isRail), epoch(0), ends(0), places(reinterpret_cast<epHtTo *>(shared))
	{
	}

public:
	static constexpr uint32_t perSm = 1;
	static constexpr uint32_t mostThreads = EP_HT_THREADS;

	GIN_FN static size_t scratchBytes(const epPlan &plan)
	{
		return plan.nRanks > GIN_EP_HT_MAX_RANKS ? 0 /* not run */
							 : plan.nRanks * sizeof(epHtTo);
	}

protected:
	/* 0: dispatch, 1: combine. */
	GIN_FN uint32_t which() const { return number == ginEpCallHtCombine ? 1 : 0; }

	/* The ranks with direct routes: firstPeer() to firstPeer() + peers() - 1. */
	GIN_FN uint32_t firstPeer() const { return rail ? ht.firstPeer : 0; }
	GIN_FN uint32_t peers() const { return rail ? ht.domainSize : ranks(); }

	/*
	 * The direct peer that writes the words and rows of source r here, and reads what this rank
	 * has for r: the one of this domain whose rail peer is r.
	 */
	GIN_FN uint32_t nearOf(uint32_t r) const
	{
		return rail ? ht.firstPeer + r % ht.domainSize : r;
	}

	/* Does the rank belong to another domain? */
	GIN_FN bool isFar(uint32_t r) const { return rail && r / ht.domainSize != ht.domain; }

	/* The index at nearOf(r) of words by this rank about rows of source r. */
	GIN_FN uint32_t indexAtNear(uint32_t r) const { return r - nearOf(r) + plan.rank; }

	GIN_FN void fail(int32_t rank, ginResult_t result, uint64_t expected, uint64_t seen) const
	{
		if (rail)
			epHtFail<true>(args, number, rank, result, epoch, expected, seen);
		else
			epHtFail<false>(args, number, rank, result, epoch, expected, seen);
	}

	/*
	 * One thread waits for the word of `from` with the tag; *value: its value. `forwarded`: it
	 * comes from another domain.
	 */
	GIN_FN bool await(uint32_t from, size_t at, uint32_t tag, uint32_t *value,
			  bool forwarded = false) const
	{
		uint64_t seen = 0;
		GIN_NO_UNROLL
		for (uint32_t look = 0; look < EP_LOOKS && seen >> 32 != tag; look++)
			seen = epTaggedLoad(plan.own + at);
		if (seen >> 32 != tag) {
			if (!awaitLong(from, at, tag, forwarded))
				return false;
			seen = epTaggedLoad(plan.own + at);
		}
		*value = static_cast<uint32_t>(seen);
		return true;
	}

	/* Leaves a record for GIN_TRACE. */
	GIN_FN void waited(uint32_t from, uint64_t began, bool come) const
	{
		epTraceWaited(args, epTraceCall(number), from, epoch, began, come);
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
		return slotIn(epHtPairsOf(plan, handle, t / EP_HT_GROUP)[r], t % EP_HT_GROUP);
	}

	/* The row of a group's token `n`. */
	GIN_FN static uint32_t slotIn(const epHtPair pair, uint32_t n)
	{
		const uint32_t bit = 1u << n;
		return pair.bits & bit ? pair.before + epBits(pair.bits & (bit - 1)) : EP_NONE;
	}

	/*
	 * Has no call failed, does the handle fit the call, and have tensors and pool room for n
	 * rows? By all threads of the block, alike. The loads do not wait for each other.
	 */
	GIN_FN bool begin()
	{
		const epBegin state(plan);
		const epHtHandle of = *handle;
		epoch = state.epoch(which() ? ginEpCallCombineSend : ginEpCallDispatchSend);
		if (GinCta{}.any(state.failed()))
			return false;
		const uint32_t most = ht.rows < call.room ? ht.rows : call.room;
		const bool fits = of.tag == EP_HT_TAG && of.tokens == call.tokens;
		const uint32_t sizes = call.rowBytes / 16 * 8191 + call.metaBytes / 4;
		ends = sizes + of.epoch * 2654435761u;
		if (fits && of.rows <= most)
			return true;
		if (ginBlockIndex() == 0 && thread() == 0)
			fail(-1, fits ? ginErrorInvalidArgument : ginErrorInvalidUsage,
			     fits ? of.rows : call.tokens, fits ? most : of.tokens);
		return false;
	}

	/* What has to be equal at both ends of a row. */
	GIN_FN uint32_t shape() const { return ends; }

	GIN_FN bool hasShape(uint32_t rank, uint32_t other) const
	{
		if (other != shape())
			fail(static_cast<int32_t>(rank), ginErrorInvalidArgument, shape(), other);
		return other == shape();
	}

	/*
	 * Tells all ranks where their rows begin in the pool, or in a tensor of the window. It is
	 * free: this rank's earlier kernels have ended. By block 0; between domains a kernel before
	 * the call's own does it: EpHtRailPlaces. All ranks wait for the places, so the record of
	 * the call begins here: the block that writes it may begin later.
	 */
	GIN_FN void postPlaces() const
	{
		if (epTraces(args)) {
			if (thread() == 0)
				plan.state->began = ginNow();
			sync();
		}
		ginFence<ginScopeSystem>();
		GIN_NO_UNROLL
		for (uint32_t r = thread(); r < ranks(); r += threads()) {
			const size_t at = epHtPlaceAt(plan, ht, which(), epoch % 2, indexAtNear(r));
			post(nearOf(r), at, epHtStartOf(plan, handle)[r]);
			post(nearOf(r), at + sizeof(uint64_t), shape());
			if (ht.window.table)
				post(nearOf(r), at + 2 * sizeof(uint64_t), call.where);
		}
	}

	/*
	 * Waits for the places of all ranks: no rank reads any more what an earlier call has put
	 * into a pool. False: a rank is lost, or its rows are others. `own`: where the received
	 * rows are, for those that this rank stores at itself; NULL: in its pool.
	 */
	GIN_FN bool awaitPlaces(char *own = nullptr) const
	{
		bool lost = false;
		GIN_NO_UNROLL
		for (uint32_t r = thread(); r < ranks(); r += threads())
			lost = !awaitPlace(r, own) || lost;
		return !GinCta{}.any(lost);
	}

	/* The last block gets true: all blocks have come here. By all threads of the block. T. */
	GIN_FN bool isLastBlock() const
	{
		bool flagged;
		return isLast(number - ginEpCallHtNotify + 1, 0, false, &flagged);
	}

private:
	GIN_FN bool awaitLong(uint32_t from, size_t at, uint32_t tag, bool forwarded) const
	{
		if (!rail)
			return epHtAwaitLong<false, 1>(args, number, from, at, tag, epoch);
		if (!forwarded)
			return epHtAwaitLong<true, 1>(args, number, from, at, tag, epoch);
		return epHtAwaitLong<true, EP_HT_PATIENT_FORWARD>(args, number, from, at, tag,
								  epoch);
	}

	/* The first row of a direct peer, which is in its pool, or in the window at `where`. */
	GIN_FN char *rowsOf(uint32_t peer, uint32_t where) const
	{
		if (!where)
			return epSlabOf(plan, peer) + ht.poolAt;
		return static_cast<char *>(ginPeerPointer(
			ht.window, size_t{where - 1} * EP_HT_ALIGN, static_cast<int>(peer)));
	}

	GIN_FN bool awaitPlace(uint32_t r, char *own) const
	{
		const size_t at = epHtPlaceAt(plan, ht, which(), epoch % 2, r);
		uint32_t start, other, where = 0;
		const uint32_t peer = nearOf(r);
		const uint64_t began = epTraceBegin(args);
		const bool come = await(peer, at, epoch + 1, &start) &&
				  await(peer, at + sizeof(uint64_t), epoch + 1, &other) &&
				  (!ht.window.table ||
				   await(peer, at + 2 * sizeof(uint64_t), epoch + 1, &where));
		if (ginBlockIndex() == 0)
			waited(peer, began, come);
		if (!come || !hasShape(peer, other))
			return false;
		char *const rows = own && peer == plan.rank ? own : rowsOf(peer, where);
		places[r] = {rows + size_t{start} * call.rowBytes,
			     epSlabOf(plan, peer) + ht.metaAt + size_t{start} * call.metaBytes};
		return true;
	}
};

#endif
