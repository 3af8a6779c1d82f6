/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send.c - sends messages without waiting: bytes that a socket does not take are kept for the
 * thread
 *
 * All children of a rank get an equal result: the rank keeps one copy of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "internal.h"
#include "lib/base/clock.h"

/* A message, for one link or for several. */
struct controlBody {
	uint32_t uses; /* by links, and by the call that makes it */
	size_t bytes;
	uint8_t data[];
};

/* A message in the list of a link. */
struct controlPart {
	struct controlBody *body;
	struct controlPart *next;
};

static struct controlBody *makeBody(const struct controlHeader *header, const void *data)
{
	size_t bytes = sizeof(*header) + header->bytes;
	struct controlBody *body = malloc(sizeof(*body) + bytes);

	if (!body)
		return NULL;
	body->uses = 1;
	body->bytes = bytes;
	memcpy(body->data, header, sizeof(*header));
	if (header->bytes)
		memcpy(body->data + sizeof(*header), data, header->bytes);
	return body;
}

static void releaseBody(struct controlBody *body)
{
	if (body && !--body->uses)
		free(body);
}

static void dropFirst(struct controlLink *link)
{
	struct controlPart *part = link->first;

	releaseBody(part->body);
	link->first = part->next;
	link->sent = 0;
	free(part);
}

void controlDropParts(struct controlLink *link)
{
	while (link->first)
		dropFirst(link);
}

/* Keeps the message from byte `sent` on. `*body` is made for the first link that needs it. */
static int keepRest(struct controlLink *link, const struct controlHeader *header, const void *data,
		    size_t sent, struct controlBody **body)
{
	struct controlPart *part = malloc(sizeof(*part));

	if (part && !*body)
		*body = makeBody(header, data);
	if (!part || !*body) {
		free(part);
		return -1;
	}
	*part = (struct controlPart){.body = *body};
	(*body)->uses++;
	if (link->first) {
		link->last->next = part;
	} else {
		link->first = part;
		link->sent = sent;
	}
	link->last = part;
	return 0;
}

static void giveUp(struct controlLink *link)
{
	shutdown(link->fd, SHUT_RDWR);
	controlDropParts(link);
}

/* Sends as much of the first message as the socket takes. 1: all of it. */
static int flushFirst(struct controlLink *link)
{
	const struct controlBody *body = link->first->body;

	while (link->sent < body->bytes) {
		ssize_t sent = send(link->fd, body->data + link->sent, body->bytes - link->sent,
				    MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return 0;
		if (sent < 0) {
			giveUp(link);
			return 0;
		}
		link->sent += (size_t)sent;
		link->moved = clockNow();
	}
	return 1;
}

void controlFlush(const struct control *c, struct controlLink *link)
{
	while (link->first) {
		if (!flushFirst(link))
			return;
		dropFirst(link);
	}
	if (link->patient)
		socketPatience(link->fd, 0);
	link->patient = 0;
	if (c->closing)
		shutdown(link->fd, SHUT_WR);
}

/*
 * Sends as much as the socket takes at once, and allocates nothing. Returns the bytes, or -1: the
 * link has ended.
 */
static ssize_t sendAtOnce(const struct controlLink *link, const struct controlHeader *header,
			  const void *data)
{
	struct iovec part[2] = {{.iov_base = (void *)(uintptr_t)header, .iov_len = sizeof(*header)},
				{.iov_base = (void *)(uintptr_t)data, .iov_len = header->bytes}};
	const struct msghdr message = {.msg_iov = part, .msg_iovlen = 2};
	ssize_t sent;

	do
		sent = sendmsg(link->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (sent < 0 && errno == EINTR);
	return sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? 0 : sent;
}

/* A rank without memory can still send its sentence, if the socket takes it. */
static void sendOne(struct control *c, struct controlLink *link, const struct controlHeader *header,
		    const void *data, struct controlBody **body)
{
	size_t whole = sizeof(*header) + header->bytes;

	if (link->fd < 0 || link->dial)
		return;
	if (!link->first)
		link->moved = clockNow();
	ssize_t sent = link->first ? 0 : sendAtOnce(link, header, data);
	if (sent < 0 ||
	    ((size_t)sent < whole && keepRest(link, header, data, (size_t)sent, body))) {
		giveUp(link);
		return;
	}
	controlFlush(c, link);
	if (link->first)
		controlWake(c);
}

void controlSend(struct control *c, struct controlLink *link, const struct controlHeader *header,
		 const void *data)
{
	struct controlBody *body = NULL;

	sendOne(c, link, header, data, &body);
	releaseBody(body);
}

void controlSendChildren(struct control *c, const struct controlHeader *header, const void *data)
{
	struct controlBody *body = NULL;

	for (int i = controlFirstChild(c); i < c->links; i++)
		sendOne(c, &c->link[i], header, data, &body);
	releaseBody(body);
}
