/* SPDX-License-Identifier: BSD-3-Clause */
/* backends.h - the table of backends: the one place that names them */
#ifndef GIN_LIB_BACKENDS_H
#define GIN_LIB_BACKENDS_H

#include "backends/backend.h"

/*
 * Network backends, the preferred ones first. All ranks use the first one that works on every rank;
 * the last one is opened without a trial, and its failure is the communicator's. The name is the
 * backend's in GIN_BACKEND and config.backend, and equals backendOps.name.
 */
/* clang-format off */
#define BACKENDS_NETWORK_ROWS(row) \
	row(backendGdaki, "gdaki") \
	row(backendProxy, "proxy")
/* clang-format on */

#define BACKENDS_ROW_DECLARE(ops, name) extern const struct backendOps ops;
#define BACKENDS_ROW_ONE(ops, name) +1

extern const struct backendOps backendDirect;
BACKENDS_NETWORK_ROWS(BACKENDS_ROW_DECLARE)

/* Indexes in the table. A network backend's index is also the index of GIN_BACKEND's choice. */
enum {
	BACKENDS_DIRECT,
	BACKENDS_NETWORK, /* the first network backend */
	BACKENDS_COUNT = BACKENDS_NETWORK BACKENDS_NETWORK_ROWS(BACKENDS_ROW_ONE),
	BACKENDS_LAST = BACKENDS_COUNT - 1
};

extern const struct backendOps *const backendsTable[BACKENDS_COUNT];

/* The index of the network backend `name`, or 0: there is none. */
int backendsFind(const char *name);

#endif
