/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.h - a communicator, from within the core */
#ifndef GIN_LIB_COMM_H
#define GIN_LIB_COMM_H

#include "backends.h"
#include "bootstrap/bootstrap.h"
#include "lib/control/control.h"
#include "lib/control/handles.h"
#include "lib/gpu/pool.h"

/* What a backend's probe came to at one rank. */
struct backendProbe {
	uint8_t usable;
	uint8_t allowed; /* by GIN_ROUTE */
	uint8_t blob[BACKEND_BLOB];
};

/* One backend at this rank. */
struct backendUse {
	const struct backendOps *ops;
	int usable;	       /* the probe said so */
	char why[BACKEND_WHY]; /* what the probe said */
	int used;	       /* by a pair of any ranks */
	/* Why all do without it, where some pair could have used it; "": they do not. */
	char left[BACKEND_WHY];
	void *state; /* NULL: not open */
};

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
	struct backendProbe (*probed)[BACKENDS_COUNT];		 /* [nRanks] */
	uint8_t *routes;					 /* [nRanks]: enum ginRoute */
	uint8_t *reached; /* [nRanks]: a bit for each backend by which the two reach each other */
	int forced;	  /* the one network backend that may be used; 0: any */
	struct backendHost host;
	struct backendUse backend[BACKENDS_COUNT];
	struct pool pool;

	pthread_mutex_t lock; /* the lists; never held while waiting for other ranks */
	void *windows;	      /* tsearch() of struct window */
	struct devComm *devComms;
	uint64_t windowSerial, devCommSerial;
};

/* How a communicator begins. */
struct commStart {
	struct bootstrapWanted wanted;
	const struct bootstrapOps *bootstrap; /* NULL: bootstrapChoose() */
	int device;			      /* as ginConfig_t's */
	int forced;			      /* as ginComm's */
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

/* As ginCommQueryBackend's: what the probe said, unless GIN_ROUTE rules it out. */
int routesUsable(const struct backendUse *use, char why[BACKEND_WHY]);

/* Which backend is forced, or 0: GIN_BACKEND goes before the caller's choice. -1: no such name. */
int routesForced(const char *name);

/* As ginCommQueryPeer's `why`. */
const char *routesWhy(ginComm_t comm, int peer, char why[BACKEND_WHY]);

/* routes.c: what this rank's backends say of themselves, and which one may be used. */
void routesProbe(ginComm_t comm, struct backendProbe mine[BACKENDS_COUNT]);

/* Collective: each pair gets its route, by what the ranks have said. */
ginResult_t routesAgree(ginComm_t comm, ginResult_t mine);

/* All ranks' wishes, [nRanks], must fit together. */
ginResult_t routesForce(ginComm_t comm, const uint8_t *forced);

/* Collective: opens the backends that have a pair anywhere, and of network backends one. */
ginResult_t routesOpen(ginComm_t comm, ginResult_t mine);
void routesClose(ginComm_t comm);

/* share.c. Every backend in use, of whatever writer class. */
#define ROUTES_ALL (-1)

/* Memory that backends in use have made reachable for the peers. */
struct shared {
	void *window[BACKENDS_COUNT];
};

/*
 * Collective; `mine` and `call` as controlAllgather's. `writer`: for the backends alone whose writer
 * class that is, or ROUTES_ALL. `bytes` gets every rank's size, [nRanks]; it may be NULL. It may fail on one rank alone: the caller lets all agree, and unshares what is
 * of no use then.
 */
ginResult_t routesShare(ginComm_t comm, const char *call, ginResult_t mine,
			const struct memory *memory, int writer, struct shared *shared,
			uint64_t *bytes);

/* Not collective: memory that is a source of this rank alone. */
ginResult_t routesShareLocal(ginComm_t comm, const struct memory *memory, struct shared *shared);

/* What network backends have in a window's table, and of a window at a peer. */
void routesTell(ginComm_t comm, const struct shared *shared, struct ginWindowTable *table);
void routesTellPeer(ginComm_t comm, const struct shared *shared, int peer,
		    struct ginWindowPeer *entry);
void routesUnshare(ginComm_t comm, struct shared *shared);
char *routesAddress(ginComm_t comm, const struct shared *shared, int peer);

/* Is a backend in use that raises signals as this class? */
int routesWriterUsed(ginComm_t comm, int writer);

/* Collective: the queues of a device communicator, of every backend that has some. */
struct contexts {
	void *of[BACKENDS_COUNT];
};

/*
 * `words`, of each writer class: where its signals lie. It may fail on one rank alone: the caller
 * lets all agree.
 */
ginResult_t routesContextsOpen(ginComm_t comm, const char *call, ginResult_t mine,
			       const struct backendContexts *want, const struct shared *words,
			       struct contexts *contexts);
void routesContextsTell(ginComm_t comm, const struct contexts *contexts, ginDevComm *devComm);
void routesContextsTellPeer(ginComm_t comm, const struct contexts *contexts, int peer,
			    struct ginPeer *entry);
/* Has any backend queues? */
int routesContextsAny(const struct contexts *contexts);
ginResult_t routesContextsStats(ginComm_t comm, const struct contexts *contexts, uint32_t context,
				ginStats_t *stats);
void routesContextsFinish(ginComm_t comm, const struct contexts *contexts);
void routesContextsClose(ginComm_t comm, struct contexts *contexts);

/* A peer failed, or (rank -1) the communicator as a whole: tell waiting kernels. Any thread. */
void devCommsFail(ginComm_t comm, int rank, ginResult_t result);

/* What the user left; warns. */
void windowsFree(ginComm_t comm);
void devCommsFree(ginComm_t comm);

#endif
