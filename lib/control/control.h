/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.h - the control plane: every collective after the bootstrap, and the failure detector
 *
 * A tree of authenticated sockets. A rank communicates with its parent and children only; one
 * thread per communicator reads the sockets. A collective gathers entries up the tree, and rank 0
 * sends the result down. When a connection ends without a farewell, the rank at its other end has
 * died: all ranks get a failure message, and every later collective fails with its sentence. Ranks
 * whose parent has died then connect to another rank, so that all learn of later deaths.
 *
 * Files: call.c the calls, tree.c connecting, accept.c accepting, gather.c the way up of a
 * collective, deliver.c the way down, send.c sending, thread.c reading and failures, attach.c
 * connecting after a failure, handles.c file descriptors between ranks of one host, recover.c and
 * recover_peer.c the agreement of the ranks that go on after a failure, datagram.c UDP.
 */
#ifndef GIN_LIB_CONTROL_H
#define GIN_LIB_CONTROL_H

#include <pthread.h>

#include "lib/base/buffer.h"
#include "lib/base/error.h"
#include "lib/base/net/identity.h"
#include "lib/base/interrupt.h"

#define CONTROL_CHILDREN 16 /* of a rank in the tree */
#define CONTROL_LINKS (1 + CONTROL_CHILDREN)
#define CONTROL_BYTES 65536 /* most that a rank can contribute to a collective */
#define CONTROL_CALL 24	    /* bytes of a collective's name, its NUL included */

/* Most bytes of all ranks in one round of an all-to-all, unless a block of each rank has more. */
#define CONTROL_ROUND_BYTES (16u << 20)

/* A connection to another rank; fd is -1 after it has ended. */
struct controlLink {
	int fd;
	int rank;
	int left;    /* the rank sent a farewell: the end of the connection is no failure */
	int silent;  /* the connection has ended because the other host does not answer */
	int patient; /* the peer's process does not read, but its kernel answers */
	struct controlDial *dial; /* not NULL: this rank is still connecting: attach.c */
	struct buffer in;	  /* an incomplete message; used by the thread only */
	/* Messages that did not fit the socket's buffer; under the lock. */
	struct controlPart *first, *last; /* first NULL: none */
	size_t sent;			  /* bytes of the first message that are sent */
	uint64_t moved; /* when the socket last took bytes of them, or there were none */
};

/* The collective in progress. */
struct controlGather {
	uint32_t seq;
	char call[CONTROL_CALL]; /* "" until the first entry arrives */
	int first;		 /* the rank of that entry */
	int have;		 /* ranks of this subtree whose entries have arrived */
	uint8_t *arrived;	 /* [nRanks] */
	struct buffer entries;	 /* not yet passed on */
	uint32_t block, round;	 /* of this rank's all-to-all; block 0: an allgather */
	uint64_t start;
	int warned;
};

/*
 * `rank` has failed, or the whole communicator (-1). Called once for each, on the thread that
 * detected the failure, without the control plane's lock.
 */
typedef void (*controlFailure_t)(void *arg, int rank, ginResult_t result);

/*
 * News from the bootstrap: see struct bootstrapOps. fd -1: none, unless `isAsked`: lost() is then
 * called repeatedly while the tree connects.
 */
struct controlNews {
	int fd;
	int isAsked;
	int (*lost)(void *arg, char *why);
	void *arg;
};

struct recovery;

struct control {
	int rank, nRanks;
	int subtree;		      /* ranks in the subtree of this rank, this rank included */
	const struct identity *ranks; /* [nRanks] */
	uint8_t key[AUTH_KEY_BYTES];  /* of this communicator's connections */
	struct controlLink tree[CONTROL_LINKS];
	struct controlLink *link; /* parent first (not at rank 0), children, those of attach.c */
	int links, room;	  /* of link[]; `tree` until there are more */
	int listener;
	struct controlNews news; /* the caller may set it before controlOpen(); then the thread's */
	int spare[CONTROL_LINKS]; /* descriptors reserved for links not yet connected */
	int spares;
	struct recovery *recovery;   /* see recover.h */
	struct reception *reception; /* after a failure: the thread's, in accept.c */
	int wake;		     /* eventfd: the thread must check `closing` */
	pthread_t thread;
	int started;
	controlFailure_t onFailure;
	void *onFailureArg;
	int tickMs;			    /* so often at least; 0: every quarter of a second */
	void (*onTick)(void *onFailureArg); /* NULL, or the thread calls it often, without `lock` */
	struct interrupt interrupt;	    /* of the calls that wait; the caller sets it */

	pthread_mutex_t lock; /* for all members below, and for sending */
	pthread_cond_t changed;
	struct controlGather gather;
	uint32_t called;	    /* collectives that this rank has begun */
	uint64_t until;		    /* the limit of the call that has begun the last one */
	char calling[CONTROL_CALL]; /* its name */
	uint32_t done;		    /* the last collective that is complete */
	struct buffer result;	    /* of the last complete collective, for this rank */
	uint32_t delivered;	    /* enum controlType of `result` */
	uint32_t retired;	    /* windows that this rank has retired */
	uint32_t allRetired;	    /* the least `retired` of all ranks, in the last collective */
	ginResult_t broken;	    /* not ginSuccess: the first failure of the communicator */
	char why[SENTENCE_BYTES];
	uint8_t *failed;   /* [nRanks] */
	uint8_t *gone;	   /* [nRanks]: bits of enum controlGone */
	int known;	   /* the entries of all ranks are filled in */
	int leaving;	   /* the parent has left, after a failure or before */
	uint64_t settled;  /* when a rank last failed or left */
	uint64_t attachAt; /* when the thread calls controlAttach(); 0: after the next failure */
	int aborted;	   /* by controlAbort() */
	int connected;	   /* the thread may begin */
	int closing;
};

/* The parent in the tree: controlOpen() needs its address. */
int controlParent(int rank);

/*
 * Acquires all resources of this rank, so that a rank that lacks one can report it in the
 * bootstrap's exchange, and no other rank waits for it. Starts the thread. Unless this rank is
 * alone, listens for children and for ranks that lose their parents: on all interfaces, or on
 * `me->address[0]` only when GIN_SOCKET_IFNAME is set or `me->local` is. Fills in me->port, and
 * reduces me->address to the addresses on which the rank listens. On failure, nothing stays open.
 */
ginResult_t controlPrepare(struct control *c, int rank, int nRanks, struct identity *me);

/*
 * Connects the tree, by authenticated connections of `key`. On failure, the caller calls
 * controlClose(). `ranks` must outlive `c`; the entries of rank 0, the parent and this rank must be
 * filled in, the others after the first collective.
 */
ginResult_t controlOpen(struct control *c, const struct identity *ranks,
			const uint8_t key[AUTH_KEY_BYTES], controlFailure_t onFailure, void *arg);

/*
 * After controlOpen(): the address of this end of a connection with another host. Returns 0 if the
 * parent and all children are on this host.
 */
int controlOwnAddress(struct control *c, struct netAddress *out);

/*
 * After controlOpen(): the thread watches `fd` for news, unless it is -1. News of a failure ends
 * the communicator on all ranks. lost() must not be called by any other thread.
 */
void controlWatch(struct control *c, int fd);

/*
 * The caller has filled in the entries of all ranks. From now on ranks that lose their parents
 * connect to each other.
 */
void controlRanksKnown(struct control *c);

/*
 * Collective. A rank with mine == ginSuccess contributes `bytes` bytes; a rank that has failed
 * contributes its sentence (ginGetLastError). When no rank has failed, `out` gets nRanks * bytes
 * and every rank returns ginSuccess. Otherwise, every rank returns the result and the sentence of
 * the lowest rank that has failed. `call` names the collective in messages. `in` and `out` may be
 * NULL when `bytes` is 0.
 */
ginResult_t controlAllgather(struct control *c, const char *call, ginResult_t mine, const void *in,
			     void *out, size_t bytes);

/*
 * Collective. `in` has `block` bytes for each rank, 1 to CONTROL_BYTES; `out` gets `block` bytes
 * from each rank. Results as controlAllgather's. Runs in rounds, so that a rank relays
 * CONTROL_ROUND_BYTES at a time; each rank sends and receives nRanks * block bytes, and rank 0
 * relays the bytes of all ranks.
 */
ginResult_t controlAlltoall(struct control *c, const char *call, ginResult_t mine, const void *in,
			    void *out, size_t block);

/* Rounds of an all-to-all with this block. */
uint32_t controlRounds(int nRanks, size_t block);

/* Heap of a control plane that does not run a collective. */
size_t controlBytes(int nRanks);

/* The cost of a collective, in bytes with headers. */
struct controlCost {
	uint64_t messages; /* sent and received by a rank without children */
	uint64_t received; /* by a rank without children */
	uint64_t relayed;  /* by rank 0: received and sent */
};

/* Connections of the rank with most connections. */
int controlLinksMost(int nRanks);

/* Adds an allgather, or an all-to-all, that succeeds. */
void controlCostAllgather(int nRanks, size_t bytes, struct controlCost *cost);
void controlCostAlltoall(int nRanks, size_t block, struct controlCost *cost);

/* controlAllgather() without data: have all ranks succeeded so far? */
ginResult_t controlAgree(struct control *c, const char *call, ginResult_t mine);

/* controlAgree(), and fails unless `serial`, of a window for example, is equal on all ranks. */
ginResult_t controlAgreeOn(struct control *c, const char *call, ginResult_t mine, uint64_t serial);

/* Adds `by` to the windows that this rank has retired. Any thread; never waits for other ranks. */
void controlRetire(struct control *c, int by);

/* Had every rank retired windows at the last collective? The answer is equal on all ranks. */
int controlAllRetired(struct control *c);

/* This rank aborts: the peers' communicators fail with ginErrorPeer. */
void controlAbort(struct control *c);

/* The communicator ends on all ranks, with the result and the sentence of ginGetLastError(). */
void controlEndAll(struct control *c, ginResult_t result);

/* A caller outside the control plane has detected that `peer` is lost. */
void controlReport(struct control *c, int peer, const char *why);

/* ginSuccess, or the first failure, whose sentence is then kept for ginGetLastError(). */
ginResult_t controlError(struct control *c);

/* Sends farewells, ends the thread, closes everything. Not collective. */
void controlClose(struct control *c);

#endif
