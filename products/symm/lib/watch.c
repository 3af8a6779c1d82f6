/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch.c - a thread that sees when a rank of a group has died, and ends the waits of the others
 *
 * Calls of this library see page->stop. Kernels of PyTorch and of programs spin on words of the
 * pads and know of no page: this rank raises the words of all others in its own pads, and takes its
 * own signals from the pads of the others, dead ones too, again and again. It leaves alone what it
 * signals to itself: PyTorch's kernels do, and wait for 0 before and for 1 after. Each rank does
 * so, because libgin tells a death to all. The kernels end, with results that are not valid; the
 * group fails every further call.
 */
#include "symm.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MILLI 1000000ull
#define LOOK (100 * MILLI)	/* between two looks at the communicators */
#define RELEASE (10000 * MILLI) /* pads are written for so long */
#define RELEASE_EVERY (5 * MILLI)

static struct ginSymmGroup *groups;
static pthread_t thread;
static pid_t owner; /* the process of the thread; 0: none */
static int isEnding;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static uint64_t clockNow(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 * MILLI + (uint64_t)now.tv_nsec;
}

static void fill(struct symmGpu *gpu, void *dst, uint32_t value, size_t pitch, size_t rows)
{
	if (gpu) {
		symmGpuFill(gpu, dst, value, pitch, rows);
		return;
	}
	for (size_t row = 0; row < rows; row++)
		__atomic_store_n((uint32_t *)((char *)dst + row * pitch), value, __ATOMIC_RELEASE);
}

/* Word [channel][source] of a pad, in all channels. */
static void fillColumn(struct ginSymmGroup *group, const struct ginSymmPeers *p, void *pad,
		       int source, uint32_t value)
{
	size_t nRanks = (size_t)group->nRanks, rows = p->padBytes / sizeof(uint32_t) / nRanks;

	fill(group->gpu, (uint32_t *)pad + source, value, nRanks * sizeof(uint32_t), rows);
}

static void releasePads(struct ginSymmGroup *group, const struct ginSymmPeers *p)
{
	for (int r = 0; r < group->nRanks; r++) {
		if (r == group->rank)
			continue;
		fillColumn(group, p, p->pad->memory.base, r, 1);
		if (p->pads[r])
			fillColumn(group, p, p->pads[r], group->rank, 0);
	}
}

static void become(struct ginSymmGroup *group, enum symmState state, uint64_t ends)
{
	group->state = state;
	group->stateEnds = ends;
}

static void look(struct ginSymmGroup *group, uint64_t now)
{
	ginResult_t failure = ginSuccess;

	if (ginCommGetAsyncError(group->comm, &failure) || !failure)
		return;
	group->failure = failure;
	strncpy(group->sentence, ginGetLastError(), sizeof(group->sentence) - 1);
	__atomic_store_n(&group->page->stop, (int32_t)failure, __ATOMIC_RELEASE);
	become(group, symmStopped, now + SYMM_GRACE); /* own calls end first */
}

/* A call that takes a word of fill() sees isReleased, too. */
static void release(struct ginSymmGroup *group, uint64_t now)
{
	__atomic_store_n(&group->page->isReleased, 1, __ATOMIC_RELAXED);
	become(group, symmReleasing, now + RELEASE);
}

/* When the group wants to be looked after again. The caller holds symmLock. */
static uint64_t step(struct ginSymmGroup *group, uint64_t now)
{
	if (group->state == symmAlive)
		look(group, now);
	else if (group->state == symmStopped && now >= group->stateEnds)
		release(group, now);
	else if (group->state == symmReleasing && now >= group->stateEnds)
		become(group, symmOver, 0);
	if (group->state != symmReleasing)
		return now + LOOK;
	for (struct ginSymmPeers *p = group->peers; p; p = p->nextOfGroup)
		releasePads(group, p);
	return now + RELEASE_EVERY;
}

static void *watch(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&symmLock);
	while (!isEnding) {
		uint64_t now = clockNow(), next = now + LOOK;
		for (struct ginSymmGroup *g = groups; g; g = g->next) {
			uint64_t wants = step(g, now);
			next = wants < next ? wants : next;
		}
		const struct timespec until = {(time_t)(next / (1000 * MILLI)),
					       (long)(next % (1000 * MILLI))};
		pthread_cond_clockwait(&changed, &symmLock, CLOCK_MONOTONIC, &until);
	}
	pthread_mutex_unlock(&symmLock);
	return NULL;
}

/* At exit(): the libraries that the thread calls end after it. */
static void stopThread(void)
{
	if (owner != getpid())
		return;
	pthread_mutex_lock(&symmLock);
	isEnding = 1;
	pthread_cond_signal(&changed);
	pthread_mutex_unlock(&symmLock);
	pthread_join(thread, NULL);
	owner = 0;
}

/* The caller holds symmLock. */
static int startThread(void)
{
	if (owner == getpid())
		return 0;
	if (pthread_create(&thread, NULL, watch, NULL))
		return -1;
	owner = getpid();
	atexit(stopThread);
	return 0;
}

ginResult_t symmWatch(struct ginSymmGroup *group)
{
	pthread_mutex_lock(&symmLock);
	int failed = startThread();
	if (!failed) {
		group->next = groups;
		groups = group;
	}
	pthread_mutex_unlock(&symmLock);
	return failed ? symmFail(ginErrorSystem, "no thread to watch a group") : ginSuccess;
}

void symmUnwatch(struct ginSymmGroup *group)
{
	pthread_mutex_lock(&symmLock);
	struct ginSymmGroup **at = &groups;
	while (*at && *at != group)
		at = &(*at)->next;
	if (*at)
		*at = group->next;
	pthread_mutex_unlock(&symmLock);
}
