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
#include <unistd.h>

#include "meeting.h"

#define PLUGIN "libgin-pmix.so"

static struct {
	pthread_mutex_t lock;
	int joined;
	int rank, nRanks;
	struct rootContact contact;
} job = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Where libgin.so lies, its last slash included; "" when that is not known. */
static void ownFolder(char *folder, size_t size)
{
	Dl_info self;
	const char *slash = NULL;

	if (dladdr((const void *)&bootstrapPmixOps, &self) && self.dli_fname)
		slash = strrchr(self.dli_fname, '/');
	if (!slash || slash - self.dli_fname + 2 > (long)size)
		folder[0] = 0;
	else
		snprintf(folder, size, "%.*s/", (int)(slash - self.dli_fname), self.dli_fname);
}

/*
 * The plug-in: beside libgin.so in a build tree, in a folder of its own where libgin is installed;
 * else its bare name, for the loader to look.
 */
static void findPlugin(const char *folder, char *path, size_t size)
{
	static const char *const places[] = {"", "libgin0/"};

	for (size_t i = 0; folder[0] && i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, size, "%s%s" PLUGIN, folder, places[i]);
		if (!access(path, F_OK))
			return;
	}
	snprintf(path, size, PLUGIN);
}

static void *openPlugin(char *why)
{
	char folder[1024], path[1100];

	ownFolder(folder, sizeof(folder));
	findPlugin(folder, path, sizeof(path));
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library)
		return library;
	if (strchr(path, '/'))
		snprintf(why, BOOTSTRAP_WHY, "PMIx is needed, but %.150s; install PMIx (libpmix2)",
			 dlerror());
	else
		snprintf(why, BOOTSTRAP_WHY,
			 "PMIx is needed, but %.110s has no " PLUGIN ": install it, or build "
			 "libgin where libpmix-dev is; or GIN_ROOT=host:port, GIN_BOOTSTRAP=tcp",
			 folder[0] ? folder : "the loader's path");
	return NULL;
}

static const struct bootstrapPmix *loadPlugin(char *why)
{
	void *library = openPlugin(why);
	const struct bootstrapPmix *pmix = library ? dlsym(library, BOOTSTRAP_PMIX_SYMBOL) : NULL;

	if (!library)
		return NULL;
	if (pmix && pmix->size == sizeof(*pmix))
		return pmix;
	snprintf(why, BOOTSTRAP_WHY, PLUGIN " belongs to another libgin");
	return NULL;
}

/*
 * torchrun under srun, say: its workers inherit the PMIx of the one process that started them, and
 * each would be a single rank.
 */
static int checkSize(const struct bootstrapWanted *wanted, char *why)
{
	const char *size = getenv("WORLD_SIZE");

	if (job.nRanks > 1 || !size || atoi(size) < 2 || !strcmp(wanted->forced, "pmix"))
		return 0;
	snprintf(why, BOOTSTRAP_WHY,
		 "PMIx says that there is one rank, WORLD_SIZE=%.20s: set GIN_BOOTSTRAP=tcp and "
		 "GIN_ROOT=host:port if WORLD_SIZE is right, GIN_BOOTSTRAP=pmix if it is not",
		 size);
	return -1;
}

/* All come to share(), whether rank 0 has a root or not. */
static int joinLocked(const struct bootstrapWanted *wanted, char *why)
{
	const struct bootstrapPmix *pmix = loadPlugin(why);
	struct rootContact contact = {0};
	int started = 0;

	if (!pmix || pmix->join(&job.rank, &job.nRanks, why) || checkSize(wanted, why))
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
