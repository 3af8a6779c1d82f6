/* SPDX-License-Identifier: BSD-3-Clause */
/* share.c - one window, mapped by all ranks that reach it directly */
#include <stdlib.h>
#include <unistd.h>

#include "direct.h"

/* One registration; arrays of nRanks. */
struct share {
	const struct backendHost *host;
	struct directOffer *offers;
	uint8_t *to, *from; /* who gets a handle of mine, whose do I get */
	int *fds;
	struct directWindow *window;
};

static void freeShare(struct share *s)
{
	free(s->offers);
	free(s->to);
	free(s->from);
	free(s->fds);
}

static void freeWindow(struct directWindow *window)
{
	if (window)
		free(window->peer);
	free(window);
}

static ginResult_t allocShare(struct share *s)
{
	size_t n = (size_t)s->host->nRanks;

	s->offers = calloc(n, sizeof(*s->offers));
	s->to = calloc(n, 1);
	s->from = calloc(n, 1);
	s->fds = malloc(n * sizeof(*s->fds));
	s->window = calloc(1, sizeof(*s->window));
	if (s->window)
		s->window->peer = calloc(n, sizeof(*s->window->peer));
	if (s->offers && s->to && s->from && s->fds && s->window && s->window->peer)
		return ginSuccess;
	return fail(ginErrorSystem, "no memory");
}

static int isDirect(const struct backendHost *host, int peer)
{
	return host->routes[peer] == ginRouteDirect;
}

static void planHandles(struct share *s)
{
	const struct backendHost *host = s->host;
	const struct identity *me = &host->ranks[host->rank];
	uint32_t mine = s->offers[host->rank].kind;

	for (int r = 0; r < host->nRanks; r++) {
		if (r == host->rank || !isDirect(host, r))
			continue;
		int same = identitySameProcess(me, &host->ranks[r]);
		s->to[r] = directNeedsHandle(mine, same) != 0;
		s->from[r] = directNeedsHandle(s->offers[r].kind, same) != 0;
	}
}

static ginResult_t mapAll(struct share *s)
{
	const struct backendHost *host = s->host;
	ginResult_t result = ginSuccess;

	for (int r = 0; r < host->nRanks && result == ginSuccess; r++)
		if (isDirect(host, r))
			result = directMap(host, r, &s->offers[r], s->fds[r], &s->window->peer[r]);
	return result;
}

static void closeHandles(struct share *s)
{
	for (int r = 0; r < s->host->nRanks; r++)
		if (s->fds[r] >= 0)
			close(s->fds[r]);
}

/* What can fail on one rank alone comes before the allgather, which tells the others. */
static ginResult_t prepare(struct share *s, const struct memory *memory, struct directOffer *offer,
			   int *fd)
{
	ginResult_t result = allocShare(s);

	if (result == ginSuccess)
		result = directMakeOffer(s->host, memory, offer);
	if (result == ginSuccess)
		result = directExport(s->host->device, memory, fd);
	return result;
}

static ginResult_t exchangeAndMap(struct share *s, int fd)
{
	const struct backendHost *host = s->host;

	planHandles(s);
	ginResult_t result = host->exchangeHandles(host->core, fd, s->to, s->from, s->fds);
	if (result == ginSuccess)
		result = mapAll(s);
	closeHandles(s);
	return result;
}

ginResult_t directShare(const struct backendHost *host, const char *call, ginResult_t mine,
			const struct memory *memory, struct directWindow **window)
{
	struct share s = {.host = host};
	struct directOffer offer = {0};
	int fd = -1;

	if (mine == ginSuccess)
		mine = prepare(&s, memory, &offer, &fd);
	mine = host->allgather(host->core, call, mine, &offer, s.offers, sizeof(offer));
	if (mine == ginSuccess)
		mine = exchangeAndMap(&s, fd);
	if (fd >= 0 && fd != memory->fd)
		close(fd);
	if (mine == ginSuccess)
		*window = s.window;
	else if (s.window)
		directUnshare(host, s.window);
	freeShare(&s);
	return mine;
}

void directUnshare(const struct backendHost *host, struct directWindow *window)
{
	for (int r = 0; window->peer && r < host->nRanks; r++)
		directUnmap(host->device, &window->peer[r]);
	freeWindow(window);
}
