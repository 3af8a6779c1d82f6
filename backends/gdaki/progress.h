/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.h - how far queues have come, and a thread that looks at them */
#ifndef GIN_GDAKI_PROGRESS_H
#define GIN_GDAKI_PROGRESS_H

#include <pthread.h>

#include "gin/gdaki/send_queue.h"
#include "lib/base/error.h"

struct gdaki;
struct gdakiContexts;

struct gdakiMonitor {
	pthread_t thread;
	int started, closing;
	pthread_mutex_t lock; /* of all below; not held while the communicator fails */
	pthread_cond_t wake;
	struct gdakiContexts *contexts; /* a list */
	int deviceGone;
};

ginResult_t monitorOpen(struct gdaki *g);
void monitorClose(struct gdaki *g);

/* Its queues are looked at from now on, or not any more. */
void monitorAdd(struct gdaki *g, struct gdakiContexts *contexts);
void monitorRemove(struct gdaki *g, struct gdakiContexts *contexts);

/* What a queue's words say, while kernels run or after. */
struct gdakiProgress {
	uint64_t posted, completed; /* WQEBBs */
	uint32_t syndrome;	    /* enum ginMlx5Syndrome; 0: no error */
	uint32_t vendor;
};

/*
 * All queues as they are now, for gdakiProgressOf(); NULL: no memory, or the GPU is gone. To be given back.
 * The device's scope is entered.
 */
const struct ginSendQueue *gdakiSnapshot(const struct gdakiContexts *contexts);
void gdakiSnapshotFree(const struct gdakiContexts *contexts, const struct ginSendQueue *queues);
struct gdakiProgress gdakiProgressOf(const struct gdakiContexts *contexts,
				     const struct ginSendQueue *queue);

/* Is nothing under way? */
static inline int gdakiIsIdle(const struct gdakiProgress *look)
{
	return look->syndrome || look->completed >= look->posted;
}

#endif
