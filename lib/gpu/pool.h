/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.h - small tables that kernels read, out of few large pieces of device memory */
#ifndef GIN_LIB_POOL_H
#define GIN_LIB_POOL_H

#include "device.h"

/* Blocks are powers of two from 64 bytes, each size with its free list. */
#define POOL_SIZES 40

struct poolBlock;

struct pool {
	const struct device *device;
	struct poolBlock *chunks; /* what the GPU gave */
	struct poolBlock *free[POOL_SIZES];
	char *next; /* the rest of the last chunk */
	size_t left;
};

/*
 * A table of `bytes` bytes, uninitialised; poolFree takes the same number. Without a GPU each is
 * an allocation of its own, so that AddressSanitizer sees its end. The device's scope is entered
 * for all calls.
 */
ginResult_t poolAlloc(struct pool *pool, size_t bytes, void **ptr);
void poolFree(struct pool *pool, void *ptr, size_t bytes);
void poolClose(struct pool *pool);

#endif
