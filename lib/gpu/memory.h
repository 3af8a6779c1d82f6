/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.h - what kind of memory a window lies in, and memory of libgin's own
 *
 * memory.c libgin's own, by memory_host.c or device_map.c; memory_kind.c any.
 */
#ifndef GIN_LIB_MEMORY_H
#define GIN_LIB_MEMORY_H

#include "device.h"

enum memoryKind {
	memoryNone,    /* zero bytes */
	memoryShared,  /* host memory behind a file descriptor: ginMemAllocHost */
	memoryPrivate, /* of this process alone: other host memory; GPU memory that stays here */
	memoryVmm,     /* GPU memory that exports a file descriptor: ginMemAlloc on a GPU */
	memoryIpc      /* GPU memory of cudaMalloc */
};

struct memory {
	enum memoryKind kind;
	const char *what; /* "memory of a pool", for messages */
	char *address;	  /* of the window, as threads of the device use it */
	size_t bytes;
	char *base;  /* of the allocation that holds it */
	size_t span; /* of the allocation */
	uint64_t id; /* tells it from later ones at the same base */
	int fd;	     /* memoryShared: borrowed from the allocation; else -1 */
	int cpuOnly; /* memoryShared: peers use it by their CPUs, and need not pin it; else 0 */
};

/* libgin's own memory, as ginMemAlloc() and device communicators use it. The scope is entered. */
ginResult_t memoryAlloc(const struct device *d, size_t bytes, void **ptr);

/* The same on the host: kernels of this process's GPUs reach it, and CPUs of other processes. */
ginResult_t memoryAllocHost(const struct device *d, size_t bytes, void **ptr);

/* And on NUMA node `node`, where the system has room there and lets us say so; -1: anywhere. */
ginResult_t memoryAllocNear(const struct device *d, size_t bytes, int node, void **ptr);

/* Frees what these gave; that of the host waits for kernels that run, where there is a GPU. */
ginResult_t memoryFree(const struct device *d, void *ptr);

/*
 * Host memory behind a file descriptor, pinned where there is a GPU, or with `d` NULL for CPUs
 * alone: new, zeroed, near `node`, and `span` rounded up to whole pages; or that of rank `owner`,
 * whose `fd` stays the caller's. Unmapping what is pinned waits for kernels that run. The scope is
 * entered.
 */
ginResult_t memoryHostMap(const struct device *d, size_t *span, int node, int *fd, void **ptr);
ginResult_t memoryHostImport(const struct device *d, int fd, size_t span, int owner, void **ptr);
void memoryHostUnmap(const struct device *d, void *ptr, size_t span);

/* One more (1) or fewer (-1) windows lie in the allocation around `ptr`, if it is memoryAlloc's. */
void memoryHold(const void *ptr, int by);

/* Host memory of memoryAlloc around m->address fills the rest of `m`; 0 when it is none. */
int memoryFind(struct memory *m);

/*
 * Describes [ptr, ptr + bytes) for a window of all ranks, or for one that is this rank's source
 * alone; fails when the memory can never be in such a one, and says what to do. The scope is
 * entered.
 */
ginResult_t memoryDescribe(const struct device *d, void *ptr, size_t bytes, struct memory *out);
ginResult_t memoryDescribeLocal(const struct device *d, void *ptr, size_t bytes,
				struct memory *out);

#endif
