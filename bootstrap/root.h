/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * root.h - the root: a thread of one process, to which each rank of a communicator connects once
 *
 * Each rank sends its entry, and receives the entries of rank 0 and of its parent. Both ends of a
 * connection prove that they know the key. A root serves all communicators of a job (PMIx, TCP); it
 * distinguishes them by name and by generation, the number of earlier communicators of the name. Or
 * it serves all unique ids of its process: each id has its own key, and is one communicator.
 *
 * The root of GIN_ROOT and the root of the unique ids end, and close their sockets, when nobody
 * needs them. The root of PMIx listens until its process ends: PMIx copies the contact to the ranks
 * once, and each later ginCommInit() needs it. If the root released its port, another process could
 * get it. And a refused connection would not mean that rank 0 has ended, so a rank whose rank 0 has
 * ended would wait for GIN_TIMEOUT. Strangers take at most an eighth of the process's descriptors.
 */
#ifndef GIN_BOOTSTRAP_ROOT_H
#define GIN_BOOTSTRAP_ROOT_H

#include "lib/base/net/auth.h"
#include "lib/base/net/socket.h"
#include "bootstrap.h"

#define ROOT_ADDRESSES 16
#define ROOT_RANKS (1 << 20) /* most ranks of a communicator */

/* Seconds: programs that make one communicator after another need the root soon. */
#define ROOT_LINGER 1

/*
 * Seconds after the ranks of a communicator have met in which a rank of another job makes it fail:
 * see rootGroupsAdd(). An older communicator never fails for it.
 */
#define ROOT_MIX_SECONDS 1

/* Address and key of a root. */
struct rootContact {
	uint64_t magic;
	uint64_t hostId; /* a client on the same host tries the loopback interface first */
	uint8_t key[AUTH_KEY_BYTES];
	uint16_t port;
	uint16_t addresses;
	struct netAddress address[ROOT_ADDRESSES];
};

/*
 * The bytes of a unique id: a contact, with as many of the addresses as fit. rootFromId() does not
 * check the contact's magic.
 */
#define ROOT_ID_BYTES 128
void rootToId(const struct rootContact *contact, uint8_t id[ROOT_ID_BYTES]);
void rootFromId(const uint8_t id[ROOT_ID_BYTES], struct rootContact *contact);

#define ROOT_MAGIC UINT64_C(0x31746f6f726e6967) /* "ginroot1" */

/* The request of a rank. Its size is equal in all versions of libgin. */
struct rootRequest {
	char name[BOOTSTRAP_NAME]; /* of the communicator */
	uint32_t generation;
	uint32_t rank, nRanks;
	uint32_t parent;
	uint32_t pid;
	char job[BOOTSTRAP_JOB]; /* launcherJob(), or "" where one root cannot have two jobs */
	struct bootstrapEntry entry;
};

/* The answer of the root: a sentence in `why`; or the entries, and `why` is "". */
struct rootReply {
	int32_t result; /* of the exchange; set when `why` is */
	char why[BOOTSTRAP_WHY];
	struct bootstrapEntry root, parent;
};

/*
 * Starts a root, which takes over `listener` and serves the communicators of one job until the
 * process ends. It refuses ranks of a job other than `job`, unless one of the two is "". A
 * communicator fails when some of its ranks do not come within `seconds`. Returns 0, or -1 with
 * errno.
 */
int rootStart(int listener, const uint8_t key[AUTH_KEY_BYTES], const char *job, unsigned seconds);

struct root;

/*
 * As rootStart(), for a root that *handle points to while it runs. The root begins with one user,
 * and ends when it has had no users, no clients and no communicators for ROOT_LINGER seconds.
 */
int rootStartUsed(int listener, const uint8_t key[AUTH_KEY_BYTES], const char *job,
		  unsigned seconds, struct root **handle);

/* Adds a user. Returns 0 if there is no root. Any thread. */
int rootUse(struct root **handle);

/* Removes a user, if there is a root. Any thread. */
void rootRelease(struct root **handle);

/*
 * Makes a key and a listener, starts a root on them as rootStart() does, and fills in `contact`,
 * which all ranks need. `ifname` as in socketAddresses().
 */
int rootMake(struct rootContact *contact, const char *ifname, unsigned seconds, char *why);

/*
 * As rootMake(), for a unique id: `contact` serves one communicator. One root serves all ids of the
 * process; it ends when every id has been used or has failed. It forgets unused ids beyond the
 * newest ROOT_IDS. DeepEP V1 makes 8 for each expert of a rank, and uses the oldest. Any thread.
 */
#define ROOT_IDS 2048
int rootMakeId(struct rootContact *contact, const char *ifname, unsigned seconds, char *why);

/* Does a root of this process have the contact's key? Any thread. */
int rootIsHere(const struct rootContact *contact);

/*
 * A rank of this process cannot reach its own root: the root fails the other ranks that come with
 * the contact's key, with `why`. Returns when it has answered those that wait. Any thread.
 */
void rootGiveUp(const struct rootContact *contact, const char *why);

#endif
