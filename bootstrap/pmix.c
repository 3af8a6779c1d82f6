/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmix.c - by PMIx, as mpirun and srun --mpi=pmix offer it; libgin-pmix.so
 *
 * Only what holds on every launcher is used:
 *  - a fence over the whole namespace that collects data: one without data does not wait on Slurm,
 *    and one over a subset kills the job there;
 *  - a clock of our own around it: PMIX_TIMEOUT stops counting when all local ranks are in;
 *  - a fresh key each time: some versions give the old value of a key that is used again;
 *  - a get of every rank's datum even after success: some versions tell a failed fence to the
 *    first local rank alone;
 *  - one fence at a time per process: two get mixed.
 *  - PMIx is joined once and left when the process exits: a rank that leaves, to join again for its
 *    next communicator, makes a fence that others are in fail with PARTIAL_SUCCESS. Nobody gets any
 *    more by then, as the control plane has made sure: leaving while a peer still gets can hang.
 */
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bootstrap.h"

/* One per process, shared by its communicators. */
static struct {
	pthread_mutex_t lock;
	pmix_proc_t me;
	pid_t joined;	     /* this process, once it has; 0 before */
	unsigned generation; /* makes keys fresh */
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

static int allgatherLocked(const void *in, void *out, size_t bytes, int nRanks, unsigned seconds,
			   char *why)
{
	char key[32];

	snprintf(key, sizeof(key), "gin.%u", process.generation++);
	if (put(key, in, bytes, why) || collect(seconds, why))
		return -1;
	for (int r = 0; r < nRanks; r++)
		if (get(key, r, (char *)out + (size_t)r * bytes, bytes, seconds, why))
			return -1;
	return 0;
}

static int pmixAllgather(void *state, const void *in, void *out, size_t bytes, unsigned seconds,
			 char *why)
{
	const int *nRanks = state;

	pthread_mutex_lock(&process.lock);
	int result = allgatherLocked(in, out, bytes, *nRanks, seconds, why);
	pthread_mutex_unlock(&process.lock);
	return result;
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

static int openLocked(int *nRanks, char *why)
{
	if (!process.joined) {
		if (join(why))
			return -1;
		process.joined = getpid();
		atexit(leave);
	}
	return jobSize(nRanks, why);
}

static int pmixOpen(void *arg, void **state, int *rank, int *nRanks, char *why)
{
	int *size = malloc(sizeof(*size));
	int result = -1;

	(void)arg;
	pthread_mutex_lock(&process.lock);
	if (size)
		result = openLocked(size, why);
	else
		say(why, "PMIx", PMIX_ERR_NOMEM);
	*rank = (int)process.me.rank;
	pthread_mutex_unlock(&process.lock);
	if (result) {
		free(size);
		return -1;
	}
	*nRanks = *size;
	*state = size;
	return 0;
}

__attribute__((visibility("default"))) const struct bootstrapOps ginBootstrapPmix = {
	.size = sizeof(ginBootstrapPmix),
	.name = "pmix",
	.open = pmixOpen,
	.allgather = pmixAllgather,
	.close = free, /* PMIx is left at exit */
};
