/* SPDX-License-Identifier: BSD-3-Clause */
/* arguments.cc - wrong configurations and arguments: result and sentence; nothing else happens */
#include "rig.h"

static void expectFails(ginResult_t seen, ginResult_t expected, const char *words, int line)
{
	epRequire(seen, expected, words, line);
	if (strstr(ginEpGetLastError(), words))
		return;
	fprintf(stderr, "line %d: \"%s\" lacks \"%s\"\n", line, ginEpGetLastError(), words);
	_exit(1);
}

#define FAILS(call, result, words) expectFails(call, result, words, __LINE__)

static ginEpConfig_t good()
{
	ginEpConfig_t config = GIN_EP_CONFIG_INIT;
	config.experts = 8;
	config.topk = 4;
	config.hidden = 64;
	config.maxTokens = 4;
	return config;
}

static void configurations(Rank &r)
{
	static const struct {
		void (*spoil)(ginEpConfig_t &c);
		ginResult_t result;
		const char *words;
	} wrong[] = {
		{[](ginEpConfig_t &c) { c.size = 8; }, ginErrorInvalidArgument,
		 "use GIN_EP_CONFIG_INIT"},
		{[](ginEpConfig_t &c) { c.experts = 0; }, ginErrorInvalidArgument, "experts is 0"},
		{[](ginEpConfig_t &c) { c.experts = 5998; }, ginErrorInvalidArgument,
		 "(ranks + 1) * (experts + 3) must be at most 12000"},
		{[](ginEpConfig_t &c) { c.experts = 8193; }, ginErrorInvalidArgument,
		 "must be 1 to 8192"},
		{[](ginEpConfig_t &c) { c.topk = 33; }, ginErrorInvalidArgument, "topk is 33"},
		{[](ginEpConfig_t &c) { c.hidden = 72; }, ginErrorInvalidArgument,
		 "multiple of 16"},
		{[](ginEpConfig_t &c) { c.hidden = 0; }, ginErrorInvalidArgument, "hidden is 0"},
		{[](ginEpConfig_t &c) { c.maxTokens = 0; }, ginErrorInvalidArgument,
		 "maxTokens is 0"},
		{[](ginEpConfig_t &c) { c.rowTypes = 4; }, ginErrorInvalidArgument,
		 "rowTypes is 4"},
		{[](ginEpConfig_t &c) { c.reduce = 0; }, ginErrorInvalidArgument, "reduce is 0"},
		{[](ginEpConfig_t &c) { c.onLost = 2; }, ginErrorInvalidArgument, "onLost is 2"},
		{[](ginEpConfig_t &c) { c.sendBuffer = 2; }, ginErrorInvalidArgument,
		 "sendBuffer is 2"},
		{[](ginEpConfig_t &c) { c.modes = GIN_EP_HT; }, ginErrorUnsupported, "GIN_EP_HT"},
		{[](ginEpConfig_t &c) { c.modes = 0; }, ginErrorInvalidArgument, "modes is 0"},
		{[](ginEpConfig_t &c) { c.htTokens = 1; }, ginErrorUnsupported, "GIN_EP_HT"},
		{[](ginEpConfig_t &c) {
			 static const uint32_t first[] = {0, 7};
			 c.firstExpert = first;
		 },
		 ginErrorInvalidArgument, "firstExpert goes from 0 to 7"},
	};
	ginEp_t ep = nullptr;
	uint64_t bytes = 0;
	for (const auto &one : wrong) {
		ginEpConfig_t config = good();
		one.spoil(config);
		FAILS(ginEpCreate(r.comm, &config, &ep), one.result, one.words);
		FAILS(ginEpBytes(&config, 1, &bytes), one.result, one.words);
		EXPECT(ep == nullptr && bytes == 0);
	}
	ginEpConfig_t config = good();
	FAILS(ginEpCreate(r.comm, nullptr, &ep), ginErrorInvalidArgument, "config is NULL");
	FAILS(ginEpCreate(nullptr, &config, &ep), ginErrorInvalidArgument, "NULL");
	EP_CHECK(ginEpBytes(&config, 8, &bytes));
	EXPECT(bytes > 8 * 2 * 4 * 64 * 2);
	EP_CHECK(ginEpDestroy(nullptr));
	config.experts = 5997; /* the most that the scratch of a block has room for */
	EP_CHECK(ginEpCreate(r.comm, &config, &ep));
	EP_CHECK(ginEpDestroy(ep));
}

/* A dispatch with no fault; each case spoils a copy of the arguments. */
static void dispatches(Batch &batch, ginEp_t ep)
{
	static const struct {
		void (*spoil)(ginEpDispatchArgs_t &a);
		ginResult_t result;
		const char *words;
	} wrong[] = {
		{[](ginEpDispatchArgs_t &a) { a.size = 1; }, ginErrorInvalidArgument, "args->size"},
		{[](ginEpDispatchArgs_t &a) { a.mode = GIN_EP_HT; }, ginErrorUnsupported,
		 "GIN_EP_HT"},
		{[](ginEpDispatchArgs_t &a) { a.phase = 0; }, ginErrorInvalidArgument,
		 "phase is 0"},
		{[](ginEpDispatchArgs_t &a) { a.layout = 2; }, ginErrorInvalidArgument,
		 "layout is 2"},
		{[](ginEpDispatchArgs_t &a) { a.rows = 3; }, ginErrorInvalidArgument, "rows is 3"},
		{[](ginEpDispatchArgs_t &a) { a.scaleKind = 3; }, ginErrorInvalidArgument,
		 "scaleKind is 3"},
		{[](ginEpDispatchArgs_t &a) { a.hidden = 80; }, ginErrorInvalidArgument,
		 "hidden is 80"},
		{[](ginEpDispatchArgs_t &a) { a.handle = nullptr; }, ginErrorInvalidArgument,
		 "handle is"},
		{[](ginEpDispatchArgs_t &a) { a.x.size[0] = 5; }, ginErrorInvalidArgument,
		 "x.size[0] is 5"},
		{[](ginEpDispatchArgs_t &a) { a.x.type = ginEpF32; }, ginErrorInvalidArgument,
		 "x has elements of type"},
		{[](ginEpDispatchArgs_t &a) { a.x.stride[0] = 68; }, ginErrorInvalidArgument,
		 "not aligned to 16 bytes"},
		{[](ginEpDispatchArgs_t &a) { a.x.type = ginEpF8E4m3; }, ginErrorInvalidArgument,
		 "x is e4m3"},
		{[](ginEpDispatchArgs_t &a) { a.topkIdx.size[1] = 5; }, ginErrorInvalidArgument,
		 "topkIdx.stride[0]"},
		{[](ginEpDispatchArgs_t &a) { a.topkIdx.data = nullptr; }, ginErrorInvalidArgument,
		 "topkIdx is missing"},
		{[](ginEpDispatchArgs_t &a) { a.topkWeights.size[0] = 3; }, ginErrorInvalidArgument,
		 "topkWeights.size[0] is 3"},
		{[](ginEpDispatchArgs_t &a) { a.recvX.data = nullptr; }, ginErrorInvalidArgument,
		 "recvX is missing"},
		{[](ginEpDispatchArgs_t &a) { a.recvX.size[1] = 3; }, ginErrorInvalidArgument,
		 "recvX.size[1] is 3"},
		{[](ginEpDispatchArgs_t &a) { a.recvX.stride[2] = 2; }, ginErrorInvalidArgument,
		 "recvX.stride[2]"},
		{[](ginEpDispatchArgs_t &a) { a.recvCount.data = nullptr; },
		 ginErrorInvalidArgument, "recvCount is missing"},
		{[](ginEpDispatchArgs_t &a) { a.srcInfo.nDims = 1; }, ginErrorInvalidArgument,
		 "srcInfo has 1 dimensions"},
	};
	for (const auto &one : wrong) {
		ginEpDispatchArgs_t args = batch.dispatch;
		one.spoil(args);
		FAILS(ginEpDispatch(ep, &args, nullptr), one.result, one.words);
	}
	FAILS(ginEpDispatch(nullptr, &batch.dispatch, nullptr), ginErrorInvalidArgument, "NULL");
	EP_CHECK(batch.runDispatch(ep, GIN_EP_BOTH)); /* the refused calls changed nothing */
	batch.checkDispatch();
}

static void combines(Batch &batch, ginEp_t ep)
{
	static const struct {
		void (*spoil)(ginEpCombineArgs_t &a);
		ginResult_t result;
		const char *words;
	} wrong[] = {
		{[](ginEpCombineArgs_t &a) { a.size = 1; }, ginErrorInvalidArgument, "args->size"},
		{[](ginEpCombineArgs_t &a) { a.reduce = 3; }, ginErrorInvalidArgument,
		 "reduce is 3"},
		{[](ginEpCombineArgs_t &a) { a.layout = GIN_EP_RANK_MAJOR; },
		 ginErrorInvalidArgument, "rank-major rows need"},
		{[](ginEpCombineArgs_t &a) { a.bias[1].data = &a; }, ginErrorUnsupported, "bias"},
		{[](ginEpCombineArgs_t &a) { a.x.data = nullptr; }, ginErrorInvalidArgument,
		 "x is missing"},
		{[](ginEpCombineArgs_t &a) { a.out.type = ginEpF32; }, ginErrorInvalidArgument,
		 "out has elements"},
		{[](ginEpCombineArgs_t &a) { a.topkIdx.type = ginEpF32; }, ginErrorInvalidArgument,
		 "topkIdx has elements"},
	};
	for (const auto &one : wrong) {
		ginEpCombineArgs_t args = batch.combine;
		one.spoil(args);
		FAILS(ginEpCombine(ep, &args, nullptr), one.result, one.words);
	}
	EP_CHECK(batch.runCombine(ep, GIN_EP_BOTH));
	batch.checkCombine();
	FAILS(batch.runCombine(ep, GIN_EP_RECV), ginErrorInvalidUsage, "RECV without a send");
}

/* On a communicator that has the window, or not, and in memory that is enough, or not. */
static void shrinks(Rank &r, ginEp_t ep)
{
	ginEpConfig_t config = good(), more = good();
	ginEp_t next = nullptr;
	ginComm_t rest = nullptr;
	more.hidden *= 4;
	FAILS(ginEpShrink(nullptr, r.comm, &config, &next), ginErrorInvalidArgument, "ep is NULL");
	FAILS(ginEpShrink(ep, r.comm, &config, &next), ginErrorInvalidArgument,
	      "ginWindowInherited");
	CHECK(ginCommShrink(r.comm, nullptr, 0, &rest));
	FAILS(ginEpShrink(ep, rest, &more, &next), ginErrorInvalidArgument,
	      "the ep that is shrunk has");
	EXPECT(next == nullptr);
	EP_CHECK(ginEpShrink(ep, rest, &config, &next));
	EP_CHECK(ginEpDestroy(next));
	CHECK(ginCommDestroy(rest));
}

static int run(const ginConfig_t *config)
{
	Rank r;
	Round round = {};
	ginEpInfo_t info = GIN_EP_INFO_INIT;
	rankOpen(r, config);
	configurations(r);
	ginEp_t ep = makeEp(r, good());
	EP_CHECK(ginEpQuery(ep, &info));
	EXPECT(info.rank == 0 && info.nRanks == 1 && info.localExperts == 8);
	EXPECT(info.recvRows == 4 && info.directPeers == 1);
	round.ranks = 1;
	round.experts = 8;
	round.topk = 4;
	round.hidden = 64;
	round.maxTokens = 4;
	round.first = {0, 8};
	round.tokens = {4};
	round.rows = GIN_EP_ROWS_BF16;
	round.reduce = GIN_EP_REDUCE_NONE;
	round.weighted = round.wide = true;
	{
		Batch batch(r, round, info.handleBytes);
		dispatches(batch, ep);
		combines(batch, ep);
	}
	shrinks(r, ep);
	EP_CHECK(ginEpDestroy(ep));
	rankClose(r);
	printf("ok: arguments\n");
	return 0;
}

int main(int argc, char **argv)
{
	return ranksMain(argc, argv, run);
}
