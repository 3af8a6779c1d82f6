/* SPDX-License-Identifier: BSD-3-Clause */
/* load.h - GIN_TRANSPORT, and the plug-in that it names */
#ifndef GIN_PROXY_LOAD_H
#define GIN_PROXY_LOAD_H

#include "backends/peermem/peermem.h"
#include "fabric.h"

/* What a rank tells the others when the proxy is probed. */
struct proxyBlob {
	struct peermemBlob memory;
	uint8_t allowsIpc, hasNetwork, prefersNetwork;
	uint8_t lanes;
	uint8_t bounces; /* has windows that the network does not reach: see bounce.h */
	uint64_t networkKind, networkId;
};

_Static_assert(sizeof(struct proxyBlob) <= BACKEND_BLOB, "it travels as the backend's blob");

/* Fills in the members from allowsIpc on. 0, and why: no transport of GIN_TRANSPORT works. */
int networkProbe(struct proxyBlob *blob, char *why);

/* Has a rank with this device windows that the network does not reach? See bounce.h. */
int networkBounces(const struct device *device);

/* Can the two ranks talk over the network? `why`, of BACKEND_WHY bytes, says how, or why not. */
int networkReaches(const struct proxyBlob *mine, const struct proxyBlob *theirs, char *why);

/* The plug-in that networkProbe() has found. */
const struct fabricCalls *networkLoaded(struct fabricAbout *about);

#endif
