/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * work.h - one descriptor after it was checked: addresses of this process, and what is to be done
 *
 * Whatever came out of the ring was resolved against windows, ranks and counts before it is here:
 * the transport may follow every address.
 */
#ifndef GIN_PROXY_WORK_H
#define GIN_PROXY_WORK_H

#include "gin/proxy/descriptor.h"
#include "backends/backend.h"

enum workState {
	workUnderWay, /* the transport has it */
	workLanded,   /* its data is where it should be; earlier ones to the peer may not be */
	workCompleted /* signalled, counted and told */
};

/* A place in memory, and whether this process's CPUs load and store there. */
struct proxyOperand {
	char *at;
	int byCpu;
};

struct proxyWork {
	uint64_t ticket;
	uint32_t peer, context;
	uint8_t op;    /* enum ginOp */
	uint8_t state; /* enum workState */
	uint8_t isWeak;
	uint8_t result; /* ginResult_t of the transfer */
	struct proxyOperand to, from;
	uint64_t bytes;
	uint64_t value[4];	/* putValue; barrier: the epoch; atomics: operand, then compare */
	uint64_t *word;		/* what is raised, set (barrier) or changed (atomics); NULL: none */
	uint64_t addend;	/* to it */
	uint64_t *counter;	/* NULL: none */
	uint64_t *oldValue;	/* where an atomic's goes; NULL: nobody wants it */
	uint64_t *resultTicket; /* and what says that it is there */
	struct proxyEngine *engine;
	uint64_t landsAt;	/* the transport's own */
	struct proxyWork *next; /* in the flow to the peer, and in the transport's list */
	struct proxyWork *nextSent;
};

#endif
