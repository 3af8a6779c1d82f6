/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * steps.c - 64 KiB messages over one TCP connection on loopback, with the system calls of libfabric's
 * providers added one by one
 *
 *	steps [STARTS]
 *
 * A line for each kind: the median rate over STARTS (5) pairs of processes, each with a connection of
 * its own, the least and the most; then the system calls for each message. A pair's rate is that of the
 * best of its 4 batches.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LARGE 65536u
#define MESSAGES 400u /* of a batch */
#define BATCHES 4u
#define DEPTH 64u /* messages without an acknowledgement */
#define STARTS_MOST 64
#define HEADER 40u
#define ACK 16u

struct kind {
	const char *name;
	int epoll; /* before each receive; and instead of another send, if there is no room */
	uint32_t prefetch; /* bytes that are received with a header, and copied */
	uint32_t acks;	   /* messages for each acknowledgement; 0: one for all */
};

static const struct kind kinds[] = {
	{"raw", 0, 0, 0},
	{"raw, an acknowledgement each", 0, 0, 1},
	{"raw, an acknowledgement for 8", 0, 0, 8},
	{"epoll", 1, 0, 0},
	{"epoll, 9000 bytes with the header", 1, 9000, 0},
	{"epoll, 512 bytes with the header", 1, 512, 0},
	{"as net: epoll, 9000, an acknowledgement each", 1, 9000, 1},
	{"epoll, 9000, an acknowledgement for 8", 1, 9000, 8},
	{"epoll, 512, an acknowledgement for 8", 1, 512, 8},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

enum { callSend, callReceive, callEpoll, CALLS };

struct shared {
	double rate; /* GB/s */
	uint32_t calls[2][CALLS];
	uint32_t isDone;
};

struct end {
	const struct kind *kind;
	int fd, epoll, wantsRoom;
	char *window, *ahead;
	uint32_t ackBytes; /* that have come */
	uint32_t calls[CALLS];
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double nowUs(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void endOpen(struct end *e, int fd, const struct kind *kind)
{
	struct epoll_event event = {.events = EPOLLIN};
	int one = 1;

	*e = (struct end){.kind = kind, .fd = fd, .epoll = epoll_create1(0)};
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	e->window = aligned_alloc(4096, 1 << 20);
	e->ahead = malloc(LARGE);
	if (!e->window || !e->ahead || epoll_ctl(e->epoll, EPOLL_CTL_ADD, fd, &event))
		die("an end");
	memset(e->window, 1, 1 << 20);
}

/* What epoll says about the connection. */
static uint32_t look(struct end *e)
{
	struct epoll_event event;

	e->calls[callEpoll]++;
	return epoll_wait(e->epoll, &event, 1, 0) > 0 ? event.events : 0;
}

static void wantRoom(struct end *e, int wants)
{
	struct epoll_event event = {.events = EPOLLIN | (wants ? EPOLLOUT : 0)};

	if (e->wantsRoom == wants)
		return;
	e->wantsRoom = wants;
	e->calls[callEpoll]++;
	epoll_ctl(e->epoll, EPOLL_CTL_MOD, e->fd, &event);
}

/* Returns the bytes, or 0: nothing has come. */
static size_t receive(struct end *e, void *to, size_t bytes)
{
	if (e->kind->epoll && !(look(e) & EPOLLIN))
		return 0;
	e->calls[callReceive]++;
	ssize_t got = recv(e->fd, to, bytes, 0);
	if (!got || (got < 0 && errno != EAGAIN))
		die("recv");
	return got < 0 ? 0 : (size_t)got;
}

static void receiveAcks(struct end *e)
{
	char acks[ACK * DEPTH];

	e->ackBytes += (uint32_t)receive(e, acks, sizeof(acks));
}

static void awaitRoom(struct end *e)
{
	if (!e->kind->epoll) {
		receiveAcks(e);
		sched_yield();
		return;
	}
	wantRoom(e, 1);
	while (!(look(e) & EPOLLOUT))
		receiveAcks(e);
	wantRoom(e, 0);
}

static void sendMessage(struct end *e)
{
	uint64_t header[HEADER / 8] = {LARGE};
	struct iovec iov[2] = {{header, HEADER}, {e->window, LARGE}}, *at = iov;

	while (at < iov + 2) {
		struct msghdr message = {.msg_iov = at, .msg_iovlen = (size_t)(iov + 2 - at)};
		e->calls[callSend]++;
		ssize_t sent = sendmsg(e->fd, &message, MSG_NOSIGNAL);
		if (sent < 0 && errno != EAGAIN)
			die("sendmsg");
		for (size_t left = sent < 0 ? 0 : (size_t)sent; left;) {
			size_t step = left < at->iov_len ? left : at->iov_len;
			at->iov_base = (char *)at->iov_base + step;
			at->iov_len -= step;
			left -= step;
			at += !at->iov_len;
		}
		if (at < iov + 2)
			awaitRoom(e);
	}
}

static void receiveAll(struct end *e, char *to, size_t bytes)
{
	while (bytes) {
		size_t got = receive(e, to, bytes);
		to += got;
		bytes -= got;
	}
}

static void receiveMessage(struct end *e)
{
	uint32_t got = 0, most = e->kind->prefetch ? e->kind->prefetch : HEADER;

	while (got < HEADER)
		got += (uint32_t)receive(e, e->ahead + got, most - got);
	memcpy(e->window, e->ahead + HEADER, got - HEADER);
	receiveAll(e, e->window + got - HEADER, LARGE - (got - HEADER));
}

static void acknowledge(struct end *e)
{
	const char ack[ACK] = "";

	e->calls[callSend]++;
	if (send(e->fd, ack, ACK, MSG_NOSIGNAL) != ACK)
		die("send");
}

static uint32_t acksOf(const struct kind *kind, uint32_t messages)
{
	return kind->acks ? messages / kind->acks : messages == MESSAGES;
}

static void receiveBatch(struct end *e)
{
	for (uint32_t i = 1; i <= MESSAGES; i++) {
		receiveMessage(e);
		if (acksOf(e->kind, i) != acksOf(e->kind, i - 1))
			acknowledge(e);
	}
}

/* Returns GB/s. */
static double sendBatch(struct end *e)
{
	double start = nowUs();

	e->ackBytes = 0;
	for (uint32_t i = 0; i < MESSAGES; i++) {
		while (e->kind->acks && i >= DEPTH &&
		       e->ackBytes / ACK < acksOf(e->kind, i - DEPTH))
			receiveAcks(e);
		sendMessage(e);
		if (e->kind->acks)
			receiveAcks(e);
	}
	while (e->ackBytes / ACK < acksOf(e->kind, MESSAGES))
		receiveAcks(e);
	return (double)LARGE * MESSAGES / (nowUs() - start) / 1e3;
}

static void receiver(int listener, const struct kind *kind, struct shared *s)
{
	struct end e;

	endOpen(&e, accept(listener, NULL, NULL), kind);
	for (uint32_t i = 0; i < BATCHES; i++)
		receiveBatch(&e);
	memcpy(s->calls[1], e.calls, sizeof(e.calls));
	while (!__atomic_load_n(&s->isDone, __ATOMIC_ACQUIRE))
		usleep(100);
	exit(0);
}

static void sender(const struct sockaddr_in *to, const struct kind *kind, struct shared *s)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct end e;

	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)))
		die("connect");
	endOpen(&e, fd, kind);
	for (uint32_t i = 0; i < BATCHES; i++) {
		double rate = sendBatch(&e);
		s->rate = rate > s->rate ? rate : s->rate;
	}
	memcpy(s->calls[0], e.calls, sizeof(e.calls));
	__atomic_store_n(&s->isDone, 1, __ATOMIC_RELEASE);
	exit(0);
}

/* A connection of two new processes: the rate of its best batch. */
static double runKind(const struct kind *kind, struct shared *s)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t length = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(listener, (struct sockaddr *)&at, length) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&at, &length))
		die("listen");
	memset(s, 0, sizeof(*s));
	if (!fork())
		receiver(listener, kind, s);
	if (!fork())
		sender(&at, kind, s);
	close(listener);
	while (wait(NULL) > 0)
		;
	return s->rate;
}

static int byRate(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) -
	       (*(const double *)a < *(const double *)b);
}

static double each(uint32_t calls)
{
	return (double)calls / MESSAGES / BATCHES;
}

int main(int argc, char **argv)
{
	static double rate[KINDS][STARTS_MOST];
	static struct shared last[KINDS];
	int starts = argc > 1 ? atoi(argv[1]) : 5;
	struct shared *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (s == MAP_FAILED || starts < 1 || starts > STARTS_MOST)
		die("steps [STARTS]");
	for (int i = 0; i < starts; i++)
		for (size_t k = 0; k < KINDS; k++) {
			rate[k][i] = runKind(&kinds[k], s);
			last[k] = *s;
		}
	for (size_t k = 0; k < KINDS; k++) {
		qsort(rate[k], (size_t)starts, sizeof(double), byRate);
		printf("%-45s %.2f (%.2f to %.2f) GB/s; sender: %.2f sends, %.2f receives; "
		       "receiver: %.2f sends\n",
		       kinds[k].name, rate[k][starts / 2], rate[k][0], rate[k][starts - 1],
		       each(last[k].calls[0][callSend]), each(last[k].calls[0][callReceive]),
		       each(last[k].calls[1][callSend]));
	}
	return 0;
}
