/* SPDX-License-Identifier: BSD-3-Clause */
/* socket.h - TCP with deadlines; every call returns -1 with errno on failure */
#ifndef GIN_LIB_SOCKET_H
#define GIN_LIB_SOCKET_H

#include <stddef.h>
#include <stdint.h>

/* An IPv4 or IPv6 address, as sent to other ranks. */
struct netAddress {
	uint16_t family;   /* AF_INET or AF_INET6 */
	uint8_t bytes[16]; /* network order; AF_INET uses 4 */
};

/* An address of this host. */
struct netInterface {
	struct netAddress address;
	char name[16]; /* of its interface: IF_NAMESIZE */
	unsigned flaws;
};

/*
 * Addresses of this host that other hosts may reach: of interfaces that are up, without loopback
 * and link-local IPv6 addresses. Most likely ones first: of the interface that leads to the default
 * gateway, then of other ones, then of bridges, which may lead to containers alone, then of those
 * without carrier, then deprecated ones. Returns the number, or -1 with errno; the caller frees
 * *out.
 */
int socketInterfaces(struct netInterface **out);

/*
 * The first `most` addresses of socketInterfaces(). `ifname` "": every interface. Returns the
 * number.
 */
unsigned socketAddresses(const char *ifname, struct netAddress *out, unsigned most);

/*
 * The address of this end of a connection with another host: returns 0 if the other end has this
 * address too, and so is on this host.
 */
int socketOwn(int fd, struct netAddress *out);

/* The address at the other end, in words. */
void socketPeer(int fd, char *out, size_t bytes);

struct sockaddr;
void socketAddress(const struct sockaddr *from, struct netAddress *out);
int socketIsLoopback(const struct netAddress *address);

/* Of IPv6: it means something only together with an interface of this host. */
int socketIsLinkLocal(const struct netAddress *address);

/* As socketListenAt(), at a port that the kernel chooses. */
int socketListen(const struct netAddress *at, uint16_t *port);

/* Listens on the address, or on every address when `at` is NULL. */
int socketListenAt(const struct netAddress *at, uint16_t port);

int socketConnect(const struct netAddress *to, uint16_t port, uint64_t deadline);

/* The halves of socketConnect(), which do not wait; the second one when `fd` can be written to. */
int socketConnectBegin(const struct netAddress *to, uint16_t port);
int socketConnectEnd(int fd);

/* A connection, or -1 with ETIMEDOUT. */
int socketAccept(int listener, uint64_t deadline);

/*
 * Data that the other host does not acknowledge ends the connection after 25 s, or after `seconds`
 * unless `seconds` is 0. Within a host, silence never ends a connection.
 */
void socketPatience(int fd, unsigned seconds);

/*
 * While this end waits for a listener's first word, probes within a host are sent every few
 * seconds (`soon`): the listener may have closed when the connection was made, and its reset was
 * lost. Afterwards (0) they are rare again.
 */
void socketProbe(int fd, int soon);

/* Nanoseconds since the other host last acknowledged anything; UINT64_MAX: not known. */
uint64_t socketUnanswered(int fd);

/* All bytes, or -1: ETIMEDOUT, ECONNRESET when the peer has closed, or the kernel's errno. */
int socketSend(int fd, const void *data, size_t bytes, uint64_t deadline);
int socketReceive(int fd, void *data, size_t bytes, uint64_t deadline);

#endif
