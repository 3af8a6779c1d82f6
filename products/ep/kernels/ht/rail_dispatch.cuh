/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rail_dispatch.cuh - dispatch between domains
 *
 * Movers store rows at ranks of this domain, as in dispatch.cuh. Senders stage and put the rows
 * for other domains. Forwarders store the rows of rail peers at their final places, and tell their
 * done words: a receiver cannot tell them from rows of its own domain. Rows that this rank stores
 * at itself go to recvX, and copiers take those that other ranks of the domain store.
 */
#ifndef GIN_EP_HT_RAIL_DISPATCH_CUH
#define GIN_EP_HT_RAIL_DISPATCH_CUH

#include "dispatch.cuh"
#include "rail.cuh"

class EpHtRailDispatch : public EpHtDispatch
{
	/* Rows of this rank for a chunk: see epMove(). */
	struct Staged {
		const EpHtRailDispatch &of;
		uint32_t group, bits; /* tokens of the group */
		char *to;

		GIN_FN uint32_t token(uint32_t i) const
		{
			return group * EP_HT_GROUP + epHtBitOf(bits, i);
		}
		GIN_FN const char *source(uint32_t i) const { return of.rowOf(token(i)); }
		GIN_FN uint32_t bytes(uint32_t) const { return of.call.rowBytes; }
		GIN_FN uint32_t metaWords() const { return of.metaWords(); }
		GIN_FN uint32_t meta(uint32_t i, uint32_t w) const
		{
			return of.metaNumber(token(i), w);
		}
		GIN_FN const char *metaAt(uint32_t i, uint32_t w) const
		{
			return of.metaAt(token(i), w);
		}
		GIN_FN static uint32_t places() { return 1; }
		GIN_FN bool place(uint32_t i, uint32_t, epHtTo *at) const
		{
			char *const meta = to + size_t{i} * of.rowStep();
			*at = {meta + of.call.metaBytes, meta};
			return true;
		}
		GIN_FN static void done(uint32_t) {}
		static constexpr bool tells = false;
	};

	/* Rows of a chunk that has come. */
	struct Forwarded {
		const EpHtRailDispatch &of;
		const epHtPair *pairs;
		uint32_t rank, bits; /* of the tokens */
		const char *from;

		GIN_FN const char *metaOf(uint32_t i) const
		{
			return from + size_t{i} * of.rowStep();
		}
		GIN_FN const char *source(uint32_t i) const
		{
			return metaOf(i) + of.call.metaBytes;
		}
		GIN_FN uint32_t bytes(uint32_t) const { return of.call.rowBytes; }
		GIN_FN uint32_t metaWords() const { return of.call.metaBytes / 4; }
		GIN_FN static uint32_t meta(uint32_t, uint32_t) { return 0; }
		GIN_FN const char *metaAt(uint32_t i, uint32_t w) const
		{
			return metaOf(i) + w * 4;
		}
		GIN_FN uint32_t places() const { return of.peers(); }
		GIN_FN bool place(uint32_t i, uint32_t n, epHtTo *to) const
		{
			const uint32_t slot = slotIn(pairs[n], epHtBitOf(bits, i));
			const uint32_t first = rank / of.peers() * of.peers();
			return of.placeIn(of.places[first + n], slot, to);
		}
		GIN_FN static void done(uint32_t) {}
		static constexpr bool tells = false;
	};

public:
	GIN_FN EpHtRailDispatch(const epArgs &a, char *shared) : EpHtDispatch(a, shared, true) {}

	GIN_FN void run()
	{
		if (!begin())
			return;
		if (awaitPlaces(call.recvX)) {
			act(epTeam() / movers(), epTeam() % movers());
		}
		if (!isLastBlock())
			return;
		advance();
		if (thread() == 0)
			epWordStore(&plan.state->epoch[0], epoch + 1);
		if (ginTraces && !stopped())
			traceRows();
	}

private:
	/* Team `n` of its role. Few teams: copiers unpack after their copies. */
	GIN_FN void act(uint32_t role, uint32_t n) const
	{
		const uint32_t first = rings(), rest = epTeams() - first;
		if (role == 0) {
			move(n);
		} else if (role == 1) {
			sendGroups(n);
		} else if (role == 2) {
			forwardGroups(n);
		} else {
			const uint32_t team = epTeam() - first;
			const uint32_t busy = rest > copiers() ? copiers() : 0;
			if (team < copiers())
				copy(team);
			if (team >= busy)
				unpack(team - busy, rest - busy);
		}
	}

	GIN_FN uint32_t rowStep() const { return call.metaBytes + call.rowBytes; }

	GIN_FN epHtRings ringsOf() const { return epHtRings(args, number, epoch); }

	/* Is the group one of team `n` of a role? */
	GIN_FN bool isMine(uint32_t group, uint32_t n) const
	{
		return group % (ginGridSize() * movers()) == ginBlockIndex() * movers() + n;
	}

	GIN_FN void sendGroups(uint32_t n) const
	{
		const uint32_t groups = (call.tokens + EP_HT_GROUP - 1) / EP_HT_GROUP;
		epStages stages = stagesOf(movers() + n);
		GIN_NO_UNROLL
		for (uint32_t i = 0; i < groups * (ht.domains - 1); i++) {
			const uint32_t group = i / (ht.domains - 1);
			const uint32_t d = ht.domain + 1 + i % (ht.domains - 1);
			if (isMine(group, n) && !send(stages, group, d % ht.domains))
				return;
		}
	}

	/* The rows of a group for domain d. False: the rail peer is lost. */
	GIN_FN bool send(epStages &stages, uint32_t group, uint32_t d) const
	{
		const epHtRings rail = ringsOf();
		const epHtRings::Chunk chunk = rail.sent(d, group);
		if (!epTeamAll(!epTeamFirst() || rail.awaitFree(chunk)))
			return false;
		const epHtPair *const pairs = epHtPairsOf(plan, handle, group) + d * ht.domainSize;
		const Staged rows{*this, group, epHtAnyOf(pairs, ht.domainSize),
				  rail.filledAt(chunk) + EP_HT_HEAD};
		epMove(stages, epBits(rows.bits), rows);
		return rail.put(chunk, shape(), size_t{epBits(rows.bits)} * rowStep());
	}

	GIN_FN void forwardGroups(uint32_t n) const
	{
		const uint32_t *const tokens = epHtTokensOf(handle);
		const uint32_t groups =
			(mostRows([&](uint32_t s) { return tokens[s]; }) + EP_HT_GROUP - 1) /
			EP_HT_GROUP;
		epStages stages = stagesOf(2 * movers() + n);
		GIN_NO_UNROLL
		for (uint32_t i = 0; i < groups * ht.domains; i++) {
			const uint32_t group = i / ht.domains, d = i % ht.domains;
			const uint32_t source = epHtRailPeer(plan, ht, d);
			if (d != ht.domain && group * EP_HT_GROUP < tokens[source] &&
			    isMine(group, n) && !forward(stages, group, d, source))
				return;
		}
	}

	GIN_FN bool forward(epStages &stages, uint32_t group, uint32_t d, uint32_t source) const
	{
		const epHtRings rail = ringsOf();
		const epHtRings::Chunk chunk = rail.received(d, group);
		const char *const from = rail.receivedAt(chunk);
		if (!epTeamAll(!epTeamFirst() || (rail.awaitChunk(chunk) &&
						  hasShape(source, ginLoadWeak<uint32_t>(from)))))
			return false;
		const epHtPair *const pairs =
			epHtRailPairsOf(plan, ht, handle, call.tokens, d, group);
		const Forwarded rows{*this, pairs, source, epHtAnyOf(pairs, ht.domainSize),
				     from + EP_HT_HEAD};
		epMove(stages, epBits(rows.bits), rows);
		tellGroup(pairs, source, group);
		epTeamSync();
		return epTeamAll(!epTeamFirst() || rail.free(chunk));
	}

	/* Done words of a group of a rail peer, to the ranks of this domain. */
	GIN_FN void tellGroup(const epHtPair *pairs, uint32_t source, uint32_t group) const
	{
		const uint32_t each = EP_HT_GROUP / EP_HT_UNIT;
		const uint32_t all = (epHtTokensOf(handle)[source] + EP_HT_UNIT - 1) / EP_HT_UNIT;
		ginFence<ginScopeSystem>();
		GIN_NO_UNROLL
		for (uint32_t i = epTeamLane(); i < each * peers(); i += epTeamSize()) {
			const uint32_t j = i / each, unit = group * each + i % each;
			if (unit < all)
				post(firstPeer() + j, epHtDoneAt(ht, source, unit),
				     rowsIn(pairs[j], i % each * EP_HT_UNIT));
		}
	}

	/* Chunks of this call are sent, and those of rail peers are received. */
	GIN_FN void advance() const
	{
		const epHtRings rail = ringsOf();
		GIN_NO_UNROLL
		for (uint32_t d = thread(); d < ht.domains; d += threads()) {
			const uint32_t source = epHtRailPeer(plan, ht, d);
			if (d == ht.domain)
				continue;
			rail.advance(0, d, call.tokens);
			rail.advance(1, d, epHtTokensOf(handle)[source]);
		}
	}
};

#endif
