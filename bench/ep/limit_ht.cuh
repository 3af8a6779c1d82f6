/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limit_ht.cuh - the bytes of high throughput by bulk copies, without a library and without waits
 *
 * limitHtMove: movers load each row of this rank once and store it at each rank that gets it, the
 * own rank last; copiers copy the rows of other ranks from the pool to their tensor ("through").
 * limitHtAdd: reducers load the rows of each token from their ranks and store the sum; copiers copy
 * rows of other ranks to the pool. A mover or copier is one thread with a ring of stages in shared
 * memory, a reducer is a warp with a ring of its own.
 *
 * Nobody waits for another rank, so copiers and reducers take what was there before: bytes move as
 * in the product, and after a second run all memory has its final contents, which wrong() compares.
 */
#ifndef GIN_BENCH_EP_LIMIT_HT_CUH
#define GIN_BENCH_EP_LIMIT_HT_CUH

#include "gin/direct/bulk.cuh"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "limit.cuh"
#include "measure.cuh"

/* Rings of stages; of a reducer: stages of 2 KB, of which a lane adds four words. */
enum { limitHtRanks = 8, limitHtStages = 8, limitHtPiece = 2048, limitHtWords = 4 };

/* Bytes before the table of slots: a barrier for each stage of 16 warps. */
enum { limitHtHead = 16 * limitHtStages * 8, limitHtNone = 0xffff };

struct LimitHtArgs {
	int rank, nRanks, tokens;
	int movers, copiers, reducers; /* warps of a block */
	uint32_t stages, copyStages;
	uint32_t row, meta, stage, copied; /* bytes of a row, its meta, both in a stage; a copy */
	uint32_t tableBytes;
	const uint16_t *slot;		/* [tokens][ranks]: of this rank's rows there */
	const char *x, *xMeta;		/* [tokens] */
	char *to[limitHtRanks];		/* where this rank's rows begin at each rank */
	char *metaTo[limitHtRanks];	/* their meta */
	const char *from[limitHtRanks]; /* the rows of this rank's tokens at each rank */
	char *out;
	const char *copyFrom; /* copies, but for `gap` bytes of own rows at `gapAt` */
	char *copyTo;
	uint64_t copies, gapAt, gap;
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900

struct LimitHtRing {
	uint32_t barriers, at, count, bytes;
};

/* The ring of warp `w`; `at`: bytes after the table. Barriers expect one arrival. */
__device__ inline LimitHtRing limitHtRing(const LimitHtArgs &a, char *shared, uint32_t w,
					  uint32_t at, uint32_t count, uint32_t bytes)
{
	const LimitHtRing r = {ginBulkShared(shared) + w * limitHtStages * 8,
			       ginBulkShared(shared) + limitHtHead + a.tableBytes + at, count,
			       bytes};
	for (uint32_t i = threadIdx.x % 32; i < count; i += 32)
		ginBulkInit(r.barriers + 8 * i, 1);
	ginBulkFence();
	__syncwarp();
	return r;
}

/* Item i is loaded to a stage and stored from there; two stages may still be read. One thread. */
template <class Load, class Store>
__device__ inline void limitHtPipe(const LimitHtRing &r, uint64_t n, Load load, Store store)
{
	uint64_t next = 0;
	uint32_t into = 0, out = 0, phase = 0;
	const auto more = [&] {
		load(next++, r.at + into * r.bytes, r.barriers + 8 * into);
		into = into + 1 < r.count ? into + 1 : 0;
	};
	while (next < n && next < r.count)
		more();
	for (uint64_t i = 0; i < n; i++) {
		ginBulkPass(r.barriers + 8 * out, phase);
		store(i, r.at + out * r.bytes);
		ginBulkCommit();
		if (++out == r.count)
			out = 0, phase ^= 1;
		if (i >= 2 && next < n) {
			ginBulkHaveRead<2>();
			more();
		}
	}
	ginBulkHaveWritten<0>();
	ginBulkFence();
}

/* The share of copier `n` of all of the grid. */
__device__ inline void limitHtCopy(const LimitHtArgs &a, const LimitHtRing &r, uint32_t n)
{
	const uint64_t all = uint64_t{gridDim.x} * a.copiers, first = a.copies * n / all;
	const auto at = [&](uint64_t i) {
		const uint64_t bytes = (first + i) * a.copied;
		return bytes < a.gapAt ? bytes : bytes + a.gap;
	};
	limitHtPipe(
		r, a.copies * (n + 1) / all - first,
		[&](uint64_t i, uint32_t to, uint32_t barrier) {
			ginBulkExpect(barrier, a.copied);
			ginBulkRead(to, a.copyFrom + at(i), a.copied, barrier);
		},
		[&](uint64_t i, uint32_t from) { ginBulkWrite(a.copyTo + at(i), from, a.copied); });
}

/* The tokens of a block, whose slots are in shared memory. */
struct LimitHtBlock {
	uint32_t first, count;
	const uint16_t *slot;

	__device__ LimitHtBlock(const LimitHtArgs &a, char *shared)
	    : first(static_cast<uint64_t>(a.tokens) * blockIdx.x / gridDim.x),
	      count(static_cast<uint64_t>(a.tokens) * (blockIdx.x + 1) / gridDim.x - first)
	{
		uint16_t *const table = reinterpret_cast<uint16_t *>(shared + limitHtHead);
		for (uint32_t i = threadIdx.x; i < count * a.nRanks; i += blockDim.x)
			table[i] = a.slot[first * a.nRanks + i];
		slot = table;
		__syncthreads();
	}
};

/* Mover `n` of a block: a share of the block's tokens. */
__device__ inline void limitHtMoveRows(const LimitHtArgs &a, const LimitHtBlock &b,
				       const LimitHtRing &r, uint32_t n)
{
	const uint32_t first = b.count * n / a.movers;
	limitHtPipe(
		r, b.count * (n + 1) / a.movers - first,
		[&](uint64_t i, uint32_t to, uint32_t barrier) {
			const size_t t = b.first + first + i;
			ginBulkExpect(barrier, a.row + a.meta);
			ginBulkRead(to, a.x + t * a.row, a.row, barrier);
			ginBulkRead(to + a.row, a.xMeta + t * a.meta, a.meta, barrier);
		},
		[&](uint64_t i, uint32_t from) {
			for (int k = 0, q = a.rank; k < a.nRanks; k++) {
				q = q + 1 < a.nRanks ? q + 1 : 0;
				const size_t slot = b.slot[(first + i) * a.nRanks + q];
				if (slot == limitHtNone)
					continue;
				ginBulkWrite(a.to[q] + slot * a.row, from, a.row);
				ginBulkWrite(a.metaTo[q] + slot * a.meta, from + a.row, a.meta);
			}
		});
}

/* The pieces of the tokens first, first + step, ... of a block, in order; `rank`: which row's. */
struct LimitHtPieces {
	const LimitHtArgs &a;
	const LimitHtBlock &b;
	uint32_t token, step, piece;
	int rank;
	bool first; /* of the token's piece */

	__device__ LimitHtPieces(const LimitHtArgs &args, const LimitHtBlock &block, uint32_t from,
				 uint32_t by)
	    : a(args), b(block), token(from), step(by), piece(0), rank(-1), first(true)
	{
		next();
		first = true;
	}

	__device__ bool more() const { return token < b.count; }
	__device__ uint32_t slot(int r) const { return b.slot[token * a.nRanks + r]; }

	__device__ int rankAfter(int r) const
	{
		do
			r++;
		while (r < a.nRanks && slot(r) == limitHtNone);
		return r;
	}

	__device__ void next()
	{
		first = false;
		while (more() && (rank = rankAfter(rank)) == a.nRanks) {
			rank = -1;
			first = true;
			if (++piece * limitHtPiece >= a.row)
				piece = 0, token += step;
		}
	}

	__device__ bool last() const { return rankAfter(rank) == a.nRanks; }

	__device__ const char *source() const
	{
		return a.from[rank] + size_t{slot(rank)} * a.row + piece * limitHtPiece;
	}
};

__device__ inline void limitHtAddWord(float (&sum)[8], const uint4 word)
{
	const uint32_t part[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
	for (int i = 0; i < 4; i++) {
		sum[2 * i] += __uint_as_float(part[i] << 16);
		sum[2 * i + 1] += __uint_as_float(part[i] & 0xffff0000u);
	}
}

__device__ inline uint4 limitHtRounded(const float (&sum)[8])
{
	uint32_t part[4];
#pragma unroll
	for (int i = 0; i < 4; i++) {
		const __nv_bfloat162 two = __floats2bfloat162_rn(sum[2 * i], sum[2 * i + 1]);
		part[i] = *reinterpret_cast<const uint32_t *>(&two);
	}
	return {part[0], part[1], part[2], part[3]};
}

/* Reducer `n` of a block. By a warp. */
__device__ inline void limitHtReduce(const LimitHtArgs &a, const LimitHtBlock &b,
				     const LimitHtRing &r, const char *ring, uint32_t n)
{
	const uint32_t lane = threadIdx.x % 32;
	LimitHtPieces load(a, b, n, a.reducers), use(a, b, n, a.reducers);
	uint32_t into = 0, at = 0, phase = 0, flying = 0;
	float sum[limitHtWords][8] = {};
	for (; use.more(); use.next()) {
		for (; load.more() && flying < r.count; load.next(), flying++) {
			if (lane == 0) {
				ginBulkFence(); /* the stage has been read by threads */
				ginBulkExpect(r.barriers + 8 * into, limitHtPiece);
				ginBulkRead(r.at + into * r.bytes, load.source(), limitHtPiece,
					    r.barriers + 8 * into);
			}
			into = into + 1 < r.count ? into + 1 : 0;
		}
		ginBulkPass(r.barriers + 8 * at, phase);
		const uint4 *const words =
			reinterpret_cast<const uint4 *>(ring + at * r.bytes) + lane;
		uint4 *const out = reinterpret_cast<uint4 *>(
			a.out + (b.first + size_t{use.token}) * a.row + use.piece * limitHtPiece);
		const bool first = use.first, last = use.last();
#pragma unroll
		for (int i = 0; i < limitHtWords; i++) {
			if (first)
				for (float &one : sum[i])
					one = 0;
			limitHtAddWord(sum[i], words[i * 32]);
			if (last)
				out[i * 32 + lane] = limitHtRounded(sum[i]);
		}
		__syncwarp();
		if (++at == r.count)
			at = 0, phase ^= 1;
		flying--;
	}
}

#endif

/* Warps: movers, copiers. */
__global__ void __launch_bounds__(512, 1) limitHtMove(const __grid_constant__ LimitHtArgs a)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
	extern __shared__ __align__(128) char shared[];
	const LimitHtBlock block(a, shared);
	const uint32_t w = threadIdx.x / 32, movers = a.movers, one = threadIdx.x % 32 == 0;
	const uint32_t all = movers * a.stages * a.stage;
	if (w < movers) {
		const LimitHtRing ring =
			limitHtRing(a, shared, w, w * a.stages * a.stage, a.stages, a.stage);
		if (one)
			limitHtMoveRows(a, block, ring, w);
	} else {
		const uint32_t n = w - movers, bytes = a.copyStages * a.copied;
		const LimitHtRing ring =
			limitHtRing(a, shared, w, all + n * bytes, a.copyStages, a.copied);
		if (one)
			limitHtCopy(a, ring, blockIdx.x * a.copiers + n);
	}
#endif
}

/* Warps: reducers, copiers. */
__global__ void __launch_bounds__(512, 1) limitHtAdd(const __grid_constant__ LimitHtArgs a)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
	extern __shared__ __align__(128) char shared[];
	const LimitHtBlock block(a, shared);
	const uint32_t w = threadIdx.x / 32, reducers = a.reducers;
	const uint32_t bytes = a.stages * limitHtPiece;
	if (w < reducers) {
		const LimitHtRing ring =
			limitHtRing(a, shared, w, w * bytes, a.stages, limitHtPiece);
		limitHtReduce(a, block, ring, shared + limitHtHead + a.tableBytes + w * bytes, w);
	} else {
		const uint32_t n = w - reducers;
		const LimitHtRing ring =
			limitHtRing(a, shared, w, reducers * bytes + n * a.copyStages * a.copied,
				    a.copyStages, a.copied);
		if (threadIdx.x % 32 == 0)
			limitHtCopy(a, ring, blockIdx.x * a.copiers + n);
	}
#endif
}

/* Word i of token t's row of rank s, two bf16 of small whole numbers: all sums are exact. */
__host__ __device__ inline uint32_t limitHtWord(int s, size_t t, uint32_t i)
{
	const uint32_t bits = (static_cast<uint32_t>(t) * 2654435761u ^ i * 40503u) + s * 97u;
	const uint32_t low = 0x3f80u | (bits >> 7 & 0x60u);   /* 1, 1.25, 1.5, 1.75 */
	const uint32_t high = 0x4000u | (bits >> 11 & 0x60u); /* 2, 2.5, 3, 3.5 */
	return low | high << 16;
}

/* The rows first, first + 1, ... of rank s. */
__global__ void limitHtFill(uint32_t *to, size_t rows, uint32_t words, int s)
{
	for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < rows * words;
	     i += size_t{gridDim.x} * blockDim.x)
		to[i] = limitHtWord(s, i / words, i % words);
}

/* Counts words of `n` received rows, token[i] of rank source[i], that are not theirs. */
__global__ void limitHtWrongRows(const uint32_t *rows, const int *source, const int *token,
				 size_t n, uint32_t words, uint32_t *wrong)
{
	for (size_t i = blockIdx.x; i < n; i += gridDim.x)
		for (uint32_t w = threadIdx.x; w < words; w += blockDim.x)
			if (rows[i * words + w] != limitHtWord(source[i], token[i], w))
				atomicAdd(wrong, 1);
}

/* Counts words that are not the sums; row `from[r] + slot` of rank r has its number's contents. */
__global__ void limitHtWrongSums(LimitHtArgs a, const int *start, uint32_t *wrong)
{
	const uint32_t words = a.row / 4;
	for (size_t t = blockIdx.x; t < a.tokens; t += gridDim.x)
		for (uint32_t w = threadIdx.x; w < words; w += blockDim.x) {
			float low = 0, high = 0;
			for (int r = 0; r < a.nRanks; r++) {
				const uint32_t slot = a.slot[t * a.nRanks + r];
				if (slot == limitHtNone)
					continue;
				const uint32_t word = limitHtWord(r, start[r] + slot, w);
				low += __uint_as_float(word << 16);
				high += __uint_as_float(word & 0xffff0000u);
			}
			const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
			if (reinterpret_cast<const uint32_t *>(a.out)[t * words + w] !=
			    *reinterpret_cast<const uint32_t *>(&two))
				atomicAdd(wrong, 1);
		}
}

/* Warps of a block, and what is in flight; as many as shared memory holds. */
struct LimitHtShape {
	const char *name;
	int workers, copiers;			/* movers or reducers */
	uint32_t stages, copyStages, copyParts; /* parts of a row that a copier moves at a time */
};

/* Measured by the first limit program, which had all of these: no other shape was faster. */
static const LimitHtShape limitHtStraight = {"2 movers", 2, 0, 6, 0, 1};
static const LimitHtShape limitHtThroughF8 = {"2 movers, 1 copier", 2, 1, 6, 6, 1};
static const LimitHtShape limitHtThrough = {"2 movers, 2 copiers", 2, 2, 4, 6, 2};
static const LimitHtShape limitHtSums[] = {{"8 reducers", 8, 0, 8, 0, 1},
					   {"12 reducers", 12, 0, 8, 0, 1},
					   {"14 reducers", 14, 0, 7, 0, 1}};
static const LimitHtShape limitHtStagedSums[] = {{"8 reducers, 1 copier", 8, 1, 8, 6, 2},
						 {"10 reducers, 2 copiers", 10, 2, 7, 4, 4},
						 {"14 reducers, 2 copiers", 14, 2, 6, 4, 4}};

/* One rank's side. Memory of the peers is open by window. */
struct LimitHt {
	LimitHtArgs args = {};
	ginComm_t comm;
	ginWindow_t window;
	int most, hidden, *start, *source, *token;
	uint32_t *bad, received = 0;
	size_t rowsAt, metaAt, bytes;
	char *memory, *peer[limitHtRanks], *x, *meta, *tensor, *out;
	std::vector<int> starts; /* [ranks][ranks]: first row of each source at each rank */
	std::vector<int> counts; /* [ranks][ranks]: rows of each source at each rank */
	bool usable = true;

	enum { mostMeta = 512 };

	void open(ginComm_t c, int rank, int nRanks, int tokens, int h)
	{
		comm = c;
		most = tokens;
		hidden = h;
		args.rank = rank;
		args.nRanks = nRanks;
		metaAt = (size_t)nRanks * most * hidden * 2;
		bytes = metaAt + (size_t)nRanks * most * mostMeta;
		usable = nRanks <= limitHtRanks && hidden * 2 % limitHtPiece == 0;
		memory = (char *)take(bytes, true);
		GIN(ginWindowRegister(comm, memory, bytes, 0, &window));
		for (int r = 0; r < nRanks && usable; r++) {
			void *at = nullptr;
			GIN(ginPeerPointer(comm, window, r, &at));
			peer[r] = (char *)at;
			usable = at != nullptr;
		}
		x = (char *)take((size_t)most * hidden * 2);
		meta = (char *)take((size_t)most * mostMeta);
		tensor = (char *)take(metaAt);
		out = (char *)take((size_t)most * hidden * 2);
		start = (int *)take(nRanks * 4);
		source = (int *)take((size_t)nRanks * most * 4);
		token = (int *)take((size_t)nRanks * most * 4);
		bad = (uint32_t *)take(4);
		args.slot = (uint16_t *)take((size_t)most * nRanks * 2);
		const int limit = sharedMost();
		CUDA(cudaFuncSetAttribute(limitHtMove, cudaFuncAttributeMaxDynamicSharedMemorySize,
					  limit));
		CUDA(cudaFuncSetAttribute(limitHtAdd, cudaFuncAttributeMaxDynamicSharedMemorySize,
					  limit));
	}

	void close()
	{
		GIN(ginWindowDeregister(comm, window));
		GIN(ginMemFree(comm, memory));
		for (void *at :
		     {(void *)x, (void *)meta, (void *)tensor, (void *)out, (void *)start,
		      (void *)source, (void *)token, (void *)bad, (void *)args.slot})
			CUDA(cudaFree(at));
	}

	/* goes[t * ranks + r]: does token t of this rank go to rank r? */
	void setTokens(const std::vector<uint8_t> &goes, uint32_t tokens)
	{
		const int R = args.nRanks;
		std::vector<uint16_t> slot(goes.size(), limitHtNone);
		std::vector<int> sent(R), tokenOf((size_t)R * most, 0);
		for (size_t i = 0; i < goes.size(); i++)
			if (goes[i]) {
				tokenOf[i % R * most + sent[i % R]] = (int)(i / R);
				slot[i] = (uint16_t)sent[i % R]++;
			}
		const std::vector<int> all = limitGather(comm, R, sent);
		const std::vector<int> tokensOf = limitGather(comm, R, tokenOf);
		starts.assign(R * R, 0);
		counts.assign(R * R, 0);
		for (int r = 0; r < R; r++)
			for (int s = 0; s < R; s++) {
				counts[r * R + s] = all[s * R + r];
				starts[r * R + s] =
					s ? starts[r * R + s - 1] + counts[r * R + s - 1] : 0;
			}
		args.tokens = (int)tokens;
		write(args.slot, slot);
		expect(tokensOf);
	}

	/* Which token each received row is, and where this rank's rows begin at each rank. */
	void expect(const std::vector<int> &tokensOf)
	{
		const int R = args.nRanks, me = args.rank;
		std::vector<int> sources, tokens, begins;
		for (int s = 0; s < R; s++)
			for (int j = 0; j < counts[me * R + s]; j++) {
				sources.push_back(s);
				tokens.push_back(tokensOf[((size_t)s * R + me) * most + j]);
			}
		for (int r = 0; r < R; r++)
			begins.push_back(starts[r * R + me]);
		received = (uint32_t)sources.size();
		write(source, sources);
		write(token, tokens);
		write(start, begins);
	}

	/* Bytes that this rank stores at others in a dispatch, or loads from them in a combine. */
	double wire(uint32_t row, uint32_t metaBytes) const
	{
		double rows = 0;
		for (int r = 0; r < args.nRanks; r++)
			rows += r == args.rank ? 0 : counts[r * args.nRanks + args.rank];
		return rows * (row + metaBytes);
	}

	/* False: shared memory has no room. */
	bool describe(const LimitHtShape &shape, bool sums, uint32_t row, uint32_t metaBytes,
		      int grid)
	{
		const uint32_t each = (args.tokens + grid - 1) / grid;
		args.row = row;
		args.meta = metaBytes;
		args.stage = (row + metaBytes + 127) / 128 * 128;
		args.movers = sums ? 0 : shape.workers;
		args.reducers = sums ? shape.workers : 0;
		args.copiers = shape.copiers;
		args.stages = shape.stages;
		args.copyStages = shape.copyStages;
		args.copied = row / shape.copyParts;
		args.tableBytes = (each * args.nRanks * 2 + 127) / 128 * 128;
		args.x = x;
		args.xMeta = meta;
		args.out = out;
		const uint32_t stage = sums ? (uint32_t)limitHtPiece : args.stage;
		shared = limitHtHead + args.tableBytes + shape.workers * shape.stages * stage +
			 shape.copiers * shape.copyStages * args.copied;
		place(sums);
		return usable && shared <= (uint32_t)sharedMost();
	}

	void run(int grid, cudaStream_t stream)
	{
		const int threads = 32 * (args.movers + args.reducers + args.copiers);
		if (args.reducers)
			limitHtAdd<<<grid, threads, shared, stream>>>(args);
		else
			limitHtMove<<<grid, threads, shared, stream>>>(args);
	}

	/* Words of the last run that are wrong; all ranks have run twice and are idle. */
	uint32_t wrong()
	{
		uint32_t seen = 0;
		CUDA(cudaMemset(bad, 0, 4));
		if (args.reducers) {
			limitHtWrongSums<<<256, 256>>>(args, start, bad);
		} else {
			const char *const from = args.copiers ? tensor : memory;
			limitHtWrongRows<<<256, 256>>>((const uint32_t *)from, source, token,
						       received, args.row / 4, bad);
		}
		CUDA(cudaMemcpy(&seen, bad, 4, cudaMemcpyDeviceToHost));
		return seen;
	}

	/* Inputs: rows of tokens for a dispatch, of received rows for a combine. */
	void fill(bool sums, uint32_t row)
	{
		CUDA(cudaMemset(memory, 0xee, bytes));
		CUDA(cudaMemset(tensor, 0xee, metaAt));
		CUDA(cudaMemset(out, 0xee, (size_t)most * hidden * 2));
		if (!sums)
			limitHtFill<<<256, 256>>>((uint32_t *)x, args.tokens, row / 4, args.rank);
		else if (args.copiers)
			limitHtFill<<<256, 256>>>((uint32_t *)tensor, received, row / 4, args.rank);
		else
			limitHtFill<<<256, 256>>>((uint32_t *)memory, received, row / 4, args.rank);
		CUDA(cudaDeviceSynchronize());
	}

private:
	uint32_t shared = 0;

	static int sharedMost()
	{
		int device, bytes;
		CUDA(cudaGetDevice(&device));
		CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin,
					    device));
		return bytes;
	}

	void *take(size_t size, bool forWindow = false)
	{
		void *at = nullptr;
		if (forWindow)
			GIN(ginMemAlloc(comm, size, &at));
		else
			CUDA(cudaMalloc(&at, size));
		CUDA(cudaMemset(at, 0, size));
		return at;
	}

	template <class T, class To> static void write(To *to, const std::vector<T> &from)
	{
		CUDA(cudaMemcpy((void *)to, from.data(), from.size() * sizeof(T),
				cudaMemcpyHostToDevice));
	}

	/* Where rows go. Through: own rows go to the tensor, those of others are copied there. */
	void place(bool sums)
	{
		const int R = args.nRanks, me = args.rank;
		for (int r = 0; r < R; r++) {
			const size_t first = starts[r * R + me];
			char *const there = r == me && args.copiers ? tensor : peer[r];
			args.to[r] = there + first * args.row;
			args.metaTo[r] = peer[r] + metaAt + first * args.meta;
			args.from[r] = there + first * args.row;
		}
		args.copyFrom = sums ? tensor : memory;
		args.copyTo = sums ? memory : tensor;
		args.gapAt = starts[me * R + me] * (size_t)args.row;
		args.gap = counts[me * R + me] * (size_t)args.row;
		args.copies =
			args.copiers ? (received * (size_t)args.row - args.gap) / args.copied : 0;
	}
};

#endif
