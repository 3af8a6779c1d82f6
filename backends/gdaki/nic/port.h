/* SPDX-License-Identifier: BSD-3-Clause */
/* port.h - an open port of an mlx5 device, and what all that is made on it needs */
#ifndef GIN_NIC_PORT_H
#define GIN_NIC_PORT_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdbool.h>

#include "backends/gdaki/rdma.h"

struct ibv_context;

struct nicCapability {
	bool rc, cqeVersion1, ignoreOverrun, ethernet;
	bool atomics8; /* fetch-and-add, compare-and-swap of 8 bytes */
	bool masked;   /* and with masks, of 4 and 8 bytes */
	bool relaxedOrdering;
	uint32_t tsFormat; /* enum qpcTsFormat, for queue pairs */
	uint32_t logDepth, logQueues;
	uint32_t firstPort, lastPort; /* UDP source ports of RoCE v2 */
};

int capabilityQuery(struct ibv_context *context, struct nicCapability *out, char *why);

/* Does it lack what libgin needs? 0, or -1 and what. */
int capabilityCheck(const struct nicCapability *c, char *why);

struct ibv_context;

struct nicGid {
	uint8_t bytes[16];
	uint32_t index;
	int roceVersion; /* 0 on InfiniBand, 1, 2 */
};

/*
 * Index `wanted`, or with -1 the best one: on InfiniBand the first; on Ethernet RoCE v2, of an IPv4
 * address before an IPv6 one, link-local ones last, and RoCE v1 when there is nothing else.
 */
int gidChoose(struct ibv_context *context, int port, int wanted, struct nicGid *out, char *why);

/* Are both of one InfiniBand subnet? */
int gidSameSubnet(const uint8_t *a, const uint8_t *b);

struct rdmaPort {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t pdNumber, eventQueue;
	uint8_t number;		       /* from 1 on */
	uint8_t logReads, logReadsOut; /* reads and atomics at a time: as responder, as requester */
	uint8_t mtu;		       /* enum ibv_mtu */
	struct ibv_port_attr attr;
	struct nicCapability can;
	struct nicGid gid;
};

/* ibv_get_device_list(), or NULL and why. */
struct ibv_device **portDevices(char *why);

int portOpen(const struct rdmaWanted *wanted, struct rdmaPort **port, char *why);
void portClose(struct rdmaPort *port);
void portDescribe(const struct rdmaPort *port, struct rdmaAddress *address,
		  struct rdmaFeatures *features);
int portEvent(struct rdmaPort *port, char *text, int *lost);
void errorText(unsigned syndrome, unsigned vendor, char *text);

/* list.c */
int portList(const struct rdmaWanted *wanted, struct rdmaFound *found, int room, char *why);

#endif
