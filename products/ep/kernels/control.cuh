/* SPDX-License-Identifier: BSD-3-Clause */
/* control.cuh - kernels that set masks, flush and reset */
#ifndef GIN_EP_CONTROL_CUH
#define GIN_EP_CONTROL_CUH

#include "block.cuh"

/* Masks a rank or unmasks it; maskRank -1 clears both masks of all ranks. */
class EpMask : public EpBlock
{
public:
	GIN_FN EpMask(const epArgs &a, char *shared) : EpBlock(a, shared) {}

	GIN_FN void run() const
	{
		GIN_NO_UNROLL
		for (uint32_t r = thread(); r < ranks(); r += threads()) {
			if (call.maskRank >= 0 && static_cast<uint32_t>(call.maskRank) != r)
				continue;
			const uint32_t value = call.maskRank < 0 ? 0 : call.maskValue;
			epWordStore(&plan.masked[r], value);
			epPageStore(&plan.pageMasked[r], value);
			if (call.maskRank >= 0)
				continue;
			epWordStore(&plan.observed[r], 0);
			epPageStore(&plan.pageObserved[r], 0);
		}
	}
};

/*
 * Before a reset: waits until this rank's puts have completed, for the ep's timeout in all. Each
 * rank is waited for alone: the death of a rank ends the wait for its puts, and for no others.
 */
class EpFlush : public EpBlock
{
public:
	GIN_FN EpFlush(const epArgs &a, char *shared) : EpBlock(a, shared) {}

	GIN_FN void run()
	{
		const uint64_t start = ginNow();
		GIN_NO_UNROLL
		for (uint32_t l = ginBlockIndex(); l < args.dc.contexts; l += ginGridSize())
			flush(gin<false>(l), start);
	}

private:
	template <class Context> GIN_FN void flush(const Context &context, uint64_t start) const
	{
		GIN_NO_UNROLL
		for (uint32_t r = 0; r < ranks(); r++) {
			const ginRequest puts = context.flushAsync(static_cast<int>(r), GinCta{});
			context.wait(puts, GinCta{}, within(start, r));
		}
	}

	GIN_FN ginOptions within(uint64_t start, uint32_t rank) const
	{
		ginOptions options = epFrom(args, rank);
		const uint64_t spent = ginNow() - start;
		if (plan.timeout)
			options.timeout = spent < plan.timeout ? plan.timeout - spent : 1;
		return options;
	}
};

/*
 * Zeroes signals, words, tags, the state and the record. No other kernel
 * runs, and no signal is in flight, on any rank.
 */
class EpReset : public EpBlock
{
public:
	GIN_FN EpReset(const epArgs &a, char *shared) : EpBlock(a, shared) {}

	GIN_FN void run() const
	{
		GIN_NO_UNROLL
		for (uint32_t l = 0; l < args.dc.contexts; l++)
			GIN_NO_UNROLL
		for (uint32_t id = first(); id < args.dc.signals; id += all())
			gin<false>(l).resetSignal(id);
		clear(plan.own + plan.wordsAt, plan.wordBytes);
		clearTags();
		clear(reinterpret_cast<char *>(plan.state), plan.stateBytes);
		GIN_NO_UNROLL
		for (uint32_t r = first(); r < ranks(); r += all()) {
			epPageStore(&plan.pageObserved[r], 0);
			epPageStore(&plan.pageMasked[r], 0);
		}
		if (first() == 0) {
			epPageStore(&plan.page->failed, 0);
			epPageStore(&plan.page->valid, 0);
		}
	}

private:
	GIN_FN static uint32_t first() { return ginBlockIndex() * threads() + thread(); }
	GIN_FN static uint32_t all() { return ginGridSize() * threads(); }

	GIN_FN void clearTags() const
	{
		char *const row = plan.own + plan.rowsAt;
		GIN_NO_UNROLL
		for (size_t i = first(); i < 2ull * ranks() * plan.maxTokens; i += all())
			*reinterpret_cast<uint64_t *>(row + i * plan.rowBytes + EP_TAG_AT) = 0;
	}

	GIN_FN static void clear(char *at, size_t bytes)
	{
		GIN_NO_UNROLL
		for (size_t i = first(); i < bytes / sizeof(uint64_t); i += all())
			reinterpret_cast<uint64_t *>(at)[i] = 0;
	}
};

#endif
