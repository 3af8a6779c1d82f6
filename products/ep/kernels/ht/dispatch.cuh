/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dispatch.cuh - the rows of this rank's tokens to their final places, those of other ranks out
 * of the pool
 *
 * Movers store a row and its meta at each rank that gets the token, in the rank's pool, where rows
 * are in the order of (source rank, token). Copiers copy rows of other ranks from the
 * pool to recvX, if they are two places. Unpackers read meta. Each is a team; movers divide this
 * rank's tokens, copiers and unpackers the tokens of all sources.
 */
#ifndef GIN_EP_HT_DISPATCH_CUH
#define GIN_EP_HT_DISPATCH_CUH

#include "traced.cuh"

/* Teams of a block. Bulk copies need few threads. */
#if GIN_HAS_BULK
#define EP_HT_MOVERS 2u
#define EP_HT_COPIERS 2u
#elif GIN_ON_GPU
#define EP_HT_MOVERS 6u
#define EP_HT_COPIERS 6u
#else
#define EP_HT_MOVERS 1u
#define EP_HT_COPIERS 1u
#endif

/* With bulk copies, movers of rows that are so short that gathering their meta takes longest. */
#define EP_HT_SHORT_ROW 8192u
#define EP_HT_SHORT_MOVERS 4u

#define EP_HT_PIECE 7168u /* most bytes of one load of a copier */
#define EP_HT_COPY_STAGES 5u
#define EP_HT_COPY_BYTES (128u + EP_HT_COPY_STAGES * EP_HT_PIECE) /* shared memory of a copier */

/* A contiguous copy, in pieces: see epMove(). */
struct epHtRun {
	const char *from;
	char *to;
	size_t size;

	GIN_FN uint32_t pieces() const
	{
		return static_cast<uint32_t>((size + EP_HT_PIECE - 1) / EP_HT_PIECE);
	}

	GIN_FN const char *source(uint32_t i) const { return from + size_t{i} * EP_HT_PIECE; }

	GIN_FN uint32_t bytes(uint32_t i) const
	{
		return i + 1 < pieces() ? EP_HT_PIECE
					: static_cast<uint32_t>(size - size_t{i} * EP_HT_PIECE);
	}

	GIN_FN static uint32_t metaWords() { return 0; }
	GIN_FN static const char *metaAt(uint32_t, uint32_t) { return nullptr; }
	GIN_FN static uint32_t meta(uint32_t, uint32_t) { return 0; }
	GIN_FN static void done(uint32_t) {}
	static constexpr bool tells = false;

	GIN_FN static uint32_t places() { return 1; }
	GIN_FN bool place(uint32_t i, uint32_t, epHtTo *at) const
	{
		*at = {to + size_t{i} * EP_HT_PIECE, nullptr};
		return true;
	}
};

/*
 * Contiguous copies of a team, one after the other. With bulk copies loads are in flight from one
 * to the next: a piece is stored when the ring is full, or at the end.
 */
struct epHtPipe {
	epStages s;
	uint32_t into, flying; /* the stage of the next load; loads in flight */
	uint64_t heldTo;       /* of the stage of the lane's number, */
	uint32_t heldBytes;

	GIN_FN explicit epHtPipe(const epStages &stages)
	    : s(stages), into(0), flying(0), heldTo(0), heldBytes(0)
	{
	}

	/* By all threads of the team; other agents have written what is copied. */
	GIN_FN void copy(const epHtRun &run)
	{
#if GIN_HAS_BULK
		if (s.count) {
			ginBulkFence();
			GIN_NO_UNROLL
			for (uint32_t i = 0; i < run.pieces(); i++)
				load(run, i);
			return;
		}
#endif
		epMoveByThreads(run.pieces(), run);
	}

	/* All copies are there. */
	GIN_FN void end()
	{
#if GIN_HAS_BULK
		GIN_NO_UNROLL
		while (flying)
			store();
		ginBulkHaveWritten<0>();
		ginBulkFence();
#endif
	}

#if GIN_HAS_BULK
	GIN_FN void load(const epHtRun &run, uint32_t i)
	{
		const uint32_t barrier = s.barriers + 8 * into;
		if (flying + EP_HT_READING == s.count)
			store();
		ginBulkHaveRead<EP_HT_READING>(); /* that includes the store from this stage */
		if (ginLane() == 0) {
			ginBulkExpect(barrier, run.bytes(i));
			ginBulkRead(s.base + into * s.size, run.source(i), run.bytes(i), barrier);
		}
		if (ginLane() == into) {
			heldTo = reinterpret_cast<uint64_t>(run.to) + size_t{i} * EP_HT_PIECE;
			heldBytes = run.bytes(i);
		}
		into = into + 1 < s.count ? into + 1 : 0;
		flying++;
	}

	/* The oldest load. */
	GIN_FN void store()
	{
		const uint64_t to = __shfl_sync(0xffffffffu, heldTo, s.at);
		const uint32_t bytes = __shfl_sync(0xffffffffu, heldBytes, s.at);
		ginBulkPass(s.barriers + 8 * s.at, s.phase);
		if (ginLane() == 0) {
			ginBulkWrite(reinterpret_cast<char *>(to), s.base + s.at * s.size, bytes);
			ginBulkCommit();
		}
		if (++s.at == s.count)
			s.at = 0, s.phase ^= 1;
		flying--;
	}
#endif
};

class EpHtDispatch : public EpHtTraced
{
protected:
	/* The tokens of a mover's units, first, first + step, ...: see epMove(). */
	struct Tokens {
		const EpHtDispatch &of;
		uint32_t first, step;
		mutable uint32_t told; /* units whose done words are written */

		static constexpr bool tells = true;

		GIN_FN uint32_t token(uint32_t i) const
		{
			return (first + i / EP_HT_UNIT * step) * EP_HT_UNIT + i % EP_HT_UNIT;
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
		GIN_FN uint32_t places() const { return of.peers(); }
		GIN_FN bool place(uint32_t i, uint32_t n, epHtTo *to) const
		{
			return of.placeAt(token(i), n, to);
		}
		GIN_FN void done(uint32_t end) const
		{
			const uint32_t units = (end + EP_HT_UNIT - 1) / EP_HT_UNIT;
			of.tell(first + told * step, step, units - told);
			told = units;
		}
	};

public:
	GIN_FN EpHtDispatch(const epArgs &a, char *shared, bool isRail = false)
	    : EpHtTraced(a, shared, ginEpCallHtDispatch, isRail)
	{
	}

	GIN_FN void run()
	{
		if (!begin())
			return;
		if (ginBlockIndex() == 0)
			postPlaces();
		if (awaitPlaces(call.recvX)) { /* own rows go straight there */
			const uint32_t team = epTeam(), busy = movers() + copiers();
			if (team < movers())
				move(team);
			else if (team < busy)
				copy(team - movers());
			else
				unpack(team - busy, epTeams() - busy);
		}
		const bool last = isLastBlock();
		if (last && thread() == 0)
			epWordStore(&plan.state->epoch[0], epoch + 1);
		if (ginTraces && last && !stopped())
			traceRows();
	}

protected:
	/* By the last block: what this rank has sent. */
	GIN_FN void traceRows() const
	{
		eachRank([&](uint32_t r) {
			sent(r, isFar(r) ? bytesOfChunks(r / ht.domainSize, false)
					 : dispatchedTo(r, metaWords()));
		});
	}

	/*
	 * Movers, and rings in shared memory that are as large as theirs. Between domains there are
	 * as many senders, and as many forwarders.
	 */
	GIN_FN uint32_t movers() const
	{
		const bool isShort = GIN_HAS_BULK && call.rowBytes <= EP_HT_SHORT_ROW;
		const uint32_t all = isShort ? EP_HT_SHORT_MOVERS : EP_HT_MOVERS;
		return rail ? (all + 2) / 3 : all;
	}
	GIN_FN uint32_t rings() const { return rail ? 3 * movers() : movers(); }

	/* Copiers: other ranks store no rows in the pool of a rank that is alone in its domain. */
	GIN_FN uint32_t copiers() const { return call.inPool || peers() == 1 ? 0 : EP_HT_COPIERS; }

	/* Shared memory of movers and copiers, after the places. */
	GIN_FN uint32_t placesBytes() const { return (scratchBytes(plan) + 127) / 128 * 128; }

	GIN_FN uint32_t moverBytes() const
	{
		const uint32_t copies = copiers() * EP_HT_COPY_BYTES;
		if (!GIN_HAS_BULK)
			return 0;
		return (call.shared - placesBytes() - copies) / rings() / 128 * 128;
	}

	/*
	 * Mover `n` of the block: every all-th unit of this rank's tokens. So units are complete in
	 * about ascending order, in which receivers wait for them.
	 */
	GIN_FN void move(uint32_t n) const
	{
		const uint32_t units = (call.tokens + EP_HT_UNIT - 1) / EP_HT_UNIT;
		const uint32_t first = ginBlockIndex() * movers() + n;
		const uint32_t all = ginGridSize() * movers();
		epStages stages = stagesOf(n);
		if (first >= units)
			return;
		const uint32_t mine = (units - first + all - 1) / all;
		const uint32_t last = first + (mine - 1) * all;
		const uint32_t lacks = last + 1 == units ? units * EP_HT_UNIT - call.tokens : 0;
		epMove(stages, mine * EP_HT_UNIT - lacks, Tokens{*this, first, all, 0});
	}

	/* Ring `n`, for rows with their meta. */
	GIN_FN epStages stagesOf(uint32_t n) const
	{
		return epStagesOpen(scratch + placesBytes() + n * moverBytes(), moverBytes(),
				    call.rowBytes + call.metaBytes, EP_HT_STAGES);
	}

	GIN_FN const char *rowOf(uint32_t t) const { return call.x.data + t * call.x.step; }

	/* Words of a row's meta: the token, experts, weights, scales. */
	GIN_FN uint32_t metaWords() const { return 1 + 2 * call.topk + call.scaleWords; }

	/* The token, or scales of one byte, as far as they exist. */
	GIN_FN uint32_t metaNumber(uint32_t t, uint32_t w) const
	{
		const char *const scales = call.scales.data + t * call.scales.step;
		const uint32_t first = (w - 1 - 2 * call.topk) * 4;
		uint32_t word = 0;
		if (w == 0)
			return t;
		GIN_NO_UNROLL
		for (uint32_t b = 0; b < 4 && first + b < call.byteScales; b++)
			word |= static_cast<uint32_t>(
					static_cast<uint8_t>(scales[(first + b) * call.scaleStep]))
				<< b * 8;
		return word;
	}

	/* An index of 8 bytes is sent by its low word. */
	GIN_FN const char *metaAt(uint32_t t, uint32_t w) const
	{
		const size_t item = size_t{t} * call.topk;
		if (w == 0)
			return nullptr;
		if (w <= call.topk)
			return call.topkIdx + (item + w - 1) * call.indexBytes;
		if (w <= 2 * call.topk)
			return reinterpret_cast<const char *>(call.topkWeights + item + w - 1 -
							      call.topk);
		if (call.byteScales)
			return nullptr;
		return call.scales.data + t * call.scales.step +
		       (w - 1 - 2 * call.topk) * call.scaleStep;
	}

	/* At direct peer `n`. Every rank begins with the next one, and ends with itself. */
	GIN_FN bool placeAt(uint32_t t, uint32_t n, epHtTo *to) const
	{
		const uint32_t next = plan.rank + 1 + n, end = firstPeer() + peers();
		return placeIn(places[next < end ? next : next - peers()],
			       slotOf(t, next < end ? next : next - peers()), to);
	}

	GIN_FN bool placeIn(const epHtTo &first, uint32_t slot, epHtTo *to) const
	{
		*to = {first.row + size_t{slot} * call.rowBytes,
		       first.meta + size_t{slot} * call.metaBytes};
		return slot != EP_NONE;
	}

	/* Done words of units first, first + step, ..., which are there, to all direct peers. */
	GIN_FN void tell(uint32_t first, uint32_t step, uint32_t units) const
	{
		ginFence<ginScopeSystem>();
		GIN_NO_UNROLL
		for (uint32_t i = epTeamLane(); i < units * peers(); i += epTeamSize()) {
			const uint32_t r = firstPeer() + i / units, u = first + i % units * step;
			post(r, epHtDoneAt(ht, plan.rank, u), rowsOfUnit(u, r));
		}
	}

	GIN_FN uint32_t rowsOfUnit(uint32_t unit, uint32_t r) const
	{
		const uint32_t t = unit * EP_HT_UNIT, bit = t % EP_HT_GROUP;
		return rowsIn(epHtPairsOf(plan, handle, t / EP_HT_GROUP)[r], bit);
	}

	/*
	 * The value of a done word, of the unit that begins with the group's token `bit`: its first
	 * slot * 8 + its rows.
	 */
	GIN_FN static uint32_t rowsIn(const epHtPair pair, uint32_t bit)
	{
		const uint32_t before = pair.bits & ((1u << bit) - 1);
		const uint32_t mine = pair.bits >> bit & ((1u << EP_HT_UNIT) - 1);
		return (pair.before + epBits(before)) * 8 + epBits(mine);
	}

	/*
	 * Calls f(source, first slot, rows) when the rows of a batch of tokens of a source are
	 * here, for every batch of team `n` of `teams` of each block. `own`: also those that this
	 * rank has stored itself. By all threads of the team; ends if a rank is lost.
	 */
	template <class F> GIN_FN void eachBatch(uint32_t n, uint32_t teams, bool own, F f) const
	{
		const uint32_t *const tokens = epHtTokensOf(handle);
		const uint32_t most = mostRows([&](uint32_t s) { return tokens[s]; });
		const uint32_t batches = (most + EP_HT_BATCH - 1) / EP_HT_BATCH;
		GIN_NO_UNROLL
		for (uint32_t b = ginBlockIndex() * teams + n; b < batches;
		     b += ginGridSize() * teams)
			GIN_NO_UNROLL
		for (uint32_t s = 0; s < ranks(); s++) {
			uint32_t slot, rows;
			if (b * EP_HT_BATCH >= tokens[s] || (!own && nearOf(s) == plan.rank))
				continue;
			const uint64_t began = epTraceBegin(args);
			const bool come = awaitBatch(s, b, tokens[s], &slot, &rows);
			if (own && n == 0 && ginBlockIndex() == 0 && epTeamFirst())
				waited(nearOf(s), began, come);
			if (!come)
				return;
			f(s, slot, rows);
		}
	}

	/* A thread for each unit. False: the source is lost. */
	GIN_FN bool awaitBatch(uint32_t s, uint32_t b, uint32_t tokens, uint32_t *slot,
			       uint32_t *rows) const
	{
		const uint32_t each = EP_HT_BATCH / EP_HT_UNIT, unit = b * each;
		const uint32_t units = (tokens + EP_HT_UNIT - 1) / EP_HT_UNIT;
		uint32_t sum = 0, first = 0, value;
		bool here = true;
		GIN_NO_UNROLL
		for (uint32_t u = epTeamLane(); u < each && unit + u < units; u += epTeamSize()) {
			here = here && await(nearOf(s), epHtDoneAt(ht, s, unit + u), epoch + 1,
					     &value, isFar(s));
			if (!here)
				break;
			sum += value % 8;
			first = u == 0 ? value / 8 : first;
		}
		if (!epTeamAll(here))
			return false;
		*slot = epTeamOfFirst(first);
		*rows = epTeamSum(sum);
		return true;
	}

	/* The row of a source's slot among all received rows. */
	GIN_FN size_t recvRow(uint32_t s, uint32_t slot) const
	{
		return size_t{epHtStartOf(plan, handle)[s]} + slot;
	}

	GIN_FN void copy(uint32_t n) const
	{
		char *const ring = scratch + placesBytes() + rings() * moverBytes();
		epHtPipe pipe(epStagesOpen(ring + n * EP_HT_COPY_BYTES, EP_HT_COPY_BYTES,
					   EP_HT_PIECE, EP_HT_STAGES));
		eachBatch(n, copiers(), false, [&](uint32_t s, uint32_t slot, uint32_t rows) {
			const size_t at = recvRow(s, slot) * call.rowBytes;
			pipe.copy({plan.own + ht.poolAt + at, call.recvX + at,
				   size_t{rows} * call.rowBytes});
		});
		pipe.end();
	}

	GIN_FN void unpack(uint32_t n, uint32_t unpackers) const
	{
		eachBatch(n, unpackers, true, [&](uint32_t s, uint32_t slot, uint32_t rows) {
			const size_t row = recvRow(s, slot);
			eachWord(row, rows, 1 + call.topk,
				 [&](size_t at, uint32_t w) { unpackItem(at, w); });
			unpackScales(row, rows);
		});
		const uint32_t of = ginBlockIndex() * unpackers + n,
			       all = ginGridSize() * unpackers;
		GIN_NO_UNROLL
		for (size_t i = size_t{handle->rows} * call.topk + of * epTeamSize() + epTeamLane();
		     i < size_t{call.room} * call.topk; i += all * epTeamSize())
			storeIndex(i, EP_NONE);
	}

	/* Calls f(row, w) for each w below `each` of the rows from `row`. By a team. */
	template <class F>
	GIN_FN static void eachWord(size_t row, uint32_t rows, uint32_t each, F f)
	{
		GIN_NO_UNROLL
		for (uint32_t i = epTeamLane(); i < rows * each; i += epTeamSize())
			f(row + i / each, i % each);
	}

	GIN_FN const char *metaOf(size_t row) const
	{
		return plan.own + ht.metaAt + row * call.metaBytes;
	}

	/* The token of a row, or an expert with its weight. */
	GIN_FN void unpackItem(size_t row, uint32_t w) const
	{
		const char *const meta = metaOf(row);
		const uint32_t word = wordAt(meta, w), k = w - 1;
		if (w == 0) {
			if (call.srcInfo)
				call.srcInfo[row] = static_cast<int32_t>(word);
			return;
		}
		const uint32_t local = word - plan.firstLocal;
		const bool mine = local < plan.localExperts;
		storeIndex(row * call.topk + k, mine ? local : EP_NONE);
		call.recvTopkWeights[row * call.topk + k] =
			mine ? epFloatOf(wordAt(meta, w + call.topk)) : 0.0f;
	}

	/* Scales of words: the rows' are contiguous. Eight loads are in flight. */
	GIN_FN void unpackScales(size_t row, uint32_t rows) const
	{
		const uint32_t each = call.scaleWords, at = 1 + 2 * call.topk;
		if (call.byteScales) {
			eachWord(row, rows, each, [&](size_t of, uint32_t w) {
				unpackBytes(of, w * 4, wordAt(metaOf(of), at + w));
			});
			return;
		}
		uint32_t *const to = reinterpret_cast<uint32_t *>(call.recvScales) + row * each;
		GIN_NO_UNROLL
		for (uint32_t base = epTeamLane(); base < rows * each; base += 8 * epTeamSize()) {
			uint32_t word[8] = {};
			EP_UNROLL
			for (uint32_t j = 0; j < 8; j++) {
				const uint32_t i = base + j * epTeamSize();
				if (i < rows * each)
					word[j] = wordAt(metaOf(row + i / each), at + i % each);
			}
			EP_UNROLL
			for (uint32_t j = 0; j < 8; j++)
				if (base + j * epTeamSize() < rows * each)
					to[base + j * epTeamSize()] = word[j];
		}
	}

	GIN_FN void unpackBytes(size_t row, uint32_t first, uint32_t word) const
	{
		GIN_NO_UNROLL
		for (uint32_t b = first; b < first + 4 && b < call.byteScales; b++, word >>= 8)
			call.recvScales[row * call.byteScales + b] = static_cast<char>(word);
	}

	GIN_FN static uint32_t wordAt(const char *meta, uint32_t w)
	{
		return ginLoadWeak<uint32_t>(meta + w * 4);
	}

	/* EP_NONE: -1. */
	GIN_FN void storeIndex(size_t i, uint32_t local) const
	{
		if (call.indexBytes == 8)
			reinterpret_cast<int64_t *>(call.recvTopkIdx)[i] =
				static_cast<int32_t>(local);
		else
			reinterpret_cast<int32_t *>(call.recvTopkIdx)[i] =
				static_cast<int32_t>(local);
	}
};

#endif
