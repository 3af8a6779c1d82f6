/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.h - memory that the device reads and writes: regions with keys, and umems of queues */
#ifndef GIN_NIC_MEMORY_H
#define GIN_NIC_MEMORY_H

#include "port.h"

/* Members of struct rdma. */
int regionOpen(struct rdmaPort *port, const struct rdmaMemory *memory, unsigned access,
	       struct rdmaRegion **region, struct rdmaKeys *keys, char *why);
void regionClose(struct rdmaRegion *region);

/* Registers page-aligned memory for queues. */
int umemOpen(struct rdmaPort *port, const struct rdmaMemory *memory, struct mlx5dv_devx_umem **umem,
	     char *why);

#endif
