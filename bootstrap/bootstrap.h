/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap.h - how ranks first find each other: one allgather per communicator
 *
 * Everything later runs on the control plane. A bootstrap knows nothing of the library: it returns
 * 0, or -1 with a sentence in `why`.
 */
#ifndef GIN_BOOTSTRAP_H
#define GIN_BOOTSTRAP_H

#include <stddef.h>

#define BOOTSTRAP_WHY 256 /* a sentence, its end included */

struct bootstrapOps {
	size_t size; /* sizeof(struct bootstrapOps): a plug-in of another libgin is not used */
	const char *name;

	/* `arg` is the caller's (caller-supplied bootstrap only). */
	int (*open)(void *arg, void **state, int *rank, int *nRanks, char *why);

	/* Collective; gives up, and names who is missing if it can, after `seconds`. */
	int (*allgather)(void *state, const void *in, void *out, size_t bytes, unsigned seconds,
			 char *why);

	/* No rank may still be inside an allgather. */
	void (*close)(void *state);
};

/* What the caller supplies: ginConfig_t's members. */
struct bootstrapCaller {
	int (*allgather)(void *arg, const void *in, void *out, size_t bytes);
	void *arg;
	int rank, nRanks;
};

extern const struct bootstrapOps bootstrapCallerOps; /* arg: struct bootstrapCaller, copied */
extern const struct bootstrapOps bootstrapSelfOps;   /* this rank alone */

/* What libgin-pmix.so exports, by this name. */
#define BOOTSTRAP_PMIX_SYMBOL "ginBootstrapPmix"

/*
 * The one to use: the caller's, else PMIx, else alone. `forced` is "auto", "pmix" or "self".
 * NULL, and why in words, when a launcher started several ranks but offers no way to find them.
 */
const struct bootstrapOps *bootstrapChoose(int callerSupplied, const char *forced, char *why);

#endif
