/* SPDX-License-Identifier: BSD-3-Clause */
/* block.c - blocks, and which one is around an address */
#include "symm.h"

#include <search.h>
#include <stdlib.h>

static void *blocks; /* tsearch() of struct symmBlock; none overlap */

static uintptr_t lastByte(const struct symmBlock *b)
{
	return (uintptr_t)b->memory.base + (b->bytes ? b->bytes - 1 : 0);
}

/* Ranges that overlap are equal, so that a byte finds the block around it. */
static int compare(const void *x, const void *y)
{
	const struct symmBlock *a = x, *b = y;

	if (lastByte(a) < (uintptr_t)b->memory.base)
		return -1;
	return lastByte(b) < (uintptr_t)a->memory.base;
}

struct symmBlock *symmBlockAround(const void *ptr)
{
	const struct symmBlock byte = {.memory.base = (void *)(uintptr_t)ptr, .bytes = 1};
	struct symmBlock *const *found = tfind(&byte, &blocks, compare);

	return found ? *found : NULL;
}

void symmBlockDrop(struct symmBlock *block)
{
	if (!--block->refs)
		symmMemoryLater(&block->memory);
}

ginResult_t symmRefuseChild(void)
{
	return symmFail(ginErrorInvalidUsage,
			"this process is a fork of the one that uses symmetric memory: "
			"start processes by exec, as torch.multiprocessing's \"spawn\" does");
}

static ginResult_t add(struct symmBlock *block)
{
	pthread_mutex_lock(&symmLock);
	int added = tsearch(block, &blocks, compare) != NULL;
	if (!added)
		symmMemoryLater(&block->memory);
	pthread_mutex_unlock(&symmLock);
	if (added)
		return ginSuccess;
	symmSweep();
	return symmFail(ginErrorSystem, "no memory");
}

ginResult_t ginSymmAlloc(int device, size_t bytes, void **ptr)
{
	struct symmGpu *gpu = NULL;
	ginResult_t result;

	if (symmIsChild())
		return symmRefuseChild();
	if (device != GIN_DEVICE_NONE && (result = symmGpuOpen(device, &gpu)))
		return result;
	struct symmBlock *block = calloc(1, sizeof(*block));
	if (!block)
		return symmFail(ginErrorSystem, "no memory");
	block->bytes = bytes;
	block->device = device;
	block->refs = 1;
	if ((result = symmMemoryMake(gpu, bytes ? bytes : 1, &block->memory))) {
		free(block);
		return result;
	}
	void *base = block->memory.base;
	if ((result = add(block)))
		return result;
	*ptr = base;
	return ginSuccess;
}

/* Takes the block out of the tree, and its peers out of the block. NULL: there is no such block. */
static struct symmBlock *take(void *ptr, struct ginSymmPeers **peers)
{
	pthread_mutex_lock(&symmLock);
	struct symmBlock *block = symmBlockAround(ptr);
	if (block && block->memory.base == ptr) {
		tdelete(block, &blocks, compare);
		*peers = block->peers;
		block->peers = NULL;
	} else {
		block = NULL;
	}
	pthread_mutex_unlock(&symmLock);
	return block;
}

ginResult_t ginSymmFree(void *ptr)
{
	struct ginSymmPeers *peers, *next;

	if (symmIsChild())
		return ginSuccess; /* the memory is the parent's */
	struct symmBlock *block = take(ptr, &peers);
	if (!block)
		return symmFail(ginErrorInvalidArgument, "ptr %p is not from ginSymmAlloc()", ptr);
	for (; peers; peers = next) {
		next = peers->nextOfBlock;
		symmPeersDrop(peers);
	}
	pthread_mutex_lock(&symmLock);
	symmBlockDrop(block);
	pthread_mutex_unlock(&symmLock);
	symmSweep();
	return ginSuccess;
}

ginResult_t ginSymmFind(const void *ptr, void **base, size_t *bytes, int *device)
{
	pthread_mutex_lock(&symmLock);
	const struct symmBlock *block = symmBlockAround(ptr);
	*base = block ? block->memory.base : NULL;
	*bytes = block ? block->bytes : 0;
	*device = block ? block->device : GIN_DEVICE_NONE;
	pthread_mutex_unlock(&symmLock);
	return ginSuccess;
}
