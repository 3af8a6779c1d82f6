/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * accept.c - accepts the connections of the children, and after a failure those of other ranks
 *
 * Anybody can connect to the listener. A connection is a stranger until it has proved that it knows
 * the key. One loop serves the listener and all strangers, and never waits for one of them. The
 * number of strangers is bounded: when all slots are taken, the oldest stranger is closed. A child
 * that is closed in this way connects again.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "internal.h"
#include "lib/base/net/auth.h"
#include "lib/base/clock.h"
#include "lib/base/forkguard.h"
#include "lib/base/log.h"

#define STRANGERS_MOST CONTROL_STRANGERS
#define STRANGERS_LEAST 4
#define STRANGER_MS 50	  /* a stranger is closed for a newer one after this time at the earliest */
#define NEWS_MS 100	  /* between two questions for news that have no descriptor */
#define REPORT_SECONDS 10 /* between two log lines about refused connections */

struct stranger {
	int fd;
	uint64_t since;
	uint64_t challenge[2];
};

struct reception {
	struct control *c;
	int isLate;				  /* after a failure: any rank may come */
	int missing;				  /* children that have not connected */
	struct stranger stranger[STRANGERS_MOST]; /* the oldest first */
	int strangers, most;
	unsigned refused; /* since the last log line */
	uint64_t reported;
	uint64_t rests; /* no descriptor: nothing is accepted until then */
};

int controlFirstChild(const struct control *c)
{
	return c->rank ? 1 : 0;
}

static int makeRoom(struct control *c)
{
	int room = 2 * c->room;
	struct controlLink *link = calloc((size_t)room, sizeof(*link));

	if (!link)
		return -1;
	memcpy(link, c->link, (size_t)c->links * sizeof(*link));
	if (c->link != c->tree)
		free(c->link);
	c->link = link;
	c->room = room;
	return 0;
}

/* The place of a link of attach.c that has ended, or a new one. */
static struct controlLink *findPlace(struct control *c)
{
	for (int i = controlLinksOf(c->rank, c->nRanks); i < c->links; i++)
		if (c->link[i].fd < 0 && !c->link[i].dial)
			return &c->link[i];
	if (c->links == c->room && makeRoom(c))
		return NULL;
	return &c->link[c->links++];
}

struct controlLink *controlAddLink(struct control *c, int fd, int rank)
{
	struct controlLink *link = findPlace(c);

	if (!link)
		return NULL;
	if (fd >= 0)
		forkGuard(fd);
	bufferFree(&link->in);
	*link = (struct controlLink){.fd = fd, .rank = rank};
	return link;
}

static int isMissingChild(const struct control *c, uint32_t rank)
{
	if (rank == 0 || rank >= (uint32_t)c->nRanks || controlParent((int)rank) != c->rank)
		return 0;
	for (int i = controlFirstChild(c); i < c->links; i++)
		if (c->link[i].rank == (int)rank)
			return 0;
	return 1;
}

/*
 * After a failure any rank may come, and more than once: both ends may connect at one time. A link
 * of a rank that has failed serves to tell it so.
 */
static int mayCome(const struct reception *r, uint32_t rank)
{
	return r->isLate ? rank < (uint32_t)r->c->nRanks && (int)rank != r->c->rank
			 : isMissingChild(r->c, rank);
}

static int firstMissingChild(const struct control *c)
{
	uint32_t rank = (uint32_t)c->rank * CONTROL_CHILDREN + 1;

	while (!isMissingChild(c, rank))
		rank++;
	return (int)rank;
}

/* Strangers leave most file descriptors to the program. */
static int mostStrangers(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur / 8 > STRANGERS_MOST)
		return STRANGERS_MOST;
	return files.rlim_cur / 8 < STRANGERS_LEAST ? STRANGERS_LEAST : (int)files.rlim_cur / 8;
}

/*
 * Logs the first refusal with its address, later ones as a number. A rank that connects after a
 * failure may end meanwhile: that is no refusal to report.
 */
static void noteRefusal(struct reception *r, int fd)
{
	char from[64];

	if (r->isLate)
		return;
	if (r->reported) {
		r->refused++;
		return;
	}
	socketPeer(fd, from, sizeof(from));
	logWrite(logWarn, "control plane: refused %s, which is not of this communicator", from);
	r->reported = clockNow();
}

static void reportRefusals(struct reception *r, uint64_t now)
{
	if (!r->refused)
		return;
	logWrite(logWarn,
		 "control plane: refused %u more connections, which are not of this communicator",
		 r->refused);
	r->refused = 0;
	r->reported = now;
}

static void removeStranger(struct reception *r, int index)
{
	r->strangers--;
	memmove(&r->stranger[index], &r->stranger[index + 1],
		(size_t)(r->strangers - index) * sizeof(r->stranger[0]));
}

static void refuseStranger(struct reception *r, int index)
{
	noteRefusal(r, r->stranger[index].fd);
	close(r->stranger[index].fd);
	removeStranger(r, index);
}

/* poll() reports the stranger only when its whole answer has arrived: reading it never blocks. */
static void addStranger(struct reception *r, int fd)
{
	struct stranger *s = &r->stranger[r->strangers++];
	int bytes = AUTH_ANSWER_BYTES;

	*s = (struct stranger){.fd = fd, .since = clockNow()};
	if (setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes)) ||
	    authChallenge(fd, s->challenge, s->since))
		refuseStranger(r, r->strangers - 1);
}

/* A stranger has answered or disconnected: it becomes a link, or is refused. */
static void admitStranger(struct reception *r, int index)
{
	struct stranger *s = &r->stranger[index];
	int bytes = 1;
	uint32_t rank;

	struct controlLink *link = NULL;

	if (!authAnswer(s->fd, r->c->key, s->challenge, &rank, clockNow()) && mayCome(r, rank) &&
	    !setsockopt(s->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes)))
		link = controlAddLink(r->c, s->fd, (int)rank);
	if (!link) {
		refuseStranger(r, index);
		return;
	}
	r->missing -= !r->isLate;
	removeStranger(r, index);
	if (r->isLate)
		controlSendNews(r->c, link);
}

/*
 * Ends the oldest stranger's connection by a reset: if it is a child after all, it connects again.
 */
static void evictStranger(struct reception *r)
{
	const struct linger reset = {.l_onoff = 1};

	setsockopt(r->stranger[0].fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	refuseStranger(r, 0);
}

/* The process has no descriptor left. A reserved one, or the oldest stranger's, makes room. */
static ginResult_t findDescriptor(struct reception *r)
{
	if (r->c->spares)
		controlReleaseSpare(r->c);
	else if (r->strangers)
		evictStranger(r);
	else
		return failErrno("cannot accept a connection");
	return ginSuccess;
}

/* Returns ginSuccess also when no connection was accepted. */
static ginResult_t acceptStranger(struct reception *r)
{
	int fd = socketAccept(r->c->listener, clockNow());

	if (fd >= 0) {
		addStranger(r, fd);
		return ginSuccess;
	}
	if (errno == ETIMEDOUT || errno == ECONNABORTED || errno == EINTR || errno == EAGAIN ||
	    errno == EPROTO)
		return ginSuccess; /* the connection ended before it was accepted */
	if (errno == EMFILE || errno == ENFILE)
		return findDescriptor(r);
	return failErrno("cannot accept a connection");
}

/* Makes room for a new stranger. Returns the time at which there will be room, or 0. */
static uint64_t roomAt(struct reception *r, uint64_t now)
{
	uint64_t end = r->stranger[0].since + STRANGER_MS * (SECOND / 1000);

	if (r->strangers < r->most)
		return 0;
	if (now < end)
		return end;
	evictStranger(r);
	return 0;
}

ginResult_t controlReadNews(struct control *c)
{
	char why[SENTENCE_BYTES];
	int lost = c->news.lost(c->news.arg, why);

	if (lost)
		return fail((ginResult_t)lost, "%s", why);
	c->news.fd = -1;
	return ginSuccess;
}

/* Returns the number of entries: the listener's, and one of each stranger. */
static int fillEntries(const struct reception *r, struct pollfd *fds, int hasRoom)
{
	fds[0] = (struct pollfd){.fd = hasRoom ? r->c->listener : -1, .events = POLLIN};
	for (int i = 0; i < r->strangers; i++)
		fds[1 + i] = (struct pollfd){.fd = r->stranger[i].fd, .events = POLLIN};
	return 1 + r->strangers;
}

static void serveStrangers(struct reception *r, const struct pollfd *fds)
{
	for (int i = r->strangers; i-- > 0;) /* downwards: admitStranger() moves later strangers */
		if (fds[1 + i].revents)
			admitStranger(r, i);
}

/* One pass of the loop: waits until `until` at most. */
static ginResult_t turn(struct reception *r, uint64_t until)
{
	struct pollfd fds[2 + STRANGERS_MOST];
	uint64_t now = clockNow(), room = roomAt(r, now);

	if (room && room < until)
		until = room;
	if (r->c->news.isAsked && until > now + NEWS_MS * (SECOND / 1000))
		until = now + NEWS_MS * (SECOND / 1000);
	int n = fillEntries(r, fds, !room) - 1;
	fds[1 + n] = (struct pollfd){.fd = r->c->news.fd, .events = POLLIN};
	int ready = poll(fds, 2 + (nfds_t)n, clockLeftMs(until, interruptMsHere(1000)));
	if (interruptedHere())
		return fail(ginErrorAborted, "config.poll has ended the call");
	if (ready <= 0)
		return ginSuccess;
	serveStrangers(r, fds);
	if (r->missing && fds[1 + n].revents)
		return controlReadNews(r->c);
	return fds[0].revents && r->missing ? acceptStranger(r) : ginSuccess;
}

static ginResult_t acceptAll(struct reception *r, uint64_t deadline)
{
	const struct control *c = r->c;
	uint64_t warn = clockNow() + 10 * SECOND;

	while (r->missing) {
		ginResult_t result = turn(r, deadline < warn ? deadline : warn);
		if (result == ginSuccess && r->missing && c->news.isAsked)
			result = controlReadNews(r->c);
		if (result != ginSuccess)
			return result;
		uint64_t now = clockNow();
		if (r->reported && now > r->reported + REPORT_SECONDS * SECOND)
			reportRefusals(r, now);
		if (!r->missing || now < (deadline < warn ? deadline : warn))
			continue;
		int rank = firstMissingChild(c);
		if (now >= deadline)
			return fail(ginErrorTimeout, "rank %d (host %s) has not connected", rank,
				    c->ranks[rank].host);
		logWrite(logWarn, "waiting for rank %d (host %s) to connect", rank,
			 c->ranks[rank].host);
		warn = deadline;
	}
	return ginSuccess;
}

ginResult_t controlAcceptChildren(struct control *c, int children, uint64_t deadline)
{
	struct reception r = {.c = c, .missing = children, .most = mostStrangers()};
	ginResult_t result = acceptAll(&r, deadline);

	while (r.strangers)
		refuseStranger(&r, 0);
	reportRefusals(&r, clockNow());
	while (c->spares)
		controlReleaseSpare(c);
	return result;
}

int controlReceive(struct control *c)
{
	if (c->reception)
		return 0;
	c->reception = malloc(sizeof(*c->reception));
	if (!c->reception)
		return -1;
	*c->reception = (struct reception){.c = c, .isLate = 1, .most = mostStrangers()};
	return 0;
}

int controlReceptionPoll(struct reception *r, struct pollfd *fds)
{
	uint64_t now = clockNow();

	return fillEntries(r, fds, now >= r->rests && !roomAt(r, now));
}

/* What poll() has said about entries of controlReceptionPoll(). */
void controlReceptionServe(struct reception *r, const struct pollfd *fds)
{
	serveStrangers(r, fds);
	if (!fds[0].revents || acceptStranger(r) == ginSuccess)
		return;
	r->rests = clockNow() + SECOND;
	logWrite(logWarn, "control plane: %s", ginGetLastError());
}

void controlReceptionClose(struct reception *r)
{
	while (r && r->strangers)
		refuseStranger(r, 0);
	free(r);
}
