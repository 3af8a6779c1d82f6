/* SPDX-License-Identifier: BSD-3-Clause */
/* pool.h - small tables that kernels read, cut from a few large pieces of device memory */
#ifndef GIN_LIB_POOL_H
#define GIN_LIB_POOL_H

#include "device.h"

/* Block sizes are powers of two from 64 bytes on; each size has a free list. */
#define POOL_SIZES 40

/*
 * Blocks that are given back and kept, before one is given out again: a kernel that uses a handle
 * too late finds that the handle is stale.
 */
#define POOL_KEPT 16

/* Kinds of tables whose address is a handle of kernels. All tables of a kind have one size. */
enum poolKind { poolWindows, poolDevComms, POOL_KINDS };

struct poolBlock;

struct poolKept {
	struct poolBlock *oldest, *newest;
	size_t count;
};

/* Touched by the calls of the communicator, one at a time. */
struct pool {
	const struct device *device;
	struct poolBlock *chunks; /* device memory from which blocks are cut */
	struct poolBlock *free[POOL_SIZES];
	char *next; /* the unused rest of the last chunk */
	size_t left;
	struct poolKept kept[POOL_KINDS];
};

/*
 * A table of `bytes` bytes, uninitialised; poolFree() gets the number again. Without a GPU, each
 * table is an allocation of its own, so that AddressSanitizer sees its end. The caller has entered
 * the device's scope for all calls.
 */
ginResult_t poolAlloc(struct pool *pool, size_t bytes, void **ptr);
void poolFree(struct pool *pool, void *ptr, size_t bytes);

/* As above. A table that was given back stays readable until poolClose(). */
ginResult_t poolAllocHandle(struct pool *pool, enum poolKind kind, size_t bytes, void **ptr);
void poolKeep(struct pool *pool, enum poolKind kind, void *ptr, size_t bytes);

void poolClose(struct pool *pool);

#endif
