/* SPDX-License-Identifier: BSD-3-Clause */
/* port.h - an open port of an mlx5 device, and what all that is made on it needs */
#ifndef GIN_NIC_PORT_H
#define GIN_NIC_PORT_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "backends/gdaki/rdma.h"
#include "capability.h"
#include "gid.h"

struct rdmaPort {
	struct ibv_context *context;
	struct ibv_pd *pd;
	uint32_t pdNumber, eventQueue;
	uint8_t number;		       /* from 1 on */
	uint8_t logReads, logReadsOut; /* reads and atomics at a time: as responder, as requester */
	uint8_t mtu;		       /* enum ibv_mtu */
	struct ibv_port_attr attr;
	struct capability can;
	struct gid gid;
};

/* ibv_get_device_list(), or NULL and why. */
struct ibv_device **portDevices(char *why);

int portOpen(const struct rdmaWanted *wanted, struct rdmaPort **port, char *why);
void portClose(struct rdmaPort *port);
void portTell(const struct rdmaPort *port, struct rdmaAddress *address,
	      struct rdmaFeatures *features);
int portEvent(struct rdmaPort *port, char *text, int *lost);
void errorText(unsigned syndrome, unsigned vendor, char *text);

/* list.c */
int portList(const struct rdmaWanted *wanted, struct rdmaFound *found, int room, char *why);

#endif
