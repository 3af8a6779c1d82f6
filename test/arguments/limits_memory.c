/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limits_memory.c - a rank whose n-th allocation fails, for every n
 *
 * This file wraps the library's allocations (--wrap). The other ranks learn of the failure, nothing
 * leaks, and the next attempt works in these processes.
 */
/* LINK: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=tsearch */
/* NEEDS: libgin-weak.so */
#include "resource_limits.h"

#include <search.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *ptr, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__real_tsearch(const void *key, void **root, __compar_fn_t compare);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *ptr, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_tsearch(const void *key, void **root, __compar_fn_t compare);

/* Allocations of the calling thread until one fails; negative: none does. */
static _Thread_local int until = -1;
static _Thread_local int didFail;

static int mayHave(void)
{
	if (until < 0 || until--)
		return 1;
	didFail = 1;
	return 0;
}

void *__wrap_malloc(size_t bytes)
{
	return mayHave() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	return mayHave() ? __real_calloc(count, bytes) : NULL;
}

void *__wrap_realloc(void *ptr, size_t bytes)
{
	return mayHave() ? __real_realloc(ptr, bytes) : NULL;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
	return mayHave() ? __real_aligned_alloc(alignment, bytes) : NULL;
}

void *__wrap_tsearch(const void *key, void **root, __compar_fn_t compare)
{
	return mayHave() ? __real_tsearch(key, root, compare) : NULL;
}

static int next = -1; /* the allocation that will fail */

static void failLater(void)
{
	until = next;
}

static void failNone(void)
{
	until = -1;
}

/* Each allocation after the start of the communicator fails once. */
static int failEach(const ginConfig_t *config)
{
	int n = 0, more = 1, all[MOST_RANKS];

	expectLife(config);
	const struct holdings before = holdingsNow();
	for (n = 0; more; n++) {
		next = isLacking(config) ? n : -1;
		didFail = 0;
		struct life life = live(config, failLater);
		failNone();
		expectHoldings(before);
		if (life.failed)
			expectSameWords(&life.outcome, life.failed, "no memory");
		gather(config, &didFail, all, sizeof(didFail));
		more = all[lackingRank];
		expectLife(config);
	}
	EXPECT(n > 10);
	expectHoldings(before);
	return 0;
}

/* Each allocation from the start fails once. */
static int failEachFromTheBeginning(const ginConfig_t *config)
{
	int n = 0, more = 1, all[MOST_RANKS];

	expectLife(config);
	const struct holdings before = holdingsNow();
	for (n = 0; more; n++) {
		didFail = 0;
		until = isLacking(config) ? n : -1;
		struct life life = live(config, NULL);
		failNone();
		expectHoldings(before);
		if (life.failed && !life.silent)
			expectSameWords(&life.outcome, life.failed, "no memory");
		gather(config, &didFail, all, sizeof(didFail));
		more = all[lackingRank];
		expectLife(config);
	}
	EXPECT(n > 20);
	return 0;
}

int main(void)
{
	setenv("GIN_LOG", "none", 0);
	setenv("GIN_TIMEOUT", "60", 0); /* longer than a life may last */
	liftLimit = failNone;
	runLacking("no memory", 3, failEach);
	runLacking("no memory from the beginning", 3, failEachFromTheBeginning);
	setenv("GIN_ROUTE", "network", 1);
	setenv("GIN_BACKEND", "proxy", 1);
	setenv("GIN_TRANSPORT", "weak", 1); /* it connects ranks of one process only */
	lackingRank = 0;
	runRanks("no memory, proxy over a network", 1, failEach);
	runRanks("no memory from the beginning, proxy over a network", 1, failEachFromTheBeginning);
	return expectFailures != 0;
}
