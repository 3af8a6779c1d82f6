/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * team.h - teams and the pointers to windows, in NCCL's words, for kernels and host threads
 *
 * A pointer takes one load or two. They are read-only loads, which a kernel may keep in its caches:
 * a window's table does not change while the window is registered.
 */
#ifndef GIN_COMPAT_NCCL_TEAM_H
#define GIN_COMPAT_NCCL_TEAM_H

#include "gin/core/target.cuh"
#include "core.h"

struct ncclTeamTagWorld {
};
struct ncclTeamTagLsa {
};
struct ncclTeamTagRail {
};

GIN_FN ncclTeam_t ncclTeamWorld(ncclDevComm const &dc)
{
	return {dc.nRanks, dc.rank, 1};
}

/* NCCL's name for the ranks of an NVLink domain. */
GIN_FN ncclTeam_t ncclTeamLsa(ncclDevComm const &dc)
{
	return {dc.lsaSize, dc.lsaRank, 1};
}

GIN_FN ncclTeam_t ncclTeamRail(ncclDevComm const &dc)
{
	return {dc.nRanks / dc.lsaSize, dc.rank / dc.lsaSize, dc.lsaSize};
}

/* The distance in world ranks from this rank to number `peer` of the team. */
GIN_FN int ginNcclDistance(ncclTeam_t team, int peer)
{
	return (peer - team.rank) * team.stride;
}

GIN_FN int ncclTeamRankToWorld(ncclDevComm const &dc, ncclTeam_t team, int peer)
{
	return dc.rank + ginNcclDistance(team, peer);
}

GIN_FN int ncclTeamRankToLsa(ncclDevComm const &dc, ncclTeam_t team, int peer)
{
	return dc.lsaRank + ginNcclDistance(team, peer);
}

/* The number in team `a` of number `bPeer` of team `b`; both teams contain this rank. */
GIN_FN int ncclTeamRankToTeam(ncclTeam_t a, ncclTeam_t b, int bPeer)
{
	return a.rank + ginNcclDistance(b, bPeer) / a.stride;
}

/* Is number `bPeer` of team `b` a member of team `a`? */
GIN_FN bool ncclTeamRankIsMember(ncclTeam_t a, ncclTeam_t b, int bPeer)
{
	int distance = ginNcclDistance(b, bPeer);
	int peer = a.rank + distance / a.stride;
	return distance % a.stride == 0 && peer >= 0 && peer < a.nRanks;
}

/*
 * A team in blocks of `innerSize` neighbours: this rank's block; and the team of one rank of each
 * block.
 */
GIN_FN ncclTeam_t ncclTeamInnerFactor(ncclTeam_t parent, int innerSize)
{
	return {innerSize, parent.rank % innerSize, parent.stride};
}

GIN_FN ncclTeam_t ncclTeamOuterFactor(ncclTeam_t parent, int innerSize)
{
	return {parent.nRanks / innerSize, parent.rank / innerSize, parent.stride * innerSize};
}

/* The number in `parent` of member `index` of the ranks that are not in `subset`. */
GIN_FN int ncclTeamRankInDifference(ncclTeam_t parent, ncclTeam_t subset, int index)
{
	int stride = subset.stride / parent.stride;
	int first = parent.rank - subset.rank * stride;

	for (int i = 0; i < subset.nRanks && index >= first + i * stride; i++)
		index++;
	return index;
}

/* A load of memory that does not change during the kernel. */
GIN_FN uint32_t ginNcclLoad(const uint32_t *word)
{
#if GIN_ON_GPU
	return __ldg(word);
#else
	return *word;
#endif
}

/*
 * In halves: with whole pointers nvcc unrolls loops over peers further. Measured: nccl-tests'
 * vectorized all-reduce then takes up to 18 registers more.
 */
GIN_FN char *ginNcclLoad(char *const *word)
{
#if GIN_ON_GPU
	const uint2 halves = __ldg(reinterpret_cast<const uint2 *>(word));
	return reinterpret_cast<char *>(halves.x | static_cast<uint64_t>(halves.y) << 32);
#else
	return *word;
#endif
}

GIN_FN ginWindow_t ginNcclWindow(ncclWindow_t window)
{
	return {reinterpret_cast<struct ginWindowTable *>(window)};
}

GIN_FN const struct ginWindowTable *ginNcclTable(ncclWindow_t window)
{
	return reinterpret_cast<const struct ginWindowTable *>(window);
}

GIN_FN char *ginNcclAddress(ncclWindow_t window, int peer)
{
	const struct ginWindowPeer *peers =
		reinterpret_cast<const struct ginWindowPeer *>(ginNcclTable(window) + 1);
	return ginNcclLoad(&peers[peer].address);
}

/* NULL if this rank cannot load and store the peer's part. `peer`: a world rank. */
GIN_FN void *ncclGetPeerPointer(ncclWindow_t window, size_t offset, int peer)
{
	char *address = ginNcclAddress(window, peer);
	return address ? address + offset : nullptr;
}

GIN_FN void *ncclGetPeerPointer(ncclWindow_t window, size_t offset, ncclTeam_t team, int peer)
{
	int rank = static_cast<int>(ginNcclLoad(&ginNcclTable(window)->rank));
	return ncclGetPeerPointer(window, offset, rank + ginNcclDistance(team, peer));
}

/* The parts of this rank and of its domain always have addresses. */
GIN_FN void *ncclGetLocalPointer(ncclWindow_t window, size_t offset)
{
	int rank = static_cast<int>(ginNcclLoad(&ginNcclTable(window)->rank));
	return ginNcclAddress(window, rank) + offset;
}

/* One load: of two dependent loads unrolled loops would hide less. */
GIN_FN void *ncclGetLsaPointer(ncclWindow_t window, size_t offset, int lsaPeer)
{
	/*
	 * Rank 0's address lies right before the table, rank 1's before that, ...: at -1 - lsaPeer.
	 */
	char *const *domain = reinterpret_cast<char *const *>(window);
	return ginNcclLoad(domain + ~static_cast<int64_t>(lsaPeer)) + offset;
}

/* Can this rank's kernels load and store parts of world rank `peer`? */
GIN_FN bool ncclDevCommCanGetPeerPointer(ncclDevComm const &dc, int peer)
{
	return ginNcclAddress(dc.resourceWindow, peer) != nullptr;
}

/*
 * The window of this rank that has the address, or NULL. Each thread searches for itself; the table
 * is in host memory, so a kernel does it once.
 */
template <class Coop>
GIN_FN ncclWindow_t ncclFindWindow(Coop, ncclDevComm const &dc, void const *address)
{
	const uint64_t wanted = reinterpret_cast<uint64_t>(address);

	for (const struct ginNcclWindows *w = dc.windows; w; w = w->next)
		for (uint64_t i = 0; i < w->used; i++)
			if (wanted - w->entry[i].address < w->entry[i].bytes)
				return w->entry[i].window;
	return nullptr;
}

GIN_FN void *ncclGetMultimemPointer(ncclWindow_t, size_t, ncclMultimemHandle_t)
{
	return nullptr;
}

GIN_FN void *ncclGetLsaMultimemPointer(ncclWindow_t, size_t, ncclDevComm const &)
{
	return nullptr;
}

/* Resource buffers, by the handles that ncclDevCommCreate() fills in. */
GIN_FN size_t ncclGetResourceBufferOffset(ncclDevResourceHandle_t handle)
{
	return static_cast<size_t>(handle) * 128;
}

GIN_FN void *ncclGetResourceBufferLocalPointer(ncclDevComm const &dc, ncclDevResourceHandle handle)
{
	return ncclGetLocalPointer(dc.resourceWindow, ncclGetResourceBufferOffset(handle));
}

GIN_FN void *ncclGetResourceBufferLsaPointer(ncclDevComm const &dc, ncclDevResourceHandle handle,
					     int peer)
{
	return ncclGetLsaPointer(dc.resourceWindow, ncclGetResourceBufferOffset(handle), peer);
}

GIN_FN void *ncclGetResourceBufferPeerPointer(ncclDevComm const &dc, ncclDevResourceHandle handle,
					      ncclTeam_t team, int peer)
{
	return ncclGetPeerPointer(dc.resourceWindow, ncclGetResourceBufferOffset(handle), team,
				  peer);
}

GIN_FN void *ncclGetResourceBufferMultimemPointer(ncclDevComm const &, ncclDevResourceHandle,
						  ncclMultimemHandle_t)
{
	return nullptr;
}

GIN_FN void *ncclGetResourceBufferLsaMultimemPointer(ncclDevComm const &, ncclDevResourceHandle)
{
	return nullptr;
}

#endif
