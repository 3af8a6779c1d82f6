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
		if (stopped() || !begin())
			return;
		if (ginBlockIndex() == 0)
			postPlaces();
		if (awaitPlaces()) {
			const uint32_t team = epTeam(), rest = epTeams() - EP_HT_COPIERS;
			const uint32_t adders = rest / 2, n = team - EP_HT_COPIERS;
			if (team < EP_HT_COPIERS)
				stage(team);
			else if (n < adders)
				addForOthers(n, adders);
			else
				reduceOwn(n - adders, rest - adders);
		}
		if (!isLastBlock() || stopped())
			return;
		advance();
		leave();
	}

private:
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

	/* Every all-th token of rail peers: groups ascending. */
	GIN_FN void addForOthers(uint32_t n, uint32_t teams) const
	{
		const uint32_t *const tokens = epHtTokensOf(handle);
		const uint32_t all = ginGridSize() * teams, others = ht.domains - 1;
		const uint64_t end = uint64_t{mostRows([&](uint32_t s) { return tokens[s]; }) +
					      EP_HT_GROUP - 1} /
				     EP_HT_GROUP * EP_HT_GROUP * others;
		GIN_NO_UNROLL
		for (uint64_t i = ginBlockIndex() * teams + n; i < end; i += all) {
			const uint32_t group = static_cast<uint32_t>(i / EP_HT_GROUP / others);
			const uint32_t other = static_cast<uint32_t>(i / EP_HT_GROUP % others);
			const uint32_t d = other < ht.domain ? other : other + 1;
			const uint32_t rank = epHtRailPeer(plan, ht, d);
			const Token token{d, group, static_cast<uint32_t>(i % EP_HT_GROUP),
					  epHtRailPairsOf(plan, ht, handle, call.tokens, d, group)};
			if (group * EP_HT_GROUP + token.n < tokens[rank] &&
			    !addFor(token, tokens[rank]))
				return;
		}
	}

	/* Stages the sum of a rail peer's token. The last token of a chunk puts it. G. */
	GIN_FN bool addFor(const Token &token, uint32_t tokens) const
	{
		const epHtRings rail = ringsOf();
		const epHtRings::Chunk chunk = rail.sent(token.d, token.group);
		uint32_t count;
		if (!epTeamAll(!epTeamFirst() || rail.awaitFree(chunk)) || !find(token, &count))
			return false;
		char *const to = rowIn(rail.stagedAt(chunk), token);
		GIN_NO_UNROLL
		for (uint32_t k = epTeamLane(); to && k < call.topk; k += epTeamSize())
			reinterpret_cast<float *>(to)[k] = weightOf(count, k);
		GIN_NO_UNROLL
		for (uint32_t p = epTeamLane(); to && p < call.rowBytes / 16; p += epTeamSize())
			epPieceStore(to + call.metaBytes + p * 16, sumOfDomain(count, p));
		epTeamSync();
		const bool last = epTeamFirst() && rail.take(chunk, 0, tokensIn(token, tokens));
		if (!epTeamOfFirst(last ? 1 : 0))
			return true;
		const uint32_t n = epBits(epHtAnyOf(token.pairs, ht.domainSize));
		return rail.put(chunk, shape(), size_t{n} * rowStep());
	}

	/* Lists the rows of a token in this domain. */
	GIN_FN bool find(const Token &token, uint32_t *count) const
	{
		return listRows(
			token.d * peers(), peers(),
			[&](uint32_t j) { return slotIn(token.pairs[j], token.n); }, count);
	}

	GIN_FN ginWord16 sumOfDomain(uint32_t count, uint32_t p) const
	{
		epEight eight = {};
		addRows(eight, count, p);
		return eight.rounded();
	}

	/* Every all-th token of this rank. */
	GIN_FN void reduceOwn(uint32_t n, uint32_t teams) const
	{
		const uint32_t all = ginGridSize() * teams;
		GIN_NO_UNROLL
		for (uint32_t t = ginBlockIndex() * teams + n; t < call.tokens; t += all)
			if (!reduceToken(t))
				return;
	}

	GIN_FN Token tokenIn(uint32_t t, uint32_t d) const
	{
		const uint32_t group = t / EP_HT_GROUP;
		return {d, group, t % EP_HT_GROUP,
			epHtPairsOf(plan, handle, group) + d * ht.domainSize};
	}

	GIN_FN bool reduceToken(uint32_t t) const
	{
		const Token own = tokenIn(t, ht.domain);
		uint32_t count;
		if (!find(own, &count) || !awaitSums(t))
			return false;
		GIN_NO_UNROLL
		for (uint32_t k = epTeamLane(); k < call.topk; k += epTeamSize())
			call.outWeights[size_t{t} * call.topk + k] = allWeights(count, k);
		GIN_NO_UNROLL
		for (uint32_t p = epTeamLane(); p < call.rowBytes / 16; p += epTeamSize())
			epPieceStore(call.out.data + t * call.out.step + p * 16,
				     sumOfAll(t, count, p));
		epTeamSync();
		return freeSums(own);
	}

	/* The sums of other domains, after the rows of this one; NULL: none. */
	GIN_FN const char *&sumFrom(uint32_t d) const
	{
		return rows[peers() + epHtOther(ht.domain, d)].row;
	}

	/* Waits for the chunks of a token's group: also for those that have no row of it. */
	GIN_FN bool awaitSums(uint32_t t) const
	{
		const epHtRings rail = ringsOf();
		bool here = true;
		GIN_NO_UNROLL
		for (uint32_t d = epTeamLane(); d < ht.domains; d += epTeamSize()) {
			if (d == ht.domain)
				continue;
			const epHtRings::Chunk chunk = rail.received(d, t / EP_HT_GROUP);
			char *const from = rail.receivedAt(chunk);
			here = here && rail.awaitChunk(chunk) &&
			       hasShape(epHtRailPeer(plan, ht, d), ginLoadWeak<uint32_t>(from));
			sumFrom(d) = rowIn(from, tokenIn(t, d));
		}
		epTeamSync();
		return epTeamAll(here);
	}

	/* Bias, and the sums of domains. */
	GIN_FN ginWord16 sumOfAll(uint32_t t, uint32_t count, uint32_t p) const
	{
		epEight eight = biasOf(t, p);
		GIN_NO_UNROLL
		for (uint32_t d = 0; d < ht.domains; d++) {
			if (d == ht.domain) {
				if (count)
					eight.plus(sumOfDomain(count, p));
				continue;
			}
			const char *const from = sumFrom(d);
			if (from)
				eight.plus(epPieceLoad(from + call.metaBytes + p * 16));
		}
		return eight.rounded();
	}

	GIN_FN float allWeights(uint32_t count, uint32_t k) const
	{
		float sum = 0.0f;
		GIN_NO_UNROLL
		for (uint32_t d = 0; d < ht.domains; d++) {
			if (d == ht.domain)
				sum = epPlus(sum, weightOf(count, k));
			else if (sumFrom(d))
				sum = epPlus(sum,
					     epFloatOf(ginLoadWeak<uint32_t>(sumFrom(d) + k * 4)));
		}
		return sum;
	}

	/* The last token of a group that is reduced frees the group's chunks. T. */
	GIN_FN bool freeSums(const Token &own) const
	{
		const epHtRings rail = ringsOf();
		const epHtRings::Chunk of = rail.received(ht.domain, own.group);
		const bool last = epTeamFirst() && rail.take(of, 1, tokensIn(own, call.tokens));
		bool here = true;
		if (!epTeamOfFirst(last ? 1 : 0))
			return true;
		GIN_NO_UNROLL
		for (uint32_t d = epTeamLane(); d < ht.domains; d += epTeamSize())
			if (d != ht.domain)
				here = rail.free(rail.received(d, own.group)) && here;
		return epTeamAll(here);
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
