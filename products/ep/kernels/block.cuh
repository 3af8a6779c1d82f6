/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * block.cuh - a thread block of a kernel, and teams of its threads
 *
 * A kernel is a class derived from EpBlock with a method run(), which all threads of all blocks
 * call. Scratch is shared memory of the block on a GPU, memory of plan.scratch on host threads.
 */
#ifndef GIN_EP_BLOCK_CUH
#define GIN_EP_BLOCK_CUH

#include "quant.cuh"
#include "waits.cuh"

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

GIN_FN uint32_t epTeamLane()
{
	return GIN_ON_GPU ? ginLane() : 0;
}

GIN_FN uint32_t epTeamSize()
{
	return GIN_ON_GPU ? 32 : 1;
}

/* After it the threads of a team see each other's writes to scratch. */
GIN_FN void epTeamSync()
{
#if GIN_ON_GPU
	__syncwarp();
#endif
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
	GIN_NO_UNROLL
	for (uint32_t i = 0; i < end; i++)
		n += test(i) ? 1 : 0;
	return n;
#endif
}

/* Sums, votes and values of a team, by all its threads; with one thread they are its own. */
GIN_FN uint32_t epTeamSum(uint32_t value)
{
#if GIN_ON_GPU
	return __reduce_add_sync(0xffffffffu, value);
#else
	return value;
#endif
}

/* The sum of the threads up to the calling one. */
GIN_FN uint32_t epTeamScan(uint32_t value)
{
#if GIN_ON_GPU
	EP_UNROLL
	for (uint32_t step = 1; step < 32; step *= 2) {
		const uint32_t before = __shfl_up_sync(0xffffffffu, value, step);
		value += ginLane() >= step ? before : 0;
	}
#endif
	return value;
}

/* How many threads of the team before the calling one say yes; *all: of the whole team. */
GIN_FN uint32_t epTeamBefore(bool yes, uint32_t *all)
{
#if GIN_ON_GPU
	const uint32_t votes = __ballot_sync(0xffffffffu, yes);
	*all = static_cast<uint32_t>(__popc(votes));
	return static_cast<uint32_t>(__popc(votes & ((1u << ginLane()) - 1)));
#else
	*all = yes ? 1 : 0;
	return 0;
#endif
}

GIN_FN bool epTeamAll(bool mine)
{
#if GIN_ON_GPU
	return __all_sync(0xffffffffu, mine);
#else
	return mine;
#endif
}

/* The value of the team's first thread. */
GIN_FN uint32_t epTeamOfFirst(uint32_t value)
{
#if GIN_ON_GPU
	return __shfl_sync(0xffffffffu, value, 0);
#else
	return value;
#endif
}

/* A word of scratch that several threads of the block add to. Returns the old value. */
GIN_FN uint32_t epScratchAdd(uint32_t *word, uint32_t value)
{
#if GIN_ON_GPU
	return atomicAdd(word, value);
#else
	return __atomic_fetch_add(word, value, __ATOMIC_RELAXED);
#endif
}

class EpBlock
{
protected:
	const epArgs &args;
	const epPlan &plan;
	const epCallArgs &call;
	char *const scratch;
	const bool plain; /* known at compile time: isPlain() of launch.c is true */

public:
	GIN_FN EpBlock(const epArgs &a, char *shared, bool isPlain = false)
	    : args(a), plan(a.plan), call(a.call), scratch(shared), plain(isPlain)
	{
	}

	static constexpr uint32_t perSm = 2; /* blocks of an SM, at least */
	static constexpr uint32_t mostThreads = 512;

	/* Of a kernel that uses no scratch. */
	GIN_FN static size_t scratchBytes(const epPlan &) { return 0; }

protected:
	GIN_FN static uint32_t thread() { return ginThreadIndex(); }
	GIN_FN static uint32_t threads() { return ginBlockSize(); }
	GIN_FN static void sync() { GinCta{}.sync(); }

	GIN_FN uint32_t ranks() const { return plan.nRanks; }
	/* Have kernels before this one made the list? */
	GIN_FN bool isLong() const { return !plain && call.longList; }
	/* May the call go on without a rank that is lost? */
	GIN_FN bool mayMask() const { return !plain && plan.onLost == GIN_EP_LOST_MASK; }

	/*
	 * An earlier call has failed: the kernel does nothing. By all threads of the block, which
	 * vote: the word may change while they load it, and a thread that returns alone would be
	 * missing in the next sync().
	 */
	GIN_FN bool stopped() const { return GinCta{}.any(epWordLoad(&plan.state->failed) != 0); }

	/* All blocks have read the epoch of a send: 0 of dispatch, 1 of combine. By one thread. */
	GIN_FN void advance(uint32_t which, uint32_t epoch) const
	{
		call.handle->epoch[which] = epoch;
		epWordStore(&plan.state->epoch[which], epoch + 1);
	}

	GIN_FN bool masked(uint32_t rank) const { return epMaskOf(plan, rank) != 0; }

	template <bool direct> GIN_FN EpGin<epRoutes<direct>> gin(uint32_t lane) const
	{
		return epGin<direct>(args, lane);
	}

	/* The slab of a direct peer; NULL: a network route. */
	GIN_FN char *slabOf(uint32_t rank) const
	{
		return plain ? plan.peerSlab[rank] : epSlabOf(plan, rank);
	}

	GIN_FN uint32_t *sentOf(epHandle *handle) const { return epSentOf(handle); }

	/* The most rows of a source. */
	template <class RowsOf> GIN_FN uint32_t mostRows(RowsOf rowsOf) const
	{
		uint32_t most = 0;
		GIN_NO_UNROLL
		for (uint32_t s = 0; s < ranks(); s++)
			most = rowsOf(s) > most ? rowsOf(s) : most;
		return most;
	}

	/*
	 * Calls row(source, slot) for this block's rows of all sources. rowsOf(source) is the
	 * number of rows of a source. Blocks get rows round robin, low slots first, beginning with
	 * block `first`.
	 */
	template <class RowsOf, class Row>
	GIN_FN void eachRow(RowsOf rowsOf, uint32_t first, Row row) const
	{
		const uint32_t end = mostRows(rowsOf) * ranks();
		GIN_NO_UNROLL
		for (uint32_t i = turnOf(first); i < end; i += ginGridSize()) {
			const uint32_t slot = i / ranks(), s = i - slot * ranks();
			if (slot < rowsOf(s))
				row(s, slot);
		}
	}

	/* The block's place in the order of blocks that begins with block `first`. */
	GIN_FN static uint32_t turnOf(uint32_t first)
	{
		const uint32_t block = ginBlockIndex();
		return block >= first ? block - first : block + ginGridSize() - first;
	}

	/*
	 * The block that gets the first received row, in a kernel that sends, too: if there are few
	 * rows, the blocks that send receive none, and the other blocks wait for rows from the
	 * start.
	 */
	GIN_FN uint32_t receiveFirst() const
	{
		return ranks() * call.tokens <= ginGridSize() / 4 ? ginGridSize() / 2 : 0;
	}

	/*
	 * True in the block that ends a receive last: every block has read its rows and written its
	 * outputs. *flagged: a block has passed a true `flag`, which is equal in all threads of a
	 * block. By all threads of the block. T.
	 */
	GIN_FN bool isLast(uint32_t number, uint32_t half, bool flag, bool *flagged) const
	{
		uint32_t sum = 0;
		sync();
		if (thread() == 0)
			sum = epTicketSum(epTicketOf(plan, number, half),
					  flag ? EP_TICKET_FLAG + 1 : 1, ginGridSize());
		if (!GinCta{}.any(sum != 0))
			return false;
		*flagged = GinCta{}.any(sum >= EP_TICKET_FLAG);
		return true;
	}
};

#endif
