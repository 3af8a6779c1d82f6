/* SPDX-License-Identifier: BSD-3-Clause */
/* socket.h - TCP with deadlines; every call returns -1 with errno on failure */
#ifndef GIN_LIB_SOCKET_H
#define GIN_LIB_SOCKET_H

#include <stddef.h>
#include <stdint.h>

/* An IPv4 or IPv6 address as it travels to other ranks. */
struct netAddress {
	uint16_t family;   /* AF_INET or AF_INET6 */
	uint8_t bytes[16]; /* network order; 4 are used by AF_INET */
};

/*
 * Addresses of this host that others may reach: of the interfaces that are up, without loopback
 * and link-local ones. `ifname` "" means every interface. Returns how many, at most `most`.
 */
unsigned socketAddresses(const char *ifname, struct netAddress *out, unsigned most);

/* Who is at the other end, in words. */
void socketPeer(int fd, char *out, size_t bytes);

struct sockaddr;
void socketAddress(const struct sockaddr *from, struct netAddress *out);
int socketIsLoopback(const struct netAddress *address);

/* Listens on every address, on a port that the kernel chooses. */
int socketListen(uint16_t *port);

/* Listens on one address, or every one when `at` is NULL, on the port. */
int socketListenAt(const struct netAddress *at, uint16_t port);

int socketConnect(const struct netAddress *to, uint16_t port, uint64_t deadline);

/* A connection, or -1 with ETIMEDOUT. */
int socketAccept(int listener, uint64_t deadline);

/* All bytes or -1: ETIMEDOUT, ECONNRESET at the peer's end, or the kernel's reason. */
int socketSend(int fd, const void *data, size_t bytes, uint64_t deadline);
int socketReceive(int fd, void *data, size_t bytes, uint64_t deadline);

#endif
