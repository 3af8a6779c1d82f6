/* SPDX-License-Identifier: BSD-3-Clause */
/* dmabuf.h - memory of the GPU as a NIC is given it: behind a file descriptor, where the driver can */
#ifndef GIN_GDAKI_DMABUF_H
#define GIN_GDAKI_DMABUF_H

#include "lib/gpu/device.h"
#include "rdma.h"

/*
 * Any memory that kernels use. Where it has no dma-buf, host memory say, there is its address alone.
 * The scope is entered.
 */
struct rdmaMemory dmabufOf(const struct device *d, void *address, size_t bytes);

/* Once the NIC has it. */
void dmabufClose(const struct rdmaMemory *memory);

#endif
