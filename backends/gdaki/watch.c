/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "lib/base/log.h"
#include "lib/base/thread.h"
#include "contexts.h"

enum { TICK_MS = 250, TICKS_PER_LOOK = 4 };

/* What the thread has found, and whether nothing can go on with it. */
struct finding {
	char text[RDMA_WHY + 128];
	int lost; /* the rank that is; -1: none */
};

/* A peer that does not answer is lost; what else fails is of this rank's kernels. */
static int meansLost(uint32_t syndrome)
{
	return syndrome == ginMlx5TransportRetries || syndrome == ginMlx5ReceiverNotReadyRetries;
}

static void sayQueue(const struct gdakiContexts *s, uint32_t i, const struct gdakiLook *look,
		     struct finding *finding)
{
	int peer = pairsPeer(s->pairs, i);
	char why[RDMA_WHY], owner[PAIRS_OWNER];

	pairsOwner(s->pairs, i, owner);
	s->g->rdma->errorText(look->syndrome, look->vendor, why);
	snprintf(finding->text, sizeof(finding->text),
		 "rank %d: gdaki: queue pair 0x%x of %s to rank %d has failed: %s",
		 s->g->host->rank, s->pairs->ends[i].number, owner, peer, why);
	finding->lost = meansLost(look->syndrome) ? peer : -1;
}

/* The next queue that has failed and was not told of; 1 when there is one. */
static int nextFailed(struct gdakiContexts *s, struct finding *finding)
{
	const struct ginSendQueue *queues = gdakiSnapshot(s);
	int found = 0;

	for (uint32_t i = 0; queues && i < s->count && !found; i++) {
		struct gdakiLook look;
		if (s->told[i])
			continue;
		look = gdakiLook(s, &queues[i]);
		found = look.syndrome != 0;
		s->told[i] = (uint8_t)found;
		if (found)
			sayQueue(s, i, &look, finding);
	}
	gdakiSnapshotFree(s, queues);
	return found;
}

static int nextOfQueues(struct gdaki *g, struct finding *finding)
{
	struct deviceScope scope;
	int found = 0;

	if (!g->watch.contexts || deviceEnter(g->host->device, &scope) != ginSuccess)
		return 0;
	for (struct gdakiContexts *s = g->watch.contexts; s && !found; s = s->next)
		found = nextFailed(s, finding);
	deviceLeave(g->host->device, &scope);
	return found;
}

/* A device that cannot be asked any more is gone, and is said to be once. */
static int nextOfDevice(struct gdaki *g, struct finding *finding)
{
	char text[RDMA_WHY];
	int lost = 0;

	if (g->watch.deviceGone)
		return 0;
	int found = g->rdma->portEvent(g->port, text, &lost);
	if (!found)
		return 0;
	g->watch.deviceGone = lost || found < 0;
	snprintf(finding->text, sizeof(finding->text), "rank %d: gdaki: %s", g->host->rank, text);
	finding->lost = g->watch.deviceGone ? g->host->rank : -1;
	return 1;
}

/* Each queue pair, as the device says: when something has happened to the port. */
static void askAll(const struct gdaki *g)
{
	char why[RDMA_WHY];

	for (const struct gdakiContexts *s = g->watch.contexts; s; s = s->next) {
		int peer = pairsFailed(s->pairs, why);
		if (peer >= 0)
			logWrite(logWarn, "rank %d: gdaki: to rank %d: %s", g->host->rank, peer,
				 why);
	}
}

/* The lock is held, but for what the communicator does. */
static void report(struct gdaki *g, const struct finding *finding)
{
	logWrite(finding->lost >= 0 ? logError : logWarn, "%s", finding->text);
	if (finding->lost < 0)
		return;
	pthread_mutex_unlock(&g->watch.lock);
	g->host->peerFailed(g->host->core, finding->lost, finding->text);
	pthread_mutex_lock(&g->watch.lock);
}

static void look(struct gdaki *g, int atQueues)
{
	struct finding finding;
	int heard = 0;

	while (nextOfDevice(g, &finding)) {
		report(g, &finding);
		heard = 1;
	}
	if (heard && !g->watch.deviceGone)
		askAll(g);
	while (atQueues && !g->watch.closing && nextOfQueues(g, &finding))
		report(g, &finding);
}

static void pauseLocked(struct watch *w)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += TICK_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	if (!w->closing)
		pthread_cond_timedwait(&w->wake, &w->lock, &until);
}

static void *watchBody(void *arg)
{
	struct gdaki *g = arg;
	struct watch *w = &g->watch;

	pthread_mutex_lock(&w->lock);
	for (unsigned tick = 0; !w->closing; tick++) {
		look(g, tick % TICKS_PER_LOOK == 0);
		pauseLocked(w);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

ginResult_t watchOpen(struct gdaki *g)
{
	struct watch *w = &g->watch;

	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wake, NULL);
	errno = threadStart(&w->thread, "gin-gdaki", watchBody, g);
	w->started = !errno;
	if (w->started)
		return ginSuccess;
	ginResult_t result = failErrno("a thread for the NIC's events");
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	return result;
}

void watchClose(struct gdaki *g)
{
	struct watch *w = &g->watch;

	if (!w->started)
		return;
	pthread_mutex_lock(&w->lock);
	w->closing = 1;
	pthread_cond_signal(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
}

void watchAdd(struct gdaki *g, struct gdakiContexts *contexts)
{
	pthread_mutex_lock(&g->watch.lock);
	contexts->next = g->watch.contexts;
	g->watch.contexts = contexts;
	pthread_mutex_unlock(&g->watch.lock);
}

void watchRemove(struct gdaki *g, struct gdakiContexts *contexts)
{
	pthread_mutex_lock(&g->watch.lock);
	struct gdakiContexts **at = &g->watch.contexts;
	while (*at != contexts)
		at = &(*at)->next;
	*at = contexts->next;
	pthread_mutex_unlock(&g->watch.lock);
}
