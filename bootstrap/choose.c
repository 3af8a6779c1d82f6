/* SPDX-License-Identifier: BSD-3-Clause */
/* choose.c - which bootstrap, and never silent single ranks */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap.h"

static const struct bootstrapOps *chooseSelf(char *why)
{
	const char *name = launcherSeveral();

	if (!name)
		return &bootstrapSelfOps;
	snprintf(why, BOOTSTRAP_WHY,
		 "%s=%s, but neither PMIX_NAMESPACE nor GIN_ROOT is set: start the ranks with Open "
		 "MPI's mpirun or srun --mpi=pmix, or set GIN_ROOT=host:port, or config.allgather; "
		 "GIN_BOOTSTRAP=self for single ranks",
		 name, getenv(name));
	return NULL;
}

const struct bootstrapOps *bootstrapChoose(const struct bootstrapWanted *wanted, char *why)
{
	if (wanted->uniqueId)
		return &bootstrapUniqueIdOps;
	if (!strcmp(wanted->forced, "self"))
		return &bootstrapSelfOps;
	if (!strcmp(wanted->forced, "pmix"))
		return &bootstrapPmixOps;
	if (!strcmp(wanted->forced, "tcp"))
		return &bootstrapTcpOps;
	if (wanted->allgather)
		return &bootstrapCallerOps;
	if (getenv("PMIX_NAMESPACE"))
		return &bootstrapPmixOps;
	return *wanted->root ? &bootstrapTcpOps : chooseSelf(why);
}

int bootstrapCheckEntry(const struct bootstrapEntry *mine, const struct bootstrapEntry *entry,
			int rank, char *why)
{
	if (entry->magic != mine->magic)
		snprintf(why, BOOTSTRAP_WHY, "rank %d (host %.63s) has another version of libgin",
			 rank, entry->host);
	else if (entry->refusal[0])
		snprintf(why, BOOTSTRAP_WHY, "rank %d (host %.63s) could not start: %.150s", rank,
			 entry->host, entry->refusal);
	else
		return 0;
	return -1;
}
