/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gin.h - host API of libgin, GPU-initiated networking
 *
 * C11, usable from C++. Conventions of every call:
 *  - A call returns ginSuccess or an error. Outputs come last and are written on success only.
 *  - ginGetLastError() returns one sentence about the calling thread's last failure: what failed,
 *    on which rank, what to do.
 *  - "Collective": every rank of the communicator makes the call, and all ranks make their
 *    collective calls in one order. The call ends on every rank within GIN_TIMEOUT seconds (600),
 *    and all ranks get one result.
 *  - Different threads may call on different communicators concurrently. On one communicator one
 *    thread calls at a time, except for calls marked "any thread".
 *  - After ginCommInit() no call synchronises the device, uses the null stream or breaks a stream
 *    capture. One exception: unpinning ginMemAllocHost() memory may wait for running kernels.
 *
 * Device calls are in gin_device.cuh. Environment variables: gin_environ(7).
 */
#ifndef GIN_H
#define GIN_H

#include "gin/core/abi.h"

#define GIN_VERSION_MAJOR 0
#define GIN_VERSION_MINOR 1
#define GIN_VERSION_PATCH 0
#define GIN_VERSION (GIN_VERSION_MAJOR * 10000 + GIN_VERSION_MINOR * 100 + GIN_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/*
 * A group of ranks. Opaque; ginCommInit(), ginCommInitRank(), ginCommSplit() or ginCommShrink()
 * makes it, ginCommDestroy() frees it.
 */
typedef struct ginComm *ginComm_t;

/*
 * An allgather of the caller, with which the ranks find each other. Gathers `bytes` bytes of every
 * rank into `out`, ordered by rank. Returns 0, or another value on failure. ginCommInit() calls it
 * once or twice, on the thread that called ginCommInit(), and never later.
 */
typedef int (*ginAllgather_t)(void *arg, const void *in, void *out, size_t bytes);

#define GIN_DEVICE_AUTO (-1) /* the current context's; without one: local rank modulo count */
#define GIN_DEVICE_NONE (-2) /* no GPU: host memory and host threads */

/*
 * Called some ten times a second while a collective of the communicator waits for other ranks, on
 * the thread that has made the call. Nonzero ends the call with ginErrorAborted, and the
 * communicator as ginCommAbort() does.
 */
typedef int (*ginPoll_t)(void *arg);

typedef struct ginConfig {
	size_t size;		  /* sizeof(ginConfig_t): GIN_CONFIG_INIT sets it */
	int device;		  /* CUDA ordinal, GIN_DEVICE_AUTO or GIN_DEVICE_NONE */
	ginAllgather_t allgather; /* NULL: find the ranks as ginCommInit() says */
	void *allgatherArg;
	int rank;	     /* with allgather; without it, nonzero values are compared only */
	int nRanks;	     /* with allgather; without it, values above 1 are compared only */
	const char *name;    /* at most 47 characters, see ginCommInit(); NULL: "" */
	const char *backend; /* "gdaki" or "proxy"; GIN_BACKEND overrides it; NULL: any */
	int copyEngines;     /* 1: a proxy serves direct peers too; GIN_COPY_ENGINE overrides it */
	ginPoll_t poll;	     /* may end collectives while they wait; NULL: none */
	void *pollArg;
} ginConfig_t;

#define GIN_CONFIG_INIT                                                                            \
	{                                                                                          \
		sizeof(ginConfig_t), GIN_DEVICE_AUTO, NULL, NULL, 0, 1, NULL, NULL, 0, NULL, NULL  \
	}

/*
 * ginCommInit - bring the ranks together
 *
 * Collective over all ranks of the job. `config` may be NULL: defaults. The ranks find each other
 *  - by config->allgather, if it is set;
 *  - otherwise by PMIx, if PMIX_NAMESPACE is set (mpirun, srun --mpi=pmix);
 *  - otherwise by TCP, if GIN_ROOT is set (RANK and WORLD_SIZE, or the launcher's variables, number
 *    the ranks);
 *  - otherwise this rank is alone. If a launcher's variables announce several ranks, that is an
 *    error.
 * GIN_BOOTSTRAP forces one of these ways, unless config->allgather is set and config->nRanks is 1.
 *
 * A process may make several communicators, on different threads concurrently. With PMIx and TCP,
 * communicators with different config->name are independent; communicators with one name must be
 * made in one order in all processes. With config->allgather ranks may be threads of one process.
 *
 * ginErrorInvalidArgument, ginErrorBootstrap, ginErrorTimeout, ginErrorCuda, ginErrorSystem.
 */
ginResult_t ginCommInit(const ginConfig_t *config, ginComm_t *comm);

/*
 * The id by which the ranks of one communicator find each other. Plain bytes, to copy and to send.
 */
typedef struct ginUniqueId {
	char bytes[128];
} ginUniqueId_t;

/*
 * ginGetUniqueId - an id for ginCommInitRank()
 *
 * One process calls it, sends the id to the other ranks, and stays until all ranks have joined: the
 * ranks connect to a port on which that process listens. Every process with the id can join, so
 * keep the id secret. An id serves one communicator. Any thread.
 */
ginResult_t ginGetUniqueId(ginUniqueId_t *id);

/*
 * ginCommInitRank - bring together the ranks that have one id
 *
 * Collective over the `nRanks` ranks, which may be threads of one process. `rank` is 0 to nRanks -
 * 1. config->allgather must be NULL; config->name is ignored. Communicators with different ids may
 * be made in any order, and concurrently. Errors as ginCommInit().
 */
ginResult_t ginCommInitRank(const ginConfig_t *config, const ginUniqueId_t *id, int rank,
			    int nRanks, ginComm_t *comm);

#define GIN_NO_COLOR (-1) /* this rank joins no part */

/*
 * ginCommSplit - divide a communicator into parts
 *
 * Collective. The ranks of one `color` (0 or more) get a new communicator, in which they are
 * ordered by `key`, then by rank. A rank with GIN_NO_COLOR gets NULL. `comm` does not change. The
 * two communicators are independent: a window or device communicator belongs to one of them. Both
 * use the device of `comm`.
 */
ginResult_t ginCommSplit(ginComm_t comm, int color, int key, ginComm_t *part);

/*
 * ginCommDestroy - leave the communicator and free it
 *
 * Collective; if the communicator has failed or was aborted, the call returns at once. No kernel
 * may use the communicator any more. Frees windows and device communicators that are left, with a
 * warning. `comm` is freed, except with ginErrorInvalidUsage (a kernel waits; or this process is a
 * forked child of the one that made it). NULL is allowed.
 */
ginResult_t ginCommDestroy(ginComm_t comm);

/*
 * ginCommAbort - end every wait, on this rank and its peers
 *
 * Any thread, also while another thread is inside a call on `comm`. Waiting kernels and host calls
 * return ginErrorAborted on this rank and ginErrorPeer on other ranks. Frees nothing: call
 * ginCommDestroy() when the kernels have ended.
 */
ginResult_t ginCommAbort(ginComm_t comm);

/*
 * ginCommGetAsyncError - has the communicator failed outside of a call?
 *
 * Any thread. `error` is ginSuccess while all ranks are alive, otherwise the first failure;
 * ginGetLastError() then describes it and names the rank.
 */
ginResult_t ginCommGetAsyncError(ginComm_t comm, ginResult_t *error);

/* This rank, the number of ranks, and the CUDA ordinal or GIN_DEVICE_NONE. Any thread. */
ginResult_t ginCommRank(ginComm_t comm, int *rank);
ginResult_t ginCommSize(ginComm_t comm, int *nRanks);
ginResult_t ginCommDevice(ginComm_t comm, int *device);

/* One rank, and the route to it. */
typedef struct ginPeerInfo {
	size_t size;	  /* sizeof(ginPeerInfo_t), set by the caller */
	uint32_t route;	  /* enum ginRoute */
	int sameHost;	  /* the peer runs on this rank's host */
	int sameProcess;  /* the peer is a thread of this process */
	char host[64];	  /* name of the peer's host */
	char device[96];  /* name of the peer's GPU, or "host threads" */
	char backend[16]; /* "direct", "gdaki", "proxy", or "none" */
	char why[160];	  /* the reason for the route, in words */
} ginPeerInfo_t;

#define GIN_PEER_INFO_INIT                                                                         \
	{                                                                                          \
		sizeof(ginPeerInfo_t), 0, 0, 0, "", "", "", ""                                     \
	}

/*
 * ginCommQueryPeer - the route to a rank and the reason for it
 *
 * Any thread. `peer` is 0 to the number of ranks - 1; this rank is allowed. Writes at most
 * info->size bytes.
 */
ginResult_t ginCommQueryPeer(ginComm_t comm, int peer, ginPeerInfo_t *info);

/* A communicator, seen from this rank. */
typedef struct ginCommInfo {
	size_t size;	     /* sizeof(ginCommInfo_t), set by the caller */
	int rank, nRanks;    /* this rank, and the number of ranks */
	int localRank;	     /* number of this rank among the ranks of its host */
	int localRanks;	     /* ranks on this host */
	int hosts;	     /* hosts of all ranks */
	int device;	     /* CUDA ordinal, or GIN_DEVICE_NONE */
	int backends;	     /* ginCommQueryBackend() takes 0 to backends - 1 */
	char bootstrap[16];  /* how the ranks met: "pmix", "tcp", "caller", see ginCommQuery(3) */
	char host[64];	     /* name of this rank's host */
	char deviceName[96]; /* name of this rank's GPU, or "host threads" */
	/*
	 * 1: kernels may do atomics, and raise signals at offsets, in windows of GPU memory. 0:
	 * only in windows of ginMemAllocHost() memory, because a network connects some proxies and
	 * GIN_BOUNCE is never.
	 */
	int deviceAtomics;
	int domainRank; /* number of this rank in its NVLink domain, as in ginDevComm */
	int domainSize; /* ranks of a domain */
	int streams;	/* 1: this rank can put operations on streams: ginPutOnStream() */
} ginCommInfo_t;

#define GIN_COMM_INFO_INIT                                                                         \
	{                                                                                          \
		sizeof(ginCommInfo_t), 0, 0, 0, 0, 0, 0, 0, "", "", "", 0, 0, 0, 0                 \
	}

/* ginCommQuery - this rank and its communicator. Any thread. Writes at most info->size bytes. */
ginResult_t ginCommQuery(ginComm_t comm, ginCommInfo_t *info);

/* A backend, seen from this rank. */
typedef struct ginBackendInfo {
	size_t size;   /* sizeof(ginBackendInfo_t), set by the caller */
	int usable;    /* this rank can use it */
	int pairs;     /* ranks that this rank reaches by it, this rank included */
	char name[16]; /* "direct", "gdaki", "proxy" */
	char why[160]; /* if not usable: the reason, and what to change */
} ginBackendInfo_t;

#define GIN_BACKEND_INFO_INIT                                                                      \
	{                                                                                          \
		sizeof(ginBackendInfo_t), 0, 0, "", ""                                             \
	}

/*
 * ginCommQueryBackend - whether this rank can use a backend, and why not
 *
 * Any thread. `index` is 0 to ginCommInfo_t.backends - 1.
 */
ginResult_t ginCommQueryBackend(ginComm_t comm, int index, ginBackendInfo_t *info);

/*
 * ginCommProgress - do one pass of the proxy on the calling thread
 *
 * Any thread, not collective. With GIN_PROXY_THREADS=0 only this call executes posts of kernels to
 * the proxy: call it repeatedly while kernels run. With proxy threads it helps the threads. *did is
 * 1 if there was something to do, otherwise 0, as without peers on the proxy route. `did` may be
 * NULL.
 */
ginResult_t ginCommProgress(ginComm_t comm, int *did);

#define GIN_HISTOGRAM_BUCKETS 40

/*
 * Bucket 0 counts values below 2, bucket i values from 2^i to below 2^(i+1), the last bucket all
 * larger values.
 */
typedef struct ginHistogram {
	uint64_t count; /* number of values */
	uint64_t sum;	/* of the values */
	uint64_t most;	/* the largest value */
	uint64_t bucket[GIN_HISTOGRAM_BUCKETS];
} ginHistogram_t;

/*
 * Statistics of this rank's proxy for a context since ginDevCommCreate(). Times are nanoseconds
 * from the moment at which the CPU takes the descriptor from the ring (a descriptor has no room for
 * the GPU's clock), measured for at most every 31st descriptor.
 */
typedef struct ginStats {
	size_t size;	       /* sizeof(ginStats_t), set by the caller */
	uint64_t posted;       /* descriptors taken from the ring */
	uint64_t completed;    /* descriptors done: signal raised, put counted */
	uint64_t failed;       /* descriptors not done, or not completely */
	uint64_t putBytes;     /* bytes of completed puts */
	uint64_t getBytes;     /* bytes of completed gets */
	uint64_t waitsForRoom; /* descriptors whose poster found the ring full and waited */
	uint64_t sleeps;       /* of the CPU thread, which contexts may share */
	ginHistogram_t batch;  /* descriptors taken at a time */
	ginHistogram_t takenToReleased; /* puts: until the source may be reused */
	ginHistogram_t takenToVisible;	/* until data and signal are at the target */
	char cpus[64];	  /* CPUs on which the thread may run: "0-15,32"; "": not known */
	uint32_t counted; /* bits GIN_COUNTED_...: which of these numbers are known */
	uint32_t pad;
} ginStats_t;

/* What a route counts. Without the bit, the numbers are 0 because nobody counts. */
#define GIN_COUNTED_POSTS 1u /* posted, completed, failed */
#define GIN_COUNTED_BYTES 2u /* all numbers, putBytes and getBytes among them */

#define GIN_STATS_INIT                                                                             \
	{                                                                                          \
		sizeof(ginStats_t), 0, 0, 0, 0, 0, 0, 0, {0, 0, 0, {0}}, {0, 0, 0, {0}},           \
			{0, 0, 0, {0}}, "", 0, 0                                                   \
	}

/*
 * ginCommGetStats - statistics of a context's ring or send queues
 *
 * On the gdaki route only `posted`, `completed` and `failed` are known; their unit is a WQEBB. If
 * every peer is direct nothing is: loads and stores of kernels are not counted. `counted` says so.
 *
 * Any thread, also while kernels run; not collective. `context` is 0 to devComm->contexts - 1. Each
 * number is consistent by itself. Every number but `batch` includes the posts for which a kernel
 * call has waited.
 *
 * ginErrorInvalidArgument; ginErrorCuda.
 */
ginResult_t ginCommGetStats(ginComm_t comm, const ginDevComm *devComm, uint32_t context,
			    ginStats_t *info);

/* What kernels of this rank have posted to one rank since ginDevCommCreate(), in all contexts. */
typedef struct ginPeerStats {
	size_t size;	  /* sizeof(ginPeerStats_t), set by the caller */
	uint32_t route;	  /* enum ginRoute */
	uint32_t counted; /* bits GIN_COUNTED_... of the route */
	uint64_t posted;  /* as in ginStats_t */
	uint64_t completed;
	uint64_t failed;
	uint64_t putBytes;
	uint64_t getBytes;
} ginPeerStats_t;

#define GIN_PEER_STATS_INIT                                                                        \
	{                                                                                          \
		sizeof(ginPeerStats_t), 0, 0, 0, 0, 0, 0, 0                                        \
	}

/*
 * ginCommGetPeerStats - statistics of the posts to one rank
 *
 * As ginCommGetStats(). For a direct peer the numbers are those of copies by copy engines, unless
 * kernels are compiled with -DGIN_TRACE: these count what they send to direct peers, and their
 * bytes on route gdaki.
 */
ginResult_t ginCommGetPeerStats(ginComm_t comm, const ginDevComm *devComm, int peer,
				ginPeerStats_t *info);

/*
 * ginDump - write what the process does to a file descriptor
 *
 * For each communicator: posts by rank, signals, and calls of kernels that wait; it asks running
 * kernels, for at most 2 s, and stops nothing. Any thread, also by a debugger; not in a signal
 * handler, and not while another thread makes or destroys a communicator.
 */
ginResult_t ginDump(int fd);

#define GIN_ALLGATHER_BYTES 65536 /* limit of `bytes` */

/*
 * ginCommAllgather - gather small host data of all ranks
 *
 * Collective. Gathers `bytes` bytes of every rank into `out`, ordered by rank; `out` has room for
 * nRanks * bytes. `bytes` is equal on all ranks and at most GIN_ALLGATHER_BYTES. Zero bytes, with
 * both pointers NULL, make a barrier. The data goes over the sockets of the control plane: use it
 * for start-up and reports, not for bulk data.
 *
 * ginErrorInvalidArgument, ginErrorInvalidUsage, ginErrorTimeout, ginErrorPeer, ginErrorAborted.
 */
ginResult_t ginCommAllgather(ginComm_t comm, const void *in, void *out, size_t bytes);

/* An environment variable. The library owns the texts, for the life of the process. */
typedef struct ginParamInfo {
	size_t size;	     /* sizeof(ginParamInfo_t), set by the caller */
	int count;	     /* number of variables: index is 0 to count - 1 */
	int isSet;	     /* the variable is in the environment */
	int isBad;	     /* the value is not valid: ginCommInit() fails */
	const char *name;    /* "GIN_TIMEOUT" */
	const char *choices; /* "auto|direct|network", "number" or "text" */
	const char *value;   /* in effect, or not valid; "(set)" for a secret */
	const char *preset;  /* the value if the variable is not set */
	const char *meaning; /* a description in a few words */
} ginParamInfo_t;

#define GIN_PARAM_INFO_INIT                                                                        \
	{                                                                                          \
		sizeof(ginParamInfo_t), 0, 0, 0, NULL, NULL, NULL, NULL, NULL                      \
	}

/*
 * ginParamQuery - the environment variables that libgin reads, and their values
 *
 * Any thread, any time. `index` is 0 to ginParamInfo_t.count - 1; index 0 exists.
 */
ginResult_t ginParamQuery(int index, ginParamInfo_t *info);

/* A GPU that this process sees. */
typedef struct ginDeviceInfo {
	size_t size;	  /* sizeof(ginDeviceInfo_t), set by the caller */
	int count;	  /* number of GPUs; 0: `why` has the reason, the rest is empty */
	int usable;	  /* libgin can use the GPU; if not, `why` has the reason */
	int domain;	  /* lowest ordinal of the GPUs with native atomics to this one */
	int numaNode;	  /* of the host; -1: not known */
	int computeMajor; /* compute capability */
	int computeMinor;
	int driverVersion; /* newest CUDA version of the driver: 1000 * major + 10 * minor */
	uint64_t memoryBytes;
	char name[96];
	char uuid[40];	   /* as nvidia-smi prints it after "GPU-" */
	char pciBusId[32]; /* "0000:1b:00.0" */
	char why[160];
} ginDeviceInfo_t;

#define GIN_DEVICE_INFO_INIT                                                                       \
	{                                                                                          \
		sizeof(ginDeviceInfo_t), 0, 0, 0, -1, 0, 0, 0, 0, "", "", "", ""                   \
	}

/*
 * ginDeviceQuery - describe a GPU
 *
 * Any thread, any time; makes no CUDA context. `ordinal` is 0 to count - 1. Without a driver or a
 * GPU the call succeeds for every ordinal, with count 0 and the reason.
 */
ginResult_t ginDeviceQuery(int ordinal, ginDeviceInfo_t *info);

/* A port of an RDMA NIC of this machine. */
typedef struct ginNicInfo {
	size_t size;   /* sizeof(ginNicInfo_t), set by the caller */
	int count;     /* number of ports; 0: `why` has the reason, the rest is empty */
	int usable;    /* GPU threads can post to the port (gdaki route) */
	int port;      /* number of the port, from 1 */
	char name[64]; /* of the port's device: "mlx5_0" */
	char why[320]; /* a description; if not usable: the reason, and what to change */
} ginNicInfo_t;

#define GIN_NIC_INFO_INIT                                                                          \
	{                                                                                          \
		sizeof(ginNicInfo_t), 0, 0, 0, "", ""                                              \
	}

/*
 * ginNicQuery - describe a port of an RDMA NIC, and whether libgin can use it
 *
 * Any thread, any time. `index` is 0 to count - 1. Index 0 opens each device and examines all
 * ports; other indexes return the results of index 0. Without libgin-rdma.so, RDMA devices or a
 * port the call succeeds for every index, with count 0 and the reason.
 */
ginResult_t ginNicQuery(int index, ginNicInfo_t *info);

/*
 * ginMemAlloc - memory that every route reaches
 *
 * Not collective. With a GPU: memory of the communicator's device that other processes can map, not
 * cleared. Without a GPU: shared host memory, zeroed. Aligned to 4 KiB at least. Zero bytes give
 * NULL. ginMemFree() frees the memory, which must not be in a registered window any more; NULL is
 * allowed.
 *
 * `comm` may be NULL in ginMemAlloc(), ginMemAllocHost() and ginMemFree(): any thread, before there
 * is a communicator and after its end. New memory is then of the calling thread's device, as for
 * GIN_DEVICE_AUTO. ginMemFree() without a communicator frees memory of all these calls, of every
 * device. Memory allocated with or without `comm` serves every communicator of the device.
 */
ginResult_t ginMemAlloc(ginComm_t comm, size_t bytes, void **ptr);
ginResult_t ginMemFree(ginComm_t comm, void *ptr);

/*
 * ginMemAllocHost - host memory that every route reaches
 *
 * Not collective. Without a GPU it is ginMemAlloc(). With a GPU the memory is pinned, zeroed and
 * aligned to 4 KiB. This rank's kernels and CPUs load and store it at one address; kernels and CPUs
 * of peers use the address that ginPeerPointer() returns for a window of it.
 *
 * GPUs do no atomics in host memory. If every pair of ranks is direct, no signal or atomic of a
 * kernel may be at an offset in such a window. If the proxy serves some pair, CPUs execute them.
 *
 * ginMemFree() frees the memory. ginMemFree(), and ginWindowDeregister() of a window in which any
 * rank has such memory, may wait for running kernels.
 */
ginResult_t ginMemAllocHost(ginComm_t comm, size_t bytes, void **ptr);

#define GIN_WINDOW_LOCAL 1 /* a source for puts of this rank only; not collective */

/*
 * ginWindowRegister - make memory a target and source of transfers
 *
 * Collective. The caller keeps the memory, `ptr` to `ptr + bytes`, and frees it after
 * ginWindowDeregister(). Sizes and kinds of memory may differ per rank; zero bytes with a NULL
 * `ptr` are allowed. Memory must come from ginMemAlloc() or ginMemAllocHost(), or, on a GPU, from
 * cudaMalloc() or cuMemCreate(), also several allocations that are mapped next to each other. If a
 * route cannot reach the memory, the call fails on all ranks and names rank, reason and remedy.
 * `flags` is 0 or GIN_WINDOW_LOCAL. Windows may be registered before and after ginDevCommCreate().
 *
 * With GIN_WINDOW_LOCAL the call is not collective, and the window can only be the source of puts.
 * It may be any memory that this rank's kernels can load, pinned host memory included.
 */
ginResult_t ginWindowRegister(ginComm_t comm, void *ptr, size_t bytes, int flags,
			      ginWindow_t *window);

/*
 * ginWindowDeregister - end the life of a window; no kernel may use it any more
 *
 * Collective, except for a window with GIN_WINDOW_LOCAL. Does not free the memory.
 */
ginResult_t ginWindowDeregister(ginComm_t comm, ginWindow_t window);

typedef void (*ginReleased_t)(void *arg);

/*
 * ginWindowRetire - this rank has no more use for a window; for finalisers and garbage collectors
 *
 * Not collective, and never waits. Any thread, also while another thread of the process is in a
 * collective of `comm`. When all ranks have retired the window, the next ginWindowRegister(),
 * ginWindowDeregister(), ginDevCommCreate(), ginCommSplit() or ginCommAllgather() of `comm` that
 * succeeds deregisters it on all ranks, and ginCommDestroy() does so at the latest. The thread of
 * that collective then calls released(arg), unless `released` is NULL. Until then peers may write
 * into the memory, which stays as it is. This rank's kernels that use the window end before its
 * next collective of `comm`.
 */
ginResult_t ginWindowRetire(ginComm_t comm, ginWindow_t window, ginReleased_t released, void *arg);

/*
 * ginWindowPointer - the `ptr` that this rank registered. Any thread, while the window is
 * registered.
 */
ginResult_t ginWindowPointer(ginComm_t comm, ginWindow_t window, void **ptr);

/*
 * ginPeerPointer - the address at which this rank loads and stores the window of `peer`
 *
 * Any thread, while the window is registered. `*ptr` is NULL if the route to the peer is not direct
 * or the peer's part is empty. With GPUs the address is for kernels; for the CPU too if the peer
 * has ginMemAllocHost() memory there.
 */
ginResult_t ginPeerPointer(ginComm_t comm, ginWindow_t window, int peer, void **ptr);

typedef struct ginDevCommRequirements {
	size_t size;	   /* sizeof(ginDevCommRequirements_t): the initializer sets it */
	uint32_t contexts; /* 1 to GIN_MAX_CONTEXTS */
	uint32_t signals;  /* per context, 0 to 1,048,576 */
	uint64_t timeout;  /* default timeout of device waits in nanoseconds; 0: none */
	uint32_t counters; /* per context, 0 to 1,048,576 */
	uint32_t barriers; /* of all contexts, 0 to 65,536 */
	/*
	 * Descriptors that a context's ring to the proxy holds, and WQEBBs of a gdaki send queue:
	 * 1 to 65,536, rounded up to a power of two, at least 16. Not used if every peer is direct.
	 */
	uint32_t queueDepth;
	/*
	 * The set of routes, GIN_ROUTES_..., that pairs of ranks may have, for kernels that are
	 * compiled for these routes alone (GinOn); 0: any.
	 */
	uint64_t routes;
	/* Traffic class of the NIC's packets on route gdaki, 0 to 255; -1: GIN_NIC_TC. */
	int32_t trafficClass;
	/*
	 * [nRanks], read by ginDevCommCreate(); not 0: this rank's kernels send nothing to that
	 * rank. Their calls on it return ginErrorPeer; barriers reach it. NULL: no such rank.
	 */
	const uint8_t *unconnected;
	/*
	 * 1: the calls of ginPutOnStream() work. Loads their kernel, for which CUDA may wait for
	 * running kernels. 0: they are refused.
	 */
	uint32_t streams;
} ginDevCommRequirements_t;

#define GIN_DEV_COMM_REQUIREMENTS_INIT                                                             \
	{                                                                                          \
		sizeof(ginDevCommRequirements_t), 1, 16, 0, 4, 4, 1024, 0, -1, NULL, 0             \
	}

/* Internal: ginDevCommCreate() passes the layout that the caller was compiled against. */
ginResult_t ginDevCommCreateAbi(ginComm_t comm, const ginDevCommRequirements_t *requirements,
				uint32_t abi, size_t devCommSize, ginDevComm *devComm);

/*
 * ginDevCommCreate - make the device communicator that kernels use
 *
 * Collective. All requirements but the timeout and the traffic class must be equal on all ranks.
 * Signals and counters are zero when it returns. ginErrorUnsupported: no backend connects a pair of
 * ranks, or its route is not in requirements.routes, and ginGetLastError() names the pair.
 * ginErrorAbi: the program was built against another libgin.
 */
static inline ginResult_t
ginDevCommCreate(ginComm_t comm, const ginDevCommRequirements_t *requirements, ginDevComm *devComm)
{
	return ginDevCommCreateAbi(comm, requirements, GIN_DEVICE_ABI, sizeof(*devComm), devComm);
}

/*
 * ginDevCommDestroy - collective; frees it, or returns ginErrorInvalidUsage: a kernel waits in it
 */
ginResult_t ginDevCommDestroy(ginComm_t comm, const ginDevComm *devComm);

/*
 * ginPutOnStream - put, signal and wait on a CUDA stream, called by the host
 *
 * Any thread; not collective. `devComm` was made with requirements.streams. Each call enqueues on
 * `stream`, a cudaStream_t of the communicator's GPU, which may be in a capture: a replay does the
 * operation again. Without a GPU the call does it on the calling thread before it returns, and
 * `stream` is not used.
 *
 * Put: writes `bytes` bytes of this rank's part of srcWin to the peer's part of dstWin. When the
 * stream goes on, the source may change. Signals are those of kernels: ginPutSignalOnStream() and
 * ginSignalOnStream() add `value` to the peer's signal, a strong signal. It covers the puts of the
 * context to the peer that come before it, on one stream or by events.
 *
 * ginWaitSignalOnStream() adds `value` to the shadow of this rank's signal, and waits until the
 * signal is at least that sum: each wait takes `value` of what peers add.
 *
 * ginErrorInvalidArgument; ginErrorInvalidUsage: without requirements.streams; ginErrorPeer,
 * ginErrorAborted; ginErrorCuda. What fails on the stream is reported by ginDevCommGetError(), and
 * the stream goes on.
 */
ginResult_t ginPutOnStream(ginComm_t comm, const ginDevComm *devComm, uint32_t context, int peer,
			   ginWindow_t dstWin, size_t dstOff, ginWindow_t srcWin, size_t srcOff,
			   size_t bytes, void *stream);
ginResult_t ginPutSignalOnStream(ginComm_t comm, const ginDevComm *devComm, uint32_t context,
				 int peer, ginWindow_t dstWin, size_t dstOff, ginWindow_t srcWin,
				 size_t srcOff, size_t bytes, uint32_t signal, uint64_t value,
				 void *stream);
ginResult_t ginSignalOnStream(ginComm_t comm, const ginDevComm *devComm, uint32_t context, int peer,
			      uint32_t signal, uint64_t value, void *stream);
ginResult_t ginWaitSignalOnStream(ginComm_t comm, const ginDevComm *devComm, uint32_t context,
				  uint32_t signal, uint64_t value, void *stream);

/* The resources that a rank takes in one phase. The bytes of messages include headers. */
typedef struct ginPlanPhase {
	uint64_t messages; /* of the control plane, by a rank without children in its tree */
	uint64_t received; /* bytes of the messages that such a rank receives */
	uint64_t relayed;  /* bytes that rank 0 receives and sends */
	uint64_t regions;  /* pieces of memory registered with a NIC */
	uint64_t heap;	   /* bytes */
	uint64_t pinned;   /* bytes of page-locked host memory; without a GPU, of host memory */
	uint64_t device;   /* bytes of GPU memory; without a GPU, of host memory */
} ginPlanPhase_t;

/* The resources of a rank if every pair of ranks has one route. */
typedef struct ginPlanInfo {
	size_t size;	       /* sizeof(ginPlanInfo_t), set by the caller */
	int count;	       /* number of routes */
	int links;	       /* connections of the control plane, of the rank that has most */
	uint64_t queuePairs;   /* of a device communicator */
	uint64_t addresses;    /* of peers, in a network library */
	char route[32];	       /* "direct", "gdaki", "proxy, network"; see ginPlanQuery(3) */
	ginPlanPhase_t init;   /* ginCommInit() */
	ginPlanPhase_t create; /* ginDevCommCreate() with these requirements */
	ginPlanPhase_t window; /* ginWindowRegister(); `device` is without the window itself */
} ginPlanInfo_t;

#define GIN_PLAN_INFO_INIT                                                                         \
	{                                                                                          \
		sizeof(ginPlanInfo_t), 0, 0, 0, 0, "", {0, 0, 0, 0, 0, 0, 0},                      \
			{0, 0, 0, 0, 0, 0, 0},                                                     \
		{                                                                                  \
			0, 0, 0, 0, 0, 0, 0                                                        \
		}                                                                                  \
	}

/*
 * ginPlanQuery - the resources that a rank of a communicator would take
 *
 * Any thread, any time; allocates nothing and asks no device. `index` is 0 to count - 1. The sizes
 * come from the functions by which libgin allocates and sends. They leave out small structures of
 * fixed size, the bootstrap, and memory of the CUDA driver and of network libraries.
 */
ginResult_t ginPlanQuery(int index, int nRanks, const ginDevCommRequirements_t *requirements,
			 ginPlanInfo_t *info);

/*
 * ginDevCommGetError - the first failure of a device call
 *
 * Any thread, also while kernels run. record->valid is 0 if there was no failure; otherwise
 * ginGetLastError() describes it.
 */
ginResult_t ginDevCommGetError(ginComm_t comm, const ginDevComm *devComm, ginErrorRecord_t *record);

/* GIN_VERSION of the loaded library. Any thread, any time. */
ginResult_t ginGetVersion(int *version);

/* A few words for a result; static, never NULL. Any thread, any time. */
const char *ginGetErrorString(ginResult_t result);

/*
 * One sentence about the calling thread's last failed call; "" before the first; never NULL. Valid
 * until the thread's next call.
 */
const char *ginGetLastError(void);

#include "gin/shrink.h"

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
