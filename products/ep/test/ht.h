/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ht.h - calls of high throughput, their tensors, and what must be in them, by plain loops
 *
 * Every rank computes the inputs of all ranks from the seed. Nothing comes from
 * products/ep/kernels.
 */
#ifndef GIN_EP_TEST_HT_H
#define GIN_EP_TEST_HT_H

#include "rig.h"

/* The elements of rows and scales. */
enum HtKind { htBf16, htF8Columns, htF8Ue8m0, htF8One, htMxColumns, htNv, HT_KINDS };

struct HtRound {
	uint32_t ranks, experts, topk, hidden;
	uint32_t domain; /* ranks of a domain, which adds its rows first */
	uint32_t alignment = 1;
	uint64_t seed;
	std::vector<uint32_t> tokens; /* of each rank */
	HtKind kind = htBf16;
	bool wide = true;   /* int64 indices */
	bool isOdd = false; /* ranks get tokens whatever their experts are */
	bool allToFirst = false;

	uint32_t each() const { return experts / ranks; }
	uint32_t more() const { return experts % ranks; }
	uint32_t firstOf(uint32_t r) const { return r * each() + std::min(r, more()); }

	int64_t expert(uint32_t s, uint32_t t, uint32_t k) const
	{
		const uint64_t bits = mix(seed, s, t, k);
		if (bits % 5 == 0)
			return bits % 3 ? -1 : int64_t{experts}; /* out of range is none, too */
		return static_cast<int64_t>((bits >> 8) % (allToFirst ? firstOf(1) : experts));
	}

	bool has(uint32_t s, uint32_t t, uint32_t k, uint32_t r) const
	{
		const int64_t e = expert(s, t, k);
		return e >= firstOf(r) && e < firstOf(r + 1);
	}

	/* Does token t of rank s go to rank r? */
	bool goes(uint32_t s, uint32_t t, uint32_t r) const
	{
		if (isOdd)
			return mix(seed, s, t, 7000 + r) % 3 == 0;
		for (uint32_t k = 0; k < topk; k++)
			if (has(s, t, k, r))
				return true;
		return false;
	}

	float weight(uint32_t s, uint32_t t, uint32_t k) const
	{
		return floatOf(bf16From(mix(seed, s, t, 3000 + k)));
	}

	/* Element i of a row, a bf16 or in its low byte an e4m3. */
	uint16_t element(uint32_t s, uint32_t t, uint32_t i) const
	{
		return bf16From(mix(seed, s, t, 10000 + i));
	}

	uint32_t scale(uint32_t s, uint32_t t, uint32_t i) const
	{
		return static_cast<uint32_t>(mix(seed, s, t, 5000 + i));
	}

	/*
	 * The answer of rank r for a token, element i; r == ranks, ranks + 1: a bias. Magnitudes
	 * are so different that the order of a sum matters; the first bias is often what a rank's
	 * answer cancels.
	 */
	uint16_t answer(uint32_t r, uint32_t s, uint32_t t, uint32_t i) const
	{
		const uint64_t bits = mix(seed + 17 + r, s, t, i);
		if (r == ranks && bits % 4 < 2)
			return answer((bits >> 40) % ranks, s, t, i) ^ 0x8000;
		return static_cast<uint16_t>((bits & 1) << 15 | (110 + (bits >> 8) % 24) << 7 |
					     (bits >> 32 & 127));
	}

	/* The ranks of a token, in the order of their last experts. */
	std::vector<uint32_t> byLastExpert(uint32_t s, uint32_t t) const
	{
		std::vector<uint32_t> order;
		for (uint32_t k = topk; k-- > 0;)
			for (uint32_t q = 0; q < ranks; q++)
				if (has(s, t, k, q) &&
				    std::find(order.begin(), order.end(), q) == order.end())
					order.insert(order.begin(), q);
		return order;
	}

	/*
	 * `sum` and value(q) of all ranks q of a token. Several domains: the sum of each is rounded
	 * by `rounded`.
	 */
	template <class Value, class Rounded>
	float added(float sum, uint32_t s, uint32_t t, Value value, Rounded rounded) const
	{
		for (uint32_t first = 0; first < ranks; first += domain) {
			float part = domain == ranks ? sum : 0;
			bool any = false;
			for (uint32_t q = first; q < first + domain; q++)
				if (goes(s, t, q))
					part += value(q), any = true;
			if (any)
				sum = domain == ranks ? part : sum + rounded(part);
		}
		return sum;
	}

	uint32_t scaleCount() const
	{
		return kind == htF8Columns   ? (hidden + 127) / 128
		       : kind == htF8Ue8m0   ? (hidden + 511) / 512
		       : kind == htMxColumns ? (hidden + 31) / 32
		       : kind == htNv	     ? (hidden + 7) / 8 /* two elements in a byte */
					     : kind == htF8One;
	}

	uint32_t scaleBytes() const { return kind == htMxColumns || kind == htNv ? 1 : 4; }

	uint32_t elementBytes() const { return kind == htBf16 ? 2 : 1; }
};

struct HtSource {
	uint32_t rank, token;
};

/* The rows that rank r gets, in order. */
inline std::vector<HtSource> htReceived(const HtRound &round, uint32_t r)
{
	std::vector<HtSource> rows;
	for (uint32_t s = 0; s < round.ranks; s++)
		for (uint32_t t = 0; t < round.tokens[s]; t++)
			if (round.goes(s, t, r))
				rows.push_back({s, t});
	return rows;
}

template <class T> void htSame(const char *what, const Rank &r, const HtRound &round,
			       const std::vector<T> &seen, const std::vector<T> &expected)
{
	size_t i = 0;
	while (i < expected.size() && i < seen.size() && !memcmp(&seen[i], &expected[i], sizeof(T)))
		i++;
	if (seen.size() == expected.size() && i == seen.size())
		return;
	fprintf(stderr,
		"rank %d of %u: %s differs at element %zu of %zu: %llx, expected %llx (experts %u, "
		"topk %u, hidden %u, tokens %u, kind %d, seed %llu)\n",
		r.rank, round.ranks, what, i, seen.size(),
		i < seen.size() ? static_cast<unsigned long long>(seen[i]) : 0,
		i < expected.size() ? static_cast<unsigned long long>(expected[i]) : 0,
		round.experts, round.topk, round.hidden, round.tokens[r.rank], round.kind,
		static_cast<unsigned long long>(round.seed));
	fflush(stderr);
	_exit(1);
}

/* A round of this rank: the tensors of layout and notify, and a handle. */
struct HtNotified {
	Rank &r;
	const HtRound round;
	const uint32_t me, T, K, R, L;
	const std::vector<HtSource> rows;
	Memory idx, goes, perRank, perExpert, prefix, counts, handle;
	ginEpHtNotifyArgs_t args = GIN_EP_HT_NOTIFY_ARGS_INIT;
	uint32_t ticket = 0;

	HtNotified(Rank &rank, ginEp_t ep, const HtRound &ofRound)
	    : r(rank), round(ofRound), me(static_cast<uint32_t>(rank.rank)), T(round.tokens[me]),
	      K(round.topk), R(round.ranks), L(round.firstOf(me + 1) - round.firstOf(me)),
	      rows(htReceived(round, me)), idx(rank, T * K * 8ull), goes(rank, T * R),
	      perRank(rank, R * 4), perExpert(rank, round.experts * 4), prefix(rank, R * R * 4),
	      counts(rank, 4 + L * 4), handle(rank, bytesOf(ep))
	{
		std::vector<int64_t> wide;
		for (uint32_t t = 0; t < T; t++)
			for (uint32_t k = 0; k < K; k++)
				wide.push_back(round.expert(me, t, k));
		if (round.wide)
			idx.write(wide);
		else
			idx.write(std::vector<int32_t>(wide.begin(), wide.end()));
		args.expertAlignment = round.alignment;
		args.handle = handle.at();
		args.isTokenInRank = tensor(goes, ginEpU8, {T, R});
		args.tokensPerExpert = tensor(perExpert, ginEpI32, {round.experts});
		args.rankPrefix = tensor(prefix, ginEpI32, {R, R});
		args.recvCounts = tensor(counts, ginEpI32, {1 + L});
	}

	uint64_t bytesOf(ginEp_t ep) const
	{
		uint64_t bytes = 0;
		EP_CHECK(ginEpHtHandleBytes(ep, T, &bytes));
		return bytes;
	}

	ginEpTensor_t indices() const
	{
		return tensor(idx, round.wide ? ginEpI64 : ginEpI32, {T, K});
	}

	void layout()
	{
		ginEpHtLayoutArgs_t in = GIN_EP_HT_LAYOUT_ARGS_INIT;
		in.experts = round.experts;
		in.topkIdx = indices();
		in.tokensPerRank = tensor(perRank, ginEpI32, {R});
		in.tokensPerExpert = tensor(perExpert, ginEpI32, {round.experts});
		in.isTokenInRank = tensor(goes, ginEpU8, {T, R});
		EP_CHECK(ginEpHtLayout(r.comm, &in, Batch::streamOf(r)));
	}

	void checkLayout() const
	{
		std::vector<uint8_t> bools;
		std::vector<int32_t> tokens(R), items(round.experts);
		for (uint32_t t = 0; t < T; t++) {
			for (uint32_t k = 0; k < K; k++)
				if (round.expert(me, t, k) >= 0 &&
				    round.expert(me, t, k) < round.experts)
					items[round.expert(me, t, k)]++;
			for (uint32_t to = 0; to < R; to++) {
				bools.push_back(round.goes(me, t, to));
				tokens[to] += bools.back();
			}
		}
		htSame("isTokenInRank", r, round, goes.read<uint8_t>(), bools);
		htSame("tokensPerRank", r, round, perRank.read<int32_t>(), tokens);
		htSame("tokensPerExpert", r, round, perExpert.read<int32_t>(), items);
	}

	/* With an odd round: other ranks than layout's. */
	void writeOdd()
	{
		std::vector<uint8_t> bools;
		for (uint32_t t = 0; t < T; t++)
			for (uint32_t to = 0; to < R; to++)
				bools.push_back(round.goes(me, t, to));
		goes.write(bools);
	}

	void notify(ginEp_t ep)
	{
		layout();
		wait(r);
		if (round.isOdd)
			writeOdd();
		else
			checkLayout();
		EP_CHECK(ginEpHtNotify(ep, &args, Batch::streamOf(r), &ticket));
	}

	void checkCounts(ginEp_t ep) const
	{
		std::vector<int32_t> sums, all(1 + L);
		std::vector<uint32_t> own(L);
		ginEpHtCounts_t seen = GIN_EP_HT_COUNTS_INIT;
		uint32_t most = 0;
		for (uint32_t s = 0; s < R; s++)
			for (uint32_t t = 0; t < round.tokens[s]; t++)
				for (uint32_t k = 0; k < K; k++)
					if (round.has(s, t, k, me))
						own[round.expert(s, t, k) - round.firstOf(me)]++;
		for (uint32_t &n : own)
			n = (n + round.alignment - 1) / round.alignment * round.alignment;
		for (uint32_t s = 0; s < R; s++)
			for (uint32_t to = 0; to < R; to++) {
				int32_t sum = s ? sums[sums.size() - R] : 0;
				for (uint32_t t = 0; t < round.tokens[s]; t++)
					sum += round.goes(s, t, to);
				sums.push_back(sum);
				most = std::max(most, static_cast<uint32_t>(sum));
			}
		std::vector<uint32_t> counted(L);
		seen.perExpert = counted.data();
		EP_CHECK(ginEpHtCounts(ep, ticket, 20000000000, &seen));
		htSame("counts of experts", r, round, counted, own);
		EXPECT(seen.rows == rows.size() && seen.mostRows == most);
		all[0] = static_cast<int32_t>(rows.size());
		std::copy(own.begin(), own.end(), all.begin() + 1);
		wait(r);
		htSame("recvCounts", r, round, counts.read<int32_t>(), all);
		htSame("rankPrefix", r, round, prefix.read<int32_t>(), sums);
	}
};

/* A dispatch by a handle. `room`: rows of the outputs; `pool`: recvX is the pool. */
struct HtDispatched {
	Rank &r;
	const HtRound round; /* of the rows; the handle's for what goes where */
	const HtNotified &of;
	const uint32_t me, T, K, room, rowBytes, S, B;
	const bool hasTopk;
	void *const pool;
	Memory x, scales, weights, recvX, recvScales, recvIdx, recvWeights, info;
	ginEpHtDispatchArgs_t args = GIN_EP_HT_DISPATCH_ARGS_INIT;

	HtDispatched(const HtNotified &handle, const HtRound &ofRound, uint32_t more, bool topk,
		     void *inPool = nullptr)
	    : r(handle.r), round(ofRound), of(handle), me(of.me), T(of.T), K(round.topk),
	      room(static_cast<uint32_t>(of.rows.size()) + more),
	      rowBytes(round.hidden * round.elementBytes()), S(round.scaleCount()),
	      B(round.scaleBytes()), hasTopk(topk), pool(inPool), x(r, size_t{T} * rowBytes),
	      scales(r, size_t{T + 3} * S * B), weights(r, T * K * 4ull),
	      recvX(r, size_t{room} * rowBytes), recvScales(r, size_t{room} * S * B),
	      recvIdx(r, room * K * (round.wide ? 8ull : 4ull)), recvWeights(r, room * K * 4ull),
	      info(r, room * 4ull)
	{
		fill();
		const int type = round.kind == htBf16 ? ginEpBf16 : ginEpF8E4m3;
		args.handle = handle.handle.at();
		args.x = tensor(x, type, {T, round.hidden});
		args.recvX = tensor(recvX, type, {room, round.hidden});
		args.recvX.data = pool ? pool : args.recvX.data;
		args.srcInfo = tensor(info, ginEpI32, {room});
		if (S) {
			const int of = B == 1 ? ginEpU8 : ginEpF32;
			args.scales = tensor(scales, of, {T, S});
			args.scales.stride[0] = columns() ? 1 : S; /* columns of T + 3 */
			args.scales.stride[1] = columns() ? T + 3 : 1;
			args.recvScales = tensor(recvScales, of, {room, S});
		}
		if (!hasTopk)
			return;
		args.topkIdx = handle.indices();
		args.topkWeights = tensor(weights, ginEpF32, {T, K});
		args.recvTopkIdx = tensor(recvIdx, args.topkIdx.type, {room, K});
		args.recvTopkWeights = tensor(recvWeights, ginEpF32, {room, K});
	}

	bool columns() const { return round.kind == htF8Columns || round.kind == htMxColumns; }

	/* The bytes of a row. */
	void row(std::vector<uint8_t> &to, uint32_t s, uint32_t t) const
	{
		for (uint32_t i = 0; i < round.hidden; i++) {
			const uint16_t element = round.element(s, t, i);
			to.push_back(static_cast<uint8_t>(element));
			if (round.elementBytes() == 2)
				to.push_back(static_cast<uint8_t>(element >> 8));
		}
	}

	void fill()
	{
		std::vector<uint8_t> bytes;
		std::vector<uint8_t> all(size_t{T + 3} * S * B);
		std::vector<float> w;
		for (uint32_t t = 0; t < T; t++) {
			row(bytes, me, t);
			for (uint32_t i = 0; i < S; i++) {
				const uint32_t value = round.scale(me, t, i);
				memcpy(&all[(columns() ? i * (T + 3) + t : t * S + i) * B], &value,
				       B); /* its low byte, or all of it */
			}
			for (uint32_t k = 0; k < K; k++)
				w.push_back(round.weight(me, t, k));
		}
		x.write(bytes);
		scales.write(all);
		weights.write(w);
	}

	ginResult_t run(ginEp_t ep, uint32_t sms = 0)
	{
		args.sms = sms;
		return ginEpHtDispatch(ep, &args, Batch::streamOf(r));
	}

	/* Everything that a dispatch writes, and that it writes nothing else. */
	void check() const
	{
		std::vector<uint8_t> bytes, all;
		std::vector<int32_t> tokens;
		std::vector<int64_t> idx;
		std::vector<float> w;
		for (const HtSource &from : of.rows) {
			row(bytes, from.rank, from.token);
			tokens.push_back(static_cast<int32_t>(from.token));
			for (uint32_t i = 0; i < S; i++)
				for (uint32_t b = 0, value = round.scale(from.rank, from.token, i);
				     b < B; b++)
					all.push_back(static_cast<uint8_t>(value >> b * 8));
			for (uint32_t k = 0; k < K; k++) {
				const bool mine = of.round.has(from.rank, from.token, k, me);
				idx.push_back(mine ? of.round.expert(from.rank, from.token, k) -
							      of.round.firstOf(me)
						   : -1);
				w.push_back(mine ? round.weight(from.rank, from.token, k) : 0.0f);
			}
		}
		if (pool) {
			std::vector<uint8_t> there(bytes.size());
			copyBytes(r, there.data(), pool, there.size());
			htSame("rows in the pool", r, round, there, bytes);
			bytes.clear();
		}
		whole("recvX", recvX, bytes);
		whole("recvScales", recvScales, all);
		whole("srcInfo", info, tokens);
		if (!hasTopk)
			idx.clear(), w.clear();
		else
			idx.resize(size_t{room} * K, -1);
		if (round.wide)
			whole("recvTopkIdx", recvIdx, idx);
		else
			whole("recvTopkIdx", recvIdx, std::vector<int32_t>(idx.begin(), idx.end()));
		whole("recvTopkWeights", recvWeights, w);
	}

	/* `expected`, then poison. */
	template <class Item>
	void whole(const char *what, const Memory &m, std::vector<Item> expected) const
	{
		std::vector<Item> all = poisonOf<Item>(m.bytes / sizeof(Item));
		std::copy(expected.begin(), expected.end(), all.begin());
		htSame(what, r, round, m.read<Item>(), all);
	}
};

struct HtCombined {
	Rank &r;
	const HtRound round;
	const HtNotified &of;
	const uint32_t me, T, K, biases;
	const bool isOrdered; /* by the experts of tokens */
	Memory x, weights, bias0, bias1, out, outWeights, idx;
	void *const pool;
	ginEpHtCombineArgs_t args = GIN_EP_HT_COMBINE_ARGS_INIT;

	HtCombined(const HtNotified &handle, const HtRound &ofRound, uint32_t nBiases,
		   bool weighted, void *inPool = nullptr, bool ordered = false)
	    : r(handle.r), round(ofRound), of(handle), me(of.me), T(of.T),
	      K(weighted ? round.topk : 0), biases(nBiases),
	      isOrdered(ordered && round.domain == round.ranks && !of.round.isOdd),
	      x(r, of.rows.size() * round.hidden * 2), weights(r, of.rows.size() * K * 4),
	      bias0(r, T * round.hidden * 2ull), bias1(r, T * round.hidden * 2ull),
	      out(r, T * round.hidden * 2ull), outWeights(r, T * K * 4ull),
	      idx(r, T * of.round.topk * (of.round.wide ? 8ull : 4ull)), pool(inPool)
	{
		const int64_t n = static_cast<int64_t>(of.rows.size()), H = round.hidden;
		fill();
		args.handle = handle.handle.at();
		args.x = tensor(x, ginEpBf16, {n, H});
		args.x.data = pool ? pool : args.x.data;
		args.out = tensor(out, ginEpBf16, {T, H});
		if (biases)
			args.bias[0] = tensor(bias0, ginEpBf16, {T, H});
		if (biases > 1)
			args.bias[1] = tensor(bias1, ginEpBf16, {T, H});
		if (isOrdered)
			args.topkIdx = tensor(idx, of.round.wide ? ginEpI64 : ginEpI32,
					      {T, of.round.topk});
		if (!weighted)
			return;
		args.topkWeights = tensor(weights, ginEpF32, {n, K});
		args.outWeights = tensor(outWeights, ginEpF32, {T, K});
	}

	void fill()
	{
		std::vector<uint16_t> rows, biasRows[2];
		std::vector<float> w;
		for (const HtSource &from : of.rows) {
			for (uint32_t i = 0; i < round.hidden; i++)
				rows.push_back(round.answer(me, from.rank, from.token, i));
			for (uint32_t k = 0; k < K; k++)
				w.push_back(round.weight(from.rank + 50 * me, from.token, k));
		}
		for (uint32_t b = 0; b < 2; b++)
			for (uint32_t t = 0; t < T; t++)
				for (uint32_t i = 0; i < round.hidden; i++)
					biasRows[b].push_back(
						round.answer(round.ranks + b, me, t, i));
		x.write(rows);
		if (pool && !rows.empty())
			copyBytes(r, pool, rows.data(), rows.size() * 2);
		weights.write(w);
		bias0.write(biasRows[0]);
		bias1.write(biasRows[1]);
		std::vector<int64_t> experts;
		for (uint32_t t = 0; t < T; t++)
			for (uint32_t k = 0; k < of.round.topk; k++)
				experts.push_back(of.round.expert(me, t, k));
		if (of.round.wide)
			idx.write(experts);
		else
			idx.write(std::vector<int32_t>(experts.begin(), experts.end()));
	}

	template <class Value, class Rounded>
	float added(float sum, uint32_t t, Value value, Rounded rounded) const
	{
		if (!isOrdered)
			return of.round.added(sum, me, t, value, rounded);
		for (uint32_t q : of.round.byLastExpert(me, t))
			sum += value(q);
		return sum;
	}

	ginResult_t run(ginEp_t ep, uint32_t sms = 0)
	{
		args.sms = sms;
		return ginEpHtCombine(ep, &args, Batch::streamOf(r));
	}

	void check() const
	{
		std::vector<uint16_t> sums;
		std::vector<uint32_t> w;
		for (uint32_t t = 0; t < T; t++) {
			for (uint32_t i = 0; i < round.hidden; i++) {
				float sum = 0;
				for (uint32_t b = 0; b < biases; b++)
					sum += floatOf(round.answer(round.ranks + b, me, t, i));
				sum = added(
					sum, t,
					[&](uint32_t q) {
						return floatOf(round.answer(q, me, t, i));
					},
					[](float part) { return floatOf(roundToBf16(part)); });
				sums.push_back(roundToBf16(sum));
			}
			for (uint32_t k = 0; k < K; k++) {
				uint32_t bits;
				const float sum = added(
					0, t,
					[&](uint32_t q) { return round.weight(me + 50 * q, t, k); },
					[](float part) { return part; });
				memcpy(&bits, &sum, 4);
				w.push_back(bits);
			}
		}
		htSame("out", r, round, out.read<uint16_t>(), sums);
		htSame("outWeights", r, round, outWeights.read<uint32_t>(), w);
	}
};

/* Ranks of a domain: GIN_EP_DOMAIN, or those with direct routes. */
inline uint32_t htDomain(Rank &r)
{
	const char *given = getenv("GIN_EP_DOMAIN");
	ginCommInfo_t info = GIN_COMM_INFO_INIT;
	uint32_t ranks = 0;
	CHECK(ginCommQuery(r.comm, &info));
	CHECK(ginEpHtDomain(r.comm, &ranks));
	EXPECT(ranks == static_cast<uint32_t>(given && *given ? atoi(given) : info.domainSize));
	return ranks;
}

inline HtRound htRound(Rank &r, uint32_t experts, uint32_t topk, uint32_t hidden, uint32_t tokens,
		       uint64_t seed)
{
	HtRound round = {};
	round.ranks = static_cast<uint32_t>(r.nRanks);
	round.domain = htDomain(r);
	round.experts = experts;
	round.topk = topk;
	round.hidden = hidden;
	round.alignment = 1;
	round.seed = seed;
	round.tokens.assign(round.ranks, tokens);
	round.wide = true;
	return round;
}

/* An ep whose calls have at most the sizes of `round`. */
inline ginEpConfig_t htConfig(const HtRound &round, uint64_t seconds)
{
	ginEpConfig_t config = GIN_EP_CONFIG_INIT;
	config.modes = GIN_EP_HT;
	config.experts = round.experts;
	config.topk = round.topk;
	config.hidden = round.hidden;
	config.htTokens = *std::max_element(round.tokens.begin(), round.tokens.end());
	config.timeout = seconds * 1000000000;
	return config;
}

#endif
