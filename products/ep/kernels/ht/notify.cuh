/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * notify.cuh - how many tokens go where: layout on this rank, notify between ranks
 *
 * Counts come from the tokens, without atomics on memory of the GPU: slots do not depend on timing.
 */
#ifndef GIN_EP_HT_NOTIFY_CUH
#define GIN_EP_HT_NOTIFY_CUH

#include "common.cuh"

/* By one block: a thread takes a token. */
class EpHtLayout : public EpHt
{
	uint32_t *const tokens; /* [ranks] */
	uint32_t *const items;	/* [experts] */
	uint8_t *const rankOf;	/* [experts] */

public:
	GIN_FN EpHtLayout(const epArgs &a, char *shared)
	    : EpHt(a, shared, ginEpCallHtNotify), tokens(reinterpret_cast<uint32_t *>(shared)),
	      items(tokens + a.plan.nRanks),
	      rankOf(reinterpret_cast<uint8_t *>(items + a.plan.experts))
	{
	}

	GIN_FN static size_t scratchBytes(const epPlan &plan)
	{
		return (size_t{plan.nRanks} + plan.experts) * sizeof(uint32_t) + plan.experts;
	}

	GIN_FN void run() const
	{
		GIN_NO_UNROLL
		for (uint32_t i = thread(); i < ranks() + call.experts; i += threads())
			tokens[i] = 0;
		GIN_NO_UNROLL
		for (uint32_t e = thread(); e < call.experts; e += threads())
			rankOf[e] = static_cast<uint8_t>(findRank(e));
		sync();
		GIN_NO_UNROLL
		for (uint32_t base = 0; base < call.tokens; base += threads())
			countToken(base + thread());
		sync();
		GIN_NO_UNROLL
		for (uint32_t r = thread(); r < ranks(); r += threads())
			call.tokensPerRank[r] = static_cast<int32_t>(tokens[r]);
		GIN_NO_UNROLL
		for (uint32_t e = thread(); e < call.experts; e += threads())
			call.tokensPerExpert[e] = static_cast<int32_t>(items[e]);
	}

private:
	/* Of GIN_EP_HT_MAX_RANKS ranks. Words that an index chooses would be on the stack. */
	struct RankSet {
		uint64_t low, high;

		GIN_FN bool has(uint32_t r) const
		{
			return (r < 64 ? low >> r : high >> (r - 64)) & 1;
		}
		GIN_FN void add(uint32_t r)
		{
			const uint64_t bit = uint64_t{1} << r % 64;
			low |= r < 64 ? bit : 0;
			high |= r < 64 ? 0 : bit;
		}
	};

	/* By all threads of a team, also without a token. */
	GIN_FN void countToken(uint32_t t) const
	{
		uint8_t *const goes = call.isTokenInRank + size_t{t} * ranks();
		const size_t first = size_t{t} * call.topk;
		RankSet seen = {};
		if (t < call.tokens && call.indexBytes == 8)
			countItems(reinterpret_cast<const int64_t *>(call.topkIdx) + first, &seen);
		else if (t < call.tokens)
			countItems(reinterpret_cast<const int32_t *>(call.topkIdx) + first, &seen);
		epTeamSync();
		GIN_NO_UNROLL
		for (uint32_t r = 0; r < ranks(); r++) {
			const uint32_t n = epTeamSum(seen.has(r) ? 1 : 0);
			if (epTeamFirst() && n)
				epScratchAdd(&tokens[r], n);
			if (t < call.tokens)
				goes[r] = seen.has(r);
		}
	}

	/* The experts of a token; their ranks. Eight loads are in flight: none has a condition. */
	template <class Index> GIN_FN void countItems(const Index *experts, RankSet *seen) const
	{
		GIN_NO_UNROLL
		for (uint32_t base = 0; base < call.topk; base += 8) {
			int64_t e[8];
			EP_UNROLL
			for (uint32_t i = 0; i < 8; i++)
				e[i] = experts[base + i < call.topk ? base + i : base];
			EP_UNROLL
			for (uint32_t i = 0; i < 8; i++) {
				if (base + i >= call.topk ||
				    static_cast<uint64_t>(e[i]) >= call.experts)
					continue;
				epScratchAdd(&items[e[i]], 1);
				seen->add(rankOf[e[i]]);
			}
		}
	}

	GIN_FN uint32_t findRank(uint32_t e) const
	{
		const uint32_t each = call.experts / ranks(), more = call.experts % ranks();
		const uint32_t larger = more * (each + 1);
		return e < larger ? e / (each + 1) : each ? more + (e - larger) / each : EP_NONE;
	}
};

class EpHtNotify : public EpHt
{
protected:
	uint32_t *const sent;  /* [ranks]: rows to each rank */
	uint32_t *const all;   /* [ranks]: rows that each rank gets from all */
	uint32_t *const items; /* [own experts] */

public:
	GIN_FN EpHtNotify(const epArgs &a, char *shared, bool isRail = false)
	    : EpHt(a, shared, ginEpCallHtNotify, isRail),
	      sent(reinterpret_cast<uint32_t *>(shared)), all(sent + a.plan.nRanks),
	      items(all + a.plan.nRanks)
	{
	}

	GIN_FN static size_t scratchBytes(const epPlan &plan)
	{
		return (2ull * plan.nRanks + plan.localExperts) * sizeof(uint32_t);
	}

	GIN_FN void run()
	{
		const uint64_t began = epTraceBegin(args);
		if (!count())
			return;
		traceLines(began);
		if (receiveLines())
			finish();
	}

protected:
	/* Counts this rank's rows, and sends the lines. True in the last block. */
	GIN_FN bool count()
	{
		if (stopped())
			return false;
		markTokens();
		if (!isLastBlock())
			return false;
		epoch = epWordLoad(&plan.state->notified);
		addGroups();
		sendLines();
		return true;
	}

	GIN_FN uint32_t groups() const { return (call.tokens + EP_HT_GROUP - 1) / EP_HT_GROUP; }

	/* The bits of all pairs. A team takes a group. */
	GIN_FN void markTokens() const
	{
		GIN_NO_UNROLL
		for (uint32_t g = ginBlockIndex() * epTeams() + epTeam(); g < groups();
		     g += ginGridSize() * epTeams())
			GIN_NO_UNROLL
		for (uint32_t r = 0; r < ranks(); r++) {
			const uint32_t bits = bitsOf(g, r);
			if (epTeamFirst())
				epHtPairsOf(plan, handle, g)[r].bits = bits;
		}
	}

	/* The tokens of a group that go to a rank. */
	GIN_FN uint32_t bitsOf(uint32_t g, uint32_t r) const
	{
#if GIN_ON_GPU
		return __ballot_sync(0xffffffffu, goesTo(g * EP_HT_GROUP + ginLane(), r));
#else
		uint32_t bits = 0;
		for (uint32_t j = 0; j < EP_HT_GROUP; j++)
			bits |= (goesTo(g * EP_HT_GROUP + j, r) ? 1u : 0u) << j;
		return bits;
#endif
	}

	GIN_FN bool goesTo(uint32_t t, uint32_t r) const
	{
		return t < call.tokens && call.isTokenInRank[size_t{t} * ranks() + r];
	}

	/* The rows before each group, and sent[]. A team takes a rank. */
	GIN_FN void addGroups() const
	{
		GIN_NO_UNROLL
		for (uint32_t r = epTeam(); r < ranks(); r += epTeams()) {
			uint32_t sum = 0;
			GIN_NO_UNROLL
			for (uint32_t first = 0; first < groups(); first += epTeamSize()) {
				const uint32_t g = first + epTeamLane();
				epHtPair *const pair = epHtPairsOf(plan, handle, g) + r;
				const uint32_t n = g < groups() ? epBits(pair->bits) : 0;
				const uint32_t end = sum + epTeamScan(n);
				if (g < groups())
					pair->before = end - n;
				sum += epTeamSum(n);
			}
			if (epTeamFirst())
				sent[r] = sum;
		}
		sync();
	}

	/* The count line of this rank, to every direct peer. */
	GIN_FN void sendLines() const
	{
		const uint32_t words = 1 + ranks() + plan.mostLocal;
		ginFence<ginScopeSystem>();
		GIN_NO_UNROLL
		for (uint32_t i = thread(); i < peers() * words; i += threads()) {
			const uint32_t r = firstPeer() + i / words, w = i % words;
			if (w < wordsOf(r))
				post(r, epHtCountAt(plan, epoch % 2, plan.rank, w), wordOf(r, w));
		}
	}

	/* The bytes of count lines for each direct peer: this rank's, and those of rail peers. */
	GIN_FN void traceLines(uint64_t began) const
	{
		const uint32_t lines = rail ? ht.domains : 1;
		GIN_NO_UNROLL
		for (uint32_t i = thread(); ginTraces && i < peers(); i += threads())
			epTraceSent(args, number, firstPeer() + i, epoch, began,
				    uint64_t{lines} * wordsOf(firstPeer() + i) * sizeof(uint64_t));
	}

	GIN_FN uint32_t wordsOf(uint32_t r) const
	{
		return 1 + ranks() + plan.firstExpert[r + 1] - plan.firstExpert[r];
	}

	GIN_FN uint32_t wordOf(uint32_t r, uint32_t w) const
	{
		if (w == 0)
			return call.tokens;
		if (w <= ranks())
			return sent[w - 1];
		return static_cast<uint32_t>(
			call.tokensPerExpert[plan.firstExpert[r] + w - 1 - ranks()]);
	}

	/* False: a rank is lost. */
	GIN_FN bool receiveLines() const
	{
		const uint32_t words = wordsOf(plan.rank);
		bool lost = false;
		GIN_NO_UNROLL
		for (uint32_t i = thread(); i < ranks() + plan.localExperts; i += threads())
			all[i] = 0;
		sync();
		GIN_NO_UNROLL
		for (uint32_t i = thread(); i < ranks() * words && !lost; i += threads()) {
			const uint32_t s = i / words, w = i % words;
			const uint64_t began = epTraceBegin(args);
			uint32_t value = 0;
			lost = !await(nearOf(s), epHtCountAt(plan, epoch % 2, s, w), epoch + 1,
				      &value, isFar(s));
			if (w == 0)
				waited(nearOf(s), began, !lost);
			take(s, w, value);
		}
		return !GinCta{}.any(lost);
	}

	/* Word w of the line of source s. */
	GIN_FN void take(uint32_t s, uint32_t w, uint32_t value) const
	{
		if (w == 0)
			epHtTokensOf(handle)[s] = value;
		else if (w > ranks())
			epScratchAdd(&items[w - 1 - ranks()], value);
		else if (call.rankPrefix)
			call.rankPrefix[s * ranks() + w - 1] = static_cast<int32_t>(value);
		if (w == 0 || w > ranks())
			return;
		epScratchAdd(&all[w - 1], value);
		if (w - 1 == plan.rank)
			epHtRowsOf(plan, handle)[s] = value;
	}

	/* The handle, the reports, the next epoch. */
	GIN_FN void finish() const
	{
		const uint32_t step = call.alignment;
		sync();
		GIN_NO_UNROLL
		for (uint32_t e = thread(); e < plan.localExperts; e += threads())
			items[e] = (items[e] + step - 1) / step * step;
		GIN_NO_UNROLL
		for (uint32_t r = thread(); call.rankPrefix && r < ranks(); r += threads())
			addSources(r);
		sync();
		GIN_NO_UNROLL
		for (uint32_t i = thread(); call.recvCounts && i < 1 + plan.localExperts;
		     i += threads())
			call.recvCounts[i] =
				static_cast<int32_t>(i ? items[i - 1] : all[plan.rank]);
		if (thread() != 0)
			return;
		uint32_t *const start = epHtStartOf(plan, handle);
		uint32_t sum = 0;
		GIN_NO_UNROLL
		for (uint32_t s = 0; s < ranks(); s++) {
			start[s] = sum;
			sum += epHtRowsOf(plan, handle)[s];
		}
		*handle = {EP_HT_TAG, epoch, call.tokens, sum};
		if (call.ticket)
			tellHost();
		epWordStore(&plan.state->notified, epoch + 1);
	}

	/* rankPrefix[s][r] becomes the sum over the sources up to s. */
	GIN_FN void addSources(uint32_t r) const
	{
		int32_t sum = 0;
		GIN_NO_UNROLL
		for (uint32_t s = 0; s < ranks(); s++)
			sum = call.rankPrefix[s * ranks() + r] += sum;
	}

	GIN_FN void tellHost() const
	{
		uint32_t *const entry = ht.page + call.ticket % EP_HT_TICKETS * ht.pageWords;
		uint32_t most = 0;
		GIN_NO_UNROLL
		for (uint32_t r = 0; r < ranks(); r++)
			most = all[r] > most ? all[r] : most;
		epPageStore(entry + 1, all[plan.rank]);
		epPageStore(entry + 2, most);
		GIN_NO_UNROLL
		for (uint32_t e = 0; e < plan.localExperts; e++)
			epPageStore(entry + 3 + e, items[e]);
		epPagePublish(entry, call.ticket);
	}
};

#endif
