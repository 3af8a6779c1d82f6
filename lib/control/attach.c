/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach.c - after a failure, ranks without a parent connect to one rank: all learn of later deaths
 *
 * A rank is out when it has failed or has left. The lowest rank that is not out is the root. An
 * orphan is a rank whose parent in the tree is out: it connects to the root, and the root connects
 * to each orphan that does not come. The result is a tree again, whose connections end with their
 * ranks. Nothing here runs in a healthy communicator.
 *
 * A refused connection shows that a rank has died or has closed its communicator, because a rank
 * listens until then. The kernel takes connections of a rank that is stopped or busy. Another
 * program may listen at the port of a rank that has died: without the proof of the key it never
 * counts as the rank, and GIN_TIMEOUT is the limit where it says nothing, or hangs up.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "internal.h"
#include "lib/base/net/auth.h"
#include "lib/base/clock.h"
#include "lib/base/forkguard.h"
#include "lib/base/log.h"
#include "lib/base/param.h"

#define MILLISECOND (SECOND / 1000)
#define ABSENT (300 * MILLISECOND) /* orphans come by themselves within this time */
#define AGAIN (50 * MILLISECOND)   /* between two attempts */
#define ATTEMPT (3 * SECOND)	   /* an address that does not answer */
#define SILENT (25 * SECOND)	   /* a rank that does not answer, as in socket.c */
#define SILENT_HOST (5 * SECOND)   /* if a rank of its host is lost by silence */

enum dialStep { dialConnects, dialChallenge, dialProof };

/* A link that this rank connects. link->fd is -1 between two attempts. */
struct controlDial {
	enum dialStep step;
	unsigned address;  /* the candidate of this attempt */
	int isRefused;	   /* by another candidate of this pass */
	uint64_t silent;   /* since when no address of the rank has answered */
	uint64_t end;	   /* of all attempts */
	uint64_t until;	   /* the end of the attempt or the beginning of the next one */
	uint64_t proof;	   /* that the rank must send */
	uint64_t words[2]; /* from the rank */
	size_t got;	   /* bytes of `words` */
};

_Static_assert(sizeof(((struct controlDial *)0)->words) == AUTH_CHALLENGE_BYTES,
	       "a challenge fits");

void controlAttachAt(struct control *c, uint64_t when)
{
	if (!c->attachAt || when < c->attachAt)
		c->attachAt = when;
}

static int isOut(const struct control *c, int rank)
{
	return c->failed[rank] || c->gone[rank] & controlLeft;
}

/* -1: all ranks are out. */
static int rootOf(const struct control *c)
{
	for (int r = 0; r < c->nRanks; r++)
		if (!isOut(c, r))
			return r;
	return -1;
}

static int isOrphan(const struct control *c, int rank)
{
	return !rank || isOut(c, controlParent(rank)) || (rank == c->rank && c->link[0].fd < 0);
}

static int isLinked(const struct control *c, int rank)
{
	for (int i = 0; i < c->links; i++)
		if (c->link[i].rank == rank && (c->link[i].fd >= 0 || c->link[i].dial))
			return 1;
	return 0;
}

void controlDropDial(struct controlLink *link)
{
	if (link->dial && link->fd >= 0)
		forkGuardClose(link->fd);
	if (link->dial)
		link->fd = -1;
	free(link->dial);
	link->dial = NULL;
}

/* The other rank takes this one for connected as soon as it has the answer. */
static int mayBeLink(const struct controlLink *link)
{
	return link->dial && link->fd >= 0 && link->dial->step == dialProof;
}

void controlDialFarewell(const struct controlLink *link)
{
	const struct controlHeader bye = {.type = controlBye};

	if (mayBeLink(link) &&
	    send(link->fd, &bye, sizeof(bye), MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof(bye))
		logWrite(logDebug, "control plane: no farewell to rank %d: %m", link->rank);
}

short controlDialEvents(const struct controlLink *link)
{
	return link->dial->step == dialConnects ? POLLOUT : POLLIN;
}

enum dialEnd { endRefused, endSilent, endLimit };

/* The rank is lost. But where this rank's parent has left, other ranks have probably left, too. */
static void lose(struct control *c, struct controlLink *link, enum dialEnd end)
{
	static const char *const ends[] = {
		[endRefused] = "has died, or has destroyed the communicator after a failure: its "
			       "port refuses connections",
		[endSilent] = "has lost its network, or its host has died: it does not answer",
		[endLimit] = "has not answered at its port within GIN_TIMEOUT: it is stopped, or "
			     "has died, and another program has the port",
	};
	char why[SENTENCE_BYTES];
	int rank = link->rank;

	controlDropDial(link);
	controlAttachAt(c, clockNow());
	if (end == endRefused && c->leaving) {
		c->gone[rank] |= controlLeft;
		return;
	}
	c->gone[rank] |= end == endSilent ? controlSilent : 0;
	snprintf(why, sizeof(why), "rank %d (host %s) %s", rank, c->ranks[rank].host, ends[end]);
	logWrite(logWarn, "%s", why);
	controlBreakHere(c, rank, ginErrorPeer, why, NULL);
}

static uint64_t patience(const struct control *c, int rank)
{
	for (int r = 0; r < c->nRanks; r++)
		if (c->gone[r] & controlSilent && identitySameHost(&c->ranks[r], &c->ranks[rank]))
			return SILENT_HOST;
	return SILENT;
}

/* All addresses of the rank are tried. */
static void endPass(struct control *c, struct controlLink *link, uint64_t now)
{
	struct controlDial *d = link->dial;

	if (d->isRefused || now - d->silent > patience(c, link->rank)) {
		lose(c, link, d->isRefused ? endRefused : endSilent);
		return;
	}
	d->address = 0;
	d->until = now + AGAIN;
}

int controlIsSilence(int reason)
{
	return reason == ETIMEDOUT || reason == EHOSTUNREACH || reason == ENETUNREACH ||
	       reason == EHOSTDOWN || reason == ENETDOWN;
}

/* The attempt has failed. Another reason than these two says nothing about the rank. */
static void endAttempt(struct controlLink *link, int reason, uint64_t now)
{
	struct controlDial *d = link->dial;

	if (link->fd >= 0)
		forkGuardClose(link->fd);
	link->fd = -1;
	d->until = now;
	d->isRefused |= reason == ECONNREFUSED;
	if (reason == ECONNREFUSED || controlIsSilence(reason)) {
		d->address++;
		return;
	}
	d->address = 0;
	d->isRefused = 0;
	d->silent = now;
	d->until = now + AGAIN;
}

static void beginAttempt(struct control *c, struct controlLink *link, uint64_t now)
{
	struct controlDial *d = link->dial;
	struct netAddress address;

	if (!controlAddress(c, link->rank, d->address, &address)) {
		endPass(c, link, now);
		return;
	}
	d->step = dialConnects;
	d->got = 0;
	d->until = now + ATTEMPT;
	link->fd = socketConnectBegin(&address, c->ranks[link->rank].port);
	if (link->fd < 0)
		endAttempt(link, errno, now);
	else
		forkGuard(link->fd);
}

/* A rank that has accepted may be stopped: the connection then waits, as a collective does. */
static void tick(struct control *c, struct controlLink *link, uint64_t now)
{
	if (isOut(c, link->rank) && !mayBeLink(link)) {
		controlDropDial(link);
		return;
	}
	if (now >= link->dial->end && !isOut(c, link->rank)) {
		lose(c, link, endLimit);
		return;
	}
	if (now >= link->dial->until && link->fd >= 0)
		endAttempt(link, ETIMEDOUT, now);
	while (link->dial && link->fd < 0 && now >= link->dial->until)
		beginAttempt(c, link, now);
	if (link->dial)
		controlAttachAt(c, link->dial->until);
}

void controlSendNews(struct control *c, struct controlLink *link)
{
	char why[SENTENCE_BYTES];
	struct controlHeader header = {.type = controlFail, .result = ginErrorPeer};

	for (int r = 0; r < c->nRanks; r++) {
		if (!c->failed[r])
			continue;
		snprintf(why, sizeof(why), "rank %d (host %s) is lost", r, c->ranks[r].host);
		header.rank = r;
		header.bytes = strlen(why);
		controlSend(c, link, &header, why);
	}
}

/* Returns 0, or the reason why the attempt fails. */
static int answer(const struct control *c, struct controlLink *link)
{
	struct controlDial *d = link->dial;
	uint8_t bytes[AUTH_ANSWER_BYTES];

	if (authMakeAnswer(c->key, (uint32_t)c->rank, d->words, bytes, &d->proof))
		return EAGAIN;
	d->step = dialProof;
	d->got = 0;
	ssize_t sent = send(link->fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
	return sent == sizeof(bytes) ? 0 : ECONNRESET;
}

/* The rank has proved the key, or a stranger has the port: the rank is then gone. */
static int takeProof(struct control *c, struct controlLink *link)
{
	if (link->dial->words[0] != link->dial->proof)
		return ECONNREFUSED;
	free(link->dial);
	link->dial = NULL;
	socketProbe(link->fd, 0);
	controlSendNews(c, link);
	return 0;
}

/* One step of an attempt. Returns 0, or the reason why the attempt fails. */
static int step(struct control *c, struct controlLink *link)
{
	struct controlDial *d = link->dial;
	size_t due = d->step == dialProof ? sizeof(d->proof) : sizeof(d->words);

	if (d->step == dialConnects) {
		d->step = dialChallenge;
		d->until = d->end;
		if (socketConnectEnd(link->fd))
			return errno;
		socketProbe(link->fd, 1);
		return 0;
	}
	ssize_t got = recv(link->fd, (uint8_t *)d->words + d->got, due - d->got, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (got <= 0)
		return got ? errno : ECONNRESET;
	d->got += (size_t)got;
	if (d->got < due)
		return 0;
	return d->step == dialChallenge ? answer(c, link) : takeProof(c, link);
}

void controlDialServe(struct control *c, struct controlLink *link)
{
	int wasConnected = link->dial->step != dialConnects, reason = step(c, link);

	if (reason && wasConnected && controlIsSilence(reason))
		lose(c, link, endSilent);
	else if (reason)
		endAttempt(link, reason, clockNow());
	controlAttachAt(c, clockNow());
}

static void dial(struct control *c, int rank, uint64_t now)
{
	struct controlDial *d = calloc(1, sizeof(*d));
	struct controlLink *link = d ? controlAddLink(c, -1, rank) : NULL;

	if (!link) {
		free(d);
		controlAttachAt(c, now + SECOND);
		return;
	}
	d->silent = d->until = now;
	d->end = now + paramNumber(paramTimeout) * SECOND;
	link->dial = d;
	tick(c, link, now);
}

/* The root: orphans that have had the time to come. */
static void dialOrphans(struct control *c, uint64_t now)
{
	for (int r = 0; r < c->nRanks; r++) {
		if (r == c->rank || isOut(c, r) || !isOrphan(c, r) || isLinked(c, r))
			continue;
		if (now < c->settled + ABSENT) {
			controlAttachAt(c, c->settled + ABSENT);
			return;
		}
		dial(c, r, now);
	}
}

void controlAttach(struct control *c, uint64_t now)
{
	if (!c->attachAt || now < c->attachAt)
		return;
	c->attachAt = 0;
	if (c->broken == ginSuccess || !c->known || c->closing)
		return;
	if (controlReceive(c))
		controlAttachAt(c, now + SECOND);
	for (int i = 0; i < c->links; i++)
		if (c->link[i].dial)
			tick(c, &c->link[i], now);
	int root = rootOf(c);
	if (root == c->rank)
		dialOrphans(c, now);
	else if (root >= 0 && isOrphan(c, c->rank) && !isLinked(c, root))
		dial(c, root, now);
}

void controlNoteLeft(struct control *c, const struct controlLink *link)
{
	c->leaving |= c->rank && (link == &c->link[0] || link->rank == rootOf(c));
	c->gone[link->rank] |= controlLeft;
	c->settled = clockNow();
}

void controlRanksKnown(struct control *c)
{
	pthread_mutex_lock(&c->lock);
	c->known = 1;
	controlAttachAt(c, clockNow());
	pthread_mutex_unlock(&c->lock);
	controlWake(c);
}
