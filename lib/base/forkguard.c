/* SPDX-License-Identifier: BSD-3-Clause */
/* forkguard.c - what children of this process must not use or keep open */
#include "forkguard.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static struct {
	pthread_mutex_t lock;
	int *fds;
	int count, room;
} guard = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void beforeFork(void)
{
	pthread_mutex_lock(&guard.lock);
}

static void inParent(void)
{
	pthread_mutex_unlock(&guard.lock);
}

static void inChild(void)
{
	for (int i = 0; i < guard.count; i++)
		close(guard.fds[i]);
	guard.count = 0;
	pthread_mutex_unlock(&guard.lock);
}

static void install(void)
{
	pthread_atfork(beforeFork, inParent, inChild);
}

static int makeRoom(void)
{
	int room = guard.room ? 2 * guard.room : 64;
	int *fds = realloc(guard.fds, (size_t)room * sizeof(*fds));

	if (!fds)
		return -1;
	guard.fds = fds;
	guard.room = room;
	return 0;
}

void forkGuard(int fd)
{
	pthread_once(&once, install);
	pthread_mutex_lock(&guard.lock);
	if (guard.count < guard.room || !makeRoom())
		guard.fds[guard.count++] = fd;
	pthread_mutex_unlock(&guard.lock);
}

void forkGuardClose(int fd)
{
	pthread_mutex_lock(&guard.lock);
	for (int i = guard.count; i-- > 0;)
		if (guard.fds[i] == fd)
			guard.fds[i] = guard.fds[--guard.count];
	close(fd);
	pthread_mutex_unlock(&guard.lock);
}
