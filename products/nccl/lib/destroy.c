/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * destroy.c - the end of a communicator
 *
 * ginCommDestroy() is collective, but one thread may destroy the communicators of all ranks of its
 * process, one after the other. So each call starts a thread that destroys; the process's last call
 * waits for all of them.
 */
#include "internal.h"

#include <stdlib.h>

/* A communicator that is being destroyed. */
struct destruction {
	struct destruction *next;
	ncclComm_t comm;
	uint64_t key;
	pthread_t thread;
	ncclResult_t result;
};

static struct destruction *list;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static ncclResult_t destroy(ncclComm_t comm)
{
	ncclResult_t result = ncclEndLast(comm);
	ncclResult_t closed = ncclCollectivesClose(comm);
	ncclResult_t ended = ncclRmaClose(comm);
	ncclWindowTablesFree(comm);
	ncclConnectionsForget(comm, NULL);
	ncclResult_t destroyed = ncclFromGin(ginCommDestroy(comm->gin));
	ncclResult_t freed = ncclEndKept(comm);

	/* A collective may fail before this rank knows that another rank has ended comm. */
	if (destroyed == ncclRemoteError && comm->asyncError != ncclSuccess)
		destroyed = ncclSuccess;
	pthread_mutex_destroy(&comm->lock);
	free(comm);
	if (result == ncclSuccess)
		result = closed == ncclSuccess ? ended : closed;
	if (result == ncclSuccess)
		result = freed;
	return result == ncclSuccess ? destroyed : result;
}

static void *threadMain(void *arg)
{
	struct destruction *d = arg;

	d->result = destroy(d->comm);
	return NULL;
}

/* The entries of one key, if they are all ranks of the process; otherwise NULL. */
static struct destruction *takeAll(uint64_t key, int localRanks)
{
	struct destruction *taken = NULL, **at = &list;
	int count = 0;

	for (struct destruction *d = list; d; d = d->next)
		count += d->key == key;
	while (count == localRanks && *at) {
		struct destruction *d = *at;
		if (d->key != key) {
			at = &d->next;
			continue;
		}
		*at = d->next;
		d->next = taken;
		taken = d;
	}
	return taken;
}

static ncclResult_t joinAll(struct destruction *d)
{
	ncclResult_t result = ncclSuccess;

	while (d) {
		struct destruction *next = d->next;
		pthread_join(d->thread, NULL);
		if (d->result != ncclSuccess)
			result = ncclFail(d->result, "ncclCommDestroy: a rank of this process "
						     "left its communicator with an error");
		free(d);
		d = next;
	}
	return result;
}

/* Starts the thread, and adds it to the list. Returns the list's entries for joinAll(). */
static ncclResult_t start(struct destruction *d, struct destruction **all)
{
	const uint64_t key = d->key;
	const int localRanks = d->comm->localRanks;

	if (pthread_create(&d->thread, NULL, threadMain, d))
		return ncclFail(ncclSystemError, "ncclCommDestroy: no thread");
	pthread_mutex_lock(&lock);
	d->next = list;
	list = d;
	*all = takeAll(key, localRanks);
	pthread_mutex_unlock(&lock);
	return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	struct destruction *d, *all = NULL;

	if (!comm)
		return ncclSuccess;
	if (comm->localRanks == 1)
		return destroy(comm);
	d = calloc(1, sizeof(*d));
	if (!d)
		return ncclFail(ncclSystemError, "no memory");
	d->comm = comm;
	d->key = comm->key;
	ncclResult_t result = start(d, &all);
	if (result == ncclSuccess)
		return joinAll(all);
	free(d);
	return result;
}

ginResult_t ncclEndWaits(ncclComm_t comm)
{
	ginResult_t result = ginCommAbort(comm->gin);

	ncclCollectivesAbort(comm);
	return result;
}

/* Streams wait for the collectives; no other call works in the background. */
ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	return comm ? ncclSuccess : ncclFail(ncclInvalidArgument, "ncclCommFinalize: comm is NULL");
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	if (!comm)
		return ncclSuccess;
	ncclResult_t result = ncclFromGin(ncclEndWaits(comm));
	ncclResult_t destroyed = ncclCommDestroy(comm);
	return result == ncclSuccess ? destroyed : result;
}

/*
 * Unlike ncclCommAbort() the call leaves the communicator, for ncclCommShrink() and
 * ncclCommDestroy().
 */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags)
{
	if (!comm)
		return ncclFail(ncclInvalidArgument, "ncclCommRevoke: comm is NULL");
	if (flags != NCCL_REVOKE_DEFAULT)
		return ncclFail(ncclInvalidArgument,
				"ncclCommRevoke: the flags are 0x%x: must be NCCL_REVOKE_DEFAULT",
				(unsigned)flags);
	return ncclFromGin(ncclEndWaits(comm));
}
