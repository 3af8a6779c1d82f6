/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * leave.c - the end of a communicator
 *
 * ginCommDestroy() is collective. Where one thread destroys the communicators of several ranks of
 * its process, one after the other, each has a thread of its own; the last call of the process waits
 * for all of them.
 */
#include "internal.h"

#include <stdlib.h>

/* A communicator that is being destroyed. */
struct leaving {
	struct leaving *next;
	ncclComm_t comm;
	uint64_t key;
	pthread_t thread;
	ncclResult_t result;
};

static struct leaving *list;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static ncclResult_t destroy(ncclComm_t comm)
{
	ncclResult_t result = ncclPartAll(comm);

	ncclCollectivesClose(comm);
	ncclResult_t destroyed = ncclFromGin(ginCommDestroy(comm->gin));
	pthread_mutex_destroy(&comm->lock);
	free(comm);
	return result == ncclSuccess ? destroyed : result;
}

static void *threadMain(void *arg)
{
	struct leaving *l = arg;

	l->result = destroy(l->comm);
	return NULL;
}

/* The entries of one key, if they are all ranks of the process; else NULL. */
static struct leaving *takeAll(uint64_t key, int localRanks)
{
	struct leaving *taken = NULL, **at = &list;
	int count = 0;

	for (struct leaving *l = list; l; l = l->next)
		count += l->key == key;
	while (count == localRanks && *at) {
		struct leaving *l = *at;
		if (l->key != key) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		l->next = taken;
		taken = l;
	}
	return taken;
}

static ncclResult_t joinAll(struct leaving *l)
{
	ncclResult_t result = ncclSuccess;

	while (l) {
		struct leaving *next = l->next;
		pthread_join(l->thread, NULL);
		if (l->result != ncclSuccess)
			result = ncclFail(l->result, "ncclCommDestroy: a rank of this process "
						     "left its communicator with an error");
		free(l);
		l = next;
	}
	return result;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	if (!comm)
		return ncclSuccess;
	if (comm->localRanks == 1)
		return destroy(comm);
	const int localRanks = comm->localRanks;
	struct leaving *l = calloc(1, sizeof(*l));
	if (!l)
		return ncclFail(ncclSystemError, "no memory");
	l->comm = comm;
	l->key = comm->key;
	const uint64_t key = l->key;
	if (pthread_create(&l->thread, NULL, threadMain, l)) {
		free(l);
		return ncclFail(ncclSystemError, "ncclCommDestroy: no thread");
	}
	pthread_mutex_lock(&lock);
	l->next = list;
	list = l;
	struct leaving *all = takeAll(key, localRanks);
	pthread_mutex_unlock(&lock);
	return joinAll(all);
}

/* Nothing is under way that a kernel of the program did not wait for. */
ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	return comm ? ncclSuccess : ncclFail(ncclInvalidArgument, "ncclCommFinalize: comm is NULL");
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	if (!comm)
		return ncclSuccess;
	ncclResult_t result = ncclFromGin(ginCommAbort(comm->gin));
	ncclResult_t destroyed = ncclCommDestroy(comm);
	return result == ncclSuccess ? destroyed : result;
}
