/* SPDX-License-Identifier: BSD-3-Clause */
/* datagram.h - UDP, and which addresses refuse it; no call waits */
#ifndef GIN_LIB_DATAGRAM_H
#define GIN_LIB_DATAGRAM_H

#include <netinet/in.h>
#include <sys/types.h>

#include "lib/base/net/socket.h"

union datagramAddress {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/*
 * A socket at a port that the kernel chooses; `at` NULL: at every address. -1 with errno. The port
 * stays closed to others until the socket is closed.
 */
int datagramOpen(const struct netAddress *at, uint16_t *port);

/*
 * The address to which this socket sends; 0, or -1 where the socket cannot send to such addresses.
 */
int datagramAddress(int fd, const struct netAddress *to, uint16_t port, union datagramAddress *out);

int datagramSameAddress(const union datagramAddress *a, const union datagramAddress *b);

/* A datagram that cannot be sent is lost. */
void datagramSend(int fd, const void *data, size_t bytes, const union datagramAddress *to);

/* The bytes of the next datagram that has arrived, or -1. */
ssize_t datagramReceive(int fd, void *data, size_t bytes, union datagramAddress *from);

/*
 * 1: a datagram to *to has come back, because no socket has the port (*refused is 1), or because
 * the network does not lead there (0). 0: none has come back.
 */
int datagramReturned(int fd, union datagramAddress *to, int *refused);

#endif
