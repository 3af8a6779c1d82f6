/* SPDX-License-Identifier: BSD-3-Clause */
/* unit_poll.c - config.poll is called while collectives wait, and may end them; ranks as threads */
#include <pthread.h>
#include <unistd.h>

#include "expect.h"
#include "gin.h"
#include "lib/base/clock.h"

struct polled {
	pthread_t thread; /* the thread that makes the collective calls */
	int calls;
	int most;	/* the number of the call that returns 1; 0: none does */
	int *countHere; /* for the other rank */
};

static int poll(void *arg)
{
	struct polled *polled = arg;

	EXPECT(pthread_equal(pthread_self(), polled->thread));
	if (polled->countHere)
		__atomic_fetch_add(polled->countHere, 1, __ATOMIC_RELEASE);
	return ++polled->calls == polled->most;
}

struct rank {
	pthread_t thread;
	ginUniqueId_t id;
	int rank, nRanks, most;
	void (*body)(struct rank *rank, struct polled *polled, ginComm_t comm);
};

static ginConfig_t configOf(struct polled *polled, int most)
{
	ginConfig_t config = GIN_CONFIG_INIT;

	*polled = (struct polled){.thread = pthread_self(), .most = most};
	config.device = GIN_DEVICE_NONE;
	config.poll = poll;
	config.pollArg = polled;
	return config;
}

static void *runRank(void *arg)
{
	struct rank *rank = arg;
	struct polled polled;
	ginConfig_t config = configOf(&polled, 0);
	ginComm_t comm;

	EXPECT_SUCCESS(ginCommInitRank(&config, &rank->id, rank->rank, rank->nRanks, &comm));
	polled.calls = 0;
	polled.most = rank->most;
	rank->body(rank, &polled, comm);
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return NULL;
}

/* Two ranks; the poll number `most` of rank 0 ends the wait. */
static void asTwo(int most, void (*body)(struct rank *, struct polled *, ginComm_t))
{
	struct rank rank[2];
	ginUniqueId_t id;

	EXPECT_SUCCESS(ginGetUniqueId(&id));
	for (int r = 0; r < 2; r++) {
		rank[r] = (struct rank){
			.id = id, .rank = r, .nRanks = 2, .most = r ? 0 : most, .body = body};
		EXPECT(!pthread_create(&rank[r].thread, NULL, runRank, &rank[r]));
	}
	for (int r = 0; r < 2; r++)
		pthread_join(rank[r].thread, NULL);
}

static void awaitCount(int *count, int least)
{
	while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < least)
		usleep(1000);
}

/* Rank 1 comes when rank 0 has been polled three times, at intervals of 100 ms at least. */
static void lateWell(struct rank *rank, struct polled *polled, ginComm_t comm)
{
	static int polls;
	ginComm_t part = NULL;
	uint64_t start = clockNow();

	if (rank->rank)
		awaitCount(&polls, 3);
	else
		polled->countHere = &polls;
	EXPECT_SUCCESS(ginCommSplit(comm, 0, 0, &part));
	if (!rank->rank)
		EXPECT((uint64_t)polled->calls <= 10 + (clockNow() - start) / (SECOND / 10));
	EXPECT_SUCCESS(ginCommDestroy(part));
}

/* Parts inherit the function. */
static void endedByPart(struct rank *rank, struct polled *polled, ginComm_t comm)
{
	static int ends;
	ginComm_t part = NULL, partOfPart = NULL;

	polled->most = 0;
	EXPECT_SUCCESS(ginCommSplit(comm, 0, 0, &part));
	polled->most = rank->most ? polled->calls + rank->most : 0;
	if (!rank->rank) {
		EXPECT_FAILS(ginCommSplit(part, 0, 0, &partOfPart), ginErrorAborted,
			     "config.poll of rank 0", "has ended ginCommSplit");
		EXPECT_FAILS(ginCommSplit(part, 0, 0, &partOfPart), ginErrorAborted,
			     "config.poll of rank 0");
		EXPECT_EQUAL(polled->calls, polled->most);
		__atomic_store_n(&ends, 1, __ATOMIC_RELEASE);
	} else {
		awaitCount(&ends, 1);
		EXPECT_FAILS(ginCommSplit(part, 0, 0, &partOfPart), ginErrorPeer,
			     "config.poll of rank 0");
	}
	EXPECT_SUCCESS(ginCommDestroy(part));
}

/* Of two ranks only `rank` comes. */
static void aloneIsEnded(int rank)
{
	struct polled polled;
	ginConfig_t config = configOf(&polled, 2);
	ginUniqueId_t id;
	ginComm_t comm;

	EXPECT_SUCCESS(ginGetUniqueId(&id));
	EXPECT_FAILS(ginCommInitRank(&config, &id, rank, 2, &comm), ginErrorAborted,
		     "config.poll has ended the call");
	EXPECT_EQUAL(polled.calls, 2);
}

int main(void)
{
	asTwo(0, lateWell);
	asTwo(2, endedByPart);
	aloneIsEnded(0);
	aloneIsEnded(1);
	puts("config.poll: called by the thread that waits, and ends calls");
	return 0;
}
