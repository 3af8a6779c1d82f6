/* SPDX-License-Identifier: BSD-3-Clause */
/* meeting.c - a communicator whose ranks meet at a root */
#include "meeting.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How often each name was used in this process. */
struct usage {
	char name[BOOTSTRAP_NAME];
	uint32_t next;
	struct usage *others;
};

static struct usage *usages;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct usage *findUsage(const char *name)
{
	struct usage *usage = usages;

	while (usage && strcmp(usage->name, name))
		usage = usage->others;
	if (usage)
		return usage;
	usage = calloc(1, sizeof(*usage));
	if (!usage)
		return NULL;
	snprintf(usage->name, sizeof(usage->name), "%s", name);
	usage->others = usages;
	usages = usage;
	return usage;
}

struct meeting *meetingMake(const struct rootContact *contact, const char *name, unsigned seconds)
{
	struct meeting *meeting = calloc(1, sizeof(*meeting));

	if (!meeting)
		return NULL;
	meeting->contact = *contact;
	meeting->seconds = seconds;
	snprintf(meeting->name, sizeof(meeting->name), "%s", name);
	pthread_mutex_lock(&lock);
	struct usage *usage = findUsage(name);
	if (usage)
		meeting->generation = usage->next++;
	pthread_mutex_unlock(&lock);
	if (usage)
		return meeting;
	free(meeting);
	return NULL;
}

int meetingExchange(void *state, const struct bootstrapEntry *mine, int parent,
		    struct bootstrapEntry *root, struct bootstrapEntry *parents, char *why)
{
	const struct meeting *meeting = state;
	struct rootRequest request = {.generation = meeting->generation,
				      .rank = (uint32_t)meeting->rank,
				      .nRanks = (uint32_t)meeting->nRanks,
				      .parent = (uint32_t)parent,
				      .entry = *mine};
	struct rootReply reply;

	memcpy(request.name, meeting->name, sizeof(request.name));
	if (rootVisit(&meeting->contact, &request, meeting->patient, meeting->seconds, &reply, why))
		return -1;
	*root = reply.root;
	*parents = reply.parent;
	return 0;
}
