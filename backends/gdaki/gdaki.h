/* SPDX-License-Identifier: BSD-3-Clause */
/* gdaki.h - the state of the gdaki backend in one communicator; for files of this folder */
#ifndef GIN_GDAKI_GDAKI_H
#define GIN_GDAKI_GDAKI_H

#include "doorbell.h"
#include "memory.h"
#include "progress.h"

enum { GDAKI_MIN_DEPTH = RDMA_MIN_DEPTH, GDAKI_MAX_DEPTH = 16384 };

struct gdaki {
	const struct backendHost *host;
	const struct rdma *rdma;
	struct rdmaPort *port;
	struct rdmaFeatures features;
	struct rdmaAddress *addresses; /* [nRanks] */
	struct rdmaPath path;
	struct gdakiSources sources;
	struct gdakiMonitor monitor;
	struct gdakiRinger ringer; /* if started, kernels have no doorbell registers */
};

static inline struct rdmaUser gdakiUser(const struct gdaki *g)
{
	return (struct rdmaUser){"gdaki", g->host->device, g->rdma, g->port,
				 g->features.relaxedOrdering};
}

#endif
