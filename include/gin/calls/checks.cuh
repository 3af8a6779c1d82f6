/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * checks.cuh - checks of the arguments of device calls, for -DGIN_DEVICE_CHECKS
 *
 * A call with a wrong argument changes nothing: all threads of its coop return
 * ginErrorInvalidArgument, and the error record names the argument. A kernel that is compiled
 * without the macro has no code of this file.
 */
#ifndef GIN_CHECKS_CUH
#define GIN_CHECKS_CUH

#include "../core/coop.cuh"
#include "../direct/route.cuh"
#include "../core/wait.cuh"

/*
 * The classes with calls have it as a template argument: one program may have checked and unchecked
 * calls.
 */
#ifdef GIN_DEVICE_CHECKS
constexpr bool ginChecks = true;
#else
constexpr bool ginChecks = false;
#endif

/* Also a template argument: do calls write records for GIN_TRACE (traced.cuh)? */
#ifdef GIN_TRACE
constexpr bool ginTraces = true;
#else
constexpr bool ginTraces = false;
#endif

/*
 * The arguments of one call: the first fault, and a digest of all values that were checked, which
 * shows whether the threads of a coop pass equal arguments.
 */
struct ginArguments {
	const ginDevComm &dc;
	uint32_t argument = ginArgumentNone;
	uint32_t fault = ginFaultNone;
	uint32_t id = UINT32_MAX;
	uint64_t expected = 0, seen = 0;
	uint64_t digest = 0;

	GIN_FN explicit ginArguments(const ginDevComm &devComm) : dc(devComm) {}

	GIN_FN bool wrong() const { return fault != ginFaultNone; }

	GIN_FN void note(uint64_t value)
	{
		digest = (digest ^ value) * 0x9e3779b97f4a7c15ull;
		digest ^= digest >> 29;
	}

	GIN_FN void refuse(uint32_t which, uint32_t why, uint64_t wanted, uint64_t found)
	{
		if (wrong())
			return;
		argument = which;
		fault = why;
		expected = wanted;
		seen = found;
	}

	GIN_FN void below(uint32_t which, uint64_t value, uint64_t limit)
	{
		note(value);
		if (value >= limit)
			refuse(which, ginFaultRange, limit, value);
	}

	/* A negative number has its sign, and is beyond every limit. */
	GIN_FN void rankBelow(uint32_t which, int rank, int limit)
	{
		below(which, static_cast<uint64_t>(rank),
		      limit > 0 ? static_cast<uint64_t>(limit) : 0);
	}

	GIN_FN void peer(int rank)
	{
		rankBelow(ginArgumentPeer, rank, static_cast<int>(dc.nRanks));
	}

	/* What is wrong with the handle of a window. */
	GIN_FN uint32_t faultOf(ginWindow_t window, bool mayBeLocal) const
	{
		const struct ginWindowTable *table = window.table;
		if (!table)
			return ginFaultWindow;
		if (reinterpret_cast<uintptr_t>(table) % 64 ||
		    ginHostWordObserve(&table->magic) != GIN_WINDOW_MAGIC)
			return ginFaultGone;
		if (table->nRanks != dc.nRanks || table->rank != dc.rank)
			return ginFaultWindow;
		return table->serial || mayBeLocal ? ginFaultNone : ginFaultLocal;
	}

	/* `count` bytes at `offset`, a multiple of `alignment`, of a window that has `all`. */
	GIN_FN void within(uint32_t which, uint64_t all, size_t offset, size_t count,
			   uint32_t alignment)
	{
		const uint64_t end = offset + count;
		if (count > all || offset > all - count) {
			if (offset > all && end < offset)
				return refuse(which, ginFaultBegin, all, offset);
			return refuse(which, ginFaultEnd, all, end < offset ? UINT64_MAX : end);
		}
		if (offset % alignment)
			refuse(which, ginFaultAlignment, alignment, offset);
	}

	/* Bytes of the part of a window at a rank. */
	GIN_FN void bytes(uint32_t which, ginWindow_t window, int rank, size_t offset, size_t count,
			  uint32_t alignment = 1, bool mayBeLocal = false)
	{
		note(reinterpret_cast<uintptr_t>(window.table));
		note(offset);
		note(count);
		if (wrong())
			return;
		const uint32_t why = faultOf(window, mayBeLocal);
		if (why != ginFaultNone)
			return refuse(which, why, 0, 0);
		within(which, ginWindowAt(window, rank).bytes, offset, count, alignment);
		if (wrong())
			id = static_cast<uint32_t>(window.table->serial);
	}

	GIN_FN void own(uint32_t which, ginWindow_t window, size_t offset, size_t count,
			uint32_t alignment = 1, bool mayBeLocal = false)
	{
		bytes(which, window, static_cast<int>(dc.rank), offset, count, alignment,
		      mayBeLocal);
	}

	/*
	 * After the checks of both: no byte is in the part at `rank` and at `mine`, too. Only of
	 * parts that this rank loads and stores; its own part is one of them.
	 */
	GIN_FN void apart(ginWindow_t window, int rank, size_t offset, const void *mine,
			  size_t count)
	{
		if (wrong() || !ginWindowAt(window, rank).address)
			return;
		const uintptr_t a = reinterpret_cast<uintptr_t>(ginWindowAt(window, rank).address);
		const uintptr_t b = reinterpret_cast<uintptr_t>(mine), at = a + offset;
		if ((at > b ? at - b : b - at) < count)
			refuse(ginArgumentSource, ginFaultOverlap, 0, count);
	}

	GIN_FN void apart(ginWindow_t window, int rank, size_t offset, ginWindow_t mine,
			  size_t mineOffset, size_t count)
	{
		if (!wrong())
			apart(window, rank, offset,
			      ginWindowAt(mine, static_cast<int>(dc.rank)).address + mineOffset,
			      count);
	}

	/* The remote action of a call. */
	GIN_FN void signal(const struct ginSignalOp &op, int rank)
	{
		if (op.at)
			bytes(ginArgumentSignal, op.window, rank, op.offset, 8, 8);
		else if (op.present)
			below(ginArgumentSignal, op.id, dc.signals);
		note(op.value);
	}

	/* The options that waits use. */
	GIN_FN void options(const ginOptions &given)
	{
		const ginPeerSet &from = given.from;
		note(given.bits);
		if (!given.bits || given.bits > 64)
			refuse(ginArgumentBits, ginFaultBits, 64, given.bits);
		if (from.count)
			below(ginArgumentFrom,
			      from.first + (from.count - uint64_t{1}) * from.stride, dc.nRanks);
	}

	GIN_FN void counter(uint32_t which)
	{
		if (which != UINT32_MAX)
			below(ginArgumentCounter, which, dc.counters);
	}

	/* The calling rank is a rank of the team: ginTeamToWorld() starts at it. */
	GIN_FN void team(ginTeam team)
	{
		const int nRanks = static_cast<int>(dc.nRanks);
		rankBelow(ginArgumentTeam, team.rank, team.nRanks);
		rankBelow(ginArgumentTeam, ginTeamToWorld(dc, team, 0), nRanks);
		rankBelow(ginArgumentTeam, ginTeamToWorld(dc, team, team.nRanks - 1), nRanks);
	}
};

/* Has the device communicator not been destroyed? Its number in *self is 0 then, or a later one. */
GIN_FN bool ginDevCommLives(const ginDevComm &dc)
{
	return dc.size == sizeof(ginDevComm) && dc.abi == GIN_DEVICE_ABI && dc.id &&
	       ginHostWordObserve(&dc.self->id) == dc.id;
}

/* Are the threads of a group of `size` consecutive threads all in the block, for this thread? */
GIN_FN bool ginBlockHasGroup(uint32_t size)
{
	return ginThreadIndex() / size * size + size <= ginBlockSize();
}

/* Can this thread be in the coop? A thread outside the coop would wait forever. */
template <class Coop> GIN_FN bool ginCoopFits(Coop coop)
{
	return coop.thread_rank() < coop.size();
}

template <uint32_t lanes> GIN_FN bool ginCoopFits(GinTile<lanes>)
{
	return ginBlockHasGroup(lanes);
}

GIN_FN bool ginCoopFits(GinWarp)
{
	return !GIN_ON_GPU || ginBlockHasGroup(GIN_WARP_SIZE);
}

GIN_FN bool ginCoopFits(GinLanes coop)
{
	return coop.mask >> ginLane() & 1;
}

GIN_FN bool ginCoopFits(GinWarpSpan coop)
{
	const uint64_t end = (uint64_t{coop.first} + coop.warps) * GIN_WARP_SIZE;
	return coop.id >= 1 && coop.id <= 15 && end <= ginBlockSize() &&
	       ginThreadIndex() / GIN_WARP_SIZE - coop.first < coop.warps;
}

GIN_FN bool ginCoopFits(GinAnyCoop coop)
{
	const uint32_t kind = coop.kind;
	if ((kind & 0xff) == ginCoopSpan)
		return ginCoopFits(GinWarpSpan{kind >> 16 & 0xff, kind >> 24, kind >> 8 & 0xff});
	return kind == ginCoopThread || kind == ginCoopCta ||
	       (kind == ginCoopWarp && ginCoopFits(GinWarp{}));
}

/* Do all threads of the coop pass one digest? By two votes for each of 16 bits. */
template <class Coop> GIN_FN auto ginAllEqual(Coop coop, uint64_t digest, ginOverload1)
	-> decltype(coop.any(true))
{
	bool differs = false;
	GIN_NO_UNROLL
	for (uint32_t bit = 48; bit < 64 && coop.size() > 1; bit++) {
		const bool one = coop.any(digest >> bit & 1), zero = coop.any(!(digest >> bit & 1));
		differs = differs || (one && zero);
	}
	return !differs;
}

/* A coop without any() cannot vote. */
template <class Coop> GIN_FN bool ginAllEqual(Coop, uint64_t, ginOverload0)
{
	return true;
}

GIN_FN_CALLED void ginFaultLeave(const ginDevComm *dc, const ginArguments &arguments, uint32_t call,
				 uint32_t context, int peer)
{
	struct ginErrorRecord *record = dc->errorRecord;

	if (!ginErrorClaim(dc->errorClaim))
		return;
	record->result = ginErrorInvalidArgument;
	record->call = call;
	record->context = context;
	record->peer = peer;
	record->id = arguments.id;
	record->expected = arguments.expected;
	record->seen = arguments.seen;
	record->argument = arguments.argument;
	record->fault = arguments.fault;
	ginErrorPublish(&record->valid);
}

/*
 * Checks the device communicator, whose error record is gone with it, the coop, and the arguments
 * that `list` adds. All threads of the coop get one result, unless the coop cannot vote: then each
 * thread gets its own.
 */
template <class Coop, class List> GIN_FN ginResult_t ginCheckCall(const ginDevComm &dc, Coop coop,
								  uint32_t call, uint32_t context,
								  int peer, List list)
{
	ginArguments arguments(dc);
	const bool lives = ginDevCommLives(dc);
	if (!ginCoopFits(coop)) {
		arguments.refuse(ginArgumentCoop, ginFaultBlock, ginBlockSize(), ginThreadIndex());
		if (lives)
			ginFaultLeave(dc.self, arguments, call, context, peer);
		return ginErrorInvalidArgument;
	}
	if (lives)
		list(arguments);
	else
		arguments.refuse(ginArgumentNone, ginFaultGone, 0, 0);
	if (!ginAllEqual(coop, arguments.digest, ginOverload1{}))
		arguments.refuse(ginArgumentCoop, ginFaultDiffers, coop.size(), coop.thread_rank());
	if (arguments.wrong() && lives)
		ginFaultLeave(dc.self, arguments, call, context, peer);
	return ginAgree(coop, arguments.wrong() ? ginErrorInvalidArgument : ginSuccess);
}

#endif
