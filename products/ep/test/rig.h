/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rig.h - tensors of one micro-batch: filled, poisoned, and compared whole
 */
#ifndef GIN_EP_TEST_RIG_H
#define GIN_EP_TEST_RIG_H

#include "harness.h"
#include "reference.h"

#include <algorithm>
#include <array>
#include <string>
#include <unistd.h>

#define EP_CHECK(call) epRequire((call), ginSuccess, #call)
#define EP_FAILS(call, result) epRequire((call), result, #call)

inline void epRequire(ginResult_t seen, ginResult_t expected, const char *what,
		      const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
	if (seen == expected)
		return;
	fprintf(stderr, "%s, expected %s\n", ginGetErrorString(seen), ginGetErrorString(expected));
	stop(what, ginEpGetLastError(), file, line);
}

enum { GUARD = 64 }; /* bytes of poison on both sides of a tensor */

inline void *allocate(Rank &r, size_t bytes)
{
	void *at = nullptr;
	CHECK(ginMemAlloc(r.comm, bytes, &at));
	return at;
}

#ifdef __CUDACC__
/*
 * A rank's memory, allocated once and kept until the process ends. To free GPU memory waits for the
 * kernels of all ranks of the process, and these kernels may wait for copies of the proxy: see
 * gin_proxy(7).
 */
inline thread_local std::multimap<size_t, void *> unusedMemory; /* by its size */

/* At least *bytes; *bytes becomes the size. */
inline void *takeMemory(Rank &r, size_t *bytes)
{
	const auto found = unusedMemory.lower_bound(*bytes);
	if (found == unusedMemory.end())
		return allocate(r, *bytes);
	void *const at = found->second;
	*bytes = found->first;
	unusedMemory.erase(found);
	return at;
}

inline void giveBackMemory(Rank &, size_t bytes, void *at)
{
	unusedMemory.insert({bytes, at});
}
#else
inline void *takeMemory(Rank &r, size_t *bytes)
{
	return allocate(r, *bytes);
}

inline void giveBackMemory(Rank &r, size_t, void *at)
{
	CHECK(ginMemFree(r.comm, at));
}
#endif

/* Memory of the rank's device, without a window. */
struct Memory {
	Rank &rank;
	size_t bytes, size;
	char *raw; /* [size] */

	Memory(Rank &r, size_t n)
	    : rank(r), bytes(n), size(n + 2 * GUARD), raw(static_cast<char *>(takeMemory(r, &size)))
	{
		poison();
	}

	~Memory() { giveBackMemory(rank, size, raw); }
	Memory(const Memory &) = delete;
	Memory &operator=(const Memory &) = delete;

	void *at() const { return raw + GUARD; }

	void poison()
	{
		std::vector<char> fill(bytes + 2 * GUARD, 0x5a);
		copyBytes(rank, raw, fill.data(), fill.size());
	}

	template <class T> void write(const std::vector<T> &from)
	{
		EXPECT(from.size() * sizeof(T) <= bytes);
		copyBytes(rank, at(), from.data(), from.size() * sizeof(T));
	}

	/* The contents; the guards still have their poison. */
	template <class T> std::vector<T> read() const
	{
		std::vector<char> all(bytes + 2 * GUARD);
		copyBytes(rank, all.data(), raw, all.size());
		for (int i = 0; i < GUARD; i++)
			EXPECT(all[i] == 0x5a && all[all.size() - 1 - i] == 0x5a);
		std::vector<T> out(bytes / sizeof(T));
		if (!out.empty())
			memcpy(out.data(), all.data() + GUARD, out.size() * sizeof(T));
		return out;
	}
};

/* A contiguous tensor. */
inline ginEpTensor_t tensor(const Memory &m, int type, std::vector<int64_t> size)
{
	ginEpTensor_t t = GIN_EP_NO_TENSOR;
	int64_t step = 1;
	t.data = m.at();
	t.type = type;
	t.nDims = static_cast<int32_t>(size.size());
	for (size_t i = size.size(); i-- > 0; step *= size[i]) {
		t.size[i] = size[i];
		t.stride[i] = step;
	}
	return t;
}

/*
 * Blocks of a kernel, at most; 0: no limit. Ranks that are threads and share a GPU have SMs of
 * their own, for a send and a receive at a time: an SM whose blocks wait may have no shared memory
 * for the blocks that they wait for.
 */
inline uint32_t blocksOf(Rank &r)
{
	uint32_t blocks = 0;
#ifdef __CUDACC__
	const std::array<int, 2> mine = {getpid(), r.device};
	std::vector<std::array<int, 2>> all(r.nRanks);
	int sms = 0;
	CHECK(ginCommAllgather(r.comm, mine.data(), all.data(), sizeof(mine)));
	CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, r.device));
	const auto sharing = std::count(all.begin(), all.end(), mine);
	if (sharing > 1)
		blocks = static_cast<uint32_t>(sms / (2 * sharing));
#else
	(void)r;
#endif
	return blocks;
}

inline ginEp_t makeEp(Rank &r, ginEpConfig_t config)
{
	ginEp_t ep = nullptr;
	if (!config.maxSms)
		config.maxSms = blocksOf(r);
	EP_CHECK(ginEpCreate(r.comm, &config, &ep));
	return ep;
}

template <class T> std::vector<T> poisonOf(size_t count)
{
	std::vector<T> out(count);
	if (count)
		memset(out.data(), 0x5a, count * sizeof(T));
	return out;
}

template <class T> void compare(const char *what, const Rank &r, const Round &round,
				const std::vector<T> &seen, const std::vector<T> &expected)
{
	if (seen.size() == expected.size() &&
	    (seen.empty() || !memcmp(seen.data(), expected.data(), seen.size() * sizeof(T))))
		return;
	size_t i = 0;
	while (i < seen.size() && !memcmp(&seen[i], &expected[i], sizeof(T)))
		i++;
	fprintf(stderr,
		"rank %d: %s differs at element %zu of %zu: %llx, expected %llx (ranks %u, experts "
		"%u, topk %u, hidden %u, tokens %u, rows %u, layout %u, reduce %u, scales %u, seed "
		"%llu)\n",
		r.rank, what, i, seen.size(), static_cast<unsigned long long>(seen[i]),
		static_cast<unsigned long long>(expected[i]), round.ranks, round.experts,
		round.topk, round.hidden, round.tokens[r.rank], round.rows, round.layout,
		round.reduce, round.scaleKind, static_cast<unsigned long long>(round.seed));
	fflush(stderr);
	_exit(1);
}

/* The tensors of one dispatch and combine at this rank. */
struct Batch {
	Rank &r;
	const Round round;
	uint32_t me, T, L, M, outer, inner;
	bool ranked;
	uint32_t scaleCount, scaleSize; /* of a row; bytes of a scale */
	size_t scaleRoom;		/* bytes of recvScales of one expert or rank */
	Memory x, idx, weights, handle, recvX, recvScales, globalScale, recvCount, srcInfo, range,
		stats, cost, topk, topkWeights, y, out;
	ginEpDispatchArgs_t dispatch;
	ginEpCombineArgs_t combine;
	std::vector<bool> gone;	 /* ranks whose rows are missing */
	std::vector<bool> zeros; /* ranks whose rows are zeros */

	Batch(Rank &rank, const Round &ofRound, uint64_t handleBytes)
	    : r(rank), round(ofRound), me(static_cast<uint32_t>(rank.rank)), T(round.tokens[me]),
	      L(round.first[me + 1] - round.first[me]), M(round.maxTokens),
	      outer(round.layout == GIN_EP_RANK_MAJOR ? round.ranks : L),
	      inner(round.layout == GIN_EP_RANK_MAJOR ? M : round.ranks * M),
	      ranked(round.layout == GIN_EP_RANK_MAJOR), scaleCount(round.scaleCount()),
	      scaleSize(round.isBytes() ? 1 : 4),
	      scaleRoom(size_t{scaleRows()} * scaleColumns() * scaleSize),
	      x(rank, T * round.hidden * 2ull), idx(rank, T * round.topk * 8ull),
	      weights(rank, T * round.topk * 4ull), handle(rank, handleBytes),
	      recvX(rank, size_t{outer} * inner * round.rowBytes()),
	      recvScales(rank, outer * scaleRoom), globalScale(rank, sizeof(float)),
	      recvCount(rank, outer * 4ull), srcInfo(rank, size_t{outer} * inner * 4),
	      range(rank, L * round.ranks * 8ull), stats(rank, L * 4ull),
	      cost(rank, round.ranks * 8ull), topk(rank, round.ranks * M * round.topk * 4ull),
	      topkWeights(rank, round.ranks * M * round.topk * 4ull),
	      y(rank, size_t{outer} * inner * round.hidden * 2), out(rank, T * round.hidden * 2ull),
	      dispatch(GIN_EP_DISPATCH_ARGS_INIT), combine(GIN_EP_COMBINE_ARGS_INIT),
	      gone(round.ranks), zeros(round.ranks)
	{
		fill();
		describeDispatch();
		describeCombine();
	}

	void fill()
	{
		std::vector<uint16_t> rows;
		std::vector<int64_t> wide;
		std::vector<int32_t> narrow;
		std::vector<float> w;
		for (uint32_t t = 0; t < T; t++) {
			std::vector<uint16_t> row = round.rowOf(me, t);
			rows.insert(rows.end(), row.begin(), row.end());
			std::vector<int64_t> e = round.expertsOf(me, t);
			wide.insert(wide.end(), e.begin(), e.end());
			narrow.insert(narrow.end(), e.begin(), e.end());
			for (uint32_t k = 0; k < round.topk; k++)
				w.push_back(round.weightOf(me, t, k));
		}
		x.write(rows);
		weights.write(w);
		globalScale.write(std::vector<float>{Round::GLOBAL});
		if (round.wide)
			idx.write(wide);
		else
			idx.write(narrow);
		stats.write(std::vector<int32_t>(L, 5));
		cost.write(std::vector<int64_t>(round.ranks, COST));
	}

	ginEpTensor_t indices() const
	{
		return tensor(idx, round.wide ? ginEpI64 : ginEpI32, {T, round.topk});
	}

	ginEpTensor_t weighting() const
	{
		ginEpTensor_t none = GIN_EP_NO_TENSOR;
		return round.weighted ? tensor(weights, ginEpF32, {T, round.topk}) : none;
	}

	bool inBlocks() const { return round.scaleKind == GIN_EP_SCALE_BLOCKS; }
	uint32_t scaleRows() const { return inBlocks() ? (inner + 127) / 128 * 128 : inner; }
	uint32_t scaleColumns() const { return inBlocks() ? (scaleCount + 3) / 4 * 4 : scaleCount; }

	/* Scales of one byte are row-major in some rounds. */
	bool inRows() const { return scaleSize == 1 && (inBlocks() || round.seed % 2); }

	/* Where a scale is. */
	size_t scaleAt(uint32_t o, uint32_t i, uint32_t s) const
	{
		const size_t block = size_t{i / 128} * scaleColumns() / 4 + s / 4;
		if (inBlocks())
			return o * scaleRoom + block * 512 + i % 32 * 16 + i % 128 / 32 * 4 + s % 4;
		return o * scaleRoom +
		       (inRows() ? size_t{i} * scaleCount + s : size_t{s} * inner + i) * scaleSize;
	}

	/* Column-major in the last two dimensions, as DeepEP has it, or row-major. */
	ginEpTensor_t scales() const
	{
		const int type = scaleSize == 1				 ? ginEpU8
				 : round.scaleKind == GIN_EP_SCALE_UE8M0 ? ginEpUe8m0x4
									 : ginEpF32;
		ginEpTensor_t t = tensor(recvScales, type, {outer, scaleRows(), scaleColumns()});
		if (inRows())
			return t;
		t.stride[1] = 1;
		t.stride[2] = inner;
		return t;
	}

	/* The type of recvX. */
	int rowType() const
	{
		return round.rows == GIN_EP_ROWS_BF16	? ginEpBf16
		       : round.rows == GIN_EP_ROWS_NVF4 ? ginEpU8
							: ginEpF8E4m3;
	}

	void describeDispatch()
	{
		dispatch.rows = round.rows;
		dispatch.layout = round.layout;
		dispatch.scaleKind = round.scaleKind;
		dispatch.hidden = round.hidden;
		dispatch.handle = handle.at();
		dispatch.x = tensor(x, ginEpBf16, {T, round.hidden});
		dispatch.topkIdx = indices();
		dispatch.topkWeights = weighting();
		dispatch.recvX =
			tensor(recvX, rowType(),
			       {outer, inner, round.rowBytes() / (rowType() == ginEpBf16 ? 2 : 1)});
		if (scaleCount)
			dispatch.recvScales = scales();
		if (round.rows == GIN_EP_ROWS_NVF4)
			dispatch.xGlobalScale = tensor(globalScale, ginEpF32, {1});
		dispatch.recvCount = tensor(recvCount, ginEpI32, {outer});
		dispatch.srcInfo = tensor(srcInfo, ginEpI32, {outer, inner});
		if (!ranked)
			dispatch.layoutRange = tensor(range, ginEpI64, {L, round.ranks});
		dispatch.recvStats = tensor(stats, ginEpI32, {L});
		if (round.seed % 3 == 2) /* kernels for the usual call know no such tensor */
			dispatch.waitCost = tensor(cost, ginEpI64, {round.ranks});
		if (!ranked)
			return;
		dispatch.recvTopkIdx = tensor(topk, ginEpI32, {round.ranks, M, round.topk});
		dispatch.recvTopkWeights =
			tensor(topkWeights, ginEpF32, {round.ranks, M, round.topk});
	}

	void describeCombine()
	{
		combine.reduce = round.reduce;
		combine.layout = round.layout;
		combine.hidden = round.hidden;
		combine.handle = handle.at();
		combine.x = tensor(y, ginEpBf16, {outer, inner, round.hidden});
		combine.topkIdx = indices();
		combine.topkWeights = weighting();
		combine.out = tensor(out, ginEpBf16, {T, round.hidden});
		combine.waitCost = dispatch.waitCost;
	}

	enum : int64_t { COST = 1000000000000 }; /* nanoseconds: waits are added to it */

	void checkCost()
	{
		for (int64_t nanoseconds : cost.read<int64_t>())
			EXPECT(nanoseconds >= COST && nanoseconds < 2 * COST);
	}

	/* The expected rows, and the input of combine. */
	void checkDispatch()
	{
		checkCost();
		if (ranked)
			checkRanked();
		else
			checkExperts();
	}

	struct Expected {
		std::vector<uint8_t> x, scales;
		std::vector<int32_t> info, count;
		std::vector<uint16_t> y;
	};

	Expected poisoned() const
	{
		size_t rows = size_t{outer} * inner;
		return {poisonOf<uint8_t>(rows * round.rowBytes()),
			poisonOf<uint8_t>(outer * scaleRoom), poisonOf<int32_t>(rows),
			std::vector<int32_t>(outer), std::vector<uint16_t>(rows * round.hidden)};
	}

	void expectRow(Expected &e, uint32_t o, uint32_t i, uint32_t source, uint32_t token,
		       uint32_t expert) const
	{
		Wire wire = wireOf(round, source, token);
		std::vector<uint8_t> bytes = scaleBytes(round, wire);
		size_t row = size_t{o} * inner + i;
		std::vector<uint16_t> answer = round.answerOf(expert, source, token);
		if (zeros[source]) {
			memset(&e.x[row * wire.payload.size()], 0, wire.payload.size());
			std::fill(bytes.begin(), bytes.end(), 0);
		} else {
			memcpy(&e.x[row * wire.payload.size()], wire.payload.data(),
			       wire.payload.size());
		}
		bytes.resize(scaleColumns() * scaleSize); /* 0 beyond the last scale of a block */
		for (uint32_t s = 0; s < scaleColumns(); s++)
			memcpy(&e.scales[scaleAt(o, i, s)], &bytes[s * scaleSize], scaleSize);
		if (zeros[source]) {
			e.info[row] = -1;
			return;
		}
		e.info[row] = static_cast<int32_t>(token);
		memcpy(&e.y[row * round.hidden], answer.data(), round.hidden * 2);
	}

	void finish(Expected &e)
	{
		compare("recvCount", r, round, recvCount.read<int32_t>(), e.count);
		compare("recvX", r, round, recvX.read<uint8_t>(), e.x);
		compare("recvScales", r, round, recvScales.read<uint8_t>(), e.scales);
		compare("srcInfo", r, round, srcInfo.read<int32_t>(), e.info);
		y.write(e.y);
	}

	void checkExperts()
	{
		Expected e = poisoned();
		std::vector<int64_t> ranges(L * round.ranks);
		for (uint32_t s = 0; s < round.ranks; s++) {
			std::vector<int32_t> before = e.count;
			for (uint32_t t = 0; t < round.tokens[s] && !gone[s]; t++)
				for (int64_t expert : round.expertsOf(s, t)) {
					int64_t local = expert - round.first[me];
					if (expert < 0 || local < 0 || local >= L)
						continue;
					uint32_t o = static_cast<uint32_t>(local);
					expectRow(e, o, static_cast<uint32_t>(e.count[o]++), s, t,
						  static_cast<uint32_t>(expert));
				}
			for (uint32_t o = 0; o < L; o++)
				ranges[o * round.ranks + s] =
					int64_t{before[o]} << 32 | (e.count[o] - before[o]);
		}
		finish(e);
		compare("layoutRange", r, round, range.read<int64_t>(), ranges);
		std::vector<int32_t> total = e.count;
		for (int32_t &n : total)
			n += 5;
		compare("recvStats", r, round, stats.read<int32_t>(), total);
	}

	void checkRanked()
	{
		Expected e = poisoned();
		std::vector<int32_t> idxs = poisonOf<int32_t>(round.ranks * M * round.topk);
		std::vector<float> ws = poisonOf<float>(idxs.size());
		for (uint32_t s = 0; s < round.ranks; s++)
			for (uint32_t t = 0; t < round.tokens[s] && !gone[s]; t++) {
				std::vector<int64_t> experts = round.expertsOf(s, t);
				uint32_t slot = static_cast<uint32_t>(e.count[s]);
				bool here = false;
				for (int64_t expert : experts)
					here |= expert >= round.first[me] &&
						expert < round.first[me + 1];
				if (!here)
					continue;
				expectRow(e, s, slot, s, t, 100000 + me);
				e.count[s]++;
				for (uint32_t k = 0; k < round.topk; k++) {
					size_t at = (size_t{s} * M + slot) * round.topk + k;
					bool mine = experts[k] >= round.first[me] &&
						    experts[k] < round.first[me + 1];
					idxs[at] = mine ? static_cast<int32_t>(experts[k] -
									       round.first[me])
							: -1;
					ws[at] = mine ? round.weightOf(s, t, k) : 0;
				}
			}
		finish(e);
		compare("recvTopkIdx", r, round, topk.read<int32_t>(), idxs);
		compare("recvTopkWeights", r, round, topkWeights.read<uint32_t>(),
			std::vector<uint32_t>(reinterpret_cast<uint32_t *>(ws.data()),
					      reinterpret_cast<uint32_t *>(ws.data()) + ws.size()));
	}

	void checkCombine() const
	{
		std::vector<uint16_t> expected;
		for (uint32_t t = 0; t < T; t++) {
			std::vector<uint16_t> row = combined(round, me, t, gone);
			expected.insert(expected.end(), row.begin(), row.end());
		}
		compare("out", r, round, out.read<uint16_t>(), expected);
	}

	ginResult_t runDispatch(ginEp_t ep, uint32_t phase)
	{
		dispatch.phase = phase;
		return ginEpDispatch(ep, &dispatch, streamOf(r));
	}

	ginResult_t runCombine(ginEp_t ep, uint32_t phase)
	{
		combine.phase = phase;
		return ginEpCombine(ep, &combine, streamOf(r));
	}

	static void *streamOf(const Rank &rank)
	{
#ifdef __CUDACC__
		return rank.device >= 0 ? rank.stream : nullptr;
#else
		(void)rank;
		return nullptr;
#endif
	}
};

/* All ranks send maxTokens weighted tokens of bf16, with 64-bit indices. */
inline Round evenRound(Rank &r, uint32_t experts, uint32_t topk, uint32_t hidden,
		       uint32_t maxTokens, uint64_t seed)
{
	Round round = {};
	round.ranks = static_cast<uint32_t>(r.nRanks);
	round.experts = experts;
	round.topk = topk;
	round.hidden = hidden;
	round.maxTokens = maxTokens;
	round.seed = seed;
	round.tokens.assign(round.ranks, maxTokens);
	round.rows = GIN_EP_ROWS_BF16;
	round.reduce = GIN_EP_REDUCE_NONE;
	round.weighted = true;
	round.wide = true;
	round.first.assign(round.ranks + 1, 0);
	for (uint32_t i = 0; i < round.ranks; i++)
		round.first[i + 1] =
			round.first[i] + experts / round.ranks + (i < experts % round.ranks);
	return round;
}

inline uint64_t handleBytes(ginEp_t ep)
{
	ginEpInfo_t info = GIN_EP_INFO_INIT;
	EP_CHECK(ginEpQuery(ep, &info));
	return info.handleBytes;
}

/* The kernels of the rank's stream have ended. */
inline void wait(Rank &r)
{
#ifdef __CUDACC__
	if (r.device >= 0)
		CUDA(cudaStreamSynchronize(r.stream));
#else
	(void)r;
#endif
}

/* The stream's kernels have ended, without an error. */
inline void finish(Rank &r, ginEp_t ep)
{
	wait(r);
	ginEpRecord_t record = GIN_EP_RECORD_INIT;
	EP_CHECK(ginEpGetAsyncError(ep, &record));
	if (record.valid)
		fprintf(stderr, "rank %d: %s\n", r.rank, ginEpGetLastError());
	EXPECT(!record.valid);
}

/* A case of a program, a collective of all ranks. */
struct Case {
	const char *name;
	void (*run)(Rank &r);
};

/* Runs the cases that the variable CASE lists, with commas between the names, or all. */
template <size_t n> int runCases(const ginConfig_t *config, const Case (&cases)[n])
{
	const char *given = getenv("CASE");
	const std::string only = given && *given ? "," + std::string(given) + "," : "";
	size_t wanted = 0, found = 0;
	Rank r;
	for (char letter : only)
		wanted += letter == ',';
	rankOpen(r, config);
	for (const Case &one : cases) {
		if (!only.empty() && only.find("," + std::string(one.name) + ",") == only.npos)
			continue;
		found++;
		one.run(r);
		if (r.rank == 0)
			printf("ok: %s, %d ranks\n", one.name, r.nRanks);
		fflush(stdout);
	}
	EXPECT(only.empty() || found + 1 == wanted); /* every name is a case */
	rankClose(r);
	return 0;
}

#endif
