/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.h - memory that libgin allocates, and the kind of memory in which a window lies
 *
 * Files: memory.c allocates, by memory_host.c or device_map.c; memory_kind.c describes any memory,
 * memory_check.c looks at it.
 */
#ifndef GIN_LIB_MEMORY_H
#define GIN_LIB_MEMORY_H

#include "device.h"

enum memoryKind {
	memoryNone,    /* zero bytes */
	memoryShared,  /* host memory with a file descriptor: ginMemAllocHost */
	memoryPrivate, /* that no other process can map: other host memory, some GPU memory */
	memoryVmm,     /* mapped memory that exports a file descriptor: ginMemAlloc with a GPU */
	memoryIpc      /* GPU memory of cudaMalloc */
};

struct memory {
	enum memoryKind kind;
	const char *what; /* "memory of a pool", for messages */
	char *address;	  /* of the described range, as threads of the device use it */
	size_t bytes;
	char *base;  /* of the allocation that contains the range */
	size_t span; /* of the allocation */
	uint64_t id; /* differs from later allocations at this base */
	int fd;	     /* memoryShared: owned by the allocation; others: -1 */
	int cpuOnly; /* memoryShared: 1: only CPUs of peers use it, so peers need not pin it */
	int onHost;  /* mapped memory: 1: some of it is on a NUMA node of the host */
	struct deviceRun run[DEVICE_RUNS]; /* memoryVmm: its pieces, which fill `span` */
};

/* Is all of it in this GPU's memory, which NICs and copy engines read through the GPU's L2? */
static inline int memoryIsGpus(const struct memory *m)
{
	return (m->kind == memoryVmm || m->kind == memoryIpc) && !m->onHost;
}

/* The memory of ginMemAlloc() and of device communicators. The caller has entered the scope. */
ginResult_t memoryAlloc(const struct device *d, size_t bytes, void **ptr);

/* Host memory that kernels of this process's GPUs and CPUs of other processes reach. */
ginResult_t memoryAllocHost(const struct device *d, size_t bytes, void **ptr);

/* As memoryAllocHost(), on NUMA node `node` if the system allows it and has room; -1: anywhere. */
ginResult_t memoryAllocOnNode(const struct device *d, size_t bytes, int node, void **ptr);

/* The device with which memory of these calls was allocated; the primary context is retained. */
ginResult_t memoryDevice(const void *ptr, struct device *out);

/* Frees memory of these calls. With a GPU, freeing host memory waits for running kernels. */
ginResult_t memoryFree(const struct device *d, void *ptr);

/*
 * Ranks of one process use each other's host memory in place. memoryUse() counts such users (`by` 1
 * or -1) of the allocation around `ptr`, if it is still the allocation `id`. In a process without a
 * GPU, memoryDrop() and memoryFree() free an allocation when it has no users: at once, or in the
 * last memoryUse().
 */
void memoryUse(const void *ptr, uint64_t id, int by);
void memoryDrop(void *ptr);

/*
 * For pinned host memory around `ptr`, which is never unpinned. memoryAbandon(): peers may still
 * write into the memory, and no window will lie in it. memoryReclaim() returns 1 when no peer can
 * write into abandoned memory any more: the memory can then be used like new memory. At most
 * MEMORY_LOST allocations of the process wait for that, with a descriptor each; further ones are
 * never reclaimed.
 */
#define MEMORY_LOST 16
void memoryAbandon(const void *ptr);
int memoryReclaim(const void *ptr);

/*
 * Host memory with a file descriptor, pinned for the GPU of `d`; with `d` NULL, or without a GPU,
 * for CPUs only. memoryHostMap() makes new, zeroed memory on `node`, and rounds `span` up to whole
 * pages. memoryHostImport() maps memory of rank `owner`; `fd` stays the caller's. Unmapping pinned
 * memory waits for running kernels. The caller has entered the scope.
 */
ginResult_t memoryHostMap(const struct device *d, size_t *span, int node, int *fd, void **ptr);
ginResult_t memoryHostImport(const struct device *d, int fd, size_t span, int owner, void **ptr);
void memoryHostUnmap(const struct device *d, void *ptr, size_t span);

/* Opens the file of a descriptor again, with separate locks. -1 without /proc. */
int memoryHostReopen(int fd);

/* Counts windows (`by` 1 or -1) in the allocation around `ptr`, if it is one of these calls. */
void memoryHold(const void *ptr, int by);

/* Fills in `m` when m->address lies in host memory of these calls; otherwise returns 0. */
int memoryFind(struct memory *m);

/*
 * Fails when CPUs of this process cannot read [ptr, ptr + bytes), host memory; or, of a target of
 * transfers, cannot write it. Makes the target's pages that belong to files.
 */
ginResult_t memoryCheck(const void *ptr, size_t bytes, int isTarget);

/*
 * Describe [ptr, ptr + bytes) for a window of all ranks, or for a local window, which is a source
 * only. They fail when such a window can never lie in this memory. The caller has entered the
 * scope.
 */
ginResult_t memoryDescribe(const struct device *d, void *ptr, size_t bytes, struct memory *out);
ginResult_t memoryDescribeLocal(const struct device *d, void *ptr, size_t bytes,
				struct memory *out);

#endif
