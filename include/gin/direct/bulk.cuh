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

#include "../coop.cuh"
#include "copy.cuh"
#include "../options.cuh"

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
	uint32_t size; /* of each */
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
	uint32_t barrier = b.barriers + 8 * buffer, at = b.base + buffer * b.size;
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
		     "r"(b.base + buffer * b.size), "r"(bytes)
		     : "memory");
	asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* A copy that goes by chunks: what is left of it. */
struct ginBulkRest {
	const char *src;
	char *dst;
	size_t bytes;

	GIN_FN uint32_t chunk(const ginBulk &b) const
	{
		return bytes < b.size ? static_cast<uint32_t>(bytes) : b.size;
	}

	GIN_FN void pass(uint32_t done)
	{
		src += done;
		dst += done;
		bytes -= done;
	}
};

/* Four buffers or more, of 8 KiB, as larger ones bring no more, or as much as four of them can have. */
GIN_FN ginBulk ginBulkPlan(size_t bytes, void *scratch, uint32_t scratchBytes)
{
	uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(scratch));
	uint32_t room = scratchBytes - GIN_BULK_HEADER, size = room / 4 & ~127u, most = 4,
		 count = 1;

	if (size > 8192)
		size = 8192;
	if (size == 8192)
		most = room >> 13 < GIN_BULK_BUFFERS ? room >> 13 : GIN_BULK_BUFFERS;
	while (count < most && bytes > static_cast<size_t>(count) * size)
		count++;
	return {at, at + GIN_BULK_HEADER, count, size};
}

/* The next chunk, into this buffer. */
GIN_FN void ginBulkLoadNext(const ginBulk &b, uint32_t buffer, struct ginBulkRest *rest)
{
	uint32_t bytes = rest->chunk(b);

	ginBulkLoad(b, buffer, rest->src, bytes);
	rest->pass(bytes);
}

/* By one thread; 16-byte aligned, whole words of 16 bytes. Complete when it returns. */
GIN_FN_COLD void ginBulkCopy(char *dst, const char *src, size_t bytes, void *scratch,
			     uint32_t scratchBytes)
{
	ginBulk b = ginBulkPlan(bytes, scratch, scratchBytes);
	struct ginBulkRest load = {src, dst, bytes}, store = load;
	uint32_t loading = 0, storing = 0, phase = 0;

	ginBulkOpen(b);
	for (uint32_t i = 0; i < b.count; i++)
		ginBulkLoadNext(b, i, &load);
	for (bool first = true; store.bytes; first = false) {
		uint32_t chunk = store.chunk(b);
		ginBulkAwait(b, storing, phase);
		ginBulkStore(b, storing, store.dst, chunk);
		store.pass(chunk);
		storing = storing + 1 < b.count ? storing + 1 : 0;
		phase ^= storing == 0;
		if (first || !load.bytes)
			continue;
		/* All stores but this one have read their buffers. */
		asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
		ginBulkLoadNext(b, loading, &load);
		loading = loading + 1 < b.count ? loading + 1 : 0;
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
