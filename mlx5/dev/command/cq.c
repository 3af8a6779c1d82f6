/* SPDX-License-Identifier: BSD-3-Clause */
#include "command.h"

#include "mlx5/dev/device/resources.h"

static const uint32_t createFields[] = {CREATE_CQ_UMEM_OFFSET, CREATE_CQ_UMEM_ID,
					CREATE_CQ_UMEM_VALID};
static const uint32_t contextFields[] = {
	CQC_DBR_UMEM_VALID, CQC_CQE_SZ,		  CQC_CC,	CQC_OI,
	CQC_DBR_UMEM_ID,    CQC_PAGE_OFFSET,	  CQC_C_EQN,	CQC_LOG_PAGE_SIZE,
	CQC_LOG_CQ_SIZE,    CQC_TIMESTAMP_FORMAT, CQC_UAR_PAGE, CQC_DBR_ADDR};

static uint64_t get(const struct command *command, uint32_t field)
{
	return fieldGet(command->in, fieldAt(CREATE_CQ_CQC, field));
}

static bool hasValues(struct command *command)
{
	if (get(command, CQC_CQE_SZ))
		return commandRefuse(command, STATUS_BAD_PARAM, REFUSED_VALUE,
				     "entries of 64 bytes only");
	if (get(command, CQC_LOG_CQ_SIZE) > 22)
		return commandRefuse(command, STATUS_BAD_PARAM, REFUSED_VALUE,
				     "log_cq_size is over 22");
	if (get(command, CQC_C_EQN) != EQN)
		return commandRefuse(command, STATUS_BAD_RES, REFUSED_NO_SUCH_OBJECT,
				     "there is no such event queue");
	if (!objectFind(command->device, KIND_UAR, (uint32_t)get(command, CQC_UAR_PAGE)))
		return commandRefuse(command, STATUS_BAD_RES, REFUSED_NO_SUCH_OBJECT,
				     "there is no such uar_page");
	return true;
}

/* The kernel sets the valid bits of the ids in the command. */
static bool hasMemory(struct command *command, struct cq *cq)
{
	cq->buffer = commandUmem(command, (uint32_t)fieldGet(command->in, CREATE_CQ_UMEM_ID),
				 fieldGet(command->in, CREATE_CQ_UMEM_OFFSET),
				 (uint64_t)cq->cqes * CQE_BYTES, CQE_BYTES, &cq->memory);
	if (!cq->buffer)
		return false;
	cq->dbr = commandUmem(command, (uint32_t)get(command, CQC_DBR_UMEM_ID),
			      get(command, CQC_DBR_ADDR), 8, 8, &cq->record);
	return cq->dbr;
}

bool commandCreateCq(struct command *command)
{
	const struct known known[] = {
		{0, createFields, sizeof(createFields) / 4},
		{CREATE_CQ_CQC, contextFields, sizeof(contextFields) / 4},
	};
	struct cq filled = {
		.cqes = 1u << get(command, CQC_LOG_CQ_SIZE),
		.collapsed = get(command, CQC_CC),
		.ignoreOverrun = get(command, CQC_OI),
	};

	if (!commandOnly(command, known, 2) || !hasValues(command) || !hasMemory(command, &filled))
		return false;
	struct cq *cq = cqCreate(command->device, command->context, &filled);
	if (!cq)
		return commandRefuse(command, STATUS_NO_RES, REFUSED_NO_RESOURCES,
				     "there are no more completion queues");
	cq->object.isDevx = true;
	command->made = &cq->object;
	fieldSet(command->out, OUT_NUMBER, cq->object.id);
	return true;
}

bool commandQueryCq(struct command *command)
{
	static const uint32_t fields[] = {QP_IN_QPN};
	const struct known known = {0, fields, 1};
	struct cq *cq =
		objectFind(command->device, KIND_CQ, (uint32_t)fieldGet(command->in, QP_IN_QPN));

	if (!commandOnly(command, &known, 1))
		return false;
	if (!cq)
		return commandRefuse(command, STATUS_BAD_RES, REFUSED_NO_SUCH_OBJECT,
				     "there is no such cqn");
	fieldSet(command->out, fieldAt(CREATE_CQ_CQC, CQC_CC), cq->collapsed);
	fieldSet(command->out, fieldAt(CREATE_CQ_CQC, CQC_OI), cq->ignoreOverrun);
	fieldSet(command->out, fieldAt(CREATE_CQ_CQC, CQC_PRODUCER_COUNTER), cq->producer);
	return true;
}
