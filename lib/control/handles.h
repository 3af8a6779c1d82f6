/* SPDX-License-Identifier: BSD-3-Clause */
/* handles.h - exchanges file descriptors with the other ranks of this host, by UNIX sockets */
#ifndef GIN_LIB_HANDLES_H
#define GIN_LIB_HANDLES_H

#include "control.h"

/* Touched by collective calls, one at a time. */
struct handles {
	struct control *control;
	int own;	 /* bound: receives the others' messages */
	int *to;	 /* [nRanks]: connected, or -1 */
	uint32_t serial; /* of the current exchange */
};

/*
 * Step 1: makes a socket, unless this rank is alone on this host. Its name is abstract, follows
 * from the communicator's key, and ends with the socket.
 */
ginResult_t handlesBind(struct handles *h, struct control *control);

/*
 * Step 2, when all ranks have made theirs: connects to `peer`, if it is another rank of this host.
 * If all ranks take part in a later collective, the sockets of all ranks are connected.
 */
ginResult_t handlesConnect(struct handles *h, int peer);

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
