/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * worker.h - the CPU threads of a communicator that move data for kernels
 *
 * Contexts are spread over them. With GIN_PROXY_THREADS=0 there is one without a thread: who calls
 * ginCommProgress() does its turns.
 */
#ifndef GIN_PROXY_WORKER_H
#define GIN_PROXY_WORKER_H

#include <sched.h>

#include "engine.h"

struct proxyWorker {
	pthread_t thread;
	int runs; /* it has a thread of its own */
	int stop; /* atomic */
	const struct backendHost *host;
	const struct transportOps *ops;
	void *transport;
	pthread_mutex_t lock; /* of all that follows, and of the transport */
	int wanted;	      /* atomic: how many others want the lock */
	uint64_t sleeps;      /* atomic: how often it has slept */
	uint64_t ranFor;      /* nanoseconds, when it slept last */
	cpu_set_t cpus;	      /* where it runs; none: not known */
	struct proxyEngine *engines;
};

struct proxyWorkers {
	const struct backendHost *host;
	struct proxyWorker *worker; /* [count] */
	uint32_t count;
	uint32_t next; /* the one that gets the next context */
};

/* The device's scope is entered for all of these. */
ginResult_t workersOpen(const struct backendHost *host, const struct transportOps *ops,
			unsigned threads, struct proxyWorkers *workers);
void workersClose(struct proxyWorkers *workers);

/* Hands an engine to one of them, or takes it back once what it had under way has landed. */
void workersAdd(struct proxyWorkers *workers, struct proxyEngine *engine);
void workersRemove(struct proxyWorkers *workers, struct proxyEngine *engine);

/* Fills in what is known of the engine's thread. Any thread. */
void workersStats(const struct proxyWorkers *workers, const struct proxyEngine *engine,
		  ginStats_t *stats);

/* Every thread has ended the turn that it was in: it finds no window any more that had gone before. */
void workersQuiesce(struct proxyWorkers *workers);

/* A turn of each, by the calling thread; 1 when something was done. */
int workersTurn(struct proxyWorkers *workers);

#endif
