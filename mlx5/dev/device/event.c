/* SPDX-License-Identifier: BSD-3-Clause */
#include "event.h"

#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>
#include <unistd.h>

#include "mlx5/dev/host/options.h"

enum { LISTENERS = 64, CHANNELS = 256, EVENTS_BACK = 1024 };

/* Of each context the end that we write to. */
static struct listener {
	struct device *device;
	int context, fd, program;
} listeners[LISTENERS];
static int listenerCount;

static struct channel channels[CHANNELS];

static int pipeFor(int *program)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return -1;
	/* A program that does not read its events must not stop the device. */
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	*program = ends[0];
	return ends[1];
}

int eventOpenAsync(int context, struct device *device)
{
	int program = -1;

	if (listenerCount == LISTENERS)
		return -1;
	int fd = pipeFor(&program);
	if (fd >= 0)
		listeners[listenerCount++] = (struct listener){device, context, fd, program};
	return program;
}

void eventCloseAsync(int context)
{
	for (int i = listenerCount; i-- > 0;) {
		if (listeners[i].context != context)
			continue;
		close(listeners[i].fd);
		listeners[i] = listeners[--listenerCount];
	}
}

static int channelFree(void)
{
	for (int i = 0; i < CHANNELS; i++)
		if (!channels[i].isOpen)
			return i;
	return -1;
}

int eventOpenChannel(void)
{
	int at = channelFree(), program = -1;

	if (at < 0)
		return -1;
	int fd = pipeFor(&program);
	if (fd >= 0)
		channels[at] = (struct channel){.isOpen = true, .fd = fd, .program = program};
	return program;
}

struct channel *eventChannel(int fd)
{
	for (int i = 0; i < CHANNELS; i++)
		if (channels[i].isOpen && channels[i].program == fd)
			return &channels[i];
	return NULL;
}

bool eventClosedChannel(int fd)
{
	struct channel *channel = eventChannel(fd);

	if (!channel)
		return false;
	close(channel->fd);
	channel->isOpen = false;
	return true;
}

static void tell(int fd, const void *what, size_t bytes)
{
	if (write(fd, what, bytes) != (ssize_t)bytes)
		trace("an event is lost: nobody reads them");
}

void eventCompletion(struct cq *cq)
{
	struct ib_uverbs_comp_event_desc event = {.cq_handle = cq->userHandle};

	if (!cq->channel || !cq->channel->isOpen)
		return;
	cq->events++;
	tell(cq->channel->fd, &event, sizeof(event));
}

static void asynchronous(const struct listener *listener, uint32_t type, uint64_t element)
{
	struct ib_uverbs_async_event_desc event = {.element = element, .event_type = type};

	tell(listener->fd, &event, sizeof(event));
}

void eventOfDevice(struct device *device, uint32_t type, uint64_t element)
{
	for (int i = 0; i < listenerCount; i++)
		if (listeners[i].device == device)
			asynchronous(&listeners[i], type, element);
}

static const struct listener *listenerOf(const struct object *object)
{
	for (int i = 0; i < listenerCount; i++)
		if (listeners[i].context == object->context && !object->isDevx)
			return &listeners[i];
	return NULL;
}

static void eventOf(const struct object *object, uint32_t *events, uint64_t element, uint32_t type)
{
	const struct listener *listener = listenerOf(object);

	if (!listener)
		return;
	++*events;
	asynchronous(listener, type, element);
}

void eventOfQp(struct qp *qp, uint32_t type)
{
	eventOf(&qp->object, &qp->events, qp->userHandle, type);
}

void eventOfSrq(struct srq *srq, uint32_t type)
{
	eventOf(&srq->object, &srq->events, srq->userHandle, type);
}

/*
 * Reads what waits there and puts back what is of others. How many were of `handle`, which is
 * first.
 */
static uint32_t takeBack(int program, int fd, uint64_t handle, size_t bytes)
{
	char all[EVENTS_BACK][sizeof(struct ib_uverbs_async_event_desc)];
	struct pollfd waiting = {.fd = program, .events = POLLIN};
	uint32_t count = 0, own = 0;

	while (count < EVENTS_BACK && poll(&waiting, 1, 0) > 0 &&
	       read(program, all[count], bytes) == (ssize_t)bytes)
		count++;
	for (uint32_t i = 0; i < count; i++) {
		if (!memcmp(all[i], &handle, sizeof(handle)))
			own++;
		else
			tell(fd, all[i], bytes);
	}
	return own;
}

uint32_t eventsOfCq(struct cq *cq)
{
	if (!cq->channel || !cq->channel->isOpen)
		return cq->events;
	return cq->events - takeBack(cq->channel->program, cq->channel->fd, cq->userHandle,
				     sizeof(struct ib_uverbs_comp_event_desc));
}

static uint32_t eventsRead(const struct object *object, uint32_t events, uint64_t element)
{
	const struct listener *listener = listenerOf(object);

	if (!listener || !events)
		return events;
	return events - takeBack(listener->program, listener->fd, element,
				 sizeof(struct ib_uverbs_async_event_desc));
}

uint32_t eventsOfQp(struct qp *qp)
{
	return eventsRead(&qp->object, qp->events, qp->userHandle);
}

uint32_t eventsOfSrq(struct srq *srq)
{
	return eventsRead(&srq->object, srq->events, srq->userHandle);
}
