/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post.cuh - one post: a put, value, get or atomic, and the signal after it
 *
 * Called by call.cuh and complete.cuh, which describe a post (work.cuh). Calls queue.cuh.
 *
 *   ginWorkNow()   posts if there is room: reserves, writes the WQEs, hands them over and rings, by
 *                  ginWorkShared() or ginWorkAlone(). Inlined into each call, where the shape is a
 *                  constant.
 *   ginWorkRoom()  the rare paths: waits for room and reserves it, or writes the error record. Not
 *                  inlined.
 *   ginWorkPost()  the loop around both.
 *
 * Lanes of a warp that execute together and post to one send queue, each an equal number of WQEBBs,
 * post together (core/reserve.cuh): one lane reserves for all, each lane writes its own WQEs, and
 * one lane hands over.
 */
#ifndef GIN_GDAKI_POST_CUH
#define GIN_GDAKI_POST_CUH

#include "work.cuh"

/*
 * A post returns the index above the last WQE of all lanes that post together, or one of these
 * values, or GIN_WORK_FAILED + ginResult_t, which is below 256.
 */
#define GIN_WORK_FULL 0ull /* nothing is reserved */
#define GIN_WORK_FAILED (1ull << 63)
#define GIN_WORK_PEER_LOST (GIN_WORK_FAILED + 256)
#define GIN_WORK_QUEUE_LOST (GIN_WORK_FAILED + 257)

GIN_FN bool ginWorkOk(uint64_t end)
{
	return static_cast<int64_t>(end) > 0;
}

/* The return value of a post, from the state of peer and send queue. */
GIN_FN uint64_t ginWorkOutcome(uint32_t state, uint32_t latched, uint64_t end)
{
	if (latched)
		return GIN_WORK_QUEUE_LOST;
	return state == ginPeerAlive ? end : GIN_WORK_PEER_LOST;
}

/*
 * Before the doorbell, by the thread that hands over: notes that some slot below `end` names a
 * counter. W, N and K carry both words to the thread that credits.
 */
GIN_FN void ginWorkCounterFollows(struct ginSendQueue *q, const struct ginWork &p, uint32_t how,
				  uint64_t end)
{
	if (!ginHowHas(how, GIN_HOW_COUNTS))
		return;
	ginPointerSet(&q->counters,
		      reinterpret_cast<uint64_t *>(static_cast<uintptr_t>(p.data[2])));
	ginLocalMax(&q->counted, end);
}

/*
 * 1: a post loads all fields before it reserves. 0: it reserves first, and loads the doorbell
 * fields after it has written the WQEs, which takes fewer registers where cold functions are calls.
 */
#define GIN_WORK_EARLY (!GIN_CALLS)

/*
 * Lanes with one key post together: to one send queue, an equal number of WQEBBs, with equal flags.
 */
GIN_FN uint64_t ginWorkKey(const struct ginSendQueue *q, uint32_t each, uint32_t how)
{
	uint64_t kind =
		each | ginHowHas(how, GIN_HOW_COUNTS) << 4 | ginHowHas(how, GIN_HOW_AGGREGATE) << 5;

	return reinterpret_cast<uintptr_t>(q) ^ kind << 48;
}

/* Room that ginWorkRoom() has reserved. */
struct ginWorkHeld {
	uint64_t first; /* index; without lanes: the return value of the post */
	uint32_t lanes; /* that post together, this lane included: ginTogetherOf(); 0: no room */
};

/*
 * By a thread that shares the send queue; lanes post together. The atomic of the reservation is the
 * slowest step, and nothing before it depends on a load. GIN_WORK_EARLY issues all loads before it:
 * later loads would start after it has returned. A lane may reserve before it knows of a failure;
 * it then writes NOPs.
 */
template <uint32_t kind, class Describe>
GIN_FN uint64_t ginWorkShared(struct ginSendQueue *q, const struct ginPeer *peer, uint32_t how,
			      struct ginWorkHeld held, const Describe &describe)
{
	struct ginWork p = {};
	const ginSharing sharing = ginHowSharing(how);
	const uint32_t each = ginWorkWqebbs(kind, how);
	uint32_t state = ginPeerObserve(peer).state;
	uint32_t latched = ginSendState(q);
	struct ginTogether group = ginTogetherAs(ginWorkKey(q, each, how), held.lanes);
	struct ginSendRange range = {held.first, each * group.count};
	const bool reserves = !held.lanes && !group.rank;

	/* 1. Reserve. */
	if (!GIN_WORK_EARLY && reserves)
		range.first = ginTicketAdd(&q->reserved, range.count);
	const uint32_t more = describe(p);
	struct ginSendFixed f = ginSendLoadFixed(q, ginHowHas(how, GIN_HOW_COUNTS));
	if (GIN_WORK_EARLY)
		ginSendLoadTurn(&f, q);
	uint64_t done = ginDoneLookFirst(&q->done) & ~GIN_SEND_CREDITING;
	if (GIN_WORK_EARLY && reserves)
		range.first = ginTicketAdd(&q->reserved, range.count);
	ginDoneSeen();
	if (!held.lanes) {
		if (group.rank ||
		    !ginSendKeep(q, f.logDepth, range.count, range.first, done, sharing))
			range.first = UINT64_MAX;
		range.first = ginFromLeader(group, range.first);
		if (range.first == UINT64_MAX)
			return GIN_WORK_FULL;
	}
	/* 2. Write. */
	uint64_t end = ginWorkOutcome(state, latched, range.first + range.count);
	ginWorkWriteAll<kind>(p, how | more, f, range, group.rank * each);
	if (!ginWorkOk(end))
		ginWorkVoid(how, each, f, range, group.rank * each);
	/* 3. Hand over, one lane for all. The fence is cumulative: it covers all their sources. */
	const bool toSystem = ginAnyOf(group, ginHowHas(more, GIN_HOW_SYSTEM));
	if (!GIN_WORK_EARLY)
		ginSendLoadLate(&f, q);
	ginMeetAll(group);
	if (group.rank)
		return end;
	ginWorkCounterFollows(q, p, how, range.first + range.count);
	if (toSystem)
		ginSourceRelease(ginScopeSystem);
	ginTurnRelease(sharing);
	if (GIN_WORK_EARLY)
		ginSendLoadRing(&f, q); /* in flight during the exchange */
	/* 4. Ring, if the turn is here. */
	ginSendHandOverReleased(q, f, range, ginHowHas(how, GIN_HOW_AGGREGATE), sharing);
	return end;
}

/*
 * By a thread that has the send queue to itself. The loads of the state of peer and queue are in
 * flight together with the load of `reserved`.
 */
template <uint32_t kind, class Describe>
GIN_FN uint64_t ginWorkAlone(struct ginSendQueue *q, const struct ginPeer *peer, uint32_t how,
			     struct ginWorkHeld held, const Describe &describe)
{
	struct ginWork p = {};
	const uint32_t each = ginWorkWqebbs(kind, how);
	uint32_t state = ginPeerObserve(peer).state;
	uint32_t latched = ginSendState(q);
	struct ginSendFixed f = ginSendLoadFixed(q, false);
	ginSendLoadLate(&f, q);
	struct ginSendRange range = {held.first, each};
	how |= describe(p);
	const bool gpuMemory = f.gpuMemory && !ginHowHas(how, GIN_HOW_SYSTEM);
	if (!held.lanes &&
	    !ginSendReserveTry(q, f.logDepth, range.count, &range.first, ginSharingThread))
		return GIN_WORK_FULL;
	const uint64_t next = range.first + range.count;
	uint64_t end = ginWorkOutcome(state, latched, next);
	ginWorkWriteAll<kind>(p, how, f, range, 0);
	if (!ginWorkOk(end))
		ginWorkVoid(how, each, f, range, 0);
	ginNicRelease(gpuMemory);
	ginWorkCounterFollows(q, p, how, next);
	ginSendRingAlone(q, f, range.first, next, !ginHowHas(how, GIN_HOW_AGGREGATE));
	return end;
}

/*
 * Posts if there is room, or in the room that ginWorkRoom() has reserved. describe(p), called while
 * the reservation is in flight, fills in `p` and returns bits for `how`: GIN_HOW_SYSTEM,
 * GIN_HOW_PART.
 */
template <bool alone, uint32_t kind, class Describe>
GIN_FN uint64_t ginWorkNow(struct ginSendQueue *q, const struct ginPeer *peer, uint32_t how,
			   struct ginWorkHeld held, const Describe &describe)
{
	if constexpr (alone)
		return ginWorkAlone<kind>(q, peer, how, held, describe);
	else
		return ginWorkShared<kind>(q, peer, how, held, describe);
}

/* `how` of ginWorkRoom() and ginWorkFail(): with the context. */
GIN_FN uint32_t ginWorkHow(uint32_t context, uint32_t how)
{
	return how | context << GIN_HOW_CONTEXT;
}

/*
 * After a post that has failed: writes the error record, and returns GIN_WORK_FAILED + ginResult_t.
 * `id`: of the signal, or UINT32_MAX.
 */
GIN_FN_COLD uint64_t ginWorkFail(const ginDevComm *dc, const struct ginSendQueue *q,
				 const struct ginPeer *peer, uint32_t how, uint64_t failed,
				 uint32_t id)
{
	ginResult_t result = ginResultOf(failed);

	if (failed == GIN_WORK_QUEUE_LOST)
		result = ginSendState(q);
	else if (failed == GIN_WORK_PEER_LOST)
		result = ginPeerLost(&dc->abortLine->word);
	ginErrorLeave(dc, result, ginHowCall(how), how >> GIN_HOW_CONTEXT,
		      static_cast<int>(peer - dc->peers), id, 0, 0);
	return GIN_WORK_FAILED + static_cast<uint64_t>(result);
}

/* Reserves room that it has seen free, for the lanes that call it together. */
GIN_FN struct ginWorkHeld ginWorkTryAgain(struct ginSendQueue *q, uint32_t each, uint32_t how)
{
	const ginSharing sharing = ginHowSharing(how);
	struct ginTogether group =
		ginTogetherFor(ginWorkKey(q, each, how), sharing == ginSharingThread);
	uint64_t got = 0, first = 0;

	if (!group.rank)
		got = ginSendReserveFree(q, each, group.count, &first, sharing);
	got = ginFromLeader(group, got);
	first = ginFromLeader(group, first);
	group = ginFirstOf(group, static_cast<uint32_t>(got));
	if (group.rank >= got)
		return {GIN_WORK_FULL, 0};
	return {first, group.mask ? group.mask : 1u << ginLane()};
}

/*
 * After a post of `each` WQEBBs that has returned `early`: reserves room, waiting for it, or writes
 * the error record. `how`: of ginWorkHow().
 */
GIN_FN_COLD struct ginWorkHeld ginWorkRoom(const ginDevComm *dc, struct ginSendQueue *q,
					   const struct ginPeer *peer, uint32_t how, uint32_t each,
					   uint32_t id, uint64_t early, uint64_t timeout,
					   uint64_t from)
{
	const ginSharing sharing = ginHowSharing(how);
	struct ginSendPatience wait = ginSendPatienceStart(dc, timeout, from);

	while (early == GIN_WORK_FULL) {
		ginSendRefresh(q, sharing);
		early = ginWorkOutcome(ginPeerObserve(peer).state, ginSendState(q), GIN_WORK_FULL);
		if (early != GIN_WORK_FULL)
			break;
		struct ginWorkHeld held = ginWorkTryAgain(q, each, how);
		if (held.lanes)
			return held;
		ginResult_t result = ginSendPollStep(q, wait, sharing);
		if (result != ginSuccess)
			early = GIN_WORK_FAILED + static_cast<uint64_t>(result);
	}
	return {ginWorkFail(dc, q, peer, how, early, id), 0};
}

/* The result of a call, from the return value of its post. */
GIN_FN ginResult_t ginWorkResult(uint64_t end)
{
	return ginWorkOk(end) ? ginSuccess : ginResultOf(end);
}

/* Refuses a call: writes the error record, and returns `result`. */
GIN_FN ginResult_t ginWorkRefuse(const ginDevComm *dc, const struct ginSendQueue *q,
				 const struct ginPeer *peer, uint32_t how, uint32_t id,
				 ginResult_t result)
{
	return ginResultOf(ginWorkFail(dc, q, peer, how, GIN_WORK_FAILED + result, id));
}

/*
 * Posts, waiting for room, by post(held), which calls ginWorkNow(). Returns as post() does, after
 * it has written an error record if the post failed. `how`: of ginWorkHow().
 */
template <class Post> GIN_FN uint64_t ginWorkPost(const ginDevComm *dc, struct ginSendQueue *q,
						  const struct ginPeer *peer, uint32_t how,
						  uint32_t each, uint32_t id, uint64_t timeout,
						  uint64_t from, const Post &post)
{
	struct ginWorkHeld held = {GIN_WORK_FULL, 0};

	for (;;) {
		uint64_t end = post(held);
		if (ginWorkOk(end))
			return end;
		held = ginWorkRoom(dc, q, peer, how, each, id, end, timeout, from);
		if (!held.lanes)
			return held.first;
	}
}

/* READs into the window `into` were posted below `end`. P, release end. */
GIN_FN void ginGetsRecord(struct ginSendQueue *q, const struct ginWindowTable *into, uint64_t end)
{
	struct ginSendGets *gets = &q->gets[into->fence == ginScopeSystem];

	ginLocalStore(&gets->into, reinterpret_cast<uintptr_t>(into));
	ginEndRaise(&gets->read, end);
}

#endif
