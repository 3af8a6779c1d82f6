/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * list.cuh - the list of experts of all tokens, and what each item's position in it is
 *
 * An item is (token, k), number token * topk + k. Its entry is rank << 16 | expert, or EP_NONE: no
 * expert, an index out of range, or an expert that the token has named before. Each block makes a
 * short list in its scratch and counts in it. Of long lists two kernels before have counted.
 */
#ifndef GIN_EP_LIST_CUH
#define GIN_EP_LIST_CUH

#include "block.cuh"

/* The items of a token at one rank, and the number of the token's ranks below that rank. */
struct epShare {
	uint32_t kMask, place;
};

GIN_FN uint32_t epBits(uint32_t mask)
{
#if GIN_ON_GPU
	return static_cast<uint32_t>(__popc(mask));
#else
	return static_cast<uint32_t>(__builtin_popcount(mask));
#endif
}

class EpList : public EpBlock
{
protected:
	uint32_t *list;

	GIN_FN EpList(const epArgs &a, char *shared)
	    : EpBlock(a, shared),
	      list(call.longList ? plan.list : reinterpret_cast<uint32_t *>(scratch))
	{
	}

	GIN_FN static size_t listBytes() { return EP_SHORT_LIST * sizeof(uint32_t); }
	GIN_FN uint32_t *listEnd() const
	{
		return reinterpret_cast<uint32_t *>(scratch + listBytes());
	}
	GIN_FN uint32_t items() const { return call.tokens * call.topk; }
	GIN_FN uint32_t listed(uint32_t i) const { return list[i]; }

	/* The caller's index. */
	GIN_FN int64_t indexAt(uint32_t i) const
	{
		if (call.indexBytes == 4)
			return reinterpret_cast<const int32_t *>(call.topkIdx)[i];
		return reinterpret_cast<const int64_t *>(call.topkIdx)[i];
	}

	/* Has the token of item i named this expert before? */
	GIN_FN bool repeated(uint32_t i, int64_t expert) const
	{
		for (uint32_t j = i - i % call.topk; j < i; j++)
			if (indexAt(j) == expert)
				return true;
		return false;
	}

	/* The entry of item i. A wrong index is recorded, if the call has a `number`. */
	GIN_FN uint32_t entryOf(uint32_t i, uint32_t number, uint32_t epoch) const
	{
		const int64_t expert = indexAt(i);
		if (expert == -1)
			return EP_NONE;
		if (expert < -1 || expert >= plan.experts || repeated(i, expert)) {
			if (number)
				record(number, -1, ginErrorInvalidArgument, epoch, i,
				       static_cast<uint64_t>(expert));
			return EP_NONE;
		}
		return plan.rankOf[expert] << 16 | static_cast<uint32_t>(expert);
	}

	/* Makes a short list. The caller syncs. */
	GIN_FN void listItems(uint32_t number, uint32_t epoch)
	{
		if (call.longList)
			return;
		for (uint32_t i = thread(); i < items(); i += threads())
			list[i] = entryOf(i, number, epoch);
	}

	GIN_FN bool at(uint32_t i, uint32_t rank) const
	{
		return list[i] != EP_NONE && list[i] >> 16 == rank;
	}

	/* Is one of the token's experts at the rank? */
	GIN_FN bool goes(uint32_t t, uint32_t rank) const
	{
		for (uint32_t k = 0; k < call.topk; k++)
			if (at(t * call.topk + k, rank))
				return true;
		return false;
	}

	/* By all threads of a team. */
	GIN_FN epShare shareOf(uint32_t t, uint32_t rank) const
	{
		epShare share = {0, 0};
#if GIN_ON_GPU
		const uint32_t k = ginLane(), i = t * call.topk + k;
		const uint32_t entry = k < call.topk ? list[i] : EP_NONE;
		const uint32_t mine = entry == EP_NONE ? EP_NONE : entry >> 16;
		const uint32_t equal = __match_any_sync(0xffffffffu, mine);
		const bool first = (equal & ((1u << k) - 1)) == 0;
		share.kMask = __ballot_sync(0xffffffffu, mine == rank);
		share.place =
			epBits(__ballot_sync(0xffffffffu, first && mine != EP_NONE && mine < rank));
#else
		for (uint32_t k = 0; k < call.topk; k++) {
			const uint32_t i = t * call.topk + k;
			if (list[i] == EP_NONE)
				continue;
			const uint32_t mine = list[i] >> 16;
			share.kMask |= (mine == rank ? 1u : 0u) << k;
			share.place += mine < rank && firstOfRank(t, k) ? 1 : 0;
		}
#endif
		return share;
	}

	/* Is no earlier item of the token at the rank of item (t, k)? */
	GIN_FN bool firstOfRank(uint32_t t, uint32_t k) const
	{
		for (uint32_t j = 0; j < k; j++)
			if (at(t * call.topk + j, list[t * call.topk + k] >> 16))
				return false;
		return true;
	}

	/* How many items before (t, k) have its expert. By all threads of a team, as the next. */
	GIN_FN uint32_t numberOf(uint32_t t, uint32_t k) const
	{
		const uint32_t entry = list[t * call.topk + k];
		if (call.longList)
			return plan.numbers[t * call.topk + k];
		return epCount(t * call.topk, [&](uint32_t i) { return list[i] == entry; });
	}

	/* How many tokens before t go to the rank of item (t, k). */
	GIN_FN uint32_t slotOf(uint32_t t, uint32_t k) const
	{
		const uint32_t rank = list[t * call.topk + k] >> 16;
		if (call.longList)
			return plan.slots[t * call.topk + k];
		return epCount(t, [&](uint32_t before) { return goes(before, rank); });
	}

	GIN_FN uint32_t rowsTo(uint32_t rank) const
	{
		if (call.longList)
			return plan.totals[plan.experts + rank];
		return epCount(call.tokens, [&](uint32_t t) { return goes(t, rank); });
	}

	/*
	 * word[0]: the rows for a rank; word[1 + e]: items of its local expert e. By all threads of
	 * the block.
	 */
	GIN_FN void histogramOf(uint32_t rank, uint32_t *word, uint32_t words) const
	{
		const uint32_t first = plan.firstExpert[rank];
		for (uint32_t w = thread(); w < words; w += threads())
			word[w] = !call.longList ? 0
				  : w		 ? plan.totals[first + w - 1]
						 : plan.totals[plan.experts + rank];
		sync();
		for (uint32_t i = thread(); !call.longList && i < items(); i += threads()) {
			if (!at(i, rank))
				continue;
			epScratchAdd(&word[1 + (list[i] & 0xffff) - first], 1);
			if (firstOfRank(i / call.topk, i % call.topk))
				epScratchAdd(&word[0], 1);
		}
		sync();
	}
};

/* Makes a long list in device memory. */
class EpMakeList : public EpList
{
public:
	GIN_FN EpMakeList(const epArgs &a, char *shared) : EpList(a, shared) {}

	GIN_FN void run()
	{
		const uint32_t epoch = epWordLoad(&plan.state->epoch[0]);
		const uint32_t step = ginGridSize() * threads();
		if (stopped())
			return;
		for (uint32_t i = ginBlockIndex() * threads() + thread(); i < items(); i += step)
			list[i] = entryOf(i, ginEpCallDispatchSend, epoch);
	}
};

/* Numbers the items of a long list: one team for each expert and for each rank. */
class EpCountList : public EpList
{
public:
	GIN_FN EpCountList(const epArgs &a, char *shared) : EpList(a, shared) {}

	GIN_FN void run()
	{
		const uint32_t teams = ginGridSize() * epTeams();
		if (stopped())
			return;
		for (uint32_t j = ginBlockIndex() * epTeams() + epTeam();
		     j < plan.experts + ranks(); j += teams) {
			if (j < plan.experts)
				numberExpert(j);
			else
				numberRank(j - plan.experts);
		}
	}

private:
	/* Calls mark(i, n) for each i below `end` that passes, with the number n of earlier ones. */
	template <class Test, class Mark>
	GIN_FN static uint32_t number(uint32_t end, Test test, Mark mark)
	{
		uint32_t n = 0;
#if GIN_ON_GPU
		for (uint32_t i = ginLane(); i - ginLane() < end; i += 32) {
			const bool mine = i < end && test(i);
			const uint32_t all = __ballot_sync(0xffffffffu, mine);
			if (mine)
				mark(i, n + epBits(all & ((1u << ginLane()) - 1)));
			n += epBits(all);
		}
#else
		for (uint32_t i = 0; i < end; i++)
			if (test(i))
				mark(i, n++);
#endif
		return n;
	}

	GIN_FN void numberExpert(uint32_t expert) const
	{
		const uint32_t entry = plan.rankOf[expert] << 16 | expert;
		uint32_t n = number(
			items(), [&](uint32_t i) { return list[i] == entry; },
			[&](uint32_t i, uint32_t before) { plan.numbers[i] = before; });
		if (epTeamFirst())
			plan.totals[expert] = n;
	}

	GIN_FN void numberRank(uint32_t rank) const
	{
		uint32_t n = number(
			call.tokens, [&](uint32_t t) { return goes(t, rank); },
			[&](uint32_t t, uint32_t before) {
				for (uint32_t k = 0; k < call.topk; k++)
					if (at(t * call.topk + k, rank))
						plan.slots[t * call.topk + k] = before;
			});
		if (epTeamFirst())
			plan.totals[plan.experts + rank] = n;
	}
};

#endif
