/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_killed.c - a rank is killed at a chosen moment of ginCommInit() or ginCommSplit(): the other
 * ranks end at once
 *
 * This file intercepts the library's bind() and connect().
 */
#include "expect.h"
#include "lib/base/clock.h"
#include "ranks.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum moment { IN_BIND, IN_CONNECT_UNIX, IN_CONNECT };

static int victim = -1; /* set in the victim's process */
static enum moment moment;

static int dies(enum moment now, const struct sockaddr *address, int family)
{
	return victim >= 0 && moment == now && address->sa_family == family;
}

int bind(int fd, const struct sockaddr *address, socklen_t length)
{
	int result = (int)syscall(SYS_bind, fd, address, length);

	if (dies(IN_BIND, address, AF_UNIX)) {
		EXPECT(!result);
		raise(SIGKILL);
	}
	return result;
}

/* A datagram socket is connected to find the own address, before ranks meet. */
static int isStream(int fd)
{
	int type = 0;
	socklen_t bytes = sizeof(type);

	return !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) && type == SOCK_STREAM;
}

int connect(int fd, const struct sockaddr *address, socklen_t length)
{
	if ((isStream(fd) && dies(IN_CONNECT, address, AF_INET)) ||
	    dies(IN_CONNECT_UNIX, address, AF_UNIX))
		raise(SIGKILL);
	return (int)syscall(SYS_connect, fd, address, length);
}

static int openBesideVictim(const ginConfig_t *config, int rank)
{
	ginConfig_t host = *config;
	ginComm_t comm = NULL;

	host.device = GIN_DEVICE_NONE;
	if (config->rank == rank)
		victim = rank;
	EXPECT_FAILS(ginCommInit(&host, &comm), ginErrorPeer, "has died");
	return 0;
}

static int lastDies(const ginConfig_t *config)
{
	return openBesideVictim(config, config->nRanks - 1);
}

static int firstDies(const ginConfig_t *config)
{
	return openBesideVictim(config, 0);
}

static void expectDeaths(int (*run)(const ginConfig_t *config), int rank)
{
	for (moment = IN_BIND; moment <= IN_CONNECT_UNIX; moment++) {
		const int *result = ranksStart(4, 0, run);
		for (int r = 0; r < 4; r++)
			EXPECT_EQUAL(result[r], r == rank ? 128 + SIGKILL : 0);
	}
}

static void last(void)
{
	expectDeaths(lastDies, 3);
}

static void first(void)
{
	expectDeaths(firstDies, 0);
}

/* The part's ranks have met by the communicator, and are about to connect to each other. */
static int splitBesideVictim(const ginConfig_t *config)
{
	ginConfig_t host = *config;
	ginComm_t comm = NULL, part = NULL;

	host.device = GIN_DEVICE_NONE;
	EXPECT_SUCCESS(ginCommInit(&host, &comm));
	if (config->rank == config->nRanks - 1)
		victim = config->rank;
	moment = IN_CONNECT;
	EXPECT_FAILS(ginCommSplit(comm, 0, 0, &part), ginErrorPeer, "rank 3 (host ", "has died");
	ginCommDestroy(comm);
	return 0;
}

static void inSplit(void)
{
	uint64_t start = clockNow();
	const int *result = ranksStart(4, 0, splitBesideVictim);

	for (int r = 0; r < 4; r++)
		EXPECT_EQUAL(result[r], r == 3 ? 128 + SIGKILL : 0);
	EXPECT(clockNow() - start < 20 * SECOND);
}

int main(void)
{
	setenv("GIN_LOG", "none", 0);
	setenv("GIN_TIMEOUT", "60", 0);
	expectChild("the last rank is killed", last);
	expectChild("rank 0 is killed", first);
	expectChild("a rank is killed in ginCommSplit()", inSplit);
	return expectFailures != 0;
}
