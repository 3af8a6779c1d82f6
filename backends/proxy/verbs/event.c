/* SPDX-License-Identifier: BSD-3-Clause */
/* event.c - events of the device: a port that goes down, a device that is gone */
#include <stdio.h>
#include <string.h>

#include "verbs.h"

/* Calls of portEvent() do not overlap. Returns 1 if there is an event, for one of the ends. */
static int next(struct fabric *f, char *text)
{
	int lost = 0;

	pthread_mutex_lock(&f->lock);
	int result = portEvent(f->port, text, &lost);
	if (result < 0)
		lost = 1;
	if (lost && !f->isDown) {
		snprintf(f->down, sizeof(f->down), "%.150s", text);
		atomic_store(&f->isDown, 1);
	}
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
	if (!f->isDown || end->isDownTold)
		return 0;
	end->isDownTold = 1;
	*event = (struct fabricEvent){.kind = fabricDown, .why = f->down};
	return 1;
}
