/* SPDX-License-Identifier: BSD-3-Clause */
/* thread.c - the thread that reads the sockets, and what follows when a connection ends */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "internal.h"
#include "lib/base/forkguard.h"
#include "lib/base/log.h"

#define MESSAGE_SECONDS 10 /* the rest of a message that has begun */

void controlSend(const struct controlLink *link, const struct controlHeader *header,
		 const void *data)
{
	uint64_t deadline = clockNow() + MESSAGE_SECONDS * SECOND;

	if (link->fd >= 0 && (socketSend(link->fd, header, sizeof(*header), deadline) ||
			      socketSend(link->fd, data, header->bytes, deadline)))
		shutdown(link->fd, SHUT_RDWR);
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
	for (int i = 0; i < c->links; i++)
		if (&c->link[i] != except)
			controlSend(&c->link[i], &header, why);
	pthread_cond_broadcast(&c->changed);
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

static void dropLink(struct control *c, struct controlLink *link)
{
	char why[SENTENCE_BYTES];

	forkGuardClose(link->fd);
	link->fd = -1;
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
	if (type == controlUp || type == controlDown)
		return (uint64_t)c->nRanks * (sizeof(struct controlEntry) + CONTROL_BYTES);
	return type == controlFail ? SENTENCE_BYTES - 1 : 0;
}

/* 0, or -1 when the link must be dropped. */
static int receive(struct control *c, struct controlLink *link, struct controlHeader *header,
		   struct buffer *data)
{
	uint64_t deadline = clockNow() + MESSAGE_SECONDS * SECOND;

	if (socketReceive(link->fd, header, sizeof(*header), deadline))
		return -1;
	header->call[CONTROL_CALL - 1] = '\0';
	if (header->bytes > mostBytes(c, header->type) || !bufferRoom(data, header->bytes + 1))
		return -1;
	if (socketReceive(link->fd, data->data, header->bytes, deadline))
		return -1;
	data->used = header->bytes;
	data->data[data->used] = '\0';
	return 0;
}

static void takeFailure(struct control *c, const struct controlLink *link,
			const struct controlHeader *header, const struct buffer *data)
{
	int rank = header->rank >= 0 && header->rank < c->nRanks ? header->rank : -1;

	controlBreakHere(c, rank, (ginResult_t)header->result, (const char *)data->data, link);
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
	else if (header->type == controlDown && fromParent)
		result = controlGatherDone(c, header->seq, data);
	else
		result = fail(ginErrorSystem, "the control plane received a broken message");
	if (result != ginSuccess)
		controlBreakHere(c, -1, result, ginGetLastError(), NULL);
}

static void readLink(struct control *c, struct controlLink *link)
{
	struct controlHeader header;
	struct buffer data = {0};
	int ended = receive(c, link, &header, &data);

	pthread_mutex_lock(&c->lock);
	if (ended)
		dropLink(c, link);
	else if (header.type == controlFail)
		takeFailure(c, link, &header, &data);
	else if (header.type == controlBye)
		link->left = 1;
	else
		takeCollective(c, c->rank && link == &c->link[0], &header, &data);
	pthread_mutex_unlock(&c->lock);
	bufferFree(&data);
}

static int pollLinks(struct control *c, struct pollfd *fds)
{
	fds[0] = (struct pollfd){.fd = c->wake, .events = POLLIN};
	for (int i = 0; i < c->links; i++)
		fds[1 + i] = (struct pollfd){.fd = c->link[i].fd, .events = POLLIN};
	return poll(fds, 1 + (nfds_t)c->links, 250);
}

static int openLinks(const struct control *c)
{
	int open = 0;

	for (int i = 0; i < c->links; i++)
		open += c->link[i].fd >= 0;
	return open;
}

/* When closing, the thread waits for the farewells of its neighbours, at most two seconds. */
static int mayEnd(struct control *c, uint64_t *end)
{
	pthread_mutex_lock(&c->lock);
	int closing = c->closing, broken = c->broken != ginSuccess;
	if (!closing)
		controlGatherTick(c, clockNow());
	pthread_mutex_unlock(&c->lock);
	if (closing && !*end)
		*end = clockNow() + 2 * SECOND;
	return closing && (broken || !openLinks(c) || clockNow() > *end);
}

void *controlThread(void *arg)
{
	struct control *c = arg;
	struct pollfd fds[1 + CONTROL_LINKS];
	uint64_t end = 0, drained;

	errorScope("control plane", c->rank);
	pthread_mutex_lock(&c->lock);
	while (!c->connected && !c->closing)
		pthread_cond_wait(&c->changed, &c->lock);
	pthread_mutex_unlock(&c->lock);
	while (!mayEnd(c, &end)) {
		if (pollLinks(c, fds) <= 0)
			continue;
		if (fds[0].revents && read(c->wake, &drained, sizeof(drained)) < 0 &&
		    errno != EAGAIN)
			logWrite(logDebug, "control plane: eventfd: %m");
		for (int i = 0; i < c->links; i++)
			if (fds[1 + i].revents)
				readLink(c, &c->link[i]);
	}
	return NULL;
}
