/* SPDX-License-Identifier: BSD-3-Clause */
/* identity.h - what a rank tells of itself when the ranks meet */
#ifndef GIN_LIB_IDENTITY_H
#define GIN_LIB_IDENTITY_H

#include "gin.h"
#include "siphash.h"
#include "socket.h"

#define IDENTITY_ADDRESSES 8

struct identity {
	uint64_t hostId;		   /* hostid.h */
	uint64_t processId[2];		   /* equal: same process */
	uint8_t secret[SIPHASH_KEY_BYTES]; /* rank 0's is the communicator's */
	char host[64];
	uint16_t port; /* where the control plane listens */
	uint16_t addresses;
	struct netAddress address[IDENTITY_ADDRESSES];
};

/* Of the version: it goes before an identity, whose layout may change with it. */
#define IDENTITY_MAGIC ((uint64_t)0x67696e << 40 | (uint64_t)GIN_VERSION)

/* Fills all but `port`. */
ginResult_t identityMake(struct identity *me);

static inline int identitySameHost(const struct identity *a, const struct identity *b)
{
	return a->hostId == b->hostId;
}

static inline int identitySameProcess(const struct identity *a, const struct identity *b)
{
	return a->processId[0] == b->processId[0] && a->processId[1] == b->processId[1];
}

#endif
