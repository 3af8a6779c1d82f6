/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pinned.h - memory through which CPU threads and a GPU talk while kernels run: queues, words
 *
 * On a GPU it is pinned, and kernels have it at the same address. Freeing it waits for no kernel:
 * it stays with the process, for who asks next. Without a GPU it is ordinary memory.
 *
 * It lies on NUMA node `node` where the system has room there and lets us say so, -1: anywhere.
 * Zero; aligned to 64 bytes at least. `bytes` is not 0. The device's scope is entered for all
 * calls.
 */
#ifndef GIN_LIB_PINNED_H
#define GIN_LIB_PINNED_H

#include "device.h"

ginResult_t pinnedAlloc(const struct device *d, size_t bytes, int node, void **ptr);

/*
 * The same, for CPU threads of other processes as well: memoryDescribe() says of it memoryShared,
 * as of what ginMemAllocHost() gives, and it can be offered to peers.
 */
ginResult_t pinnedAllocShared(const struct device *d, size_t bytes, int node, void **ptr);

/*
 * Of either; NULL is allowed. No peer writes it any more, or it would write what somebody else has
 * next: where that is not known, in a communicator that has failed say, it is better lost.
 */
void pinnedFree(const struct device *d, void *ptr);

#endif
