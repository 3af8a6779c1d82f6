/* SPDX-License-Identifier: BSD-3-Clause */
/* internal.h - libgin-nccl.so: NCCL's host calls on libgin's public API */
#ifndef GIN_NCCL_INTERNAL_H
#define GIN_NCCL_INTERNAL_H

#include <pthread.h>

#include "gin/compat/nccl_device/core.h"

struct collectives;
struct ncclPairs;
struct ending;

/* Of ncclConfig_t; a split or shrunk communicator inherits them. */
struct ncclChoices {
	int trafficClass; /* of device communicators; NCCL_CONFIG_UNDEF_INT: GIN_NIC_TC */
	int rmaContexts;
	int rmaSignals; /* of a context, for each pair of ranks */
};

struct ncclComm {
	ginComm_t gin;
	int rank, nRanks;
	int device; /* CUDA ordinal or GIN_DEVICE_NONE */
	int domainSize;
	int localRanks; /* ranks of the communicator in this process */
	struct ncclChoices choices;
	ginDevComm rma; /* for operations of the host; size 0: there is none */
	uint64_t key;	/* equal on all ranks; names the communicator in this process */
	uint64_t splits;
	pthread_mutex_t lock; /* of the fields below */
	struct ending *endings, **lastEnding;
	struct collectives *collectives; /* NULL: none was called */
	struct ncclConnections *connections;
	struct ncclPairs *pairs;	/* of the group that runs now; not under the lock */
	struct ginNcclWindows *windows; /* of window.c, under its lock; NULL: not needed yet */
	ncclResult_t asyncError;
};

/* comm.c. A hash that names a communicator: of its id, or of its parent's name and the part. */
uint64_t ncclCommKey(uint64_t hash, const void *data, size_t bytes);

/* Makes NCCL's communicator of libgin's. Destroys `gin` on failure. */
ncclResult_t ncclCommWrap(ginComm_t gin, uint64_t key, const struct ncclChoices *choices,
			  ncclComm_t *out);

/* `config` may be NULL. `field`: the name of the traffic class in messages. */
ncclResult_t ncclConfigCheck(const char *call, const ncclConfig_t *config);
ncclResult_t ncclTrafficClassCheck(const char *call, const char *field, int trafficClass);

/* The choices of `config`; what it leaves open is as in `parent`, or NULL. */
struct ncclChoices ncclConfigChoices(const ncclConfig_t *config, const struct ncclChoices *parent);

/* error.c. Keeps a sentence for ncclGetLastError() of this thread, and returns `result`. */
__attribute__((format(printf, 2, 3))) ncclResult_t ncclFail(ncclResult_t result, const char *format,
							    ...);

/* The result of a call of libgin, with its sentence. */
ncclResult_t ncclFromGin(ginResult_t result);

/* The sentence of this thread, and a sentence from another thread. */
const char *ncclSentence(void);
void ncclSetSentence(const char *sentence);

/*
 * group.c. Runs run(args), or between ncclGroupStart() and ncclGroupEnd() keeps it for the end.
 * `args` is copied. Calls with one `key` run in order, calls with different keys concurrently.
 */
ncclResult_t ncclGroupDo(const void *key, ncclResult_t (*run)(void *args), const void *args,
			 size_t bytes);

/*
 * As ncclGroupDo(). After the calls with `key`, last(key, their result) runs once, also after a
 * failure; its result replaces theirs.
 */
ncclResult_t ncclGroupDoLast(const void *key, ncclResult_t (*run)(void *args),
			     ncclResult_t (*last)(const void *key, ncclResult_t result),
			     const void *args, size_t bytes);

/*
 * ending.c. NCCL's calls that end a window, a device communicator or memory are local; libgin's
 * calls are collective. One thread may make NCCL's call for all ranks of its process, one after the
 * other. If the process has several ranks of the communicator, the call is kept. The kept calls run
 * before the rank's next collective call on the communicator, or when it is destroyed.
 */
enum endingKind { endingOfWindow, endingOfDevComm, endingOfMemory };

struct ending {
	enum endingKind kind;
	ncclWindow_t window;
	ncclDevComm_t devComm;
	void *memory;
	struct ending *next;
};

/* Ends the object that `ending` names, or keeps the call. */
ncclResult_t ncclEnd(ncclComm_t comm, const struct ending *ending);

/* Runs the kept calls. Every collective call begins with it. */
ncclResult_t ncclEndKept(ncclComm_t comm);

/*
 * Before ginCommDestroy(), which ends what is left, as ncclEndKept(). But the ranks of one process
 * may have ended different objects, as NCCL allows: then memory is left for ncclEndKept().
 */
ncclResult_t ncclEndLast(ncclComm_t comm);

/*
 * window.c. A record for each window: of a program, and of the buffers of a device communicator,
 * which kernels do not find: its `bytes` are 0. ncclWindowsOf() gives the windows of `comm`, the
 * newest first; the caller frees the array. NULL: no memory.
 */
ncclResult_t ncclWindowNote(ncclComm_t comm, void *ptr, size_t bytes, ncclWindow_t window);
void ncclWindowForget(ncclWindow_t window);
ncclWindow_t *ncclWindowsOf(ncclComm_t comm, size_t *count);

/*
 * The newest window of a program in which `bytes` bytes from `at` on are, and their offset in it.
 * 0: there is none.
 */
int ncclWindowAround(ncclComm_t comm, const void *at, size_t bytes, ginWindow_t *window,
		     size_t *offset);

/* The tables for ncclFindWindow(), made by the first call; NULL: no memory. */
const struct ginNcclWindows *ncclWindowTables(ncclComm_t comm);
void ncclWindowTablesFree(ncclComm_t comm);

/* A device communicator that does not connect all ranks. */
struct ncclConnections {
	struct ncclConnections *next;
	ginDevComm gin;
	ncclGinConnectionType_t type;
	uint8_t unconnected[]; /* [nRanks], as in ginDevCommRequirements_t */
};

/*
 * connection.c. Check looks at the arguments of ginConnectionType. Read fills in `c` from them, and
 * returns the number of ranks that are not connected.
 */
ncclResult_t ncclConnectionsCheck(const struct ncclComm *comm, const ncclDevCommRequirements_t *r);
int ncclConnectionsRead(const struct ncclComm *comm, const ncclDevCommRequirements_t *r,
			struct ncclConnections *c);

/*
 * Keeps `c`, of malloc(), until it is forgotten; `gin` NULL: all are. ncclConnectionsReport() fails
 * if a kernel has called a rank that is not connected.
 */
void ncclConnectionsNote(ncclComm_t comm, struct ncclConnections *c, const ginDevComm *gin);
void ncclConnectionsForget(ncclComm_t comm, const ginDevComm *gin);
ncclResult_t ncclConnectionsReport(ncclComm_t comm);

/*
 * collective.c. Close waits for the streams of the communicator's collectives, GIN_TIMEOUT seconds
 * at most, and ends their thread. Collective if there is one. Abort ends the waits of the thread;
 * any thread may call it.
 */
ncclResult_t ncclCollectivesClose(ncclComm_t comm);
void ncclCollectivesAbort(ncclComm_t comm);

/* Fails if the stream is being captured into a graph: no graph could hold what CPUs do. */
ncclResult_t ncclCaptureCheck(const char *name, ncclComm_t comm, void *stream);

/* This rank does not take part in a collective that the others may have begun: it fails there. */
void ncclCollectiveMissed(ncclComm_t comm);

/*
 * rma.c. Open is collective, at the beginning of a communicator: where some rank cannot put
 * operations on streams, there is no host RMA. Close is collective. Report gives the result of the
 * first operation that has failed on a stream.
 */
void ncclRmaOpen(ncclComm_t comm);
ncclResult_t ncclRmaClose(ncclComm_t comm);
ncclResult_t ncclRmaReport(ncclComm_t comm);

/* Runs the sends and receives of a group on their streams, or without a GPU at once. Frees `p`. */
ncclResult_t ncclPairsRun(ncclComm_t comm, struct ncclPairs *p);

/* destroy.c. Makes the communicator fail on all ranks, its collectives included. */
ginResult_t ncclEndWaits(ncclComm_t comm);

/* Size of an element; 0: no such type. */
size_t ncclTypeSize(ncclDataType_t type);

/*
 * reduce.c. ncclReduceInto() combines `count` elements of `from` with `into`. For ncclAvg
 * ncclReduceEnd() divides the sums by the number of ranks.
 */
ncclResult_t ncclReduceCheck(const char *call, ncclDataType_t type, ncclRedOp_t op);
void ncclReduceInto(void *into, const void *from, size_t count, ncclDataType_t type,
		    ncclRedOp_t op);
void ncclReduceEnd(void *into, size_t count, ncclDataType_t type, ncclRedOp_t op, int nRanks);

#endif
