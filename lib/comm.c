/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.c - the communicators of the process: every call on one begins with commEnter() */
#include "comm.h"

#include <unistd.h>

static ginComm_t live[64]; /* lists, by a hash of the address */
static pthread_mutex_t liveLock = PTHREAD_MUTEX_INITIALIZER;

static ginComm_t *liveList(ginComm_t comm)
{
	uintptr_t address = (uintptr_t)comm;

	return &live[(address >> 6 ^ address >> 12) % (sizeof(live) / sizeof(live[0]))];
}

/* The link that points to `comm`, or to NULL at the end of its list. The caller holds the lock. */
static ginComm_t *liveLink(ginComm_t comm)
{
	ginComm_t *at = liveList(comm);

	while (*at && *at != comm)
		at = &(*at)->nextLive;
	return at;
}

static void beforeFork(void)
{
	pthread_mutex_lock(&liveLock);
}

static void inParent(void)
{
	pthread_mutex_unlock(&liveLock);
}

/* The child has neither the threads nor the connections of its parent's communicators. */
static void inChild(void)
{
	for (size_t i = 0; i < sizeof(live) / sizeof(live[0]); i++)
		for (ginComm_t comm = live[i]; comm; comm = comm->nextLive)
			comm->isParents = 1;
	pthread_mutex_unlock(&liveLock);
}

static void install(void)
{
	pthread_atfork(beforeFork, inParent, inChild);
}

void commOpened(ginComm_t comm)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, install);
	pthread_mutex_lock(&liveLock);
	comm->nextLive = *liveList(comm);
	*liveList(comm) = comm;
	pthread_mutex_unlock(&liveLock);
}

void commClosing(ginComm_t comm)
{
	pthread_mutex_lock(&liveLock);
	ginComm_t *at = liveLink(comm);
	if (*at)
		*at = comm->nextLive;
	pthread_mutex_unlock(&liveLock);
}

/* Without the lock: `each` takes long, and other calls go on. */
ginResult_t commEach(ginResult_t (*each)(ginComm_t comm, int fd), int fd)
{
	ginResult_t result = ginSuccess;

	for (size_t i = 0; i < sizeof(live) / sizeof(live[0]); i++)
		for (ginComm_t comm = live[i]; comm && result == ginSuccess; comm = comm->nextLive)
			if (!comm->isParents)
				result = each(comm, fd);
	return result;
}

static int isLive(ginComm_t comm)
{
	pthread_mutex_lock(&liveLock);
	int found = *liveLink(comm) != NULL;
	pthread_mutex_unlock(&liveLock);
	return found;
}

ginResult_t commEnter(ginComm_t comm, const char *call)
{
	int isOpen = comm && isLive(comm);

	errorScope(call, isOpen ? comm->rank : -1);
	if (isOpen && comm->isParents)
		return fail(ginErrorInvalidUsage,
			    "comm belongs to the process that forked this one (pid %d): a child "
			    "opens communicators of its own",
			    (int)getpid());
	if (isOpen)
		return ginSuccess;
	return fail(ginErrorInvalidArgument,
		    comm ? "comm is no communicator: was it destroyed?" : "comm is NULL");
}
