/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * work.h - a descriptor after it was checked: the operation, with addresses of this process
 *
 * descriptorResolve() has checked every address against windows, ranks and counts: a transport may
 * use them.
 */
#ifndef GIN_PROXY_WORK_H
#define GIN_PROXY_WORK_H

#include "gin/proxy/descriptor.h"
#include "backends/backend.h"

enum workState {
	workUnderWay, /* the transport moves its data */
	workLanded,   /* its data has arrived; earlier works to the peer may not have */
	workCompleted /* signal raised, counter counted, done word published */
};

/* A memory operand; byCpu: CPUs of this process can load and store there. */
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
	uint64_t *word;		/* to raise, to set (barrier) or to change (atomic); NULL: none */
	uint64_t addend;	/* of a signal */
	uint64_t *counter;	/* NULL: none */
	uint64_t *oldValue;	/* where an atomic's old value goes; NULL: not wanted */
	uint64_t *resultTicket; /* is set once `oldValue` is written, or the atomic has failed */
	struct proxyEngine *engine;
	uint64_t landsAt;	    /* for the transport */
	struct proxyWork *next;	    /* in the flow to the peer */
	struct proxyWork *nextSent; /* for the transport */
};

#endif
