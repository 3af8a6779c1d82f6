/* SPDX-License-Identifier: BSD-3-Clause */
/* choose.c - which bootstrap, and never silent single ranks */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap.h"

#define PLUGIN "libgin-pmix.so"

/* Where libgin.so lies, its last slash included; "" when that is not known. */
static void ownFolder(char *folder, size_t size)
{
	Dl_info self;
	const char *slash = NULL;

	if (dladdr((const void *)&bootstrapSelfOps, &self) && self.dli_fname)
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
	void *library;

	ownFolder(folder, sizeof(folder));
	findPlugin(folder, path, sizeof(path));
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library)
		return library;
	if (strchr(path, '/'))
		snprintf(why, BOOTSTRAP_WHY, "PMIx is needed, but %.150s; install PMIx (libpmix2)",
			 dlerror());
	else
		snprintf(why, BOOTSTRAP_WHY,
			 "PMIx is needed, but %.110s has no " PLUGIN ": install it, or build "
			 "libgin where libpmix-dev is; or set config.allgather",
			 folder[0] ? folder : "the loader's path");
	return NULL;
}

static const struct bootstrapOps *loadPmix(char *why)
{
	void *library = openPlugin(why);
	const struct bootstrapOps *ops = library ? dlsym(library, BOOTSTRAP_PMIX_SYMBOL) : NULL;

	if (!library)
		return NULL;
	if (ops && ops->size == sizeof(*ops))
		return ops;
	snprintf(why, BOOTSTRAP_WHY, PLUGIN " belongs to another libgin");
	return NULL;
}

/* A launcher's variable that says how many ranks it started, if more than one; else NULL. */
static const char *launchedSeveral(void)
{
	static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
					    "SLURM_STEP_NUM_TASKS", "WORLD_SIZE"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);
		if (value && atoi(value) > 1)
			return names[i];
	}
	return NULL;
}

static const struct bootstrapOps *chooseSelf(char *why)
{
	const char *name = launchedSeveral();

	if (!name)
		return &bootstrapSelfOps;
	snprintf(why, BOOTSTRAP_WHY,
		 "%s=%s, but PMIX_NAMESPACE is not set: start the ranks with Open MPI's mpirun or "
		 "srun --mpi=pmix, or set config.allgather; GIN_BOOTSTRAP=self for single ranks",
		 name, getenv(name));
	return NULL;
}

const struct bootstrapOps *bootstrapChoose(int callerSupplied, const char *forced, char *why)
{
	if (!strcmp(forced, "self"))
		return &bootstrapSelfOps;
	if (!strcmp(forced, "pmix"))
		return loadPmix(why);
	if (callerSupplied)
		return &bootstrapCallerOps;
	return getenv("PMIX_NAMESPACE") ? loadPmix(why) : chooseSelf(why);
}
