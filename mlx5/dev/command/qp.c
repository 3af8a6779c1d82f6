/* SPDX-License-Identifier: BSD-3-Clause */
#include "command.h"

#include "mlx5/dev/host/options.h"
#include "mlx5/dev/device/resources.h"

enum { ST_RC = 0, RQ_TYPE_REGULAR = 0, RQ_TYPE_ZERO = 3 };

static const uint32_t createFields[] = {QP_IN_OPT_PARAM_MASK, CREATE_QP_UMEM_OFFSET,
					CREATE_QP_UMEM_ID, CREATE_QP_UMEM_VALID};
static const uint32_t contextFields[] = {QPC_ST,
					 QPC_PM_STATE,
					 QPC_PD,
					 QPC_MTU,
					 QPC_LOG_MSG_MAX,
					 QPC_LOG_RQ_SIZE,
					 QPC_LOG_RQ_STRIDE,
					 QPC_LOG_SQ_SIZE,
					 QPC_TS_FORMAT,
					 QPC_COUNTER_SET_ID,
					 QPC_UAR_PAGE,
					 QPC_USER_INDEX,
					 QPC_LOG_PAGE_SIZE,
					 QPC_CQN_SND,
					 QPC_CQN_RCV,
					 QPC_DBR_ADDR,
					 QPC_RQ_TYPE,
					 QPC_DBR_UMEM_VALID,
					 QPC_DBR_UMEM_ID,
					 QPC_PAGE_OFFSET,
					 QPC_LOG_ACK_REQ_FREQ,
					 QPC_ATOMIC_MODE};

static uint64_t get(const struct command *command, uint32_t field)
{
	return fieldGet(command->in, fieldAt(QP_IN_QPC, field));
}

static bool hasValues(struct command *command)
{
	uint64_t format = get(command, QPC_TS_FORMAT);

	if (get(command, QPC_ST) != ST_RC)
		return commandRefuse(command, STATUS_BAD_PARAM, REFUSED_VALUE, "st: RC only");
	if (get(command, QPC_PM_STATE) != 3)
		return commandRefuse(command, STATUS_BAD_PARAM, REFUSED_VALUE,
				     "pm_state is not 3, migrated");
	if (get(command, QPC_RQ_TYPE) != RQ_TYPE_ZERO && get(command, QPC_RQ_TYPE))
		return commandRefuse(command, STATUS_BAD_PARAM, REFUSED_VALUE,
				     "rq_type is neither 0 nor 3");
	if (format == 3 || (format == 2 && options.generation < 7))
		return commandRefuse(command, STATUS_BAD_PARAM, REFUSED_VALUE,
				     "the device has no such ts_format");
	if (get(command, QPC_LOG_ACK_REQ_FREQ) > 8)
		return commandRefuse(command, STATUS_BAD_PARAM, REFUSED_VALUE,
				     "log_ack_req_freq is over 8");
	return true;
}

static bool missing(struct command *command, const char *what)
{
	return commandRefuse(command, STATUS_BAD_RES, REFUSED_NO_SUCH_OBJECT, what);
}

static bool hasObjects(struct command *command, struct qp *qp)
{
	struct device *device = command->device;

	qp->pd = objectFind(device, KIND_PD, (uint32_t)get(command, QPC_PD));
	if (!qp->pd)
		return missing(command, "there is no such pd");
	qp->uar = objectFind(device, KIND_UAR, (uint32_t)get(command, QPC_UAR_PAGE));
	if (!qp->uar)
		return missing(command, "there is no such uar_page");
	qp->sendCq = objectFind(device, KIND_CQ, (uint32_t)get(command, QPC_CQN_SND));
	if (!qp->sendCq)
		return missing(command, "there is no such cqn_snd");
	qp->receiveCq = get(command, QPC_CQN_RCV)
				? objectFind(device, KIND_CQ, (uint32_t)get(command, QPC_CQN_RCV))
				: qp->sendCq;
	if (!qp->receiveCq)
		return missing(command, "there is no such cqn_rcv");
	return true;
}

/* The receive queue comes first in the work queue's memory, then the send queue. */
static bool hasMemory(struct command *command, struct qp *qp)
{
	uint64_t receiveBytes = (uint64_t)qp->receives << qp->receiveShift;

	qp->rq = commandUmem(command, (uint32_t)fieldGet(command->in, CREATE_QP_UMEM_ID),
			     fieldGet(command->in, CREATE_QP_UMEM_OFFSET),
			     receiveBytes + (uint64_t)qp->wqebbs * WQEBB, WQEBB, &qp->memory);
	if (!qp->rq)
		return false;
	qp->sq = qp->rq + receiveBytes;
	qp->dbr = commandUmem(command, (uint32_t)get(command, QPC_DBR_UMEM_ID),
			      get(command, QPC_DBR_ADDR), 8, 8, &qp->record);
	return qp->dbr;
}

bool commandCreateQp(struct command *command)
{
	const struct known known[] = {
		{0, createFields, sizeof(createFields) / 4},
		{QP_IN_QPC, contextFields, sizeof(contextFields) / 4},
	};
	bool receives = get(command, QPC_RQ_TYPE) == RQ_TYPE_REGULAR;
	struct qp filled = {
		.wqebbs = 1u << get(command, QPC_LOG_SQ_SIZE),
		.receives = receives ? 1u << get(command, QPC_LOG_RQ_SIZE) : 0,
		.receiveShift = 4 + (uint32_t)get(command, QPC_LOG_RQ_STRIDE),
		.userIndex = (uint32_t)get(command, QPC_USER_INDEX),
	};

	memcpy(filled.context, command->in + QP_IN_QPC / 8, sizeof(filled.context));
	if (!commandOnly(command, known, 2) || !hasValues(command) ||
	    !hasObjects(command, &filled) || !hasMemory(command, &filled))
		return false;
	struct qp *qp = qpCreate(command->device, command->context, &filled);
	if (!qp)
		return commandRefuse(command, STATUS_NO_RES, REFUSED_NO_RESOURCES,
				     "there are no more queue pairs");
	qp->object.isDevx = true;
	command->made = &qp->object;
	fieldSet(command->out, OUT_NUMBER, qp->object.id);
	return true;
}

bool commandQueryQp(struct command *command)
{
	static const uint32_t fields[] = {QP_IN_QPN};
	const struct known known = {0, fields, 1};
	struct qp *qp =
		objectFind(command->device, KIND_QP, (uint32_t)fieldGet(command->in, QP_IN_QPN));

	if (!commandOnly(command, &known, 1))
		return false;
	if (!qp || qp->object.destroyed)
		return missing(command, "there is no such qpn");
	memcpy(command->out + QP_OUT_QPC / 8, qp->context, sizeof(qp->context));
	fieldSet(command->out, fieldAt(QP_OUT_QPC, QPC_STATE), qp->state);
	fieldSet(command->out, fieldAt(QP_OUT_QPC, QPC_PD), qp->pd->object.id);
	fieldSet(command->out, fieldAt(QP_OUT_QPC, QPC_REMOTE_QPN), qp->path.qpn);
	fieldSet(command->out, fieldAt(QP_OUT_QPC, QPC_MTU), qp->path.mtu);
	fieldSet(command->out, fieldAt(QP_OUT_QPC, QPC_RRE), qp->path.readable);
	fieldSet(command->out, fieldAt(QP_OUT_QPC, QPC_RWE), qp->path.writable);
	fieldSet(command->out, fieldAt(QP_OUT_QPC, QPC_RAE), qp->path.atomic);
	fieldSet(command->out, fieldAt(QP_OUT_QPC, QPC_HW_SQ_COUNTER), qp->fetched & 0xffff);
	fieldSet(command->out, fieldAt(QP_OUT_QPC, QPC_SW_SQ_COUNTER), qp->rung & 0xffff);
	return true;
}
