/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reference.h - the results of dispatch and combine, by plain loops over all ranks
 *
 * Every rank computes the inputs of all ranks from the seed, so it knows what must arrive. Nothing
 * here comes from products/ep/kernels.
 */
#ifndef GIN_EP_TEST_REFERENCE_H
#define GIN_EP_TEST_REFERENCE_H

#include <gin_ep.h>

#include <math.h>
#include <string.h>

#include <algorithm>
#include <vector>

/* Bits without a pattern, from four numbers. */
inline uint64_t mix(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t x = seed + 0x9e3779b97f4a7c15ull * (a + 1);
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull + b;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull + c;
	x = (x ^ x >> 31) * 0xbf58476d1ce4e5b9ull;
	return x ^ x >> 29;
}

/* bf16 from bits: magnitudes of 2^-6 to 2^5, both signs, some zeros. */
inline uint16_t bf16From(uint64_t bits)
{
	if (bits % 97 == 0)
		return 0;
	return static_cast<uint16_t>((bits >> 8 & 1) << 15 | (121 + (bits >> 16) % 12) << 7 |
				     (bits >> 32 & 127));
}

inline float floatOf(uint16_t bf16)
{
	uint32_t bits = static_cast<uint32_t>(bf16) << 16;
	float value;
	memcpy(&value, &bits, 4);
	return value;
}

inline uint16_t roundToBf16(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, 4);
	if (isnan(value))
		return 0x7fff;
	uint32_t low = bits & 0xffff, high = bits >> 16;
	return static_cast<uint16_t>(high + (low > 0x8000 || (low == 0x8000 && (high & 1))));
}

/* By arithmetic in double: a quantum of 2^(e - 3), 2^-9 at least. */
inline uint8_t roundToE4m3(float value)
{
	if (isnan(value))
		return 0x7f;
	uint8_t sign = signbit(value) ? 0x80 : 0;
	double a = fabs(static_cast<double>(value));
	if (a > 448)
		return sign | 0x7e;
	if (a == 0)
		return sign;
	int e = ilogb(a) < -6 ? -6 : ilogb(a);
	double steps = nearbyint(ldexp(a, 3 - e)); /* 8 to 16; below 8: subnormal */
	if (steps == 16) {
		steps = 8;
		e++;
	}
	if (steps < 8)
		return sign | static_cast<uint8_t>(steps);
	return sign | static_cast<uint8_t>((e + 7) << 3 | (static_cast<int>(steps) - 8));
}

/* The value of an e4m3 magnitude that is no NaN. */
inline float valueOfE4m3(uint8_t code)
{
	const int exponent = code >> 3, mantissa = code & 7;
	return exponent ? ldexpf(8.0f + static_cast<float>(mantissa), exponent - 10)
			: ldexpf(static_cast<float>(mantissa), -9);
}

/* The nearest of eight values; of two that are equally near, the one with the even code. */
inline uint8_t roundToE2m1(float value)
{
	static const double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
	const double a = fabs(static_cast<double>(value));
	uint8_t best = 0;
	for (uint8_t i = 1; i < 8; i++) {
		const double near = fabs(a - values[i]), before = fabs(a - values[best]);
		if (near < before || (near == before && i % 2 == 0))
			best = i;
	}
	return signbit(value) ? best | 8 : best;
}

/* The scale of a group, and the factor of its elements. */
inline float scaleOf(float amax, bool pow2, float *factor)
{
	float scale = amax / 448.0f;
	*factor = 448.0f / amax;
	if (!pow2)
		return scale;
	int e;
	float part = frexpf(scale, &e); /* scale = part * 2^e, part 0.5 to below 1 */
	e -= part == 0.5f;
	*factor = ldexpf(1.0f, -e);
	return ldexpf(1.0f, e);
}

/* A configuration and the tokens of one round. */
struct Round {
	uint32_t ranks, experts, topk, hidden, maxTokens; /* maxTokens of the ep */
	std::vector<uint32_t> first;			  /* [ranks + 1] */
	uint64_t seed;
	std::vector<uint32_t> tokens; /* of each rank */
	uint32_t rows, layout, reduce, scaleKind;
	bool weighted, wide; /* wide: int64 indices */
	int route;	     /* 0: random with -1, 1: all to rank 0, 2: none */
	bool edges = false;  /* scales of given e4m3: the exponents of UE8M0 at both ends */

	static constexpr float GLOBAL = 42.0f; /* the global scale of nvfp4; x is below 64 */

	/* mxfp8 or nvfp4? */
	bool isBytes() const { return rows == GIN_EP_ROWS_MXF8 || rows == GIN_EP_ROWS_NVF4; }

	/* Bytes of a row that arrives. */
	uint32_t rowBytes() const
	{
		return rows == GIN_EP_ROWS_BF16 ? hidden * 2
						: hidden / (rows == GIN_EP_ROWS_NVF4 ? 2 : 1);
	}

	/* Elements of a row of recvScales. */
	uint32_t scaleCount() const
	{
		const uint32_t each = rows == GIN_EP_ROWS_MXF8		? 32
				      : rows == GIN_EP_ROWS_NVF4	? 16
				      : scaleKind == GIN_EP_SCALE_UE8M0 ? 512
									: 128;
		return rows == GIN_EP_ROWS_BF16 ? 0 : (hidden + each - 1) / each;
	}

	uint32_t rankOf(uint32_t expert) const
	{
		uint32_t r = 0;
		while (expert >= first[r + 1])
			r++;
		return r;
	}

	/* The experts of a token: distinct, or -1. */
	std::vector<int64_t> expertsOf(uint32_t rank, uint32_t token) const
	{
		uint32_t low = 0, high = route == 1 ? first[1] : experts;
		std::vector<int64_t> chosen(topk, -1);
		std::vector<bool> used(high);
		for (uint32_t k = 0; k < topk && route != 2 && high; k++) {
			uint64_t bits = mix(seed, rank, token, 1000000 + k);
			uint32_t e = low + static_cast<uint32_t>(bits >> 8) % high;
			if (bits % 8 == 0 || used[e])
				continue;
			used[e] = true;
			chosen[k] = e;
		}
		return chosen;
	}

	float weightOf(uint32_t rank, uint32_t token, uint32_t k) const
	{
		return weighted ? static_cast<float>(mix(seed, rank, token, 2000000 + k) % 1000) /
					  1000
				: 1.0f;
	}

	std::vector<uint16_t> rowOf(uint32_t rank, uint32_t token) const
	{
		std::vector<uint16_t> row(hidden);
		uint64_t bits = mix(seed, rank, token, 3000000);
		for (uint32_t h = 0; h < hidden; h++) {
			bits = bits * 6364136223846793005ull + 1442695040888963407ull;
			row[h] = bf16From(bits >> 20);
		}
		return row;
	}

	/* The answer of an expert, or with rank-major rows of a rank, to a token. */
	std::vector<uint16_t> answerOf(uint32_t expert, uint32_t rank, uint32_t token) const
	{
		std::vector<uint16_t> row(hidden);
		uint64_t bits = mix(seed + 77, rank, token, 4000000 + expert);
		for (uint32_t h = 0; h < hidden; h++) {
			bits = bits * 6364136223846793005ull + 1442695040888963407ull;
			row[h] = bf16From(bits >> 20);
		}
		return row;
	}
};

/* A row as it arrives: payload bytes and scales: floats, or bytes of mxfp8 and nvfp4. */
struct Wire {
	std::vector<uint8_t> payload;
	std::vector<float> scales;
	std::vector<uint8_t> bytes;
};

/* 32 elements of mxfp8. */
inline void addMx(const uint16_t *x, Wire &wire)
{
	float amax = 0;
	for (uint32_t h = 0; h < 32; h++)
		amax = fmaxf(amax, fabsf(floatOf(x[h])));
	const int least = -127, e = amax > 0 ? std::max(ilogbf(amax) - 8, least) : least;
	wire.bytes.push_back(static_cast<uint8_t>(e + 127));
	for (uint32_t h = 0; h < 32; h++)
		wire.payload.push_back(roundToE4m3(ldexpf(floatOf(x[h]), -e)));
}

/* 16 elements of nvfp4. */
inline void addNv(const uint16_t *x, Wire &wire)
{
	float amax = 0;
	for (uint32_t h = 0; h < 16; h++)
		amax = fmaxf(amax, fabsf(floatOf(x[h])));
	const uint8_t scale = roundToE4m3(amax / 6.0f * Round::GLOBAL);
	const float factor = scale ? Round::GLOBAL / valueOfE4m3(scale) : 0.0f;
	wire.bytes.push_back(scale);
	for (uint32_t h = 0; h < 16; h += 2)
		wire.payload.push_back(
			static_cast<uint8_t>(roundToE2m1(floatOf(x[h]) * factor) |
					     roundToE2m1(floatOf(x[h + 1]) * factor) << 4));
}

/* 2^-127, 2^127, 2^-126, 2^126, ... */
inline float edgeScale(uint32_t number)
{
	const int step = static_cast<int>(number / 2);
	return ldexpf(1.0f, number % 2 ? 127 - step : step - 127);
}

inline Wire wireOf(const Round &round, uint32_t rank, uint32_t token)
{
	std::vector<uint16_t> x = round.rowOf(rank, token);
	Wire wire;
	if (round.rows == GIN_EP_ROWS_BF16) {
		wire.payload.resize(x.size() * 2);
		memcpy(wire.payload.data(), x.data(), x.size() * 2);
		return wire;
	}
	for (uint32_t h = 0; round.isBytes() && h < round.hidden;
	     h += round.rows == GIN_EP_ROWS_MXF8 ? 32 : 16)
		(round.rows == GIN_EP_ROWS_MXF8 ? addMx : addNv)(&x[h], wire);
	for (uint8_t &byte : wire.bytes)
		if (round.edges) /* any bytes */
			byte = static_cast<uint8_t>(
				mix(round.seed, rank, token, &byte - &wire.bytes[0]));
	for (uint32_t g = 0; !round.isBytes() && g < (round.hidden + 127) / 128; g++) {
		uint32_t end = g * 128 + 128 < round.hidden ? g * 128 + 128 : round.hidden;
		float amax = 1e-4f, factor;
		for (uint32_t h = g * 128; h < end; h++)
			amax = fmaxf(amax, fabsf(floatOf(x[h])));
		wire.scales.push_back(scaleOf(amax, round.scaleKind != GIN_EP_SCALE_F32, &factor));
		if (round.edges)
			wire.scales.back() = edgeScale(token * 3 + g);
		for (uint32_t h = g * 128; h < end; h++)
			wire.payload.push_back(roundToE4m3(floatOf(x[h]) * factor));
	}
	return wire;
}

/* The bits of a row's scales as the caller gets them. */
inline std::vector<uint32_t> scaleWords(const Round &round, const Wire &wire)
{
	std::vector<uint32_t> words;
	if (round.scaleKind != GIN_EP_SCALE_UE8M0) {
		for (const float &scale : wire.scales) {
			words.emplace_back();
			memcpy(&words.back(), &scale, sizeof(scale));
		}
		return words;
	}
	words.resize((wire.scales.size() + 3) / 4);
	for (size_t g = 0; g < wire.scales.size(); g++)
		words[g / 4] |= static_cast<uint32_t>(ilogbf(wire.scales[g]) + 127) << g % 4 * 8;
	return words;
}

/* The bytes of a row's scales, in the order of recvScales' last dimension. */
inline std::vector<uint8_t> scaleBytes(const Round &round, const Wire &wire)
{
	if (round.isBytes())
		return wire.bytes;
	const std::vector<uint32_t> words = scaleWords(round, wire);
	std::vector<uint8_t> bytes(words.size() * 4);
	if (!words.empty())
		memcpy(bytes.data(), words.data(), bytes.size());
	return bytes;
}

/* The sum that a token gets, as bf16. */
inline std::vector<uint16_t> combined(const Round &round, uint32_t rank, uint32_t token,
				      const std::vector<bool> &gone)
{
	std::vector<int64_t> experts = round.expertsOf(rank, token);
	std::vector<float> sum(round.hidden, 0.0f);
	bool perRank = round.reduce == GIN_EP_REDUCE_RANK;
	for (uint32_t r = 0; r < (perRank ? round.ranks : 1); r++) {
		std::vector<float> part(round.hidden, 0.0f);
		bool any = false;
		for (uint32_t k = 0; k < round.topk; k++) {
			if (experts[k] < 0)
				continue;
			uint32_t e = static_cast<uint32_t>(experts[k]), at = round.rankOf(e);
			if ((perRank && at != r) || gone[at])
				continue;
			bool ranked = round.layout == GIN_EP_RANK_MAJOR;
			if (ranked && any)
				continue; /* one row for the rank */
			any = true;
			std::vector<uint16_t> y =
				round.answerOf(ranked ? 100000 + r : e, rank, token);
			float w = ranked ? 1.0f : round.weightOf(rank, token, k);
			std::vector<float> &into = perRank ? part : sum;
			for (uint32_t h = 0; h < round.hidden; h++)
				into[h] = fmaf(w, floatOf(y[h]), into[h]);
		}
		for (uint32_t h = 0; perRank && any && h < round.hidden; h++)
			sum[h] += floatOf(roundToBf16(part[h]));
	}
	std::vector<uint16_t> out(round.hidden);
	for (uint32_t h = 0; h < round.hidden; h++)
		out[h] = roundToBf16(sum[h]);
	return out;
}

#endif
