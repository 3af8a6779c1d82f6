/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue.cuh - GPU threads post to an mlx5 NIC
 *
 * A post goes five steps. test/model/send.pml is a model of all but the second.
 *
 *   room, reserve   ginSendClaim: indexes for which there is room, or none. Who gives up holds none.
 *   write           each lane makes its WQEs and stores them at its indexes.
 *   hand over       ginSendHandOver, by one for all who post together: one exchange.
 *   ring            ginSendTake, by who has the turn: for all that has been handed over.
 *
 * The turn. The NIC reads WQEs in the order of indexes, and threads come to the end of writing in any.
 * So one turn goes along the queue: it lies in the turn word of the first index that has not been
 * handed over, unless a thread has it. Who has written exchanges the word of his first index for a
 * mark, which says how many there are. If the turn lay there it is his, else he goes: who brings the
 * turn there finds the mark. He never waits for a slower one, and a call that can time out does so
 * before it has reserved anything. Who has the turn rings for his own and puts it down in the next word,
 * without a look before: who posts alone has nothing to find. When that word has been marked meanwhile
 * he keeps the turn, takes all marks that follow, clears their words, rings once for all of them, and
 * so on. What belongs to the turn, the record and the doorbell, needs no lock, and no doorbell can say
 * less than the one before.
 *
 * Held back. A post that aggregates says so in its mark, and does not ring alone. One behind it that
 * does not aggregate rings for it, or whoever waits, for room or for an end: ginSendNudge picks the
 * turn up and rings.
 *
 * The record is not followed by a fence before the doorbell. Should a NIC drop the doorbell, and then
 * find the older record, another doorbell helps: of the next post, or of who waits, who rings again
 * when nothing comes (ginSendNudge). A sender who never posts or waits again would not be helped; the
 * record would have to be later than the NIC's read, which crosses PCIe twice after the doorbell.
 *
 * Completion. The CQ is collapsed, and the last WQE of each post has a CQE: one word says which index
 * was completed last, in 16 bits, and whether well. `done` is behind it by the depth at most, which is
 * half of what 16 bits count, and makes a whole number of it. It is to be read before the CQE: others
 * may raise it past a CQE that was read before, and the difference would then look like one of nearly
 * 65536. A WQE of two WQEBBs is counted by its first; a NOP that follows gives the post its CQE.
 *
 * Counters. A put that counts leaves the counter's number beside the slot of its last WQE. Who raises
 * `done` past such a slot first takes the right to do so, by GIN_SEND_CREDITING, then raises the
 * counters, then `done`: what is seen to be done has been counted, and no slot is used again before.
 * Others see the old `done` meanwhile, and come again. `counted` is read behind the CQE, and says
 * whether there is anything to count at all: without, raising `done` is one compare and swap. Nobody
 * counts for who only waits: readCounter and waitCounter look at the queues themselves.
 *
 * Errors. Behind the WQE that failed all others are flushed, each with an error CQE over the one
 * before. So the first thread that sees one latches it; it says ginMlx5Flushed when the cause is gone.
 * Every later call on the queue returns it.
 *
 * Sharing. By the GPU or by a block: the same steps, with words of that scope. By one thread: no
 * atomics; it writes, rings, and lays the turn where it would be, for who uses the queue next.
 */
#ifndef GIN_GDAKI_CUH
#define GIN_GDAKI_CUH

#include "../detail/ordering.cuh"
#include "../detail/wait.cuh"

/* WQEBBs of one queue that were reserved together. */
struct ginSendRange {
	uint64_t first;
	uint32_t count; /* at most the depth */
};

/*
 * What never changes, loaded here and now, and at once: compilers move plain loads behind the branches
 * that follow, where they come late.
 */
GIN_FN struct ginSendFixed ginSendFixedOf(const struct ginSendQueue *q)
{
	const char *at = reinterpret_cast<const char *>(&q->fixed);
	ginWord16 word[4] = {ginDataLoad<ginWord16>(at), ginDataLoad<ginWord16>(at + 16),
			     ginDataLoad<ginWord16>(at + 32), ginDataLoad<ginWord16>(at + 48)};
	struct ginSendFixed fixed;

	static_assert(sizeof(fixed) == sizeof(word), "a line");
	memcpy(&fixed, word, sizeof(fixed));
	return fixed;
}

GIN_FN uint32_t ginSendMask(const struct ginSendFixed &f)
{
	return (1u << f.logDepth) - 1;
}

GIN_FN struct ginMlx5Wqebb *ginSendPlace(const struct ginSendFixed &f, uint64_t index)
{
	return &f.wqes[index & ginSendMask(f)];
}

/* For the encoders in mlx5.h. The last WQE of a range has a CQE; the others need none. */
GIN_FN struct ginMlx5Slot ginSendSlot(const struct ginSendFixed &f, struct ginSendRange range,
				      uint32_t i)
{
	return {f.queue, static_cast<uint32_t>(range.first) + i,
		i + 1 == range.count ? static_cast<uint32_t>(ginMlx5Signaled) : 0u};
}

/* Latches an error, unless one is. `state`: of the CQE. */
GIN_FN_COLD void ginSendLatch(struct ginSendQueue *q, uint32_t state)
{
	uint32_t error = ginCqeWord(&q->fixed.cqe->timestampLow);
	uint64_t why = ginMlx5CqeCounter(state) | ginMlx5CqeVendorSyndrome(error) << 16 |
		       ginMlx5CqeSyndrome(error) << 24;

	ginLocalCas(&q->latched, 0, why << 32 | ginErrorPeer);
}

/* All below are done, and counted. F, acquire end. */
GIN_FN uint64_t ginSendDone(const struct ginSendQueue *q, ginSharing sharing)
{
	return ginDoneLook(&q->done, sharing) & ~GIN_SEND_CREDITING;
}

/*
 * The CQE's state. One in host memory is looked at by one thread at a time, as in mirror.cuh; others find
 * nothing new there, and `done`. K, acquire end.
 */
GIN_FN uint32_t ginSendLook(struct ginSendQueue *q)
{
	if (q->fixed.near)
		return ginCqeObserve(&q->fixed.cqe->state);
	if (ginMirrorCome(&q->looking))
		return ginMlx5CqeEmpty();
	uint32_t state = ginCqeObserve(&q->fixed.cqe->state);
	ginMirrorLeave(&q->looking);
	return state;
}

/*
 * What the CQE says, as an index: all below are completed. Raises nothing, so that it is for those,
 * too, who do not share the queue. First `done`, then the CQE. K, acquire end.
 */
GIN_FN uint64_t ginSendCompleted(struct ginSendQueue *q, uint64_t done)
{
	uint32_t state = ginSendLook(q);
	uint32_t opcode = ginMlx5CqeOpcode(state);

	if (opcode == ginMlx5CqeInvalid)
		return done;
	if (opcode != ginMlx5CqeRequest) {
		ginSendLatch(q, state);
		return done;
	}
	return done + ((ginMlx5CqeCounter(state) + 1 - static_cast<uint32_t>(done)) & 0xffff);
}

/* Raises the counters of these, then `done`. What it is then. C and F, release ends. */
GIN_FN_COLD uint64_t ginSendCredit(struct ginSendQueue *q, uint64_t from, uint64_t to,
				   ginSharing sharing)
{
	if (sharing != ginSharingThread && !ginLocalCas(&q->done, from, from | GIN_SEND_CREDITING))
		return ginSendDone(q, sharing);
	uint64_t end = ginLocalLoad(&q->counted), *counters = ginPointerOf(&q->counters);
	GIN_NO_UNROLL
	for (uint64_t i = from; i < to && i < end; i++) {
		uint32_t counter = ginSlotCounterTake(&q->fixed.counter[i & ginSendMask(q->fixed)]);
		if (counter)
			ginCounterPublish(&counters[counter - 1]);
	}
	ginDoneCredited(&q->done, to);
	return to;
}

/* Brings `done` up to date, and returns it. K, F. */
GIN_FN_COLD uint64_t ginSendRefresh(struct ginSendQueue *q, ginSharing sharing)
{
	uint64_t done = ginDoneLook(&q->done, sharing);
	uint64_t now = ginSendCompleted(q, done & ~GIN_SEND_CREDITING);

	if (done & GIN_SEND_CREDITING)
		return done & ~GIN_SEND_CREDITING;
	if (now == done)
		return done;
	if (ginLocalLoad(&q->counted) > done)
		return ginSendCredit(q, done, now, sharing);
	return ginDoneRaise(&q->done, done, now, sharing) ? now : ginSendDone(q, sharing);
}

/* ginSuccess, or the queue's first error. */
GIN_FN ginResult_t ginSendState(const struct ginSendQueue *q)
{
	return ginAbortResult(ginLocalLoad(&q->latched));
}

/* Rings for all below `next`, behind a fence. By who has the turn. N, release end. */
GIN_FN void ginSendRing(struct ginSendQueue *q, const struct ginSendFixed &f, uint64_t next)
{
	uint32_t low = static_cast<uint32_t>(next);

	ginNicRing(&f.record->send, ginMlx5RecordWord(low), f.doorbell,
		   ginMlx5Doorbell(f.queue, low));
	ginLocalStore(&q->rung, next);
}

/* The turn word of an index. */
GIN_FN uint32_t *ginSendTurn(const struct ginSendFixed &f, uint64_t index)
{
	return &f.turn[index & ginSendMask(f)];
}

/* Takes the marks from *at on; does any of them ask for a doorbell? W, acquire end. */
GIN_FN bool ginSendCollect(const struct ginSendFixed &f, uint64_t *at)
{
	uint64_t from = *at;
	bool ring = false;

	for (;;) {
		uint32_t mark = ginTurnTake(ginSendTurn(f, *at));
		if (!mark)
			break;
		ring |= !(mark & GIN_TURN_HELD_BACK);
		*at += mark & GIN_TURN_COUNT;
	}
	if (!ring && *at != from)
		ginTurnTaken();
	return ring;
}

/* Puts the turn down at `at`; false: that index is marked, and he who has the turn keeps it. W. */
GIN_FN bool ginSendPutDown(struct ginSendQueue *q, const struct ginSendFixed &f, uint64_t at,
			   ginSharing sharing)
{
	ginLocalStore(&q->handed, at);
	return ginTurnPutDown(ginSendTurn(f, at), sharing);
}

/*
 * By who has the turn, where the next index is marked: rings for all that follow, and puts it down.
 * `Fixed` is what ginSendHandOver was called with.
 */
template <class Fixed>
GIN_FN_COLD void ginSendHold(struct ginSendQueue *q, uint64_t at, ginSharing sharing)
{
	Fixed f = q->fixed;

	do {
		if (ginSendCollect(f, &at)) {
			ginNicFence(f.near);
			ginSendRing(q, f, at);
		}
	} while (!ginSendPutDown(q, f, at, sharing));
}

/* By a thread that has the queue for itself, behind a fence; the turn goes from one index to the other. */
GIN_FN void ginSendAlone(struct ginSendQueue *q, const struct ginSendFixed &f, uint64_t from,
			 uint64_t at, bool ring)
{
	if (ring)
		ginSendRing(q, f, at);
	if (from == at)
		return;
	ginTurnClear(ginSendTurn(f, from));
	ginTurnLay(ginSendTurn(f, at));
	ginLocalStore(&q->handed, at);
}

/*
 * By who has the turn, which lies at `at`. What is below is handed over to him, which was a release in
 * that scope: to the device it is enough for a queue that is near. W.
 */
template <class Fixed>
GIN_FN void ginSendTake(struct ginSendQueue *q, Fixed f, uint64_t at, bool ring, ginSharing sharing)
{
	if (ring) {
		if (!f.near || sharing != ginSharingGpu)
			ginNicFence(f.near);
		ginSendRing(q, f, at);
	}
	if (!ginSendPutDown(q, f, at, sharing))
		ginSendHold<Fixed>(q, at, sharing);
}

/*
 * Hands over what was written, by one thread behind a sync of all who wrote. `hold`: no doorbell for
 * this alone. W, release end.
 *
 * Fixed: ginSendFixed, a copy in registers, which no fence makes the caller load again; or, of few
 * registers, const ginSendFixed &.
 */
template <class Fixed> GIN_FN void ginSendHandOver(struct ginSendQueue *q, Fixed f,
						   struct ginSendRange range, bool hold,
						   ginSharing sharing)
{
	uint32_t *word = ginSendTurn(f, range.first);

	if (sharing == ginSharingThread) {
		ginNicFence(f.near);
		ginSendAlone(q, f, range.first, range.first + range.count, !hold);
		return;
	}
	if (ginTurnMark(word, range.count | (hold ? GIN_TURN_HELD_BACK : 0), sharing) != GIN_TURN)
		return;
	ginTurnClear(word);
	ginSendTake<Fixed>(q, f, range.first + range.count, !hold, sharing);
}

/*
 * Rings for what is held back; `again`: also when nothing is. If somebody has the turn he will do
 * what he finds, and the caller comes again.
 */
GIN_FN_COLD void ginSendNudge(struct ginSendQueue *q, bool again, ginSharing sharing)
{
	uint64_t at = ginLocalLoad(&q->handed);

	if (at == 0 || (!again && at == ginLocalLoad(&q->rung)))
		return;
	const struct ginSendFixed &f = q->fixed;
	if (sharing == ginSharingThread) {
		ginNicFence(f.near);
		ginSendAlone(q, f, at, at, true);
		return;
	}
	if (ginTurnPickUp(ginSendTurn(f, at), sharing)) /* `at` may be a lap behind */
		ginSendTake<const ginSendFixed &>(q, f, ginLocalLoad(&q->handed), true, sharing);
}

/* One turn of a loop that waits for the queue. */
GIN_FN_COLD ginResult_t ginSendPollStep(struct ginSendQueue *q, struct ginPoll &poll,
					ginSharing sharing)
{
	ginSendNudge(q, poll.steps % 4096 == 4095, sharing);
	ginResult_t result = ginSendState(q);
	return result == ginSuccess ? ginPollStep(poll) : result;
}

/*
 * Is there room for `count` indexes from `first` on, which were reserved at once, without a look before? If
 * not, as far as `done` says, they are given back, unless somebody has reserved more since: he does the same
 * first, or somebody brings `done` up to date, and then there is room for these, too. Who gets nothing goes
 * by ginSendTryAgain, which does that. For more than the queue is deep there is never room. `done`: looked at
 * before, or while the reservation was under way.
 */
GIN_FN bool ginSendKeep(struct ginSendQueue *q, uint32_t logDepth, uint32_t count, uint64_t first,
			uint64_t done, ginSharing sharing)
{
	while (first + count - done > 1ull << logDepth) {
		if (ginLocalCas(&q->reserved, first + count, first))
			return false;
		ginYield();
		done = ginSendDone(q, sharing);
	}
	return true;
}

/* Reserves, if there is room as far as `done` says. */
GIN_FN bool ginSendTry(struct ginSendQueue *q, uint32_t logDepth, uint32_t count, uint64_t *first,
		       ginSharing sharing)
{
	if (sharing == ginSharingThread) {
		*first = ginOwnLoad(&q->reserved);
		if (*first + count - ginSendDone(q, sharing) > 1ull << logDepth)
			return false;
		ginLocalStore(&q->reserved, *first + count);
		return true;
	}
	*first = ginTicketAdd(&q->reserved, count);
	uint64_t done = ginSendDone(q, sharing); /* here: it does not wait for the ticket */
	return ginSendKeep(q, logDepth, count, *first, done, sharing);
}

/*
 * Reserves for as many posts of `each` WQEBBs as it has seen room for, at most `posts`, and returns how
 * many: for who has found none before, and so keeps nobody from it.
 */
GIN_FN uint32_t ginSendTryAgain(struct ginSendQueue *q, uint32_t each, uint32_t posts,
				uint64_t *first, ginSharing sharing)
{
	uint64_t depth = 1ull << q->fixed.logDepth, next = ginLocalLoad(&q->reserved);
	uint64_t used = next - ginSendDone(q, sharing);

	if (used + each > depth)
		used = next - ginSendRefresh(q, sharing);
	if (used + each > depth) /* or others have gone on meanwhile */
		return 0;
	uint64_t fit = static_cast<uint32_t>(depth - used) / each;
	if (fit > posts)
		fit = posts;
	*first = next;
	if (sharing == ginSharingThread)
		ginLocalStore(&q->reserved, next + fit * each);
	else if (!ginLocalCas(&q->reserved, next, next + fit * each))
		return 0;
	return static_cast<uint32_t>(fit);
}

/* Reserves range->count WQEBBs, and waits for room. Not ginSuccess: nothing is reserved. */
GIN_FN ginResult_t ginSendClaim(struct ginSendQueue *q, struct ginSendRange *range,
				struct ginPoll &poll, ginSharing sharing)
{
	ginResult_t result = ginSendState(q);
	if (result != ginSuccess ||
	    ginSendTry(q, q->fixed.logDepth, range->count, &range->first, sharing))
		return result;
	do {
		result = ginSendPollStep(q, poll, sharing);
		if (result != ginSuccess)
			return result;
	} while (!ginSendTryAgain(q, range->count, 1, &range->first, sharing));
	return ginSuccess;
}

/*
 * Waits until all below `end` is done. A ticket may be above what anybody keeps: it was taken while
 * somebody held indexes that he has given back.
 */
GIN_FN ginResult_t ginSendWait(struct ginSendQueue *q, uint64_t end, struct ginPoll &poll,
			       ginSharing sharing)
{
	ginResult_t result = ginSendState(q);

	while (result == ginSuccess && ginSendRefresh(q, sharing) < end) {
		uint64_t reserved = ginLocalLoad(&q->reserved);
		if (reserved < end)
			end = reserved;
		result = ginSendPollStep(q, poll, sharing);
	}
	return result;
}

/* What a flush waits for: all that has been reserved, whoever did. */
GIN_FN uint64_t ginSendTicket(const struct ginSendQueue *q)
{
	return ginLocalLoad(&q->reserved);
}

#endif
