/* SPDX-License-Identifier: BSD-3-Clause */
/* internal.h - structures and functions that only the files of peermem use */
#ifndef GIN_BACKENDS_PEERMEM_INTERNAL_H
#define GIN_BACKENDS_PEERMEM_INTERNAL_H

#include "peermem.h"

/* A rank's offer of its part of a window. Every rank has this layout. */
struct peermemOffer {
	uint32_t kind;	  /* enum memoryKind */
	int32_t ordinal;  /* the owner's GPU */
	uint64_t base;	  /* of the allocation, in the owner's process */
	uint64_t span;	  /* of the allocation */
	uint64_t id;	  /* of the allocation, as in struct memory */
	uint64_t offset;  /* of the window in the allocation */
	uint32_t isFirst; /* 1: the first window in the allocation */
	uint32_t cpuOnly; /* as in struct memory */
	union {
		cuIpcHandle ipc;		   /* of memoryIpc */
		struct deviceRun run[DEVICE_RUNS]; /* of memoryVmm */
	};
};

_Static_assert(sizeof(struct peermemOffer) <= BACKEND_OFFER, "it is sent as a backend's offer");

struct peermemExport; /* export.c: an allocation of this rank that has windows */
struct peermemImport; /* import.c: an allocation of another process, mapped here */

/* A peer's part of a window. */
struct peermemPeer {
	enum memoryKind kind;	      /* memoryNone: not mapped, or empty */
	char *address;		      /* in this process; NULL: not mapped, or empty */
	struct peermemImport *import; /* NULL: nothing was mapped */
	uint64_t inPlace;	      /* memory of this process, as memoryUse() counts it; or 0 */
};

struct peermemWindow {
	struct peermemExport *own; /* NULL: peers get no access */
	int fd;			   /* the handle for peers; -1: none is needed */
	int ownsFd;
	const char *base;	   /* of memoryVmm of several pieces */
	struct peermemPeer peer[]; /* [nRanks] */
};

/* Touched by the calls of the communicator, one at a time. */
struct peermem {
	const struct backendHost *host;
	const char *name; /* of the backend */
	struct peermemPeers peers;
	void *exports; /* tsearch() of struct peermemExport */

	/*
	 * Used during one registration, [nRanks]: the ranks that get this rank's handle, and the
	 * ranks whose handles this rank gets.
	 */
	uint8_t *to, *from;
	int *fds;			 /* of first or only pieces */
	int *more;			 /* of further pieces, one from each rank at a time */
	struct peermemArrival *arrivals; /* register.c */
};

/* The pieces of a rank's memory that have arrived so far; none if the memory is one piece. */
struct peermemArrival {
	cuAllocation *piece;
	uint64_t count;
};

/* export.c: makes this rank's offer. `window` keeps the objects that the offer refers to. */
ginResult_t peermemExport(struct peermem *peermem, const struct memory *memory,
			  struct peermemOffer *offer, struct peermemWindow *window);
void peermemUnexport(struct peermem *peermem, struct peermemWindow *window);

/* export.c: makes the handle of a later piece of this rank's memory, if any peer needs it. */
ginResult_t peermemExportPiece(const struct peermem *peermem, const struct peermemOffer *offer,
			       uint64_t i, struct peermemWindow *window);

/*
 * import.c: maps the memory that a peer offers. `fd`: the handle, if the peer sent one; `arrival`
 * has all handles of memory of several pieces.
 */
ginResult_t peermemImport(const struct backendHost *host, int peer,
			  const struct peermemOffer *offer, int fd,
			  const struct peermemArrival *arrival, struct peermemPeer *out);
void peermemUnimport(const struct device *d, struct peermemPeer *peer);

/* Is memory of `kind` sent to another rank by a file descriptor? */
static inline int peermemNeedsHandle(uint32_t kind, int sameProcess)
{
	return kind == memoryVmm || (kind == memoryShared && !sameProcess);
}

/* Pieces of an allocation of 2 TiB. An offer with more pieces is wrong. */
#define PEERMEM_PIECES_MOST (UINT64_C(1) << 20)

/* Checks each run: the sum of wrong runs may wrap. */
static inline int peermemTooManyPieces(const struct peermemOffer *offer)
{
	for (int i = 0; i < DEVICE_RUNS; i++)
		if (offer->run[i].count > PEERMEM_PIECES_MOST)
			return 1;
	return devicePieces(offer->run) > PEERMEM_PIECES_MOST;
}

/* 1 for a wrong offer: all ranks then exchange equally many handles. */
static inline uint64_t peermemPieces(const struct peermemOffer *offer)
{
	if (offer->kind != memoryVmm || peermemTooManyPieces(offer))
		return 1;
	return devicePieces(offer->run);
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
