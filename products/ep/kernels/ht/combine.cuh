/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * combine.cuh - the experts' rows back to their tokens: bias + rows. Ranks are added
 *               ascending, or in the order of topkIdx
 *
 * The rank that holds x copies the rows of other ranks to its pool, unless they are there, and
 * tells when they are ready; the tokens' ranks load them from there and add them. Stagers and
 * reducers are teams; a rank reads its own rows from x.
 */
#ifndef GIN_EP_HT_COMBINE_CUH
#define GIN_EP_HT_COMBINE_CUH

#include "dispatch.cuh"
#include "sum.cuh"

class EpHtCombine : public EpHtTraced
{
protected:
	/* A row of a token, and its weights. */
	struct Row {
		const char *row, *weights;
	};
	Row *const rows; /* [ranks]: of a token; of this team */

	/* The rows of this rank's tokens: see sum.cuh. */
	struct Sums {
		static constexpr bool byDomain = false;
		const EpHtCombine &of;
		const epHtCall &call;

		GIN_FN uint32_t end() const { return call.tokens; }
		GIN_FN bool find(uint32_t t, bool, uint32_t *n) const { return of.findRows(t, n); }
		GIN_FN Row at(uint32_t i) const { return of.rows[i]; }
		GIN_FN bool isOwn(const Row &row) const { return of.isOwn(row); }
		GIN_FN static bool isOfDomain(uint32_t, uint32_t) { return false; }
		GIN_FN static bool isAbove(uint32_t) { return false; }
		GIN_FN bool hasStart() const { return call.bias[0].data || call.bias[1].data; }
		GIN_FN epEight start(uint32_t t, uint32_t p) const { return of.biasOf(t, p); }
		GIN_FN char *rowOf(uint32_t t) const { return call.out.data + t * call.out.step; }
		GIN_FN float *weightsOf(uint32_t t) const
		{
			return call.outWeights + size_t{t} * call.topk;
		}
		GIN_FN static void done(uint32_t) {}
	};

public:
	GIN_FN EpHtCombine(const epArgs &a, char *shared, bool isRail = false)
	    : EpHtTraced(a, shared, ginEpCallHtCombine, isRail),
	      rows(reinterpret_cast<Row *>(places + ranks()) + epTeam() * ranks())
	{
	}

	GIN_FN static size_t scratchBytes(const epPlan &plan)
	{
		const uint32_t teams = GIN_ON_GPU ? EP_HT_THREADS / 32 : 4;
		return EpHt::scratchBytes(plan) / sizeof(epHtTo) *
		       (sizeof(epHtTo) + teams * sizeof(Row));
	}

	GIN_FN void run()
	{
		if (!begin())
			return;
		if (ginBlockIndex() == 0)
			postPlaces();
		if (awaitPlaces()) {
			const uint32_t team = epTeam();
			if (team < stagers())
				stage(team);
			else
				reduce(team - stagers(), epTeams() - stagers());
		}
		if (isLastBlock() && !stopped())
			leave();
	}

protected:
	/* No other rank reads the rows of a rank that is alone in its domain. */
	GIN_FN uint32_t stagers() const { return peers() == 1 ? 0 : EP_HT_COPIERS; }

	/* Of shared memory: x in the pool is not copied. */
	GIN_FN uint32_t stagersBytes() const
	{
		return call.inPool ? 0 : stagers() * EP_HT_COPY_BYTES;
	}

	/*
	 * Rows of other ranks to the pool, a batch at a time. Where x is the pool, all batches are
	 * told at once: a fence for each takes longer than the sums.
	 */
	GIN_FN void stage(uint32_t n) const
	{
		epStages stages = {};
		if (!call.inPool)
			stages = epStagesOpen(scratch + stagesAt() + n * EP_HT_COPY_BYTES,
					      EP_HT_COPY_BYTES, EP_HT_PIECE, EP_HT_STAGES);
		eachStaged(n, [&](uint32_t s, uint32_t b, uint32_t rows) {
			stageRows(stages, epHtStartOf(plan, handle)[s] + b * EP_HT_BATCH, rows);
			if (call.inPool)
				return;
			epTeamSync();
			ginFence<ginScopeSystem>();
			postReady(s, b);
		});
		if (!call.inPool)
			return;
		epTeamSync();
		ginFence<ginScopeSystem>();
		eachStaged(n, [&](uint32_t s, uint32_t b, uint32_t) { postReady(s, b); });
	}

	/* Calls f(source, batch, rows) for the batches of stager `n`, of rows for other ranks. */
	template <class F> GIN_FN void eachStaged(uint32_t n, F f) const
	{
		const uint32_t *const of = epHtRowsOf(plan, handle);
		const uint32_t first = ginBlockIndex() * EP_HT_COPIERS + n;
		const uint32_t most = mostRows([&](uint32_t s) { return of[s]; });
		GIN_NO_UNROLL
		for (uint32_t b = first; b < (most + EP_HT_BATCH - 1) / EP_HT_BATCH;
		     b += ginGridSize() * EP_HT_COPIERS)
			GIN_NO_UNROLL
		for (uint32_t s = 0; s < ranks(); s++) {
			if (nearOf(s) == plan.rank || b * EP_HT_BATCH >= of[s])
				continue;
			const uint32_t left = of[s] - b * EP_HT_BATCH;
			f(s, b, left < EP_HT_BATCH ? left : EP_HT_BATCH);
		}
	}

	/* After a fence of the team. */
	GIN_FN void postReady(uint32_t s, uint32_t b) const
	{
		if (epTeamFirst())
			post(nearOf(s), epHtReadyAt(ht, indexAtNear(s), b), 0);
	}

	/* Shared memory of stagers, after the lists of rows. */
	GIN_FN uint32_t stagesAt() const
	{
		return static_cast<uint32_t>((scratchBytes(plan) + 127) / 128 * 128);
	}

	GIN_FN void stageRows(epStages &stages, size_t row, uint32_t count) const
	{
		const size_t at = row * call.rowBytes, bytes = size_t{count} * call.rowBytes;
		const epHtRun run{call.x.data + at, plan.own + ht.poolAt + at, bytes};
		if (!call.inPool)
			epMove(stages, run.pieces(), run);
		char *const meta = plan.own + ht.metaAt + row * call.metaBytes;
		GIN_NO_UNROLL
		for (uint32_t i = epTeamLane(); i < count * call.topk; i += epTeamSize())
			reinterpret_cast<float *>(meta +
						  i / call.topk * call.metaBytes)[i % call.topk] =
				call.topkWeights[row * call.topk + i];
	}

	/* Team `n` of `teams` of each block adds the rows of every all-th token. */
	GIN_FN void reduce(uint32_t n, uint32_t teams) const
	{
		add(Sums{*this, call}, ginBlockIndex() * teams + n, ginGridSize() * teams);
	}

	/* A team adds the rows of the tokens first, first + step, ... of `Of`: see sum.cuh. */
	template <class Of> GIN_FN void add(const Of &of, uint32_t first, uint32_t step) const
	{
#if GIN_HAS_BULK
		const uint32_t rings = epTeams() - stagers(), copies = stagersBytes();
		const uint32_t bytes = (call.shared - stagesAt() - copies) / rings / 128 * 128;
		char *const ring = scratch + stagesAt() + copies + (epTeam() - stagers()) * bytes;
		const uint32_t stage = EP_HT_SUM_PIECE + (call.topk ? EP_HT_SUM_WEIGHTS : 0);
		epStages stages = epStagesOpen(ring, bytes, stage, EP_HT_MOST_STAGES);
		if (stages.count) {
			EpHtSums<Of>(of, stages, first, step).run();
			return;
		}
#endif
		GIN_NO_UNROLL
		for (uint32_t t = first; t < of.end(); t += step) {
			uint32_t count;
			if (!of.find(t, true, &count))
				return;
			epHtSumByThreads(of, t, count);
		}
	}

	/* Lists the rows of a token of this rank: ranks ascending, or as topkIdx orders them. */
	GIN_FN bool findRows(uint32_t t, uint32_t *count) const
	{
		return list(
			call.topkIdx ? call.orderTopk : ranks(),
			[&](uint32_t i, Row *row) {
				const uint32_t r = call.topkIdx ? rankOfLast(t, i) : i;
				return r == EP_NONE || get(r, slotOf(t, r), row);
			},
			count);
	}

	/* The rank of expert k of topkIdx[t]; EP_NONE: none, or it has a later expert, too. */
	GIN_FN uint32_t rankOfLast(uint32_t t, uint32_t k) const
	{
		const uint32_t r = rankOf(t, k);
		bool isLast = true;
		GIN_NO_UNROLL
		for (uint32_t i = k + 1; i < call.orderTopk; i++)
			isLast = isLast && rankOf(t, i) != r;
		return isLast ? r : EP_NONE;
	}

	/* The rank of expert k of topkIdx[t]; EP_NONE: there is no such expert. */
	GIN_FN uint32_t rankOf(uint32_t t, uint32_t k) const
	{
		const size_t at = size_t{t} * call.orderTopk + k;
		const int64_t e = call.indexBytes == 8
					  ? reinterpret_cast<const int64_t *>(call.topkIdx)[at]
					  : reinterpret_cast<const int32_t *>(call.topkIdx)[at];
		return static_cast<uint64_t>(e) < plan.experts ? plan.rankOf[e] : EP_NONE;
	}

	/*
	 * Lists those of n rows that exist. rowOf(i, &row) leaves a row that does not exist as it
	 * is; it returns false if row i cannot be had, and list() does, too.
	 */
	template <class RowOf> GIN_FN bool list(uint32_t n, RowOf rowOf, uint32_t *count) const
	{
		uint32_t found = 0;
		bool here = true;
		epTeamSync(); /* the list of the token before has been read */
		GIN_NO_UNROLL
		for (uint32_t first = 0; first < n; first += epTeamSize()) {
			const uint32_t i = first + epTeamLane();
			Row row = {};
			uint32_t all;
			here = here && (i >= n || rowOf(i, &row));
			const uint32_t at = found + epTeamBefore(row.row != nullptr, &all);
			if (row.row)
				rows[at] = row;
			found += all;
		}
		epTeamSync();
		*count = found;
		return epTeamAll(here);
	}

	/* The row of a slot at places[r], when it is ready. False: a rank is lost. */
	GIN_FN bool get(uint32_t r, uint32_t slot, Row *row) const
	{
		if (slot == EP_NONE)
			return true;
		if (!isReady(r, slot))
			return false;
		*row = rowAt(r, slot);
		return true;
	}

	/* Rows, by the index of their place. */
	GIN_FN bool isReady(uint32_t r, uint32_t slot) const
	{
		const size_t at = epHtReadyAt(ht, r, slot / EP_HT_BATCH);
		uint32_t value;
		if (nearOf(r) == plan.rank)
			return true;
		if (!epTraces(args) || ginBlockIndex() || epTeam() != stagers())
			return await(nearOf(r), at, epoch + 1, &value);
		/* One reducer shows for what the others wait, too. */
		const bool seen = epTaggedLoad(plan.own + at) >> 32 == epoch + 1;
		const uint64_t began = epTraceBegin(args);
		const bool come = await(nearOf(r), at, epoch + 1, &value);
		if (!seen)
			waited(nearOf(r), began, come);
		return come;
	}

	GIN_FN Row rowAt(uint32_t r, size_t slot) const
	{
		if (nearOf(r) != plan.rank)
			return {places[r].row + slot * call.rowBytes,
				places[r].meta + slot * call.metaBytes};
		slot += epHtStartOf(plan, handle)[r];
		return {call.x.data + slot * call.rowBytes,
			reinterpret_cast<const char *>(call.topkWeights + slot * call.topk)};
	}

	/* Is the row in x? Other ranks' rows are in their pools. */
	GIN_FN bool isOwn(const Row &row) const
	{
		return row.row >= call.x.data &&
		       row.row < call.x.data + size_t{call.room} * call.rowBytes;
	}

	GIN_FN epEight biasOf(uint32_t t, uint32_t p) const
	{
		epEight eight = {};
		GIN_NO_UNROLL
		for (uint32_t b = 0; b < 2; b++)
			if (call.bias[b].data)
				eight.plus(epPieceLoad(call.bias[b].data + t * call.bias[b].step +
						       p * 16));
		return eight;
	}

	/*
	 * By the last block: this rank has read its rows. x in the pool is the caller's again when
	 * all ranks have.
	 */
	GIN_FN void leave() const
	{
		ginFence<ginScopeSystem>();
		GIN_NO_UNROLL
		for (uint32_t i = thread(); i < peers(); i += threads())
			post(firstPeer() + i, epHtPulledAt(ht, plan.rank), 0);
		GIN_NO_UNROLL
		for (uint32_t i = thread(); call.inPool && i < peers(); i += threads())
			awaitPulled(firstPeer() + i);
		sync();
		if (thread() == 0)
			epWordStore(&plan.state->epoch[1], epoch + 1);
		if (ginTraces && !stopped())
			traceRows();
	}

	GIN_FN void awaitPulled(uint32_t r) const
	{
		const uint64_t began = epTraceBegin(args);
		uint32_t value;
		waited(r, began, await(r, epHtPulledAt(ht, r), epoch + 1, &value));
	}

	/* By the last block: what this rank has sent, and what it has loaded. */
	GIN_FN void traceRows() const
	{
		eachRank([&](uint32_t r) {
			if (isFar(r)) {
				sent(r, bytesOfChunks(r / ht.domainSize, true));
				return;
			}
			const uint64_t loaded = combinedFrom(r);
			sent(r, combinedTo(r));
			if (loaded)
				sent(r, loaded, true);
		});
	}
};

#endif
