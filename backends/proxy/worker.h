/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker.h - the CPU threads of a communicator that move data for kernels
 *
 * Contexts are distributed over the workers. A worker repeats passes: it takes the descriptors that
 * were posted, starts them, completes works that have landed and retires tickets. With
 * GIN_PROXY_THREADS=0 there is one worker without a thread, and callers of ginCommProgress() make
 * its passes.
 */
#ifndef GIN_PROXY_WORKER_H
#define GIN_PROXY_WORKER_H

#include <sched.h>

#include "engine.h"
#include "transports.h"

struct proxyWorker {
	pthread_t thread;
	int runs; /* has a thread */
	int stop; /* atomic */
	const struct backendHost *host;
	struct transportLanes lanes;
	int hasNetwork;	      /* peers send to a lane */
	int yields;	      /* between passes: other threads may need its CPU */
	pthread_mutex_t lock; /* protects the lanes and `engines` with their contents */
	int wanted;	      /* atomic: how many other threads want the lock */
	uint64_t sleeps;      /* atomic: how often the thread has slept */
	uint64_t ranFor;      /* CPU time in ns at the end of its last pass before it slept */
	cpu_set_t cpus;	      /* where the thread may run; empty: not known */
	struct proxyEngine *engines;
};

/* `next` is touched by collective calls; the rest does not change while workers run. */
struct proxyWorkers {
	const struct backendHost *host;
	struct proxyWorker *worker; /* [count] */
	uint32_t count;
	uint32_t next; /* count of engines added: chooses the worker of the next one */
};

/* The device's scope is entered for all of these calls. */
ginResult_t workersOpen(const struct backendHost *host, const struct proxyTransports *transports,
			unsigned threads, struct proxyWorkers *workers);
void workersClose(struct proxyWorkers *workers);

/* Gives an engine to a worker. */
void workersAdd(struct proxyWorkers *workers, struct proxyEngine *engine);

/* Waits until the engine is idle. 0: it is busy at deadlineToTell(), and stays as it is. */
int workersDrain(struct proxyWorkers *workers, struct proxyEngine *engine);

/*
 * Drains the engine and takes it from its worker. After a failure of the communicator, and at
 * deadlineHere(), transfers over a network are given up.
 */
void workersRemove(struct proxyWorkers *workers, struct proxyEngine *engine);

/* Fills in the statistics of the engine's thread. Any thread. */
void workersStats(const struct proxyWorkers *workers, const struct proxyEngine *engine,
		  ginStats_t *stats);

/*
 * Waits until every worker has ended its current pass. After that no worker uses a window whose
 * slot was freed before the call.
 */
void workersQuiesce(struct proxyWorkers *workers);

/* Makes one pass of each worker on the calling thread. 1 if anything was done. */
int workersTurn(struct proxyWorkers *workers);

#endif
