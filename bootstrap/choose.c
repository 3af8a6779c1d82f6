/* SPDX-License-Identifier: BSD-3-Clause */
/* choose.c - which bootstrap, and never silent single ranks */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap.h"

#define PLUGIN "libgin-pmix.so"

/* Beside libgin.so, wherever that lies, else wherever the loader looks. */
static void *openPlugin(void)
{
	char path[1024];
	Dl_info self;

	if (dladdr((const void *)&bootstrapSelfOps, &self) && self.dli_fname) {
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

static const struct bootstrapOps *loadPmix(char *why)
{
	void *library = openPlugin();
	const struct bootstrapOps *ops = library ? dlsym(library, BOOTSTRAP_PMIX_SYMBOL) : NULL;

	if (ops && ops->size == sizeof(*ops))
		return ops;
	if (ops)
		snprintf(why, BOOTSTRAP_WHY, "%s belongs to another libgin", PLUGIN);
	else
		snprintf(why, BOOTSTRAP_WHY, "PMIx is needed, but %.180s", dlerror());
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
