/* SPDX-License-Identifier: BSD-3-Clause */
/* loopback.h - connections of a test with itself */
#ifndef GIN_TEST_LOOPBACK_H
#define GIN_TEST_LOOPBACK_H

#include "lib/base/clock.h"
#include "lib/base/net/socket.h"

#include "expect.h"

#include <sys/socket.h>

#define LONG (20 * SECOND) /* limit for bytes that are due at once */
#define SHORT (SECOND / 20)

static const struct netAddress v4 = {.family = AF_INET, .bytes = {127, 0, 0, 1}};

static int listener;
static uint16_t port;

static inline void listenHere(void)
{
	listener = socketListen(NULL, &port);
	EXPECT(listener >= 0 && port);
}

static inline int connectTo(const struct netAddress *address)
{
	int fd = socketConnect(address, port, clockNow() + LONG);

	expectThat(fd >= 0, __FILE__, __LINE__, "no connection to port %u: %s", port,
		   strerror(errno));
	return fd;
}

static inline void receiveAll(int fd, void *data, size_t bytes)
{
	EXPECT(!socketReceive(fd, data, bytes, clockNow() + LONG));
}

static inline void sendAll(int fd, const void *data, size_t bytes)
{
	EXPECT(!socketSend(fd, data, bytes, clockNow() + LONG));
}

#endif
