/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.c - small tables that kernels read */
#include "pool.h"

#include <stdlib.h>

#include "lib/base/error.h"
#include "room.h"

/* The record of a block lies on the host: the CPU cannot write into the GPU's memory. */
struct poolBlock {
	void *ptr;
	size_t bytes;
	struct poolBlock *next;
};

static size_t blockBytes(size_t bytes, int *sizeIndex)
{
	size_t size = 64;

	for (*sizeIndex = 0; size < bytes; (*sizeIndex)++)
		size *= 2;
	return size;
}

static ginResult_t push(struct poolBlock **list, void *ptr, size_t bytes)
{
	struct poolBlock *block = malloc(sizeof(*block));

	if (!block)
		return fail(ginErrorSystem, "no memory");
	*block = (struct poolBlock){ptr, bytes, *list};
	*list = block;
	return ginSuccess;
}

static void *pop(struct poolBlock **list, size_t *bytes)
{
	struct poolBlock *block = *list;
	void *ptr = block->ptr;

	*bytes = block->bytes;
	*list = block->next;
	free(block);
	return ptr;
}

static ginResult_t addChunk(struct pool *pool, size_t bytes)
{
	size_t span = bytes;
	void *ptr;
	ginResult_t result = deviceMap(pool->device, &span, &ptr);

	if (result != ginSuccess)
		return result;
	result = push(&pool->chunks, ptr, span);
	if (result != ginSuccess) {
		deviceUnmap(pool->device, ptr, span);
		return result;
	}
	pool->next = ptr;
	pool->left = span;
	return ginSuccess;
}

static ginResult_t allocOnHost(size_t bytes, void **ptr)
{
	ginResult_t result = roomCheck(bytes, "host memory");

	if (result != ginSuccess)
		return result;
	*ptr = aligned_alloc(64, (bytes + 63) / 64 * 64);
	return *ptr ? ginSuccess : fail(ginErrorSystem, "no memory");
}

ginResult_t poolAlloc(struct pool *pool, size_t bytes, void **ptr)
{
	int index;
	size_t size = blockBytes(bytes, &index);

	if (!pool->device->cuda)
		return allocOnHost(bytes, ptr);
	if (pool->free[index]) {
		*ptr = pop(&pool->free[index], &size);
		return ginSuccess;
	}
	if (pool->left < size) {
		ginResult_t result = addChunk(pool, size);
		if (result != ginSuccess)
			return result;
	}
	*ptr = pool->next;
	pool->next += size;
	pool->left -= size;
	return ginSuccess;
}

void poolFree(struct pool *pool, void *ptr, size_t bytes)
{
	int index;
	size_t size = blockBytes(bytes, &index);

	if (!ptr)
		return;
	if (!pool->device->cuda)
		free(ptr);
	else
		push(&pool->free[index], ptr,
		     size); /* when this fails, the block stays unused until poolClose() */
}

ginResult_t poolAllocHandle(struct pool *pool, enum poolKind kind, size_t bytes, void **ptr)
{
	struct poolKept *kept = &pool->kept[kind];

	if (kept->count <= POOL_KEPT)
		return poolAlloc(pool, bytes, ptr);
	*ptr = pop(&kept->oldest, &bytes);
	kept->count--;
	return ginSuccess;
}

void poolKeep(struct pool *pool, enum poolKind kind, void *ptr, size_t bytes)
{
	struct poolKept *kept = &pool->kept[kind];
	struct poolBlock *block = ptr ? malloc(sizeof(*block)) : NULL;

	if (!block) {
		poolFree(pool, ptr, bytes);
		return;
	}
	*block = (struct poolBlock){ptr, bytes, NULL};
	*(kept->oldest ? &kept->newest->next : &kept->oldest) = block;
	kept->newest = block;
	kept->count++;
}

void poolClose(struct pool *pool)
{
	size_t bytes;

	for (int kind = 0; kind < POOL_KINDS; kind++)
		while (pool->kept[kind].oldest) {
			void *ptr = pop(&pool->kept[kind].oldest, &bytes);
			poolFree(pool, ptr, bytes);
		}
	for (int i = 0; i < POOL_SIZES; i++)
		while (pool->free[i])
			pop(&pool->free[i], &bytes);
	while (pool->chunks) {
		void *ptr = pop(&pool->chunks, &bytes);
		deviceUnmap(pool->device, ptr, bytes);
	}
}
