/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * direct.h - within the direct backend
 *
 * Several windows may lie in one allocation. It comes to a peer with the first of them in a
 * communicator, is mapped once per process that reaches it, and stays until the last has gone.
 */
#ifndef GIN_BACKENDS_DIRECT_H
#define GIN_BACKENDS_DIRECT_H

#include "../backend.h"

/* What a rank offers of its window; the same layout on all ranks. */
struct directOffer {
	uint32_t kind;	  /* enum memoryKind */
	int32_t ordinal;  /* of the owner's GPU */
	uint64_t base;	  /* of the allocation, in the owner's process */
	uint64_t span;	  /* of the allocation */
	uint64_t id;	  /* of the allocation: as struct memory's */
	uint64_t offset;  /* of the window in it */
	uint32_t isFirst; /* of the owner's windows in it */
	uint32_t pad;
	cuIpcHandle ipc; /* memoryIpc */
};

_Static_assert(sizeof(struct directOffer) <= BACKEND_OFFER, "travels as one");

struct directExport; /* export.c: an allocation of this rank with windows in it */
struct directImport; /* import.c: an allocation of another process, mapped here */

/* A peer's window here. */
struct directPeer {
	char *address;		     /* NULL: not reached, or empty */
	struct directImport *import; /* NULL: nothing was mapped for it */
};

struct directWindow {
	struct directExport *own; /* NULL: nothing of this rank's comes to peers */
	int fd;			  /* what peers get of it; -1: nothing, or they have it */
	int ownsFd;
	struct directPeer peer[]; /* [nRanks] */
};

/* The backend in one communicator. */
struct direct {
	const struct backendHost *host;
	void *exports; /* tsearch() of struct directExport */

	/* Of the registration in progress, [nRanks]: who gets a handle of mine, whose do I get. */
	uint8_t *to, *from;
	int *fds;
};

/* export.c: this rank's offer; what it holds is kept in `window`. */
ginResult_t directOffer(struct direct *direct, const struct memory *memory,
			struct directOffer *offer, struct directWindow *window);
void directUnoffer(struct direct *direct, struct directWindow *window);

/* import.c: a peer's offer reached from here, by `fd` where it comes by one. */
ginResult_t directReachOffer(const struct backendHost *host, int peer,
			     const struct directOffer *offer, int fd, struct directPeer *out);
void directUnreach(const struct device *d, struct directPeer *peer);

/* share.c: as backendOps. */
ginResult_t directShare(struct direct *direct, ginResult_t mine, const uint8_t *offers,
			size_t stride, struct directWindow *window);

/* Does memory of `kind` come to another rank by a file descriptor? */
static inline int directNeedsHandle(uint32_t kind, int sameProcess)
{
	return kind == memoryVmm || (kind == memoryShared && !sameProcess);
}

static inline int directIsPeer(const struct backendHost *host, int rank)
{
	return host->routes[rank] == ginRouteDirect;
}

static inline int directSameProcess(const struct backendHost *host, int rank)
{
	return identitySameProcess(&host->ranks[host->rank], &host->ranks[rank]);
}

#endif
