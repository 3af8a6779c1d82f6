/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pinned.c - memory through which CPU threads and a GPU communicate
 *
 * Unpinning waits for every kernel that runs on the device, so nothing is ever unpinned: freed
 * blocks stay in a list of the process. Every block of whole pages is shared memory, so that it
 * serves pinnedAlloc() and pinnedAllocShared(). A block that peers may still write is not reused
 * until all of them have unmapped it. The primary context, in which the memory is pinned, is never
 * released (device.c).
 */
#include "pinned.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "memory.h"
#include "room.h"

#define PAGE 4096u
#define CHUNK (32 * PAGE) /* which is cut into small blocks */

struct pinnedBlock {
	void *ptr;
	size_t bytes; /* whole pages, or PINNED_SMALL of a chunk */
	int node;
	int isFree, isLost;
	struct pinnedBlock *next;
};

static struct pinnedBlock *blocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A block of more than twice the size is left to callers that need more. */
static int suits(const struct pinnedBlock *b, size_t bytes, int node)
{
	return b->isFree && b->node == node && b->bytes >= bytes && b->bytes / 2 <= bytes;
}

/* The caller holds the lock. */
static void reclaimBlocks(void)
{
	for (struct pinnedBlock *b = blocks; b; b = b->next)
		if (b->isLost && memoryReclaim(b->ptr)) {
			b->isLost = 0;
			b->isFree = 1;
		}
}

static struct pinnedBlock *takeBlock(size_t bytes, int node)
{
	pthread_mutex_lock(&lock);
	reclaimBlocks();
	struct pinnedBlock *b = blocks;
	while (b && !suits(b, bytes, node))
		b = b->next;
	if (b)
		b->isFree = 0;
	pthread_mutex_unlock(&lock);
	return b;
}

static ginResult_t addBlock(const struct device *d, size_t bytes, int node, void **ptr)
{
	struct pinnedBlock *b = malloc(sizeof(*b));

	if (!b)
		return fail(ginErrorSystem, "no memory");
	*b = (struct pinnedBlock){.bytes = bytes, .node = node};
	ginResult_t result = memoryAllocOnNode(d, bytes, node, &b->ptr);
	if (result != ginSuccess) {
		free(b);
		return result;
	}
	pthread_mutex_lock(&lock);
	b->next = blocks;
	blocks = b;
	pthread_mutex_unlock(&lock);
	*ptr = b->ptr;
	return ginSuccess;
}

/* The chunk and its records are never freed. */
static ginResult_t addChunk(const struct device *d)
{
	struct pinnedBlock *each = calloc(CHUNK / PINNED_SMALL, sizeof(*each));
	void *chunk = NULL;

	if (!each)
		return fail(ginErrorSystem, "no memory");
	ginResult_t result = memoryAllocHost(d, CHUNK, &chunk);
	if (result != ginSuccess) {
		free(each);
		return result;
	}
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < CHUNK / PINNED_SMALL; i++) {
		each[i] = (struct pinnedBlock){.ptr = (char *)chunk + i * PINNED_SMALL,
					       .bytes = PINNED_SMALL,
					       .node = -1,
					       .isFree = 1,
					       .next = blocks};
		blocks = &each[i];
	}
	pthread_mutex_unlock(&lock);
	return ginSuccess;
}

/* Another GPU may have pinned the block. */
static ginResult_t reuse(const struct device *d, const struct pinnedBlock *b, size_t bytes,
			 void **ptr)
{
	ginResult_t result = deviceCheckPinned(d, b->ptr);

	if (result != ginSuccess) {
		pinnedFree(d, b->ptr);
		return result;
	}
	memset(b->ptr, 0, bytes);
	*ptr = b->ptr;
	return ginSuccess;
}

static ginResult_t allocPinned(const struct device *d, size_t bytes, int node, void **ptr)
{
	size_t span = bytes <= SIZE_MAX - PAGE ? (bytes + PAGE - 1) / PAGE * PAGE : bytes;
	const struct pinnedBlock *b = takeBlock(span, node);

	return b ? reuse(d, b, bytes, ptr) : addBlock(d, span, node, ptr);
}

static ginResult_t allocSmall(const struct device *d, size_t bytes, void **ptr)
{
	const struct pinnedBlock *b = takeBlock(PINNED_SMALL, -1);

	while (!b) { /* another thread may take all blocks of the new chunk */
		ginResult_t result = addChunk(d);
		if (result != ginSuccess)
			return result;
		b = takeBlock(PINNED_SMALL, -1);
	}
	return reuse(d, b, bytes, ptr);
}

/* One allocation for each block, so that AddressSanitizer sees where the block ends. */
static ginResult_t allocPrivate(size_t bytes, void **ptr)
{
	ginResult_t result = roomCheck(bytes, "host memory");

	if (result != ginSuccess)
		return result;
	void *at = bytes <= SIZE_MAX - 64 ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
	if (!at)
		return fail(ginErrorSystem, "no memory");
	memset(at, 0, bytes);
	*ptr = at;
	return ginSuccess;
}

ginResult_t pinnedAlloc(const struct device *d, size_t bytes, int node, void **ptr)
{
	return d->cuda ? allocPinned(d, bytes, node, ptr) : allocPrivate(bytes, ptr);
}

ginResult_t pinnedAllocSmall(const struct device *d, size_t bytes, void **ptr)
{
	return d->cuda ? allocSmall(d, bytes, ptr) : allocPrivate(bytes, ptr);
}

ginResult_t pinnedAllocShared(const struct device *d, size_t bytes, int node, void **ptr)
{
	return d->cuda ? allocPinned(d, bytes, node, ptr) : memoryAllocOnNode(d, bytes, node, ptr);
}

static void giveBack(const void *ptr, int isLost)
{
	pthread_mutex_lock(&lock);
	for (struct pinnedBlock *b = blocks; b; b = b->next)
		if (b->ptr == ptr) {
			b->isFree = !isLost;
			b->isLost = isLost;
		}
	pthread_mutex_unlock(&lock);
}

void pinnedFree(const struct device *d, void *ptr)
{
	struct memory memory = {.address = ptr};

	if (d->cuda)
		giveBack(ptr, 0);
	else if (ptr && memoryFind(&memory))
		memoryFree(d, ptr);
	else
		free(ptr);
}

void pinnedAbandon(const struct device *d, void *ptr)
{
	if (!d->cuda) {
		memoryDrop(ptr);
		return;
	}
	memoryAbandon(ptr);
	giveBack(ptr, 1);
}
