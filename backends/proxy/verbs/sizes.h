/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sizes.h - the network verbs: work requests of a queue pair, and allocations of an endpoint
 *
 * The plug-in allocates by these functions, and libgin.so plans by them (gin_info --plan).
 */
#ifndef GIN_PROXY_VERBS_SIZES_H
#define GIN_PROXY_VERBS_SIZES_H

#include <stddef.h>
#include <stdint.h>

#include "backends/rdma/rdma.h"

#define VERBS_MESSAGE 80     /* bytes of a buffer for a message */
#define VERBS_DEPTH_MOST 128 /* work requests of a queue pair, and receives of it */
#define VERBS_DEPTH_LEAST 16
#define VERBS_DEPTH_ALL 8192  /* work requests of an endpoint, about */
#define VERBS_PEER_BYTES 2576 /* of struct verbsPeer */
#define VERBS_OP_BYTES 24     /* of struct verbsOp */

/* Of an endpoint. A queue pair has `depth` work requests and as many receives. */
struct verbsShape {
	uint32_t room;	/* queue pairs */
	uint32_t depth; /* a power of two: serial numbers wrap around, and so do their slots */
};

static inline uint32_t verbsLeast(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The highest power of two up to `most`; 0: there is none. */
static inline uint32_t verbsPowerOfTwo(uint32_t most)
{
	return most ? 1u << (31 - __builtin_clz(most)) : 0;
}

/*
 * With many peers queues are shorter, and a sender waits until the receiver has posted again. With
 * a GPU there is one more queue pair: flush.c. `mostRequests`, `mostCompletions`: the device's
 * limits.
 */
static inline struct verbsShape verbsShapeOf(uint32_t peers, int hasGpu, uint32_t mostRequests,
					     uint32_t mostCompletions)
{
	struct verbsShape s = {.room = peers + (hasGpu != 0)};

	s.depth = verbsLeast(VERBS_DEPTH_ALL / s.room, VERBS_DEPTH_MOST);
	if (s.depth < VERBS_DEPTH_LEAST)
		s.depth = VERBS_DEPTH_LEAST;
	s.depth = verbsLeast(s.depth, mostRequests);
	s.depth = verbsPowerOfTwo(verbsLeast(s.depth, mostCompletions / (2 * s.room)));
	return s;
}

/* Messages of a peer: first those sent, then those received. */
static inline size_t verbsMessagesBytes(const struct verbsShape *s)
{
	return 2 * (size_t)s->depth * VERBS_MESSAGE;
}

/* Registered with the NIC. */
static inline size_t verbsBuffersBytes(const struct verbsShape *s)
{
	return (s->room * verbsMessagesBytes(s) + RDMA_PAGE - 1) / RDMA_PAGE * RDMA_PAGE;
}

static inline size_t verbsTableBytes(const struct verbsShape *s)
{
	return s->room * sizeof(void *);
}

static inline size_t verbsOpsBytes(const struct verbsShape *s)
{
	return (size_t)s->depth * VERBS_OP_BYTES;
}

#endif
