/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.h - a communicator, from within the core */
#ifndef GIN_LIB_COMM_H
#define GIN_LIB_COMM_H

#include "bootstrap/bootstrap.h"
#include "lib/control/control.h"
#include "lib/control/handles.h"
#include "lib/gpu/pool.h"
#include "routes.h"

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

/* A peer failed, or (rank -1) the communicator as a whole: tell waiting kernels. Any thread. */
void devCommsFail(ginComm_t comm, int rank, ginResult_t result);

/* What the user left; warns. */
void windowsFree(ginComm_t comm);
void devCommsFree(ginComm_t comm);

#endif
