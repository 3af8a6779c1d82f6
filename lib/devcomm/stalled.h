/* SPDX-License-Identifier: BSD-3-Clause */
/* stalled.h - ranks to which posts are outstanding, and none completes */
#ifndef GIN_LIB_STALLED_H
#define GIN_LIB_STALLED_H

#include <stdint.h>
#include <stdio.h>

#include "lib/comm.h"

struct devComm;

/* Of a device communicator and a peer. Under comm->lock. */
struct stalled {
	uint64_t outstanding; /* posts, when they were counted last */
	uint64_t completed;
	uint64_t since;	 /* clockNow() when none was outstanding, or one had completed */
	uint64_t looked; /* clockNow() when they were counted last */
	int isWarned;
};

/* Counts. Does not wait for the GPU. The caller holds comm->lock. */
void stalledLook(ginComm_t comm, struct devComm *dc, uint64_t now);

/* For how long no post to the peer has completed, in nanoseconds; 0: nothing is outstanding. */
uint64_t stalledFor(const struct devComm *dc, int peer);

/* Which posts these are, and whether the rank lives. `state`: "lives", for example. */
void stalledFormat(const struct ginComm *comm, const struct devComm *dc, int peer,
		   const char *state, char *out, size_t bytes);

#endif
