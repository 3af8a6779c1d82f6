/* SPDX-License-Identifier: BSD-3-Clause */
/* share.c - one window, reached by all ranks on the direct route */
#include <string.h>
#include <unistd.h>

#include "direct.h"

/* Where the offers of all ranks stand. */
struct offers {
	const uint8_t *first;
	size_t stride;
};

static struct directOffer offerOf(const struct offers *offers, int rank)
{
	struct directOffer offer;

	memcpy(&offer, offers->first + (size_t)rank * offers->stride, sizeof(offer));
	return offer;
}

static int comesByHandle(const struct directOffer *offer, int same)
{
	return offer->isFirst && directNeedsHandle(offer->kind, same);
}

static void planHandles(struct direct *direct, const struct offers *offers)
{
	const struct backendHost *host = direct->host;
	const struct directOffer mine = offerOf(offers, host->rank);

	for (int r = 0; r < host->nRanks; r++) {
		direct->to[r] = direct->from[r] = 0;
		if (r == host->rank || !directIsPeer(host, r))
			continue;
		const struct directOffer theirs = offerOf(offers, r);
		int same = directSameProcess(host, r);
		direct->to[r] = comesByHandle(&mine, same) != 0;
		direct->from[r] = comesByHandle(&theirs, same) != 0;
	}
}

static ginResult_t reachAll(struct direct *direct, const struct offers *offers,
			    struct directWindow *window)
{
	const struct backendHost *host = direct->host;
	ginResult_t result = ginSuccess;

	for (int r = 0; r < host->nRanks && result == ginSuccess; r++) {
		const struct directOffer offer = offerOf(offers, r);
		if (directIsPeer(host, r))
			result =
				directReachOffer(host, r, &offer, direct->fds[r], &window->peer[r]);
	}
	return result;
}

static void closeHandles(const struct direct *direct)
{
	for (int r = 0; r < direct->host->nRanks; r++)
		if (direct->fds[r] >= 0)
			close(direct->fds[r]);
}

ginResult_t directShare(struct direct *direct, ginResult_t mine, const uint8_t *first,
			size_t stride, struct directWindow *window)
{
	const struct backendHost *host = direct->host;
	const struct offers offers = {first, stride};

	planHandles(direct, &offers);
	ginResult_t result = host->exchangeHandles(host->core, window->fd, direct->to, direct->from,
						   direct->fds);
	if (mine == ginSuccess)
		mine = result;
	if (mine == ginSuccess)
		mine = reachAll(direct, &offers, window);
	closeHandles(direct);
	if (window->ownsFd)
		close(window->fd);
	window->ownsFd = 0;
	window->fd = -1;
	return mine;
}
