/* SPDX-License-Identifier: BSD-3-Clause */
/* register.c - registers a window: exchanges handles and maps the parts of all served ranks */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

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

/* Returns NULL, or what is wrong with the offer of a peer. `same`: the peer is in this process. */
static const char *wrongOffer(const struct device *d, const struct peermemOffer *offer, int same)
{
	switch (offer->kind) {
	case memoryNone:
		return NULL;
	case memoryPrivate:
		return same ? NULL : "no other process can map it";
	case memoryVmm:
		if (peermemTooManyPieces(offer))
			return "it has too many pieces";
		/* fallthrough */
	case memoryIpc:
		if (!d->cuda)
			return "it is GPU memory, and this rank has no GPU";
		/* fallthrough */
	case memoryShared:
		return offer->offset > offer->span ? "the window begins beyond its end" : NULL;
	}
	return "it is of no known kind";
}

static ginResult_t checkOffers(const struct peermem *peermem, const struct peermemOffers *offers)
{
	const struct backendHost *host = peermem->host;

	for (int r = 0; r < host->nRanks; r++) {
		const struct peermemOffer offer = offerOf(offers, r);
		if (r == host->rank || !peermemIsPeer(peermem, r))
			continue;
		const char *wrong = wrongOffer(host->device, &offer, peermemSameProcess(host, r));
		if (wrong)
			return fail(ginErrorSystem,
				    "rank %d has sent a wrong description of its memory: %s", r,
				    wrong);
	}
	return ginSuccess;
}

static int comesByHandle(const struct peermemOffer *offer, int same)
{
	return offer->isFirst && peermemNeedsHandle(offer->kind, same);
}

/* The handles of piece `piece` of all memory. */
static void planHandles(struct peermem *peermem, const struct peermemOffers *offers, uint64_t piece)
{
	const struct backendHost *host = peermem->host;
	const struct peermemOffer mine = offerOf(offers, host->rank);

	for (int r = 0; r < host->nRanks; r++) {
		peermem->to[r] = peermem->from[r] = 0;
		if (r == host->rank || !peermemIsPeer(peermem, r))
			continue;
		const struct peermemOffer theirs = offerOf(offers, r);
		int same = peermemSameProcess(host, r);
		peermem->to[r] = comesByHandle(&mine, same) && piece < peermemPieces(&mine);
		peermem->from[r] = comesByHandle(&theirs, same) && piece < peermemPieces(&theirs);
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
			result = peermemImport(host, r, &offer, peermem->fds[r],
					       &peermem->arrivals[r], &window->peer[r]);
	}
	return result;
}

static void closeHandles(const struct peermem *peermem, const int *fds)
{
	for (int r = 0; r < peermem->host->nRanks; r++)
		if (fds[r] >= 0)
			close(fds[r]);
}

static void closeOwn(struct peermemWindow *window)
{
	if (window->ownsFd)
		close(window->fd);
	window->ownsFd = 0;
	window->fd = -1;
}

/*
 * Takes the piece that has arrived from rank `r`. A descriptor is closed before the next one
 * arrives.
 */
static ginResult_t takePiece(struct peermem *peermem, int r, const struct peermemOffer *offer,
			     int fd)
{
	struct peermemArrival *a = &peermem->arrivals[r];

	if (!a->piece)
		a->piece = calloc(peermemPieces(offer), sizeof(*a->piece));
	if (!a->piece)
		return fail(ginErrorSystem, "no memory");
	ginResult_t result = deviceImportPiece(peermem->host->device, fd, &a->piece[a->count]);
	a->count += result == ginSuccess;
	return result;
}

static ginResult_t takePieces(struct peermem *peermem, const struct peermemOffers *offers,
			      const int *fds)
{
	ginResult_t result = ginSuccess;

	for (int r = 0; r < peermem->host->nRanks && result == ginSuccess; r++) {
		const struct peermemOffer offer = offerOf(offers, r);
		if (fds[r] >= 0 && peermemPieces(&offer) > 1)
			result = takePiece(peermem, r, &offer, fds[r]);
	}
	return result;
}

/* The mappings keep the pieces. */
static void releasePieces(struct peermem *peermem)
{
	const struct device *d = peermem->host->device;

	for (int r = 0; r < peermem->host->nRanks; r++) {
		struct peermemArrival *a = &peermem->arrivals[r];
		while (a->count)
			d->cuda->allocationRelease(a->piece[--a->count]);
		free(a->piece);
		a->piece = NULL;
	}
}

static uint64_t mostPieces(const struct peermem *peermem, const struct peermemOffers *offers)
{
	uint64_t most = 1;

	for (int r = 0; r < peermem->host->nRanks; r++) {
		const struct peermemOffer offer = offerOf(offers, r);
		uint64_t pieces = peermemPieces(&offer);
		most = pieces > most ? pieces : most;
	}
	return most;
}

/* Collective. A rank without a handle sends a message that says so. */
static ginResult_t exchange(struct peermem *peermem, const struct peermemOffers *offers,
			    uint64_t piece, ginResult_t mine, const struct peermemWindow *window)
{
	const struct backendHost *host = peermem->host;
	int *fds = piece ? peermem->more : peermem->fds;

	planHandles(peermem, offers, piece);
	ginResult_t result =
		host->exchangeHandles(host->core, window->fd, peermem->to, peermem->from, fds);
	return mine == ginSuccess ? result : mine;
}

/* Piece `i` of the memory of all ranks. */
static ginResult_t exchangePiece(struct peermem *peermem, const struct peermemOffers *offers,
				 uint64_t i, ginResult_t mine, struct peermemWindow *window)
{
	const struct peermemOffer own = offerOf(offers, peermem->host->rank);

	closeOwn(window);
	if (mine == ginSuccess && own.isFirst && i < peermemPieces(&own))
		mine = peermemExportPiece(peermem, &own, i, window);
	mine = exchange(peermem, offers, i, mine, window);
	if (mine == ginSuccess)
		mine = takePieces(peermem, offers, peermem->more);
	closeHandles(peermem, peermem->more);
	return mine;
}

static ginResult_t exchangeAll(struct peermem *peermem, const struct peermemOffers *offers,
			       ginResult_t mine, struct peermemWindow *window)
{
	uint64_t most = mostPieces(peermem, offers);

	mine = exchange(peermem, offers, 0, mine, window);
	if (mine == ginSuccess && most > 1)
		mine = takePieces(peermem, offers, peermem->fds);
	for (uint64_t i = 1; i < most; i++)
		mine = exchangePiece(peermem, offers, i, mine, window);
	return mine;
}

ginResult_t peermemRegister(struct peermem *peermem, ginResult_t mine, const uint8_t *first,
			    size_t stride, struct peermemWindow *window)
{
	const struct peermemOffers offers = {first, stride};

	if (mine == ginSuccess)
		mine = checkOffers(peermem, &offers);
	mine = exchangeAll(peermem, &offers, mine, window);
	if (mine == ginSuccess)
		mine = reachAll(peermem, &offers, window);
	closeHandles(peermem, peermem->fds);
	releasePieces(peermem);
	closeOwn(window);
	return mine;
}
