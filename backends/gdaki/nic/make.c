/* SPDX-License-Identifier: BSD-3-Clause */
/* make.c - a queue pair without receives, and its completion queue of one collapsed entry */
#include <errno.h>

#include "lib/base/random.h"
#include "mlx5/prm.h"
#include "queues.h"
#include "say.h"

static struct rdmaPlace placeOf(const struct rdmaQueues *q, uint32_t i)
{
	return rdmaPlaceOf(i, q->slab.depth);
}

static void setCq(uint8_t *in, uint32_t field, uint64_t value)
{
	fieldSet(in, fieldAt(CREATE_CQ_CQC, field), value);
}

static int makeCq(struct rdmaQueues *q, uint32_t i, char *why)
{
	uint8_t in[CREATE_CQ_IN_BYTES] = {0}, out[COMMAND_BYTES] = {0};
	struct queue *queue = &q->queue[i];

	fieldSet(in, IN_OPCODE, COMMAND_CREATE_CQ);
	fieldSet(in, CREATE_CQ_UMEM_OFFSET, placeOf(q, i).cqe);
	fieldSet(in, CREATE_CQ_UMEM_ID, q->umem->umem_id);
	fieldSet(in, CREATE_CQ_UMEM_VALID, 1);
	setCq(in, CQC_CC, 1);
	setCq(in, CQC_OI, 1);
	setCq(in, CQC_UAR_PAGE, queueUar(q, i)->uar->page_id);
	setCq(in, CQC_C_EQN, q->port->eventQueue);
	setCq(in, CQC_DBR_UMEM_VALID, 1);
	setCq(in, CQC_DBR_UMEM_ID, q->umem->umem_id);
	setCq(in, CQC_DBR_ADDR, placeOf(q, i).cqRecord);
	queue->cq = mlx5dv_devx_obj_create(q->port->context, in, sizeof(in), out, sizeof(out));
	if (!queue->cq)
		return sayCommand(why, errno, in, out);
	queue->cqNumber = (uint32_t)fieldGet(out, OUT_NUMBER);
	return 0;
}

static void setQp(uint8_t *in, uint32_t field, uint64_t value)
{
	fieldSet(in, fieldAt(QP_IN_QPC, field), value);
}

static void fillQp(const struct rdmaQueues *q, uint32_t i, uint32_t index, uint8_t *in)
{
	const struct queue *queue = &q->queue[i];
	const struct rdmaPlace place = placeOf(q, i);

	fieldSet(in, IN_OPCODE, COMMAND_CREATE_QP);
	fieldSet(in, CREATE_QP_UMEM_OFFSET, place.wqes);
	fieldSet(in, CREATE_QP_UMEM_ID, q->umem->umem_id);
	fieldSet(in, CREATE_QP_UMEM_VALID, 1);
	setQp(in, QPC_ST, QPC_SERVICE_RC);
	setQp(in, QPC_PM_STATE, QPC_PM_MIGRATED);
	setQp(in, QPC_PD, q->port->pdNumber);
	setQp(in, QPC_UAR_PAGE, queueUar(q, i)->uar->page_id);
	setQp(in, QPC_USER_INDEX, index);
	setQp(in, QPC_RQ_TYPE, QPC_RQ_NONE);
	setQp(in, QPC_CQN_SND, queue->cqNumber);
	setQp(in, QPC_CQN_RCV, queue->cqNumber);
	setQp(in, QPC_LOG_SQ_SIZE, (uint64_t)__builtin_ctz(q->slab.depth));
	setQp(in, QPC_TS_FORMAT, q->port->can.tsFormat);
	setQp(in, QPC_DBR_UMEM_VALID, 1);
	setQp(in, QPC_DBR_UMEM_ID, q->umem->umem_id);
	setQp(in, QPC_DBR_ADDR, place.record);
}

static int makeQp(struct rdmaQueues *q, uint32_t i, uint32_t index, char *why)
{
	uint8_t in[CREATE_QP_IN_BYTES] = {0}, out[COMMAND_BYTES] = {0};
	struct queue *queue = &q->queue[i];

	fillQp(q, i, index, in);
	queue->qp = mlx5dv_devx_obj_create(q->port->context, in, sizeof(in), out, sizeof(out));
	if (!queue->qp)
		return sayCommand(why, errno, in, out);
	queue->end.number = (uint32_t)fieldGet(out, OUT_NUMBER);
	return 0;
}

/* Packets of an older connection with these numbers are then not taken for its own. */
static int choosePacket(struct queue *queue, char *why)
{
	if (randomBytes(&queue->end.packet, sizeof(queue->end.packet)))
		return sayErrno(why, errno, "random numbers");
	queue->end.packet &= 0xffffff;
	return 0;
}

int queueMake(struct rdmaQueues *q, uint32_t i, uint32_t index, struct rdmaEnd *mine, char *why)
{
	struct queue *queue = &q->queue[i];

	if (choosePacket(queue, why) || makeCq(q, i, why))
		return -1;
	if (makeQp(q, i, index, why)) {
		mlx5dv_devx_obj_destroy(queue->cq);
		queue->cq = NULL;
		return -1;
	}
	*mine = queue->end;
	return 0;
}
