/* SPDX-License-Identifier: BSD-3-Clause */
/* choose.h - which of this host's ports is a rank's: its rail */
#ifndef GIN_GDAKI_CHOOSE_H
#define GIN_GDAKI_CHOOSE_H

#include "backends/backend.h"
#include "rdma.h"

/*
 * Of the usable ports that `names` allows ("mlx5_0,mlx5_2:1"; "": any), those nearest to the GPU;
 * of several alike, ranks of one host take one each, in turn. Returns its index in `found`, or -1
 * and `why`, of RDMA_WHY bytes: what is the matter with each.
 */
int portChoose(const struct backendHost *host, const char *names, const struct rdmaFound *found,
	       int count, char *why);

/* Is the port in the list? A name without a port allows all of the device's. */
int portAllowed(const char *names, const struct rdmaFound *found);

#endif
