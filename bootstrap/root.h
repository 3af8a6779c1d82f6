/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * root.h - the root: a thread in one process, to which all ranks of a communicator come once
 *
 * Each brings its entry and takes those of rank 0 and of its parent along. Who comes proves that it
 * knows the key. One root serves one communicator (unique id) or all that a job makes (PMIx, TCP):
 * these are told apart by name, and by how often the name was used before.
 */
#ifndef GIN_BOOTSTRAP_ROOT_H
#define GIN_BOOTSTRAP_ROOT_H

#include "lib/base/auth.h"
#include "lib/base/socket.h"
#include "bootstrap.h"

#define ROOT_ADDRESSES 5
#define ROOT_RANKS (1 << 20) /* of a communicator */

/* Where a root is, and what proves that one may come. It fits a ginUniqueId_t. */
struct rootContact {
	uint64_t magic;
	uint64_t hostId; /* on the same host the loopback interface is tried first */
	uint8_t key[AUTH_KEY_BYTES];
	uint16_t port;
	uint16_t addresses;
	struct netAddress address[ROOT_ADDRESSES];
};

#define ROOT_MAGIC UINT64_C(0x31746f6f726e6967) /* "ginroot1" */

/* What a rank says when it comes; of the same size in every version of libgin. */
struct rootRequest {
	char name[BOOTSTRAP_NAME]; /* of the communicator */
	uint32_t generation;	   /* how often the name was used before */
	uint32_t rank, nRanks;
	uint32_t parent;
	struct bootstrapEntry entry;
};

/* And what it gets: a sentence in `why`, or entries when that is "". */
struct rootReply {
	int32_t result; /* as an exchange's; with a sentence */
	char why[BOOTSTRAP_WHY];
	struct bootstrapEntry root, parent;
};

/*
 * Starts a root on `listener`, which it owns then; it ends with the process or, with `once`, when
 * its first communicator is complete or has failed. `seconds`: until a communicator whose ranks do
 * not all come is given up. 0, or -1 with errno.
 */
int rootStart(int listener, const uint8_t key[AUTH_KEY_BYTES], int once, unsigned seconds);

/* A key, a listener and a root; the contact is for all ranks. `ifname` as in socketAddresses(). */
int rootMake(struct rootContact *contact, const char *ifname, int once, unsigned seconds,
	     char *why);

/*
 * A rank's side: goes to the root and waits for the reply. Tries again until the deadline when
 * nobody listens and `patient`: the root may start later.
 */
int rootVisit(const struct rootContact *contact, const struct rootRequest *request, int patient,
	      unsigned seconds, struct rootReply *reply, char *why);

#endif
