/* SPDX-License-Identifier: BSD-3-Clause */
/* event.c - events of the device: a port that goes down, a device that is gone */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "verbs.h"

static uint64_t nowNs(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The time for which the NIC repeats a packet. */
static uint64_t budgetNs(const struct rdmaPath *path)
{
	return path->timeout ? (4096ull << path->timeout) * (path->retries + 1u) : UINT64_MAX;
}

static int portIsDown(const struct rdmaPort *port)
{
	struct ibv_port_attr attr;

	return !ibv_query_port(port->context, port->number, &attr) && attr.state != IBV_PORT_ACTIVE;
}

/* The caller holds the lock. */
static void noteState(struct fabric *f)
{
	if (!portIsDown(f->port))
		atomic_store(&f->downSince, 0);
	else if (!atomic_load(&f->downSince))
		atomic_store(&f->downSince, nowNs());
}

/*
 * A rank that only waits for its peers posts nothing that could fail. So a port that stays down for
 * as long as the NIC repeats packets is lost.
 */
static void noteOutage(struct fabric *f)
{
	uint64_t since = atomic_load(&f->downSince), ns = since ? nowNs() - since : 0;

	if (!since || ns < budgetNs(&f->path))
		return;
	pthread_mutex_lock(&f->lock);
	noteState(f);
	if (atomic_load(&f->downSince) && !f->isDown) {
		snprintf(f->down, sizeof(f->down),
			 "%s, port %d: the port has been down for %.1f s, as long as the NIC "
			 "repeats packets (GIN_NIC_TIMEOUT, GIN_NIC_RETRIES)",
			 ibv_get_device_name(f->port->context->device), f->port->number,
			 (double)ns / 1e9);
		atomic_store(&f->isDown, 1);
	}
	pthread_mutex_unlock(&f->lock);
}

/* The caller holds the lock. */
static void goDown(struct fabric *f, const char *text)
{
	if (f->isDown)
		return;
	snprintf(f->down, sizeof(f->down), "%.150s", text);
	atomic_store(&f->isDown, 1);
}

void verbsGoDown(struct fabric *f, const char *text)
{
	pthread_mutex_lock(&f->lock);
	goDown(f, text);
	pthread_mutex_unlock(&f->lock);
}

/* Calls of portEvent() do not overlap. Returns 1 if there is an event, for one of the endpoints. */
static int next(struct fabric *f, char *text)
{
	int lost = 0;

	pthread_mutex_lock(&f->lock);
	int result = portEvent(f->port, text, &lost);
	if (result < 0)
		lost = 1;
	if (lost)
		goDown(f, text);
	if (result > 0 && !lost)
		noteState(f);
	pthread_mutex_unlock(&f->lock);
	return result > 0 && !lost;
}

int verbsTakeEvent(struct fabricEnd *end, struct fabricEvent *event)
{
	struct fabric *f = end->fabric;
	char text[RDMA_WHY] = "";

	if (!f->isDown && next(f, text)) {
		snprintf(end->notice, sizeof(end->notice), "verbs: %.150s", text);
		*event = (struct fabricEvent){.kind = fabricNotice, .why = end->notice};
		return 1;
	}
	if (!f->isDown)
		noteOutage(f);
	if (!f->isDown || end->isDownReported)
		return 0;
	end->isDownReported = 1;
	*event = (struct fabricEvent){.kind = fabricDown, .why = f->down};
	return 1;
}
