/* SPDX-License-Identifier: BSD-3-Clause */
/* root_group.c - the clients of a root, grouped by communicator */
#include "root_group.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/log.h"

#define REPLY_SECONDS 10
#define HOLD_SECONDS 5
#define OTHERS_MS 100

/* A forked child process may hold fd: close() alone would not disconnect. */
void rootClientDrop(struct rootClient *client)
{
	epoll_ctl(client->poll, EPOLL_CTL_DEL, client->fd, NULL);
	shutdown(client->fd, SHUT_RDWR);
	close(client->fd);
	*client->at = client->next;
	if (client->next)
		client->next->at = client->at;
	free(client);
}

/* The text fits the socket's buffer: sending it does not wait for a stopped rank. */
static void sendReply(const struct rootClient *client, const struct rootReply *text)
{
	if (socketSend(client->fd, text, sizeof(*text), clockNow() + REPLY_SECONDS * SECOND))
		logWrite(logInfo, "bootstrap: rank %u did not take its reply: %m", client->rank);
}

void rootClientFail(struct rootClient *client, int result, const char *why)
{
	struct rootReply text = {.result = result};

	snprintf(text.why, sizeof(text.why), "%s", why);
	sendReply(client, &text);
	rootClientDrop(client);
}

int rootRequestBound(struct rootRequest *request, uint32_t rank)
{
	request->name[sizeof(request->name) - 1] = '\0';
	request->job[sizeof(request->job) - 1] = '\0';
	request->entry.host[sizeof(request->entry.host) - 1] = '\0';
	request->entry.refusal[sizeof(request->entry.refusal) - 1] = '\0';
	return request->rank == rank && request->nRanks <= ROOT_RANKS &&
	       request->rank < request->nRanks && request->parent <= request->rank;
}

static void freeGroup(struct rootGroup *group)
{
	free(group->hasCome);
	free(group->client);
	free(group);
}

static void removeGroup(struct rootGroups *groups, struct rootGroup *group)
{
	struct rootGroup **at = &groups->list;

	while (*at != group)
		at = &(*at)->next;
	*at = group->next;
	for (uint32_t r = 0; r < group->first.nRanks; r++)
		if (group->client[r])
			rootClientDrop(group->client[r]);
	group->key->isDone = group->key->isId;
	groups->someDone |= group->key->isDone;
	freeGroup(group);
}

static void replyFailureTo(struct rootGroup *group, uint32_t rank)
{
	if (group->client[rank])
		rootClientFail(group->client[rank], group->failed, group->failure);
	group->client[rank] = NULL;
}

/*
 * The group stays in the list to fail the ranks that arrive later. Rank 0 is the last to get the
 * failure: its process, and this thread with it, may end at once. With `hold`, rank 0 gets it when
 * all ranks have arrived, or after HOLD_SECONDS.
 */
static void failGroup(struct rootGroup *group, int result, const char *why, int hold)
{
	group->failed = result;
	group->failedAt = clockNow();
	snprintf(group->failure, sizeof(group->failure), "%s", why);
	for (uint32_t r = group->first.nRanks; r-- > 1;)
		replyFailureTo(group, r);
	if (!hold)
		replyFailureTo(group, 0);
}

/*
 * A group that has failed is removed when all ranks have arrived. If they may have been ranks of
 * two jobs, other ranks of both jobs still arrive, and must not meet: the group stays for them.
 */
static void endFailed(struct rootGroups *groups, struct rootGroup *group)
{
	if (group->come < group->first.nRanks)
		return;
	replyFailureTo(group, 0);
	if (!groups->mayMix)
		removeGroup(groups, group);
}

/* Can a group that has failed, or is complete, be removed? */
static int isOver(const struct rootGroup *group, uint64_t now)
{
	uint64_t since = group->failure[0] ? group->failedAt : group->completedAt;

	return group->come == group->first.nRanks && !group->joining &&
	       now > since + ROOT_MIX_SECONDS * SECOND;
}

static struct rootName *findName(const struct rootGroups *groups, const char *text)
{
	struct rootName *name = groups->names;

	while (name && strcmp(name->name, text))
		name = name->others;
	return name;
}

/*
 * No further group of this name and generation is made. Without memory, or if generations complete
 * out of order, a late client of another job waits for the time limit.
 */
static void noteComplete(struct rootGroups *groups, const struct rootGroup *group)
{
	const struct rootRequest *request = &group->first;
	struct rootName *name = findName(groups, request->name);

	if (group->key->isId || (group->failure[0] && !groups->mayMix))
		return;
	if (!name) {
		name = calloc(1, sizeof(*name));
		if (!name)
			return;
		memcpy(name->name, request->name, sizeof(name->name));
		name->others = groups->names;
		groups->names = name;
	}
	if (request->generation == name->next)
		name->next++;
}

/* The clients stay until they have joined the control plane: the root is notified when one dies. */
static void completeGroup(struct rootGroup *group)
{
	struct rootReply text = {.root = group->client[0]->request.entry};
	int one = 1;

	group->complete = 1;
	group->completedAt = clockNow();
	for (uint32_t r = group->first.nRanks; r-- > 0;) {
		struct rootClient *client = group->client[r];
		text.parent = group->client[client->request.parent]->request.entry;
		client->state = clientJoins;
		group->joining++;
		setsockopt(client->fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof(one));
		sendReply(client, &text);
	}
}

static int isOf(const struct rootGroup *group, const struct rootClient *client)
{
	const struct rootRequest *first = &group->first, *request = &client->request;

	if (group->key != client->key || group->key->isId)
		return group->key == client->key;
	return !strcmp(first->name, request->name) && first->generation == request->generation;
}

static struct rootGroup *findGroup(const struct rootGroups *groups, const struct rootClient *client,
				   int complete)
{
	struct rootGroup *group = groups->list;

	while (group && (group->complete != complete || !isOf(group, client)))
		group = group->next;
	return group;
}

static int wasCompleted(const struct rootGroups *groups, const struct rootClient *client)
{
	const struct rootName *name = findName(groups, client->request.name);

	if (client->key->isId)
		return findGroup(groups, client, 1) != NULL;
	return name && client->request.generation < name->next;
}

/* May the communicator still turn out to have ranks of two jobs? */
static int isNew(const struct rootGroup *group)
{
	return group->joining || clockNow() < group->completedAt + ROOT_MIX_SECONDS * SECOND;
}

/* The complete communicator that may have a rank of the client's job; or NULL. */
static struct rootGroup *findMixed(const struct rootGroups *groups, const struct rootClient *client)
{
	struct rootGroup *group = groups->mayMix ? findGroup(groups, client, 1) : NULL;

	return group && !group->failure[0] && isNew(group) ? group : NULL;
}

static struct rootGroup *makeGroup(struct rootGroups *groups, const struct rootClient *client)
{
	const struct rootRequest *request = &client->request;
	struct rootGroup *group = calloc(1, sizeof(*group));

	if (!group)
		return NULL;
	group->hasCome = calloc(request->nRanks, sizeof(*group->hasCome));
	group->client = calloc(request->nRanks, sizeof(*group->client));
	if (!group->hasCome || !group->client) {
		freeGroup(group);
		return NULL;
	}
	group->key = client->key;
	group->first = *request;
	group->start = clockNow();
	group->next = groups->list;
	groups->list = group;
	return group;
}

/* The first process that arrived as `rank`. */
static const char *earlier(const struct rootGroup *group, uint32_t rank, char *out, size_t bytes)
{
	const struct rootRequest *request;

	if (!group->client[rank])
		return "one has ended";
	request = &group->client[rank]->request;
	snprintf(out, bytes, "host %.63s, pid %u", request->entry.host, request->pid);
	return out;
}

/*
 * Returns 0 when the request agrees with earlier requests of the group. Otherwise returns the
 * result of the exchange for all ranks, and the sentence.
 */
static int checkClient(const struct rootGroup *group, const struct rootClient *client, char *why)
{
	const struct rootRequest *first = &group->first, *request = &client->request;
	char text[96];

	if (request->nRanks != first->nRanks) {
		snprintf(why, BOOTSTRAP_WHY,
			 "rank %u says that there are %u ranks, rank %u says %u: all must say the "
			 "same",
			 request->rank, request->nRanks, first->rank, first->nRanks);
		return -1;
	}
	if (group->hasCome[request->rank]) {
		snprintf(why, BOOTSTRAP_WHY,
			 "two processes say that they are rank %u (%s; host %.63s, pid %u): each "
			 "process needs its own rank, and each job its own root",
			 request->rank, earlier(group, request->rank, text, sizeof(text)),
			 request->entry.host, request->pid);
		return -1;
	}
	return bootstrapCheckEntry(&first->entry, &request->entry, (int)request->rank, why);
}

static void markCome(struct rootGroup *group, uint32_t rank)
{
	if (rank >= group->first.nRanks || group->hasCome[rank])
		return;
	group->hasCome[rank] = 1;
	group->come++;
}

static void failLate(struct rootClient *client)
{
	const struct rootRequest *request = &client->request;
	char why[BOOTSTRAP_WHY];

	snprintf(why, sizeof(why),
		 "all ranks of this communicator have met already, without rank %u (host %.63s, "
		 "pid %u): two jobs use this port, and each job needs a port of its own",
		 request->rank, request->entry.host, request->pid);
	logWrite(logWarn, "bootstrap: %s", why);
	rootClientFail(client, -1, why);
}

/* The later job's client is informed first: the root may end with rank 0 of its process. */
static void failMixed(struct rootGroups *groups, struct rootGroup *group, struct rootClient *client)
{
	const struct rootRequest *request = &client->request;
	char why[BOOTSTRAP_WHY];

	snprintf(why, sizeof(why),
		 "rank %u (host %.63s, pid %u) came when all ranks of this communicator had just "
		 "met: two jobs use this port at one time, and the communicator may have ranks of "
		 "both; each job needs a port (GIN_ROOT) or a secret (GIN_SECRET) of its own",
		 request->rank, request->entry.host, request->pid);
	logWrite(logWarn, "bootstrap: %s", why);
	rootClientFail(client, -1, why);
	failGroup(group, -1, why, 0);
	removeGroup(groups, group);
}

static void addLate(struct rootGroups *groups, struct rootClient *client)
{
	struct rootGroup *mixed = findMixed(groups, client);

	if (mixed)
		failMixed(groups, mixed, client);
	else
		failLate(client);
}

/*
 * The root ends with its process, so a failed group holds rank 0 of this process back, and not rank
 * 0 of another job.
 */
static void holdOwnRank0(struct rootGroup *group, const struct rootClient *client)
{
	if (group->failure[0] && client->rank == 0 && client->request.pid == (uint32_t)getpid())
		replyFailureTo(group, 0);
}

void rootGroupsAdd(struct rootGroups *groups, struct rootClient *client)
{
	struct rootGroup *group = findGroup(groups, client, 0);
	char why[BOOTSTRAP_WHY];

	if (client->key->hasTold) {
		rootClientFail(client, -1, client->key->givenUp);
		return;
	}
	if (!group && wasCompleted(groups, client)) {
		addLate(groups, client);
		return;
	}
	if (!group)
		group = makeGroup(groups, client);
	if (!group) {
		rootClientFail(client, -1, "the root has no memory");
		return;
	}
	holdOwnRank0(group, client);
	int wrong = group->failure[0] ? 0 : checkClient(group, client, why);
	int first = !wrong && !group->failure[0];
	markCome(group, client->request.rank);
	if (first || (client->rank == 0 && !group->client[0])) {
		client->group = group;
		client->state = clientWaits;
		group->client[client->rank] = client;
	} else {
		rootClientFail(client, wrong ? wrong : group->failed, wrong ? why : group->failure);
	}
	if (wrong)
		failGroup(group, wrong, why, 1);
	if (group->failure[0]) {
		endFailed(groups, group);
	} else if (group->come == group->first.nRanks) {
		group->full = clockNow();
	}
}

static int isFull(const struct rootGroup *group)
{
	return group->full && !group->complete && !group->failure[0];
}

int rootGroupsFull(const struct rootGroups *groups)
{
	const struct rootGroup *group = groups->list;

	while (group && !isFull(group))
		group = group->next;
	return group != NULL;
}

int rootGroupsComplete(struct rootGroups *groups, int others)
{
	int waits = 0;

	for (struct rootGroup *group = groups->list; group; group = group->next) {
		if (!isFull(group))
			continue;
		if (others && clockNow() < group->full + OTHERS_MS * (SECOND / 1000)) {
			waits = 1;
			continue;
		}
		noteComplete(groups, group);
		completeGroup(group);
	}
	return waits;
}

static void lostWaiting(struct rootGroups *groups, struct rootGroup *group, uint32_t rank)
{
	char why[BOOTSTRAP_WHY];

	snprintf(why, sizeof(why), "rank %u ended while other ranks were still connecting", rank);
	if (!group->failure[0])
		failGroup(group, -1, why, 0);
	endFailed(groups, group);
}

static void lostJoining(struct rootGroup *group, uint32_t rank, const char *host)
{
	char why[BOOTSTRAP_WHY];

	snprintf(why, sizeof(why),
		 "rank %u (host %.63s) ended while the ranks were connecting to each other", rank,
		 host);
	logWrite(logWarn, "bootstrap: %s", why);
	failGroup(group, -1, why, 0);
	group->joining = 0;
}

/* A byte: a client that joins has joined, a client that waits gives up. */
static int hasSent(const struct rootClient *client)
{
	char byte;

	return recv(client->fd, &byte, 1, MSG_DONTWAIT) == 1;
}

static void dropFrom(struct rootGroup *group, struct rootClient *client)
{
	group->client[client->rank] = NULL;
	rootClientDrop(client);
}

static void hearJoining(struct rootGroups *groups, struct rootGroup *group,
			struct rootClient *client)
{
	struct rootRequest request = client->request;
	int joined = hasSent(client);

	if (joined && groups->mayMix && request.rank == 0)
		client->state = clientStays;
	else
		dropFrom(group, client);
	group->joining--;
	if (!joined)
		lostJoining(group, request.rank, request.entry.host);
}

/* Writes "ranks 3, 7, 8, 9 and 12 more", for example. */
static void nameMissing(const struct rootGroup *group, char *out, size_t bytes)
{
	uint32_t named = 0, missing = group->first.nRanks - group->come;
	size_t used = (size_t)snprintf(out, bytes, "rank%s", missing > 1 ? "s" : "");

	for (uint32_t r = 0; r < group->first.nRanks && named < 8; r++)
		if (!group->client[r])
			used += (size_t)snprintf(out + used, bytes - used, "%s %u",
						 named++ ? "," : "", r);
	if (missing > named)
		snprintf(out + used, bytes - used, " and %u more", missing - named);
}

static void failMissing(const struct rootGroups *groups, struct rootGroup *group, uint64_t waited)
{
	const char *hint = groups->otherKey ? "; connections with another key were refused: is "
					      "GIN_SECRET the same on all ranks?"
					    : "";
	const uint64_t seconds = (waited + SECOND / 2) / SECOND;
	char missing[128], why[BOOTSTRAP_WHY];

	nameMissing(group, missing, sizeof(missing));
	snprintf(why, sizeof(why), "%s did not come within %" PRIu64 " s (GIN_TIMEOUT)%s", missing,
		 seconds ? seconds : 1, hint);
	failGroup(group, BOOTSTRAP_LATE, why, 0);
}

/* Its call may have begun earlier: the others then wait for less than their limit. */
static void hearGivingUp(struct rootGroups *groups, struct rootClient *client)
{
	struct rootGroup *group = client->group;

	if (group->failure[0])
		replyFailureTo(group, client->rank);
	else
		failMissing(groups, group, clockNow() - group->start);
	endFailed(groups, group);
}

void rootGroupsHear(struct rootGroups *groups, struct rootClient *client)
{
	struct rootGroup *group = client->group;
	uint32_t rank = client->rank;

	if (client->state == clientWaits && hasSent(client)) {
		hearGivingUp(groups, client);
		return;
	}
	if (client->state == clientJoins)
		hearJoining(groups, group, client);
	else
		dropFrom(group, client);
	if (!group->complete)
		lostWaiting(groups, group, rank);
	else if (!group->joining && !group->client[0])
		removeGroup(groups, group);
}

void rootGroupsMiss(struct rootGroups *groups, const struct rootKey *key, uint32_t rank)
{
	for (struct rootGroup *group = groups->list, *next; group; group = next) {
		next = group->next;
		if (group->key != key || group->complete || group->failure[0] ||
		    rank >= group->first.nRanks || group->hasCome[rank])
			continue;
		markCome(group, rank);
		lostWaiting(groups, group, rank);
	}
}

static void tickGroup(struct rootGroups *groups, struct rootGroup *group, uint64_t waited)
{
	unsigned warnAfter = groups->seconds < 10 ? groups->seconds : 10;
	char missing[128];

	if (group->failure[0] && group->client[0] &&
	    clockNow() > group->failedAt + HOLD_SECONDS * SECOND)
		replyFailureTo(group, 0);
	if (group->failure[0] || group->complete) {
		if (isOver(group, clockNow()) || waited > 2 * groups->seconds * SECOND) {
			noteComplete(groups, group);
			removeGroup(groups, group);
		}
		return;
	}
	if (waited < (group->warned ? groups->seconds : warnAfter) * SECOND)
		return;
	if (waited >= groups->seconds * SECOND) {
		failMissing(groups, group, groups->seconds * SECOND);
		return;
	}
	nameMissing(group, missing, sizeof(missing));
	group->warned = 1;
	logWrite(logWarn, "bootstrap: waiting for %s", missing);
}

void rootGroupsGiveUp(struct rootGroups *groups, const struct rootKey *key, const char *why)
{
	for (struct rootGroup *group = groups->list, *next; group; group = next) {
		next = group->next;
		if (group->key != key || group->complete)
			continue;
		if (!group->failure[0])
			failGroup(group, -1, why, 0);
		removeGroup(groups, group);
	}
}

void rootGroupsTick(struct rootGroups *groups, uint64_t now)
{
	for (struct rootGroup *group = groups->list, *next; group; group = next) {
		next = group->next;
		tickGroup(groups, group, now - group->start);
	}
}

void rootGroupsFree(struct rootGroups *groups)
{
	while (groups->list)
		removeGroup(groups, groups->list);
	for (struct rootName *name = groups->names, *others; name; name = others) {
		others = name->others;
		free(name);
	}
}
