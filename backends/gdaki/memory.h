/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.h - memory that the NIC reads and writes: slabs of queues, windows, sources of putFrom
 *
 * The device's scope is entered for every call.
 */
#ifndef GIN_GDAKI_MEMORY_H
#define GIN_GDAKI_MEMORY_H

#include <pthread.h>

#include "backends/backend.h"
#include "backends/rdma/memory.h"

/* Are slabs in this GPU's memory? 0: GIN_GDAKI_QUEUES=host, or there is no GPU. */
int slabIsInGpu(const struct device *d);

/*
 * Allocates memory of the kind that slabs use. The results of atomics must be of this kind: a CQE
 * proves that earlier writes of the NIC have arrived only if both are in one kind of memory.
 */
ginResult_t slabMemory(const struct device *d, size_t bytes, void **at);

/* Allocates rdmaSlabBytes(), zeroed, with every completion entry empty. */
ginResult_t slabAlloc(const struct device *d, uint32_t count, uint32_t depth, char **slab);

/* The NIC does not use the slab any more. NULL is allowed. */
void slabFree(const struct device *d, char *slab);

/* Calls rdma->queuesOpen() for the slab; `shape` has everything but the memory. */
ginResult_t slabQueues(const struct device *d, const struct rdma *rdma, struct rdmaPort *port,
		       char *slab, const struct rdmaSlab *shape, struct rdmaQueues **queues);

enum { SOURCES_MOST = 65536 };

/*
 * This rank's registered memory, which Gin::putFrom searches by address while entries come and go.
 * A free slot is reused only after every slot has been used once, so that a kernel that reads an
 * entry during an update rarely sees parts of two windows.
 */
struct gdakiSources {
	const struct device *device;
	struct ginSources *table; /* in GPU memory; NULL: not open */
	uint8_t *taken;		  /* [SOURCES_MOST] */
	uint32_t used;		  /* a copy of table->used */
	pthread_mutex_t lock;
};

ginResult_t sourcesOpen(const struct device *d, struct gdakiSources *sources);
void sourcesClose(struct gdakiSources *sources);

ginResult_t sourcesAdd(struct gdakiSources *sources, const struct ginSourceEntry *entry,
		       uint32_t *slot);
void sourcesRemove(struct gdakiSources *sources, uint32_t slot);

struct gdaki;

/* A rank's offer of its part of a window. Every rank has this layout. */
struct gdakiPart {
	uint64_t first;		 /* the part's first byte, as NICs address it */
	uint32_t key, strictKey; /* as ginMlx5Key() makes them */
};

struct gdakiWindow {
	struct gdaki *g;
	struct rdmaWindow nic; /* not open for an empty part */
	struct gdakiPart own;
	uint32_t localKey;
	uint32_t fence; /* enum ginScope: how far a source here is released for the NIC */
	struct ginSourceEntry source;
	uint32_t slot;		 /* in struct gdakiSources, or GDAKI_NO_SLOT */
	int isLocal;		 /* GIN_WINDOW_LOCAL: `part` is empty */
	struct gdakiPart part[]; /* [nRanks] */
};

#define GDAKI_NO_SLOT UINT32_MAX

/* Adds the sources to the communicator, and a window. */
void gdakiMemoryPlan(struct plan *plan);

/* Members of struct backendOps. */
ginResult_t gdakiWindowOffer(void *state, const struct memory *memory, void *offer, void **window);
ginResult_t gdakiWindowRegister(void *state, const char *call, ginResult_t mine,
				const uint8_t *offers, size_t stride, void *window);
void gdakiWindowDeregister(void *state, void *window);
void gdakiWindowDescribe(void *window, struct ginWindowTable *table);
void gdakiWindowDescribePeer(void *window, int peer, struct ginWindowPeer *entry);

#endif
