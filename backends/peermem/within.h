/* SPDX-License-Identifier: BSD-3-Clause */
/* within.h - what the files of peermem share */
#ifndef GIN_BACKENDS_PEERMEM_WITHIN_H
#define GIN_BACKENDS_PEERMEM_WITHIN_H

#include "peermem.h"

/* What a rank offers of its window; the same layout on all ranks. */
struct peermemOffer {
	uint32_t kind;	  /* enum memoryKind */
	int32_t ordinal;  /* of the owner's GPU */
	uint64_t base;	  /* of the allocation, in the owner's process */
	uint64_t span;	  /* of the allocation */
	uint64_t id;	  /* of the allocation: as struct memory's */
	uint64_t offset;  /* of the window in it */
	uint32_t isFirst; /* of the owner's windows in it */
	uint32_t cpuOnly; /* as struct memory's */
	cuIpcHandle ipc;  /* memoryIpc */
};

_Static_assert(sizeof(struct peermemOffer) <= BACKEND_OFFER, "travels as one");

struct peermemExport; /* export.c: an allocation of this rank with windows in it */
struct peermemImport; /* import.c: an allocation of another process, mapped here */

/* A peer's window here. */
struct peermemPeer {
	enum memoryKind kind;	      /* of what rank offered; memoryNone: not reached, or empty */
	char *address;		      /* NULL: the same */
	struct peermemImport *import; /* NULL: nothing was mapped for it */
};

struct peermemWindow {
	struct peermemExport *own; /* NULL: nothing of this rank's comes to peers */
	int fd;			   /* what peers get of it; -1: nothing, or they have it */
	int ownsFd;
	struct peermemPeer peer[]; /* [nRanks] */
};

struct peermem {
	const struct backendHost *host;
	const char *name; /* of the backend */
	struct peermemPeers peers;
	void *exports; /* tsearch() of struct peermemExport */

	/* Of the registration in progress, [nRanks]: who gets a handle of mine, whose do I get. */
	uint8_t *to, *from;
	int *fds;
};

/* export.c: this rank's offer; what it holds is kept in `window`. */
ginResult_t peermemExport(struct peermem *peermem, const struct memory *memory,
			  struct peermemOffer *offer, struct peermemWindow *window);
void peermemUnexport(struct peermem *peermem, struct peermemWindow *window);

/* import.c: a peer's offer reached from here, by `fd` where it comes by one. */
ginResult_t peermemImport(const struct backendHost *host, int peer,
			  const struct peermemOffer *offer, int fd, struct peermemPeer *out);
void peermemUnimport(const struct device *d, struct peermemPeer *peer);

/* Does memory of `kind` come to another rank by a file descriptor? */
static inline int peermemNeedsHandle(uint32_t kind, int sameProcess)
{
	return kind == memoryVmm || (kind == memoryShared && !sameProcess);
}

static inline int peermemIsPeer(const struct peermem *peermem, int rank)
{
	return peermem->peers.serves(peermem->peers.of, rank);
}

static inline int peermemSameProcess(const struct backendHost *host, int rank)
{
	return identitySameProcess(&host->ranks[host->rank], &host->ranks[rank]);
}

#endif
