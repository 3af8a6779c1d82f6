/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lost.cuh - long waits; how a rank reacts to a peer that does not answer: the record, masks, marks
 *
 * These functions are rarely called. They take the kernel's parameters and scalars: a method would
 * force its object into memory.
 */
#ifndef GIN_EP_LOST_CUH
#define GIN_EP_LOST_CUH

#include "trace.cuh"

/* The distance of two epochs in a word with a tag. */
#define EP_EPOCH (1ull << 32)

/* The routes that a kernel is compiled for. */
template <bool direct> constexpr uint32_t epRoutes = direct ? GIN_ROUTES_DIRECT : GIN_ROUTES_ALL;

/* The first failure of this rank, for ginEpGetAsyncError(). */
GIN_FN_COLD void epRecord(const epArgs &args, uint32_t number, int32_t rank, ginResult_t result,
			  uint32_t epoch, uint64_t expected, uint64_t seen)
{
	epPage *page = args.plan.page;
	if (!epWordClaim(&args.plan.state->recordClaim))
		return;
	page->result = result;
	page->call = number;
	page->rank = rank;
	page->epoch = epoch;
	page->expected = expected;
	page->seen = seen;
	epPagePublish(&page->valid);
}

/* Options of waits that depend on `rank`. */
GIN_FN ginOptions epFrom(const epArgs &args, uint32_t rank)
{
	ginOptions options;
	options.from = {rank, 1, 1};
	options.timeout = args.plan.timeout ? args.plan.timeout : GIN_FOREVER;
	return options;
}

/* The word that a rank that has given up writes into count words. */
GIN_FN uint64_t epMarkWord(const epPlan &plan)
{
	const uint64_t epoch = epWordLoad(&plan.state->epoch[0]) + EP_GAVE_UP_EPOCHS;
	return epoch << 32;
}

/*
 * The count line of `source` at `rank` gets the mark of a rank that has given up. A put reads a
 * line of its own, because an earlier put may still read the staged counts.
 */
template <bool direct>
GIN_FN_COLD void epMarkLine(const epArgs &args, uint32_t rank, uint32_t source, uint32_t half)
{
	const epPlan &plan = args.plan;
	const size_t at = epLineAt(plan, half, source);
	char *const slab = epSlabOf(plan, rank);
	GIN_NO_UNROLL
	for (size_t b = 0; (direct || slab) && b < epLineBytes(plan); b += sizeof(uint64_t))
		ginDirectStore(slab + at + b, epMarkWord(plan));
	if (!direct && !slab)
		EpGin<epRoutes<direct>>(args.dc, 0)
			.put(static_cast<int>(rank), plan.slab, at, plan.slab, plan.stagedMarkAt,
			     epLineBytes(plan), GinNone{}, GinNone{}, GinThread{},
			     epFrom(args, rank));
}

/*
 * Raises each signal that `rank` expects from `source` by more than any wait needs. The mark comes
 * with each signal: a wait that has ended reads the mark, because reading a signal in host memory
 * again is slow.
 */
template <bool direct> GIN_FN_COLD void epMark(const epArgs &args, uint32_t rank, uint32_t source)
{
	const epPlan &plan = args.plan;
	const size_t at = epMarkAt(plan, source);
	ginResult_t result = ginSuccess;
	GIN_NO_UNROLL
	for (uint32_t n = 0; n < EP_FAMILIES * 2 * plan.lanes && result == ginSuccess; n++) {
		const uint32_t id = n / plan.lanes * plan.nRanks + source;
		result = EpGin<epRoutes<direct>>(args.dc, n % plan.lanes)
				 .putValue(static_cast<int>(rank), plan.slab, at, uint64_t{1},
					   GinSignalAdd{id, EP_GAVE_UP}, GinThread{},
					   epFrom(args, rank));
	}
	GIN_NO_UNROLL
	for (uint32_t half = 0; half < 2 && result == ginSuccess; half++)
		epMarkLine<direct>(args, rank, source, half);
}

/*
 * This rank has given up: makes waits of its peers for this rank, and all waits of this rank, end
 * now and not at their time limit.
 */
template <bool direct> GIN_FN_COLD void epGiveUp(const epArgs &args)
{
	const epPlan &plan = args.plan;
	GIN_NO_UNROLL
	for (size_t b = 0; !direct && b < epLineBytes(plan); b += sizeof(uint64_t))
		*reinterpret_cast<uint64_t *>(plan.own + plan.stagedMarkAt + b) = epMarkWord(plan);
	GIN_NO_UNROLL
	for (uint32_t r = 0; r < plan.nRanks; r++) {
		epMark<direct>(args, plan.rank, r);
		if (r != plan.rank)
			epMark<direct>(args, r, plan.rank);
	}
}

/* All later kernels of this rank return at once, and peers stop waiting for it. */
template <bool direct> GIN_FN_COLD void epStop(const epArgs &args, ginResult_t result)
{
	const epPlan &plan = args.plan;
	if (!epWordSetOnce(&plan.state->failed, result))
		return;
	epPageStore(&plan.page->failed, result);
	if (result != ginErrorAborted)
		epGiveUp<direct>(args);
}

/* Does a word say that its rows are complete? See ginEpCombineArgs_t.ready. */
GIN_FN bool epIsReady(const epArgs &args, uint32_t word)
{
	return static_cast<int32_t>(word - args.call.readyAt) >= 0;
}

/*
 * One pass of a wait for rows of x, by one thread; `word`: of rows that are not complete; `begins`:
 * the first pass. At the end of the time limit, or after an abort, this rank has failed.
 */
template <bool direct> GIN_FN_COLD void epAwaitReady(const epArgs &args, ginPoll *poll, bool begins,
						     const char *word, uint32_t epoch)
{
	const uint32_t rank = args.plan.rank;
	const uint32_t *const at = reinterpret_cast<const uint32_t *>(word);
	if (begins)
		*poll = ginPollStart(args.dc, epFrom(args, rank),
				     {ginCallEpCombine, 0, rank, rank});
	const ginResult_t result = ginPollStep(*poll, args.call.readyAt, epWordLoad(at));
	const uint32_t seen = epReadyLoad(word);
	if (result == ginSuccess || epIsReady(args, seen))
		return;
	epRecord(args, ginEpCallCombineSend, -1, result, epoch, args.call.readyAt, seen);
	epStop<direct>(args, result);
}

/*
 * One thread has waited for `rank` without success. GIN_EP_LOST_MASK masks the rank; otherwise, and
 * after ginCommAbort(), all later kernels return at once. epGiveUp() tells the peers.
 */
template <bool direct> GIN_FN_COLD void epLose(const epArgs &args, uint32_t number, uint32_t rank,
					       ginResult_t result, uint32_t epoch,
					       uint64_t expected, uint64_t seen)
{
	const epPlan &plan = args.plan;
	epRecord(args, number, static_cast<int32_t>(rank), result, epoch, expected, seen);
	epWordStore(&plan.observed[rank], 1);
	epPageStore(&plan.pageObserved[rank], 1);
	if (plan.onLost == GIN_EP_LOST_MASK && result != ginErrorAborted) {
		epWordStore(&plan.masked[rank], 1);
		epPageStore(&plan.pageMasked[rank], 1);
	} else {
		epStop<direct>(args, result);
	}
}

/* A wait of one thread has failed, or a mark has ended it. */
template <bool direct>
GIN_FN_COLD void epLoseByWait(const epArgs &args, uint32_t number, uint32_t rank,
			      ginResult_t result, uint32_t epoch, uint64_t expected, uint64_t seen)
{
	if (result == ginSuccess && epWordLoad(&args.plan.state->failed))
		return; /* this rank has marked its own words */
	if (result == ginSuccess)
		result = ginErrorPeer; /* the rank has given up */
	epLose<direct>(args, number, rank, result, epoch, expected, seen);
}

/* One thread waits for a signal that depends on `rank`. False: the rank is lost. */
template <bool direct> GIN_FN_COLD bool epAwaitLong(const epArgs &args, uint32_t number,
						    uint32_t rank, uint32_t lane, uint32_t id,
						    uint64_t least, uint32_t epoch)
{
	EpGin<epRoutes<direct>> gin(args.dc, lane);
	ginResult_t result = gin.waitSignal(id, least, GinThread{}, epFrom(args, rank));
	if (result == ginSuccess && !gin.readValue(args.plan.slab, epMarkAt(args.plan, rank)))
		return true;
	uint64_t seen = gin.readSignal(id);
	/* The mark comes with the first of the rank's signals, which may be another one. */
	if (result == ginSuccess && seen - least < EP_GAVE_UP)
		seen += EP_GAVE_UP;
	epLoseByWait<direct>(args, number, rank, result, epoch, least, seen);
	return false;
}

/*
 * One thread waits in a dispatch receive for a word with the tag of the epoch; `timed`: within the
 * time limit. False: the source is lost.
 */
template <bool direct> GIN_FN_COLD bool epAwaitWordLong(const epArgs &args, size_t at,
							uint32_t source, bool timed, uint32_t epoch)
{
	EpGin<epRoutes<direct>> gin(args.dc, 0);
	const uint64_t least = static_cast<uint64_t>(epoch + 1) << 32;
	ginOptions options = epFrom(args, source);
	if (!timed)
		options.timeout = GIN_FOREVER;
	ginResult_t result = gin.waitValue(args.plan.slab, at, least, GinThread{}, options);
	const uint64_t seen = gin.readValue(args.plan.slab, at);
	if (result == ginSuccess && seen - least < EP_EPOCH)
		return true;
	epLoseByWait<direct>(args, ginEpCallDispatchRecv, source, result, epoch, least, seen);
	return false;
}

/* A signal to `rank`, by one thread. Strong: covers the stores of the block. */
template <bool direct> GIN_FN_COLD void epRaise(const epArgs &args, uint32_t number, uint32_t rank,
						uint32_t lane, bool strong, uint32_t id,
						uint64_t value, uint32_t epoch)
{
	EpGin<epRoutes<direct>> gin(args.dc, lane);
	ginResult_t result = gin.signal(static_cast<int>(rank), ginSignalById(strong, id, value),
					GinThread{}, epFrom(args, rank));
	if (result != ginSuccess)
		epLose<direct>(args, number, rank, result, epoch, value, 0);
}

#endif
