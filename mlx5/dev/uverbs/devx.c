/* SPDX-License-Identifier: BSD-3-Clause */
#include "uverbs.h"

#include <errno.h>
#include <rdma/mlx5_user_ioctl_cmds.h>

#include "mlx5/dev/command/command.h"

int uverbsDevxQueryEqn(const struct call *call)
{
	uint32_t eqn = EQN;

	attributeOut(call, MLX5_IB_ATTR_DEVX_QUERY_EQN_DEV_EQN, &eqn, sizeof(eqn));
	return 0;
}

static bool isGeneral(uint32_t opcode)
{
	return opcode == COMMAND_QUERY_HCA_CAP || opcode == COMMAND_QUERY_ROCE_ADDRESS;
}

static bool isCreate(uint32_t opcode)
{
	return opcode == COMMAND_CREATE_CQ || opcode == COMMAND_CREATE_QP;
}

static bool isQuery(uint32_t opcode)
{
	return opcode == COMMAND_QUERY_QP || opcode == COMMAND_QUERY_CQ;
}

/* Which commands a method takes, as the kernel has it; EINVAL otherwise. */
enum devx { DEVX_OTHER, DEVX_CREATE, DEVX_MODIFY, DEVX_QUERY };

static bool isTaken(enum devx method, uint32_t opcode)
{
	if (method == DEVX_OTHER)
		return isGeneral(opcode);
	if (method == DEVX_CREATE)
		return isCreate(opcode);
	if (method == DEVX_QUERY)
		return isQuery(opcode);
	return !isGeneral(opcode) && !isCreate(opcode) && !isQuery(opcode);
}

static int prepare(const struct call *call, enum devx method, uint32_t in, uint32_t out,
		   struct command *command)
{
	*command = (struct command){.device = call->device, .context = call->context};
	command->in = attributeIn(call, in, &command->inBytes);
	command->out = attributeRoom(call, out, &command->outBytes);
	if (!command->in || !command->out || command->inBytes < 16 || command->outBytes < 16)
		return EINVAL;
	return isTaken(method, (uint32_t)fieldGet(command->in, IN_OPCODE)) ? 0 : EINVAL;
}

/* The kernel compares the number in the mailbox with the object. */
static bool isOf(const struct call *call, const struct command *command, uint32_t attribute)
{
	uint32_t number = (uint32_t)fieldGet(command->in, QP_IN_QPN);
	uint32_t handle = (uint32_t)attributeNumber(call, attribute);
	struct object *object = objectByHandle(call->context, KIND_QP, handle);

	if (!object)
		object = objectByHandle(call->context, KIND_CQ, handle);
	return object && object->isDevx && object->id == number;
}

int uverbsDevxOther(const struct call *call)
{
	struct command command;
	int error = prepare(call, DEVX_OTHER, MLX5_IB_ATTR_DEVX_OTHER_CMD_IN,
			    MLX5_IB_ATTR_DEVX_OTHER_CMD_OUT, &command);

	if (error)
		return error;
	return commandRun(&command) ? 0 : EREMOTEIO;
}

int uverbsDevxCreate(const struct call *call)
{
	struct command command;
	int error = prepare(call, DEVX_CREATE, MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_IN,
			    MLX5_IB_ATTR_DEVX_OBJ_CREATE_CMD_OUT, &command);

	if (error)
		return error;
	if (!commandRun(&command))
		return EREMOTEIO;
	attributeOutHandle(call, MLX5_IB_ATTR_DEVX_OBJ_CREATE_HANDLE, command.made->handle);
	return 0;
}

int uverbsDevxModify(const struct call *call)
{
	struct command command;
	int error = prepare(call, DEVX_MODIFY, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_IN,
			    MLX5_IB_ATTR_DEVX_OBJ_MODIFY_CMD_OUT, &command);

	if (error)
		return error;
	if (!isOf(call, &command, MLX5_IB_ATTR_DEVX_OBJ_MODIFY_HANDLE))
		return EINVAL;
	return commandRun(&command) ? 0 : EREMOTEIO;
}

int uverbsDevxQuery(const struct call *call)
{
	struct command command;
	int error = prepare(call, DEVX_QUERY, MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_IN,
			    MLX5_IB_ATTR_DEVX_OBJ_QUERY_CMD_OUT, &command);

	if (error)
		return error;
	if (!isOf(call, &command, MLX5_IB_ATTR_DEVX_OBJ_QUERY_HANDLE))
		return EINVAL;
	return commandRun(&command) ? 0 : EREMOTEIO;
}

int uverbsDevxDestroy(const struct call *call)
{
	uint64_t handle = attributeNumber(call, MLX5_IB_ATTR_DEVX_OBJ_DESTROY_HANDLE);
	int error = uverbsDestroy(call, KIND_QP, handle);

	return error == ENOENT ? uverbsDestroy(call, KIND_CQ, handle) : error;
}
