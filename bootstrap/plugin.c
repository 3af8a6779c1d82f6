/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin.c - by PMIx: libgin-pmix.so carries the contact of one root, in rank 0's process, to all
 *
 * PMIx is asked once per process. What later communicators need goes to the root, so that they may
 * be made at the same time and in any order, which fences cannot do.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "meeting.h"

#define PLUGIN "libgin-pmix.so"

static struct {
	pthread_mutex_t lock;
	int joined;
	int rank, nRanks;
	struct rootContact contact;
} job = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Beside libgin.so, wherever that lies, else wherever the loader looks. */
static void *openPlugin(void)
{
	char path[1024];
	Dl_info self;

	if (dladdr((const void *)&bootstrapPmixOps, &self) && self.dli_fname) {
		const char *slash = strrchr(self.dli_fname, '/');
		int directory = slash ? (int)(slash - self.dli_fname) + 1 : 0;
		if (snprintf(path, sizeof(path), "%.*s" PLUGIN, directory, self.dli_fname) <
		    (int)sizeof(path)) {
			void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
			if (library || slash)
				return library ? library : dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
		}
	}
	return dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
}

static const struct bootstrapPmix *loadPlugin(char *why)
{
	void *library = openPlugin();
	const struct bootstrapPmix *pmix = library ? dlsym(library, BOOTSTRAP_PMIX_SYMBOL) : NULL;

	if (pmix && pmix->size == sizeof(*pmix))
		return pmix;
	if (pmix)
		snprintf(why, BOOTSTRAP_WHY, "%s belongs to another libgin", PLUGIN);
	else
		snprintf(why, BOOTSTRAP_WHY,
			 "PMIx is needed, but %.150s; or set GIN_ROOT=host:port and "
			 "GIN_BOOTSTRAP=tcp",
			 dlerror());
	return NULL;
}

/* All come to share(), whether rank 0 has a root or not. */
static int joinLocked(const struct bootstrapWanted *wanted, char *why)
{
	const struct bootstrapPmix *pmix = loadPlugin(why);
	struct rootContact contact = {0};
	int started = 0;

	if (!pmix || pmix->join(&job.rank, &job.nRanks, why))
		return -1;
	if (!job.rank)
		started = rootMake(&contact, wanted->interface, 0, wanted->seconds, why);
	if (pmix->share(&contact, sizeof(contact), wanted->seconds, why) || started)
		return -1;
	if (contact.magic != ROOT_MAGIC) {
		snprintf(why, BOOTSTRAP_WHY, "rank 0 could not start: see its own message");
		return -1;
	}
	job.contact = contact;
	job.joined = 1;
	return 0;
}

static int pmixOpen(const struct bootstrapWanted *wanted, void **state, int *rank, int *nRanks,
		    char *why)
{
	pthread_mutex_lock(&job.lock);
	int result = job.joined ? 0 : joinLocked(wanted, why);
	pthread_mutex_unlock(&job.lock);
	if (result)
		return -1;
	struct meeting *meeting = meetingMake(&job.contact, wanted->name, wanted->seconds);
	if (!meeting) {
		snprintf(why, BOOTSTRAP_WHY, "no memory");
		return -1;
	}
	*rank = meeting->rank = job.rank;
	*nRanks = meeting->nRanks = job.nRanks;
	*state = meeting;
	return 0;
}

const struct bootstrapOps bootstrapPmixOps = {
	.name = "pmix",
	.open = pmixOpen,
	.exchange = meetingExchange,
	.close = free,
};
