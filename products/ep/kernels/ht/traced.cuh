/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traced.cuh - for records of GIN_TRACE: the bytes that a call of high throughput moves, by the
 * handle
 *
 * Words of 8 bytes are counted, too, but no signal. What is loaded from a peer is another record
 * than what is stored there.
 */
#ifndef GIN_EP_HT_TRACED_CUH
#define GIN_EP_HT_TRACED_CUH

#include "common.cuh"

class EpHtTraced : public EpHt
{
protected:
	using EpHt::EpHt;

	/* Calls f(rank) for each rank with which this one exchanges bytes. By teams. */
	template <class F> GIN_FN void eachRank(F f) const
	{
		GIN_NO_UNROLL
		for (uint32_t r = epTeam(); ginTraces && r < ranks(); r += epTeams())
			if (!isFar(r) || nearOf(r) == plan.rank)
				f(r);
	}

	GIN_FN uint32_t domains() const { return rail ? ht.domains : 1; }
	GIN_FN bool isOwnDomain(uint32_t d) const { return !rail || d == ht.domain; }

	/* The tokens of this rank, or of the rail peer in domain d. */
	GIN_FN uint32_t tokensOfDomain(uint32_t d) const
	{
		return isOwnDomain(d)
			       ? call.tokens
			       : epHtTokensOf(handle)[d * ht.domainSize + plan.rank - ht.firstPeer];
	}

	GIN_FN static uint32_t groupsOf(uint32_t tokens)
	{
		return (tokens + EP_HT_GROUP - 1) / EP_HT_GROUP;
	}

	/* The rows of these tokens that are for rank r of this domain. */
	GIN_FN uint32_t rowsOfDomain(uint32_t d, uint32_t r) const
	{
		const uint32_t groups = groupsOf(tokensOfDomain(d));
		if (!groups)
			return 0;
		const epHtPair last = isOwnDomain(d)
					      ? epHtPairsOf(plan, handle, groups - 1)[r]
					      : epHtRailPairsOf(plan, ht, handle, call.tokens, d,
								groups - 1)[r - ht.firstPeer];
		return last.before + epBits(last.bits);
	}

	/*
	 * The bytes of the chunks for the rail peer in domain d: of this rank's tokens for ranks
	 * there, or (`back`) of the peer's tokens, of which ranks of this domain have had rows.
	 */
	GIN_FN uint64_t bytesOfChunks(uint32_t d, bool back) const
	{
		const uint32_t groups = groupsOf(back ? tokensOfDomain(d) : call.tokens);
		uint32_t rows = 0;
		GIN_NO_UNROLL
		for (uint32_t g = epTeamLane(); g < groups; g += epTeamSize()) {
			const epHtPair *const pairs =
				back ? epHtRailPairsOf(plan, ht, handle, call.tokens, d, g)
				     : epHtPairsOf(plan, handle, g) + d * ht.domainSize;
			uint32_t any = 0;
			GIN_NO_UNROLL
			for (uint32_t j = 0; j < ht.domainSize; j++)
				any |= pairs[j].bits;
			rows += epBits(any);
		}
		return uint64_t{groups} * EP_HT_HEAD +
		       uint64_t{epTeamSum(rows)} * (call.metaBytes + call.rowBytes);
	}

	/* As postPlaces(). */
	GIN_FN uint32_t wordsOfPlace() const { return ht.window.table ? EP_HT_PLACE : 2; }

	/* A dispatch stores at a rank of this domain: places, done words, rows with their meta. */
	GIN_FN uint64_t dispatchedTo(uint32_t r, uint32_t metaWords) const
	{
		uint64_t bytes = domains() * wordsOfPlace() * sizeof(uint64_t);
		GIN_NO_UNROLL
		for (uint32_t d = 0; d < domains(); d++) {
			const uint32_t units = (tokensOfDomain(d) + EP_HT_UNIT - 1) / EP_HT_UNIT;
			const uint32_t meta = isOwnDomain(d) ? metaWords * 4 : call.metaBytes;
			bytes += units * sizeof(uint64_t) +
				 uint64_t{rowsOfDomain(d, r)} * (call.rowBytes + meta);
		}
		return bytes;
	}

	/* A combine stores at a rank of this domain: places, ready words, a word at the end. */
	GIN_FN uint64_t combinedTo(uint32_t r) const
	{
		uint64_t words = domains() * wordsOfPlace() + 1;
		GIN_NO_UNROLL
		for (uint32_t s = r % peers(); s < ranks() && r != plan.rank; s += peers())
			words += (epHtRowsOf(plan, handle)[s] + EP_HT_BATCH - 1) / EP_HT_BATCH;
		return words * sizeof(uint64_t);
	}

	/* It loads the rows of its tokens, and of those of its rail peers, with their weights. */
	GIN_FN uint64_t combinedFrom(uint32_t r) const
	{
		uint64_t rows = 0;
		GIN_NO_UNROLL
		for (uint32_t d = 0; d < domains() && r != plan.rank; d++)
			rows += rowsOfDomain(d, r);
		return rows * (call.rowBytes + call.topk * 4);
	}

	GIN_FN void sent(uint32_t r, uint64_t bytes, bool gets = false) const
	{
		if (epTeamFirst())
			epTraceSent(args, number, r, epoch, plan.state->began, bytes, gets);
	}
};

#endif
