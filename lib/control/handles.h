/* SPDX-License-Identifier: BSD-3-Clause */
/* handles.h - exchanges file descriptors with the other ranks of this host, by UNIX sockets */
#ifndef GIN_LIB_HANDLES_H
#define GIN_LIB_HANDLES_H

#include <sys/un.h>

#include "control.h"

/* Touched by collective calls, one at a time. */
struct handles {
	struct control *control;
	int own;	 /* bound: receives the others' messages */
	int *to;	 /* [nRanks]: connected, or -1 */
	uint32_t serial; /* of the current exchange */
};

/* The address of a rank's socket, as sent to the others. */
struct handleName {
	struct sockaddr_un address;
};

/*
 * Step 1: makes a socket, unless this rank is alone on this host. Its name goes to all other ranks
 * of this host.
 */
ginResult_t handlesBind(struct handles *h, struct control *control, struct handleName *name);

/* Step 2: connects to `peer`, if it is another rank of this host. */
ginResult_t handlesConnect(struct handles *h, int peer, const struct handleName *name);

/*
 * Step 3: removes the name of this rank's socket. A rank that was killed cannot do so: also removes
 * the name of the next rank of this host or, unless all ranks have `opened`, the names of all ranks
 * of this host. Connections stay.
 */
void handlesUnbind(const struct control *control, int opened);

/* Heap of struct handles. */
size_t handlesBytes(int nRanks);

void handlesClose(struct handles *h);

/*
 * Collective among the ranks involved, which know senders and receivers from an earlier allgather.
 * Sends `fd` to every rank with to[rank] set. Receives a descriptor into fds[rank] from every rank
 * with from[rank] set; the caller closes them. All other fds[] become -1.
 */
ginResult_t handlesExchange(struct handles *h, int fd, const uint8_t *to, const uint8_t *from,
			    int *fds);

#endif
