/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * list.cuh - the list of experts of all tokens, and what each item's position in it is
 *
 * An item is (token, k), number token * topk + k. Its entry is the expert, or EP_NONE: no expert, an
 * index out of range, or an expert that the token has named before. Each block makes a short list in
 * its scratch and counts in it. Of long lists two kernels before have counted.
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

	/* The experts of a rank: first to first + count - 1. */
	struct Range {
		uint32_t first, count;

		GIN_FN bool has(uint32_t expert) const { return expert - first < count; }
	};

	GIN_FN Range rangeOf(uint32_t rank) const
	{
		if (!plan.even) {
			const uint32_t first = plan.firstExpert[rank];
			return {first, plan.firstExpert[rank + 1] - first};
		}
		const bool more = rank < plan.moreRanks;
		return {rank * plan.eachRank + (more ? rank : plan.moreRanks),
			plan.eachRank + (more ? 1 : 0)};
	}

	GIN_FN uint32_t rankOf(uint32_t expert) const
	{
		const uint32_t larger = plan.moreRanks * (plan.eachRank + 1);
		if (!plan.even)
			return plan.rankOf[expert];
		if (expert < larger)
			return expert / (plan.eachRank + 1);
		return plan.moreRanks + (expert - larger) / plan.eachRank;
	}

	/*
	 * The entries of a token, by one thread, eight at a time. Wrong indices are recorded, if
	 * there is a `begin`.
	 */
	GIN_FN void listToken(uint32_t t, uint32_t *to, uint32_t number, const epBegin *begin) const
	{
		GIN_NO_UNROLL
		for (uint32_t first = 0; first < call.topk; first += 8)
			listEight(t, first, to, number, begin);
	}

	GIN_FN void listEight(uint32_t t, uint32_t first, uint32_t *to, uint32_t number,
			      const epBegin *begin) const
	{
		int64_t index[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
		uint32_t wrong = 0;
		EP_UNROLL
		for (uint32_t i = 0; i < 8; i++)
			if (first + i < call.topk)
				index[i] = indexAt(t * call.topk + first + i);
		EP_UNROLL
		for (uint32_t i = 0; i < 8; i++) {
			bool bad = index[i] < -1 || index[i] >= plan.experts;
			EP_UNROLL
			for (uint32_t j = 0; j < i; j++)
				bad |= index[i] >= 0 && index[i] == index[j];
			wrong |= (bad ? 1u : 0u) << i;
		}
		GIN_NO_UNROLL
		for (uint32_t j = 0; j < first; j++)
			EP_UNROLL
		for (uint32_t i = 0; i < 8; i++)
			wrong |= (to[j] != EP_NONE && index[i] == to[j] ? 1u : 0u) << i;
		EP_UNROLL
		for (uint32_t i = 0; i < 8; i++)
			if (first + i < call.topk)
				to[first + i] = index[i] < 0 || wrong >> i & 1
							? EP_NONE
							: static_cast<uint32_t>(index[i]);
		if (wrong && begin && !begin->failed())
			recordWrong(t * call.topk + first, wrong, number, begin->epoch(number));
	}

	/* Records the first of eight items whose bit is set. */
	GIN_FN void recordWrong(uint32_t item, uint32_t wrong, uint32_t number,
				uint32_t epoch) const
	{
		GIN_NO_UNROLL
		for (; !(wrong & 1); wrong >>= 1)
			item++;
		epRecord(args, number, -1, ginErrorInvalidArgument, epoch, item,
			 static_cast<uint64_t>(indexAt(item)));
	}

	/* Makes a short list. The caller syncs. */
	GIN_FN void listItems(uint32_t number, const epBegin &begin)
	{
		if (call.longList)
			return;
		GIN_NO_UNROLL
		for (uint32_t t = thread(); t < call.tokens; t += threads())
			listToken(t, list + t * call.topk, number, &begin);
	}

	/* Is one of the token's experts in the range? */
	GIN_FN bool goes(uint32_t t, Range range) const
	{
		bool any = false;
		for (uint32_t k = 0; k < call.topk; k++)
			any |= range.has(list[t * call.topk + k]);
		return any;
	}

	/* By all threads of a team. */
	GIN_FN epShare shareOf(uint32_t t, uint32_t rank) const
	{
		epShare share = {0, 0};
#if GIN_ON_GPU
		const uint32_t k = ginLane(), i = t * call.topk + k;
		const uint32_t entry = k < call.topk ? list[i] : EP_NONE;
		const uint32_t mine = entry == EP_NONE ? EP_NONE : rankOf(entry);
		const uint32_t equal = __match_any_sync(0xffffffffu, mine);
		const bool first = (equal & ((1u << k) - 1)) == 0;
		share.kMask = __ballot_sync(0xffffffffu, mine == rank);
		share.place =
			epBits(__ballot_sync(0xffffffffu, first && mine != EP_NONE && mine < rank));
#else
		GIN_NO_UNROLL
		for (uint32_t k = 0; k < call.topk; k++) {
			const uint32_t entry = list[t * call.topk + k];
			if (entry == EP_NONE)
				continue;
			const uint32_t mine = rankOf(entry);
			share.kMask |= (mine == rank ? 1u : 0u) << k;
			share.place += mine < rank && firstIn(t, k, rangeOf(mine)) ? 1 : 0;
		}
#endif
		return share;
	}

	/* Is no item of the token before k in the range? */
	GIN_FN bool firstIn(uint32_t t, uint32_t k, Range range) const
	{
		bool any = false;
		for (uint32_t j = 0; j < k; j++)
			any |= range.has(list[t * call.topk + j]);
		return !any;
	}

	/* How many items before (t, k) have its expert. By all threads of a team, as the next. */
	GIN_FN uint32_t numberOf(uint32_t t, uint32_t k) const
	{
		const uint32_t entry = list[t * call.topk + k];
		if (call.longList)
			return plan.numbers[t * call.topk + k];
		return countEntries(t * call.topk, entry);
	}

	/* How many entries before `end` are `entry`. */
	GIN_FN uint32_t countEntries(uint32_t end, uint32_t entry) const
	{
#if GIN_ON_GPU
		const uint4 *four = reinterpret_cast<const uint4 *>(list);
		uint32_t n = 0;
		for (uint32_t i = ginLane() * 4; i < end; i += 128) {
			const uint4 e = four[i / 4];
			n += (e.x == entry) + (i + 1 < end && e.y == entry) +
			     (i + 2 < end && e.z == entry) + (i + 3 < end && e.w == entry);
		}
		return __reduce_add_sync(0xffffffffu, n);
#else
		return epCount(end, [&](uint32_t i) { return list[i] == entry; });
#endif
	}

	/* How many tokens before t go to `rank`, the rank of item (t, k). */
	GIN_FN uint32_t slotOf(uint32_t t, uint32_t k, uint32_t rank) const
	{
		const Range range = rangeOf(rank);
		if (call.longList)
			return plan.slots[t * call.topk + k];
		return epCount(t, [&](uint32_t before) { return goes(before, range); });
	}

	GIN_FN uint32_t rowsTo(uint32_t rank) const
	{
		const Range range = rangeOf(rank);
		if (call.longList)
			return plan.totals[plan.experts + rank];
		return epCount(call.tokens, [&](uint32_t t) { return goes(t, range); });
	}

	GIN_FN uint32_t itemsTo(uint32_t rank) const
	{
		const Range range = rangeOf(rank);
		if (!call.longList)
			return epCount(items(), [&](uint32_t i) { return range.has(list[i]); });
		uint32_t sum = 0;
		GIN_NO_UNROLL
		for (uint32_t e = range.first; e < range.first + range.count; e++)
			sum += plan.totals[e];
		return sum;
	}

	/* How many items before (t, k) are at `rank`, the rank of item (t, k). */
	GIN_FN uint32_t rankedOf(uint32_t t, uint32_t k, uint32_t rank) const
	{
		const Range range = rangeOf(rank);
		const uint32_t item = t * call.topk + k;
		if (call.longList)
			return plan.ranked[item];
		return epCount(item, [&](uint32_t i) { return range.has(list[i]); });
	}

	/*
	 * word[0]: the rows for a rank; word[1 + e]: items of its local expert e. By all threads of
	 * the block.
	 */
	GIN_FN void histogramOf(uint32_t rank, uint32_t *word, uint32_t words) const
	{
		const Range range = rangeOf(rank);
		GIN_NO_UNROLL
		for (uint32_t w = thread(); w < words; w += threads())
			word[w] = !call.longList ? 0
				  : w		 ? plan.totals[range.first + w - 1]
						 : plan.totals[plan.experts + rank];
		sync();
		GIN_NO_UNROLL
		for (uint32_t i = thread(); !call.longList && i < items(); i += threads()) {
			if (!range.has(list[i]))
				continue;
			epScratchAdd(&word[1 + list[i] - range.first], 1);
			if (firstIn(i / call.topk, i % call.topk, range))
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
		const epBegin begin(plan);
		const uint32_t step = ginGridSize() * threads();
		if (stopped())
			return;
		GIN_NO_UNROLL
		for (uint32_t t = ginBlockIndex() * threads() + thread(); t < call.tokens;
		     t += step)
			listToken(t, list + t * call.topk, ginEpCallDispatchSend, &begin);
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
		GIN_NO_UNROLL
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
		GIN_NO_UNROLL
		for (uint32_t i = ginLane(); i - ginLane() < end; i += 32) {
			const bool mine = i < end && test(i);
			const uint32_t all = __ballot_sync(0xffffffffu, mine);
			if (mine)
				mark(i, n + epBits(all & ((1u << ginLane()) - 1)));
			n += epBits(all);
		}
#else
		GIN_NO_UNROLL
		for (uint32_t i = 0; i < end; i++)
			if (test(i))
				mark(i, n++);
#endif
		return n;
	}

	GIN_FN void numberExpert(uint32_t expert) const
	{
		uint32_t n = number(
			items(), [&](uint32_t i) { return list[i] == expert; },
			[&](uint32_t i, uint32_t before) { plan.numbers[i] = before; });
		if (epTeamFirst())
			plan.totals[expert] = n;
	}

	GIN_FN void numberRank(uint32_t rank) const
	{
		const Range range = rangeOf(rank);
		uint32_t n = number(
			call.tokens, [&](uint32_t t) { return goes(t, range); },
			[&](uint32_t t, uint32_t before) {
				GIN_NO_UNROLL
				for (uint32_t k = 0; k < call.topk; k++)
					if (range.has(list[t * call.topk + k]))
						plan.slots[t * call.topk + k] = before;
			});
		if (epTeamFirst())
			plan.totals[plan.experts + rank] = n;
		if (plan.allDirect)
			return;
		number(
			items(), [&](uint32_t i) { return range.has(list[i]); },
			[&](uint32_t i, uint32_t before) { plan.ranked[i] = before; });
	}
};

#endif
