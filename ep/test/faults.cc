/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults.cc - ranks that do not answer, die or abort, and wrong indices: every call ends, nothing is
 * written outside tensors, and what is defined is there
 *
 *	faults --threads N | --forks N (ranks that are killed: processes)
 */
#include <signal.h>

#include <atomic>

#include "rig.h"

static bool forks;

static Round roundOf(Rank &r, uint64_t seed)
{
	Round round = {};
	round.ranks = static_cast<uint32_t>(r.nRanks);
	round.experts = 4 * round.ranks;
	round.topk = 3;
	round.hidden = 128;
	round.maxTokens = 12;
	round.seed = seed;
	round.tokens.assign(round.ranks, 12);
	round.rows = GIN_EP_ROWS_BF16;
	round.reduce = GIN_EP_REDUCE_NONE;
	round.weighted = round.wide = true;
	for (uint32_t i = 0; i <= round.ranks; i++)
		round.first.push_back(4 * i);
	return round;
}

static ginEp_t epFor(Rank &r, const Round &round, uint32_t onLost, uint64_t milliseconds)
{
	ginEpConfig_t config = GIN_EP_CONFIG_INIT;
	config.experts = round.experts;
	config.topk = round.topk;
	config.hidden = round.hidden;
	config.maxTokens = round.maxTokens;
	config.timeout = milliseconds * 1000000;
	config.onLost = onLost;
	return makeEp(r, config);
}

static uint64_t handleBytes(ginEp_t ep)
{
	ginEpInfo_t info = GIN_EP_INFO_INIT;
	EP_CHECK(ginEpQuery(ep, &info));
	return info.handleBytes;
}

static ginEpRecord_t recordOf(ginEp_t ep)
{
	ginEpRecord_t record = GIN_EP_RECORD_INIT;
	EP_CHECK(ginEpGetAsyncError(ep, &record));
	return record;
}

static void full(Rank &r, ginEp_t ep, const Round &round)
{
	Batch batch(r, round, handleBytes(ep));
	EP_CHECK(batch.runDispatch(ep, GIN_EP_BOTH));
	batch.checkDispatch();
	EP_CHECK(batch.runCombine(ep, GIN_EP_BOTH));
	batch.checkCombine();
}

/* Rank 1 stays away from a dispatch. The other ranks fail, and stay failed until the reset. */
static void absentError(Rank &r)
{
	Round round = roundOf(r, 11);
	ginEp_t ep = epFor(r, round, GIN_EP_LOST_ERROR, 3000);
	full(r, ep, round);
	if (r.rank != 1) {
		Batch batch(r, round, handleBytes(ep));
		EP_FAILS(batch.runDispatch(ep, GIN_EP_BOTH), ginErrorTimeout);
		EP_FAILS(batch.runDispatch(ep, GIN_EP_BOTH), ginErrorTimeout);
		EP_FAILS(batch.runCombine(ep, GIN_EP_BOTH), ginErrorTimeout);
		EXPECT(strstr(ginEpGetLastError(), "ginEpReset"));
		ginEpRecord_t record = recordOf(ep);
		EXPECT(record.valid && record.rank == 1 && record.result == ginErrorTimeout);
		EXPECT(record.call == ginEpCallDispatchRecv && record.epoch == 1);
		EXPECT(strstr(ginEpGetLastError(), "rank 1 did not answer"));
		std::vector<uint32_t> observed(r.nRanks), masked(r.nRanks);
		EP_CHECK(ginEpMaskQuery(ep, observed.data(), masked.data()));
		EXPECT(observed[1] == 1 && masked[1] == 0 && observed[0] == 0);
	}
	EP_CHECK(ginEpReset(ep));
	EXPECT(!recordOf(ep).valid);
	for (uint64_t i = 0; i < 5; i++)
		full(r, ep, roundOf(r, 20 + i));
	EP_CHECK(ginEpDestroy(ep));
}

/* Dispatch and combine without the ranks that are gone. */
static void without(Rank &r, ginEp_t ep, const Round &round, const std::vector<bool> &gone)
{
	Batch batch(r, round, handleBytes(ep));
	batch.gone = gone;
	EP_CHECK(batch.runDispatch(ep, GIN_EP_BOTH));
	batch.checkDispatch();
	EP_CHECK(batch.runCombine(ep, GIN_EP_BOTH));
	batch.checkCombine();
}

/* Rank 1 stays away: the others mask it and go on with exact results; then the reset. */
static void absentMask(Rank &r)
{
	Round round = roundOf(r, 31);
	ginEp_t ep = epFor(r, round, GIN_EP_LOST_MASK, 3000);
	std::vector<bool> gone(r.nRanks);
	full(r, ep, round);
	gone[1] = true;
	for (uint32_t i = 0; i < 5 && r.rank != 1; i++) {
		round = roundOf(r, 40 + i);
		round.reduce = i % 2 ? GIN_EP_REDUCE_RANK : GIN_EP_REDUCE_NONE;
		without(r, ep, round, gone);
	}
	if (r.rank != 1) {
		std::vector<uint32_t> observed(r.nRanks), masked(r.nRanks);
		EP_CHECK(ginEpMaskQuery(ep, observed.data(), masked.data()));
		for (int i = 0; i < r.nRanks; i++)
			EXPECT(observed[i] == (i == 1) && masked[i] == (i == 1));
		EP_CHECK(ginEpMaskClear(ep, nullptr));
		EP_CHECK(ginEpMaskQuery(ep, observed.data(), masked.data()));
		EXPECT(!observed[1] && !masked[1]);
	}
	EP_CHECK(ginEpReset(ep));
	for (uint64_t i = 0; i < 5; i++)
		full(r, ep, roundOf(r, 50 + i));
	EP_CHECK(ginEpDestroy(ep));
}

/* Rank 1 sends and does not combine: its rows came, its answers do not. */
static void absentCombine(Rank &r)
{
	Round round = roundOf(r, 61);
	ginEp_t ep = epFor(r, round, GIN_EP_LOST_MASK, 3000);
	Batch batch(r, round, handleBytes(ep));
	EP_CHECK(batch.runDispatch(ep, GIN_EP_BOTH));
	batch.checkDispatch();
	if (r.rank != 1) {
		batch.gone[1] = true;
		EP_CHECK(batch.runCombine(ep, GIN_EP_BOTH));
		batch.checkCombine();
		EXPECT(recordOf(ep).call == ginEpCallCombineRecv);
	}
	EP_CHECK(ginEpReset(ep));
	full(r, ep, roundOf(r, 70));
	EP_CHECK(ginEpDestroy(ep));
}

/* The caller masks rank 1 on all other ranks, before anything is lost. */
static void maskedByCaller(Rank &r)
{
	Round round = roundOf(r, 81);
	ginEp_t ep = epFor(r, round, GIN_EP_LOST_ERROR, 60000);
	std::vector<bool> gone(r.nRanks);
	gone[1] = true;
	EP_FAILS(ginEpMaskSet(ep, r.rank, 1, nullptr), ginErrorInvalidArgument);
	EP_FAILS(ginEpMaskSet(ep, r.nRanks, 1, nullptr), ginErrorInvalidArgument);
	if (r.rank != 1) {
		EP_CHECK(ginEpMaskSet(ep, 1, 1, nullptr));
		for (uint32_t i = 0; i < 4; i++)
			without(r, ep, roundOf(r, 90 + i), gone);
		EXPECT(!recordOf(ep).valid);
	}
	EP_CHECK(ginEpReset(ep));
	full(r, ep, round);
	EP_CHECK(ginEpDestroy(ep));
}

/* Wrong indices are dropped and recorded; the call goes on, for the other ranks too. */
static void wrongIndices(Rank &r)
{
	Round round = roundOf(r, 101);
	round.route = 2; /* no expert */
	ginEp_t ep = epFor(r, round, GIN_EP_LOST_ERROR, 60000);
	static const int64_t wrong[] = {-2, 1ll << 40, INT64_MIN, INT64_MAX};
	for (int64_t bad : wrong) {
		Batch batch(r, round, handleBytes(ep));
		if (r.rank == 0) {
			std::vector<int64_t> indices(12 * 3, -1);
			indices[7] = bad;
			batch.idx.write(indices);
		}
		EP_CHECK(batch.runDispatch(ep, GIN_EP_BOTH));
		batch.checkDispatch();
		EP_CHECK(batch.runCombine(ep, GIN_EP_BOTH));
		batch.checkCombine();
		if (bad != -2)
			continue;
		ginEpRecord_t record = recordOf(ep);
		EXPECT(record.valid == (r.rank == 0));
		if (r.rank == 0) {
			EXPECT(record.result == ginErrorInvalidArgument && record.rank == -1);
			EXPECT(record.expected == 7 && static_cast<int64_t>(record.seen) == -2);
			EXPECT(strstr(ginEpGetLastError(), "wrong index -2 at position 7"));
		}
	}
	EP_CHECK(ginEpReset(ep));
	round.route = 0;
	Batch batch(r, round, handleBytes(ep)); /* an expert twice in one token counts once */
	std::vector<int64_t> twice;
	for (uint32_t t = 0; t < 12; t++)
		for (uint32_t k = 0; k < 3; k++)
			twice.push_back(static_cast<int64_t>(t % round.experts));
	batch.idx.write(twice);
	EP_CHECK(batch.runDispatch(ep, GIN_EP_BOTH));
	std::vector<int32_t> count = batch.recvCount.read<int32_t>();
	for (uint32_t e = 0; e < 4; e++) {
		uint32_t expert = round.first[r.rank] + e;
		int32_t each =
			static_cast<int32_t>((12 - expert + round.experts - 1) / round.experts);
		EXPECT(count[e] == (expert < 12 ? each : 0) * r.nRanks);
	}
	EXPECT(recordOf(ep).valid);
	EP_CHECK(ginEpReset(ep));
	EP_CHECK(ginEpDestroy(ep));
}

/* Rank 1 aborts the communicator while the other ranks wait for it. */
static void aborted(Rank &r)
{
	Round round = roundOf(r, 111);
	ginEp_t ep = epFor(r, round, GIN_EP_LOST_ERROR, 60000);
	full(r, ep, round);
	if (r.rank == 1) {
		usleep(200000);
		CHECK(ginCommAbort(r.comm));
	} else {
		Batch batch(r, round, handleBytes(ep));
		EP_FAILS(batch.runDispatch(ep, GIN_EP_BOTH), ginErrorPeer);
	}
	static std::atomic<int> ended; /* ranks are threads: peers may still store into this rank */
	for (ended++; ended < r.nRanks;)
		usleep(1000);
	ginEpDestroy(ep);
}

/* Rank 1 is killed between its send and its receive. */
static void killed(Rank &r, uint32_t onLost)
{
	Round round = roundOf(r, 121);
	ginEp_t ep = epFor(r, round, onLost, 4000);
	std::vector<bool> gone(r.nRanks);
	full(r, ep, round);
	{
		Batch batch(r, round, handleBytes(ep));
		EP_CHECK(batch.runDispatch(ep, GIN_EP_SEND));
		meet(r);
		if (r.rank == 1)
			raise(SIGKILL);
		ginResult_t result = batch.runDispatch(ep, GIN_EP_RECV);
		if (result == ginSuccess)
			result = batch.runCombine(ep, GIN_EP_BOTH);
		if (onLost == GIN_EP_LOST_ERROR) {
			EP_FAILS(result, ginErrorPeer);
			EP_FAILS(batch.runDispatch(ep, GIN_EP_BOTH), ginErrorPeer);
			EXPECT(recordOf(ep).rank == 1);
		} else {
			EXPECT(result == ginSuccess);
		}
	}
	gone[1] = true;
	for (uint32_t i = 0; i < 3 && onLost == GIN_EP_LOST_MASK; i++)
		without(r, ep, roundOf(r, 130 + i), gone);
	EXPECT(ginEpReset(ep) != ginSuccess); /* a dead process needs a new communicator */
	ginEpDestroy(ep);
}

static int run(const ginConfig_t *config)
{
	static const struct {
		const char *name;
		void (*run)(Rank &r);
	} cases[] = {{"absent, error", absentError},	   {"absent, mask", absentMask},
		     {"absent in combine", absentCombine}, {"masked by the caller", maskedByCaller},
		     {"wrong indices", wrongIndices},	   {"aborted", aborted}};
	Rank r;
	for (const auto &one : cases) {
		rankOpen(r, config);
		one.run(r);
		if (r.rank == 0)
			printf("ok: %s, %d ranks\n", one.name, r.nRanks);
		fflush(stdout);
		if (one.run == aborted)
			ginCommDestroy(r.comm);
		else
			rankClose(r);
	}
	return 0;
}

static int runKilled(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	killed(r, getenv("MASK") ? GIN_EP_LOST_MASK : GIN_EP_LOST_ERROR);
	ginCommDestroy(r.comm);
	return 0;
}

int main(int argc, char **argv)
{
	forks = argc == 3 && !strcmp(argv[1], "--forks");
	if (!forks)
		return ranksMain(argc, argv, run);
	const int n = atoi(argv[2]);
	const int *result = ranksStart(n, 0, runKilled);
	for (int r = 0; r < n; r++)
		EXPECT(result[r] == (r == 1 ? 128 + SIGKILL : 0));
	printf("ok: killed, %d ranks\n", n);
	return 0;
}
