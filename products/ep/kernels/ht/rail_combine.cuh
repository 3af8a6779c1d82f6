/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rail_combine.cuh - combine between domains: each domain adds the rows of its ranks
 *
 * Stagers copy rows for other ranks of this domain to the pool, as in combine.cuh. Adders add
 * the domain's rows of rail peers' tokens, in float, round them to bf16 and put the chunks.
 * Reducers add bias and the domains' sums of this rank's tokens, domains ascending; the own
 * domain's sum is rounded, too, so that a sum does not depend on where its token is.
 */
#ifndef GIN_EP_HT_RAIL_COMBINE_CUH
#define GIN_EP_HT_RAIL_COMBINE_CUH

#include "combine.cuh"
#include "rail.cuh"

class EpHtRailCombine : public EpHtCombine
{
	/* A token of a group, in a domain; its pairs there. */
	struct Token {
		uint32_t d, group, n;
		const epHtPair *pairs;
	};

public:
	GIN_FN EpHtRailCombine(const epArgs &a, char *shared) : EpHtCombine(a, shared, true) {}

	GIN_FN void run()
	{
		if (!begin())
			return;
		if (awaitPlaces()) {
			const uint32_t team = epTeam(), rest = epTeams() - stagers();
			const uint32_t adders = rest * 2 / 5, n = team - stagers();
			if (team < stagers())
				stage(team);
			else if (n < adders)
				add(Added{{*this, call}, *this, endOfOthers(), 0}, n, adders);
			else
				add(Reduced{{*this, call}, *this, 0}, n - adders, rest - adders);
		}
		if (!isLastBlock() || stopped())
			return;
		advance();
		leave();
	}

private:
	/*
	 * A chunk is one block's, whose teams divide its tokens: item i of a block is token
	 * i % EP_HT_GROUP of its chunk i / EP_HT_GROUP. `known`: chunks of the block before the one
	 * whose signals a team has seen last.
	 */

	/* The tokens of rail peers, of which the domain's sums are put: groups ascending. */
	struct Added : Sums {
		const EpHtRailCombine &rail;
		uint32_t most;
		mutable uint32_t known;

		GIN_FN uint32_t end() const { return most; }
		GIN_FN bool find(uint32_t i, bool mayWait, uint32_t *n) const
		{
			const bool seen = known == i / EP_HT_GROUP + 1;
			if (!rail.findFor(i, mayWait, seen, n))
				return false;
			known = i / EP_HT_GROUP + 1;
			return true;
		}
		GIN_FN static bool hasStart() { return false; }
		GIN_FN static epEight start(uint32_t, uint32_t) { return {}; }
		GIN_FN char *rowOf(uint32_t i) const
		{
			char *const to = rail.sumFor(i);
			return to ? to + this->call.metaBytes : nullptr;
		}
		GIN_FN float *weightsOf(uint32_t i) const
		{
			return reinterpret_cast<float *>(rail.sumFor(i));
		}
		GIN_FN void done(uint32_t i) const { rail.putLast(i); }
	};

	/* The tokens of this rank: bias, and the sums of domains, each rounded. */
	struct Reduced : Sums {
		static constexpr bool byDomain = true;
		const EpHtRailCombine &rail;
		mutable uint32_t known;

		GIN_FN uint32_t end() const { return itemsOf(rail.groupsOf(this->call.tokens)); }
		GIN_FN bool find(uint32_t i, bool mayWait, uint32_t *n) const
		{
			const bool seen = known == i / EP_HT_GROUP + 1;
			*n = 0;
			if (tokenOf(i) >= this->call.tokens)
				return true;
			if (!rail.findAll(tokenOf(i), mayWait, seen, n))
				return false;
			known = i / EP_HT_GROUP + 1;
			return true;
		}
		GIN_FN bool isOfDomain(uint32_t i, uint32_t n) const
		{
			return i < n && !rail.isSum(i);
		}
		GIN_FN bool isAbove(uint32_t i) const { return rail.isSumAbove(i); }
		GIN_FN epEight start(uint32_t i, uint32_t p) const
		{
			return rail.biasOf(tokenOf(i), p);
		}
		GIN_FN char *rowOf(uint32_t i) const
		{
			const uint32_t t = tokenOf(i);
			return t < this->call.tokens ? Sums::rowOf(t) : nullptr;
		}
		GIN_FN float *weightsOf(uint32_t i) const { return Sums::weightsOf(tokenOf(i)); }
		GIN_FN void done(uint32_t i) const
		{
			if (tokenOf(i) < this->call.tokens)
				rail.freeLast(tokenOf(i));
		}
	};

	/* The chunk of item i of this block, among those of all blocks. */
	GIN_FN static uint32_t chunkOf(uint32_t i)
	{
		return i / EP_HT_GROUP * ginGridSize() + ginBlockIndex();
	}

	/* Items of this block, of so many chunks of all blocks. */
	GIN_FN static uint32_t itemsOf(uint32_t chunks)
	{
		return (chunks + ginGridSize() - 1 - ginBlockIndex()) / ginGridSize() * EP_HT_GROUP;
	}

	GIN_FN static uint32_t tokenOf(uint32_t i)
	{
		return chunkOf(i) * EP_HT_GROUP + i % EP_HT_GROUP;
	}

	/* What a token needs once is a call: inlined it takes registers from the sums. */

	GIN_FN epHtRings ringsOf() const { return epHtRings(args, number, epoch); }
	GIN_FN uint32_t rowStep() const { return call.metaBytes + call.rowBytes; }

	/* Where the row of a token is in a chunk; NULL: the domain has none. */
	GIN_FN char *rowIn(char *chunk, const Token &token) const
	{
		const uint32_t any = epHtAnyOf(token.pairs, ht.domainSize), bit = 1u << token.n;
		return any & bit ? chunk + EP_HT_HEAD + size_t{epBits(any & (bit - 1))} * rowStep()
				 : nullptr;
	}

	/* Tokens of the token's group, of which its rank has `tokens`. */
	GIN_FN static uint32_t tokensIn(const Token &token, uint32_t tokens)
	{
		const uint32_t left = tokens - token.group * EP_HT_GROUP;
		return left < EP_HT_GROUP ? left : EP_HT_GROUP;
	}

	GIN_FN uint32_t endOfOthers() const
	{
		const uint32_t *const tokens = epHtTokensOf(handle);
		const uint32_t most = mostRows([&](uint32_t s) { return tokens[s]; });
		return itemsOf(groupsOf(most) * (ht.domains - 1));
	}

	GIN_FN uint32_t tokensOf(uint32_t d) const
	{
		return epHtTokensOf(handle)[epHtRailPeer(plan, ht, d)];
	}

	/* Without pairs if the rail peer has no such token. */
	GIN_FN Token tokenOfOther(uint32_t i) const
	{
		const uint32_t others = ht.domains - 1, n = i % EP_HT_GROUP;
		const uint32_t group = chunkOf(i) / others, other = chunkOf(i) % others;
		const uint32_t d = other < ht.domain ? other : other + 1;
		Token token = {d, group, n, nullptr};
		if (group * EP_HT_GROUP + n < tokensOf(d))
			token.pairs = epHtRailPairsOf(plan, ht, handle, call.tokens, d, group);
		return token;
	}

	/* Lists the rows of a rail peer's token in this domain. */
	GIN_FN_COLD bool findFor(uint32_t i, bool mayWait, bool seen, uint32_t *count) const
	{
		const Token token = tokenOfOther(i);
		*count = 0;
		if (!token.pairs)
			return true;
		const epHtRings rail = ringsOf();
		const epHtRings::Chunk chunk = rail.sent(token.d, token.group);
		if (!seen && !epTeamAll(!epTeamFirst() || rail.isFree(chunk) ||
					(mayWait && rail.awaitFree(chunk))))
			return false;
		return list(
			peers(),
			[&](uint32_t j, Row *row) {
				return get(token.d * peers() + j, slotIn(token.pairs[j], token.n),
					   row);
			},
			count);
	}

	/* Where the sum of a rail peer's token goes: weights, then the row. */
	GIN_FN_COLD char *sumFor(uint32_t i) const
	{
		const Token token = tokenOfOther(i);
		const epHtRings rail = ringsOf();
		return token.pairs ? rowIn(rail.filledAt(rail.sent(token.d, token.group)), token)
				   : nullptr;
	}

	/* The last token of a chunk that is added puts it. G. */
	GIN_FN_COLD void putLast(uint32_t i) const
	{
		const Token token = tokenOfOther(i);
		if (!token.pairs)
			return;
		const epHtRings rail = ringsOf();
		const epHtRings::Chunk chunk = rail.sent(token.d, token.group);
		epTeamSync();
		const bool last =
			epTeamFirst() && rail.take(chunk, 0, tokensIn(token, tokensOf(token.d)));
		const uint32_t any = epHtAnyOf(token.pairs, ht.domainSize);
		if (epTeamOfFirst(last ? 1 : 0))
			rail.put(chunk, shape(), size_t{epBits(any)} * rowStep());
	}

	GIN_FN Token tokenIn(uint32_t t, uint32_t d) const
	{
		const uint32_t group = t / EP_HT_GROUP;
		return {d, group, t % EP_HT_GROUP,
			epHtPairsOf(plan, handle, group) + d * ht.domainSize};
	}

	/*
	 * Lists the rows of this domain, then the sums of other domains, domains ascending. Also
	 * the chunks that have no row of the token have to be there: done() frees them.
	 */
	GIN_FN_COLD bool findAll(uint32_t t, bool mayWait, bool seen, uint32_t *count) const
	{
		const Token own = tokenIn(t, ht.domain);
		return list(
			ht.domains - 1 + peers(),
			[&](uint32_t i, Row *row) {
				const uint32_t other = i - peers();
				if (i < peers())
					return get(firstPeer() + i, slotIn(own.pairs[i], own.n),
						   row);
				return getSum(tokenIn(t, other + (other < ht.domain ? 0 : 1)),
					      mayWait, seen, row);
			},
			count);
	}

	/* A domain's sum of a token of this rank. */
	GIN_FN bool getSum(const Token &token, bool mayWait, bool seen, Row *row) const
	{
		const epHtRings rail = ringsOf();
		const epHtRings::Chunk chunk = rail.received(token.d, token.group);
		char *const from = rail.receivedAt(chunk);
		if (!seen && !rail.isThere(chunk) && !(mayWait && rail.awaitChunk(chunk)))
			return false;
		if (!seen &&
		    !hasShape(epHtRailPeer(plan, ht, token.d), ginLoadWeak<uint32_t>(from)))
			return false;
		const char *const sum = rowIn(from, token);
		if (sum)
			*row = {sum + call.metaBytes, sum};
		return true;
	}

	/* Is row i of the list another domain's sum? */
	GIN_FN bool isSum(uint32_t i) const
	{
		return rows[i].row >= plan.own + ht.ringAt && rows[i].row < plan.own + ht.stagedAt;
	}

	GIN_FN bool isSumAbove(uint32_t i) const
	{
		const size_t above = epHtSlotAt(plan, ht, ht.ringAt, ht.domain, 0, 0);
		return isSum(i) && rows[i].row >= plan.own + above;
	}

	/* The last token of a group that is reduced frees the group's chunks. T. */
	GIN_FN_COLD void freeLast(uint32_t t) const
	{
		const epHtRings rail = ringsOf();
		const Token own = tokenIn(t, ht.domain);
		const epHtRings::Chunk of = rail.received(ht.domain, own.group);
		epTeamSync();
		const bool last = epTeamFirst() && rail.take(of, 1, tokensIn(own, call.tokens));
		if (!epTeamOfFirst(last ? 1 : 0))
			return;
		GIN_NO_UNROLL
		for (uint32_t d = epTeamLane(); d < ht.domains; d += epTeamSize())
			if (d != ht.domain)
				rail.free(rail.received(d, own.group));
	}

	/* Chunks of rail peers' tokens are sent, and those of this rank's are received. */
	GIN_FN void advance() const
	{
		const epHtRings rail = ringsOf();
		GIN_NO_UNROLL
		for (uint32_t d = thread(); d < ht.domains; d += threads()) {
			const uint32_t source = epHtRailPeer(plan, ht, d);
			rail.advance(1, d, call.tokens);
			if (d != ht.domain)
				rail.advance(0, d, epHtTokensOf(handle)[source]);
		}
	}
};

#endif
