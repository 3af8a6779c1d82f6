/* SPDX-License-Identifier: BSD-3-Clause */
/* word_locks.c - a lock for each rank, of the words in its GPU memory */
#include "word_locks.h"

#include <stdlib.h>

#define LOCK_BYTES 64

static int isServed(const void *of, int rank)
{
	const struct wordLocks *locks = of;

	return locks->serves[rank];
}

ginResult_t wordLocksMake(const struct backendHost *host, const uint8_t *serves,
			  struct wordLocks *locks)
{
	const struct peermemPeers peers = {isServed, locks};

	*locks = (struct wordLocks){.host = host, .serves = serves};
	locks->of = calloc((size_t)host->nRanks, sizeof(*locks->of));
	if (!locks->of)
		return fail(ginErrorSystem, "no memory");
	return peermemOpen(host, "proxy", &peers, &locks->peermem);
}

/* Only CPUs use the lock. */
static ginResult_t offerOwn(struct wordLocks *locks, void *offer)
{
	const struct device *d = locks->host->device;
	struct memory memory = {0};
	ginResult_t result = pinnedAllocShared(d, LOCK_BYTES, d->numaNode, &locks->own);

	if (result == ginSuccess)
		result = memoryDescribe(d, locks->own, LOCK_BYTES, &memory);
	memory.cpuOnly = 1;
	return result == ginSuccess ? peermemOffer(locks->peermem, &memory, offer, &locks->window)
				    : result;
}

static void findAll(struct wordLocks *locks)
{
	for (int r = 0; r < locks->host->nRanks; r++)
		locks->of[r] = (struct wordLock *)(void *)peermemAddress(locks->window, r);
	locks->of[locks->host->rank] = locks->own;
}

ginResult_t wordLocksConnect(struct wordLocks *locks, const char *call, ginResult_t mine)
{
	const struct backendHost *host = locks->host;
	uint8_t own[BACKEND_OFFER] = {0}, *all = calloc((size_t)host->nRanks, sizeof(own));

	if (!all)
		mine = fail(ginErrorSystem, "no memory");
	if (mine == ginSuccess)
		mine = offerOwn(locks, own);
	mine = host->allgather(host->core, call, mine, own, all, sizeof(own));
	if (mine == ginSuccess)
		mine = peermemRegister(locks->peermem, mine, all, sizeof(own), locks->window);
	if (mine == ginSuccess)
		findAll(locks);
	free(all);
	return host->allgather(host->core, call, mine, NULL, NULL, 0);
}

/* After a failure, a peer may still write into the lock. */
static void freeOwn(const struct wordLocks *locks)
{
	const struct backendHost *host = locks->host;

	if (host->hasFailed(host->core))
		pinnedAbandon(host->device, locks->own);
	else
		pinnedFree(host->device, locks->own);
}

void wordLocksClose(struct wordLocks *locks)
{
	if (locks->window)
		peermemDeregister(locks->peermem, locks->window);
	if (locks->own)
		freeOwn(locks);
	peermemClose(locks->peermem);
	free(locks->of);
}
