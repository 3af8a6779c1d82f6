/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bulk.cuh - bulk (TMA) copies through shared memory: one thread moves what a whole SM can
 *
 * One thread loads chunks into a ring of buffers and stores each one on, as many in flight as the
 * scratch memory holds. Bulk copies go by the async proxy, which sees nothing of what threads write
 * by themselves, and the other way round, unless a proxy fence stands between:
 *  - before the first load, for what the coop wrote, in the source and in the scratch memory;
 *  - after the last store has completed, for the signal that covers it, and for whoever writes
 *    the source or the scratch memory again.
 */
#ifndef GIN_BULK_CUH
#define GIN_BULK_CUH

#include "coop.cuh"
#include "copy.cuh"
#include "options.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GIN_HAS_BULK 1
#else
#define GIN_HAS_BULK 0
#endif

/* Scratch memory holds barriers first, one for each buffer. */
#define GIN_BULK_BUFFERS 8u
#define GIN_BULK_HEADER 128u
#define GIN_BULK_LEAST 1024u /* below this the threads are faster by themselves */
#define GIN_BULK_SCRATCH_LEAST (GIN_BULK_HEADER + 4 * 4096u)

#if GIN_HAS_BULK

/* The async proxy of this thread sees what happened before, and what it did is seen after. */
GIN_FN void ginBulkFence()
{
	asm volatile("fence.proxy.async.global;" ::: "memory");
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* A ring of buffers in shared memory, one thread's. */
struct ginBulk {
	uint32_t barriers; /* shared memory addresses */
	uint32_t base;
	uint32_t count;
	uint32_t shift; /* a buffer has 1 << shift bytes */
};

GIN_FN void ginBulkOpen(const ginBulk &b)
{
	GIN_NO_UNROLL
	for (uint32_t i = 0; i < b.count; i++)
		asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(b.barriers + 8 * i)
			     : "memory");
	ginBulkFence();
}

/* What was stored is complete, and the scratch memory anybody's. */
GIN_FN void ginBulkClose(const ginBulk &b)
{
	asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
	ginBulkFence();
	GIN_NO_UNROLL
	for (uint32_t i = 0; i < b.count; i++)
		asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(b.barriers + 8 * i)
			     : "memory");
}

GIN_FN void ginBulkLoad(const ginBulk &b, uint32_t buffer, const char *src, uint32_t bytes)
{
	uint32_t barrier = b.barriers + 8 * buffer, at = b.base + (buffer << b.shift);
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
		     "r"(bytes)
		     : "memory");
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
		     " [%0], [%1], %2, [%3];" ::"r"(at),
		     "l"(src), "r"(bytes), "r"(barrier)
		     : "memory");
}

/* The buffer holds what was loaded: its barrier has passed the phase. */
GIN_FN void ginBulkAwait(const ginBulk &b, uint32_t buffer, uint32_t phase)
{
	uint32_t there = 0;
	while (!there)
		asm volatile("{ .reg .pred p;"
			     " mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
			     " selp.u32 %0, 1, 0, p; }"
			     : "=r"(there)
			     : "r"(b.barriers + 8 * buffer), "r"(phase)
			     : "memory");
}

GIN_FN void ginBulkStore(const ginBulk &b, uint32_t buffer, char *dst, uint32_t bytes)
{
	asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst),
		     "r"(b.base + (buffer << b.shift)), "r"(bytes)
		     : "memory");
	asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Chunk `c` of a copy: its place and how many bytes it has. */
GIN_FN size_t ginBulkFrom(const ginBulk &b, uint32_t c)
{
	return static_cast<size_t>(c) << b.shift;
}

GIN_FN uint32_t ginBulkLength(const ginBulk &b, uint32_t c, size_t bytes)
{
	size_t left = bytes - ginBulkFrom(b, c), whole = static_cast<size_t>(1) << b.shift;
	return static_cast<uint32_t>(left < whole ? left : whole);
}

/* Buffers of 8 KiB when four of them fit, as larger ones bring no more, else of 4 KiB. */
GIN_FN ginBulk ginBulkPlan(size_t bytes, void *scratch, uint32_t scratchBytes)
{
	uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(scratch));
	uint32_t room = scratchBytes - GIN_BULK_HEADER, shift = room >= 4u << 13 ? 13 : 12;
	size_t chunks = (bytes + (1u << shift) - 1) >> shift;
	uint32_t fit = room >> shift, most = fit < GIN_BULK_BUFFERS ? fit : GIN_BULK_BUFFERS;
	return {at, at + GIN_BULK_HEADER, chunks < most ? static_cast<uint32_t>(chunks) : most,
		shift};
}

/* By one thread; 16-byte aligned, whole words of 16 bytes. Complete when it returns. */
GIN_FN_COLD void ginBulkCopy(char *dst, const char *src, size_t bytes, void *scratch,
			     uint32_t scratchBytes)
{
	ginBulk b = ginBulkPlan(bytes, scratch, scratchBytes);
	uint32_t chunks = static_cast<uint32_t>((bytes + (1u << b.shift) - 1) >> b.shift);
	uint32_t loaded = 0, loading = 0, storing = 0, phase = 0;

	ginBulkOpen(b);
	for (; loaded < b.count; loaded++)
		ginBulkLoad(b, loaded, src + ginBulkFrom(b, loaded),
			    ginBulkLength(b, loaded, bytes));
	GIN_NO_UNROLL
	for (uint32_t c = 0; c < chunks; c++) {
		ginBulkAwait(b, storing, phase);
		ginBulkStore(b, storing, dst + ginBulkFrom(b, c), ginBulkLength(b, c, bytes));
		storing = storing + 1 < b.count ? storing + 1 : 0;
		phase ^= storing == 0;
		if (!c || loaded == chunks)
			continue;
		/* All stores but this one have read their buffers. */
		asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
		ginBulkLoad(b, loading, src + ginBulkFrom(b, loaded),
			    ginBulkLength(b, loaded, bytes));
		loading = loading + 1 < b.count ? loading + 1 : 0;
		loaded++;
	}
	ginBulkClose(b);
}
#endif

/*
 * Bytes that this rank's threads move themselves, by all threads of the coop: through the scratch
 * memory when that is worth it, else by loads and stores. As ginCopy().
 */
template <class Coop, class Ready> GIN_FN bool
ginMove(char *dst, const char *src, size_t bytes, Coop coop, const ginOptions &options, Ready ready)
{
#if GIN_HAS_BULK
	if (options.scratch && bytes >= GIN_BULK_LEAST &&
	    options.scratchBytes >= GIN_BULK_SCRATCH_LEAST && ginCopyFits(dst, src, bytes, 16)) {
		bool go = ready();
		if (go && coop.thread_rank() == 0)
			ginBulkCopy(dst, src, bytes, options.scratch, options.scratchBytes);
		return go;
	}
#endif
	(void)options;
	return ginCopy<ginInFlight<Coop>(0), ginFixedSize<Coop>(0)>(
		dst, src, bytes, coop.thread_rank(), coop.size(), ready);
}

#endif
