/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.h - the files that GIN_TRACE names, for gin_trace(1) and other readers
 *
 * A file is a sequence of parts: a head and `count` records. Parts of several ranks, device
 * communicators and processes may follow each other in one file. Numbers have the byte order of the
 * host. Records are those of kernels, in the order in which the calls have ended approximately
 * (abi.h), and those of the host, which have a number from GIN_TRACE_HOST on instead of a call.
 *
 * Times of records of kernels are those of the kernel's clock: a GPU's globaltimer; on host threads
 * CLOCK_MONOTONIC. Records GIN_TRACE_CLOCK relate it to the clocks of the host.
 */
#ifndef GIN_TRACE_H
#define GIN_TRACE_H

#include "core/abi.h"

#define GIN_TRACE_MAGIC "gintrace"

struct ginTraceHead {
	char magic[8];
	uint64_t communicator; /* a number that its ranks share, and no other communicator has */
	uint32_t rank, nRanks;
	uint32_t devComm; /* ginDevComm.id */
	uint32_t count;	  /* of the records that follow */
	char host[32];	  /* the first 31 bytes of its name */
};

struct ginTraceRecord {
	uint64_t word[GIN_TRACE_WORDS];
};

enum {
	GIN_TRACE_HOST = 64,
	/*
	 * The clocks at one moment: BEGIN the kernel's, END CLOCK_MONOTONIC, VALUE CLOCK_REALTIME.
	 * When the device communicator is made, and when it is destroyed. Flag GIN_TRACE_GUESS: the
	 * kernel's clock is not known, and BEGIN is CLOCK_REALTIME. BYTES: one of so many calls is
	 * recorded.
	 */
	GIN_TRACE_CLOCK = GIN_TRACE_HOST,
	GIN_TRACE_LOST, /* BYTES: records that found no room, so far */
	/*
	 * A call of a kernel waited at time END, since BEGIN or up to two seconds before: the call
	 * in the bits of the result; the context, of a barrier the ranks of its team; the rank for
	 * which it waits and the id; VALUE and BYTES: the values waited for and seen.
	 */
	GIN_TRACE_WAITING
};

#define GIN_TRACE_GUESS 1

#endif
