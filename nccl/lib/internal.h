/* SPDX-License-Identifier: BSD-3-Clause */
/* internal.h - libgin-nccl.so: NCCL's host calls on libgin's public API */
#ifndef GIN_NCCL_INTERNAL_H
#define GIN_NCCL_INTERNAL_H

#include <pthread.h>

#include "gin/compat/nccl_device/core.h"

struct collectives;
struct parting;

struct ncclComm {
	ginComm_t gin;
	int rank, nRanks;
	int device; /* CUDA ordinal or GIN_DEVICE_NONE */
	int domainSize;
	int localRanks; /* ranks of the communicator in this process */
	uint64_t key;	/* equal on all ranks; names the communicator in this process */
	uint64_t splits;
	pthread_mutex_t lock; /* of the fields below */
	struct parting *partings, **lastParting;
	struct collectives *collectives; /* NULL: none was called */
	ncclResult_t asyncError;
};

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
 * `args` is copied. Calls with one `key` run in order, calls with different keys at one time.
 */
ncclResult_t ncclGroupDo(const void *key, ncclResult_t (*run)(void *args), const void *args,
			 size_t bytes);

/*
 * parting.c. NCCL's calls that end the life of something are local; libgin's are collective. Where
 * ranks of one communicator are in one process, one thread may make these calls for all of them, one
 * after the other. They are kept then, and run when the thread of each rank is sure to come: before
 * the next collective call on the communicator, or when it is destroyed.
 */
enum partingKind { partWindow, partDevComm, partMemory };

struct parting {
	enum partingKind kind;
	ncclWindow_t window;
	ncclDevComm_t devComm;
	void *memory;
	struct parting *next;
};

/* Runs it, or keeps it. */
ncclResult_t ncclPart(ncclComm_t comm, const struct parting *parting);

/* Runs what is kept. Called first by each collective call. */
ncclResult_t ncclPartAll(ncclComm_t comm);

/* window.c. The window's record goes, and the memory that was to be freed with it. */
void ncclWindowForget(ncclWindow_t window);

/* collective.c. Ends the thread of the communicator's collectives. Collective if there is one. */
void ncclCollectivesClose(ncclComm_t comm);

/* Size of an element; 0: no such type. */
size_t ncclTypeSize(ncclDataType_t type);

/* reduce.c. Adds `count` elements of `from` to `into`; average: the caller divides by ncclReduceEnd. */
ncclResult_t ncclReduceCheck(ncclDataType_t type, ncclRedOp_t op);
void ncclReduceInto(void *into, const void *from, size_t count, ncclDataType_t type,
		    ncclRedOp_t op);
void ncclReduceEnd(void *into, size_t count, ncclDataType_t type, ncclRedOp_t op, int nRanks);

#endif
