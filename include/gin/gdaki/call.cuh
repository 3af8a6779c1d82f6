/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call.cuh - the gdaki route: calls that post
 *
 * Called by detail/context_base.cuh, on the first thread of the calling coop. Each call is one
 * function that is not inlined: it does everything for one thread, waits for room included, writes
 * the error record, and returns the result.
 *
 *   put      ginGdakiPut       one WQE; ginGdakiPutRare for everything else: longer messages, none
 *                              at all, a source by its address
 *   value    ginGdakiPutValue
 *   signal   ginGdakiSignal
 *   get      ginGdakiGet, atomics ginGdakiAtomic: complete.cuh
 *
 * All arguments are scalars, which stay in registers; nvcc propagates constants among them. Common
 * to all:
 *
 *   dc            ginDevComm.self
 *   queue         ginGdakiQueueTo(), or the queue that all contexts share for a direct peer
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
	uint32_t queue = dc.route == ginRouteGdaki ? static_cast<uint32_t>(peer)
						   : dc.peers[peer].sendQueue;
	return ginGdakiQueues(dc, context) + queue;
}

/* Fills in the signal, if there is one. */
GIN_FN void ginGdakiRaise(struct ginWork &p, const struct ginWorkTo &to,
			  const struct ginWindowPeer *raiseAt, uint64_t raiseOff, uint64_t add)
{
	p.raises = ginHowHas(to.how, GIN_HOW_RAISES);
	p.add = add;
	if (p.raises && ginHowHas(to.how, GIN_HOW_AT))
		p.word = {raiseAt->nicAddress + raiseOff, raiseAt->nicStrictKey};
	else if (p.raises)
		p.word = {to.peer->nicSignals + raiseOff, to.peer->nicKey};
}

/*
 * Data at the peer. PCIe may reorder writes by nicKey. A signal uses a key that keeps order, so
 * its atomic follows the data.
 */
GIN_FN struct ginMlx5Memory ginGdakiRemote(const struct ginWindowPeer *there, uint64_t off)
{
	return {there->nicAddress + off, there->nicKey};
}

/* This rank's end of a transfer. */
GIN_FN struct ginMlx5Memory ginGdakiLocal(const struct ginWindowTable *here, uint64_t off)
{
	return {here->nicAddress + off, here->nicKey};
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

/* ginWorkNow(), and after a failure the error record. */
GIN_FN ginResult_t ginGdakiPost(const struct ginWorkTo &to, struct ginWork &p)
{
	uint32_t sent = ginWorkNow(to, p);

	if (sent == ginSentOk)
		return ginSuccess;
	return ginWorkFail(to.dc, to.queue, to.peer, to.context, to.how, sent, p.word.address);
}

/*
 * A put that ginGdakiPut() does not take, from memory that the NIC reads at `local`. More than
 * GIN_WORK_MAX_BYTES are several posts; the last one has the signal and the counter.
 */
GIN_FN_COLD ginResult_t ginGdakiPutLong(const ginDevComm *dc, struct ginSendQueue *queue,
					const struct ginPeer *peer, uint32_t context, uint32_t how,
					uint32_t scope, const struct ginWindowPeer *there,
					uint64_t off, uint64_t local, uint32_t localKey,
					uint64_t bytes,
					const struct ginWindowPeer *raiseAt, uint64_t raiseOff,
					uint64_t add, uint64_t *counters, uint32_t counter,
					uint64_t timeout, uint64_t from)
{
	const struct ginWorkTo to = {dc, queue, peer, context, how, timeout, from};
	struct ginWork p = {};

	p.op = ginOpPut;
	p.scope = scope;
	p.remote = ginGdakiRemote(there, off);
	p.local = {local, localKey};
	ginGdakiRaise(p, to, raiseAt, raiseOff, add);
	p.counter = counter;
	for (;;) {
		const bool last = bytes <= GIN_WORK_MAX_BYTES;
		p.bytes = last ? bytes : GIN_WORK_MAX_BYTES;
		p.messages = ginWorkMessages(p.bytes);
		p.counters = last ? counters : nullptr;
		p.raises = last && ginHowHas(how, GIN_HOW_RAISES);
		uint32_t sent = ginWorkSlowly(to, p);
		if (sent != ginSentOk)
			return ginWorkFail(dc, queue, peer, context, how, sent, p.word.address);
		if (last)
			return ginSuccess;
		p.remote = ginWorkPart(p.remote, 8);
		p.local = ginWorkPart(p.local, 8);
		bytes -= GIN_WORK_MAX_BYTES;
	}
}

/* Finds the source of a put that ginGdakiPut() does not take, and posts it. */
GIN_FN_COLD ginResult_t ginGdakiPutRare(const ginDevComm *dc, struct ginSendQueue *queue,
					const struct ginPeer *peer, uint32_t context, uint32_t how,
					const struct ginWindowPeer *there, uint64_t off,
					uint64_t source, uint64_t sourceOff, uint64_t bytes,
					const struct ginWindowPeer *raiseAt, uint64_t raiseOff,
					uint64_t add, uint64_t *counters, uint32_t counter,
					uint64_t timeout, uint64_t from)
{
	struct ginMlx5Memory local = {0, 0};
	uint32_t scope = ginHowRequired(how);

	if (ginHowHas(how, GIN_HOW_ANYWHERE)) {
		scope = ginScopeSystem;
		if (bytes && !ginSourceFind(dc->sources, source, bytes, &local))
			return ginWorkFail(dc, queue, peer, context, how, ginErrorInvalidArgument,
					   peer->nicSignals + raiseOff);
	} else if (bytes) {
		const struct ginWindowTable *here =
			reinterpret_cast<const struct ginWindowTable *>(source);
		local = ginGdakiLocal(here, sourceOff);
		scope = here->fence > scope ? here->fence : scope;
	}
	return ginGdakiPutLong(dc, queue, peer, context, how, scope, there, off, local.address,
			       local.key, bytes, raiseAt, raiseOff, add, counters, counter, timeout, from);
}

/*
 * `source`: const struct ginWindowTable *, or with GIN_HOW_ANYWHERE an address. `counters`: of the
 * context; NULL: the put does not count.
 */
GIN_FN_COLD ginResult_t ginGdakiPut(const ginDevComm *dc, struct ginSendQueue *queue,
				    const struct ginPeer *peer, uint32_t context, uint32_t how,
				    const struct ginWindowPeer *there, uint64_t off,
				    uint64_t source, uint64_t sourceOff, uint64_t bytes,
				    const struct ginWindowPeer *raiseAt, uint64_t raiseOff,
				    uint64_t add, uint64_t *counters, uint32_t counter,
				    uint64_t timeout, uint64_t from)
{
	const struct ginWorkTo to = {dc, queue, peer, context, how, timeout, from};
	const struct ginWindowTable *here = reinterpret_cast<const struct ginWindowTable *>(source);
	struct ginWork p = {};

	if (ginHowHas(how, GIN_HOW_ANYWHERE) || bytes - 1 >= GIN_MLX5_MESSAGE_BYTES)
		return ginGdakiPutRare(dc, queue, peer, context, how, there, off, source,
				       sourceOff, bytes, raiseAt, raiseOff, add, counters, counter,
				       timeout, from);
	p.op = ginOpPut;
	p.scope = here->fence > ginHowRequired(how) ? here->fence : ginHowRequired(how);
	p.remote = ginGdakiRemote(there, off);
	p.local = ginGdakiLocal(here, sourceOff);
	p.bytes = bytes;
	p.messages = 1;
	ginGdakiRaise(p, to, raiseAt, raiseOff, add);
	p.counters = counters;
	p.counter = counter;
	return ginGdakiPost(to, p);
}

/* A value of `bytes` bytes, up to 32, as four words. */
template <uint32_t bytes>
GIN_FN_COLD ginResult_t ginGdakiPutValue(const ginDevComm *dc, struct ginSendQueue *queue,
					 const struct ginPeer *peer, uint32_t context, uint32_t how,
					 const struct ginWindowPeer *there, uint64_t off,
					 uint64_t v0, uint64_t v1, uint64_t v2, uint64_t v3,
					 const struct ginWindowPeer *raiseAt, uint64_t raiseOff,
					 uint64_t add, uint64_t timeout, uint64_t from)
{
	const struct ginWorkTo to = {dc, queue, peer, context, how, timeout, from};
	const uint64_t value[4] = {v0, v1, v2, v3};
	struct ginWork p = {};

	p.op = ginOpPutValue;
	p.remote = ginGdakiRemote(there, off);
	p.bytes = bytes;
	for (uint32_t i = 0; i < 4; i++) {
		p.value[2 * i] = static_cast<uint32_t>(value[i]);
		p.value[2 * i + 1] = static_cast<uint32_t>(value[i] >> 32);
	}
	ginGdakiRaise(p, to, raiseAt, raiseOff, add);
	return ginGdakiPost(to, p);
}

/* `how`: required is the scope to which earlier writes must be released. */
GIN_FN_COLD ginResult_t ginGdakiSignal(const ginDevComm *dc, struct ginSendQueue *queue,
				       const struct ginPeer *peer, uint32_t context, uint32_t how,
				       const struct ginWindowPeer *raiseAt, uint64_t raiseOff,
				       uint64_t add, uint64_t timeout, uint64_t from)
{
	const struct ginWorkTo to = {dc, queue, peer, context, how, timeout, from};
	struct ginWork p = {};

	p.op = ginOpSignal;
	p.scope = ginHowRequired(how);
	ginGdakiRaise(p, to, raiseAt, raiseOff, add);
	return ginGdakiPost(to, p);
}

#endif
