/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * team.cuh - some of the ranks, numbered anew
 */
#ifndef GIN_TEAM_CUH
#define GIN_TEAM_CUH

#include "detail/target.cuh"

/*
 * nRanks ranks, of which this one is number `rank`, each `stride` world ranks after the one before.
 * Fill one in for a custom team. A rank that does not belong has no number and may not use it.
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

/* The ranks of this one's NVLink domain: direct peers of each other. */
GIN_FN ginTeam ginTeamDomain(const ginDevComm &dc)
{
	return {static_cast<int>(dc.domainSize), static_cast<int>(dc.domainRank), 1};
}

/* The ranks with this one's number in each NVLink domain. */
GIN_FN ginTeam ginTeamRail(const ginDevComm &dc)
{
	return {static_cast<int>(dc.nRanks / dc.domainSize),
		static_cast<int>(dc.rank / dc.domainSize), static_cast<int>(dc.domainSize)};
}

/* The world rank of the team's rank `peer`. */
GIN_FN int ginTeamToWorld(const ginDevComm &dc, ginTeam team, int peer)
{
	return static_cast<int>(dc.rank) + (peer - team.rank) * team.stride;
}

/* The number in the team of the world's rank `world`, or -1 when it does not belong. */
GIN_FN int ginTeamFromWorld(const ginDevComm &dc, ginTeam team, int world)
{
	int steps = world - static_cast<int>(dc.rank);
	int peer = team.rank + steps / team.stride;
	return steps % team.stride || peer < 0 || peer >= team.nRanks ? -1 : peer;
}

#endif
