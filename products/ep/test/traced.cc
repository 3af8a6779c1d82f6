/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traced.cc - calls of ep in a trace: for test/tools/gin_trace, which compares
 *
 * Prints what the trace must have, by plain loops over tokens: "sent RANK PEER CALL BYTES GOT".
 * LOG: a file that the last rank watches when it is late.
 */
#include "ht.h"

/* By call and rank: bytes that are stored there, bytes that are loaded from there. */
struct Bytes {
	uint64_t put = 0, got = 0;
};
using Sent = std::map<std::pair<std::string, uint32_t>, Bytes>;

static uint64_t upTo(uint64_t n, uint64_t step)
{
	return (n + step - 1) / step * step;
}

static uint64_t seedOf()
{
	return numberOr("SEED", 20261130);
}

/* Tokens of rank `s` with an expert of rank p, and the items of these tokens there. */
static std::array<uint64_t, 2> countOf(const Round &round, uint32_t s, uint32_t p)
{
	std::array<uint64_t, 2> count = {};
	for (uint32_t t = 0; t < round.tokens[s]; t++) {
		uint64_t items = 0;
		for (int64_t e : round.expertsOf(s, t))
			items += e >= round.first[p] && e < round.first[p + 1];
		count[0] += items > 0;
		count[1] += items;
	}
	return count;
}

/* Bytes of the scales of a row on the wire. */
static uint64_t scalesOf(const Round &round)
{
	const uint32_t h = round.hidden;
	return round.rows == GIN_EP_ROWS_F8	? upTo(h, 128) / 128 * 4
	       : round.rows == GIN_EP_ROWS_MXF8 ? upTo(upTo(h, 32) / 32, 4)
	       : round.rows == GIN_EP_ROWS_NVF4 ? upTo(h / 16, 4)
						: 0;
}

static void addRound(const Rank &r, const Round &round, Sent &sent)
{
	const uint32_t me = static_cast<uint32_t>(r.rank);
	for (uint32_t p = 0; p < round.ranks; p++) {
		ginPeerInfo_t info = GIN_PEER_INFO_INIT;
		CHECK(ginCommQueryPeer(r.comm, static_cast<int>(p), &info));
		const auto there = countOf(round, me, p), back = countOf(round, p, me);
		const bool direct = p == me || info.route == ginRouteDirect;
		/* A put has room for all items, and for bf16. */
		const uint64_t slot = upTo(16 + 8 * round.topk, 16) + 2 * round.hidden;
		const uint64_t row = 16 + round.rowBytes() + scalesOf(round);
		sent[{"ep dispatch", p}].put +=
			8 * (1 + round.first[p + 1] - round.first[p]) +
			(direct ? there[0] * row + 8 * there[1] : there[0] * slot);
		sent[{"ep combine", p}].put +=
			back[round.reduce == GIN_EP_REDUCE_NONE] * 2 * round.hidden;
	}
}

/* Rows of rank s for any of the ranks first to first + n - 1, among tokens from to end - 1. */
static uint64_t rowsTo(const HtRound &round, uint32_t s, uint32_t first, uint32_t n,
		       uint32_t from = 0, uint32_t end = ~0u)
{
	uint64_t rows = 0;
	for (uint32_t t = from; t < round.tokens[s] && t < end; t++) {
		bool goes = false;
		for (uint32_t p = first; p < first + n; p++)
			goes = goes || round.goes(s, t, p);
		rows += goes;
	}
	return rows;
}

/* A chunk for each 32 tokens of rank s: 16 bytes, and the rows for a domain. */
static uint64_t chunksOf(const HtRound &round, uint32_t s, uint32_t domain, uint64_t row)
{
	uint64_t bytes = 0;
	for (uint32_t t = 0; t < round.tokens[s]; t += 32)
		bytes +=
			16 + row * rowsTo(round, s, domain * round.domain, round.domain, t, t + 32);
	return bytes;
}

/* Words and rows for rank p of this rank's domain. */
static void addNear(const HtRound &round, uint32_t me, uint32_t p, Sent &sent)
{
	const uint32_t D = round.domain, domains = round.ranks / D, own = me / D;
	const uint32_t experts = round.firstOf(p + 1) - round.firstOf(p);
	const uint64_t meta =
		4 * (1 + 2 * round.topk) + upTo(round.scaleCount() * round.scaleBytes(), 4);
	const uint64_t row = round.hidden * round.elementBytes();
	Bytes &dispatch = sent[{"ep dispatch", p}], &combine = sent[{"ep combine", p}];
	sent[{"ep notify", p}].put += uint64_t{domains} * 8 * (1 + round.ranks + experts);
	const uint64_t place = getenv("WINDOW") ? 24 : 16;
	dispatch.put += place * domains;
	combine.put += place * domains + 8;
	for (uint32_t d = 0; d < domains; d++) {
		const uint32_t source = d * D + me % D; /* whose rows this rank brings */
		const uint64_t rows = rowsTo(round, source, p, 1);
		dispatch.put += upTo(round.tokens[source], 4) / 4 * 8 +
				rows * (row + (d == own ? meta : upTo(meta, 16)));
		combine.got += p == me ? 0 : rows * (2 * round.hidden + 4 * round.topk);
		combine.put += p == me ? 0 : upTo(rowsTo(round, d * D + p % D, me, 1), 8);
	}
}

static void addHt(const HtRound &round, uint32_t me, Sent &sent)
{
	const uint32_t D = round.domain, own = me / D;
	const uint64_t meta =
		4 * (1 + 2 * round.topk) + upTo(round.scaleCount() * round.scaleBytes(), 4);
	const uint64_t row = round.hidden * round.elementBytes();
	const uint32_t local = round.each() + (round.more() ? 1 : 0);
	for (uint32_t p = own * D; p < own * D + D; p++)
		addNear(round, me, p, sent);
	for (uint32_t d = 0; d < round.ranks / D; d++) {
		const uint32_t p = d * D + me % D;
		if (d == own)
			continue;
		sent[{"ep notify", p}].put += upTo((1 + round.ranks + D * local) * 4, 16) +
					      upTo(round.tokens[me], 32) / 32 * D * 8;
		sent[{"ep dispatch", p}].put += chunksOf(round, me, d, upTo(meta, 16) + row);
		sent[{"ep combine", p}].put +=
			chunksOf(round, p, own, upTo(4 * round.topk, 16) + 2 * round.hidden);
	}
}

static void print(const Rank &r, const Sent &sent)
{
	for (const auto &one : sent)
		printf("sent %d %u %s %llu %llu\n", r.rank, one.first.second,
		       one.first.first.c_str(), static_cast<unsigned long long>(one.second.put),
		       static_cast<unsigned long long>(one.second.got));
	fflush(stdout);
}

static ginEp_t epFor(Rank &r, const Round &round)
{
	ginEpConfig_t config = GIN_EP_CONFIG_INIT;
	config.experts = round.experts;
	config.topk = round.topk;
	config.hidden = round.hidden;
	config.maxTokens = round.maxTokens;
	config.timeout = numberOr("PATIENCE", 60) * 1000000000;
	return makeEp(r, config);
}

/* Types of rows, combines of both kinds, and a split call. */
static void low(Rank &r)
{
	static const uint32_t rows[] = {GIN_EP_ROWS_BF16, GIN_EP_ROWS_F8, GIN_EP_ROWS_MXF8,
					GIN_EP_ROWS_NVF4};
	Sent sent;
	Round round = evenRound(r, 11, 4, 160, 40, seedOf());
	ginEp_t ep = epFor(r, round);
	for (uint32_t i = 0; i < 4; i++) {
		round.seed++;
		round.rows = rows[i];
		round.reduce = i % 2 ? GIN_EP_REDUCE_RANK : GIN_EP_REDUCE_NONE;
		round.tokens[0] = 10 * i;
		Batch batch(r, round, handleBytes(ep));
		meet(r);
		EP_CHECK(batch.runDispatch(ep, i == 3 ? GIN_EP_SEND : GIN_EP_BOTH));
		if (i == 3)
			EP_CHECK(batch.runDispatch(ep, GIN_EP_RECV));
		finish(r, ep);
		batch.checkDispatch();
		EP_CHECK(batch.runCombine(ep, GIN_EP_BOTH));
		finish(r, ep);
		batch.checkCombine();
		addRound(r, round, sent);
		meet(r);
	}
	EP_CHECK(ginEpDestroy(ep));
	print(r, sent);
}

/*
 * Numbers of tokens that differ by rank, kinds of rows; the second combine's x is in the pool.
 * WINDOW=1: with a window, which makes places a word longer.
 */
static void high(Rank &r)
{
	Sent sent;
	HtRound round = htRound(r, 4 * static_cast<uint32_t>(r.nRanks) + 1, 3, 64, 70, seedOf());
	ginEpConfig_t config = htConfig(round, numberOr("PATIENCE", 60));
	Buffer window(r, 4096);
	if (getenv("WINDOW")) {
		config.htWindow = window.window;
		config.htWindowBytes = window.bytes;
	}
	ginEp_t ep = makeEp(r, config);
	for (uint32_t i = 0; i < 3; i++) {
		round.seed++;
		round.tokens[0] = 33 * i;
		round.kind = i % 2 ? htF8Columns : htBf16;
		HtNotified handle(r, ep, round);
		meet(r);
		handle.notify(ep);
		handle.checkCounts(ep);
		HtRound answers = round;
		answers.kind = htBf16;
		void *pool = nullptr;
		uint64_t bytes = 0;
		EP_CHECK(ginEpHtPool(ep, &pool, &bytes));
		HtDispatched rows(handle, round, 0, true);
		meet(r);
		EP_CHECK(rows.run(ep));
		finish(r, ep);
		rows.check();
		meet(r);
		HtCombined back(handle, answers, 0, true, i == 1 ? pool : nullptr);
		meet(r);
		EP_CHECK(back.run(ep));
		finish(r, ep);
		back.check();
		addHt(round, static_cast<uint32_t>(r.rank), sent);
		meet(r);
	}
	EP_CHECK(ginEpDestroy(ep));
	print(r, sent);
}

/* The last rank goes on when another rank's log says that a kernel has waited for it. */
static void beLate(const Rank &r)
{
	const char *path = getenv("LOG");
	char line[1024], name[32];
	bool told = r.rank + 1 != r.nRanks;
	EXPECT(path);
	snprintf(name, sizeof(name), "; rank %d (host ", r.rank);
	for (int i = 0; i < 600 && !told; i++) {
		FILE *log = fopen(path, "r");
		while (log && fgets(line, sizeof(line), log))
			told = told ||
			       (strstr(line, "a kernel has waited for") && strstr(line, name));
		if (log)
			fclose(log);
		usleep(100000);
	}
	EXPECT(told);
}

static void slowLow(Rank &r)
{
	const Round round = evenRound(r, 8, 2, 32, 5, seedOf());
	ginEp_t ep = epFor(r, round);
	Batch batch(r, round, handleBytes(ep));
	meet(r);
	beLate(r);
	EP_CHECK(batch.runDispatch(ep, GIN_EP_BOTH));
	EP_CHECK(batch.runCombine(ep, GIN_EP_BOTH));
	finish(r, ep);
	EP_CHECK(ginEpDestroy(ep));
}

static void slowHigh(Rank &r)
{
	const HtRound round = htRound(r, 2 * static_cast<uint32_t>(r.nRanks), 2, 32, 5, seedOf());
	ginEp_t ep = makeEp(r, htConfig(round, numberOr("PATIENCE", 60)));
	HtNotified handle(r, ep, round);
	meet(r);
	handle.notify(ep);
	handle.checkCounts(ep);
	HtDispatched rows(handle, round, 0, true);
	meet(r);
	beLate(r);
	EP_CHECK(rows.run(ep));
	finish(r, ep);
	EP_CHECK(ginEpDestroy(ep));
}

/* Rank 0 dispatches, the others combine: they wait for each other. */
static void ring(Rank &r)
{
	const HtRound round = htRound(r, 2 * static_cast<uint32_t>(r.nRanks), 2, 32, 5, seedOf());
	ginEpRecord_t record = GIN_EP_RECORD_INIT;
	ginEp_t ep = makeEp(r, htConfig(round, 5)); /* seconds: notify has to end in time */
	HtNotified handle(r, ep, round);
	meet(r);
	handle.notify(ep);
	handle.checkCounts(ep);
	HtDispatched rows(handle, round, 0, true);
	HtCombined back(handle, round, 0, true);
	meet(r);
	if (r.rank == 0)
		(void)rows.run(ep);
	else
		(void)back.run(ep);
	wait(r);
	EP_CHECK(ginEpGetAsyncError(ep, &record));
	EXPECT(record.valid && record.rank >= 0);
	meet(r);
	EP_CHECK(ginEpDestroy(ep));
}

static int run(const ginConfig_t *config)
{
	static const Case cases[] = {{"low", low},
				     {"high", high},
				     {"slow low", slowLow},
				     {"slow high", slowHigh},
				     {"ring", ring}};
	return runCases(config, cases);
}

int main(int argc, char **argv)
{
	return ranksMain(argc, argv, run);
}
