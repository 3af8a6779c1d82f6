/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call.cuh - the gdaki route: calls that post
 *
 * Called by calls/context_base.cuh, on the first thread of the calling coop. A call is a loop
 * (ginWorkPost) around ginGdaki...Now::post(), which posts if there is room, and ginWorkRoom(),
 * which waits for room or writes the error record.
 *
 *   put      ginGdakiPut       a post for each GiB; the last one has the signal and the counter
 *   value    ginGdakiPutValue
 *   signal   ginGdakiSignal
 *   get      ginGdakiGet, atomics ginGdakiAtomic: complete.cuh
 *
 * All arguments are scalars. Common to all:
 *
 *   dc            ginDevComm.self, for waits and errors
 *   queue         ginGdakiQueue()
 *   peer          &ginDevComm.peers[peer]
 *   context       for the error record; not part of `how`, which most callers know at compile time
 *   how           call, sharing, given, required, aggregate, signal: core/how.cuh
 *   id            of the signal, or UINT32_MAX: for the error record
 *   there, off    the target: &ginWindowPeer of the peer, and an offset
 *   raiseAt, raiseOff, add   the signal: the target window's ginWindowPeer and an offset with
 *                 GIN_HOW_AT, otherwise the byte offset of the signal among the peer's signals
 *   timeout       as in ginOptions
 *   from          ginFromPack()
 *   held          the room that ginWorkRoom() has reserved
 */
#ifndef GIN_GDAKI_CALL_CUH
#define GIN_GDAKI_CALL_CUH

#include "../core/window.cuh"
#include "post.cuh"

/*
 * The send queues of a context; with dc->contexts: those to direct peers, which all contexts share.
 */
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
 * them again, because its fences empty L1: by a relaxed load, which stays where it is and so is in
 * flight during the reservation. A thread alone finds them in L1 by a plain load.
 */
GIN_FN ginWord16 ginGdakiLoad(const void *at, uint32_t how)
{
#if GIN_ON_GPU
	if (ginHowSharing(how) != ginSharingThread)
		return ginLoadPairRelaxed(at);
#else
	(void)how;
	asm("" : "+r"(at)); /* GCC 12 warns of a load from NULL in a branch that is never taken. */
#endif
	return ginDataLoad<ginWord16>(static_cast<const char *>(at));
}

/* ginGdakiLoad(), of which the caller needs 12 bytes. */
GIN_FN ginWord16 ginGdakiLoad12(const void *at, uint32_t how)
{
#if GIN_ON_GPU
	if (!GIN_CALLS && ginHowSharing(how) != ginSharingThread)
		return ginLoad12Relaxed(at);
#endif
	return ginGdakiLoad(at, how);
}

/* The data's target. PCIe may reorder writes by nicKey. */
GIN_FN void ginGdakiTarget(struct ginWork &p, uint32_t how, const struct ginWindowPeer *there,
			   uint64_t off)
{
	ginWord16 part = ginGdakiLoad12(&there->nicAddress, how);

	p.remote = part.half[0] + off;
	p.remoteKey = static_cast<uint32_t>(part.half[1]);
}

/* The signal, if `how` has one. Its key keeps order, so its atomic follows the data. */
GIN_FN void ginGdakiRaise(struct ginWork &p, uint32_t how, const struct ginPeer *peer,
			  const struct ginWindowPeer *raiseAt, uint64_t raiseOff, uint64_t add)
{
	const bool at = ginHowHas(how, GIN_HOW_AT);

	if (!ginHowHas(how, GIN_HOW_RAISES))
		return;
	ginWord16 word = ginGdakiLoad(at ? &raiseAt->nicAddress : &peer->nicSignals, how);
	p.word = word.half[0] + raiseOff;
	p.wordKey = static_cast<uint32_t>(at ? word.half[1] >> 32 : word.half[1]);
	p.add = add;
}

/* This rank's side of a put or get, and the scope to which a put's source must be released. */
struct ginGdakiFrom {
	uint64_t address;
	uint32_t key;
	uint32_t scope; /* enum ginScope */
};

GIN_FN struct ginGdakiFrom ginGdakiHere(const struct ginWindowTable *here, uint64_t off,
					uint32_t how)
{
	ginWord16 first = ginGdakiLoad(&here->slot, how);
	ginWord16 second = ginGdakiLoad(&here->nicAddress, how);

	return {second.half[0] + off, static_cast<uint32_t>(first.half[1] >> 32),
		static_cast<uint32_t>(first.half[0] >> 32)};
}

/* The source of a put: `source` and `off` as of ginGdakiPutNow. */
GIN_FN struct ginGdakiFrom ginGdakiSource(uint32_t how, uint64_t source, uint64_t off)
{
	if (ginHowHas(how, GIN_HOW_ANYWHERE))
		return {off, static_cast<uint32_t>(source), ginScopeSystem};
	return ginGdakiHere(reinterpret_cast<const struct ginWindowTable *>(source), off, how);
}

/*
 * Posts up to 1 GiB; the last post of a put also raises the signal and the counter. `source`: const
 * struct ginWindowTable *, or with GIN_HOW_ANYWHERE a key; `sourceOff` is an offset or the NIC's
 * address. `counters`: of the context.
 */
template <class Form> struct ginGdakiPutNow {
	GIN_FN static uint64_t post(struct ginSendQueue *queue, const struct ginPeer *peer,
				    uint32_t how, const struct ginWindowPeer *there, uint64_t off,
				    uint64_t source, uint64_t sourceOff, uint64_t bytes,
				    const struct ginWindowPeer *raiseAt, uint64_t raiseOff,
				    uint64_t add, uint64_t *counters, uint32_t counter,
				    struct ginWorkHeld held)
	{
		how = Form::how(how);

		return ginWorkNow<Form::alone, ginWorkKind<ginOpPut>>(
			queue, peer, how, held, [&](struct ginWork &p) {
				const bool last = bytes <= GIN_MLX5_MESSAGE_BYTES;
				struct ginGdakiFrom from = ginGdakiSource(how, source, sourceOff);
				ginGdakiTarget(p, how, there, off);
				ginGdakiRaise(p, how, peer, raiseAt, raiseOff, add);
				ginWorkSetMessage(p, from.address, from.key,
						  last ? static_cast<uint32_t>(bytes)
						       : 1u * GIN_MLX5_MESSAGE_BYTES,
						  ginHowHas(how, GIN_HOW_COUNTS) ? counters
										 : nullptr,
						  last ? counter : UINT32_MAX);
				return ginWorkRelease(how, from.scope) |
				       static_cast<uint32_t>(!last) << GIN_HOW_PART;
			});
	}
};

/* ginGdakiFind() found no key: keys have 32 bits. */
#define GIN_NO_KEY UINT64_MAX

/* ginSourceFind(): returns the address and the key, or GIN_NO_KEY. Zero bytes need no window. */
GIN_FN_CALLED ginWord16 ginGdakiFind(const ginDevComm *dc, uint64_t address, uint64_t bytes)
{
	struct ginMlx5Memory found = {0, 0};
	const bool known = !bytes || ginSourceFind(dc->sources, address, bytes, &found);

	return {{found.address, known ? found.key : GIN_NO_KEY}};
}

/*
 * Source and target of a put, and its signal; target and signal of a value. The call computes them
 * for each post, and keeps none.
 */
struct ginGdakiPutWhere {
	const struct ginWindowPeer *there, *raiseAt;
	uint64_t off, raiseOff;
	uint64_t source; /* const struct ginWindowTable *, or a key of ginGdakiFind() */
	uint64_t sourceOff;
	uint64_t *counters; /* of the context; NULL: the put does not count */
};

/* where() returns a ginGdakiPutWhere, which has counters if `counts`. Shape: a ginShape. */
template <bool called, class Shape, class Where>
GIN_FN ginResult_t ginGdakiPut(const ginDevComm *dc, struct ginSendQueue *queue,
			       const struct ginPeer *peer, uint32_t context, uint32_t how,
			       uint32_t id, uint64_t bytes, uint64_t add, bool counts,
			       uint32_t counter, uint64_t timeout, uint64_t from,
			       const Where &where)
{
	how |= static_cast<uint32_t>(counts) << GIN_HOW_COUNTS;
	constexpr uint64_t most = GIN_MLX5_MESSAGE_BYTES;
	const uint32_t each = ginWorkKind<ginOpPut>::wqebbs(how);

	for (uint32_t part = 0;; part++) {
		uint64_t end = ginWorkPost(
			dc, queue, peer, ginWorkHow(ginUnshared(context), how), each, id, timeout,
			from, [&](ginCold<struct ginWorkHeld> held) {
				const uint64_t moved = ginUnshared(part) * most;
				const struct ginGdakiPutWhere w = where();
				return ginWorkShaped<Shape, called, ginGdakiPutNow>(
					how, queue, peer, how, w.there, w.off + moved, w.source,
					w.sourceOff + moved, bytes - moved, w.raiseAt, w.raiseOff,
					add, w.counters, counter, held);
			});
		if (!ginWorkOk(end) || bytes - ginUnshared(part) * most <= most)
			return ginWorkResult(end);
	}
}

/* A value of up to 32 bytes, as four words. */
template <uint32_t bytes> struct ginGdakiPutValueNow {
	template <class Form> struct shaped {
		GIN_FN static uint64_t post(struct ginSendQueue *queue, const struct ginPeer *peer,
					    uint32_t how, const struct ginWindowPeer *there,
					    uint64_t off, uint64_t v0, uint64_t v1, uint64_t v2,
					    uint64_t v3, const struct ginWindowPeer *raiseAt,
					    uint64_t raiseOff, uint64_t add,
					    struct ginWorkHeld held)
		{
			how = Form::how(how);
			return ginWorkNow<Form::alone, ginWorkKind<ginOpPutValue, bytes>>(
				queue, peer, how, held, [&](struct ginWork &p) {
					ginGdakiTarget(p, how, there, off);
					ginGdakiRaise(p, how, peer, raiseAt, raiseOff, add);
					p.data[0] = v0, p.data[1] = v1, p.data[2] = v2,
					p.data[3] = v3;
					return 0u;
				});
		}
	};
};

/* where() returns a ginGdakiPutWhere without a source. */
template <bool called, class Shape, uint32_t bytes, class Where>
GIN_FN ginResult_t ginGdakiPutValue(const ginDevComm *dc, struct ginSendQueue *queue,
				    const struct ginPeer *peer, uint32_t context, uint32_t how,
				    uint32_t id, uint64_t v0, uint64_t v1, uint64_t v2, uint64_t v3,
				    uint64_t add, uint64_t timeout, uint64_t from,
				    const Where &where)
{
	return ginWorkResult(ginWorkPost(
		dc, queue, peer, ginWorkHow(ginUnshared(context), how),
		ginWorkKind<ginOpPutValue, bytes>::wqebbs(how), id, timeout, from,
		[&](ginCold<struct ginWorkHeld> held) {
			const struct ginGdakiPutWhere w = where();
			return ginWorkShaped<Shape, called,
					     ginGdakiPutValueNow<bytes>::template shaped>(
				how, queue, peer, how, w.there, w.off, v0, v1, v2, v3, w.raiseAt,
				w.raiseOff, add, held);
		}));
}

/* `required` of `how` is the scope to which earlier writes must be released. */
template <class Form> struct ginGdakiSignalNow {
	GIN_FN static uint64_t post(struct ginSendQueue *queue, const struct ginPeer *peer,
				    uint32_t how, const struct ginWindowPeer *raiseAt,
				    uint64_t raiseOff, uint64_t add, struct ginWorkHeld held)
	{
		how = Form::how(how);
		return ginWorkNow<Form::alone, ginWorkKind<ginOpSignal>>(
			queue, peer, how, held, [&](struct ginWork &p) {
				ginGdakiRaise(p, how, peer, raiseAt, raiseOff, add);
				return ginWorkRelease(how, ginScopeThread);
			});
	}
};

template <bool called, class Shape>
GIN_FN ginResult_t ginGdakiSignal(const ginDevComm *dc, struct ginSendQueue *queue,
				  const struct ginPeer *peer, uint32_t context, uint32_t how,
				  uint32_t id, const struct ginWindowPeer *raiseAt,
				  uint64_t raiseOff, uint64_t add, uint64_t timeout, uint64_t from)
{
	how |= 1u << GIN_HOW_RAISES;
	return ginWorkResult(ginWorkPost(
		dc, queue, peer, ginWorkHow(context, how), 1, id, timeout, from,
		[&](ginCold<struct ginWorkHeld> held) {
			return ginWorkShaped<ginSignalShape<Shape>, called, ginGdakiSignalNow>(
				how, queue, peer, how, raiseAt, raiseOff, add, held);
		}));
}

#endif
