/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pinned.c - memory through which CPU threads and a GPU talk
 *
 * Unpinning waits for every kernel that runs on the device, so that nothing is ever unpinned:
 * blocks are kept in a list of the process. They are shared memory, whoever asks: then each serves
 * all.
 */
#include "pinned.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "memory.h"

#define PAGE 4096u

struct block {
	void *ptr;
	size_t bytes; /* whole pages */
	int node;
	int isFree;
	struct block *next;
};

static struct block *blocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Not one of more than twice the size, which somebody else may need. */
static int suits(const struct block *b, size_t bytes, int node)
{
	return b->isFree && b->node == node && b->bytes >= bytes && b->bytes / 2 <= bytes;
}

static struct block *takeBlock(size_t bytes, int node)
{
	pthread_mutex_lock(&lock);
	struct block *b = blocks;
	while (b && !suits(b, bytes, node))
		b = b->next;
	if (b)
		b->isFree = 0;
	pthread_mutex_unlock(&lock);
	return b;
}

static ginResult_t addBlock(const struct device *d, size_t bytes, int node, void **ptr)
{
	struct block *b = malloc(sizeof(*b));

	if (!b)
		return fail(ginErrorSystem, "no memory");
	*b = (struct block){.bytes = bytes, .node = node};
	ginResult_t result = memoryAllocNear(d, bytes, node, &b->ptr);
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

static ginResult_t allocPinned(const struct device *d, size_t bytes, int node, void **ptr)
{
	size_t span = bytes <= SIZE_MAX - PAGE ? (bytes + PAGE - 1) / PAGE * PAGE : bytes;
	struct block *b = takeBlock(span, node);

	if (!b)
		return addBlock(d, span, node, ptr);
	ginResult_t result = deviceCheckPinned(d, b->ptr); /* another GPU may have pinned it */
	if (result != ginSuccess) {
		pinnedFree(d, b->ptr);
		return result;
	}
	memset(b->ptr, 0, bytes);
	*ptr = b->ptr;
	return ginSuccess;
}

/* An allocation of its own each, so that AddressSanitizer sees its end. */
static ginResult_t allocPrivate(size_t bytes, void **ptr)
{
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

ginResult_t pinnedAllocShared(const struct device *d, size_t bytes, int node, void **ptr)
{
	return d->cuda ? allocPinned(d, bytes, node, ptr) : memoryAllocNear(d, bytes, node, ptr);
}

static void giveBack(const void *ptr)
{
	pthread_mutex_lock(&lock);
	for (struct block *b = blocks; b; b = b->next)
		if (b->ptr == ptr)
			b->isFree = 1;
	pthread_mutex_unlock(&lock);
}

void pinnedFree(const struct device *d, void *ptr)
{
	struct memory memory = {.address = ptr};

	if (d->cuda)
		giveBack(ptr);
	else if (ptr && memoryFind(&memory))
		memoryFree(d, ptr);
	else
		free(ptr);
}
