/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_query.c - what a communicator knows */
#include <stdio.h>

#include "comm.h"
#include "lib/base/info.h"

_Static_assert(GIN_ALLGATHER_BYTES == CONTROL_BYTES, "gin.h says what control.h allows");

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

	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (comm->backend[b].ops->route == comm->routes[peer])
			backend = comm->backend[b].ops->name;
	*info = (ginPeerInfo_t)GIN_PEER_INFO_INIT;
	info->route = comm->routes[peer];
	info->sameHost = identitySameHost(me, other);
	info->sameProcess = identitySameProcess(me, other);
	snprintf(info->host, sizeof(info->host), "%s", other->host);
	snprintf(info->device, sizeof(info->device), "%s", comm->deviceNames[peer]);
	snprintf(info->backend, sizeof(info->backend), "%s", backend);
	routesWhy(comm, peer, info->why);
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
	fillPeer(comm, peer, &info);
	return infoGive(&info, sizeof(info), "GIN_PEER_INFO_INIT", out);
}

/* The lowest rank of r's host. */
static int leaderOf(const struct ginComm *comm, int r)
{
	int leader = 0;

	while (!identitySameHost(&comm->ranks[leader], &comm->ranks[r]))
		leader++;
	return leader;
}

static void countRanks(const struct ginComm *comm, ginCommInfo_t *info)
{
	for (int r = 0; r < comm->nRanks; r++) {
		int local = identitySameHost(&comm->ranks[r], &comm->ranks[comm->rank]);
		info->localRanks += local;
		info->localRank += local && r < comm->rank;
		info->hosts += leaderOf(comm, r) == r;
	}
}

static int deviceAtomics(const struct ginComm *comm)
{
	for (int b = 0; b < BACKENDS_COUNT; b++)
		if (comm->backend[b].used && !comm->backend[b].ops->deviceAtomics)
			return !comm->device.cuda;
	return 1;
}

ginResult_t ginCommQuery(ginComm_t comm, ginCommInfo_t *out)
{
	ginCommInfo_t info = GIN_COMM_INFO_INIT;
	ginResult_t result = commEnter(comm, "ginCommQuery");

	if (result != ginSuccess)
		return result;
	info.rank = comm->rank;
	info.nRanks = comm->nRanks;
	info.device = comm->device.ordinal;
	info.backends = BACKENDS_COUNT;
	info.deviceAtomics = deviceAtomics(comm);
	countRanks(comm, &info);
	snprintf(info.bootstrap, sizeof(info.bootstrap), "%s", comm->bootstrap->name);
	snprintf(info.host, sizeof(info.host), "%s", comm->ranks[comm->rank].host);
	snprintf(info.deviceName, sizeof(info.deviceName), "%s", comm->device.name);
	return infoGive(&info, sizeof(info), "GIN_COMM_INFO_INIT", out);
}

static void fillBackend(ginComm_t comm, const struct backendUse *use, ginBackendInfo_t *info)
{
	info->usable = routesUsable(use, info->why);
	for (int r = 0; r < comm->nRanks; r++)
		info->pairs += comm->routes[r] == use->ops->route;
	snprintf(info->name, sizeof(info->name), "%s", use->ops->name);
}

ginResult_t ginCommQueryBackend(ginComm_t comm, int index, ginBackendInfo_t *out)
{
	ginBackendInfo_t info = GIN_BACKEND_INFO_INIT;
	ginResult_t result = commEnter(comm, "ginCommQueryBackend");

	if (result != ginSuccess)
		return result;
	if (index < 0 || index >= BACKENDS_COUNT)
		return fail(ginErrorInvalidArgument, "index is %d: must be 0 to %d", index,
			    BACKENDS_COUNT - 1);
	fillBackend(comm, &comm->backend[index], &info);
	return infoGive(&info, sizeof(info), "GIN_BACKEND_INFO_INIT", out);
}

static ginResult_t checkAllgather(const void *in, const void *out, size_t bytes)
{
	if (bytes > CONTROL_BYTES)
		return fail(ginErrorInvalidArgument,
			    "bytes is %zu: the control plane takes at most %d of a rank; for data "
			    "use windows",
			    bytes, CONTROL_BYTES);
	if (bytes && (!in || !out))
		return fail(ginErrorInvalidArgument, "%s is NULL", in ? "out" : "in");
	return ginSuccess;
}

/* A rank that is wrong takes part all the same, so that nobody waits for it. */
ginResult_t ginCommAllgather(ginComm_t comm, const void *in, void *out, size_t bytes)
{
	ginResult_t result = commEnter(comm, "ginCommAllgather");

	if (result != ginSuccess)
		return result;
	return controlAllgather(&comm->control, "ginCommAllgather", checkAllgather(in, out, bytes),
				in, out, bytes);
}
