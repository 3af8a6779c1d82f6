/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * work.h - a descriptor after it was checked: the operation, this rank's operand, spots at the peer
 *
 * descriptorResolve() has checked every operand and spot against windows, ranks and counts: a
 * transport may use them. A spot is no address of this process: the peer's transport translates it.
 */
#ifndef GIN_PROXY_WORK_H
#define GIN_PROXY_WORK_H

#include "gin/proxy/descriptor.h"
#include "backends/backend.h"

/* docs/proxy.md has the table of states and transitions. */
enum workState {
	workWaiting,  /* not begun: the transport had no room */
	workUnderWay, /* the transport moves its data */
	workLanded,   /* its data has arrived; earlier works to the peer may not have */
	workTurned,   /* the data of all earlier works has arrived, too: its word may be changed */
	workCompleted /* word changed, counter counted, done word published */
};

enum wordState {
	wordNone,    /* there is no word, or it has been changed, or it never will be */
	wordDue,     /* to be changed: weak, after its data; strong, after all earlier works */
	wordUnderWay /* the transport changes it */
};

struct proxyWindow;

/* A memory operand in this process; byCpu: CPUs of this process can load and store there. */
struct proxyOperand {
	char *at;
	int byCpu;
};

/* An offset in the part of a window at the work's peer. */
struct proxySpot {
	const struct proxyWindow *window; /* NULL: none */
	uint64_t offset;
};

/* Touched by the engine's worker and its lanes, under the worker's lock. */
struct proxyWork {
	uint64_t ticket;
	uint32_t peer, context;
	uint8_t op;    /* enum ginOp */
	uint8_t state; /* enum workState */
	uint8_t wordState;
	uint8_t isWeak;
	uint8_t isLoose;	  /* a later word must not overtake it: see struct proxyFlow */
	uint8_t result;		  /* ginResult_t of the transfer */
	struct proxyOperand here; /* source; of a get the target */
	struct proxySpot there;	  /* target; of a get the source */
	struct proxySpot word;	  /* raised, set (barrier) or changed (atomic); wordNone: none */
	uint64_t bytes;
	uint64_t value[4];	/* putValue; barrier: the epoch; atomics: operand, then compare */
	uint64_t addend;	/* of a signal */
	uint64_t *counter;	/* NULL: none */
	uint64_t *oldValue;	/* the place for an atomic's old value; NULL: not wanted */
	uint64_t *resultTicket; /* is set once `oldValue` is written, or the atomic has failed */
	struct proxyEngine *engine;
	uint64_t landsAt;	    /* for the transport */
	struct proxyWork *next;	    /* in the flow to the peer */
	struct proxyWork *nextSent; /* for the transport */
};

/* Appends to the transport's list from `head` to `tail`; *tail is not read if the list is empty. */
static inline void workAppend(struct proxyWork **head, struct proxyWork **tail, struct proxyWork *w)
{
	w->nextSent = NULL;
	if (*head)
		(*tail)->nextSent = w;
	else
		*head = w;
	*tail = w;
}

/* The addend or new value of the word, or the operand of an atomic. */
static inline uint64_t workOperand(const struct proxyWork *work)
{
	return work->op >= ginOpBarrier ? work->value[0] : work->addend;
}

#endif
