/* SPDX-License-Identifier: BSD-3-Clause */
/* routes.h - which backend each pair of ranks uses, and the backends that are open */
#ifndef GIN_LIB_ROUTES_H
#define GIN_LIB_ROUTES_H

#include "backends.h"

struct backendUse;

/* The result of a backend's probe on one rank. */
struct backendProbe {
	uint8_t usable;
	uint8_t allowed; /* by GIN_ROUTE */
	uint8_t blob[BACKEND_BLOB];
};

/*
 * The index of the network backend that is forced, or 0: any. GIN_BACKEND overrides the caller's
 * `name`, which may be NULL. -1: there is no such backend.
 */
int routesForced(const char *name);

/* Does this rank ask for copy engines? GIN_COPY_ENGINE overrides the caller's `wants`. */
int routesWantCopies(int wants);

/* Probes all backends on this rank. */
void routesProbe(ginComm_t comm, struct backendProbe mine[BACKENDS_COUNT]);

/* The backend that each rank forces, [nRanks]: fails when two ranks differ. */
ginResult_t routesForce(ginComm_t comm, const uint8_t *forced);

/*
 * Collective: opens the backends that some pair needs, one network backend at most, and gives each
 * pair its route. `mine` is equal on all ranks.
 */
ginResult_t routesOpen(ginComm_t comm, ginResult_t mine);
void routesClose(ginComm_t comm);

/* As ginCommQueryBackend's: the probe's result, unless GIN_ROUTE rules the backend out. */
int routesUsable(const struct backendUse *use, char why[BACKEND_WHY]);

/* As ginCommQueryPeer's `backend`: "none" if no backend connects the pair. */
const char *routesName(ginComm_t comm, int peer);

/* Logs the routes of this rank, a line for each kind. */
void routesLog(ginComm_t comm);

/* Rank 0 of several warns, once per process, of a GIN_TRANSPORT that has no effect. */
void routesNoteTransport(ginComm_t comm);

/* As ginCommQueryPeer's `why`. */
const char *routesWhy(ginComm_t comm, int peer, char why[BACKEND_WHY]);

#endif
