/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * waits.cuh - waits for signals of other ranks, the signals that end such waits, and credits
 *
 * A credit frees a half of the rows, or of the parts, at the rank that sends. lost.cuh has the long
 * waits, which give up a rank.
 */
#ifndef GIN_EP_WAITS_CUH
#define GIN_EP_WAITS_CUH

#include "lost.cuh"

/*
 * Loads of a word in GPU memory before the long wait, which reads the clock. Signals of a network
 * route may be in host memory: only the long wait reads a mirror of them.
 */
#define EP_LOOKS (GIN_ON_GPU ? 2000u : 16u)

/* The first words of the state at the start of a send, by one load. */
class epBegin
{
	const ginWord16 words;

public:
	GIN_FN explicit epBegin(const epPlan &plan) : words(epStateLoad(plan.state)) {}

	/* An earlier call has failed. */
	GIN_FN bool failed() const { return static_cast<uint32_t>(words.half[0]) != 0; }

	/* The epoch of the send whose call has the number `number`. */
	GIN_FN uint32_t epoch(uint32_t number) const
	{
		return static_cast<uint32_t>(words.half[1] >>
					     (number == ginEpCallCombineSend ? 32 : 0));
	}
};

/* The state at the start of a block's send, in scratch. */
struct epBegun {
	uint32_t epoch, failed;
};

GIN_FN uint32_t epMaskOf(const epPlan &plan, uint32_t rank)
{
	return epWordLoad(&plan.masked[rank]);
}

template <bool direct> GIN_FN EpGin<epRoutes<direct>> epGin(const epArgs &args, uint32_t lane)
{
	return EpGin<epRoutes<direct>>(args.dc, lane);
}

/* One look at a signal. False also if a rank has given up. */
template <bool direct>
GIN_FN bool epReached(const epArgs &args, uint32_t lane, uint32_t id, uint64_t least)
{
	return epGin<direct>(args, lane).readSignal(id) - least < EP_AHEAD;
}

/* One thread waits for a signal that depends on `rank`. False: the rank is lost. */
template <bool direct> GIN_FN bool epAwait(const epArgs &args, uint32_t number, uint32_t rank,
					   uint32_t lane, uint32_t id, uint64_t least,
					   uint32_t epoch)
{
	GIN_NO_UNROLL
	for (uint32_t look = 0; direct && look < EP_LOOKS; look++)
		if (epReached<direct>(args, lane, id, least))
			return true;
	return epAwaitLong<direct>(args, number, rank, lane, id, least, epoch);
}

/* The value of a signal of rows when all rows of the epoch have come. */
GIN_FN uint64_t epAllRows(const epPlan &plan, uint32_t epoch)
{
	return (epoch / 2 + 1ull) * plan.maxTokens;
}

/*
 * All rows of `rank` have come. In each epoch the sender raises the signal in each context by
 * maxTokens in all: by its rows, and by the rest of maxTokens.
 */
template <bool direct> GIN_FN bool epAwaitRows(const epArgs &args, uint32_t number, uint32_t family,
					       uint32_t rank, uint32_t epoch)
{
	const epPlan &plan = args.plan;
	const uint32_t id = epSignalId(plan, family, epoch % 2, rank);
	const uint64_t least = epAllRows(plan, epoch);
	const uint32_t lanes = direct || epIsDirect(plan, rank) ? 1 : plan.lanes;
	GIN_NO_UNROLL
	for (uint32_t l = 0; l < lanes; l++)
		if (!epAwait<direct>(args, number, rank, l, id, least, epoch))
			return false;
	return true;
}

template <bool direct, class Signal> GIN_FN void epSignal(const epArgs &args, uint32_t number,
							  uint32_t rank, uint32_t lane,
							  Signal signal, uint32_t epoch)
{
	const ginSignalOp op = ginSignalOf(signal);
	epRaise<direct>(args, number, rank, lane, op.strong, op.id, op.value, epoch);
}

/*
 * Raises the signals of a rank that gets `count` rows by the rest of maxTokens; see epAwaitRows().
 * By one thread.
 */
template <bool direct> GIN_FN void epRaiseRest(const epArgs &args, uint32_t number, uint32_t family,
					       uint32_t rank, uint32_t count, uint32_t epoch)
{
	const epPlan &plan = args.plan;
	const uint32_t id = epSignalId(plan, family, epoch % 2, plan.rank);
	const bool single = direct || epIsDirect(plan, rank);
	const uint32_t lanes = single ? 1 : plan.lanes;
	GIN_NO_UNROLL
	for (uint32_t l = 0; l < lanes; l++) {
		const uint32_t share = single ? count : epShareOf(count, l, lanes);
		if (share != plan.maxTokens)
			epSignal<direct>(args, number, rank, l,
					 GinWeakSignalAdd{id, plan.maxTokens - share}, epoch);
	}
}

/*
 * *begun becomes the state at the kernel's start; fate[rank] becomes 1 for a rank that is masked or
 * has not freed the epoch's half, and for all ranks after a failure. `family` is epRowsFree or
 * epPartsFree. A thread for each half and rank, from the block's end, loads a signal while the
 * state is loaded; the caller syncs.
 */
template <bool direct> GIN_FN void epAwaitCredits(const epArgs &args, uint32_t number,
						  uint32_t family, uint32_t *fate, epBegun *begun)
{
	const epPlan &plan = args.plan;
	GIN_NO_UNROLL
	for (uint32_t i = ginBlockSize() - 1 - ginThreadIndex(); i < 2 * plan.nRanks;
	     i += ginBlockSize()) {
		const uint32_t of = i >= plan.nRanks ? 1 : 0, r = i - of * plan.nRanks;
		const uint32_t id = epSignalId(plan, family, of, r);
		const epBegin begin(plan);
		const uint32_t out = epMaskOf(plan, r); /* the load of the signal follows at once */
		const uint64_t seen = direct ? epGin<direct>(args, 0).readSignal(id) : 0;
		const uint32_t epoch = begin.epoch(number);
		if (i == 0)
			*begun = {epoch, begin.failed()};
		if (epoch % 2 != of)
			continue;
		const bool come = direct && seen - epoch / 2 < EP_AHEAD;
		const uint64_t began = epTraceBegin(args);
		fate[r] = out || begin.failed() ||
			  (!come && !epAwait<direct>(args, number, r, 0, id, epoch / 2, epoch));
		if (epTraces(args) && ginBlockIndex() == 0 && !come && !out && !begin.failed())
			epTraceWaited(args, ginCallEpCredit, r, epoch, began, !fate[r]);
	}
}

/* The rows of `rank` in a half are read: a later kernel gives the half back to the rank. */
GIN_FN void epOwe(const epPlan &plan, uint32_t family, uint32_t half, uint32_t rank)
{
	epWordStore(epOwedOf(plan, family, half) + rank, 1);
}

/*
 * The grid's last block gives credits that earlier kernels owe, to ranks that are not masked. At
 * the start of a kernel a release waits for no store; at the end of the earlier kernel it would
 * wait for all stores.
 */
template <bool direct> GIN_FN void epGiveCredits(const epArgs &args, uint32_t number)
{
	const epPlan &plan = args.plan;
	if (ginBlockIndex() != ginGridSize() - 1)
		return;
	GIN_NO_UNROLL
	for (uint32_t i = ginBlockSize() - 1 - ginThreadIndex(); i < 4 * plan.nRanks;
	     i += ginBlockSize()) {
		const uint32_t owed = epWordLoad(plan.owed + i);
		if (epMaskOf(plan, i % plan.nRanks) || !owed || !epWordTake(plan.owed + i))
			continue;
		const uint32_t family = i / plan.nRanks < 2 ? epRowsFree : epPartsFree;
		epSignal<direct>(
			args, number, i % plan.nRanks, 0,
			GinSignalAdd{epSignalId(plan, family, i / plan.nRanks % 2, plan.rank), 1},
			0);
	}
}

#endif
