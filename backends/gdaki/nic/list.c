/* SPDX-License-Identifier: BSD-3-Clause */
/* list.c - all ports of this machine: what they are, or why they cannot be used */
#include <stdio.h>

#include "port.h"
#include "say.h"

struct listing {
	struct rdmaWanted wanted;
	struct rdmaFound *found;
	int room, count;
};

static void describe(const struct rdmaPort *p, char *words)
{
	char kind[16] = "InfiniBand";

	if (p->gid.roceVersion)
		snprintf(kind, sizeof(kind), "RoCE v%d", p->gid.roceVersion);
	say(words, "%s, GID %u, MTU %u%s%s", kind, p->gid.index, 128u << p->mtu,
	    p->can.masked ? ", 4-byte atomics" : "",
	    p->can.relaxedOrdering ? ", relaxed ordering" : "");
}

static void addPort(struct listing *l, struct ibv_device *device, int number)
{
	struct rdmaFound found = {.port = number};
	struct rdmaPort *port = NULL;

	snprintf(found.device, sizeof(found.device), "%s", ibv_get_device_name(device));
	l->wanted.device = found.device;
	l->wanted.port = number;
	found.usable = !portOpen(&l->wanted, &port, found.why);
	if (found.usable) {
		describe(port, found.why);
		portClose(port);
	}
	if (l->count < l->room)
		l->found[l->count] = found;
	l->count++;
}

/* 1 when it cannot be asked, or is not libgin's: opening it then says why. */
static int portsOf(struct ibv_device *device)
{
	struct ibv_context *context = mlx5dv_is_supported(device) ? ibv_open_device(device) : NULL;
	struct ibv_device_attr attr = {.phys_port_cnt = 1};

	if (!context)
		return 1;
	if (ibv_query_device(context, &attr))
		attr.phys_port_cnt = 1;
	ibv_close_device(context);
	return attr.phys_port_cnt;
}

int portList(const struct rdmaWanted *wanted, struct rdmaFound *found, int room, char *why)
{
	struct listing listing = {*wanted, found, room, 0};
	struct ibv_device **list = portDevices(why);

	if (!list)
		return -1;
	for (int i = 0; list[i]; i++)
		for (int port = 1, ports = portsOf(list[i]); port <= ports; port++)
			addPort(&listing, list[i], port);
	ibv_free_device_list(list);
	return listing.count;
}
