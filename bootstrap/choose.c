/* SPDX-License-Identifier: BSD-3-Clause */
/* choose.c - chooses the bootstrap */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap.h"

/* It is an error when several ranks would start as single ranks unnoticed. */
static const struct bootstrapOps *chooseSelf(char *why)
{
	const char *name = launcherSeveral();

	if (!name)
		return &bootstrapSelfOps;
	snprintf(why, BOOTSTRAP_WHY,
		 "%s=%s, but neither PMIX_NAMESPACE nor GIN_ROOT is set: start the ranks with Open "
		 "MPI's mpirun or srun --mpi=pmix, set GIN_ROOT=host:port, or pass "
		 "config.allgather; set GIN_BOOTSTRAP=self if each process is to be a single rank",
		 name, getenv(name));
	return NULL;
}

const struct bootstrapOps *bootstrapChoose(const struct bootstrapWanted *wanted, char *why)
{
	if (wanted->uniqueId)
		return &bootstrapUniqueIdOps;
	/* The caller says that the rank is alone: no other rank makes this call. */
	if (wanted->allgather && wanted->nRanks == 1)
		return &bootstrapCallerOps;
	if (!strcmp(wanted->forced, "self"))
		return &bootstrapSelfOps;
	if (!strcmp(wanted->forced, "pmix"))
		return &bootstrapPmixOps;
	if (!strcmp(wanted->forced, "tcp"))
		return &bootstrapTcpOps;
	if (wanted->allgather)
		return &bootstrapCallerOps;
	if (getenv("PMIX_NAMESPACE") && !(*wanted->root && launcherIsNested()))
		return &bootstrapPmixOps;
	return *wanted->root ? &bootstrapTcpOps : chooseSelf(why);
}

int bootstrapCheckEntry(const struct bootstrapEntry *mine, const struct bootstrapEntry *entry,
			int rank, char *why)
{
	if (entry->magic != mine->magic) {
		snprintf(why, BOOTSTRAP_WHY, "rank %d (host %.63s) has another version of libgin",
			 rank, entry->host);
		return -1;
	}
	if (!entry->refusal[0])
		return 0;
	snprintf(why, BOOTSTRAP_WHY, "%.*s", (int)sizeof(entry->refusal), entry->refusal);
	return entry->refused > 0 ? entry->refused : -1;
}

int bootstrapCheckFork(const pid_t *joined, char *why)
{
	pid_t parent = __atomic_load_n(joined, __ATOMIC_RELAXED);

	if (!parent || parent == getpid())
		return 0;
	snprintf(why, BOOTSTRAP_WHY,
		 "process %d has a rank of the job already, and forked this process (pid %d): use "
		 "ginCommInitRank() in a child",
		 (int)parent, (int)getpid());
	return -1;
}
