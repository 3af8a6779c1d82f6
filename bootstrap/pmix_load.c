/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmix_load.c - bootstrap by PMIx: loads libgin-pmix.so and finds the root of the job
 *
 * Rank 0 runs a root for the whole job. libgin-pmix.so copies the contact of the root to all ranks,
 * once per process. Communicators then meet at the root: unlike PMIx fences, meetings may overlap
 * and may happen in any order. The root listens until the process ends: see root.h.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/plugin.h"
#include "meeting.h"

#define PLUGIN "libgin-pmix.so"

/* The job of this process. The lock guards all fields. */
static struct {
	pthread_mutex_t lock;
	pid_t joined; /* this process; 0 before */
	int rank, nRanks;
	struct rootContact contact;
} job = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const struct bootstrapPmix *loadPmix(char *why)
{
	static const struct plugin plugin = {PLUGIN, BOOTSTRAP_PMIX_SYMBOL,
					     sizeof(struct bootstrapPmix)};
	const void *pmix = NULL;
	char reason[160];

	switch (pluginOpen(&plugin, &pmix, reason, sizeof(reason))) {
	case pluginFound:
		return pmix;
	case pluginMissing:
		snprintf(why, BOOTSTRAP_WHY,
			 "PMIx is needed, but %.110s has no " PLUGIN ": install it, build libgin "
			 "on a machine that has libpmix-dev, or set GIN_ROOT=host:port and "
			 "GIN_BOOTSTRAP=tcp",
			 reason);
		return NULL;
	case pluginBroken:
		snprintf(why, BOOTSTRAP_WHY, "PMIx is needed, but %.150s; install PMIx (libpmix2)",
			 reason);
		return NULL;
	default:
		snprintf(why, BOOTSTRAP_WHY, "%s", reason);
		return NULL;
	}
}

/* All ranks call share(), which is collective, even when rank 0 could not start a root. */
static int joinLocked(const struct bootstrapWanted *wanted, char *why)
{
	const struct bootstrapPmix *pmix = loadPmix(why);
	struct rootContact contact = {0};
	char late[BOOTSTRAP_WHY]; /* the sentence that is not the first */
	int started = 0;

	if (!pmix || pmix->join(&job.rank, &job.nRanks, why) ||
	    launcherAgrees(wanted->forced, job.nRanks, why))
		return -1;
	if (!job.rank)
		started = rootMake(&contact, wanted->interface, wanted->seconds, why);
	int failed = pmix->share(&contact, sizeof(contact), wanted->deadline, started ? late : why);
	if (failed || started)
		return started ? -1 : failed;
	if (contact.magic != ROOT_MAGIC) {
		snprintf(why, BOOTSTRAP_WHY, "rank 0 could not start: see the messages of rank 0");
		return -1;
	}
	job.contact = contact;
	__atomic_store_n(&job.joined, getpid(), __ATOMIC_RELAXED);
	return 0;
}

static int pmixOpen(const struct bootstrapWanted *wanted, void **state, int *rank, int *nRanks,
		    char *why)
{
	if (bootstrapCheckFork(&job.joined, why))
		return -1;
	pthread_mutex_lock(&job.lock);
	int result = job.joined ? 0 : joinLocked(wanted, why);
	pthread_mutex_unlock(&job.lock);
	if (result)
		return result;
	struct meeting *meeting = meetingMake(&job.contact, wanted->name, wanted, why);
	if (!meeting)
		return -1;
	*rank = meeting->rank = job.rank;
	*nRanks = meeting->nRanks = job.nRanks;
	*state = meeting;
	return 0;
}

const struct bootstrapOps bootstrapPmixOps = {
	.name = "pmix",
	.open = pmixOpen,
	.exchange = meetingExchange,
	.watch = meetingWatch,
	.lost = meetingLost,
	.joined = meetingJoined,
	.derive = meetingDerive,
	.close = meetingClose,
};
