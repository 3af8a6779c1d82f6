/* SPDX-License-Identifier: BSD-3-Clause */
#include "command.h"

#include <stdio.h>

#include "mlx5/dev/host/options.h"

enum { MAILBOX_MAX = 1024 };

static const struct kind_of_command {
	uint16_t opcode;
	uint16_t inBytes, outBytes; /* at least */
	bool (*run)(struct command *command);
} commands[] = {
	{COMMAND_QUERY_HCA_CAP, 16, 4112, commandQueryHcaCap},
	{COMMAND_QUERY_ROCE_ADDRESS, 16, 48, commandQueryRoceAddress},
	{COMMAND_CREATE_CQ, 272, 16, commandCreateCq},
	{COMMAND_QUERY_CQ, 16, 80, commandQueryCq},
	{COMMAND_CREATE_QP, 272, 16, commandCreateQp},
	{COMMAND_RST2INIT_QP, 272, 16, commandModifyQp},
	{COMMAND_INIT2INIT_QP, 272, 16, commandModifyQp},
	{COMMAND_INIT2RTR_QP, 272, 16, commandModifyQp},
	{COMMAND_RTR2RTS_QP, 272, 16, commandModifyQp},
	{COMMAND_RTS2RTS_QP, 272, 16, commandModifyQp},
	{COMMAND_2ERR_QP, 16, 16, commandModifyQp},
	{COMMAND_2RST_QP, 16, 16, commandModifyQp},
	{COMMAND_QUERY_QP, 16, 256, commandQueryQp},
};

bool commandRefuse(struct command *command, enum commandStatus status,
		   enum command_syndrome syndrome, const char *reason)
{
	trace("command 0x%x refused, status 0x%x, syndrome 0x%x: %s",
	      (unsigned int)fieldGet(command->in, IN_OPCODE), status, syndrome, reason);
	fieldSet(command->out, OUT_STATUS, status);
	fieldSet(command->out, OUT_SYNDROME, syndrome);
	return false;
}

static void clear(uint8_t *copy, size_t bytes, const struct known *known)
{
	for (size_t i = 0; i < known->count; i++) {
		uint32_t field = fieldAt(known->base, known->fields[i]);

		if ((fieldBit(field) + fieldWidth(field)) / 8 <= bytes)
			fieldSet(copy, field, 0);
	}
}

bool commandOnly(struct command *command, const struct known *known, size_t count)
{
	static const uint32_t head[] = {IN_OPCODE, IN_UID, IN_OP_MOD};
	const struct known all = {0, head, 3};
	uint8_t copy[MAILBOX_MAX] = {0};
	char reason[64];

	memcpy(copy, command->in, command->inBytes);
	clear(copy, command->inBytes, &all);
	for (size_t i = 0; i < count; i++)
		clear(copy, command->inBytes, &known[i]);
	for (uint32_t i = 0; i < command->inBytes; i++) {
		if (!copy[i])
			continue;
		snprintf(reason, sizeof(reason), "unknown bits 0x%02x in byte %u", copy[i], i);
		return commandRefuse(command, STATUS_BAD_PARAM, REFUSED_UNKNOWN_BITS, reason);
	}
	return true;
}

uint64_t commandUmem(struct command *command, uint32_t id, uint64_t offset, uint64_t bytes,
		     uint64_t alignment, struct object **umem)
{
	struct umem *found = objectFind(command->device, KIND_UMEM, id);

	if (!found || found->object.context != command->context)
		return commandRefuse(command, STATUS_BAD_RES, REFUSED_NO_SUCH_OBJECT,
				     "there is no such umem");
	if (offset > found->length || bytes > found->length - offset)
		return commandRefuse(command, STATUS_BAD_PARAM, REFUSED_OUT_OF_UMEM,
				     "it does not fit into the umem");
	if ((found->address + offset) % alignment)
		return commandRefuse(command, STATUS_BAD_PARAM, REFUSED_ALIGNMENT,
				     "it is not aligned");
	*umem = &found->object;
	return found->address + offset;
}

static const struct kind_of_command *find(uint32_t opcode)
{
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (commands[i].opcode == opcode)
			return &commands[i];
	return NULL;
}

bool commandRun(struct command *command)
{
	const struct kind_of_command *kind = find((uint32_t)fieldGet(command->in, IN_OPCODE));

	memset(command->out, 0, command->outBytes);
	command->made = NULL;
	if (!kind)
		return commandRefuse(command, STATUS_BAD_OP, REFUSED_OPCODE, "it is not known");
	if (command->inBytes < kind->inBytes || command->inBytes > MAILBOX_MAX)
		return commandRefuse(command, STATUS_BAD_INP_LEN, REFUSED_LENGTH,
				     "its length is wrong");
	if (command->outBytes < kind->outBytes)
		return commandRefuse(command, STATUS_BAD_OUTP_LEN, REFUSED_LENGTH,
				     "the answer has too little room");
	trace("command 0x%x", kind->opcode);
	return kind->run(command);
}
