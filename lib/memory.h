/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.h - what kind of memory a window lies in, and memory of libgin's own */
#ifndef GIN_LIB_MEMORY_H
#define GIN_LIB_MEMORY_H

#include "device.h"

enum memoryKind {
	memoryNone,    /* zero bytes */
	memoryShared,  /* host memory behind a file descriptor: ginMemAlloc without a GPU */
	memoryPrivate, /* any other host memory: this process alone reaches it */
	memoryVmm,     /* GPU memory that exports a file descriptor: ginMemAlloc on a GPU */
	memoryIpc      /* GPU memory of cudaMalloc */
};

struct memory {
	enum memoryKind kind;
	char *address; /* of the window */
	size_t bytes;
	char *base;  /* of the allocation that holds it */
	size_t span; /* of the allocation */
	int fd;	     /* memoryShared: borrowed from the allocation; else -1 */
};

/* libgin's own memory, as ginMemAlloc() and device communicators use it. The scope is entered. */
ginResult_t memoryAlloc(const struct device *d, size_t bytes, void **ptr);
ginResult_t memoryFree(const struct device *d, void *ptr);

/* One more (1) or fewer (-1) windows lie in the allocation around `ptr`, if it is memoryAlloc's. */
void memoryHold(const void *ptr, int by);

/*
 * Describes [ptr, ptr + bytes) as seen from the device; fails when no other rank could ever reach
 * it, and says what to do. The scope is entered.
 */
ginResult_t memoryDescribe(const struct device *d, void *ptr, size_t bytes, struct memory *out);

#endif
