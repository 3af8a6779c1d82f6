/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peermem.h - maps the memory of other ranks of this host into this process
 *
 * The direct and the proxy backend use it. It is not a backend and moves no data. Each backend
 * opens its own instance and names the ranks that it serves.
 *
 * One allocation may contain several windows. An instance sends the allocation's handle with the
 * first of these windows. Each process maps the allocation once and unmaps it after the last of its
 * windows is deregistered.
 */
#ifndef GIN_BACKENDS_PEERMEM_H
#define GIN_BACKENDS_PEERMEM_H

#include "backends/backend.h"

/* The beginning of the blob of a backend, which its probe sends to the peers. */
struct peermemBlob {
	uint32_t hasGpu;
	cuUuid uuid;
};

void peermemDescribe(const struct device *device, struct peermemBlob *out);

/* The connection of two ranks of one host that can map each other's memory. */
struct peermemLink {
	int ordinal;	   /* the peer's GPU in this process; GIN_DEVICE_NONE without GPUs */
	int nativeAtomics; /* each rank's threads can do atomics in the other's memory */
};

/*
 * Can this rank map memory of `peer`, which may be this rank? 1 and `link`, or 0. `why`, of
 * BACKEND_WHY bytes, says how, or why not. Any thread, any time after the probe.
 */
int peermemReach(const struct backendHost *host, int peer, const struct peermemBlob *theirs,
		 struct peermemLink *link, char *why);

struct peermem;	      /* the instance of a backend in one communicator */
struct peermemWindow; /* a window in it */

/*
 * The ranks that exchange windows with this rank, with or without this rank. serves() must be
 * symmetric between two ranks, and must not change while the instance is open.
 */
struct peermemPeers {
	int (*serves)(const void *of, int rank);
	const void *of;
};

/* `name`: of the backend, for messages. Not collective. */
ginResult_t peermemOpen(const struct backendHost *host, const char *name,
			const struct peermemPeers *peers, struct peermem **out);
void peermemClose(struct peermem *peermem);

/* Adds an instance, and in a window its part. */
void peermemPlan(struct plan *plan);

/* As windowOffer, windowRegister and windowDeregister of struct backendOps. */
ginResult_t peermemOffer(struct peermem *peermem, const struct memory *memory, void *offer,
			 struct peermemWindow **window);
ginResult_t peermemRegister(struct peermem *peermem, ginResult_t mine, const uint8_t *offers,
			    size_t stride, struct peermemWindow *window);
void peermemDeregister(struct peermem *peermem, struct peermemWindow *window);

/*
 * The address in this process of the window's part at `peer`, which may be this rank; NULL: not
 * mapped, or empty.
 */
char *peermemAddress(const struct peermemWindow *window, int peer);

/*
 * The kind of the part's memory; memoryNone: not mapped, or empty. CPUs of this process can load
 * and store memoryShared; without a GPU also memoryPrivate of a rank of this process.
 */
enum memoryKind peermemKind(const struct peermemWindow *window, int peer);

#endif
