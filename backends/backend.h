/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * backend.h - the seam between the core and the code that moves data
 *
 * The core probes every backend, gives each pair of ranks one route and offers every window and
 * device communicator to the backends in use. A backend reaches the core only through the struct
 * backendHost that it gets, and knows no other backend. It includes lib/base/, lib/gpu/ and the
 * folders that backends share: test/lint/layers has the list.
 *
 * The core chooses direct pair by pair. All ranks use one network backend: the first of the table
 * (lib/backends.h) that works on all of them. A backend that needs CPU threads to make progress
 * starts them when it is opened and ends them when it is closed. A backend that finds a peer lost,
 * by an error completion for example, reports it by host->peerFailed; a send queue that fails while
 * its peer lives, by host->queueFailed.
 */
#ifndef GIN_BACKENDS_BACKEND_H
#define GIN_BACKENDS_BACKEND_H

#include "lib/base/error.h"
#include "lib/base/net/identity.h"
#include "lib/base/param.h"
#include "lib/gpu/memory.h"
#include "lib/gpu/pinned.h"
#include "plan.h"

#define BACKEND_WHY 160	  /* bytes of a reason in words, its NUL included */
#define BACKEND_BLOB 128  /* bytes that the probe on one rank sends to the other ranks */
#define BACKEND_OFFER 160 /* bytes that one rank sends about its part of a window */

/* The core gives it to a backend. It lives as long as the communicator. */
struct backendHost {
	int rank, nRanks;
	const struct identity *ranks; /* [nRanks] */
	const struct device *device;
	const uint8_t *key;    /* AUTH_KEY_BYTES of the communicator, which only its ranks know */
	const uint8_t *routes; /* [nRanks]: enum ginRoute; valid from open() on */
	int mixed;	       /* some rank has direct peers too; valid from open() on */
	int copiesOnly;	       /* all pairs are direct: see backendOps.copies; from open() on */

	/*
	 * As controlAllgather(), controlAlltoall() and handlesExchange(), with `core` as first
	 * argument.
	 */
	ginResult_t (*allgather)(void *core, const char *call, ginResult_t mine, const void *in,
				 void *out, size_t bytes);
	ginResult_t (*alltoall)(void *core, const char *call, ginResult_t mine, const void *in,
				void *out, size_t block);
	ginResult_t (*exchangeHandles)(void *core, int fd, const uint8_t *to, const uint8_t *from,
				       int *fds);
	/*
	 * The blob that the probe on `rank` wrote, of the backend with this route; from open() on.
	 */
	const void *(*blob)(void *core, int rank, uint32_t route);
	/*
	 * Did reach() of the backend with this route find the pair on both ranks before search()?
	 */
	int (*foundFirst)(void *core, int peer, uint32_t route);
	/*
	 * Any thread. Makes the communicator fail on all ranks, with `why` as the sentence. In a
	 * communicator that has failed: as queueFailed(), for all device communicators.
	 */
	void (*peerFailed)(void *core, int peer, const char *why);
	/*
	 * Any thread. The send queue of `contexts` to `peer` has failed, and the peer has not. In
	 * the device communicator of `contexts`, waits that depend on the peer end, and calls on
	 * the peer return ginErrorPeer; ginGetLastError() then has `why`. 0: no device communicator
	 * of the core has these contexts; call again later.
	 */
	int (*queueFailed)(void *core, const void *contexts, int peer, const char *why);
	/* Any thread. 1: the communicator has failed, and a peer may never answer. */
	int (*hasFailed)(void *core);
	void *core;
};

/* On which pairs of ranks a backend's search() depends. */
enum backendSearch {
	searchNever,
	searchMissing, /* search if some pair of ranks has no route without it */
	searchAnyway   /* search if some pair of ranks is not direct */
};

/* The send queues or rings that a device communicator requires of a network backend. */
struct backendContexts {
	uint32_t contexts, signals, counters, barriers; /* as in ginDevComm */
	uint32_t depth;	  /* entries of a send queue or ring: a power of two */
	int trafficClass; /* 0 to 255; -1: of the process */
	void *words;	  /* the backend's window of this writer class's words; NULL: copiesOnly */
};

struct backendOps {
	const char *name;
	uint32_t route;	 /* enum ginRoute */
	uint32_t writer; /* enum ginWriterClass: the agents that raise signals on this route */
	int network;	 /* 0: direct, chosen pair by pair */
	int otherHosts;	 /* may reach ranks of other hosts without search() */
	/*
	 * It also copies for direct peers, without threads of the GPU. The core may open it for
	 * that alone: no pair has its route then, and it writes no signals.
	 */
	int copies;

	/*
	 * Can this rank use the backend? Returns 1 and fills in the blob for the other ranks; or
	 * returns 0, and `why` says what is missing and what to change. Changes nothing.
	 */
	int (*probe)(const struct backendHost *host, void *blob, char *why);

	/*
	 * ginNicQuery(), for a backend that uses NICs; NULL for others. Without any port it
	 * succeeds, and info->why says why. The core calls the first backend of the table that has
	 * it.
	 */
	ginResult_t (*nic)(int index, ginNicInfo_t *info);

	/*
	 * Can this rank reach `peer`, which may be this rank? `mine` and `theirs` are the blobs of
	 * the two. `why` says how, or why not. Any thread, any time after the probe. For a peer on
	 * another host, both ranks must get equal answers; see also search().
	 */
	int (*reach)(const struct backendHost *host, int peer, const void *mine, const void *theirs,
		     char *why);

	/* By the blob of a rank: when to search(). NULL: searchNever. */
	enum backendSearch (*searches)(const void *blob);

	/*
	 * Finds ways to peers that take long to find, by a network library for example, and changes
	 * this rank's blob, which the core then sends to the other ranks. Called on all ranks or on
	 * none, before open(), if no other network backend works. Afterwards reach() must give both
	 * ranks of every pair equal answers. On an error the communicator fails.
	 */
	ginResult_t (*search)(const struct backendHost *host, void *blob);

	/* By the blob of a rank: has search() found a way to peers? */
	int (*hasFound)(const void *blob);

	/*
	 * Called on every rank when any pair may use this route. A backend that cannot work on this
	 * machine must fail here and not later: all ranks then use the next network backend.
	 */
	ginResult_t (*open)(const struct backendHost *host, void **state);
	void (*close)(void *state);

	/*
	 * Collective, after all ranks have opened the backend: connects them. The result is equal
	 * on all ranks. NULL: there is nothing to connect.
	 */
	ginResult_t (*connect)(void *state, const char *call);

	/*
	 * Prepares `memory`, this rank's part of a window, for the peers on this route. Writes the
	 * data for the peers into `offer`: BACKEND_OFFER bytes, zeroed. A step that can fail on one
	 * rank only belongs here. `offer` NULL: the memory is a source of this rank only, and
	 * windowRegister() is not called.
	 */
	ginResult_t (*windowOffer)(void *state, const struct memory *memory, void *offer,
				   void **window);

	/*
	 * Collective, after all ranks have offered: connects to the peers' parts. The offer of rank
	 * r begins at offers + r * stride. `mine` is this rank's result so far: a rank that has
	 * failed still takes part in every collective inside. Afterwards the core lets all ranks
	 * agree, and deregisters when any rank failed.
	 */
	ginResult_t (*windowRegister)(void *state, const char *call, ginResult_t mine,
				      const uint8_t *offers, size_t stride, void *window);

	/* Not collective. The window may have been offered and never registered. */
	void (*windowDeregister)(void *state, void *window);

	/*
	 * The address by which this rank loads and stores the window at `peer`, which may be this
	 * rank; or NULL. The call is NULL for a backend that has no such addresses.
	 */
	char *(*windowAddress)(void *window, int peer);

	/* Network backends: fills in their members of the table, after the window is registered. */
	void (*windowDescribe)(void *window, struct ginWindowTable *table);

	/*
	 * Fills in the table's entry of a peer, whatever the route to the peer. NULL: `address` and
	 * `bytes` are enough.
	 */
	void (*windowDescribePeer)(void *window, int peer, struct ginWindowPeer *entry);

	/*
	 * Collective, like windowRegister(): makes the send queues or rings of a device
	 * communicator. NULL: contexts need nothing on the host, and the other calls on contexts
	 * are NULL too.
	 */
	ginResult_t (*contextsOpen)(void *state, const char *call, ginResult_t mine,
				    const struct backendContexts *want, void **contexts);

	/* Do its agents perform atomics in GPU memory too? NULL: they do. */
	int (*deviceAtomics)(const void *state);

	/* Fills in the members about send queues or rings. */
	void (*contextsDescribe)(void *contexts, ginDevComm *devComm);

	/* Fills in the entry of a peer, whatever its route. NULL: route and state are enough. */
	void (*contextsDescribePeer)(void *contexts, int peer, struct ginPeer *entry);

	/*
	 * Fills in the counts of a context's send queues or ring; the other members are zero. Any
	 * thread, also while kernels run. The caller has entered the device's scope.
	 */
	ginResult_t (*contextsStats)(void *contexts, uint32_t context, ginStats_t *stats);
	/* Fills in the counts of the posts of all contexts to a peer; with the rules above. */
	ginResult_t (*contextsPeerStats)(void *contexts, int peer, ginPeerStats_t *stats);

	/*
	 * How many posts of all contexts to a peer are outstanding; adds those that have completed
	 * to *completed. In any unit, as the host knows them: the GPU is not asked. Any thread.
	 */
	uint64_t (*contextsOutstanding)(void *contexts, int peer, uint64_t *completed);

	/*
	 * Returns when everything that kernels have posted is complete or has failed; or at
	 * deadlineToTell(), ginErrorTimeout and a sentence about what is given up. No kernel uses
	 * the contexts any more. Not called when the communicator has failed.
	 */
	ginResult_t (*contextsDrain)(void *state, void *contexts);

	/*
	 * Ends all transfers in progress, and frees the contexts. Gives transfers up that do not
	 * end, if the communicator has failed or deadlineHere() has passed.
	 */
	void (*contextsClose)(void *state, void *contexts);

	/* Adds the memory and exchanges of this rank if every pair of ranks uses the backend. */
	void (*plan)(struct plan *plan);

	/*
	 * Makes one pass of the backend's threads on the calling thread. Returns 1 when there was
	 * something to do. Any thread. NULL: there is never anything to do.
	 */
	int (*progress)(void *state);
};

#endif
