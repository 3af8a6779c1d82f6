/* SPDX-License-Identifier: BSD-3-Clause */
/* capability.h - what a device can do, as it says itself (QUERY_HCA_CAP) */
#ifndef GIN_NIC_CAPABILITY_H
#define GIN_NIC_CAPABILITY_H

#include <stdbool.h>
#include <stdint.h>

struct ibv_context;

struct capability {
	bool rc, cqeVersion1, ignoreOverrun, ethernet;
	bool atomics8; /* fetch-and-add, compare-and-swap of 8 bytes */
	bool masked;   /* and with masks, of 4 and 8 bytes */
	bool relaxedOrdering;
	uint32_t tsFormat; /* enum qpcTsFormat, for queue pairs */
	uint32_t logDepth, logQueues;
	uint32_t firstPort, lastPort; /* UDP source ports of RoCE v2 */
};

int capabilityQuery(struct ibv_context *context, struct capability *out, char *why);

/* Does it lack what libgin needs? 0, or -1 and what. */
int capabilityCheck(const struct capability *c, char *why);

#endif
