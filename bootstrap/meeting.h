/* SPDX-License-Identifier: BSD-3-Clause */
/* meeting.h - a communicator whose ranks meet at a root: the state of pmix, tcp and uniqueid */
#ifndef GIN_BOOTSTRAP_MEETING_H
#define GIN_BOOTSTRAP_MEETING_H

#include "root.h"

struct meeting {
	struct rootContact contact;
	char name[BOOTSTRAP_NAME];
	uint32_t generation;
	int rank, nRanks;
	int patient; /* as rootVisit()'s */
	unsigned seconds;
};

/* For a job's communicators: takes the name's next generation of this process. NULL: no memory. */
struct meeting *meetingMake(const struct rootContact *contact, const char *name, unsigned seconds);

/* As struct bootstrapOps' exchange. */
int meetingExchange(void *state, const struct bootstrapEntry *mine, int parent,
		    struct bootstrapEntry *root, struct bootstrapEntry *parents, char *why);

#endif
