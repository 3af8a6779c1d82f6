/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap.h - how the ranks of a new communicator first find each other
 *
 * A bootstrap performs one exchange per communicator. The exchange gives each rank the entries
 * that it needs to join the control plane: of rank 0 and of its parent in the control plane's tree.
 * All later communication uses the control plane. Every function returns 0, or -1 with a
 * sentence in `why`; an exchange may also return the result of a rank that refused.
 *
 * choose.c      which bootstrap to use
 * caller.c      the caller's own allgather
 * self.c        a single rank
 * pmix_load.c   PMIx: loads libgin-pmix.so (pmix.c) and finds the root of the job
 * tcp.c         GIN_ROOT: finds the root of the job (launcher.c: rank and number of ranks)
 * uniqueid.c    a unique id, which contains the address of its root
 * meeting.c     client side of an exchange through a root
 * root.c        the root's thread; root_start.c starts it; root_group.c: its clients
 */
#ifndef GIN_BOOTSTRAP_H
#define GIN_BOOTSTRAP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BOOTSTRAP_LATE (-2) /* result of an exchange: ranks did not come in time */
#define BOOTSTRAP_WHY 480   /* bytes of a sentence, with its terminating 0 */
#define BOOTSTRAP_NAME 64   /* bytes of a communicator's name, with prefix and terminating 0 */
#define BOOTSTRAP_KEY 16    /* bytes of a key: AUTH_KEY_BYTES */
#define BOOTSTRAP_JOB 64    /* bytes of a job's number, with terminating 0 */
#define BOOTSTRAP_DATA 448  /* bytes of a rank's own data */

/* The contribution of each rank. Its size is equal in all versions of libgin. */
struct bootstrapEntry {
	uint64_t magic;		     /* depends on the version; must be equal on all ranks */
	char host[64];		     /* name of the rank's host */
	int32_t refused;	     /* this rank cannot take part: its ginResult_t, above 0 */
	char refusal[BOOTSTRAP_WHY]; /* why it cannot take part; "" if it can */
	uint8_t data[BOOTSTRAP_DATA];
};

struct rootContact;
struct commFrom;

/* Settings, from the environment and from the caller of ginCommInit(). */
struct bootstrapWanted {
	const char *forced;    /* GIN_BOOTSTRAP */
	const char *root;      /* GIN_ROOT */
	const char *secret;    /* GIN_SECRET */
	const char *interface; /* GIN_SOCKET_IFNAME */
	const char *name;      /* of the communicator */
	unsigned seconds;      /* GIN_TIMEOUT */
	uint64_t deadline;     /* of the call, and so of all steps: clockNow() */

	/* The caller's own allgather, or NULL. */
	int (*allgather)(void *arg, const void *in, void *out, size_t bytes);
	void *allgatherArg;
	const struct rootContact *uniqueId; /* or NULL */
	int rank, nRanks;		    /* given by the caller with allgather or uniqueId */
	struct commFrom *from;		    /* of a split or shrunk communicator: lib/comm_from.h */
};

struct bootstrapOps {
	const char *name;

	/* Returns BOOTSTRAP_LATE after wanted->deadline. */
	int (*open)(const struct bootstrapWanted *wanted, void **state, int *rank, int *nRanks,
		    char *why);

	/*
	 * Collective. Fills in `root` and `parents`: the entries of rank 0 and of rank `parent`.
	 * When a rank refuses, all ranks get the result and the sentence of one rank that refused.
	 * After wanted->deadline returns BOOTSTRAP_LATE; the sentence names the missing ranks where
	 * they are known.
	 */
	int (*exchange)(void *state, const struct bootstrapEntry *mine, int parent,
			struct bootstrapEntry *root, struct bootstrapEntry *parents, char *why);

	/*
	 * After a successful exchange a rank may die before it has joined the control plane.
	 * watch() returns a descriptor that becomes readable when the bootstrap has news about
	 * that, or -1. lost() reads the news: it returns a ginResult_t, with a sentence, when a
	 * rank is lost; 0 when there is no news. All three may be NULL. Without watch(), lost() is
	 * called repeatedly. joined(): this rank has joined. It returns -1, or a descriptor for
	 * news that may still come: that another job has ranks in this communicator.
	 */
	int (*watch)(void *state);
	int (*lost)(void *state, char *why);
	int (*joined)(void *state);

	/*
	 * After a successful exchange: derives the communicator's key from rank 0's nonce, which
	 * the exchange has carried, and from a key that was not sent. NULL: the nonce is the key,
	 * because the exchange's channel is the caller's.
	 */
	void (*derive)(const void *state, const void *nonce, size_t bytes,
		       uint8_t key[BOOTSTRAP_KEY]);

	/* NULL, or: are all ranks on this host? */
	int (*isLocal)(const void *state);

	/*
	 * The caller makes sure that no thread is inside exchange() with this state. NULL: there is
	 * nothing to free.
	 */
	void (*close)(void *state);
};

extern const struct bootstrapOps bootstrapCallerOps;
extern const struct bootstrapOps bootstrapPmixOps;
extern const struct bootstrapOps bootstrapSelfOps;
extern const struct bootstrapOps bootstrapTcpOps;
extern const struct bootstrapOps bootstrapUniqueIdOps;

/*
 * Chooses the first that applies: unique id, GIN_BOOTSTRAP, the caller's allgather, GIN_ROOT for
 * workers of an agent, PMIx, GIN_ROOT, a single rank. Returns NULL, with `why`, when a launcher
 * started several ranks but gives them no way to find each other.
 */
const struct bootstrapOps *bootstrapChoose(const struct bootstrapWanted *wanted, char *why);

/*
 * Returns 0 when `entry`, which belongs to rank `rank`, has the version of `mine` and does not
 * refuse. Otherwise returns the result of the exchange for all ranks, and the sentence.
 */
int bootstrapCheckEntry(const struct bootstrapEntry *mine, const struct bootstrapEntry *entry,
			int rank, char *why);

/*
 * Fails in a forked child of the process that has joined its job as a rank: `joined` is the pid of
 * that process, or 0. A child would take the place of its parent's rank.
 */
int bootstrapCheckFork(const pid_t *joined, char *why);

/* Name of a launcher's variable that gives more than one rank; NULL if there is none. */
const char *launcherSeveral(void);

/*
 * Rank and number of ranks, from the first launcher whose two variables are set; `forced` is
 * GIN_BOOTSTRAP. Fails when the variables of another launcher contradict them.
 */
int launcherRank(const char *forced, int *rank, int *nRanks, char *why);

/* Fails when a launcher's variables contradict the number of ranks by PMIx. */
int launcherAgrees(const char *forced, int nRanks, char *why);

/*
 * Was this process started by an agent, as torchrun, that a launcher has started? The agent numbers
 * its workers by RANK and WORLD_SIZE; variables of the launcher, PMIx's too, are the agent's.
 */
int launcherIsNested(void);

/*
 * Splits GIN_ROOT, "host:port" or "[host]:port", into host and port; -1 when `text` is neither.
 * `host` has `bytes` bytes, and *port points into it.
 */
int tcpSplit(const char *text, char *host, size_t bytes, char **port);

/*
 * The launcher's number of this job; "" when the launcher whose variables give the rank has none.
 * Two jobs of one launcher have different numbers.
 */
void launcherJob(char out[BOOTSTRAP_JOB]);

/* The symbol that libgin-pmix.so exports: a struct bootstrapPmix. */
#define BOOTSTRAP_PMIX_SYMBOL "ginBootstrapPmix"

struct bootstrapPmix {
	size_t size; /* of this struct; another size means another version of libgin */

	/* Joins the launcher's job, once per process. The process leaves the job when it exits. */
	int (*join)(int *rank, int *nRanks, char *why);

	/*
	 * Collective over the job: copies `data` from rank 0 to all ranks. Returns BOOTSTRAP_LATE
	 * when rank 0 has not called it at the deadline.
	 */
	int (*share)(void *data, size_t bytes, uint64_t deadline, char *why);
};

#endif
