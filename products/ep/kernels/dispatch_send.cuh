/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dispatch_send.cuh - each token's row to each rank that has one of its experts
 *
 * A block sends tokens block, block + grid, ... It knows the slot of a row and the numbers of its
 * items from the whole list of experts, without atomics: slots do not depend on timing.
 */
#ifndef GIN_EP_DISPATCH_SEND_CUH
#define GIN_EP_DISPATCH_SEND_CUH

#include "send.cuh"

/* How a row of x becomes a payload. epCastBytes: mxfp8 and nvfp4, given or cast. */
enum epCast { epCastNone, epCastToF8, epCastF8, epCastBytes };

/* A target of the row that the block is sending. `to` NULL: an empty entry. */
struct epTarget {
	char *to;
	uint32_t rank, slot;
};

/*
 * The rows that all blocks send to a rank; where the rank's rows begin in parts; see epItemParts.
 */
struct epBase {
	uint32_t rows, sum, item;
};

/* One store each: a link carries each store in a packet of its own. */
GIN_FN void epHeaderStore(char *dst, epHeader of)
{
	epPairStore(dst, of.token | static_cast<uint64_t>(of.kMask) << 32,
		    of.part | static_cast<uint64_t>(of.first) << 32);
}

GIN_FN void epItemStore(char *dst, epItem of)
{
	const uint64_t word = of.expert | static_cast<uint32_t>(of.number) << 16 |
			      static_cast<uint64_t>(epBitsOf(of.weight)) << 32;
#if GIN_ON_GPU
	*reinterpret_cast<uint64_t *>(dst) = word;
#else
	memcpy(dst, &word, sizeof(word));
#endif
}

/* `direct`: every peer is direct. */
template <bool direct, epCast cast> class EpDispatchSend : public EpSend
{
	/* The data of a row that a thread loads, and casts, before it knows the row's targets. */
	struct Ahead {
		ginWord16 piece[2]; /* a cast piece is in the first one */
		float scale;
		float weight; /* of item epTeam() */
	};

	epBase *bases;	     /* [ranks]; not direct only */
	uint32_t *histogram; /* [1 + mostLocal] */
	epTarget *targets;   /* [2][GIN_EP_MAX_TOPK] */

public:
	GIN_FN EpDispatchSend(const epArgs &a, char *shared, bool isPlain = false)
	    : EpSend(a, shared + keptBytes(a.plan), ginEpCallDispatchSend, isPlain)
	{
		openAt(shared);
		tagged = reinterpret_cast<epTagged *>(shared + openBytes(plan));
		bases = reinterpret_cast<epBase *>(listEnd());
		histogram = reinterpret_cast<uint32_t *>(bases + ranks());
		size_t used = reinterpret_cast<char *>(histogram + 1 + plan.mostLocal) - scratch;
		targets = reinterpret_cast<epTarget *>(scratch + (used + 15) / 16 * 16);
	}

	/*
	 * Bytes at the beginning of the scratch that raiseRows() reads. A receive in one kernel
	 * with the send takes over the rest.
	 */
	GIN_FN static size_t keptBytes(const epPlan &plan)
	{
		const size_t tags = direct ? plan.nRanks * sizeof(epTagged) : 0;
		return (openBytes(plan) + tags + 15) / 16 * 16;
	}

	GIN_FN static size_t scratchBytes(const epPlan &plan)
	{
		if (direct && !plan.allDirect)
			return 0; /* not run */
		return keptBytes(plan) + listBytes() + plan.nRanks * sizeof(epBase) +
		       (1 + plan.mostLocal) * sizeof(uint32_t) + 16 +
		       2 * GIN_EP_MAX_TOPK * sizeof(epTarget);
	}

	/*
	 * After send(): signals the rows. All threads of the block meet in it, and one warp waits
	 * for their stores.
	 */
	GIN_FN void signal() const { raiseRows<direct>(); }

	/*
	 * False: an earlier call has failed, and nothing is done. `alone`: the kernel does not
	 * receive. When all threads have returned, the list is not used any more.
	 */
	GIN_FN bool send(bool alone, uint32_t *sent)
	{
		Ahead ahead = {};
		began = epTraceBegin(args);
		if (ginBlockIndex() < call.tokens)
			loadAhead(ginBlockIndex(), ahead);
		open<direct>();
		if (needsList())
			listItems(number);
		if (ginBlockIndex() < call.tokens)
			castAhead(thread(), ahead);
		GIN_NO_UNROLL
		for (uint32_t i = thread(); i < 2 * GIN_EP_MAX_TOPK; i += threads())
			targets[i].to = nullptr;
		if (!enter())
			return false;
		*sent = epoch;
		if (alone)
			advanceAlone();
		if (!direct)
			countRows();
		GIN_NO_UNROLL
		for (uint32_t r = countsOf(ginBlockIndex()); r < ranks(); r += ginGridSize())
			sendCounts(r);
		GIN_NO_UNROLL
		for (uint32_t t = ginBlockIndex(), n = 0; t < call.tokens;
		     t += ginGridSize(), n++) {
			if (n) {
				loadAhead(t, ahead);
				castAhead(thread(), ahead);
				sync(); /* its targets are empty */
			}
			sendToken(t, targets + n % 2 * GIN_EP_MAX_TOPK, ahead,
				  targets + (n + 1) % 2 * GIN_EP_MAX_TOPK);
		}
		return true;
	}

private:
	/*
	 * A block that sends no row and no counts needs no list; with peers on network routes every
	 * block needs it.
	 */
	GIN_FN bool needsList() const
	{
		return !direct || ginBlockIndex() < call.tokens ||
		       countsOf(ginBlockIndex()) < ranks();
	}

	/* The first rank whose counts the block sends. The last block gives credits meanwhile. */
	GIN_FN static uint32_t countsOf(uint32_t block)
	{
		return block + 1 < ginGridSize() ? ginGridSize() - 2 - block : ginGridSize() - 1;
	}

	/* Counts rows and items for each rank; then finds where they begin in parts. */
	GIN_FN void countRows() const
	{
		GIN_NO_UNROLL
		for (uint32_t r = epTeam(); r < ranks(); r += epTeams()) {
			const uint32_t rows = rowsTo(r), items = itemsTo(r);
			if (epTeamFirst())
				bases[r] = {rows, rows, items};
		}
		sync();
		uint32_t sum = 0, item = 0;
		GIN_NO_UNROLL
		for (uint32_t r = 0; thread() == 0 && r < ranks(); r++) {
			const epBase of = bases[r];
			bases[r] = {of.rows, sum, item};
			sum += of.sum;
			item += of.item;
		}
		sync();
	}

	/*
	 * Sends the count line of a rank: its rows, and its items for each of the rank's experts.
	 */
	GIN_FN void sendCounts(uint32_t r)
	{
		const uint32_t words = 1 + expertsOf(r);
		histogramOf(r, histogram, words);
		if (thread() == 0)
			sentOf(call.handle)[r] = fate[r] ? 0 : histogram[0];
		if (!fate[r])
			sendLine(r, words);
		if (!fate[r] && thread() == 0)
			epRaiseRest<direct>(args, number, epRows, r, histogram[0], epoch);
		if (ginTraces && !fate[r] && epTeam() == 0)
			traceRows(r, words);
		sync(); /* before the next rank's histogram */
	}

	/* By one team: the bytes of the rows, and of the count line, that a rank gets. */
	GIN_FN void traceRows(uint32_t r, uint32_t words) const
	{
		const bool stored = direct || epIsDirect(plan, r);
		const uint32_t row = stored ? static_cast<uint32_t>(sizeof(epHeader)) +
						      pieces() * 16 + call.scaleWords * 4
					    : plan.rowBytes;
		uint32_t items = 0;
		GIN_NO_UNROLL
		for (uint32_t w = 1 + epTeamLane(); w < words; w += epTeamSize())
			items += histogram[w];
		items = stored ? epTeamSum(items) : 0; /* a put has room for all items of a row */
		if (epTeamFirst())
			epTraceSent(args, number, r, epoch, began,
				    words * sizeof(uint64_t) + uint64_t{histogram[0]} * row +
					    items * sizeof(epItem));
	}

	GIN_FN void sendLine(uint32_t r, uint32_t words) const
	{
		const uint64_t tag = static_cast<uint64_t>(epoch + 1) << 32;
		const size_t at = epLineAt(plan, half, plan.rank);
		const int peer = static_cast<int>(r);
		if (direct || epIsDirect(plan, r)) {
			uint64_t *line = reinterpret_cast<uint64_t *>(slabOf(r) + at);
			GIN_NO_UNROLL
			for (uint32_t w = thread(); w < words; w += threads())
				ginDirectStore(reinterpret_cast<char *>(line + w),
					       tag | histogram[w]);
			return;
		}
		const size_t staged = epStagedLineAt(plan, half, r);
		uint64_t *line = reinterpret_cast<uint64_t *>(plan.own + staged);
		GIN_NO_UNROLL
		for (uint32_t w = thread(); w < words; w += threads())
			line[w] = tag | histogram[w];
		ginResult_t result = gin<direct>(0).put(peer, plan.slab, at, plan.slab, staged,
							words * sizeof(uint64_t), GinNone{},
							GinNone{}, GinCta{}, epFrom(args, r));
		if (result != ginSuccess && thread() == 0)
			epLose<direct>(args, number, r, result, epoch, 0, 0);
	}

	/* `to` is empty; `next` becomes empty, for the next token. */
	GIN_FN void sendToken(uint32_t t, epTarget *to, const Ahead &ahead, epTarget *next)
	{
		GIN_NO_UNROLL
		for (uint32_t k = epTeam(); k < call.topk; k += epTeams())
			addItem(t, k, ahead, to);
		sync();
		GIN_NO_UNROLL
		for (uint32_t i = thread(); i < call.topk; i += threads())
			next[i].to = nullptr;
		sendRow(t, to, ahead);
		if (direct)
			return;
		sync();
		GIN_NO_UNROLL
		for (uint32_t i = thread(); i < call.topk; i += threads())
			if (to[i].to && !epIsDirect(plan, to[i].rank))
				stagedOne(to[i].rank, to[i].slot);
	}

	/*
	 * One team finds where item (t, k) goes, and writes the item; for a rank's first item of
	 * the token also the row's header.
	 */
	GIN_FN void addItem(uint32_t t, uint32_t k, const Ahead &ahead, epTarget *to) const
	{
		const uint32_t entry = listed(t * call.topk + k);
		if (entry == EP_NONE)
			return;
		const uint32_t rank = epRankIn(entry);
		const epShare share = shareOf(t, rank);
		const uint32_t before = numberOf(t, k), slot = slotOf(t, k, rank);
		const uint32_t item = direct ? 0 : rankedOf(t, k, rank);
		if (!epTeamFirst() || fate[rank])
			return;
		char *row = (direct || epIsDirect(plan, rank))
				    ? slabOf(rank) + epRowAt(plan, half, plan.rank, slot)
				    : plan.own + epStagedRowAt(plan, half, rank, slot);
		const uint32_t below = share.kMask & ((1u << k) - 1);
		const epItemParts parts = itemPartsOf(t, share, rank, slot, item);
		if (!below) {
			to[share.ranksBelow] = {row, rank, slot};
			if (direct)
				tagged[rank] = {row + EP_TAG_AT, parts.sum};
			epHeaderStore(row, {t, share.kMask, parts.sum, parts.item});
			if (direct || epIsDirect(plan, rank))
				epScratchAdd(&rowsOut[rank], 1);
		}
		if (!direct)
			epItemPartsIn(plan, call.handle)[t * call.topk + k] = parts;
		writeItem(row, epBits(below), t * call.topk + k, before,
			  GIN_ON_GPU && k == epTeam() ? ahead.weight : weightAt(t * call.topk + k));
	}

	/* Where combine puts the rows of an item; `item`: items before it at its rank. */
	GIN_FN epItemParts itemPartsOf(uint32_t t, epShare share, uint32_t rank, uint32_t slot,
				       uint32_t item) const
	{
		if (direct)
			return {t * plan.partsOfToken + share.ranksBelow, 0};
		return {bases[rank].sum + slot, bases[rank].item + item};
	}

	GIN_FN void writeItem(char *row, uint32_t index, uint32_t i, uint32_t before,
			      float weight) const
	{
		epItemStore(row + sizeof(epHeader) + index * sizeof(epItem),
			    {static_cast<uint16_t>(epLocalIn(listed(i))),
			     static_cast<uint16_t>(before), weight});
	}

	/* A staged row is complete; the block that completes a chunk puts it. */
	GIN_FN void stagedOne(uint32_t rank, uint32_t slot) const
	{
		epChunk chunk;
		if (staged(rank, slot, bases[rank].rows, &chunk))
			putChunk<direct>(rank, chunk, epRowAt(plan, half, plan.rank, chunk.first),
					 epStagedRowAt(plan, half, rank, chunk.first),
					 static_cast<size_t>(chunk.size) * plan.rowBytes);
	}

	/* Ranks that a token can go to. */
	GIN_FN uint32_t mostTargets() const { return call.topk < ranks() ? call.topk : ranks(); }

	GIN_FN void store(const epTarget *to, size_t offset, ginWord16 piece) const
	{
		GIN_NO_UNROLL
		for (uint32_t i = 0; i < mostTargets(); i++)
			if (to[i].to)
				epPieceStore(to[i].to + offset, piece);
	}

	GIN_FN void storeScale(const epTarget *to, uint32_t group, float scale) const
	{
		storeAt(to, scalesAt() + group * sizeof(float), scale);
	}

	/* The offset of the scales in a row. */
	GIN_FN uint32_t scalesAt() const { return plan.payload + pieces() * 16; }

	template <class T> GIN_FN void storeAt(const epTarget *to, size_t at, T value) const
	{
		GIN_NO_UNROLL
		for (uint32_t i = 0; i < mostTargets(); i++)
			if (to[i].to)
				*reinterpret_cast<T *>(to[i].to + at) = value;
	}

	GIN_FN const char *rowOf(uint32_t t) const { return call.x.data + t * call.x.inner; }

	/* Pieces of 16 bytes of a payload; a piece that is cast comes from two of x. */
	GIN_FN uint32_t pieces() const { return call.pieces; }

	GIN_FN void loadAhead(uint32_t t, Ahead &ahead) const
	{
		const uint32_t p = thread();
		if (GIN_ON_GPU && epTeam() < call.topk)
			ahead.weight = weightAt(t * call.topk + epTeam());
		if (!GIN_ON_GPU || p >= pieces() || (cast == epCastBytes && !call.xIsGiven))
			return;
		if (cast == epCastToF8) {
			loadTwo(rowOf(t), p, ahead);
			return;
		}
		ahead.piece[0] = epPieceLoad(rowOf(t) + p * 16);
		if (p + threads() < pieces())
			ahead.piece[1] = epPieceLoad(rowOf(t) + (p + threads()) * 16);
	}

	/* The two pieces of x from which piece p is cast. */
	GIN_FN static void loadTwo(const char *x, uint32_t p, Ahead &ahead)
	{
		ahead.piece[0] = epPieceLoad(x + p * 32);
		ahead.piece[1] = epPieceLoad(x + p * 32 + 16);
	}

	GIN_FN void sendRow(uint32_t t, const epTarget *to, const Ahead &ahead) const
	{
		if (cast == epCastToF8)
			castRow(rowOf(t), to, ahead);
		else if (cast == epCastBytes && !call.xIsGiven)
			castBytes(rowOf(t), to);
		else
			copyRow(t, to, ahead);
	}

	GIN_FN void copyRow(uint32_t t, const epTarget *to, const Ahead &ahead) const
	{
		GIN_NO_UNROLL
		for (uint32_t p = thread(), n = 0; p < pieces(); p += threads(), n++)
			store(to, plan.payload + p * 16,
			      GIN_ON_GPU && n == 0   ? ahead.piece[0]
			      : GIN_ON_GPU && n == 1 ? ahead.piece[1]
						     : epPieceLoad(rowOf(t) + p * 16));
		GIN_NO_UNROLL
		for (uint32_t g = thread(); cast == epCastF8 && g < call.scaleCount; g += threads())
			storeScale(to, g, scaleAt(t, g));
		GIN_NO_UNROLL
		for (uint32_t w = thread(); cast == epCastBytes && w < call.scaleWords;
		     w += threads())
			storeAt(to, scalesAt() + w * 4, scaleBytesAt(t, w * 4));
	}

	/* The scales first to first + 3 of x, as far as they exist. */
	GIN_FN uint32_t scaleBytesAt(uint32_t t, uint32_t first) const
	{
		const char *row = call.scales.data + t * call.scales.inner;
		uint32_t word = 0;
		GIN_NO_UNROLL
		for (uint32_t b = 0; b < 4 && first + b < call.scaleCount; b++)
			word |= static_cast<uint32_t>(
					static_cast<uint8_t>(row[(first + b) * call.scales.each]))
				<< b * 8;
		return word;
	}

	GIN_FN float scaleAt(uint32_t t, uint32_t group) const
	{
		const char *row = call.scales.data + t * call.scales.inner;
		if (!call.xScalesUe8m0)
			return *reinterpret_cast<const float *>(row + group * call.scales.each);
		uint32_t word =
			*reinterpret_cast<const uint32_t *>(row + group / 4 * call.scales.each);
		return epFromUe8m0(word >> group % 4 * 8 & 0xff);
	}

	/* 16 bf16, eight words. */
	struct Sixteen {
		uint32_t pair[8];
	};

	GIN_FN static Sixteen load(const char *x)
	{
		return sixteen(epPieceLoad(x), epPieceLoad(x + 16));
	}

	GIN_FN static Sixteen sixteen(ginWord16 a, ginWord16 b)
	{
		return {{static_cast<uint32_t>(a.half[0]), static_cast<uint32_t>(a.half[0] >> 32),
			 static_cast<uint32_t>(a.half[1]), static_cast<uint32_t>(a.half[1] >> 32),
			 static_cast<uint32_t>(b.half[0]), static_cast<uint32_t>(b.half[0] >> 32),
			 static_cast<uint32_t>(b.half[1]), static_cast<uint32_t>(b.half[1] >> 32)}};
	}

	GIN_FN static float largest(const Sixteen &v, float most)
	{
		EP_UNROLL
		for (uint32_t i = 0; i < 8; i++) {
			most = epLarger(most, epMagnitude(epLow(v.pair[i])));
			most = epLarger(most, epMagnitude(epHigh(v.pair[i])));
		}
		return most;
	}

	GIN_FN static uint32_t quad(uint32_t low, uint32_t high, float factor)
	{
		return epE4m3Quad(epTimes(epLow(low), factor), epTimes(epHigh(low), factor),
				  epTimes(epLow(high), factor), epTimes(epHigh(high), factor));
	}

	GIN_FN static ginWord16 toF8(const Sixteen &v, float factor)
	{
		uint64_t word[4];
		EP_UNROLL
		for (uint32_t i = 0; i < 4; i++)
			word[i] = quad(v.pair[2 * i], v.pair[2 * i + 1], factor);
		return {{word[0] | word[1] << 32, word[2] | word[3] << 32}};
	}

	/* Each thread casts 32 elements: a scale of mxfp8, two scales of nvfp4. */
	GIN_FN void castBytes(const char *x, const epTarget *to) const
	{
		GIN_NO_UNROLL
		for (uint32_t u = thread(); u < call.hidden / 32; u += threads()) {
			const Sixteen a = load(x + u * 64), b = load(x + u * 64 + 32);
			if (call.rows == GIN_EP_ROWS_MXF8)
				castMx(u, a, b, to);
			else
				castNv(u, a, b, to);
		}
	}

	GIN_FN void castMx(uint32_t u, const Sixteen &a, const Sixteen &b, const epTarget *to) const
	{
		const uint32_t exponent = epMxExponent(largest(b, largest(a, 0.0f)));
		const float factor = epFromUe8m0(254 - exponent);
		store(to, plan.payload + u * 32, toF8(a, factor));
		store(to, plan.payload + u * 32 + 16, toF8(b, factor));
		storeAt(to, scalesAt() + u, static_cast<uint8_t>(exponent));
	}

	GIN_FN void castNv(uint32_t u, const Sixteen &a, const Sixteen &b, const epTarget *to) const
	{
		const float global = *call.globalScale;
		const uint32_t first = epNvScale(largest(a, 0.0f), global);
		const uint32_t second = epNvScale(largest(b, 0.0f), global);
		store(to, plan.payload + u * 16,
		      {{toF4(a, epNvFactor(first, global)), toF4(b, epNvFactor(second, global))}});
		storeAt(to, scalesAt() + u * 2, static_cast<uint16_t>(first | second << 8));
	}

	/* 16 e2m1, the first in the lowest bits. */
	GIN_FN static uint64_t toF4(const Sixteen &v, float factor)
	{
		uint64_t word = 0;
		EP_UNROLL
		for (uint32_t i = 0; i < 8; i++) {
			const uint64_t pair = epToE2m1(epTimes(epLow(v.pair[i]), factor)) |
					      epToE2m1(epTimes(epHigh(v.pair[i]), factor)) << 4;
			word |= pair << i * 8;
		}
		return word;
	}

	/*
	 * Piece p: 8 threads of a warp cast 128 elements. By all threads of a warp, on a GPU;
	 * threads without a piece to cast do nothing.
	 */
	GIN_FN void castAhead(uint32_t p, Ahead &ahead) const
	{
#if GIN_ON_GPU
		if (cast != epCastToF8)
			return;
		Sixteen v = {};
		if (p < pieces())
			v = sixteen(ahead.piece[0], ahead.piece[1]);
		float most = largest(v, 1e-4f);
		EP_UNROLL
		for (uint32_t lane = 1; lane < 8; lane *= 2)
			most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, lane));
		const epScale scale = epScaleOf(most, call.scaleKind != GIN_EP_SCALE_F32);
		ahead.piece[0] = toF8(v, scale.factor);
		ahead.scale = scale.scale;
#else
		(void)p;
		(void)ahead;
#endif
	}

	/* On the host one thread casts 128 elements. */
	GIN_FN void castRow(const char *x, const epTarget *to, Ahead ahead) const
	{
#if GIN_ON_GPU
		GIN_NO_UNROLL
		for (uint32_t p = thread(); p < (pieces() + 31) / 32 * 32; p += threads()) {
			if (p != thread() && p < pieces())
				loadTwo(x, p, ahead);
			if (p != thread())
				castAhead(p, ahead);
			if (p >= pieces())
				continue;
			store(to, plan.payload + p * 16, ahead.piece[0]);
			if (p % 8 == 0)
				storeScale(to, p / 8, ahead.scale);
		}
#else
		(void)ahead;
		const bool pow2 = call.scaleKind != GIN_EP_SCALE_F32;
		GIN_NO_UNROLL
		for (uint32_t g = thread(); g < (pieces() + 7) / 8; g += threads()) {
			const uint32_t end = g * 8 + 8 < pieces() ? g * 8 + 8 : pieces();
			float most = 1e-4f;
			GIN_NO_UNROLL
			for (uint32_t p = g * 8; p < end; p++)
				most = largest(load(x + p * 32), most);
			epScale scale = epScaleOf(most, pow2);
			GIN_NO_UNROLL
			for (uint32_t p = g * 8; p < end; p++)
				store(to, plan.payload + p * 16,
				      toF8(load(x + p * 32), scale.factor));
			storeScale(to, g, scale.scale);
		}
#endif
	}
};

#endif
