/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue.cuh - posting descriptors to a context's queue
 *
 * Any number of threads post at the same time; those of a warp that come together reserve together.
 * Room comes first: a ticket for which there is none is given back, so that who gives up holds
 * nothing. test/model/ring.pml is a model of it.
 */
#ifndef GIN_QUEUE_CUH
#define GIN_QUEUE_CUH

#include "descriptor.h"
#include "together.cuh"
#include "wait.cuh"

/* A descriptor as it is made: the top bits are clear, and in word 0 where they count. */
struct ginDescriptor {
	uint64_t word[GIN_DESCRIPTOR_WORDS];
};

GIN_FN uint32_t ginDescriptorPeer(const struct ginDescriptor &d)
{
	return static_cast<uint32_t>(d.word[0] >> GIN_D0_PEER) & 0xfffffu;
}

/* Who posts, how, and where: what never changes of the queue comes along, not to be loaded. */
struct ginPoster {
	struct ginQueue *queue;
	uint64_t *ring, *posted; /* as in the queue */
	uint32_t logDepth, nRanks;
	uint32_t scope; /* how far the source has yet to be released, enum ginScope */
	bool alone;	/* no other thread uses the context */
};

GIN_FN struct ginPoster ginPosterOf(const ginDevComm &dc, uint32_t context, uint32_t scope,
				    bool alone)
{
	return {dc.queues + context,
		dc.rings + context * dc.ringStride,
		dc.posted + static_cast<size_t>(context) * dc.postedStride,
		dc.logDepth,
		dc.nRanks,
		scope,
		alone};
}

/*
 * How a thread uses the words that those who post share. Alone on the context it needs no atomics,
 * and finds them in its L1.
 */
struct ginSharedWords {
	const struct ginPoster &poster;

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
		return poster.alone ? poster.queue->shadow
				    : ginShadowObserve(&poster.queue->shadow);
	}

	/* Brings the shadow up to date, and returns it. Q. */
	GIN_FN uint64_t refresh() const
	{
		uint64_t now = ginConsumedObserve(poster.queue->consumed);
		if (poster.alone)
			poster.queue->shadow = now;
		else
			ginLocalMax(&poster.queue->shadow, now);
		return now;
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
GIN_FN bool ginQueueKeep(const ginSharedWords &words, uint64_t first, uint64_t count,
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

/*
 * A post on its way. In memory, so that those who never post to a queue do not lose the registers:
 * it is made behind the look at the route.
 */
struct ginPosting {
	struct ginDescriptor d;
	struct ginPoster poster;
	const struct ginPeer *to; /* NULL: whatever the peer's state is */
	uint64_t ticket;	  /* once it is posted */
};

/* Writes the descriptor into the place of its ticket. D, release end. */
GIN_FN void ginQueueWrite(const struct ginPosting *p, uint64_t first)
{
	uint64_t lap = p->ticket >> p->poster.logDepth;
	uint64_t phase = (~lap & 1) << 63;
	uint64_t place = p->ticket & ((1ull << p->poster.logDepth) - 1);
	uint64_t *to = p->poster.ring + place * GIN_DESCRIPTOR_WORDS;

	ginDescriptorPublish(to, first | phase, p->d.word[1] | phase);
	for (int i = 2; i < GIN_DESCRIPTOR_WORDS; i += 2)
		ginDescriptorPublish(to + i, p->d.word[i] | phase, p->d.word[i + 1] | phase);
}

/* What became of a post. */
enum ginPosted { ginPostedFull = 0, ginPostedWell = 1, ginPostedLost = 2 };

/*
 * Posts one descriptor of this thread; others may post theirs along. ginPostedFull: there was no
 * room, and nothing is posted; `again`: it was tried before. ginPostedLost: the peer has failed, and
 * the ticket went to nothing. The look at the peer and the tickets' and the shadow's way from memory
 * go on while the source is released.
 */
GIN_FN_COLD uint32_t ginTryPost(struct ginPosting *p, bool again)
{
	const ginSharedWords words = {p->poster};
	uint32_t state = p->to ? ginPeerObserve(p->to).state : static_cast<uint32_t>(ginPeerAlive);
	struct ginTogether all =
		ginTogetherFor(reinterpret_cast<uintptr_t>(p->poster.queue), p->poster.alone);
	bool leads = all.rank == 0;
	uint64_t first = 0, got = 0;

	if (!again) {
		first = leads ? words.claim(all.count) : 0;
		uint64_t consumed = leads ? words.consumed() : 0;
		ginSourceRelease(p->poster.scope);
		got = leads && ginQueueKeep(words, first, all.count, consumed) ? all.count : 0;
	} else if (leads) {
		got = words.claimRoom(all.count, &first);
	}
	got = ginFromLeader(all, got);
	p->ticket = ginFromLeader(all, first) + all.rank;
	if (all.rank >= got)
		return ginPostedFull;
	if (state != ginPeerAlive) {
		ginQueueWrite(p, ginOpNothing);
		return ginPostedLost;
	}
	ginQueueWrite(p, p->d.word[0]);
	words.posted(ginDescriptorPeer(p->d), p->ticket + 1);
	return ginPostedWell;
}

GIN_FN ginResult_t ginPostResult(uint32_t posted, const struct ginAbortLine *line)
{
	return posted == ginPostedWell ? ginSuccess : ginPeerLost(line);
}

/* The same until there is room, or the wait ends otherwise. */
GIN_FN_COLD ginResult_t ginPostWaiting(struct ginPosting *p, struct ginPoll *poll)
{
	uint32_t posted = ginPostedFull;

	ginLocalAdd(&p->poster.queue->waits, 1);
	poll->queue = p->poster.queue->failed;
	while (posted == ginPostedFull) {
		ginResult_t result = ginPollStep(*poll);
		if (result != ginSuccess)
			return result;
		posted = ginTryPost(p, true);
	}
	return ginPostResult(posted, poll->abortLine);
}

/* Posts, and waits for room. */
GIN_FN ginResult_t ginPost(struct ginPosting *p, const ginDevComm &dc, const ginOptions &options)
{
	uint32_t posted = ginTryPost(p, false);
	if (posted != ginPostedFull)
		return ginPostResult(posted, dc.abortLine);
	struct ginPoll poll = ginPollStart(dc, options);
	return ginPostWaiting(p, &poll);
}

/*
 * Waits until all descriptors below `ticket` have been done, to `peer` or, with nRanks, to all. R.
 */
GIN_FN_COLD ginResult_t ginQueueWait(const struct ginQueue *queue, uint32_t peer, uint64_t ticket,
				     struct ginPoll poll)
{
	if (!ticket)
		return ginSuccess;
	poll.queue = queue->failed;
	const uint64_t *word = &queue->done[peer];
	auto look = [word, ticket] {
		uint64_t done = ginDoneObserve(word);
		return done & GIN_QUEUE_FAILED ? 2u : done >= ticket ? 1u : 0u;
	};
	uint64_t seen;
	ginResult_t result = ginPollUntil(poll, look, 1, 64, &seen);
	return seen == 2 ? ginAbortResult(ginHostWordObserve(word)) : result;
}

/* All that has been posted to the peer before, by whoever. */
GIN_FN ginResult_t ginQueueFlush(const struct ginQueue *queue, uint32_t peer,
				 const struct ginPoll &poll)
{
	return ginQueueWait(queue, peer, ginLocalLoad(&queue->posted[peer]), poll);
}

/* Has all that was posted been done, and well? One look for all peers. R. */
GIN_FN bool ginQueueIdle(const struct ginQueue *queue)
{
	uint64_t posted = ginLocalLoad(&queue->posted[queue->nRanks]);
	uint64_t done = posted ? ginDoneObserve(&queue->done[queue->nRanks]) : 0;
	return !(done & GIN_QUEUE_FAILED) && done >= posted;
}

/* All that has been posted to these peers is done; to others it need not be. */
GIN_FN_COLD ginResult_t ginQueueFinish(const struct ginQueue *queue, ginPeerSet peers,
				       const struct ginPoll *poll)
{
	ginResult_t result = ginSuccess;

	if (ginQueueIdle(queue))
		return ginSuccess;
	for (uint32_t i = 0; result == ginSuccess && i < peers.count; i++)
		result = ginQueueFlush(queue, peers.first + i * peers.stride, *poll);
	return result;
}

#endif
