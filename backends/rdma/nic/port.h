/* SPDX-License-Identifier: BSD-3-Clause */
/* port.h - an open port of an RDMA device: its capabilities, its GID and its events */
#ifndef GIN_NIC_PORT_H
#define GIN_NIC_PORT_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <stdbool.h>

#include "backends/rdma/rdma.h"

/* The capabilities of the device, from QUERY_HCA_CAP. */
struct nicCapability {
	bool rc, cqeVersion1, ignoreOverrun, ethernet;
	bool atomics8; /* fetch-and-add and compare-and-swap of 8 bytes */
	bool masked;   /* masked atomics of 4 and 8 bytes */
	bool relaxedOrdering;
	uint32_t tsFormat; /* enum qpcTsFormat, for queue pairs */
	uint32_t logDepth, logQueues;
	uint32_t firstPort, lastPort; /* range of UDP source ports of RoCE v2 */
};

/* An entry of a port's GID table. */
struct nicGid {
	uint8_t bytes[16];
	uint32_t index;
	int roceVersion; /* 0 on InfiniBand; 1 or 2 */
	uint16_t partition;
};

struct rdmaPort {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t pdNumber, eventQueue;
	uint8_t number;	      /* 1 or more */
	uint8_t logReads;     /* log2 of READs and atomics at a time, as responder */
	uint8_t logReadsOut;  /* as requester */
	uint8_t mtu;	      /* enum ibv_mtu */
	bool isPlain;	      /* `pdNumber`, `eventQueue` and most of `can` are 0 */
	uint32_t mostMessage; /* bytes */
	struct ibv_port_attr attr;
	struct nicCapability can;
	struct nicGid gid;
};

/*
 * "RoCE v2", "RoCE v2 IPv6", "InfiniBand", or with a subnet or a partition that is not the common
 * one: ports with equal text may reach each other. It has no comma.
 */
#define PORT_NETWORK 48
void portNetwork(const struct rdmaPort *port, char text[PORT_NETWORK]);

/*
 * The entry of index `wanted`; or with -1 the best of this network namespace. Fills in port->gid,
 * or returns -1, and why.
 */
int gidChoose(struct rdmaPort *port, int wanted, char *why);

/* Are both GIDs of one InfiniBand subnet? */
int gidSameSubnet(const uint8_t *a, const uint8_t *b);

/* Members of struct rdma. */
int portList(const struct rdmaWanted *wanted, struct rdmaFound *found, int room, char *why);
int portOpen(const struct rdmaWanted *wanted, struct rdmaPort **port, char *why);
void portClose(struct rdmaPort *port);
void portDescribe(const struct rdmaPort *port, struct rdmaAddress *address,
		  struct rdmaFeatures *features);
int portEvent(struct rdmaPort *port, char *text, int *lost);
void errorText(unsigned syndrome, unsigned vendor, char *text);

#endif
