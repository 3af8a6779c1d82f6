/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy_engine.cuh - puts and gets between direct peers that a copy engine makes
 *
 * A thread copies 0.33 GB/s to another GPU, a warp 10 GB/s, a copy engine 390 GB/s, but a put by an
 * engine takes 14 us more than its copy (docs/performance.md). Where the communicator has a proxy,
 * the first thread of the coop posts a copy without actions to the proxy, and waits until the proxy
 * has reported the copy done: R.
 *
 * Then the call continues like a copy by threads after its last store: the bytes are at the target,
 * and the first thread has acquired that. It does the actions on the direct route. Every later
 * signal of any thread that happens after a put covers the put's bytes (S), whatever route the
 * signal takes. So no other call needs to know of copy engines.
 *
 * One case is left: a call whose wait has timed out. Its copy may still be in progress. flush()
 * waits for the ring, and so for the copy.
 */
#ifndef GIN_COPY_ENGINE_CUH
#define GIN_COPY_ENGINE_CUH

#include "../core/coop.cuh"
#include "../direct/bulk.cuh"
#include "../proxy/route.cuh"

/*
 * No shorter copy goes to an engine by itself, whatever GIN_COPY_ENGINE_BYTES says: calls with a
 * short constant length have no code for engines.
 */
#define GIN_ENGINE_LEAST 64u

/*
 * A copy of the coop must be this many times longer than a copy of one thread to go to an engine by
 * itself. Measured: a warp copies 25 times as fast as a thread, and bulk copies through scratch
 * memory are 130 times as fast. 0: the copy never goes to an engine by itself, because kernels have
 * many large coops, which together reach the bandwidth of the link.
 */
template <class Coop> GIN_FN uint32_t ginEngineFactor(Coop coop, bool byBulk)
{
	uint32_t size = coop.size();

	if (size > 32)
		return 0;
	if (byBulk)
		return 32;
	return size < 16 ? size : 16;
}

/*
 * Can bulk copies make the copy? `offsets`: of source and target, combined by or. Windows count as
 * aligned.
 */
GIN_FN bool ginBulkFits(size_t offsets, size_t bytes, const ginOptions &options)
{
	return GIN_HAS_BULK && options.scratch && options.scratchBytes >= GIN_BULK_SCRATCH_LEAST &&
	       !((offsets | bytes) & 15);
}

/*
 * Does the copy go to an engine if its options do not choose? `own`: the peer is this rank itself,
 * where an engine copies through host memory, and bulk copies are twice as fast.
 */
template <class Coop>
GIN_FN bool ginEngineIsFaster(const ginDevComm &dc, bool own, bool byBulk, size_t bytes, Coop coop)
{
	uint32_t factor = own && byBulk ? 0 : ginEngineFactor(coop, byBulk);

	return factor && bytes >= static_cast<size_t>(dc.engineBytes) * factor;
}

/*
 * By one thread: posts a put to a direct peer, or a get, and waits until its bytes are at the
 * target. R, acquire end. Does no action and writes no error record. After ginErrorTimeout the copy
 * is not posted, or may still be in progress. `here`: ginSource::word() of this rank's part, as
 * GIN_HOW_ANYWHERE of `how` says.
 */
template <bool isGet>
GIN_FN_COLD ginResult_t ginEngineCopy(const ginDevComm *dc, uint32_t context, uint32_t how,
				      int peer, struct ginWindowTable *there, uint64_t thereOff,
				      uint64_t here, uint64_t hereOff, uint64_t bytes,
				      uint64_t timeout)
{
	auto queue = [&] { return dc->queues + ginUnshared(context); };
	auto number = [&] { return ginUnshared(static_cast<uint32_t>(peer)); };
	auto post = [&](uint32_t now) {
		const struct ginPeer *to = &dc->peers[number()];
		if constexpr (isGet)
			return ginProxyGetBy<false>(queue(), to, now, peer, there, thereOff,
						    reinterpret_cast<struct ginWindowTable *>(here),
						    hereOff, bytes);
		else
			return ginProxyPutBy<false>(queue(), to, now, peer, there, thereOff, here,
						    hereOff, bytes, nullptr, 0, 0, UINT32_MAX);
	};
	uint64_t posted = ginPost(
		dc, queue, how, peer, UINT32_MAX, timeout,
		[&] {
			return ginFromPack({number(), 1, 1});
		},
		post);

	if (posted & GIN_QUEUE_FAILED)
		return ginPostedResult(posted);
	return ginRingWait(dc, queue(), how, number(), posted, timeout,
			   ginFromPack({number(), 1, 1}));
}

#endif
