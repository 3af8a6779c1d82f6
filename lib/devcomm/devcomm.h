/* SPDX-License-Identifier: BSD-3-Clause */
/* devcomm.h - a device communicator, as the core sees it */
#ifndef GIN_LIB_DEVCOMM_H
#define GIN_LIB_DEVCOMM_H

#include <stdio.h>

#include "lib/comm.h"
#include "queues.h"
#include "stalled.h"
#include "trace.h"

/*
 * Host memory that kernels read while they wait, and in which they leave errors and waits.
 * `abort.word` is written under comm->lock.
 */
struct hostLines {
	struct ginAbortLine abort;
	_Alignas(64) struct ginErrorRecord error; /* not on the line that the host writes */
	_Alignas(64) struct ginWaitRecord waits[GIN_WAITS];
};

/* A wait that kernels have told: told.c. */
struct toldWait {
	struct ginWaitRecord record; /* call 0: none */
	uint64_t waited;	     /* nanoseconds, when it was told last */
	uint64_t told;		     /* clockNow() then */
	uint64_t warned;	     /* when the log got it; 0: never */
};

/* Any thread, under comm->lock. After addDevComm() only the members at the end change. */
struct devComm {
	ginDevComm device; /* a copy of the user's */
	/* Per writer class: this rank's words, or NULL. See makeWords(). */
	void *words[GIN_WRITER_CLASSES];
	struct sharedMemory shared[GIN_WRITER_CLASSES];
	struct devCommQueues queues;
	struct hostLines *lines;
	ginDevComm *self; /* device.self, to be written */
	void *local;	  /* of the pool */
	size_t localBytes;
	size_t peersBytes;
	const struct streamCalls *stream; /* of requirements.streams; or NULL */
	/* Under comm->lock: */
	uint8_t question;  /* the number in the abort line: 1 to 127 */
	uint8_t asks;	   /* GIN_LINE_ASKS, of told.c */
	uint8_t isWanted;  /* ask now: attach.c */
	uint64_t asked;	   /* when it was set last */
	uint64_t answered; /* `asked` of the last question that has ended */
	struct toldWait waits[GIN_WAITS];
	struct trace trace;
	struct stalled *stalled;  /* [nRanks] */
	uint8_t *lost;		  /* [nRanks]: lostDead if a queue to the rank has failed */
	uint8_t *unconnected;	  /* [nRanks], of the requirements */
	char why[SENTENCE_BYTES]; /* how the first of these queues failed */
	int whyRank;		  /* the rank of `why`, or -1 */
	struct devComm *next;
};

/* Copies the requirements of a caller, whose struct may be older, and checks them. */
ginResult_t devCommRead(const ginDevCommRequirements_t *given, ginDevCommRequirements_t *want);

/* The link of comm->devComms that points to it; NULL, after fail(). The caller holds comm->lock. */
struct devComm **devCommFind(ginComm_t comm, const ginDevComm *devComm);

/* Writes the abort line. The caller holds comm->lock. */
void devCommWriteLine(ginComm_t comm, struct devComm *dc);

/*
 * Passes the failures so far to the kernels of a device communicator, for example after it was
 * added to the list. The caller holds comm->lock.
 */
void devCommTellLost(ginComm_t comm, struct devComm *dc);

/* Writes the waits that the last question found, one a line. The caller holds comm->lock. */
void devCommWriteWaits(ginComm_t comm, const struct devComm *dc, FILE *out);

/* Statistics of a context, as ginCommGetStats(). The caller holds comm->lock. */
ginResult_t devCommStats(ginComm_t comm, const struct devComm *dc, uint32_t context,
			 ginStats_t *stats);

/* The posts to a peer, as ginCommGetPeerStats(). The caller holds comm->lock. */
ginResult_t devCommPeerStats(ginComm_t comm, const struct devComm *dc, int peer,
			     ginPeerStats_t *stats);

/* Changes the number in the abort line, not to `except`. The caller holds comm->lock. */
void devCommNextQuestion(struct devComm *dc, uint8_t except);

/* A call's name, and the object of a wait; "" when the call does not wait. */
const char *devCommCallName(uint32_t call);
void devCommFormatWait(const ginErrorRecord_t *r, char *out, size_t bytes);

/* As devCommsCheckIdle(), for one device communicator. */
ginResult_t devCommCheckIdle(ginComm_t comm, struct devComm *dc);

/* Finds the calls of a device communicator with requirements.streams, and loads their kernel. */
ginResult_t devCommStreamCalls(ginComm_t comm, const struct streamCalls **out);

/* The calls of the plug-in's kernels; NULL: there are none, or no GPU. */
const struct streamCalls *streamCallsFind(const struct ginComm *comm);

/*
 * With GIN_LOG=stats, logs each context used, and what traced kernels have sent to direct peers.
 * The caller has entered the device's scope.
 */
void devCommLogStats(ginComm_t comm, const struct devComm *dc);

#endif
