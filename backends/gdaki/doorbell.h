/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doorbell.h - how kernels ring doorbells: by a mapped register, or through a CPU thread
 *
 * A page of doorbell registers is mapped once per process, for all GPUs, users and registers of the
 * process.
 *
 * If a GPU cannot map the registers, each queue's doorbell is a word of pinned host memory instead.
 * A kernel stores the doorbell there; the ringer thread takes it and stores it to the register.
 */
#ifndef GIN_GDAKI_DOORBELL_H
#define GIN_GDAKI_DOORBELL_H

#include <pthread.h>

#include "backends/backend.h"
#include "backends/rdma/rdma.h"

/*
 * `*kernels`: the address by which kernels store to the register; without a GPU the CPU's address.
 * The device's scope is entered.
 */
ginResult_t doorbellMap(const struct device *d, const struct rdmaRegister *where, void **kernels);

/*
 * Call before libgin-rdma.so frees the register. Waits for running kernels. The device's scope is
 * entered.
 */
void doorbellUnmap(const struct device *d, const struct rdmaRegister *where);

/* The doorbell words of one device communicator. */
struct ringerWords {
	struct ringerWords *next;
	uint64_t *words;      /* [count], pinned; 0: no doorbell to ring */
	uint64_t **registers; /* [count] */
	uint32_t count;
};

struct gdakiRinger {
	pthread_t thread;
	int started, closing;
	pthread_mutex_t lock; /* protects `list` and `closing` */
	pthread_cond_t wake;
	struct ringerWords *list;
};

ginResult_t ringerOpen(struct gdakiRinger *ringer);
/* All words have been removed. Does nothing if the ringer was not opened. */
void ringerClose(struct gdakiRinger *ringer);

/*
 * Allocates words that are 0. The caller fills in `registers` before ringerAdd(). The device's
 * scope is entered for both calls.
 */
ginResult_t ringerWordsMake(const struct device *d, uint32_t count, struct ringerWords **words);
void ringerWordsFree(const struct device *d, struct ringerWords *words);

void ringerAdd(struct gdakiRinger *ringer, struct ringerWords *words);
/* No kernel rings any more. Rings the doorbells that are still in the words. */
void ringerRemove(struct gdakiRinger *ringer, struct ringerWords *words);

#endif
