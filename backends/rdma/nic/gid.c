/* SPDX-License-Identifier: BSD-3-Clause */
/* gid.c - the address of a port: the entry of its GID table, and the network that this is in */
#include "port.h"

#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"

enum { ENTRIES = 512 };

static int isIpv4(const uint8_t *gid)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid, mapped, sizeof(mapped));
}

static int isLinkLocal(const uint8_t *gid)
{
	if (isIpv4(gid))
		return gid[12] == 169 && gid[13] == 254;
	return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80;
}

/* The name may end with a label, as in "eth0:1". */
static int isNamed(const char *label, const char *name)
{
	size_t length = strlen(name);

	return !strncmp(label, name, length) && (!label[length] || label[length] == ':');
}

static int hasGid(const struct sockaddr *address, const uint8_t *gid)
{
	int family = address ? address->sa_family : AF_UNSPEC;

	if (family == AF_INET)
		return isIpv4(gid) &&
		       !memcmp(&((const struct sockaddr_in *)(const void *)address)->sin_addr,
			       gid + 12, 4);
	return family == AF_INET6 &&
	       !memcmp(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, gid, 16);
}

/*
 * A larger number is better: RoCE v2 before v1, other addresses before link-local ones, IPv4 before
 * IPv6.
 */
static int preference(const struct ibv_gid_entry *entry)
{
	int v2 = entry->gid_type == IBV_GID_TYPE_ROCE_V2;

	if (entry->gid_type == IBV_GID_TYPE_IB)
		return 1;
	return 1 + 4 * v2 + 2 * !isLinkLocal(entry->gid.raw) + isIpv4(entry->gid.raw);
}

/*
 * Is the entry of a network interface in another network namespace? A NIC that containers share has
 * such entries, and a queue pair with one of them connects to nobody. Numbers of interfaces repeat
 * in other namespaces, so the interface must have the address, too; but for a link-local one, which
 * the kernel makes of the MAC. `own`: the addresses of this namespace, or NULL.
 */
static int isForeign(const struct ibv_gid_entry *entry, const struct ifaddrs *own)
{
	char name[IF_NAMESIZE];

	if (entry->gid_type == IBV_GID_TYPE_IB || !entry->ndev_ifindex)
		return 0;
	if (!if_indextoname(entry->ndev_ifindex, name))
		return errno == ENXIO;
	if (!own || isLinkLocal(entry->gid.raw))
		return 0;
	while (own && !(isNamed(own->ifa_name, name) && hasGid(own->ifa_addr, entry->gid.raw)))
		own = own->ifa_next;
	return !own;
}

static int version(const struct ibv_gid_entry *entry)
{
	switch (entry->gid_type) {
	case IBV_GID_TYPE_ROCE_V1:
		return 1;
	case IBV_GID_TYPE_ROCE_V2:
		return 2;
	default:
		return 0;
	}
}

/*
 * The entry of index `wanted`, or with -1 the entry of highest preference that is not foreign;
 * among equals the first, which on InfiniBand is entry 0. *foreign: of the port's entries.
 */
static const struct ibv_gid_entry *best(const struct ibv_gid_entry *entries, ssize_t count,
					int port, int wanted, const struct ifaddrs *own,
					int *foreign)
{
	const struct ibv_gid_entry *chosen = NULL;

	for (ssize_t i = 0; i < count; i++) {
		const struct ibv_gid_entry *entry = &entries[i];
		if (entry->port_num != (uint32_t)port)
			continue;
		if (wanted >= 0 && entry->gid_index != (uint32_t)wanted)
			continue;
		if (wanted < 0 && isForeign(entry, own))
			++*foreign;
		else if (!chosen || preference(entry) > preference(chosen))
			chosen = entry;
	}
	return chosen;
}

/* Queue pairs use the first partition of the port. */
static void readPartition(struct rdmaPort *p)
{
	uint16_t key = 0xffff;

	if (!p->gid.roceVersion)
		ibv_query_pkey(p->context, p->number, 0, &key);
	p->gid.partition = be16toh(key);
}

static int explainNone(int port, int wanted, int foreign, char *why)
{
	if (wanted >= 0)
		return explain(why, "port %d has no GID of index %d: show_gids lists them", port,
			       wanted);
	if (foreign)
		return explain(
			why,
			"port %d has GIDs of other network namespaces alone: give its network "
			"interface here an IP address",
			port);
	return explain(why, "port %d has no GID: give its network interface an IP address", port);
}

int gidChoose(struct rdmaPort *p, int wanted, char *why)
{
	struct ibv_gid_entry *entries = calloc(ENTRIES, sizeof(*entries));
	struct ifaddrs *own = NULL;
	int foreign = 0;

	if (!entries)
		return explain(why, "no memory");
	if (getifaddrs(&own))
		own = NULL;
	ssize_t count = ibv_query_gid_table(p->context, entries, ENTRIES, 0);
	const struct ibv_gid_entry *chosen = best(entries, count, p->number, wanted, own, &foreign);
	if (chosen) {
		p->gid.index = chosen->gid_index;
		p->gid.roceVersion = version(chosen);
		memcpy(p->gid.bytes, chosen->gid.raw, sizeof(p->gid.bytes));
		readPartition(p);
	}
	freeifaddrs(own);
	free(entries);
	if (count < 0)
		return explainErrno(why, (int)-count, "the table of GIDs");
	return chosen ? 0 : explainNone(p->number, wanted, foreign, why);
}

/* RoCE and an InfiniBand without partitions have this one. */
#define DEFAULT_PARTITION 0x7fff

void portNetwork(const struct rdmaPort *p, char text[PORT_NETWORK])
{
	static const uint8_t common[16] = {0xfe, 0x80};
	int length, partition = p->gid.partition & DEFAULT_PARTITION;
	uint64_t prefix;

	if (p->gid.roceVersion) {
		snprintf(text, PORT_NETWORK, "RoCE v%d%s", p->gid.roceVersion,
			 isIpv4(p->gid.bytes) ? "" : " IPv6");
		return;
	}
	memcpy(&prefix, p->gid.bytes, sizeof(prefix));
	length = snprintf(text, PORT_NETWORK, "InfiniBand");
	if (!gidSameSubnet(p->gid.bytes, common) && !(p->attr.flags & IBV_QPF_GRH_REQUIRED))
		length += snprintf(text + length, PORT_NETWORK - (size_t)length, " %llx",
				   (unsigned long long)be64toh(prefix));
	if (partition != DEFAULT_PARTITION)
		snprintf(text + length, PORT_NETWORK - (size_t)length, "/%x", partition);
}

int gidSameSubnet(const uint8_t *a, const uint8_t *b)
{
	return !memcmp(a, b, 8);
}
