/* SPDX-License-Identifier: BSD-3-Clause */
/* reach.h - which pairs of ranks each backend can connect */
#ifndef GIN_LIB_REACH_H
#define GIN_LIB_REACH_H

#include "backends.h"

/*
 * Why GIN_ROUTE forbids a backend, or NULL. Ranks may differ: both ranks of a pair must allow it.
 */
const char *reachForbidden(const struct backendOps *ops);

/*
 * Does the backend reach the peer, seen from this rank? `why`, of BACKEND_WHY bytes, says how, or
 * why not. Any thread, after the probes.
 */
int reachPair(ginComm_t comm, int backend, int peer, char *why);

/*
 * Collective: fills in comm->reached, and which backends some pair could use. Routes are symmetric:
 * both ranks must reach each other.
 */
ginResult_t reachAgree(ginComm_t comm, ginResult_t mine);

/*
 * Collective: the last network backend searches, if some pair needs that; comm->reached then has
 * its findings.
 */
ginResult_t reachSearch(ginComm_t comm);

/* Adds the exchange of reachAgree(). */
void reachPlan(struct plan *plan);

#endif
