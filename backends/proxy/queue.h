/* SPDX-License-Identifier: BSD-3-Clause */
/* queue.h - the memory of a device communicator's queues: what kernels and the proxy share */
#ifndef GIN_PROXY_QUEUE_H
#define GIN_PROXY_QUEUE_H

#include "backends/backend.h"

/* One context's, as the proxy uses it. All host-pinned. */
struct hostQueue {
	uint64_t *ring;
	uint64_t *consumed;
	uint64_t *done;		     /* [nRanks + 1] */
	uint64_t *failed;	     /* [2]: the queue, the first transfer */
	uint64_t *results, *settled; /* [GIN_QUEUE_RESULTS] */
	uint64_t *counters;	     /* [counters] */
};

struct queues {
	const struct device *device;
	uint32_t nRanks;
	struct backendContexts want;
	char *host;		 /* rings, words, counters of all contexts */
	size_t contextBytes;	 /* of one, in `host` */
	struct ginQueue *kernel; /* [contexts], what kernels write behind it; GPU memory */
};

/* Zeroed. The device's scope is entered. */
ginResult_t queuesMake(const struct device *d, int nRanks, const struct backendContexts *want,
		       struct queues *queues);
void queuesFree(struct queues *queues);

struct hostQueue queuesHost(const struct queues *queues, uint32_t context);

/* How often posters found the queue full. Any thread; the device's scope is entered. */
ginResult_t queuesWaits(const struct queues *queues, uint32_t context, uint64_t *waits);

/* What kernels have to know of them. */
void queuesTell(const struct queues *queues, ginDevComm *devComm);

#endif
