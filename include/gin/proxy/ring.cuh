/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.cuh - GPU threads and a context's ring: posting descriptors, waiting until they are done
 *
 * Called by route.cuh, detail/context_base.cuh and barrier.cuh. Calls the memory accesses of
 * detail/ordering.cuh, whose labels the comments use. The CPU's side is backends/proxy/engine.c.
 * test/model/ring.pml is a model of steps 1 to 4, test/model/complete.pml of steps 5 and 6.
 *
 * A ticket is a descriptor's number; its slot in the ring is the ticket modulo the depth. A post
 * takes six steps:
 *
 * 1. ticket      ginRingReserve() adds to `producer`, once for all lanes of a warp that post at the
 *                same time (detail/reserve.cuh).
 * 2. descriptor  The call is described and its source released while step 1 waits for memory: D.
 * 3. room        ginRingKeep() checks for room, by the `shadow` of the consumed word, then by the
 *                word itself: Q. Without room the tickets go back. ginRingReserveFree(), the
 *                retry path, takes tickets only where it has seen room.
 * 4. write       ginRingWrite() stores the descriptor into the ticket's slot: D. If the peer has
 *                failed an empty descriptor fills the slot, because a ticket cannot be skipped.
 * 5. record      ginRingRecordPosted() raises `posted`, for later flushes.
 * 6. done        ginRingWait() waits until the done word reaches the ticket: R.
 *
 * ginPostTry() does steps 1 to 5 if there is room; ginPostWait() does what ginPostTry() could not,
 * and waits for room; ginPost() is both. A call that fails while waiting holds no ticket.
 *
 * A thread that is `alone` on its context needs no atomics. That is a template argument of the fast
 * path: a post takes 520 ns with it and 634 ns
 * without (docs/performance.md).
 */
#ifndef GIN_PROXY_RING_CUH
#define GIN_PROXY_RING_CUH

#include "descriptor.h"
#include "../detail/reserve.cuh"
#include "../detail/wait.cuh"

/* A descriptor before it is written: all top bits are clear; word 0 has those of full words. */
struct ginDescriptor {
	uint64_t word[GIN_DESCRIPTOR_WORDS];
};

GIN_FN uint32_t ginDescriptorPeer(const struct ginDescriptor &d)
{
	return static_cast<uint32_t>(d.word[0] >> GIN_D0_PEER) & 0xfffffu;
}

/* A context's ring, with copies of the fields of struct ginQueue that never change. */
struct ginRing {
	struct ginQueue *queue;
	uint64_t *words, *posted; /* ginQueue.ring and ginQueue.posted */
	uint32_t logDepth, nRanks;
	bool alone; /* no other thread uses the context */
};

GIN_FN struct ginRing ginRingOf(const ginDevComm &dc, uint32_t context, bool alone)
{
	return {dc.queues + context,
		dc.rings + context * dc.ringStride,
		dc.posted + static_cast<size_t>(context) * dc.postedStride,
		dc.logDepth,
		dc.nRanks,
		alone};
}

/* Takes `count` tickets, whether or not there is room; returns the first. */
GIN_FN uint64_t ginRingReserve(const struct ginRing &ring, uint64_t count)
{
	if (!ring.alone)
		return ginTicketAdd(&ring.queue->producer, count);
	uint64_t first = ring.queue->producer;
	ring.queue->producer = first + count;
	return first;
}

/* Gives tickets back. False: another thread has taken higher ones, so these cannot go back yet. */
GIN_FN bool ginRingUndo(const struct ginRing &ring, uint64_t first, uint64_t count)
{
	if (!ring.alone)
		return ginLocalCas(&ring.queue->producer, first + count, first);
	ring.queue->producer = first;
	return true;
}

/* The tickets below it have left the ring, as far as the shadow knows. */
GIN_FN uint64_t ginRingConsumed(const struct ginRing &ring)
{
	return ring.alone ? ring.queue->shadow.seen : ginShadowObserve(&ring.queue->shadow.seen);
}

/* Brings the shadow up to date with the consumed word and returns it. Q, acquire end. */
GIN_FN uint64_t ginRingRefresh(const struct ginRing &ring)
{
	struct ginMirror *shadow = &ring.queue->shadow;

	if (!ring.alone)
		return ginHostLook(ring.queue->consumed, shadow)();
	shadow->seen = ginAcquireSystem(ring.queue->consumed);
	return shadow->seen;
}

/*
 * Retry path: takes up to `count` tickets, from *first on, only for room already seen free, so
 * nothing has to be undone and no other thread is held up. Returns how many.
 */
GIN_FN uint64_t ginRingReserveFree(const struct ginRing &ring, uint64_t count, uint64_t *first)
{
	uint64_t depth = 1ull << ring.logDepth;
	uint64_t next = ring.alone ? ring.queue->producer : ginLocalLoad(&ring.queue->producer);
	uint64_t used = next - ginRingConsumed(ring);

	if (used >= depth)
		used = next - ginRingRefresh(ring);
	if (used >= depth) /* or other threads have taken tickets since the load */
		return 0;
	uint64_t got = count < depth - used ? count : depth - used;
	*first = next;
	if (ring.alone)
		ring.queue->producer = next + got;
	else if (!ginLocalCas(&ring.queue->producer, next, next + got))
		return 0;
	return got;
}

/*
 * Keeps the tickets from `first` on if there is room for them, or gives them back. `consumed`: the
 * shadow, as loaded beside the reservation.
 *
 * Only the newest tickets can go back. Until these are the newest, wait: the newer ones go back
 * first, or the proxy makes room for all. This is not a poll step, because a thread that holds
 * tickets must not give up; on the host the wait yields the core.
 */
GIN_FN bool ginRingKeep(const struct ginRing &ring, uint64_t first, uint64_t count,
			uint64_t consumed)
{
	uint64_t depth = 1ull << ring.logDepth;

	while (first + count - consumed > depth) {
		consumed = ginRingRefresh(ring);
		if (first + count - consumed <= depth)
			break;
		if (ginRingUndo(ring, first, count))
			return false;
		ginYield();
	}
	return true;
}

/* Tells later flushes to wait for the tickets below `tickets`: to the peer, and to any peer. */
GIN_FN void ginRingRecordPosted(const struct ginRing &ring, uint32_t peer, uint64_t tickets)
{
	ginLocalMax(&ring.posted[peer], tickets);
	ginLocalMax(&ring.posted[ring.nRanks], tickets);
}

/* One post of one thread. */
struct ginPosting {
	struct ginDescriptor d;
	struct ginRing ring;
	const struct ginPeer *to; /* NULL: do not look at the peer's state */
	uint64_t ticket;	  /* set by posting */
};

/* Writes the descriptor, with `first` as its word 0, into the slot of its ticket. D, release end. */
GIN_FN void ginRingWrite(const struct ginPosting *p, uint64_t first)
{
	uint64_t lap = p->ticket >> p->ring.logDepth;
	uint64_t phase = (~lap & 1) << 63;
	uint64_t slot = p->ticket & ((1ull << p->ring.logDepth) - 1);
	uint64_t *to = p->ring.words + slot * GIN_DESCRIPTOR_WORDS;

	ginDescriptorPublish(to, first | phase, p->d.word[1] | phase);
	for (int i = 2; i < GIN_DESCRIPTOR_WORDS; i += 2)
		ginDescriptorPublish(to + i, p->d.word[i] | phase, p->d.word[i + 1] | phase);
}

/* The outcome of a post. Full: there was no room and nothing is posted. */
enum ginPosted { ginPostedFull = 0, ginPostedOk = 1, ginPostedLost = 2 };

struct ginPostedAs {
	uint64_t ticket; /* of ginPostedOk */
	uint32_t posted; /* enum ginPosted */
	ginResult_t result;
};

/* The tickets of lanes that post together. `first` and `got` are the leader's. */
struct ginReserved {
	struct ginTogether group;
	uint64_t first, got;
};

/* Steps 4 and 5, if this lane got a ticket. `state`: the peer's. */
GIN_FN uint32_t ginRingWriteReserved(struct ginPosting *p, const struct ginReserved &reserved,
				     uint32_t state)
{
	uint64_t got = ginFromLeader(reserved.group, reserved.got);

	p->ticket = ginFromLeader(reserved.group, reserved.first) + reserved.group.rank;
	if (reserved.group.rank >= got)
		return ginPostedFull;
	if (state != ginPeerAlive) {
		ginRingWrite(p, ginOpNothing);
		return ginPostedLost;
	}
	ginRingWrite(p, p->d.word[0]);
	ginRingRecordPosted(p->ring, ginDescriptorPeer(p->d), p->ticket + 1);
	return ginPostedOk;
}

GIN_FN struct ginPostedAs ginPostedResult(const struct ginPosting *p, uint32_t posted,
					  const uint64_t *abortWord)
{
	return {p->ticket, posted, posted == ginPostedLost ? ginPeerLost(abortWord) : ginSuccess};
}

/* A call with a descriptor already made, and the scope to which its source has to be released. */
struct ginReadyCall {
	struct ginDescriptor d;
	uint32_t left; /* enum ginScope */

	GIN_FN uint32_t scope() const { return left; }
	GIN_FN struct ginDescriptor describe() const { return d; }
};

/*
 * Steps 1 to 5 without waiting. The loads that describe the call, the peer's state, the tickets and
 * the shadow overlap.
 */
template <bool alone, class Call>
GIN_FN struct ginPostedAs ginPostNow(const Call &call, struct ginRing ring,
				     const struct ginPeer *to, const uint64_t *abortWord)
{
	ring.alone = alone; /* the value does not change: the compiler learns it */
	uint32_t state = ginPeerStateOf(to);
	struct ginReserved reserved = {
		ginTogetherFor(reinterpret_cast<uintptr_t>(ring.queue), ring.alone), 0, 0};
	bool leads = reserved.group.rank == 0;

	reserved.first = leads ? ginRingReserve(ring, reserved.group.count) : 0;
	/* All lanes load it: a branch for the leader would wait for the load here. */
	uint64_t consumed = ginRingConsumed(ring);
	struct ginPosting p = {call.describe(), ring, to, 0};
	ginSourceRelease(call.scope());
	if (leads && ginRingKeep(ring, reserved.first, reserved.group.count, consumed))
		reserved.got = reserved.group.count;
	uint32_t posted = ginRingWriteReserved(&p, reserved, state);
	return ginPostedResult(&p, posted, abortWord);
}

/*
 * ginPostNow() as a function of its own, called with values in registers: callers that do not post,
 * or that take another route, grow only by this call.
 */
template <bool alone, class Call> GIN_FN_COLD struct ginPostedAs
ginPostNowCold(Call call, struct ginRing ring, const struct ginPeer *to, const uint64_t *abortWord)
{
	return ginPostNow<alone>(call, ring, to, abortWord);
}

/* Retry path: posts only for room already seen free. The source has been released before. */
GIN_FN uint32_t ginRingRetry(struct ginPosting *p)
{
	uint32_t state = ginPeerStateOf(p->to);
	struct ginReserved reserved = {
		ginTogetherFor(reinterpret_cast<uintptr_t>(p->ring.queue), p->ring.alone), 0, 0};

	if (reserved.group.rank == 0)
		reserved.got = ginRingReserveFree(p->ring, reserved.group.count, &reserved.first);
	return ginRingWriteReserved(p, reserved, state);
}

/* Waits for room and posts. */
GIN_FN_COLD struct ginPostedAs ginRingPostWait(struct ginPosting p, struct ginPoll *poll)
{
	uint32_t posted = ginPostedFull;

	ginLocalAdd(&p.ring.queue->waits, 1);
	poll->queue = &p.ring.queue->failed[0];
	while (posted == ginPostedFull) {
		ginResult_t result = ginPollStep(*poll);
		if (result != ginSuccess)
			return {0, ginPostedFull, result};
		posted = ginRingRetry(&p);
	}
	return ginPostedResult(&p, posted, poll->abort->word);
}

/* Posts if there is room: the fast path. */
template <class Call>
GIN_FN struct ginPostedAs ginPostTry(const Call &call, const struct ginRing &ring,
				     const struct ginPeer *to, const ginDevComm &dc)
{
	const uint64_t *abortWord = &dc.abortLine->word;

	return ring.alone ? ginPostNowCold<true>(call, ring, to, abortWord)
			  : ginPostNowCold<false>(call, ring, to, abortWord);
}

/* After a ginPostTry() that returned `as`, not ginPostedOk: waits for room if that was missing. */
template <class Call>
GIN_FN struct ginPostedAs ginPostWait(const struct ginPostedAs &as, const Call &call,
				      const struct ginRing &ring, const struct ginPeer *to,
				      const ginDevComm &dc, const ginOptions &options)
{
	if (as.posted != ginPostedFull)
		return as;
	struct ginPoll poll = ginPollStart(dc, options);
	return ginRingPostWait({call.describe(), ring, to, 0}, &poll);
}

/* Posts, waiting for room. */
template <class Call>
GIN_FN struct ginPostedAs ginPost(const Call &call, const struct ginRing &ring,
				  const struct ginPeer *to, const ginDevComm &dc,
				  const ginOptions &options)
{
	struct ginPostedAs as = ginPostTry(call, ring, to, dc);

	return as.posted == ginPostedOk ? as : ginPostWait(as, call, ring, to, dc, options);
}

/*
 * Step 6: waits until all descriptors to `peer` with lower tickets than `ticket` are done; nRanks
 * means all peers. R, acquire end.
 */
GIN_FN_COLD ginResult_t ginRingWait(struct ginQueue *queue, uint32_t peer, uint64_t ticket,
				    struct ginPoll poll)
{
	if (!ticket)
		return ginSuccess;
	poll.queue = &queue->failed[0];
	const uint64_t *word = &queue->done[peer];
	ginHostLook done(word, &queue->doneMirror[peer]);
	auto look = [&done, ticket] {
		uint64_t tickets = done();
		return tickets & GIN_QUEUE_FAILED ? 2u : tickets >= ticket ? 1u : 0u;
	};
	uint64_t seen;
	ginResult_t result = ginPollUntil(poll, look, 1, 64, &seen);
	return seen == 2 ? ginAbortResult(ginHostWordObserve(word)) : result;
}

/* Waits for all that any thread has posted to the peer so far. */
GIN_FN ginResult_t ginRingFlush(struct ginQueue *queue, uint32_t peer, const struct ginPoll &poll)
{
	return ginRingWait(queue, peer, ginLocalLoad(&queue->posted[peer]), poll);
}

/* Has all that was posted been done, without a failure? One load for all peers. R, acquire end. */
GIN_FN bool ginRingIdle(const struct ginQueue *queue)
{
	uint64_t posted = ginLocalLoad(&queue->posted[queue->nRanks]);
	uint64_t done = posted ? ginDoneObserve(&queue->done[queue->nRanks]) : 0;
	return !(done & GIN_QUEUE_FAILED) && done >= posted;
}

/* Waits until all that was posted to these peers is done. */
GIN_FN_COLD ginResult_t ginRingDrain(struct ginQueue *queue, ginPeerSet peers,
				     const struct ginPoll *poll)
{
	ginResult_t result = ginSuccess;

	if (ginRingIdle(queue))
		return ginSuccess;
	for (uint32_t i = 0; result == ginSuccess && i < peers.count; i++)
		result = ginRingFlush(queue, peers.first + i * peers.stride, *poll);
	return result;
}

#endif
