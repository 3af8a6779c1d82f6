/* SPDX-License-Identifier: BSD-3-Clause */
/* probe.h - can this rank have queues of an mlx5 NIC, and on which port? */
#ifndef GIN_GDAKI_PROBE_H
#define GIN_GDAKI_PROBE_H

#include "backends/backend.h"
#include "rdma.h"

/*
 * As struct backendOps: 1 and the address of the rank's port, or 0 and why not. GIN_NIC and
 * GIN_NIC_GID are followed.
 */
int gdakiProbe(const struct backendHost *host, struct rdmaAddress *address, char why[BACKEND_WHY]);

/* ginNicQuery(): each port of this machine, those that GIN_NIC leaves out as not usable. */
ginResult_t gdakiNic(int index, ginNicInfo_t *info);

/* The same port as the probe's, for queues; it is the caller's to close. */
ginResult_t gdakiPortOpen(const struct backendHost *host, const struct rdma **rdma,
			  struct rdmaPort **port);

#endif
