/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rounds.cc - dispatch and combine against the reference: shapes, layouts, types, hooks, and random
 * rounds
 *
 * ROUNDS=n sets the number of random rounds, and of those with rows alone; SEED=n: where they
 * begin; each failure prints its seed. CASE=name,... chooses cases, PATIENCE=n how many seconds a
 * call waits for a rank.
 */
#include "rig.h"

static uint64_t seedOf()
{
	return numberOr("SEED", 20261123);
}

static Round roundOf(Rank &r, uint32_t experts, uint32_t topk, uint32_t hidden, uint32_t maxTokens)
{
	return evenRound(r, experts, topk, hidden, maxTokens, seedOf());
}

static ginEp_t epFor(Rank &r, const Round &round, bool giveFirst = false, uint32_t blocks = 0)
{
	ginEpConfig_t config = GIN_EP_CONFIG_INIT;
	config.experts = round.experts;
	config.topk = round.topk;
	config.hidden = round.hidden;
	config.maxTokens = round.maxTokens;
	config.timeout = numberOr("PATIENCE", r.device < 0 ? 60 : 8) * 1000000000;
	config.firstExpert = giveFirst ? round.first.data() : nullptr;
	config.maxSms = blocks;
	return makeEp(r, config);
}

static void both(Rank &r, ginEp_t ep, Batch &batch)
{
	EP_CHECK(batch.runDispatch(ep, GIN_EP_BOTH));
	finish(r, ep);
	batch.checkDispatch();
	EP_CHECK(batch.runCombine(ep, GIN_EP_BOTH));
	finish(r, ep);
	batch.checkCombine();
}

/* A rank allocates no memory while kernels of ranks that are threads of its process wait. */
static void once(Rank &r, ginEp_t ep, const Round &round)
{
	meet(r);
	Batch batch(r, round, handleBytes(ep));
	meet(r);
	both(r, ep, batch);
}

/*
 * Dispatch and combine are launched without waiting in between, as the first kernels of the
 * process: CUDA must not load combine's kernel while dispatch waits for the proxy.
 */
static void ahead(Rank &r)
{
	const Round round = roundOf(r, 16, 8, 128, 7);
	ginEp_t ep = epFor(r, round);
	Batch batch(r, round, handleBytes(ep));
	EP_CHECK(batch.runDispatch(ep, GIN_EP_BOTH));
	EP_CHECK(batch.runCombine(ep, GIN_EP_BOTH));
	finish(r, ep);
	batch.checkDispatch();
	EP_CHECK(ginEpDestroy(ep));
}

/* Kinds of rows by numbers: bf16, e4m3, and from 12 on mxfp8 and nvfp4, of multiples of 32. */
static void chooseRows(Round &round, uint32_t kind)
{
	const bool bytes = kind >= 12 && round.hidden % 32 == 0;
	round.rows = (kind % 2 ? GIN_EP_ROWS_F8 : GIN_EP_ROWS_BF16) << (bytes ? 2 : 0);
	round.scaleKind = !bytes	 ? kind / 2 % 3
			  : kind / 2 % 2 ? GIN_EP_SCALE_BLOCKS
					 : GIN_EP_SCALE_STRIDED;
}

/* One shape in every layout, type of row and kind of combine; of many ranks in some of them. */
static void everyKind(Rank &r, Round round)
{
	const uint32_t step = r.nRanks < 4 ? 1 : 5, kinds = round.hidden % 32 ? 12 : 16;
	ginEp_t ep = epFor(r, round);
	for (uint32_t kind = round.experts % step; kind < kinds; kind += step) {
		chooseRows(round, kind);
		round.layout = kind % 4 == 3 ? GIN_EP_RANK_MAJOR : GIN_EP_EXPERT_MAJOR;
		round.reduce = kind % 3 == 0 && round.layout == GIN_EP_EXPERT_MAJOR
				       ? GIN_EP_REDUCE_NONE
				       : GIN_EP_REDUCE_RANK;
		round.weighted = kind % 5 != 4;
		round.wide = kind / 4 % 2 == 0;
		round.seed++;
		once(r, ep, round);
	}
	EP_CHECK(ginEpDestroy(ep));
}

static void shapes(Rank &r)
{
	static const uint32_t shape[][4] = {
		/* experts, topk, hidden, tokens */
		{16, 8, 128, 7}, {8, 2, 7168, 3},   {5, 1, 16, 1},    {3, 6, 2880, 4},
		{1, 1, 128, 9},	 {40, 9, 128, 128}, {64, 16, 112, 5}, {37, 22, 272, 6},
		{64, 32, 64, 3}, {9, 4, 3584, 2},
	};
	for (const uint32_t *s : shape)
		everyKind(r, roundOf(r, s[0], s[1], s[2], s[3]));
}

/* Lists of more than 2048 items are counted by kernels of their own. */
static void longLists(Rank &r)
{
	static const uint32_t shape[][4] = {{24, 8, 32, 1025}, {40, 32, 16, 129}};
	for (const uint32_t *s : shape) {
		Round round = roundOf(r, s[0], s[1], s[2], s[3]);
		ginEp_t ep = epFor(r, round);
		round.seed++;
		once(r, ep, round);
		round.reduce = GIN_EP_REDUCE_RANK;
		round.rows = GIN_EP_ROWS_F8;
		round.wide = false;
		once(r, ep, round);
		EP_CHECK(ginEpDestroy(ep));
	}
}

/* All tokens to one rank, no expert at all, ranks without tokens, tables of experts. */
static void corners(Rank &r)
{
	Round round = roundOf(r, 12, 4, 64, 10);
	ginEp_t ep = epFor(r, round);
	for (int route = 0; route < 3; route++) {
		for (uint32_t none = 0; none < 3; none++) {
			round.route = route;
			round.seed++;
			for (uint32_t i = 0; i < round.ranks; i++)
				round.tokens[i] = none == 0 ? 10 : none == 1 ? i % 2 * 9 : 0;
			once(r, ep, round);
		}
	}
	EP_CHECK(ginEpDestroy(ep));
	round = roundOf(r, 12, 4, 64, 10);
	for (uint32_t i = 1; i < round.ranks; i++)
		round.first[i] = 11; /* rank 0 has most, some have none */
	round.seed++;
	ep = epFor(r, round, true);
	once(r, ep, round);
	EP_CHECK(ginEpDestroy(ep));
}

/* Few rows and many blocks: rows are received by other blocks than those that send. */
static void fewRows(Rank &r)
{
	Round round = roundOf(r, 12, 4, 64, 16);
	round.tokens.assign(round.ranks, 1);
	ginEp_t ep = epFor(r, round, false, r.device < 0 ? 16 : 0);
	meet(r);
	Batch batch(r, round, handleBytes(ep));
	meet(r);
	EP_CHECK(batch.runDispatch(ep, GIN_EP_SEND));
	EP_CHECK(batch.runDispatch(ep, GIN_EP_RECV));
	finish(r, ep);
	batch.checkDispatch();
	EP_CHECK(batch.runCombine(ep, GIN_EP_BOTH));
	finish(r, ep);
	batch.checkCombine();
	EP_CHECK(ginEpDestroy(ep));
}

/*
 * Blocks that send and receive one row at most each: a row is copied when it is there, whatever
 * becomes of other rows. Numbers of calls begin anew with a reset, so rows of old calls have the
 * same tags.
 */
static void rowsAlone(Rank &r)
{
	Round round = roundOf(r, 12, 4, 2048, 3);
	round.seed++;
	ginEp_t ep = epFor(r, round, false, r.device < 0 ? 24 : 0);
	const uint64_t rounds = numberOr("ROUNDS", 24);
	for (uint32_t n = 0; n < rounds; n++) {
		round.seed += 3;			  /* no waitCost */
		chooseRows(round, n % 6 + n % 6 / 2 * 6); /* 0, 1, 8, 9, 16, 17 */
		for (uint32_t i = 0; i < round.ranks; i++)
			round.tokens[i] = 3 - (n + i) % 4 / 3;
		once(r, ep, round);
		if (n % 4 == 3)
			EP_CHECK(ginEpReset(ep));
	}
	EP_CHECK(ginEpDestroy(ep));
}

/* x that is mxfp8 or nvfp4 already, with any scales in columns. */
static void dispatchBytes(Rank &r, ginEp_t ep, const Round &round)
{
	Batch batch(r, round, handleBytes(ep));
	const uint32_t T = batch.T, S = round.scaleCount();
	Memory x(r, T * round.rowBytes()), scales(r, T * S);
	std::vector<uint8_t> rows, bytes(T * S);
	for (uint32_t t = 0; t < T; t++) {
		Wire wire = wireOf(round, batch.me, t);
		rows.insert(rows.end(), wire.payload.begin(), wire.payload.end());
		for (uint32_t s = 0; s < S; s++)
			bytes[s * T + t] = wire.bytes[s];
	}
	x.write(rows);
	scales.write(bytes);
	batch.dispatch.hidden = 0; /* it follows from x */
	batch.dispatch.x = tensor(x, batch.rowType(), {T, round.rowBytes()});
	batch.dispatch.scales = tensor(scales, ginEpU8, {T, S});
	batch.dispatch.scales.stride[0] = 1;
	batch.dispatch.scales.stride[1] = T;
	batch.dispatch.xGlobalScale.data = nullptr;
	both(r, ep, batch);
}

/* Data and scales of mxfp8 and nvfp4 go out as they are. */
static void givenBytes(Rank &r)
{
	/* Experts have more than 128 rows, so that there are two blocks of scales. */
	Round round = roundOf(r, 2, 2, 352, 240 / static_cast<uint32_t>(r.nRanks));
	ginEp_t ep = epFor(r, round);
	round.edges = true;
	for (uint32_t kind = 12; kind < 16; kind++) {
		chooseRows(round, kind);
		round.layout = kind % 3 ? GIN_EP_EXPERT_MAJOR : GIN_EP_RANK_MAJOR;
		round.reduce = GIN_EP_REDUCE_RANK;
		round.seed++;
		dispatchBytes(r, ep, round);
	}
	EP_CHECK(ginEpDestroy(ep));
}

/* x that is e4m3 already, with scales of the kind `given`. */
static void dispatchGiven(Rank &r, ginEp_t ep, const Round &round, const Round &given)
{
	const bool ue8m0 = given.scaleKind == GIN_EP_SCALE_UE8M0;
	Batch batch(r, round, handleBytes(ep));
	Memory x(r, batch.T * round.hidden), scales(r, batch.T * 3 * 4);
	std::vector<uint8_t> bytes;
	std::vector<uint32_t> words;
	for (uint32_t t = 0; t < batch.T; t++) {
		Wire wire = wireOf(given, batch.me, t);
		std::vector<uint32_t> own = scaleWords(given, wire);
		bytes.insert(bytes.end(), wire.payload.begin(), wire.payload.end());
		words.insert(words.end(), own.begin(), own.end());
	}
	x.write(bytes);
	scales.write(words);
	batch.dispatch.x = tensor(x, ginEpF8E4m3, {batch.T, round.hidden});
	batch.dispatch.scales =
		tensor(scales, ue8m0 ? ginEpUe8m0x4 : ginEpF32, {batch.T, ue8m0 ? 1 : 3});
	both(r, ep, batch);
}

/* x that is e4m3 already goes out as it is; scales that are powers of two, in either form. */
static void givenF8(Rank &r)
{
	static const uint32_t kinds[][2] = {/* of x, of recvX */
					    {GIN_EP_SCALE_F32, GIN_EP_SCALE_F32},
					    {GIN_EP_SCALE_UE8M0, GIN_EP_SCALE_UE8M0},
					    {GIN_EP_SCALE_POW2, GIN_EP_SCALE_UE8M0},
					    {GIN_EP_SCALE_UE8M0, GIN_EP_SCALE_POW2}};
	Round round = roundOf(r, 8, 3, 272, 5);
	round.rows = GIN_EP_ROWS_F8;
	ginEp_t ep = epFor(r, round);
	for (const uint32_t *pair : kinds) {
		round.scaleKind = pair[1];
		round.edges = pair[0] == GIN_EP_SCALE_UE8M0;
		Round given = round;
		given.scaleKind = pair[0];
		dispatchGiven(r, ep, round, given);
	}
	EP_CHECK(ginEpDestroy(ep));
}

/* The experts' results in memory of the ep, in both layouts. */
static void sendBuffer(Rank &r)
{
	Round round = roundOf(r, 7, 3, 128, 5);
	ginEpConfig_t config = GIN_EP_CONFIG_INIT;
	uint64_t with = 0, without = 0;
	config.experts = round.experts;
	config.topk = round.topk;
	config.hidden = round.hidden;
	config.maxTokens = round.maxTokens;
	EP_CHECK(ginEpBytes(&config, r.nRanks, &without));
	config.sendBuffer = 1;
	EP_CHECK(ginEpBytes(&config, r.nRanks, &with));
	ginEp_t ep = makeEp(r, config);
	ginEpInfo_t info = GIN_EP_INFO_INIT;
	EP_CHECK(ginEpQuery(ep, &info));
	EXPECT(with >= info.bytes);
	for (uint32_t layout : {GIN_EP_EXPERT_MAJOR, GIN_EP_RANK_MAJOR, GIN_EP_EXPERT_MAJOR}) {
		round.layout = layout;
		round.reduce = GIN_EP_REDUCE_RANK;
		round.seed++;
		Batch batch(r, round, handleBytes(ep));
		ginEpTensor_t x = GIN_EP_NO_TENSOR;
		EP_CHECK(ginEpSendBuffer(ep, layout, &x));
		const size_t bytes = static_cast<size_t>(x.size[0] * x.stride[0]) * 2;
		EXPECT(with >= without + bytes && bytes == batch.y.bytes);
		EP_CHECK(batch.runDispatch(ep, GIN_EP_BOTH));
		finish(r, ep);
		batch.checkDispatch();
		copyBytes(r, x.data, batch.y.at(), bytes);
		batch.y.poison();
		batch.combine.x = x;
		EP_CHECK(batch.runCombine(ep, GIN_EP_BOTH));
		finish(r, ep);
		batch.checkCombine();
	}
	ginEpTensor_t x = GIN_EP_NO_TENSOR;
	EP_FAILS(ginEpSendBuffer(ep, 2, &x), ginErrorInvalidArgument);
	EP_FAILS(ginEpSendBuffer(nullptr, 0, &x), ginErrorInvalidArgument);
	EP_FAILS(ginEpSendBuffer(ep, 0, nullptr), ginErrorInvalidArgument);
	EP_CHECK(ginEpDestroy(ep));
	ep = epFor(r, round);
	EP_FAILS(ginEpSendBuffer(ep, 0, &x), ginErrorInvalidUsage);
	EP_CHECK(ginEpDestroy(ep));
}

/* Two micro-batches; hooks in each order; the third send is refused. */
static void hooks(Rank &r)
{
	Round first = roundOf(r, 16, 4, 128, 6), second = first;
	second.seed += 1000;
	second.rows = GIN_EP_ROWS_F8;
	ginEp_t ep = epFor(r, first);
	for (int order = 0; order < 8; order++) {
		first.seed += 3;
		second.seed += 3;
		Batch a(r, first, handleBytes(ep)), b(r, second, handleBytes(ep)),
			c(r, first, handleBytes(ep));
		EP_FAILS(a.runDispatch(ep, GIN_EP_RECV), ginErrorInvalidUsage);
		EP_CHECK(a.runDispatch(ep, GIN_EP_SEND));
		EP_FAILS(a.runDispatch(ep, GIN_EP_SEND), ginErrorInvalidUsage);
		EP_CHECK(b.runDispatch(ep, GIN_EP_SEND));
		EP_FAILS(c.runDispatch(ep, GIN_EP_SEND), ginErrorInvalidUsage);
		EP_CHECK((order & 1 ? b : a).runDispatch(ep, GIN_EP_RECV));
		if (order & 1) /* the older one is still open */
			EP_FAILS(c.runDispatch(ep, GIN_EP_SEND), ginErrorInvalidUsage);
		EP_CHECK((order & 1 ? a : b).runDispatch(ep, GIN_EP_RECV));
		finish(r, ep);
		a.checkDispatch();
		b.checkDispatch();
		EP_CHECK((order & 2 ? b : a).runCombine(ep, GIN_EP_SEND));
		EP_CHECK((order & 2 ? a : b).runCombine(ep, GIN_EP_SEND));
		EP_FAILS(c.runCombine(ep, GIN_EP_SEND), ginErrorInvalidUsage);
		EP_CHECK((order & 4 ? b : a).runCombine(ep, GIN_EP_RECV));
		EP_CHECK((order & 4 ? a : b).runCombine(ep, GIN_EP_RECV));
		finish(r, ep);
		a.checkCombine();
		b.checkCombine();
	}
	EP_CHECK(ginEpDestroy(ep));
}

/* Rank 1 receives late, while the other ranks have sent two more: its rows must not change. */
static void slow(Rank &r)
{
	Round round[3];
	for (uint64_t i = 0; i < 3; i++) {
		round[i] = roundOf(r, 16, 4, 128, 6);
		round[i].seed += 5000 + i;
	}
	ginEp_t ep = epFor(r, round[0]);
	for (int n = 0; n < 6; n++) {
		Batch a(r, round[0], handleBytes(ep)), b(r, round[1], handleBytes(ep)),
			c(r, round[2], handleBytes(ep));
		EP_CHECK(a.runDispatch(ep, GIN_EP_SEND));
		if (r.rank == 1)
			usleep(30000);
		EP_CHECK(a.runDispatch(ep, GIN_EP_RECV));
		EP_CHECK(b.runDispatch(ep, GIN_EP_SEND));
		EP_CHECK(c.runDispatch(ep, GIN_EP_SEND));
		EP_CHECK(b.runDispatch(ep, GIN_EP_RECV));
		EP_CHECK(c.runDispatch(ep, GIN_EP_RECV));
		finish(r, ep);
		a.checkDispatch();
		b.checkDispatch();
		c.checkDispatch();
	}
	EP_CHECK(ginEpDestroy(ep));
}

/* Rounds of random size in eps that live for many rounds; odd numbers of each kind. */
static void randomRounds(Rank &r)
{
	const uint64_t rounds = numberOr("ROUNDS", 60);
	for (uint32_t n = 0; n < rounds;) {
		const uint64_t seed = seedOf() + n * 1000;
		Round most =
			roundOf(r, 1 + mix(seed, 1, 0, 0) % 40, 1 + mix(seed, 2, 0, 0) % 12,
				16 * (1 + mix(seed, 3, 0, 0) % 40), 1 + mix(seed, 4, 0, 0) % 24);
		ginEp_t ep = epFor(r, most);
		for (uint32_t i = 0; i < 25 && n < rounds; i++, n++) {
			Round round = most;
			round.seed = seed + i;
			uint64_t bits = mix(round.seed, 5, 0, 0);
			round.hidden = 16 * (1 + static_cast<uint32_t>(bits % (most.hidden / 16)));
			round.topk = 1 + static_cast<uint32_t>((bits >> 8) % most.topk);
			chooseRows(round, (bits >> 16) % 18);
			round.layout = (bits >> 20) % 4 ? GIN_EP_EXPERT_MAJOR : GIN_EP_RANK_MAJOR;
			round.reduce = round.layout == GIN_EP_RANK_MAJOR || (bits >> 24 & 1)
					       ? GIN_EP_REDUCE_RANK
					       : GIN_EP_REDUCE_NONE;
			round.weighted = bits >> 25 & 3;
			round.wide = bits >> 27 & 1;
			round.route = (bits >> 28) % 8 == 7 ? 1 : 0;
			for (uint32_t k = 0; k < round.ranks; k++)
				round.tokens[k] = mix(round.seed, 6, k, 0) % (most.maxTokens + 1);
			once(r, ep, round);
		}
		EP_CHECK(ginEpDestroy(ep));
	}
}

static int run(const ginConfig_t *config)
{
	static const Case cases[] = {{"ahead", ahead},
				     {"shapes", shapes},
				     {"long lists", longLists},
				     {"corners", corners},
				     {"few rows", fewRows},
				     {"rows alone", rowsAlone},
				     {"send buffer", sendBuffer},
				     {"given e4m3", givenF8},
				     {"given bytes", givenBytes},
				     {"hooks", hooks},
				     {"slow", slow},
				     {"random", randomRounds}};
	return runCases(config, cases);
}

int main(int argc, char **argv)
{
	return ranksMain(argc, argv, run);
}
