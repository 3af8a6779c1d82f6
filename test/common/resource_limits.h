/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resource_limits.h - a rank runs out of a resource, from ginCommInit() to ginCommDestroy()
 *
 * Every call must end on all ranks, with one result. The test gathers the ranks' sentences by its
 * own allgather, which does not need the resource.
 */
#ifndef GIN_TEST_LIMITS_H
#define GIN_TEST_LIMITS_H

#include "expect.h"
#include "files.h"
#include "ranks.h"

#define MOST_RANKS 8
#define BYTES 10000

/* The rank that lacks the resource; it is fixed in a test. */
static int lackingRank = 1;

static inline int isLacking(const ginConfig_t *config)
{
	return config->rank == lackingRank;
}

/* One call of one rank. */
struct said {
	ginResult_t result;
	char words[480];
};

/* The results of all ranks of one collective call. */
struct outcome {
	int n;
	struct said by[MOST_RANKS];
};

static inline void gather(const ginConfig_t *config, const void *in, void *out, size_t bytes)
{
	EXPECT(!config->allgather(config->allgatherArg, in, out, bytes));
}

/* All ranks get one result; returns 1 when it is success. */
static inline int agreed(const ginConfig_t *config, const char *call, ginResult_t result,
			 struct outcome *outcome)
{
	struct said mine = {.result = result};

	outcome->n = config->nRanks;
	if (result != ginSuccess)
		snprintf(mine.words, sizeof(mine.words), "%s", ginGetLastError());
	gather(config, &mine, outcome->by, sizeof(mine));
	for (int r = 1; r < config->nRanks; r++)
		expectThat((outcome->by[r].result == ginSuccess) ==
				   (outcome->by[0].result == ginSuccess),
			   __FILE__, __LINE__, "%s: rank 0 %s %s; rank %d %s %s", call,
			   ginGetErrorString(outcome->by[0].result), outcome->by[0].words, r,
			   ginGetErrorString(outcome->by[r].result), outcome->by[r].words);
	return result == ginSuccess;
}

/*
 * Every rank reports one sentence: the sentence of the rank that lacks something, with the remedy.
 */
static inline void expectSameWords(const struct outcome *outcome, const char *call,
				   const char *remedy)
{
	char begin[64];

	snprintf(begin, sizeof(begin), "%s: rank %d: ", call, lackingRank);
	for (int r = 0; r < outcome->n; r++) {
		EXPECT_TEXT(outcome->by[r].words, outcome->by[lackingRank].words);
		EXPECT_HAS(outcome->by[r].words, begin);
		EXPECT_HAS(outcome->by[r].words, remedy);
	}
}

/* The resources of a process. */
struct holdings {
	int files, mappings;
};

static inline int countMappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	int count = 0;

	EXPECT(maps != NULL);
	while (fgets(line, sizeof(line), maps))
		count += strstr(line, "memfd:libgin") != NULL;
	fclose(maps);
	return count;
}

static inline struct holdings holdingsNow(void)
{
	return (struct holdings){countFiles(), countMappings()};
}

static inline void expectHoldings(struct holdings before)
{
	EXPECT_EQUAL(countFiles(), before.files);
	EXPECT_EQUAL(countMappings(), before.mappings);
}

/* The first call that failed in one life of a communicator, or NULL. */
struct life {
	const char *failed;
	int silent; /* the rank could not even take part in the allgather of ginCommInit() */
	struct outcome outcome;
	ginResult_t allocated; /* ginMemAlloc, which is not collective */
	char allocWords[480];
};

/* Gives the rank what it lacks. */
static void (*liftLimit)(void);

/* Ends an object: a failure is one of all ranks, and the second attempt works. */
static inline void expectEnds(const ginConfig_t *config, const char *call, ginResult_t result,
			      int *again)
{
	struct outcome outcome;

	*again = !agreed(config, call, result, &outcome);
	if (*again) {
		expectSameWords(&outcome, call, "");
		EXPECT(liftLimit != NULL);
		liftLimit();
	}
}

static inline void endDevComm(const ginConfig_t *config, ginComm_t comm, const ginDevComm *dc)
{
	int again;

	expectEnds(config, "ginDevCommDestroy", ginDevCommDestroy(comm, dc), &again);
	if (again)
		EXPECT_SUCCESS(ginDevCommDestroy(comm, dc));
}

static inline void endWindow(const ginConfig_t *config, ginComm_t comm, ginWindow_t window)
{
	int again;

	expectEnds(config, "ginWindowDeregister", ginWindowDeregister(comm, window), &again);
	if (again)
		EXPECT_SUCCESS(ginWindowDeregister(comm, window));
}

static inline int useWindow(const ginConfig_t *config, ginComm_t comm, void *memory, size_t bytes,
			    struct life *life)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginWindow_t window, local;
	ginDevComm dc;
	ginResult_t result = ginWindowRegister(comm, memory, bytes, 0, &window);

	life->failed = "ginWindowRegister";
	if (!agreed(config, life->failed, result, &life->outcome))
		return 0;
	if (ginWindowRegister(comm, memory, bytes, GIN_WINDOW_LOCAL, &local) == ginSuccess)
		EXPECT_SUCCESS(ginWindowDeregister(comm, local));
	result = ginDevCommCreate(comm, &want, &dc);
	life->failed = "ginDevCommCreate";
	if (agreed(config, life->failed, result, &life->outcome)) {
		life->failed = NULL;
		endDevComm(config, comm, &dc);
	}
	endWindow(config, comm, window);
	return !life->failed;
}

static inline void useComm(const ginConfig_t *config, ginComm_t comm, struct life *life)
{
	void *memory = NULL;

	life->allocated = ginMemAlloc(comm, BYTES, &memory);
	if (life->allocated != ginSuccess)
		snprintf(life->allocWords, sizeof(life->allocWords), "%s", ginGetLastError());
	useWindow(config, comm, memory, memory ? BYTES : 0, life);
	EXPECT_SUCCESS(ginMemFree(comm, memory));
}

/* The limit in seconds for every life. */
#define LIFE_SECONDS 25

static inline ginResult_t openHost(const ginConfig_t *config, ginComm_t *comm)
{
	ginConfig_t host = *config;

	host.device = GIN_DEVICE_NONE;
	return ginCommInit(&host, comm);
}

/* A rank that failed before the allgather leaves it to its program, or all would wait. */
static ginAllgather_t givenAllgather;
static int gathered;

static inline int countedAllgather(void *arg, const void *in, void *out, size_t bytes)
{
	gathered++;
	return givenAllgather(arg, in, out, bytes);
}

static inline ginResult_t openCounted(const ginConfig_t *config, ginComm_t *comm)
{
	ginConfig_t counted = *config;
	static char nothing[RANKS_BYTES], all[RANKS_MOST * RANKS_BYTES];

	givenAllgather = config->allgather;
	counted.allgather = countedAllgather;
	gathered = 0;
	ginResult_t result = openHost(&counted, comm);
	if (!gathered)
		gather(config, nothing, all, RANKS_BYTES);
	return result;
}

/* From beginning to end; `afterwards` runs once the communicator is there, it may be NULL. */
static inline struct life live(const ginConfig_t *config, void (*afterwards)(void))
{
	struct life life = {.failed = "ginCommInit"};
	ginComm_t comm = NULL;

	alarm(LIFE_SECONDS); /* and until the next one begins */
	ginResult_t result = openCounted(config, &comm);
	int took[MOST_RANKS];
	gather(config, &gathered, took, sizeof(gathered));
	life.silent = !took[lackingRank];
	if (agreed(config, life.failed, result, &life.outcome)) {
		life.failed = NULL;
		if (afterwards)
			afterwards();
		useComm(config, comm, &life);
	}
	if (liftLimit)
		liftLimit();
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return life;
}

/* Without a limit all calls work. */
static inline void expectLife(const ginConfig_t *config)
{
	struct life life = live(config, NULL);

	expectThat(!life.failed && life.allocated == ginSuccess, __FILE__, __LINE__, "%s: %s %s",
		   life.failed ? life.failed : "ginMemAlloc", life.outcome.by[config->rank].words,
		   life.allocWords);
}

/* Did nothing fail on any rank? */
static inline int allLived(const ginConfig_t *config, const struct life *life)
{
	int mine = !life->failed && life->allocated == ginSuccess, all[MOST_RANKS], lived = 1;

	gather(config, &mine, all, sizeof(mine));
	for (int r = 0; r < config->nRanks; r++)
		lived &= all[r];
	return lived;
}

/* A test by `n` processes. */
static inline void runRanks(const char *name, int n, int (*run)(const ginConfig_t *config))
{
	const int *result = ranksStart(n, 0, run);
	int failed = 0;

	for (int r = 0; r < n; r++)
		failed |= result[r];
	printf("%s: %s, %d processes\n", failed ? "failed" : "ok", name, n);
	expectFailures += failed != 0;
}

/* The test three times: the first, the second and the last rank lack the resource. */
static inline void runLacking(const char *name, int n, int (*run)(const ginConfig_t *config))
{
	const int ranks[] = {0, 1, n - 1};
	char text[128];

	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
		lackingRank = ranks[i];
		snprintf(text, sizeof(text), "%s at rank %d", name, lackingRank);
		runRanks(text, n, run);
	}
}

#endif
