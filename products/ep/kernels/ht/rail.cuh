/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rail.cuh - high throughput between domains: rings of chunks from rail peer to rail peer
 *
 * Ranks of a domain are direct to each other. A row goes to another domain once, to the rail peer
 * there, which forwards it to the ranks of its domain; a combine puts a domain's sums. A chunk has
 * the rows of 32 tokens, or none, so that both ends count chunks alike:
 *
 *	EP_HT_HEAD	EpHt::shape()
 *	[row]		meta, then the row
 *
 * Group g of a rank's tokens goes by lane, which is a context, g % lanes. Chunk number c of a lane,
 * counted over all calls, goes by slot c % EP_HT_DEPTH of the ring. A put brings the chunk and
 * raises the slot's signal. The receiver raises another signal of the slot when it has read the
 * chunk: the slot is free then, and so is the staged chunk, which the put has read. Chunks of a
 * lane may be put, and read, in any order.
 *
 * No deadlock: all teams go through their groups in ascending order. Look at the lowest group of
 * all ranks that a receiver has not read. Its sender waits only until chunks of lower groups are
 * read, which they are.
 */
#ifndef GIN_EP_HT_RAIL_CUH
#define GIN_EP_HT_RAIL_CUH

#include "notify.cuh"

/* A team puts together. */
#if GIN_ON_GPU
using epTeamCoop = GinWarp;
#else
using epTeamCoop = GinThread;
#endif

/* The rail peer in domain d. */
GIN_FN uint32_t epHtRailPeer(const epPlan &plan, const epHtPlan &ht, uint32_t d)
{
	return d * ht.domainSize + plan.rank - ht.firstPeer;
}

/* Raises all signals that the rail peer in domain d, and this rank, expect from each other. */
GIN_FN_COLD void epHtMarkPeer(const epArgs &args, uint32_t d)
{
	const epPlan &plan = args.plan;
	const epHtPlan &ht = args.ht.plan;
	const uint32_t peer = epHtRailPeer(plan, ht, d);
	ginResult_t result = ginSuccess;
	GIN_NO_UNROLL
	for (uint32_t i = 0; i < plan.lanes * EP_HT_SIGNALS; i++) {
		const uint32_t kind = i / plan.lanes;
		const EpGin<GIN_ROUTES_ALL> gin(args.dc, i % plan.lanes);
		gin.signal(static_cast<int>(plan.rank),
			   GinSignalAdd{epHtSignalId(ht, kind, d), EP_GAVE_UP}, GinThread{},
			   epFrom(args, plan.rank));
		if (result == ginSuccess)
			result = gin.putValue(
				static_cast<int>(peer), plan.slab, epMarkAt(plan, plan.rank),
				uint64_t{1},
				GinSignalAdd{epHtSignalId(ht, kind, ht.domain), EP_GAVE_UP},
				GinThread{}, epFrom(args, peer));
	}
}

GIN_FN_COLD void epHtMarkRail(const epArgs &args)
{
	GIN_NO_UNROLL
	for (uint32_t d = 0; d < args.ht.plan.domains; d++)
		if (d != args.ht.plan.domain)
			epHtMarkPeer(args, d);
}

/* One look at a signal of a rail peer. */
GIN_FN_COLD bool epHtReached(const epArgs &args, uint32_t lane, uint32_t id, uint64_t least)
{
	return epReached<false>(args, lane, id, least);
}

/* One thread waits for a signal of a rail peer. False: the peer is lost. */
GIN_FN_COLD bool epHtAwaitSignal(const epArgs &args, uint32_t number, uint32_t peer, uint32_t lane,
				 uint32_t id, uint64_t least, uint32_t epoch)
{
	const epPlan &plan = args.plan;
	const EpGin<GIN_ROUTES_ALL> gin(args.dc, lane);
	const uint32_t times = args.ht.plan.domainSize > 1 ? EP_HT_PATIENT_RAIL : 1;
	const uint64_t began = epTraceBegin(args);
	ginResult_t result = gin.waitSignal(id, least, GinThread{}, epHtFrom(args, peer, times));
	if (ginBlockIndex() == 0 || number == ginEpCallHtNotify)
		epTraceWaited(args, epTraceCall(number), peer, epoch, began, result == ginSuccess);
	if (epWordLoad(&plan.state->failed))
		return false; /* this rank has raised its own signals */
	if (result == ginSuccess && !gin.readValue(plan.slab, epMarkAt(plan, peer)))
		return true;
	uint64_t seen = least + EP_GAVE_UP;
	if (result == ginSuccess)
		result = ginErrorPeer;
	else
		seen = gin.readSignal(id);
	epHtFail<true>(args, number, static_cast<int32_t>(peer), result, epoch, least, seen);
	return false;
}

/* The rings of this rank in one call. */
class epHtRings
{
	const epArgs &args;
	const epPlan &plan;
	const epHtPlan &ht;
	const uint32_t number, epoch;

public:
	GIN_FN epHtRings(const epArgs &a, uint32_t n, uint32_t e)
	    : args(a), plan(a.plan), ht(a.ht.plan), number(n), epoch(e)
	{
	}

	/* A chunk: its ring by domain and lane, its number. */
	struct Chunk {
		uint32_t d, lane, slot;
		uint64_t turn; /* chunks before it in the slot */
	};

	GIN_FN Chunk sent(uint32_t d, uint32_t group) const { return chunk(0, d, group); }
	GIN_FN Chunk received(uint32_t d, uint32_t group) const { return chunk(1, d, group); }

	/*
	 * Where a chunk is filled that is sent, where a received one is. A rail peer that is direct
	 * gets it in its ring at once, others by a put.
	 */
	GIN_FN char *filledAt(const Chunk &c) const
	{
		char *const slab = slabOf(c);
		return slab ? slab + at(ht.ringAt, c.d, c)
			    : plan.own + at(ht.stagedAt, ht.domain, c);
	}
	GIN_FN char *receivedAt(const Chunk &c) const
	{
		return plan.own + at(ht.ringAt, ht.domain, c);
	}

	/* The slot is free at the rail peer, and so is the staged one. By one thread. */
	GIN_FN bool isFree(const Chunk &c) const
	{
		return c.turn == 0 || reached(c, EP_HT_DEPTH + c.slot, c.turn);
	}
	GIN_FN bool awaitFree(const Chunk &c) const
	{
		return isFree(c) || await(c, EP_HT_DEPTH + c.slot, c.turn);
	}

	/* By one thread. */
	GIN_FN bool isThere(const Chunk &c) const { return reached(c, c.slot, c.turn + 1); }
	GIN_FN bool awaitChunk(const Chunk &c) const
	{
		return isThere(c) || await(c, c.slot, c.turn + 1);
	}

	/*
	 * Sends a chunk of `bytes` after its head, which all threads of the team have filled, or
	 * whose tickets they have taken. By all threads of the team.
	 */
	GIN_FN bool put(const Chunk &c, uint32_t shape, size_t bytes) const
	{
		const uint32_t peer = epHtRailPeer(plan, ht, c.d);
		const GinSignalAdd raise{epHtSignalId(ht, c.slot, ht.domain), 1};
		const EpGin<GIN_ROUTES_ALL> gin(args.dc, c.lane);
		if (epTeamFirst())
			*reinterpret_cast<uint32_t *>(filledAt(c)) = shape;
		epTeamSync();
		if (slabOf(c))
			return has(peer, gin.signal(static_cast<int>(peer), raise, epTeamCoop{},
						    epFrom(args, peer)));
		return has(peer,
			   gin.put(static_cast<int>(peer), plan.slab, at(ht.ringAt, c.d, c),
				   plan.slab, at(ht.stagedAt, ht.domain, c), EP_HT_HEAD + bytes,
				   raise, GinNone{}, epTeamCoop{}, epFrom(args, peer)));
	}

	/* A received chunk is read. By one thread. */
	GIN_FN bool free(const Chunk &c) const
	{
		const uint32_t peer = epHtRailPeer(plan, ht, c.d);
		const uint32_t id = epHtSignalId(ht, EP_HT_DEPTH + c.slot, ht.domain);
		const EpGin<GIN_ROUTES_ALL> gin(args.dc, c.lane);
		return has(peer, gin.signal(static_cast<int>(peer), GinSignalAdd{id, 1},
					    GinThread{}, epFrom(args, peer)));
	}

	/*
	 * One of `count` tokens of a chunk, all of this block, is staged, or read; true for the
	 * last. By one thread.
	 */
	GIN_FN bool take(const Chunk &c, uint32_t isReceived, uint32_t count) const
	{
		const size_t ring = ringOf(isReceived, c.d, c.lane);
		uint32_t *const ticket = ht.tickets + ring * EP_HT_DEPTH + c.slot;
		return epTicketSum<ginScopeCta>(ticket, 1, count) != 0;
	}

	/* The numbers of the next call; by the last block. `tokens`: of the rank of the chunks. */
	GIN_FN void advance(uint32_t isReceived, uint32_t d, uint32_t tokens) const
	{
		const uint32_t groups = (tokens + EP_HT_GROUP - 1) / EP_HT_GROUP;
		GIN_NO_UNROLL
		for (uint32_t l = 0; l < plan.lanes; l++)
			ht.chunks[ringOf(isReceived, d, l)] +=
				(groups + plan.lanes - 1 - l) / plan.lanes;
	}

private:
	GIN_FN size_t ringOf(uint32_t isReceived, uint32_t d, uint32_t lane) const
	{
		return (size_t{isReceived} * ht.domains + d) * plan.lanes + lane;
	}

	GIN_FN Chunk chunk(uint32_t isReceived, uint32_t d, uint32_t group) const
	{
		const uint32_t lane = group % plan.lanes;
		const uint64_t n = ht.chunks[ringOf(isReceived, d, lane)] + group / plan.lanes;
		return {d, lane, static_cast<uint32_t>(n % EP_HT_DEPTH), n / EP_HT_DEPTH};
	}

	/* The rail peer's memory, if it is direct. */
	GIN_FN char *slabOf(const Chunk &c) const
	{
		return epSlabOf(plan, epHtRailPeer(plan, ht, c.d));
	}

	/* The slot at a rank of domain `of`, for the rings that this rank's domain and d share. */
	GIN_FN size_t at(size_t base, uint32_t of, const Chunk &c) const
	{
		const uint32_t other = of == ht.domain ? c.d : ht.domain;
		return epHtSlotAt(plan, ht, base, epHtOther(of, other), c.lane, c.slot);
	}

	/*
	 * A signal may be a word of the host, of which a GPU loads one a microsecond, and all teams
	 * look for their tokens: what one has seen the others find in GPU memory.
	 */
	GIN_FN uint64_t *seenOf(const Chunk &c, uint32_t kind) const
	{
		return ht.seen + c.lane * EP_HT_SIGNALS * ht.domains + epHtSignalId(ht, kind, c.d);
	}

	GIN_FN bool reached(const Chunk &c, uint32_t kind, uint64_t least) const
	{
		uint64_t *const seen = seenOf(c, kind);
		return epSeenLoad(seen) - least < EP_AHEAD ||
		       saw(seen, least,
			   epHtReached(args, c.lane, epHtSignalId(ht, kind, c.d), least));
	}

	GIN_FN bool await(const Chunk &c, uint32_t kind, uint64_t least) const
	{
		return saw(seenOf(c, kind), least,
			   epHtAwaitSignal(args, number, epHtRailPeer(plan, ht, c.d), c.lane,
					   epHtSignalId(ht, kind, c.d), least, epoch));
	}

	/* A later store of a smaller value costs a look. */
	GIN_FN static bool saw(uint64_t *seen, uint64_t least, bool isReached)
	{
		if (isReached)
			epSeenStore(seen, least);
		return isReached;
	}

	GIN_FN bool has(uint32_t peer, ginResult_t result) const
	{
		if (result != ginSuccess && epTeamFirst())
			epHtFail<true>(args, number, static_cast<int32_t>(peer), result, epoch, 0,
				       0);
		return result == ginSuccess;
	}
};

/* The tokens of a group that go to any of n ranks. */
GIN_FN uint32_t epHtAnyOf(const epHtPair *pairs, uint32_t n)
{
	uint32_t bits = 0;
	GIN_NO_UNROLL
	for (uint32_t j = 0; j < n; j++)
		bits |= pairs[j].bits;
	return bits;
}

/* The number of the n-th bit that is set. */
GIN_FN uint32_t epHtBitOf(uint32_t bits, uint32_t n)
{
	uint32_t at = 0;
	EP_UNROLL
	for (uint32_t width = 16; width; width /= 2) {
		const uint32_t low = epBits(bits >> at & ((1u << width) - 1));
		if (n >= low)
			n -= low, at += width;
	}
	return at;
}

/* The count line and the pairs of a rank go to each other domain by one put. */
class EpHtRailNotify : public EpHtNotify
{
public:
	GIN_FN EpHtRailNotify(const epArgs &a, char *shared) : EpHtNotify(a, shared, true) {}

	GIN_FN void run()
	{
		const uint64_t began = epTraceBegin(args);
		if (!count())
			return;
		sendMessages();
		traceMessages(began);
		traceLines(began);
		if (!awaitMessages())
			return;
		forwardMessages();
		if (receiveLines())
			finish();
	}

private:
	static constexpr uint32_t kind = 2 * EP_HT_DEPTH; /* of signals of messages */

	GIN_FN uint32_t firstExpertOf(uint32_t d) const
	{
		return plan.firstExpert[d * ht.domainSize];
	}

	/* Words of a message before its pairs. */
	GIN_FN uint32_t wordsFor(uint32_t d) const
	{
		return 1 + ranks() + firstExpertOf(d + 1) - firstExpertOf(d);
	}

	GIN_FN uint32_t wordFor(uint32_t d, uint32_t w) const
	{
		if (w <= ranks())
			return wordOf(0, w);
		return static_cast<uint32_t>(
			call.tokensPerExpert[firstExpertOf(d) + w - 1 - ranks()]);
	}

	GIN_FN size_t stagedAt(uint32_t d) const
	{
		return epHtMessageAt(ht, ht.stagedMessageAt, epoch % 2, epHtOther(ht.domain, d));
	}

	GIN_FN const uint32_t *messageOf(uint32_t d) const
	{
		const uint32_t other = epHtOther(ht.domain, d);
		return reinterpret_cast<const uint32_t *>(
			plan.own + epHtMessageAt(ht, ht.messageAt, epoch % 2, other));
	}

	/* A team sends to a domain. */
	GIN_FN void sendMessages() const
	{
		GIN_NO_UNROLL
		for (uint32_t d = epTeam(); d < ht.domains; d += epTeams())
			if (d != ht.domain)
				sendMessage(d);
	}

	GIN_FN size_t bytesOfMessage() const
	{
		return ht.pairsAt + size_t{groups()} * ht.domainSize * sizeof(epHtPair);
	}

	GIN_FN void traceMessages(uint64_t began) const
	{
		GIN_NO_UNROLL
		for (uint32_t d = thread(); ginTraces && d < ht.domains; d += threads())
			if (d != ht.domain)
				epTraceSent(args, number, epHtRailPeer(plan, ht, d), epoch, began,
					    bytesOfMessage());
	}

	GIN_FN void sendMessage(uint32_t d) const
	{
		const uint32_t S = ht.domainSize, pairs = groups() * S;
		const uint32_t peer = epHtRailPeer(plan, ht, d);
		char *const staged = plan.own + stagedAt(d);
		epHtPair *const to = reinterpret_cast<epHtPair *>(staged + ht.pairsAt);
		GIN_NO_UNROLL
		for (uint32_t w = epTeamLane(); w < wordsFor(d); w += epTeamSize())
			reinterpret_cast<uint32_t *>(staged)[w] = wordFor(d, w);
		GIN_NO_UNROLL
		for (uint32_t i = epTeamLane(); i < pairs; i += epTeamSize())
			to[i] = epHtPairsOf(plan, handle, i / S)[d * S + i % S];
		epTeamSync();
		const EpGin<GIN_ROUTES_ALL> gin(args.dc, 0);
		const ginResult_t result =
			gin.put(static_cast<int>(peer), plan.slab,
				epHtMessageAt(ht, ht.messageAt, epoch % 2, epHtOther(d, ht.domain)),
				plan.slab, stagedAt(d), bytesOfMessage(),
				GinSignalAdd{epHtSignalId(ht, kind, ht.domain), 1}, GinNone{},
				epTeamCoop{}, epFrom(args, peer));
		if (result != ginSuccess && epTeamFirst())
			fail(static_cast<int32_t>(peer), result, 0, 0);
	}

	/* A thread for each domain. False: a rail peer is lost. */
	GIN_FN bool awaitMessages() const
	{
		bool lost = false;
		GIN_NO_UNROLL
		for (uint32_t d = thread(); d < ht.domains && !lost; d += threads())
			lost = d != ht.domain &&
			       !epHtAwaitSignal(args, number, epHtRailPeer(plan, ht, d), 0,
						epHtSignalId(ht, kind, d), uint64_t{epoch} + 1,
						epoch);
		return !GinCta{}.any(lost);
	}

	/* Count lines of rail peers to the ranks of this domain, their pairs to the handle. */
	GIN_FN void forwardMessages() const
	{
		ginFence<ginScopeSystem>();
		GIN_NO_UNROLL
		for (uint32_t d = 0; d < ht.domains; d++)
			if (d != ht.domain)
				forwardMessage(d);
	}

	GIN_FN void forwardMessage(uint32_t d) const
	{
		const uint32_t source = epHtRailPeer(plan, ht, d);
		const uint32_t words = 1 + ranks() + plan.mostLocal;
		const uint32_t *const message = messageOf(d);
		GIN_NO_UNROLL
		for (uint32_t i = thread(); i < peers() * words; i += threads()) {
			const uint32_t r = firstPeer() + i / words, w = i % words;
			if (w < wordsOf(r))
				post(r, epHtCountAt(plan, epoch % 2, source, w),
				     message[w + (w > ranks() ? plan.firstExpert[r] -
									firstExpertOf(ht.domain)
							      : 0)]);
		}
		const uint32_t pairs = (message[0] + EP_HT_GROUP - 1) / EP_HT_GROUP * peers();
		const epHtPair *const from = reinterpret_cast<const epHtPair *>(
			reinterpret_cast<const char *>(message) + ht.pairsAt);
		epHtPair *const to = const_cast<epHtPair *>(
			epHtRailPairsOf(plan, ht, handle, call.tokens, d, 0));
		GIN_NO_UNROLL
		for (uint32_t i = thread(); i < pairs; i += threads())
			to[i] = from[i];
	}
};

#endif
