/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.h - memory that the device reads and writes: with keys, or for queues (umem) */
#ifndef GIN_NIC_MEMORY_H
#define GIN_NIC_MEMORY_H

#include "port.h"

int regionOpen(struct rdmaPort *port, const struct rdmaMemory *memory, unsigned access,
	       struct rdmaRegion **region, struct rdmaKeys *keys, char *why);
void regionClose(struct rdmaRegion *region);

/* Page-aligned memory. */
int umemOpen(struct rdmaPort *port, const struct rdmaMemory *memory, struct mlx5dv_devx_umem **umem,
	     char *why);

#endif
