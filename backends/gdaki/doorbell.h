/* SPDX-License-Identifier: BSD-3-Clause */
/* doorbell.h - doorbells of queues, rung by kernels or by a thread for them */
#ifndef GIN_GDAKI_DOORBELL_H
#define GIN_GDAKI_DOORBELL_H

#include <pthread.h>

#include "backends/backend.h"
#include "rdma.h"

/* Where kernels have the register; without a GPU where the CPU has it. The scope is entered. */
ginResult_t doorbellMap(const struct device *d, const struct rdmaRegister *where, void **kernels);

/* Before the register is given back. Waits for kernels that run. */
void doorbellUnmap(const struct device *d, const struct rdmaRegister *where);

/* The words of a device communicator. */
struct ringerWords {
	struct ringerWords *next;
	uint64_t *words;      /* [count], pinned */
	uint64_t **registers; /* [count] */
	uint32_t count;
};

struct gdakiRinger {
	pthread_t thread;
	int started, closing;
	pthread_mutex_t lock; /* of the list, and `closing` */
	pthread_cond_t wake;
	struct ringerWords *rings;
};

ginResult_t ringerOpen(struct gdakiRinger *ringer);
/* All rings have been removed. One that is not open is allowed. */
void ringerClose(struct gdakiRinger *ringer);

/* Zero; `registers` is to be filled in. The device's scope is entered, as for the next two. */
ginResult_t ringerWordsMake(const struct device *d, uint32_t count, struct ringerWords **rings);
void ringerWordsFree(const struct device *d, struct ringerWords *rings);

void ringerAdd(struct gdakiRinger *ringer, struct ringerWords *rings);
/* No kernel rings any more: what is still in the words is rung. */
void ringerRemove(struct gdakiRinger *ringer, struct ringerWords *rings);

#endif
