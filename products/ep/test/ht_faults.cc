/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ht_faults.cc - high throughput: ranks that do not answer, handles and arguments that do not fit
 *
 *	ht_faults --threads N	ranks stay away from a call, handles differ
 *	ht_faults --kill N	processes; rank 1 is killed, the others go on by ginEpShrink()
 */
#include <dlfcn.h>
#include <signal.h>

#include "faults.h"
#include "ht.h"

static thread_local bool refusesWindows;

/* libgin-ep calls this one. */
extern "C" __attribute__((visibility("default"))) ginResult_t
ginWindowRegister(ginComm_t comm, void *memory, size_t bytes, int flags, ginWindow_t *window)
{
	static const auto own = reinterpret_cast<decltype(ginWindowRegister) *>(
		dlsym(RTLD_NEXT, "ginWindowRegister"));

	return own(comm, refusesWindows ? nullptr : memory, bytes, flags, window);
}

static HtRound roundFor(Rank &r, uint64_t seed)
{
	return htRound(r, 3 * r.nRanks, 3, 64, 40, seed);
}

static ginEp_t epFor(Rank &r, const HtRound &round, uint64_t milliseconds)
{
	ginEpConfig_t config = htConfig(round, 0);
	config.timeout = milliseconds * 1000000;
	return makeEp(r, config);
}

/* A call of all ranks, from its begin to the end of its kernels everywhere. */
template <class Call> static void timed(Rank &r, ginEp_t ep, Call call)
{
	meet(r);
	const uint64_t begin = ginNow();
	EP_CHECK(call());
	finish(r, ep);
	noteRound(begin);
}

/* Returns its ticket. */
static uint32_t layer(Rank &r, ginEp_t ep, const HtRound &round)
{
	HtNotified handle(r, ep, round);
	HtDispatched rows(handle, round, 2, true);
	HtCombined back(handle, round, 1, true);
	handle.layout();
	wait(r);
	timed(r, ep,
	      [&] { return ginEpHtNotify(ep, &handle.args, Batch::streamOf(r), &handle.ticket); });
	handle.checkCounts(ep);
	timed(r, ep, [&] { return rows.run(ep); });
	rows.check();
	timed(r, ep, [&] { return back.run(ep); });
	back.check();
	return handle.ticket;
}

/* A layer by an ep that does not give up soon, for patience(). */
static void measureLayer(Rank &r)
{
	const HtRound round = roundFor(r, 30);
	ginEp_t ep = epFor(r, round, 60000);
	for (int i = 0; i < 3; i++)
		layer(r, ep, round);
	EP_CHECK(ginEpDestroy(ep));
}

/* The result of a call when its kernel has ended. */
static ginResult_t after(Rank &r, ginEp_t ep, ginResult_t result)
{
	wait(r);
	const ginEpRecord_t record = recordOf(ep);
	return record.valid ? static_cast<ginResult_t>(record.result) : result;
}

/* The calls of a layer, 0 to 2. Memory is there before the first one waits. */
struct Layer {
	Rank &r;
	ginEp_t ep;
	HtNotified handle;
	HtDispatched rows;
	HtCombined back;

	Layer(Rank &rank, ginEp_t ofEp, const HtRound &round)
	    : r(rank), ep(ofEp), handle(rank, ofEp, round), rows(handle, round, 0, true),
	      back(handle, round, 0, false)
	{
		handle.layout();
		wait(r);
		meet(r);
	}

	ginResult_t call(int which)
	{
		if (which == 0)
			return after(r, ep,
				     ginEpHtNotify(ep, &handle.args, Batch::streamOf(r),
						   &handle.ticket));
		return after(r, ep, which == 1 ? rows.run(ep) : back.run(ep));
	}
};

/*
 * Rank 1 stays away from a call. The others fail by their limit, or because another rank has
 * failed, until the reset; rank 1 learns it when it comes, long before its own limit.
 */
static void absent(Rank &r, int which)
{
	const HtRound round = roundFor(r, 31 + which);
	ginEp_t ep = epFor(r, round, r.rank == 1 ? 60000 : patience());
	const uint32_t next = layer(r, ep, round) + 1;
	{
		Layer of(r, ep, round);
		for (int i = 0; i < which; i++)
			EP_CHECK(of.call(i));
		meet(r);
		if (r.rank != 1) {
			const ginResult_t result = of.call(which);
			const ginEpRecord_t record = recordOf(ep);
			EXPECT(result == ginErrorTimeout || result == ginErrorPeer);
			EXPECT(record.call == ginEpCallHtNotify + static_cast<uint32_t>(which));
			EXPECT(record.epoch == 1 && record.rank != r.rank);
			EXPECT(result == ginErrorPeer || record.rank == 1);
			EP_FAILS(ginEpHtNotify(ep, &of.handle.args, Batch::streamOf(r), nullptr),
				 result);
			if (which == 0) {
				ginEpHtCounts_t counts = GIN_EP_HT_COUNTS_INIT;
				EP_FAILS(ginEpHtCounts(ep, next, 0, &counts), result);
			}
		}
		meet(r);
		if (r.rank == 1) {
			/* The others' count lines have come: its notify may succeed. */
			ginResult_t result = of.call(which);
			if (which == 0 && result == ginSuccess)
				result = of.call(1);
			EP_FAILS(result, ginErrorPeer);
			recordOf(ep);
			EXPECT(strstr(ginEpGetLastError(), "has given up an earlier wait"));
		}
		meet(r);
	}
	EP_CHECK(ginEpReset(ep));
	EXPECT(!recordOf(ep).valid);
	for (uint64_t i = 0; i < 3; i++)
		layer(r, ep, roundFor(r, 40 + i));
	EP_CHECK(ginEpDestroy(ep));
}

/*
 * Rank 0 has a handle of another notify, or rows of another size. No rank of its domain gets a row.
 */
static void different(Rank &r, bool otherHandle)
{
	HtRound round = roundFor(r, 51);
	ginEp_t ep = epFor(r, round, 60000);
	{
		Layer one(r, ep, round), two(r, ep, round);
		HtRound half = round;
		EP_CHECK(one.call(0));
		EP_CHECK(two.call(0));
		half.hidden /= r.rank == 0 ? 2 : 1;
		HtDispatched odd(one.handle, half, 0, true);
		meet(r);
		HtDispatched &call = !otherHandle ? odd : r.rank ? one.rows : two.rows;
		const ginResult_t result = after(r, ep, call.run(ep));
		EXPECT(result == ginErrorInvalidArgument || result == ginErrorPeer);
		EXPECT(recordOf(ep).call == ginEpCallHtDispatch);
		EXPECT(result == ginErrorPeer || strstr(ginEpGetLastError(), "of another size"));
		if (round.domain > 1 && static_cast<uint32_t>(r.rank) < round.domain)
			call.whole("recvX", call.recvX, std::vector<uint8_t>());
		meet(r);
	}
	EP_CHECK(ginEpReset(ep));
	layer(r, ep, round);
	EP_CHECK(ginEpDestroy(ep));
}

/* Memory that no notify has filled, and a handle for other tokens. */
static void wrongHandle(Rank &r)
{
	HtRound round = roundFor(r, 61), fewer = round;
	fewer.tokens[0] = 7;
	ginEp_t ep = epFor(r, round, 60000);
	{
		Layer of(r, ep, round), other(r, ep, fewer);
		if (r.rank == 0)
			other.rows.args.handle = of.handle.handle.at();
		EP_CHECK(of.call(0));
		meet(r);
		EXPECT(other.call(1) != ginSuccess);
		if (r.rank == 0)
			EXPECT(strstr(ginEpGetLastError(), "for 7 tokens: it has 40"));
		meet(r);
	}
	EP_CHECK(ginEpReset(ep));
	layer(r, ep, round);
	EP_CHECK(ginEpDestroy(ep));
}

static void fails(ginResult_t seen, ginResult_t expected, const char *words)
{
	EP_FAILS(seen, expected);
	if (!strstr(ginEpGetLastError(), words))
		fprintf(stderr, "\"%s\" does not say: %s\n", ginEpGetLastError(), words);
	EXPECT(strstr(ginEpGetLastError(), words));
}

/* A call with `args`, spoilt, is refused; its sentence has `words`. */
template <class Args> struct Refused {
	ginEp_t ep;
	Args args;
	ginResult_t (*call)(ginEp_t ep, const Args *args, void *stream);

	void operator()(void (*spoil)(Args &a), const char *words) const
	{
		Args spoilt = args;
		spoil(spoilt);
		fails(call(ep, &spoilt, nullptr), ginErrorInvalidArgument, words);
	}
};

static ginResult_t notifyOf(ginEp_t ep, const ginEpHtNotifyArgs_t *args, void *stream)
{
	return ginEpHtNotify(ep, args, stream, nullptr);
}

static void dispatchRefused(ginEp_t ep, const Layer &of)
{
	using Args = ginEpHtDispatchArgs_t;
	const Refused<Args> with = {ep, of.rows.args, ginEpHtDispatch};
	with([](Args &a) { a.size = 8; }, "GIN_EP_HT_DISPATCH_ARGS_INIT");
	with([](Args &a) { a.handle = nullptr; }, "handle is");
	with([](Args &a) { a.x.size[0] = 41; }, "htTokens = 40");
	with([](Args &a) { a.x.size[1] = 72; }, "htRowBytes = 128");
	with([](Args &a) { a.x.size[1] = 12; }, "multiple of 16");
	with([](Args &a) { a.x.type = ginEpI64; }, "1, 2 or 4 bytes");
	with([](Args &a) { a.x.stride[0] = 65; }, "aligned to 16");
	with([](Args &a) { a.topkIdx.type = ginEpF32; }, "topkIdx has");
	with([](Args &a) { a.topkIdx.size[1] = 4; }, "topkIdx");
	with([](Args &a) { a.topkWeights.data = nullptr; }, "topkWeights is missing");
	with([](Args &a) { a.scales = a.x, a.scales.size[1] = 3; }, "htScaleBytes / 4 = 1");
	with([](Args &a) { a.scales = a.x, a.scales.size[1] = 1; }, "must have 1 or 4 bytes");
}

static void combineRefused(ginEp_t ep, const Layer &of)
{
	using Args = ginEpHtCombineArgs_t;
	const Refused<Args> with = {ep, of.back.args, ginEpHtCombine};
	with([](Args &a) { a.x.type = ginEpF8E4m3; }, "x has");
	with([](Args &a) { a.out.size[0] = -1; }, "out.size[0] is -1");
	with([](Args &a) { a.bias[1] = a.out, a.bias[1].type = ginEpF32; }, "bias[1] has");
	with([](Args &a) { a.topkWeights.size[1] = 9; }, "topk = 3");
	const auto ordered = [](Args &a) { a.topkIdx = {}, a.topkIdx.size[1] = 40; };
	with(ordered, of.back.round.domain < of.back.round.ranks ? "one domain" : "topkIdx");
}

static void notifyRefused(ginEp_t ep, const Layer &of)
{
	using Args = ginEpHtNotifyArgs_t;
	const Refused<Args> with = {ep, of.handle.args, notifyOf};
	with([](Args &a) { a.isTokenInRank.type = ginEpI32; }, "1 byte");
	with([](Args &a) { a.tokensPerExpert.size[0]--; }, "tokensPerExpert");
	with([](Args &a) { a.rankPrefix.nDims = 1; }, "rankPrefix has 1");
}

/* recvX may be the pool as a whole, not a part of it. */
static void partOfPool(ginEp_t ep, const Layer &of)
{
	void *pool = nullptr;
	uint64_t bytes = 0;
	ginEpHtDispatchArgs_t args = of.rows.args;
	EP_CHECK(ginEpHtPool(ep, &pool, &bytes));
	args.recvX.data = static_cast<char *>(pool) + 16;
	if (args.recvX.size[0])
		fails(ginEpHtDispatch(ep, &args, nullptr), ginErrorInvalidArgument,
		      "beginning of the pool");
}

/* Calls of low latency on an ep of high throughput, and the other way round. */
static void otherKind(Rank &r, ginEp_t ep, Layer &of)
{
	ginEpConfig_t config = GIN_EP_CONFIG_INIT;
	ginEpDispatchArgs_t usual = GIN_EP_DISPATCH_ARGS_INIT;
	ginEp_t low = nullptr;
	config.experts = 8;
	config.hidden = 64;
	EP_CHECK(ginEpCreate(r.comm, &config, &low));
	fails(ginEpHtDispatch(low, &of.rows.args, nullptr), ginErrorInvalidUsage, "GIN_EP_LL");
	usual.handle = of.handle.handle.at();
	fails(ginEpDispatch(ep, &usual, nullptr), ginErrorInvalidUsage, "GIN_EP_HT");
	EP_CHECK(ginEpDestroy(low));
}

/* Arguments that the host refuses: nothing is enqueued, and a layer runs after all of them. */
static void refused(Rank &r)
{
	const HtRound round = roundFor(r, 71);
	ginEp_t ep = epFor(r, round, 60000);
	{
		Layer of(r, ep, round);
		dispatchRefused(ep, of);
		combineRefused(ep, of);
		notifyRefused(ep, of);
		partOfPool(ep, of);
		otherKind(r, ep, of);
		uint64_t none = 0;
		fails(ginEpHtHandleBytes(ep, 41, &none), ginErrorInvalidArgument, "htTokens");
		ginEpHtLayoutArgs_t layout = GIN_EP_HT_LAYOUT_ARGS_INIT;
		fails(ginEpHtLayout(r.comm, &layout, nullptr), ginErrorInvalidArgument,
		      "experts is 0");
	}
	layer(r, ep, round);
	EP_CHECK(ginEpDestroy(ep));
}

/* A pool that rank 0 cannot register: no rank has one any more. */
static void cannotGrow(Rank &r)
{
	const HtRound round = roundFor(r, 81);
	ginEp_t ep = epFor(r, round, 60000);
	ginEpInfo_t info = GIN_EP_INFO_INIT;
	{
		Layer of(r, ep, round);
		EP_CHECK(ginEpQuery(ep, &info));
		refusesWindows = r.rank == 0;
		const ginResult_t result = ginEpHtGrow(ep, info.htRecvTokens + 1);
		refusesWindows = false;
		EXPECT(result != ginSuccess);
		EP_FAILS(of.call(0), result);
		fails(ginEpReset(ep), ginErrorInvalidUsage, "can only be destroyed");
	}
	EP_CHECK(ginEpDestroy(ep));
}

static int run(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	refused(r);
	cannotGrow(r);
	if (r.nRanks > 1) {
		measureLayer(r);
		for (int which = 0; which < 3; which++)
			absent(r, which);
		different(r, false);
		different(r, true);
		wrongHandle(r);
	}
	if (r.rank == 0)
		printf("ok: faults, %d ranks\n", r.nRanks);
	rankClose(r);
	return 0;
}

/* One context between domains, and more rows for it than a ring has room for. */
static ginEp_t epOfOneRing(Rank &r, const HtRound &round, ginEpConfig_t *config)
{
	*config = htConfig(round, numberOr("PATIENCE", 60));
	config->contexts = 1;
	return makeEp(r, *config);
}

static bool onlyRankOneSends; /* so no other rank's put to it fails */

/*
 * Rank 1 is killed after the counts. The others' dispatch ends by the death, not by its limit: also
 * where they wait for rank 1 to read its ring, and where it would forward rows. They go on in the
 * memory of the ep, as domains of one rank if there were domains.
 */
static int runKilled(const ginConfig_t *config)
{
	Rank r, rest;
	rankOpen(r, config);
	HtRound round = htRound(r, 3 * r.nRanks, 3, 64, 300, 81);
	for (uint32_t i = 0; i < round.ranks && onlyRankOneSends; i++)
		round.tokens[i] = i == 1 ? 300 : 0;
	ginEpConfig_t given;
	ginEp_t ep = epOfOneRing(r, round, &given), next = nullptr;
	ginComm_t comm = nullptr;
	layer(r, ep, round);
	{
		Layer of(r, ep, round);
		EP_CHECK(of.call(0));
		meet(r);
		if (r.rank == 1)
			raise(SIGKILL);
		EP_FAILS(of.call(1), ginErrorPeer);
	}
	CHECK(ginCommShrink(r.comm, nullptr, 0, &comm));
	rest = rankTake(comm);
	if (getenv("GIN_EP_DOMAIN"))
		setenv("GIN_EP_DOMAIN", "1", 1);
	const HtRound fewer = htRound(rest, 3 * rest.nRanks, 3, 64, 300, 82);
	given.experts = fewer.experts;
	EP_CHECK(ginEpShrink(ep, comm, &given, &next));
	for (uint64_t i = 0; i < 3; i++)
		layer(rest, next, htRound(rest, fewer.experts, 3, 64, 300, 90 + i));
	EP_CHECK(ginEpDestroy(next));
	rankClose(rest);
	ginEpDestroy(ep);
	ginCommDestroy(r.comm);
	return 0;
}

static int kill(int count)
{
	for (bool only : {false, true}) {
		onlyRankOneSends = only;
		const int *result = ranksStart(count, 0, runKilled);
		for (int i = 0; i < count; i++)
			EXPECT(result[i] == (i == 1 ? 128 + SIGKILL : 0));
	}
	printf("ok: killed, %d ranks\n", count);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--kill"))
		return kill(atoi(argv[2]));
	return ranksMain(argc, argv, run);
}
