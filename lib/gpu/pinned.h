/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pinned.h - memory through which CPU threads and a GPU communicate while kernels run
 *
 * With a GPU, the memory is pinned and kernels use it at the CPU's address. A freed block stays
 * pinned and serves the next caller, because unpinning waits for every kernel that runs on the
 * device. Without a GPU, it is ordinary memory.
 *
 * The memory lies on NUMA node `node` where the system allows it and has room there; -1: anywhere.
 * It is zeroed, and aligned to at least 64 bytes. `bytes` is not 0. Any thread; the caller has
 * entered the device's scope.
 */
#ifndef GIN_LIB_PINNED_H
#define GIN_LIB_PINNED_H

#include "device.h"

ginResult_t pinnedAlloc(const struct device *d, size_t bytes, int node, void **ptr);

/* A block of PINNED_SMALL bytes at most, on any node. Small blocks share pages and descriptors. */
#define PINNED_SMALL 2048
ginResult_t pinnedAllocSmall(const struct device *d, size_t bytes, void **ptr);

/*
 * Memory for CPU threads of other processes too: memoryDescribe() calls it memoryShared, like
 * ginMemAllocHost()'s, and it can be offered to peers.
 */
ginResult_t pinnedAllocShared(const struct device *d, size_t bytes, int node, void **ptr);

/*
 * Frees memory of any of these calls; NULL is allowed. No peer may write the memory any more, or
 * the peer would overwrite the next owner's data.
 */
void pinnedFree(const struct device *d, void *ptr);

/*
 * As pinnedFree(), for memory of pinnedAllocShared() that peers may still write, after a failure of
 * the communicator for example. The memory serves the next caller after all peers have unmapped it,
 * or have ended.
 */
void pinnedAbandon(const struct device *d, void *ptr);

#endif
