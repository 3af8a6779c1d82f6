/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults.cc - ranks that do not answer or abort, and wrong indices: every call ends, nothing is
 * written outside tensors, and defined outputs are there
 */
#include <atomic>
#include <string>
#include <thread>

#include "faults.h"
#include "products/ep/kernels/args.h"

#ifndef __CUDACC__
extern "C" {
#include "products/ep/lib/ep.h"
}
#include "products/ep/kernels/layout.cuh"
#endif

static std::atomic<int> ranksHere; /* ranks of this process */

/* EXPECTs so many credits of a family that this rank has not given a rank yet. */
static void expectOwed(ginEp_t ep, uint32_t family, uint32_t rank, uint32_t credits)
{
#ifndef __CUDACC__
	const epPlan &plan = ep->args.plan;
	EXPECT(epOwedOf(plan, family, 0)[rank] + epOwedOf(plan, family, 1)[rank] == credits);
#else
	(void)ep, (void)family, (void)rank, (void)credits;
#endif
}

/*
 * The other ranks have given up: their marks end this rank's call, its own time limit does not.
 * They sent their rows before; on a network route the marks may still be in flight, and the call
 * succeeds: then the next one fails.
 */
static void told(Rank &r, ginEp_t ep, const Round &round)
{
	Batch batch(r, round, handleBytes(ep)), next(r, round, handleBytes(ep));
	ginResult_t result = dispatch(ep, batch);
	if (result == ginSuccess) {
		batch.checkDispatch();
		result = dispatch(ep, next);
	}
	EP_FAILS(result, ginErrorPeer);
	const ginEpRecord_t record = recordOf(ep);
	EXPECT(record.valid && record.rank != r.rank && record.result == ginErrorPeer);
	EXPECT(strstr(ginEpGetLastError(), "has given up an earlier wait"));
}

static void expectNumbers(const ginEpRecord_t &record)
{
	const std::string words = "expected " + std::to_string(record.expected) + ", seen " +
				  std::to_string(record.seen);
	EXPECT(record.expected != record.seen);
	EXPECT(record.result == ginErrorPeer || strstr(ginEpGetLastError(), words.c_str()));
}

/*
 * Rank 1 stays away from a dispatch. The other ranks fail, and stay failed until the reset; rank 1
 * gets the error when it comes.
 */
static void absentError(Rank &r)
{
	Round round = roundOf(r, 11);
	ginEp_t ep = epFor(r, round, GIN_EP_LOST_ERROR, r.rank == 1 ? 60000 : patience());
	full(r, ep, round);
	if (r.rank != 1) {
		Batch batch(r, round, handleBytes(ep));
		const ginResult_t result = dispatch(ep, batch);
		EXPECT(result == ginErrorTimeout || result == ginErrorPeer);
		EXPECT(dispatch(ep, batch) != ginSuccess && combine(ep, batch) != ginSuccess);
		EXPECT(strstr(ginEpGetLastError(), "ginEpReset"));
		EXPECT(lostOne(ep, ginErrorTimeout));
		ginEpRecord_t record = recordOf(ep);
		EXPECT(record.call == ginEpCallDispatchRecv && record.epoch == 1);
		expectNumbers(record);
		std::vector<uint32_t> observed(r.nRanks), masked(r.nRanks);
		EP_CHECK(ginEpMaskQuery(ep, observed.data(), masked.data()));
		EXPECT(observed[record.rank] == 1 && masked[1] == 0 && observed[r.rank] == 0);
	}
	meet(r);
	if (r.rank == 1)
		told(r, ep, round);
	EP_CHECK(ginEpReset(ep));
	EXPECT(!recordOf(ep).valid);
	for (uint64_t i = 0; i < 5; i++)
		full(r, ep, roundOf(r, 20 + i));
	EP_CHECK(ginEpDestroy(ep));
}

/*
 * Rank 0 gives up in a second dispatch, before it has combined the first. The other ranks wait for
 * its answers, which do not come: the marks are no answers.
 */
static void gaveUpBeforeCombine(Rank &r)
{
	Round round = roundOf(r, 25);
	ginEp_t ep = epFor(r, round, GIN_EP_LOST_ERROR, r.rank ? 60000 : patience());
	full(r, ep, round);
	Batch first(r, round, handleBytes(ep)), second(r, round, handleBytes(ep));
	EP_CHECK(dispatch(ep, first));
	first.checkDispatch();
	if (r.rank)
		EP_CHECK(combine(ep, first, GIN_EP_SEND));
	else
		EP_FAILS(dispatch(ep, second), ginErrorTimeout);
	meet(r);
	if (r.rank)
		EP_FAILS(combine(ep, first, GIN_EP_RECV), ginErrorPeer);
	EP_CHECK(ginEpReset(ep));
	full(r, ep, round);
	EP_CHECK(ginEpDestroy(ep));
}

/* EXPECTs the masks of all ranks: observed[1], masked[1] as given, 0 for every other rank. */
static void expectMasks(const Rank &r, ginEp_t ep, uint32_t observed, uint32_t masked)
{
	std::vector<uint32_t> lost(r.nRanks), out(r.nRanks);
	EP_CHECK(ended(ep, r, ginSuccess));
	EP_CHECK(ginEpMaskQuery(ep, lost.data(), out.data()));
	for (int i = 0; i < r.nRanks; i++)
		EXPECT(lost[i] == (i == 1 ? observed : 0) && out[i] == (i == 1 ? masked : 0));
}

/*
 * Rank 1 comes when all other ranks have masked it. Their rows of the first round are there: they
 * sent them before they gave rank 1 up. Nothing came after these rows, and no rank answers rank 1.
 */
static void late(Rank &r, ginEp_t ep)
{
	Batch first(r, roundOf(r, 40), handleBytes(ep)), second(r, roundOf(r, 41), handleBytes(ep));
	std::vector<bool> others(r.nRanks, true);
	others[1] = false;
	EP_CHECK(dispatch(ep, first));
	first.checkDispatch();
	second.gone = first.gone = others;
	EP_CHECK(dispatch(ep, second));
	second.checkDispatch();
	EP_CHECK(combine(ep, first));
	first.checkCombine();
}

/* Two rounds without rank 1, of both kinds of combine. */
static void twoWithout(Rank &r, ginEp_t ep, uint64_t seed)
{
	std::vector<bool> gone(r.nRanks);
	gone[1] = true;
	for (uint32_t i = 0; i < 2; i++) {
		Round round = roundOf(r, seed + i);
		round.reduce = i ? GIN_EP_REDUCE_RANK : GIN_EP_REDUCE_NONE;
		without(r, ep, round, gone);
	}
}

/*
 * Rank 1 stays away: the others give it up, mask it and go on with exact results; rank 1 gets no
 * rows after that. A rank that the caller masks is not waited for: nothing is observed. Rank 1
 * comes late; then the reset.
 */
static void absentMask(Rank &r)
{
	Round round = roundOf(r, 31);
	ginEp_t ep = epFor(r, round, GIN_EP_LOST_MASK, patience());
	full(r, ep, round);
	if (r.rank != 1) {
		twoWithout(r, ep, 40);
		twoWithout(r, ep, 42);
		expectMasks(r, ep, 1, 1);
		EP_CHECK(ginEpMaskClear(ep, Batch::streamOf(r)));
		expectMasks(r, ep, 0, 0);
		mask(r, ep, 1);
		twoWithout(r, ep, 44);
		expectMasks(r, ep, 0, 1);
	}
	meet(r);
	if (r.rank == 1)
		late(r, ep);
	EP_CHECK(ginEpReset(ep));
	for (uint64_t i = 0; i < 5; i++)
		full(r, ep, roundOf(r, 50 + i));
	EP_CHECK(ginEpDestroy(ep));
}

/* Rank 1 sends and does not combine: its rows came, its answers do not. */
static void absentCombine(Rank &r)
{
	Round round = roundOf(r, 61);
	ginEp_t ep = epFor(r, round, GIN_EP_LOST_MASK, patience());
	for (uint64_t i = 0; i < 2; i++) /* rank 1's answers of earlier rounds are in both halves */
		full(r, ep, roundOf(r, 62 + i));
	Batch batch(r, round, handleBytes(ep));
	EP_CHECK(dispatch(ep, batch));
	batch.checkDispatch();
	if (r.rank != 1) {
		batch.gone[1] = true;
		EP_CHECK(combine(ep, batch));
		batch.checkCombine();
		EXPECT(recordOf(ep).call == ginEpCallCombineRecv);
		expectOwed(ep, epPartsFree, 1, 0); /* rank 1's answers are not read */
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
	full(r, ep, round);
	if (r.rank != 1) {
		mask(r, ep, 1);
		for (uint32_t i = 0; i < 4; i++)
			without(r, ep, roundOf(r, 90 + i), gone);
		expectOwed(ep, epPartsFree, 1, 1); /* nothing is stored at a masked rank */
		EXPECT(!recordOf(ep).valid);
	}
	EP_CHECK(ginEpReset(ep));
	full(r, ep, round);
	EP_CHECK(ginEpDestroy(ep));
}

/*
 * Rank 0 masks rank 1 while it receives a dispatch, and not when it combines: it has no answers for
 * rank 1, which finds rank 0 lost and adds nothing from earlier combines.
 */
static void unanswered(Rank &r)
{
	Round round = roundOf(r, 171);
	ginEp_t ep = epFor(r, round, GIN_EP_LOST_MASK, patience());
	for (uint64_t i = 0; i < 2; i++) /* answers of earlier rounds are in both halves */
		full(r, ep, roundOf(r, 172 + i));
	Batch batch(r, round, handleBytes(ep));
	EP_CHECK(dispatch(ep, batch, GIN_EP_SEND));
	batch.gone[1] = r.rank == 0;
	if (r.rank == 0)
		mask(r, ep, 1);
	EP_CHECK(dispatch(ep, batch, GIN_EP_RECV));
	batch.checkDispatch();
	if (r.rank == 0)
		EP_CHECK(ginEpMaskClear(ep, Batch::streamOf(r)));
	batch.gone[1] = false;
	batch.gone[0] = r.rank == 1;
	EP_CHECK(combine(ep, batch));
	batch.checkCombine();
	std::vector<uint32_t> observed(r.nRanks);
	EP_CHECK(ginEpMaskQuery(ep, observed.data(), nullptr));
	EXPECT(observed[0] == (r.rank == 1));
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
		EP_CHECK(dispatch(ep, batch));
		batch.checkDispatch();
		EP_CHECK(combine(ep, batch));
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
	EP_CHECK(dispatch(ep, batch));
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

/* Each token names one expert as its entries `first` and `again`; the other entries are -1. */
static void expertTwice(Rank &r, uint32_t topk, uint32_t first, uint32_t again)
{
	Round round = roundOf(r, 121);
	round.topk = topk;
	ginEp_t ep = epFor(r, round, GIN_EP_LOST_ERROR, 60000);
	Batch batch(r, round, handleBytes(ep));
	std::vector<int64_t> indices(12 * topk, -1);
	std::vector<int32_t> tokens(round.experts), count;
	for (uint32_t t = 0; t < 12; t++) {
		const uint32_t e = t % round.experts;
		indices[t * topk + first] = indices[t * topk + again] = e;
		tokens[e]++;
	}
	batch.idx.write(indices);
	EP_CHECK(dispatch(ep, batch));
	count = batch.recvCount.read<int32_t>();
	for (uint32_t e = 0; e < 4; e++)
		EXPECT(count[e] == tokens[round.first[r.rank] + e] * r.nRanks);
	const ginEpRecord_t record = recordOf(ep);
	EXPECT(record.valid && record.result == ginErrorInvalidArgument);
	EXPECT(record.expected % topk == again);
	EXPECT(static_cast<int64_t>(record.seen) == indices[record.expected]);
	EXPECT(strstr(ginEpGetLastError(), "topkIdx names expert ") &&
	       strstr(ginEpGetLastError(), " again in one token, at position "));
	EP_CHECK(ginEpReset(ep));
	EP_CHECK(ginEpDestroy(ep));
}

/* Kernels read eight entries of a token at a time. */
static void twice(Rank &r)
{
	expertTwice(r, 7, 4, 6);
	expertTwice(r, 8, 0, 7);
	expertTwice(r, 10, 7, 9);
	expertTwice(r, 24, 7, 20);
}

/* Ranks that are threads of one process: peers may still store into this rank. */
static void leave(ginEp_t ep)
{
	static std::atomic<int> came;
	const int last = (came++ / ranksHere + 1) * ranksHere;
	while (came < last)
		usleep(1000);
	ginEpDestroy(ep);
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
		EP_FAILS(dispatch(ep, batch), ginErrorPeer);
	}
	leave(ep);
}

/* Rank 0 aborts its own communicator while it waits for the other ranks: that masks no rank. */
static void abortedHere(Rank &r)
{
	Round round = roundOf(r, 112);
	ginEp_t ep = epFor(r, round, GIN_EP_LOST_MASK, 60000);
	full(r, ep, round);
	if (r.rank == 0) {
		std::vector<uint32_t> masked(r.nRanks);
		Batch batch(r, round, handleBytes(ep));
		std::thread aborter([&] {
			usleep(100000);
			CHECK(ginCommAbort(r.comm));
		});
		EP_FAILS(dispatch(ep, batch), ginErrorAborted);
		EP_CHECK(ginEpMaskQuery(ep, nullptr, masked.data()));
		EXPECT(masked == std::vector<uint32_t>(r.nRanks));
		aborter.join();
	}
	leave(ep);
}

/*
 * WEAK_LOSE=1: the puts of 64 contexts never complete. The ep's timeout is the limit of a flush of
 * all of them, and GIN_TIMEOUT of their end.
 */
static int lost(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	Round round = roundOf(r, 131);
	ginEpConfig_t limited = configFor(round, GIN_EP_LOST_ERROR, 1000);
	limited.contexts = 64;
	ginEp_t ep = makeEp(r, limited);
	for (int i = 0; i < 2; i++) {
		Batch batch(r, round, handleBytes(ep));
		EP_FAILS(dispatch(ep, batch), ginErrorTimeout);
		alarm(30);
		EP_CHECK(ginEpReset(ep));
		alarm(0);
	}
	EP_FAILS(ginEpDestroy(ep), ginErrorTimeout);
	EXPECT(strstr(ginEpGetLastError(), "are given up"));
	ginCommDestroy(r.comm);
	return 0;
}

static int run(const ginConfig_t *config)
{
	static const struct {
		const char *name;
		void (*run)(Rank &r);
	} cases[] = {{"absent, error", absentError},
		     {"given up before combine", gaveUpBeforeCombine},
		     {"absent, mask", absentMask},
		     {"absent in combine", absentCombine},
		     {"masked by the caller", maskedByCaller},
		     {"unanswered", unanswered},
		     {"wrong indices", wrongIndices},
		     {"an expert twice", twice},
		     {"aborted", aborted},
		     {"aborted by itself", abortedHere}};
	Rank r;
	for (const auto &one : cases) {
		rankOpen(r, config);
		ranksHere = config->allgather ? r.nRanks : 1;
		measure(r);
		one.run(r);
		if (r.rank == 0)
			printf("ok: %s, %d ranks\n", one.name, r.nRanks);
		fflush(stdout);
		if (one.run == aborted || one.run == abortedHere)
			ginCommDestroy(r.comm);
		else
			rankClose(r);
	}
	return 0;
}

int main(int argc, char **argv)
{
	return ranksMain(argc, argv, getenv("WEAK_LOSE") ? lost : run);
}
