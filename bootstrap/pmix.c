/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmix.c - rank 0's contact to all ranks, by PMIx as mpirun and srun --mpi=pmix offer it;
 * libgin-pmix.so
 *
 * It is asked once per process, and only for what holds on every launcher:
 *  - a fence over the whole namespace that collects data: one without data does not wait on Slurm,
 *    and one over a subset kills the job there; two at once get mixed;
 *  - a clock of our own around it: PMIX_TIMEOUT stops counting when all local ranks are in;
 *  - a fresh key each time: some versions give the old value of a key that is used again;
 *  - some versions tell a failed fence to the first local rank alone: that all have come shows at
 *    the root, not here;
 *  - PMIx is left when the process exits, not before: a rank that leaves makes a fence that others
 *    are in fail. Nobody gets any more by then, as all have met at the root since: leaving while a
 *    peer still gets can hang.
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
	pid_t joined;	     /* this process, once it has; 0 before */
	unsigned generation; /* makes keys fresh */
} process;

/* A fence that was given up keeps this for ever: PMIx may still call back. */
struct fence {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int done;
	pmix_status_t status;
};

static void fenceDone(pmix_status_t status, void *arg)
{
	struct fence *f = arg;

	pthread_mutex_lock(&f->lock);
	f->status = status;
	f->done = 1;
	pthread_cond_signal(&f->changed);
	pthread_mutex_unlock(&f->lock);
}

static struct fence *fenceMake(void)
{
	struct fence *f = calloc(1, sizeof(*f));
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

static void fenceFree(struct fence *f)
{
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

static int say(char *why, const char *what, pmix_status_t status)
{
	snprintf(why, BOOTSTRAP_WHY, "%s: %s", what, PMIx_Error_string(status));
	return -1;
}

/* 1 when the callback came in time. */
static int fenceWait(struct fence *f, unsigned seconds)
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

static int collect(unsigned seconds, char *why)
{
	struct fence *f = fenceMake();
	pmix_proc_t all;
	pmix_info_t info;
	bool yes = true;

	if (!f)
		return say(why, "fence", PMIX_ERR_NOMEM);
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
	else if (status == PMIX_OPERATION_SUCCEEDED) /* and then nobody calls back */
		status = PMIX_SUCCESS;
	fenceFree(f);
	return status == PMIX_SUCCESS ? 0 : say(why, "PMIx_Fence_nb", status);
}

static int put(const char *key, const void *in, size_t bytes, char *why)
{
	pmix_value_t value = {.type = PMIX_BYTE_OBJECT};

	value.data.bo.bytes = (char *)(uintptr_t)in;
	value.data.bo.size = bytes;
	pmix_status_t status = PMIx_Put(PMIX_GLOBAL, key, &value);
	if (status == PMIX_SUCCESS)
		status = PMIx_Commit();
	return status == PMIX_SUCCESS ? 0 : say(why, "PMIx_Put", status);
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
	if (collect(seconds, why))
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
		return say(why, "PMIx_Get(PMIX_JOB_SIZE)", status);
	*nRanks = (int)value->data.uint32;
	PMIX_VALUE_RELEASE(value);
	return 0;
}

/* Without a server PMIx_Init fails and yet leaves PMIx initialised. */
static int join(char *why)
{
	pmix_status_t status = PMIx_Init(&process.me, NULL, 0);

	if (status == PMIX_SUCCESS)
		return 0;
	if (status == PMIX_ERR_UNREACH) {
		PMIx_Finalize(NULL, 0);
		snprintf(why, BOOTSTRAP_WHY,
			 "the launcher's PMIx server does not answer: is this "
			 "process in another network namespace or container than it, or was "
			 "GIN_BOOTSTRAP=pmix set without a launcher?");
		return -1;
	}
	return say(why, "PMIx_Init", status);
}

/* At exit. A child that was forked meanwhile has not joined, and must not leave for its parent. */
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
