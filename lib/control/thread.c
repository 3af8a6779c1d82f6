/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.c - the thread that reads the sockets, and the handling of connections that end */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "internal.h"
#include "lib/base/forkguard.h"
#include "lib/base/log.h"
#include "lib/base/param.h"
#include "lib/base/range.h"
#include "recover_internal.h"

void controlWake(struct control *c)
{
	uint64_t one = 1;
	ssize_t written = write(c->wake, &one, sizeof(one));

	(void)written; /* without it, the thread checks every quarter of a second */
}

/*
 * A peer whose process is stopped reads nothing, but its kernel answers: an acknowledgement arrives
 * long after the last byte that the socket took. Such a peer is alive: a collective waits for it
 * until GIN_TIMEOUT.
 */
static int isStopped(const struct controlLink *link, uint64_t now)
{
	uint64_t still = now - link->moved;

	return still > SECOND && socketUnanswered(link->fd) < still - SECOND;
}

static void waitPatiently(struct control *c)
{
	uint64_t now = clockNow();

	for (int i = 0; i < c->links; i++) {
		struct controlLink *link = &c->link[i];
		if (link->fd < 0 || !link->first || link->patient || !isStopped(link, now))
			continue;
		socketPatience(link->fd, paramNumber(paramTimeout));
		link->patient = 1;
	}
}

static int isNews(const struct control *c, int rank)
{
	return rank < 0 ? c->broken == ginSuccess : !c->failed[rank];
}

int controlBreak(struct control *c, int rank, ginResult_t result, const char *why,
		 const struct controlLink *except)
{
	/* To the other ranks, a rank that has aborted is a failed peer. */
	ginResult_t sent = result == ginErrorAborted ? ginErrorPeer : result;
	struct controlHeader header = {
		.type = controlFail, .rank = rank, .result = sent, .bytes = strlen(why)};

	if (!isNews(c, rank))
		return 0;
	if (rank >= 0)
		c->failed[rank] = 1;
	if (c->broken == ginSuccess) {
		c->broken = result;
		snprintf(c->why, sizeof(c->why), "%s", why);
	}
	c->settled = clockNow();
	controlAttachAt(c, c->settled);
	for (int i = 0; i < c->links; i++)
		if (&c->link[i] != except)
			controlSend(c, &c->link[i], &header, why);
	pthread_cond_broadcast(&c->changed);
	controlWake(c);
	return 1;
}

void controlBreakHere(struct control *c, int rank, ginResult_t result, const char *why,
		      const struct controlLink *except)
{
	if (!controlBreak(c, rank, result, why, except))
		return;
	pthread_mutex_unlock(&c->lock);
	c->onFailure(c->onFailureArg, rank, result);
	pthread_mutex_lock(&c->lock);
}

void controlDropLink(struct control *c, struct controlLink *link)
{
	char why[SENTENCE_BYTES];

	forkGuardClose(link->fd);
	link->fd = -1;
	controlDropParts(link);
	controlAttachAt(c, clockNow());
	c->gone[link->rank] |= link->silent ? controlSilent : 0;
	if (link->left)
		controlNoteLeft(c, link);
	if (link->left || c->closing || c->failed[link->rank])
		return;
	snprintf(why, sizeof(why),
		 "rank %d (host %s) has died or lost its network: its connection to rank %d ended",
		 link->rank, c->ranks[link->rank].host, c->rank);
	logWrite(logError, "%s", why);
	controlBreakHere(c, link->rank, ginErrorPeer, why, link);
}

/* The most data that a well-formed message has. */
static uint64_t mostBytes(const struct control *c, uint32_t type)
{
	if (type == controlUp || type == controlDown || type == controlAll ||
	    type == controlColumns)
		return (uint64_t)c->nRanks * (sizeof(struct controlEntry) + CONTROL_BYTES);
	return type == controlFail ? SENTENCE_BYTES - 1 : 0;
}

size_t controlMessageBytes(const struct control *c, const struct controlLink *link)
{
	struct controlHeader header;

	if (link->in.used < sizeof(header))
		return sizeof(header);
	memcpy(&header, link->in.data, sizeof(header));
	return header.bytes > mostBytes(c, header.type) ? 0 : sizeof(header) + header.bytes;
}

/*
 * Reads what has arrived. 1: a whole message, 0: an incomplete one, -1: the link must be dropped.
 */
static int receive(const struct control *c, struct controlLink *link)
{
	for (;;) {
		size_t whole = controlMessageBytes(c, link), missing = whole - link->in.used;
		if (!whole)
			return -1;
		if (!missing)
			return 1;
		uint8_t *room = bufferRoom(&link->in, missing + 1);
		if (!room)
			return -1;
		ssize_t got = recv(link->fd, room, missing, MSG_DONTWAIT);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		link->silent = got < 0 && controlIsSilence(errno);
		if (got <= 0)
			return -1;
		link->in.used += (size_t)got;
	}
}

static void takeFailure(struct control *c, const struct controlLink *link,
			const struct controlHeader *header, const struct buffer *data)
{
	int rank = header->rank >= 0 && header->rank < c->nRanks ? header->rank : -1;

	if (c->failed[link->rank] && rank != link->rank)
		return; /* a rank that has lost its network takes the others for dead */
	controlBreakHere(c, rank, errorReceived(header->result), (const char *)data->data, link);
}

/* A wrong message of a collective ends the communicator on all ranks. */
static void takeCollective(struct control *c, int fromParent, const struct controlHeader *header,
			   const struct buffer *data)
{
	ginResult_t result;

	if (c->broken)
		return;
	if (header->type == controlUp)
		result = controlGatherAdd(c, header->call, header->seq, data);
	else if (fromParent)
		result = controlDeliver(c, header, data);
	else
		result = fail(ginErrorSystem, "the control plane received a broken message");
	if (result != ginSuccess)
		controlBreakHere(c, -1, result, ginGetLastError(), NULL);
}

void controlTake(struct control *c, struct controlLink *link)
{
	struct controlHeader header;

	memcpy(&header, link->in.data, sizeof(header));
	header.call[CONTROL_CALL - 1] = '\0';
	link->in.data[link->in.used] = '\0';
	struct buffer data = {.data = link->in.data + sizeof(header), .used = header.bytes};
	if (header.type == controlFail)
		takeFailure(c, link, &header, &data);
	else if (header.type == controlBye)
		link->left = 1;
	else
		takeCollective(c, c->rank && link == &c->link[0], &header, &data);
	bufferTrim(&link->in);
}

static void readLink(struct control *c, struct controlLink *link)
{
	int got = receive(c, link);

	if (!got)
		return;
	pthread_mutex_lock(&c->lock);
	if (got < 0)
		controlDropLink(c, link);
	else
		controlTake(c, link);
	bufferTrim(&link->in);
	pthread_mutex_unlock(&c->lock);
}

static void serveLink(struct control *c, struct controlLink *link, short events)
{
	if (link->dial) {
		pthread_mutex_lock(&c->lock);
		if (!c->closing) /* the farewells are sent */
			controlDialServe(c, link);
		pthread_mutex_unlock(&c->lock);
		return;
	}
	if (events & POLLOUT) {
		pthread_mutex_lock(&c->lock);
		if (link->first)
			controlFlush(c, link);
		pthread_mutex_unlock(&c->lock);
	}
	if (events & ~POLLOUT)
		readLink(c, link);
}

static void readNews(struct control *c)
{
	ginResult_t result = controlReadNews(c);

	if (result == ginSuccess)
		return;
	pthread_mutex_lock(&c->lock);
	c->news.fd = -1;
	controlBreakHere(c, -1, result, ginGetLastError(), NULL);
	pthread_mutex_unlock(&c->lock);
}

static void readRecovery(struct control *c)
{
	pthread_mutex_lock(&c->lock);
	recoverRead(c);
	pthread_mutex_unlock(&c->lock);
}

/* Links follow the descriptors for waking, for news and for recovery, then comes the reception. */
#define FIRST_LINK 3

/* What the thread waits for. */
struct polls {
	struct pollfd few[FIRST_LINK + CONTROL_LINKS + CONTROL_RECEPTION];
	struct pollfd *fds; /* `few`, or more */
	int room, links;
};

/* Without memory, links that are too many wait. */
static void makeRoom(struct polls *p, int links)
{
	int room = FIRST_LINK + links + CONTROL_RECEPTION;
	struct pollfd *fds;

	p->links = links;
	if (room <= p->room)
		return;
	fds = malloc((size_t)room * sizeof(*fds));
	if (!fds) {
		p->links = p->room - FIRST_LINK - CONTROL_RECEPTION;
		return;
	}
	if (p->fds != p->few)
		free(p->fds);
	p->fds = fds;
	p->room = room;
}

static short eventsOf(const struct controlLink *link)
{
	if (link->dial)
		return controlDialEvents(link);
	return link->first ? POLLIN | POLLOUT : POLLIN;
}

static int pollAll(struct control *c, struct polls *p)
{
	int n = 0, wait = c->tickMs ? c->tickMs : 250;

	pthread_mutex_lock(&c->lock);
	makeRoom(p, c->links);
	p->fds[n++] = (struct pollfd){.fd = c->wake, .events = POLLIN};
	p->fds[n++] = (struct pollfd){.fd = c->news.fd, .events = POLLIN};
	p->fds[n++] = (struct pollfd){.fd = c->recovery->fd, .events = POLLIN};
	for (int i = 0; i < p->links; i++)
		p->fds[n++] = (struct pollfd){.fd = c->link[i].fd, .events = eventsOf(&c->link[i])};
	if (c->reception)
		n += controlReceptionPoll(c->reception, p->fds + n);
	if (c->attachAt && c->broken != ginSuccess)
		wait = clockLeftMs(c->attachAt, wait);
	pthread_mutex_unlock(&c->lock);
	return poll(p->fds, (nfds_t)n, wait);
}

/* Last: here the table of links changes. */
static void serveReception(struct control *c, const struct polls *p)
{
	pthread_mutex_lock(&c->lock);
	if (c->reception && !c->closing)
		controlReceptionServe(c->reception, p->fds + FIRST_LINK + p->links);
	pthread_mutex_unlock(&c->lock);
}

static void attach(struct control *c)
{
	pthread_mutex_lock(&c->lock);
	controlAttach(c, clockNow());
	pthread_mutex_unlock(&c->lock);
}

static void serveAll(struct control *c, const struct polls *p)
{
	const struct pollfd *fds = p->fds;
	uint64_t drained;

	if (fds[0].revents && read(c->wake, &drained, sizeof(drained)) < 0 && errno != EAGAIN)
		logWrite(logDebug, "control plane: eventfd: %m");
	if (fds[1].revents)
		readNews(c);
	if (fds[2].revents)
		readRecovery(c);
	for (int i = 0; i < p->links; i++)
		if (fds[FIRST_LINK + i].revents)
			serveLink(c, &c->link[i], fds[FIRST_LINK + i].revents);
	serveReception(c, p);
}

static int openLinks(const struct control *c)
{
	int open = 0;

	for (int i = 0; i < c->links; i++)
		open += c->link[i].fd >= 0;
	return open;
}

static int unsent(const struct control *c)
{
	int links = 0;

	for (int i = 0; i < c->links; i++)
		links += c->link[i].fd >= 0 && c->link[i].first;
	return links;
}

/* When closing, the thread waits for the farewells of its neighbours, at most two seconds. */
static int mayEnd(struct control *c, uint64_t *end)
{
	pthread_mutex_lock(&c->lock);
	int closing = c->closing, done = c->broken != ginSuccess && !unsent(c);
	if (!closing)
		controlGatherTick(c, clockNow());
	waitPatiently(c);
	pthread_mutex_unlock(&c->lock);
	if (closing && !*end)
		*end = clockNow() + 2 * SECOND;
	return closing && (done || !openLinks(c) || clockNow() > *end);
}

void *controlThread(void *arg)
{
	struct control *c = arg;
	struct polls p = {.fds = p.few, .room = sizeof(p.few) / sizeof(p.few[0])};
	uint64_t end = 0;

	errorScope("control plane", c->rank);
	rangeThread("gin-control");
	pthread_mutex_lock(&c->lock);
	while (!c->connected && !c->closing)
		pthread_cond_wait(&c->changed, &c->lock);
	pthread_mutex_unlock(&c->lock);
	while (!mayEnd(c, &end)) {
		if (pollAll(c, &p) > 0)
			serveAll(c, &p);
		attach(c);
		if (c->onTick)
			c->onTick(c->onFailureArg);
	}
	if (p.fds != p.few)
		free(p.fds);
	return NULL;
}
