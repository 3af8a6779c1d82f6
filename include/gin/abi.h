/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * abi.h - every layout that host and device share
 *
 * libgin.so writes these, kernels read them (or the other way round for the error record), and the
 * two may have been compiled by different compilers at different times. Any change here raises
 * GIN_DEVICE_ABI; ginDevCommCreate() refuses a kernel that was built with another number.
 *
 * Plain C11 and C++17, NVRTC included: no CUDA type, no function.
 */
#ifndef GIN_ABI_H
#define GIN_ABI_H

#ifdef __CUDACC_RTC__
/* NVRTC has no C library: the same types by their names there. */
typedef signed int int32_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef unsigned long uintptr_t;
typedef signed long int64_t;
#ifndef UINT32_MAX
#define UINT32_MAX 0xffffffffu
#define UINT64_MAX 0xffffffffffffffffull
#endif
#else
#include <stddef.h>
#include <stdint.h>
#endif

#define GIN_DEVICE_ABI 7u

/* So many first ranks' signals are in the device communicator itself. */
#define GIN_NEAR_RANKS 16u

/* Most contexts that one device communicator can have. */
#define GIN_MAX_CONTEXTS 1024u

/* What every call of the host and of the device API returns; ginGetErrorString() has the words. */
typedef enum ginResult {
	ginSuccess = 0,
	ginErrorInvalidArgument = 1, /* an argument is wrong, or differs per rank; nothing done */
	ginErrorInvalidUsage = 2, /* the call does not fit the state, or the other ranks' calls */
	ginErrorUnsupported = 3,  /* this machine, or this pair of ranks, cannot do it */
	ginErrorBootstrap = 4,	  /* the ranks did not find each other */
	ginErrorSystem = 5,	  /* the operating system refused */
	ginErrorCuda = 6,	  /* the CUDA driver refused */
	ginErrorTimeout = 7,	  /* time is up; a device call has reserved nothing */
	ginErrorAborted = 8,	  /* this rank called ginCommAbort() */
	ginErrorPeer = 9,	  /* another rank died, aborted or became unreachable */
	ginErrorAbi = 10	  /* the kernel was built against another layout */
} ginResult_t;

/* Rounds of a barrier: enough for 2^32 ranks. */
#define GIN_BARRIER_ROUNDS 32u

/* How one pair of ranks moves data; symmetric, and the same for all windows and signals of it. */
enum ginRoute {
	ginRouteNone = 0,   /* no backend reaches this peer */
	ginRouteDirect = 1, /* loads, stores and native atomics in the peer's memory */
	ginRouteProxy = 2,  /* descriptors to CPU threads of this process, which move the data */
	ginRouteGdaki = 3   /* work requests to an mlx5 NIC, which moves the data */
};

/* How far a release reaches, or has to reach. */
enum ginScope { ginScopeThread = 0, ginScopeCta = 1, ginScopeDevice = 2, ginScopeSystem = 3 };

enum ginPeerState {
	ginPeerAlive = 0,
	ginPeerFailed = 1 /* set by the host while kernels run; calls on this peer return at once */
};

/*
 * Who executes the atomic that raises a signal. Atomics of a GPU, of one NIC and of CPUs are not
 * atomic against each other, so that a signal is one word per class and its value is their sum.
 * A host thread in the place of a GPU thread counts as a GPU.
 */
enum ginWriterClass {
	ginWriterGpu = 0, /* GPU memory, written by GPUs */
	ginWriterNic = 1, /* GPU memory, written by exactly one NIC per context */
	ginWriterCpu = 2, /* host memory, written by CPUs */
	GIN_WRITER_CLASSES = 3
};

/* Who executes atomics and signals on the words of a window: one for all ranks that do so. */
enum ginAgent {
	ginAgentGpu = 0,   /* the calling GPU: every peer is direct */
	ginAgentProxy = 1, /* the proxy's CPU threads, direct peers included */
	ginAgentNic = 2,   /* the peer's NIC, direct peers included */
	ginAgentNone = 3   /* nobody can: ginErrorUnsupported */
};

/* One peer as the kernels of a device communicator see it. */
struct ginPeer {
	uint32_t route;	   /* enum ginRoute */
	uint32_t state;	   /* enum ginPeerState */
	uint64_t *signals; /* direct: the peer's words of class gpu, as ginDevComm.signal[gpu] */
	/* Gdaki: the peer's words of class nic, where NICs have them, and their key. */
	uint64_t nicSignals;
	uint32_t nicKey;
	/*
	 * Gdaki: which of a context's ginDevComm.sendQueues; the rank, where all are on that route. Of a
	 * direct peer, which of those that all contexts share.
	 */
	uint32_t sendQueue;
};

/* What a window is at one rank. */
struct ginWindowPeer {
	char *address;	/* where this rank loads and stores it; NULL when it cannot */
	uint64_t bytes; /* sizes may differ per rank, zero included */
	/* Gdaki: where NICs have its first byte, and its keys: for data, and where order is kept. */
	uint64_t nicAddress;
	uint32_t nicKey;
	uint32_t nicStrictKey;
};

/* A registered window; nRanks entries of ginWindowPeer follow it in memory, own rank included. */
struct ginWindowTable {
	uint32_t rank;
	uint32_t nRanks;
	uint64_t serial; /* the communicator's n-th window: names it in messages */
	uint32_t slot;	 /* its number in descriptors; every rank has its own */
	uint32_t fence;	 /* enum ginScope: how far a source here is released for the proxy */
	uint32_t agent;	 /* enum ginAgent */
	/* Gdaki: own memory as source of puts and target of gets: the key, and its first byte. */
	uint32_t nicKey;
	uint64_t nicAddress;
	uint64_t pad[3];
};

/* Own memory in which a put may have its source, by address: an entry of ginSources. */
struct ginSourceEntry {
	uint64_t address;
	uint64_t bytes; /* 0: a free entry */
	uint64_t nicAddress;
	uint32_t nicKey;
	uint32_t pad;
};

/* All windows of this rank, for the gdaki route; `used` entries follow it in memory. */
struct ginSources {
	uint64_t used;
	uint64_t pad[3];
};

/* One pointer, and of a type of its own, so that no buffer can be passed for a window. */
typedef struct ginWindow {
	struct ginWindowTable *table;
} ginWindow_t;

/*
 * The line that a waiting kernel looks at every few microseconds. The host writes it, in
 * host-pinned memory. One word, so that result and peer cannot be seen apart.
 */
struct ginAbortLine {
	uint64_t word; /* ginResult_t in the low half, the failed peer in the high half; 0: go on */
	uint64_t pad[7];
};

/*
 * Beside a word in host memory for which many threads may wait, in GPU memory: of them one at a time
 * looks at the word, and tells the others here (mirror.cuh).
 */
struct ginMirror {
	uint64_t seen;
	uint32_t looking; /* threads that have come since nobody looked; who was the first looks */
	uint32_t pad;
};

/* A word in host memory, and its mirror. In GPU memory. */
struct ginWatch {
	const uint64_t *word;
	struct ginMirror mirror;
	uint64_t pad;
};

/*
 * Words of class cpu are so many apart: a GPU loads what lies in the same 32 bytes of host memory once
 * at a time.
 */
#define GIN_CPU_WORD_STRIDE 4u

/* Atomics of one context that can wait for their old values at the same time. */
#define GIN_QUEUE_RESULTS 32

/*
 * One context's queue to the proxy: kernels post descriptors (descriptor.h), CPU threads take them.
 * In GPU memory, and so are `posted`, mirrors, `producer`; what the CPU writes is host-pinned.
 *
 * A ticket is a descriptor's number, and its place in the ring is the ticket modulo the depth.
 */
struct ginQueue {
	uint64_t *ring;		  /* [depth][GIN_DESCRIPTOR_WORDS], host-pinned */
	const uint64_t *consumed; /* tickets below it have left the ring, host-pinned */
	/*
	 * [nRanks + 1], host-pinned: descriptors to the peer with lower tickets have been done,
	 * [nRanks] those to all peers. With GIN_QUEUE_FAILED one was not, and the low half says why.
	 */
	const uint64_t *done;
	struct ginMirror *doneMirror; /* [nRanks + 1] */
	uint64_t *posted; /* [nRanks + 1]: 1 + the highest ticket to the peer, [nRanks] to any */
	const uint64_t *result; /* [GIN_QUEUE_RESULTS], host-pinned: old values of atomics */
	/* The same: 1 + the ticket of the last one that used the place; GIN_QUEUE_FAILED: it is lost. */
	const uint64_t *settled;
	uint32_t logDepth;
	uint32_t nRanks;
	uint64_t producer; /* the next ticket */
	uint64_t pad[7];
	struct ginMirror shadow; /* of *consumed, brought up to date when the ring looks full */
	/* ginResult_t of what ended the queue, 0: nothing; and of the first transfer that failed. */
	struct ginWatch failed[2];
	uint64_t freeResults; /* a bit each */
	/* 1 + the ticket of an atomic whose caller has given up; the place is free once it has settled */
	uint64_t abandoned[GIN_QUEUE_RESULTS];
	uint64_t waits; /* descriptors for which there was no room at once; for ginCommGetStats() */
	uint64_t pad2[4];
};

#define GIN_QUEUE_FAILED (1ull << 63)

/* Device calls that can fail, as the error record names them. */
enum ginCall {
	ginCallNone = 0,
	ginCallPut = 1,
	ginCallPutValue = 2,
	ginCallSignal = 3,
	ginCallWaitSignal = 4,
	ginCallGet = 5,
	ginCallAtomic = 6,
	ginCallWaitCounter = 7,
	ginCallBarrier = 8,
	ginCallFlush = 9
};

/* The first failure of a device communicator; ginDevCommGetError() returns a copy. */
typedef struct ginErrorRecord {
	uint32_t valid; /* set last: the rest is whole when it reads 1 */
	uint32_t result;
	uint32_t call; /* enum ginCall */
	uint32_t context;
	int32_t peer; /* the peer of the call, or the one that failed; -1 when there is none */
	uint32_t id;  /* of the signal, counter or barrier; UINT32_MAX: a word at a window offset */
	uint64_t expected; /* by a wait: at least this value */
	uint64_t seen;	   /* by a wait: the value at that time */
} ginErrorRecord_t;

/*
 * What a kernel needs to communicate: passed by value or kept in any memory. It owns nothing;
 * ginDevCommDestroy() ends the life of what it points to.
 */
typedef struct ginDevComm {
	uint32_t size; /* sizeof(ginDevComm) of the library that made it */
	uint32_t abi;  /* GIN_DEVICE_ABI of the same */
	uint32_t rank;
	uint32_t nRanks;
	/*
	 * The NVLink domain: consecutive ranks that are all direct peers of each other, as many in
	 * every domain. This rank's number in its own, and their number.
	 */
	uint32_t domainRank;
	uint32_t domainSize;
	uint32_t contexts; /* contexts 0 to contexts - 1 */
	uint32_t signals;  /* per context, ids 0 to signals - 1 */
	uint32_t counters; /* per context, ids 0 to counters - 1 */
	uint32_t barriers; /* of the whole, indexes 0 to barriers - 1 */
	uint32_t route;	   /* enum ginRoute, when all peers have the same; else ginRouteNone */
	uint32_t pad;
	uint64_t timeout; /* nanoseconds that a wait may take when it names none; 0: for ever */
	struct ginPeer *peers; /* [nRanks] */
	/*
	 * Own words: [context][signal]; NULL: nobody raises the class. The barriers' words follow,
	 * [barrier][GIN_BARRIER_ROUNDS]. In class cpu GIN_CPU_WORD_STRIDE apart.
	 */
	uint64_t *signal[GIN_WRITER_CLASSES];
	uint64_t *counter; /* [context][counter], GPU memory */
	uint64_t *shadow;  /* [context][signal], GPU memory: the user's, beside each signal */
	uint64_t *epoch;   /* [barrier], GPU memory: how often it was passed here */
	const struct ginAbortLine *abortLine; /* host-pinned */
	struct ginWatch *abort;		      /* its word, for those who wait */
	struct ginErrorRecord *errorRecord;   /* host-pinned */
	uint32_t *errorClaim;		      /* GPU memory: who takes it writes the record */
	uint64_t id;			      /* the communicator's n-th */
	/* Of direct ones peers[].signals, which saves a signal the load; else NULL. */
	uint64_t *nearSignals[GIN_NEAR_RANKS];
	struct ginQueue *queues; /* [context]; NULL: every peer is direct */
	/* What posts need of a context's queue: as in it, and the next context's so many words on. */
	uint64_t *rings, *posted;
	uint64_t ringStride;
	uint32_t postedStride, logDepth;
	uint64_t *hostCounter;		/* [context][counter], host-pinned: what the proxy counts */
	struct ginMirror *signalMirror; /* [context][signal], of signal[cpu] */
	struct ginMirror *counterMirror; /* [context][counter], of hostCounter */
	/*
	 * [context][nSendQueues], and one for each direct peer, which all contexts share: for words in
	 * windows, which NICs change. NULL: no peer is on route gdaki.
	 */
	struct ginSendQueue *sendQueues;
	struct ginSendResults
		*results; /* [context], of atomics on route gdaki, and of those shared */
	const struct ginSources *sources;
	uint32_t nSendQueues; /* of a context: one for each peer on route gdaki */
	uint32_t pad2;
	const struct ginDevComm *self; /* this one as it was made, in GPU memory */
} ginDevComm;

#ifdef __cplusplus
static_assert(sizeof(ginDevComm) <= 512, "passed by value");
static_assert(sizeof(ginWindow_t) == sizeof(void *), "one pointer");
static_assert(sizeof(struct ginAbortLine) == 64, "one line");
static_assert(sizeof(struct ginQueue) == 512, "what is read, producer, shadow: lines of their own");
#else
_Static_assert(sizeof(ginDevComm) <= 512, "passed by value");
_Static_assert(sizeof(ginWindow_t) == sizeof(void *), "one pointer");
_Static_assert(sizeof(struct ginAbortLine) == 64, "one line");
_Static_assert(sizeof(struct ginQueue) == 512,
	       "what is read, producer, shadow: lines of their own");
#endif

#endif
