/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.c - reads the progress of queues, drains them, and monitors them for failures */
#include "progress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/base/deadline.h"
#include "lib/base/log.h"
#include "lib/base/range.h"
#include "lib/base/thread.h"
#include "contexts.h"

enum { RING_AGAIN_NS = 10000000, NAP_NS = 50000 };

const struct ginSendQueue *gdakiSnapshot(const struct gdakiContexts *s)
{
	size_t bytes = s->count * sizeof(*s->queues);

	if (!s->g->host->device->cuda)
		return s->queues;
	struct ginSendQueue *copy = malloc(bytes);
	if (copy && deviceRead(s->g->host->device, copy, s->queues, bytes) != ginSuccess) {
		free(copy);
		copy = NULL;
	}
	return copy;
}

void gdakiSnapshotFree(const struct gdakiContexts *s, const struct ginSendQueue *queues)
{
	if (s->g->host->device->cuda)
		free((void *)(uintptr_t)queues);
}

static uint64_t load(const uint64_t *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

/* Reads a word of the CQE, which may be in GPU memory. Returns 0 if the GPU has failed. */
static uint32_t cqeWord(const struct gdakiContexts *s, const uint32_t *at)
{
	const struct device *d = s->g->host->device;
	uint32_t word = 0;

	if (!d->cuda)
		return __atomic_load_n(at, __ATOMIC_ACQUIRE);
	deviceRead(d, &word, at, sizeof(word));
	return word;
}

/* The counterpart of ginSendRefresh in gin/gdaki/queue.cuh: reads `done`, then the CQE (K). */
struct gdakiProgress gdakiProgressOf(const struct gdakiContexts *s, const struct ginSendQueue *q)
{
	struct gdakiProgress progress = {.posted = load(&q->handed),
					 .completed = load(&q->done) & ~GIN_SEND_CREDITING};
	uint64_t latched = load(&q->latched);

	if (latched) {
		progress.syndrome = (uint32_t)(latched >> 56);
		progress.vendor = (uint32_t)(latched >> 48) & 0xff;
		return progress;
	}
	if (progress.completed >= progress.posted)
		return progress;
	uint32_t state = cqeWord(s, &q->fixed.cqe->state), opcode = ginMlx5CqeOpcode(state);
	if (opcode == ginMlx5CqeRequest) {
		progress.completed +=
			(ginMlx5CqeCounter(state) + 1 - (uint32_t)progress.completed) & 0xffff;
	} else if (opcode != ginMlx5CqeInvalid) {
		uint32_t error = cqeWord(s, &q->fixed.cqe->timestampLow);
		progress.syndrome = ginMlx5CqeSyndrome(error);
		progress.vendor = ginMlx5CqeVendorSyndrome(error);
	}
	return progress;
}

/*
 * Rings for all that was handed over: kernels may have held the doorbell back, or the NIC may have
 * lost it. Stores to the CPU's mapping of the register, or to the ringer's word.
 */
static void ring(const struct gdakiContexts *s, uint32_t i, const struct ginSendQueue *q)
{
	const struct device *d = s->g->host->device;
	uint32_t next = (uint32_t)load(&q->handed), record = ginMlx5RecordWord(next);
	struct rdmaRegister where;

	s->g->rdma->queueRegister(s->pairs->queues, i, &where);
	if (d->cuda)
		deviceWrite(d, &q->fixed.record->send, &record, sizeof(record));
	else
		__atomic_store_n(&q->fixed.record->send, record, __ATOMIC_RELEASE);
	__atomic_store_n(s->ringerWords ? &s->ringerWords->words[i] : (uint64_t *)where.at,
			 ginMlx5Doorbell(q->fixed.queue, next), __ATOMIC_RELEASE);
}

/* Returns how many queues have posts in flight; rings each of them if `again`. */
static uint32_t countBusy(const struct gdakiContexts *s, int again)
{
	const struct ginSendQueue *queues = gdakiSnapshot(s);
	uint32_t left = 0;

	for (uint32_t i = 0; queues && i < s->count; i++) {
		struct gdakiProgress progress = gdakiProgressOf(s, &queues[i]);
		if (gdakiIsIdle(&progress))
			continue;
		left++;
		if (again)
			ring(s, i, &queues[i]);
	}
	gdakiSnapshotFree(s, queues);
	return left;
}

static void nap(void)
{
	const struct timespec time = {0, NAP_NS};

	nanosleep(&time, NULL);
}

static ginResult_t failDrain(const struct gdakiContexts *s, uint32_t left)
{
	char why[RDMA_WHY];
	int peer = pairsFailed(s->pairs, why);

	return fail(ginErrorTimeout,
		    "work requests of %u queues are not done within %u s (GIN_TIMEOUT), and are "
		    "given up%s%s",
		    left, paramNumber(paramTimeout), peer < 0 ? "" : ": ", peer < 0 ? "" : why);
}

ginResult_t gdakiContextsDrain(void *state, void *contexts)
{
	const struct gdakiContexts *s = contexts;
	uint64_t now = clockNow(), next = now, end = deadlineToTell();
	uint32_t left;

	(void)state;
	while ((left = countBusy(s, now >= next))) {
		if (s->g->host->hasFailed(s->g->host->core))
			break;
		if (now >= end)
			return failDrain(s, left);
		next = now >= next ? now + RING_AGAIN_NS : next;
		nap();
		now = clockNow();
	}
	return ginSuccess;
}

static void addProgress(const struct gdakiContexts *s, const struct ginSendQueue *q,
			uint64_t *posted, uint64_t *completed, uint64_t *failed)
{
	struct gdakiProgress progress = gdakiProgressOf(s, q);

	*posted += progress.posted;
	*completed += progress.completed;
	*failed += progress.syndrome ? progress.posted - progress.completed : 0;
}

ginResult_t gdakiContextsStats(void *contexts, uint32_t context, ginStats_t *stats)
{
	const struct gdakiContexts *s = contexts;
	const struct ginSendQueue *queues = gdakiSnapshot(s);
	uint32_t peers = s->pairs->peers;

	if (!queues && s->count)
		return fail(ginErrorCuda, "the queues cannot be read");
	stats->counted = GIN_COUNTED_POSTS;
	for (uint32_t i = context * peers; i < (context + 1) * peers; i++)
		addProgress(s, &queues[i], &stats->posted, &stats->completed, &stats->failed);
	gdakiSnapshotFree(s, queues);
	return ginSuccess;
}

/* Copies one queue only: a rank may have thousands. */
ginResult_t gdakiContextsPeerStats(void *contexts, int peer, ginPeerStats_t *stats)
{
	const struct gdakiContexts *s = contexts;
	const struct device *d = s->g->host->device;
	struct ginSendQueue copy;

	for (uint32_t c = 0; c < s->contexts; c++) {
		uint32_t i = pairsQueue(s->pairs, c, peer);
		if (i == PAIRS_NONE)
			continue;
		if (d->cuda && deviceRead(d, &copy, &s->queues[i], sizeof(copy)) != ginSuccess)
			return ginErrorCuda;
		addProgress(s, d->cuda ? &copy : &s->queues[i], &stats->posted, &stats->completed,
			    &stats->failed);
		stats->counted = GIN_COUNTED_POSTS;
	}
	return ginSuccess;
}

/*
 * The monitor asks at each tick for events of the device, and for the state of some queue pairs; at
 * every fourth tick it reads the completions of all queues.
 */
enum { TICK_MS = 250, TICKS_PER_QUEUES = 4, STATES_PER_TICK = 16 };

/* How far a queue's failure is reported: gdakiContexts.reported. */
enum monitorReported {
	reportedNot,
	reportedLater,	 /* in the error state, with requests in flight: their CQE will say why */
	reportedLog,	 /* logged; the core did not know the contexts yet */
	reportedEveryone /* nothing is left to do */
};

/* A failure or event to report. */
struct monitorFinding {
	char text[RDMA_WHY + 128];
	const char *why; /* in `text`, after the rank's number */
	int lost;	 /* the rank that is lost, which makes the communicator fail; -1: none */
};

/* A peer that does not answer is lost. Other errors leave the peer alive. */
static int meansLost(uint32_t syndrome)
{
	return syndrome == ginMlx5TransportRetries || syndrome == ginMlx5ReceiverNotReadyRetries;
}

static void describeCause(const struct gdakiContexts *s, const struct gdakiProgress *progress,
			  char why[RDMA_WHY])
{
	if (progress->syndrome)
		s->g->rdma->errorText(progress->syndrome, progress->vendor, why);
	else
		snprintf(why, RDMA_WHY,
			 "the NIC has put it into the error state without a completion: either it "
			 "has refused a request of that rank, see the messages there, or it has "
			 "failed");
}

static void describeFailure(const struct gdakiContexts *s, uint32_t i,
			    const struct gdakiProgress *progress, struct monitorFinding *finding)
{
	int peer = pairsPeer(s->pairs, i), prefix;
	char why[RDMA_WHY], owner[PAIRS_OWNER];

	pairsOwner(s->pairs, i, owner);
	describeCause(s, progress, why);
	prefix = snprintf(finding->text, sizeof(finding->text), "rank %d: ", s->g->host->rank);
	finding->why = finding->text + prefix;
	snprintf(finding->text + prefix, sizeof(finding->text) - (size_t)prefix,
		 "gdaki: queue pair 0x%x of %s to rank %d has failed: %s", s->pairs->ends[i].number,
		 owner, peer, why);
	finding->lost = meansLost(progress->syndrome) ? peer : -1;
}

/*
 * Reports the failure of a queue to the log and to its device communicator. 1: the peer is lost,
 * which the caller reports.
 */
static int takeFailure(struct gdakiContexts *s, uint32_t i, const struct gdakiProgress *progress,
		       struct monitorFinding *finding)
{
	const struct backendHost *host = s->g->host;
	int isTold = 0;

	describeFailure(s, i, progress, finding);
	if (finding->lost < 0 && s->reported[i] < reportedLog)
		logWrite(logWarn, "%s", finding->text);
	if (finding->lost < 0)
		isTold = host->queueFailed(host->core, s, pairsPeer(s->pairs, i), finding->why);
	s->reported[i] = finding->lost >= 0 || isTold ? reportedEveryone : reportedLog;
	return finding->lost >= 0;
}

/* For gdakiContextsOutstanding(). */
static void noteSeen(struct gdakiContexts *s, uint32_t i, const struct gdakiProgress *progress)
{
	uint64_t left = gdakiIsIdle(progress) ? 0 : progress->posted - progress->completed;

	__atomic_store_n(&s->seen[i].outstanding, left, __ATOMIC_RELAXED);
	__atomic_store_n(&s->seen[i].completed, progress->completed, __ATOMIC_RELAXED);
}

uint64_t gdakiContextsOutstanding(void *contexts, int peer, uint64_t *completed)
{
	const struct gdakiContexts *s = contexts;
	uint64_t outstanding = 0;

	for (uint32_t c = 0; c <= s->contexts; c++) {
		uint32_t i = pairsQueue(s->pairs, c, peer);
		if (i == PAIRS_NONE || i >= s->count)
			continue;
		outstanding += __atomic_load_n(&s->seen[i].outstanding, __ATOMIC_RELAXED);
		*completed += __atomic_load_n(&s->seen[i].completed, __ATOMIC_RELAXED);
	}
	return outstanding;
}

/* Reads the completions of all queues; 1 if a peer is lost. */
static int nextFailureOf(struct gdakiContexts *s, struct monitorFinding *finding)
{
	const struct ginSendQueue *queues = gdakiSnapshot(s);
	int found = 0;

	for (uint32_t i = 0; queues && i < s->count && !found; i++) {
		struct gdakiProgress progress;
		progress = gdakiProgressOf(s, &queues[i]);
		noteSeen(s, i, &progress);
		if (s->reported[i] == reportedEveryone)
			continue;
		found = progress.syndrome && takeFailure(s, i, &progress, finding);
	}
	gdakiSnapshotFree(s, queues);
	return found;
}

/* A queue pair in the error state; 1 if its completion says that the peer is lost. */
static int takeBroken(struct gdakiContexts *s, uint32_t i, struct monitorFinding *finding)
{
	const struct ginSendQueue *queues = gdakiSnapshot(s);
	int found = 0;

	if (queues) {
		struct gdakiProgress progress = gdakiProgressOf(s, &queues[i]);
		if (!gdakiIsIdle(&progress) && s->reported[i] == reportedNot)
			s->reported[i] = reportedLater;
		else
			found = takeFailure(s, i, &progress, finding);
	}
	gdakiSnapshotFree(s, queues);
	return found;
}

/*
 * Asks for the state of the next queue pairs, round robin; 1 if a peer is lost. A queue pair with
 * nothing in flight fails without a CQE.
 */
static int nextBrokenOf(struct gdakiContexts *s, struct monitorFinding *finding)
{
	int found = 0;

	for (uint32_t n = 0; n < STATES_PER_TICK && n < s->count && !found; n++) {
		uint32_t i = s->asked++ % s->count;
		if (s->reported[i] != reportedEveryone && pairsIsBroken(s->pairs, i))
			found = takeBroken(s, i, finding);
	}
	return found;
}

/* Finds the next lost peer, and reports failed queues; 1 if there is a lost peer. */
static int nextLostPeer(struct gdaki *g, int atQueues, struct monitorFinding *finding)
{
	struct deviceScope scope;
	int found = 0;

	if (!g->monitor.contexts || deviceEnter(g->host->device, &scope) != ginSuccess)
		return 0;
	for (struct gdakiContexts *s = g->monitor.contexts; s && !found; s = s->next)
		found = (atQueues && nextFailureOf(s, finding)) ||
			(!g->monitor.deviceGone && nextBrokenOf(s, finding));
	deviceLeave(g->host->device, &scope);
	return found;
}

/* The device's next event; 1 if there is one. A lost device is reported once. */
static int nextDeviceEvent(struct gdaki *g, struct monitorFinding *finding)
{
	char text[RDMA_WHY];
	int lost = 0;

	if (g->monitor.deviceGone)
		return 0;
	int found = g->rdma->portEvent(g->port, text, &lost);
	if (!found)
		return 0;
	g->monitor.deviceGone = lost || found < 0;
	snprintf(finding->text, sizeof(finding->text), "rank %d: gdaki: %s", g->host->rank, text);
	finding->lost = g->monitor.deviceGone ? g->host->rank : -1;
	return 1;
}

/* Asks the device for the state of every queue pair, after an event of the port. */
static void reportFailedPairs(const struct gdaki *g)
{
	char why[RDMA_WHY];

	for (const struct gdakiContexts *s = g->monitor.contexts; s; s = s->next) {
		int peer = pairsFailed(s->pairs, why);
		if (peer >= 0)
			logWrite(logWarn, "gdaki: to rank %d: %s", peer, why);
	}
}

/* The caller holds the lock, which is released while the communicator handles a lost peer. */
static void report(struct gdaki *g, const struct monitorFinding *finding)
{
	logWrite(finding->lost >= 0 ? logError : logWarn, "%s", finding->text);
	if (finding->lost < 0)
		return;
	pthread_mutex_unlock(&g->monitor.lock);
	g->host->peerFailed(g->host->core, finding->lost, finding->text);
	pthread_mutex_lock(&g->monitor.lock);
}

static void monitorTick(struct gdaki *g, int atQueues)
{
	struct monitorFinding finding;
	int hadEvents = 0;

	while (nextDeviceEvent(g, &finding)) {
		report(g, &finding);
		hadEvents = 1;
	}
	if (hadEvents && !g->monitor.deviceGone)
		reportFailedPairs(g);
	while (!g->monitor.closing && nextLostPeer(g, atQueues, &finding))
		report(g, &finding);
}

static void pauseLocked(struct gdakiMonitor *w)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += TICK_MS * 1000000L;
	until.tv_sec += until.tv_nsec / 1000000000L;
	until.tv_nsec %= 1000000000L;
	if (!w->closing)
		pthread_cond_timedwait(&w->wake, &w->lock, &until);
}

static void *monitorBody(void *arg)
{
	struct gdaki *g = arg;
	struct gdakiMonitor *w = &g->monitor;

	errorScope("gdaki", g->host->rank);
	rangeThread("gin-gdaki");
	pthread_mutex_lock(&w->lock);
	for (unsigned tick = 0; !w->closing; tick++) {
		monitorTick(g, tick % TICKS_PER_QUEUES == 0);
		pauseLocked(w);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

ginResult_t monitorOpen(struct gdaki *g)
{
	struct gdakiMonitor *w = &g->monitor;

	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wake, NULL);
	errno = threadStart(&w->thread, "gin-gdaki", monitorBody, g);
	w->started = !errno;
	if (w->started)
		return ginSuccess;
	ginResult_t result = failErrno("a thread for the NIC's events");
	pthread_cond_destroy(&w->wake);
	pthread_mutex_destroy(&w->lock);
	return result;
}

void monitorClose(struct gdaki *g)
{
	struct gdakiMonitor *w = &g->monitor;

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

void monitorAdd(struct gdaki *g, struct gdakiContexts *contexts)
{
	pthread_mutex_lock(&g->monitor.lock);
	contexts->next = g->monitor.contexts;
	g->monitor.contexts = contexts;
	pthread_mutex_unlock(&g->monitor.lock);
}

void monitorRemove(struct gdaki *g, struct gdakiContexts *contexts)
{
	pthread_mutex_lock(&g->monitor.lock);
	struct gdakiContexts **at = &g->monitor.contexts;
	while (*at != contexts)
		at = &(*at)->next;
	*at = contexts->next;
	pthread_mutex_unlock(&g->monitor.lock);
}
