/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arguments.cc - wrong configurations and arguments: result and sentence; nothing else happens
 *
 * One rank: all calls. More ranks: configurations that differ, a rank without memory.
 */
#include "rig.h"

static void fails(ginResult_t seen, ginResult_t expected, const char *words,
		  const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
	epRequire(seen, expected, words, file, line);
	if (!strstr(ginEpGetLastError(), words))
		stop(words, ginEpGetLastError(), file, line);
}

static ginEpConfig_t good()
{
	ginEpConfig_t config = GIN_EP_CONFIG_INIT;
	config.experts = 8;
	config.topk = 4;
	config.hidden = 64;
	config.maxTokens = 4;
	return config;
}

static ginWindowTable *const noWindow = reinterpret_cast<ginWindowTable *>(64);

static const struct {
	void (*spoil)(ginEpConfig_t &c);
	ginResult_t result;
	const char *words;
} wrongConfigs[] = {
	{[](ginEpConfig_t &c) { c.size = 8; }, ginErrorInvalidArgument, "use GIN_EP_CONFIG_INIT"},
	{[](ginEpConfig_t &c) { c.experts = 0; }, ginErrorInvalidArgument, "experts is 0"},
	{[](ginEpConfig_t &c) { c.experts = 5998; }, ginErrorInvalidArgument,
	 "(ranks + 1) * (experts + 3) must be at most 12000"},
	{[](ginEpConfig_t &c) { c.experts = 8193; }, ginErrorInvalidArgument, "must be 1 to 8192"},
	{[](ginEpConfig_t &c) { c.topk = 33; }, ginErrorInvalidArgument, "topk is 33"},
	{[](ginEpConfig_t &c) { c.hidden = 72; }, ginErrorInvalidArgument, "multiple of 16"},
	{[](ginEpConfig_t &c) { c.hidden = 0; }, ginErrorInvalidArgument, "hidden is 0"},
	{[](ginEpConfig_t &c) { c.maxTokens = 0; }, ginErrorInvalidArgument, "maxTokens is 0"},
	{[](ginEpConfig_t &c) { c.rowTypes = 16; }, ginErrorInvalidArgument, "rowTypes is 16"},
	{[](ginEpConfig_t &c) { c.reduce = 0; }, ginErrorInvalidArgument, "reduce is 0"},
	{[](ginEpConfig_t &c) { c.onLost = 2; }, ginErrorInvalidArgument, "onLost is 2"},
	{[](ginEpConfig_t &c) { c.sendBuffer = 2; }, ginErrorInvalidArgument, "sendBuffer is 2"},
	{[](ginEpConfig_t &c) { c.modes = 3; }, ginErrorInvalidArgument, "modes is 3"},
	{[](ginEpConfig_t &c) { c.modes = 0; }, ginErrorInvalidArgument, "modes is 0"},
	{[](ginEpConfig_t &c) { c.htTokens = 1; }, ginErrorInvalidArgument,
	 "must be 0 with GIN_EP_LL"},
	{[](ginEpConfig_t &c) { c.htWindow.table = noWindow; }, ginErrorInvalidArgument,
	 "htSms and htWindow must be 0 with GIN_EP_LL"},
	{[](ginEpConfig_t &c) { c.modes = GIN_EP_HT; }, ginErrorInvalidArgument, "htTokens is 0"},
	{[](ginEpConfig_t &c) {
		 c.modes = GIN_EP_HT;
		 c.htTokens = 8;
		 c.htRowBytes = 24;
	 },
	 ginErrorInvalidArgument, "htRowBytes is 24"},
	{[](ginEpConfig_t &c) {
		 c.modes = GIN_EP_HT;
		 c.htTokens = 8;
		 c.onLost = GIN_EP_LOST_MASK;
	 },
	 ginErrorUnsupported, "no GIN_EP_LOST_MASK"},
	{[](ginEpConfig_t &c) {
		 static const uint32_t first[] = {0, 7};
		 c.firstExpert = first;
	 },
	 ginErrorInvalidArgument, "firstExpert goes from 0 to 7"},
	{[](ginEpConfig_t &c) {
		 static const uint32_t first[] = {8, 7};
		 c.firstExpert = first;
	 },
	 ginErrorInvalidArgument, "firstExpert[1] is below firstExpert[0]"},
	{[](ginEpConfig_t &c) { c.contexts = GIN_MAX_CONTEXTS + 1; }, ginErrorInvalidArgument,
	 "contexts is"},
	{[](ginEpConfig_t &c) { c.maxTokens = GIN_EP_MAX_TOKENS + 1; }, ginErrorInvalidArgument,
	 "must be 1 to 32768"},
};

static void configurations(Rank &r)
{
	ginEp_t ep = nullptr;
	uint64_t bytes = 0;
	for (const auto &one : wrongConfigs) {
		ginEpConfig_t config = good();
		one.spoil(config);
		fails(ginEpCreate(r.comm, &config, &ep), one.result, one.words);
		fails(ginEpBytes(&config, 1, &bytes), one.result, one.words);
		EXPECT(ep == nullptr && bytes == 0);
	}
	ginEpConfig_t config = good();
	fails(ginEpCreate(r.comm, nullptr, &ep), ginErrorInvalidArgument, "config is NULL");
	fails(ginEpCreate(nullptr, &config, &ep), ginErrorInvalidArgument, "NULL");
	fails(ginEpBytes(&config, 1, nullptr), ginErrorInvalidArgument, "bytes is NULL");
	fails(ginEpBytes(&config, 0, &bytes), ginErrorInvalidArgument, "nRanks is 0");
	fails(ginEpBytes(&config, 1025, &bytes), ginErrorInvalidArgument, "ranks is 1025");
	EP_CHECK(ginEpBytes(&config, 8, &bytes));
	EXPECT(bytes > 8 * 2 * 4 * 64 * 2);
	EP_CHECK(ginEpDestroy(nullptr));
	/* A caller that was compiled with a gin_ep.h without the last fields. */
	config.size = offsetof(ginEpConfig_t, htRowBytes);
	config.htRowBytes = 7;
	EP_CHECK(ginEpCreate(r.comm, &config, &ep));
	EP_CHECK(ginEpDestroy(ep));
	config.size = sizeof(config);
	config.htRowBytes = 0;
	config.modes = GIN_EP_HT;
	config.htTokens = 8;
	config.htWindow.table = noWindow; /* ginEpBytes() asks no communicator */
	fails(ginEpCreate(r.comm, &config, &ep), ginErrorInvalidArgument, "htWindow: ");
	config = good();
	config.experts = 5997; /* the most that the scratch of a block has room for */
	EP_CHECK(ginEpCreate(r.comm, &config, &ep));
	EP_CHECK(ginEpDestroy(ep));
}

/* Each case spoils a copy of the arguments of a dispatch with no fault. */
static const struct {
	void (*spoil)(ginEpDispatchArgs_t &a);
	ginResult_t result;
	const char *words;
} wrongDispatches[] = {
	{[](ginEpDispatchArgs_t &a) { a.size = 1; }, ginErrorInvalidArgument, "args->size"},
	{[](ginEpDispatchArgs_t &a) { a.mode = GIN_EP_HT; }, ginErrorInvalidArgument, "GIN_EP_HT"},
	{[](ginEpDispatchArgs_t &a) { a.phase = 0; }, ginErrorInvalidArgument, "phase is 0"},
	{[](ginEpDispatchArgs_t &a) { a.layout = 2; }, ginErrorInvalidArgument, "layout is 2"},
	{[](ginEpDispatchArgs_t &a) { a.rows = 3; }, ginErrorInvalidArgument, "rows is 3"},
	{[](ginEpDispatchArgs_t &a) { a.scaleKind = 3; }, ginErrorInvalidArgument,
	 "scaleKind is 3"},
	{[](ginEpDispatchArgs_t &a) { a.hidden = 80; }, ginErrorInvalidArgument, "hidden is 80"},
	{[](ginEpDispatchArgs_t &a) { a.handle = nullptr; }, ginErrorInvalidArgument, "handle is"},
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
	{[](ginEpDispatchArgs_t &a) { a.x.data = nullptr; }, ginErrorInvalidArgument,
	 "x is missing"},
	{[](ginEpDispatchArgs_t &a) { a.x.size[1] = a.hidden = 0; }, ginErrorInvalidArgument,
	 "hidden is 0"},
	{[](ginEpDispatchArgs_t &a) { a.recvX.data = nullptr; }, ginErrorInvalidArgument,
	 "recvX is missing"},
	{[](ginEpDispatchArgs_t &a) { a.recvX.size[1] = 3; }, ginErrorInvalidArgument,
	 "recvX.size[1] is 3"},
	{[](ginEpDispatchArgs_t &a) { a.recvX.stride[2] = 2; }, ginErrorInvalidArgument,
	 "recvX.stride[2]"},
	{[](ginEpDispatchArgs_t &a) { a.recvCount.data = nullptr; }, ginErrorInvalidArgument,
	 "recvCount is missing"},
	{[](ginEpDispatchArgs_t &a) { a.srcInfo.nDims = 1; }, ginErrorInvalidArgument,
	 "srcInfo has 1 dimensions"},
	{[](ginEpDispatchArgs_t &a) { a.srcInfo.size[1] = a.srcInfo.stride[0] = 9; },
	 ginErrorInvalidArgument, "srcInfo.size[1] is 9, must be 4"},
	{[](ginEpDispatchArgs_t &a) { a.handle = static_cast<char *>(a.handle) + 8; },
	 ginErrorInvalidArgument, "aligned to 16 bytes"},
	{[](ginEpDispatchArgs_t &a) { a.topkIdx.size[1] = a.topkIdx.stride[0] = 5; },
	 ginErrorInvalidArgument, "topkWeights.size[1] is 4, must be at least 5"},
	{[](ginEpDispatchArgs_t &a) {
		 a.topkWeights.data = nullptr;
		 a.topkIdx.size[1] = a.topkIdx.stride[0] = 5;
	 },
	 ginErrorInvalidArgument, "topkIdx.size[1] is 5, must be 1 to topk = 4"},
	{[](ginEpDispatchArgs_t &a) {
		 a.x.type = ginEpF8E4m3;
		 a.rows = GIN_EP_ROWS_F8;
	 },
	 ginErrorInvalidArgument, "scales is missing"},
	{[](ginEpDispatchArgs_t &a) {
		 a.recvX.type = ginEpF8E4m3;
		 a.rows = GIN_EP_ROWS_F8;
	 },
	 ginErrorInvalidArgument, "recvScales is missing"},
	{[](ginEpDispatchArgs_t &a) {
		 a.recvX.type = ginEpF8E4m3;
		 a.rows = GIN_EP_ROWS_F8;
		 a.recvScales = a.recvX;
		 a.recvScales.type = ginEpUe8m0x4;
	 },
	 ginErrorInvalidArgument, "recvScales must be ginEpUe8m0x4 with"},
	{[](ginEpDispatchArgs_t &a) {
		 a.rows = GIN_EP_ROWS_MXF8;
		 a.hidden = 48;
	 },
	 ginErrorInvalidArgument, "hidden is 48, must be a multiple of 32 with rows"},
	{[](ginEpDispatchArgs_t &a) {
		 a.rows = GIN_EP_ROWS_NVF4;
		 a.hidden = 16;
	 },
	 ginErrorInvalidArgument, "hidden is 16, must be a multiple of 32 with rows"},
	{[](ginEpDispatchArgs_t &a) {
		 a.rows = GIN_EP_ROWS_MXF8;
		 a.scaleKind = GIN_EP_SCALE_UE8M0;
	 },
	 ginErrorInvalidArgument, "scaleKind is 2, must be GIN_EP_SCALE_STRIDED"},
	{[](ginEpDispatchArgs_t &a) { a.rows = GIN_EP_ROWS_NVF4; }, ginErrorInvalidArgument,
	 "xGlobalScale is missing"},
	{[](ginEpDispatchArgs_t &a) {
		 a.rows = GIN_EP_ROWS_NVF4;
		 a.xGlobalScale = a.topkWeights;
	 },
	 ginErrorInvalidArgument, "must be one float"},
	{[](ginEpDispatchArgs_t &a) {
		 a.rows = GIN_EP_ROWS_NVF4;
		 a.hidden = 64;
		 a.x.type = ginEpU8;
		 a.x.size[1] = 16;
	 },
	 ginErrorInvalidArgument, "x.size[1] is 16, must be at least 32"},
	{[](ginEpDispatchArgs_t &a) {
		 a.rows = GIN_EP_ROWS_MXF8;
		 a.x.type = ginEpF8E4m3;
		 a.scales = a.topkWeights;
	 },
	 ginErrorInvalidArgument, "scales has elements of type 1, must be 6"},
	{[](ginEpDispatchArgs_t &a) {
		 a.rows = GIN_EP_ROWS_MXF8;
		 a.scaleKind = GIN_EP_SCALE_BLOCKS;
		 a.recvX.type = ginEpF8E4m3;
		 a.recvScales = a.recvX;
	 },
	 ginErrorInvalidArgument, "recvScales.size"},
};

static void dispatches(Batch &batch, ginEp_t ep)
{
	for (const auto &one : wrongDispatches) {
		ginEpDispatchArgs_t args = batch.dispatch;
		one.spoil(args);
		fails(ginEpDispatch(ep, &args, nullptr), one.result, one.words);
	}
	fails(ginEpDispatch(nullptr, &batch.dispatch, nullptr), ginErrorInvalidArgument, "NULL");
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
		{[](ginEpCombineArgs_t &a) { a.out.data = nullptr; }, ginErrorInvalidArgument,
		 "out is missing"},
		{[](ginEpCombineArgs_t &a) { a.out.type = ginEpF32; }, ginErrorInvalidArgument,
		 "out has elements"},
		{[](ginEpCombineArgs_t &a) { a.topkIdx.type = ginEpF32; }, ginErrorInvalidArgument,
		 "topkIdx has elements"},
		{[](ginEpCombineArgs_t &a) { a.out.size[0] = 5; }, ginErrorInvalidArgument,
		 "out.size[0] is 5, must be 0 to maxTokens = 4"},
		{[](ginEpCombineArgs_t &a) { a.topkWeights.type = ginEpI32; },
		 ginErrorInvalidArgument, "topkWeights has elements"},
	};
	for (const auto &one : wrong) {
		ginEpCombineArgs_t args = batch.combine;
		one.spoil(args);
		fails(ginEpCombine(ep, &args, nullptr), one.result, one.words);
	}
	fails(ginEpCombine(nullptr, &batch.combine, nullptr), ginErrorInvalidArgument, "NULL");
	EP_CHECK(batch.runCombine(ep, GIN_EP_BOTH));
	batch.checkCombine();
	fails(batch.runCombine(ep, GIN_EP_RECV), ginErrorInvalidUsage, "RECV without a send");
}

/* Without tokens: x, topkIdx and out with data or NULL, with their other size or left out. */
static void noTokens(Batch &batch, ginEp_t ep)
{
	static const ginEpTensor_t none = GIN_EP_NO_TENSOR;
	for (int form = 0; form < 12; form++) {
		ginEpDispatchArgs_t d = batch.dispatch;
		ginEpCombineArgs_t c = batch.combine;
		const bool split = form & 1, sized = form & 2;
		for (ginEpTensor_t *t : {&d.x, &d.topkIdx, &c.topkIdx, &c.out}) {
			t->size[0] = 0;
			if (form < 8)
				t->data = nullptr;
			if (!sized)
				*t = none;
		}
		if (form & 4)
			d.hidden = c.hidden = 0;
		d.topkWeights = c.topkWeights = none;
		for (uint32_t phase : {GIN_EP_SEND, GIN_EP_RECV}) {
			ginEpDispatchArgs_t part = d;
			part.phase = split ? phase : GIN_EP_BOTH;
			if (split)
				(phase == GIN_EP_SEND ? part.recvX : part.x) = none;
			if (split || phase == GIN_EP_SEND)
				EP_CHECK(ginEpDispatch(ep, &part, nullptr));
		}
		for (uint32_t phase : {GIN_EP_SEND, GIN_EP_RECV}) {
			ginEpCombineArgs_t part = c;
			part.phase = split ? phase : GIN_EP_BOTH;
			if (split)
				(phase == GIN_EP_SEND ? part.out : part.x) = none;
			if (split || phase == GIN_EP_SEND)
				EP_CHECK(ginEpCombine(ep, &part, nullptr));
		}
		for (int32_t count : batch.recvCount.read<int32_t>())
			EXPECT(count == 0);
	}
}

/* Sends that have to wait for their RECV. */
static void sends(Batch &batch, ginEp_t ep)
{
	Batch second(batch.r, batch.round, batch.handle.bytes);
	Batch third(batch.r, batch.round, batch.handle.bytes);
	fails(batch.runDispatch(ep, GIN_EP_RECV), ginErrorInvalidUsage, "RECV without a send");
	EP_CHECK(batch.runDispatch(ep, GIN_EP_SEND));
	fails(batch.runDispatch(ep, GIN_EP_SEND), ginErrorInvalidUsage,
	      "ginEpDispatch: a send with this handle still waits for its RECV");
	EP_CHECK(second.runDispatch(ep, GIN_EP_SEND));
	fails(third.runDispatch(ep, GIN_EP_SEND), ginErrorInvalidUsage,
	      "two sends are outstanding: make the RECV of the older one first");
	EP_CHECK(second.runDispatch(ep, GIN_EP_RECV));
	EP_CHECK(batch.runDispatch(ep, GIN_EP_RECV));
	second.checkDispatch();
}

/* A reset forgets the sends that wait for their RECV. */
static void reset(Batch &batch, ginEp_t ep)
{
	for (int i = 0; i < 2; i++) {
		EP_CHECK(batch.runDispatch(ep, GIN_EP_SEND));
		EP_CHECK(batch.runDispatch(ep, GIN_EP_RECV));
		EP_CHECK(batch.runCombine(ep, GIN_EP_SEND));
		EP_CHECK(batch.runDispatch(ep, GIN_EP_SEND));
		EP_CHECK(ginEpReset(ep));
	}
}

/* An ep for combines of one kind refuses the other kind. */
static void oneKind(Rank &r, const Round &round)
{
	ginEpConfig_t config = good();
	ginEpInfo_t info = GIN_EP_INFO_INIT;
	config.reduce = GIN_EP_REDUCE_RANK;
	config.rowTypes = GIN_EP_ROWS_BF16;
	ginEp_t ep = makeEp(r, config);
	EP_CHECK(ginEpQuery(ep, &info));
	{
		Batch batch(r, round, info.handleBytes);
		EP_CHECK(batch.runDispatch(ep, GIN_EP_BOTH));
		fails(batch.runCombine(ep, GIN_EP_BOTH), ginErrorInvalidArgument,
		      "reduce is GIN_EP_REDUCE_NONE, the configuration has GIN_EP_REDUCE_RANK");
		batch.dispatch.rows = GIN_EP_ROWS_F8;
		fails(batch.runDispatch(ep, GIN_EP_BOTH), ginErrorInvalidArgument,
		      "must be one of rowTypes = 1");
	}
	EP_CHECK(ginEpDestroy(ep));
}

/* The calls that have an ep, and something to fill in. */
static void queries(Rank &r, ginEp_t ep)
{
	ginEpInfo_t info = GIN_EP_INFO_INIT;
	ginEpRecord_t record = GIN_EP_RECORD_INIT;
	info.size = record.size = 0;
	fails(ginEpQuery(ep, &info), ginErrorInvalidArgument, "info->size");
	fails(ginEpQuery(nullptr, &info), ginErrorInvalidArgument, "NULL");
	fails(ginEpGetAsyncError(ep, &record), ginErrorInvalidArgument, "record->size");
	fails(ginEpGetAsyncError(ep, nullptr), ginErrorInvalidArgument, "NULL");
	fails(ginEpMaskQuery(nullptr, nullptr, nullptr), ginErrorInvalidArgument, "ep is NULL");
	fails(ginEpMaskSet(ep, r.rank, 1, nullptr), ginErrorInvalidArgument, "not another rank");
	fails(ginEpMaskClear(nullptr, nullptr), ginErrorInvalidArgument, "ep is NULL");
	fails(ginEpReset(nullptr), ginErrorInvalidArgument, "ep is NULL");
	EP_CHECK(ginEpMaskQuery(ep, nullptr, nullptr));
}

/* Rank 1 gives another configuration: all ranks fail, and name the field and both values. */
static void disagreements(Rank &r)
{
	static const struct {
		void (*change)(ginEpConfig_t &c);
		const char *words;
	} changes[] = {
		{[](ginEpConfig_t &c) { c.experts = 9; },
		 "experts differs: 8 on rank 0, 9 on rank 1"},
		{[](ginEpConfig_t &c) { c.topk = 3; }, "topk differs: 4 on rank 0, 3 on rank 1"},
		{[](ginEpConfig_t &c) { c.hidden = 32; },
		 "hidden differs: 64 on rank 0, 32 on rank 1"},
		{[](ginEpConfig_t &c) { c.maxTokens = 5; },
		 "maxTokens differs: 4 on rank 0, 5 on rank 1"},
		{[](ginEpConfig_t &c) { c.rowTypes = GIN_EP_ROWS_F8; }, "rowTypes differs: "},
		{[](ginEpConfig_t &c) { c.reduce = GIN_EP_REDUCE_RANK; }, "reduce differs: "},
		{[](ginEpConfig_t &c) { c.contexts = 2; },
		 "contexts differs: 0 on rank 0, 2 on rank 1"},
		{[](ginEpConfig_t &c) {
			 static const uint32_t first[] = {0, 8, 8, 8, 8, 8, 8, 8, 8};
			 c.firstExpert = first;
		 },
		 "firstExpert differs: "},
		{[](ginEpConfig_t &c) { c.topk = 33; }, "rank 1: topk is 33, must be 1 to 32"},
	};
	static const struct {
		void (*change)(ginEpConfig_t &c);
		const char *words;
	} htChanges[] = {
		{[](ginEpConfig_t &c) { c.htTokens = 9; },
		 "htTokens differs: 8 on rank 0, 9 on rank 1"},
		{[](ginEpConfig_t &c) { c.htRecvTokens = 4; },
		 "htRecvTokens differs: 5 on rank 0, 4 on rank 1"},
		{[](ginEpConfig_t &c) { c.htRowBytes = 32; },
		 "htRowBytes differs: 64 on rank 0, 32 on rank 1"},
		{[](ginEpConfig_t &c) { c.htScaleBytes = 4; },
		 "htScaleBytes differs: 8 on rank 0, 4 on rank 1"},
		{[](ginEpConfig_t &c) { c.htWindow = {}; },
		 "whether there is an htWindow differs: 1 on rank 0, 0 on rank 1"},
	};
	ginEp_t ep = nullptr;
	ginWindow_t window;
	CHECK(ginWindowRegister(r.comm, nullptr, 0, 0, &window));
	for (const auto &one : htChanges) {
		ginEpConfig_t config = good();
		config.modes = GIN_EP_HT;
		config.htTokens = config.htScaleBytes = 8;
		config.htRecvTokens = 5;
		config.htRowBytes = 64;
		config.htWindow = window;
		if (r.rank == 1)
			one.change(config);
		fails(ginEpCreate(r.comm, &config, &ep), ginErrorInvalidArgument, one.words);
	}
	for (const auto &one : changes) {
		ginEpConfig_t config = good();
		if (r.rank == 1)
			one.change(config);
		fails(ginEpCreate(r.comm, &config, &ep), ginErrorInvalidArgument, one.words);
		EXPECT(ep == nullptr);
	}
	CHECK(ginWindowDeregister(r.comm, window));
	EP_CHECK(ginEpDestroy(makeEp(r, good()))); /* the failures left nothing */
}

/* A pointer of one rank: the others do not wait for it. */
static void pointers(Rank &r)
{
	ginEpConfig_t config = good();
	ginEp_t ep = makeEp(r, config), next = nullptr;
	fails(ginEpCreate(r.comm, &config, r.rank == 1 ? nullptr : &next), ginErrorInvalidArgument,
	      "rank 1: the place for the new ep is NULL");
	fails(ginEpShrink(r.rank == 1 ? nullptr : ep, r.comm, &config, &next),
	      ginErrorInvalidArgument, "rank 1: ep is NULL");
	EP_CHECK(ginEpDestroy(ep));
}

/* On a communicator that has the window, or not, and in memory that is enough, or not. */
static thread_local int callocsLeft = -1; /* until one fails, or -1 */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__CUDACC__)
extern "C" void *__libc_calloc(size_t count, size_t bytes);

extern "C" void *calloc(size_t count, size_t bytes) noexcept
{
	if (callocsLeft < 0 || callocsLeft--)
		return __libc_calloc(count, bytes);
	errno = ENOMEM; /* callocsLeft is -1 from here on */
	return nullptr;
}
#endif

/* Rank 1 lacks memory at each place once: all ranks fail, and the communicator goes on. */
static void withoutMemory(Rank &r)
{
	const ginEpConfig_t config = good();
	bool isEnough = false;
	int places = 0;
	for (; !isEnough; places++) {
		ginEp_t ep = nullptr;
		callocsLeft = r.rank == 1 ? places : -1;
		const ginResult_t result = ginEpCreate(r.comm, &config, &ep);
		const bool mine = r.rank != 1 || callocsLeft >= 0;
		callocsLeft = -1;
		std::vector<uint8_t> all(static_cast<size_t>(r.nRanks));
		CHECK(ginCommAllgather(r.comm, &mine, all.data(), 1));
		isEnough = all[1];
		EXPECT(isEnough == (result == ginSuccess) && isEnough == (ep != nullptr));
		EP_CHECK(ginEpDestroy(ep));
	}
	if (r.rank == 0)
		printf("ok: memory is short at %d places\n", places - 1);
}

static void shrinks(Rank &r, ginEp_t ep)
{
	ginEpConfig_t config = good(), more = good();
	ginEp_t next = nullptr;
	ginComm_t rest = nullptr;
	more.hidden *= 4;
	fails(ginEpShrink(nullptr, r.comm, &config, &next), ginErrorInvalidArgument, "ep is NULL");
	fails(ginEpShrink(ep, r.comm, &config, &next), ginErrorInvalidArgument,
	      "ginWindowInherited");
	CHECK(ginCommShrink(r.comm, nullptr, 0, &rest));
	fails(ginEpShrink(ep, rest, &more, &next), ginErrorInvalidArgument,
	      "the ep that is shrunk has");
	EXPECT(next == nullptr);
	EP_CHECK(ginEpShrink(ep, rest, &config, &next));
	EP_CHECK(ginEpDestroy(next));
	CHECK(ginCommDestroy(rest));
}

/* Of this rank alone, so no other thread reads the variable. */
static void domains(Rank &r)
{
	uint32_t ranks = 7;

	fails(ginEpHtDomain(nullptr, &ranks), ginErrorInvalidArgument, "NULL");
	fails(ginEpHtDomain(r.comm, nullptr), ginErrorInvalidArgument, "NULL");
	for (const char *given : {"0", "2", "1x", "-1", "4294967297"}) {
		setenv("GIN_EP_DOMAIN", given, 1);
		fails(ginEpHtDomain(r.comm, &ranks), ginErrorInvalidArgument, "must be a number");
		EXPECT(ranks == 7);
	}
	setenv("GIN_EP_DOMAIN", "1", 1);
	EP_CHECK(ginEpHtDomain(r.comm, &ranks));
	EXPECT(ranks == 1);
	unsetenv("GIN_EP_DOMAIN");
}

static int run(const ginConfig_t *config)
{
	Rank r;
	Round round = {};
	ginEpInfo_t info = GIN_EP_INFO_INIT;
	rankOpen(r, config);
	if (r.nRanks > 1) {
		disagreements(r);
		pointers(r);
		withoutMemory(r);
		rankClose(r);
		return 0;
	}
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
		noTokens(batch, ep);
		sends(batch, ep);
		reset(batch, ep);
	}
	oneKind(r, round);
	queries(r, ep);
	shrinks(r, ep);
	domains(r);
	EP_CHECK(ginEpDestroy(ep));
	rankClose(r);
	printf("ok: arguments\n");
	return 0;
}

int main(int argc, char **argv)
{
	return ranksMain(argc, argv, run);
}
