/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limit.cuh - the bytes of a dispatch by plain stores and one release per block, without a library
 *
 * Send: a block for each token stores the row to the slot at each rank, then adds to a word there.
 * Receive: all blocks wait for their rank's word, read each row and write it once for each expert.
 * Tables say in advance where rows go; ranks are kept apart by two halves. One kernel, which can
 * leave parts out, or two. Rows of fp8 are made of rows of bf16, without a scale.
 *
 * Blocks wait for other ranks' blocks. If ranks share a GPU, the blocks of all its ranks must be
 * resident at one time: Limit.blocks is how many a kernel may have.
 */
#ifndef GIN_BENCH_EP_LIMIT_CUH
#define GIN_BENCH_EP_LIMIT_CUH

#include <gin.h>
#include <gin_ep.h>

#include <cuda_runtime.h>
#include <stdint.h>
#include <stdlib.h>

#include <algorithm>
#include <vector>

/* Threads of a block; an SM holds two blocks. */
enum { limitThreads = 448 };

/* Shared state of a limit program's calls, in memory of their own. */
struct LimitWords {
	uint32_t epoch, ticket; /* ticket: blocks that have ended */
	uint64_t sum[8];	/* of each rank: the words of earlier calls */
};

struct LimitArgs {
	char *peer[8];	   /* each rank's memory: words, then rows [half][source][slot] */
	const int *slot;   /* [tokens][ranks], -1: none */
	const int *copies; /* [ranks * most]: how often a received row is written */
	int rank, nRanks, tokens, most, bytes, f8;
	LimitWords *words;
};

__device__ inline char *limitRow(const LimitArgs &a, char *base, uint32_t half, int source,
				 int slot)
{
	return base + 4096 + ((size_t)(half * a.nRanks + source) * a.most + slot) * 16384;
}

__device__ inline void limitAdd(const LimitArgs &a, int rank)
{
	asm volatile(
		"red.release.sys.global.add.u64 [%0], 1;" ::"l"((uint64_t *)a.peer[rank] + a.rank)
		: "memory");
}

__device__ inline void limitSendToken(const LimitArgs &a, const char *x, uint32_t half, int t)
{
	const int step = a.f8 ? 2 : 1;
	const uint4 *from = (const uint4 *)(x + (size_t)t * a.bytes * step);
	for (int i = threadIdx.x; i < a.bytes / 16; i += blockDim.x) {
		uint4 piece = from[i * step];
		const uint4 other = from[i * step + step - 1];
		piece = {piece.x ^ other.x, piece.y ^ other.y, piece.z ^ other.z,
			 piece.w ^ other.w};
		for (int r = 0; r < a.nRanks; r++) {
			int slot = a.slot[t * a.nRanks + r];
			if (slot >= 0)
				((uint4 *)limitRow(a, a.peer[r], half, a.rank, slot))[i] = piece;
		}
	}
	__syncthreads();
	if (threadIdx.x < a.nRanks && a.slot[t * a.nRanks + threadIdx.x] >= 0)
		limitAdd(a, threadIdx.x);
}

__global__ void __launch_bounds__(limitThreads, 2)
	limitSend(const __grid_constant__ LimitArgs a, const char *x)
{
	limitSendToken(a, x, a.words->epoch % 2, blockIdx.x);
}

__device__ inline void limitWait(const LimitArgs &a, const int *rows)
{
	if (threadIdx.x < a.nRanks) {
		uint64_t seen, least = a.words->sum[threadIdx.x] + (rows ? rows[threadIdx.x] : 1);
		const uint64_t *word = (const uint64_t *)a.peer[a.rank] + threadIdx.x;
		do {
			asm volatile("ld.acquire.sys.global.u64 %0, [%1];"
				     : "=l"(seen)
				     : "l"(word)
				     : "memory");
		} while (seen < least);
	}
	__syncthreads();
}

__device__ inline void limitCopy(const LimitArgs &a, const int *rows, uint32_t half, char *out)
{
	int first = 0;
	for (int s = 0; s < a.nRanks; first += rows[s++])
		for (int j = blockIdx.x; j < rows[s]; j += gridDim.x) {
			const uint4 *from = (const uint4 *)limitRow(a, a.peer[a.rank], half, s, j);
			for (int i = threadIdx.x; i < a.bytes / 16; i += blockDim.x) {
				uint4 piece = from[i];
				for (int c = 0; c < a.copies[s * a.most + j]; c++)
					((uint4 *)(out + ((size_t)(first + j) * 32 + c) *
								 16384))[i] = piece;
			}
		}
}

/* The last block of a call counts it. */
__device__ inline void limitEnd(const LimitArgs &a, const int *rows)
{
	__syncthreads();
	if (threadIdx.x || atomicAdd(&a.words->ticket, 1) + 1 != gridDim.x)
		return;
	a.words->ticket = 0;
	a.words->epoch += 1;
	for (int r = 0; r < a.nRanks; r++)
		a.words->sum[r] += rows ? rows[r] : 1;
}

__global__ void __launch_bounds__(limitThreads, 2)
	limitRecv(const __grid_constant__ LimitArgs a, const int *rows, char *out)
{
	const uint32_t half = a.words->epoch % 2;
	limitWait(a, rows);
	limitCopy(a, rows, half, out);
	limitEnd(a, rows);
}

/* The steps of limitBoth(). */
enum { limitStart, limitFlags, limitRows, limitAll };

/*
 * Send and receive in one kernel. limitStart: nothing; limitFlags: a release to each rank, no rows;
 * limitRows: rows arrive and are not copied.
 */
template <int part> __global__ void __launch_bounds__(limitThreads, 2)
	limitBoth(const __grid_constant__ LimitArgs a, const char *x, const int *rows, char *out)
{
	if (part == limitStart)
		return;
	const uint32_t half = a.words->epoch % 2;
	const int *const counts = part == limitFlags ? nullptr : rows;
	if (part == limitFlags && blockIdx.x == 0 && threadIdx.x < a.nRanks)
		limitAdd(a, threadIdx.x);
	for (int t = blockIdx.x; part != limitFlags && t < a.tokens; t += gridDim.x)
		limitSendToken(a, x, half, t);
	limitWait(a, counts);
	if (part == limitAll)
		limitCopy(a, rows, half, out);
	limitEnd(a, counts);
}

/* ginCommAllgather() of n ints in pieces: ranks that are threads gather 4096 bytes at most. */
inline std::vector<int> limitGather(ginComm_t comm, int nRanks, const std::vector<int> &mine)
{
	const size_t most = 1024;
	std::vector<int> all(mine.size() * nRanks), piece(most * nRanks);
	for (size_t at = 0, n; at < mine.size(); at += n) {
		n = mine.size() - at < most ? mine.size() - at : most;
		if (ginCommAllgather(comm, &mine[at], piece.data(), n * sizeof(int)) != ginSuccess)
			abort();
		for (int r = 0; r < nRanks; r++)
			std::copy_n(&piece[r * n], n, &all[r * mine.size() + at]);
	}
	return all;
}

struct Limit {
	LimitArgs args = {};
	ginComm_t comm;
	ginWindow_t window;
	int topk, hidden, blocks, *slot, *copies, *rows;
	void *memory, *x;
	size_t partsAt; /* memory for parts of a combine follows */
	bool usable = true;

	/* `most` tokens; `atOnce`: blocks that are resident at a time. */
	void open(ginComm_t c, int rank, int nRanks, int most, int k, int h, int atOnce)
	{
		comm = c;
		topk = k;
		hidden = h;
		blocks = atOnce;
		args.rank = rank;
		args.nRanks = nRanks;
		args.most = most;
		partsAt = 4096 + (size_t)2 * nRanks * most * 16384;
		const size_t bytes = partsAt + (size_t)2 * most * k * 16384;
		usable = nRanks <= 8 && hidden * 2 <= 16384;
		ginMemAlloc(comm, bytes, &memory);
		cudaMemset(memory, 0, bytes);
		cudaDeviceSynchronize();
		ginWindowRegister(comm, memory, bytes, 0, &window);
		for (int r = 0; r < nRanks && usable; r++) {
			void *at = nullptr;
			ginPeerPointer(comm, window, r, &at);
			args.peer[r] = (char *)at;
			usable = at != nullptr;
		}
		cudaMalloc(&x, (size_t)(most + 1) * 16384);
		cudaMalloc(&args.words, sizeof(LimitWords));
		cudaMemset(args.words, 0, sizeof(LimitWords));
		cudaMalloc(&rows, nRanks * sizeof(int));
		cudaMalloc(&slot, most * nRanks * sizeof(int));
		cudaMalloc(&copies, most * nRanks * sizeof(int));
		cudaDeviceSynchronize();
		args.slot = slot;
		args.copies = copies;
	}

	void close()
	{
		cudaFree(x);
		cudaFree(args.words);
		cudaFree(rows);
		cudaFree(slot);
		cudaFree(copies);
		ginWindowDeregister(comm, window);
		ginMemFree(comm, memory);
	}

	/* Tables: the slot of each row at each rank, and how often a received row is written. */
	void setTokens(const std::vector<int64_t> &chosen, uint32_t tokens, uint32_t experts)
	{
		const int R = args.nRanks;
		std::vector<int> slots(tokens * R, -1), sent(R), here(R), times(R * args.most),
			mine(R * args.most);
		for (uint32_t t = 0; t < tokens; t++)
			for (int k = 0; k < topk; k++) {
				int r = (int)(chosen[t * topk + k] / ((experts + R - 1) / R));
				if (slots[t * R + r] < 0)
					slots[t * R + r] = sent[r]++;
				mine[r * args.most + slots[t * R + r]]++;
			}
		const std::vector<int> all = limitGather(comm, R, sent);
		const std::vector<int> every = limitGather(comm, R, mine);
		for (int s = 0; s < R; s++) {
			here[s] = all[s * R + args.rank];
			for (int j = 0; j < args.most; j++)
				times[s * args.most + j] =
					every[(s * R + args.rank) * args.most + j];
		}
		args.tokens = tokens;
		cudaMemcpy(slot, slots.data(), slots.size() * 4, cudaMemcpyHostToDevice);
		cudaMemcpy(copies, times.data(), times.size() * 4, cudaMemcpyHostToDevice);
		cudaMemcpy(rows, here.data(), here.size() * 4, cudaMemcpyHostToDevice);
	}

	/* A row: 80 bytes of header and items, hidden elements, and the scales of fp8. */
	void describe(uint32_t kind)
	{
		args.f8 = kind == GIN_EP_ROWS_F8;
		args.bytes = 80 + (args.f8 ? hidden + (hidden + 511) / 512 * 16 : 2 * hidden);
	}

	/* Bytes of `out`, in which a received row has room for 32 copies. */
	size_t outBytes() const { return (size_t)args.nRanks * args.most * 32 * 16384; }

	void runPart(uint32_t kind, int part, int grid, void *out, cudaStream_t stream)
	{
		using Kernel = void (*)(const LimitArgs, const char *, const int *, char *);
		static const Kernel kernel[] = {limitBoth<limitStart>, limitBoth<limitFlags>,
						limitBoth<limitRows>, limitBoth<limitAll>};
		if (!usable)
			return;
		describe(kind);
		kernel[part]<<<grid, limitThreads, 0, stream>>>(args, (const char *)x, rows,
								(char *)out);
	}

	void run(uint32_t kind, void *out, cudaStream_t stream)
	{
		if (!usable)
			return;
		describe(kind);
		limitSend<<<args.tokens, limitThreads, 0, stream>>>(args, (const char *)x);
		limitRecv<<<blocks, limitThreads, 0, stream>>>(args, rows, (char *)out);
	}
};

#endif
