/* SPDX-License-Identifier: BSD-3-Clause */
/* interface.h - the network interface of this host that the proxy's network uses */
#ifndef GIN_PROXY_INTERFACE_H
#define GIN_PROXY_INTERFACE_H

#include <arpa/inet.h>
#include <net/if.h>

#include "backends/backend.h"

struct networkInterface {
	char name[IF_NAMESIZE];		/* GIN_OFI_INTERFACE may name a NIC without an address */
	char address[INET6_ADDRSTRLEN]; /* "": none */
};

/*
 * The interface that GIN_OFI_INTERFACE names; otherwise one that NCCL_SOCKET_IFNAME allows;
 * otherwise one of the control plane. Among these, the one by which a rank of this host has reached
 * another host comes first, then the others in the order of socketInterfaces(). An address that
 * another host has too, such as a container bridge's, is left out. If all ranks are on this host
 * and GIN_OFI_INTERFACE is unset: loopback. Returns 0, and why, if there is none.
 */
int networkInterfaceFind(const struct backendHost *host, struct networkInterface *out, char *why);

/*
 * Does `list`, as of NCCL_SOCKET_IFNAME, allow the interface? Prefixes with commas between them;
 * "=" before the list: whole names; "^" before the list: all others.
 */
int networkInterfaceAllowed(const char *list, const char *name);

#endif
