/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lost.c - peers that kernels must not use: dead ranks, masked ranks, and all ranks after an abort;
 * in one device communicator, ranks to which a queue has failed
 *
 * The abort line ends waits, and the state in a peer's entry ends calls on the peer. The line is
 * written first: a call that finds its peer failed reads the reason there. A wait that names no
 * peers ends because of the rank on the line, which no mask covers.
 */
#include <stdio.h>

#include "devcomm.h"

/* Relaxed: ginPeerObserve() of kernels reads only the state. The caller has entered the scope. */
static ginResult_t failPeer(ginComm_t comm, struct devComm *dc, int rank)
{
	static const uint32_t failed = ginPeerFailed;
	struct ginPeer *peer = &dc->device.peers[rank];

	if (comm->device.cuda)
		return deviceWrite(&comm->device, &peer->state, &failed, sizeof(failed));
	__atomic_store_n(&peer->state, failed, __ATOMIC_RELAXED);
	return ginSuccess;
}

/* Bits of enum peerLost. */
static int lostTo(const struct ginComm *comm, const struct devComm *dc, int rank)
{
	return comm->lost[rank] | dc->lost[rank];
}

/* The rank that ends waits that name no peers; -1: none. */
static int namedRank(const struct ginComm *comm, const struct devComm *dc)
{
	if (comm->lostFirst >= 0 && comm->lost[comm->lostFirst] == lostDead)
		return comm->lostFirst;
	for (int r = 0; r < comm->nRanks; r++)
		if (lostTo(comm, dc, r) == lostDead)
			return r;
	return -1;
}

static int isLost(const struct ginComm *comm, const struct devComm *dc, int rank)
{
	return comm->lostAll != ginSuccess || lostTo(comm, dc, rank);
}

static int anyLost(const struct ginComm *comm, const struct devComm *dc)
{
	for (int r = 0; r < comm->nRanks; r++)
		if (isLost(comm, dc, r))
			return 1;
	return 0;
}

/* Relaxed: no other data depends on the word. */
void devCommWriteLine(ginComm_t comm, struct devComm *dc)
{
	ginResult_t result = comm->lostAll;
	int rank = comm->lostAllBy;

	if (result == ginSuccess && anyLost(comm, dc)) {
		result = ginErrorPeer;
		rank = namedRank(comm, dc) < 0 ? GIN_LINE_MASKED : namedRank(comm, dc);
	}
	__atomic_store_n(&dc->lines->abort.word,
			 (dc->asks ? GIN_LINE_ASKS : 0) | (uint64_t)dc->question << 56 |
				 ((uint64_t)rank & 0xffffff) << 32 | (uint32_t)result,
			 __ATOMIC_RELAXED);
}

/* `rank` -1: all peers. */
static ginResult_t tellLost(ginComm_t comm, int rank)
{
	struct deviceScope scope;
	ginResult_t result = ginSuccess;

	for (struct devComm *dc = comm->devComms; dc; dc = dc->next)
		devCommWriteLine(comm, dc);
	if (comm->devComms)
		result = deviceEnter(&comm->device, &scope);
	if (!comm->devComms || result != ginSuccess)
		return result;
	for (struct devComm *dc = comm->devComms; dc && result == ginSuccess; dc = dc->next)
		for (int r = 0; r < comm->nRanks && result == ginSuccess; r++)
			if (rank < 0 || r == rank)
				result = failPeer(comm, dc, r);
	deviceLeave(&comm->device, &scope);
	return result;
}

void devCommTellLost(ginComm_t comm, struct devComm *dc)
{
	struct deviceScope scope;

	devCommWriteLine(comm, dc);
	if (!anyLost(comm, dc) || deviceEnter(&comm->device, &scope) != ginSuccess)
		return;
	for (int r = 0; r < comm->nRanks; r++)
		if (isLost(comm, dc, r))
			failPeer(comm, dc, r);
	deviceLeave(&comm->device, &scope);
}

/*
 * Kernels get every failure except an abort as ginErrorPeer: a timeout of a host call must not look
 * like a timeout of the kernel's call.
 */
static void failAll(ginComm_t comm, int rank, ginResult_t result)
{
	if (comm->lostAll == ginErrorAborted)
		return;
	comm->lostAll = result == ginErrorAborted ? ginErrorAborted : ginErrorPeer;
	comm->lostAllBy = rank;
}

/* All peers are lost when the whole communicator has failed, or when this rank has aborted. */
void devCommsFail(ginComm_t comm, int rank, ginResult_t result)
{
	int all = rank < 0 || rank == comm->rank;

	pthread_mutex_lock(&comm->lock);
	if (all)
		failAll(comm, rank, result);
	else
		comm->lost[rank] |= lostDead;
	if (!all && comm->lostFirst < 0)
		comm->lostFirst = rank;
	tellLost(comm, all ? -1 : rank);
	pthread_mutex_unlock(&comm->lock);
}

static void queueFailed(ginComm_t comm, struct devComm *dc, int rank, const char *why)
{
	if (dc->whyRank < 0) {
		dc->whyRank = rank;
		snprintf(dc->why, sizeof(dc->why), "%s", why);
	}
	dc->lost[rank] = lostDead;
	devCommTellLost(comm, dc);
}

int devCommQueueFailed(ginComm_t comm, const void *contexts, int rank, const char *why)
{
	int found = 0;

	pthread_mutex_lock(&comm->lock);
	for (struct devComm *dc = comm->devComms; dc; dc = dc->next) {
		if (contexts && !queuesHave(&dc->queues, contexts))
			continue;
		queueFailed(comm, dc, rank, why);
		found = 1;
	}
	pthread_mutex_unlock(&comm->lock);
	return found;
}

ginResult_t ginCommMask(ginComm_t comm, int rank)
{
	ginResult_t result = commEnter(comm, "ginCommMask");

	if (result != ginSuccess)
		return result;
	if (rank < 0 || rank >= comm->nRanks)
		return fail(ginErrorInvalidArgument, "rank is %d: must be 0 to %d", rank,
			    comm->nRanks - 1);
	if (rank == comm->rank)
		return fail(ginErrorInvalidArgument,
			    "rank is %d, which is this rank: a rank masks others", rank);
	pthread_mutex_lock(&comm->lock);
	comm->lost[rank] |= lostMasked;
	result = tellLost(comm, rank);
	pthread_mutex_unlock(&comm->lock);
	return result;
}
