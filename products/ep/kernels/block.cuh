/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * block.cuh - a thread block of a kernel: addresses, waits, credits
 *
 * A kernel is a class derived from EpBlock with a method run(), which all threads of all blocks
 * call. Scratch is shared memory of the block on a GPU, memory of plan.scratch on host threads.
 */
#ifndef GIN_EP_BLOCK_CUH
#define GIN_EP_BLOCK_CUH

#include "lost.cuh"
#include "quant.cuh"

/* Rows of n that go by context `lane` of `lanes`: chunks go round robin. */
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

/*
 * Loads of a word in GPU memory before the long wait, which reads the clock. Signals of a network
 * route may be in host memory: only the long wait reads a mirror of them.
 */
#define EP_LOOKS (GIN_ON_GPU ? 2000u : 16u)

/* A word of scratch that several threads of the block add to. */
GIN_FN void epScratchAdd(uint32_t *word, uint32_t value)
{
#if GIN_ON_GPU
	atomicAdd(word, value);
#else
	__atomic_fetch_add(word, value, __ATOMIC_RELAXED);
#endif
}

/* The first words of the state at the start of a send, by one load. */
class epBegin
{
	const ginWord16 words;

public:
	GIN_FN explicit epBegin(const epPlan &plan) : words(epStateLoad(plan.state)) {}

	/* An earlier call has failed. */
	GIN_FN bool failed() const { return static_cast<uint32_t>(words.half[0]) != 0; }

	/* The epoch of the send whose call has the number `number`. */
	GIN_FN uint32_t epoch(uint32_t number) const
	{
		return static_cast<uint32_t>(words.half[1] >>
					     (number == ginEpCallCombineSend ? 32 : 0));
	}
};

/* The state at the start of a block's send, in scratch. */
struct epBegun {
	uint32_t epoch, failed;
};

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

	GIN_FN uint32_t maskOf(uint32_t rank) const { return epWordLoad(&plan.masked[rank]); }
	GIN_FN bool masked(uint32_t rank) const { return maskOf(rank) != 0; }

	template <bool direct> GIN_FN GinOn<epRoutes<direct>> gin(uint32_t lane) const
	{
		return GinOn<epRoutes<direct>>(args.dc, lane);
	}

	/* The signal of `family` and half at the rank that waits, raised by or for `rank`. */
	GIN_FN uint32_t signalId(uint32_t family, uint32_t half, uint32_t rank) const
	{
		return (family * 2 + half) * ranks() + rank;
	}

	/* The slab of a direct peer; NULL: a network route. */
	GIN_FN char *slabOf(uint32_t rank) const
	{
		return plain ? plan.peerSlab[rank] : epSlabOf(plan, rank);
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

	/* Row `part` of parts; staged rows for a peer have the peer's numbers. */
	GIN_FN size_t partAt(size_t half, uint32_t part) const
	{
		const size_t row = half * plan.maxTokens * plan.partsOfToken + part;
		return plan.partsAt + row * plan.partBytes;
	}

	GIN_FN size_t stagedPartAt(size_t half, uint32_t peer, uint32_t part) const
	{
		const size_t row =
			(half * ranks() + peer) * plan.maxTokens * plan.partsOfToken + part;
		return plan.stagedPartsAt + row * plan.partBytes;
	}

	/* Word 0: rows; word 1 + e: items of local expert e. */
	GIN_FN size_t countAt(uint32_t half, uint32_t source, uint32_t word) const
	{
		return epLineAt(plan, half, source) + word * sizeof(uint64_t);
	}

	GIN_FN size_t verdictAt(uint32_t half, uint32_t source) const
	{
		return plan.verdictsAt + (half * ranks() + source) * sizeof(uint64_t);
	}

	/*
	 * The rows that all ranks have sent to this rank, in a handle, and the rows sent to each.
	 */
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

	GIN_FN epItemParts *itemPartsIn(epHandle *handle) const
	{
		return reinterpret_cast<epItemParts *>(reinterpret_cast<char *>(handle) +
						       plan.itemPartsAt);
	}

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

	GIN_FN ginOptions dependsOn(uint32_t rank) const { return epFrom(args, rank); }

	template <bool direct> GIN_FN void lose(uint32_t number, uint32_t rank, ginResult_t result,
						uint32_t epoch, uint64_t expected,
						uint64_t seen) const
	{
		epLose<direct>(args, number, rank, result, epoch, expected, seen);
	}

	/* One look at a signal. False also if a rank has given up. */
	template <bool direct> GIN_FN bool reached(uint32_t lane, uint32_t id, uint64_t least) const
	{
		return gin<direct>(lane).readSignal(id) - least < EP_AHEAD;
	}

	/* One thread waits for a signal that depends on `rank`. False: the rank is lost. */
	template <bool direct> GIN_FN bool await(uint32_t number, uint32_t rank, uint32_t lane,
						 uint32_t id, uint64_t least, uint32_t epoch) const
	{
		GIN_NO_UNROLL
		for (uint32_t look = 0; direct && look < EP_LOOKS; look++)
			if (reached<direct>(lane, id, least))
				return true;
		return epAwaitLong<direct>(args, number, rank, lane, id, least, epoch);
	}

	/*
	 * *begun becomes the state at the kernel's start; fate[rank] becomes 1 for a rank that is
	 * masked or has not freed the epoch's half, and for all ranks after a failure. `family` is
	 * epRowsFree or epPartsFree. A thread for each half and rank, from the block's end, loads a
	 * signal while the state is loaded; the caller syncs.
	 */
	template <bool direct> GIN_FN void awaitCredits(uint32_t number, uint32_t family,
							uint32_t *fate, epBegun *begun) const
	{
		GIN_NO_UNROLL
		for (uint32_t i = threads() - 1 - thread(); i < 2 * ranks(); i += threads()) {
			const uint32_t of = i >= ranks() ? 1 : 0, r = i - of * ranks();
			const uint32_t id = signalId(family, of, r);
			const epBegin begin(plan);
			const uint32_t out = maskOf(r); /* the load of the signal follows at once */
			const uint64_t seen = direct ? gin<direct>(0).readSignal(id) : 0;
			const uint32_t epoch = begin.epoch(number);
			if (i == 0)
				*begun = {epoch, begin.failed()};
			if (epoch % 2 != of)
				continue;
			const bool come = direct && seen - epoch / 2 < EP_AHEAD;
			fate[r] = out || begin.failed() ||
				  (!come && !await<direct>(number, r, 0, id, epoch / 2, epoch));
		}
	}

	/* The value of a signal of rows when all rows of the epoch have come. */
	GIN_FN uint64_t rowsOf(uint32_t epoch) const { return (epoch / 2 + 1ull) * plan.maxTokens; }

	/*
	 * All rows of `rank` have come. In each epoch the sender raises the signal in each context
	 * by maxTokens in all: by its rows, and by the rest of maxTokens.
	 */
	template <bool direct>
	GIN_FN bool awaitRows(uint32_t number, uint32_t family, uint32_t rank, uint32_t epoch) const
	{
		const uint32_t id = signalId(family, epoch % 2, rank);
		const uint64_t least = rowsOf(epoch);
		const uint32_t lanes = direct || isDirect(rank) ? 1 : plan.lanes;
		GIN_NO_UNROLL
		for (uint32_t l = 0; l < lanes; l++)
			if (!await<direct>(number, rank, l, id, least, epoch))
				return false;
		return true;
	}

	template <bool direct, class Signal> GIN_FN void
	raise(uint32_t number, uint32_t rank, uint32_t lane, Signal signal, uint32_t epoch) const
	{
		const ginSignalOp op = ginSignalOf(signal);
		epRaise<direct>(args, number, rank, lane, op.strong, op.id, op.value, epoch);
	}

	/*
	 * Raises the signals of a rank that gets `count` rows by the rest of maxTokens; see
	 * awaitRows(). By one thread.
	 */
	template <bool direct> GIN_FN void raiseRest(uint32_t number, uint32_t family,
						     uint32_t rank, uint32_t count,
						     uint32_t epoch) const
	{
		const uint32_t id = signalId(family, epoch % 2, plan.rank);
		const bool single = direct || isDirect(rank);
		const uint32_t lanes = single ? 1 : plan.lanes;
		GIN_NO_UNROLL
		for (uint32_t l = 0; l < lanes; l++) {
			const uint32_t share = single ? count : epShareOf(count, l, lanes);
			if (share != plan.maxTokens)
				raise<direct>(number, rank, l,
					      GinWeakSignalAdd{id, plan.maxTokens - share}, epoch);
		}
	}

	GIN_FN uint32_t *owedOf(uint32_t family, uint32_t half) const
	{
		return plan.owed + ((family == epPartsFree ? 2 : 0) + half) * ranks();
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
			sum = epTicketSum(ticket(number, half), flag ? EP_TICKET_FLAG + 1 : 1,
					  ginGridSize());
		if (!GinCta{}.any(sum != 0))
			return false;
		*flagged = GinCta{}.any(sum >= EP_TICKET_FLAG);
		return true;
	}

	/* The rows of `rank` in a half are read: a later kernel gives the half back to the rank. */
	GIN_FN void owe(uint32_t family, uint32_t half, uint32_t rank) const
	{
		epWordStore(owedOf(family, half) + rank, 1);
	}

	/*
	 * The grid's last block gives credits that earlier kernels owe, to ranks that are not
	 * masked. At the start of a kernel a release waits for no store; at the end of the earlier
	 * kernel it would wait for all stores.
	 */
	template <bool direct> GIN_FN void giveCredits(uint32_t number) const
	{
		if (ginBlockIndex() != ginGridSize() - 1)
			return;
		GIN_NO_UNROLL
		for (uint32_t i = threads() - 1 - thread(); i < 4 * ranks(); i += threads()) {
			const uint32_t owed = epWordLoad(plan.owed + i);
			if (masked(i % ranks()) || !owed || !epWordTake(plan.owed + i))
				continue;
			const uint32_t family = i / ranks() < 2 ? epRowsFree : epPartsFree;
			raise<direct>(number, i % ranks(), 0,
				      GinSignalAdd{signalId(family, i / ranks() % 2, plan.rank), 1},
				      0);
		}
	}

	/* The tickets of a call: one word for each half, so that two receives may overlap. */
	GIN_FN uint32_t *ticket(uint32_t number, uint32_t half) const
	{
		return &plan.state->ticket[(number - 1) * 2 + half];
	}
};

#endif
