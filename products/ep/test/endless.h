/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endless.h - a round whose inputs and results are patterns, filled and checked by the rank's
 * device
 *
 * A block takes items in turn, its threads the elements of an item. On host threads one thread does
 * all.
 */
#ifndef GIN_EP_TEST_ENDLESS_H
#define GIN_EP_TEST_ENDLESS_H

#include "rig.h"

#include <atomic>

/* The state of a process with one rank, for its monitor. */
static std::atomic<uint32_t> hostSteps;
static std::atomic<int> hostRank;
static std::atomic<const char *> hostDoes{"the beginning"};

static void hostStep(const char *what)
{
	hostDoes = what;
	hostSteps++;
}

enum { ENDLESS_RANKS = 8, ENDLESS_POISON = 0x5a5a5a5a };

GIN_FN uint64_t bitsOf(uint64_t seed, uint32_t a, uint32_t b, uint32_t c)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15ull + a * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 29) * 0x94d049bb133111ebull + b * 0xd6e8feb86659fd93ull;
	x = (x ^ x >> 32) * 0xbf58476d1ce4e5b9ull + c * 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 29) * 0x94d049bb133111ebull;
	return x ^ x >> 32;
}

#if GIN_ON_GPU
#define ENDLESS_BLOCK blockIdx.x
#define ENDLESS_BLOCKS gridDim.x
#define ENDLESS_THREAD threadIdx.x
#define ENDLESS_THREADS blockDim.x
#else
#define ENDLESS_BLOCK 0u
#define ENDLESS_BLOCKS 1u
#define ENDLESS_THREAD 0u
#define ENDLESS_THREADS 1u
#endif

GIN_FN uint32_t wordOfFloat(float value)
{
	uint32_t word;
	memcpy(&word, &value, sizeof(word));
	return word;
}

GIN_FN float floatOfWord(uint32_t word)
{
	float value;
	memcpy(&value, &word, sizeof(value));
	return value;
}

/* 2^e */
GIN_FN float powerOfTwo(int e)
{
	return floatOfWord(static_cast<uint32_t>(127 + e) << 23);
}

/* Sizes and kinds of a round, and its rows' values. */
struct Pattern {
	uint32_t ranks, me, experts, topk, hidden, stride, maxTokens;
	uint32_t f8, scaleKind, ranked, reduce, weighted, wide;
	uint32_t crowd; /* all experts are those of rank 0 */
	uint32_t first[ENDLESS_RANKS + 1], tokens[ENDLESS_RANKS];
	uint64_t seed;

	GIN_FN uint32_t local() const { return first[me + 1] - first[me]; }
	GIN_FN uint32_t outer() const { return ranked ? ranks : local(); }
	GIN_FN uint32_t inner() const { return ranked ? maxTokens : ranks * maxTokens; }
	GIN_FN uint32_t groups() const
	{
		const uint32_t each = scaleKind == GIN_EP_SCALE_UE8M0 ? 512 : 128;
		return (hidden + each - 1) / each;
	}

	/* Distinct, because the number of experts is prime or a power of two; or -1. */
	GIN_FN int32_t expertAt(uint32_t s, uint32_t t, uint32_t k) const
	{
		const uint64_t bits = bitsOf(seed, 10, s, t);
		const uint32_t range = crowd ? first[1] : experts;
		const uint32_t any = crowd || range < 3 ? 1 : 1 + (bits >> 40) % (range - 1);
		const uint32_t step = range % 2 ? any : any | 1;
		if (k >= range || bitsOf(seed, 11 + k, s, t) % 8 == 0)
			return -1;
		return static_cast<int32_t>((static_cast<uint32_t>(bits % range) + k * step) %
					    range);
	}

	GIN_FN float weightAt(uint32_t s, uint32_t t, uint32_t k) const
	{
		return weighted && bitsOf(seed, 50 + k, s, t) % 2 ? 0.5f : 1.0f;
	}

	/* 128 elements have one scale, 2^e. Their first element is 448, the largest of e4m3. */
	GIN_FN int scaleAt(uint32_t s, uint32_t t, uint32_t group) const
	{
		return static_cast<int>(bitsOf(seed, 90, s * 65536 + t, group) % 9) - 4;
	}

	GIN_FN uint8_t codeAt(uint32_t s, uint32_t t, uint32_t h) const
	{
		const uint8_t code = static_cast<uint8_t>(bitsOf(seed, 91, s * 65536 + t, h) >> 8);
		return h % 128 == 0 ? 0x7e : (code & 0x7f) == 0x7f ? 0 : code;
	}

	GIN_FN uint16_t xAt(uint32_t s, uint32_t t, uint32_t h) const
	{
		const uint8_t code = codeAt(s, t, h);
		const int e = code >> 3 & 15;
		const float part = static_cast<float>(e ? 8 + (code & 7) : code & 7);
		const float value =
			part * powerOfTwo(e ? e - 10 : -9) * powerOfTwo(scaleAt(s, t, h / 128));
		return static_cast<uint16_t>(wordOfFloat(code & 0x80 ? -value : value) >> 16);
	}

	GIN_FN uint32_t scaleWordAt(uint32_t s, uint32_t t, uint32_t group) const
	{
		if (scaleKind != GIN_EP_SCALE_UE8M0)
			return wordOfFloat(powerOfTwo(scaleAt(s, t, group)));
		uint32_t word = 0;
		for (uint32_t i = 0; i < 4 && group * 4 + i < (hidden + 127) / 128; i++)
			word |= static_cast<uint32_t>(scaleAt(s, t, group * 4 + i) + 127) << i * 8;
		return word;
	}

	/*
	 * The answer of an expert, or with rank-major rows of a rank, to a token: small integers.
	 */
	GIN_FN float answerAt(uint32_t from, uint32_t s, uint32_t t, uint32_t h) const
	{
		const uint64_t bits = bitsOf(seed, 100 + from, s * 65536 + t, h);
		return static_cast<float>(static_cast<int>((bits >> 8) % 17) - 8);
	}

	GIN_FN uint32_t rankOf(int32_t expert) const
	{
		uint32_t r = 0;
		while (static_cast<uint32_t>(expert) >= first[r + 1])
			r++;
		return r;
	}
};

/* A round's memory at one rank. */
struct Memories {
	uint16_t *x, *y, *out;
	void *idx;
	float *weights;
	int32_t *table; /* [ranks][maxTokens][topk]: the experts of all ranks */
	char *recvX;
	uint32_t *recvScales;
	int32_t *recvCount, *srcInfo, *recvTopk;
	float *recvWeights;
	int64_t *range;
	uint32_t *bad; /* failures; then the first one: what, item, seed */
};

/* The failed check: bad[1]. */
enum Wrong {
	wrongCount = 1,
	wrongX,
	wrongScale,
	wrongInfo,
	wrongRange,
	wrongTopk,
	wrongPast,
	wrongOut
};

struct Bodies {
	Pattern p;
	Memories m;

	GIN_FN void expect(bool right, Wrong what, uint32_t item) const
	{
		if (right)
			return;
#if GIN_ON_GPU
		if (atomicAdd(m.bad, 1u))
			return;
#else
		if (m.bad[0]++)
			return;
#endif
		m.bad[1] = what;
		m.bad[2] = item;
		m.bad[3] = static_cast<uint32_t>(p.seed);
	}

	GIN_FN int32_t listed(uint32_t s, uint32_t t, uint32_t k) const
	{
		return m.table[(s * p.maxTokens + t) * p.topk + k];
	}

	/* Has the token one of the experts first to last - 1? */
	GIN_FN bool goes(uint32_t s, uint32_t t, uint32_t from, uint32_t end) const
	{
		bool any = false;
		for (uint32_t k = 0; k < p.topk; k++) {
			const int32_t e = listed(s, t, k);
			any |= e >= 0 && static_cast<uint32_t>(e) >= from &&
			       static_cast<uint32_t>(e) < end;
		}
		return any;
	}

	/* Tokens of source s before t that have one of the experts. */
	GIN_FN uint32_t before(uint32_t s, uint32_t t, uint32_t from, uint32_t end) const
	{
		uint32_t n = 0;
		for (uint32_t i = 0; i < t; i++)
			n += goes(s, i, from, end) ? 1 : 0;
		return n;
	}

	/* The experts of row `outer` of recvX. */
	GIN_FN uint32_t fromOf(uint32_t o) const
	{
		return p.first[p.me] + (p.ranked ? 0 : o);
	}
	GIN_FN uint32_t endOf(uint32_t o) const
	{
		return p.ranked ? p.first[p.me + 1] : p.first[p.me] + o + 1;
	}

	/* Rows of `outer` from sources before s; rank-major: source s is `outer`. */
	GIN_FN uint32_t begin(uint32_t o, uint32_t s) const
	{
		uint32_t n = 0;
		for (uint32_t r = 0; !p.ranked && r < s; r++)
			n += before(r, p.tokens[r], fromOf(o), endOf(o));
		return n;
	}
};

struct FillTable : Bodies {
	static const char *name() { return "a launch of FillTable"; }

	GIN_FN void operator()() const
	{
		const uint32_t each = p.maxTokens * p.topk;
		const uint32_t step = ENDLESS_BLOCKS * ENDLESS_THREADS;
		for (uint32_t i = ENDLESS_BLOCK * ENDLESS_THREADS + ENDLESS_THREAD;
		     i < p.ranks * each; i += step)
			m.table[i] = p.expertAt(i / each, i % each / p.topk, i % p.topk);
	}
};

/* x, topkIdx, topkWeights of this rank; outputs are poisoned. */
struct FillRound : Bodies {
	static const char *name() { return "a launch of FillRound"; }

	GIN_FN void operator()() const
	{
		const uint32_t start = ENDLESS_BLOCK * ENDLESS_THREADS + ENDLESS_THREAD;
		const uint32_t step = ENDLESS_BLOCKS * ENDLESS_THREADS, T = p.tokens[p.me];
		const size_t rows = size_t{p.outer()} * p.inner();
		for (uint32_t i = start; i < T * p.hidden; i += step)
			m.x[i / p.hidden * p.stride + i % p.hidden] =
				p.xAt(p.me, i / p.hidden, i % p.hidden);
		for (uint32_t i = start; i < T * p.topk; i += step) {
			const int32_t e = p.expertAt(p.me, i / p.topk, i % p.topk);
			if (p.wide)
				static_cast<int64_t *>(m.idx)[i] = e;
			else
				static_cast<int32_t *>(m.idx)[i] = e;
			m.weights[i] = p.weightAt(p.me, i / p.topk, i % p.topk);
		}
		for (size_t i = start; i < rows * p.hidden * (p.f8 ? 1 : 2) / 4; i += step)
			reinterpret_cast<uint32_t *>(m.recvX)[i] = ENDLESS_POISON;
		for (size_t i = start; i < rows * p.groups(); i += step)
			m.recvScales[i] = ENDLESS_POISON;
		for (size_t i = start; i < rows; i += step)
			m.srcInfo[i] = ENDLESS_POISON;
	}
};

/* Every row of recvX; writes the answers. */
struct CheckDispatch : Bodies {
	static const char *name() { return "a launch of CheckDispatch"; }

	GIN_FN void operator()() const
	{
		const uint32_t sources = p.ranked ? 1 : p.ranks;
		const uint32_t items = p.outer() * sources * p.maxTokens;
		for (uint32_t i = ENDLESS_BLOCK; i < items; i += ENDLESS_BLOCKS) {
			const uint32_t o = i / (sources * p.maxTokens);
			const uint32_t s = p.ranked ? o : i / p.maxTokens % sources;
			const uint32_t t = i % p.maxTokens;
			if (t < p.tokens[s] && goes(s, t, fromOf(o), endOf(o)))
				checkRow(o, begin(o, s) + before(s, t, fromOf(o), endOf(o)), s, t);
		}
		for (uint32_t o = ENDLESS_BLOCK; o < p.outer(); o += ENDLESS_BLOCKS)
			checkOuter(o);
	}

	GIN_FN void checkRow(uint32_t o, uint32_t i, uint32_t s, uint32_t t) const
	{
		const size_t row = size_t{o} * p.inner() + i;
		const uint32_t from = p.ranked ? 100000 + p.me : fromOf(o);
		for (uint32_t h = ENDLESS_THREAD; h < p.hidden; h += ENDLESS_THREADS) {
			const size_t at = row * p.hidden + h;
			const bool right =
				p.f8 ? static_cast<uint8_t>(m.recvX[at]) == p.codeAt(s, t, h)
				     : reinterpret_cast<const uint16_t *>(m.recvX)[at] ==
						p.xAt(s, t, h);
			expect(right, wrongX, static_cast<uint32_t>(row));
			m.y[at] =
				static_cast<uint16_t>(wordOfFloat(p.answerAt(from, s, t, h)) >> 16);
		}
		for (uint32_t g = ENDLESS_THREAD; p.f8 && g < p.groups(); g += ENDLESS_THREADS)
			expect(m.recvScales[(size_t{o} * p.groups() + g) * p.inner() + i] ==
				       p.scaleWordAt(s, t, g),
			       wrongScale, static_cast<uint32_t>(row));
		if (ENDLESS_THREAD == 0)
			expect(m.srcInfo[row] == static_cast<int32_t>(t), wrongInfo,
			       static_cast<uint32_t>(row));
		for (uint32_t k = ENDLESS_THREAD; p.ranked && k < p.topk; k += ENDLESS_THREADS)
			checkItem(row * p.topk + k, s, t, k);
	}

	GIN_FN void checkItem(size_t at, uint32_t s, uint32_t t, uint32_t k) const
	{
		const int32_t e = listed(s, t, k);
		const bool here = e >= 0 && p.rankOf(e) == p.me;
		const int32_t local = here ? e - static_cast<int32_t>(p.first[p.me]) : -1;
		expect(m.recvTopk[at] == local, wrongTopk, static_cast<uint32_t>(at));
		expect(m.recvWeights[at] == (here ? p.weightAt(s, t, k) : 0.0f), wrongTopk,
		       static_cast<uint32_t>(at));
	}

	/* Counts, and that no row beyond them is written. */
	GIN_FN void checkOuter(uint32_t o) const
	{
		uint32_t n = 0;
		for (uint32_t s = p.ranked ? o : 0; s < (p.ranked ? o + 1 : p.ranks); s++) {
			const uint32_t mine = before(s, p.tokens[s], fromOf(o), endOf(o));
			if (!p.ranked && ENDLESS_THREAD == 0)
				expect(m.range[o * p.ranks + s] ==
					       (static_cast<int64_t>(n) << 32 | mine),
				       wrongRange, o);
			n += mine;
		}
		if (ENDLESS_THREAD == 0)
			expect(m.recvCount[o] == static_cast<int32_t>(n), wrongCount, o);
		const uint32_t words = p.hidden * (p.f8 ? 1 : 2) / 4;
		for (uint32_t i = n; i < p.inner(); i++) {
			const size_t row = size_t{o} * p.inner() + i;
			for (uint32_t w = ENDLESS_THREAD; w < words; w += ENDLESS_THREADS)
				expect(reinterpret_cast<const uint32_t *>(
					       m.recvX)[row * words + w] == ENDLESS_POISON,
				       wrongPast, static_cast<uint32_t>(row));
			for (uint32_t g = ENDLESS_THREAD; p.f8 && g < p.groups();
			     g += ENDLESS_THREADS)
				expect(m.recvScales[(size_t{o} * p.groups() + g) * p.inner() + i] ==
					       ENDLESS_POISON,
				       wrongPast, static_cast<uint32_t>(row));
			if (ENDLESS_THREAD == 0)
				expect(m.srcInfo[row] == ENDLESS_POISON, wrongPast,
				       static_cast<uint32_t>(row));
		}
	}
};

/* Sums of small integers and halves of them are exact, in any order and with any rounding. */
struct CheckCombine : Bodies {
	static const char *name() { return "a launch of CheckCombine"; }

	GIN_FN void operator()() const
	{
		for (uint32_t t = ENDLESS_BLOCK; t < p.tokens[p.me]; t += ENDLESS_BLOCKS)
			for (uint32_t h = ENDLESS_THREAD; h < p.hidden; h += ENDLESS_THREADS)
				expect(m.out[t * p.hidden + h] ==
					       static_cast<uint16_t>(wordOfFloat(sumOf(t, h)) >>
								     16),
				       wrongOut, t);
	}

	GIN_FN float sumOf(uint32_t t, uint32_t h) const
	{
		float sum = 0;
		uint32_t ranks = 0;
		for (uint32_t k = 0; k < p.topk; k++) {
			const int32_t e = listed(p.me, t, k);
			if (e < 0)
				continue;
			const uint32_t r = p.rankOf(e);
			if (!p.ranked)
				sum += p.weightAt(p.me, t, k) *
				       p.answerAt(static_cast<uint32_t>(e), p.me, t, h);
			else if (!(ranks >> r & 1))
				sum += p.answerAt(100000 + r, p.me, t, h);
			ranks |= 1u << r;
		}
		return sum;
	}
};

/* One micro-batch at this rank, with memory for any round of a shape. */
struct Exchange {
	const Pattern most;
	Pattern now;
	Memory x, idx, weights, table, handle, recvX, recvScales, recvCount, srcInfo, range, topk,
		topkWeights, y, out, bad;

	Exchange(Rank &r, const Pattern &p, uint64_t handleBytes)
	    : most(p), now(p), x(r, p.maxTokens * p.stride * 2ull),
	      idx(r, p.maxTokens * p.topk * 8ull), weights(r, p.maxTokens * p.topk * 4ull),
	      table(r, p.ranks * p.maxTokens * p.topk * 4ull), handle(r, handleBytes),
	      recvX(r, rows(p) * p.hidden * 2), recvScales(r, rows(p) * (p.hidden / 128 + 1) * 4),
	      recvCount(r, (p.local() + p.ranks) * 4ull), srcInfo(r, rows(p) * 4),
	      range(r, p.local() * p.ranks * 8ull), topk(r, p.ranks * p.maxTokens * p.topk * 4ull),
	      topkWeights(r, p.ranks * p.maxTokens * p.topk * 4ull), y(r, rows(p) * p.hidden * 2),
	      out(r, p.maxTokens * p.hidden * 2ull), bad(r, 16)
	{
		bad.write(std::vector<uint32_t>(4, 0));
	}

	/* Of both layouts, the most rows. */
	static size_t rows(const Pattern &p)
	{
		return size_t{p.local() > 1 ? p.local() : 1} * p.ranks * p.maxTokens;
	}

	void take(const Pattern &p) { now = p; }

	Memories memories() const
	{
		Memories m;
		m.x = static_cast<uint16_t *>(x.at());
		m.y = static_cast<uint16_t *>(y.at());
		m.out = static_cast<uint16_t *>(out.at());
		m.idx = idx.at();
		m.weights = static_cast<float *>(weights.at());
		m.table = static_cast<int32_t *>(table.at());
		m.recvX = static_cast<char *>(recvX.at());
		m.recvScales = static_cast<uint32_t *>(recvScales.at());
		m.recvCount = static_cast<int32_t *>(recvCount.at());
		m.srcInfo = static_cast<int32_t *>(srcInfo.at());
		m.recvTopk = static_cast<int32_t *>(topk.at());
		m.recvWeights = static_cast<float *>(topkWeights.at());
		m.range = static_cast<int64_t *>(range.at());
		m.bad = static_cast<uint32_t *>(bad.at());
		return m;
	}

	/* On the rank's stream, without waiting. */
	template <class Body> void start(Rank &r, uint32_t grid) const
	{
		Body body;
		hostStep(Body::name());
		body.p = now;
		body.m = memories();
#ifdef __CUDACC__
		if (r.device >= 0) {
			runKernel<<<grid, 128, 0, r.stream>>>(body);
			CUDA(cudaGetLastError());
			return;
		}
#endif
		(void)r;
		(void)grid;
		body();
	}

	void fill(Rank &r) const
	{
		start<FillTable>(r, 8);
		start<FillRound>(r, 132);
	}

	void checkDispatch(Rank &r) const
	{
		start<CheckDispatch>(r, 264);
	}
	void checkCombine(Rank &r) const
	{
		start<CheckCombine>(r, 64);
	}

	void dispatch(Rank &r, ginEp_t ep, uint32_t phase) const
	{
		const int64_t O = now.outer(), I = now.inner(), H = now.hidden, G = now.groups();
		const int64_t T = now.tokens[now.me], K = now.topk, R = now.ranks;
		const bool ue8m0 = now.scaleKind == GIN_EP_SCALE_UE8M0;
		ginEpDispatchArgs_t args = GIN_EP_DISPATCH_ARGS_INIT;
		args.phase = phase;
		args.rows = now.f8 ? GIN_EP_ROWS_F8 : GIN_EP_ROWS_BF16;
		args.layout = now.ranked ? GIN_EP_RANK_MAJOR : GIN_EP_EXPERT_MAJOR;
		args.scaleKind = now.scaleKind;
		args.hidden = now.hidden;
		args.handle = handle.at();
		args.x = tensor(x, ginEpBf16, {T, H});
		args.x.stride[0] = now.stride;
		args.topkIdx = tensor(idx, now.wide ? ginEpI64 : ginEpI32, {T, K});
		args.topkWeights = tensor(weights, ginEpF32, {T, K});
		args.recvX = tensor(recvX, now.f8 ? ginEpF8E4m3 : ginEpBf16, {O, I, H});
		if (now.f8) {
			args.recvScales =
				tensor(recvScales, ue8m0 ? ginEpUe8m0x4 : ginEpF32, {O, I, G});
			args.recvScales.stride[0] = I * G;
			args.recvScales.stride[1] = 1;
			args.recvScales.stride[2] = I;
		}
		args.recvCount = tensor(recvCount, ginEpI32, {O});
		args.srcInfo = tensor(srcInfo, ginEpI32, {O, I});
		if (!now.ranked)
			args.layoutRange = tensor(range, ginEpI64, {O, R});
		if (now.ranked) {
			args.recvTopkIdx = tensor(topk, ginEpI32, {R, I, K});
			args.recvTopkWeights = tensor(topkWeights, ginEpF32, {R, I, K});
		}
		hostStep(phase == GIN_EP_BOTH	? "ginEpDispatch"
			 : phase == GIN_EP_SEND ? "ginEpDispatch, send"
						: "ginEpDispatch, receive");
		ended(r, ep, ginEpDispatch(ep, &args, Batch::streamOf(r)));
	}

	void combine(Rank &r, ginEp_t ep, uint32_t phase) const
	{
		const int64_t O = now.outer(), I = now.inner(), H = now.hidden;
		const int64_t T = now.tokens[now.me], K = now.topk;
		ginEpCombineArgs_t args = GIN_EP_COMBINE_ARGS_INIT;
		args.phase = phase;
		args.reduce = now.reduce;
		args.layout = now.ranked ? GIN_EP_RANK_MAJOR : GIN_EP_EXPERT_MAJOR;
		args.hidden = now.hidden;
		args.handle = handle.at();
		args.x = tensor(y, ginEpBf16, {O, I, H});
		args.topkIdx = tensor(idx, now.wide ? ginEpI64 : ginEpI32, {T, K});
		args.topkWeights = tensor(weights, ginEpF32, {T, K});
		args.out = tensor(out, ginEpBf16, {T, H});
		hostStep(phase == GIN_EP_BOTH	? "ginEpCombine"
			 : phase == GIN_EP_SEND ? "ginEpCombine, send"
						: "ginEpCombine, receive");
		ended(r, ep, ginEpCombine(ep, &args, Batch::streamOf(r)));
	}

	/* A call, or a kernel before it, may have failed. */
	static void ended(const Rank &r, ginEp_t ep, ginResult_t result)
	{
		ginEpRecord_t record = GIN_EP_RECORD_INIT;
		if (result == ginSuccess)
			return;
		fprintf(stderr, "rank %d: %s\n", r.rank, ginEpGetLastError());
		EP_CHECK(ginEpGetAsyncError(ep, &record));
		fprintf(stderr, "rank %d: %s\n", r.rank, ginEpGetLastError());
		EXPECT(result == ginSuccess);
	}

	/* Waits for the stream. No check has failed. */
	void verdict(const Rank &r) const
	{
		hostStep("the verdict");
		static const char *const what[] = {
			"",	   "recvCount",	  "recvX",    "recvScales",
			"srcInfo", "layoutRange", "recvTopk", "rows beyond the counts",
			"out"};
		const std::vector<uint32_t> seen = bad.read<uint32_t>();
		if (seen[0])
			fprintf(stderr, "rank %d: %u failures; the first: %s, row %u, seed %u\n",
				r.rank, seen[0], what[seen[1] % 9], seen[2], seen[3]);
		EXPECT(!seen[0]);
	}
};

#endif
