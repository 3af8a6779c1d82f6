/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.cuh - counts a call, and writes a record of it into the ring of a device communicator
 *
 * Called by traced.cuh, and by libgin-ep, in kernels with -DGIN_TRACE. lib/devcomm/trace.c empties
 * the ring. A thread takes a number only when it has seen room for it, so that no number is left
 * without a record; a thread that sees no room drops its record and counts it, and never waits.
 */
#ifndef GIN_TRACE_CUH
#define GIN_TRACE_CUH

#include "how.cuh"
#include "mirror.cuh"
#include "reserve.cuh"

/* A call, as words of its record. */
struct ginTraced {
	uint64_t what, whom, bytes, value, where;
};

/* `id` UINT32_MAX: none. */
GIN_FN uint64_t ginTraceWhom(int peer, uint32_t id)
{
	return (static_cast<uint32_t>(peer) & GIN_TRACE_NONE) |
	       static_cast<uint64_t>(id & GIN_TRACE_NONE) << 31;
}

GIN_FN uint64_t ginTraceWhat(uint32_t call, uint32_t route, uint32_t flags, uint32_t context)
{
	return static_cast<uint64_t>(context) << 32 | flags << 24 | route << 16 | call;
}

/* A word in a window: 20 bits of the window's number, and the offset. */
GIN_FN uint64_t ginTraceWhere(ginWindow_t window, uint64_t offset)
{
	if (!window.table) /* of a call that is refused */
		return 0;
	return window.table->serial << 43 | (offset & ((1ull << 43) - 1));
}

/*
 * Takes up to `count` numbers, from *first on, for which there is room. Returns how many. Z,
 * acquire end.
 */
GIN_FN uint64_t ginTraceReserve(struct ginTraceRing *ring, uint64_t count, uint64_t *first)
{
	const int64_t depth = int64_t{1} << ring->logDepth;

	for (;;) {
		uint64_t taken = ginShadowObserve(&ring->shadow.seen);
		uint64_t next = ginLocalLoad(&ring->producer);
		int64_t room = depth - static_cast<int64_t>(next - taken);
		if (room <= 0) {
			taken = ginHostLook(ring->taken, &ring->shadow)();
			room = depth - static_cast<int64_t>(next - taken);
		}
		if (room <= 0)
			return 0;
		uint64_t got = count < static_cast<uint64_t>(room) ? count : room;
		*first = next;
		if (ginLocalCas(&ring->producer, next, next + got))
			return got;
	}
}

GIN_FN void ginTraceLose(struct ginTraceRing *ring, uint64_t count)
{
	if (count)
		ginHostWordStore(ring->lostSeen, ginTicketAdd(&ring->lost, count) + count);
}

/* Writes record number `number`. Without an order: see ginTraceStore(). */
GIN_FN void ginTracePut(const struct ginTraceRing *ring, uint64_t number, uint64_t begin,
			uint64_t end, const struct ginTraced &call)
{
	const uint64_t slot = number & ((1ull << ring->logDepth) - 1);
	const uint64_t phase = (~(number >> ring->logDepth) & 1) << 63, bits = ~0ull >> 1;
	uint64_t *at = ring->records + slot * GIN_TRACE_WORDS;

	ginTraceStore(at, (begin & bits) | phase, (end & bits) | phase);
	ginTraceStore(at + 2, call.what | phase, call.whom | phase);
	ginTraceStore(at + 4, (call.bytes & bits) | phase, (call.value & bits) | phase);
	ginTraceStore(at + 6, (call.where & bits) | phase,
		      ginThreadIndex() | static_cast<uint64_t>(ginBlockIndex()) << 31 | phase);
}

/* Which of the numbers below `number` are recorded: that many. */
GIN_FN uint64_t ginTraceSampled(const struct ginTraceRing *ring, uint64_t number)
{
	return (number + (1ull << ring->logEvery) - 1) >> ring->logEvery;
}

/* Counts a call that sends or gets. A GPU waits for none of these words. */
GIN_FN void ginTraceAdd(struct ginTraceRing *ring, uint64_t what, uint64_t whom, uint64_t bytes)
{
	const uint32_t call = what & 0xff, result = what >> 8 & 0xff, route = what >> 16 & 0xff;
	const bool gets = call == ginCallGet || what >> 24 & GIN_TRACE_GETS;
	struct ginTraceCount *count = ring->peers + (whom & GIN_TRACE_NONE);

	if (GIN_ON_GPU || !ginLocalLoad(&ring->counts))
		ginLocalMax(&ring->counts, 1);
	if (route == ginRouteNone || call == ginCallPacketsReceive)
		return;
	ginTicketAdd(&count->posted, 1);
	if (result)
		ginTicketAdd(&count->failed, 1);
	else if (bytes && call != ginCallAtomic)
		ginTicketAdd(gets ? &count->getBytes : &count->putBytes, bytes);
}

GIN_FN_CALLED void ginTraceWrite(struct ginTraceRing *ring, uint64_t begin, uint64_t what,
				 uint64_t whom, uint64_t bytes, uint64_t value, uint64_t where)
{
	const uint64_t end = ginNow();

	ginTraceAdd(ring, what, whom, bytes);
	if (!ring->records)
		return;
	const struct ginTogether all = ginTogetherFor(reinterpret_cast<uintptr_t>(ring), false);
	uint64_t call = 0, first = 0, got = 0;

	if (all.rank == 0) {
		call = ginTicketAdd(&ring->calls, all.count);
		const uint64_t count =
			ginTraceSampled(ring, call + all.count) - ginTraceSampled(ring, call);
		got = count ? ginTraceReserve(ring, count, &first) : 0;
		ginTraceLose(ring, count - got);
	}
	got = ginFromLeader(all, got);
	call = ginFromLeader(all, call);
	first = ginFromLeader(all, first);
	const uint64_t before =
		ginTraceSampled(ring, call + all.rank) - ginTraceSampled(ring, call);
	if (!((call + all.rank) & ((1ull << ring->logEvery) - 1)) && before < got)
		ginTracePut(ring, first + before, begin, end, {what, whom, bytes, value, where});
}

/*
 * Makes a call; the first thread of the coop counts it, and writes its record. `trace`:
 * ginDevComm.trace. what(): the call, as a ginTraced.
 */
template <class Coop, class What, class Call>
GIN_FN ginResult_t ginTraceCall(struct ginTraceRing *trace, Coop coop, What what, Call call)
{
	const uint64_t begin = trace->records ? ginNow() : 0;
	const ginResult_t result = call();

	/* A call that -DGIN_DEVICE_CHECKS refuses has no peer and no window. */
	if (coop.thread_rank() == 0 && result != ginErrorInvalidArgument) {
		const struct ginTraced t = what();
		ginTraceWrite(trace, begin, t.what | static_cast<uint64_t>(result) << 8, t.whom,
			      t.bytes, t.value, t.where);
	}
	return result;
}

#endif
