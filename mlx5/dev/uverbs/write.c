/* SPDX-License-Identifier: BSD-3-Clause */
#include "uverbs.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>

#include "mlx5/dev/host/options.h"

static const struct legacy {
	uint32_t command;
	uverbs_method *run;
} commands[] = {
	{IB_USER_VERBS_CMD_QUERY_DEVICE, legacyQueryDevice},
	{IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_QUERY_DEVICE, legacyExQueryDevice},
	{IB_USER_VERBS_CMD_QUERY_PORT, legacyQueryPort},
	{IB_USER_VERBS_CMD_ALLOC_PD, legacyAllocPd},
	{IB_USER_VERBS_CMD_DEALLOC_PD, legacyDeallocPd},
	{IB_USER_VERBS_CMD_CREATE_AH, legacyCreateAh},
	{IB_USER_VERBS_CMD_DESTROY_AH, legacyDestroyAh},
	{IB_USER_VERBS_CMD_REG_MR, legacyRegisterMr},
	{IB_USER_VERBS_CMD_DEREG_MR, legacyDeregisterMr},
	{IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, legacyCreateChannel},
	{IB_USER_VERBS_CMD_QUERY_QP, legacyQueryQp},
	{IB_USER_VERBS_CMD_MODIFY_QP, legacyModifyQp},
	{IB_USER_VERBS_CMD_QUERY_SRQ, legacyQuerySrq},
	{IB_USER_VERBS_CMD_MODIFY_SRQ, legacyModifySrq},
	{IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_MODIFY_QP, legacyModifyQp},
};

int uverbsInvokeWrite(const struct call *call)
{
	uint32_t command = (uint32_t)attributeNumber(call, UVERBS_ATTR_WRITE_CMD);

	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (commands[i].command == command)
			return commands[i].run(call);
	trace("uverbs command 0x%x is not here", command);
	return EOPNOTSUPP;
}
