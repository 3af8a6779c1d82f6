/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmix.c - libgin-pmix.so: copies a root's contact from rank 0 to all ranks by PMIx
 *
 * mpirun and srun --mpi=pmix provide PMIx. Each process uses it once, and only in ways that work on
 * every launcher:
 *  - One fence over the whole namespace, with PMIX_COLLECT_DATA. On Slurm a fence without data does
 *    not wait, and a fence over a subset kills the job. Two fences at a time get mixed up.
 *  - Our own time limits: PMIX_TIMEOUT stops counting when all local ranks have entered the fence,
 *    and does not count while PMIx_Get() waits for another host.
 *  - A new key each time: some versions return the old value of a key that is set again.
 *  - No trust in the fence: some versions report a failed fence to the first local rank only. When
 *    a script runs several programs, the end of a rank's earlier process takes the rank out of a
 *    fence that has begun: the fence is complete without that rank, or never. So a rank asks for
 *    the value until it comes. The root finds out which ranks are missing.
 *  - No fence in later programs of a script: ranks wait for the value, whose key has the number of
 *    earlier programs.
 *  - PMIx_Finalize at exit: a rank that leaves earlier makes fences of other ranks fail. At exit no
 *    peer is inside PMIx_Get, which could hang: all ranks have met at the root since.
 */
#include <fcntl.h>
#include <pmix.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bootstrap.h"

#define FENCE_SECONDS 5	 /* then the value is asked for, whether or not the fence is complete */
#define GET_SECONDS 1	 /* then the value is asked for again */
#define PAUSE_MS_MOST 50 /* the pause between attempts doubles from 1 ms up to this */
#define KEY_BYTES 48

static struct {
	pmix_proc_t me;
	pid_t joined;	     /* pid of the process that called PMIx_Init; 0 before */
	unsigned earlier;    /* processes of this rank that have joined before; in the next key */
	unsigned generation; /* in the next key */
} process;

#define SECOND UINT64_C(1000000000)

/* As clockNow() of the library. */
static uint64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (uint64_t)at.tv_sec * SECOND + (uint64_t)at.tv_nsec;
}

/* A call in progress. After a timeout it is PMIx's until PMIx calls back, which may be never. */
struct pmixCall {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int done, abandoned;
	pmix_status_t status;
	char key[KEY_BYTES];
	pmix_info_t info;
	int seconds;
	size_t bytes; /* of a value; 0: it has another type or more bytes */
	char value[512];
};

static void freeCall(struct pmixCall *call)
{
	pthread_cond_destroy(&call->changed);
	pthread_mutex_destroy(&call->lock);
	free(call);
}

static void endCall(struct pmixCall *call, pmix_status_t status, const pmix_value_t *value)
{
	pthread_mutex_lock(&call->lock);
	call->status = status;
	if (status == PMIX_SUCCESS && value && value->type == PMIX_BYTE_OBJECT &&
	    value->data.bo.size <= sizeof(call->value)) {
		call->bytes = value->data.bo.size;
		memcpy(call->value, value->data.bo.bytes, call->bytes);
	}
	call->done = 1;
	pthread_cond_signal(&call->changed);
	int abandoned = call->abandoned;
	pthread_mutex_unlock(&call->lock);
	if (abandoned)
		freeCall(call);
}

static void fenceDone(pmix_status_t status, void *arg)
{
	endCall(arg, status, NULL);
}

static void getDone(pmix_status_t status, pmix_value_t *value, void *arg)
{
	endCall(arg, status, value);
}

static struct pmixCall *makeCall(void)
{
	struct pmixCall *call = calloc(1, sizeof(*call));
	pthread_condattr_t monotonic;

	if (!call)
		return NULL;
	pthread_mutex_init(&call->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&call->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return call;
}

static int pmixError(char *why, const char *what, pmix_status_t status)
{
	snprintf(why, BOOTSTRAP_WHY, "%s: %s", what, PMIx_Error_string(status));
	return -1;
}

static uint64_t within(unsigned seconds, uint64_t deadline)
{
	uint64_t end = now() + seconds * SECOND;

	return end < deadline ? end : deadline;
}

/* Returns 1 when PMIx has called back in time; otherwise the call is abandoned. */
static int waitCall(struct pmixCall *call, uint64_t deadline)
{
	struct timespec until = {(time_t)(deadline / SECOND), (long)(deadline % SECOND)};
	int late = 0;

	pthread_mutex_lock(&call->lock);
	while (!call->done && !late)
		late = pthread_cond_timedwait(&call->changed, &call->lock, &until) != 0;
	int done = call->done;
	call->abandoned = !done;
	pthread_mutex_unlock(&call->lock);
	return done;
}

/* Its result does not matter: see above. */
static void fence(uint64_t deadline)
{
	struct pmixCall *call = makeCall();
	pmix_proc_t all;
	bool yes = true;

	if (!call)
		return;
	PMIX_PROC_LOAD(&all, process.me.nspace, PMIX_RANK_WILDCARD);
	PMIX_INFO_LOAD(&call->info, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
	pmix_status_t status = PMIx_Fence_nb(&all, 1, &call->info, 1, fenceDone, call);
	/* PMIX_OPERATION_SUCCEEDED and errors: without a callback */
	if (status != PMIX_SUCCESS || waitCall(call, within(FENCE_SECONDS, deadline)))
		freeCall(call);
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

/* Asks rank 0 for its value once. Returns PMIx's status; `out` and *size are set on success. */
static pmix_status_t getOnce(const char *key, char *out, size_t *size, uint64_t deadline)
{
	struct pmixCall *call = makeCall();
	pmix_proc_t first;

	if (!call)
		return PMIX_ERR_NOMEM;
	snprintf(call->key, sizeof(call->key), "%s", key);
	call->seconds = GET_SECONDS;
	PMIX_PROC_LOAD(&first, process.me.nspace, 0);
	PMIX_INFO_LOAD(&call->info, PMIX_TIMEOUT, &call->seconds, PMIX_INT);
	pmix_status_t status = PMIx_Get_nb(&first, call->key, &call->info, 1, getDone, call);
	if (status == PMIX_SUCCESS && !waitCall(call, within(2 * GET_SECONDS, deadline)))
		return PMIX_ERR_TIMEOUT;
	if (status == PMIX_SUCCESS)
		status = call->status;
	*size = call->bytes;
	memcpy(out, call->value, call->bytes);
	freeCall(call);
	return status;
}

static int get(const char *key, void *out, size_t bytes, uint64_t deadline, char *why)
{
	char value[sizeof(((struct pmixCall *)0)->value)];
	size_t size = 0;
	unsigned pause = 1;
	pmix_status_t status = getOnce(key, value, &size, deadline);

	while ((status == PMIX_ERR_NOT_FOUND || status == PMIX_ERR_TIMEOUT) && now() < deadline) {
		usleep(pause * 1000);
		pause = pause * 2 < PAUSE_MS_MOST ? pause * 2 : PAUSE_MS_MOST;
		status = getOnce(key, value, &size, deadline);
	}
	if (status != PMIX_SUCCESS) {
		snprintf(why, BOOTSTRAP_WHY,
			 "rank 0 does not come to PMIx: PMIx_Get: %s; have the ranks run equally "
			 "many programs of libgin before this one?",
			 PMIx_Error_string(status));
		return now() < deadline ? -1 : BOOTSTRAP_LATE;
	}
	if (size != bytes) {
		snprintf(why, BOOTSTRAP_WHY, "rank 0 runs another libgin");
		return -1;
	}
	memcpy(out, value, bytes);
	return 0;
}

static int pmixShare(void *data, size_t bytes, uint64_t deadline, char *why)
{
	char key[KEY_BYTES];

	snprintf(key, sizeof(key), "gin.%u.%u", process.earlier, process.generation++);
	if (process.me.rank == 0 && put(key, data, bytes, why))
		return -1;
	if (!process.earlier)
		fence(deadline);
	return process.me.rank == 0 ? 0 : get(key, data, bytes, deadline, why);
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

/*
 * Numbers the processes of this rank, which a script starts one after the other, by the length of a
 * file in the launcher's directory, which the launcher removes after the job. 0: there is no such
 * directory.
 */
static unsigned countEarlier(void)
{
	const char *folder = getenv("PMIX_SERVER_TMPDIR");
	char path[1024];
	off_t end = 0;

	if (!folder || strchr(process.me.nspace, '/'))
		return 0;
	snprintf(path, sizeof(path), "%s/gin.%s.%u", folder, process.me.nspace, process.me.rank);
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return 0;
	if (write(fd, "", 1) == 1)
		end = lseek(fd, 0, SEEK_CUR);
	close(fd);
	return end > 1 ? (unsigned)end - 1 : 0;
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
		process.earlier = countEarlier();
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
