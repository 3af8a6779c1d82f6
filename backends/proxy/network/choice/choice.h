/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * choice.h - GIN_TRANSPORT, the network that a rank looks for, its search, and which ranks it
 * connects
 */
#ifndef GIN_PROXY_CHOICE_H
#define GIN_PROXY_CHOICE_H

#include <string.h>

#include "backends/peermem/peermem.h"

#define NETWORK_NAME_MOST 7 /* as struct proxyBlob has room */

/* The network whose NICs backends/rdma finds; its plug-in is libgin-rdma.so. */
#define NETWORK_VERBS "verbs"

/* The value of GIN_TRANSPORT. */
struct transportChoice {
	int allowsIpc, prefersNetwork;
	enum backendSearch searches;
	char name[NETWORK_NAME_MOST + 1]; /* of the network; "": none, or any if `isOpen` */
	int isOpen;			  /* GIN_TRANSPORT is unset */
};

/* Reads the value of GIN_TRANSPORT. Returns 0 if it is wrong. */
int networkChoiceRead(const char *list, struct transportChoice *choice);

/* A rank sends it to all others when the proxy is probed, and again after its search. */
struct proxyBlob {
	struct peermemBlob memory;
	uint8_t allowsIpc, prefersNetwork;
	uint8_t lanes;
	uint8_t searches;    /* enum backendSearch */
	uint8_t hasSearched; /* the members below are valid */
	uint8_t hasNetwork;
	uint8_t bounces;    /* has windows that the network does not reach: see bounce.h */
	uint8_t rails;	    /* NICs that its lanes use round robin; 0: as 1 */
	uint8_t reachesGpu; /* the network reaches this rank's GPU memory: see gpu.h */
	uint8_t hasNic;	    /* before the search: a port for the network verbs, on a `nicNetwork` */
	uint8_t pairBytes;  /* as in struct fabricAbout */
	uint8_t nicNetwork;
	uint32_t speed; /* Mb/s; 0: not known */
	uint64_t networkKind, networkId;
	char name[32], interface[16];
	char plugin[8];	     /* the network's name in GIN_TRANSPORT */
	uint8_t address[16]; /* of IPv6, or IPv4 in its form, for reports; 0: none */
};

_Static_assert(sizeof(struct proxyBlob) <= BACKEND_BLOB, "it travels as the backend's blob");

/* The blob of a rank. */
static inline struct proxyBlob proxyBlobOf(const struct backendHost *host, int rank)
{
	struct proxyBlob blob;

	memcpy(&blob, host->blob(host->core, rank, ginRouteProxy), sizeof(blob));
	return blob;
}

/* choice.c */

/*
 * Fills in the members from allowsIpc to `searches`. 0, and why: GIN_TRANSPORT is wrong, or names a
 * plug-in that cannot be loaded.
 */
int networkProbe(struct proxyBlob *blob, char *why);

/*
 * Looks for a NIC for the network verbs, where GIN_TRANSPORT allows it and there are several hosts
 * or GIN_TRANSPORT names it, and fills in hasNic and nicNetwork.
 */
void networkProbeNic(const struct backendHost *host, struct proxyBlob *blob);

/*
 * Which network does the rank look for, in choice->name? Without GIN_TRANSPORT all ranks use verbs
 * if all have a NIC of one network, otherwise ofi; then `notNic`, of BACKEND_WHY bytes, says why.
 * Returns 0 if it looks for none.
 */
int networkChoose(const struct backendHost *host, struct transportChoice *choice, char *notNic);

/* search.c */

/*
 * Tries the network of networkChoose(), and fills in the members from hasSearched on. Fails if
 * GIN_TRANSPORT names a network that does not work. Without GIN_TRANSPORT a rank may have none.
 */
ginResult_t networkSearch(const struct backendHost *host, struct proxyBlob *blob);

/*
 * Before the search: will a rank with this device have windows that go through slots if the network
 * does not reach its GPU memory?
 */
int networkBounces(const struct device *device);

/* Can the two ranks talk over the network? `why`, of BACKEND_WHY bytes, says how, or why not. */
int networkReaches(const struct proxyBlob *mine, const struct proxyBlob *theirs, char *why);

#endif
