/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm_from.h - code that ginCommSplit() and ginCommShrink() share
 *
 * The older communicator is the bootstrap of the communicator that is made from it.
 */
#ifndef GIN_LIB_COMM_FROM_H
#define GIN_LIB_COMM_FROM_H

#include "comm.h"

/* The state of such a bootstrap begins with it. */
struct commFrom {
	ginComm_t comm;	  /* the older one */
	int rank, nRanks; /* in the new one */
};

/* Opens the new communicator. `ops` has the calls below, and exchange() and lost(). */
ginResult_t commFromOpen(const char *call, struct commFrom *from, const struct bootstrapOps *ops,
			 ginComm_t *out);

/* Implement open(), derive() and isLocal() of struct bootstrapOps. */
int fromOpen(const struct bootstrapWanted *wanted, void **state, int *rank, int *nRanks, char *why);
void fromDerive(const void *state, const void *nonce, size_t bytes, uint8_t key[BOOTSTRAP_KEY]);
int fromIsLocal(const void *state);

#endif
