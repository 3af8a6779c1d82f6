/* SPDX-License-Identifier: BSD-3-Clause */
/* handles.c - exchanges file descriptors with the other ranks of this host */
#include "handles.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "lib/base/auth.h"
#include "lib/base/clock.h"
#include "lib/base/deadline.h"
#include "lib/base/file.h"

struct handleMessage {
	uint32_t rank;
	uint32_t serial;
};

/* The ancillary data of a message: one file descriptor. */
union handleAncillary {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

/*
 * The name of a rank's socket. All ranks can derive it from the communicator's key, to remove the
 * name of a rank that was killed; others cannot guess it.
 */
static int socketName(const struct control *c, int rank, char *out, size_t bytes)
{
	static const char label[] = "gin handles";
	uint8_t text[sizeof(label) + sizeof(rank)];
	const char *dir = getenv("TMPDIR");
	uint64_t word[2];

	memcpy(text, label, sizeof(label));
	memcpy(text + sizeof(label), &rank, sizeof(rank));
	authDerive(c->key, text, sizeof(text), (uint8_t *)word);
	return snprintf(out, bytes, "%s/gin-%016llx%016llx", dir && *dir ? dir : "/tmp",
			(unsigned long long)word[0], (unsigned long long)word[1]);
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

/* The mode keeps other users out. */
static ginResult_t bindOwn(struct handles *h, struct sockaddr_un *name)
{
	*name = (struct sockaddr_un){.sun_family = AF_UNIX};
	int length =
		socketName(h->control, h->control->rank, name->sun_path, sizeof(name->sun_path));
	if (length >= (int)sizeof(name->sun_path))
		return fail(ginErrorSystem,
			    "TMPDIR is too long for a socket's name: set a shorter one");
	h->own = fileAboveStandard(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	if (h->own < 0)
		return failErrno("cannot make the socket %s", name->sun_path);
	if (fchmod(h->own, 0600) || bind(h->own, (const struct sockaddr *)name, sizeof(*name)))
		return fail(ginErrorSystem,
			    "cannot make the socket %s: %m: set TMPDIR to a directory in which "
			    "this process may make files",
			    name->sun_path);
	return ginSuccess;
}

ginResult_t handlesConnect(struct handles *h, int peer, const struct handleName *named)
{
	const struct sockaddr_un *name = &named->address;

	if (peer == h->control->rank || !isLocal(h->control, peer))
		return ginSuccess;
	int fd = fileAboveStandard(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

	h->to[peer] = fd;
	if (fd < 0)
		return failErrno("cannot make a socket for rank %d", peer);
	if (!connect(fd, (const struct sockaddr *)name, sizeof(*name)))
		return ginSuccess;
	return fail(
		ginErrorSystem,
		"cannot reach rank %d, of this host, by %.*s: %m; let both ranks see one TMPDIR, "
		"or set GIN_HOSTID if they are on two machines",
		peer, (int)sizeof(name->sun_path), name->sun_path);
}

size_t handlesBytes(int nRanks)
{
	return (size_t)nRanks * sizeof(int);
}

ginResult_t handlesBind(struct handles *h, struct control *control, struct handleName *name)
{
	size_t n = (size_t)control->nRanks;

	*h = (struct handles){
		.control = control, .own = -1, .to = malloc(handlesBytes(control->nRanks))};
	if (!h->to)
		return fail(ginErrorSystem, "no memory");
	for (size_t r = 0; r < n; r++)
		h->to[r] = -1;
	/* No other rank could remove the name if this rank were killed. */
	return hasLocalPeer(control) ? bindOwn(h, &name->address) : ginSuccess;
}

static void removeName(const struct control *c, int rank)
{
	char name[sizeof(((struct sockaddr_un *)0)->sun_path)];

	if (socketName(c, rank, name, sizeof(name)) < (int)sizeof(name))
		unlink(name);
}

void handlesUnbind(const struct control *c, int opened)
{
	removeName(c, c->rank);
	for (int i = 1; i < c->nRanks; i++) {
		int rank = (c->rank + i) % c->nRanks;
		if (!isLocal(c, rank))
			continue;
		removeName(c, rank);
		if (opened)
			return;
	}
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
	struct handleMessage text = {(uint32_t)h->control->rank, h->serial};
	struct iovec part = {&text, sizeof(text)};
	union handleAncillary ancillary = {.bytes = {0}};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

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

/* 1: an expected descriptor arrived, 0: no message yet, -1: failed, with errno. */
static int receiveHandle(struct handles *h, const uint8_t *from, int *fds)
{
	struct handleMessage text = {0};
	struct iovec part = {&text, sizeof(text)};
	union handleAncillary ancillary;
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = ancillary.bytes,
				 .msg_controllen = sizeof(ancillary.bytes)};
	ssize_t got = recvmsg(h->own, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	int fd = takeHandle(&message);
	if (got == sizeof(text) && fd >= 0 && text.serial == h->serial &&
	    text.rank < (uint32_t)h->control->nRanks && from[text.rank] && fds[text.rank] < 0) {
		fds[text.rank] = fd;
		return 1;
	}
	if (fd >= 0)
		close(fd);
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
