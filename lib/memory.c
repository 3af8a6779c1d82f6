/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - libgin's own memory: GPU memory that can be exported, or shared host memory */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "error.h"
#include "room.h"

#define PAGE 4096u

/* All of this process: memory of one communicator may be registered with another. */
struct allocation {
	char *base;
	size_t span;
	uint64_t id;
	int fd;	     /* -1: GPU memory */
	int windows; /* registered ones that lie in it */
};

static void *allocations; /* tsearch() of struct allocation, none of which overlap */
static uint64_t lastId;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Those that overlap are equal, so that a byte finds the allocation around it. */
static int compareRanges(const void *x, const void *y)
{
	const struct allocation *a = x, *b = y;

	if (a->base + a->span <= b->base)
		return -1;
	return b->base + b->span <= a->base;
}

/* The lock is held. */
static struct allocation *allocationAround(const void *ptr)
{
	const struct allocation byte = {.base = (char *)(uintptr_t)ptr, .span = 1};
	struct allocation *const *found = tfind(&byte, &allocations, compareRanges);

	return found ? *found : NULL;
}

/* Smaller ones are not worth the question of how much memory there is left. */
#define ROOM_ASKED (1u << 20)

/* More than there is would end this process or another, by SIGXFSZ or for lack of memory. */
static ginResult_t checkRoom(size_t span)
{
	struct rlimit file = {0};
	const char *what = "";
	uint64_t room = span < ROOM_ASKED ? UINT64_MAX : roomLeft(&what);

	getrlimit(RLIMIT_FSIZE, &file);
	if (span > file.rlim_cur) {
		errno = EFBIG;
		return failErrno("no %zu bytes of shared memory, %llu at most", span,
				 (unsigned long long)file.rlim_cur);
	}
	if (span > room)
		return fail(ginErrorSystem, "no %zu bytes of shared memory: %s has %llu left", span,
			    what, (unsigned long long)room);
	return ginSuccess;
}

static ginResult_t mapShared(int fd, size_t span, void **ptr)
{
	ginResult_t result = checkRoom(span);

	if (result != ginSuccess)
		return result;
	/* Now, not by a SIGBUS later. */
	if (fallocate(fd, 0, 0, (off_t)span))
		return failErrno("no %zu bytes of shared memory", span);
	void *at = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return failErrno("cannot map %zu bytes of shared memory", span);
	*ptr = at;
	return ginSuccess;
}

static ginResult_t allocShared(struct allocation *a, void **ptr)
{
	if (a->span > SIZE_MAX / 2)
		return fail(ginErrorInvalidArgument, "%zu bytes are too many", a->span);
	a->span = (a->span + PAGE - 1) / PAGE * PAGE;
	a->fd = memfd_create("libgin", MFD_CLOEXEC);
	if (a->fd < 0)
		return failErrno("cannot create %zu bytes of shared memory", a->span);
	ginResult_t result = mapShared(a->fd, a->span, ptr);
	if (result != ginSuccess)
		close(a->fd);
	return result;
}

static void freeAllocation(const struct device *d, const struct allocation *a)
{
	if (a->fd < 0) {
		deviceUnmap(d, a->base, a->span);
		return;
	}
	munmap(a->base, a->span);
	close(a->fd);
}

static ginResult_t addAllocation(struct allocation *a)
{
	pthread_mutex_lock(&lock);
	a->id = ++lastId;
	int added = tsearch(a, &allocations, compareRanges) != NULL;
	pthread_mutex_unlock(&lock);
	return added ? ginSuccess : fail(ginErrorSystem, "no memory");
}

ginResult_t memoryAlloc(const struct device *d, size_t bytes, void **ptr)
{
	struct allocation *a = malloc(sizeof(*a));
	void *at = NULL;

	if (!a)
		return fail(ginErrorSystem, "no memory");
	*a = (struct allocation){.span = bytes, .fd = -1};
	ginResult_t result = d->cuda ? deviceMap(d, &a->span, &at) : allocShared(a, &at);
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

void memoryHold(const void *ptr, int by)
{
	pthread_mutex_lock(&lock);
	struct allocation *a = allocationAround(ptr);
	if (a)
		a->windows += by;
	pthread_mutex_unlock(&lock);
}

/* Takes it out of the tree, unless it is in a window. */
static ginResult_t takeAllocation(const void *ptr, struct allocation **out)
{
	struct allocation *a = allocationAround(ptr);

	if (!a || a->base != ptr)
		return fail(ginErrorInvalidArgument, "ptr %p is not of ginMemAlloc", ptr);
	if (a->windows)
		return fail(ginErrorInvalidUsage,
			    "ptr %p is in a registered window: call ginWindowDeregister() first",
			    ptr);
	tdelete(a, &allocations, compareRanges);
	*out = a;
	return ginSuccess;
}

ginResult_t memoryFree(const struct device *d, void *ptr)
{
	struct allocation *a = NULL;

	pthread_mutex_lock(&lock);
	ginResult_t result = takeAllocation(ptr, &a);
	pthread_mutex_unlock(&lock);
	if (result != ginSuccess)
		return result;
	freeAllocation(d, a);
	free(a);
	return ginSuccess;
}

int memoryFind(struct memory *m)
{
	pthread_mutex_lock(&lock);
	const struct allocation *a = allocationAround(m->address);
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
