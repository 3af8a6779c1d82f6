/* SPDX-License-Identifier: BSD-3-Clause */
/* direct.h - within the direct backend */
#ifndef GIN_BACKENDS_DIRECT_H
#define GIN_BACKENDS_DIRECT_H

#include "../backend.h"

/* What a rank offers of its window; the same layout on all ranks. */
struct directOffer {
	uint32_t kind; /* enum memoryKind */
	int32_t ordinal;
	uint64_t address; /* in the owner's process */
	uint64_t offset;  /* of the window in the allocation */
	uint64_t span;	  /* of the allocation */
	cuIpcHandle ipc;  /* memoryIpc */
};

/* A peer's window here. */
struct directPeer {
	char *address; /* NULL: not reached, or empty */
	char *mapped;  /* what was mapped for it; NULL: nothing */
	size_t span;
	uint32_t kind; /* of the mapping */
};

struct directWindow {
	struct directPeer *peer; /* [nRanks] */
};

/* share.c: collective, as backendOps.windowRegister. */
ginResult_t directShare(const struct backendHost *host, const char *call, ginResult_t mine,
			const struct memory *memory, struct directWindow **window);
void directUnshare(const struct backendHost *host, struct directWindow *window);

/* map.c: this rank's offer; a peer's offer mapped here, `fd` for those that come by one. */
ginResult_t directMakeOffer(const struct backendHost *host, const struct memory *memory,
			    struct directOffer *offer);
ginResult_t directExport(const struct device *d, const struct memory *memory, int *fd);
ginResult_t directMap(const struct backendHost *host, int peer, const struct directOffer *offer,
		      int fd, struct directPeer *out);
void directUnmap(const struct device *d, struct directPeer *peer);

/* Does a window of `kind` come to another rank by a file descriptor? */
static inline int directNeedsHandle(uint32_t kind, int sameProcess)
{
	return kind == memoryVmm || (kind == memoryShared && !sameProcess);
}

#endif
