/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.h - memory that the NIC reads and writes: queues, windows, sources */
#ifndef GIN_GDAKI_MEMORY_H
#define GIN_GDAKI_MEMORY_H

#include <pthread.h>

#include "backends/backend.h"
#include "rdma.h"

/*
 * Any memory that kernels use. Where it has no dma-buf, host memory say, there is its address alone.
 * The scope is entered.
 */
struct rdmaMemory dmabufOf(const struct device *d, void *address, size_t bytes);

/* Once the NIC has it. */
void dmabufClose(const struct rdmaMemory *memory);

/* Is it memory of this GPU? */
int slabIsInGpu(const struct device *d);

/* Memory where queues are, for what their completions have to prove. The scope is entered. */
ginResult_t slabMemory(const struct device *d, size_t bytes, void **at);

/* Of rdmaSlabBytes(), with every completion entry empty. The scope is entered. */
ginResult_t slabAlloc(const struct device *d, uint32_t count, uint32_t depth, char **slab);

/* No NIC has it any more; NULL is allowed. */
void slabFree(const struct device *d, char *slab);

/* Queues in it, none of which is made yet. */
ginResult_t slabQueues(const struct device *d, const struct rdma *rdma, struct rdmaPort *port,
		       char *slab, const struct rdmaSlab *shape, struct rdmaQueues **queues);

enum { SOURCES_MOST = 65536 };

struct gdakiSources {
	const struct device *device;
	struct ginSources *table; /* in GPU memory; NULL: not open */
	uint8_t *taken;		  /* [SOURCES_MOST] */
	uint32_t used;		  /* as in the table */
	pthread_mutex_t lock;
};

/* The device's scope is entered for all calls. */
ginResult_t sourcesOpen(const struct device *d, struct gdakiSources *sources);
void sourcesClose(struct gdakiSources *sources);

ginResult_t sourcesAdd(struct gdakiSources *sources, const struct ginSourceEntry *entry,
		       uint32_t *slot);
void sourcesRemove(struct gdakiSources *sources, uint32_t slot);

struct gdaki;

/* window.c: what a rank tells of its part of a window. */
struct gdakiPart {
	uint64_t first;		 /* its first byte, for NICs */
	uint32_t key, strictKey; /* as ginMlx5Key() makes them */
};

struct gdakiWindow {
	struct gdaki *g;
	struct rdmaRegion *strict, *relaxed; /* NULL: none; of an empty part neither */
	struct gdakiPart own;
	uint32_t localKey;
	uint32_t fence; /* enum ginScope: how far a source here is released for the NIC */
	struct ginSourceEntry source;
	uint32_t slot;		 /* among the sources; GDAKI_NO_SLOT: none */
	int isLocal;		 /* a source of this rank alone, that has no parts */
	struct gdakiPart part[]; /* [nRanks] */
};

#define GDAKI_NO_SLOT UINT32_MAX

/* As struct backendOps. The device's scope is entered. */
ginResult_t gdakiWindowOffer(void *state, const struct memory *memory, void *offer, void **window);
ginResult_t gdakiWindowRegister(void *state, const char *call, ginResult_t mine,
				const uint8_t *offers, size_t stride, void *window);
void gdakiWindowDeregister(void *state, void *window);
void gdakiWindowTell(void *window, struct ginWindowTable *table);
void gdakiWindowTellPeer(void *window, int peer, struct ginWindowPeer *entry);

#endif
