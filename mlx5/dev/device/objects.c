/* SPDX-License-Identifier: BSD-3-Clause */
#include "device.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "mlx5/dev/host/violation.h"

struct device devices[DEVICES_MAX];
int devicePid;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Handles are never used again: an old one is no object. */
static struct object **handles;
static uint32_t handleCount, handleRoom;

void deviceLock(void)
{
	pthread_mutex_lock(&mutex);
}

void deviceUnlock(void)
{
	pthread_mutex_unlock(&mutex);
}

static uint64_t stoppedAt; /* 0: the clock goes */

uint64_t deviceClock(void)
{
	struct timespec now;

	if (stoppedAt)
		return stoppedAt;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void deviceClockStop(bool stop)
{
	stoppedAt = stop ? deviceClock() : 0;
}

static uint32_t handleNew(struct object *object)
{
	if (handleCount == handleRoom) {
		handleRoom = handleRoom ? 2 * handleRoom : 256;
		handles = realloc(handles, handleRoom * sizeof(*handles));
		if (!handles)
			noMemory("a table of objects");
	}
	handles[handleCount] = object;
	return handleCount++;
}

void objectAdd(struct object *object, struct device *device, enum kind kind, uint32_t id,
	       int context)
{
	struct object **bucket = &device->objects[kind][id % 256];

	object->device = device;
	object->kind = kind;
	object->id = id;
	object->context = context;
	object->handle = handleNew(object);
	object->next = *bucket;
	*bucket = object;
}

void *objectFind(struct device *device, enum kind kind, uint32_t id)
{
	struct object *object = device->objects[kind][id % 256];

	while (object && object->id != id)
		object = object->next;
	return object;
}

void *objectByHandle(int context, enum kind kind, uint32_t handle)
{
	struct object *object = handle < handleCount ? handles[handle] : NULL;

	if (!object || object->kind != kind || object->context != context || object->destroyed)
		return NULL;
	return object;
}

void objectRemove(struct object *object)
{
	struct object **at = &object->device->objects[object->kind][object->id % 256];

	while (*at != object)
		at = &(*at)->next;
	*at = object->next;
	handles[object->handle] = NULL;
	free(object);
}

void objectsOfContext(int context, void (*visit)(struct object *object))
{
	/* Users are newer than the objects that they use. */
	for (uint32_t i = handleCount; i-- > 0;)
		if (handles[i] && handles[i]->context == context && !handles[i]->destroyed)
			visit(handles[i]);
}
