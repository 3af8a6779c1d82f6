/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copies.h - copies between a lane's slots and windows, which the network does not reach
 *
 * A copy from or to GPU memory is made by a copy engine: each direction has a stream, in which the
 * copies are made in order, and after each batch the stream writes how many it has made. If CPUs
 * reach source and target, copiesRun() makes the copy, later than copiesStart(), as an engine does.
 */
#ifndef GIN_PROXY_COPIES_H
#define GIN_PROXY_COPIES_H

#include "backends/proxy/window.h"

/* Of a copy that was started; 0: of a copy that has been made. */
typedef uint64_t copyTicket;

enum copyDirection { copyOut, copyIn }; /* out of a window, or into a window */

struct copyOrder {
	char *to;
	const char *from;
	size_t bytes;
	enum copyDirection direction;
	int byCpu; /* CPUs reach the window */
	/* The copy is left out if `slot` no longer has this window. NULL: not checked. */
	const struct proxyWindow *window;
	uint32_t slot;
};

/* Most copies by the CPU that wait for copiesRun(). */
#define COPY_ORDERS 64u

struct copyStream {
	cuStream stream; /* NULL without a GPU */
	uint64_t *done;	 /* pinned; the stream writes how many copies it has made */
	uint64_t sent, chained;
};

/* Touched by the lane's worker, under its lock; by any thread: copiesWait(). */
struct copies {
	const struct device *device;
	const struct proxySlots *slots;
	struct copyStream stream[2]; /* by direction */
	uint64_t *lines;	     /* a cache line for each stream's `done` */
	uint64_t ordered, made;	     /* by the CPU */
	struct copyOrder order[COPY_ORDERS];
};

ginResult_t copiesOpen(const struct device *device, const struct proxySlots *slots,
		       struct copies *copies);
/* Waits for copies of the engines. */
void copiesClose(struct copies *copies);

/* Starts to copy. Returns fabricOk, fabricBusy: no room; or fabricFailed: the driver refuses. */
int copiesStart(struct copies *copies, const struct copyOrder *order, copyTicket *ticket);

/* As copiesStart(), of a value of 16 bytes at most, which may change when the call has returned. */
int copiesStartValue(struct copies *copies, const struct copyOrder *order, copyTicket *ticket);

int copiesIsMade(const struct copies *copies, copyTicket ticket);

/* Makes the copies by the CPU that were started before. */
void copiesRun(struct copies *copies);

/* Lets the streams write how many copies they have made. Returns fabricOk or fabricFailed. */
int copiesChain(struct copies *copies);

/* Waits for the copies of the engines in flight. Any thread. */
void copiesWait(const struct copies *copies);

#endif
