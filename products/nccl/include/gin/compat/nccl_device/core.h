/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core.h - device communicators, their requirements, teams and pointers, in NCCL's words
 *
 * The types and host calls are C, too; teams and pointers are C++.
 */
#ifndef GIN_COMPAT_NCCL_CORE_H
#define GIN_COMPAT_NCCL_CORE_H

#include "../nccl.h"

#include <gin.h>
#include "net_device.h"

/* NCCL's headers bring the driver's names, and programs count on them. */
#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)
#include <cuda.h>
#endif

#ifndef __cplusplus
#include <stdbool.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

typedef struct ncclTeam {
	int nRanks, rank, stride;
} ncclTeam_t;

/* Of a resource buffer: its offset in ncclDevComm.resourceWindow, in units of 128 bytes. */
typedef uint32_t ncclDevResourceHandle;
typedef ncclDevResourceHandle ncclDevResourceHandle_t;

typedef uint32_t ncclGinSignal_t;
typedef uint32_t ncclGinCounter_t;

/* All zero: nothing to wait for. */
typedef struct {
	uint64_t opaque[2];
} ncclGinRequest_t;

/*
 * A range of libgin's barriers, which have one index space. Each LSA barrier takes enough of them
 * for a word for each rank of the domain.
 */
typedef struct ncclLsaBarrierHandle {
	uint32_t first, count;
} ncclLsaBarrierHandle_t;

typedef struct ncclGinBarrierHandle {
	uint32_t first, count;
} ncclGinBarrierHandle_t;

/* libgin has no multicast memory: the address is NULL. */
typedef struct ncclMultimemHandle {
	void *mcBasePtr;
} ncclMultimemHandle_t;

/* The words that kernels poll by _ginHandle: an entry for each context. */
struct ncclGinGdakiGPUContext {
	struct {
		/*
		 * Signal i is word i. NULL: CPUs raise signals too, so no single word has the
		 * value.
		 */
		uint64_t *buffer;
	} signals_table;
};

/*
 * The windows of this rank in its communicator, for ncclFindWindow(): entries that kernels read and
 * the CPU writes, in pinned memory.
 */
#define GIN_NCCL_WINDOWS 169
struct ginNcclWindows {
	const struct ginNcclWindows *next;
	uint64_t used; /* entries from here on are free */
	struct {
		uint64_t address;
		uint64_t bytes; /* 0: a free entry */
		ncclWindow_t window;
	} entry[GIN_NCCL_WINDOWS];
};

/*
 * What kernels use. Trivially copyable; passed by value or kept in any memory that kernels load.
 * Programs may use the counts, ranks and barrier handles.
 */
typedef struct ncclDevComm {
	int rank, nRanks;
	int lsaRank, lsaSize;
	int ginContextCount, ginSignalCount, ginCounterCount;
	int ginConnectionCount;
	ncclLsaBarrierHandle_t lsaBarrier, hybridLsaBarrier;
	ncclGinBarrierHandle_t railGinBarrier, worldGinBarrier;
	ncclGinBarrierHandle_t hybridRailGinBarrier, hybridWorldGinBarrier;
	ncclMultimemHandle_t lsaMultimem;
	ncclWindow_t resourceWindow;
	const struct ginNcclWindows *windows;
	struct ncclGinGdakiGPUContext *ginHandle;
	uint32_t nanosecondsPer1024Cycles; /* of the GPU's clock, for timeouts */
	uint32_t pad;
	ginDevComm gin;
} ncclDevComm_t;

typedef enum {
	NCCL_GIN_CONNECTION_NONE,
	NCCL_GIN_CONNECTION_FULL,
	NCCL_GIN_CONNECTION_RAIL,
	NCCL_GIN_CONNECTION_CUSTOM_STRIDE,
	NCCL_GIN_CONNECTION_CUSTOM_ARRAY
} ncclGinConnectionType_t;

typedef enum {
	NCCL_GIN_TYPE_NONE = 0,
	NCCL_GIN_TYPE_PROXY = 2,
	NCCL_GIN_TYPE_GDAKI = 3,
	NCCL_GIN_TYPE_GPI = 4,
	NCCL_GIN_TYPE_EFA_GDA = 5,
	NCCL_GIN_MAX_TYPES = 6
} ncclGinType_t;

#define NCCL_GIN_TYPES 64 /* entries of ncclCommProperties.ginSupport */

/* Bits of `cftCaps`. */
typedef enum { NCCL_CFT_NONE = 0, NCCL_CFT = 1, NCCL_CFT_MULTIMEM = 2 } ncclCftCap_t;

typedef struct ncclDevResourceRequirements ncclDevResourceRequirements_t;
typedef struct ncclTeamRequirements ncclTeamRequirements_t;

/*
 * The requirements of a device communicator. Equal on all ranks, but for ginCustomArray: the ranks
 * that this rank's kernels may call, itself besides. NCCL_GIN_CONNECTION_NONE connects all ranks.
 * libgin gives the number of contexts that was asked for, and always orders strong signals and
 * signals at offsets: fields about these are accepted and ignored. `lsaMultimem` and CFT are
 * refused.
 */
typedef struct ncclDevCommRequirements {
	size_t size;
	unsigned int magic;
	unsigned int version;

	ncclDevResourceRequirements_t *resourceRequirementsList;
	ncclTeamRequirements_t *teamRequirementsList;
	bool lsaMultimem;
	int barrierCount;
	int lsaBarrierCount;
	int railGinBarrierCount;
	int lsaLLA2ABlockCount, lsaLLA2ASlotCount;
	bool ginForceEnable;
	int ginContextCount;
	int ginSignalCount;
	int ginCounterCount;
	ncclGinConnectionType_t ginConnectionType;
	bool ginExclusiveContexts;
	int ginQueueDepth;
	int ginTrafficClass;
	int worldGinBarrierCount;
	bool ginStrongSignalsRequired;
	bool ginVaSignalsRequired;
	int ginCustomStride;
	ncclGinType_t ginType;
	bool useRuntimeVersion;
	int cftCaps; /* ncclCftCap_t */
	int cftBarrierCount;
	const int *ginCustomArray; /* ranks */
	int ginCustomArrayCount;
	uint64_t ginRoutes;    /* libgin's own: the routes for which the kernels have code */
	uint32_t ginDeviceAbi; /* libgin's own: the layouts that the kernels know */
} ncclDevCommRequirements_t;

#define NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER                                                     \
	{                                                                                          \
		sizeof(ncclDevCommRequirements_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, NULL, NULL,  \
			false, 0, 0, 0, 0, 0, false, 4, 0, 0, NCCL_GIN_CONNECTION_NONE, false, 0,  \
			NCCL_CONFIG_UNDEF_INT, 0, true, true, 1, NCCL_GIN_TYPE_NONE, false,        \
			NCCL_CFT_NONE, 0, NULL, 0, GIN_NCCL_ROUTES_OF(NCCL_GIN_BACKEND_MASK_ALL),  \
			GIN_DEVICE_ABI                                                             \
	}

/*
 * An entry of resourceRequirementsList: a buffer, and signals and counters after the numbered ones.
 * ncclDevCommCreate() writes to the pointers that are not NULL.
 */
struct ncclDevResourceRequirements {
	ncclDevResourceRequirements_t *next;
	size_t bufferSize, bufferAlign;
	ncclDevResourceHandle_t *outBufferHandle;
	int ginSignalCount;
	int ginCounterCount;
	ncclGinSignal_t *outGinSignalStart;
	ncclGinCounter_t *outGinCounterStart;
};

/* An entry of teamRequirementsList. */
struct ncclTeamRequirements {
	ncclTeamRequirements_t *next;
	ncclTeam_t team;
	bool multimem; /* refused */
	ncclMultimemHandle_t *outMultimemHandle;
};

/*
 * `ginType` is never NCCL_GIN_TYPE_NONE: ncclGin works between direct peers, too. It is PROXY if
 * some pair of ranks has the proxy route, otherwise GDAKI.
 */
typedef struct ncclCommProperties {
	size_t size;
	unsigned int magic;
	unsigned int version;

	int rank;
	int nRanks;
	int cudaDev;
	int nvmlDev;
	bool deviceApiSupport;
	bool multimemSupport;
	ncclGinType_t ginType;
	int nLsaTeams;
	bool hostRmaSupport;
	ncclGinType_t railedGinType;
	uint64_t commHash;
	int ginMinStride;
	ncclGinConnectionType_t ginConnectionType;
	bool ginSupport[NCCL_GIN_TYPES];
	size_t devCommRuntimeVersionSize;
	bool cftSupport;
	bool cftMulticastSupport;
	bool cftCountedSupport;
} ncclCommProperties_t;

#define NCCL_COMM_PROPERTIES_INITIALIZER                                                           \
	{                                                                                          \
		sizeof(ncclCommProperties_t), NCCL_API_MAGIC, NCCL_VERSION_CODE, 0, 0, 0, 0,       \
			false, false, NCCL_GIN_TYPE_NONE, 0, false, NCCL_GIN_TYPE_NONE, 0, 0,      \
			NCCL_GIN_CONNECTION_NONE, {false}, 0, false, false, false                  \
	}

GIN_NCCL_CALL(CommQueryProperties, (ncclComm_t comm, ncclCommProperties_t *properties));
GIN_NCCL_CALL(DevCommCreate, (ncclComm_t comm, ncclDevCommRequirements_t const *requirements,
			      ncclDevComm_t *devComm));
GIN_NCCL_CALL(DevCommDestroy, (ncclComm_t comm, ncclDevComm_t const *devComm));

/* Fill in an entry of resourceRequirementsList that gives `handle` barriers of `team`. */
GIN_NCCL_CALL(LsaBarrierCreateRequirement,
	      (ncclTeam_t team, int count, ncclLsaBarrierHandle_t *handle,
	       ncclDevResourceRequirements_t *requirement));
GIN_NCCL_CALL(GinBarrierCreateRequirement,
	      (ncclComm_t comm, ncclTeam_t team, int count, ncclGinBarrierHandle_t *handle,
	       ncclDevResourceRequirements_t *requirement));

/* Where this rank's kernels load and store a peer's part; NULL: they cannot. */
GIN_NCCL_CALL(GetPeerDevicePointer, (ncclWindow_t window, size_t offset, int peer, void **pointer));
GIN_NCCL_CALL(GetLsaDevicePointer,
	      (ncclWindow_t window, size_t offset, int lsaRank, void **pointer));

/* These return ncclInvalidUsage. */
GIN_NCCL_CALL(GetLsaMultimemDevicePointer, (ncclWindow_t window, size_t offset, void **pointer));
GIN_NCCL_CALL(GetMultimemDevicePointer,
	      (ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem, void **pointer));

/* Teams of a communicator, before there is a device communicator. */
GIN_NCCL_DECLARE(ncclTeam_t, TeamWorld, (ncclComm_t comm));
GIN_NCCL_DECLARE(ncclTeam_t, TeamLsa, (ncclComm_t comm));
GIN_NCCL_DECLARE(ncclTeam_t, TeamRail, (ncclComm_t comm));
GIN_NCCL_DECLARE(int, TeamRankToWorld, (ncclComm_t comm, ncclTeam_t team, int rank));
GIN_NCCL_DECLARE(int, TeamRankToLsa, (ncclComm_t comm, ncclTeam_t team, int rank));

#pragma GCC visibility pop

#ifdef __cplusplus
}

#include "team.h"
#endif

#endif
