/* SPDX-License-Identifier: BSD-3-Clause */
/* within.h - the backend in one communicator, for its own files */
#ifndef GIN_GDAKI_WITHIN_H
#define GIN_GDAKI_WITHIN_H

#include "pairs.h"
#include "ringer.h"
#include "sources.h"
#include "watch.h"

enum { GDAKI_MIN_DEPTH = RDMA_MIN_DEPTH, GDAKI_MAX_DEPTH = 16384 };

struct gdaki {
	const struct backendHost *host;
	const struct rdma *rdma;
	struct rdmaPort *port;
	struct rdmaFeatures features;
	struct rdmaAddress *addresses; /* [nRanks] */
	struct rdmaPath path;
	struct sources sources;
	struct watch watch;
	struct ringer ringer; /* started: kernels have no doorbell registers */
};

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

/* contexts.c: the same. */
ginResult_t gdakiContextsOpen(void *state, const char *call, ginResult_t mine,
			      const struct backendContexts *want, void **contexts);
void gdakiContextsTell(void *contexts, ginDevComm *devComm);
void gdakiContextsTellPeer(void *contexts, int peer, struct ginPeer *entry);
ginResult_t gdakiContextsStats(void *contexts, uint32_t context, ginStats_t *stats);
void gdakiContextsFinish(void *state, void *contexts);
void gdakiContextsClose(void *state, void *contexts);

#endif
