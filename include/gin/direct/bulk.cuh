/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bulk.cuh - bulk (TMA) copies through shared memory: one thread reaches the bandwidth of an SM
 *
 * One thread loads chunks into a ring of buffers and stores each chunk at the target, with as many
 * chunks in flight as the scratch memory holds. Bulk copies go through the async proxy of the GPU.
 * The async proxy and the accesses of threads see each other's writes only across a proxy fence:
 *  - before the first load: for what the coop wrote to the source and the scratch memory;
 *  - after the last store has completed: for the signal that covers the copy, and for later writes
 *    to the source or the scratch memory.
 */
#ifndef GIN_BULK_CUH
#define GIN_BULK_CUH

#include "../core/coop.cuh"
#include "copy.cuh"
#include "../core/options.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GIN_HAS_BULK 1
#else
#define GIN_HAS_BULK 0
#endif

/* Scratch memory: the buffers' barriers, then the buffers. Bytes. */
#define GIN_BULK_BUFFERS 8u
#define GIN_BULK_HEADER 128u
#define GIN_BULK_LEAST 1024u /* below this, loads and stores are faster */
#define GIN_BULK_SCRATCH_LEAST (GIN_BULK_HEADER + 4 * 4096u)

#if GIN_HAS_BULK

/* Orders the async proxy's accesses against accesses before and after the fence. */
GIN_FN void ginBulkFence()
{
	asm volatile("fence.proxy.async.global;" ::: "memory");
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* The instructions. Shared memory by its address there; sizes and addresses are multiples of 16. */
GIN_FN uint32_t ginBulkShared(const void *at)
{
	return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

/* `count` arrivals, and the bytes that are expected, end a phase of the barrier. */
GIN_FN void ginBulkInit(uint32_t barrier, uint32_t count)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count)
		     : "memory");
}

/* Arrives, and expects bytes. */
GIN_FN void ginBulkExpect(uint32_t barrier, uint32_t bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
		     "r"(bytes)
		     : "memory");
}

GIN_FN void ginBulkRead(uint32_t to, const char *src, uint32_t bytes, uint32_t barrier)
{
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
		     " [%0], [%1], %2, [%3];" ::"r"(to),
		     "l"(src), "r"(bytes), "r"(barrier)
		     : "memory");
}

/* Waits until the barrier has passed the phase. */
GIN_FN void ginBulkPass(uint32_t barrier, uint32_t phase)
{
	uint32_t there = 0;
	while (!there)
		asm volatile("{ .reg .pred p;"
			     " mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
			     " selp.u32 %0, 1, 0, p; }"
			     : "=r"(there)
			     : "r"(barrier), "r"(phase)
			     : "memory");
}

/* Into the thread's open group of writes, which ginBulkCommit() closes. */
GIN_FN void ginBulkWrite(char *dst, uint32_t from, uint32_t bytes)
{
	asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(dst),
		     "r"(from), "r"(bytes)
		     : "memory");
}

GIN_FN void ginBulkCommit()
{
	asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Waits until all groups of the thread but the newest `newer` have read shared memory. */
template <int newer> GIN_FN void ginBulkHaveRead()
{
	asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(newer) : "memory");
}

/* Waits until all groups of the thread but the newest `newer` have written. */
template <int newer> GIN_FN void ginBulkHaveWritten()
{
	asm volatile("cp.async.bulk.wait_group %0;" ::"n"(newer) : "memory");
}

/* A ring of buffers in shared memory, of one thread. */
struct ginBulk {
	uint32_t barriers; /* shared memory addresses */
	uint32_t base;
	uint32_t count;
	uint32_t size; /* bytes of a buffer */
};

GIN_FN void ginBulkOpen(const ginBulk &b)
{
	GIN_NO_UNROLL
	for (uint32_t i = 0; i < b.count; i++)
		ginBulkInit(b.barriers + 8 * i, 1);
	ginBulkFence();
}

/* Waits until the stores are complete; the scratch memory is free after that. */
GIN_FN void ginBulkClose(const ginBulk &b)
{
	ginBulkHaveWritten<0>();
	ginBulkFence();
	GIN_NO_UNROLL
	for (uint32_t i = 0; i < b.count; i++)
		asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(b.barriers + 8 * i)
			     : "memory");
}

GIN_FN void ginBulkLoad(const ginBulk &b, uint32_t buffer, const char *src, uint32_t bytes)
{
	const uint32_t barrier = b.barriers + 8 * buffer;
	ginBulkExpect(barrier, bytes);
	ginBulkRead(b.base + buffer * b.size, src, bytes, barrier);
}

/* Waits until the chunk is in the buffer: the buffer's barrier has passed the phase. */
GIN_FN void ginBulkAwait(const ginBulk &b, uint32_t buffer, uint32_t phase)
{
	ginBulkPass(b.barriers + 8 * buffer, phase);
}

GIN_FN void ginBulkStore(const ginBulk &b, uint32_t buffer, char *dst, uint32_t bytes)
{
	ginBulkWrite(dst, b.base + buffer * b.size, bytes);
	ginBulkCommit();
}

/* The remaining chunks of a copy. */
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

/* Four to eight buffers of 8 KiB (larger buffers are not faster), or four smaller buffers. */
GIN_FN ginBulk ginBulkPlan(size_t bytes, void *scratch, uint32_t scratchBytes)
{
	uint32_t at = ginBulkShared(scratch);
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

/* Loads the next chunk into `buffer`. */
GIN_FN void ginBulkLoadNext(const ginBulk &b, uint32_t buffer, struct ginBulkRest *rest)
{
	uint32_t bytes = rest->chunk(b);

	ginBulkLoad(b, buffer, rest->src, bytes);
	rest->pass(bytes);
}

/* By one thread. Addresses and size are multiples of 16. The copy is complete at the return. */
GIN_FN_CALLED void ginBulkCopy(char *dst, const char *src, size_t bytes, void *scratch,
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
		/* Waits until all stores but this one have read their buffers. */
		ginBulkHaveRead<1>();
		ginBulkLoadNext(b, loading, &load);
		loading = loading + 1 < b.count ? loading + 1 : 0;
	}
	ginBulkClose(b);
}
#endif

/*
 * Copies by all threads of the coop: through the scratch memory if there is some and the copy is
 * long enough, otherwise by loads and stores. `ready` and `inFlight` as in ginCopy().
 */
template <uint32_t inFlight, class Coop, class Ready> GIN_FN bool
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
	constexpr uint32_t fixed = ginFixedSize<Coop>(0);
	uint32_t rank = coop.thread_rank(), size = coop.size();
	if (fixed != 1)
		rank = ginUnshared(rank);
	if (!fixed)
		size = ginUnshared(size);
	return ginCopy<inFlight, fixed>(dst, src, bytes, rank, size, ready);
}

#endif
