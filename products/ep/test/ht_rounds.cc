/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ht_rounds.cc - layout, notify, dispatch and combine of high throughput against the reference
 *
 * ROUNDS=n sets the number of random rounds, SEED=n where they begin; each failure prints its seed.
 * CASE=name,... chooses cases, PATIENCE=n how many seconds a call waits for a rank, REPLAYS=n how
 * often a graph runs.
 */
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <memory>

#include "ht.h"

static uint64_t seedOf()
{
	return numberOr("SEED", 20261129);
}

static ginEp_t epFor(Rank &r, const HtRound &round, uint32_t recvTokens = 0, uint32_t contexts = 0)
{
	ginEpConfig_t config = htConfig(round, numberOr("PATIENCE", r.device < 0 ? 60 : 8));
	config.htRecvTokens = recvTokens;
	config.contexts = contexts;
	config.htScaleBytes = round.hidden / 8 + 4 - round.hidden / 8 % 4; /* nvfp4 has most */
	return makeEp(r, config);
}

static HtRound roundOf(Rank &r, uint32_t experts, uint32_t topk, uint32_t hidden, uint32_t tokens)
{
	return htRound(r, experts, topk, hidden, tokens, seedOf());
}

static void dispatched(Rank &r, ginEp_t ep, HtDispatched &call, uint32_t sms = 0)
{
	EP_CHECK(call.run(ep, sms));
	finish(r, ep);
	call.check();
}

static void combined(Rank &r, ginEp_t ep, HtCombined &call, uint32_t sms = 0)
{
	EP_CHECK(call.run(ep, sms));
	finish(r, ep);
	call.check();
}

static std::unique_ptr<HtNotified> notified(Rank &r, ginEp_t ep, const HtRound &round)
{
	meet(r);
	auto call = std::make_unique<HtNotified>(r, ep, round);
	call->notify(ep);
	finish(r, ep);
	call->checkCounts(ep);
	return call;
}

/* One layer: the rows, then answers of bf16. */
static void once(Rank &r, ginEp_t ep, const HtRound &round, uint32_t biases)
{
	const auto handle = notified(r, ep, round);
	HtDispatched rows(*handle, round, round.seed % 3, true);
	HtRound answers = round;
	answers.kind = htBf16;
	HtCombined back(*handle, answers, biases, round.seed % 2, nullptr, round.seed & 2);
	meet(r);
	dispatched(r, ep, rows);
	combined(r, ep, back);
}

/* Numbers of tokens around the sizes of groups and units, other ones on each rank. */
static void tokens(Rank &r)
{
	static const uint32_t sizes[] = {0, 1, 3, 4, 31, 32, 33, 64, 129};
	const uint32_t count = sizeof(sizes) / sizeof(*sizes);
	HtRound round = roundOf(r, 4 * r.nRanks + 1, 3, 32, 129);
	ginEp_t ep = epFor(r, round);
	for (uint32_t first = 0; first < count; first++) {
		for (uint32_t s = 0; s < round.ranks; s++)
			round.tokens[s] = sizes[(first + s * 2) % count];
		round.seed++;
		once(r, ep, round, first % 3);
	}
	round.tokens.assign(round.ranks, 0);
	once(r, ep, round, 1);
	EP_CHECK(ginEpDestroy(ep));
}

/* Sizes of rows, kinds of scales, types of indices; bools that contradict the experts. */
static void shapes(Rank &r)
{
	static const struct {
		uint32_t experts, topk, hidden;
		HtKind kind;
		bool wide, isOdd, allToFirst;
		uint32_t alignment;
	} of[] = {{8, 8, 16, htBf16, true, false, false, 1},
		  {1, 1, 128, htBf16, false, false, true, 128},
		  {32, 32, 2880, htF8Columns, true, false, false, 16},
		  {16, 6, 7168, htF8Ue8m0, true, true, false, 3},
		  {24, 5, 512, htF8One, false, true, false, 1},
		  {8, 3, 2880, htMxColumns, true, false, false, 1},
		  {7, 2, 1440, htNv, true, true, false, 1},
		  {9, 4, 7168, htBf16, true, false, true, 1}};
	for (const auto &shape : of) {
		HtRound round = roundOf(r, shape.experts * r.nRanks, shape.topk, shape.hidden,
					shape.hidden > 2000 ? 9 : 40);
		round.kind = shape.kind;
		round.wide = shape.wide;
		round.isOdd = shape.isOdd;
		round.allToFirst = shape.allToFirst;
		round.alignment = shape.alignment;
		ginEp_t ep = epFor(r, round);
		once(r, ep, round, 2);
		EP_CHECK(ginEpDestroy(ep));
	}
}

/*
 * Three handles serve dispatches and combines in any order, with rows of other sizes than their
 * first ones, and with other numbers of blocks on each rank.
 */
static void cached(Rank &r)
{
	HtRound most = roundOf(r, 6 * r.nRanks, 4, 256, 70);
	ginEp_t ep = epFor(r, most);
	std::unique_ptr<HtNotified> handles[3];
	for (uint32_t h = 0; h < 3; h++) {
		HtRound round = most;
		round.seed += h;
		for (uint32_t &n : round.tokens)
			n -= 9 * h;
		handles[h] = notified(r, ep, round);
	}
	for (uint32_t i = 0; i < 12; i++) {
		const uint64_t bits = mix(most.seed, 99, i, 0);
		const HtNotified &handle = *handles[bits % 3];
		const uint32_t sms = 1 + (static_cast<uint32_t>(r.rank) + i) % 3;
		HtRound rows = handle.round;
		rows.seed += 1000 + i;
		rows.hidden = 16 * (1 + (bits >> 8) % 16);
		rows.kind = bits >> 16 & 1 ? htBf16 : htF8Columns;
		meet(r);
		if (bits >> 17 & 1) {
			HtDispatched call(handle, rows, 0, false);
			meet(r);
			dispatched(r, ep, call, sms);
		} else {
			rows.kind = htBf16;
			HtCombined call(handle, rows, i % 3, i & 1, nullptr, i & 2);
			meet(r);
			combined(r, ep, call, sms);
		}
	}
	EP_CHECK(ginEpDestroy(ep));
}

/*
 * Calls follow each other without a barrier between ranks, which have few tokens, or many: a rank
 * that is ahead must not touch what another one still reads.
 */
static void ahead(Rank &r)
{
	HtRound round = roundOf(r, 4 * r.nRanks, 4, 256, 100);
	ginEp_t ep = epFor(r, round);
	std::vector<std::unique_ptr<HtNotified>> handles;
	std::vector<std::unique_ptr<HtDispatched>> rows;
	std::vector<std::unique_ptr<HtCombined>> back;
	for (uint32_t i = 0; i < 6; i++) {
		round.seed++;
		for (uint32_t s = 0; s < round.ranks; s++)
			round.tokens[s] = (s + i) % 3 ? 100 : 3;
		handles.push_back(std::make_unique<HtNotified>(r, ep, round));
		rows.push_back(std::make_unique<HtDispatched>(*handles[i], round, 0, true));
		back.push_back(std::make_unique<HtCombined>(*handles[i], round, 0, true));
		handles[i]->layout();
	}
	wait(r);
	meet(r);
	for (uint32_t i = 0; i < 6; i++)
		EP_CHECK(ginEpHtNotify(ep, &handles[i]->args, Batch::streamOf(r),
				       &handles[i]->ticket));
	for (uint32_t i = 0; i < 6; i++) {
		EP_CHECK(rows[i]->run(ep));
		if (i % 3 == 0)
			EP_CHECK(back[i]->run(ep, 1));
	}
	for (uint32_t i = 0; i < 6; i++)
		EP_CHECK(back[i]->run(ep, 1 + i % 2));
	finish(r, ep);
	for (uint32_t i = 0; i < 6; i++) {
		handles[i]->checkCounts(ep);
		rows[i]->check();
		back[i]->check();
	}
	meet(r);
	EP_CHECK(ginEpDestroy(ep));
}

/*
 * Rows of several times what a ring between domains has room for, by one context and by three, in
 * calls that follow each other at once.
 */
static void rings(Rank &r)
{
	for (uint32_t contexts = 1; contexts <= 3; contexts += 2) {
		HtRound round = roundOf(r, 3 * r.nRanks, 4, 32, 700);
		round.tokens[r.nRanks - 1] = 5;
		round.seed += contexts;
		ginEp_t ep = epFor(r, round, 0, contexts);
		const auto handle = notified(r, ep, round);
		HtDispatched rows(*handle, round, 0, true);
		HtCombined back(*handle, round, 2, true);
		meet(r);
		for (uint32_t i = 0; i < 3; i++) {
			EP_CHECK(rows.run(ep, 1 + i));
			EP_CHECK(back.run(ep, 3 - i));
		}
		finish(r, ep);
		rows.check();
		back.check();
		meet(r);
		EP_CHECK(ginEpDestroy(ep));
	}
}

/* Calls of many blocks, most of which have nothing to do: other ranks do not wait for them. */
static void manyBlocks(Rank &r)
{
	const HtRound round = roundOf(r, 2 * r.nRanks, 2, 16, 3);
	ginEp_t ep = epFor(r, round);
	const auto handle = notified(r, ep, round);
	HtDispatched rows(*handle, round, 0, true);
	HtCombined back(*handle, round, 0, false);
	meet(r);
	for (uint64_t i = 0; i < numberOr("ROUNDS", 20) * 3; i++) {
		EP_CHECK(rows.run(ep, 5));
		if (i % 3)
			EP_CHECK(back.run(ep, 5));
	}
	finish(r, ep);
	rows.check();
	back.check();
	meet(r);
	EP_CHECK(ginEpDestroy(ep));
}

/* A page that cannot be read for a while; the first thread that reads it waits. */
static char *held;

static void wake(int, siginfo_t *info, void *)
{
	const char *at = static_cast<const char *>(info->si_addr);
	if (at < held || at >= held + 4096)
		_exit(3);
	usleep(100000);
	mprotect(held, 4096, PROT_READ | PROT_WRITE);
}

/* Memory with the contents of `from`, whose first page is held. */
static char *holdFirst(const Memory &from)
{
	struct sigaction action = {};
	void *at = mmap(nullptr, from.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	EXPECT(at != MAP_FAILED && from.bytes >= 4096);
	held = static_cast<char *>(at);
	memcpy(held, from.at(), from.bytes);
	action.sa_sigaction = wake;
	action.sa_flags = SA_SIGINFO;
	sigaction(SIGSEGV, &action, nullptr);
	mprotect(held, 4096, PROT_NONE);
	return held;
}

/*
 * One thread of the last rank begins to read rows when the other ranks have ended their combines:
 * they must not give the pool to others before. First x is in the pool, and its rank overwrites it;
 * then x is copied there, and a dispatch follows.
 */
static void late(Rank &r)
{
	const HtRound round = roundOf(r, 4 * r.nRanks, 4, 128, 60);
	if (r.device >= 0)
		return;
	ginEp_t ep = epFor(r, round);
	const auto handle = notified(r, ep, round);
	void *pool = nullptr;
	uint64_t bytes = 0;
	EP_CHECK(ginEpHtPool(ep, &pool, &bytes));
	for (uint32_t i = 0; i < 2; i++) {
		HtCombined back(*handle, round, 1, true, i ? nullptr : pool);
		HtDispatched rows(*handle, round, 0, true);
		const bool isLate = r.rank == r.nRanks - 1;
		if (isLate)
			back.args.bias[0].data = holdFirst(back.bias0);
		meet(r);
		EP_CHECK(back.run(ep));
		if (i == 0)
			memset(pool, 0x11, bytes);
		EP_CHECK(rows.run(ep));
		back.check();
		rows.check();
		if (isLate)
			munmap(held, back.bias0.bytes);
	}
	meet(r);
	EP_CHECK(ginEpDestroy(ep));
}

/* Rows land in the pool and go back from there; between them other calls use the pool. */
static void inPool(Rank &r)
{
	HtRound round = roundOf(r, 4 * r.nRanks, 4, 64, 50);
	ginEp_t ep = epFor(r, round);
	void *pool = nullptr;
	uint64_t bytes = 0;
	EP_CHECK(ginEpHtPool(ep, &pool, &bytes));
	EXPECT(bytes >= 50ull * round.ranks * 128);
	const auto handle = notified(r, ep, round);
	for (uint32_t i = 0; i < 4; i++) {
		round.seed++;
		HtDispatched rows(*handle, round, 0, false, i % 2 ? nullptr : pool);
		meet(r);
		dispatched(r, ep, rows);
		meet(r);
		HtCombined back(*handle, round, 1, i > 1, i < 3 ? pool : nullptr);
		meet(r);
		combined(r, ep, back);
	}
	EP_CHECK(ginEpDestroy(ep));
}

/*
 * Rows land in tensors of a window and go back from there: on each rank elsewhere, and in some
 * calls in tensors outside. The pools of ranks whose tensors are in the window then hold no rows.
 * The window outlives a larger pool.
 */
static void inWindow(Rank &r)
{
	HtRound round = roundOf(r, 4 * r.nRanks, 4, 64, 50);
	ginEpConfig_t config = htConfig(round, numberOr("PATIENCE", r.device < 0 ? 60 : 8));
	const size_t one = (50ull * round.ranks * 128 + 255) / 256 * 256;
	config.htWindowBytes = 8 * one;
	config.htRecvTokens = 50 * round.ranks;
	char *const at = static_cast<char *>(allocate(r, config.htWindowBytes));
	CHECK(ginWindowRegister(r.comm, at, config.htWindowBytes, 0, &config.htWindow));
	ginEp_t ep = makeEp(r, config);
	const auto handle = notified(r, ep, round);
	for (uint32_t i = 0; i < 6; i++) {
		const uint32_t n = i + static_cast<uint32_t>(r.rank);
		char *const tensor = at + n % 7 * one + (n % 4 == 3 ? 16 : 0);
		void *pool = nullptr;
		uint64_t bytes = 0;
		round.seed++;
		if (i == 3)
			EP_CHECK(ginEpHtGrow(ep, 51 * round.ranks));
		EP_CHECK(ginEpHtPool(ep, &pool, &bytes));
		const std::vector<char> poison(bytes, 0x5a);
		copyBytes(r, pool, poison.data(), bytes);
		HtDispatched rows(*handle, round, 0, i % 2, n % 5 ? tensor : nullptr);
		HtCombined back(*handle, round, 1, i % 2, n % 3 ? tensor : nullptr);
		meet(r);
		dispatched(r, ep, rows);
		back.fill(); /* its x may be where the rows came */
		meet(r);
		combined(r, ep, back);
		std::vector<char> left(bytes);
		copyBytes(r, left.data(), pool, bytes);
		const bool isStraight = n % 5 && n % 3 && n % 4 != 3;
		EXPECT((left == poison) == (isStraight || round.domain == 1));
		meet(r);
	}
	EP_CHECK(ginEpDestroy(ep));
	CHECK(ginWindowDeregister(r.comm, config.htWindow));
	CHECK(ginMemFree(r.comm, at));
}

/* Too many rows for tensors, or for the pool: nothing is written. Then the pool grows. */
static void room(Rank &r)
{
	HtRound round = roundOf(r, 2 * r.nRanks, 2, 64, 33);
	round.allToFirst = true;
	ginEp_t ep = epFor(r, round, 20);
	const auto handle = notified(r, ep, round);
	uint32_t most = 0;
	for (uint32_t q = 0; q < round.ranks; q++)
		most = std::max(most, static_cast<uint32_t>(htReceived(round, q).size()));
	EXPECT(most > 20);
	{
		HtDispatched call(*handle, round, 0, true);
		meet(r);
		call.run(ep);
		wait(r);
		ginEpRecord_t record = GIN_EP_RECORD_INIT;
		const std::string words = ": " + std::to_string(most) + " rows need room: " +
					  "the tensors and the pool have it for 20; ";
		EP_CHECK(ginEpGetAsyncError(ep, &record));
		EXPECT(record.valid && record.call == ginEpCallHtDispatch);
		if (r.rank == 0)
			EXPECT(record.result == ginErrorInvalidArgument &&
			       record.expected == most && record.seen == 20 &&
			       strstr(ginEpGetLastError(), words.c_str()));
		else
			EXPECT(record.result == ginErrorPeer && record.rank != r.rank);
		if (r.rank == 0)
			call.whole("recvX", call.recvX, std::vector<uint8_t>());
	}
	meet(r);
	EP_FAILS(ginEpHtGrow(ep, 20), ginErrorInvalidArgument);
	EP_CHECK(ginEpHtGrow(ep, most));
	ginEpInfo_t info = GIN_EP_INFO_INIT;
	EP_CHECK(ginEpQuery(ep, &info));
	EXPECT(info.htRecvTokens == most && info.htTokens == 33);
	HtDispatched again(*handle, round, 0, true);
	HtCombined back(*handle, round, 0, true);
	meet(r);
	dispatched(r, ep, again);
	combined(r, ep, back);
	once(r, ep, round, 2);
	EP_CHECK(ginEpDestroy(ep));
}

/* Counts of eight tickets are kept. */
static void tickets(Rank &r)
{
	HtRound round = roundOf(r, 2 * r.nRanks, 2, 16, 8);
	ginEp_t ep = epFor(r, round);
	std::vector<std::unique_ptr<HtNotified>> calls;
	for (uint32_t i = 0; i < 9; i++) {
		round.seed++;
		calls.push_back(notified(r, ep, round));
	}
	ginEpHtCounts_t counts = GIN_EP_HT_COUNTS_INIT;
	EP_FAILS(ginEpHtCounts(ep, calls[0]->ticket, 1, &counts), ginErrorInvalidUsage);
	EP_FAILS(ginEpHtCounts(ep, calls[8]->ticket + 1, 1, &counts), ginErrorInvalidUsage);
	for (uint32_t i = 1; i < 9; i++)
		calls[i]->checkCounts(ep);
	EP_CHECK(ginEpDestroy(ep));
}

#ifdef __CUDACC__
/* A graph with a whole layer, replayed, with eager calls between: epochs are in device memory. */
static void graphs(Rank &r)
{
	const HtRound round = roundOf(r, 8 * r.nRanks, 4, 1536, 70);
	ginEp_t ep = epFor(r, round);
	const auto handle = notified(r, ep, round);
	HtDispatched rows(*handle, round, 50, true);
	HtCombined back(*handle, round, 1, true);
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	dispatched(r, ep, rows);
	combined(r, ep, back);
	meet(r);
	CUDA(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal));
	EP_CHECK(ginEpHtNotify(ep, &handle->args, r.stream, nullptr));
	EP_CHECK(rows.run(ep));
	EP_CHECK(back.run(ep));
	CUDA(cudaStreamEndCapture(r.stream, &graph));
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
	for (uint64_t replays = numberOr("REPLAYS", 101); replays > 0; replays /= 2) {
		rows.recvX.poison();
		back.out.poison();
		back.outWeights.poison();
		meet(r);
		for (uint64_t i = 0; i < replays; i++)
			CUDA(cudaGraphLaunch(exec, r.stream));
		finish(r, ep);
		rows.check();
		back.check();
		combined(r, ep, back);
	}
	CUDA(cudaGraphExecDestroy(exec));
	CUDA(cudaGraphDestroy(graph));
	EP_CHECK(ginEpDestroy(ep));
}
#endif

static void randomRounds(Rank &r)
{
	const uint32_t rounds = static_cast<uint32_t>(numberOr("ROUNDS", 20));
	for (uint32_t n = 0; n < rounds;) {
		HtRound most = roundOf(r, 1, 1, 16, 1);
		most.seed += 7919 * n;
		const uint64_t bits = mix(most.seed, 1, 2, 3);
		most.experts = 1 + bits % 40;
		most.topk = 1 + (bits >> 8) % 9;
		most.hidden = 16 * (1 + (bits >> 16) % 60);
		most.tokens.assign(most.ranks, 1 + (bits >> 24) % 100);
		ginEp_t ep = epFor(r, most);
		for (uint32_t i = 0; i < 10 && n < rounds; i++, n++) {
			HtRound round = most;
			round.seed += 1 + i;
			const uint64_t more = mix(round.seed, 4, 5, 6);
			round.kind = static_cast<HtKind>(more % HT_KINDS);
			round.hidden = 16 * (1 + (more >> 8) % (most.hidden / 16));
			round.topk = 1 + (more >> 16) % most.topk;
			round.wide = more >> 24 & 1;
			round.isOdd = (more >> 25) % 4 == 0;
			for (uint32_t s = 0; s < round.ranks; s++)
				round.tokens[s] = mix(round.seed, 7, s, 0) % (most.tokens[s] + 1);
			once(r, ep, round, more >> 28 & 1 ? 2 : 0);
		}
		EP_CHECK(ginEpDestroy(ep));
	}
}

static int run(const ginConfig_t *config)
{
	static const Case cases[] = {{"tokens", tokens},
				     {"shapes", shapes},
				     {"cached", cached},
				     {"ahead", ahead},
				     {"rings", rings},
				     {"many blocks", manyBlocks},
				     {"a rank that reads late", late},
				     {"pool", inPool},
				     {"window", inWindow},
				     {"room", room},
				     {"tickets", tickets},
#ifdef __CUDACC__
				     {"graphs", graphs},
#endif
				     {"random", randomRounds}};
	return runCases(config, cases);
}

int main(int argc, char **argv)
{
	return ranksMain(argc, argv, run);
}
