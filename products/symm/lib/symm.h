/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * symm.h - inside libgin-symm.so
 *
 * A block has a reference for its owner and one for each of its peers; peers have a reference of
 * their block and one for each handle. Memory without references waits in a list: the calls that
 * may wait for the device free it, after their last collective.
 *
 * Locks: symmLock for references, lists and the state of groups; a group's `meeting` for the
 * collectives of its communicator. A thread takes `meeting` first.
 */
#ifndef GIN_SYMM_LIB_H
#define GIN_SYMM_LIB_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "products/symm/include/gin_symm.h"
#include "products/symm/kernels/call.h"

struct symmGpu;

/* Memory that blocks and pads are made of. */
struct symmMemory {
	struct symmMemory *next; /* in the list of memory to free */
	void *base;
	struct symmGpu *gpu; /* NULL: host memory */
};

struct symmBlock {
	struct symmMemory memory; /* first */
	size_t bytes;
	int device, refs;
	struct ginSymmPeers *peers; /* one for each group */
};

/*
 * A pad: the words, then counts for peers without a direct route, arrays for kernels, and a byte
 * for each word. The window has words and counts.
 */
struct symmPad {
	struct symmMemory memory; /* first */
	struct symmCount *counts; /* [channel][nRanks] */
	void **buffersDev, **padsDev;
	uint8_t *done;
};

struct ginSymmPeers {
	struct ginSymmPeers *nextOfBlock, *nextOfGroup;
	struct symmBlock *block;
	struct ginSymmGroup *group;
	struct symmPad *pad;
	size_t padBytes;
	int refs;
	int windows; /* that are not yet released */
	int isDirect;
	ginWindow_t window, padWindow;
	void **buffers, **pads; /* [nRanks] each */
};

/* What a group does about a failure. */
enum symmState { symmAlive, symmStopped, symmReleasing, symmOver };

/*
 * One that ginSymmOpen() has made, or a branch of it: the ranks of the former with blocks on other
 * devices. A branch has a reference of the group that it is of, which locks for it, too.
 */
struct ginSymmGroup {
	struct ginSymmGroup *next;
	struct ginSymmGroup *of;     /* of a branch; NULL: ginSymmOpen()'s */
	struct ginSymmGroup *branch; /* the next one */
	pthread_mutex_t meeting;
	ginComm_t comm; /* NULL: closed */
	ginPoll_t poll;
	void *pollArg;
	int device, rank, nRanks, refs;
	int *devices;	     /* [nRanks] */
	struct symmGpu *gpu; /* NULL: host threads */
	struct symmPage *page;
	ginDevComm devComm; /* .self NULL: all ranks are direct peers of each other */
	struct ginSymmPeers *peers;
	uint64_t recordsInUse; /* bit r: record r */
	int hasRetired;	       /* windows since the last collective */
	enum symmState state;
	uint64_t stateEnds;  /* nanoseconds of the clock of watch.c */
	ginResult_t failure; /* of the group */
	char sentence[400];
};

extern pthread_mutex_t symmLock;

/* error.c: notes the sentence, returns `result`. */
ginResult_t symmFail(ginResult_t result, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
ginResult_t symmFailGin(ginResult_t result, const char *what); /* with libgin's sentence */

/* memory.c. `gpu` NULL: the host. */
ginResult_t symmMemoryMake(struct symmGpu *gpu, size_t bytes, struct symmMemory *memory);
void symmMemoryLater(struct symmMemory *memory); /* frees it, and the struct, in symmSweep() */
void symmSweep(void);
int symmIsChild(void); /* this process is a fork of the one that uses the library */

ginResult_t symmRefuseChild(void); /* block.c: the failure of calls of a fork */

/* block.c. The caller holds symmLock. */
struct symmBlock *symmBlockAround(const void *ptr);
void symmBlockDrop(struct symmBlock *block);

/* peers.c. symmPeersDrop(): the caller holds no lock. */
void symmPeersDrop(struct ginSymmPeers *peers);
void symmPeersRetire(struct ginSymmPeers *peers, ginComm_t comm);

/* Channels of a pad; those of a group that is not direct are fewer, as they take more memory. */
long symmChannels(const struct ginSymmGroup *group, size_t padBytes);
size_t symmCountsAt(size_t padBytes); /* offset in the pad */

/* group.c. symmGroupStopped(): the group's failure, or a later call's. */
ginResult_t symmGroupStopped(struct ginSymmGroup *group);
ginResult_t symmGroupOpen(struct ginSymmGroup *group, ginAllgather_t allgather, void *arg);
ginResult_t symmGroupClose(struct ginSymmGroup *group); /* collective */
void symmGroupDrop(struct ginSymmGroup *group);		/* the caller holds symmLock */

/* branch.c. Collective: the group or branch for a block. The caller holds group->meeting. */
ginResult_t symmBranchFor(struct ginSymmGroup *group, const struct symmBlock *block,
			  struct ginSymmGroup **out);
ginResult_t symmSettle(struct ginSymmGroup *group); /* kernels that use retired windows end */

/* call.c: the failure in a record, which is then empty. `within`: milliseconds. */
ginResult_t symmRecordFailed(struct ginSymmGroup *group, uint32_t record, uint64_t within);
uint64_t symmTimeout(void);		       /* GIN_TIMEOUT in milliseconds */
void symmHostRun(const struct symmCall *call); /* kernels/host.cc */

/* watch.c: a thread that looks after the groups. */
ginResult_t symmWatch(struct ginSymmGroup *group);
void symmUnwatch(struct ginSymmGroup *group);

/*
 * gpu.c: the CUDA driver. A call makes the device's primary context current meanwhile, and breaks
 * no capture of a stream.
 */
ginResult_t symmGpuOpen(int ordinal, struct symmGpu **gpu); /* one for each device, never closed */
ginResult_t symmGpuEnter(const struct symmGpu *gpu);
void symmGpuLeave(const struct symmGpu *gpu);
ginResult_t symmGpuSync(struct symmGpu *gpu); /* waits for the device */
ginResult_t symmGpuClear(struct symmGpu *gpu, void *dst, size_t bytes);
ginResult_t symmGpuWrite(struct symmGpu *gpu, void *dst, const void *src, size_t bytes);
int symmGpuIsCapturing(struct symmGpu *gpu, void *stream);
int symmIsCapturing(struct symmGpu *gpu); /* the current stream; `gpu` NULL: no */
ginResult_t symmGpuLaunch(struct symmGpu *gpu, const struct symmCall *call, void *stream,
			  int isWaited);
/* Writes 0 or 1 into `rows` words that are `pitch` bytes apart, by the copy engine; no wait. */
void symmGpuFill(struct symmGpu *gpu, void *dst, uint32_t value, size_t pitch, size_t rows);

#endif
