/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * route.cuh - the proxy route: calls become descriptors
 *
 * Called by calls/context_base.cuh and barrier.cuh, on the first thread of the calling coop. Calls
 * ring.cuh. Each ginProxy...() is one call of class Gin for one thread. It takes scalars
 * (core/how.cuh) and is inlined; the rare paths, waiting for room and the error record, are in
 * ginPostWait(). A CPU thread does the rest, in backends/proxy/.
 *
 * Common arguments:
 *	dc		ginDevComm.self
 *	queue, to	the context's ring and the peer's entry: the caller has their addresses
 *			without a load
 *	how		core/how.cuh
 *	window, where, add	the remote action: ginHowSignal()
 *	timeout, from	ginOptions; `from` packed by ginFromPack()
 */
#ifndef GIN_PROXY_ROUTE_CUH
#define GIN_PROXY_ROUTE_CUH

#include "../core/options.cuh"
#include "../core/results.cuh"
#include "ring.cuh"
#include "../core/reserve.cuh"

/*
 * `value` in a field of `bits` bits, 33 to 63. A value that does not fit becomes one of the 2^32
 * largest of the field, which are beyond every window. Only the upper half is compared: such a
 * minimum is as cheap as a mask.
 */
GIN_FN uint64_t ginDescribeBounded(uint64_t value, int bits)
{
	const uint32_t most = (1u << (bits - 32)) - 1, upper = static_cast<uint32_t>(value >> 32);

	return static_cast<uint64_t>(upper < most ? upper : most) << 32 |
	       static_cast<uint32_t>(value);
}

/* counter + 1, or 0 for UINT32_MAX: no counter. The largest value is no valid counter. */
GIN_FN uint32_t ginDescribeCounter(uint32_t counter)
{
	const uint32_t most = (1u << GIN_D0_COUNTER_BITS) - 1, next = counter + 1u;

	return next < most ? next : most;
}

GIN_FN uint64_t ginDescribeSlot(uint32_t slot, size_t offset)
{
	return static_cast<uint64_t>(slot) << GIN_DESCRIPTOR_OFFSET_BITS |
	       ginDescribeBounded(offset, GIN_DESCRIPTOR_OFFSET_BITS);
}

/* A window and an offset in it, in one word. */
GIN_FN uint64_t ginDescribeOffset(ginWindow_t window, size_t offset)
{
	return ginDescribeSlot(window.table->slot, offset);
}

GIN_FN uint64_t ginRaiseOf(const ginSignalOp &op)
{
	if (!op.present)
		return ginRaiseNone;
	if (!op.at)
		return op.strong ? ginRaiseStrongId : ginRaiseWeakId;
	return op.strong ? ginRaiseStrongAt : ginRaiseWeakAt;
}

/* Sets a word of any value: its top bit goes to word 0. */
GIN_FN void ginDescribeWord(struct ginDescriptor *d, int word, uint64_t value)
{
	const int spill = GIN_D0_SPILL + (word == 7 ? 4 : word - 2);
	d->word[0] |= value >> 63 << spill;
	d->word[word] = value & ~GIN_DESCRIPTOR_PHASE;
}

/* The words that all descriptors have. `extra`: counter + 1 or bytes, as the operation needs. */
GIN_FN struct ginDescriptor ginDescribe(uint32_t op, int peer, const ginSignalOp &remote,
					uint64_t extra)
{
	struct ginDescriptor d = {};
	d.word[0] = op | ginRaiseOf(remote) << GIN_D0_SIGNAL |
		    static_cast<uint64_t>(peer) << GIN_D0_PEER | extra << GIN_D0_COUNTER;
	if (remote.present) {
		d.word[6] = remote.at ? ginDescribeOffset(remote.window, remote.offset) : remote.id;
		ginDescribeWord(&d, 7, remote.value);
	}
	return d;
}

GIN_FN struct ginDescriptor ginDescribePut(int peer, uint64_t dst, const ginSource &src,
					   size_t bytes, const ginSignalOp &remote,
					   uint32_t counter)
{
	struct ginDescriptor d = ginDescribe(ginOpPut, peer, remote, ginDescribeCounter(counter));
	d.word[1] = dst;
	if (!src.anywhere) {
		d.word[2] = ginDescribeOffset(src.window, src.offset);
	} else {
		d.word[0] |= 1ull << GIN_D0_ADDRESS;
		ginDescribeWord(&d, 2, reinterpret_cast<uintptr_t>(src.address));
	}
	d.word[3] = ginDescribeBounded(bytes, 63);
	return d;
}

/*
 * A put whose descriptor is made during the post: its loads overlap with the reservation of a
 * ticket.
 */
struct ginPutCall {
	ginSource source;
	ginWindow_t dstWin;
	size_t dstOff, bytes;
	ginSignalOp remote;
	int peer;
	uint32_t counter;	  /* or UINT32_MAX */
	uint32_t given, required; /* enum ginScope, as in ginOptions */

	GIN_FN uint32_t scope() const { return ginPutFence(source, given, required); }

	GIN_FN struct ginDescriptor describe() const
	{
		return ginDescribePut(peer, ginDescribeOffset(dstWin, dstOff), source, bytes,
				      remote, counter);
	}
};

/* A value of up to 32 bytes is in the descriptor, so nothing has to be released. */
struct ginValueCall {
	ginWindow_t dstWin;
	size_t dstOff;
	uint32_t bytes;
	uint64_t value[4];
	ginSignalOp remote;
	int peer;

	GIN_FN uint32_t scope() const { return ginScopeThread; }

	GIN_FN struct ginDescriptor describe() const
	{
		struct ginDescriptor d = ginDescribe(ginOpPutValue, peer, remote, bytes);
		d.word[1] = ginDescribeOffset(dstWin, dstOff);
		for (int i = 0; i < 4; i++)
			ginDescribeWord(&d, 2 + i, value[i]);
		return d;
	}
};

struct ginGetCall {
	ginWindow_t srcWin;
	size_t srcOff;
	ginWindow_t dstWin;
	size_t dstOff, bytes;
	int peer;

	GIN_FN uint32_t scope() const { return ginScopeThread; }

	GIN_FN struct ginDescriptor describe() const
	{
		struct ginDescriptor d = ginDescribe(ginOpGet, peer, ginSignalOf(GinNone{}), 0);
		d.word[1] = ginDescribeOffset(srcWin, srcOff);
		d.word[2] = ginDescribeOffset(dstWin, dstOff);
		d.word[3] = ginDescribeBounded(bytes, 63);
		return d;
	}
};

struct ginSignalCall {
	ginSignalOp remote;
	int peer;
	uint32_t left; /* enum ginScope */

	GIN_FN uint32_t scope() const { return left; }
	GIN_FN struct ginDescriptor describe() const
	{
		return ginDescribe(ginOpSignal, peer, remote, 0);
	}
};

/* `src`: the table of a window, or with GIN_HOW_ANYWHERE an address. */
template <bool alone>
GIN_FN uint64_t ginProxyPutBy(struct ginQueue *queue, const struct ginPeer *to, uint32_t how,
			      int peer, struct ginWindowTable *dst, uint64_t dstOff, uint64_t src,
			      uint64_t srcOff, uint64_t bytes, struct ginWindowTable *window,
			      uint64_t where, uint64_t add, uint32_t counter)
{
	const struct ginPutCall call = {ginSourceOf(how, src, srcOff),
					{dst},
					dstOff,
					bytes,
					ginHowSignal(how, window, where, add),
					peer,
					counter,
					ginHowGiven(how),
					ginHowRequired(how)};

	return ginPostNow<alone>(call, queue, to, how);
}

/* A value of `bytes` bytes in v0 to v3. */
template <bool alone>
GIN_FN uint64_t ginProxyValueBy(struct ginQueue *queue, const struct ginPeer *to, uint32_t how,
				int peer, struct ginWindowTable *dst, uint64_t dstOff,
				uint32_t bytes, uint64_t v0, uint64_t v1, uint64_t v2, uint64_t v3,
				struct ginWindowTable *window, uint64_t where, uint64_t add)
{
	const struct ginValueCall call = {
		{dst}, dstOff, bytes, {v0, v1, v2, v3}, ginHowSignal(how, window, where, add),
		peer};

	return ginPostNow<alone>(call, queue, to, how);
}

template <bool alone>
GIN_FN uint64_t ginProxyGetBy(struct ginQueue *queue, const struct ginPeer *to, uint32_t how,
			      int peer, struct ginWindowTable *src, uint64_t srcOff,
			      struct ginWindowTable *dst, uint64_t dstOff, uint64_t bytes)
{
	const struct ginGetCall call = {{src}, srcOff, {dst}, dstOff, bytes, peer};

	return ginPostNow<alone>(call, queue, to, how);
}

/* The scope to release first is `required` of `how`. */
template <bool alone> GIN_FN uint64_t ginProxySignalBy(struct ginQueue *queue,
						       const struct ginPeer *to, uint32_t how,
						       int peer, struct ginWindowTable *window,
						       uint64_t where, uint64_t add)
{
	const struct ginSignalCall call = {ginHowSignal(how, window, where, add), peer,
					   ginHowRequired(how)};

	return ginPostNow<alone>(call, queue, to, how);
}

template <class... Args> GIN_FN uint64_t ginProxyPut(bool alone, Args... args)
{
	return alone ? ginProxyPutBy<true>(args...) : ginProxyPutBy<false>(args...);
}

template <class... Args> GIN_FN uint64_t ginProxyValue(bool alone, Args... args)
{
	return alone ? ginProxyValueBy<true>(args...) : ginProxyValueBy<false>(args...);
}

template <class... Args> GIN_FN uint64_t ginProxyGet(bool alone, Args... args)
{
	return alone ? ginProxyGetBy<true>(args...) : ginProxyGetBy<false>(args...);
}

template <class... Args> GIN_FN uint64_t ginProxySignal(bool alone, Args... args)
{
	return alone ? ginProxySignalBy<true>(args...) : ginProxySignalBy<false>(args...);
}

/* Posts `call`, waiting for room. Returns the outcome. */
GIN_FN uint64_t ginProxyPost(const struct ginReadyCall &call, const ginDevComm *dc,
			     uint32_t context, uint32_t how, int peer, uint64_t timeout,
			     uint64_t from)
{
	struct ginQueue *queue = dc->queues + context;

	return ginPost(
		dc, [&] { return queue; }, how, peer, UINT32_MAX, timeout, [&] { return from; },
		[&](uint32_t now) { return ginPostNow<false>(call, queue, nullptr, now); });
}

/*
 * Sets a barrier's word at the peer to `epoch`. All that the caller has seen happens before the
 * store: D, with system scope. Returns the outcome, as ginPostNow() does.
 */
GIN_FN uint64_t ginProxyBarrierSet(struct ginQueue *queue, int peer, uint64_t word, uint64_t epoch,
				   uint32_t how)
{
	struct ginReadyCall call = {ginDescribe(ginOpBarrier, peer, ginSignalOf(GinNone{}), 0),
				    ginScopeSystem};

	call.d.word[1] = word;
	ginDescribeWord(&call.d, 2, epoch);
	return ginPostNow<false>(call, queue, nullptr, how);
}

GIN_FN struct ginDescriptor ginDescribeAtomic(uint32_t op, int peer, uint64_t word, uint32_t bytes,
					      uint64_t operand, uint64_t compare)
{
	struct ginDescriptor d = ginDescribe(op, peer, ginSignalOf(GinNone{}), bytes);
	d.word[1] = word;
	ginDescribeWord(&d, 2, operand);
	ginDescribeWord(&d, 3, compare);
	return d;
}

/*
 * Has the proxy finished the atomic with the ticket next - 1? 1: its old value is in `slot`; 2: it
 * failed. R, acquire end.
 */
GIN_FN uint64_t ginResultWritten(const struct ginQueue *queue, uint32_t slot, uint64_t next)
{
	uint64_t word = ginDoneObserve(&queue->resultTickets[slot]);
	if ((word & ~GIN_QUEUE_FAILED) != next)
		return 0;
	return word & GIN_QUEUE_FAILED ? 2 : 1;
}

/* The result of an atomic, and the old value of its word. */
struct ginOldValue {
	uint64_t old;
	ginResult_t result;
};

/*
 * Waits for the old value of the atomic with the ticket next - 1. After a timeout the proxy may
 * still do the atomic.
 */
GIN_FN struct ginOldValue ginResultAwait(struct ginQueue *queue, uint32_t slot, uint64_t next,
					 int peer, struct ginPoll &poll)
{
	auto look = [queue, slot, next] { return ginResultWritten(queue, slot, next); };
	struct ginOldValue got = {0, ginSuccess};
	uint64_t seen = 0;

	got.result = ginPollUntil(poll, look, 1, 64, &seen);
	if (got.result != ginSuccess) {
		ginLocalStore(&queue->abandoned[slot], next);
		return got;
	}
	if (seen == 2)
		got.result = ginResultOf(ginHostWordObserve(&queue->done[peer]));
	else
		got.old = ginHostWordObserve(&queue->result[slot]);
	ginSlotFree(&queue->freeResults, slot);
	return got;
}

/* Posts an atomic, in `slot` or without an old value. Returns the outcome, as ginPost() does. */
GIN_FN uint64_t ginProxyAtomicPost(const ginDevComm *dc, uint32_t context, uint32_t how, int peer,
				   uint32_t op, struct ginWindowTable *win, uint64_t off,
				   uint32_t bytes, uint64_t operand, uint64_t compare,
				   uint64_t slot, uint64_t timeout, uint64_t from)
{
	struct ginReadyCall call = {
		ginDescribeAtomic(op, peer, ginDescribeOffset({win}, off), bytes, operand, compare),
		ginFenceLeft(ginHowGiven(how), ginScopeSystem)};

	call.d.word[4] = slot;
	return ginProxyPost(call, dc, context, how, peer, timeout, from);
}

/* An atomic whose caller does not want the old value. Writes no error record. */
GIN_FN ginResult_t ginProxyAtomic(const ginDevComm *dc, uint32_t context, uint32_t how, int peer,
				  uint32_t op, struct ginWindowTable *win, uint64_t off,
				  uint32_t bytes, uint64_t operand, uint64_t compare,
				  uint64_t timeout, uint64_t from)
{
	return ginPostedResult(ginProxyAtomicPost(dc, context, how, peer, op, win, off, bytes,
						  operand, compare, 0, timeout, from));
}

/* An atomic that waits for the old value. Writes no error record. */
GIN_FN struct ginOldValue ginProxyAtomicFetch(const ginDevComm *dc, uint32_t context, uint32_t how,
					      int peer, uint32_t op, struct ginWindowTable *win,
					      uint64_t off, uint32_t bytes, uint64_t operand,
					      uint64_t compare, uint64_t timeout, uint64_t from)
{
	struct ginQueue *queue = dc->queues + context;
	struct ginPoll poll = ginPollFor(dc, timeout, from);
	struct ginOldValue got = {0, ginSuccess};

	poll.queue = &queue->failed[0];
	const uint32_t slot = ginSlotWait(
		&queue->freeResults, queue->abandoned,
		[&](uint32_t i, uint64_t next) { return ginResultWritten(queue, i, next) != 0; },
		[&] { return ginPollStep(poll); }, &got.result);
	if (slot == GIN_QUEUE_RESULTS)
		return got;
	uint64_t posted = ginProxyAtomicPost(dc, context, how, peer, op, win, off, bytes, operand,
					     compare, slot + 1u, timeout, from);
	got.result = ginPostedResult(posted);
	if (got.result != ginSuccess) {
		ginSlotFree(&queue->freeResults, slot);
		return got;
	}
	return ginResultAwait(queue, slot, posted, peer, poll);
}

#endif
