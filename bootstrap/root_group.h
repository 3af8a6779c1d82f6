/* SPDX-License-Identifier: BSD-3-Clause */
/* root_group.h - who has come to a root, and for which communicator; the root's thread alone */
#ifndef GIN_BOOTSTRAP_ROOT_GROUP_H
#define GIN_BOOTSTRAP_ROOT_GROUP_H

#include "root.h"

enum guestState {
	guestGreets, /* must prove that it knows the key */
	guestAsks,   /* must say what it wants */
	guestWaits   /* for the others of its group */
};

/* A connection. */
struct guest {
	int fd;
	enum guestState state;
	uint64_t since;
	uint64_t challenge[2];
	uint32_t rank; /* that it proved to be */
	struct rootRequest request;
	struct rootGroup *group; /* guestWaits */
	struct guest *next, **at;
};

/* A communicator whose ranks come. */
struct rootGroup {
	struct rootRequest first; /* name, generation and size */
	uint32_t come;		  /* ranks that did, and those that were told of its failure */
	struct guest **guest;	  /* [nRanks] */
	char failure[BOOTSTRAP_WHY];
	uint64_t start;
	int warned;
	struct rootGroup *next;
};

struct rootGroups {
	struct rootGroup *list;
	unsigned seconds; /* until a group is given up */
	unsigned done;	  /* groups that are complete or have failed for all */
};

/* Closes the connection and frees it, wherever it stands. */
void guestDrop(struct guest *guest);

/* Takes the request in guest->request; replies to all when its group is complete or has failed. */
void groupsAdd(struct rootGroups *groups, struct guest *guest);

/* A waiting guest has closed its connection: its group fails. */
void groupsLost(struct rootGroups *groups, struct guest *guest);

/* Warns after 10 s of waiting, gives up after groups->seconds. */
void groupsTick(struct rootGroups *groups, uint64_t now);

void groupsFree(struct rootGroups *groups);

#endif
