/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_peermem.c - which peers get which memory, and how
 *
 * Five ranks claim to be five processes of one host, and are one process. `parts` has the memory of
 * a rank's windows; the exchange of descriptors uses it.
 */
#include "backends/peermem/peermem.h"

#include "resource_limits.h"
#include "pinning.h"

#define RANKS 5

/* A rank's part of the current window. */
struct part {
	struct memory memory;
	struct peermemWindow *window;
	int gives[RANKS], takes[RANKS]; /* descriptors: to which rank, from which */
};

static struct identity identities[RANKS];
static struct backendHost hosts[RANKS];
static struct peermem *instances[RANKS];
static struct part parts[RANKS];
static uint8_t offers[RANKS][BACKEND_OFFER];

static ginResult_t exchange(void *core, int fd, const uint8_t *to, const uint8_t *from, int *fds)
{
	const struct backendHost *host = core;
	struct part *mine = &parts[host->rank];

	for (int r = 0; r < RANKS; r++) {
		EXPECT(!to[r] || fd == mine->memory.fd);
		mine->gives[r] = to[r];
		mine->takes[r] = from[r];
		fds[r] = from[r] ? dup(parts[r].memory.fd) : -1;
		EXPECT(!from[r] || fds[r] >= 0);
	}
	return ginSuccess;
}

/* Pairs that no route has: neighbours, and rank 2 with itself. */
static int neighbours(const void *of, int rank)
{
	int me = ((const struct backendHost *)of)->rank;

	return me == rank ? me == 2 : abs(me - rank) == 1;
}

static int all(const void *of, int rank)
{
	(void)of;
	return rank < RANKS;
}

static void openAll(const struct device *device, int (*serves)(const void *of, int rank))
{
	for (int r = 0; r < RANKS; r++) {
		const struct peermemPeers peers = {serves, &hosts[r]};
		identities[r] = (struct identity){.hostId = 1, .processId = {1, (uint64_t)r}};
		hosts[r] = (struct backendHost){.rank = r,
						.nRanks = RANKS,
						.ranks = identities,
						.device = device,
						.exchangeHandles = exchange,
						.core = &hosts[r]};
		EXPECT_SUCCESS(peermemOpen(&hosts[r], "test", &peers, &instances[r]));
	}
}

static void closeAll(void)
{
	for (int r = 0; r < RANKS; r++)
		peermemClose(instances[r]);
}

/* Registers all `bytes` bytes at each `at[r]`. */
static void registerAll(const struct device *device, char *const *at, size_t bytes, int cpuOnly,
			struct peermemWindow **windows)
{
	memset(offers, 0, sizeof(offers));
	memset(parts, 0, sizeof(parts));
	for (int r = 0; r < RANKS; r++) {
		struct part *part = &parts[r];
		EXPECT_SUCCESS(memoryDescribe(device, at[r], bytes, &part->memory));
		part->memory.cpuOnly = cpuOnly;
		EXPECT_SUCCESS(peermemOffer(instances[r], &part->memory, offers[r], &windows[r]));
	}
	for (int r = 0; r < RANKS; r++)
		EXPECT_SUCCESS(peermemRegister(instances[r], ginSuccess, offers[0], BACKEND_OFFER,
					       windows[r]));
	for (int a = 0; a < RANKS; a++)
		for (int b = 0; b < RANKS; b++)
			EXPECT_EQUAL(parts[a].gives[b], parts[b].takes[a]);
}

static void deregisterAll(struct peermemWindow **windows)
{
	for (int r = 0; r < RANKS; r++)
		peermemDeregister(instances[r], windows[r]);
}

static void allocAll(const struct device *device, size_t bytes, char **at)
{
	for (int r = 0; r < RANKS; r++) {
		void *made = NULL;
		EXPECT_SUCCESS(memoryAllocHost(device, bytes, &made));
		at[r] = memset(made, r + 1, bytes);
	}
}

static void freeAll(const struct device *device, char **at)
{
	for (int r = 0; r < RANKS; r++)
		EXPECT_SUCCESS(memoryFree(device, at[r]));
}

/* Checks what rank `a` has of rank `b`, if anything. */
static void expectPart(struct peermemWindow *const *windows, int a, int b, int served)
{
	const char *there = peermemAddress(windows[a], b);

	EXPECT_EQUAL(peermemKind(windows[a], b), served ? memoryShared : memoryNone);
	EXPECT_EQUAL(there != NULL, served);
	EXPECT_EQUAL(parts[a].takes[b], served && a != b);
	if (served)
		EXPECT_EQUAL(there[4096], b + 1);
}

/* Peers that are not served get neither an address nor a descriptor. */
static void theServedAlone(void)
{
	struct holdings before = holdingsNow();
	struct peermemWindow *windows[RANKS];
	char *at[RANKS];

	openAll(&hostThreads, neighbours);
	allocAll(&hostThreads, 5000, at);
	registerAll(&hostThreads, at, 5000, 0, windows);
	for (int a = 0; a < RANKS; a++)
		for (int b = 0; b < RANKS; b++)
			expectPart(windows, a, b, neighbours(&hosts[a], b));
	deregisterAll(windows);
	freeAll(&hostThreads, at);
	closeAll();
	expectHoldings(before);
}

/* Private memory cannot be served to a peer; the error names the backend's route. */
static void privateMemory(void)
{
	char *own = malloc(100), offer[BACKEND_OFFER];
	struct peermemWindow *window = NULL;
	struct memory memory;

	openAll(&hostThreads, neighbours);
	EXPECT_SUCCESS(memoryDescribe(&hostThreads, own, 100, &memory));
	EXPECT_FAILS(peermemOffer(instances[4], &memory, offer, &window), ginErrorInvalidArgument,
		     "rank 3, on the test route");
	EXPECT(!window);
	closeAll();
	free(own);
}

/* Peers pin memory for their GPUs, once. They do not pin memory for their CPUs. */
static void forCpusAlone(void)
{
	struct holdings before = holdingsNow();
	struct peermemWindow *words[RANKS], *windows[RANKS], *again[RANKS];
	char *at[RANKS];

	openAll(&pinningGpu, all);
	allocAll(&pinningGpu, 8192, at);
	EXPECT_EQUAL(pinnedCount, RANKS);
	registerAll(&pinningGpu, at, 8192, 1, words);
	EXPECT_EQUAL(pinnedCount, RANKS);
	registerAll(&pinningGpu, at, 8192, 0, windows);
	EXPECT_EQUAL(pinnedCount, 2 * RANKS); /* one process: each rank's memory is mapped again */
	registerAll(&pinningGpu, at, 8192, 0, again);
	EXPECT_EQUAL(pinnedCount, 2 * RANKS);
	for (int a = 0; a < RANKS; a++)
		for (int b = 0; b < RANKS; b++) {
			char *byCpu = peermemAddress(words[a], b);
			char *byGpu = peermemAddress(windows[a], b);
			*byCpu = (char)(10 * a + b);
			EXPECT_EQUAL(*at[b], 10 * a + b);
			EXPECT_EQUAL(*byGpu, 10 * a + b);
			EXPECT_EQUAL(pinnedSpan(byCpu) != 0, a == b);
			EXPECT_EQUAL(pinnedSpan(byGpu), 8192);
			EXPECT(peermemAddress(again[a], b) == byGpu);
		}
	deregisterAll(windows);
	EXPECT_EQUAL(pinnedCount, 2 * RANKS);
	deregisterAll(again);
	EXPECT_EQUAL(pinnedCount, RANKS);
	EXPECT_EQUAL(*peermemAddress(words[0], 4), 44);
	deregisterAll(words);
	freeAll(&pinningGpu, at);
	EXPECT_EQUAL(pinnedCount, 0);
	closeAll();
	expectHoldings(before);
}

int main(void)
{
	setenv("GIN_LOG", "none", 0);
	expectChild("only the served kinds of memory", theServedAlone);
	expectChild("private memory", privateMemory);
	expectChild("memory for CPUs alone", forCpusAlone);
	return expectFailures != 0;
}
