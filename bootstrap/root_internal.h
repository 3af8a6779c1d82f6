/* SPDX-License-Identifier: BSD-3-Clause */
/* root_internal.h - for root.c, the thread of a root, and root_start.c, which starts roots */
#ifndef GIN_BOOTSTRAP_ROOT_INTERNAL_H
#define GIN_BOOTSTRAP_ROOT_INTERNAL_H

#include <pthread.h>
#include <sys/types.h>

#include "root_group.h"

struct root {
	int listener, poll;
	uint16_t port; /* of a root of unique ids */
	pid_t pid;
	int strangers, most;
	int paused;	  /* all slots are taken: the listener is not polled */
	int full;	  /* a full group waits for connections in progress */
	unsigned named;	  /* refused clients that have a log line each */
	unsigned refused; /* since the last log line */
	uint64_t reported, warned;
	struct authKey *keys; /* the newest first; under rootLock */
	char job[BOOTSTRAP_JOB], host[64];
	struct rootClient *clients;
	struct rootGroups groups;
	struct root **handle; /* NULL: the root does not count users */
	unsigned linger;      /* seconds without users, after which the root ends */
	int users;	      /* unique ids, for example; changes under rootLock, as *handle */
	uint64_t busy;	      /* when the root last had a user, a client or a communicator */
	int someGivenUp;      /* some key is given up; under rootLock */
	struct root *next;    /* of this process; under rootLock */
};

/* For handles, users and keys of all roots. */
extern pthread_mutex_t rootLock;

/* Unlinks and frees a key. The caller holds the lock. */
void rootKeyDrop(struct root *root, struct authKey **at);

/* epoll reports `client`, or NULL for the listener. */
int rootPoll(const struct root *root, int fd, struct rootClient *client);

void *rootThread(void *arg);

/* Also unlinks the root from the list of this process. */
void rootFree(struct root *root);
void rootUnlink(const struct root *root);

#endif
