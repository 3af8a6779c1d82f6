/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring.cuh - posting descriptors to a context's queue
 *
 * Any number of threads post at the same time; those of a warp that come together reserve together.
 * Room comes first: a ticket for which there is none is given back, so that who gives up holds
 * nothing. test/model/ring.pml is a model of it.
 */
#ifndef GIN_PROXY_RING_CUH
#define GIN_PROXY_RING_CUH

#include "descriptor.h"
#include "../detail/reserve.cuh"
#include "../detail/wait.cuh"

/* A descriptor as it is made: the top bits are clear, and in word 0 where they count. */
struct ginDescriptor {
	uint64_t word[GIN_DESCRIPTOR_WORDS];
};

GIN_FN uint32_t ginDescriptorPeer(const struct ginDescriptor &d)
{
	return static_cast<uint32_t>(d.word[0] >> GIN_D0_PEER) & 0xfffffu;
}

/* Who posts, how, and where: what never changes of the queue comes along, not to be loaded. */
struct ginRing {
	struct ginQueue *queue;
	uint64_t *ring, *posted; /* as in the queue */
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

/*
 * How a thread uses the words that those who post share. Alone on the context it needs no atomics,
 * and finds them in its L1.
 */
struct ginSharedWords {
	const struct ginRing &poster;

	GIN_FN uint64_t claim(uint64_t count) const
	{
		if (!poster.alone)
			return ginTicketAdd(&poster.queue->producer, count);
		uint64_t first = poster.queue->producer;
		poster.queue->producer = first + count;
		return first;
	}

	/* False: somebody has claimed tickets above. */
	GIN_FN bool giveBack(uint64_t first, uint64_t count) const
	{
		if (!poster.alone)
			return ginLocalCas(&poster.queue->producer, first + count, first);
		poster.queue->producer = first;
		return true;
	}

	GIN_FN uint64_t consumed() const
	{
		return poster.alone ? poster.queue->shadow.seen
				    : ginShadowObserve(&poster.queue->shadow.seen);
	}

	/* Brings the shadow up to date, and returns it. Q. */
	GIN_FN uint64_t refresh() const
	{
		struct ginMirror *shadow = &poster.queue->shadow;
		if (!poster.alone)
			return ginHostLook(poster.queue->consumed, shadow)();
		shadow->seen = ginAcquireSystem(poster.queue->consumed);
		return shadow->seen;
	}

	/*
	 * Claims up to `count` tickets from *first on for which there is room, and returns how many. For
	 * those who have found none before: they claim nothing that they would have to give back, which
	 * can be done from the top alone, and so keep nobody else from it.
	 */
	GIN_FN uint64_t claimRoom(uint64_t count, uint64_t *first) const
	{
		uint64_t depth = 1ull << poster.logDepth;
		uint64_t next = poster.alone ? poster.queue->producer
					     : ginLocalLoad(&poster.queue->producer);
		uint64_t used = next - consumed();
		if (used >= depth)
			used = next - refresh();
		if (used >= depth) /* or others have gone on meanwhile */
			return 0;
		uint64_t got = count < depth - used ? count : depth - used;
		*first = next;
		if (poster.alone)
			poster.queue->producer = next + got;
		else if (!ginLocalCas(&poster.queue->producer, next, next + got))
			return 0;
		return got;
	}

	GIN_FN void posted(uint32_t peer, uint64_t tickets) const
	{
		ginLocalMax(&poster.posted[peer], tickets);
		ginLocalMax(&poster.posted[poster.nRanks], tickets);
	}
};

/*
 * Is there room for the claimed tickets from `first` on? `consumed`: what the shadow was. If not they
 * are given back, unless somebody has claimed more since: he does the same first, or has found room,
 * and then there is room for these too. Who holds tickets cannot leave: no poll step, but a host
 * thread lets that somebody run.
 */
GIN_FN bool ginRingKeep(const ginSharedWords &words, uint64_t first, uint64_t count,
			uint64_t consumed)
{
	uint64_t depth = 1ull << words.poster.logDepth;

	while (first + count - consumed > depth) {
		consumed = words.refresh();
		if (first + count - consumed <= depth)
			break;
		if (words.giveBack(first, count))
			return false;
		ginYield();
	}
	return true;
}

/* A post on its way. */
struct ginPosting {
	struct ginDescriptor d;
	struct ginRing poster;
	const struct ginPeer *to; /* NULL: whatever the peer's state is */
	uint64_t ticket;	  /* once it is posted */
};

/* Writes the descriptor into the place of its ticket. D, release end. */
GIN_FN void ginRingWrite(const struct ginPosting *p, uint64_t first)
{
	uint64_t lap = p->ticket >> p->poster.logDepth;
	uint64_t phase = (~lap & 1) << 63;
	uint64_t slot = p->ticket & ((1ull << p->poster.logDepth) - 1);
	uint64_t *to = p->poster.ring + slot * GIN_DESCRIPTOR_WORDS;

	ginDescriptorPublish(to, first | phase, p->d.word[1] | phase);
	for (int i = 2; i < GIN_DESCRIPTOR_WORDS; i += 2)
		ginDescriptorPublish(to + i, p->d.word[i] | phase, p->d.word[i + 1] | phase);
}

/* What became of a post. */
enum ginPosted { ginPostedFull = 0, ginPostedOk = 1, ginPostedLost = 2 };

struct ginPostedAs {
	uint64_t ticket; /* once it is posted */
	uint32_t posted; /* enum ginPosted */
	ginResult_t result;
};

/* What those who have come together have claimed: of the leader, who tells the others. */
struct ginReserved {
	struct ginTogether group;
	uint64_t first, got;
};

/*
 * Writes this thread's descriptor, if there was room. ginPostedLost: the peer has failed, and the
 * ticket went to nothing.
 */
GIN_FN uint32_t ginPostClaimed(struct ginPosting *p, const struct ginReserved &claimed,
			       uint32_t state)
{
	const ginSharedWords words = {p->poster};
	uint64_t got = ginFromLeader(claimed.group, claimed.got);

	p->ticket = ginFromLeader(claimed.group, claimed.first) + claimed.group.rank;
	if (claimed.group.rank >= got)
		return ginPostedFull;
	if (state != ginPeerAlive) {
		ginRingWrite(p, ginOpNothing);
		return ginPostedLost;
	}
	ginRingWrite(p, p->d.word[0]);
	words.posted(ginDescriptorPeer(p->d), p->ticket + 1);
	return ginPostedOk;
}

GIN_FN struct ginPostedAs ginPostEnd(const struct ginPosting *p, uint32_t posted,
				     const uint64_t *abortWord)
{
	return {p->ticket, posted, posted == ginPostedLost ? ginPeerLost(abortWord) : ginSuccess};
}

/* A call whose descriptor is there already, and how far what it sends has yet to be released. */
struct ginReadyCall {
	struct ginDescriptor d;
	uint32_t left; /* enum ginScope */

	GIN_FN uint32_t scope() const { return left; }
	GIN_FN struct ginDescriptor describe() const { return d; }
};

/*
 * Posts one descriptor of this thread; others may post theirs along. ginPostedFull: there was no room,
 * and nothing is posted. What the call takes from memory to describe itself, the look at the peer, the
 * tickets and the shadow are under way at the same time.
 */
template <bool alone, class Call>
GIN_FN struct ginPostedAs ginPostInline(const Call &call, struct ginRing poster,
					const struct ginPeer *to, const uint64_t *abortWord)
{
	poster.alone = alone; /* as it is: the compiler knows it now */
	const ginSharedWords words = {poster};
	uint32_t state = ginPeerStateOf(to);
	struct ginReserved claimed = {
		ginTogetherFor(reinterpret_cast<uintptr_t>(poster.queue), poster.alone), 0, 0};
	bool leads = claimed.group.rank == 0;

	claimed.first = leads ? words.claim(claimed.group.count) : 0;
	/* By all: of the leader alone it would be waited for here. */
	uint64_t consumed = words.consumed();
	struct ginPosting p = {call.describe(), poster, to, 0};
	ginSourceRelease(call.scope());
	if (leads && ginRingKeep(words, claimed.first, claimed.group.count, consumed))
		claimed.got = claimed.group.count;
	uint32_t posted = ginPostClaimed(&p, claimed, state);
	return ginPostEnd(&p, posted, abortWord);
}

/*
 * Called with what is in registers, so that a call that does not post, or has another route, is not
 * larger for it than this.
 */
template <bool alone, class Call> GIN_FN_COLD struct ginPostedAs
ginPostOnce(Call call, struct ginRing poster, const struct ginPeer *to, const uint64_t *abortWord)
{
	return ginPostInline<alone>(call, poster, to, abortWord);
}

/* The same of one for which there was no room before, and whose source is released. */
GIN_FN uint32_t ginPostAgain(struct ginPosting *p)
{
	const ginSharedWords words = {p->poster};
	uint32_t state = ginPeerStateOf(p->to);
	struct ginReserved claimed = {
		ginTogetherFor(reinterpret_cast<uintptr_t>(p->poster.queue), p->poster.alone), 0,
		0};

	if (claimed.group.rank == 0)
		claimed.got = words.claimRoom(claimed.group.count, &claimed.first);
	return ginPostClaimed(p, claimed, state);
}

/* Until there is room, or the wait ends otherwise. */
GIN_FN_COLD struct ginPostedAs ginPostWaiting(struct ginPosting p, struct ginPoll *poll)
{
	uint32_t posted = ginPostedFull;

	ginLocalAdd(&p.poster.queue->waits, 1);
	poll->queue = &p.poster.queue->failed[0];
	while (posted == ginPostedFull) {
		ginResult_t result = ginPollStep(*poll);
		if (result != ginSuccess)
			return {0, ginPostedFull, result};
		posted = ginPostAgain(&p);
	}
	return ginPostEnd(&p, posted, poll->abort->word);
}

/* Posts where there is room. */
template <class Call>
GIN_FN struct ginPostedAs ginPostTry(const Call &call, const struct ginRing &poster,
				     const struct ginPeer *to, const ginDevComm &dc)
{
	const uint64_t *abortWord = &dc.abortLine->word;

	return poster.alone ? ginPostOnce<true>(call, poster, to, abortWord)
			    : ginPostOnce<false>(call, poster, to, abortWord);
}

/* What ginPostTry() has not posted well: waits for room, if that is why. */
template <class Call>
GIN_FN struct ginPostedAs ginPostElse(const struct ginPostedAs &as, const Call &call,
				      const struct ginRing &poster, const struct ginPeer *to,
				      const ginDevComm &dc, const ginOptions &options)
{
	if (as.posted != ginPostedFull)
		return as;
	struct ginPoll poll = ginPollStart(dc, options);
	return ginPostWaiting({call.describe(), poster, to, 0}, &poll);
}

/* Posts, and waits for room. */
template <class Call>
GIN_FN struct ginPostedAs ginPost(const Call &call, const struct ginRing &poster,
				  const struct ginPeer *to, const ginDevComm &dc,
				  const ginOptions &options)
{
	struct ginPostedAs as = ginPostTry(call, poster, to, dc);

	return as.posted == ginPostedOk ? as : ginPostElse(as, call, poster, to, dc, options);
}

/*
 * Waits until all descriptors below `ticket` have been done, to `peer` or, with nRanks, to all. R.
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

/* All that has been posted to the peer before, by whoever. */
GIN_FN ginResult_t ginRingFlush(struct ginQueue *queue, uint32_t peer, const struct ginPoll &poll)
{
	return ginRingWait(queue, peer, ginLocalLoad(&queue->posted[peer]), poll);
}

/* Has all that was posted been done, and well? One look for all peers. R. */
GIN_FN bool ginRingIdle(const struct ginQueue *queue)
{
	uint64_t posted = ginLocalLoad(&queue->posted[queue->nRanks]);
	uint64_t done = posted ? ginDoneObserve(&queue->done[queue->nRanks]) : 0;
	return !(done & GIN_QUEUE_FAILED) && done >= posted;
}

/* All that has been posted to these peers is done; to others it need not be. */
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
