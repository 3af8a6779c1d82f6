/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * route.cuh - the proxy route: calls become descriptors
 *
 * Called by detail/context_base.cuh and barrier.cuh, on the first thread of the calling coop.
 * Calls ring.cuh. ginDescribe...() make a descriptor; the caller passes it to ginPost() of
 * ring.cuh, as a ginReadyCall, or as a ginPutCall, which is described during the post.
 * ginPostBarrier() and ginPostAtomic() describe, post and wait as needed. A CPU thread does the
 * rest, in backends/proxy/.
 */
#ifndef GIN_PROXY_ROUTE_CUH
#define GIN_PROXY_ROUTE_CUH

#include "../options.cuh"
#include "../detail/results.cuh"
#include "ring.cuh"
#include "../detail/reserve.cuh"

/*
 * `value` in a field of `bits` bits, 33 to 63. A value that does not fit becomes one of the 2^32
 * largest of the field, which are beyond every window. Only the upper half is compared: the minimum
 * costs what a mask costs.
 */
GIN_FN uint64_t ginDescribeBounded(uint64_t value, int bits)
{
	const uint32_t most = (1u << (bits - 32)) - 1, upper = static_cast<uint32_t>(value >> 32);

	return static_cast<uint64_t>(upper < most ? upper : most) << 32 |
	       static_cast<uint32_t>(value);
}

/* counter + 1, or 0 for UINT32_MAX, which is no counter. The largest value names no counter. */
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
 * A put whose descriptor is made during the post: what it loads overlaps with the reservation of a
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
template <class Value> GIN_FN struct ginDescriptor
ginDescribeValue(int peer, uint64_t dst, const Value &value, const ginSignalOp &remote)
{
	struct ginDescriptor d = ginDescribe(ginOpPutValue, peer, remote, sizeof(Value));
	d.word[1] = dst;
	uint64_t word[4] = {};
	memcpy(word, &value, sizeof(Value));
	for (int i = 0; i < static_cast<int>(sizeof(Value) + 7) / 8; i++)
		ginDescribeWord(&d, 2 + i, word[i]);
	return d;
}

GIN_FN struct ginDescriptor ginDescribeGet(int peer, uint64_t src, uint64_t dst, size_t bytes)
{
	struct ginDescriptor d = ginDescribe(ginOpGet, peer, ginSignalOf(GinNone{}), 0);
	d.word[1] = src;
	d.word[2] = dst;
	d.word[3] = ginDescribeBounded(bytes, 63);
	return d;
}

/*
 * Sets a barrier's word at the peer to `epoch`. All that the caller has seen happens before it: D,
 * with system scope.
 */
GIN_FN_COLD ginResult_t ginPostBarrier(struct ginQueue *queue, int peer, uint64_t word,
				       uint64_t epoch, struct ginPoll *poll)
{
	const struct ginRing ring = {queue,	      queue->ring,   queue->posted,
				     queue->logDepth, queue->nRanks, false};
	struct ginReadyCall call = {ginDescribe(ginOpBarrier, peer, ginSignalOf(GinNone{}), 0),
				    ginScopeSystem};

	call.d.word[1] = word;
	ginDescribeWord(&call.d, 2, epoch);
	struct ginPostedAs as = ginPostNowCold<false>(call, ring, nullptr, poll->abort->word);
	if (as.posted == ginPostedFull)
		as = ginRingPostWait({call.d, ring, nullptr, 0}, poll);
	return as.result;
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

/*
 * Takes a slot whose caller has given up, if the proxy has finished with it; else
 * GIN_QUEUE_RESULTS.
 */
GIN_FN uint32_t ginResultReclaim(struct ginQueue *queue)
{
	GIN_NO_UNROLL
	for (uint32_t i = 0; i < GIN_QUEUE_RESULTS; i++) {
		uint64_t abandoned = ginLocalLoad(&queue->abandoned[i]);
		if (abandoned && ginResultWritten(queue, i, abandoned) &&
		    ginLocalCas(&queue->abandoned[i], abandoned, 0))
			return i;
	}
	return GIN_QUEUE_RESULTS;
}

/* Takes a result slot of the ring; GIN_QUEUE_RESULTS: all are in use. */
GIN_FN uint32_t ginResultTake(struct ginQueue *queue)
{
	uint32_t slot = ginSlotTake(&queue->freeResults);
	return slot == GIN_QUEUE_RESULTS ? ginResultReclaim(queue) : slot;
}

/*
 * Posts an atomic and waits for its old value. After a timeout the proxy may still do the atomic.
 */
GIN_FN ginResult_t ginPostAtomic(struct ginReadyCall *call, const struct ginRing &ring,
				 const ginDevComm &dc, const ginOptions &options, uint64_t *old)
{
	struct ginPoll poll = ginPollStart(dc, options);
	struct ginQueue *queue = ring.queue;
	uint32_t slot = ginResultTake(queue);
	uint64_t seen;
	poll.queue = &queue->failed[0];
	for (; slot == GIN_QUEUE_RESULTS; slot = ginResultTake(queue)) {
		ginResult_t result = ginPollStep(poll);
		if (result != ginSuccess)
			return result;
	}
	call->d.word[4] = slot + 1u;
	struct ginPostedAs as = ginPost(*call, ring, nullptr, dc, options);
	if (as.result != ginSuccess) {
		ginSlotFree(&queue->freeResults, slot);
		return as.result;
	}
	uint64_t ticket = as.ticket;
	auto look = [queue, slot, ticket] { return ginResultWritten(queue, slot, ticket + 1); };
	ginResult_t result = ginPollUntil(poll, look, 1, 64, &seen);
	if (result != ginSuccess) {
		ginLocalStore(&queue->abandoned[slot], ticket + 1);
		return result;
	}
	if (seen == 2)
		result = ginAbortResult(
			ginHostWordObserve(&queue->done[ginDescriptorPeer(call->d)]));
	else
		*old = ginHostWordObserve(&queue->result[slot]);
	ginSlotFree(&queue->freeResults, slot);
	return result;
}

#endif
