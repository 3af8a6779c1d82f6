/* SPDX-License-Identifier: BSD-3-Clause */
/* load.h - GIN_TRANSPORT, the plug-in of a network, and what ranks exchange about it */
#ifndef GIN_PROXY_LOAD_H
#define GIN_PROXY_LOAD_H

#include "backends/peermem/peermem.h"
#include "fabric.h"

/* A rank sends it to all others when the proxy is probed, and again after its search. */
struct proxyBlob {
	struct peermemBlob memory;
	uint8_t allowsIpc, prefersNetwork;
	uint8_t lanes;
	uint8_t searches;    /* enum backendSearch */
	uint8_t hasSearched; /* the members below are valid */
	uint8_t hasNetwork;
	uint8_t bounces; /* has windows that the network does not reach: see bounce.h */
	uint64_t networkKind, networkId;
	char name[32], interface[16];
	uint32_t speed; /* Mb/s; 0: not known */
};

_Static_assert(sizeof(struct proxyBlob) <= BACKEND_BLOB, "it travels as the backend's blob");

/*
 * Fills in the members from allowsIpc to `searches`. 0, and why: GIN_TRANSPORT is wrong, or names a
 * plug-in that cannot be loaded.
 */
int networkProbe(struct proxyBlob *blob, char *why);

/*
 * Loads the plug-in and tries its network, and fills in the members from hasSearched on. Fails if
 * GIN_TRANSPORT names a network that does not work. Without GIN_TRANSPORT the network may be absent.
 */
ginResult_t networkSearch(const struct backendHost *host, struct proxyBlob *blob);

/* Has a rank with this device windows that the network does not reach? See bounce.h. */
int networkBounces(const struct device *device);

/* Can the two ranks talk over the network? `why`, of BACKEND_WHY bytes, says how, or why not. */
int networkReaches(const struct proxyBlob *mine, const struct proxyBlob *theirs, char *why);

/* The plug-in that networkSearch() has found. */
const struct fabricCalls *networkLoaded(struct fabricAbout *about);

#endif
