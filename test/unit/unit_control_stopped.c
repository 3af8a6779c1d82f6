/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_control_stopped.c - a rank whose process is stopped is not dead, even where a message does
 * not fit the buffers of the sockets
 *
 * Rank 0 is a control plane. This file plays rank 1, which stops for longer than 10 s.
 */
#include "control_team.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#define STOP_US 11000000

/* Rank 1's socket has the address 127.0.0.1: the addresses differ, as between two hosts. */
static const struct netAddress otherHost = {.family = AF_INET, .bytes = {127, 0, 0, 2}};

struct half {
	const char *name;
	struct identity ranks[2];
	struct control control;
	int fd; /* rank 1's socket */
	int stopsReading;
	pthread_t rank0, rank1;
};

static uint8_t byteOf(int rank, size_t i)
{
	return (uint8_t)(i * 31 + (size_t)rank * 7 + (i >> 8));
}

static void noFailure(void *arg, int rank, ginResult_t result)
{
	expectThat(0, __FILE__, __LINE__, "%s: rank %d failed: %s", ((struct half *)arg)->name,
		   rank, ginGetErrorString(result));
}

/* A connection with small buffers. */
static void shrink(int fd)
{
	int bytes = 4096;

	EXPECT(!setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)));
	EXPECT(!setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)));
}

static void *runRank0(void *arg)
{
	struct half *h = arg;
	static const size_t bytes = CONTROL_BYTES;
	uint8_t *in = malloc(bytes), *out = malloc(2 * bytes);
	int same = 1;

	errorScope(h->name, 0);
	EXPECT(in && out);
	for (size_t i = 0; i < bytes; i++)
		in[i] = byteOf(0, i);
	EXPECT_SUCCESS(controlOpen(&h->control, h->ranks, h->ranks[0].nonce, noFailure, h));
	shrink(h->control.link[0].fd);
	EXPECT_SUCCESS(controlAllgather(&h->control, "all", ginSuccess, in, out, bytes));
	for (size_t i = 0; i < 2 * bytes; i++)
		same &= out[i] == byteOf(i >= bytes, i % bytes);
	EXPECT(same);
	free(in);
	free(out);
	return NULL;
}

/* An option of rank 0's socket. */
static int option(struct half *h, int name)
{
	int value = 0;
	socklen_t length = sizeof(value);

	pthread_mutex_lock(&h->control.lock);
	EXPECT(!getsockopt(h->control.link[0].fd, IPPROTO_TCP, name, &value, &length));
	pthread_mutex_unlock(&h->control.lock);
	return value;
}

/* For how long the kernel waits for rank 1 to read, in milliseconds. */
static int patience(struct half *h)
{
	return option(h, TCP_USER_TIMEOUT);
}

/* The first probe after that time finds that a host has vanished: within 30 s. */
static void expectProbes(struct half *h)
{
	EXPECT(option(h, TCP_KEEPIDLE) * 1000 <= patience(h));
	EXPECT(patience(h) + option(h, TCP_KEEPINTVL) * 1000 <= 30000);
}

static void *runRank1(void *arg)
{
	struct half *h = arg;
	static const size_t bytes = CONTROL_BYTES;
	uint64_t end = clockNow() + 3 * TEAM_SECONDS * SECOND;
	struct controlHeader header = {.type = controlUp,
				       .seq = 1,
				       .bytes = sizeof(struct controlEntry) + bytes,
				       .call = "all"};
	struct controlEntry entry = {1, ginSuccess, (uint32_t)bytes, 0};
	size_t all = 2 * bytes;
	uint8_t *data = malloc(all);

	EXPECT(data != NULL);
	for (size_t i = 0; i < bytes; i++)
		data[i] = byteOf(1, i);
	h->fd = socketConnect(&otherHost, h->ranks[0].port, end);
	EXPECT(h->fd >= 0);
	shrink(h->fd);
	EXPECT(!authConnect(h->fd, h->ranks[0].nonce, 1, end));
	EXPECT(!socketSend(h->fd, &header, sizeof(header) / 2, end));
	if (!h->stopsReading) {
		usleep(STOP_US);
		expectProbes(h);
	}
	EXPECT(!socketSend(h->fd, (char *)&header + sizeof(header) / 2,
			   sizeof(header) - sizeof(header) / 2, end));
	EXPECT(!socketSend(h->fd, &entry, sizeof(entry), end));
	EXPECT(!socketSend(h->fd, data, bytes, end));
	if (h->stopsReading) {
		usleep(STOP_US);
		EXPECT_EQUAL(patience(h), 60000); /* GIN_TIMEOUT */
	}
	EXPECT(!socketReceive(h->fd, &header, sizeof(header), end));
	EXPECT_EQUAL(header.type, controlAll);
	EXPECT_EQUAL(header.bytes, all);
	EXPECT(!socketReceive(h->fd, data, all, end));
	header = (struct controlHeader){.type = controlBye};
	EXPECT(!socketSend(h->fd, &header, sizeof(header), end));
	free(data);
	return NULL;
}

static void start(struct half *h, const char *name, int stopsReading)
{
	*h = (struct half){.name = name, .stopsReading = stopsReading};
	EXPECT_SUCCESS(identityMake(&h->ranks[0]));
	EXPECT_SUCCESS(identityMake(&h->ranks[1]));
	EXPECT_SUCCESS(controlPrepare(&h->control, 0, 2, &h->ranks[0]));
	EXPECT(!pthread_create(&h->rank0, NULL, runRank0, h));
	EXPECT(!pthread_create(&h->rank1, NULL, runRank1, h));
}

static void stop(struct half *h)
{
	pthread_join(h->rank0, NULL);
	pthread_join(h->rank1, NULL);
	controlClose(&h->control);
	close(h->fd);
}

static void stopped(void)
{
	static struct half reads, sends;

	start(&reads, "stops reading", 1);
	start(&sends, "stops sending", 0);
	stop(&reads);
	stop(&sends);
}

int main(void)
{
	setenv("GIN_LOG", "none", 0);
	setenv("GIN_TIMEOUT", "60", 1);
	expectChild("a rank stops inside a message", stopped);
	return expectFailures != 0;
}
