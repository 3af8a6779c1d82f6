/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_query.c - what a communicator knows */
#include <stdio.h>

#include "comm.h"

static ginResult_t give(ginComm_t comm, const char *call, int value, int *out, const char *name)
{
	ginResult_t result = commEnter(comm, call);

	if (result != ginSuccess)
		return result;
	if (!out)
		return fail(ginErrorInvalidArgument, "%s is NULL", name);
	*out = value;
	return ginSuccess;
}

ginResult_t ginCommRank(ginComm_t comm, int *rank)
{
	return give(comm, "ginCommRank", comm ? comm->rank : 0, rank, "rank");
}

ginResult_t ginCommSize(ginComm_t comm, int *nRanks)
{
	return give(comm, "ginCommSize", comm ? comm->nRanks : 0, nRanks, "nRanks");
}

ginResult_t ginCommDevice(ginComm_t comm, int *device)
{
	return give(comm, "ginCommDevice", comm ? comm->device.ordinal : 0, device, "device");
}

static void fillPeer(ginComm_t comm, int peer, ginPeerInfo_t *info)
{
	const struct identity *me = &comm->ranks[comm->rank], *other = &comm->ranks[peer];
	const char *backend = "none";

	for (int b = 0; b < COMM_BACKENDS; b++)
		if (comm->backend[b].ops->route == comm->routes[peer])
			backend = comm->backend[b].ops->name;
	*info = (ginPeerInfo_t)GIN_PEER_INFO_INIT;
	info->route = comm->routes[peer];
	info->sameHost = identitySameHost(me, other);
	info->sameProcess = identitySameProcess(me, other);
	snprintf(info->host, sizeof(info->host), "%s", other->host);
	snprintf(info->device, sizeof(info->device), "%s", comm->deviceNames[peer]);
	snprintf(info->backend, sizeof(info->backend), "%s", backend);
	commRouteWhy(comm, peer, info->why);
}

ginResult_t ginCommQueryPeer(ginComm_t comm, int peer, ginPeerInfo_t *out)
{
	ginPeerInfo_t info;
	ginResult_t result = commEnter(comm, "ginCommQueryPeer");

	if (result != ginSuccess)
		return result;
	if (peer < 0 || peer >= comm->nRanks)
		return fail(ginErrorInvalidArgument, "peer is %d: must be 0 to %d", peer,
			    comm->nRanks - 1);
	if (!out || out->size < offsetof(ginPeerInfo_t, sameHost) || out->size > 4096)
		return fail(
			ginErrorInvalidArgument,
			"info is NULL or its size is wrong: initialize with GIN_PEER_INFO_INIT");
	fillPeer(comm, peer, &info);
	info.size = out->size < sizeof(info) ? out->size : sizeof(info);
	memcpy(out, &info, info.size);
	return ginSuccess;
}
