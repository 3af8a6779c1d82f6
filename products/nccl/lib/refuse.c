/* SPDX-License-Identifier: BSD-3-Clause */
/* refuse.c - calls of NCCL without a counterpart in libgin */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "internal.h"

#define REFUSE(name, args, why)                                                                    \
	ncclResult_t nccl##name args                                                               \
	{                                                                                          \
		return ncclFail(ncclInvalidUsage, "nccl" #name ": not supported by libgin: " why); \
	}

#define NO_OPERATION "it reduces by ncclSum, ncclProd, ncclMax, ncclMin and ncclAvg"
#define NO_CHANGE                                                                                  \
	"make a new communicator by ncclCommSplit(), ncclCommShrink() or ncclCommInitRank()"

REFUSE(RedOpCreatePreMulSum,
       (ncclRedOp_t * op, void *scalar, ncclDataType_t type, ncclScalarResidence_t where,
	ncclComm_t comm),
       NO_OPERATION)
REFUSE(RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm), NO_OPERATION)
REFUSE(CommGrow,
       (ncclComm_t comm, int nRanks, const ncclUniqueId *id, int rank, ncclComm_t *grown,
	ncclConfig_t *config),
       NO_CHANGE)
REFUSE(CommGetUniqueId, (ncclComm_t comm, ncclUniqueId *id), NO_CHANGE)
REFUSE(CommSuspend, (ncclComm_t comm, int flags), "destroy the communicator instead")
REFUSE(CommResume, (ncclComm_t comm), "destroy the communicator instead")
