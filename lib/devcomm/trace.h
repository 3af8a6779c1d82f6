/* SPDX-License-Identifier: BSD-3-Clause */
/* trace.h - GIN_TRACE: what traced kernels count, the ring of their records, and the file */
#ifndef GIN_LIB_TRACE_H
#define GIN_LIB_TRACE_H

#include "lib/comm.h"

struct devComm;

/* Of a device communicator. After traceOpen() under comm->lock. */
struct trace {
	int fd;	      /* of the file, if there is a ring */
	void *pinned; /* the words below and the records; NULL: no trace */
	uint64_t *taken, *lostSeen;
	struct ginTraceRing ring; /* as in device.trace */
	uint64_t next;		  /* the record to be taken next */
	uint64_t lost;		  /* as the file has it */
	int isKept;		  /* a kernel may still write `pinned` */
};

/*
 * Makes device.trace; with GIN_TRACE, opens the file and makes the records. The caller has entered
 * the device's scope.
 */
ginResult_t traceOpen(ginComm_t comm, struct devComm *dc);

/* GPU memory that traceOpen() takes. */
size_t traceRingBytes(int nRanks);

/*
 * What traced kernels have posted to a peer; ginErrorUnsupported: no traced kernel has made a call.
 * The caller has entered the device's scope.
 */
ginResult_t traceCount(ginComm_t comm, const struct devComm *dc, int peer,
		       struct ginTraceCount *count);

/* Takes what is in the ring into the file. Never waits for a kernel. */
void traceDrain(ginComm_t comm, struct devComm *dc);

/* Writes that a kernel waits; `rank`: for which rank, or -1. */
void traceWaiting(ginComm_t comm, struct devComm *dc, const struct ginWaitRecord *r,
		  uint64_t waited, int rank);

/* Kernels have ended. The caller has entered the device's scope. */
void traceClose(ginComm_t comm, struct devComm *dc);

#endif
