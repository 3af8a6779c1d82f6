/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * abi.h - every layout that host and device share
 *
 * libgin.so writes these structs and kernels read them; kernels write the error record and
 * libgin.so reads it. The library and the kernels may come from different compilers at different
 * times. Any change of a layout raises GIN_DEVICE_ABI; ginDevCommCreate() refuses a program that
 * was built with another number. Only ginResult_t, ginErrorRecord_t, ginWindow_t as a value, and
 * the counts, ids, timeout and `self` of ginDevComm are for programs; the other fields are
 * internal.
 *
 * Plain C11 and C++17, NVRTC included: no CUDA type, no function.
 */
#ifndef GIN_ABI_H
#define GIN_ABI_H

#ifdef __CUDACC_RTC__
/* NVRTC has no C library and no <stdint.h>. */
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

#define GIN_DEVICE_ABI 18u

/* Ranks below this have their signals in ginDevComm.directSignals. */
#define GIN_DIRECT_SIGNALS 16u

/* Contexts that a device communicator can have. */
#define GIN_MAX_CONTEXTS 1024u

/* The result of every host and device call; ginGetErrorString() describes it. */
typedef enum ginResult {
	ginSuccess = 0,
	ginErrorInvalidArgument = 1, /* an argument is wrong, or differs per rank; nothing done */
	ginErrorInvalidUsage = 2, /* the call does not fit the state, or the calls of other ranks */
	ginErrorUnsupported = 3,  /* this machine, or a pair of ranks, cannot do it */
	ginErrorBootstrap = 4,	  /* the ranks did not find each other */
	ginErrorSystem = 5,	  /* the operating system refused a request */
	ginErrorCuda = 6,	  /* the CUDA driver refused a request */
	ginErrorTimeout = 7,	  /* time limit passed; a device call has reserved nothing */
	ginErrorAborted = 8,	  /* this rank called ginCommAbort() */
	ginErrorPeer = 9,	  /* another rank died, aborted or became unreachable */
	ginErrorAbi = 10	  /* the kernel was built against another layout */
} ginResult_t;

/* Rounds of a barrier: enough for 2^32 ranks. */
#define GIN_BARRIER_ROUNDS 32u

/* How a pair of ranks moves data: one route for both directions and for all windows and signals. */
enum ginRoute {
	ginRouteNone = 0,   /* no backend reaches this peer */
	ginRouteDirect = 1, /* loads, stores and native atomics in the peer's memory */
	ginRouteProxy = 2,  /* descriptors ask CPU threads of this process to move data */
	ginRouteGdaki = 3   /* work requests ask an mlx5 NIC to move data */
};

/* Sets of routes: for GinOn, GinBarrierOn and ginDevCommRequirements_t.routes. */
#define GIN_ROUTES_DIRECT (1u << ginRouteDirect)
#define GIN_ROUTES_PROXY (1u << ginRouteProxy)
#define GIN_ROUTES_GDAKI (1u << ginRouteGdaki)
#define GIN_ROUTES_ALL (GIN_ROUTES_DIRECT | GIN_ROUTES_PROXY | GIN_ROUTES_GDAKI)

/* The scope of a release. */
enum ginScope { ginScopeThread = 0, ginScopeCta = 1, ginScopeDevice = 2, ginScopeSystem = 3 };

enum ginPeerState {
	ginPeerAlive = 0,
	/* Dead, or masked. Set by the host while kernels run; calls on this peer return at once. */
	ginPeerFailed = 1,
	/*
	 * By ginDevCommRequirements_t.unconnected: only barriers reach it, until it fails. Other
	 * calls return ginErrorPeer at once.
	 */
	ginPeerUnconnected = 2
};

/*
 * The agents that raise signals. Atomics of a GPU, of a NIC and of CPUs are not atomic against each
 * other, so a signal has one word per class of agents, and its value is the sum of the words. A
 * host thread of ginHostLaunch() counts as a GPU.
 */
enum ginWriterClass {
	ginWriterGpu = 0, /* GPU memory, written by GPUs */
	ginWriterNic = 1, /* GPU memory, written by exactly one NIC per context */
	ginWriterCpu = 2, /* host memory, written by CPUs */
	GIN_WRITER_CLASSES = 3
};

/* The agent that executes atomics and signals on the words of a window, for all ranks. */
enum ginAgent {
	ginAgentGpu = 0,   /* the calling GPU: every peer is direct */
	ginAgentProxy = 1, /* the proxy's CPU threads, direct peers included */
	ginAgentNic = 2,   /* the peer's NIC, direct peers included */
	ginAgentNone = 3   /* no agent can: ginErrorUnsupported */
};

/* One peer as the kernels of a device communicator see it. */
struct ginPeer {
	uint32_t route;	   /* enum ginRoute */
	uint32_t state;	   /* enum ginPeerState */
	uint64_t *signals; /* direct: the peer's ginDevComm.signal[ginWriterGpu] */
	/* Gdaki: NIC address and key of the peer's ginDevComm.signal[ginWriterNic]. */
	uint64_t nicSignals;
	uint32_t nicKey;
	/*
	 * Index of the send queue to the peer among the queues of a context in
	 * ginDevComm.sendQueues: the rank, if every peer is on route gdaki. Of a direct peer: index
	 * among the queues that all contexts share.
	 */
	uint32_t sendQueue;
};

/* The part of a window at one rank. */
struct ginWindowPeer {
	char *address;	/* where this rank loads and stores the part; NULL: it cannot */
	uint64_t bytes; /* may differ per rank; may be 0 */
	/* Gdaki: NIC address of the first byte; keys with relaxed and with strict ordering. */
	uint64_t nicAddress;
	uint32_t nicKey;
	uint32_t nicStrictKey;
};

/*
 * A registered window. ginWindowPeer[nRanks] follows in memory, this rank included. Before it are
 * the addresses of this rank's domain, backwards: of rank domainFirst + i at ((char **)table)[-1 -
 * i].
 */
struct ginWindowTable {
	uint32_t rank;
	uint32_t nRanks;
	uint64_t serial; /* number of the window in its communicator: names it in messages */
	uint32_t slot;	 /* number of the window in this rank's descriptors */
	uint32_t fence;	 /* enum ginScope: to which a source in this window must be released */
	uint32_t agent;	 /* enum ginAgent */
	/* Gdaki: this rank's part as source of puts and target of gets: key and NIC address. */
	uint32_t nicKey;
	uint64_t nicAddress;
	/* This rank's NVLink domain, as in ginDevComm: its lowest rank, and its size. */
	uint32_t domainFirst;
	uint32_t domainSize;
	uint64_t magic; /* GIN_WINDOW_MAGIC; cleared when the window is deregistered */
	uint64_t pad;
};

#define GIN_WINDOW_MAGIC 0x6e696c646e697767ull

/* A window of this rank, to be found by address for putFrom(): an entry of ginSources. */
struct ginSourceEntry {
	uint64_t address;
	uint64_t bytes; /* 0: a free entry */
	uint64_t nicAddress;
	uint32_t nicKey;
	uint32_t pad;
};

/* All windows of this rank, for the gdaki route. ginSourceEntry[used] follows in memory. */
struct ginSources {
	uint64_t used;
	uint64_t pad[3];
};

/* A window handle: a type of its own, so that a buffer cannot be passed as a window. */
typedef struct ginWindow {
	struct ginWindowTable *table;
} ginWindow_t;

/* The peer of an abort line if every rank that has failed is masked. */
#define GIN_LINE_MASKED (-2)

#define GIN_LINE_ASKS (1ull << 63)

/*
 * A line of host-pinned memory that the host writes and a waiting kernel reads every few
 * microseconds. Result and peer are in one word, so that a kernel never sees one without the other.
 */
struct ginAbortLine {
	/*
	 * Bits 0 to 31: ginResult_t; ginSuccess: go on. Bits 32 to 55: the failed peer; -1: all;
	 * or GIN_LINE_MASKED. Bits 56 to 62: a number that the host changes to find out
	 * whether kernels wait (lib/devcomm/waits.c). Bit 63, GIN_LINE_ASKS: waiting threads tell
	 * the host what they wait for, in ginWaits.
	 */
	uint64_t word;
	uint64_t pad[7];
};

/*
 * A wait in progress, for the host. Host-pinned. Written by the thread that has claimed it for a
 * question: `question` last.
 */
struct ginWaitRecord {
	uint32_t call;	  /* enum ginCall */
	uint32_t context; /* of a barrier: the ranks of its team */
	uint32_t id; /* of signal, counter or barrier; UINT32_MAX: a word in a window, or none */
	/*
	 * The peer for which the thread waits; UINT32_MAX: see `from`. Of a barrier: the number of
	 * a rank in the team, or of a round.
	 */
	uint32_t peer;
	/* Of a barrier: 0. from: ginFromPack(), the peers that the wait depends on; 0: all. */
	uint64_t expected, from;
	uint64_t seen;
	uint64_t now;	   /* ginNow() */
	uint32_t times;	   /* ginPoll.times */
	uint32_t question; /* bits 56 to 63 of the abort line */
};

/* Waits that a device communicator tells for one question: others find no free record. */
#define GIN_WAITS 32u

/*
 * The mirror of a word in host memory for which many threads may wait. In GPU memory: one thread at
 * a time reads the word and copies it here; the other threads read the mirror (core/mirror.cuh).
 */
struct ginMirror {
	uint64_t seen;	  /* the copy */
	uint32_t looking; /* threads that have come to read; the first of them reads the word */
	uint32_t pad;
};

/* A word in host memory with its mirror. In GPU memory. */
struct ginMirroredWord {
	const uint64_t *word;
	struct ginMirror mirror;
	uint64_t waiting; /* of the abort line, host threads only: the threads in ginWaitOn() */
};

/*
 * The distance between signals of class ginWriterCpu: a GPU loads words in one 32-byte sector of
 * host memory one after the other.
 */
#define GIN_CPU_WORD_STRIDE 4u

/* Result slots of a context: the number of atomics that can wait for their old values at a time. */
#define GIN_QUEUE_RESULTS 32

/*
 * One context's ring to the proxy: kernels post descriptors (proxy/descriptor.h), CPU threads take
 * them. This struct, `posted` and the mirrors are in GPU memory; words that the CPU writes are
 * host-pinned.
 *
 * A ticket is a descriptor's number; the descriptor's ring slot is the ticket modulo the depth.
 */
struct ginQueue {
	uint64_t *ring;		  /* [depth][GIN_DESCRIPTOR_WORDS], host-pinned */
	const uint64_t *consumed; /* host-pinned: tickets below it have left the ring */
	/*
	 * [nRanks + 1], host-pinned: descriptors to the peer with lower tickets are done; [nRanks]:
	 * descriptors to every peer. With GIN_QUEUE_FAILED one of them has failed; the low half is
	 * a ginResult_t.
	 */
	const uint64_t *done;
	struct ginMirror *doneMirror; /* [nRanks + 1] */
	uint64_t *posted; /* [nRanks + 1]: 1 + the last ticket to the peer; [nRanks]: to any peer */
	const uint64_t *result; /* [GIN_QUEUE_RESULTS], host-pinned: old values of atomics */
	/*
	 * [GIN_QUEUE_RESULTS], host-pinned: 1 + the ticket of the last completed atomic of the
	 * result slot; with GIN_QUEUE_FAILED the atomic has failed.
	 */
	const uint64_t *resultTickets;
	uint32_t logDepth;
	uint32_t nRanks;
	uint64_t producer; /* the next ticket */
	uint64_t pad[7];
	struct ginMirror shadow; /* of *consumed; refreshed when the ring looks full */
	/* ginResult_t, 0: none. [0]: what ended the ring; [1]: the first transfer that failed. */
	struct ginMirroredWord failed[2];
	uint64_t freeResults; /* a bit for each free result slot */
	/*
	 * 1 + the ticket of an atomic whose caller has given up: the slot is free when it is done
	 */
	uint64_t abandoned[GIN_QUEUE_RESULTS];
	uint64_t waits; /* descriptors that waited for room: ginStats_t.waitsForRoom */
	uint64_t pad2[4];
};

#define GIN_QUEUE_FAILED (1ull << 63)

/*
 * The words of a trace record, of 63 bits each. In a ring the top bit is the phase of the lap, as
 * in a descriptor of the proxy; in a file it is 0 (trace.h).
 */
enum {
	GIN_TRACE_BEGIN, /* ginNow() of the kernel, before the call */
	GIN_TRACE_END,	 /* and after it */
	/* Lowest bits: 0 enum ginCall, 8 ginResult_t, 16 enum ginRoute, 24 flags, 32 context. */
	GIN_TRACE_WHAT,
	GIN_TRACE_WHOM, /* lowest bits: 0 peer, 31 id of signal, counter or barrier */
	GIN_TRACE_BYTES,
	GIN_TRACE_VALUE, /* added to a signal; waited for; of a barrier or libgin-ep: its epoch */
	/* A word in a window: ginTraceWhere(). Of a barrier: ginFromPack() of its team. */
	GIN_TRACE_WHERE,
	GIN_TRACE_THREAD, /* lowest bits: 0 thread, 31 block */
	GIN_TRACE_WORDS
};

#define GIN_TRACE_NONE 0x7fffffffu /* no peer, or no id */

/* Flags of a trace record. */
enum {
	GIN_TRACE_RAISES = 1,  /* the call raises a signal at the peer */
	GIN_TRACE_AT = 2,      /* the signal or value is a word in a window */
	GIN_TRACE_ARRIVES = 4, /* a barrier's arrival; what a call of libgin-ep has sent */
	GIN_TRACE_AWAITS = 8,  /* a wait of a barrier, or of libgin-ep */
	GIN_TRACE_GETS = 16    /* of a call of libgin-ep: the bytes were loaded from the peer */
};

/* What kernels with -DGIN_TRACE have posted to a peer: calls, and bytes of those that succeeded. */
struct ginTraceCount {
	uint64_t posted;
	uint64_t failed;
	uint64_t putBytes;
	uint64_t getBytes;
};

/*
 * Where kernels with -DGIN_TRACE count their calls, and write records of them. This struct is in
 * GPU memory. A record that finds no room is counted, and dropped.
 */
struct ginTraceRing {
	uint64_t *records; /* [depth][GIN_TRACE_WORDS], host-pinned; NULL: GIN_TRACE is not set */
	const uint64_t *taken; /* host-pinned: records before it have left the ring */
	uint64_t *lostSeen;    /* host-pinned: a copy of `lost` for the host */
	uint64_t logDepth;
	uint64_t producer;	 /* the number of the next record */
	uint64_t lost;		 /* records that were dropped */
	struct ginMirror shadow; /* of *taken; refreshed when the ring looks full */
	uint64_t calls;		 /* that were made, of which every 2^logEvery-th is recorded */
	uint64_t logEvery;
	uint64_t counts;	     /* 1: kernels count their calls */
	struct ginTraceCount *peers; /* [nRanks], GPU memory */
};

/* Device calls, as ginErrorRecord.call names them. */
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
	ginCallFlush = 9,
	ginCallWaitValue = 10,
	ginCallPacketsSend = 11,
	ginCallPacketsReceive = 12,
	ginCallReadSignal = 13,
	ginCallResetSignal = 14,
	ginCallReadCounter = 15,
	ginCallResetCounter = 16,
	ginCallReadValue = 17,
	ginCallShadow = 18,
	/* Calls of libgin-ep's kernels: in trace records, and in what waits tell the host. */
	ginCallEpDispatch = 32,
	ginCallEpCombine = 33,
	ginCallEpNotify = 34,
	ginCallEpCredit = 35 /* a wait: until the peer has read what an earlier call has sent */
};

/* The argument that a call compiled with -DGIN_DEVICE_CHECKS refuses: ginErrorRecord.argument. */
enum ginArgument {
	ginArgumentNone = 0,
	ginArgumentContext = 1,
	ginArgumentPeer = 2,
	ginArgumentTarget = 3, /* window and offset that the call writes */
	ginArgumentSource = 4, /* window and offset that the call reads, or an address */
	ginArgumentSignal = 5, /* id, or window and offset */
	ginArgumentCounter = 6,
	ginArgumentBarrier = 7,
	ginArgumentTeam = 8,
	ginArgumentBox = 9, /* of GinPackets */
	ginArgumentLength = 10,
	ginArgumentCoop = 11,
	ginArgumentBits = 12,	/* of ginOptions */
	ginArgumentFrom = 13,	/* of ginOptions */
	ginArgumentWord = 14,	/* window and offset of a value at this rank */
	ginArgumentMost = 15,	/* of ginPacketBox */
	ginArgumentSignals = 16 /* of ginPacketBox */
};

/* What is wrong with the argument: ginErrorRecord.fault. */
enum ginFault {
	ginFaultNone = 0,
	ginFaultRange = 1,     /* `seen` is not below `expected` */
	ginFaultWindow = 2,    /* the window is NULL, or of another communicator */
	ginFaultEnd = 3,       /* the bytes end at `seen`; the window has `expected` there */
	ginFaultAlignment = 4, /* offset `seen` is no multiple of `expected` */
	ginFaultBlock = 5,     /* the block does not have the coop, or the caller is not in it */
	ginFaultDiffers = 6,   /* the threads of the coop pass different arguments */
	ginFaultBits = 7,      /* `seen` is not 1 to `expected` */
	ginFaultNoWindow = 8,  /* `seen` bytes are in no window of this rank */
	ginFaultGone = 9,      /* the window was deregistered, or there was none */
	ginFaultLocal = 10,    /* the window is of GIN_WINDOW_LOCAL: the source of puts only */
	ginFaultOverlap = 11,  /* the `seen` bytes of source and target overlap */
	ginFaultBegin = 12     /* offset `seen`, perhaps negative, is beyond the `expected` bytes */
};

/* The first failure of a device communicator; ginDevCommGetError() returns a copy. */
typedef struct ginErrorRecord {
	uint32_t valid; /* 1: the other fields are complete */
	uint32_t result;
	uint32_t call; /* enum ginCall */
	uint32_t context;
	int32_t peer;	   /* the peer of the call, or the failed peer; -1: none */
	uint32_t id;	   /* of signal, counter or barrier; UINT32_MAX: a word in a window */
	uint64_t expected; /* a wait: the value waited for, or more */
	uint64_t seen;	   /* a wait: the last value that was read */
	/* -DGIN_DEVICE_CHECKS: the wrong argument; `id` is the number of a window then. */
	uint32_t argument; /* enum ginArgument */
	uint32_t fault;	   /* enum ginFault */
} ginErrorRecord_t;

/*
 * A device communicator: everything that a kernel needs to communicate. Passed by value or kept in
 * any memory that the kernel can load. It owns nothing; ginDevCommDestroy() frees what it points
 * to.
 */
typedef struct ginDevComm {
	uint32_t size; /* sizeof(ginDevComm) in the library */
	uint32_t abi;  /* GIN_DEVICE_ABI of the library */
	uint32_t rank;
	uint32_t nRanks;
	/*
	 * An NVLink domain is a run of consecutive ranks that are all direct peers; all domains
	 * have one size. This rank's number in its domain, and the size.
	 */
	uint32_t domainRank;
	uint32_t domainSize;
	uint32_t contexts;     /* contexts 0 to contexts - 1 */
	uint32_t signals;      /* per context, ids 0 to signals - 1 */
	uint32_t counters;     /* per context, ids 0 to counters - 1 */
	uint32_t barriers;     /* of all contexts, indexes 0 to barriers - 1 */
	uint32_t route;	       /* enum ginRoute of all peers; ginRouteNone: routes differ */
	uint32_t engineBytes;  /* GIN_COPY_ENGINE_BYTES; 0: no copy engine for direct peers */
	uint64_t timeout;      /* nanoseconds: of waits that set no timeout; 0: none */
	struct ginPeer *peers; /* [nRanks] */
	/*
	 * This rank's signals, by class: [context][signal], then the words of barriers,
	 * [barrier][GIN_BARRIER_ROUNDS]. NULL: no agent of the class raises signals here. The words
	 * of ginWriterCpu are GIN_CPU_WORD_STRIDE apart.
	 */
	uint64_t *signal[GIN_WRITER_CLASSES];
	uint64_t *counter; /* [context][counter], GPU memory */
	uint64_t *shadow;  /* [context][signal], GPU memory: the user's word of a signal */
	uint64_t *epoch;   /* [barrier], GPU memory: how often this rank has passed the barrier */
	const struct ginAbortLine *abortLine; /* host-pinned */
	struct ginMirroredWord *abort;	      /* of abortLine->word, for waits */
	struct ginErrorRecord *errorRecord;   /* host-pinned */
	uint32_t *errorClaim;		      /* GPU memory: set by the record's writer */
	/* Number in its communicator, from 1 on; ginDevCommDestroy() clears it in *self. */
	uint64_t id;
	/*
	 * peers[].signals of direct peers, which saves signals a load; NULL: not direct, or not
	 * connected.
	 */
	uint64_t *directSignals[GIN_DIRECT_SIGNALS];
	struct ginQueue *queues;	 /* [context]; NULL: no proxy is in use */
	uint64_t *hostCounter;		 /* [context][counter], host-pinned: raised by the proxy */
	struct ginMirror *signalMirror;	 /* [context][signal], of signal[cpu] */
	struct ginMirror *counterMirror; /* [context][counter], of hostCounter */
	/*
	 * [context][nSendQueues], then a send queue for each direct peer, which all contexts share,
	 * for words in windows that only NICs change. NULL: no peer is on route gdaki.
	 */
	struct ginSendQueue *sendQueues;
	struct ginSendResults
		*results; /* [context], then for the shared queues; of atomics on route gdaki */
	const struct ginSources *sources;
	uint32_t nSendQueues; /* of a context: one for each peer on route gdaki */
	uint32_t pad2;
	/*
	 * This struct in GPU memory: the handle for kernels in languages that pass no structs. The
	 * memory stays readable until ginCommDestroy().
	 */
	const struct ginDevComm *self;
	struct ginWaitRecord *waits; /* [GIN_WAITS], host-pinned */
	uint32_t *waitClaims;	     /* [GIN_WAITS], GPU memory: the last question answered there */
	struct ginTraceRing *trace;  /* GPU memory */
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
