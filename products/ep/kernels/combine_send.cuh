/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * combine_send.cuh - the experts' results for each received row, back to the token's rank
 *
 * GIN_EP_REDUCE_RANK adds the rows of a token here and sends one; GIN_EP_REDUCE_NONE sends all. A
 * signal counts received rows, however many rows go back for each of them.
 */
#ifndef GIN_EP_COMBINE_SEND_CUH
#define GIN_EP_COMBINE_SEND_CUH

#include "reduce.cuh"
#include "send.cuh"

/* The number of the n-th set bit. */
GIN_FN uint32_t epNthBit(uint32_t mask, uint32_t n)
{
	GIN_NO_UNROLL
	for (; n; n--)
		mask &= mask - 1;
#if GIN_ON_GPU
	return static_cast<uint32_t>(__ffs(static_cast<int>(mask))) - 1;
#else
	return static_cast<uint32_t>(__builtin_ctz(mask));
#endif
}

GIN_FN epAnswer epAnswerLoad(const epAnswer *src)
{
	const uint64_t word = ginLoadWeak<uint64_t>(reinterpret_cast<const char *>(src));
	return {static_cast<uint32_t>(word), epFloatOf(static_cast<uint32_t>(word >> 32))};
}

/*
 * `direct`: every peer is direct. `reduce`: GIN_EP_REDUCE_RANK or GIN_EP_REDUCE_NONE. `overlaps`:
 * rows of x may become ready while the kernel runs.
 */
template <bool direct, uint32_t reduce, bool overlaps> class EpCombineSend : public EpSend
{
	/* The data of a received row that a thread loads. */
	struct Ahead {
		epReceived row;
		epAnswer answer; /* of thread i: answer i, even if the row has fewer */
		bool loaded;
	};

	epSource *sources;  /* [2][GIN_EP_MAX_TOPK] */
	uint32_t *received; /* [ranks]: rows of each source */

public:
	GIN_FN EpCombineSend(const epArgs &a, char *shared, bool isPlain = false)
	    : EpSend(a, shared, ginEpCallCombineSend, isPlain)
	{
		sources = reinterpret_cast<epSource *>(scratch);
		openAt(reinterpret_cast<char *>(sources + 2 * GIN_EP_MAX_TOPK));
		received = rowsOut + ranks();
	}

	/*
	 * A receive in one kernel with the send has scratch of its own: one warp finds parts while
	 * another warp signals.
	 */
	GIN_FN static size_t keptBytes(const epPlan &plan)
	{
		return (scratchBytes(plan) + 15) / 16 * 16;
	}

	GIN_FN static size_t scratchBytes(const epPlan &plan)
	{
		return 2 * GIN_EP_MAX_TOPK * sizeof(epSource) + openBytes(plan) +
		       plan.nRanks * sizeof(uint32_t);
	}

	/*
	 * After send(): signals the rows. All threads of the block meet in it, and one warp waits
	 * for their stores.
	 */
	GIN_FN void signal() const
	{
		raiseRows<direct>();
		if (ginBlockIndex() == (ginGridSize() > 1 ? ginGridSize() - 2 : 0))
			raiseRests();
	}

	/*
	 * False: an earlier call has failed, and nothing is done. `alone`: the kernel does not
	 * receive.
	 */
	GIN_FN bool send(bool alone, uint32_t *sent)
	{
		Ahead ahead = {};
		const uint32_t first = ginBlockIndex() / ranks(), of = ginBlockIndex() % ranks();
		if (first < plan.maxTokens)
			load(epRecordOf(plan, call.handle, of, first), ahead);
		GIN_NO_UNROLL
		for (uint32_t s = thread(); s < ranks(); s += threads())
			received[s] = epReceivedOf(plan, call.handle)[s];
		open<direct>();
		if (!enter())
			return false;
		*sent = epoch;
		if (alone)
			advanceAlone();
		ahead.loaded = first < answersTo(of);
		uint32_t n = 0; /* rows sent: two successive rows share no sources */
		eachRow([&](uint32_t s) { return answersTo(s); }, 0,
			[&](uint32_t s, uint32_t slot) {
				if (!ahead.loaded)
					load(epRecordOf(plan, call.handle, s, slot), ahead);
				sendRow(s, slot, ahead, sources + n++ % 2 * GIN_EP_MAX_TOPK);
				ahead.loaded = false;
			});
		return true;
	}

private:
	/*
	 * A source whose rows were lost in the dispatch gets no signal, so it finds this rank lost:
	 * with a signal it would add the bytes of an earlier combine.
	 */
	GIN_FN bool answers(uint32_t s) const { return !fate[s] && received[s] != EP_NONE; }

	/* By one block; not the last one, which gives credits meanwhile. */
	GIN_FN void raiseRests() const
	{
		GIN_NO_UNROLL
		for (uint32_t r = threads() - 1 - thread(); r < ranks(); r += threads())
			if (answers(r))
				epRaiseRest<direct>(args, number, epParts, r, received[r], epoch);
	}

	/* Rows that go back to a source. */
	GIN_FN uint32_t answersTo(uint32_t s) const { return answers(s) ? received[s] : 0; }

	GIN_FN void load(const char *record, Ahead &ahead) const
	{
		const ginWord16 words = epPieceLoad(record);
		if (GIN_ON_GPU && thread() < plan.topk)
			ahead.answer = epAnswerLoad(answersOf(record) + thread());
		ahead.row = {static_cast<uint32_t>(words.half[0]),
			     static_cast<uint32_t>(words.half[0] >> 32),
			     static_cast<uint32_t>(words.half[1]),
			     static_cast<uint32_t>(words.half[1] >> 32)};
		ahead.loaded = true;
	}

	GIN_FN static const epAnswer *answersOf(const char *record)
	{
		return reinterpret_cast<const epAnswer *>(record + sizeof(epReceived));
	}

	GIN_FN void sendRow(uint32_t s, uint32_t slot, const Ahead &ahead, epSource *from)
	{
		const epReceived &row = ahead.row;
		const bool ranked = call.layout == GIN_EP_RANK_MAJOR;
		findSources(s, slot, ahead, from);
		const uint32_t n = ranked && row.kMask ? 1 : epBits(row.kMask);
		sync();
		if (overlaps && !allReady(from, n))
			return;
		sendParts(from, n);
		if (thread() == 0 && (direct || epIsDirect(plan, s)))
			rowsOut[s]++;
		if (direct || epIsDirect(plan, s))
			return;
		sync();
		if (thread() == 0)
			stagedOne(s, slot);
	}

	/* The rows of x of a received row. */
	GIN_FN void findSources(uint32_t s, uint32_t slot, const Ahead &ahead, epSource *from) const
	{
		const epAnswer *answers = answersOf(epRecordOf(plan, call.handle, s, slot));
		const uint32_t rows = ranks() * plan.maxTokens, kMask = ahead.row.kMask;
		GIN_NO_UNROLL
		for (uint32_t i = thread(); i < epBits(kMask); i += threads()) {
			const epAnswer answer =
				GIN_ON_GPU ? ahead.answer : epAnswerLoad(answers + i);
			const uint32_t k = epNthBit(kMask, i);
			from[i] = {call.x.data + answer.row / rows * call.x.outer +
					   answer.row % rows * call.x.inner,
				   partOf(s, ahead.row, i, k), answer.weight};
			if (call.layout == GIN_EP_RANK_MAJOR)
				from[i].x = call.x.data + s * call.x.outer + slot * call.x.inner;
			if (overlaps && call.ready &&
			    !awaitRow(answer.row / rows, answer.row % rows))
				from[i].x = nullptr;
		}
	}

	/* Waits until row i of an expert is complete. False: this rank has failed meanwhile. */
	GIN_FN bool awaitRow(uint32_t expert, uint32_t i) const
	{
		const char *word = call.ready + expert * call.readyOuter +
				   i / call.readyRows * call.readyInner;
		return static_cast<int32_t>(epReadyLoad(word) - call.readyAt) >= 0 ||
		       epAwaitReady<direct>(args, word, epoch);
	}

	/* A row with a part that never became ready is not sent, and its signal is not raised. */
	GIN_FN bool allReady(const epSource *from, uint32_t n) const
	{
		bool all = true;
		GIN_NO_UNROLL
		for (uint32_t i = 0; call.ready && i < n; i++)
			all = all && from[i].x;
		return all;
	}

	/* Where part i of a row is written, the row of item k: at the peer, or staged. */
	GIN_FN char *partOf(uint32_t s, const epReceived &row, uint32_t i, uint32_t k) const
	{
		const uint32_t part = reduce == GIN_EP_REDUCE_RANK ? row.part
				      : direct ? row.token * plan.partsOfToken + k
					       : row.first + i;
		if (!direct && !epIsDirect(plan, s))
			return plan.own + epStagedPartAt(plan, half, s, part);
		return slabOf(s) + epPartAt(plan, half, part);
	}

	GIN_FN void sendParts(const epSource *from, uint32_t n) const
	{
		const uint32_t pieces = call.hidden / 8;
		GIN_NO_UNROLL
		for (uint32_t p = thread(); n && p < pieces; p += threads())
			if (reduce == GIN_EP_REDUCE_RANK)
				epPieceStore(from[0].to + p * 16, sumOf(from, n, p));
			else
				copyParts(from, n, p);
	}

	/* Piece p of n rows. Four loads are in flight. */
	GIN_FN static void copyParts(const epSource *from, uint32_t n, uint32_t p)
	{
		GIN_NO_UNROLL
		for (uint32_t base = 0; base < n; base += 4) {
			ginWord16 piece[4] = {};
			EP_UNROLL
			for (uint32_t i = 0; i < 4; i++)
				if (base + i < n)
					piece[i] = epPieceLoad(from[base + i].x + p * 16);
			EP_UNROLL
			for (uint32_t i = 0; i < 4; i++)
				if (base + i < n)
					epPieceStore(from[base + i].to + p * 16, piece[i]);
		}
	}

	GIN_FN ginWord16 sumOf(const epSource *from, uint32_t n, uint32_t p) const
	{
		if (call.layout == GIN_EP_RANK_MAJOR)
			return epPieceLoad(from[0].x + p * 16);
		epEight eight = {};
		eight.addRows(from, n, p);
		return eight.rounded();
	}

	/* A staged row is complete; the block that completes a chunk puts it. */
	GIN_FN void stagedOne(uint32_t s, uint32_t slot) const
	{
		epChunk chunk;
		if (!staged(s, slot, received[s], &chunk))
			return;
		const epReceived begin = rowOf(s, chunk.first);
		const epReceived last = rowOf(s, chunk.first + chunk.size - 1);
		const bool none = reduce == GIN_EP_REDUCE_NONE;
		const uint32_t part = none ? begin.first : begin.part;
		const uint32_t end = none ? last.first + epBits(last.kMask) : last.part + 1;
		putChunk<direct>(s, chunk, epPartAt(plan, half, part),
				 epStagedPartAt(plan, half, s, part),
				 static_cast<size_t>(end - part) * plan.partBytes);
	}

	GIN_FN epReceived rowOf(uint32_t s, uint32_t slot) const
	{
		return *reinterpret_cast<const epReceived *>(
			epRecordOf(plan, call.handle, s, slot));
	}
};

#endif
