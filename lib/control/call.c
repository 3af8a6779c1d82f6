/* SPDX-License-Identifier: BSD-3-Clause */
/* call.c - the calls of the control plane */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/deadline.h"
#include "lib/base/file.h"
#include "lib/base/forkguard.h"
#include "lib/base/param.h"
#include "lib/base/thread.h"
#include "recover_internal.h"

static void closeFile(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void closeListener(struct control *c)
{
	if (c->listener >= 0)
		forkGuardClose(c->listener);
	c->listener = -1;
}

void controlReleaseSpare(struct control *c)
{
	if (c->spares)
		close(c->spare[--c->spares]);
}

static void freeState(struct control *c)
{
	for (int i = 0; i < c->links; i++) {
		controlDropDial(&c->link[i]);
		if (c->link[i].fd >= 0)
			forkGuardClose(c->link[i].fd);
		bufferFree(&c->link[i].in);
		controlDropParts(&c->link[i]);
	}
	while (c->spares)
		controlReleaseSpare(c);
	if (c->link != c->tree)
		free(c->link);
	controlReceptionClose(c->reception);
	closeListener(c);
	recoverClose(c);
	closeFile(&c->wake);
	bufferFree(&c->gather.entries);
	bufferFree(&c->result);
	free(c->gather.arrived);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
}

static void initLocks(struct control *c)
{
	pthread_condattr_t monotonic;

	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&c->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

/* Reduces me->address to the addresses of this rank's sockets. Returns 1 if that is one address. */
static int chooseAddress(struct identity *me)
{
	static const struct netAddress loopback = {.family = AF_INET, .bytes = {127, 0, 0, 1}};
	int one = me->local || *paramText(paramSocketIfname);

	if (me->local)
		me->address[0] = loopback;
	if (one)
		me->addresses = 1;
	me->loopback = !one || me->local;
	return one;
}

static ginResult_t listenAt(struct control *c, const struct netAddress *at, uint16_t *port)
{
	c->listener = socketListen(at, port);
	if (c->listener < 0)
		return failErrno("cannot listen for the control plane");
	forkGuard(c->listener); /* otherwise a child would accept after the death of this rank */
	return ginSuccess;
}

static ginResult_t openFiles(struct control *c, struct identity *me)
{
	const struct netAddress *at = chooseAddress(me) ? &me->address[0] : NULL;

	if (c->nRanks > 1 && listenAt(c, at, &me->port) != ginSuccess)
		return ginErrorSystem;
	if (recoverOpen(c, at, &me->recoverPort) != ginSuccess)
		return ginErrorSystem;
	c->wake = fileAboveStandard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (c->wake < 0)
		return failErrno("cannot make an eventfd for the control plane");
	for (int i = controlLinksOf(c->rank, c->nRanks); i > 0; i--) {
		int fd = fcntl(c->wake, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		if (fd < 0)
			return failErrno("cannot make the sockets of the control plane");
		c->spare[c->spares++] = fd;
	}
	return ginSuccess;
}

/* `arrived`, `failed` and `gone`. */
size_t controlBytes(int nRanks)
{
	return 3 * (size_t)nRanks;
}

static ginResult_t allocState(struct control *c)
{
	c->gather.arrived = calloc(1, controlBytes(c->nRanks));
	if (!c->gather.arrived)
		return fail(ginErrorSystem, "no memory for the control plane");
	c->failed = c->gather.arrived + c->nRanks;
	c->gone = c->failed + c->nRanks;
	controlGatherReset(c);
	return ginSuccess;
}

static ginResult_t startThread(struct control *c)
{
	errno = threadStart(&c->thread, "gin-control", controlThread, c);
	if (errno)
		return failErrno("cannot start the control plane's thread");
	c->started = 1;
	return ginSuccess;
}

ginResult_t controlPrepare(struct control *c, int rank, int nRanks, struct identity *me)
{
	*c = (struct control){
		.rank = rank, .nRanks = nRanks, .listener = -1, .wake = -1, .news = {.fd = -1}};
	c->link = c->tree;
	c->room = CONTROL_LINKS;
	initLocks(c);
	ginResult_t result = openFiles(c, me);
	if (result == ginSuccess)
		result = allocState(c);
	if (result == ginSuccess)
		result = startThread(c);
	if (result != ginSuccess)
		freeState(c);
	return result;
}

/* Sends the children that are connected the reason why there will be no communicator. */
static void breakOpening(struct control *c, ginResult_t result)
{
	pthread_mutex_lock(&c->lock);
	controlBreak(c, -1, result, ginGetLastError(), NULL);
	pthread_mutex_unlock(&c->lock);
}

ginResult_t controlOpen(struct control *c, const struct identity *ranks,
			const uint8_t key[AUTH_KEY_BYTES], controlFailure_t onFailure, void *arg)
{
	c->ranks = ranks;
	memcpy(c->key, key, sizeof(c->key));
	c->onFailure = onFailure;
	c->onFailureArg = arg;
	ginResult_t result = controlConnect(c, deadlineHere());
	if (result != ginSuccess) {
		closeListener(c);
		breakOpening(c, result);
		return result;
	}
	pthread_mutex_lock(&c->lock);
	c->news.fd = -1;
	c->connected = 1;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	return ginSuccess;
}

/* The thread is not woken for it: it checks after the next message, or a quarter of a second. */
int controlOwnAddress(struct control *c, struct netAddress *out)
{
	int found = 0;

	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->links && !found; i++)
		found = c->link[i].fd >= 0 && socketOwn(c->link[i].fd, out);
	pthread_mutex_unlock(&c->lock);
	return found;
}

void controlWatch(struct control *c, int fd)
{
	pthread_mutex_lock(&c->lock);
	c->news.fd = fd;
	pthread_mutex_unlock(&c->lock);
}

/* Adds the entry of this rank. The caller holds the lock. */
static ginResult_t contribute(struct control *c, const char *call, ginResult_t mine, const void *in,
			      size_t bytes)
{
	const char *sentence = ginGetLastError();
	struct controlEntry entry = {(uint32_t)c->rank, mine, (uint32_t)bytes, c->retired};
	struct buffer b = {0};
	ginResult_t result;

	if (mine != ginSuccess) {
		in = sentence;
		entry.bytes = (uint32_t)strlen(sentence);
	}
	if (bufferAppend(&b, &entry, sizeof(entry)) || bufferAppend(&b, in, entry.bytes))
		result = fail(ginErrorSystem, "no memory for a collective");
	else
		result = controlGatherAdd(c, call, c->called, &b);
	bufferFree(&b);
	return result;
}

/* Calls config.poll without the lock. The communicator ends when it returns nonzero. */
static void lookForInterrupt(struct control *c, const char *call)
{
	char why[SENTENCE_BYTES];

	pthread_mutex_unlock(&c->lock);
	int ended = interruptEnded(&c->interrupt);
	pthread_mutex_lock(&c->lock);
	if (!ended)
		return;
	snprintf(why, sizeof(why), "config.poll of rank %d (host %s) has ended %s", c->rank,
		 c->ranks[c->rank].host, call);
	controlBreakHere(c, c->rank, ginErrorAborted, why, NULL);
}

/* The caller holds the lock. Waits for a change, until `until` and for `most` ms at most. */
static void waitForChange(struct control *c, uint64_t until, int most)
{
	uint64_t now = clockNow(), last = now + (uint64_t)most * (SECOND / 1000);

	if (last > until)
		last = until;
	struct timespec end = {(time_t)(last / SECOND), (long)(last % SECOND)};
	pthread_cond_timedwait(&c->changed, &c->lock, &end);
}

/* Rank 0 ends a collective for all ranks. The longer limit here covers its loss. */
static void waitDone(struct control *c, const char *call)
{
	uint64_t until = c->until + (paramNumber(paramTimeout) / 10 + 5) * SECOND;

	while (c->done != c->called && !c->broken && clockNow() < until) {
		waitForChange(c, until, interruptMs(&c->interrupt, INT_MAX));
		if (c->interrupt.poll && c->done != c->called && !c->broken)
			lookForInterrupt(c, call);
	}
}

static ginResult_t takeFailure(const struct controlEntry *entry, const uint8_t *data, size_t due)
{
	char sentence[SENTENCE_BYTES];

	if (entry->result == ginSuccess)
		return fail(
			ginErrorInvalidUsage,
			"rank %u passed %u bytes, this rank %zu: all ranks must pass equally many",
			entry->rank, entry->bytes, due);
	snprintf(sentence, sizeof(sentence), "%.*s", (int)entry->bytes, (const char *)data);
	return failAs(errorReceived(entry->result), sentence);
}

/*
 * Is `a` reported rather than `b`? A failed rank comes before a rank with another number of bytes,
 * which ranks see differently; among equals, the lowest rank comes first.
 */
static int goesBefore(const struct controlEntry *a, const struct controlEntry *b)
{
	if ((a->result == ginSuccess) != (b->result == ginSuccess))
		return a->result != ginSuccess;
	return a->rank < b->rank;
}

/* Takes the entry that made the collective fail. */
static ginResult_t takeEntries(struct control *c, size_t bytes)
{
	const uint8_t *data = c->result.data, *why = NULL;
	struct controlEntry entry, failed;

	for (size_t at = 0; at < c->result.used; at += sizeof(entry) + entry.bytes) {
		memcpy(&entry, data + at, sizeof(entry));
		if (entry.result == ginSuccess && entry.bytes == bytes)
			continue;
		if (!why || goesBefore(&entry, &failed)) {
			failed = entry;
			why = data + at + sizeof(entry);
		}
	}
	if (why)
		return takeFailure(&failed, why, bytes);
	return fail(ginErrorSystem, "the control plane received a broken message");
}

/* Waits until the collective that this rank has begun is complete. */
static ginResult_t waitComplete(struct control *c, const char *call)
{
	if (!c->broken)
		waitDone(c, call);
	if (c->done == c->called)
		return ginSuccess;
	if (!c->broken) {
		fail(ginErrorTimeout, "%s: no answer from rank 0 (host %s)", call,
		     c->ranks[0].host);
		controlBreakHere(c, -1, ginErrorTimeout, ginGetLastError(), NULL);
	}
	return failAs(c->broken, c->why);
}

/* Another thread of this rank waits in a collective: which answer is whose is not known. */
static ginResult_t failTwoThreads(const struct control *c, const char *call)
{
	return fail(ginErrorInvalidUsage,
		    "two threads of rank %d (host %s) are in collective calls of one communicator "
		    "at one time, %s and %s: let one thread make them, or take a lock",
		    c->rank, c->ranks[c->rank].host, c->calling, call);
}

ginResult_t controlBegin(struct control *c, const struct controlRound *of, ginResult_t mine,
			 const void *in, size_t bytes)
{
	if (c->broken)
		return failAs(c->broken, c->why);
	if (c->called != c->done) {
		ginResult_t result = failTwoThreads(c, of->call);
		controlBreakHere(c, -1, result, ginGetLastError(), NULL);
		return result;
	}
	c->called++;
	c->until = deadlineHere();
	snprintf(c->calling, sizeof(c->calling), "%s", of->call);
	c->gather.block = (uint32_t)of->block;
	c->gather.round = of->round;
	ginResult_t result = contribute(c, of->call, mine, in, bytes);
	if (result == ginSuccess)
		return ginSuccess;
	controlBreakHere(c, -1, result, ginGetLastError(), NULL);
	return failAs(c->broken, c->why);
}

/* Bytes of a collective's result for this rank, which contributed `bytes`. */
static size_t dueBytes(const struct control *c, const struct controlRound *of, size_t bytes)
{
	if (!of->block)
		return (size_t)c->nRanks * bytes;
	uint32_t own = (uint32_t)c->rank % controlRounds(c->nRanks, of->block);
	return own == of->round ? (size_t)c->nRanks * of->block : 0;
}

/* `out` is written only when no rank has failed. */
static ginResult_t takeResult(struct control *c, const struct controlRound *of, void *out,
			      size_t bytes)
{
	if (c->delivered == controlDown)
		return takeEntries(c, bytes);
	if (c->delivered != (of->block ? controlColumns : controlAll) ||
	    c->result.used != dueBytes(c, of, bytes))
		return fail(ginErrorSystem, "the control plane received a broken message");
	if (c->result.used)
		memcpy(out, c->result.data, c->result.used);
	return ginSuccess;
}

ginResult_t controlEnd(struct control *c, const struct controlRound *of, void *out, size_t bytes)
{
	ginResult_t result = waitComplete(c, of->call);

	if (result == ginSuccess)
		result = takeResult(c, of, out, bytes);
	bufferTrim(&c->result);
	return result;
}

ginResult_t controlAllgather(struct control *c, const char *call, ginResult_t mine, const void *in,
			     void *out, size_t bytes)
{
	const struct controlRound of = {.call = call};

	pthread_mutex_lock(&c->lock);
	ginResult_t result = controlBegin(c, &of, mine, in, bytes);
	if (result == ginSuccess)
		result = controlEnd(c, &of, out, bytes);
	pthread_mutex_unlock(&c->lock);
	return result;
}

ginResult_t controlBeginRound(struct control *c, const struct controlRound *of, ginResult_t mine,
			      const void *in)
{
	size_t bytes = controlRowBytes(c->nRanks, of->block, of->round), block = of->block;
	size_t step = controlRounds(c->nRanks, block) * block;
	uint8_t *row = malloc(bytes);

	if (mine == ginSuccess && !row)
		mine = fail(ginErrorSystem, "no memory for a collective");
	for (size_t i = 0; mine == ginSuccess && i < bytes / block; i++)
		memcpy(row + i * block, (const uint8_t *)in + of->round * block + i * step, block);
	mine = controlBegin(c, of, mine, row, bytes);
	free(row);
	return mine;
}

/* A rank that has failed contributes its sentence to the first round, which then is the last. */
ginResult_t controlAlltoall(struct control *c, const char *call, ginResult_t mine, const void *in,
			    void *out, size_t block)
{
	uint32_t rounds = controlRounds(c->nRanks, block);
	struct controlRound of = {.call = call, .block = block};

	pthread_mutex_lock(&c->lock);
	for (; of.round < rounds && (mine == ginSuccess || !of.round); of.round++) {
		mine = controlBeginRound(c, &of, mine, in);
		if (mine == ginSuccess)
			mine = controlEnd(c, &of, out, controlRowBytes(c->nRanks, block, of.round));
	}
	pthread_mutex_unlock(&c->lock);
	return mine;
}

ginResult_t controlAgree(struct control *c, const char *call, ginResult_t mine)
{
	return controlAllgather(c, call, mine, NULL, NULL, 0);
}

ginResult_t controlAgreeOn(struct control *c, const char *call, ginResult_t mine, uint64_t serial)
{
	uint64_t *all = calloc((size_t)c->nRanks, sizeof(*all));

	if (mine == ginSuccess && !all)
		mine = fail(ginErrorSystem, "no memory");
	mine = controlAllgather(c, call, mine, &serial, all, sizeof(serial));
	for (int r = 1; mine == ginSuccess && r < c->nRanks; r++)
		if (all[r] != all[0])
			mine = fail(ginErrorInvalidArgument,
				    "rank %d passed object number %llu of the communicator, rank 0 "
				    "number %llu: all ranks must pass one object",
				    r, (unsigned long long)all[r], (unsigned long long)all[0]);
	free(all);
	return mine;
}

void controlRetire(struct control *c, int by)
{
	pthread_mutex_lock(&c->lock);
	c->retired += (uint32_t)by;
	pthread_mutex_unlock(&c->lock);
}

int controlAllRetired(struct control *c)
{
	pthread_mutex_lock(&c->lock);
	int all = c->allRetired > 0 && !c->broken;
	pthread_mutex_unlock(&c->lock);
	return all;
}

void controlAbort(struct control *c)
{
	char why[SENTENCE_BYTES];

	snprintf(why, sizeof(why), "rank %d (host %s) called ginCommAbort", c->rank,
		 c->ranks[c->rank].host);
	pthread_mutex_lock(&c->lock);
	c->aborted = 1;
	controlBreakHere(c, c->rank, ginErrorAborted, why, NULL);
	pthread_mutex_unlock(&c->lock);
}

void controlEndAll(struct control *c, ginResult_t result)
{
	pthread_mutex_lock(&c->lock);
	controlBreakHere(c, -1, result, ginGetLastError(), NULL);
	pthread_mutex_unlock(&c->lock);
}

void controlReport(struct control *c, int peer, const char *why)
{
	char sentence[SENTENCE_BYTES];

	snprintf(sentence, sizeof(sentence),
		 "%.360s (reported by rank %d; ranks that are alive go on by ginCommShrink())", why,
		 c->rank);
	pthread_mutex_lock(&c->lock);
	controlBreakHere(c, peer, ginErrorPeer, sentence, NULL);
	pthread_mutex_unlock(&c->lock);
}

ginResult_t controlError(struct control *c)
{
	pthread_mutex_lock(&c->lock);
	ginResult_t result = c->broken;
	if (result != ginSuccess)
		failAs(result, c->why);
	pthread_mutex_unlock(&c->lock);
	return result;
}

static void sendFarewells(struct control *c)
{
	struct controlHeader bye = {.type = controlBye};

	pthread_mutex_lock(&c->lock);
	c->closing = 1; /* controlSend() then ends each link after its last message */
	pthread_cond_broadcast(&c->changed);
	for (int i = 0; i < c->links; i++) {
		controlDialFarewell(&c->link[i]);
		controlSend(c, &c->link[i], &bye, NULL);
	}
	pthread_mutex_unlock(&c->lock);
	controlWake(c);
}

void controlClose(struct control *c)
{
	if (!c->started)
		return;
	sendFarewells(c);
	pthread_join(c->thread, NULL);
	freeState(c);
	c->started = 0;
}
