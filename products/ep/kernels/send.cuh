/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.cuh - common to the sends of dispatch and of combine: the epoch, credits, signals, and puts
 * of staged rows in chunks
 */
#ifndef GIN_EP_SEND_CUH
#define GIN_EP_SEND_CUH

#include "list.cuh"

/* The rows of one put: slots first to first + size - 1 of a rank. */
struct epChunk {
	uint32_t first, size;
};

/* A row: where its tag goes, and its epHeader.part. */
struct epTagged {
	char *at;
	uint64_t part;
};

class EpSend : public EpList
{
protected:
	const uint32_t number; /* ginEpCallDispatchSend or ginEpCallCombineSend */
	uint32_t epoch, half;
	uint64_t began;	   /* for records of GIN_TRACE */
	uint32_t *fate;	   /* [ranks]: 1: gets no rows */
	uint32_t *rowsOut; /* [ranks]: rows that this block has stored to direct peers */
	epBegun *begun;
	epTagged *tagged; /* [ranks]: a row that this block has stored; of a dispatch, all direct */

	GIN_FN EpSend(const epArgs &a, char *shared, uint32_t n, bool isPlain = false)
	    : EpList(a, shared, isPlain), number(n), epoch(0), half(0), began(0), fate(nullptr),
	      rowsOut(nullptr), begun(nullptr), tagged(nullptr)
	{
	}

	/* Scratch of a send for the results of open(). */
	GIN_FN static size_t openBytes(const epPlan &plan)
	{
		return sizeof(epBegun) + 2 * plan.nRanks * sizeof(uint32_t);
	}

	GIN_FN void openAt(char *at)
	{
		begun = reinterpret_cast<epBegun *>(at);
		fate = reinterpret_cast<uint32_t *>(begun + 1);
		rowsOut = fate + ranks();
	}

	/* 0: dispatch, 1: combine. */
	GIN_FN uint32_t which() const { return number == ginEpCallCombineSend ? 1 : 0; }
	GIN_FN uint32_t family() const { return which() ? epParts : epRows; }

	/*
	 * The last threads of the block load the state and find the ranks that get no rows. Other
	 * threads prepare rows meanwhile, and do not load the state.
	 */
	template <bool direct> GIN_FN void open()
	{
		GIN_NO_UNROLL
		for (uint32_t r = thread(); r < ranks(); r += threads())
			rowsOut[r] = 0;
		if (ginBlockIndex() == ginGridSize() - 1 && !epBegin(plan).failed())
			epGiveCredits<direct>(args, number);
		epAwaitCredits<direct>(args, number, which() ? epPartsFree : epRowsFree, fate,
				       begun);
	}

	/*
	 * After open(). False: an earlier call has failed, and the block does nothing. All threads
	 * have synced.
	 */
	GIN_FN bool enter()
	{
		sync();
		epoch = begun->epoch;
		half = epoch % 2;
		return !begun->failed;
	}

	/*
	 * A kernel that does not receive: when the last block comes here, all blocks have read the
	 * epoch. T.
	 */
	GIN_FN void advanceAlone() const
	{
		if (thread() == threads() - 1 &&
		    epTicketTake(epTicketOf(plan, number, half), 1, ginGridSize()))
			advance(which(), epoch);
	}

	/* Signals the rows that this block has stored to direct peers. */
	template <bool direct> GIN_FN void raiseRows() const
	{
		sync();
		GIN_NO_UNROLL
		for (uint32_t r = threads() - 1 - thread(); r < ranks(); r += threads())
			if (rowsOut[r])
				raiseOne<direct>(r);
	}

	/*
	 * Not by epSignal(): a called function loads the kernel's parameters from memory, and the
	 * release would wait for the loads.
	 */
	template <bool direct> GIN_FN void raiseOne(uint32_t r) const
	{
		const GinSignalAdd rows{epSignalId(plan, family(), half, plan.rank), rowsOut[r]};
		if (!direct) {
			epSignal<direct>(args, number, r, 0, rows, epoch);
			return;
		}
		ginOptions options = epFrom(args, r);
		if (!which())
			options.given = tagRow(r);
		const ginResult_t result =
			gin<direct>(0).signal(static_cast<int>(r), rows, GinThread{}, options);
		if (result != ginSuccess)
			epLose<direct>(args, number, r, result, epoch, rows.value, 0);
	}

	/*
	 * The only row that this block has stored to a rank gets its tag: the block that receives
	 * it need not wait for rows of other blocks. Returns the scope to which the block's stores
	 * are released. L.
	 */
	GIN_FN ginScope tagRow(uint32_t r) const
	{
		const uint64_t tag = (epoch + 1) | EP_TAG;
		ginFence<ginScopeSystem>();
		if (rowsOut[r] == 1)
			epTagStore(tagged[r].at, tagged[r].part | tag << 32);
		return GIN_ON_GPU ? ginScopeSystem : ginScopeThread; /* the host has no fence */
	}

	/*
	 * A row for a peer on a network route is staged; `rows`: the rows of all blocks for the
	 * peer. True: it was the last row of *chunk, which this thread puts. G.
	 */
	GIN_FN bool staged(uint32_t rank, uint32_t slot, uint32_t rows, epChunk *chunk) const
	{
		const uint32_t index = slot / EP_CHUNK, first = index * EP_CHUNK;
		const uint32_t size = rows - first < EP_CHUNK ? rows - first : EP_CHUNK;
		const uint32_t perRank = (plan.maxTokens + EP_CHUNK - 1) / EP_CHUNK;
		const size_t line = (which() * 2 + half) * static_cast<size_t>(ranks()) + rank;
		*chunk = {first, size};
		return epTicketTake(plan.chunks + line * perRank + index, 1, size);
	}

	GIN_FN uint32_t laneOf(const epChunk &chunk) const
	{
		return chunk.first / EP_CHUNK % plan.lanes;
	}

	/* Puts the staged bytes of a chunk, and signals its rows. By one thread. */
	template <bool direct> GIN_FN void putChunk(uint32_t rank, const epChunk &chunk, size_t to,
						    size_t from, size_t bytes) const
	{
		const uint32_t id = epSignalId(plan, family(), half, plan.rank);
		ginResult_t result = gin<direct>(laneOf(chunk))
					     .put(static_cast<int>(rank), plan.slab, to, plan.slab,
						  from, bytes, GinSignalAdd{id, chunk.size},
						  GinNone{}, GinThread{}, epFrom(args, rank));
		if (result != ginSuccess)
			epLose<direct>(args, number, rank, result, epoch, chunk.size, 0);
	}
};

#endif
