/* SPDX-License-Identifier: BSD-3-Clause */
/* rails.h - the ports by which the lanes of a rank use a network, and the network's plug-in */
#ifndef GIN_PROXY_RAILS_H
#define GIN_PROXY_RAILS_H

#include "backends/rdma/port.h"
#include "choice.h"
#include "backends/proxy/network/fabric.h"
#include "interface.h"

/* The request to a plug-in, and the data that it refers to. */
struct networkWanted {
	struct networkInterface interface;
	struct rdmaChoice nic;
	struct rdmaPath path;
	struct fabricWanted fabric; /* without a provider */
};

/* Most rails of a rank. */
#define NETWORK_RAILS 4

/* For a rail of the network with this name. Returns 0, and why, if this host has none. */
int networkWant(const struct backendHost *host, const char *name, struct rdmaRail rail,
		struct networkWanted *out, char *why);

/* The rails of a rank. */
struct networkFound {
	struct fabricAbout about; /* with the speed of all rails */
	uint8_t rails;
	uint8_t reachesGpu;
	uint8_t address[16];  /* as struct proxyBlob */
	char gpu[FABRIC_WHY]; /* how the network reaches GPU memory, or why it does not */
};

/* The most rails that work alike, `lanes` at most. Returns 0, and why, if none works. */
int networkRailsFind(const struct backendHost *host, const char *name, uint32_t lanes,
		     struct networkFound *out, char *why);

static inline uint32_t networkRails(const struct proxyBlob *blob)
{
	if (blob->rails > NETWORK_RAILS)
		return NETWORK_RAILS; /* a peer's blob may have more than ofRail[] */
	return blob->rails ? blob->rails : 1;
}

/* plugin.c: the plug-ins of networks, which a process loads once and never unloads. Any thread. */

/* Loads the plug-in of the network with this name. NULL, and why, of BACKEND_WHY bytes: failed. */
const struct fabricCalls *networkPlugin(const char *name, char *why);

/* A search has found this network of the loaded plug-in. */
void networkPluginFound(const char *name, const struct fabricAbout *about);

/* The plug-in, and the network that a search has found. NULL: it is not loaded. */
const struct fabricCalls *networkLoaded(const char *name, struct fabricAbout *about);

#endif
