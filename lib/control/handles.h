/* SPDX-License-Identifier: BSD-3-Clause */
/* handles.h - file descriptors to the other ranks of this host, over UNIX sockets */
#ifndef GIN_LIB_HANDLES_H
#define GIN_LIB_HANDLES_H

#include <sys/un.h>

#include "control.h"

struct handles {
	struct control *control;
	int own;	 /* bound: what the others send arrives here */
	int *to;	 /* [nRanks]: connected, or -1 */
	uint32_t serial; /* of the exchange */
};

/* Where a rank's socket is, as it travels to the others. */
struct handleName {
	struct sockaddr_un address;
};

/* First of two steps: a socket, whose name goes to all other ranks of this host. */
ginResult_t handlesBind(struct handles *h, struct control *control, struct handleName *name);

/* Connects to `peer`, if it is another rank of this host. */
ginResult_t handlesConnect(struct handles *h, int peer, const struct handleName *name);

/* The name goes away, if there was one; what is connected stays. */
void handlesUnbind(const struct handleName *name);

void handlesClose(struct handles *h);

/*
 * Collective among the ranks involved, each of which knows from data gathered before who sends to
 * whom: sends `fd` to every rank with to[rank] set, receives one from every rank with from[rank]
 * set into fds[rank], which the caller closes; the others become -1.
 */
ginResult_t handlesExchange(struct handles *h, int fd, const uint8_t *to, const uint8_t *from,
			    int *fds);

#endif
