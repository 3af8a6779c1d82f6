/* SPDX-License-Identifier: BSD-3-Clause */
/* devcomm.h - a device communicator, as the core sees it */
#ifndef GIN_LIB_DEVCOMM_H
#define GIN_LIB_DEVCOMM_H

#include "lib/comm.h"
#include "queues.h"

/*
 * Host memory that kernels read while they wait, and in which they leave errors. `abort.word` is
 * written under comm->lock.
 */
struct hostLines {
	struct ginAbortLine abort;
	_Alignas(64) struct ginErrorRecord error; /* not on the line that the host writes */
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
	uint8_t question;	  /* the number in the abort line, of waits.c */
	uint8_t *lost;		  /* [nRanks]: lostDead if a queue to the rank has failed */
	uint8_t *unconnected;	  /* [nRanks], of the requirements; in the memory of `lost` */
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

/* As devCommsCheckIdle(), for one device communicator. */
ginResult_t devCommCheckIdle(ginComm_t comm, struct devComm *dc);

/* Finds the calls of a device communicator with requirements.streams, and loads their kernel. */
ginResult_t devCommStreamCalls(ginComm_t comm, const struct streamCalls **out);

/* With GIN_LOG=stats, logs each context used. The caller has entered the device's scope. */
void devCommLogStats(ginComm_t comm, const struct devComm *dc);

#endif
