/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap.h - how ranks first find each other: one exchange per communicator
 *
 * It brings a rank only what it needs to connect the control plane: the entries of rank 0 and of
 * its parent in the tree. Everything later runs on the control plane. A bootstrap returns 0, or -1
 * with a sentence in `why`; an exchange also what a rank refused with.
 *
 * Files: choose.c which one; caller.c, self.c; pmix.c (libgin-pmix.so), plugin.c, tcp.c and
 * uniqueid.c find a root, meeting.c is a rank's way to it, root.c and root_group.c the root itself.
 */
#ifndef GIN_BOOTSTRAP_H
#define GIN_BOOTSTRAP_H

#include <stddef.h>
#include <stdint.h>

#define BOOTSTRAP_LATE (-2) /* what an exchange returns when ranks did not come */
#define BOOTSTRAP_WHY 480   /* a sentence, its end included */
#define BOOTSTRAP_NAME 64   /* of a communicator, with what a bootstrap adds, its end included */
#define BOOTSTRAP_DATA 448  /* what a rank tells of itself */

/* What a rank puts in; of the same size in every version of libgin. */
struct bootstrapEntry {
	uint64_t magic;		     /* of the version: all must be equal */
	char host[64];		     /* its name */
	int32_t refused;	     /* this rank cannot go on: its result, above 0 */
	char refusal[BOOTSTRAP_WHY]; /* and the sentence; "": it can */
	uint8_t data[BOOTSTRAP_DATA];
};

struct rootContact;

/* What the caller of ginCommInit() and the environment want. */
struct bootstrapWanted {
	const char *forced;    /* GIN_BOOTSTRAP */
	const char *root;      /* GIN_ROOT */
	const char *secret;    /* GIN_SECRET */
	const char *interface; /* GIN_SOCKET_IFNAME */
	const char *name;      /* of the communicator */
	unsigned seconds;      /* until an exchange gives up */

	/* The caller's own allgather, or NULL, and with it or a unique id: */
	int (*allgather)(void *arg, const void *in, void *out, size_t bytes);
	void *allgatherArg;
	const struct rootContact *uniqueId; /* or NULL */
	int rank, nRanks;
};

struct bootstrapOps {
	const char *name;

	int (*open)(const struct bootstrapWanted *wanted, void **state, int *rank, int *nRanks,
		    char *why);

	/*
	 * Collective. When no rank refuses, brings the entries of rank 0 and of rank `parent`; else
	 * all have the result and sentence of one that did. Gives up after wanted->seconds, and
	 * names who is missing if it can.
	 */
	int (*exchange)(void *state, const struct bootstrapEntry *mine, int parent,
			struct bootstrapEntry *root, struct bootstrapEntry *parents, char *why);

	/* No rank may still be inside an exchange. */
	void (*close)(void *state);
};

extern const struct bootstrapOps bootstrapCallerOps;
extern const struct bootstrapOps bootstrapPmixOps;
extern const struct bootstrapOps bootstrapSelfOps; /* this rank alone */
extern const struct bootstrapOps bootstrapTcpOps;
extern const struct bootstrapOps bootstrapUniqueIdOps;

/*
 * The one to use: by unique id, as GIN_BOOTSTRAP says, the caller's, PMIx, TCP, or alone. NULL, and
 * why in words, when a launcher started several ranks but offers no way to find them.
 */
const struct bootstrapOps *bootstrapChoose(const struct bootstrapWanted *wanted, char *why);

/*
 * 0 when `entry`, of rank `rank`, is of the version of `mine` and no refusal; else what an exchange
 * returns for all, and the sentence.
 */
int bootstrapCheckEntry(const struct bootstrapEntry *mine, const struct bootstrapEntry *entry,
			int rank, char *why);

/* A variable by which a launcher says that it started more than one rank; NULL: none does. */
const char *launcherSeveral(void);

/* Rank and number of ranks as the first pair of a launcher's variables that is set says them. */
int launcherRank(int *rank, int *nRanks, char *why);

/* What libgin-pmix.so exports, by this name. */
#define BOOTSTRAP_PMIX_SYMBOL "ginBootstrapPmix"

struct bootstrapPmix {
	size_t size; /* sizeof(struct bootstrapPmix): a plug-in of another libgin is not used */

	/* Once per process; left when it exits. */
	int (*join)(int *rank, int *nRanks, char *why);

	/* Collective over the job: what rank 0 has in `data` comes to all ranks. */
	int (*share)(void *data, size_t bytes, unsigned seconds, char *why);
};

#endif
