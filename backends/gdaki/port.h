/* SPDX-License-Identifier: BSD-3-Clause */
/* port.h - which of this host's ports is a rank's: its rail */
#ifndef GIN_GDAKI_PORT_H
#define GIN_GDAKI_PORT_H

#include "backends/backend.h"
#include "rdma.h"

/* Its calls; or NULL, and in words why there are none. Any thread. */
const struct rdma *rdmaLoad(char *why, size_t room);

/*
 * How many bridges from the root on they share; more is nearer, 0: not known, or nothing. `sysfs`
 * is "/sys"; `nic` a name as "mlx5_0"; `gpu` a bus id as "0000:1B:00.0", in capitals or not.
 */
unsigned nearness(const char *sysfs, const char *nic, const char *gpu);

/*
 * Of the usable ports that `names` allows ("mlx5_0,mlx5_2:1"; "": any), those nearest to the GPU;
 * of several alike, ranks of one host take one each, in turn. Returns its index in `found`, or -1
 * and `why`, of RDMA_WHY bytes: what is the matter with each.
 */
int portChoose(const struct backendHost *host, const char *names, const struct rdmaFound *found,
	       int count, char *why);

/* Is the port in the list? A name without a port allows all of the device's. */
int portAllowed(const char *names, const struct rdmaFound *found);

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
