/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sum.cuh - a team adds the rows of tokens; a warp loads them piece by piece by bulk copies
 *
 * The tokens first, first + step, ... of `Rows`, a class with
 *
 *	call		rowBytes, metaBytes, topk
 *	end()		the tokens are 0 to end() - 1
 *	find(t, mayWait, &n)	lists the rows of token t; false: a rank is lost, or the chunks of
 *				other domains are not there, and it may not wait for them
 *	at(i)		row i of the list: its bytes, `row`, and its weights
 *	isOwn(row)	are the weights this rank's? Others are padded for bulk copies
 *	hasStart()	do sums begin with something?
 *	start(t, p)	with what the sum of piece p of 16 bytes begins
 *	byDomain	known at compile time: the list begins with the rows of this domain, whose
 *			sum is rounded; sums of other domains follow, domains ascending
 *	isOfDomain(i, n)	then: does row i of n exist, and is it one of this domain?
 *	isAbove(i)	is it the sum of a domain above this one?
 *	rowOf(t), weightsOf(t)	where the sums go; a row that is NULL goes nowhere
 *	done(t)		the sums are there; by all threads of the team
 *
 * A ring of stages is in flight, each with a piece of one row, and with the row's weights if it is
 * the row's first. Each warp has a ring of its own: bulk loads end in any order, and a warp that is
 * a turn ahead in a ring of several warps would see a phase of the turn before as its own. Nothing
 * is in flight when a warp waits for another domain: that may wait for the sums in flight.
 *
 * By domain a sum begins with the rows of this domain. When they are added, the sum is kept as
 * bf16, which takes half the registers; bias and other domains are added to a new one, and the
 * kept one at its place among them.
 */
#ifndef GIN_EP_HT_SUM_CUH
#define GIN_EP_HT_SUM_CUH

#include "move.cuh"
#include "../reduce.cuh"

/* Piece p of the sum of the listed rows. Four loads are in flight. */
template <class Rows>
GIN_FN ginWord16 epHtSumOf(const Rows &rows, uint32_t t, uint32_t count, uint32_t p)
{
	epEight all = {};
	ginWord16 kept = {};
	bool isKept = false;
	if (!Rows::byDomain || !rows.isOfDomain(0, count))
		all = rows.start(t, p);
	GIN_NO_UNROLL
	for (uint32_t base = 0; base < count; base += 4) {
		ginWord16 piece[4] = {};
		EP_UNROLL
		for (uint32_t i = 0; i < 4; i++)
			if (base + i < count)
				piece[i] = epPieceLoad(rows.at(base + i).row + p * 16);
		EP_UNROLL
		for (uint32_t i = 0; i < 4; i++) {
			if (base + i >= count)
				continue;
			if (isKept && rows.isAbove(base + i))
				all.plus(kept), isKept = false;
			all.plus(piece[i]);
			if (!Rows::byDomain || !rows.isOfDomain(base + i, count) ||
			    rows.isOfDomain(base + i + 1, count))
				continue;
			kept = all.rounded(), isKept = true;
			all = rows.start(t, p);
		}
	}
	if (isKept)
		all.plus(kept);
	return all.rounded();
}

template <class Rows> GIN_FN float epHtWeightOf(const Rows &rows, uint32_t count, uint32_t k)
{
	float all = 0.0f, kept = 0.0f;
	bool isKept = false;
	GIN_NO_UNROLL
	for (uint32_t i = 0; i < count; i++) {
		if (isKept && rows.isAbove(i))
			all = epPlus(all, kept), isKept = false;
		all = epPlus(all, epFloatOf(ginLoadWeak<uint32_t>(rows.at(i).weights + k * 4)));
		if (Rows::byDomain && rows.isOfDomain(i, count) && !rows.isOfDomain(i + 1, count))
			kept = all, all = 0.0f, isKept = true;
	}
	return isKept ? epPlus(all, kept) : all;
}

/* The sums of a token, by loads and stores. */
template <class Rows> GIN_FN void epHtSumByThreads(const Rows &rows, uint32_t t, uint32_t count)
{
	char *const to = rows.rowOf(t);
	GIN_NO_UNROLL
	for (uint32_t k = epTeamLane(); to && k < rows.call.topk; k += epTeamSize())
		rows.weightsOf(t)[k] = epHtWeightOf(rows, count, k);
	GIN_NO_UNROLL
	for (uint32_t p = epTeamLane(); to && p < rows.call.rowBytes / 16; p += epTeamSize())
		epPieceStore(to + p * 16, epHtSumOf(rows, t, count, p));
	rows.done(t);
}

#define EP_HT_SUM_PIECE 2048u
#define EP_HT_SUM_WEIGHTS 128u /* bytes of a stage for weights of GIN_EP_MAX_TOPK experts */

#if GIN_HAS_BULK

template <class Rows> class EpHtSums
{
	static constexpr uint32_t PIECE = EP_HT_SUM_PIECE, WORDS = PIECE / 16 / 32; /* of a lane */
	static constexpr bool byDomain = Rows::byDomain;

	const Rows &rows;
	epStages s;
	const uint32_t step;

	/* The next load: piece `piece` of row `row` of `count` of token `t`. */
	uint32_t t, count, piece, row;
	uint32_t into, flying;	      /* the stage of the next load; loads in flight */
	uint32_t heldToken, heldPart; /* of the stage of the lane's number */
	char *to;		      /* where the sum goes that is being added */

	/* Of a token and piece; the weights: of the lane's number. */
	struct Partial {
		epEight sum[WORDS];
		ginWord16 kept[byDomain ? WORDS : 1];
		float weight, keptWeight;
		bool isKept;
	};

	/* Bits of heldPart; the piece's number is above them. */
	enum { LAST = 1, OF_DOMAIN = 2, CLOSES = 4, ABOVE = 8, PART = 16 };

public:
	GIN_FN EpHtSums(const Rows &r, const epStages &stages, uint32_t first, uint32_t by)
	    : rows(r), s(stages), step(by), t(first), count(0), piece(0), row(0), into(0),
	      flying(0), heldToken(0), heldPart(0), to(nullptr)
	{
	}

	/* By all lanes of the warp. */
	GIN_FN void run()
	{
		GIN_NO_UNROLL
		while (t < rows.end() || flying) {
			GIN_NO_UNROLL
			while (flying < s.count && seek())
				load();
			/* A look for the next token takes longer than to add what is here. */
			const bool isLate = flying < s.count;
			GIN_NO_UNROLL
			for (bool more = true; more && flying; more = isLate)
				add();
		}
	}

private:
	GIN_FN static uint32_t pieceBytes(uint32_t rowBytes, uint32_t p)
	{
		const uint32_t left = rowBytes - p * PIECE;
		return left < PIECE ? left : PIECE;
	}

	/* To the next token that has rows. False: there is none, or it may come later. */
	GIN_FN bool seek()
	{
		GIN_NO_UNROLL
		for (; !count && t < rows.end(); t += step) {
			uint32_t found;
			if (!rows.find(t, !flying, &found)) {
				if (!flying)
					t = rows.end();
				return false;
			}
			if (found) {
				ginBulkFence(); /* other agents have written the rows */
				count = found;
				return true;
			}
			epHtSumByThreads(rows, t, 0);
		}
		return count != 0;
	}

	GIN_FN void advance()
	{
		if (++row < count)
			return;
		row = 0;
		if (++piece * PIECE < rows.call.rowBytes)
			return;
		piece = count = 0;
		t += step;
	}

	GIN_FN void load()
	{
		const auto from = rows.at(row);
		const uint32_t barrier = s.barriers + 8 * into, to = s.base + into * s.size;
		const uint32_t bytes = pieceBytes(rows.call.rowBytes, piece);
		uint32_t more = 0;
		if (piece == 0 && rows.call.topk)
			more = loadWeights(from, to + PIECE, barrier);
		if (ginLane() == 0) {
			ginBulkExpect(barrier, bytes + more);
			ginBulkRead(to, from.row + piece * PIECE, bytes, barrier);
			if (more)
				ginBulkRead(to + PIECE, from.weights, more, barrier);
		}
		if (ginLane() == into) {
			heldToken = t;
			heldPart = piece * PART + (row + 1 == count ? LAST : 0);
			if (byDomain)
				heldPart += bitsOfDomain();
		}
		into = into + 1 < s.count ? into + 1 : 0;
		flying++;
		advance();
	}

	GIN_FN uint32_t bitsOfDomain() const
	{
		if (rows.isOfDomain(row, count))
			return OF_DOMAIN + (rows.isOfDomain(row + 1, count) ? 0 : CLOSES);
		return rows.isAbove(row) ? ABOVE : 0;
	}

	/* Own weights, by lanes; those in a pool, of so many bytes, are left to a bulk load. */
	template <class Row>
	GIN_FN uint32_t loadWeights(const Row &from, uint32_t to, uint32_t barrier) const
	{
		if (!rows.isOwn(from))
			return rows.call.metaBytes;
		if (ginLane() < rows.call.topk) {
			epStageWord(to + ginLane() * 4, from.weights + ginLane() * 4);
			epStageExpectWords(barrier);
		}
		__syncwarp();
		return 0;
	}

	/*
	 * The piece whose loads are the oldest of the ring. Its stages get the token's next loads;
	 * the next token is looked for when no sum is in registers. A piece that is not full is
	 * added with what follows it.
	 */
	GIN_FN void add()
	{
		const uint32_t token = __shfl_sync(0xffffffffu, heldToken, s.at);
		uint32_t part = __shfl_sync(0xffffffffu, heldPart, s.at);
		const uint32_t p = part / PART;
		Partial of = {};
		if (p == 0)
			to = rows.rowOf(token); /* a call, which would save the sums */
		if (rows.hasStart() && !(byDomain && part & OF_DOMAIN))
			start(of, token, p);
		GIN_NO_UNROLL
		do {
			part = __shfl_sync(0xffffffffu, heldPart, s.at);
			ginBulkPass(s.barriers + 8 * s.at, s.phase);
			if (of.isKept && part & ABOVE)
				addKept(of);
			addStage(of, p);
			if (byDomain && part & CLOSES)
				keep(of, token, p);
			__syncwarp(); /* the stage has been read */
			if (++s.at == s.count)
				s.at = 0, s.phase ^= 1;
			flying--;
			if (count)
				load();
		} while (!(part & LAST));
		if (of.isKept)
			addKept(of);
		put(of, token, p);
		if ((p + 1) * PIECE >= rows.call.rowBytes)
			rows.done(token);
	}

	/* Word i of the lane, in a piece. */
	GIN_FN static uint32_t atWord(uint32_t i) { return i * 512 + ginLane() * 16; }

	GIN_FN void start(Partial &of, uint32_t token, uint32_t p) const
	{
		const uint32_t bytes = pieceBytes(rows.call.rowBytes, p);
		EP_UNROLL
		for (uint32_t i = 0; i < WORDS; i++)
			if (atWord(i) < bytes)
				of.sum[i] = rows.start(token, (p * PIECE + atWord(i)) / 16);
	}

	GIN_FN void addStage(Partial &of, uint32_t p) const
	{
		const uint32_t from = s.base + s.at * s.size;
		ginWord16 word[WORDS];
		EP_UNROLL
		for (uint32_t i = 0; i < WORDS; i++)
			word[i] = epStagedWord(from + atWord(i));
		EP_UNROLL
		for (uint32_t i = 0; i < WORDS; i++)
			of.sum[i].plus(word[i]);
		if (p == 0 && ginLane() < rows.call.topk)
			of.weight = epPlus(of.weight, epStagedFloat(from + PIECE + ginLane() * 4));
	}

	/* This domain's rows are added. */
	GIN_FN void keep(Partial &of, uint32_t token, uint32_t p) const
	{
		EP_UNROLL
		for (uint32_t i = 0; i < WORDS; i++)
			of.kept[byDomain ? i : 0] = of.sum[i].rounded(), of.sum[i] = {};
		of.keptWeight = of.weight, of.weight = 0.0f;
		of.isKept = true;
		if (rows.hasStart())
			start(of, token, p);
	}

	GIN_FN static void addKept(Partial &of)
	{
		EP_UNROLL
		for (uint32_t i = 0; i < WORDS; i++)
			of.sum[i].plus(of.kept[byDomain ? i : 0]);
		of.weight = epPlus(of.weight, of.keptWeight);
		of.isKept = false;
	}

	GIN_FN void put(const Partial &of, uint32_t token, uint32_t p)
	{
		const uint32_t bytes = pieceBytes(rows.call.rowBytes, p);
		EP_UNROLL
		for (uint32_t i = 0; i < WORDS; i++)
			if (atWord(i) < bytes)
				epPieceStore(to + p * PIECE + atWord(i), of.sum[i].rounded());
		if (p == 0 && ginLane() < rows.call.topk)
			rows.weightsOf(token)[ginLane()] = of.weight;
	}
};

#endif

#endif
