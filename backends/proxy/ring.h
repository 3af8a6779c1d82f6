/* SPDX-License-Identifier: BSD-3-Clause */
/* ring.h - the memory of a device communicator's rings, shared by kernels and the proxy */
#ifndef GIN_PROXY_RING_H
#define GIN_PROXY_RING_H

#include "backends/backend.h"

/*
 * The words of one context as the proxy uses them. Pinned host memory, touched by kernels and by
 * the context's worker, under its lock.
 */
struct proxyRing {
	uint64_t *descriptors;	 /* [depth][GIN_DESCRIPTOR_WORDS] */
	uint64_t *consumed;	 /* tickets below it have left the ring */
	uint64_t *done;		 /* [nRanks + 1], as struct ginQueue's */
	uint64_t *failed;	 /* [2]: error of the ring, error of the first failed transfer */
	uint64_t *results;	 /* [GIN_QUEUE_RESULTS]: old values of atomics */
	uint64_t *resultTickets; /* [GIN_QUEUE_RESULTS]: struct ginQueue's `resultTickets` */
	uint64_t *counters;	 /* [counters] */
};

/* All rings of a device communicator. */
struct proxyRings {
	const struct device *device;
	uint32_t nRanks;
	struct backendContexts want;
	char *host;		 /* pinned: all counters, then the words of each context */
	size_t contextBytes;	 /* of one context in `host` */
	struct ginQueue *kernel; /* [contexts], then the words that only kernels use; GPU memory */
};

/* Allocates rings whose words are 0. The device's scope is entered. */
ginResult_t proxyRingsMake(const struct device *d, int nRanks, const struct backendContexts *want,
			   struct proxyRings *rings);

/* Adds the rings of a device communicator. */
void proxyRingsPlan(struct plan *plan);

void proxyRingsFree(struct proxyRings *rings);

struct proxyRing proxyRingOf(const struct proxyRings *rings, uint32_t context);

/*
 * How many descriptors found no room in the ring at once. Any thread; the device's scope is
 * entered.
 */
ginResult_t proxyRingsWaits(const struct proxyRings *rings, uint32_t context, uint64_t *waits);

/* Fills in the rings' members of the device communicator. */
void proxyRingsDescribe(const struct proxyRings *rings, ginDevComm *devComm);

#endif
