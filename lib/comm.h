/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.h - a communicator, from within the core */
#ifndef GIN_LIB_COMM_H
#define GIN_LIB_COMM_H

#include "../backends/backend.h"
#include "../bootstrap/bootstrap.h"
#include "control.h"
#include "handles.h"
#include "pool.h"

#define COMM_BACKENDS 1
#define COMM_DIRECT 0 /* its place in ginComm.backend */

/* One backend at this rank. */
struct backendUse {
	const struct backendOps *ops;
	int usable;	       /* the probe said so */
	char why[BACKEND_WHY]; /* what the probe said */
	uint8_t *blobs;	       /* [nRanks][BACKEND_BLOB] */
	uint8_t *usableAt;     /* [nRanks] */
	void *state;	       /* NULL: not open */
};

struct window;	/* window.c */
struct devComm; /* devcomm.c */

struct ginComm {
	int rank, nRanks;
	const struct bootstrapOps *bootstrap;
	void *bootstrapState;
	struct identity *ranks; /* [nRanks] */
	struct control control;
	struct handles handles;
	struct device device;
	char (*deviceNames)[sizeof(((struct device *)0)->name)]; /* [nRanks] */
	uint8_t *routes;					 /* [nRanks]: enum ginRoute */
	struct backendHost host;
	struct backendUse backend[COMM_BACKENDS];
	struct pool pool;

	pthread_mutex_t lock; /* the lists; never held while waiting for other ranks */
	struct window *windows;
	struct devComm *devComms;
	uint64_t windowSerial, devCommSerial;
};

/* How a communicator begins. */
struct commStart {
	struct bootstrapWanted wanted;
	const struct bootstrapOps *bootstrap; /* NULL: bootstrapChoose() */
	int device;			      /* as ginConfig_t's */
};

/*
 * Brings the ranks together and opens all that a communicator consists of. Collective: a step that
 * fails on one rank fails on all.
 */
ginResult_t commOpen(const char *call, const struct commStart *start, ginComm_t *out);

/* Frees all, without the other ranks. */
void commClose(ginComm_t comm);

/* Begins an API call: sets the scope of error messages; fails when comm is NULL. */
ginResult_t commEnter(ginComm_t comm, const char *call);

/* As ginCommQueryPeer's `why`. */
const char *commRouteWhy(ginComm_t comm, int peer, char why[BACKEND_WHY]);

/* routes.c: collective. Probes the backends, agrees and opens what is used. */
ginResult_t routesOpen(ginComm_t comm);
void routesClose(ginComm_t comm);

/* Memory that all backends in use have made reachable for the peers. */
struct shared {
	void *window[COMM_BACKENDS];
};

/* Collective; on failure nothing is left on any rank. `mine` and `call` as controlAllgather's. */
ginResult_t routesShare(ginComm_t comm, const char *call, ginResult_t mine,
			const struct memory *memory, struct shared *shared);
void routesUnshare(ginComm_t comm, struct shared *shared);
char *routesAddress(ginComm_t comm, const struct shared *shared, int peer);

/* Collective: the queues of a device communicator, of every backend that has some. */
struct contexts {
	void *of[COMM_BACKENDS];
};

ginResult_t routesContextsOpen(ginComm_t comm, const char *call, ginResult_t mine,
			       const struct backendContexts *want, struct contexts *contexts);
void routesContextsClose(ginComm_t comm, struct contexts *contexts);

/* A peer failed, or (rank -1) the communicator as a whole: tell waiting kernels. Any thread. */
void devCommsFail(ginComm_t comm, int rank, ginResult_t result);

/* What the user left; warns. */
void windowsFree(ginComm_t comm);
void devCommsFree(ginComm_t comm);

#endif
