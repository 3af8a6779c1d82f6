/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * window_retire.c - windows that the ranks retire one by one, and that a later collective
 * deregisters
 */
#include "window.h"

/* The caller holds the lock. */
static void addRetired(ginComm_t comm, struct window *w)
{
	struct window **at = &comm->retired;

	while (*at && (*at)->serial < w->serial)
		at = &(*at)->next;
	w->next = *at;
	*at = w;
	if (!w->isLocal)
		controlRetire(&comm->control, 1);
}

/* Of two threads that retire one window, the second one fails. */
static ginResult_t retire(ginComm_t comm, ginWindow_t window, ginReleased_t released, void *arg)
{
	pthread_mutex_lock(&comm->lock);
	struct window *w = windowFind(comm, window);
	if (w) {
		w->isRetired = 1;
		w->released = released;
		w->releasedArg = arg;
		addRetired(comm, w);
	}
	pthread_mutex_unlock(&comm->lock);
	return w ? ginSuccess : ginErrorInvalidArgument;
}

ginResult_t ginWindowRetire(ginComm_t comm, ginWindow_t window, ginReleased_t released, void *arg)
{
	const char *call;
	int rank;

	/* A garbage collector may call this on a thread that is inside a collective. */
	errorScopeNow(&call, &rank);
	ginResult_t result = commEnter(comm, "ginWindowRetire");
	if (result == ginSuccess)
		result = retire(comm, window, released, arg);
	errorScope(call, rank);
	return result;
}

#define OFFER_MOST 31

/* Retired windows of a rank, as one collective compares them. */
struct retiredOffer {
	uint64_t count;
	uint64_t serial[OFFER_MOST]; /* ascending, from comm->retiredFrom */
};

static struct retiredOffer offerRetired(ginComm_t comm)
{
	struct retiredOffer offer = {.count = 0};

	pthread_mutex_lock(&comm->lock);
	for (const struct window *w = comm->retired; w && offer.count < OFFER_MOST; w = w->next)
		if (!w->isLocal && w->serial >= comm->retiredFrom)
			offer.serial[offer.count++] = w->serial;
	pthread_mutex_unlock(&comm->lock);
	return offer;
}

static int isOffered(const struct retiredOffer *offer, uint64_t serial)
{
	for (uint64_t i = 0; i < offer->count; i++)
		if (offer->serial[i] == serial)
			return 1;
	return 0;
}

/*
 * The serial at which the next offers start, equal on all ranks. A full offer leaves out the
 * serials after its last one: the next offers continue there, so that windows that one rank keeps
 * do not delay others.
 */
static uint64_t nextOffer(ginComm_t comm, const struct retiredOffer *offers)
{
	uint64_t last = UINT64_MAX;

	for (int r = 0; r < comm->nRanks; r++)
		if (offers[r].count == OFFER_MOST && offers[r].serial[OFFER_MOST - 1] < last)
			last = offers[r].serial[OFFER_MOST - 1];
	return last + 1; /* 0: all offers are complete */
}

/* A local window needs no other rank. `offers`: [nRanks]; NULL: only local windows may go. */
static int mayRelease(ginComm_t comm, const struct window *w, const struct retiredOffer *offers)
{
	for (int r = 0; r < comm->nRanks && !w->isLocal; r++)
		if (!offers || !isOffered(&offers[r], w->serial))
			return 0;
	return 1;
}

/* Removes the windows that may be released from comm->retired. */
static struct window *takeReleased(ginComm_t comm, const struct retiredOffer *offers)
{
	struct window *taken = NULL, **at = &comm->retired, *w;

	pthread_mutex_lock(&comm->lock);
	while ((w = *at)) {
		if (!mayRelease(comm, w, offers)) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		if (!w->isLocal)
			controlRetire(&comm->control, -1);
		w->next = taken;
		taken = w;
	}
	pthread_mutex_unlock(&comm->lock);
	return taken;
}

/* Calls the users' functions, and frees the windows. The caller holds no lock. */
static void callReleased(struct window *list)
{
	for (struct window *w = list, *next; w; w = next) {
		next = w->next;
		if (w->released)
			w->released(w->releasedArg);
		free(w);
	}
}

/* Collective. NULL where a rank lacks memory. */
static struct retiredOffer *gatherRetired(ginComm_t comm)
{
	struct retiredOffer mine = offerRetired(comm),
			    *all = calloc((size_t)comm->nRanks, sizeof(*all));
	ginResult_t result = all ? ginSuccess : fail(ginErrorSystem, "no memory");

	if (controlAllgather(&comm->control, "retired windows", result, &mine, all, sizeof(mine)) ==
	    ginSuccess)
		return all;
	free(all);
	return NULL;
}

void windowsRelease(ginComm_t comm)
{
	struct retiredOffer *offers = NULL;
	struct deviceScope scope;

	if (controlAllRetired(&comm->control))
		offers = gatherRetired(comm);
	if (offers)
		comm->retiredFrom = nextOffer(comm, offers);
	struct window *list = takeReleased(comm, offers);
	free(offers);
	if (!list)
		return;
	ginResult_t entered = deviceEnter(&comm->device, &scope);
	for (struct window *w = list; w; w = w->next)
		windowClose(comm, w);
	if (entered == ginSuccess)
		deviceLeave(&comm->device, &scope);
	callReleased(list);
}

void windowsCloseRetired(ginComm_t comm)
{
	comm->released = comm->retired;
	comm->retired = NULL;
	for (struct window *w = comm->released; w; w = w->next)
		windowClose(comm, w);
}

void windowsCallReleased(ginComm_t comm)
{
	callReleased(comm->released);
}
