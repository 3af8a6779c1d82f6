/* SPDX-License-Identifier: BSD-3-Clause */
/* devcomm.h - a device communicator, from within the core */
#ifndef GIN_LIB_DEVCOMM_H
#define GIN_LIB_DEVCOMM_H

#include "comm.h"
#include "queues.h"

/* Host memory that kernels read while they wait, and in which they leave errors. */
struct hostLines {
	struct ginAbortLine abort;
	_Alignas(64) struct ginErrorRecord error; /* not on the line that the host writes */
};

struct devComm {
	ginDevComm device; /* what the user has */
	/* Of each writer class, this rank's words; memoryAlloc's, NULL: there are none. */
	void *words[GIN_WRITER_CLASSES];
	struct sharedMemory shared[GIN_WRITER_CLASSES];
	struct devCommQueues queues;
	struct hostLines *lines;
	void *local; /* the pool's */
	size_t localBytes;
	size_t peersBytes;
	struct devComm *next;
};

/* Its place in comm->devComms, whose lock is held; NULL, and the error is said, when it is none. */
struct devComm **devCommFind(ginComm_t comm, const ginDevComm *devComm);

/* With GIN_LOG=stats a line for each context that was used. The device's scope is entered. */
void devCommLogStats(ginComm_t comm, const struct devComm *dc);

#endif
