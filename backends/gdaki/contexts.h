/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * contexts.h - a device communicator's queues as kernels have them: contexts.c makes, finish.c ends
 */
#ifndef GIN_GDAKI_CONTEXTS_H
#define GIN_GDAKI_CONTEXTS_H

#include "gin/gdaki/send_queue.h"
#include "within.h"

struct gdakiContexts {
	struct gdaki *g;
	const struct gdakiWindow *words;
	uint32_t contexts, depth;
	struct pairs *pairs;
	uint32_t count;	     /* of queues */
	uint32_t mapped;     /* of these, whose doorbell register kernels have */
	struct rings *rings; /* what they have instead; NULL: none */
	/* In GPU memory, one after the other: */
	struct ginSendQueue *queues;	/* [count] */
	struct ginSendResults *results; /* [contexts + 1] */
	uint32_t *turn, *counter;	/* [count][depth] */
	char *landing;			/* old values of atomics, the sink in front of them */
	struct rdmaRegion *region;
	struct rdmaKeys keys; /* of it */
	int running;	      /* the threads have it */
	/* watch.c's: */
	struct gdakiContexts *next;
	uint8_t *told; /* [count]: its failure was said */
};

/* What a queue's words say, while kernels run or after. */
struct gdakiLook {
	uint64_t posted, completed; /* WQEBBs */
	uint32_t syndrome;	    /* enum ginMlx5Syndrome; 0: no error */
	uint32_t vendor;
};

/*
 * All queues as they are now, for gdakiLook(); NULL: no memory, or the GPU is gone. To be given back.
 * The device's scope is entered.
 */
const struct ginSendQueue *gdakiSnapshot(const struct gdakiContexts *contexts);
void gdakiSnapshotFree(const struct gdakiContexts *contexts, const struct ginSendQueue *queues);
struct gdakiLook gdakiLook(const struct gdakiContexts *contexts, const struct ginSendQueue *queue);

/* Is nothing under way? */
static inline int gdakiEnded(const struct gdakiLook *look)
{
	return look->syndrome || look->completed >= look->posted;
}

#endif
