/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plan.h - the memory and exchanges of a rank when every pair of ranks uses one route
 *
 * The sizes come from the functions that the allocating code calls. They leave out structures of
 * fixed size, and the memory of the CUDA driver and of network libraries.
 */
#ifndef GIN_BACKENDS_PLAN_H
#define GIN_BACKENDS_PLAN_H

#include <stddef.h>
#include <stdint.h>

struct backendContexts;

/* The calls in which memory is allocated and exchanges are made. */
enum planPhase {
	planStart,  /* opening the communicator */
	planCreate, /* one device communicator */
	planWindow, /* registering one window */
	PLAN_PHASES
};

/* Bytes of heap, of pinned memory, and of memory that is GPU memory where there is a GPU. */
struct planMemory {
	uint64_t heap, pinned, device;
};

/* Collectives of the control plane: allgathers, or all-to-alls if `block` is not 0. */
struct planExchange {
	enum planPhase phase;
	uint32_t times;
	size_t bytes, block; /* as in controlAllgather() and controlAlltoall() */
};

enum planNetwork {
	planNoNetwork, /* shared memory */
	planAddressed, /* a network that connects by addresses: libfabric */
	planConnected  /* verbs, with a queue pair for each peer */
};

#define PLAN_EXCHANGES 16

struct plan {
	int nRanks;
	int domainSize; /* ranks of an NVLink domain: all by the direct route, 1 by others */
	enum planNetwork network;	    /* of the proxy */
	const struct backendContexts *want; /* without `words` */

	uint64_t queuePairs;	       /* of a device communicator */
	uint64_t addresses;	       /* of peers, in a network library */
	uint64_t regions[PLAN_PHASES]; /* pieces of memory registered with a NIC */
	struct planMemory memory[PLAN_PHASES];
	struct planExchange exchange[PLAN_EXCHANGES];
	uint32_t exchanges;
};

static inline void planAdd(struct plan *plan, struct planExchange exchange)
{
	if (exchange.times && plan->exchanges < PLAN_EXCHANGES)
		plan->exchange[plan->exchanges++] = exchange;
}

#endif
