/* SPDX-License-Identifier: BSD-3-Clause */
/* register.c - registers a window: exchanges handles and maps the parts of all served ranks */
#include <string.h>
#include <unistd.h>

#include "within.h"

/* The offers of all ranks; rank r's begins at first + r * stride. */
struct peermemOffers {
	const uint8_t *first;
	size_t stride;
};

static struct peermemOffer offerOf(const struct peermemOffers *offers, int rank)
{
	struct peermemOffer offer;

	memcpy(&offer, offers->first + (size_t)rank * offers->stride, sizeof(offer));
	return offer;
}

static int comesByHandle(const struct peermemOffer *offer, int same)
{
	return offer->isFirst && peermemNeedsHandle(offer->kind, same);
}

static void planHandles(struct peermem *peermem, const struct peermemOffers *offers)
{
	const struct backendHost *host = peermem->host;
	const struct peermemOffer mine = offerOf(offers, host->rank);

	for (int r = 0; r < host->nRanks; r++) {
		peermem->to[r] = peermem->from[r] = 0;
		if (r == host->rank || !peermemIsPeer(peermem, r))
			continue;
		const struct peermemOffer theirs = offerOf(offers, r);
		int same = peermemSameProcess(host, r);
		peermem->to[r] = comesByHandle(&mine, same) != 0;
		peermem->from[r] = comesByHandle(&theirs, same) != 0;
	}
}

static ginResult_t reachAll(struct peermem *peermem, const struct peermemOffers *offers,
			    struct peermemWindow *window)
{
	const struct backendHost *host = peermem->host;
	ginResult_t result = ginSuccess;

	for (int r = 0; r < host->nRanks && result == ginSuccess; r++) {
		const struct peermemOffer offer = offerOf(offers, r);
		if (peermemIsPeer(peermem, r))
			result = peermemImport(host, r, &offer, peermem->fds[r], &window->peer[r]);
	}
	return result;
}

static void closeHandles(const struct peermem *peermem)
{
	for (int r = 0; r < peermem->host->nRanks; r++)
		if (peermem->fds[r] >= 0)
			close(peermem->fds[r]);
}

ginResult_t peermemRegister(struct peermem *peermem, ginResult_t mine, const uint8_t *first,
			    size_t stride, struct peermemWindow *window)
{
	const struct backendHost *host = peermem->host;
	const struct peermemOffers offers = {first, stride};

	planHandles(peermem, &offers);
	ginResult_t result = host->exchangeHandles(host->core, window->fd, peermem->to,
						   peermem->from, peermem->fds);
	if (mine == ginSuccess)
		mine = result;
	if (mine == ginSuccess)
		mine = reachAll(peermem, &offers, window);
	closeHandles(peermem);
	if (window->ownsFd)
		close(window->fd);
	window->ownsFd = 0;
	window->fd = -1;
	return mine;
}
