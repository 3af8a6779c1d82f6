/* SPDX-License-Identifier: BSD-3-Clause */
/* contexts.h - a device communicator's queues as kernels have them */
#ifndef GIN_GDAKI_CONTEXTS_H
#define GIN_GDAKI_CONTEXTS_H

#include "gdaki.h"
#include "gin/gdaki/send_queue.h"
#include "pairs.h"

struct gdakiContexts {
	struct gdaki *g;
	const struct gdakiWindow *words;
	uint32_t contexts, depth;
	struct gdakiPairs *pairs;
	uint32_t count;			 /* of queues */
	uint32_t mapped;		 /* of these, whose doorbell register kernels have */
	struct ringerWords *ringerWords; /* what they have instead; NULL: none */
	/* In GPU memory, one after the other: */
	struct ginSendQueue *queues;	/* [count] */
	struct ginSendResults *results; /* [contexts + 1] */
	uint32_t *turn, *counter;	/* [count][depth] */
	char *landing;			/* old values of atomics, the sink in front of them */
	struct rdmaRegion *region;
	struct rdmaKeys keys; /* of it */
	int running;	      /* the threads have it */
	/* progress.c only: */
	struct gdakiContexts *next;
	uint8_t *reported; /* [count]: its failure was reported */
};

/* contexts.c: the same. */
ginResult_t gdakiContextsOpen(void *state, const char *call, ginResult_t mine,
			      const struct backendContexts *want, void **contexts);
void gdakiContextsTell(void *contexts, ginDevComm *devComm);
void gdakiContextsTellPeer(void *contexts, int peer, struct ginPeer *entry);
ginResult_t gdakiContextsStats(void *contexts, uint32_t context, ginStats_t *stats);
void gdakiContextsFinish(void *state, void *contexts);
void gdakiContextsClose(void *state, void *contexts);

#endif
