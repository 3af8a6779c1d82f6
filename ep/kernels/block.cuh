/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * block.cuh - a thread block of a kernel: addresses, waits, failures
 *
 * A kernel is a class derived from EpBlock with a method run(), which all threads of all blocks
 * call. Scratch is shared memory of the block on a GPU, memory of plan.scratch on host threads.
 */
#ifndef GIN_EP_BLOCK_CUH
#define GIN_EP_BLOCK_CUH

#include "ep/include/gin_ep.h"

#include "args.h"
#include "memory.cuh"
#include "quant.cuh"

/* Rows of n that lane `lane` of `lanes` carries, in chunks dealt out in turn. */
GIN_FN uint32_t epShareOf(uint32_t n, uint32_t lane, uint32_t lanes)
{
	uint32_t whole = n / EP_CHUNK;
	uint32_t share = EP_CHUNK * ((whole + lanes - 1 - lane) / lanes);
	return whole % lanes == lane ? share + n % EP_CHUNK : share;
}

/*
 * A team counts together: a warp on a GPU, one thread on the host. epTeam() is the number of the
 * calling thread's team in its block.
 */
GIN_FN uint32_t epTeam()
{
	return GIN_ON_GPU ? ginThreadIndex() / 32 : ginThreadIndex();
}

GIN_FN uint32_t epTeams()
{
	return GIN_ON_GPU ? ginBlockSize() / 32 : ginBlockSize();
}

GIN_FN bool epTeamFirst()
{
	return GIN_ON_GPU ? ginLane() == 0 : true;
}

/* How many i below `end` pass the test. By all threads of a team, with equal results. */
template <class Test> GIN_FN uint32_t epCount(uint32_t end, Test test)
{
#if GIN_ON_GPU
	uint32_t n = 0;
	for (uint32_t i = ginLane(); i < end; i += 32)
		n += test(i) ? 1 : 0;
	return __reduce_add_sync(0xffffffffu, n);
#else
	uint32_t n = 0;
	for (uint32_t i = 0; i < end; i++)
		n += test(i) ? 1 : 0;
	return n;
#endif
}

/* A word of scratch that several threads of the block add to. */
GIN_FN void epScratchAdd(uint32_t *word, uint32_t value)
{
#if GIN_ON_GPU
	atomicAdd(word, value);
#else
	__atomic_fetch_add(word, value, __ATOMIC_RELAXED);
#endif
}

class EpBlock
{
protected:
	const epArgs &args;
	const epPlan &plan;
	const epCallArgs &call;
	char *const scratch;
	uint64_t deadline;

public:
	GIN_FN EpBlock(const epArgs &a, char *shared)
	    : args(a), plan(a.plan), call(a.call),
	      scratch(GIN_ON_GPU ? shared
				 : a.plan.scratch + static_cast<size_t>(ginBlockIndex()) *
							    a.plan.scratchBytes),
	      deadline(0)
	{
	}

	/* Of a kernel that uses no scratch. */
	GIN_FN static size_t scratchBytes(const epPlan &) { return 0; }

protected:
	GIN_FN static uint32_t thread() { return ginThreadIndex(); }
	GIN_FN static uint32_t threads() { return ginBlockSize(); }
	GIN_FN static void sync() { GinCta{}.sync(); }

	GIN_FN uint32_t ranks() const { return plan.nRanks; }
	GIN_FN bool stopped() const { return epWordLoad(&plan.state->failed) != 0; }
	GIN_FN bool masked(uint32_t rank) const { return epWordLoad(&plan.masked[rank]) != 0; }

	GIN_FN Gin gin(uint32_t lane) const { return Gin(args.dc, lane); }

	/* The signal of `family` and half at the rank that waits, raised by or for `rank`. */
	GIN_FN uint32_t signalId(uint32_t family, uint32_t half, uint32_t rank) const
	{
		return (family * 2 + half) * ranks() + rank;
	}

	/* The slab of a direct peer; NULL: a network route. */
	GIN_FN char *slabOf(uint32_t rank) const
	{
		if (rank == plan.rank)
			return plan.own;
		if (rank < EP_NEAR)
			return plan.nearSlab[rank];
		return static_cast<char *>(ginPeerPointer(plan.slab, 0, static_cast<int>(rank)));
	}

	GIN_FN bool isDirect(uint32_t rank) const
	{
		return plan.allDirect || slabOf(rank) != nullptr;
	}

	/* Offsets in the slab. */
	GIN_FN size_t rowAt(uint32_t half, uint32_t source, uint32_t slot) const
	{
		size_t row = (static_cast<size_t>(half) * ranks() + source) * plan.maxTokens + slot;
		return plan.rowsAt + row * plan.rowBytes;
	}

	GIN_FN size_t stagedRowAt(uint32_t half, uint32_t peer, uint32_t slot) const
	{
		return plan.stagedRowsAt - plan.rowsAt + rowAt(half, peer, slot);
	}

	GIN_FN size_t partAt(uint32_t half, uint32_t token, uint32_t place) const
	{
		size_t row = static_cast<size_t>(half) * plan.maxTokens + token;
		return plan.partsAt + (row * plan.places + place) * plan.partBytes;
	}

	/* `part`: 0 with GIN_EP_REDUCE_RANK, the number of k at the peer with NONE. */
	GIN_FN size_t stagedPartAt(uint32_t half, uint32_t peer, uint32_t slot, uint32_t part) const
	{
		size_t row = (static_cast<size_t>(half) * ranks() + peer) * plan.maxTokens + slot;
		return plan.stagedPartsAt + (row * plan.places + part) * plan.partBytes;
	}

	/* Word 0: rows; word 1 + e: items of local expert e. */
	GIN_FN size_t countAt(uint32_t half, uint32_t source, uint32_t word) const
	{
		size_t line = static_cast<size_t>(half) * ranks() + source;
		return plan.countsAt + (line * (1 + plan.mostLocal) + word) * sizeof(uint64_t);
	}

	GIN_FN size_t verdictAt(uint32_t half, uint32_t source) const
	{
		return plan.verdictsAt + (half * ranks() + source) * sizeof(uint64_t);
	}

	GIN_FN uint64_t *base(uint64_t *bases, uint32_t half, uint32_t lane, uint32_t rank) const
	{
		return bases + (half * plan.lanes + lane) * ranks() + rank;
	}

	/* The rows that all ranks have sent to this rank, in a handle, and the rows sent to each. */
	GIN_FN uint32_t *sentOf(epHandle *handle) const
	{
		return reinterpret_cast<uint32_t *>(handle + 1);
	}

	GIN_FN uint32_t *receivedOf(epHandle *handle) const { return sentOf(handle) + ranks(); }

	GIN_FN char *recordOf(epHandle *handle, uint32_t source, uint32_t slot) const
	{
		size_t before = (2 * ranks() * sizeof(uint32_t) + 15) / 16 * 16;
		size_t row = static_cast<size_t>(source) * plan.maxTokens + slot;
		return reinterpret_cast<char *>(handle + 1) + before + row * plan.received;
	}

	/*
	 * Calls row(source, slot, n) for this block's rows of all sources, n = 0, 1, ...
	 * rowsOf(source) is the number of rows of a source. Rows are dealt out in turn.
	 */
	template <class RowsOf, class Row> GIN_FN void eachRow(RowsOf rowsOf, Row row) const
	{
		const uint32_t grid = ginGridSize();
		uint32_t first = 0, n = 0;
		for (uint32_t s = 0; s < ranks(); s++) {
			const uint32_t rows = rowsOf(s);
			uint32_t slot = (ginBlockIndex() + grid - first % grid) % grid;
			for (; slot < rows; slot += grid)
				row(s, slot, n++);
			first += rows;
		}
	}

	/* Waits of this call end at one time. */
	GIN_FN void startClock() { deadline = plan.timeout ? ginNow() + plan.timeout : 0; }

	GIN_FN ginOptions from(uint32_t rank) const
	{
		ginOptions options;
		options.from = {rank, 1, 1};
		options.timeout = GIN_FOREVER;
		if (deadline) {
			uint64_t now = ginNow();
			options.timeout = now < deadline ? deadline - now : 1;
		}
		return options;
	}

	/*
	 * One thread has waited for `rank` in vain. GIN_EP_LOST_MASK masks the rank; otherwise, and
	 * after ginCommAbort(), all later kernels return at once.
	 */
	GIN_FN_COLD void lose(uint32_t number, uint32_t rank, ginResult_t result, uint32_t epoch,
			      uint64_t expected, uint64_t seen) const
	{
		epWordStore(&plan.observed[rank], 1);
		epPageStore(&plan.pageObserved[rank], 1);
		if (plan.onLost == GIN_EP_LOST_MASK && result != ginErrorAborted) {
			epWordStore(&plan.masked[rank], 1);
			epPageStore(&plan.pageMasked[rank], 1);
		} else {
			epWordStore(&plan.state->failed, result);
			epPageStore(&plan.page->failed, result);
		}
		record(number, static_cast<int32_t>(rank), result, epoch, expected, seen);
	}

	GIN_FN_COLD void record(uint32_t number, int32_t rank, ginResult_t result, uint32_t epoch,
				uint64_t expected, uint64_t seen) const
	{
		if (!epWordClaim(&plan.state->recordClaim))
			return;
		epPage *page = plan.page;
		page->result = result;
		page->call = number;
		page->rank = rank;
		page->epoch = epoch;
		page->expected = expected;
		page->seen = seen;
		epPagePublish(&page->valid);
	}

	/* One thread waits for a signal that depends on `rank`. False: the rank is lost. */
	GIN_FN bool await(uint32_t number, uint32_t rank, uint32_t lane, uint32_t id,
			  uint64_t least, uint32_t epoch) const
	{
		Gin context = gin(lane);
		ginResult_t result = context.waitSignal(id, least, GinThread{}, from(rank));
		if (result == ginSuccess)
			return true;
		lose(number, rank, result, epoch, least, context.readSignal(id));
		return false;
	}

	/*
	 * fate[rank] becomes 1 for a rank that is masked or has not freed this half. `family` is
	 * epRowsFree or epPartsFree. Each rank by one thread; the caller syncs.
	 */
	GIN_FN void awaitCredits(uint32_t number, uint32_t family, uint32_t epoch,
				 uint32_t *fate) const
	{
		for (uint32_t r = thread(); r < ranks(); r += threads())
			fate[r] = masked(r) || !await(number, r, 0, signalId(family, epoch % 2, r),
						      epoch / 2, epoch);
	}

	/* The rows of `rank` have come, in all lanes: `count` more than `bases` says. */
	GIN_FN bool awaitRows(uint32_t number, uint32_t family, uint64_t *bases, uint32_t rank,
			      uint32_t count, uint32_t epoch) const
	{
		const uint32_t half = epoch % 2, id = signalId(family, half, rank);
		if (!count)
			return true;
		if (isDirect(rank))
			return await(number, rank, 0, id, *base(bases, half, 0, rank) + count,
				     epoch);
		for (uint32_t l = 0; l < plan.lanes; l++)
			if (!await(number, rank, l, id,
				   *base(bases, half, l, rank) + epShareOf(count, l, plan.lanes),
				   epoch))
				return false;
		return true;
	}

	/* By one thread, after awaitRows() of all blocks. */
	GIN_FN void raiseBase(uint64_t *bases, uint32_t half, uint32_t rank, uint32_t count) const
	{
		if (isDirect(rank)) {
			*base(bases, half, 0, rank) += count;
			return;
		}
		for (uint32_t l = 0; l < plan.lanes; l++)
			*base(bases, half, l, rank) += epShareOf(count, l, plan.lanes);
	}

	/* A strong signal to `rank`, by one thread: covers the stores of the block. */
	GIN_FN void raise(uint32_t number, uint32_t rank, uint32_t lane, uint32_t id,
			  uint64_t value, uint32_t epoch) const
	{
		ginResult_t result = gin(lane).signal(
			static_cast<int>(rank), GinSignalAdd{id, value}, GinThread{}, from(rank));
		if (result != ginSuccess)
			lose(number, rank, result, epoch, value, 0);
	}

	/* The tickets of a call: one word for each half, so that two receives may overlap. */
	GIN_FN uint32_t *ticket(uint32_t number, uint32_t half) const
	{
		return &plan.state->ticket[(number - 1) * 2 + half];
	}
};

#endif
