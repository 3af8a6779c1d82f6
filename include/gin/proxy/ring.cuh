/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.cuh - GPU threads and a context's ring: posting descriptors, waiting until they are done
 *
 * Called by route.cuh, calls/context_base.cuh, calls/copy_engine.cuh and barrier.cuh. Calls the
 * memory accesses of core/ordering.cuh, whose labels the comments use. The CPU's side is
 * backends/proxy/engine.c. test/model/ring.pml is a model of steps 1 to 4, test/model/complete.pml
 * of steps 5 and 6.
 *
 * A ticket is a descriptor's number; its slot in the ring is the ticket modulo the depth. A post
 * takes six steps:
 *
 * 1. ticket      ginRingReserve() adds to `producer`, once for all lanes of a warp that post at the
 *                same time (core/reserve.cuh).
 * 2. descriptor  The call makes it and releases its source while step 1 waits for memory: D.
 * 3. room        ginRingKeep() checks for room, by the `shadow` of the consumed word, then by the
 *                word itself: Q. Without room the tickets go back. ginRingReserveFree(), the
 *                retry path, takes tickets only where it has seen room.
 * 4. write       ginRingWrite() stores the descriptor into the ticket's slot: D. If the peer has
 *                failed an empty descriptor fills the slot, because a ticket cannot be skipped.
 * 5. record      ginRingRecordPosted() raises `posted`, for later flushes.
 * 6. done        ginRingWait() waits until the done word reaches the ticket: R.
 *
 * ginPostNow() does steps 1 to 5 if there is room; ginPostWait() waits for room; ginPost() repeats
 * both. A call that fails while waiting holds no ticket.
 *
 * A thread that is `alone` on its context needs no atomics: the template argument of that name.
 */
#ifndef GIN_PROXY_RING_CUH
#define GIN_PROXY_RING_CUH

#include "descriptor.h"
#include "../core/reserve.cuh"
#include "../core/wait.cuh"

/* A descriptor before it is written: all top bits are clear; word 0 has those of full words. */
struct ginDescriptor {
	uint64_t word[GIN_DESCRIPTOR_WORDS];
};

GIN_FN uint32_t ginDescriptorPeer(const struct ginDescriptor &d)
{
	return static_cast<uint32_t>(d.word[0] >> GIN_D0_PEER) & 0xfffffu;
}

/*
 * The fields of struct ginQueue that never change. They are loaded while the atomic of step 1 is in
 * flight.
 */
struct ginRing {
	struct ginQueue *queue;
	uint64_t *words, *posted; /* ginQueue.ring and ginQueue.posted */
	uint32_t logDepth, nRanks;
};

GIN_FN struct ginRing ginRingOf(struct ginQueue *queue)
{
	return {queue, queue->ring, queue->posted, queue->logDepth, queue->nRanks};
}

/* Takes `count` tickets, whether or not there is room; returns the first. */
template <bool alone> GIN_FN uint64_t ginRingReserve(struct ginQueue *queue, uint64_t count)
{
	return alone ? queue->producer : ginTicketAdd(&queue->producer, count);
}

/* Gives tickets back. False: another thread has taken higher ones, so these cannot go back yet. */
GIN_FN bool ginRingUndo(struct ginQueue *queue, uint64_t first, uint64_t count)
{
	return ginLocalCas(&queue->producer, first + count, first);
}

/* The tickets below the result have left the ring: the shadow. */
template <bool alone> GIN_FN uint64_t ginRingConsumed(const struct ginQueue *queue)
{
	return alone ? queue->shadow.seen : ginShadowObserve(&queue->shadow.seen);
}

/* Brings the shadow up to date with the consumed word and returns it. Q, acquire end. */
template <bool alone> GIN_FN uint64_t ginRingRefresh(struct ginQueue *queue)
{
	if (!alone)
		return ginHostLook(queue->consumed, &queue->shadow)();
	queue->shadow.seen = ginAcquireSystem(queue->consumed);
	return queue->shadow.seen;
}

/*
 * Retry path: takes up to `count` tickets, from *first on, only for room already seen free, so
 * nothing has to be undone and no other thread waits. Returns their number.
 */
GIN_FN uint64_t ginRingReserveFree(const struct ginRing &ring, uint64_t count, uint64_t *first)
{
	struct ginQueue *queue = ring.queue;
	uint64_t depth = 1ull << ring.logDepth, next = ginLocalLoad(&queue->producer);
	uint64_t used = next - ginRingConsumed<false>(queue);

	if (used >= depth)
		used = next - ginRingRefresh<false>(queue);
	if (used >= depth) /* or other threads have taken tickets since the load */
		return 0;
	uint64_t got = count < depth - used ? count : depth - used;
	*first = next;
	return ginLocalCas(&queue->producer, next, next + got) ? got : 0;
}

/*
 * Keeps the tickets from `first` on if there is room for them, or gives them back. `consumed`: the
 * shadow, loaded while the reservation is in flight. A thread alone has not stored its reservation
 * yet.
 *
 * Only the newest tickets can go back. Until these are the newest, wait: the newer ones go back
 * first, or the proxy makes room for all. This is not a poll step, because a thread that holds
 * tickets must not give up; on the host the wait yields the core.
 */
template <bool alone> GIN_FN bool ginRingKeep(const struct ginRing &ring, uint64_t first,
					      uint64_t count, uint64_t consumed)
{
	uint64_t depth = 1ull << ring.logDepth;

	while (first + count - consumed > depth) {
		consumed = ginRingRefresh<alone>(ring.queue);
		if (first + count - consumed <= depth)
			break;
		if (alone || ginRingUndo(ring.queue, first, count))
			return false;
		ginYield();
	}
	if (alone)
		ring.queue->producer = first + count;
	return true;
}

/* Tells later flushes to wait for the tickets below `tickets`: to the peer, and to any peer. */
GIN_FN void ginRingRecordPosted(const struct ginRing &ring, uint32_t peer, uint64_t tickets)
{
	ginLocalMax(&ring.posted[peer], tickets);
	ginLocalMax(&ring.posted[ring.nRanks], tickets);
}

/* The slot of a descriptor in the ring, and the phase to write. */
struct ginRingSlot {
	uint64_t *words;
	uint64_t phase; /* of the lap: the top bit of each word */
};

GIN_FN struct ginRingSlot ginRingSlotOf(uint64_t *words, uint32_t logDepth, uint64_t ticket)
{
	uint64_t lap = ticket >> logDepth;
	uint64_t slot = ticket & ((1ull << logDepth) - 1);

	return {words + slot * GIN_DESCRIPTOR_WORDS, (~lap & 1) << 63};
}

/* Writes words 2 to 7 of a descriptor. D, release end; ginRingWriteFirst() too. */
GIN_FN void ginRingWriteRest(const struct ginRingSlot &to, const struct ginDescriptor &d)
{
	for (int i = 2; i < GIN_DESCRIPTOR_WORDS; i += 2)
		ginDescriptorPublish(to.words + i, d.word[i] | to.phase, d.word[i + 1] | to.phase);
}

/* Writes words 0 and 1. A post to a failed peer becomes an empty descriptor. */
GIN_FN void ginRingWriteFirst(const struct ginRingSlot &to, const struct ginDescriptor &d,
			      bool alive)
{
	uint64_t first = alive ? d.word[0] : static_cast<uint64_t>(ginOpNothing);

	ginDescriptorPublish(to.words, first | to.phase, d.word[1] | to.phase);
}

GIN_FN void ginRingWrite(const struct ginRing &ring, uint64_t ticket, const struct ginDescriptor &d,
			 bool alive)
{
	const struct ginRingSlot slot = ginRingSlotOf(ring.words, ring.logDepth, ticket);

	ginRingWriteRest(slot, d);
	ginRingWriteFirst(slot, d, alive);
}

/*
 * The outcome of a post in one word: 1 + its ticket, or GIN_QUEUE_FAILED and a ginResult_t. Full:
 * there was no room and nothing is posted. Lost: the peer has failed.
 */
#define GIN_POSTED_FULL GIN_QUEUE_FAILED
#define GIN_POSTED_LOST (GIN_QUEUE_FAILED | 0xff)
#define GIN_POSTED_NOTHING 1ull /* success of a call that takes no ticket */

GIN_FN uint64_t ginPostedFailed(ginResult_t result)
{
	return GIN_QUEUE_FAILED | static_cast<uint64_t>(result);
}

GIN_FN uint64_t ginPostedBy(ginResult_t result)
{
	return result == ginSuccess ? GIN_POSTED_NOTHING : ginPostedFailed(result);
}

GIN_FN ginResult_t ginPostedResult(uint64_t posted)
{
	return posted & GIN_QUEUE_FAILED ? static_cast<ginResult_t>(posted & 0xff) : ginSuccess;
}

/* The tickets of lanes that post together. `first` and `got` are the leader's. */
struct ginReserved {
	struct ginTogether group;
	uint64_t first, got;
};

/* Steps 4 and 5, if this lane got a ticket. `state`: the peer's. Returns the outcome. */
GIN_FN uint64_t ginRingWriteReserved(const struct ginRing &ring, const struct ginDescriptor &d,
				     const struct ginReserved &reserved, uint32_t state)
{
	uint64_t got = ginFromLeader(reserved.group, reserved.got);
	uint64_t ticket = ginFromLeader(reserved.group, reserved.first) + reserved.group.rank;
	bool alive = state == ginPeerAlive;

	if (reserved.group.rank >= got)
		return GIN_POSTED_FULL;
	ginRingWrite(ring, ticket, d, alive);
	if (!alive)
		return GIN_POSTED_LOST;
	ginRingRecordPosted(ring, ginDescriptorPeer(d), ticket + 1);
	return ticket + 1;
}

/* A call whose descriptor is made already, and the scope to which its source has to be released. */
struct ginReadyCall {
	struct ginDescriptor d;
	uint32_t left; /* enum ginScope */

	GIN_FN uint32_t scope() const { return left; }
	GIN_FN struct ginDescriptor describe() const { return d; }
};

/*
 * Steps 1 to 5 without waiting, by a thread that is alone and has released its payload. A retry
 * needs no special path: no other thread can take its room.
 *
 * The peer's state comes from L2, everything else from L1: the state is loaded first and used last.
 * With another order of the other loads, or without the branch that is never taken, the stores wait
 * for the state. Use this only without a release, which empties L1.
 */
template <class Call>
GIN_FN uint64_t ginPostAlone(const Call &call, struct ginQueue *queue, const struct ginPeer *to)
{
	const uint32_t state = ginPeerObserve(to).state;
	struct ginRing ring = {queue, nullptr, nullptr, queue->logDepth, queue->nRanks};
	const uint64_t ticket = ginRingReserve<true>(queue, 1);

	if (!ginRingKeep<true>(ring, ticket, 1, ginRingConsumed<true>(queue)))
		return GIN_POSTED_FULL;
	struct ginDescriptor d = call.describe();
	ring.posted = queue->posted;
	const struct ginRingSlot slot = ginRingSlotOf(queue->ring, ring.logDepth, ticket);
	ginRingWriteRest(slot, d);
	if (ticket & GIN_QUEUE_FAILED) /* never taken: no ticket is that large */
		return GIN_POSTED_FULL;
	ginRingWriteFirst(slot, d, state == ginPeerAlive);
	if (state != ginPeerAlive)
		return GIN_POSTED_LOST;
	ginRingRecordPosted(ring, ginDescriptorPeer(d), ticket + 1);
	return ticket + 1;
}

/*
 * Steps 1 to 5 without waiting; with GIN_HOW_AGAIN by the retry path. Returns the outcome. The
 * loads that describe the call, the peer's state, the tickets and the shadow overlap. A thread that
 * is alone names the peer; other threads may pass NULL if the peer's state does not matter.
 */
template <bool alone, class Call> GIN_FN uint64_t ginPostNow(const Call &call,
							     struct ginQueue *queue,
							     const struct ginPeer *to, uint32_t how)
{
	if (alone && call.scope() == ginScopeThread)
		return ginPostAlone(call, queue, to);
	/* A thread that is alone needs no retry path: no other thread can take its room. */
	const bool again = !alone && ginHowHas(how, GIN_HOW_AGAIN);
	uint32_t state = alone ? ginPeerObserve(to).state : ginPeerStateOf(to);
	struct ginReserved reserved = {ginTogetherFor(reinterpret_cast<uintptr_t>(queue), alone), 0,
				       0};
	const uint64_t count = reserved.group.count;
	bool leads = reserved.group.rank == 0;

	if (leads && !again)
		reserved.first = ginRingReserve<alone>(queue, count);
	/* All lanes load it: a branch for the leader would wait for the load here. */
	uint64_t consumed = ginRingConsumed<alone>(queue);
	struct ginRing ring = ginRingOf(queue);
	struct ginDescriptor d = call.describe();
	ginSourceRelease(call.scope());
	if (leads && again)
		reserved.got = ginRingReserveFree(ring, count, &reserved.first);
	else if (leads && ginRingKeep<alone>(ring, reserved.first, count, consumed))
		reserved.got = count;
	return ginRingWriteReserved(ring, d, reserved, state);
}

/* The number of the context. */
GIN_FN uint32_t ginRingContext(const ginDevComm *dc, const struct ginQueue *queue)
{
	return static_cast<uint32_t>(queue - dc->queues);
}

/* Is the ring full? Q: passed on by the shadow to the post that follows. */
GIN_FN bool ginRingFull(struct ginQueue *queue)
{
	uint64_t next = ginLocalLoad(&queue->producer);

	return next - ginHostLook(queue->consumed, &queue->shadow)() >= 1ull << queue->logDepth;
}

/*
 * After a post with the outcome `posted`, full or lost: waits until the ring has room, or writes
 * the error record. `until`: the deadline of the post, as the last call for the post returned it,
 * or 0. Returns the deadline, or ginPostedFailed(). `id`: of the signal, for the record.
 */
GIN_FN_COLD uint64_t ginPostWait(const ginDevComm *dc, struct ginQueue *queue, uint32_t how,
				 int peer, uint32_t id, uint64_t posted, uint64_t until,
				 uint64_t timeout, uint64_t from)
{
	struct ginPoll poll = ginPollFor(dc, timeout, from);
	ginResult_t result;

	if (posted == GIN_POSTED_FULL) {
		if (!until)
			ginLocalAdd(&queue->waits, 1);
		poll.queue = &queue->failed[0];
		ginPollResume(poll, until);
		result = ginPollClock(poll);
		while (result == ginSuccess && ginRingFull(queue))
			result = ginPollStep(poll);
		if (result == ginSuccess)
			return poll.end;
	} else {
		result = posted == GIN_POSTED_LOST ? ginPeerLost(&dc->abortLine->word)
						   : ginPostedResult(posted);
	}
	if (ginHowCall(how))
		ginErrorLeave(dc, result, ginHowCall(how), ginRingContext(dc, queue), peer, id, 0,
			      0);
	return ginPostedFailed(result);
}

/*
 * Not inlined, in kernels for the proxy alone: inlined, a released post takes nearly twice as long
 * (docs/performance.md).
 */
GIN_FN_CALLED uint64_t ginPostWaitCalled(const ginDevComm *dc, struct ginQueue *queue, uint32_t how,
					 int peer, uint32_t id, uint64_t posted, uint64_t until,
					 uint64_t timeout, uint64_t from)
{
	return ginPostWait(dc, queue, how, peer, id, posted, until, timeout, from);
}

/*
 * Posts, waiting for room, by post(again): ginPostNow() or a function that calls it. Returns the
 * outcome. queue() returns the ring. `called`: the wait is a call.
 */
template <bool called = false, class Queue, class From, class Post>
GIN_FN uint64_t ginPost(const ginDevComm *dc, const Queue &queue, uint32_t how, int peer,
			uint32_t id, uint64_t timeout, const From &from, const Post &post)
{
	uint64_t until = 0, posted;

	for (;;) {
		posted = post(until ? how | 1u << GIN_HOW_AGAIN : how);
		if (!(posted & GIN_QUEUE_FAILED))
			return posted;
		if constexpr (called && !GIN_CALLS)
			until = ginPostWaitCalled(dc, queue(), how, peer, id, posted, until,
						  timeout, from());
		else
			until = ginPostWait(dc, queue(), how, peer, id, posted, until, timeout,
					    from());
		if (until & GIN_QUEUE_FAILED)
			return until;
	}
}

/*
 * Step 6: waits until all descriptors to `peer` with tickets below `ticket` are done; nRanks means
 * all peers. Writes the error record of `how`. R, acquire end.
 */
GIN_FN ginResult_t ginRingWait(const ginDevComm *dc, struct ginQueue *queue, uint32_t how,
			       uint32_t peer, uint64_t ticket, uint64_t timeout, uint64_t from)
{
	if (!ticket)
		return ginSuccess;
	struct ginPoll poll = ginPollFor(dc, timeout, from);
	poll.queue = &queue->failed[0];
	const uint64_t *word = &queue->done[peer];
	ginHostLook done(word, &queue->doneMirror[peer]);
	auto look = [&done, ticket] {
		uint64_t tickets = done();
		return tickets & GIN_QUEUE_FAILED ? 2u : tickets >= ticket ? 1u : 0u;
	};
	uint64_t seen = 0;
	ginResult_t result = ginPollUntil(poll, look, 1, 64, &seen);
	if (seen == 2)
		result = ginResultOf(ginHostWordObserve(word));
	if (result != ginSuccess && ginHowCall(how))
		ginErrorLeave(dc, result, ginHowCall(how), ginRingContext(dc, queue),
			      peer == queue->nRanks ? -1 : static_cast<int>(peer), UINT32_MAX,
			      ticket, ginHostWordObserve(word));
	return result;
}

/* Are all posts done, without a failure? One load for all peers. R, acquire end. */
GIN_FN bool ginRingIdle(const struct ginQueue *queue)
{
	uint64_t posted = ginLocalLoad(&queue->posted[queue->nRanks]);
	uint64_t done = posted ? ginDoneObserve(&queue->done[queue->nRanks]) : 0;
	return !(done & GIN_QUEUE_FAILED) && done >= posted;
}

/* Waits until all posts of any context to the peers of `team` are done. */
GIN_FN ginResult_t ginRingDrain(const ginDevComm *dc, uint64_t team, uint64_t timeout,
				uint64_t from)
{
	const ginPeerSet peers = ginFromUnpack(team);
	ginResult_t result = ginSuccess;

	for (uint32_t c = 0; result == ginSuccess && c < dc->contexts; c++) {
		struct ginQueue *queue = dc->queues + c;
		if (ginRingIdle(queue))
			continue;
		GIN_NO_UNROLL
		for (uint32_t i = 0; result == ginSuccess && i < peers.count; i++) {
			uint32_t peer = peers.first + i * peers.stride;
			result = ginRingWait(dc, queue, 0, peer, ginLocalLoad(&queue->posted[peer]),
					     timeout, from);
		}
	}
	return result;
}

#endif
