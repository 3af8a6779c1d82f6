/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call.cuh - the gdaki route: calls that post
 *
 * Called by detail/context_base.cuh, on the first thread of the calling coop. A call is inlined and
 * calls two functions that are not: ginGdaki...Now(), which posts if there is room, and
 * ginWorkLate() for everything else: waits, failures, long messages. It leaves the error record
 * and returns the result.
 *
 *   put      ginGdakiPut       from 1 byte to 1 GiB from a window by ginGdakiPutNow(), other puts by
 *                              ginGdakiSource() and ginWorkLate()
 *   value    ginGdakiPutValue
 *   signal   ginGdakiSignal
 *   get      ginGdakiGet, atomics ginGdakiAtomic: complete.cuh
 *
 * All arguments are scalars: they stay in registers, and compilers propagate constants. Common to
 * all:
 *
 *   dc            ginDevComm.self, for waits and errors
 *   queue         ginGdakiQueue()
 *   peer          &ginDevComm.peers[peer]
 *   context       for the error record; not part of `how`, which most callers know at compile time
 *   how           call, sharing, given, required, aggregate, what is raised: detail/how.cuh
 *   there, off    the target: &ginWindowPeer of the peer, and an offset
 *   raiseAt, raiseOff, add   the signal: the target window's ginWindowPeer and an offset with
 *                 GIN_HOW_AT, else the byte offset of the signal among the peer's signals
 *   timeout       as in ginOptions
 *   from          ginFromPack()
 */
#ifndef GIN_GDAKI_CALL_CUH
#define GIN_GDAKI_CALL_CUH

#include "../direct/route.cuh"
#include "post.cuh"

/* The send queues of a context; of dc->contexts: of direct peers, shared by all contexts. */
GIN_FN struct ginSendQueue *ginGdakiQueues(const ginDevComm &dc, uint32_t context)
{
	return dc.sendQueues + static_cast<size_t>(context) * dc.nSendQueues;
}

/* The send queue to `peer`. If every peer is on route gdaki, the rank is its number. */
GIN_FN struct ginSendQueue *ginGdakiQueue(const ginDevComm &dc, uint32_t context, int peer)
{
	uint32_t queue =
		dc.route == ginRouteGdaki ? static_cast<uint32_t>(peer) : dc.peers[peer].sendQueue;
	return ginGdakiQueues(dc, context) + queue;
}

/*
 * 16 bytes that do not change while a kernel uses them. A thread that shares its queue has to fetch
 * them anew, because its fences empty L1: a relaxed load, which compilers leave where it is, so that
 * it is under way beside the reservation. A thread alone finds them in L1 by a plain load.
 */
GIN_FN ginWord16 ginGdakiLoad(const void *at, uint32_t how)
{
#if GIN_ON_GPU
	if (ginHowSharing(how) != ginSharingThread)
		return ginLoadPairRelaxed(at);
#else
	(void)how;
	asm("" : "+r"(at)); /* GCC 12 warns of a NULL that only a branch not taken would load. */
#endif
	return ginDataLoad<ginWord16>(static_cast<const char *>(at));
}

/*
 * The data's target and the signal. PCIe may reorder writes by nicKey. A signal uses a key that
 * keeps order, so its atomic follows the data.
 */
GIN_FN struct ginWork ginGdakiWork(const struct ginPeer *peer, uint32_t how,
				   const struct ginWindowPeer *there, uint64_t off,
				   const struct ginWindowPeer *raiseAt, uint64_t raiseOff,
				   uint64_t add)
{
	struct ginWork p = {};

	if (there) {
		ginWord16 part = ginGdakiLoad(&there->nicAddress, how);
		p.remote = part.half[0] + off;
		p.remoteKey = static_cast<uint32_t>(part.half[1]);
	}
	if (ginHowHas(how, GIN_HOW_RAISES)) {
		const bool at = ginHowHas(how, GIN_HOW_AT);
		ginWord16 word = ginGdakiLoad(at ? &raiseAt->nicAddress : &peer->nicSignals, how);
		p.word = word.half[0] + raiseOff;
		p.wordKey = static_cast<uint32_t>(at ? word.half[1] >> 32 : word.half[1]);
		p.add = add;
	}
	return p;
}

/* This rank's end of a put or get, and the scope to which a put's source must be released. */
struct ginGdakiFrom {
	uint64_t address;
	uint32_t key;
	uint32_t scope; /* enum ginScope; GIN_NO_SOURCE: none found */
};

#define GIN_NO_SOURCE UINT32_MAX

GIN_FN struct ginGdakiFrom ginGdakiHere(const struct ginWindowTable *here, uint64_t off,
					uint32_t how)
{
	ginWord16 first = ginGdakiLoad(&here->slot, how);
	ginWord16 second = ginGdakiLoad(&here->nicAddress, how);

	return {second.half[0] + off, static_cast<uint32_t>(first.half[1] >> 32),
		static_cast<uint32_t>(first.half[0] >> 32)};
}

/*
 * Where the NIC reads `bytes` at an address, by a search in all windows of this rank; false: no window
 * has them. Relaxed loads: windows come and go while kernels run, but the window of a put stays.
 */
GIN_FN bool ginSourceFind(const struct ginSources *sources, uint64_t address, size_t bytes,
			  struct ginMlx5Memory *found)
{
	const struct ginSourceEntry *entry =
		reinterpret_cast<const struct ginSourceEntry *>(sources + 1);
	uint64_t used = ginHostWordObserve(&sources->used);

	for (uint64_t i = 0; i < used; i++, entry++) {
		uint64_t size = ginHostWordObserve(&entry->bytes);
		uint64_t offset = address - ginHostWordObserve(&entry->address);
		if (offset < size && bytes <= size - offset) {
			*found = {entry->nicAddress + offset, entry->nicKey};
			return true;
		}
	}
	return false;
}

/* `what` of a put, but for its WQEBBs of data. */
GIN_FN uint32_t ginGdakiPutWhat(uint32_t how, uint32_t scope, bool counts)
{
	return ginWorkWhat(ginOpPut, 0, 0, how) | ginWorkRelease(how, scope) |
	       static_cast<uint32_t>(counts) << GIN_WORK_COUNTS;
}

/* A put of 1 byte to 1 GiB from a window. */
template <uint32_t shape> struct ginGdakiPutNow {
	GIN_FN static uint64_t post(struct ginSendQueue *queue, const struct ginPeer *peer,
				    uint32_t how, const struct ginWindowPeer *there, uint64_t off,
				    const struct ginWindowTable *here, uint64_t hereOff,
				    uint32_t bytes, const struct ginWindowPeer *raiseAt,
				    uint64_t raiseOff, uint64_t add, uint64_t *counters,
				    uint32_t counter)
	{
		how = ginShapedHow<shape>(how);
		constexpr bool counts = shape & GIN_SHAPE_COUNTS;
		const uint32_t what = ginWorkWhat(ginOpPut, 0, 1, how) |
				      static_cast<uint32_t>(counts) << GIN_WORK_COUNTS;

		return ginWorkNow(queue, peer, ginHowSharing(how), what, [&](struct ginWork &p) {
			struct ginGdakiFrom from = ginGdakiHere(here, hereOff, how);
			p = ginGdakiWork(peer, how, there, off, raiseAt, raiseOff, add);
			ginWorkSetMessage(p, from.address, from.key, bytes,
					  counts ? counters : nullptr, counter);
			return ginWorkRelease(how, from.scope);
		});
	}
};

/* The source of a put that ginGdakiPutNow() has not done. */
GIN_FN_COLD struct ginGdakiFrom ginGdakiSource(const ginDevComm *dc, uint32_t how, uint64_t source,
					       uint64_t sourceOff, uint64_t bytes)
{
	const struct ginWindowTable *here = reinterpret_cast<const struct ginWindowTable *>(source);
	struct ginMlx5Memory found = {0, 0};

	if (ginHowHas(how, GIN_HOW_ANYWHERE)) {
		bool known = !bytes || ginSourceFind(dc->sources, source, bytes, &found);
		return {found.address, found.key,
			known ? static_cast<uint32_t>(ginScopeSystem) : GIN_NO_SOURCE};
	}
	if (!bytes)
		return {0, 0, ginScopeThread};
	return ginGdakiHere(here, sourceOff, how);
}

/*
 * `source`: const struct ginWindowTable *, or with GIN_HOW_ANYWHERE an address. `counters`: of the
 * context; NULL: the put does not count.
 */
template <bool called>
GIN_FN ginResult_t ginGdakiPut(const ginDevComm *dc, struct ginSendQueue *queue,
			       const struct ginPeer *peer, uint32_t context, uint32_t how,
			       const struct ginWindowPeer *there, uint64_t off, uint64_t source,
			       uint64_t sourceOff, uint64_t bytes,
			       const struct ginWindowPeer *raiseAt, uint64_t raiseOff, uint64_t add,
			       uint64_t *counters, uint32_t counter, uint64_t timeout,
			       uint64_t from)
{
	uint64_t end = GIN_WORK_FULL;

	if (!ginHowHas(how, GIN_HOW_ANYWHERE) && bytes - 1 < GIN_MLX5_MESSAGE_BYTES)
		end = ginWithShape<31, called, ginGdakiPutNow>(
			ginShapeOf(how, counters != nullptr), queue, peer, how, there, off,
			reinterpret_cast<const struct ginWindowTable *>(source), sourceOff,
			static_cast<uint32_t>(bytes), raiseAt, raiseOff, add, counters, counter);
	if (ginWorkOk(end))
		return ginSuccess;
	struct ginGdakiFrom here = ginGdakiSource(dc, how, source, sourceOff, bytes);
	struct ginWork p = ginGdakiWork(peer, how, there, off, raiseAt, raiseOff, add);
	if (here.scope == GIN_NO_SOURCE)
		end = GIN_WORK_FAILED + ginErrorInvalidArgument;
	ginWorkSetMessage(p, here.address, here.key, bytes, counters, counter);
	return ginWorkElse<ginWorkKind(ginOpPut, 0)>(
		dc, queue, peer, context, how,
		ginGdakiPutWhat(how, here.scope, counters != nullptr), end, timeout, from, p);
}

/* A value of up to 32 bytes, as four words. */
template <uint32_t bytes> GIN_FN constexpr uint32_t ginGdakiValueWhat(uint32_t how)
{
	return ginWorkWhat(ginOpPutValue, bytes, bytes > GIN_MLX5_INLINE_BYTES ? 2 : 1, how);
}

template <uint32_t bytes> struct ginGdakiPutValueNow {
	template <uint32_t shape> struct shaped {
		GIN_FN static uint64_t post(struct ginSendQueue *queue, const struct ginPeer *peer,
					    uint32_t how, const struct ginWindowPeer *there,
					    uint64_t off, uint64_t v0, uint64_t v1, uint64_t v2,
					    uint64_t v3, const struct ginWindowPeer *raiseAt,
					    uint64_t raiseOff, uint64_t add)
		{
			how = ginShapedHow<shape>(how);
			return ginWorkNow(queue, peer, ginHowSharing(how),
					  ginGdakiValueWhat<bytes>(how), [&](struct ginWork &p) {
						  p = ginGdakiWork(peer, how, there, off, raiseAt,
								   raiseOff, add);
						  p.data[0] = v0, p.data[1] = v1, p.data[2] = v2,
						  p.data[3] = v3;
						  return 0u;
					  });
		}
	};
};

template <bool called, uint32_t bytes>
GIN_FN ginResult_t ginGdakiPutValue(const ginDevComm *dc, struct ginSendQueue *queue,
				    const struct ginPeer *peer, uint32_t context, uint32_t how,
				    const struct ginWindowPeer *there, uint64_t off, uint64_t v0,
				    uint64_t v1, uint64_t v2, uint64_t v3,
				    const struct ginWindowPeer *raiseAt, uint64_t raiseOff,
				    uint64_t add, uint64_t timeout, uint64_t from)
{
	uint64_t end = ginWithShape<15, called, ginGdakiPutValueNow<bytes>::template shaped>(
		ginShapeOf(how, false), queue, peer, how, there, off, v0, v1, v2, v3, raiseAt,
		raiseOff, add);

	if (ginWorkOk(end))
		return ginSuccess;
	struct ginWork p = ginGdakiWork(peer, how, there, off, raiseAt, raiseOff, add);
	p.data[0] = v0, p.data[1] = v1, p.data[2] = v2, p.data[3] = v3;
	return ginWorkElse<ginWorkKind(ginOpPutValue, bytes)>(dc, queue, peer, context, how,
							      ginGdakiValueWhat<bytes>(how), end,
							      timeout, from, p);
}

/* `how`: required is the scope to which earlier writes must be released. */
GIN_FN uint32_t ginGdakiSignalWhat(uint32_t how)
{
	return (ginWorkWhat(ginOpSignal, 0, 0, how) & ~(1u << GIN_WORK_AGGREGATE)) |
	       ginWorkRelease(how, ginScopeThread);
}

template <uint32_t shape> struct ginGdakiSignalNow {
	GIN_FN static uint64_t post(struct ginSendQueue *queue, const struct ginPeer *peer,
				    uint32_t how, const struct ginWindowPeer *raiseAt,
				    uint64_t raiseOff, uint64_t add)
	{
		how = ginShapedHow<shape | GIN_SHAPE_RAISES>(how);
		return ginWorkNow(queue, peer, ginHowSharing(how), ginGdakiSignalWhat(how),
				  [&](struct ginWork &p) {
					  p = ginGdakiWork(peer, how, nullptr, 0, raiseAt, raiseOff,
							   add);
					  return 0u;
				  });
	}
};

template <bool called>
GIN_FN ginResult_t ginGdakiSignal(const ginDevComm *dc, struct ginSendQueue *queue,
				  const struct ginPeer *peer, uint32_t context, uint32_t how,
				  const struct ginWindowPeer *raiseAt, uint64_t raiseOff,
				  uint64_t add, uint64_t timeout, uint64_t from)
{
	uint64_t end = ginWithShape<11, called, ginGdakiSignalNow>(
		ginShapeOf(how, false), queue, peer, how, raiseAt, raiseOff, add);

	if (ginWorkOk(end))
		return ginSuccess;
	return ginWorkElse<ginWorkKind(ginOpSignal, 0)>(
		dc, queue, peer, context, how, ginGdakiSignalWhat(how), end, timeout, from,
		ginGdakiWork(peer, how, nullptr, 0, raiseAt, raiseOff, add));
}

#endif
