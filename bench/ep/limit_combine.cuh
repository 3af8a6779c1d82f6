/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limit_combine.cuh - the bytes of a combine by plain loads and stores, without a library
 *
 * One kernel. Send: a block for each received row reads the rows of its experts and stores their
 * sum, or each of them, to the token's rank, then adds to a word there, as a release. Receive: all
 * blocks wait for their rank's words, read the rows of each token and write the sum. Tables say in
 * advance where rows go.
 */
#ifndef GIN_BENCH_EP_LIMIT_COMBINE_CUH
#define GIN_BENCH_EP_LIMIT_COMBINE_CUH

#include "limit.cuh"

#include <cuda_bf16.h>

struct LimitParts {
	size_t at; /* in each rank's memory: [half][token * topk + part]: rows of 16384 bytes */
	const int *received; /* [ranks]: rows of each source */
	const int *sent;     /* [ranks]: rows to each rank */
	const int *to;	     /* [ranks][most][topk]: the part of each expert's row, or of the sum */
	const int *parts;    /* [tokens]: parts of the token */
	int topk, pieces;
};

__device__ inline uint4 limitSum(uint4 a, uint4 b)
{
	const __nv_bfloat162 *x = (const __nv_bfloat162 *)&a, *y = (const __nv_bfloat162 *)&b;
	__nv_bfloat162 sum[4];
	for (int i = 0; i < 4; i++)
		sum[i] = __hadd2(x[i], y[i]);
	return *(const uint4 *)sum;
}

/* Received row j of source s. Rows of experts: [source][slot][copy], 16384 bytes each. */
template <bool sums> __device__ void limitPartsSend(const LimitArgs &a, const LimitParts &p,
						    uint32_t half, int s, int j, const char *x)
{
	const int row = s * a.most + j, n = a.copies[row], *to = p.to + row * p.topk;
	char *base = a.peer[s] + p.at + (size_t)half * a.most * p.topk * 16384;
	for (int i = threadIdx.x; i < p.pieces; i += blockDim.x) {
		uint4 sum = {}, piece[4];
		for (int c = 0; c < n; c += 4) {
#pragma unroll
			for (int k = 0; k < 4; k++)
				if (c + k < n)
					piece[k] = ((const uint4 *)(x + ((size_t)row * 32 + c + k) *
										16384))[i];
#pragma unroll
			for (int k = 0; k < 4; k++) {
				if (c + k < n && sums)
					sum = limitSum(sum, piece[k]);
				else if (c + k < n)
					((uint4 *)(base + (size_t)to[c + k] * 16384))[i] = piece[k];
			}
		}
		if (sums)
			((uint4 *)(base + (size_t)to[0] * 16384))[i] = sum;
	}
	__syncthreads();
	if (threadIdx.x == 0)
		limitAdd(a, s);
}

__device__ inline void limitPartsAdd(const LimitArgs &a, const LimitParts &p, uint32_t half, int t,
				     char *out)
{
	const char *base = a.peer[a.rank] + p.at + ((size_t)half * a.most + t) * p.topk * 16384;
	const int n = p.parts[t];
	for (int i = threadIdx.x; i < p.pieces; i += blockDim.x) {
		uint4 sum = {}, piece[4];
		for (int c = 0; c < n; c += 4) {
#pragma unroll
			for (int k = 0; k < 4; k++)
				if (c + k < n)
					piece[k] = ((const uint4 *)(base +
								    (size_t)(c + k) * 16384))[i];
#pragma unroll
			for (int k = 0; k < 4; k++)
				if (c + k < n)
					sum = limitSum(sum, piece[k]);
		}
		((uint4 *)(out + (size_t)t * 16384))[i] = sum;
	}
}

template <bool sums> __global__ void __launch_bounds__(limitThreads, 2)
	limitCombine(const __grid_constant__ LimitArgs a, const __grid_constant__ LimitParts p,
		     const char *x, char *out)
{
	const uint32_t half = a.words->epoch % 2;
	for (int i = blockIdx.x; i < a.nRanks * a.most; i += gridDim.x)
		if (i / a.nRanks < p.received[i % a.nRanks])
			limitPartsSend<sums>(a, p, half, i % a.nRanks, i / a.nRanks, x);
	limitWait(a, p.sent);
	for (int t = blockIdx.x; t < a.tokens; t += gridDim.x)
		limitPartsAdd(a, p, half, t, out);
	limitEnd(a, p.sent);
}

struct LimitOfCombine {
	LimitArgs args;
	LimitParts parts = {};
	Limit *rows;
	int *table; /* sent, received, parts, to */

	/* After Limit::open(). */
	void open(Limit *limit, int hidden)
	{
		rows = limit;
		args = limit->args;
		for (int r = 0; r < args.nRanks; r++)
			args.peer[r] += 2048; /* other words than those of a dispatch */
		cudaMalloc(&args.words, sizeof(LimitWords));
		cudaMemset(args.words, 0, sizeof(LimitWords));
		cudaDeviceSynchronize();
		parts.topk = limit->topk;
		parts.pieces = hidden / 8;
		parts.at = limit->partsAt - 2048;
		cudaMalloc(&table, 1 << 20);
		parts.sent = table;
		parts.received = table + 8;
		parts.parts = table + 16;
		parts.to = parts.parts + args.most;
	}

	void close()
	{
		cudaFree(args.words);
		cudaFree(table);
	}

	/* After Limit::setTokens(). `sums`: a part for each rank, not for each expert. */
	void setTokens(const std::vector<int64_t> &chosen, uint32_t tokens, uint32_t experts,
		       bool sums)
	{
		const int R = args.nRanks, K = parts.topk, each = (experts + R - 1) / R;
		std::vector<int> mine(R * args.most * K), count(args.most, 0);
		std::vector<int> sent(R, 0);
		for (int t = 0; t < (int)tokens; t++) {
			std::vector<bool> goes(R);
			for (int k = 0; k < K; k++)
				goes[chosen[t * K + k] / each] = true;
			for (int r = 0; r < R; r++) {
				if (!goes[r])
					continue;
				int *to = &mine[(r * args.most + sent[r]++) * K];
				for (int k = 0; k < K; k++)
					if (chosen[t * K + k] / each == r)
						*to++ = t * K + (sums ? count[t] : k);
				count[t]++;
			}
			if (!sums)
				count[t] = K;
		}
		const std::vector<int> all = limitGather(rows->comm, R, mine);
		for (int s = 0; s < R; s++)
			memcpy(&mine[s * args.most * K], &all[(s * R + args.rank) * args.most * K],
			       args.most * K * sizeof(int));
		args.tokens = tokens;
		cudaMemcpy((void *)parts.sent, sent.data(), R * 4, cudaMemcpyHostToDevice);
		cudaMemcpy((void *)parts.received, rows->rows, R * 4, cudaMemcpyDeviceToDevice);
		cudaMemcpy((void *)parts.parts, count.data(), args.most * 4,
			   cudaMemcpyHostToDevice);
		cudaMemcpy((void *)parts.to, mine.data(), mine.size() * 4, cudaMemcpyHostToDevice);
	}

	void run(bool sums, int grid, void *x, cudaStream_t stream)
	{
		if (!rows->usable)
			return;
		if (sums)
			limitCombine<true><<<grid, limitThreads, 0, stream>>>(
				args, parts, (const char *)x, (char *)rows->x);
		else
			limitCombine<false><<<grid, limitThreads, 0, stream>>>(
				args, parts, (const char *)x, (char *)rows->x);
	}
};

#endif
