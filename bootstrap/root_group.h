/* SPDX-License-Identifier: BSD-3-Clause */
/* root_group.h - the clients of a root, grouped by communicator; used by the root's thread only */
#ifndef GIN_BOOTSTRAP_ROOT_GROUP_H
#define GIN_BOOTSTRAP_ROOT_GROUP_H

#include "root.h"

enum rootClientState {
	clientProves, /* must prove that it knows the key */
	clientAsks,   /* must send its request */
	clientWaits,  /* waits for the other ranks of its group */
	clientJoins,  /* has its reply, and connects to the other ranks */
	clientStays   /* rank 0, which has joined: another job may come soon */
};

/*
 * The key that a client must prove: one for all communicators of a job, or the key of a unique id.
 */
struct rootKey {
	struct authKey auth; /* first: a list */
	int isId;	     /* serves one communicator, of any name */
	int isUsed;	     /* a client has proved it */
	int isDone;	     /* the communicator is complete, or has failed, and was removed */
	char *givenUp;	     /* NULL, or the sentence of rootGiveUp(); set under rootLock */
	int hasTold;	     /* the ranks that waited have the sentence; under rootLock */
};

/* A connection to the root. */
struct rootClient {
	int fd, poll; /* poll: the root's epoll descriptor */
	enum rootClientState state;
	uint64_t since; /* when the root sent its challenge */
	uint64_t challenge[2];
	uint32_t rank; /* as proved by the handshake, with the key */
	struct rootKey *key;
	struct rootRequest request;
	struct rootGroup *group; /* set in state clientWaits and later */
	struct rootClient *next, **at;
};

/* A communicator whose ranks connect. */
struct rootGroup {
	struct rootKey *key;
	struct rootRequest first;   /* of the first rank: name, generation, number of ranks */
	uint32_t come;		    /* number of ranks that arrived, failed ones included */
	uint64_t full;		    /* when all had arrived; 0: not yet */
	uint8_t *hasCome;	    /* [nRanks] */
	struct rootClient **client; /* [nRanks]: clients that wait, join, or stay */
	int complete;		    /* all clients have their replies */
	uint32_t joining;	    /* clients in state clientJoins */
	int failed;		    /* result of the exchange */
	char failure[BOOTSTRAP_WHY];
	uint64_t start, failedAt, completedAt;
	int warned;
	struct rootGroup *next;
};

/*
 * The communicators of a name that are complete, or have failed: all of a generation below `next`.
 */
struct rootName {
	char name[BOOTSTRAP_NAME];
	uint32_t next;
	struct rootName *others;
};

struct rootGroups {
	struct rootGroup *list;
	struct rootName *names;
	unsigned seconds; /* time limit of each group */
	int mayMix;	  /* two jobs may use this root by mistake: see rootGroupsAdd() */
	int someDone;	  /* some key is done */
	int otherKey;	  /* a client has proved another key */
};

/*
 * Makes the texts of a request that a client has sent safe to read. Returns whether its numbers are
 * possible for the rank that the client has proved.
 */
int rootRequestBound(struct rootRequest *request, uint32_t rank);

/* Closes the connection and frees the client, in any state. */
void rootClientDrop(struct rootClient *client);

/* Sends the result and the sentence, then as rootClientDrop(). */
void rootClientFail(struct rootClient *client, int result, const char *why);

/*
 * Handles client->request: adds the client to its group. Replies to all clients of the group when
 * the group has failed.
 *
 * A client of a communicator that is complete already belongs to another job, since a rank sends
 * one request only: meetingAsk() connects again only before its request. Only the client fails. But
 * when two jobs start at the same time, ranks of both may have met, and it is not known which rank
 * is of which job. So within ROOT_MIX_SECONDS after the ranks have met, the communicator fails too,
 * on all its ranks: until then, rank 0 keeps its connection.
 */
void rootGroupsAdd(struct rootGroups *groups, struct rootClient *client);

/*
 * A client in state clientWaits or later has sent a byte, or has disconnected. A client that has
 * joined the others sends a byte; otherwise its rank is lost, and its group fails. Rank 0 may leave
 * after it has joined.
 */
void rootGroupsHear(struct rootGroups *groups, struct rootClient *client);

/*
 * Rank `rank` has proved `key`, and has ended before its request: the groups of the key that wait
 * for it fail.
 */
void rootGroupsMiss(struct rootGroups *groups, const struct rootKey *key, uint32_t rank);

/* The process of the root has given up: fails the groups of the key that are not complete. */
void rootGroupsGiveUp(struct rootGroups *groups, const struct rootKey *key, const char *why);

/* Have all ranks of a group that is neither complete nor failed arrived? */
int rootGroupsFull(const struct rootGroups *groups);

/*
 * Completes groups whose ranks have all arrived. With `others`, waits up to 100 ms for connections
 * in progress: a duplicate rank reveals a second job. Returns whether some group waits.
 */
int rootGroupsComplete(struct rootGroups *groups, int others);

/* Warns about groups that wait for 10 s; fails groups after groups->seconds. */
void rootGroupsTick(struct rootGroups *groups, uint64_t now);

void rootGroupsFree(struct rootGroups *groups);

#endif
