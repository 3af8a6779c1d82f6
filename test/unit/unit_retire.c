/* SPDX-License-Identifier: BSD-3-Clause */
/* unit_retire.c - ranks retire windows one by one; ranks are threads, and other threads retire */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "expect.h"
#include "gin.h"

#define WINDOWS 100
#define RANKS 3

struct rank {
	pthread_t thread;
	ginUniqueId_t id;
	int rank;
	void (*body)(struct rank *rank);
	ginComm_t comm;
	void *memory[WINDOWS];
	ginWindow_t window[WINDOWS];
	int released[WINDOWS];
	int retirers;	       /* threads that have retired their windows */
	pthread_t by[WINDOWS]; /* the thread that called released() */
};

struct slot {
	struct rank *rank;
	int i;
	pthread_t thread;
};

static void released(void *arg)
{
	struct slot *slot = arg;

	slot->rank->released[slot->i]++;
	slot->rank->by[slot->i] = pthread_self();
	free(slot);
}

static void *retireOne(void *arg)
{
	struct slot *slot = arg;

	EXPECT_SUCCESS(
		ginWindowRetire(slot->rank->comm, slot->rank->window[slot->i], released, slot));
	return NULL;
}

static struct slot *newSlot(struct rank *rank, int i)
{
	struct slot *slot = malloc(sizeof(*slot));

	EXPECT(slot != NULL);
	*slot = (struct slot){.rank = rank, .i = i};
	return slot;
}

/* Runs on a thread of its own. */
static void retire(struct rank *rank, int i)
{
	pthread_t thread;

	EXPECT(!pthread_create(&thread, NULL, retireOne, newSlot(rank, i)));
	pthread_join(thread, NULL);
}

static void registerAll(struct rank *rank, int windows)
{
	for (int i = 0; i < windows; i++) {
		EXPECT_SUCCESS(ginMemAlloc(rank->comm, 4096, &rank->memory[i]));
		EXPECT_SUCCESS(
			ginWindowRegister(rank->comm, rank->memory[i], 4096, 0, &rank->window[i]));
	}
}

/* A collective of all ranks. */
static void meet(struct rank *rank)
{
	EXPECT_SUCCESS(ginCommAllgather(rank->comm, NULL, NULL, 0));
}

/* A window stays until all ranks have retired it; then one collective deregisters it. */
static void oneByOne(struct rank *rank)
{
	const int me = rank->rank;

	registerAll(rank, 3);
	retire(rank, 1);
	if (me != 2)
		retire(rank, 0);
	EXPECT_EQUAL(rank->released[1], 0);
	EXPECT_FAILS(ginMemFree(rank->comm, rank->memory[1]), ginErrorInvalidUsage,
		     "in a registered window");
	meet(rank);
	EXPECT_EQUAL(rank->released[1], 1);
	EXPECT(pthread_equal(rank->by[1], pthread_self()));
	EXPECT_SUCCESS(ginMemFree(NULL, rank->memory[1]));
	EXPECT_EQUAL(rank->released[0], 0);
	if (me == 2)
		retire(rank, 0);
	EXPECT_SUCCESS(ginWindowDeregister(rank->comm, rank->window[2]));
	EXPECT_EQUAL(rank->released[0], 1);
	EXPECT_SUCCESS(ginMemFree(NULL, rank->memory[0]));
	EXPECT_SUCCESS(ginMemFree(NULL, rank->memory[2]));
}

/* More windows than one collective compares, retired in another order by each rank. */
static void manyInAnyOrder(struct rank *rank)
{
	unsigned seed = 7 + (unsigned)rank->rank;
	int order[WINDOWS], left = 0;

	registerAll(rank, WINDOWS);
	for (int i = 0; i < WINDOWS; i++) {
		int at = (int)((unsigned)rand_r(&seed) % (unsigned)(i + 1));
		order[i] = order[at];
		order[at] = i;
	}
	for (int i = 0; i < WINDOWS; i++) {
		retire(rank, order[i]);
		if (i % 10 == 9)
			meet(rank);
	}
	for (int i = 0; i < WINDOWS / 31 + 1; i++)
		meet(rank);
	for (int i = 0; i < WINDOWS; i++) {
		left += rank->released[i] != 1;
		EXPECT_SUCCESS(ginMemFree(NULL, rank->memory[i]));
	}
	EXPECT_EQUAL(left, 0);
}

static void retireEach(struct rank *rank, int first)
{
	for (int i = first; i < WINDOWS; i += 2) {
		retireOne(newSlot(rank, i));
		sched_yield();
	}
	__atomic_add_fetch(&rank->retirers, 1, __ATOMIC_RELEASE);
}

static void *retireEven(void *rank)
{
	retireEach(rank, 0);
	return NULL;
}

static void *retireOdd(void *rank)
{
	retireEach(rank, 1);
	return NULL;
}

/* Two threads retire windows while this thread is in collectives. */
static void whileMeeting(struct rank *rank)
{
	pthread_t even, odd;
	int done[RANKS] = {0};

	registerAll(rank, WINDOWS);
	EXPECT(!pthread_create(&even, NULL, retireEven, rank));
	EXPECT(!pthread_create(&odd, NULL, retireOdd, rank));
	while (done[0] + done[1] + done[2] < 2 * RANKS) {
		int mine = __atomic_load_n(&rank->retirers, __ATOMIC_ACQUIRE);
		EXPECT_SUCCESS(ginCommAllgather(rank->comm, &mine, done, sizeof(mine)));
	}
	pthread_join(even, NULL);
	pthread_join(odd, NULL);
	for (int i = 0; i < WINDOWS / 31 + 1; i++)
		meet(rank);
	for (int i = 0; i < WINDOWS; i++) {
		EXPECT_EQUAL(rank->released[i], 1);
		EXPECT_SUCCESS(ginMemFree(NULL, rank->memory[i]));
	}
}

/* Rank 0 has retired more windows than one collective compares, and rank 1 keeps these. */
static void oneRankKeepsMany(struct rank *rank)
{
	registerAll(rank, WINDOWS);
	for (int i = 0; i < WINDOWS; i++)
		if (rank->rank == 0 || i == WINDOWS - 1)
			retire(rank, i);
	for (int i = 0; i < WINDOWS / 31 + 1; i++)
		meet(rank);
	EXPECT_EQUAL(rank->released[0], 0);
	EXPECT_EQUAL(rank->released[WINDOWS - 1], 1);
	if (rank->rank != 0)
		for (int i = 0; i < WINDOWS - 1; i++)
			retire(rank, i);
	for (int i = 0; i < WINDOWS / 31 + 1; i++)
		meet(rank);
	for (int i = 0; i < WINDOWS; i++)
		EXPECT_SUCCESS(ginMemFree(NULL, rank->memory[i]));
}

static void wrongUse(struct rank *rank)
{
	void *ptr;

	registerAll(rank, 1);
	retire(rank, 0);
	EXPECT_FAILS(ginWindowRetire(rank->comm, rank->window[0], NULL, NULL),
		     ginErrorInvalidArgument, "window is retired");
	EXPECT_FAILS(ginWindowDeregister(rank->comm, rank->window[0]), ginErrorInvalidArgument,
		     "window is retired");
	EXPECT_FAILS(ginWindowPointer(rank->comm, rank->window[0], &ptr), ginErrorInvalidArgument,
		     "window is retired");
	EXPECT_FAILS(ginWindowRetire(rank->comm, (ginWindow_t){NULL}, NULL, NULL),
		     ginErrorInvalidArgument, "not registered with this communicator");
	EXPECT_EQUAL(rank->released[0], 0);
}

#define CONTESTS 4000
#define THREADS 4

/* Threads that retire one window after another, all concurrently. */
struct contest {
	ginComm_t comm;
	ginWindow_t window[CONTESTS];
	int arrived, refused;
};

static void *retireAll(void *arg)
{
	struct contest *contest = arg;

	for (int i = 0; i < CONTESTS; i++) {
		__atomic_add_fetch(&contest->arrived, 1, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&contest->arrived, __ATOMIC_SEQ_CST) < THREADS * (i + 1))
			sched_yield();
		if (ginWindowRetire(contest->comm, contest->window[i], NULL, NULL))
			__atomic_add_fetch(&contest->refused, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

/*
 * Several threads, a program and its garbage collector say, retire one window: all calls but one
 * fail.
 */
static void byManyThreads(struct rank *rank)
{
	struct contest *contest = calloc(1, sizeof(*contest));
	pthread_t thread[THREADS];

	registerAll(rank, 1);
	contest->comm = rank->comm;
	for (int i = 0; i < CONTESTS && rank->rank == 0; i++)
		EXPECT_SUCCESS(ginWindowRegister(rank->comm, rank->memory[0], 4096,
						 GIN_WINDOW_LOCAL, &contest->window[i]));
	for (int t = 0; t < THREADS && rank->rank == 0; t++)
		EXPECT(!pthread_create(&thread[t], NULL, retireAll, contest));
	for (int t = 0; t < THREADS && rank->rank == 0; t++)
		pthread_join(thread[t], NULL);
	EXPECT_EQUAL(contest->refused, rank->rank ? 0 : (THREADS - 1) * CONTESTS);
	free(contest);
	retire(rank, 0);
	meet(rank);
	EXPECT_SUCCESS(ginMemFree(NULL, rank->memory[0]));
}

/* The communicator ends when some ranks have retired a window, and one rank a local window. */
static void atTheEnd(struct rank *rank)
{
	registerAll(rank, 2);
	if (rank->rank == 1)
		retire(rank, 0);
	meet(rank);
	EXPECT_SUCCESS(ginWindowDeregister(rank->comm, rank->window[1]));
	EXPECT_SUCCESS(ginWindowRegister(rank->comm, rank->memory[1], 4096, GIN_WINDOW_LOCAL,
					 &rank->window[2]));
	retire(rank, 2);
	meet(rank);
	EXPECT_EQUAL(rank->released[2], 1);
	EXPECT_EQUAL(rank->released[0], 0);
}

static void *runRank(void *arg)
{
	struct rank *rank = arg;
	ginConfig_t config = GIN_CONFIG_INIT;

	config.device = GIN_DEVICE_NONE;
	EXPECT_SUCCESS(ginCommInitRank(&config, &rank->id, rank->rank, RANKS, &rank->comm));
	rank->body(rank);
	EXPECT_SUCCESS(ginCommDestroy(rank->comm));
	return NULL;
}

static void run(void (*body)(struct rank *rank), struct rank *rank)
{
	ginUniqueId_t id;

	EXPECT_SUCCESS(ginGetUniqueId(&id));
	for (int r = 0; r < RANKS; r++) {
		rank[r] = (struct rank){.id = id, .rank = r, .body = body};
		EXPECT(!pthread_create(&rank[r].thread, NULL, runRank, &rank[r]));
	}
	for (int r = 0; r < RANKS; r++)
		pthread_join(rank[r].thread, NULL);
}

int main(void)
{
	static struct rank rank[RANKS];

	setenv("GIN_LOG", "none", 0);
	run(oneByOne, rank);
	run(manyInAnyOrder, rank);
	run(oneRankKeepsMany, rank);
	run(whileMeeting, rank);
	run(byManyThreads, rank);
	run(wrongUse, rank);
	for (int r = 0; r < RANKS; r++)
		EXPECT_EQUAL(rank[r].released[0], 1);
	run(atTheEnd, rank);
	EXPECT_EQUAL(rank[1].released[0], 1);
	puts("windows are deregistered when all ranks have retired them");
	return 0;
}
