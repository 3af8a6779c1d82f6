/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.h - a communicator, as the core sees it */
#ifndef GIN_LIB_COMM_H
#define GIN_LIB_COMM_H

#include "bootstrap/bootstrap.h"
#include "lib/control/control.h"
#include "lib/control/handles.h"
#include "lib/gpu/pool.h"
#include "routes.h"

/* One backend on this rank. */
struct backendUse {
	const struct backendOps *ops;
	int usable;	       /* by the probe, and after a trial by open() */
	char why[BACKEND_WHY]; /* the finding of the probe, or of the trial */
	int used;	       /* by some pair of ranks, or for copies only */
	int copiesOnly;	       /* as in struct backendHost */
	/* Why all ranks leave it unused although some pair could use it; "": no such reason. */
	char whyUnused[BACKEND_WHY];
	void *state; /* NULL: not open */
};

struct devComm; /* devcomm.c */

/* Of attach.c; under struct ginComm's lock, except for `fd` and `isDone` while the thread runs. */
struct attach {
	int listener; /* -1: none */
	int fd;	      /* of the caller that the thread serves */
	pthread_t thread;
	int isStarted, isDone;
};

/* Why kernels may not use a peer. */
enum peerLost {
	lostDead = 1,
	lostMasked = 2 /* by ginCommMask() of this rank */
};

/*
 * Touched by the calls of the communicator, one at a time; by any thread: `control`, which has a
 * lock of its own, members that only commOpen() sets, and under `lock` the lists, `lost`, and
 * `lostAll` to `lostFirst`.
 */
struct ginComm {
	int rank, nRanks;
	const struct bootstrapOps *bootstrap;
	void *bootstrapState;
	struct identity *ranks; /* [nRanks] */
	struct control control;
	struct handles handles;
	struct device device;
	uint32_t *localIndex; /* [nRanks]: how many lower ranks are on the rank's host */
	char (*deviceNames)[sizeof(((struct device *)0)->name)]; /* [nRanks] */
	struct backendProbe (*probed)[BACKENDS_COUNT];		 /* [nRanks] */
	uint8_t *routes;					 /* [nRanks]: enum ginRoute */
	uint8_t *reached;      /* [nRanks]: a bit for each backend that can connect the pair */
	uint8_t *reachedFirst; /* [nRanks]: `reached` before backends have searched */
	uint8_t *lost;	       /* [nRanks]: bits of enum peerLost; under `lock` */
	/* Pairs of ranks that may use a network; equal on all ranks. */
	int anyNotDirect, anyUnconnected;
	int domainSize;	 /* ranks of an NVLink domain, as in ginDevComm */
	int forced;	 /* index of the only network backend allowed; 0: any */
	int copyEngines; /* some rank asks for copy engines for direct peers */
	struct backendHost host;
	struct backendUse backend[BACKENDS_COUNT];
	struct pool pool;

	pthread_mutex_t lock;	 /* of the lists below; never held while waiting for other ranks */
	void *windows;		 /* tsearch() of struct window */
	struct window *retired;	 /* by ascending serial; also in `windows` */
	struct window *released; /* retired windows that are deregistered; by commClose() */
	uint64_t retiredFrom;	 /* the lowest serial that the next collective compares */
	struct devComm *devComms;
	/*
	 * The result of kernels' calls on all peers, and the rank that it names (-1: none);
	 * ginSuccess: no failure.
	 */
	ginResult_t lostAll;
	int lostAllBy;
	int lostFirst; /* the first rank whose death was seen, or -1 */
	uint64_t windowSerial, devCommSerial;
	struct attach attach;

	struct ginComm *nextLive; /* in the list of commOpened() */
	int isParents;		  /* this process is a forked child of the one that opened it */
};

/* The arguments of opening a communicator. */
struct commStart {
	const ginConfig_t *config; /* for commCheckConfig(), or NULL */
	struct bootstrapWanted wanted;
	const struct bootstrapOps *bootstrap; /* NULL: bootstrapChoose() */
	int device;			      /* as in ginConfig_t */
	int forced;			      /* as in ginComm */
	int copyEngines;		      /* this rank asks for them */
	struct interrupt interrupt;	      /* of this and all later collectives */
};

/* Checks the choices of the caller. A rank with a wrong one takes part, so that no rank waits. */
ginResult_t commCheckConfig(const ginConfig_t *config);

/*
 * Connects the ranks and opens all components of a communicator. Collective: a step that fails on
 * one rank fails on all.
 */
ginResult_t commOpen(const char *call, const struct commStart *start, ginComm_t *out);

/*
 * GIN_SELFTEST=1: puts and signals between all pairs of ranks. Collective. A pair that is broken
 * fails the call on all ranks, with a sentence that names pair, route and remedy; the caller closes
 * `comm`.
 */
ginResult_t commSelftest(ginComm_t comm, const char *call);

/* Frees all components, without the other ranks. */
void commClose(ginComm_t comm);

/* commClose() after a failure. Returns `result`; the sentence of the failure stays. */
ginResult_t commDrop(ginComm_t comm, ginResult_t result);

/* Add to a plan: the core's share of a communicator, of a device communicator, of a window. */
void commPlan(struct plan *plan);
void devCommPlan(uint32_t writer, const ginDevCommRequirements_t *want, struct plan *plan);
void windowPlan(struct plan *plan);

/* All communicators of the process, from the end of commOpen() to the start of commClose(). */
void commOpened(ginComm_t comm);
void commClosing(ginComm_t comm);
/* Calls `each` for every one of them, up to a failure. No other thread opens or closes one. */
ginResult_t commEach(ginResult_t (*each)(ginComm_t comm, int fd), int fd);

/*
 * Begins an API call: sets the scope of error sentences. Fails when comm is NULL or no communicator
 * of the process, after ginCommDestroy() or in a forked child for example.
 */
ginResult_t commEnter(ginComm_t comm, const char *call);

/* `rank`, or the whole communicator (-1), has failed: ends the waits of kernels. Any thread. */
void devCommsFail(ginComm_t comm, int rank, ginResult_t result);

/* Warns of kernels that wait long: lib/devcomm/told.c. Call it every quarter of a second. */
void devCommsTick(ginComm_t comm);

/* struct backendHost.queueFailed; `contexts` NULL: of all device communicators */
int devCommQueueFailed(ginComm_t comm, const void *contexts, int rank, const char *why);

/*
 * Fails while a thread of this rank's kernels waits in a call on a device communicator, unless this
 * rank has aborted: see lib/devcomm/waits.c.
 */
ginResult_t devCommsCheckIdle(ginComm_t comm);

/* Is the plug-in for operations on streams there, and with a GPU its kernel? */
int commHasStreams(const struct ginComm *comm);

/* Free the objects that the user has not destroyed or deregistered, with a warning. */
void devCommsFree(ginComm_t comm);
void windowsFree(ginComm_t comm);

/* Frees all windows, without a warning. */
void windowsDrop(ginComm_t comm);

/*
 * At the end of a collective that has succeeded: deregisters windows that all ranks have retired,
 * and calls the callers' functions. Collective.
 */
void windowsRelease(ginComm_t comm);

/* After windowsFree(): calls the functions of windows that were retired. */
void windowsCallReleased(ginComm_t comm);

#endif
