/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selftest.h - libgin-selftest.so: puts and signals between all pairs of ranks of a communicator
 *
 * Used by ginCommInit() (GIN_SELFTEST=1) and by gin_info --selftest. The plug-in uses the public
 * API only: a program of device calls, for kernels where nvcc has built it and for host threads.
 */
#ifndef GIN_LIB_SELFTEST_SELFTEST_H
#define GIN_LIB_SELFTEST_SELFTEST_H

#include "gin.h"

#define SELFTEST_PLUGIN "libgin-selftest.so"
#define SELFTEST_SYMBOL "ginSelftestCalls"

enum selftestState {
	selftestUntested, /* the communicator failed before the test of the pair */
	selftestNoRoute,
	selftestBroken,
	selftestGood
};

/* The results of one rank for its pair with one peer. */
struct selftestCell {
	uint32_t state;	    /* enum selftestState */
	uint32_t latencyNs; /* of a put of 64 bytes with a signal, until the answer is there */
	uint32_t mbPerS;    /* 10^6 bytes per second, from this rank to the peer */
	char backend[16];   /* as in ginPeerInfo_t */
	char why[160];	    /* the reason for the route, or for no route */
	char fault[160];    /* if broken or untested: what happened */
};

/* Equal on all ranks, but for their clocks. */
struct selftestLimits {
	uint64_t pair;	/* ns that a device call waits for a peer at most */
	uint64_t until; /* when the test ends, as CLOCK_MONOTONIC; UINT64_MAX: no limit */
};

struct selftestCalls {
	size_t size;
	int kernels; /* built with kernels for GPUs */
	/*
	 * Collective. Tests each pair of ranks once, and each rank with itself, and fills in
	 * cells[nRanks]. A pair that does not answer ends by the limits and does not end the test.
	 * An error means that nothing was tested: ginGetLastError() has the reason.
	 */
	ginResult_t (*run)(ginComm_t comm, struct selftestLimits limits,
			   struct selftestCell *cells);
};

#endif
