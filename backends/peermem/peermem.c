/* SPDX-License-Identifier: BSD-3-Clause */
/* peermem.c - opens and closes an instance, and makes and frees its windows */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

void peermemClose(struct peermem *peermem)
{
	if (!peermem)
		return;
	free(peermem->arrivals);
	free(peermem);
}

/* One allocation: `arrivals`, `fds`, `more`, `to` and `from`, in the order of their alignment. */
static size_t tablesBytes(size_t nRanks)
{
	return nRanks * (sizeof(struct peermemArrival) + 2 * sizeof(int) + 2);
}

static size_t windowBytes(size_t nRanks)
{
	return sizeof(struct peermemWindow) + nRanks * sizeof(struct peermemPeer);
}

void peermemPlan(struct plan *plan)
{
	plan->memory[planStart].heap += tablesBytes((size_t)plan->nRanks);
	plan->memory[planWindow].heap += windowBytes((size_t)plan->nRanks);
}

ginResult_t peermemOpen(const struct backendHost *host, const char *name,
			const struct peermemPeers *peers, struct peermem **out)
{
	size_t n = (size_t)host->nRanks;
	struct peermem *peermem = calloc(1, sizeof(*peermem));

	if (peermem) {
		peermem->host = host;
		peermem->name = name;
		peermem->peers = *peers;
		peermem->arrivals = calloc(1, tablesBytes(n));
	}
	if (!peermem || !peermem->arrivals) {
		peermemClose(peermem);
		return fail(ginErrorSystem, "no memory");
	}
	peermem->fds = (int *)(peermem->arrivals + n);
	peermem->more = peermem->fds + n;
	peermem->to = (uint8_t *)(peermem->more + n);
	peermem->from = peermem->to + n;
	*out = peermem;
	return ginSuccess;
}

void peermemDeregister(struct peermem *peermem, struct peermemWindow *w)
{
	for (int r = 0; r < peermem->host->nRanks; r++)
		peermemUnimport(peermem->host->device, &w->peer[r]);
	peermemUnexport(peermem, w);
	free(w);
}

ginResult_t peermemOffer(struct peermem *peermem, const struct memory *memory, void *blob,
			 struct peermemWindow **window)
{
	struct peermemOffer offer;
	struct peermemWindow *w = calloc(1, windowBytes((size_t)peermem->host->nRanks));

	if (!w)
		return fail(ginErrorSystem, "no memory");
	w->fd = -1;
	ginResult_t result = peermemExport(peermem, memory, &offer, w);
	if (result != ginSuccess) {
		peermemDeregister(peermem, w);
		return result;
	}
	memcpy(blob, &offer, sizeof(offer));
	*window = w;
	return ginSuccess;
}

char *peermemAddress(const struct peermemWindow *window, int peer)
{
	return window->peer[peer].address;
}

enum memoryKind peermemKind(const struct peermemWindow *window, int peer)
{
	return window->peer[peer].kind;
}
