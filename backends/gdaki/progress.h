/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * progress.h - the progress of queues, and the monitor, a thread that finds failures
 *
 * A kernel sees the error of a queue that it posts to or waits for. A kernel that waits for a
 * signal reads no queue, and no kernel sees events of the device or the state of queue pairs. The
 * monitor reads all three. It reports a lost peer or device to the communicator, and a failed queue
 * to its device communicator, whose waits then end.
 */
#ifndef GIN_GDAKI_PROGRESS_H
#define GIN_GDAKI_PROGRESS_H

#include <pthread.h>

#include "gin/core/send_queue.h"
#include "lib/base/error.h"

struct gdaki;
struct gdakiContexts;

struct gdakiMonitor {
	pthread_t thread;
	int started, closing;
	pthread_mutex_t
		lock; /* protects all members below; released while the communicator fails */
	pthread_cond_t wake;
	struct gdakiContexts *contexts; /* list */
	int deviceGone;
};

ginResult_t monitorOpen(struct gdaki *g);
void monitorClose(struct gdaki *g);

void monitorAdd(struct gdaki *g, struct gdakiContexts *contexts);
/* When it returns, the monitor does not use the contexts any more. */
void monitorRemove(struct gdaki *g, struct gdakiContexts *contexts);

/* The progress of one queue. */
struct gdakiProgress {
	uint64_t posted, completed; /* WQEBBs */
	uint32_t syndrome;	    /* enum ginMlx5Syndrome; 0: no error */
	uint32_t vendor;
};

/*
 * A copy of all queues for gdakiProgressOf(), taken while kernels may run; NULL: no memory, or the
 * GPU has failed. Free it with gdakiSnapshotFree(). The device's scope is entered.
 */
const struct ginSendQueue *gdakiSnapshot(const struct gdakiContexts *contexts);
void gdakiSnapshotFree(const struct gdakiContexts *contexts, const struct ginSendQueue *queues);
struct gdakiProgress gdakiProgressOf(const struct gdakiContexts *contexts,
				     const struct ginSendQueue *queue);

/* Is nothing in flight? A queue in error completes nothing more. */
static inline int gdakiIsIdle(const struct gdakiProgress *progress)
{
	return progress->syndrome || progress->completed >= progress->posted;
}

#endif
