/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmix.c - libgin-pmix.so: copies a root's contact from rank 0 to all ranks by PMIx
 *
 * mpirun and srun --mpi=pmix provide PMIx. Each process uses it once, and only in ways that work on
 * every launcher:
 *  - One fence over the whole namespace, with PMIX_COLLECT_DATA. On Slurm a fence without data does
 *    not wait, and a fence over a subset kills the job. Two fences at a time get mixed up.
 *  - Our own time limit around the fence: PMIX_TIMEOUT stops counting when all local ranks have
 *    entered the fence.
 *  - A new key each time: some versions return the old value of a key that is set again.
 *  - No trust in the fence's status: some versions report a failed fence to the first local rank
 *    only. The root finds out which ranks are missing.
 *  - PMIx_Finalize at exit: a rank that leaves earlier makes fences of other ranks fail. At exit no
 *    peer is inside PMIx_Get, which could hang: all ranks have met at the root since.
 */
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bootstrap.h"

static struct {
	pmix_proc_t me;
	pid_t joined;	     /* pid of the process that called PMIx_Init; 0 before */
	unsigned generation; /* a component of the next key */
} process;

/* Never freed after a timeout: PMIx may still call fenceDone(). */
struct pmixFence {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int done;
	pmix_status_t status;
};

static void fenceDone(pmix_status_t status, void *arg)
{
	struct pmixFence *f = arg;

	pthread_mutex_lock(&f->lock);
	f->status = status;
	f->done = 1;
	pthread_cond_signal(&f->changed);
	pthread_mutex_unlock(&f->lock);
}

static struct pmixFence *fenceMake(void)
{
	struct pmixFence *f = calloc(1, sizeof(*f));
	pthread_condattr_t monotonic;

	if (!f)
		return NULL;
	pthread_mutex_init(&f->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&f->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return f;
}

static void fenceFree(struct pmixFence *f)
{
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

static int pmixError(char *why, const char *what, pmix_status_t status)
{
	snprintf(why, BOOTSTRAP_WHY, "%s: %s", what, PMIx_Error_string(status));
	return -1;
}

/* Returns 1 when PMIx called fenceDone() in time. */
static int fenceWait(struct pmixFence *f, unsigned seconds)
{
	struct timespec until;
	int late = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += seconds;
	pthread_mutex_lock(&f->lock);
	while (!f->done && !late)
		late = pthread_cond_timedwait(&f->changed, &f->lock, &until) != 0;
	int done = f->done;
	pthread_mutex_unlock(&f->lock);
	return done;
}

static int fence(unsigned seconds, char *why)
{
	struct pmixFence *f = fenceMake();
	pmix_proc_t all;
	pmix_info_t info;
	bool yes = true;

	if (!f)
		return pmixError(why, "fence", PMIX_ERR_NOMEM);
	PMIX_PROC_LOAD(&all, process.me.nspace, PMIX_RANK_WILDCARD);
	PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
	pmix_status_t status = PMIx_Fence_nb(&all, 1, &info, 1, fenceDone, f);
	if (status == PMIX_SUCCESS && !fenceWait(f, seconds)) {
		snprintf(why, BOOTSTRAP_WHY, "not all ranks came to PMIx_Fence within %u s",
			 seconds);
		return -1;
	}
	if (status == PMIX_SUCCESS)
		status = f->status;
	else if (status == PMIX_OPERATION_SUCCEEDED) /* done at once, without a callback */
		status = PMIX_SUCCESS;
	fenceFree(f);
	return status == PMIX_SUCCESS ? 0 : pmixError(why, "PMIx_Fence_nb", status);
}

static int put(const char *key, const void *in, size_t bytes, char *why)
{
	pmix_value_t value = {.type = PMIX_BYTE_OBJECT};

	value.data.bo.bytes = (char *)(uintptr_t)in;
	value.data.bo.size = bytes;
	pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value);
	if (status == PMIX_SUCCESS)
		status = PMIx_Commit();
	return status == PMIX_SUCCESS ? 0 : pmixError(why, "PMIx_Put", status);
}

static int get(const char *key, int rank, void *out, size_t bytes, unsigned seconds, char *why)
{
	pmix_proc_t peer;
	pmix_info_t info;
	pmix_value_t *value;
	int limit = (int)seconds;

	PMIX_PROC_LOAD(&peer, process.me.nspace, (pmix_rank_t)rank);
	PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &limit, PMIX_INT);
	pmix_status_t status = PMIx_Get(&peer, key, &info, 1, &value);
	if (status != PMIX_SUCCESS) {
		snprintf(why, BOOTSTRAP_WHY, "PMIx_Get from rank %d: %s", rank,
			 PMIx_Error_string(status));
		return -1;
	}
	int fits = value->type == PMIX_BYTE_OBJECT && value->data.bo.size == bytes;
	if (fits)
		memcpy(out, value->data.bo.bytes, bytes);
	else
		snprintf(why, BOOTSTRAP_WHY, "rank %d runs another libgin", rank);
	PMIX_VALUE_RELEASE(value);
	return fits ? 0 : -1;
}

static int pmixShare(void *data, size_t bytes, unsigned seconds, char *why)
{
	char key[32];

	snprintf(key, sizeof(key), "gin.%u", process.generation++);
	if (process.me.rank == 0 && put(key, data, bytes, why))
		return -1;
	if (fence(seconds, why))
		return -1;
	return get(key, 0, data, bytes, seconds, why);
}

static int jobSize(int *nRanks, char *why)
{
	pmix_proc_t all;
	pmix_value_t *value;

	PMIX_PROC_LOAD(&all, process.me.nspace, PMIX_RANK_WILDCARD);
	pmix_status_t status = PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value);
	if (status != PMIX_SUCCESS)
		return pmixError(why, "PMIx_Get(PMIX_JOB_SIZE)", status);
	*nRanks = (int)value->data.uint32;
	PMIX_VALUE_RELEASE(value);
	return 0;
}

/* Without a server PMIx_Init() fails, but PMIx stays initialised and must be finalised. */
static int join(char *why)
{
	pmix_status_t status = PMIx_Init(&process.me, NULL, 0);

	if (status == PMIX_SUCCESS)
		return 0;
	if (status == PMIX_ERR_UNREACH) {
		PMIx_Finalize(NULL, 0);
		snprintf(why, BOOTSTRAP_WHY,
			 "the launcher's PMIx server does not answer: does this process run in "
			 "another network namespace or container than the server, or was "
			 "GIN_BOOTSTRAP=pmix set without a launcher?");
		return -1;
	}
	return pmixError(why, "PMIx_Init", status);
}

/* Runs at exit. A forked child must not leave the job for its parent. */
static void leave(void)
{
	if (process.joined == getpid())
		PMIx_Finalize(NULL, 0);
}

static int pmixJoin(int *rank, int *nRanks, char *why)
{
	if (!process.joined) {
		if (join(why))
			return -1;
		process.joined = getpid();
		atexit(leave);
	}
	*rank = (int)process.me.rank;
	return jobSize(nRanks, why);
}

__attribute__((visibility("default"))) const struct bootstrapPmix ginBootstrapPmix = {
	.size = sizeof(ginBootstrapPmix),
	.join = pmixJoin,
	.share = pmixShare,
};
