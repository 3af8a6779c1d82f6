/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dispatch_recv.cuh - rows of all ranks to the rows of each expert
 *
 * Row `begin + number` of an expert is item `number` of a source, where `begin` counts the items of
 * the sources before it: the order does not depend on timing. A lost source has no rows, or rows of
 * zeros if its counts had come.
 *
 * A block that has one row of a direct peer waits for that row's tag; other blocks wait for the
 * signals that all rows of their sources have come.
 *
 * Blocks may disagree about a source whose rows come at the time limit: some blocks copy its rows,
 * other blocks give the source up. A block that gives a source up writes the verdict, and writes no
 * row of the source. The block that ends last reads the verdicts and zeroes all rows of lost
 * sources.
 */
#ifndef GIN_EP_DISPATCH_RECV_CUH
#define GIN_EP_DISPATCH_RECV_CUH

#include "list.cuh"

/* A verdict: a word with a tag, and the losses of a source. */
#define EP_LOST_COUNTS 1u
#define EP_LOST_ROWS 2u

/* The target of a row and of its scales. */
struct epRowTarget {
	char *x, *scales;
};

GIN_FN uint32_t epWord32(const char *src)
{
	return ginLoadWeak<uint32_t>(src);
}

GIN_FN epItem epItemLoad(const char *src)
{
	const uint64_t word = ginLoadWeak<uint64_t>(src);
	return {static_cast<uint16_t>(word), static_cast<uint16_t>(word >> 16),
		epFloatOf(static_cast<uint32_t>(word >> 32))};
}

/* `bytes`: of rows whose scales have one byte. */
template <bool direct, bool bytes = false> class EpDispatchRecv : public EpBlock
{
	uint32_t epoch, half, words;
	uint32_t *counts; /* [source][words]: rows; then items of each expert, later their begin */
	uint32_t *totals; /* [mostLocal] */
	uint32_t *lost;	  /* [ranks]: 0, or the source's counts or rows did not come */
	epRowTarget *targets; /* [2][GIN_EP_MAX_TOPK] */
	uint32_t first;	      /* the block's first row */
	bool only;	      /* the block has no other row, and waits for that row alone */

public:
	GIN_FN EpDispatchRecv(const epArgs &a, char *shared, bool isPlain = false)
	    : EpBlock(a, shared, isPlain), epoch(0), half(0), words(1 + plan.localExperts),
	      first(0), only(false)
	{
		lost = reinterpret_cast<uint32_t *>(scratch);
		counts = lost + ranks();
		totals = counts + ranks() * words;
		size_t used = reinterpret_cast<char *>(totals + plan.localExperts) - scratch;
		targets = reinterpret_cast<epRowTarget *>(scratch + (used + 15) / 16 * 16);
	}

	GIN_FN static size_t scratchBytes(const epPlan &plan)
	{
		return (plan.nRanks * (2 + plan.localExperts) + plan.localExperts) *
			       sizeof(uint32_t) +
		       16 + 2 * GIN_EP_MAX_TOPK * sizeof(epRowTarget);
	}

	/* In a kernel that does not send. False: an earlier call has failed. */
	GIN_FN bool enter(uint32_t *sent)
	{
		if (stopped())
			return false;
		epGiveCredits<direct>(args, ginEpCallDispatchRecv);
		begin();
		sync();
		*sent = epWordLoad(&call.handle->epoch[0]);
		return true;
	}

	/*
	 * Before receive(); the block meets between them. In one kernel with the send, a thread
	 * comes here after it has stored its pieces of the rows: it overwrites the send's list.
	 */
	GIN_FN void begin() const
	{
		GIN_NO_UNROLL
		for (uint32_t s = thread(); s < ranks(); s += threads())
			lost[s] = 0;
	}

	/*
	 * `sent`: the kernel has sent the epoch, too. Then the last threads, which look for
	 * sources, start late: they waited for the block's stores.
	 */
	GIN_FN void receive(uint32_t ofSend, bool sent)
	{
		const uint64_t began = epTraceBegin(args);
		epoch = ofSend;
		half = epoch % 2;
		if (mayMask())
			decide();
		lookForCounts();
		GIN_NO_UNROLL
		for (uint32_t i = thread(); i < ranks() * words; i += threads())
			counts[i] = readCount(i / words, i % words);
		startClocks();
		sync();
		first = turnOf(receiveFirst());
		only = direct && !hasClocks() && !epTraces(args) &&
		       first + ginGridSize() >= mostRows(rowCount()) * ranks();
		beginItems();
		const bool any = !awaitSources(began);
		if (ginBlockIndex() == ginGridSize() - 1)
			report();
		/*
		 * After a failure blocks may have different counts, and so different rows of an
		 * item.
		 */
		if (!any || !stopped())
			copyRows();
		leave(sent, any);
	}

private:
	/* The data of a row that a thread loads. */
	struct Ahead {
		ginWord16 head, piece;
		epItem item;
		uint32_t scale; /* word thread() of the scales */
	};

	/* Returns a function: the number of rows of a source. */
	GIN_FN auto rowCount() const
	{
		return [this](uint32_t s) { return counts[s * words]; };
	}

	GIN_FN uint64_t least() const { return static_cast<uint64_t>(epoch + 1) << 32; }

	/* GIN_EP_LOST_MASK: one block waits for a source's count line and decides for the grid. */
	GIN_FN void decide() const
	{
		GIN_NO_UNROLL
		for (uint32_t s = ginBlockIndex(); s < ranks(); s += ginGridSize()) {
			bool gone = false;
			uint32_t value = 0;
			GIN_NO_UNROLL
			for (uint32_t w = thread(); w < words; w += threads())
				gone = gone || masked(s) || !awaitCount(s, w, &value);
			gone = GinCta{}.any(gone);
			if (thread() == 0)
				epVerdictStore(verdictOf(s), least() | (gone ? EP_LOST_COUNTS : 0));
		}
	}

	GIN_FN char *verdictOf(uint32_t s) const { return plan.own + epVerdictAt(plan, half, s); }

	/* Has some block given the source up? In the last block. */
	GIN_FN bool lostInGrid(uint32_t s) const
	{
		const uint64_t verdict = epVerdictLoad(verdictOf(s));
		return verdict - least() < EP_EPOCH && verdict & EP_LOST_ROWS;
	}

	/* A word of a count line, in *value. False: the source is lost. */
	GIN_FN bool awaitCount(uint32_t source, uint32_t word, uint32_t *value) const
	{
		return awaitWord(epCountAt(plan, half, source, word), source, true, value);
	}

	/* A word of this rank's slab with the tag of this epoch; `timed`: within the time limit. */
	GIN_FN bool awaitWord(size_t at, uint32_t source, bool timed, uint32_t *value) const
	{
		auto context = gin<direct>(0);
		GIN_NO_UNROLL
		for (uint32_t look = 0; look < EP_LOOKS; look++)
			if (lookWord(at, value))
				return true;
		if (!epAwaitWordLong<direct>(args, at, source, timed, epoch))
			return false;
		*value = static_cast<uint32_t>(context.readValue(plan.slab, at));
		return true;
	}

	/*
	 * A word of a count line; 0 of a lost source. With GIN_EP_LOST_MASK the deciding block
	 * alone has the time limit, and loads the mask, which may change meanwhile: all blocks use
	 * its decision. V, acquire end.
	 */
	GIN_FN uint32_t readCount(uint32_t source, uint32_t word) const
	{
		uint32_t value = 0; /* the next loads follow at once */
		uint32_t gone = epMaskOf(plan, source) ? EP_LOST_COUNTS : 0;
		const bool come = lookWord(epCountAt(plan, half, source, word), &value);
		if (mayMask() &&
		    !awaitWord(epVerdictAt(plan, half, source), plan.rank, false, &gone))
			gone = EP_LOST_COUNTS;
		if (gone & EP_LOST_COUNTS || (!come && !awaitCount(source, word, &value)))
			return none(source);
		return value;
	}

	/* One look at a word of this rank's slab. True: it has the tag of this epoch. */
	GIN_FN bool lookWord(size_t at, uint32_t *value) const
	{
		const uint64_t seen = direct ? epTaggedLoad(plan.own + at)
					     : gin<direct>(0).readValue(plan.slab, at);
		*value = static_cast<uint32_t>(seen);
		return seen - least() < EP_EPOCH;
	}

	/* Notes that the source was lost before its counts came. */
	GIN_FN uint32_t none(uint32_t source) const
	{
		epScratchAdd(&lost[source], 1);
		return 0;
	}

	/*
	 * Counts items of earlier sources: counts[s][1 + e] becomes the first row of source s at
	 * expert e.
	 */
	GIN_FN void beginItems() const
	{
		GIN_NO_UNROLL
		for (uint32_t e = thread(); e < plan.localExperts; e += threads()) {
			uint32_t sum = 0;
			GIN_NO_UNROLL
			for (uint32_t s = 0; s < ranks(); s++) {
				uint32_t n = counts[s * words + 1 + e];
				counts[s * words + 1 + e] = sum;
				sum += n;
			}
			totals[e] = sum;
		}
	}

	/*
	 * Looks for the first word of the counts that the team reads first; the other words come
	 * with it. One thread of a team: loads of all threads of all blocks would keep the memory
	 * busy to which peers write.
	 */
	GIN_FN void lookForCounts() const
	{
		const uint32_t s = thread() / words;
		const bool looks = direct && epTeamFirst() && s < ranks() && !epMaskOf(plan, s);
		uint32_t value;
		GIN_NO_UNROLL
		for (uint32_t look = 0; looks && look < EP_LOOKS; look++)
			if (lookWord(epCountAt(plan, half, s, 0), &value))
				break;
		epTeamSync();
	}

	GIN_FN bool hasClocks() const { return !plain && call.waitCost; }

	/* Block 0 measures how long it waits for each source. */
	GIN_FN void startClocks() const
	{
		GIN_NO_UNROLL
		for (uint32_t s = threads() - 1 - thread(); hasClocks() && s < ranks();
		     s += threads())
			if (ginBlockIndex() == 0)
				call.waitCost[s] -= static_cast<int64_t>(ginNow());
	}

	/*
	 * By all threads of the block, which meet. False: a source is lost. `began`: the wait for
	 * counts.
	 */
	GIN_FN bool awaitSources(uint64_t began) const
	{
		bool any = false;
		GIN_NO_UNROLL
		for (uint32_t s = threads() - 1 - thread(); s < ranks(); s += threads())
			any = !awaitSource(s, began) || any;
		return !GinCta{}.any(any);
	}

	/* By one thread. False: the source is lost. */
	GIN_FN bool awaitSource(uint32_t s, uint64_t began) const
	{
		uint32_t what = lost[s] ? EP_LOST_COUNTS | EP_LOST_ROWS : 0;
		const bool come = what || !reads(s) || (!epMaskOf(plan, s) && lookForRow(s));
		if (!come && !epAwaitRows<direct>(args, ginEpCallDispatchRecv, epRows, s, epoch))
			what = EP_LOST_ROWS;
		lost[s] = what;
		if (what)
			epVerdictStore(verdictOf(s), least() | what);
		if (hasClocks() && ginBlockIndex() == 0)
			call.waitCost[s] += static_cast<int64_t>(ginNow());
		if (epTraces(args) && ginBlockIndex() == 0)
			epTraceWaited(args, ginCallEpDispatch, s, epoch, began, !what);
		return !what;
	}

	/* Does the block wait for rows of the source? */
	GIN_FN bool reads(uint32_t s) const
	{
		const uint32_t slot = first / ranks();
		return !only || (s == first - slot * ranks() && slot < counts[s * words]);
	}

	/*
	 * Looks for the tag of the block's only row, and sometimes for the signal that all rows of
	 * the source have come: a row that was not stored alone has no tag. False: the row is not
	 * seen. L.
	 */
	GIN_FN bool lookForRow(uint32_t s) const
	{
		const char *row = plan.own + epRowAt(plan, half, s, first / ranks());
		const uint32_t tag = (epoch + 1) | EP_TAG;
		GIN_NO_UNROLL
		for (uint32_t look = 0; only && look < EP_LOOKS; look++) {
			if (epTaggedLoad(row + EP_TAG_AT) >> 32 == tag)
				return true;
			if (look % 4 == 3 &&
			    epReached<direct>(args, 0, epSignalId(plan, epRows, half, s),
					      epAllRows(plan, epoch)))
				return true;
		}
		return false;
	}

	/* Writes the outputs besides rows, by one block. */
	GIN_FN void report() const
	{
		GIN_NO_UNROLL
		for (uint32_t s = thread(); s < ranks(); s += threads()) {
			epReceivedOf(plan, call.handle)[s] = counts[s * words];
			if (ranked())
				call.recvCount[s] = static_cast<int32_t>(counts[s * words]);
		}
		GIN_NO_UNROLL
		for (uint32_t e = thread(); e < plan.localExperts; e += threads()) {
			if (!ranked())
				call.recvCount[e] = static_cast<int32_t>(totals[e]);
			if (call.recvStats)
				call.recvStats[e] += static_cast<int32_t>(totals[e]);
			GIN_NO_UNROLL
			for (uint32_t s = 0; call.layoutRange && s < ranks(); s++)
				call.layoutRange[e * ranks() + s] = rangeOf(s, e);
		}
	}

	/* The row after the last row of source s at expert e. */
	GIN_FN uint32_t endOf(uint32_t s, uint32_t e) const
	{
		return s + 1 < ranks() ? counts[(s + 1) * words + 1 + e] : totals[e];
	}

	GIN_FN int64_t rangeOf(uint32_t s, uint32_t e) const
	{
		const uint32_t begin = counts[s * words + 1 + e];
		return static_cast<int64_t>(begin) << 32 | (endOf(s, e) - begin);
	}

	GIN_FN void loadRow(uint32_t s, uint32_t slot, Ahead &ahead) const
	{
		const char *row = plan.own + epRowAt(plan, half, s, slot);
		ahead.head = epPieceLoad(row);
		if (GIN_ON_GPU && thread() < plan.topk)
			ahead.item = epItemLoad(row + sizeof(epHeader) + thread() * sizeof(epItem));
		if (GIN_ON_GPU && thread() < pieces())
			ahead.piece = epPieceLoad(row + plan.payload + thread() * 16);
		if (GIN_ON_GPU && thread() < call.scaleWords)
			ahead.scale = epWord32(row + scalesAt() + thread() * 4);
	}

	/* Not by eachRow(), which takes 430 more instructions. */
	GIN_FN void copyRows() const
	{
		uint32_t n = 0; /* rows copied: two successive rows share no targets */
		const uint32_t end = mostRows(rowCount()) * ranks();
		GIN_NO_UNROLL
		for (uint32_t i = first; i < end; i += ginGridSize()) {
			const uint32_t slot = i / ranks(), s = i - slot * ranks();
			if (slot < counts[s * words] && !lost[s])
				copyRow(s, slot, targets + n++ % 2 * GIN_EP_MAX_TOPK);
		}
	}

	/*
	 * The last block zeroes the rows of lost sources, and owes credits to the other sources.
	 * `gaveUp`: this block has given a source up; if no block has, there is no verdict to load.
	 */
	GIN_FN void leave(bool sent, bool gaveUp) const
	{
		bool any = false;
		if (!isLast(ginEpCallDispatchRecv, half, gaveUp, &gaveUp))
			return;
		GIN_NO_UNROLL
		for (uint32_t s = threads() - 1 - thread(); s < ranks(); s += threads()) {
			const bool gone = gaveUp && lostInGrid(s);
			any = any || gone;
			if (!gone)
				epOwe(plan, epRowsFree, half, s);
		}
		if (gaveUp && GinCta{}.any(any))
			clearSources();
		if (sent && thread() == 0)
			advance(0, epoch);
	}

	GIN_FN void copyRow(uint32_t s, uint32_t slot, epRowTarget *to) const
	{
		Ahead ahead = {};
		loadRow(s, slot, ahead);
		const char *row = plan.own + epRowAt(plan, half, s, slot);
		const uint32_t kMask = static_cast<uint32_t>(ahead.head.half[0] >> 32);
		const uint32_t n = epBits(kMask);
		if (ranked())
			listRow(row, kMask, s, slot);
		else
			listAnswers(row, ahead, s, slot, to);
		if (thread() == 0)
			keepHeader(ahead.head, s, slot, to);
		sync();
		copyPayload(row, to, ranked() ? 1 : n, ahead);
	}

	GIN_FN uint32_t pieces() const { return call.pieces; }

	/* The offset of the scales in a row. */
	GIN_FN uint32_t scalesAt() const { return plan.payload + pieces() * 16; }

	GIN_FN bool ranked() const { return !plain && call.layout == GIN_EP_RANK_MAJOR; }

	/* Rank-major: the experts and weights of a row. */
	GIN_FN void listRow(const char *row, uint32_t kMask, uint32_t s, uint32_t slot) const
	{
		GIN_NO_UNROLL
		for (uint32_t k = thread(); k < call.topk; k += threads()) {
			const uint32_t i = epBits(kMask & ((1u << k) - 1));
			const bool has = kMask >> k & 1;
			const epItem item =
				epItemLoad(row + sizeof(epHeader) + (has ? i : 0) * sizeof(epItem));
			listItem(s, slot, k, has ? item.expert : -1, has ? item.weight : 0.0f);
		}
	}

	/* Rank-major: expert and weight k of a row. */
	GIN_FN void listItem(uint32_t s, uint32_t slot, uint32_t k, int32_t expert,
			     float weight) const
	{
		const size_t row = static_cast<size_t>(s) * plan.maxTokens + slot;
		if (call.recvTopkIdx)
			call.recvTopkIdx[row * call.topk + k] = expert;
		if (call.recvTopkWeights)
			call.recvTopkWeights[row * call.topk + k] = weight;
	}

	/* The source's token of a row of recvX. */
	GIN_FN void setToken(uint32_t outer, uint32_t inner, uint32_t token) const
	{
		const size_t rows = (ranked() ? 1 : ranks()) * static_cast<size_t>(plan.maxTokens);
		if (call.srcInfo)
			call.srcInfo[outer * rows + inner] = static_cast<int32_t>(token);
	}

	/*
	 * The items of a row: each one's row of its expert, for recvX and for the handle. On a GPU
	 * thread i has loaded item i, even if the row has fewer items.
	 */
	GIN_FN void listAnswers(const char *row, const Ahead &ahead, uint32_t s, uint32_t slot,
				epRowTarget *to) const
	{
		const ginWord16 head = ahead.head;
		epAnswer *answers = reinterpret_cast<epAnswer *>(
			epRecordOf(plan, call.handle, s, slot) + sizeof(epReceived));
		const uint32_t rows = ranks() * plan.maxTokens;
		GIN_NO_UNROLL
		for (uint32_t i = thread(); i < plan.topk; i += threads()) {
			if (i >= epBits(static_cast<uint32_t>(head.half[0] >> 32)))
				continue;
			const epItem item =
				GIN_ON_GPU
					? ahead.item
					: epItemLoad(row + sizeof(epHeader) + i * sizeof(epItem));
			const uint32_t r = counts[s * words + 1 + item.expert] + item.number;
			answers[i] = {item.expert * rows + r, item.weight};
			to[i] = targetOf(item.expert, r);
			setToken(item.expert, r, static_cast<uint32_t>(head.half[0]));
		}
	}

	GIN_FN epRowTarget targetOf(uint32_t outer, uint32_t inner) const
	{
		return {call.recvX.data + outer * call.recvX.outer + inner * call.recvX.inner,
			call.recvScales.data + outer * call.recvScales.outer + scaleRow(inner)};
	}

	/* Where the scales of a row begin; in blocks: see GIN_EP_SCALE_BLOCKS. */
	GIN_FN int64_t scaleRow(uint32_t inner) const
	{
		if (bytes && call.scaleKind == GIN_EP_SCALE_BLOCKS)
			return inner / 128 * call.recvScales.inner + inner % 32 * 16 +
			       inner / 32 % 4 * 4;
		return inner * call.recvScales.inner;
	}

	GIN_FN void keepHeader(ginWord16 head, uint32_t s, uint32_t slot, epRowTarget *to) const
	{
		epReceived *record =
			reinterpret_cast<epReceived *>(epRecordOf(plan, call.handle, s, slot));
		*record = {static_cast<uint32_t>(head.half[0]),
			   static_cast<uint32_t>(head.half[0] >> 32),
			   static_cast<uint32_t>(head.half[1]),
			   static_cast<uint32_t>(head.half[1] >> 32)};
		if (!ranked())
			return;
		to[0] = targetOf(s, slot);
		setToken(s, slot, record->token);
	}

	/* One read of the row, a write for each of its n targets. */
	GIN_FN void copyPayload(const char *row, const epRowTarget *to, uint32_t n,
				const Ahead &ahead) const
	{
		GIN_NO_UNROLL
		for (uint32_t p = thread(); p < pieces(); p += threads()) {
			const ginWord16 piece = GIN_ON_GPU && p == thread()
							? ahead.piece
							: epPieceLoad(row + plan.payload + p * 16);
			for (uint32_t i = 0; i < n; i++)
				epPieceStore(to[i].x + p * 16, piece);
		}
		const uint32_t groups = call.scaleCount;
		const bool packs = !bytes && call.scaleKind == GIN_EP_SCALE_UE8M0;
		const char *scales = row + scalesAt();
		GIN_NO_UNROLL
		for (uint32_t w = thread(); !packs && w < call.scaleWords; w += threads())
			storeScales(to, n, w,
				    GIN_ON_GPU && w == thread() ? ahead.scale
								: epWord32(scales + w * 4));
		GIN_NO_UNROLL
		for (uint32_t w = thread(); packs && w < (groups + 3) / 4; w += threads()) {
			uint32_t word = 0;
			GIN_NO_UNROLL
			for (uint32_t g = w * 4; g < w * 4 + 4 && g < groups; g++)
				word |= epToUe8m0(epFloatOf(epWord32(scales + g * 4))) << g % 4 * 8;
			storeWord(to, n, w, word);
		}
	}

	/* Word w of the scales of a row. What comes after the last scale becomes 0. */
	GIN_FN void storeScales(const epRowTarget *to, uint32_t n, uint32_t w, uint32_t word) const
	{
		if (bytes && w == call.scaleCount / 4)
			word &= (1u << call.scaleCount % 4 * 8) - 1;
		if (bytes && call.byteScales)
			storeBytes(to, n, w * 4, word);
		else
			storeWord(to, n, w, word);
	}

	/* The scales first to first + 3, as far as they exist. */
	GIN_FN void storeBytes(const epRowTarget *to, uint32_t n, uint32_t first,
			       uint32_t word) const
	{
		GIN_NO_UNROLL
		for (uint32_t g = first; g < first + 4 && g < call.scaleCount; g++, word >>= 8)
			for (uint32_t i = 0; i < n; i++)
				to[i].scales[g * call.recvScales.each] = static_cast<char>(word);
	}

	GIN_FN void storeWord(const epRowTarget *to, uint32_t n, uint32_t w, uint32_t word) const
	{
		for (uint32_t i = 0; i < n; i++)
			*reinterpret_cast<uint32_t *>(to[i].scales + w * call.recvScales.each) =
				word;
	}

	GIN_FN void clearSources() const
	{
		GIN_NO_UNROLL
		for (uint32_t s = 0; s < ranks(); s++)
			if (lostInGrid(s))
				clearSource(s);
	}

	/* Notes in the handle that a source is lost, and zeroes the rows whose counts have come. */
	GIN_FN void clearSource(uint32_t s) const
	{
		if (thread() == 0)
			epReceivedOf(plan, call.handle)[s] = EP_NONE;
		GIN_NO_UNROLL
		for (uint32_t e = 0; e < (ranked() ? 1 : plan.localExperts); e++) {
			const uint32_t first = ranked() ? 0 : counts[s * words + 1 + e];
			const uint32_t end = ranked() ? counts[s * words] : endOf(s, e);
			GIN_NO_UNROLL
			for (uint32_t r = first; r < end; r++)
				clearRow(ranked() ? s : e, r);
		}
		GIN_NO_UNROLL
		for (uint32_t i = thread(); ranked() && i < counts[s * words] * call.topk;
		     i += threads())
			listItem(s, i / call.topk, i % call.topk, -1, 0.0f);
	}

	GIN_FN void clearRow(uint32_t outer, uint32_t inner) const
	{
		const epRowTarget to = targetOf(outer, inner);
		const bool packed = !bytes && call.scaleKind == GIN_EP_SCALE_UE8M0;
		const uint32_t words = packed ? (call.scaleCount + 3) / 4 : call.scaleWords;
		GIN_NO_UNROLL
		for (uint32_t p = thread(); p < pieces(); p += threads())
			epPieceStore(to.x + p * 16, {{0, 0}});
		GIN_NO_UNROLL
		for (uint32_t w = thread(); w < words; w += threads())
			storeScales(&to, 1, w, 0);
		if (thread() == 0)
			setToken(outer, inner, EP_NONE);
	}
};

#endif
