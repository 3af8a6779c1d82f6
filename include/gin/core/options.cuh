/* SPDX-License-Identifier: BSD-3-Clause */
/* options.cuh - actions, options and teams: arguments of calls besides the operands */
#ifndef GIN_OPTIONS_CUH
#define GIN_OPTIONS_CUH

#include "target.cuh"

/*
 * Remote and local actions of a put.
 *
 * A remote action raises a signal at the target once the put is visible there. The signal is a word
 * of the context, by id, or an aligned 8-byte word of a window. A strong signal also makes every
 * earlier put of the context to that peer visible, and puts of other contexts to that peer whose
 * flush happens before it; a weak signal covers its own put alone. A local action counts puts whose
 * source bytes may be reused.
 */

/* No action. */
struct GinNone {
};

/* Add 1 or `value` to signal `id` of the context; sums wrap at 2^64. */
struct GinSignalInc {
	uint32_t id;
};
struct GinSignalAdd {
	uint32_t id;
	uint64_t value;
};
struct GinWeakSignalInc {
	uint32_t id;
};
struct GinWeakSignalAdd {
	uint32_t id;
	uint64_t value;
};

/* Add 1 or `value` to the aligned 8-byte word at byte `offset` of `window` at the target. */
struct GinSignalIncAt {
	ginWindow_t window;
	size_t offset;
};
struct GinSignalAddAt {
	ginWindow_t window;
	size_t offset;
	uint64_t value;
};
struct GinWeakSignalIncAt {
	ginWindow_t window;
	size_t offset;
};
struct GinWeakSignalAddAt {
	ginWindow_t window;
	size_t offset;
	uint64_t value;
};

/* Local: add 1 to this rank's counter `id` when the source bytes of the put may be reused. */
struct GinCounterInc {
	uint32_t id;
};

/* Internal: any remote action. */
struct ginSignalOp {
	bool present;
	bool strong;
	bool at;	    /* by window and offset, not by id */
	uint32_t id;	    /* UINT32_MAX if `at` */
	ginWindow_t window; /* if `at` */
	size_t offset;
	uint64_t value;
};

GIN_FN constexpr ginSignalOp ginSignalById(bool strong, uint32_t id, uint64_t value)
{
	return {true, strong, false, id, {nullptr}, 0, value};
}

GIN_FN constexpr ginSignalOp ginSignalByOffset(bool strong, ginWindow_t window, size_t offset,
					       uint64_t value)
{
	return {true, strong, true, UINT32_MAX, window, offset, value};
}

GIN_FN constexpr ginSignalOp ginSignalOf(GinNone)
{
	return {false, false, false, UINT32_MAX, {nullptr}, 0, 0};
}
GIN_FN constexpr ginSignalOp ginSignalOf(GinSignalInc a)
{
	return ginSignalById(true, a.id, 1);
}
GIN_FN constexpr ginSignalOp ginSignalOf(GinSignalAdd a)
{
	return ginSignalById(true, a.id, a.value);
}
GIN_FN constexpr ginSignalOp ginSignalOf(GinWeakSignalInc a)
{
	return ginSignalById(false, a.id, 1);
}
GIN_FN constexpr ginSignalOp ginSignalOf(GinWeakSignalAdd a)
{
	return ginSignalById(false, a.id, a.value);
}
GIN_FN constexpr ginSignalOp ginSignalOf(GinSignalIncAt a)
{
	return ginSignalByOffset(true, a.window, a.offset, 1);
}
GIN_FN constexpr ginSignalOp ginSignalOf(GinSignalAddAt a)
{
	return ginSignalByOffset(true, a.window, a.offset, a.value);
}
GIN_FN constexpr ginSignalOp ginSignalOf(GinWeakSignalIncAt a)
{
	return ginSignalByOffset(false, a.window, a.offset, 1);
}
GIN_FN constexpr ginSignalOp ginSignalOf(GinWeakSignalAddAt a)
{
	return ginSignalByOffset(false, a.window, a.offset, a.value);
}
GIN_FN constexpr ginSignalOp ginSignalOf(ginSignalOp a)
{
	return a;
}

/* Internal: the counter that a local action raises, or UINT32_MAX. */
GIN_FN constexpr uint32_t ginCounterOf(GinNone)
{
	return UINT32_MAX;
}
GIN_FN constexpr uint32_t ginCounterOf(GinCounterInc a)
{
	return a.id;
}

/* Internal: does the type of an action tell which action it is? */
template <class Action> struct ginActionTyped {
	static constexpr bool value = true;
};
template <> struct ginActionTyped<ginSignalOp> {
	static constexpr bool value = false;
};

/* ginOptions.timeout: wait without a limit, until success, abort or the failure of a peer. */
#define GIN_FOREVER UINT64_MAX

/*
 * Which threads use the context during the life of a Gin: all threads of the GPU, threads of one
 * block, or only the thread that has the Gin. The caller promises it. The proxy and gdaki routes
 * post with cheaper atomics, or without atomics for a thread alone; the direct route makes no
 * difference. Barrier `index` uses context index % contexts.
 */
enum ginSharing { ginSharingGpu = 0, ginSharingCta = 1, ginSharingThread = 2 };

/* The `count` ranks first, first + stride, first + 2 stride, ... A count of 0 means all ranks. */
struct ginPeerSet {
	uint32_t first = 0;
	uint32_t count = 0;
	uint32_t stride = 1;
};

/* What copies bytes to or from a direct peer; see ginOptions.copyBy. */
enum ginCopyBy { ginCopyAuto = 0, ginCopyThreads = 1, ginCopyEngine = 2 };

struct ginOptions {
	/* Nanoseconds that the call may wait; 0: ginDevComm.timeout. */
	uint64_t timeout = 0;

	/*
	 * Waits: the peers that the wait depends on. The failure of another peer does not end the
	 * wait. By default the failure of any peer does.
	 */
	ginPeerSet from = {};

	/*
	 * How far the caller has already released its earlier writes. A call leaves out a fence
	 * that `given` covers: a signal without data on every route, and puts and atomics on the
	 * proxy and gdaki routes. With ginScopeSystem such a call orders nothing by itself and
	 * costs less.
	 */
	ginScope given = ginScopeThread;

	/*
	 * Puts: the least scope to which the writes of the source must be released. The direct
	 * route reads the source itself and needs no release.
	 */
	ginScope required = ginScopeDevice;

	/* Waits for signals and counters: compare the low `bits` bits, 1 to 64, and roll over. */
	uint32_t bits = 64;

	/*
	 * Puts: more puts follow on this context and peer, the last of them without this option.
	 * The gdaki route may delay the doorbell until then; the other routes ignore the option.
	 */
	bool aggregate = false;

	/*
	 * Puts and gets: shared memory of the block, 16-byte aligned, or NULL. The caller keeps it;
	 * the call may write it until it returns. A hint: the direct route moves long copies
	 * through it (direct/bulk.cuh).
	 */
	void *scratch = nullptr;
	uint32_t scratchBytes = 0;

	/*
	 * Puts to direct peers and gets from them, where the communicator has a proxy:
	 * ginCopyEngine lets a copy engine copy, ginCopyThreads the threads of the coop. By default
	 * a copy engine makes long copies of a thread or a warp (GIN_COPY_ENGINE_BYTES), and
	 * threads make all other copies. The contract of the call does not depend on the choice.
	 */
	ginCopyBy copyBy = ginCopyAuto;
};

/* Options with a timeout in nanoseconds; the defaults otherwise. */
GIN_FN ginOptions ginTimeout(uint64_t nanoseconds)
{
	ginOptions options;
	options.timeout = nanoseconds;
	return options;
}

/*
 * A team: nRanks ranks, `stride` world ranks apart. This rank has number `rank` in it. Fill in the
 * struct for a custom team. Only members may use a team.
 */
struct ginTeam {
	int nRanks;
	int rank;
	int stride;
};

/* All ranks. */
GIN_FN ginTeam ginTeamWorld(const ginDevComm &dc)
{
	return {static_cast<int>(dc.nRanks), static_cast<int>(dc.rank), 1};
}

/* The ranks of this rank's NVLink domain: all of them are direct peers. */
GIN_FN ginTeam ginTeamDomain(const ginDevComm &dc)
{
	return {static_cast<int>(dc.domainSize), static_cast<int>(dc.domainRank), 1};
}

/* One rank of each NVLink domain: the ranks whose number in their domain is this rank's number. */
GIN_FN ginTeam ginTeamRail(const ginDevComm &dc)
{
	return {static_cast<int>(dc.nRanks / dc.domainSize),
		static_cast<int>(dc.rank / dc.domainSize), static_cast<int>(dc.domainSize)};
}

/* The world rank of number `peer` of the team. */
GIN_FN int ginTeamToWorld(const ginDevComm &dc, ginTeam team, int peer)
{
	return static_cast<int>(dc.rank) + (peer - team.rank) * team.stride;
}

/* The number in the team of world rank `world`, or -1 if `world` is not a member. */
GIN_FN int ginTeamFromWorld(const ginDevComm &dc, ginTeam team, int world)
{
	int steps = world - static_cast<int>(dc.rank);
	int peer = team.rank + steps / team.stride;
	return steps % team.stride || peer < 0 || peer >= team.nRanks ? -1 : peer;
}

#endif
