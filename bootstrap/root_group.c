/* SPDX-License-Identifier: BSD-3-Clause */
/* root_group.c - who has come to a root, and for which communicator */
#include "root_group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/log.h"

#define REPLY_SECONDS 10

/* A child that the program forked meanwhile has the connection, too: closing does not end it. */
void guestDrop(struct guest *guest)
{
	epoll_ctl(guest->poll, EPOLL_CTL_DEL, guest->fd, NULL);
	shutdown(guest->fd, SHUT_RDWR);
	close(guest->fd);
	*guest->at = guest->next;
	if (guest->next)
		guest->next->at = guest->at;
	free(guest);
}

/* Whoever does not take it has gone; the others see that on the control plane. */
static void reply(struct guest *guest, const struct rootReply *text)
{
	if (socketSend(guest->fd, text, sizeof(*text), clockNow() + REPLY_SECONDS * SECOND))
		logWrite(logInfo, "bootstrap: rank %u did not take its reply: %m", guest->rank);
	guestDrop(guest);
}

static void replyFailure(struct guest *guest, int result, const char *why)
{
	struct rootReply text = {.result = result};

	snprintf(text.why, sizeof(text.why), "%s", why);
	reply(guest, &text);
}

static void freeGroup(struct rootGroup *group)
{
	free(group->hasCome);
	free(group->guest);
	free(group);
}

static void removeGroup(struct rootGroups *groups, struct rootGroup *group)
{
	struct rootGroup **at = &groups->list;

	while (*at != group)
		at = &(*at)->next;
	*at = group->next;
	freeGroup(group);
	groups->done++;
}

/*
 * It stays until all have been told, or are late. From the last to the first: rank 0's process, and
 * this thread with it, may end as soon as it knows.
 */
static void failGroup(struct rootGroup *group, int result, const char *why)
{
	group->failed = result;
	snprintf(group->failure, sizeof(group->failure), "%s", why);
	for (uint32_t r = group->first.nRanks; r-- > 0;) {
		if (group->guest[r])
			replyFailure(group->guest[r], result, group->failure);
		group->guest[r] = NULL;
	}
}

static void completeGroup(struct rootGroups *groups, struct rootGroup *group)
{
	struct rootReply text = {.root = group->guest[0]->request.entry};

	/* From the last to the first: a parent's number is below its children's. */
	for (uint32_t r = group->first.nRanks; r-- > 0;) {
		struct guest *guest = group->guest[r];
		text.parent = group->guest[guest->request.parent]->request.entry;
		reply(guest, &text);
	}
	removeGroup(groups, group);
}

static struct rootGroup *findGroup(struct rootGroups *groups, const struct rootRequest *request)
{
	struct rootGroup *group = groups->list;

	while (group && (strcmp(group->first.name, request->name) ||
			 group->first.generation != request->generation))
		group = group->next;
	return group;
}

static struct rootGroup *makeGroup(struct rootGroups *groups, const struct rootRequest *request)
{
	struct rootGroup *group = calloc(1, sizeof(*group));

	if (!group)
		return NULL;
	group->hasCome = calloc(request->nRanks, sizeof(*group->hasCome));
	group->guest = calloc(request->nRanks, sizeof(*group->guest));
	if (!group->hasCome || !group->guest) {
		freeGroup(group);
		return NULL;
	}
	group->first = *request;
	group->start = clockNow();
	group->next = groups->list;
	groups->list = group;
	return group;
}

/* Does the guest fit to those who have come? Else what all get, and the sentence. */
static int checkGuest(const struct rootGroup *group, const struct guest *guest, char *why)
{
	const struct rootRequest *first = &group->first, *request = &guest->request;

	if (request->nRanks != first->nRanks) {
		snprintf(why, BOOTSTRAP_WHY,
			 "rank %u says that there are %u ranks, rank %u says %u: all must say the "
			 "same",
			 request->rank, request->nRanks, first->rank, first->nRanks);
		return -1;
	}
	if (group->hasCome[request->rank]) {
		snprintf(why, BOOTSTRAP_WHY,
			 "two processes say that they are rank %u: each needs a number of its own, "
			 "and each job a root of its own",
			 request->rank);
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

void groupsAdd(struct rootGroups *groups, struct guest *guest)
{
	struct rootGroup *group = findGroup(groups, &guest->request);
	char why[BOOTSTRAP_WHY];

	if (!group)
		group = makeGroup(groups, &guest->request);
	if (!group) {
		replyFailure(guest, -1, "the root has no memory");
		return;
	}
	int wrong = group->failure[0] ? 0 : checkGuest(group, guest, why);
	if (wrong)
		failGroup(group, wrong, why);
	markCome(group, guest->request.rank);
	if (group->failure[0]) {
		replyFailure(guest, group->failed, group->failure);
		if (group->come >= group->first.nRanks)
			removeGroup(groups, group);
		return;
	}
	guest->group = group;
	guest->state = guestWaits;
	group->guest[guest->rank] = guest;
	if (group->come == group->first.nRanks)
		completeGroup(groups, group);
}

void groupsLost(struct rootGroups *groups, struct guest *guest)
{
	struct rootGroup *group = guest->group;
	char why[BOOTSTRAP_WHY];

	snprintf(why, sizeof(why), "rank %u ended while the others were coming", guest->rank);
	group->guest[guest->rank] = NULL;
	guestDrop(guest);
	failGroup(group, -1, why);
	if (group->come >= group->first.nRanks)
		removeGroup(groups, group);
}

/* "ranks 3, 7, 8, 9 and 12 more" */
static void nameMissing(const struct rootGroup *group, char *out, size_t bytes)
{
	uint32_t named = 0, missing = group->first.nRanks - group->come;
	size_t used = (size_t)snprintf(out, bytes, "rank%s", missing > 1 ? "s" : "");

	for (uint32_t r = 0; r < group->first.nRanks && named < 8; r++)
		if (!group->guest[r])
			used += (size_t)snprintf(out + used, bytes - used, "%s %u",
						 named++ ? "," : "", r);
	if (missing > named)
		snprintf(out + used, bytes - used, " and %u more", missing - named);
}

static void tickGroup(struct rootGroups *groups, struct rootGroup *group, uint64_t waited)
{
	unsigned warnAfter = groups->seconds < 10 ? groups->seconds : 10;
	char missing[128], why[BOOTSTRAP_WHY];

	if (group->failure[0]) {
		if (waited > 2 * groups->seconds * SECOND)
			removeGroup(groups, group);
		return;
	}
	if (waited < (group->warned ? groups->seconds : warnAfter) * SECOND)
		return;
	nameMissing(group, missing, sizeof(missing));
	if (waited >= groups->seconds * SECOND) {
		snprintf(why, sizeof(why), "%s did not come within %u s (GIN_TIMEOUT)", missing,
			 groups->seconds);
		failGroup(group, BOOTSTRAP_LATE, why);
		return;
	}
	group->warned = 1;
	logWrite(logWarn, "bootstrap: waiting for %s", missing);
}

void groupsTick(struct rootGroups *groups, uint64_t now)
{
	for (struct rootGroup *group = groups->list, *next; group; group = next) {
		next = group->next;
		tickGroup(groups, group, now - group->start);
	}
}

void groupsFree(struct rootGroups *groups)
{
	while (groups->list)
		removeGroup(groups, groups->list);
}
