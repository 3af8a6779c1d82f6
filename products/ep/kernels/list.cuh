/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * list.cuh - the list of experts of all tokens, and each item's position in it
 *
 * An item is (token, k), number token * topk + k. Its entry is the expert's rank << 16 | the
 * expert's number at the rank, or EP_NONE: no expert, an index out of range, or an expert that the
 * token has named before. Each block makes a short list in its scratch and counts in it. Two
 * kernels before the send make and count a long list.
 */
#ifndef GIN_EP_LIST_CUH
#define GIN_EP_LIST_CUH

#include "block.cuh"

/* The items of a token at one rank, and the number of the token's ranks below that rank. */
struct epShare {
	uint32_t kMask, ranksBelow;
};

GIN_FN uint32_t epBits(uint32_t mask)
{
#if GIN_ON_GPU
	return static_cast<uint32_t>(__popc(mask));
#else
	return static_cast<uint32_t>(__builtin_popcount(mask));
#endif
}

/* The rank of an entry that is not EP_NONE, and the expert's number there. */
GIN_FN uint32_t epRankIn(uint32_t entry)
{
	return entry >> 16;
}

GIN_FN uint32_t epLocalIn(uint32_t entry)
{
	return entry & 0xffff;
}

/* The entry of a wrong index, until its token is checked. */
#define EP_WRONG 0xfffffffeu

/* Tokens of a short list that a warp lists in one pass: a lane checks a token. */
#define EP_TEAM_TOKENS 16u

class EpList : public EpBlock
{
protected:
	uint32_t *const shortList; /* [EP_SHORT_LIST] */
	uint32_t *const masks;	   /* [EP_SHORT_LIST]: the ranks of a token of a short list */

	GIN_FN EpList(const epArgs &a, char *shared, bool isPlain = false)
	    : EpBlock(a, shared, isPlain), shortList(reinterpret_cast<uint32_t *>(scratch)),
	      masks(shortList + EP_SHORT_LIST)
	{
	}

	GIN_FN static size_t listBytes() { return 2 * EP_SHORT_LIST * sizeof(uint32_t); }
	GIN_FN uint32_t *listEnd() const
	{
		return reinterpret_cast<uint32_t *>(scratch + listBytes());
	}
	GIN_FN uint32_t items() const { return call.tokens * call.topk; }
	GIN_FN uint32_t listed(uint32_t i) const { return isLong() ? plan.list[i] : shortList[i]; }

	/* Does `masks` have the ranks of tokens? */
	GIN_FN bool hasMasks() const { return !isLong() && (plain || ranks() <= 32); }

	/* The caller's index. */
	GIN_FN int64_t indexAt(uint32_t i) const
	{
		if (call.indexBytes == 4)
			return reinterpret_cast<const int32_t *>(call.topkIdx)[i];
		return reinterpret_cast<const int64_t *>(call.topkIdx)[i];
	}

	/* The weight of an item. */
	GIN_FN float weightAt(uint32_t i) const
	{
		const char *at = reinterpret_cast<const char *>(call.topkWeights + i);
		return call.topkWeights ? epFloatOf(ginLoadWeak<uint32_t>(at)) : 1.0f;
	}

	/* The experts of a rank. */
	GIN_FN uint32_t expertsOf(uint32_t rank) const
	{
		if (plain)
			return plan.eachRank;
		return plan.even ? plan.eachRank + (rank < plan.moreRanks ? 1 : 0)
				 : plan.firstExpert[rank + 1] - plan.firstExpert[rank];
	}

	GIN_FN uint32_t firstExpertOf(uint32_t rank) const
	{
		const uint32_t more = rank < plan.moreRanks ? rank : plan.moreRanks;
		return plan.even ? rank * plan.eachRank + more : plan.firstExpert[rank];
	}

	/* Division by multiplication with an inverse is exact: experts are at most 8192. */
	GIN_FN uint32_t entryOf(uint32_t expert) const
	{
		if (plain) {
			const uint64_t product = uint64_t{expert} * plan.inverseEach;
			const uint32_t rank = static_cast<uint32_t>(product >> 31);
			return rank << 16 | (expert - rank * plan.eachRank);
		}
		const uint32_t larger = plan.moreRanks * (plan.eachRank + 1);
		if (!plan.even) {
			const uint32_t rank = plan.rankOf[expert];
			return rank << 16 | (expert - plan.firstExpert[rank]);
		}
		const bool more = expert < larger;
		const uint32_t x = more ? expert : expert - larger;
		const uint64_t inverse = more ? plan.inverseMore : plan.inverseEach;
		const uint32_t rank = static_cast<uint32_t>(x * inverse >> 31);
		const uint32_t local = x - rank * (plan.eachRank + (more ? 1 : 0));
		return (rank + (more ? 0 : plan.moreRanks)) << 16 | local;
	}

	/* EP_WRONG: the index is out of range. */
	GIN_FN uint32_t entryOfIndex(int64_t index) const
	{
		if (static_cast<uint64_t>(index) < plan.experts)
			return entryOf(static_cast<uint32_t>(index));
		return index == -1 ? EP_NONE : EP_WRONG;
	}

	/*
	 * Entries i, i + step, and so on, `count` of those below `end`; the index of entry i is
	 * number `from` + i. All loads are in flight before the first result is used.
	 */
	template <uint32_t count> GIN_FN void makeEntries(uint32_t *to, uint32_t from, uint32_t i,
							  uint32_t step, uint32_t end) const
	{
		int64_t index[count];
		if (plain || call.indexBytes == 8)
			loadIndices<int64_t, count>(index, from, i, step, end);
		else
			loadIndices<int32_t, count>(index, from, i, step, end);
		EP_UNROLL
		for (uint32_t n = 0; n < count; n++)
			if (i + n * step < end)
				to[i + n * step] = entryOfIndex(index[n]);
	}

	template <class Index, uint32_t count> GIN_FN void
	loadIndices(int64_t *index, uint32_t from, uint32_t i, uint32_t step, uint32_t end) const
	{
		const Index *all = reinterpret_cast<const Index *>(call.topkIdx) + from;
		EP_UNROLL
		for (uint32_t n = 0; n < count; n++)
			index[n] = i + n * step < end ? all[i + n * step] : -1;
	}

	/* Makes the entries of a token, by one thread. Returns as checkToken(). */
	GIN_FN uint32_t listToken(uint32_t t, uint32_t *to, uint32_t number) const
	{
		GIN_NO_UNROLL
		for (uint32_t k = 0; k < call.topk; k += 8)
			makeEntries<8>(to, t * call.topk, k, 1, call.topk);
		return checkToken(t, to, number);
	}

	/*
	 * Entries of the token that are wrong, or equal to an earlier entry, become EP_NONE.
	 * Returns a bit for each rank of the token, of use with at most 32 ranks. Records wrong
	 * indices of call `number`, unless that is 0. By one thread.
	 */
	GIN_FN uint32_t checkToken(uint32_t t, uint32_t *of, uint32_t number) const
	{
		uint32_t mask = 0;
		GIN_NO_UNROLL
		for (uint32_t first = 0; first < call.topk;) {
			uint32_t e[8];
			loadEight(of, first, e);
			if (isOdd(of, first, e)) {
				repairToken(t, of, number);
				continue;
			}
			EP_UNROLL
			for (uint32_t i = 0; i < 8; i++)
				mask |= e[i] >= EP_WRONG - 8 ? 0 : 1u << (epRankIn(e[i]) & 31);
			first += 8;
		}
		return mask;
	}

	/*
	 * Missing entries, EP_NONE or after the token's last, become distinct numbers, so that they
	 * match nothing.
	 */
	GIN_FN void loadEight(const uint32_t *of, uint32_t first, uint32_t *e) const
	{
#if GIN_ON_GPU
		if (call.topk % 8 == 0)
			loadVectors(of + first, e);
		else
#endif
			EP_UNROLL
		for (uint32_t i = 0; i < 8; i++)
			e[i] = first + i < call.topk ? of[first + i] : EP_NONE;
		EP_UNROLL
		for (uint32_t i = 0; i < 8; i++)
			e[i] = e[i] == EP_NONE ? EP_WRONG - 1 - i : e[i];
	}

#if GIN_ON_GPU
	GIN_FN static void loadVectors(const uint32_t *from, uint32_t *e)
	{
		const uint4 a = *reinterpret_cast<const uint4 *>(from);
		const uint4 b = *reinterpret_cast<const uint4 *>(from + 4);
		e[0] = a.x, e[1] = a.y, e[2] = a.z, e[3] = a.w;
		e[4] = b.x, e[5] = b.y, e[6] = b.z, e[7] = b.w;
	}
#endif

	/* Is one of eight entries wrong, or equal to an earlier entry? */
	GIN_FN static bool isOdd(const uint32_t *of, uint32_t first, const uint32_t *e)
	{
		bool odd = false;
		EP_UNROLL
		for (uint32_t i = 0; i < 8; i++) {
			odd = odd || e[i] == EP_WRONG;
			EP_UNROLL
			for (uint32_t j = 0; j < i; j++)
				odd = odd || e[i] == e[j];
		}
		GIN_NO_UNROLL
		for (uint32_t j = 0; j < first; j++)
			EP_UNROLL
		for (uint32_t i = 0; i < 8; i++)
			odd = odd || e[i] == of[j];
		return odd;
	}

	GIN_FN void repairToken(uint32_t t, uint32_t *of, uint32_t number) const
	{
		uint32_t wrong = 0;
		GIN_NO_UNROLL
		for (uint32_t k = 0; k < call.topk; k++) {
			bool bad = of[k] == EP_WRONG;
			GIN_NO_UNROLL
			for (uint32_t j = 0; j < k; j++)
				bad = bad || (of[k] != EP_NONE && of[j] == of[k]);
			wrong |= (bad ? 1u : 0u) << k;
			if (bad)
				of[k] = EP_NONE;
		}
		if (wrong && number)
			recordWrong(t * call.topk, wrong, number);
	}

	/* Records the first item whose bit is set, unless an earlier call has failed. */
	GIN_FN void recordWrong(uint32_t item, uint32_t wrong, uint32_t number) const
	{
		const epBegin begin(plan);
		if (begin.failed())
			return;
		GIN_NO_UNROLL
		for (; !(wrong & 1); wrong >>= 1)
			item++;
		epRecord(args, number, -1, ginErrorInvalidArgument, begin.epoch(number), item,
			 static_cast<uint64_t>(indexAt(item)));
	}

	/* Makes a short list. The caller syncs. */
	GIN_FN void listItems(uint32_t number)
	{
		if (isLong())
			return;
#if GIN_ON_GPU
		GIN_NO_UNROLL
		for (uint32_t t = epTeam() * EP_TEAM_TOKENS;
		     epTeam() < listTeams() && t < call.tokens; t += listTeams() * EP_TEAM_TOKENS)
			listTokens(t, number);
#else
		GIN_NO_UNROLL
		for (uint32_t t = thread(); t < call.tokens; t += threads())
			masks[t] = listToken(t, shortList + t * call.topk, number);
#endif
	}

#if GIN_ON_GPU
	/* Lanes of a warp for each token: a power of two. A lane has one item. */
	GIN_FN uint32_t lanesOfToken() const
	{
		return call.topk > 1 ? 1u << (32 - __clz(static_cast<int>(call.topk - 1))) : 1;
	}

	/* The block's last warp waits for credits meanwhile. */
	GIN_FN static uint32_t listTeams()
	{
		return epTeams() - 1;
	}

	/*
	 * Tokens first to first + EP_TEAM_TOKENS - 1, by a warp: a lane makes entries, then checks
	 * a token.
	 */
	GIN_FN void listTokens(uint32_t first, uint32_t number)
	{
		const uint32_t left = call.tokens - first, t = first + ginLane();
		const uint32_t tokens = left < EP_TEAM_TOKENS ? left : EP_TEAM_TOKENS;
		const uint32_t begin = first * call.topk, end = begin + tokens * call.topk;
		GIN_NO_UNROLL
		for (uint32_t i = begin + ginLane(); i - ginLane() < end; i += 128)
			makeEntries<4>(shortList, 0, i, 32, end);
		epTeamSync();
		if (ginLane() < tokens)
			masks[t] = checkToken(t, shortList + t * call.topk, number);
	}

	/*
	 * The entry of the lane's index; `lanes` lanes have the indices of one token, the lane's is
	 * number k. *bad: the index is wrong, or a lower lane has it. All lanes of a warp call it.
	 */
	GIN_FN uint32_t laneEntry(int64_t index, uint32_t k, uint32_t lanes, bool *bad) const
	{
		const bool valid = static_cast<uint64_t>(index) < plan.experts;
		const uint32_t entry = valid ? entryOf(static_cast<uint32_t>(index)) : EP_NONE;
		const bool again = hasBefore(entry, k, lanes);
		*bad = valid ? again : index != -1;
		return *bad ? EP_NONE : entry;
	}

	/*
	 * Does a lane before k have the entry? Shuffles follow each other at once; a match would
	 * take a pass for each value.
	 */
	GIN_FN static bool hasBefore(uint32_t entry, uint32_t k, uint32_t lanes)
	{
		bool has = false;
		GIN_NO_UNROLL
		for (uint32_t first = 1; first < lanes; first += 8)
			EP_UNROLL
		for (uint32_t i = 0; i < 8; i++) {
			const uint32_t other = __shfl_up_sync(0xffffffffu, entry, first + i);
			has = has || (k >= first + i && other == entry);
		}
		return has;
	}
#endif

	/* Is one of the token's experts at the rank? */
	GIN_FN bool goes(uint32_t t, uint32_t rank) const
	{
		if (hasMasks())
			return masks[t] >> rank & 1;
		return !firstIn(t, call.topk, rank);
	}

	/* By all threads of a team. */
	GIN_FN epShare shareOf(uint32_t t, uint32_t rank) const
	{
		epShare share = {0, 0};
#if GIN_ON_GPU
		const uint32_t k = ginLane(), i = t * call.topk + k;
		const uint32_t entry = k < call.topk ? listed(i) : EP_NONE, mine = epRankIn(entry);
		share.kMask = __ballot_sync(0xffffffffu, mine == rank);
		if (hasMasks()) {
			share.ranksBelow = epBits(masks[t] & ((1u << rank) - 1));
			return share;
		}
		const uint32_t equal = __match_any_sync(0xffffffffu, mine);
		const bool first = (equal & ((1u << k) - 1)) == 0;
		share.ranksBelow = epBits(
			__ballot_sync(0xffffffffu, first && entry != EP_NONE && mine < rank));
#else
		GIN_NO_UNROLL
		for (uint32_t k = 0; k < call.topk; k++) {
			const uint32_t entry = listed(t * call.topk + k), mine = epRankIn(entry);
			if (entry == EP_NONE)
				continue;
			share.kMask |= (mine == rank ? 1u : 0u) << k;
			share.ranksBelow += mine < rank && firstIn(t, k, mine) ? 1 : 0;
		}
#endif
		return share;
	}

	/* Is no item of the token before k at the rank? */
	GIN_FN bool firstIn(uint32_t t, uint32_t k, uint32_t rank) const
	{
		bool any = false;
		GIN_NO_UNROLL
		for (uint32_t j = 0; j < k; j++)
			any |= epRankIn(listed(t * call.topk + j)) == rank;
		return !any;
	}

	/*
	 * How many items before (t, k) have its expert. By all threads of a team, like the counts
	 * below.
	 */
	GIN_FN uint32_t numberOf(uint32_t t, uint32_t k) const
	{
		if (isLong())
			return plan.numbers[t * call.topk + k];
		return countEntries(t * call.topk, shortList[t * call.topk + k]);
	}

	/* How many entries of a short list before `end` are `entry`. */
	GIN_FN uint32_t countEntries(uint32_t end, uint32_t entry) const
	{
#if GIN_ON_GPU
		const uint4 *four = reinterpret_cast<const uint4 *>(shortList);
		uint32_t n = 0;
		GIN_NO_UNROLL
		for (uint32_t i = ginLane() * 4; i < end; i += 128) {
			const uint4 e = four[i / 4];
			n += (e.x == entry) + (i + 1 < end && e.y == entry) +
			     (i + 2 < end && e.z == entry) + (i + 3 < end && e.w == entry);
		}
		return __reduce_add_sync(0xffffffffu, n);
#else
		return epCount(end, [&](uint32_t i) { return shortList[i] == entry; });
#endif
	}

	/* How many tokens before t go to `rank`, the rank of item (t, k). */
	GIN_FN uint32_t slotOf(uint32_t t, uint32_t k, uint32_t rank) const
	{
		if (isLong())
			return plan.slots[t * call.topk + k];
		return epCount(t, [&](uint32_t before) { return goes(before, rank); });
	}

	GIN_FN uint32_t rowsTo(uint32_t rank) const
	{
		if (isLong())
			return plan.totals[plan.experts + rank];
		return epCount(call.tokens, [&](uint32_t t) { return goes(t, rank); });
	}

	GIN_FN uint32_t itemsTo(uint32_t rank) const
	{
		if (!isLong())
			return epCount(items(),
				       [&](uint32_t i) { return epRankIn(shortList[i]) == rank; });
		const uint32_t first = firstExpertOf(rank);
		uint32_t sum = 0;
		GIN_NO_UNROLL
		for (uint32_t e = 0; e < expertsOf(rank); e++)
			sum += plan.totals[first + e];
		return sum;
	}

	/* How many items before (t, k) are at `rank`, the rank of item (t, k). */
	GIN_FN uint32_t rankedOf(uint32_t t, uint32_t k, uint32_t rank) const
	{
		const uint32_t item = t * call.topk + k;
		if (isLong())
			return plan.ranked[item];
		return epCount(item, [&](uint32_t i) { return epRankIn(shortList[i]) == rank; });
	}

	/*
	 * word[0]: the rows for a rank; word[1 + e]: items of its local expert e. By all threads of
	 * the block.
	 */
	GIN_FN void histogramOf(uint32_t rank, uint32_t *word, uint32_t words) const
	{
		const uint32_t first = firstExpertOf(rank);
		GIN_NO_UNROLL
		for (uint32_t w = thread(); w < words; w += threads())
			word[w] = !isLong() ? 0
				  : w	    ? plan.totals[first + w - 1]
					    : plan.totals[plan.experts + rank];
		sync();
		GIN_NO_UNROLL
		for (uint32_t i = thread(); !isLong() && i < items(); i += threads())
			if (epRankIn(shortList[i]) == rank)
				epScratchAdd(&word[1 + epLocalIn(shortList[i])], 1);
		GIN_NO_UNROLL
		for (uint32_t t = thread(); !isLong() && t < call.tokens; t += threads())
			if (goes(t, rank))
				epScratchAdd(&word[0], 1);
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
		const uint32_t step = ginGridSize() * threads();
		if (stopped())
			return;
		GIN_NO_UNROLL
		for (uint32_t t = ginBlockIndex() * threads() + thread(); t < call.tokens;
		     t += step)
			listToken(t, plan.list + t * call.topk, ginEpCallDispatchSend);
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
	/*
	 * Calls mark(i, n) for each i below `end` that passes, with the number n of earlier ones.
	 */
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
		const uint32_t entry = entryOf(expert);
		uint32_t n = number(
			items(), [&](uint32_t i) { return plan.list[i] == entry; },
			[&](uint32_t i, uint32_t before) { plan.numbers[i] = before; });
		if (epTeamFirst())
			plan.totals[expert] = n;
	}

	GIN_FN void numberRank(uint32_t rank) const
	{
		uint32_t n = number(
			call.tokens, [&](uint32_t t) { return goes(t, rank); },
			[&](uint32_t t, uint32_t before) {
				GIN_NO_UNROLL
				for (uint32_t k = 0; k < call.topk; k++)
					if (epRankIn(plan.list[t * call.topk + k]) == rank)
						plan.slots[t * call.topk + k] = before;
			});
		if (epTeamFirst())
			plan.totals[plan.experts + rank] = n;
		if (plan.allDirect)
			return;
		number(
			items(), [&](uint32_t i) { return epRankIn(plan.list[i]) == rank; },
			[&](uint32_t i, uint32_t before) { plan.ranked[i] = before; });
	}
};

#endif
