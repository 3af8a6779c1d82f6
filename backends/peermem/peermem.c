/* SPDX-License-Identifier: BSD-3-Clause */
/* peermem.c - opens and closes an instance, and makes and frees its windows */
#include <stdlib.h>
#include <string.h>

#include "within.h"

void peermemClose(struct peermem *peermem)
{
	if (!peermem)
		return;
	free(peermem->to);
	free(peermem->from);
	free(peermem->fds);
	free(peermem->more);
	free(peermem->arrivals);
	free(peermem);
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
		peermem->to = calloc(n, 1);
		peermem->from = calloc(n, 1);
		peermem->fds = calloc(n, sizeof(*peermem->fds));
		peermem->more = calloc(n, sizeof(*peermem->more));
		peermem->arrivals = calloc(n, sizeof(*peermem->arrivals));
	}
	if (!peermem || !peermem->to || !peermem->from || !peermem->fds || !peermem->more ||
	    !peermem->arrivals) {
		peermemClose(peermem);
		return fail(ginErrorSystem, "no memory");
	}
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
	struct peermemWindow *w =
		calloc(1, sizeof(*w) + (size_t)peermem->host->nRanks * sizeof(w->peer[0]));

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
