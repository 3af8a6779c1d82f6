/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doorbell.h - doorbell registers where kernels can store to them
 *
 * A page is mapped once per process and for all its GPUs, however many registers and users it has.
 */
#ifndef GIN_GDAKI_DOORBELL_H
#define GIN_GDAKI_DOORBELL_H

#include "backends/backend.h"
#include "rdma.h"

/* Where kernels have the register; without a GPU where the CPU has it. The scope is entered. */
ginResult_t doorbellMap(const struct device *d, const struct rdmaRegister *where, void **kernels);

/* Before the register is given back. Waits for kernels that run. */
void doorbellUnmap(const struct device *d, const struct rdmaRegister *where);

#endif
