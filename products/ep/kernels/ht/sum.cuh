/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sum.cuh - a warp adds the rows of tokens, which it loads piece by piece by bulk copies
 *
 * EpHtSums adds the rows of the tokens first, first + step, ... of `Rows`, a class with
 *
 *	call		tokens, rowBytes, metaBytes, topk
 *	find(t, &n)	lists the rows of token t when they are ready; false: a rank is lost
 *	at(i)		row i of the list: its bytes, `row`, and its weights
 *	isOwn(row)	are the weights this rank's? Others are in a pool, padded for bulk copies
 *	hasStart()	do sums begin with something?
 *	start(t, p)	with what the sum of piece p of 16 bytes begins
 *	out(t)		where the sum of token t goes
 *	putWeight(t, k, weight)
 *	write(t, n)	the sums of token t, without bulk copies
 *
 * A ring of stages is in flight, each with a piece of one row, and with the row's weights if it is
 * the row's first. Each warp has a ring of its own: bulk loads end in any order, and a warp that is
 * a turn ahead in a ring of several warps would see a phase of the turn before as its own.
 */
#ifndef GIN_EP_HT_SUM_CUH
#define GIN_EP_HT_SUM_CUH

#include "move.cuh"
#include "../reduce.cuh"

#if GIN_HAS_BULK

#ifndef EP_HT_SUM_PIECE
#define EP_HT_SUM_PIECE 2048u
#endif
#define EP_HT_SUM_WORDS (EP_HT_SUM_PIECE / 16u / 32u) /* of a lane */

/* Bytes of a stage: a piece, and the weights of GIN_EP_MAX_TOPK experts. */
GIN_FN uint32_t epHtSumStage(const epHtCall &call)
{
	return EP_HT_SUM_PIECE + (call.topk ? 128u : 0);
}

template <class Rows> class EpHtSums
{
	const Rows &rows;
	epStages s;
	const char *const ring; /* the stages */
	const uint32_t step;

	/* The next load: piece `piece` of row `row` of `count` of token `t`. */
	uint32_t t, count, piece, row;
	uint32_t into, flying;	      /* the stage of the next load; loads in flight */
	uint32_t heldToken, heldPart; /* of the stage of the lane's number */

	epEight sum[EP_HT_SUM_WORDS]; /* of the token and piece that are being added */
	float weight;		      /* of the expert of the lane's number */

public:
	/* `scratch`: of epStagesOpen(). */
	GIN_FN EpHtSums(const Rows &r, const epStages &stages, const char *scratch, uint32_t first,
			uint32_t by)
	    : rows(r), s(stages), ring(scratch + 128), step(by), t(first), count(0), piece(0),
	      row(0), into(0), flying(0), heldToken(0), heldPart(0), weight(0.0f)
	{
	}

	/* By all lanes of the warp. */
	GIN_FN void run()
	{
		bool more = true, found = false;
		GIN_NO_UNROLL
		do {
			GIN_NO_UNROLL
			while (more && flying < s.count) {
				if (!found && !(more = seek()))
					break;
				load();
				found = advance();
			}
			if (flying)
				add();
		} while (more || flying);
	}

private:
	GIN_FN static uint32_t pieceBytes(uint32_t rowBytes, uint32_t p)
	{
		const uint32_t left = rowBytes - p * EP_HT_SUM_PIECE;
		return left < EP_HT_SUM_PIECE ? left : EP_HT_SUM_PIECE;
	}

	/* To the first token from t on that has rows. */
	GIN_FN bool seek()
	{
		GIN_NO_UNROLL
		for (; t < rows.call.tokens; t += step) {
			if (!rows.find(t, &count))
				return false;
			if (count) {
				ginBulkFence(); /* other agents have written the rows */
				return true;
			}
			rows.write(t, 0);
		}
		return false;
	}

	/* False: to the next token. */
	GIN_FN bool advance()
	{
		if (++row < count)
			return true;
		row = 0;
		if (++piece * EP_HT_SUM_PIECE < rows.call.rowBytes)
			return true;
		piece = 0;
		t += step;
		return false;
	}

	GIN_FN void load()
	{
		const auto from = rows.at(row);
		const uint32_t barrier = s.barriers + 8 * into, to = s.base + into * s.size;
		const uint32_t bytes = pieceBytes(rows.call.rowBytes, piece);
		uint32_t more = 0;
		if (piece == 0 && rows.call.topk)
			more = loadWeights(from, to + EP_HT_SUM_PIECE, barrier);
		if (ginLane() == 0) {
			ginBulkExpect(barrier, bytes + more);
			ginBulkRead(to, from.row + piece * EP_HT_SUM_PIECE, bytes, barrier);
			if (more)
				ginBulkRead(to + EP_HT_SUM_PIECE, from.weights, more, barrier);
		}
		if (ginLane() == into) {
			heldToken = t;
			heldPart = piece * 4 + (row == 0 ? 2 : 0) + (row + 1 == count ? 1 : 0);
		}
		into = into + 1 < s.count ? into + 1 : 0;
		flying++;
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

	/* The oldest load of the ring. A piece that is not full is added with what follows it. */
	GIN_FN void add()
	{
		const uint32_t token = __shfl_sync(0xffffffffu, heldToken, s.at);
		const uint32_t part = __shfl_sync(0xffffffffu, heldPart, s.at);
		const char *const from = ring + s.at * s.size;
		ginWord16 word[EP_HT_SUM_WORDS];
		if (part & 2)
			start(token, part / 4);
		ginBulkPass(s.barriers + 8 * s.at, s.phase);
		EP_UNROLL
		for (uint32_t i = 0; i < EP_HT_SUM_WORDS; i++)
			word[i] = *reinterpret_cast<const ginWord16 *>(from + atWord(i));
		EP_UNROLL
		for (uint32_t i = 0; i < EP_HT_SUM_WORDS; i++)
			sum[i].plus(word[i]);
		if (part < 4 && ginLane() < rows.call.topk)
			weight = epPlus(weight, *reinterpret_cast<const float *>(
							from + EP_HT_SUM_PIECE + ginLane() * 4));
		if (part & 1)
			put(token, part / 4);
		__syncwarp(); /* the stage has been read */
		if (++s.at == s.count)
			s.at = 0, s.phase ^= 1;
		flying--;
	}

	/* Word i of the lane, in a piece. */
	GIN_FN static uint32_t atWord(uint32_t i) { return i * 512 + ginLane() * 16; }

	GIN_FN void start(uint32_t token, uint32_t p)
	{
		const uint32_t bytes = pieceBytes(rows.call.rowBytes, p);
		const uint32_t first = p * (EP_HT_SUM_PIECE / 16);
		EP_UNROLL
		for (uint32_t i = 0; i < EP_HT_SUM_WORDS; i++)
			sum[i] = {};
		weight = 0.0f;
		if (!rows.hasStart())
			return;
		EP_UNROLL
		for (uint32_t i = 0; i < EP_HT_SUM_WORDS; i++)
			if (atWord(i) < bytes)
				sum[i] = rows.start(token, first + atWord(i) / 16);
	}

	GIN_FN void put(uint32_t token, uint32_t p) const
	{
		const uint32_t bytes = pieceBytes(rows.call.rowBytes, p);
		char *const to = rows.out(token) + p * EP_HT_SUM_PIECE;
		EP_UNROLL
		for (uint32_t i = 0; i < EP_HT_SUM_WORDS; i++)
			if (atWord(i) < bytes)
				epPieceStore(to + atWord(i), sum[i].rounded());
		if (p == 0 && ginLane() < rows.call.topk)
			rows.putWeight(token, ginLane(), weight);
	}
};

#endif

#endif
