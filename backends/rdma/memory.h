/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.h - registers memory of this process or of its GPU with a NIC port
 *
 * GPU memory goes by dma-buf where the driver exports one, otherwise by address, which takes
 * nvidia-peermem. The device's scope is entered for every call.
 */
#ifndef GIN_RDMA_MEMORY_H
#define GIN_RDMA_MEMORY_H

#include "backends/backend.h"
#include "rdma.h"

/* The backend that registers, and the port. */
struct rdmaUser {
	const char *name; /* "gdaki", for messages */
	const struct device *device;
	const struct rdma *rdma;
	struct rdmaPort *port;
	int relaxedOrdering; /* as in struct rdmaFeatures */
};

/*
 * Describes any memory that kernels use, for libgin-rdma.so. The dma-buf is -1 where the driver
 * exports none, as for host memory.
 */
struct rdmaMemory dmabufOf(const struct device *d, void *address, size_t bytes);

/* Call it when the NIC has the memory. */
void dmabufClose(const struct rdmaMemory *memory);

/* `access`: of enum rdmaAccess. */
ginResult_t rdmaRegister(const struct rdmaUser *user, void *address, size_t bytes, unsigned access,
			 struct rdmaRegion **region, struct rdmaKeys *keys);

/*
 * A window: strictly ordered keys for signals, relaxed keys for data. Without relaxed ordering on
 * the device, the strict keys serve both.
 */
struct rdmaWindow {
	struct rdmaRegion *strict, *relaxed; /* NULL: not opened */
	struct rdmaKeys strictKeys, relaxedKeys;
};

/* Most regions of a window. */
#define RDMA_WINDOW_REGIONS 2

/* `isRemote`: peers use it. On an error some regions may be open: close the window. */
ginResult_t rdmaWindowOpen(const struct rdmaUser *user, void *address, size_t bytes, int isRemote,
			   struct rdmaWindow *window);
void rdmaWindowClose(const struct rdmaUser *user, struct rdmaWindow *window);

#endif
