/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl.h - NCCL's host API on libgin, for programs whose kernels use NCCL's device API
 *
 * Written from NCCL's documented API, so that sources for NCCL 2.28 to 2.32 compile unchanged.
 * libgin-nccl.so implements the calls under link names of its own (ginNccl...), so that NCCL's
 * library may be in the same process. Calls without a counterpart in libgin return
 * ncclInvalidUsage, and ncclGetLastError() says why. docs/nccl/ lists what is supported.
 *
 * A program may choose the version that the header announces: -DNCCL_VERSION_CODE=23102, say.
 */
#ifndef GIN_COMPAT_NCCL_H
#define GIN_COMPAT_NCCL_H

#ifdef NCCL_MAJOR
#error "another nccl.h is included already: pass the folder of libgin's nccl.h first (-I)"
#endif

#ifndef __CUDACC_RTC__
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#endif

/* Programs expect the types of streams and of small floats from nccl.h. */
#if defined(__CUDACC__) || __has_include(<cuda_runtime.h>)
#ifndef __CUDACC_RTC__
#include <cuda_runtime.h>
#endif
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#ifdef __cplusplus
#include <cuda_fp8.h>
#endif
#else
typedef struct CUstream_st *cudaStream_t;
#endif

#ifndef NCCL_VERSION_CODE
#define NCCL_VERSION_CODE 23007
#endif
#define NCCL_MAJOR (NCCL_VERSION_CODE / 10000)
#define NCCL_MINOR (NCCL_VERSION_CODE % 10000 / 100)
#define NCCL_PATCH (NCCL_VERSION_CODE % 100)
#define NCCL_SUFFIX ""

/* The code of version x.y.z; versions up to 2.8 have another form. */
#define NCCL_VERSION(x, y, z)                                                                      \
	((x) > 2 || ((x) == 2 && (y) > 8) ? (x)*10000 + (y)*100 + (z) : (x)*1000 + (y)*100 + (z))

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t; /* a ginWindow_t's table */
#define NCCL_COMM_NULL NULL

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
	char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,
	ncclInternalError = 3,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclRemoteError = 6,
	ncclInProgress = 7,
	ncclTimeout = 8,
	ncclNumResults = 9
} ncclResult_t;

typedef enum {
	ncclInt8 = 0,
	ncclChar = 0,
	ncclUint8 = 1,
	ncclInt32 = 2,
	ncclInt = 2,
	ncclUint32 = 3,
	ncclInt64 = 4,
	ncclUint64 = 5,
	ncclFloat16 = 6,
	ncclHalf = 6,
	ncclFloat32 = 7,
	ncclFloat = 7,
	ncclFloat64 = 8,
	ncclDouble = 8,
	ncclBfloat16 = 9,
	ncclFloat8e4m3 = 10,
	ncclFloat8e5m2 = 11,
	ncclNumTypes = 12
} ncclDataType_t;

typedef enum {
	ncclSum = 0,
	ncclProd = 1,
	ncclMax = 2,
	ncclMin = 3,
	ncclAvg = 4,
	ncclNumOps = 5,
	ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

typedef enum { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 } ncclScalarResidence_t;

#define NCCL_API_MAGIC 0xcafebeef
#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT (-1.0f)
#define NCCL_SPLIT_NOCOLOR (-1)
#define NCCL_SHRINK_DEFAULT 0x00
#define NCCL_SHRINK_ABORT 0x01
#define NCCL_REVOKE_DEFAULT 0x00
#define NCCL_SUSPEND_MEM 0x01
#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

/*
 * Flags of windows. All are accepted and ignored: libgin's windows may be of different sizes, are
 * mapped to all peers that can reach them, and order signals at offsets always.
 */
#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_WIN_GIN_ONLY 0x04
#define NCCL_WIN_CFT_COUNTED 0x08
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

typedef enum {
	ncclHostCftDefault = NCCL_CONFIG_UNDEF_INT,
	ncclHostCftEnable = 1,
	ncclHostCftDisable = 2,
	ncclHostCftFallback = 3
} ncclHostCftMode_t;

typedef enum {
	ncclNvlsHostModeDefault = NCCL_CONFIG_UNDEF_INT,
	ncclNvlsHostModeEnable = 0,
	ncclNvlsHostModeDisableTransport = 1,
	ncclNvlsHostModeDisableSymmetricMultimem = 2,
	ncclNvlsHostModeDisable = INT_MAX
} ncclNvlsHostMode_t;

/*
 * `trafficClass` is the initial value for device communicators; a split or shrunk communicator
 * without one inherits it. Other fields change nothing; `blocking` 0 is treated as 1.
 */
typedef struct ncclConfig {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int blocking;
	int cgaClusterSize;
	int minCTAs;
	int maxCTAs;
	const char *netName;
	int splitShare;
	int trafficClass;
	const char *commName;
	int collnetEnable;
	int CTAPolicy;
	int shrinkShare;
	int nvlsCTAs;
	int nChannelsPerNetPeer;
	int nvlinkCentricSched;
	int graphUsageMode;
	int numRmaCtx;
	int maxP2pPeers;
	int graphStreamOrdering;
	int launchOrderImplicit;
	int numRmaSig;
	int rmaEagerInit;
	int hostCftMode;
	int nvlsHostMode;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                    \
	{                                                                                          \
		sizeof(ncclConfig_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NCCL_CONFIG_UNDEF_INT,    \
			NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,       \
			NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,       \
			NCCL_CONFIG_UNDEF_PTR, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,       \
			NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,       \
			NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,       \
			NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,       \
			NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT,       \
			NCCL_CONFIG_UNDEF_INT                                                      \
	}

/* ncclWaitSignal()'s list. */
typedef struct {
	int opCnt;
	int peer;
	int sigIdx;
	int ctx;
} ncclWaitSignalDesc_t;

/*
 * Declares ncclNAME and pncclNAME, which libgin-nccl.so exports as ginNcclNAME. The library is not
 * a wrapper around NCCL: both names are one function.
 */
#define GIN_NCCL_DECLARE(type, name, args)                                                         \
	type nccl##name args __asm__("ginNccl" #name);                                             \
	type pnccl##name args __asm__("ginNccl" #name)
#define GIN_NCCL_CALL(name, args) GIN_NCCL_DECLARE(ncclResult_t, name, args)

/* Communicators. */
GIN_NCCL_CALL(GetUniqueId, (ncclUniqueId * id));
GIN_NCCL_CALL(CommInitRank, (ncclComm_t * comm, int nRanks, ncclUniqueId id, int rank));
GIN_NCCL_CALL(CommInitRankConfig,
	      (ncclComm_t * comm, int nRanks, ncclUniqueId id, int rank, ncclConfig_t *config));
GIN_NCCL_CALL(CommInitRankScalable, (ncclComm_t * comm, int nRanks, int rank, int nIds,
				     ncclUniqueId *ids, ncclConfig_t *config));
GIN_NCCL_CALL(CommInitAll, (ncclComm_t * comms, int devices, const int *list));
GIN_NCCL_CALL(CommSplit,
	      (ncclComm_t comm, int color, int key, ncclComm_t *part, ncclConfig_t *config));
/*
 * The ranks that are alive and not excluded get a communicator without windows. NCCL_SHRINK_ABORT
 * first ends all operations in progress on `comm`, as ncclCommAbort() does; then `comm` must be
 * destroyed.
 */
GIN_NCCL_CALL(CommShrink, (ncclComm_t comm, int *excluded, int count, ncclComm_t *rest,
			   ncclConfig_t *config, int flags));
GIN_NCCL_CALL(CommFinalize, (ncclComm_t comm));
GIN_NCCL_CALL(CommDestroy, (ncclComm_t comm));
GIN_NCCL_CALL(CommAbort, (ncclComm_t comm));
/* Ends the waits of kernels, here and at peers. Then `comm` may be shrunk or destroyed. */
GIN_NCCL_CALL(CommRevoke, (ncclComm_t comm, int flags));
GIN_NCCL_CALL(CommGetAsyncError, (ncclComm_t comm, ncclResult_t *error));
GIN_NCCL_CALL(CommCount, (const ncclComm_t comm, int *count));
GIN_NCCL_CALL(CommCuDevice, (const ncclComm_t comm, int *device));
GIN_NCCL_CALL(CommUserRank, (const ncclComm_t comm, int *rank));
GIN_NCCL_DECLARE(const char *, GetErrorString, (ncclResult_t result));
GIN_NCCL_DECLARE(const char *, GetLastError, (ncclComm_t comm));

/* The version that the program was compiled for. */
static inline ncclResult_t ncclGetVersion(int *version)
{
	if (!version)
		return ncclInvalidArgument;
	*version = NCCL_VERSION_CODE;
	return ncclSuccess;
}

/* Calls of one thread between the two run at the end: a thread for each communicator. */
GIN_NCCL_CALL(GroupStart, (void));
GIN_NCCL_CALL(GroupEnd, (void));

/* Memory and windows. ncclCommRegister() has nothing to do: its handle is NULL. */
GIN_NCCL_CALL(MemAlloc, (void **ptr, size_t bytes));
GIN_NCCL_CALL(MemFree, (void *ptr));
GIN_NCCL_CALL(CommRegister, (const ncclComm_t comm, void *ptr, size_t bytes, void **handle));
GIN_NCCL_CALL(CommDeregister, (const ncclComm_t comm, void *handle));
GIN_NCCL_CALL(CommWindowRegister,
	      (ncclComm_t comm, void *ptr, size_t bytes, ncclWindow_t *window, int flags));
GIN_NCCL_CALL(CommWindowDeregister, (ncclComm_t comm, ncclWindow_t window));
GIN_NCCL_CALL(WinGetUserPtr, (ncclComm_t comm, ncclWindow_t window, void **ptr));

/*
 * Collectives for the set-up of programs, by the CPUs and the control plane: in order on the
 * stream, any size, slow. Reductions take integers, float and double, and the five operations.
 */
GIN_NCCL_CALL(AllGather, (const void *send, void *receive, size_t count, ncclDataType_t type,
			  ncclComm_t comm, cudaStream_t stream));
GIN_NCCL_CALL(AllReduce, (const void *send, void *receive, size_t count, ncclDataType_t type,
			  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream));
GIN_NCCL_CALL(Reduce, (const void *send, void *receive, size_t count, ncclDataType_t type,
		       ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream));
GIN_NCCL_CALL(Bcast, (void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
		      cudaStream_t stream));
GIN_NCCL_CALL(Broadcast, (const void *send, void *receive, size_t count, ncclDataType_t type,
			  int root, ncclComm_t comm, cudaStream_t stream));
GIN_NCCL_CALL(ReduceScatter, (const void *send, void *receive, size_t count, ncclDataType_t type,
			      ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream));
GIN_NCCL_CALL(AlltoAll, (const void *send, void *receive, size_t count, ncclDataType_t type,
			 ncclComm_t comm, cudaStream_t stream));
GIN_NCCL_CALL(Gather, (const void *send, void *receive, size_t count, ncclDataType_t type, int root,
		       ncclComm_t comm, cudaStream_t stream));
GIN_NCCL_CALL(Scatter, (const void *send, void *receive, size_t count, ncclDataType_t type,
			int root, ncclComm_t comm, cudaStream_t stream));

/*
 * Those of a group are one collective: every rank of the communicator makes a group with Send or
 * Recv, one of 0 elements at least. Number k of the sends from one rank to another belongs to
 * number k of the receives there.
 */
GIN_NCCL_CALL(Send, (const void *buffer, size_t count, ncclDataType_t type, int peer,
		     ncclComm_t comm, cudaStream_t stream));
GIN_NCCL_CALL(Recv, (void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
		     cudaStream_t stream));

/* All calls below return ncclInvalidUsage. */
GIN_NCCL_CALL(RedOpCreatePreMulSum, (ncclRedOp_t * op, void *scalar, ncclDataType_t type,
				     ncclScalarResidence_t where, ncclComm_t comm));
GIN_NCCL_CALL(RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm));
GIN_NCCL_CALL(PutSignal, (const void *source, size_t count, ncclDataType_t type, int peer,
			  ncclWindow_t window, size_t offset, int signal, int context,
			  unsigned int flags, ncclComm_t comm, cudaStream_t stream));
GIN_NCCL_CALL(Signal, (int peer, int signal, int context, unsigned int flags, ncclComm_t comm,
		       cudaStream_t stream));
GIN_NCCL_CALL(WaitSignal,
	      (int count, ncclWaitSignalDesc_t *list, ncclComm_t comm, cudaStream_t stream));
GIN_NCCL_CALL(CommGrow, (ncclComm_t comm, int nRanks, const ncclUniqueId *id, int rank,
			 ncclComm_t *grown, ncclConfig_t *config));
GIN_NCCL_CALL(CommGetUniqueId, (ncclComm_t comm, ncclUniqueId *id));
GIN_NCCL_CALL(CommSuspend, (ncclComm_t comm, int flags));
GIN_NCCL_CALL(CommResume, (ncclComm_t comm));

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
