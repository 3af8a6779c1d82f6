/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gin_symm.h - symmetric memory on libgin, for the adapter of PyTorch
 *
 * Of libgin-symm.so, which the Python package carries. The adapter and the library are of one
 * version: this interface is not for other programs.
 *
 * A block is memory of one rank. A group is a communicator. Ranks of a group meet over a block
 * each, which gives `peers`: the addresses of all blocks, and a signal pad per rank. A block may
 * belong to several groups; each has pads of its own.
 *
 * Every call is for any thread, returns a ginResult_t, and sets outputs on success only;
 * ginSymmGetLastError() has the sentence. "Collective": all ranks of the group make the call.
 */
#ifndef GIN_SYMM_H
#define GIN_SYMM_H

#include <gin.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

typedef struct ginSymmGroup *ginSymmGroup_t;
typedef struct ginSymmPeers *ginSymmPeers_t;

/* Memory of `device`, a CUDA ordinal or GIN_DEVICE_NONE, zeroed. Zero bytes give memory, too. */
ginResult_t ginSymmAlloc(int device, size_t bytes, void **ptr);

/* Drops a block. Its memory stays while peers have it, and until the group collects it. */
ginResult_t ginSymmFree(void *ptr);

/* The block around `ptr`; *base is NULL if there is none. */
ginResult_t ginSymmFind(const void *ptr, void **base, size_t *bytes, int *device);

/*
 * Before all other calls: `current` gives the calling thread's current stream of a device. While
 * that is being captured, nothing waits for the device, which would end the capture: no memory is
 * freed, and ranks do not meet. Without this call no stream is looked at.
 */
void ginSymmUseStreams(void *(*current)(int device));

typedef struct ginSymmConfig {
	int device; /* of the first block that meets the group */
	int rank, nRanks;
	ginAllgather_t allgather; /* as in ginConfig_t: called once or twice by ginSymmOpen() */
	ginPoll_t poll;		  /* as in ginConfig_t */
	void *arg;		  /* of both */
} ginSymmConfig_t;

/*
 * Collective over all ranks. Blocks of a rank may be of several devices, of the CPU or of GPUs as
 * `device` is: ranks meet over blocks of the devices that they had at first, or of others.
 */
ginResult_t ginSymmOpen(const ginSymmConfig_t *config, ginSymmGroup_t *group);

/*
 * Collective; at once if the group has failed. Ends the group's peers: their addresses are not
 * valid any more.
 */
ginResult_t ginSymmClose(ginSymmGroup_t group);

/*
 * The failure of a call that nobody waited for, once; or of the group: a rank has died, and every
 * further call fails.
 */
ginResult_t ginSymmCheck(ginSymmGroup_t group);

/*
 * The communicators, which live as long as the group: one for each choice of devices by the ranks,
 * from 0 in the order of their first meetings. `device` is this rank's.
 */
ginResult_t ginSymmComm(ginSymmGroup_t group, int number, int *device, ginComm_t *comm);

/*
 * The peers of the block at `base`. Collective at a block's first time in a group; then it returns
 * what it found first. Sizes of blocks and pads are equal on all ranks. ginSymmRelease() gives the
 * result back. Fails if a rank's current stream is being captured: ginSymmUseStreams().
 */
ginResult_t ginSymmRendezvous(ginSymmGroup_t group, void *base, size_t padBytes,
			      ginSymmPeers_t *peers);
void ginSymmRelease(ginSymmPeers_t peers);

/* Arrays of nRanks; an address is NULL if the route to the rank is not direct. */
typedef struct ginSymmInfo {
	int rank, nRanks, device;
	size_t bytes, padBytes;
	void *const *buffers, *const *pads;
	void **buffersDev, **padsDev; /* in memory of the device */
	int isDirect;		      /* to all ranks; if not: ginSymmNeedDirect() */
	ginWindow_t window;
	ginComm_t comm;
} ginSymmInfo_t;

ginResult_t ginSymmQuery(ginSymmPeers_t peers, ginSymmInfo_t *info);

/* Fails, and names the rank, if there is no address of some rank for the use `name`. */
ginResult_t ginSymmNeedDirect(ginSymmPeers_t peers, const char *name);

/*
 * Calls on `stream` of the group's device; without a GPU the calling thread makes them. With a
 * timeout in milliseconds the call returns when it is done; with 0 it may return before, its limit
 * is GIN_TIMEOUT, and the next call returns its failure. A barrier that is called again after it
 * has failed ends the round that failed.
 */
ginResult_t ginSymmBarrier(ginSymmPeers_t peers, int channel, size_t timeoutMs, void *stream);
ginResult_t ginSymmPutSignal(ginSymmPeers_t peers, int rank, int channel, size_t timeoutMs,
			     void *stream);
ginResult_t ginSymmWaitSignal(ginSymmPeers_t peers, int rank, int channel, size_t timeoutMs,
			      void *stream);

/*
 * Copies `bytes` at `source` to offset `at` of the block of a rank that has no address here. The
 * source is in a block that has met the group, and may change after the call, on `stream`.
 * ginSymmPutSignal() on one stream then says that the bytes are there.
 */
ginResult_t ginSymmPut(ginSymmPeers_t peers, int rank, size_t at, const void *source, size_t bytes,
		       size_t timeoutMs, void *stream);

/* One sentence about the calling thread's last failed call. */
const char *ginSymmGetLastError(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
