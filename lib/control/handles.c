/* SPDX-License-Identifier: BSD-3-Clause */
/* handles.c - exchanges file descriptors with the other ranks of this host */
#include "handles.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/net/auth.h"
#include "lib/base/clock.h"
#include "lib/base/deadline.h"
#include "lib/base/file.h"

#define PROOF_WORDS (AUTH_KEY_BYTES / sizeof(uint64_t))

struct handleMessage {
	uint32_t rank;
	uint32_t serial;
	uint64_t proof[PROOF_WORDS]; /* proveSender() */
};

/* The ancillary data of a message: one file descriptor. */
union handleAncillary {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

/* 128 bits that follow from the communicator's key, for one use of it and three numbers. */
static void derive(const struct control *c, const char use[8], const uint32_t number[3],
		   uint64_t out[PROOF_WORDS])
{
	uint8_t text[8 + 3 * sizeof(uint32_t)];

	memcpy(text, use, 8);
	memcpy(text + 8, number, 3 * sizeof(uint32_t));
	authDerive(c->key, text, sizeof(text), (uint8_t *)out);
}

/*
 * Every process of the network namespace may send to the socket: the proof, for a rank and an
 * exchange, shows that the sender of a descriptor knows the key.
 */
static void proveSender(const struct control *c, int to, struct handleMessage *m)
{
	derive(c, "sender\0", (const uint32_t[3]){m->rank, (uint32_t)to, m->serial}, m->proof);
}

/*
 * The abstract name of a rank's socket, which all ranks derive from the communicator's key. Nobody
 * else can take it before the rank does. The kernel lists names, so another process could take the
 * name of a rank that has ended; but then the collective fails that follows the connections, and
 * this rank sends no descriptor. Returns the bytes of the address.
 */
static socklen_t nameOf(const struct control *c, int rank, struct sockaddr_un *out)
{
	uint64_t word[PROOF_WORDS];

	*out = (struct sockaddr_un){.sun_family = AF_UNIX};
	derive(c, "socket\0", (const uint32_t[3]){(uint32_t)rank, 0, 0}, word);
	int length = snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "gin-%016llx%016llx",
			      (unsigned long long)word[0], (unsigned long long)word[1]);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int isLocal(const struct control *c, int rank)
{
	return identitySameHost(&c->ranks[rank], &c->ranks[c->rank]);
}

static int hasLocalPeer(const struct control *c)
{
	for (int r = 0; r < c->nRanks; r++)
		if (r != c->rank && isLocal(c, r))
			return 1;
	return 0;
}

static ginResult_t bindOwn(struct handles *h)
{
	struct sockaddr_un name;
	socklen_t bytes = nameOf(h->control, h->control->rank, &name);

	h->own = fileAboveStandard(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (h->own < 0 || bind(h->own, (const struct sockaddr *)&name, bytes))
		return failErrno("cannot make the socket for memory handles");
	return ginSuccess;
}

ginResult_t handlesConnect(struct handles *h, int peer)
{
	struct sockaddr_un name;

	if (peer == h->control->rank || !isLocal(h->control, peer))
		return ginSuccess;
	socklen_t bytes = nameOf(h->control, peer, &name);
	int fd = fileAboveStandard(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

	h->to[peer] = fd;
	if (fd < 0)
		return failErrno("cannot make a socket for rank %d", peer);
	if (!connect(fd, (const struct sockaddr *)&name, bytes))
		return ginSuccess;
	return fail(ginErrorSystem,
		    "cannot reach the UNIX socket of rank %d, of this host: %m; if the ranks are "
		    "in two network namespaces, do not give them one GIN_HOSTID",
		    peer);
}

size_t handlesBytes(int nRanks)
{
	return (size_t)nRanks * sizeof(int);
}

ginResult_t handlesBind(struct handles *h, struct control *control)
{
	size_t n = (size_t)control->nRanks;

	*h = (struct handles){
		.control = control, .own = -1, .to = malloc(handlesBytes(control->nRanks))};
	if (!h->to)
		return fail(ginErrorSystem, "no memory");
	for (size_t r = 0; r < n; r++)
		h->to[r] = -1;
	return hasLocalPeer(control) ? bindOwn(h) : ginSuccess;
}

void handlesClose(struct handles *h)
{
	if (!h->to)
		return;
	for (int r = 0; r < h->control->nRanks; r++)
		if (h->to[r] >= 0)
			close(h->to[r]);
	free(h->to);
	if (h->own >= 0)
		close(h->own);
	*h = (struct handles){.own = -1};
}

static void addHandle(struct msghdr *message, union handleAncillary *ancillary, int fd)
{
	message->msg_control = ancillary->bytes;
	message->msg_controllen = sizeof(ancillary->bytes);
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(int));
}

/* The peer's socket is full, or this user has too many descriptors in flight. */
static int mayRetry(int reason)
{
	return reason == EAGAIN || reason == EINTR || reason == ENOBUFS || reason == ETOOMANYREFS;
}

/* Sends a message, with `fd` unless it is -1. 1: sent, 0: try again, -1: failed, with errno. */
static int sendHandle(struct handles *h, int peer, int fd)
{
	struct handleMessage text = {(uint32_t)h->control->rank, h->serial, {0}};
	struct iovec part = {&text, sizeof(text)};
	union handleAncillary ancillary = {.bytes = {0}};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	proveSender(h->control, peer, &text);
	if (fd >= 0)
		addHandle(&message, &ancillary, fd);
	if (sendmsg(h->to[peer], &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
		return 1;
	return mayRetry(errno) ? 0 : -1;
}

/* The descriptor in a message, or -1 when there is none. */
static int takeHandle(struct msghdr *message)
{
	struct cmsghdr *header = CMSG_FIRSTHDR(message);
	int fd = -1;

	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(header), sizeof(int));
	return fileAboveStandard(fd);
}

static int isProven(const struct control *c, const struct handleMessage *m, ssize_t bytes)
{
	struct handleMessage right = *m;

	if (bytes != sizeof(*m) || m->rank >= (uint32_t)c->nRanks)
		return 0;
	proveSender(c, c->rank, &right);
	return !((right.proof[0] ^ m->proof[0]) | (right.proof[1] ^ m->proof[1]));
}

/*
 * 1: an expected descriptor arrived, 0: no message of a rank yet, -1: failed, with errno. There is
 * room for one descriptor of a message: the kernel closes others that a stranger has added.
 */
static int receiveHandle(struct handles *h, const uint8_t *from, int *fds)
{
	struct handleMessage text = {0};
	struct iovec part = {&text, sizeof(text)};
	union handleAncillary ancillary;
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = ancillary.bytes,
				 .msg_controllen = CMSG_LEN(sizeof(int))};
	ssize_t got = recvmsg(h->own, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	int fd = takeHandle(&message);
	int proven = isProven(h->control, &text, got);
	if (proven && fd >= 0 && text.serial == h->serial && from[text.rank] &&
	    fds[text.rank] < 0) {
		fds[text.rank] = fd;
		return 1;
	}
	if (fd >= 0)
		close(fd);
	if (!proven)
		return 0;
	errno = message.msg_flags & MSG_CTRUNC ? EMFILE : EPROTO;
	return -1;
}

/* Waits briefly for a message or, unless `peer` is -1, for room at the peer. */
static void awaitRoom(struct handles *h, int peer)
{
	struct pollfd fds[2] = {{.fd = h->own, .events = POLLIN},
				{.fd = peer < 0 ? -1 : h->to[peer], .events = POLLOUT}};

	poll(fds, 2, 100);
}

static int nextPeer(const uint8_t *set, int from, int nRanks)
{
	while (from < nRanks && !set[from])
		from++;
	return from;
}

/* An exchange in progress. */
struct handleExchange {
	int fd;
	const uint8_t *to, *from;
	int *fds;
	int sending; /* the next rank to send to; nRanks: all sent */
	int missing; /* messages not yet received */
	ginResult_t result;
};

static void exchangeFailed(struct handleExchange *e, const char *what)
{
	if (e->result != ginSuccess)
		return;
	if (errno == EPROTO)
		e->result = fail(ginErrorSystem, "a peer could not send its memory handle: see "
						 "the message of the peer");
	else
		e->result = failErrno("cannot %s a memory handle", what);
}

/* After a failure, messages are still sent, without a descriptor: the peers wait for them. */
static int sendNext(struct handles *h, struct handleExchange *e)
{
	int sent = e->sending < h->control->nRanks ? sendHandle(h, e->sending, e->fd) : 0;

	if (sent < 0) {
		exchangeFailed(e, "send");
		e->fd = -1;
		sent = sendHandle(h, e->sending, e->fd);
	}
	if (sent)
		e->sending = nextPeer(e->to, e->sending + 1, h->control->nRanks);
	return sent;
}

static int receiveNext(struct handles *h, struct handleExchange *e)
{
	int got = e->missing ? receiveHandle(h, e->from, e->fds) : 0;

	if (got < 0)
		exchangeFailed(e, "receive");
	if (got) /* the message arrived, even when its descriptor could not be received */
		e->missing--;
	return got;
}

ginResult_t handlesExchange(struct handles *h, int fd, const uint8_t *to, const uint8_t *from,
			    int *fds)
{
	int n = h->control->nRanks;
	uint64_t deadline = deadlineToTell();
	struct handleExchange e = {fd, to, from, fds, nextPeer(to, 0, n), 0, ginSuccess};

	h->serial++;
	for (int r = 0; r < n; r++) {
		fds[r] = -1;
		e.missing += from[r] != 0;
	}
	while (e.sending < n || e.missing) {
		int sent = sendNext(h, &e), got = receiveNext(h, &e);
		if (!sent && !got)
			awaitRoom(h, e.sending < n ? e.sending : -1);
		ginResult_t broken = controlError(h->control);
		if (broken != ginSuccess)
			return broken;
		if (clockNow() > deadline)
			return fail(ginErrorTimeout, "memory handles did not arrive");
	}
	return e.result;
}
