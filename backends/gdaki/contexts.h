/* SPDX-License-Identifier: BSD-3-Clause */
/* contexts.h - the send queues of a device communicator, laid out as kernels read them */
#ifndef GIN_GDAKI_CONTEXTS_H
#define GIN_GDAKI_CONTEXTS_H

#include "gdaki.h"
#include "gin/core/send_queue.h"
#include "pairs.h"

struct gdakiContexts {
	struct gdaki *g;
	const struct gdakiWindow *words; /* signal words of every rank */
	uint32_t contexts, depth;
	struct gdakiPairs *pairs;
	uint32_t count;			 /* queues */
	uint32_t mapped;		 /* queues whose doorbell register is mapped for kernels */
	struct ringerWords *ringerWords; /* doorbells for the ringer; NULL: kernels ring */
	/* In GPU memory, in this order, in one allocation: */
	struct ginSendQueue *queues;	/* [count] */
	struct ginSendResults *results; /* [contexts + 1] */
	uint32_t *turn, *counter;	/* [count][depth] */
	/* Written by NICs for atomics: the sink of unwanted old values, then the results. */
	char *landing;
	struct rdmaRegion *region; /* `landing`, registered */
	struct rdmaKeys keys;	   /* of `region` */
	int running;		   /* ringer and monitor have it in their lists */
	/* Written by the monitor, which looks once a second: */
	struct gdakiSeen {
		uint64_t outstanding, completed; /* WQEBBs */
	} * seen;				 /* [count] */
	/* Used by the monitor only: */
	struct gdakiContexts *next;
	uint8_t *reported; /* [count]: enum monitorReported; in the memory of `seen` */
	uint32_t asked;	   /* queue pairs whose state the device was asked for, round robin */
};

/* Members of struct backendOps. The device's scope is entered. */
ginResult_t gdakiContextsOpen(void *state, const char *call, ginResult_t mine,
			      const struct backendContexts *want, void **contexts);
void gdakiContextsDescribe(void *contexts, ginDevComm *devComm);
void gdakiContextsDescribePeer(void *contexts, int peer, struct ginPeer *entry);
ginResult_t gdakiContextsStats(void *contexts, uint32_t context, ginStats_t *stats);
ginResult_t gdakiContextsPeerStats(void *contexts, int peer, ginPeerStats_t *stats);
uint64_t gdakiContextsOutstanding(void *contexts, int peer, uint64_t *completed);
ginResult_t gdakiContextsDrain(void *state, void *contexts);
void gdakiContextsClose(void *state, void *contexts);

void gdakiContextsPlan(struct plan *plan);

#endif
