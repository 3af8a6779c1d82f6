/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control.h - the control plane: every collective after the bootstrap, and the failure detector
 *
 * A tree of authenticated sockets. A rank talks to its parent and children only; one thread per
 * communicator reads its sockets. A collective gathers entries up the tree and sends all of them
 * down. The end of a connection without a farewell means that the rank behind it has died: all are
 * told, and every later collective fails with the same sentence.
 *
 * Files: control.c the calls, tree.c connecting, gather.c one collective,
 * thread.c reading and failures.
 */
#ifndef GIN_LIB_CONTROL_H
#define GIN_LIB_CONTROL_H

#include <pthread.h>

#include "lib/base/buffer.h"
#include "lib/base/error.h"
#include "lib/base/identity.h"

#define CONTROL_CHILDREN 16 /* of a rank in the tree */
#define CONTROL_LINKS (1 + CONTROL_CHILDREN)
#define CONTROL_BYTES 65536 /* most that a rank can put into a collective */
#define CONTROL_CALL 24	    /* a collective's name, its end included */

/* A connection to parent or child; fd is -1 once it has ended. */
struct controlLink {
	int fd;
	int rank;
	int left; /* it said farewell: the end of the connection is no failure */
};

/* The collective in progress. */
struct controlGather {
	uint32_t seq;
	char call[CONTROL_CALL]; /* "" until the first entry arrives */
	int first;		 /* the rank of that entry */
	int have;		 /* ranks of this subtree whose entry arrived */
	uint8_t *arrived;	 /* [nRanks] */
	struct buffer entries;	 /* that were not passed on yet */
	uint64_t start;
	int warned;
};

/*
 * `rank` has failed, or, when it is -1, the communicator as a whole. Called once for each, on
 * whatever thread noticed, without the control plane's lock.
 */
typedef void (*controlFailure_t)(void *arg, int rank, ginResult_t result);

struct control {
	int rank, nRanks;
	int subtree;				/* ranks in it, own included */
	const struct identity *ranks;		/* [nRanks] */
	struct controlLink link[CONTROL_LINKS]; /* parent first (not at rank 0), then children */
	int links;
	int listener;
	int spare[CONTROL_LINKS]; /* descriptors held for links that are still to come */
	int spares;
	int wake; /* eventfd: the thread should look at `closing` */
	pthread_t thread;
	int started;
	controlFailure_t onFailure;
	void *onFailureArg;

	pthread_mutex_t lock; /* everything below, and sending */
	pthread_cond_t changed;
	struct controlGather gather;
	uint32_t called;      /* own collectives so far */
	uint32_t done;	      /* the last one whose result is there */
	struct buffer result; /* all entries of it */
	ginResult_t broken;   /* not ginSuccess: the communicator has failed, first of this */
	char why[SENTENCE_BYTES];
	uint8_t *failed; /* [nRanks] */
	int connected;	 /* the thread may begin */
	int closing;
};

/* Whose address this rank must know before it can be connected. */
int controlParent(int rank);

/*
 * Takes all that this rank needs: a rank that lacks something can then say so in the bootstrap's
 * exchange, and nobody waits for it. Listens at `port`; starts the thread. On failure nothing is
 * left.
 */
ginResult_t controlPrepare(struct control *c, int rank, int nRanks, uint16_t *port);

/*
 * Connects the tree. On failure the caller closes. `ranks` must outlive it; those of rank 0, the
 * parent and this rank must be there, the others may come by the first collective.
 */
ginResult_t controlOpen(struct control *c, const struct identity *ranks, controlFailure_t onFailure,
			void *arg);

/*
 * Collective. A rank with mine == ginSuccess puts in `bytes` bytes; another puts in its sentence
 * (ginGetLastError). When all put in bytes, `out` has nRanks * bytes of them and all get
 * ginSuccess; else all get result and sentence of the lowest rank that did not. `call` names the
 * collective in messages. Both pointers may be NULL with 0 bytes.
 */
ginResult_t controlAllgather(struct control *c, const char *call, ginResult_t mine, const void *in,
			     void *out, size_t bytes);

/* The same without data: have all ranks succeeded so far? */
ginResult_t controlAgree(struct control *c, const char *call, ginResult_t mine);

/* The same, and do all ranks mean the same window or device communicator by `serial`? */
ginResult_t controlAgreeOn(struct control *c, const char *call, ginResult_t mine, uint64_t serial);

/* This rank gives up: the peers' communicators fail with ginErrorPeer. */
void controlAbort(struct control *c);

/* Somebody other than the control plane found that `peer` is lost. */
void controlReport(struct control *c, int peer, const char *why);

/* ginSuccess, or what the communicator failed of; then the sentence is kept for ginGetLastError. */
ginResult_t controlError(struct control *c);

/* Says farewell, ends the thread, closes all. Not collective. */
void controlClose(struct control *c);

#endif
