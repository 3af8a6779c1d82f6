/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * backend.h - the seam between the core and what moves data
 *
 * The core probes every backend, lets all ranks agree, gives each pair of ranks one route and
 * offers every window and device communicator to the backends that are in use. A backend sees the
 * core only through the struct backendHost that it is handed, and no other backend.
 *
 * Direct is chosen pair by pair; of network backends all ranks use the same one, the first that
 * works on all. A backend that
 * needs CPU threads to make progress starts them when it is opened and ends them when it is closed;
 * one that finds a peer lost, by an error completion say, tells the core by host->peerFailed.
 */
#ifndef GIN_BACKENDS_BACKEND_H
#define GIN_BACKENDS_BACKEND_H

#include "lib/base/error.h"
#include "lib/base/identity.h"
#include "lib/gpu/memory.h"
#include "lib/base/param.h"
#include "lib/gpu/pinned.h"

#define BACKEND_WHY 160	  /* a reason in words, its end included */
#define BACKEND_BLOB 64	  /* what a backend tells its like on other ranks when it is probed */
#define BACKEND_OFFER 128 /* the same, of a rank's part of a window */

/* What the core hands to a backend; lives as long as the communicator. */
struct backendHost {
	int rank, nRanks;
	const struct identity *ranks; /* [nRanks]: host and process of each */
	const struct device *device;
	const uint8_t *routes; /* [nRanks]: enum ginRoute, once open() is called */
	int mixed;	       /* some rank has direct peers, too; once open() is called */

	/* As controlAllgather() and handlesExchange(), with `core` in front. */
	ginResult_t (*allgather)(void *core, const char *call, ginResult_t mine, const void *in,
				 void *out, size_t bytes);
	ginResult_t (*exchangeHandles)(void *core, int fd, const uint8_t *to, const uint8_t *from,
				       int *fds);
	/* What the backend of this route told on a rank when it was probed; once open() is called. */
	const void *(*blob)(void *core, int rank, uint32_t route);
	/* Any thread. The communicator fails on all ranks with this sentence. */
	void (*peerFailed)(void *core, int peer, const char *why);
	void *core;
};

/* What a device communicator asks of a network backend's queues. */
struct backendContexts {
	uint32_t contexts, signals, counters, barriers; /* as ginDevComm's */
	uint32_t depth;					/* of a queue, a power of two */
	void *words; /* the backend's window with the words of its writer class; NULL: none */
};

struct backendOps {
	const char *name;
	uint32_t route;	   /* enum ginRoute */
	uint32_t writer;   /* enum ginWriterClass: who raises signals on this route */
	int network;	   /* else pair by pair */
	int otherHosts;	   /* may reach ranks of other hosts */
	int deviceAtomics; /* its agents do atomics in GPU memory too */

	/*
	 * Can this rank use it at all? 1, and the blob that the other ranks get; or 0, and `why`
	 * says what is missing and what to change. Changes nothing.
	 */
	int (*probe)(const struct backendHost *host, void *blob, char *why);

	/*
	 * ginNicQuery(), of a backend that has NICs. A sentence in `why` of `info` without a port.
	 */
	ginResult_t (*nic)(int index, ginNicInfo_t *info);

	/*
	 * Can this rank reach `peer`, which may be itself? `why` says how, or why not. Any thread,
	 * any time after the probe. Of peers on other hosts both ends must say the same.
	 */
	int (*reach)(const struct backendHost *host, int peer, const void *mine, const void *theirs,
		     char *why);

	/*
	 * When some pair has this route; every rank opens it. A network backend that can fail on this
	 * machine fails here, and not later: all then use the next one.
	 */
	ginResult_t (*open)(const struct backendHost *host, void **state);
	void (*close)(void *state);

	/*
	 * Prepares `memory`, this rank's part of a window, for the peers on this route, and writes
	 * what they have to know into `offer`: BACKEND_OFFER bytes, zero before. What can fail on
	 * this rank alone belongs here. `offer` NULL: this rank's source only, and never registered.
	 */
	ginResult_t (*windowOffer)(void *state, const struct memory *memory, void *offer,
				   void **window);

	/*
	 * Collective, once all ranks have offered: reaches the peers' parts; the offer of rank r
	 * begins at offers + r * stride. A rank that fails must still take part to the end of the
	 * collectives inside; the core lets all ranks agree afterwards and deregisters where it
	 * succeeded. `mine` is what this rank has come to so far.
	 */
	ginResult_t (*windowRegister)(void *state, const char *call, ginResult_t mine,
				      const uint8_t *offers, size_t stride, void *window);

	/* Not collective; also what was offered and never registered. */
	void (*windowDeregister)(void *state, void *window);

	/*
	 * Where this rank loads and stores the window at `peer`, or NULL; own rank included. NULL:
	 * nowhere.
	 */
	char *(*windowAddress)(void *window, int peer);

	/* Network backends: fills in what is theirs in the table, once the window is registered. */
	void (*windowDescribe)(void *window, struct ginWindowTable *table);

	/* The same of the window at a peer, on whatever route; NULL: `address` and `bytes` say all. */
	void (*windowDescribePeer)(void *window, int peer, struct ginWindowPeer *entry);

	/*
	 * Collective, as windowRegister: the queues of a device communicator. NULL: contexts need
	 * nothing of the host.
	 */
	ginResult_t (*contextsOpen)(void *state, const char *call, ginResult_t mine,
				    const struct backendContexts *want, void **contexts);

	/* Fills in what kernels have to know of the queues. */
	void (*contextsDescribe)(void *contexts, ginDevComm *devComm);

	/* The same of a peer, on whatever route; NULL: route and state say all. */
	void (*contextsDescribePeer)(void *contexts, int peer, struct ginPeer *entry);

	/*
	 * Fills in what went through the queue of a context; the rest is zero. Any thread, also while
	 * kernels run; the device's scope is entered.
	 */
	ginResult_t (*contextsStats)(void *contexts, uint32_t context, ginStats_t *stats);

	/*
	 * No kernel uses them any more: what they have posted is done, or has failed, when it returns.
	 * Not when the communicator has failed.
	 */
	void (*contextsDrain)(void *state, void *contexts);

	/* Ends what is left of it, and frees them. */
	void (*contextsClose)(void *state, void *contexts);

	/*
	 * One turn of what the backend's threads do, by the calling thread; NULL: nothing is ever to
	 * do. 1 when something was done. Any thread.
	 */
	int (*progress)(void *state);
};

#endif
