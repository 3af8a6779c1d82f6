/* SPDX-License-Identifier: BSD-3-Clause */
/* nic_query.c - ports of RDMA NICs: the backend that can use them is asked */
#include "backends/backend.h"
#include "lib/base/error.h"
#include "lib/base/info.h"
#include "lib/base/param.h"

ginResult_t ginNicQuery(int index, ginNicInfo_t *info)
{
	ginNicInfo_t filled = GIN_NIC_INFO_INIT;

	errorScope("ginNicQuery", -1);
	if (index < 0)
		return fail(ginErrorInvalidArgument, "index is %d: must be 0 or more", index);
	ginResult_t result = backendGdaki.nic(index, &filled);
	return result == ginSuccess ? infoGive(&filled, sizeof(filled), "GIN_NIC_INFO_INIT", info)
				    : result;
}
