/* SPDX-License-Identifier: BSD-3-Clause */
/* identity.h - the description that a rank sends when the ranks meet, and which host it is on */
#ifndef GIN_LIB_IDENTITY_H
#define GIN_LIB_IDENTITY_H

#include "gin.h"
#include "auth.h"
#include "socket.h"

#define IDENTITY_ADDRESSES 16

struct identity {
	uint64_t hostId;	       /* identityHostId() */
	uint64_t processId[2];	       /* equal only within a process */
	uint8_t nonce[AUTH_KEY_BYTES]; /* random; the communicator's key contains rank 0's nonce */
	char host[64];
	uint16_t port;	      /* on which the control plane listens; 0: this rank is alone */
	uint16_t addresses;   /* through which other ranks reach the control plane */
	uint8_t loopback;     /* ranks of this host reach it through the loopback interface */
	uint8_t local;	      /* all ranks are on this host */
	uint8_t proven;	      /* address[0] has carried a connection with another host */
	uint16_t recoverPort; /* of the datagram socket: see lib/control/recover.h */
	struct netAddress address[IDENTITY_ADDRESSES];
};

/* Precedes an identity. It contains the version, since the layout may change with the version. */
#define IDENTITY_MAGIC ((uint64_t)0x67696e << 40 | (uint64_t)GIN_VERSION)

/* Equal on all processes with one kernel, host name and network namespace, or one GIN_HOSTID. */
uint64_t identityHostId(void);

/* Fills in all members except the ports. */
ginResult_t identityMake(struct identity *me);

/* This address has carried a connection with another host: it becomes the first one. */
void identityProve(struct identity *me, const struct netAddress *address);

/*
 * Makes an identity that another rank sent safe to read: the host is text, addresses are counted.
 */
void identityBound(struct identity *received);

/*
 * index[r]: how many ranks below r are on the host of r. Takes n log(n) steps. An error: no memory.
 */
ginResult_t identityCount(const struct identity *ranks, int n, uint32_t *index);

static inline int identitySameHost(const struct identity *a, const struct identity *b)
{
	return a->hostId == b->hostId;
}

static inline int identitySameProcess(const struct identity *a, const struct identity *b)
{
	return a->processId[0] == b->processId[0] && a->processId[1] == b->processId[1];
}

#endif
