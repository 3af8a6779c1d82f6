/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call.h - what the host gives the kernel of barrier(), put_signal() and wait_signal(); C and C++
 *
 * A signal pad is an array of words, word[channel * nRanks + source]. The source turns a word from
 * 0 to 1, the pad's owner from 1 to 0, as PyTorch's own kernels do: a call of one rank pairs with
 * a kernel of PyTorch, Triton or CUDA on another rank.
 *
 * Ranks without a direct route to each other count instead, by signals of libgin: a rank raises if
 * its peer has taken all earlier signals.
 */
#ifndef GIN_SYMM_CALL_H
#define GIN_SYMM_CALL_H

#include <stdint.h>

#include "gin/core/abi.h"

/* The steps of a call, for each of its peers. */
#define SYMM_RAISE 1u /* 0 to 1 in the peer's pad */
#define SYMM_TAKE 2u  /* 1 to 0 in this rank's pad */
#define SYMM_PUT 4u   /* bytes for the peer */
#define SYMM_FLUSH 8u /* their source may change; after SYMM_PUT */

/* A rank's signals with one peer on one channel. The peer adds to the first two words. */
struct symmCount {
	uint64_t come;	 /* signals of the peer */
	uint64_t passed; /* signals at the peer that the peer has taken */
	uint64_t raised; /* signals at the peer */
	uint64_t taken;	 /* signals of the peer */
};

/* From `stop` to `isReleased`, in nanoseconds. */
#define SYMM_GRACE 200000000ull

/* Record 0: all calls that the host does not wait for. Each other one: one call at a time. */
enum { symmLater, SYMM_RECORDS = 33 };

/* Host memory that kernels write and read. missing[record * nRanks + peer]: the steps not done. */
struct symmPage {
	int32_t stop;	    /* ginSuccess, or why waits end: ginErrorPeer, ginErrorAborted */
	int32_t isReleased; /* the host changes pads: what a call takes may be no signal */
	struct symmRecord {
		int32_t result; /* ginSuccess: no call has failed */
		uint32_t channel, steps;
	} record[SYMM_RECORDS];
	uint8_t missing[];
};

struct symmCall {
	uint32_t *const *pads; /* of all ranks */
	uint8_t *done;	       /* of the channel, [nRanks]: steps that a failed barrier has done */
	struct symmPage *page;
	uint64_t timeout; /* nanoseconds; 0: none */
	uint32_t rank, nRanks, channel;
	uint32_t first, count; /* peers; more than one: a barrier, which leaves out this rank */
	uint32_t steps;
	uint32_t record;
	/* For peers without a direct route. */
	const struct ginDevComm *dc; /* NULL: there are none */
	ginWindow_t padWindow, window;
	struct symmCount *counts; /* of the channel, [nRanks] */
	uint64_t countsAt;	  /* their offset in padWindow */
	const void *source;
	uint64_t at, bytes; /* of the put, in `window` */
};

#endif
