/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.c - a CUDA driver with streams: driver.h */
#include "driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "products/nccl/lib/driver.h"

enum { CONTEXT_FAILED = 700, LATE_US = 20000 };

enum kind { opCopy, opFill, opWrite, opWait, opRecord, opWaitEvent, opGate };

/* `number`: how many records the event had when the operation was enqueued. */
struct event {
	unsigned long recorded, done;
};

struct op {
	struct op *next;
	enum kind kind;
	cuAddress to, from;
	size_t bytes;
	uint32_t value;
	struct event *event;
	unsigned long number;
};

struct stream {
	pthread_t thread;
	struct op *first, **end;
	int isEnding, isRefusing, isCapturing;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static int isOpen, isFaulty, retained, events, unsafe;

static _Thread_local int captureMode, depth;

#pragma GCC visibility push(default)

static void *at(cuAddress address)
{
	return (void *)(uintptr_t)address;
}

/* Does the operation if it can be done now. The caller holds the lock. */
static int doNow(const struct op *o)
{
	switch (o->kind) {
	case opCopy:
		memcpy(at(o->to), at(o->from), o->bytes);
		return 1;
	case opFill:
		memset(at(o->to), (int)o->value, o->bytes);
		return 1;
	case opWrite:
		__atomic_store_n((uint32_t *)at(o->to), o->value, __ATOMIC_RELEASE);
		return 1;
	case opWait:
		return (int32_t)(__atomic_load_n((uint32_t *)at(o->to), __ATOMIC_ACQUIRE) -
				 o->value) >= 0;
	case opRecord:
		o->event->done = o->number;
		return 1;
	case opWaitEvent:
		return o->event->done >= o->number;
	case opGate:
		return isOpen;
	}
	abort();
}

static void pauseFor(long us)
{
	const struct timespec time = {0, us * 1000};

	nanosleep(&time, NULL);
}

/*
 * After a wait a stream is late: its memory must not be freed meanwhile. Returns 0 when there is
 * nothing to do and the stream ends.
 */
static int step(struct stream *s)
{
	pthread_mutex_lock(&lock);
	struct op *o = s->first;
	int isDone = o && !isFaulty && doNow(o), goesOn = o || !s->isEnding;
	long us = !isDone ? 50 : o->kind == opWait ? LATE_US : 0;
	if (isDone) {
		s->first = o->next;
		if (!s->first)
			s->end = &s->first;
		free(o);
	}
	pthread_mutex_unlock(&lock);
	if (us)
		pauseFor(us);
	return goesOn;
}

static void *streamMain(void *stream)
{
	while (step(stream))
		;
	return NULL;
}

static int enqueue(void *stream, struct op op)
{
	struct stream *s = stream;
	struct op *o = malloc(sizeof(*o));

	if (!o || depth < 0)
		abort();
	pthread_mutex_lock(&lock);
	if (op.kind == opRecord)
		op.number = ++op.event->recorded;
	else if (op.event)
		op.number = op.event->recorded;
	*o = op;
	*s->end = o;
	s->end = &o->next;
	pthread_mutex_unlock(&lock);
	return 0;
}

static void noteUnsafe(void)
{
	pthread_mutex_lock(&lock);
	unsafe += captureMode != ncclDriverRelaxed;
	pthread_mutex_unlock(&lock);
}

int cuInit(unsigned flags)
{
	return (int)flags;
}

/* Threads of the tests have no context. */
int cuCtxGetCurrent(void **context)
{
	*context = NULL;
	return 0;
}

int cuCtxGetDevice(int *ordinal)
{
	*ordinal = 0;
	return 0;
}

int cuCtxPushCurrent_v2(void *context)
{
	depth += context == &retained;
	return context != &retained;
}

int cuCtxPopCurrent_v2(void **context)
{
	*context = &retained;
	return --depth < 0;
}

static int changeRetained(int by)
{
	pthread_mutex_lock(&lock);
	retained += by;
	int is = retained;
	pthread_mutex_unlock(&lock);
	return is;
}

int cuDevicePrimaryCtxRetain(void **context, int ordinal)
{
	*context = &retained;
	changeRetained(1);
	return ordinal;
}

int cuDevicePrimaryCtxRelease_v2(int ordinal)
{
	changeRetained(-1);
	return ordinal;
}

int cuThreadExchangeStreamCaptureMode(int *mode)
{
	int before = captureMode;

	captureMode = *mode;
	*mode = before;
	return 0;
}

int cuDeviceGetAttribute(int *out, int which, int ordinal)
{
	*out = which == ncclDriverClockKilohertz ? 1500000 : 0;
	return ordinal;
}

int cuStreamCreate(void **stream, unsigned flags)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s || (flags & ~(unsigned)ncclDriverNonBlocking))
		abort();
	s->end = &s->first;
	if (pthread_create(&s->thread, NULL, streamMain, s))
		abort();
	*stream = s;
	return 0;
}

int cuStreamSynchronize(void *stream)
{
	noteUnsafe();
	fakeDrain(stream);
	return 0;
}

int cuStreamDestroy_v2(void *stream)
{
	struct stream *s = stream;

	pthread_mutex_lock(&lock);
	s->isEnding = 1;
	pthread_mutex_unlock(&lock);
	pthread_join(s->thread, NULL);
	free(s);
	return 0;
}

int cuStreamIsCapturing(void *stream, int *state)
{
	*state = ((struct stream *)stream)->isCapturing;
	return 0;
}

int cuStreamWriteValue32_v2(void *stream, cuAddress to, uint32_t value, unsigned flags)
{
	(void)flags;
	return enqueue(stream, (struct op){.kind = opWrite, .to = to, .value = value});
}

int cuStreamWaitValue32_v2(void *stream, cuAddress to, uint32_t value, unsigned flags)
{
	(void)flags;
	return enqueue(stream, (struct op){.kind = opWait, .to = to, .value = value});
}

int cuEventCreate(void **event, unsigned flags)
{
	(void)flags;
	*event = calloc(1, sizeof(struct event));
	__atomic_add_fetch(&events, 1, __ATOMIC_RELAXED);
	return *event == NULL;
}

int cuEventRecord(void *event, void *stream)
{
	return enqueue(stream, (struct op){.kind = opRecord, .event = event});
}

int cuEventQuery(void *event)
{
	const struct event *e = event;

	noteUnsafe();
	pthread_mutex_lock(&lock);
	int state = isFaulty ? CONTEXT_FAILED : e->done == e->recorded ? 0 : ncclDriverNotReady;
	pthread_mutex_unlock(&lock);
	return state;
}

int cuEventDestroy_v2(void *event)
{
	free(event);
	__atomic_sub_fetch(&events, 1, __ATOMIC_RELAXED);
	return 0;
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
	(void)flags;
	return enqueue(stream, (struct op){.kind = opWaitEvent, .event = event});
}

int cuMemcpyAsync(cuAddress to, cuAddress from, size_t bytes, void *stream)
{
	if (((struct stream *)stream)->isRefusing)
		return 1;
	return enqueue(stream, (struct op){.kind = opCopy, .to = to, .from = from, .bytes = bytes});
}

int cuMemsetD8Async(cuAddress to, unsigned char value, size_t bytes, void *stream)
{
	return enqueue(stream,
		       (struct op){.kind = opFill, .to = to, .value = value, .bytes = bytes});
}

void fakeRefuse(void *stream)
{
	((struct stream *)stream)->isRefusing = 1;
}

void fakeCapture(void *stream, int captures)
{
	((struct stream *)stream)->isCapturing = captures;
}

void fakeGate(void *stream)
{
	enqueue(stream, (struct op){.kind = opGate});
}

void fakeOpen(void)
{
	pthread_mutex_lock(&lock);
	isOpen = 1;
	pthread_mutex_unlock(&lock);
}

static int isIdle(const struct stream *s)
{
	pthread_mutex_lock(&lock);
	int is = !s->first;
	pthread_mutex_unlock(&lock);
	return is;
}

void fakeDrain(void *stream)
{
	while (!isIdle(stream))
		pauseFor(50);
}

void fakeFault(void)
{
	pthread_mutex_lock(&lock);
	isFaulty = 1;
	pthread_mutex_unlock(&lock);
}

int fakeRetained(void)
{
	return changeRetained(0);
}

int fakeEvents(void)
{
	return __atomic_load_n(&events, __ATOMIC_RELAXED);
}

int fakeUnsafe(void)
{
	pthread_mutex_lock(&lock);
	int is = unsafe;
	pthread_mutex_unlock(&lock);
	return is;
}
