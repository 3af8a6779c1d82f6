/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy_engine.cuh - long puts and gets between direct peers by a copy engine
 *
 * A thread copies 0.66 GB/s to another GPU, a warp 16 GB/s, a copy engine 390 GB/s, but a put by an
 * engine takes 11 us more than its copy (docs/performance.md). Where the communicator has a proxy,
 * the first thread of the coop posts a put without actions to the proxy and waits until the proxy
 * has reported it done: R.
 *
 * The put then stands where a put by threads stands after its last store: its bytes are at the
 * peer, and this thread has acquired that. The caller does the actions as after a copy by threads.
 * Every later signal of any thread that happens after the put covers the bytes (S), whatever route
 * the signal takes. So only put() knows of copy engines, and signals cost what they cost without
 * them.
 *
 * One case is left: a put whose wait has timed out. Its copy may still be under way. flush() waits
 * for the ring, and so for the copy.
 */
#ifndef GIN_COPY_ENGINE_CUH
#define GIN_COPY_ENGINE_CUH

#include "../coop.cuh"
#include "route.cuh"

/*
 * No put below this goes to a copy engine by itself, whatever GIN_COPY_ENGINE_BYTES says: the
 * compiler drops the engine from puts of a short constant length.
 */
#define GIN_ENGINE_LEAST 64u

/*
 * By how much the threads of the coop copy faster than one thread: so much longer must a put be to
 * go to a copy engine by itself. A warp copies 20 times as fast, bulk copies through scratch memory
 * 60 times. 0: such a put never does, because kernels have many large coops, which together reach
 * the bandwidth of the link.
 */
template <class Coop> GIN_FN uint32_t ginEngineFactor(Coop coop, const ginOptions &options)
{
	uint32_t size = coop.size();

	if (size > 32)
		return 0;
	if (options.scratch)
		return 32; /* bulk copies */
	return size < 16 ? size : 16;
}

/* Does the put go to a copy engine if its options do not choose? */
template <class Coop> GIN_FN bool ginEngineIsFaster(const ginDevComm &dc, size_t bytes, Coop coop,
						    const ginOptions &options)
{
	uint32_t factor = ginEngineFactor(coop, options);

	return factor && bytes >= static_cast<size_t>(dc.engineBytes) * factor;
}

/* How a copy engine copies, in one word. */
#define GIN_ENGINE_ANYWHERE 1u /* the source of the put is an address */
#define GIN_ENGINE_ALONE 2u    /* as in ginRing */
#define GIN_ENGINE_GET 4u      /* else a put */
#define GIN_ENGINE_GIVEN 3     /* two bits from this bit on: options.given, enum ginScope */
#define GIN_ENGINE_REQUIRED 5  /* two bits: options.required */

GIN_FN uint32_t ginEngineHow(uint32_t flags, bool alone, const ginOptions &options)
{
	return flags | (alone ? GIN_ENGINE_ALONE : 0u) |
	       static_cast<uint32_t>(options.given) << GIN_ENGINE_GIVEN |
	       static_cast<uint32_t>(options.required) << GIN_ENGINE_REQUIRED;
}

/* The part at the peer, and this rank's: `here` is the table of a window, or an address. */
struct ginEngineParts {
	struct ginWindowTable *there;
	size_t thereOff;
	const void *here;
	size_t hereOff;

	GIN_FN ginWindow_t hereWindow() const
	{
		return {static_cast<struct ginWindowTable *>(const_cast<void *>(here))};
	}
};

/* A put or get without actions, as the proxy takes it. */
GIN_FN struct ginReadyCall ginEngineDescribe(uint32_t how, int peer, const ginEngineParts &parts,
					     size_t bytes)
{
	uint64_t there = ginDescribeOffset({parts.there}, parts.thereOff);
	struct ginSource source = ginSourceAnywhere(parts.here);

	if (how & GIN_ENGINE_GET)
		return {ginDescribeGet(peer, there,
				       ginDescribeOffset(parts.hereWindow(), parts.hereOff), bytes),
			ginScopeThread};
	if (!(how & GIN_ENGINE_ANYWHERE))
		source = ginSourceIn(parts.hereWindow(), parts.hereOff);
	return {ginDescribePut(peer, there, source, bytes, ginSignalOf(GinNone{}), UINT32_MAX),
		ginPutFence(source, how >> GIN_ENGINE_GIVEN & 3, how >> GIN_ENGINE_REQUIRED & 3)};
}

/*
 * By one thread: posts a put to a direct peer, or a get, and waits until its bytes are at the
 * target. R, acquire end. Does no action. After ginErrorTimeout the copy is not posted, or may
 * still be under way. Cold, so it takes dc.self: see wait.cuh; and scalars, which need no stack.
 */
GIN_FN_COLD ginResult_t ginEngineCopy(const ginDevComm *dc, uint32_t context, uint32_t how,
				      int peer, struct ginWindowTable *there, size_t thereOff,
				      const void *here, size_t hereOff, size_t bytes,
				      uint64_t timeout)
{
	const struct ginRing ring = ginRingOf(*dc, context, how & GIN_ENGINE_ALONE);
	const struct ginReadyCall call =
		ginEngineDescribe(how, peer, {there, thereOff, here, hereOff}, bytes);
	ginOptions options = ginTimeout(timeout);

	options.from = {static_cast<uint32_t>(peer), 1, 1};
	struct ginPostedAs as = ginPost(call, ring, &dc->peers[peer], *dc, options);
	if (as.result != ginSuccess)
		return as.result;
	return ginRingWait(ring.queue, static_cast<uint32_t>(peer), as.ticket + 1,
			   ginPollStart(*dc, options));
}

#endif
