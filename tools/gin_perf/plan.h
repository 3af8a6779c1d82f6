// SPDX-License-Identifier: BSD-3-Clause
// plan.h - the measurements that the options ask for, one for each line of output
#ifndef GIN_PERF_PLAN_H
#define GIN_PERF_PLAN_H

#include "kernel_fit.h"
#include "options.h"
#include "pattern.cuh"
#include "statistics.h"

// Most iterations that one launch records: the ticks of a latency, in shared memory with scratch.
enum { RECORDED = 4096 };

struct Case {
	const Operation *operation;
	size_t bytes;
	ginCoopKind coop;
	uint32_t threads; // per CTA
	uint32_t ctas;
	uint32_t coops; // of all CTAs together
	uint32_t contexts;
	uint32_t scratch; // per coop
	uint32_t iterations, warmup;
	bool check, weak, all;
	char breaks;
	int nRanks;
	BufferLayout layout;
};

struct CaseOutcome {
	Statistics us;		 // time of an iteration; unless the operation is a stream
	double seconds = 0;	 // time of a stream
	double gigabytes = 0;	 // of a stream: per second and sender
	double megamessages = 0; // of a stream: per second and sender
	uint64_t wrong = 0;	 // wrong bytes on all ranks
	KernelFit fit;		 // of rank 0's kernel
};

// Do all ranks communicate, or only ranks 0 and 1?
static inline bool isWide(const Case &c)
{
	return c.operation->kind == opBarrier || c.operation->kind == opAllToAll || c.all;
}

static inline bool isRate(const Case &c)
{
	return c.operation->kind == opPutRate || c.operation->kind == opValueRate;
}

// Up to 4 slots, so that successive messages use different memory; fewer if they exceed 64 MiB.
static inline uint32_t slotsFor(size_t bytes)
{
	size_t slots = (64ull << 20) / (bytes + 2 * GUARD);
	return slots < 1 ? 1 : slots > 4 ? 4 : static_cast<uint32_t>(slots);
}

static inline BufferLayout layoutOf(const Case &c)
{
	uint32_t lanes = isWide(c) ? static_cast<uint32_t>(c.nRanks) : 1;
	if (!c.operation->lastSize)
		return BufferLayout(0, 1, 1, 1);
	if (isRate(c))
		return BufferLayout(c.bytes, lanes, c.coops, c.coops);
	// Each message waits for the signal of the message before. With 2 slots and 3 variants, a
	// slot receives other bytes each time.
	if (c.operation->kind == opPutLat || c.operation->kind == opPacketLat ||
	    c.operation->kind == opAllToAll)
		return BufferLayout(c.bytes, lanes, 2, 3);
	uint32_t slots = slotsFor(c.bytes);
	return BufferLayout(c.bytes, lanes, slots, slots);
}

static inline uint32_t coopSize(ginCoopKind kind, uint32_t threads, uint32_t warp)
{
	return kind == ginCoopThread ? 1 : kind == ginCoopWarp ? warp : threads;
}

// Ends the program if the options do not fit each other. `size`: threads of a coop.
static inline void checkCase(const Options &o, const Case &c, uint32_t size, uint32_t warp)
{
	if (c.threads % size)
		usageError("-t %u is not a multiple of a warp, which has %u threads", c.threads,
			   warp);
	if (c.coop != ginCoopCta && c.threads > mostThreadsOf(GinWarp{}))
		usageError("-t %u is more than %u, the limit for a CTA with several coops",
			   c.threads, mostThreadsOf(GinWarp{}));
	if (c.operation->kind == opPacketLat && c.bytes > GIN_PACKETS_MOST)
		usageError("-e: %s sends at most %u bytes", c.operation->name, GIN_PACKETS_MOST);
	uint32_t coops = c.operation->stream ? c.threads / size : 1;
	uint64_t ticks = c.operation->stream ? 0 : RECORDED * sizeof(uint32_t);
	if (static_cast<uint64_t>(c.scratch) * coops + ticks > 227u << 10)
		usageError(
			"--scratch %u for each of %u coops is more than the shared memory of a CTA",
			o.scratch, coops);
}

static inline Case caseOf(const Options &o, const Operation *operation, size_t bytes, uint32_t ctas,
			  int nRanks, bool gpu)
{
	uint32_t warp = gpu ? 32 : GIN_HOST_WARP;
	Case c = {};
	c.operation = operation;
	c.bytes = bytes;
	c.coop = o.coop < 0 ? operation->coop : static_cast<ginCoopKind>(o.coop);
	c.threads = o.threads ? o.threads : gpu ? 256 : GIN_HOST_WARP;
	c.scratch = (o.scratch + 127) / 128 * 128;
	uint32_t size = coopSize(c.coop, c.threads, warp);
	checkCase(o, c, size, warp);
	if (!operation->stream)
		c.threads = size;
	c.ctas = ctas;
	c.coops = ctas * (c.threads / size);
	c.contexts = o.contexts;
	c.iterations = o.iterations ? o.iterations : operation->iterations;
	c.warmup = o.warmup;
	c.check = o.check;
	c.weak = o.weak && operation->kind == opSignalLat;
	c.all = o.all && operation->stream && nRanks > 1;
	c.breaks = o.breaks;
	c.nRanks = nRanks;
	c.layout = layoutOf(c);
	return c;
}

static inline std::vector<size_t> sizesOf(const Options &o, const Operation &operation)
{
	std::vector<size_t> sizes;
	if (!operation.lastSize)
		return {0};
	size_t end = o.end ? o.end : std::max(operation.lastSize, o.begin);
	for (size_t bytes = o.begin; bytes <= end; bytes = bytes ? bytes * o.factor : 1)
		if (operation.kind != opValueRate || bytes == 4 || bytes == 8)
			sizes.push_back(bytes);
	return sizes;
}

static inline std::vector<Case> casesOf(const std::vector<Options> &all, int nRanks, bool gpu)
{
	std::vector<Case> cases;
	for (const Options &o : all)
		for (const Operation *operation : o.operations)
			for (uint32_t ctas : operation->stream ? o.ctas : std::vector<uint32_t>{1})
				for (size_t bytes : sizesOf(o, *operation))
					cases.push_back(
						caseOf(o, operation, bytes, ctas, nRanks, gpu));
	return cases;
}

static inline size_t memoryOf(const std::vector<Case> &cases)
{
	size_t most = 0;
	for (const Case &c : cases)
		most = std::max<size_t>(most, c.layout.total());
	return most;
}

static inline uint32_t contextsOf(const std::vector<Case> &cases)
{
	uint32_t most = 1;
	for (const Case &c : cases)
		most = std::max(most, c.contexts);
	return most;
}

static inline uint32_t ctasOf(const std::vector<Case> &cases)
{
	uint32_t most = 1;
	for (const Case &c : cases)
		most = std::max(most, c.ctas);
	return most;
}

#endif
