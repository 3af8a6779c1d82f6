/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - libgin's own memory: GPU memory that can be exported, or shared host memory */
#include "memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "error.h"

#define PAGE 4096u

/* All of this process: memory of one communicator may be registered with another. */
struct allocation {
	char *base;
	size_t span;
	int fd;	     /* -1: GPU memory */
	int windows; /* registered ones that lie in it */
	struct allocation *next;
};

static struct allocation *allocations;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static ginResult_t mapShared(int fd, size_t span, void **ptr)
{
	/* Now, not by a SIGBUS later. */
	if (fallocate(fd, 0, 0, (off_t)span))
		return fail(ginErrorSystem, "no %zu bytes of shared memory: %m", span);
	void *at = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return fail(ginErrorSystem, "cannot map %zu bytes of shared memory: %m", span);
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
		return fail(ginErrorSystem, "cannot create shared memory: %m");
	ginResult_t result = mapShared(a->fd, a->span, ptr);
	if (result != ginSuccess)
		close(a->fd);
	return result;
}

ginResult_t memoryAlloc(const struct device *d, size_t bytes, void **ptr)
{
	struct allocation *a = malloc(sizeof(*a));
	void *at = NULL;

	if (!a)
		return fail(ginErrorSystem, "no memory");
	*a = (struct allocation){.span = bytes, .fd = -1};
	ginResult_t result = d->cuda ? deviceMap(d, &a->span, &at) : allocShared(a, &at);
	if (result != ginSuccess) {
		free(a);
		return result;
	}
	a->base = at;
	pthread_mutex_lock(&lock);
	a->next = allocations;
	allocations = a;
	pthread_mutex_unlock(&lock);
	*ptr = at;
	return ginSuccess;
}

void memoryHold(const void *ptr, int by)
{
	const char *at = ptr;

	pthread_mutex_lock(&lock);
	for (struct allocation *a = allocations; a; a = a->next)
		if (at >= a->base && at < a->base + a->span)
			a->windows += by;
	pthread_mutex_unlock(&lock);
}

/* Takes it off the list, unless it is in a window. */
static ginResult_t takeAllocation(const void *ptr, struct allocation **out)
{
	struct allocation **at = &allocations;

	while (*at && (*at)->base != ptr)
		at = &(*at)->next;
	if (!*at)
		return fail(ginErrorInvalidArgument, "ptr %p is not of ginMemAlloc", ptr);
	if ((*at)->windows)
		return fail(ginErrorInvalidUsage,
			    "ptr %p is in a registered window: call ginWindowDeregister() first",
			    ptr);
	*out = *at;
	*at = (*at)->next;
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
	if (a->fd < 0) {
		deviceUnmap(d, a->base, a->span);
	} else {
		munmap(a->base, a->span);
		close(a->fd);
	}
	free(a);
	return ginSuccess;
}

static void describeHost(struct memory *m)
{
	m->kind = memoryPrivate;
	pthread_mutex_lock(&lock);
	for (struct allocation *a = allocations; a; a = a->next) {
		if (a->fd < 0 || m->address < a->base || m->address >= a->base + a->span)
			continue;
		m->kind = memoryShared;
		m->base = a->base;
		m->span = a->span;
		m->fd = a->fd;
	}
	pthread_mutex_unlock(&lock);
}

/* Can the memory at `ptr` be exported by a file descriptor? 0 also when it is not VMM memory. */
static int isVmm(const struct device *d, void *ptr, int *exportable)
{
	cuAllocation allocation;
	cuAllocationProp prop = {0};

	if (d->cuda->allocationRetain(&allocation, ptr))
		return 0;
	*exportable = !d->cuda->allocationProp(&prop, allocation) && (prop.handleTypes & cuPosixFd);
	d->cuda->allocationRelease(allocation);
	return 1;
}

static ginResult_t describeGpu(const struct device *d, struct memory *m)
{
	cuPtr at = (cuPtr)(uintptr_t)m->address, base = 0;
	int type = 0, ordinal = -1, exportable = 0;

	d->cuda->pointerAttribute(&type, cuPointerMemoryType, at);
	if (type != cuMemoryIsDevice)
		return fail(ginErrorInvalidArgument,
			    "ptr %p is host memory, which peers' GPUs do not reach: use "
			    "ginMemAlloc() or cudaMalloc()",
			    (void *)m->address);
	d->cuda->pointerAttribute(&ordinal, cuPointerOrdinal, at);
	if (ordinal != d->ordinal)
		return fail(ginErrorInvalidArgument,
			    "ptr %p is memory of GPU %d, the communicator's is GPU %d",
			    (void *)m->address, ordinal, d->ordinal);
	cuResult result = d->cuda->addressRange(&base, &m->span, at);
	if (result)
		return cudaFail(d->cuda, "cuMemGetAddressRange", result);
	m->base = (char *)(uintptr_t)base;
	m->kind = isVmm(d, m->address, &exportable) ? memoryVmm : memoryIpc;
	if (m->kind == memoryVmm && !exportable)
		return fail(ginErrorInvalidArgument,
			    "ptr %p was allocated without a POSIX file descriptor handle (a memory "
			    "pool's, say): use ginMemAlloc() or cudaMalloc()",
			    (void *)m->address);
	return ginSuccess;
}

ginResult_t memoryDescribe(const struct device *d, void *ptr, size_t bytes, struct memory *out)
{
	ginResult_t result = ginSuccess;

	*out = (struct memory){.kind = memoryNone,
			       .address = ptr,
			       .bytes = bytes,
			       .base = ptr,
			       .span = bytes,
			       .fd = -1};
	if (!bytes)
		return ginSuccess;
	if (d->cuda)
		result = describeGpu(d, out);
	else
		describeHost(out);
	if (result != ginSuccess || bytes <= (size_t)(out->base + out->span - out->address))
		return result;
	return fail(ginErrorInvalidArgument,
		    "ptr %p with %zu bytes is more than the one allocation of %zu bytes at %p", ptr,
		    bytes, out->span, (void *)out->base);
}
