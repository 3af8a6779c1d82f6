// SPDX-License-Identifier: BSD-3-Clause
// plan.h - the measurements that options ask for, one for each line of output
#ifndef GIN_PERF_PLAN_H
#define GIN_PERF_PLAN_H

#include "options.h"
#include "pattern.cuh"
#include "statistics.h"

struct Case {
	const Operation *operation;
	size_t bytes;
	ginCoopKind coop;
	uint32_t threads; // of a CTA
	uint32_t ctas;
	uint32_t coops; // in all
	uint32_t contexts;
	uint32_t scratch; // of each coop
	uint32_t iterations, warmup;
	bool check, weak, all;
	char breaks;
	int nRanks;
	Layout layout;
};

struct Outcome {
	Statistics us;		 // of each iteration, when it is no stream
	double seconds = 0;	 // of a stream
	double gigabytes = 0;	 // a second, of each sender
	double megamessages = 0; // likewise
	uint64_t wrong = 0;	 // bytes, on all ranks
};

// Does data go between all ranks, or between 0 and 1 only?
static inline bool isWide(const Case &c)
{
	return c.operation->kind == opBarrier || c.operation->kind == opAllToAll || c.all;
}

static inline bool isRate(const Case &c)
{
	return c.operation->kind == opPutRate || c.operation->kind == opValueRate;
}

// As many places as keep messages apart without filling the memory.
static inline uint32_t placesFor(size_t bytes)
{
	size_t places = (64ull << 20) / (bytes + 2 * GUARD);
	return places < 1 ? 1 : places > 4 ? 4 : static_cast<uint32_t>(places);
}

static inline Layout layoutOf(const Case &c)
{
	uint32_t lanes = isWide(c) ? static_cast<uint32_t>(c.nRanks) : 1;
	if (!c.operation->lastSize)
		return Layout(0, 1, 1, 1);
	if (isRate(c))
		return Layout(c.bytes, lanes, c.coops, c.coops);
	// Where one message follows the other's signal, slots are used again by another variant.
	if (c.operation->kind == opPutLat || c.operation->kind == opAllToAll)
		return Layout(c.bytes, lanes, 2, 3);
	uint32_t places = placesFor(c.bytes);
	return Layout(c.bytes, lanes, places, places);
}

static inline uint32_t coopSize(ginCoopKind kind, uint32_t threads, uint32_t warp)
{
	return kind == ginCoopThread ? 1 : kind == ginCoopWarp ? warp : threads;
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
	uint32_t size = coopSize(c.coop, c.threads, warp);
	if (c.threads % size)
		usageError("-t %u is no multiple of a warp, which has %u threads", c.threads, warp);
	if (c.coop != ginCoopCta && c.threads > mostThreadsOf(GinWarp{}))
		usageError("-t %u is more than %u, the most of a CTA with several coops", c.threads,
			   mostThreadsOf(GinWarp{}));
	if (!operation->stream)
		c.threads = size;
	c.ctas = ctas;
	c.coops = ctas * (c.threads / size);
	c.contexts = o.contexts;
	c.scratch = (o.scratch + 127) / 128 * 128;
	if (static_cast<uint64_t>(c.scratch) * (c.threads / size) > 227u << 10)
		usageError("--scratch %u for each of %u coops is more than a CTA has", o.scratch,
			   c.threads / size);
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
