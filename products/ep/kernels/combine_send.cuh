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

/*
 * The most sources that a block lists in one look at rows that become ready. Host threads are few:
 * with a shorter list tests reach its end.
 */
#define EP_READY_MOST 128u
#define EP_READY_LIST (GIN_ON_GPU ? EP_READY_MOST : GIN_EP_MAX_TOPK)

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

/* A word with the lowest n bits. */
GIN_FN uint32_t epLowest(uint32_t n)
{
	return static_cast<uint32_t>((uint64_t{1} << n) - 1);
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

	/*
	 * What the block has found ready in a look. A unit is a part, or with GIN_EP_REDUCE_RANK a
	 * row with all its sources. The words of two looks alternate.
	 */
	struct Found {
		ginPoll poll;		       /* of the looks since one that has found something */
		uint32_t units[2], waiting[2]; /* threads whose rows lack parts */
		uint32_t sources[EP_READY_MOST]; /* of each unit, with GIN_EP_REDUCE_RANK */
	};

	epSource *sources;  /* [2][GIN_EP_MAX_TOPK]; or [EP_READY_MOST]: see Found */
	uint32_t *received; /* [ranks]: rows of each source */

public:
	GIN_FN EpCombineSend(const epArgs &a, char *shared, bool isPlain = false)
	    : EpSend(a, shared, ginEpCallCombineSend, isPlain)
	{
		sources = reinterpret_cast<epSource *>(scratch);
		openAt(scratch + listedBytes());
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
		return listedBytes() + openBytes(plan) + plan.nRanks * sizeof(uint32_t);
	}

	/*
	 * After send(): signals the rows. All threads of the block meet in it, and one warp waits
	 * for their stores.
	 */
	GIN_FN void signal() const
	{
		raiseRows<direct>();
		if (ginBlockIndex() == (ginGridSize() > 1 ? ginGridSize() - 2 : 0)) {
			raiseRests();
			if (ginTraces)
				traceParts();
		}
	}

	/*
	 * False: an earlier call has failed, and nothing is done. `alone`: the kernel does not
	 * receive.
	 */
	GIN_FN bool send(bool alone, uint32_t *sent)
	{
		Ahead ahead = {};
		began = epTraceBegin(args);
		const uint32_t first = ginBlockIndex() / ranks(), of = ginBlockIndex() % ranks();
		if (first < plan.maxTokens)
			load(epRecordOf(plan, call.handle, of, first), ahead);
		GIN_NO_UNROLL
		for (uint32_t s = thread(); s < ranks(); s += threads())
			received[s] = epReceivedOf(plan, call.handle)[s];
		if (overlaps && thread() == 0)
			clearFound(0);
		open<direct>();
		if (!enter())
			return false;
		*sent = epoch;
		if (alone)
			advanceAlone();
		if (overlaps && call.ready) {
			sendAsReady();
			return true;
		}
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
	static constexpr uint32_t mostListed = overlaps ? EP_READY_MOST : 2 * GIN_EP_MAX_TOPK;
	static_assert(EP_READY_MOST >= 2 * GIN_EP_MAX_TOPK, "rows without words use the list, too");

	GIN_FN static size_t listedBytes()
	{
		return mostListed * sizeof(epSource) + (overlaps ? sizeof(Found) : 0);
	}

	GIN_FN Found &found() const { return *reinterpret_cast<Found *>(sources + mostListed); }

	GIN_FN void clearFound(uint32_t of) const { found().units[of] = found().waiting[of] = 0; }

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

	/* The bytes of the parts that each source gets. A team takes a source. */
	GIN_FN void traceParts() const
	{
		GIN_NO_UNROLL
		for (uint32_t r = epTeam(); r < ranks(); r += epTeams()) {
			const bool stored = direct || epIsDirect(plan, r);
			const uint32_t bytes = stored ? call.hidden * 2 : plan.partBytes;
			const uint32_t n = partsTo(r);
			if (epTeamFirst() && answers(r))
				epTraceSent(args, number, r, epoch, began, uint64_t{n} * bytes);
		}
	}

	/* By a team. */
	GIN_FN uint32_t partsTo(uint32_t r) const
	{
		const uint32_t rows = answersTo(r);
		uint32_t n = 0;
		GIN_NO_UNROLL
		for (uint32_t slot = epTeamLane(); slot < rows; slot += epTeamSize())
			n += reduce == GIN_EP_REDUCE_RANK ? 1 : epBits(rowOf(r, slot).kMask);
		return epTeamSum(n);
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
		GIN_NO_UNROLL
		for (uint32_t i = thread(); i < epBits(ahead.row.kMask); i += threads()) {
			from[i] = sourceOf(s, ahead.row, i,
					   GIN_ON_GPU ? ahead.answer : epAnswerLoad(answers + i));
			if (call.layout == GIN_EP_RANK_MAJOR)
				from[i].x = call.x.data + s * call.x.outer + slot * call.x.inner;
		}
	}

	/* Answer i of a row, in the expert's rows of x. */
	GIN_FN epSource sourceOf(uint32_t s, const epReceived &row, uint32_t i,
				 const epAnswer &answer) const
	{
		const uint32_t rows = ranks() * plan.maxTokens;
		return {call.x.data + answer.row / rows * call.x.outer +
				answer.row % rows * call.x.inner,
			partOf(s, row, i, epNthBit(row.kMask, i)), answer.weight};
	}

	/*
	 * Sends rows in the order in which they become ready: the rows of a token are of several
	 * experts, and a GEMM ends one expert after the other. A thread looks at the words of a
	 * row, and the block sends what its threads have found.
	 */
	GIN_FN void sendAsReady() const
	{
		const uint32_t end = mostRows([&](uint32_t s) { return answersTo(s); }) * ranks();
		uint32_t look = 0;
		GIN_NO_UNROLL
		for (uint32_t i = ginBlockIndex(); i < end; i += threads() * ginGridSize())
			if (!sendPass(i + thread() * ginGridSize(), &look))
				return;
	}

	/*
	 * A row for each thread of the block: row i is the calling thread's. False: this rank has
	 * failed, and rows that lack parts are not signalled.
	 */
	GIN_FN bool sendPass(uint32_t i, uint32_t *looks) const
	{
		const uint32_t s = i % ranks(), slot = i / ranks();
		bool open = slot < answersTo(s), goesOn = true;
		const epReceived row = open ? rowOf(s, slot) : epReceived{};
		uint32_t idle = 0, missing = epLowest(epBits(row.kMask));
		while (goesOn) {
			const uint32_t of = (*looks)++ % 2;
			missing &= ~listReady(s, slot, row, missing, &found().units[of]);
			const bool ends = open && !missing;
			open = open && missing;
			goesOn = GinCta{}.any(open);
			idle = sendFound(of) ? 0 : idle + 1;
			if (ends)
				rowEnds(s, slot);
			if (goesOn && idle &&
			    !waits(open ? wordOf(s, slot, missing) : nullptr, of, idle == 1))
				return false;
		}
		return true;
	}

	/* Lists the missing parts of a row that are ready. Returns a bit for each. */
	GIN_FN uint32_t listReady(uint32_t s, uint32_t slot, const epReceived &row,
				  uint32_t missing, uint32_t *units) const
	{
		const epAnswer *answers = answersOf(epRecordOf(plan, call.handle, s, slot));
		uint32_t ready = readyOf(answers, missing), listed = 0;
		if (reduce == GIN_EP_REDUCE_RANK && ready)
			return ready == missing && listRow(s, row, answers, units) ? ready : 0;
		GIN_NO_UNROLL
		for (; ready; ready &= ready - 1) {
			const uint32_t i = epNthBit(ready, 0), at = epScratchAdd(units, 1);
			if (at >= EP_READY_LIST)
				break; /* in a later look */
			sources[at] = sourceOf(s, row, i, epAnswerLoad(answers + i));
			listed |= 1u << i;
		}
		return listed;
	}

	/* Lists all sources of a row. False: in a later look. */
	GIN_FN bool listRow(uint32_t s, const epReceived &row, const epAnswer *answers,
			    uint32_t *units) const
	{
		const uint32_t n = epBits(row.kMask), unit = epScratchAdd(units, 1);
		if (unit >= EP_READY_LIST / plan.topk)
			return false;
		GIN_NO_UNROLL
		for (uint32_t i = 0; i < n; i++)
			sources[unit * plan.topk + i] =
				sourceOf(s, row, i, epAnswerLoad(answers + i));
		found().sources[unit] = n;
		return true;
	}

	/* The missing parts whose words say that they are ready. */
	GIN_FN uint32_t readyOf(const epAnswer *answers, uint32_t missing) const
	{
		uint32_t ready = 0;
		GIN_NO_UNROLL
		for (; missing; missing &= missing - 1) {
			const uint32_t i = epNthBit(missing, 0);
			const char *word = wordOf(epAnswerLoad(answers + i).row);
			/* An acquire holds up later loads: only of words that are complete. */
			if (epIsReady(args, epWordLoad(reinterpret_cast<const uint32_t *>(word))) &&
			    epIsReady(args, epReadyLoad(word)))
				ready |= 1u << i;
		}
		return ready;
	}

	/* The word of a row of x. */
	GIN_FN const char *wordOf(uint32_t row) const
	{
		const uint32_t rows = ranks() * plan.maxTokens;
		return call.ready + row / rows * call.readyOuter +
		       row % rows / call.readyRows * call.readyInner;
	}

	/* Of the first missing part. */
	GIN_FN const char *wordOf(uint32_t s, uint32_t slot, uint32_t missing) const
	{
		const epAnswer *answers = answersOf(epRecordOf(plan, call.handle, s, slot));
		return wordOf(epAnswerLoad(answers + epNthBit(missing, 0)).row);
	}

	/* Sends what a look has found, and returns the number of units. The block has synced. */
	GIN_FN uint32_t sendFound(uint32_t of) const
	{
		const bool ranked = reduce == GIN_EP_REDUCE_RANK;
		const uint32_t most = EP_READY_LIST / (ranked ? plan.topk : 1);
		const uint32_t n = found().units[of] < most ? found().units[of] : most;
		if (thread() == 0)
			clearFound(1 - of);
		GIN_NO_UNROLL
		for (uint32_t p = thread(); n && p < call.hidden / 8; p += threads())
			if (ranked)
				sumUnits(n, p);
			else
				copyParts<direct ? 8 : 4>(sources, n, p);
		sync();
		return n;
	}

	GIN_FN void sumUnits(uint32_t n, uint32_t p) const
	{
		GIN_NO_UNROLL
		for (uint32_t u = 0; u < n; u++) {
			const epSource *from = sources + u * plan.topk;
			epPieceStore(from->to + p * 16, sumOf(from, found().sources[u], p));
		}
	}

	/* All parts of a row are sent. */
	GIN_FN void rowEnds(uint32_t s, uint32_t slot) const
	{
		if (direct || epIsDirect(plan, s))
			epScratchAdd(&rowsOut[s], 1);
		else
			stagedOne(s, slot);
	}

	/*
	 * A look has found nothing; `word`: of a part that the thread's row lacks, or NULL. False:
	 * this rank has failed. By all threads of the block.
	 */
	GIN_FN bool waits(const char *word, uint32_t of, bool begins) const
	{
		if (word && !epScratchAdd(&found().waiting[of], 1))
			epAwaitReady<direct>(args, &found().poll, begins, word, epoch);
		return !stopped();
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
				copyParts<4>(from, n, p);
	}

	/* Piece p of n rows. `most` loads are in flight. */
	template <uint32_t most>
	GIN_FN static void copyParts(const epSource *from, uint32_t n, uint32_t p)
	{
		GIN_NO_UNROLL
		for (uint32_t base = 0; base < n; base += most) {
			ginWord16 piece[most] = {};
			EP_UNROLL
			for (uint32_t i = 0; i < most; i++)
				if (base + i < n)
					piece[i] = epPieceLoad(from[base + i].x + p * 16);
			EP_UNROLL
			for (uint32_t i = 0; i < most; i++)
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
