/* SPDX-License-Identifier: BSD-3-Clause */
/* unit_socket.c - connections with deadlines, over IPv4 and IPv6 */
#include "loopback.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>

static const struct netAddress v6 = {.family = AF_INET6, .bytes = {[15] = 1}};

/* The two sockets of a connection, without the handshake. */
static void makePair(const struct netAddress *address, int end[2])
{
	end[0] = connectTo(address);
	end[1] = socketAccept(listener, clockNow() + LONG);
	EXPECT(end[1] >= 0);
}

static void endOfConnection(void)
{
	int end[2];
	char bytes[8];

	makePair(&v4, end);
	sendAll(end[1], "1234", 4);
	close(end[1]);
	receiveAll(end[0], bytes, 4); /* the bytes before the end are there */
	EXPECT(!memcmp(bytes, "1234", 4));
	EXPECT_ERRNO(socketReceive(end[0], bytes, 1, clockNow() + LONG), ECONNRESET);
	EXPECT(!socketReceive(end[0], bytes, 0, clockNow())); /* no bytes are requested */
	close(end[0]);
}

static void endInTheMiddle(void)
{
	int end[2];
	char bytes[8];

	makePair(&v4, end);
	sendAll(end[1], "1234", 4);
	close(end[1]);
	EXPECT_ERRNO(socketReceive(end[0], bytes, sizeof(bytes), clockNow() + LONG), ECONNRESET);
	close(end[0]);
}

static void deadlines(void)
{
	int end[2];
	char bytes[8];
	uint64_t start = clockNow();

	makePair(&v4, end);
	EXPECT_ERRNO(socketReceive(end[0], bytes, 8, clockNow() + SHORT), ETIMEDOUT);
	EXPECT(clockNow() - start >= SHORT);
	sendAll(end[1], "1234", 4);
	EXPECT_ERRNO(socketReceive(end[0], bytes, 8, clockNow() + SHORT), ETIMEDOUT);
	EXPECT_ERRNO(socketReceive(end[0], bytes, 8, 0), ETIMEDOUT);
	EXPECT_ERRNO(socketAccept(listener, clockNow() + SHORT), ETIMEDOUT);
	close(end[0]);
	close(end[1]);
}

/* The peer reads nothing: the kernel's buffers fill, and then the deadline counts. */
static void sendToOneWhoDoesNotRead(void)
{
	static const char bytes[1 << 20];
	int end[2], result = 0, rounds = 0;

	makePair(&v4, end);
	while (!result && rounds++ < 1000)
		result = socketSend(end[0], bytes, sizeof(bytes), clockNow() + SHORT);
	EXPECT_ERRNO(result, ETIMEDOUT);
	close(end[1]);
	result = socketSend(end[0], bytes, sizeof(bytes), clockNow() + LONG);
	EXPECT(result == -1 && (errno == ECONNRESET || errno == EPIPE));
	EXPECT_ERRNO(socketSend(end[0], bytes, 1, clockNow() + LONG), EPIPE); /* and no SIGPIPE */
	close(end[0]);
}

struct bulk {
	int fd;
	uint32_t *words;
	size_t bytes;
};

static void *sendBulk(void *arg)
{
	const struct bulk *b = arg;

	sendAll(b->fd, b->words, b->bytes);
	return NULL;
}

/* More than any buffer holds, so that both sides wait for each other. */
static void muchData(const struct netAddress *address)
{
	enum { WORDS = 1 << 20 };
	uint32_t *out = malloc(WORDS * sizeof(*out)), *in = calloc(WORDS, sizeof(*in));
	int end[2];
	pthread_t sender;

	EXPECT(out && in);
	for (uint32_t i = 0; i < WORDS; i++)
		out[i] = i * 2654435761u;
	makePair(address, end);
	struct bulk b = {end[0], out, WORDS * sizeof(*out)};
	EXPECT(!pthread_create(&sender, NULL, sendBulk, &b));
	receiveAll(end[1], in, WORDS * sizeof(*in));
	pthread_join(sender, NULL);
	EXPECT(!memcmp(out, in, WORDS * sizeof(*in)));
	close(end[0]);
	close(end[1]);
	free(out);
	free(in);
}

static void nobodyListens(void)
{
	uint16_t unused = 0;
	int fd = socketListen(NULL, &unused);

	EXPECT(fd >= 0 && unused && unused != port);
	close(fd);
	EXPECT_ERRNO(socketConnect(&v4, unused, clockNow() + LONG), ECONNREFUSED);
}

static void addresses(void)
{
	struct netAddress found[16], one[1];
	char text[INET6_ADDRSTRLEN];
	unsigned n = socketAddresses("", found, 16);

	EXPECT(n <= 16);
	for (unsigned i = 0; i < n; i++) {
		EXPECT(found[i].family == AF_INET || found[i].family == AF_INET6);
		EXPECT(inet_ntop(found[i].family, found[i].bytes, text, sizeof(text)));
		EXPECT(strcmp(text, "127.0.0.1") && strcmp(text, "::1"));
		EXPECT(strncmp(text, "fe80:", 5));
		printf("address %s\n", text);
	}
	EXPECT_EQUAL(socketAddresses("", one, 1), n != 0);
	EXPECT_EQUAL(socketAddresses("no-such-if0", found, 16), 0);
	EXPECT_EQUAL(socketAddresses("lo", found, 16), 0);
	for (unsigned second = 0; second < 256; second++)
		EXPECT_EQUAL(socketIsLinkLocal(&(struct netAddress){
				     .family = AF_INET6, .bytes = {0xfe, (uint8_t)second}}),
			     second >= 0x80 && second <= 0xbf);
}

/* The port of a connection that this end has ended first can be used again at once. */
static void portOfEarlierJob(void)
{
	uint16_t port = (uint16_t)(20000 + getpid() % 9000); /* which the kernel gives nobody */
	int own;

	while ((own = socketListenAt(&v4, port)) < 0)
		port++;
	int peer = socketConnect(&v4, port, clockNow() + LONG);
	int fd = socketAccept(own, clockNow() + LONG);

	EXPECT(peer >= 0 && fd >= 0);
	shutdown(fd, SHUT_WR);
	char byte;
	EXPECT_EQUAL(recv(peer, &byte, 1, 0), 0);
	close(peer);
	close(fd);
	close(own);
	own = socketListenAt(&v4, port);
	EXPECT(own >= 0);
	close(own);
}

static int option(int fd, int name)
{
	int value = -1;
	socklen_t length = sizeof(value);

	EXPECT(!getsockopt(fd, IPPROTO_TCP, name, &value, &length));
	return value;
}

/*
 * Within a host no timeout ends a connection. The second connection has two addresses, as between
 * two hosts.
 */
static void silence(void)
{
	const struct netAddress second = {.family = AF_INET, .bytes = {127, 0, 0, 2}};
	int here[2], there[2];

	makePair(&v4, here);
	makePair(&second, there);
	for (int i = 0; i < 2; i++) {
		socketPatience(here[i], 60);
		EXPECT_EQUAL(option(here[i], TCP_USER_TIMEOUT), 0);
		EXPECT_EQUAL(option(here[i], TCP_KEEPCNT), 127);
		EXPECT(option(here[i], TCP_KEEPIDLE) >= 60);
		socketProbe(here[i], 1);
		EXPECT(option(here[i], TCP_KEEPIDLE) <= 8 && option(here[i], TCP_KEEPINTVL) <= 8);
		EXPECT_EQUAL(option(here[i], TCP_KEEPCNT), 127);
		socketProbe(here[i], 0);
		EXPECT(option(here[i], TCP_KEEPIDLE) >= 60);
		socketProbe(there[i], 1);
		EXPECT_EQUAL(option(there[i], TCP_USER_TIMEOUT), 25000);
		EXPECT_EQUAL(option(there[i], TCP_KEEPIDLE), 10);
		socketPatience(there[i], 60);
		EXPECT_EQUAL(option(there[i], TCP_USER_TIMEOUT), 60000);
		socketPatience(there[i], 1000000000); /* GIN_TIMEOUT's most */
		EXPECT_EQUAL(option(there[i], TCP_USER_TIMEOUT), INT_MAX / 1000 * 1000);
		close(here[i]);
		close(there[i]);
	}
}

/* IPv6 where there is a loopback address of it: both families reach one listener. */
static int hasV6(void)
{
	const struct sockaddr_in6 to = {.sin6_family = AF_INET6,
					.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int has = fd >= 0 && !bind(fd, (const struct sockaddr *)&to, sizeof(to));

	if (fd >= 0)
		close(fd);
	return has;
}

static void overV6(void)
{
	if (!hasV6()) {
		printf("left out: IPv6: there is no IPv6 loopback\n");
		return;
	}
	muchData(&v6);
	printf("IPv6 loopback tried\n");
}

/* Makes a network namespace with one ephemeral port; -1: this process may not make one. */
static int makeNetwork(void)
{
	struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP};

	if (unshare(CLONE_NEWNET) && unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return -1;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	int range = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY);
	int made = fd >= 0 && !ioctl(fd, SIOCSIFFLAGS, &loopback) && range >= 0 &&
		   write(range, "40000 40000", 11) == 11;
	close(range);
	close(fd);
	return made ? 0 : -1;
}

/* No socket listens at the port that the kernel then gives to this socket. */
static void ownPeer(void)
{
	if (makeNetwork()) {
		printf("left out: a connection to this end itself: no network namespace: %s\n",
		       strerror(errno));
		return;
	}
	EXPECT_ERRNO(socketConnect(&v4, 40000, clockNow() + LONG), ECONNREFUSED);
	int fd = socketListenAt(&v4, 40000); /* and does not stay taken */
	EXPECT(fd >= 0);
	close(fd);
}

int main(void)
{
	expectChild("this end is no peer", ownPeer);
	listenHere();
	muchData(&v4);
	overV6();
	endOfConnection();
	endInTheMiddle();
	deadlines();
	silence();
	sendToOneWhoDoesNotRead();
	nobodyListens();
	addresses();
	portOfEarlierJob();
	close(listener);
	printf("unit_socket: passed\n");
	return expectFailures != 0;
}
