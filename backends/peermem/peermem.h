/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peermem.h - memory of other ranks of this host, mapped into this process
 *
 * What backends have in common whose peers are on one host: each has an instance of its own, which
 * serves the pairs of ranks that it names. No backend of its own, and it moves no data.
 *
 * Several windows may lie in one allocation. It comes to a peer with the first of them in an
 * instance, is mapped once per process that reaches it, and stays until the last has gone.
 */
#ifndef GIN_BACKENDS_PEERMEM_H
#define GIN_BACKENDS_PEERMEM_H

#include "backends/backend.h"

/* What a rank tells of itself when its backend is probed; may begin the backend's blob. */
struct peermemBlob {
	uint32_t hasGpu;
	cuUuid uuid;
};

void peermemTell(const struct device *device, struct peermemBlob *out);

/* How two ranks of one host that can map each other's memory are connected. */
struct peermemLink {
	int ordinal;	   /* of the peer's GPU in this process; GIN_DEVICE_NONE without GPUs */
	int nativeAtomics; /* the threads of one do atomics in the other's memory */
};

/*
 * Can this rank map memory of `peer`, which may be itself? 1, and `link`; or 0. `why`, of
 * BACKEND_WHY bytes, says how, or why not. Any thread, any time after the probe.
 */
int peermemReach(const struct backendHost *host, int peer, const struct peermemBlob *theirs,
		 struct peermemLink *link, char *why);

struct peermem;	      /* the instance of a backend in one communicator */
struct peermemWindow; /* a window in it */

/*
 * The ranks that exchange windows with this one, itself included or not. Two ranks must say the
 * same of each other, as long as the instance is open.
 */
struct peermemPeers {
	int (*serves)(const void *of, int rank);
	const void *of;
};

/* `name` is the backend's, for messages. Not collective. */
ginResult_t peermemOpen(const struct backendHost *host, const char *name,
			const struct peermemPeers *peers, struct peermem **out);
void peermemClose(struct peermem *peermem);

/* The calls for windows are those of struct backendOps. */
ginResult_t peermemOffer(struct peermem *peermem, const struct memory *memory, void *offer,
			 struct peermemWindow **window);
ginResult_t peermemRegister(struct peermem *peermem, ginResult_t mine, const uint8_t *offers,
			    size_t stride, struct peermemWindow *window);
void peermemDeregister(struct peermem *peermem, struct peermemWindow *window);

/* Where it is here, NULL when it is not reached or empty; own rank included, if it is a peer. */
char *peermemAddress(const struct peermemWindow *window, int peer);

/*
 * What memory it is, memoryNone when it is not reached or empty: CPUs of this process load and
 * store it when it is memoryShared or, without a GPU, memoryPrivate of a rank of this process.
 */
enum memoryKind peermemKind(const struct peermemWindow *window, int peer);

#endif
