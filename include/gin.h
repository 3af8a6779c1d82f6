/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gin.h - host API of libgin, GPU-initiated networking
 *
 * C11, usable from C++. Conventions of every call here:
 *  - It returns ginSuccess or an error; outputs come last and are written on success only.
 *  - ginGetLastError() has one sentence about the calling thread's last failure: what failed, on
 *    which rank, what to do.
 *  - "Collective" means: every rank of the communicator calls it, in the same order as its other
 *    collectives. It ends on every rank within GIN_TIMEOUT seconds (600), with the same result.
 *  - Calls on different communicators may run at the same time on different threads. Calls on one
 *    communicator are made by one thread at a time, but for those marked "any thread".
 *  - After ginCommInit() no call synchronises the device, uses the null stream or breaks a stream
 *    capture; but unpinning ginMemAllocHost() memory may wait for kernels that run.
 *
 * Device calls are in gin_device.cuh. Environment variables: gin_environ(7).
 */
#ifndef GIN_H
#define GIN_H

#include "gin/abi.h"

#define GIN_VERSION_MAJOR 0
#define GIN_VERSION_MINOR 1
#define GIN_VERSION_PATCH 0
#define GIN_VERSION (GIN_VERSION_MAJOR * 10000 + GIN_VERSION_MINOR * 100 + GIN_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* A group of ranks. Opaque; made by ginCommInit() and its like, freed by ginCommDestroy(). */
typedef struct ginComm *ginComm_t;

/*
 * The caller's own way to bring the ranks together: gathers `bytes` bytes of every rank into `out`,
 * ordered by rank, and returns 0, or anything else when it failed. Called once or twice, from
 * within ginCommInit() only, on the calling thread.
 */
typedef int (*ginAllgather_t)(void *arg, const void *in, void *out, size_t bytes);

#define GIN_DEVICE_AUTO (-1) /* the current context's device, else local rank modulo count */
#define GIN_DEVICE_NONE (-2) /* no GPU: host memory and host threads */

typedef struct ginConfig {
	size_t size;		  /* sizeof(ginConfig_t): GIN_CONFIG_INIT sets it */
	int device;		  /* CUDA ordinal, GIN_DEVICE_AUTO or GIN_DEVICE_NONE */
	ginAllgather_t allgather; /* NULL: the launcher's way, see ginCommInit() */
	void *allgatherArg;
	int rank;	     /* only with allgather */
	int nRanks;	     /* only with allgather */
	const char *name;    /* tells communicators apart while they are made; NULL: "" */
	const char *backend; /* "gdaki", "proxy": as GIN_BACKEND, which goes first; NULL: any */
} ginConfig_t;

#define GIN_CONFIG_INIT                                                                            \
	{                                                                                          \
		sizeof(ginConfig_t), GIN_DEVICE_AUTO, NULL, NULL, 0, 1, NULL, NULL                 \
	}

/*
 * ginCommInit - bring the ranks together
 *
 * Collective over all ranks of the job. `config` may be NULL: defaults. The ranks find each other
 * by config->allgather, else by PMIx when PMIX_NAMESPACE is set (mpirun, srun --mpi=pmix), else by
 * TCP when GIN_ROOT is (RANK and WORLD_SIZE, or the launcher's own variables, number the ranks),
 * else this rank is alone. A launcher that says more than one and offers no way is an error, never
 * N single ranks. GIN_BOOTSTRAP forces one.
 *
 * Several communicators may be made, also at the same time on different threads. By PMIx and TCP
 * those with the same config->name (at most 47 characters) are told apart by their order, which
 * must be the same in all processes. With config->allgather ranks may also be threads of one
 * process.
 *
 * ginErrorInvalidArgument, ginErrorBootstrap, ginErrorTimeout, ginErrorCuda, ginErrorSystem.
 */
ginResult_t ginCommInit(const ginConfig_t *config, ginComm_t *comm);

/* What brings the ranks of one communicator together; bytes that may be copied and sent. */
typedef struct ginUniqueId {
	char bytes[128];
} ginUniqueId_t;

/*
 * ginGetUniqueId - an id for ginCommInitRank()
 *
 * Called by one process, which carries it to the others by a way of its own and stays until all
 * ranks have come: they meet at a port where it listens. Whoever has the id can join, so keep it
 * from others. An id serves one communicator. Any thread.
 */
ginResult_t ginGetUniqueId(ginUniqueId_t *id);

/*
 * ginCommInitRank - bring the ranks together that have the same id
 *
 * Collective over the `nRanks` ranks, which may be threads of one process. config->allgather must
 * be NULL; config->name is of no account. Communicators of different ids may be made in any order
 * and at the same time. Errors as ginCommInit().
 */
ginResult_t ginCommInitRank(const ginConfig_t *config, const ginUniqueId_t *id, int rank,
			    int nRanks, ginComm_t *comm);

#define GIN_NO_COLOR (-1) /* this rank will be in no part */

/*
 * ginCommSplit - part a communicator by color
 *
 * Collective. Ranks with the same `color` (0 or more) get a communicator of their own, ordered by
 * `key`, then by rank; with GIN_NO_COLOR, `*part` is NULL. `comm` stays as it is, and the two are
 * independent: windows and device communicators belong to one of them. The device is that of
 * `comm`.
 */
ginResult_t ginCommSplit(ginComm_t comm, int color, int key, ginComm_t *part);

/*
 * ginCommDestroy - leave the communicator and free it
 *
 * Collective, unless the communicator has failed or was aborted: then it returns at once. No
 * kernel may use it any more. Windows and device communicators that are left are freed with a
 * warning. `comm` is gone whatever is returned. NULL is allowed.
 */
ginResult_t ginCommDestroy(ginComm_t comm);

/*
 * ginCommAbort - end every wait, here and at the peers
 *
 * Any thread, also while another is inside a call on `comm`. Waiting kernels and host calls of this
 * rank return ginErrorAborted, those of the other ranks ginErrorPeer. Frees nothing: call
 * ginCommDestroy() when the kernels have ended.
 */
ginResult_t ginCommAbort(ginComm_t comm);

/*
 * ginCommGetAsyncError - has the communicator failed behind the caller's back?
 *
 * Any thread. `error` is ginSuccess while all ranks are well, else what happened first; then
 * ginGetLastError() says it in words and names the rank.
 */
ginResult_t ginCommGetAsyncError(ginComm_t comm, ginResult_t *error);

/* Any thread, for the life of the communicator. `device` is GIN_DEVICE_NONE without a GPU. */
ginResult_t ginCommRank(ginComm_t comm, int *rank);
ginResult_t ginCommSize(ginComm_t comm, int *nRanks);
ginResult_t ginCommDevice(ginComm_t comm, int *device);

/* What is known of one rank, and how data goes there. */
typedef struct ginPeerInfo {
	size_t size;	  /* sizeof(ginPeerInfo_t), set by the caller */
	uint32_t route;	  /* enum ginRoute */
	int sameHost;	  /* the peer runs on this rank's host */
	int sameProcess;  /* the peer is a thread of this process */
	char host[64];	  /* its host's name */
	char device[96];  /* its GPU's name, or "host threads" */
	char backend[16]; /* "direct", "gdaki", "proxy", or "none" */
	char why[160];	  /* why this route, in words */
} ginPeerInfo_t;

#define GIN_PEER_INFO_INIT                                                                         \
	{                                                                                          \
		sizeof(ginPeerInfo_t), 0, 0, 0, "", "", "", ""                                     \
	}

/*
 * ginCommQueryPeer - the route to a rank and the reason for it
 *
 * Any thread. `peer` is 0 to size - 1, own rank included. Writes at most info->size bytes.
 */
ginResult_t ginCommQueryPeer(ginComm_t comm, int peer, ginPeerInfo_t *info);

/* What a communicator is, seen from this rank. */
typedef struct ginCommInfo {
	size_t size;	     /* sizeof(ginCommInfo_t), set by the caller */
	int rank, nRanks;    /* this rank, and how many there are */
	int localRank;	     /* its number among the ranks of its host */
	int localRanks;	     /* how many these are */
	int hosts;	     /* of all ranks */
	int device;	     /* CUDA ordinal, or GIN_DEVICE_NONE */
	int backends;	     /* ginCommQueryBackend() knows 0 to backends - 1 */
	char bootstrap[16];  /* how the ranks found each other: "pmix", "caller" or "self" */
	char host[64];	     /* this rank's host's name */
	char deviceName[96]; /* its GPU's name, or "host threads" */
	/*
	 * 1: kernels do atomics, and raise signals at offsets, in windows of any memory that the man
	 * pages allow. 0: in GPU memory no agent of some pair's route can; in windows of
	 * ginMemAllocHost() they do.
	 */
	int deviceAtomics;
} ginCommInfo_t;

#define GIN_COMM_INFO_INIT                                                                         \
	{                                                                                          \
		sizeof(ginCommInfo_t), 0, 0, 0, 0, 0, 0, 0, "", "", "", 0                          \
	}

/* ginCommQuery - who this rank is, and what the communicator consists of. Any thread. */
ginResult_t ginCommQuery(ginComm_t comm, ginCommInfo_t *info);

/* A backend, seen from this rank. */
typedef struct ginBackendInfo {
	size_t size;   /* sizeof(ginBackendInfo_t), set by the caller */
	int usable;    /* this rank can use it */
	int pairs;     /* ranks that this one reaches by it, own rank included */
	char name[16]; /* "direct", "gdaki", "proxy" */
	char why[160]; /* when it is not usable: why not, and what to change */
} ginBackendInfo_t;

#define GIN_BACKEND_INFO_INIT                                                                      \
	{                                                                                          \
		sizeof(ginBackendInfo_t), 0, 0, "", ""                                             \
	}

/*
 * ginCommQueryBackend - can this rank use a backend, and why not?
 *
 * Any thread. `index` is 0 to ginCommInfo_t.backends - 1.
 */
ginResult_t ginCommQueryBackend(ginComm_t comm, int index, ginBackendInfo_t *info);

/*
 * ginCommProgress - one turn of the proxy, by the calling thread
 *
 * Any thread, not collective. With GIN_PROXY_THREADS=0 nothing that kernels post to the proxy moves
 * but in here: call it again and again while they run. With threads it helps them. *did, which may
 * be NULL, is 1 when there was something to do, else 0; without peers on that route it is 0.
 */
ginResult_t ginCommProgress(ginComm_t comm, int *did);

#define GIN_HISTOGRAM_BUCKETS 40

/* Bucket 0 counts values below 2, bucket i those from 2^i to below 2^(i+1), the last all from there. */
typedef struct ginHistogram {
	uint64_t count; /* of values */
	uint64_t sum;	/* of them */
	uint64_t most;	/* the largest */
	uint64_t bucket[GIN_HISTOGRAM_BUCKETS];
} ginHistogram_t;

/*
 * What went through a context's queue to the proxy since ginDevCommCreate(), on this rank. Times are
 * nanoseconds and begin when the CPU takes the descriptor from the queue, as it has no room for the
 * GPU's clock; of every 31st descriptor at most they are taken.
 */
typedef struct ginStats {
	size_t size;	       /* sizeof(ginStats_t), set by the caller */
	uint64_t posted;       /* descriptors that were taken from the queue */
	uint64_t completed;    /* of these, done: raised, counted and told */
	uint64_t failed;       /* of these, not done, or in part */
	uint64_t putBytes;     /* moved by puts that are completed */
	uint64_t getBytes;     /* the same of gets */
	uint64_t waitsForRoom; /* descriptors whose thread found the queue full, and waited */
	uint64_t sleeps;       /* of the CPU thread, which other contexts may share */
	ginHistogram_t batch;  /* descriptors that were taken at one look */
	ginHistogram_t takenToReleased; /* puts: until the source could be reused */
	ginHistogram_t takenToVisible;	/* until data and signal were at the target */
	char cpus[64]; /* where the thread may run, "0-15,32"; "" when that is not known */
} ginStats_t;

#define GIN_STATS_INIT                                                                             \
	{                                                                                          \
		sizeof(ginStats_t), 0, 0, 0, 0, 0, 0, 0, {0, 0, 0, {0}}, {0, 0, 0, {0}},           \
			{0, 0, 0, {0}}, ""                                                         \
	}

/*
 * ginCommGetStats - what a context's queues have been through
 *
 * On the route gdaki: `posted`, `completed` and `failed`, in places of the queues.
 *
 * Any thread, also while kernels run; not collective. `context` is 0 to devComm->contexts - 1. Every
 * number is right by itself; what one kernel call has waited for is in all but `batch`.
 *
 * ginErrorInvalidArgument; ginErrorUnsupported when the device communicator has no queues because
 * every peer is direct; ginErrorCuda.
 */
ginResult_t ginCommGetStats(ginComm_t comm, const ginDevComm *devComm, uint32_t context,
			    ginStats_t *info);

#define GIN_ALLGATHER_BYTES 65536 /* most that a rank can put in */

/*
 * ginCommAllgather - bring small host data of all ranks together
 *
 * Collective. Gathers `bytes` bytes of every rank into `out`, which has room for nRanks * bytes,
 * ordered by rank. `bytes` is equal on all ranks and at most GIN_ALLGATHER_BYTES; zero, with both
 * pointers NULL, is a barrier. It runs over the sockets of the control plane: for start-up and
 * reports, not for data.
 *
 * ginErrorInvalidArgument, ginErrorInvalidUsage, ginErrorTimeout, ginErrorPeer, ginErrorAborted.
 */
ginResult_t ginCommAllgather(ginComm_t comm, const void *in, void *out, size_t bytes);

/* An environment variable. Texts live as long as the process. */
typedef struct ginParamInfo {
	size_t size;	     /* sizeof(ginParamInfo_t), set by the caller */
	int count;	     /* variables that there are: index is 0 to count - 1 */
	int isSet;	     /* the environment has it */
	int isBad;	     /* the value cannot be understood: ginCommInit() fails */
	const char *name;    /* "GIN_TIMEOUT" */
	const char *choices; /* "auto|direct|network", "number" or "text" */
	const char *value;   /* in effect, or the bad one; "(set)" when it is secret */
	const char *preset;  /* the value when it is not set */
	const char *meaning; /* in a few words */
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
	int count;	  /* GPUs; 0: `why` says why there are none, the rest is empty */
	int usable;	  /* libgin can use it; else `why` says why not */
	int domain;	  /* lowest ordinal that it has native atomics with (NVLink), or own */
	int numaNode;	  /* of the host, -1: not known */
	int computeMajor; /* compute capability */
	int computeMinor;
	int driverVersion; /* newest CUDA of the driver: 1000 * major + 10 * minor */
	uint64_t memoryBytes;
	char name[96];
	char uuid[40];	   /* as nvidia-smi writes it behind "GPU-" */
	char pciBusId[32]; /* "0000:1b:00.0" */
	char why[160];
} ginDeviceInfo_t;

#define GIN_DEVICE_INFO_INIT                                                                       \
	{                                                                                          \
		sizeof(ginDeviceInfo_t), 0, 0, 0, -1, 0, 0, 0, 0, "", "", "", ""                   \
	}

/*
 * ginDeviceQuery - what is known of a GPU
 *
 * Any thread, any time; makes no CUDA context. `ordinal` is 0 to count - 1. Without a driver or a
 * GPU it succeeds, whatever the ordinal, with count 0 and the reason.
 */
ginResult_t ginDeviceQuery(int ordinal, ginDeviceInfo_t *info);

/* A port of an RDMA NIC of this machine. */
typedef struct ginNicInfo {
	size_t size;   /* sizeof(ginNicInfo_t), set by the caller */
	int count;     /* ports; 0: `why` says why there are none, the rest is empty */
	int usable;    /* GPU threads can post to it (route gdaki) */
	int port;      /* from 1 on */
	char name[64]; /* of its device: "mlx5_0" */
	char why[320]; /* what it is; not usable: why not, and what to change */
} ginNicInfo_t;

#define GIN_NIC_INFO_INIT                                                                          \
	{                                                                                          \
		sizeof(ginNicInfo_t), 0, 0, 0, "", ""                                              \
	}

/*
 * ginNicQuery - what is known of a port of an RDMA NIC, and whether libgin can use it
 *
 * Any thread, any time. `index` is 0 to count - 1. Index 0 looks at all ports, and opens each device
 * for that; others answer with what was seen then. Without libgin-rdma.so, RDMA devices or a port it
 * succeeds, whatever the index, with count 0 and the reason.
 */
ginResult_t ginNicQuery(int index, ginNicInfo_t *info);

/*
 * ginMemAlloc - memory that every route reaches
 *
 * Not collective. GPU memory of the communicator's device that other processes can map, or shared
 * host memory without a GPU; aligned to 4 KiB at least, not cleared on a GPU, zero on a host. Zero
 * bytes give NULL. ginMemFree() frees it; it must not be in a registered window then. NULL is
 * allowed.
 */
ginResult_t ginMemAlloc(ginComm_t comm, size_t bytes, void **ptr);
ginResult_t ginMemFree(ginComm_t comm, void *ptr);

/*
 * ginMemAllocHost - host memory that every route reaches
 *
 * Not collective. Without a GPU the same as ginMemAlloc(). With one it is pinned: this rank's
 * kernels and CPUs load and store it at one address, and in a window those of its peers at the one
 * that ginPeerPointer() says. Zero, and aligned to 4 KiB. No GPU does atomics in it: where every
 * pair of ranks is direct, no signal or atomic of a kernel may be at an offset in it; where the
 * proxy takes some pair, CPUs do them, here and nowhere else (ginCommInfo_t.deviceAtomics).
 * ginMemFree() frees it; that, and ginWindowDeregister() of a window in which any rank has such
 * memory, may wait for kernels that run.
 */
ginResult_t ginMemAllocHost(ginComm_t comm, size_t bytes, void **ptr);

#define GIN_WINDOW_LOCAL 1 /* a source of this rank alone; not collective */

/*
 * ginWindowRegister - make memory a target and source of transfers
 *
 * Collective. `ptr` to `ptr + bytes` stays the caller's; sizes may differ per rank, zero with a
 * NULL `ptr` included, and so may kinds of memory. It must be one that the routes reach:
 * ginMemAlloc(), ginMemAllocHost(), or cudaMalloc() on a GPU; else the call fails on all ranks and
 * names rank, reason and remedy. `flags` is 0 or GIN_WINDOW_LOCAL. Windows registered before and
 * after ginDevCommCreate() work alike.
 *
 * With GIN_WINDOW_LOCAL the call is not collective, and the window is the source of puts and
 * nothing else: of any memory that this rank's threads load, pinned host memory included.
 */
ginResult_t ginWindowRegister(ginComm_t comm, void *ptr, size_t bytes, int flags,
			      ginWindow_t *window);

/*
 * ginWindowDeregister - no kernel may use the window any more
 *
 * Collective, unless the window is of GIN_WINDOW_LOCAL.
 */
ginResult_t ginWindowDeregister(ginComm_t comm, ginWindow_t window);

/* ginWindowPointer - what was registered here; any thread while it is registered. */
ginResult_t ginWindowPointer(ginComm_t comm, ginWindow_t window, void **ptr);

/*
 * ginPeerPointer - where this rank loads and stores the window of `peer`
 *
 * Any thread while it is registered. `*ptr` is NULL when the route to the peer is not direct or
 * the peer's part is empty. On a GPU the pointer is for kernels; where the peer has
 * ginMemAllocHost() memory, for CPUs as well.
 */
ginResult_t ginPeerPointer(ginComm_t comm, ginWindow_t window, int peer, void **ptr);

typedef struct ginDevCommRequirements {
	size_t size;	   /* sizeof(ginDevCommRequirements_t): the initializer sets it */
	uint32_t contexts; /* 1 to GIN_MAX_CONTEXTS */
	uint32_t signals;  /* per context, 0 to 1,048,576 */
	uint64_t timeout;  /* default of every device wait in nanoseconds; 0: for ever */
	uint32_t counters; /* per context, 0 to 1,048,576 */
	uint32_t barriers; /* in all, 0 to 65,536 */
	/*
	 * Descriptors that the queue of a context to the proxy holds, a power of two, 16 to 65,536.
	 * Without peers on that route there are no queues.
	 */
	uint32_t queueDepth;
} ginDevCommRequirements_t;

#define GIN_DEV_COMM_REQUIREMENTS_INIT                                                             \
	{                                                                                          \
		sizeof(ginDevCommRequirements_t), 1, 16, 0, 4, 4, 1024                             \
	}

/* What ginDevCommCreate() calls: it takes along what the caller was compiled against. */
ginResult_t ginDevCommCreateAbi(ginComm_t comm, const ginDevCommRequirements_t *requirements,
				uint32_t abi, size_t devCommSize, ginDevComm *devComm);

/*
 * ginDevCommCreate - what kernels communicate with
 *
 * Collective; all but the timeout must be equal on all ranks. All signals and counters are zero
 * when it returns. ginErrorUnsupported names the first pair of ranks that no backend connects;
 * ginErrorAbi a program that was built against another libgin.
 */
static inline ginResult_t
ginDevCommCreate(ginComm_t comm, const ginDevCommRequirements_t *requirements, ginDevComm *devComm)
{
	return ginDevCommCreateAbi(comm, requirements, GIN_DEVICE_ABI, sizeof(*devComm), devComm);
}

/* ginDevCommDestroy - collective; no kernel may use it any more. */
ginResult_t ginDevCommDestroy(ginComm_t comm, const ginDevComm *devComm);

/*
 * ginDevCommGetError - the first failure of a device call
 *
 * Any thread, also while kernels run. record->valid is 0 when there was none. ginGetLastError()
 * then has it in words.
 */
ginResult_t ginDevCommGetError(ginComm_t comm, const ginDevComm *devComm, ginErrorRecord_t *record);

/* GIN_VERSION of the library that is loaded. Any thread, any time. */
ginResult_t ginGetVersion(int *version);

/* A few words per result; never NULL, static. Any thread, any time. */
const char *ginGetErrorString(ginResult_t result);

/* One sentence about the calling thread's last failed call, "" before the first; never NULL. */
const char *ginGetLastError(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
