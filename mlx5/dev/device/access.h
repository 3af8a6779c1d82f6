/* SPDX-License-Identifier: BSD-3-Clause */
/* access.h - which memory a key opens, and for which access */
#ifndef MLX5DEV_ACCESS_H
#define MLX5DEV_ACCESS_H

#include "device.h"

/*
 * The region of `key` when it has all of the range, these IBV_ACCESS_ rights and this PD, or NULL.
 */
struct mr *accessFind(const struct pd *pd, uint32_t key, uint64_t address, uint64_t bytes,
		      uint32_t rights);

/* Where in the program's memory that is. */
static inline uint64_t accessAddress(const struct mr *mr, uint64_t address)
{
	return mr->address + (address - mr->iova);
}

#endif
