/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connection.c - which pairs of ranks a device communicator connects: ginConnectionType
 *
 * A kernel's call on a peer that is not connected fails and leaves an error record, but ncclGin's
 * calls return nothing. So the communicator knows its device communicators with such peers, and
 * ncclCommGetAsyncError() looks at their records.
 */
#include "internal.h"

#include <stdlib.h>

static const char *const typeNames[] = {"NONE", "FULL", "RAIL", "CUSTOM_STRIDE", "CUSTOM_ARRAY"};

static ncclResult_t checkArray(const struct ncclComm *comm, const ncclDevCommRequirements_t *r)
{
	const int count = r->ginCustomArrayCount;

	if (count < 0 || (count && !r->ginCustomArray))
		return ncclFail(ncclInvalidArgument,
				"ncclDevCommCreate: ginCustomArrayCount is %d, and ginCustomArray "
				"is %s",
				count, r->ginCustomArray ? "set" : "NULL");
	for (int i = 0; i < count; i++)
		if (r->ginCustomArray[i] < 0 || r->ginCustomArray[i] >= comm->nRanks)
			return ncclFail(ncclInvalidArgument,
					"ncclDevCommCreate: ginCustomArray[%d] is %d: must be 0 to "
					"%d",
					i, r->ginCustomArray[i], comm->nRanks - 1);
	return ncclSuccess;
}

ncclResult_t ncclConnectionsCheck(const struct ncclComm *comm, const ncclDevCommRequirements_t *r)
{
	const int type = (int)r->ginConnectionType, stride = r->ginCustomStride;

	if (type < NCCL_GIN_CONNECTION_NONE || type > NCCL_GIN_CONNECTION_CUSTOM_ARRAY)
		return ncclFail(ncclInvalidArgument, "ncclDevCommCreate: ginConnectionType is %d",
				type);
	if (type == NCCL_GIN_CONNECTION_CUSTOM_STRIDE && (stride < 1 || comm->nRanks % stride))
		return ncclFail(
			ncclInvalidArgument,
			"ncclDevCommCreate: ginCustomStride is %d: must be a divisor of the "
			"number of ranks, %d",
			stride, comm->nRanks);
	return type == NCCL_GIN_CONNECTION_CUSTOM_ARRAY ? checkArray(comm, r) : ncclSuccess;
}

static int isListed(const ncclDevCommRequirements_t *r, int rank)
{
	for (int i = 0; i < r->ginCustomArrayCount; i++)
		if (r->ginCustomArray[i] == rank)
			return 1;
	return 0;
}

/* A rank is always connected to itself. */
static int isConnected(const struct ncclComm *comm, const ncclDevCommRequirements_t *r, int rank)
{
	const int distance = rank - comm->rank;

	switch (r->ginConnectionType) {
	case NCCL_GIN_CONNECTION_RAIL:
		return distance % comm->domainSize == 0;
	case NCCL_GIN_CONNECTION_CUSTOM_STRIDE:
		return distance % r->ginCustomStride == 0;
	case NCCL_GIN_CONNECTION_CUSTOM_ARRAY:
		return !distance || isListed(r, rank);
	default:
		return 1;
	}
}

int ncclConnectionsRead(const struct ncclComm *comm, const ncclDevCommRequirements_t *r,
			struct ncclConnections *c)
{
	int count = 0;

	*c = (struct ncclConnections){.type = r->ginConnectionType};
	for (int rank = 0; rank < comm->nRanks; rank++)
		count += c->unconnected[rank] = !isConnected(comm, r, rank);
	return count;
}

void ncclConnectionsNote(ncclComm_t comm, struct ncclConnections *c, const ginDevComm *gin)
{
	c->gin = *gin;
	pthread_mutex_lock(&comm->lock);
	c->next = comm->connections;
	comm->connections = c;
	pthread_mutex_unlock(&comm->lock);
}

/* Has a kernel called a peer that is not connected? */
static ncclResult_t report(ncclComm_t comm, const struct ncclConnections *c)
{
	ginErrorRecord_t record;

	if (ginDevCommGetError(comm->gin, &c->gin, &record) != ginSuccess || !record.valid ||
	    record.result != ginErrorPeer || record.peer < 0 || record.peer >= comm->nRanks ||
	    !c->unconnected[record.peer])
		return ncclSuccess;
	return ncclFail(ncclInvalidUsage,
			"a kernel called rank %d from rank %d, but the device communicator has "
			"ginConnectionType NCCL_GIN_CONNECTION_%s, which does not connect them: "
			"NCCL_GIN_CONNECTION_FULL connects all ranks (%s)",
			record.peer, comm->rank, typeNames[c->type], ginGetLastError());
}

ncclResult_t ncclConnectionsReport(ncclComm_t comm)
{
	ncclResult_t result = ncclSuccess;

	pthread_mutex_lock(&comm->lock);
	for (struct ncclConnections *c = comm->connections; c && result == ncclSuccess; c = c->next)
		result = report(comm, c);
	pthread_mutex_unlock(&comm->lock);
	return result;
}

void ncclConnectionsForget(ncclComm_t comm, const ginDevComm *gin)
{
	pthread_mutex_lock(&comm->lock);
	struct ncclConnections **at = &comm->connections, *c;
	while ((c = *at) && gin && c->gin.id != gin->id)
		at = &c->next;
	while ((c = *at)) {
		*at = c->next;
		free(c);
		if (gin)
			break;
	}
	pthread_mutex_unlock(&comm->lock);
}
