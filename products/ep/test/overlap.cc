/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overlap.cc - a combine that runs while a GEMM writes its rows: ginEpCombineArgs_t.ready
 *
 * The GEMM is a thread that writes rows, in random order, and then raises their words; on a GPU
 * copies on another stream. PATIENCE=n: seconds that a combine waits for rows that never come, and
 * that a GEMM waits for a combine.
 */
#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "rig.h"

#ifndef __CUDACC__
#include "products/ep/lib/ep.h" /* where parts arrive */
#endif

enum { AT = 3 }; /* the value of a word whose rows are complete */

/* The words of an expert's rows, `each` rows a word; 0: one word. */
struct Words {
	uint32_t each, count;
	Memory memory;

	Words(Batch &b, uint32_t rowsEach)
	    : each(rowsEach), count(each ? (b.inner + each - 1) / each : 1),
	      memory(b.r, size_t{b.L} * count * 4)
	{
		memory.write(std::vector<int32_t>(size_t{b.L} * count, 0));
		b.combine.ready = each ? tensor(memory, ginEpI32, {b.L, count})
				       : tensor(memory, ginEpI32, {b.L});
		b.combine.readyRows = each;
		b.combine.readyAt = AT;
	}
};

/* Writes what combine() reads, later. */
class Gemm
{
	Batch &b;
	Words &words;
	const ginEp_t ep;
	std::vector<uint16_t> rows;
	const int32_t complete = AT;
#ifdef __CUDACC__
	cudaStream_t stream;
#else
	std::thread thread;
#endif

	void block(uint32_t word)
	{
		const uint32_t e = word / words.count, each = words.each ? words.each : b.inner;
		const uint32_t first = word % words.count * each;
		const size_t at = (size_t{e} * b.inner + first) * b.round.hidden;
		const size_t n = size_t{std::min(each, b.inner - first)} * b.round.hidden;
		char *const to = static_cast<char *>(b.y.at()) + at * 2;
		char *const raised = static_cast<char *>(words.memory.at()) + word * 4;
#ifdef __CUDACC__
		CUDA(cudaMemcpyAsync(to, &rows[at], n * 2, cudaMemcpyHostToDevice, stream));
		CUDA(cudaMemcpyAsync(raised, &complete, 4, cudaMemcpyHostToDevice, stream));
#else
		memcpy(to, &rows[at], n * 2);
		for (int i = 0; i < AT; i++)
			__atomic_fetch_add(reinterpret_cast<int32_t *>(raised), complete / AT,
					   __ATOMIC_RELEASE);
#endif
	}

#ifdef __CUDACC__
	bool sees() const
	{
		return false;
	}
	void awaitParts(uint32_t)
	{
	}
#else
	/*
	 * Does it see which parts have come, and does combine look at all rows together? It has two
	 * blocks of four threads.
	 */
	bool sees() const
	{
		return !words.each && b.round.reduce == GIN_EP_REDUCE_NONE &&
		       b.round.ranks * b.M <= 8 && ep->args.plan.allDirect;
	}

	/*
	 * Is the row of item (t, k) of this rank in one of the halves of its slab? The bytes are
	 * read while they come, in no order.
	 */
	bool hasCome(uint32_t t, uint32_t k, uint32_t expert) const
	{
		const epPlan &plan = ep->args.plan;
		const std::vector<uint16_t> row = b.round.answerOf(expert, b.me, t);
		bool come = false;
		for (uint32_t half = 0; half < 2; half++) {
			const size_t part = (half * plan.maxTokens + t) * plan.partsOfToken + k;
			come = come || !memcmp(plan.own + plan.partsAt + part * plan.partBytes,
					       row.data(), row.size() * 2);
		}
		return come;
	}

	/*
	 * Goes on when own expert e's rows of this rank's tokens are back: a combine that waits for
	 * rows of other experts first would never end.
	 */
	void awaitParts(uint32_t e)
	{
		const uint32_t expert = b.round.first[b.me] + e;
		const auto end = std::chrono::steady_clock::now() +
				 std::chrono::seconds(numberOr("PATIENCE", 20));
		for (uint32_t t = 0; t < b.T; t++)
			for (uint32_t k = 0; k < b.round.topk; k++)
				while (b.round.expertsOf(b.me, t)[k] == expert &&
				       !hasCome(t, k, expert)) {
					EXPECT(std::chrono::steady_clock::now() < end);
					std::this_thread::yield();
				}
	}
#endif

	void run()
	{
		std::vector<uint32_t> order(size_t{b.L} * words.count);
		for (uint32_t i = 0; i < order.size(); i++)
			order[i] = i;
		std::shuffle(order.begin(), order.end(), std::mt19937(b.round.seed));
		for (uint32_t word : order) {
			block(word);
			if (sees())
				awaitParts(word);
			/* So that a combine that looks at a wrong word finds rows without data. */
			std::this_thread::sleep_for(std::chrono::microseconds(300));
		}
	}

public:
	/* Takes the rows away. */
	Gemm(Batch &of, Words &raising, ginEp_t with)
	    : b(of), words(raising), ep(with), rows(b.y.read<uint16_t>())
	{
		b.y.poison();
	}

	void start()
	{
#ifdef __CUDACC__
		CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
		run();
#else
		thread = std::thread([this] { run(); });
#endif
	}

	void finish()
	{
#ifdef __CUDACC__
		CUDA(cudaStreamSynchronize(stream));
		CUDA(cudaStreamDestroy(stream));
#else
		thread.join();
#endif
	}
};

static Round roundOf(Rank &r, uint64_t seed, uint32_t reduce)
{
	Round round = evenRound(r, 7, 3, 160, 9, seed);
	round.tokens.assign(round.ranks, 9 - static_cast<uint32_t>(seed % 3));
	round.reduce = reduce;
	return round;
}

/* So few rows that a combine looks at all of them together, each of most experts. */
static Round fewRows(Rank &r, uint64_t seed)
{
	return evenRound(r, 7, 6, 160, 2, seed);
}

static ginEp_t epFor(Rank &r, const Round &round, uint64_t seconds)
{
	ginEpConfig_t config = GIN_EP_CONFIG_INIT;
	config.experts = round.experts;
	config.topk = round.topk;
	config.hidden = round.hidden;
	config.maxTokens = round.maxTokens;
	config.timeout = seconds * 1000000000;
	return makeEp(r, config);
}

/*
 * On a GPU the combine is launched first. On host threads the call returns when the combine has
 * ended, so the GEMM's thread starts first.
 */
static void once(Rank &r, ginEp_t ep, const Round &round, uint32_t each, bool hooks)
{
	meet(r); /* a rank allocates no memory while kernels of other ranks wait */
	Batch b(r, round, handleBytes(ep));
	Words words(b, each);
	meet(r);
	EP_CHECK(b.runDispatch(ep, GIN_EP_BOTH));
	finish(r, ep);
	b.checkDispatch();
	Gemm gemm(b, words, ep);
	b.combine.sms = round.seed % 2 ? 3 : 0;
#ifndef __CUDACC__
	gemm.start();
#endif
	EP_CHECK(b.runCombine(ep, hooks ? GIN_EP_SEND : GIN_EP_BOTH));
#ifdef __CUDACC__
	gemm.start();
#endif
	if (hooks)
		EP_CHECK(b.runCombine(ep, GIN_EP_RECV));
	gemm.finish();
	finish(r, ep);
	b.checkCombine();
}

static void late(Rank &r)
{
	ginEp_t ep = epFor(r, roundOf(r, 0, GIN_EP_REDUCE_NONE), 60);
	uint64_t seed = 1;
	for (uint32_t each : {0, 1, 4, 1000})
		for (uint32_t reduce : {GIN_EP_REDUCE_NONE, GIN_EP_REDUCE_RANK})
			for (bool hooks : {false, true})
				once(r, ep, roundOf(r, seed++, reduce), each, hooks);
	EP_CHECK(ginEpDestroy(ep));
}

/* A GEMM that ends an expert after it has seen the rows of the one before. */
static void inTurn(Rank &r)
{
	ginEp_t ep = epFor(r, fewRows(r, 0), 60);
	for (uint64_t seed = 20; seed < 24; seed++)
		once(r, ep, fewRows(r, seed), 0, seed % 2);
	EP_CHECK(ginEpDestroy(ep));
}

/* All rows are ready at once, and more than one look at them takes. */
static void many(Rank &r)
{
	Round round = evenRound(r, 40, 32, 160, 9, 30);
	ginEp_t ep = epFor(r, round, 60);
	for (uint32_t reduce : {GIN_EP_REDUCE_NONE, GIN_EP_REDUCE_RANK}) {
		round.reduce = reduce;
		meet(r);
		Batch b(r, round, handleBytes(ep));
		Words words(b, 4);
		words.memory.write(std::vector<int32_t>(size_t{b.L} * words.count, AT));
		meet(r);
		EP_CHECK(b.runDispatch(ep, GIN_EP_BOTH));
		finish(r, ep);
		b.checkDispatch();
		b.combine.sms = 1;
		EP_CHECK(b.runCombine(ep, GIN_EP_BOTH));
		finish(r, ep);
		b.checkCombine();
	}
	EP_CHECK(ginEpDestroy(ep));
}

static void refused(Rank &r)
{
	ginEp_t ep = epFor(r, roundOf(r, 0, GIN_EP_REDUCE_NONE), 60);
	Batch b(r, roundOf(r, 1, GIN_EP_REDUCE_RANK), handleBytes(ep));
	Words words(b, 4);
	ginEpCombineArgs_t good = b.combine;
	auto refuses = [&](const char *sentence) {
		epRequire(b.runCombine(ep, GIN_EP_BOTH), ginErrorInvalidArgument, sentence,
			  __builtin_FILE(), __builtin_LINE());
		b.combine = good;
	};
	b.combine.readyAt = 0;
	refuses("readyAt is 0, must be 1 to 2147483647");
	b.combine.ready.size[1] = words.count - 1;
	refuses("ready.size[1] is");
	b.combine.readyRows = 0;
	refuses("ready has 2 dimensions, must be 1");
	b.combine.ready.type = ginEpI64;
	refuses("ready has elements of type");
	EP_CHECK(ginEpDestroy(ep));
}

/* Rank 0's GEMM leaves a word out: its combine ends by the time limit, the others' by rank 0. */
static void never(Rank &r)
{
	ginEp_t ep = epFor(r, roundOf(r, 0, GIN_EP_REDUCE_NONE), numberOr("PATIENCE", 2));
	Batch b(r, roundOf(r, 3, GIN_EP_REDUCE_NONE), handleBytes(ep));
	Words words(b, 0);
	meet(r);
	EP_CHECK(b.runDispatch(ep, GIN_EP_BOTH));
	finish(r, ep);
	b.checkDispatch();
	if (r.rank)
		words.memory.write(std::vector<int32_t>(b.L, AT));
	ginResult_t result = b.runCombine(ep, GIN_EP_BOTH);
	EXPECT(!result || r.device < 0);
	wait(r);
	ginEpRecord_t record = GIN_EP_RECORD_INIT;
	EP_CHECK(ginEpGetAsyncError(ep, &record));
	EXPECT(record.valid);
	if (r.rank) {
		EXPECT(record.rank == 0 && record.result != ginSuccess);
	} else {
		EXPECT(record.rank == -1 && record.result == ginErrorTimeout &&
		       record.call == ginEpCallCombineSend && record.expected == AT &&
		       record.seen == 0);
		EXPECT(strstr(ginEpGetLastError(), "rows of x were not ready"));
	}
	EP_CHECK(ginEpDestroy(ep));
}

static int run(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	late(r);
	inTurn(r);
	many(r);
	refused(r);
	never(r);
	if (r.rank == 0)
		printf("ok: %d ranks\n", r.nRanks);
	rankClose(r);
	return 0;
}

int main(int argc, char **argv)
{
	return ranksMain(argc, argv, run);
}
