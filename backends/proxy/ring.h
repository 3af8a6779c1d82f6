/* SPDX-License-Identifier: BSD-3-Clause */
/* ring.h - the memory of a device communicator's queues: what kernels and the proxy share */
#ifndef GIN_PROXY_RING_H
#define GIN_PROXY_RING_H

#include "backends/backend.h"

/* One context's, as the proxy uses it. All host-pinned. */
struct proxyRing {
	uint64_t *descriptors; /* [depth][GIN_DESCRIPTOR_WORDS] */
	uint64_t *consumed;
	uint64_t *done;			   /* [nRanks + 1] */
	uint64_t *failed;		   /* [2]: the queue, the first transfer */
	uint64_t *results, *resultTickets; /* [GIN_QUEUE_RESULTS] */
	uint64_t *counters;		   /* [counters] */
};

struct proxyRings {
	const struct device *device;
	uint32_t nRanks;
	struct backendContexts want;
	char *host;		 /* rings, words, counters of all contexts */
	size_t contextBytes;	 /* of one, in `host` */
	struct ginQueue *kernel; /* [contexts], what kernels write behind it; GPU memory */
};

/* Zeroed. The device's scope is entered. */
ginResult_t proxyRingsMake(const struct device *d, int nRanks, const struct backendContexts *want,
			   struct proxyRings *rings);
void proxyRingsFree(struct proxyRings *rings);

struct proxyRing proxyRingOf(const struct proxyRings *rings, uint32_t context);

/* How often posters found the queue full. Any thread; the device's scope is entered. */
ginResult_t proxyRingsWaits(const struct proxyRings *rings, uint32_t context, uint64_t *waits);

/* What kernels have to know of them. */
void proxyRingsDescribe(const struct proxyRings *rings, ginDevComm *devComm);

#endif
