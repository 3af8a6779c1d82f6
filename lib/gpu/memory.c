/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - memory that libgin allocates: exportable GPU memory, or shared host memory */
#include "memory.h"

#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/base/error.h"

/* One list for the process: memory of one communicator may be registered with another. */
struct memoryAllocation {
	char *base;
	size_t span;
	uint64_t id;
	int fd;	      /* -1: GPU memory, or abandoned memory */
	int lost;     /* of abandoned memory: a descriptor to test the peers' lock; -1: none */
	int isPinned; /* host memory that GPUs reach */
	int windows;  /* registered windows that lie in it */
	int users;    /* memoryUse() */
	int isDropped;
	struct device device; /* by which it was allocated */
};

static void *allocations; /* tsearch() of struct memoryAllocation; none overlap */
static uint64_t lastId;
static int lostFiles; /* descriptors of abandoned memory */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The end of a range may be beyond the last address: a peer of this process may name any range. */
static uintptr_t lastByte(const struct memoryAllocation *a)
{
	return (uintptr_t)a->base + (a->span - 1);
}

/* Ranges that overlap are equal, so that a byte finds the allocation around it. */
static int compareRanges(const void *x, const void *y)
{
	const struct memoryAllocation *a = x, *b = y;

	if (lastByte(a) < (uintptr_t)b->base)
		return -1;
	return lastByte(b) < (uintptr_t)a->base;
}

/* The caller holds the lock. */
static struct memoryAllocation *allocationAround(const void *ptr)
{
	const struct memoryAllocation byte = {.base = (char *)(uintptr_t)ptr, .span = 1};
	struct memoryAllocation *const *found = tfind(&byte, &allocations, compareRanges);

	return found ? *found : NULL;
}

static void freeAllocation(const struct device *d, const struct memoryAllocation *a)
{
	if (a->fd < 0) {
		deviceUnmap(d, a->base, a->span);
		return;
	}
	if (a->isPinned)
		deviceUnpin(d, a->base);
	munmap(a->base, a->span);
	close(a->fd);
}

static ginResult_t addAllocation(struct memoryAllocation *a)
{
	pthread_mutex_lock(&lock);
	a->id = ++lastId;
	int added = tsearch(a, &allocations, compareRanges) != NULL;
	pthread_mutex_unlock(&lock);
	return added ? ginSuccess : fail(ginErrorSystem, "no memory");
}

static ginResult_t mapNew(const struct device *d, int onHost, int node, struct memoryAllocation *a,
			  void **at)
{
	return onHost ? memoryHostMap(d, &a->span, node, &a->fd, at) : deviceMap(d, &a->span, at);
}

static ginResult_t alloc(const struct device *d, int onHost, int node, size_t bytes, void **ptr)
{
	struct memoryAllocation *a = malloc(sizeof(*a));
	void *at = NULL;

	if (!a)
		return fail(ginErrorSystem, "no memory");
	*a = (struct memoryAllocation){
		.span = bytes, .fd = -1, .lost = -1, .isPinned = onHost && d->cuda, .device = *d};
	ginResult_t result = mapNew(d, onHost, node, a, &at);
	if (result == ginSuccess) {
		a->base = at;
		result = addAllocation(a);
		if (result != ginSuccess)
			freeAllocation(d, a);
	}
	if (result != ginSuccess) {
		free(a);
		return result;
	}
	*ptr = at;
	return ginSuccess;
}

ginResult_t memoryAlloc(const struct device *d, size_t bytes, void **ptr)
{
	return alloc(d, !d->cuda, -1, bytes, ptr);
}

ginResult_t memoryAllocHost(const struct device *d, size_t bytes, void **ptr)
{
	return memoryAllocOnNode(d, bytes, -1, ptr);
}

ginResult_t memoryAllocOnNode(const struct device *d, size_t bytes, int node, void **ptr)
{
	return alloc(d, 1, node, bytes, ptr);
}

void memoryHold(const void *ptr, int by)
{
	pthread_mutex_lock(&lock);
	struct memoryAllocation *a = allocationAround(ptr);
	if (a)
		a->windows += by;
	pthread_mutex_unlock(&lock);
}

static ginResult_t notAllocated(const void *ptr)
{
	return fail(ginErrorInvalidArgument, "ptr %p is not from ginMemAlloc or ginMemAllocHost",
		    ptr);
}

ginResult_t memoryDevice(const void *ptr, struct device *out)
{
	pthread_mutex_lock(&lock);
	const struct memoryAllocation *a = allocationAround(ptr);
	int found = a && a->base == ptr;
	if (found)
		*out = a->device;
	pthread_mutex_unlock(&lock);
	return found ? ginSuccess : notAllocated(ptr);
}

/*
 * Removes the allocation from the tree, unless a window lies in it. The last user frees memory that
 * another rank of this process uses in place, after a failure for example: *out is then NULL.
 */
static ginResult_t takeAllocation(const struct device *d, const void *ptr,
				  struct memoryAllocation **out)
{
	struct memoryAllocation *a = allocationAround(ptr);

	if (!a || a->base != ptr || a->isDropped)
		return notAllocated(ptr);
	if (!d->cuda && (a->fd < 0 || a->isPinned))
		return fail(ginErrorInvalidArgument,
			    "ptr %p is from a communicator with a GPU: free it with one", ptr);
	if (a->windows)
		return fail(ginErrorInvalidUsage,
			    "ptr %p is in a registered window: call ginWindowDeregister() first",
			    ptr);
	a->isDropped = !d->cuda && a->users;
	if (a->isDropped)
		return ginSuccess;
	tdelete(a, &allocations, compareRanges);
	*out = a;
	return ginSuccess;
}

ginResult_t memoryFree(const struct device *d, void *ptr)
{
	struct memoryAllocation *a = NULL;

	pthread_mutex_lock(&lock);
	ginResult_t result = takeAllocation(d, ptr, &a);
	pthread_mutex_unlock(&lock);
	if (result != ginSuccess || !a)
		return result;
	freeAllocation(d, a);
	free(a);
	return ginSuccess;
}

/* The caller holds the lock. */
static void freeUnused(struct memoryAllocation *a)
{
	if (!a->isDropped || a->users)
		return;
	tdelete(a, &allocations, compareRanges);
	munmap(a->base, a->span);
	close(a->fd);
	free(a);
}

void memoryUse(const void *ptr, uint64_t id, int by)
{
	pthread_mutex_lock(&lock);
	struct memoryAllocation *a = allocationAround(ptr);
	if (a && a->id == id) {
		a->users += by;
		freeUnused(a);
	}
	pthread_mutex_unlock(&lock);
}

void memoryDrop(void *ptr)
{
	pthread_mutex_lock(&lock);
	struct memoryAllocation *a = allocationAround(ptr);
	if (a) {
		a->isDropped = 1;
		freeUnused(a);
	}
	pthread_mutex_unlock(&lock);
}

/*
 * Peers share the open file of a->fd, which this process does not map: see memoryHostMap(). A lock
 * of an open file lasts until no process maps the file or has a descriptor of it, and no message
 * carries one. So the lock taken here ends when the last peer unmaps the memory, or dies.
 */
void memoryAbandon(const void *ptr)
{
	pthread_mutex_lock(&lock);
	struct memoryAllocation *a = allocationAround(ptr);
	if (a && a->fd >= 0) {
		if (lostFiles < MEMORY_LOST && !flock(a->fd, LOCK_SH))
			a->lost = memoryHostReopen(a->fd);
		lostFiles += a->lost >= 0;
		close(a->fd);
		a->fd = -1;
	}
	pthread_mutex_unlock(&lock);
}

int memoryReclaim(const void *ptr)
{
	pthread_mutex_lock(&lock);
	struct memoryAllocation *a = allocationAround(ptr);
	int isFree = a && a->lost >= 0 && !a->users && !flock(a->lost, LOCK_EX | LOCK_NB);
	if (isFree) {
		flock(a->lost, LOCK_UN);
		a->fd = a->lost;
		a->lost = -1;
		a->id = ++lastId;
		lostFiles--;
	}
	pthread_mutex_unlock(&lock);
	return isFree;
}

int memoryFind(struct memory *m)
{
	pthread_mutex_lock(&lock);
	const struct memoryAllocation *a = allocationAround(m->address);
	int found = a && a->fd >= 0;
	if (found) {
		m->kind = memoryShared;
		m->base = a->base;
		m->span = a->span;
		m->id = a->id;
		m->fd = a->fd;
	}
	pthread_mutex_unlock(&lock);
	return found;
}
