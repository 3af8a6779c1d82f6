/* SPDX-License-Identifier: BSD-3-Clause */
/* gid.h - which entry of a port's table of addresses (GIDs) is this rank's */
#ifndef GIN_NIC_GID_H
#define GIN_NIC_GID_H

#include <stdint.h>

struct ibv_context;

struct gid {
	uint8_t bytes[16];
	uint32_t index;
	int roceVersion; /* 0 on InfiniBand, 1, 2 */
};

/*
 * Index `wanted`, or with -1 the best one: on InfiniBand the first; on Ethernet RoCE v2, of an IPv4
 * address before an IPv6 one, link-local ones last, and RoCE v1 when there is nothing else.
 */
int gidChoose(struct ibv_context *context, int port, int wanted, struct gid *out, char *why);

/* Are both of one InfiniBand subnet? */
int gidSameSubnet(const uint8_t *a, const uint8_t *b);

#endif
