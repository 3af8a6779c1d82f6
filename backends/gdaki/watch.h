/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch.h - a thread that looks at the device and at the queues while kernels use them
 *
 * A kernel sees the error of a queue that it posts to or waits for. Who waits for a signal looks at no
 * queue, and nobody in a kernel hears of the device's events.
 */
#ifndef GIN_GDAKI_WATCH_H
#define GIN_GDAKI_WATCH_H

#include <pthread.h>

#include "lib/base/error.h"

struct gdaki;
struct gdakiContexts;

struct watch {
	pthread_t thread;
	int started, closing;
	pthread_mutex_t lock; /* of all below; not held while the communicator fails */
	pthread_cond_t wake;
	struct gdakiContexts *contexts; /* a list */
	int deviceGone;
};

ginResult_t watchOpen(struct gdaki *g);
void watchClose(struct gdaki *g);

/* Its queues are looked at from now on, or not any more. */
void watchAdd(struct gdaki *g, struct gdakiContexts *contexts);
void watchRemove(struct gdaki *g, struct gdakiContexts *contexts);

#endif
