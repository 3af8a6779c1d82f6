/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce.cuh - sums of rows of bf16, in float, rounded once */
#ifndef GIN_EP_REDUCE_CUH
#define GIN_EP_REDUCE_CUH

#include "memory.cuh"
#include "quant.cuh"

/* A row of x and its weight; where it goes. */
struct epSource {
	const char *x;
	char *to;
	float weight;
};

/* The bf16 sums of eight elements. */
struct epEight {
	float sum[8];

	GIN_FN void add(ginWord16 piece, float weight)
	{
		EP_UNROLL
		for (uint32_t i = 0; i < 4; i++) {
			uint32_t pair = static_cast<uint32_t>(piece.half[i / 2] >> i % 2 * 32);
			sum[2 * i] = epFma(weight, epLow(pair), sum[2 * i]);
			sum[2 * i + 1] = epFma(weight, epHigh(pair), sum[2 * i + 1]);
		}
	}

	GIN_FN void plus(ginWord16 piece)
	{
		EP_UNROLL
		for (uint32_t i = 0; i < 4; i++) {
			uint32_t pair = static_cast<uint32_t>(piece.half[i / 2] >> i % 2 * 32);
			sum[2 * i] = epPlus(sum[2 * i], epLow(pair));
			sum[2 * i + 1] = epPlus(sum[2 * i + 1], epHigh(pair));
		}
	}

	/* Adds piece `p` of n rows, in order. Four loads are in flight. */
	GIN_FN void addRows(const epSource *from, uint32_t n, uint32_t p)
	{
		GIN_NO_UNROLL
		for (uint32_t base = 0; base < n; base += 4) {
			ginWord16 piece[4] = {};
			EP_UNROLL
			for (uint32_t i = 0; i < 4; i++)
				if (base + i < n)
					piece[i] = epPieceLoad(from[base + i].x + p * 16);
			EP_UNROLL
			for (uint32_t i = 0; i < 4; i++)
				if (base + i < n)
					add(piece[i], from[base + i].weight);
		}
	}

	GIN_FN ginWord16 rounded() const
	{
		uint64_t pair[4];
		EP_UNROLL
		for (uint32_t i = 0; i < 4; i++)
			pair[i] = epBf16Pair(sum[2 * i], sum[2 * i + 1]);
		return {{pair[0] | pair[1] << 32, pair[2] | pair[3] << 32}};
	}
};

#endif
