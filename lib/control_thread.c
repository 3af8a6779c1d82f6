/* SPDX-License-Identifier: BSD-3-Clause */
/* control_thread.c - reading the sockets, and what happens when one ends */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "control.h"
#include "log.h"

#define MESSAGE_SECONDS 10 /* the rest of a message that has begun */

void controlSend(const struct controlLink *link, const struct controlHeader *header,
		 const void *data)
{
	uint64_t deadline = clockNow() + MESSAGE_SECONDS * SECOND;

	if (link->fd >= 0 && (socketSend(link->fd, header, sizeof(*header), deadline) ||
			      socketSend(link->fd, data, header->bytes, deadline)))
		shutdown(link->fd, SHUT_RDWR);
}

int controlBreak(struct control *c, int rank, ginResult_t result, const char *why,
		 const struct controlLink *except)
{
	/* A rank that gave up is a failed peer to the others. */
	ginResult_t told = result == ginErrorAborted ? ginErrorPeer : result;
	struct controlHeader header = {
		.type = controlFail, .rank = rank, .result = told, .bytes = strlen(why)};

	if (c->broken)
		return 0;
	c->broken = result;
	snprintf(c->why, sizeof(c->why), "%s", why);
	for (int i = 0; i < c->links; i++)
		if (&c->link[i] != except)
			controlSend(&c->link[i], &header, why);
	pthread_cond_broadcast(&c->changed);
	return 1;
}

void controlNotify(struct control *c, int rank)
{
	c->onFailure(c->onFailureArg, rank, c->broken);
}

static void dropLink(struct control *c, struct controlLink *link)
{
	char why[SENTENCE_BYTES];

	close(link->fd);
	link->fd = -1;
	if (link->left || c->closing)
		return;
	snprintf(why, sizeof(why),
		 "rank %d (host %s) has died or lost its network: its connection to "
		 "rank %d ended",
		 link->rank, c->ranks[link->rank].host, c->rank);
	if (!c->broken)
		logWrite(logError, "%s", why);
	if (controlBreak(c, link->rank, ginErrorPeer, why, link)) {
		pthread_mutex_unlock(&c->lock);
		controlNotify(c, link->rank);
		pthread_mutex_lock(&c->lock);
	}
}

/* The most that a well-formed message can have. */
static uint64_t mostBytes(const struct control *c, uint32_t type)
{
	if (type == controlUp || type == controlDown)
		return (uint64_t)c->nRanks * (sizeof(struct controlEntry) + CONTROL_BYTES);
	return type == controlFail ? SENTENCE_BYTES - 1 : 0;
}

/* 0, or -1 when the link is of no use any more. */
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

/* A message of the collective that cannot be right ends the communicator for all. */
static int breakByMessage(struct control *c, ginResult_t result)
{
	if (result == ginSuccess)
		return 0;
	return controlBreak(c, -1, result, ginGetLastError(), NULL);
}

static int handle(struct control *c, struct controlLink *link, const struct controlHeader *header,
		  const struct buffer *data)
{
	switch (header->type) {
	case controlUp:
		return breakByMessage(c, controlGatherAdd(c, header->call, header->seq, data));
	case controlDown:
		return breakByMessage(c, controlGatherDone(c, header->seq, data));
	case controlFail:
		return controlBreak(c, header->rank, (ginResult_t)header->result,
				    (const char *)data->data, link);
	default:
		link->left = 1;
		return 0;
	}
}

static void readLink(struct control *c, struct controlLink *link)
{
	struct controlHeader header;
	struct buffer data = {0};
	int broke = 0;
	int ended = receive(c, link, &header, &data);

	pthread_mutex_lock(&c->lock);
	if (ended)
		dropLink(c, link);
	else if (!c->broken || header.type == controlBye)
		broke = handle(c, link, &header, &data);
	pthread_mutex_unlock(&c->lock);
	if (broke)
		controlNotify(c, header.type == controlFail ? header.rank : -1);
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

/* Once closing, the thread lives until all have said farewell too, but not for long. */
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
