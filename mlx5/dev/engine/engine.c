/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mlx5/dev/device/adversary.h"
#include "completion.h"
#include "doorbell.h"
#include "mlx5/dev/device/fabric.h"
#include "mlx5/dev/device/fault.h"
#include "mlx5/dev/device/late.h"
#include "mlx5/dev/host/options.h"
#include "packet.h"
#include "requester.h"
#include "responder.h"
#include "wire.h"

enum { IDLE_LOOKS = 2000, IDLE_NS = 100000, LATE_NS = 500000, CONTROL_LOOKS = 64 };

static struct qp *first, **end = &first;
static uint64_t nextWake; /* of all queue pairs */
static uint64_t nextCompletion;

void engineWake(struct qp *qp)
{
	if (qp->runnable)
		return;
	qp->runnable = true;
	qp->nextRunnable = NULL;
	*end = qp;
	end = &qp->nextRunnable;
}

void engineWakeAt(struct qp *qp, uint64_t when)
{
	if (!qp->wakeAt || when < qp->wakeAt)
		qp->wakeAt = when;
	if (!nextWake || when < nextWake)
		nextWake = when;
}

static void unlinkAt(struct qp **at)
{
	struct qp *qp = *at;

	*at = qp->nextRunnable;
	if (end == &qp->nextRunnable)
		end = at;
	qp->runnable = false;
}

void engineForget(struct qp *qp)
{
	struct qp **at = &first;

	while (*at && *at != qp)
		at = &(*at)->nextRunnable;
	if (*at)
		unlinkAt(at);
	qp->wakeAt = 0;
}

static struct qp *take(void)
{
	struct qp **at = &first;

	if (!first)
		return NULL;
	while ((*at)->nextRunnable && adversaryOnce(2))
		at = &(*at)->nextRunnable;
	struct qp *qp = *at;
	unlinkAt(at);
	return qp;
}

static void wakeDue(uint64_t now)
{
	if (!nextWake || nextWake > now)
		return;
	nextWake = 0;
	for (int i = 0; i < options.devices; i++)
		for (struct qp *qp = devices[i].qps; qp; qp = qp->nextQp) {
			uint64_t when = qp->wakeAt;

			if (!when)
				continue;
			qp->wakeAt = 0;
			if (when <= now)
				engineWake(qp);
			else
				engineWakeAt(qp, when);
		}
}

static void step(struct qp *qp)
{
	bool more = responderStep(qp);

	if (requesterStep(qp) || more)
		engineWake(qp);
	if (lateTrickle(qp))
		engineWakeAt(qp, deviceClock() + adversaryNumber(LATE_NS));
}

void engineRun(void)
{
	struct qp *qp;

	packetReceiveAll();
	wakeDue(deviceClock());
	while ((qp = take())) {
		step(qp);
		packetReceiveAll();
	}
	nextCompletion = completionsDue(deviceClock());
}

void engineRunHere(void)
{
	engineRun();
	if (nextWake || nextCompletion)
		wireWake();
}

void engineHold(void)
{
	deviceLock();
	deviceClockStop(true);
	deviceUnlock();
}

void engineStep(void)
{
	deviceLock();
	if (options.polling)
		doorbellPoll();
	engineRunHere();
	deviceUnlock();
}

void engineRelease(void)
{
	deviceLock();
	deviceClockStop(false);
	deviceUnlock();
}

static int64_t untilNext(void)
{
	uint64_t next = nextWake, now = deviceClock();

	if (!next || (nextCompletion && nextCompletion < next))
		next = nextCompletion;
	if (!next)
		return -1;
	return next > now ? (int64_t)(next - now) : 0;
}

/* Whether to look for words by the control socket, a call of the kernel. */
static bool isControlsTurn(void)
{
	static unsigned int turns;

	return !options.polling || ++turns % CONTROL_LOOKS == 0;
}

/* Looks often while something happens, and seldom when it does not. */
static int64_t pollingPause(bool rang)
{
	static unsigned int idle;

	if (rang)
		idle = 0;
	if (++idle > IDLE_LOOKS)
		return IDLE_NS;
	sched_yield();
	return 0;
}

static void *serve(void *unused)
{
	int64_t wait = 0;

	/* Where it is allowed: before programs that poll. */
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), -10);
	for (;;) {
		wireWait(wait);
		deviceLock();
		bool rang = options.polling && doorbellPoll();
		engineRun();
		if (isControlsTurn())
			faultControl();
		wait = untilNext();
		deviceUnlock();
		if (options.polling) {
			int64_t pause = pollingPause(rang);

			wait = wait < 0 || pause < wait ? pause : wait;
		}
	}
	return unused;
}

static void startOnce(void)
{
	pthread_t thread;

	optionsRead();
	devicePid = getpid();
	for (int i = 0; i < DEVICES_MAX; i++)
		devices[i].index = i;
	fabricOpen();
	wireOpen();
	doorbellOpen();
	faultOpen();
	if (pthread_create(&thread, NULL, serve, NULL)) {
		fprintf(stderr, "mlx5dev: no thread\n");
		exit(2);
	}
	pthread_detach(thread);
}

void deviceStart(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, startOnce);
}
