/* SPDX-License-Identifier: BSD-3-Clause */
#include "receive.h"

#include <endian.h>
#include <infiniband/verbs.h>

#include "completion.h"
#include "mlx5/dev/device/event.h"
#include "mlx5/dev/host/memory.h"
#include "mlx5/dev/host/violation.h"
#include "wqe.h"

/* Of an entry of a shared queue: the 16 bytes before its data segments. */
enum { NEXT_INDEX = 2 };

/* Entries that are posted and not taken. One entry is always the end of the program's list. */
static uint32_t left(const struct srq *srq)
{
	uint16_t posted = (uint16_t)memoryRecord(srq->dbr);
	uint16_t count = (uint16_t)(posted - (uint16_t)srq->taken);

	if (count >= srq->entries)
		violationAlone("SRQ 0x%x: its record says that %u entries are posted; at most %u "
			       "of %u can be",
			       srq->object.id, count, srq->entries - 1, srq->entries);
	return count;
}

bool receiveIsPosted(const struct qp *qp)
{
	if (qp->receive.isTaken)
		return true;
	if (qp->srq)
		return left(qp->srq);
	return qp->receives && (uint16_t)memoryRecord(qp->dbr) != (uint16_t)qp->received;
}

static void checkLimit(struct srq *srq)
{
	if (!srq->limit || left(srq) >= srq->limit)
		return;
	srq->limit = 0;
	eventOfSrq(srq, IBV_EVENT_SRQ_LIMIT_REACHED);
}

void receiveLimit(struct srq *srq, uint32_t limit)
{
	srq->limit = limit;
	checkLimit(srq);
}

/* The entry names its successor until its completion; afterwards the program may change it. */
static uint32_t successor(const struct srq *srq, uint64_t entry)
{
	uint16_t next;

	memoryRead(&next, entry + NEXT_INDEX, sizeof(next));
	next = be16toh(next);
	if (next >= srq->entries)
		violationAlone("SRQ 0x%x: entry %u names entry %u as the next; there are %u",
			       srq->object.id, srq->next, next, srq->entries);
	return next;
}

static struct receive takeShared(struct srq *srq)
{
	uint64_t entry = srq->buffer + ((uint64_t)srq->next << srq->shift);
	struct receive receive = {
		.isTaken = true,
		.index = (uint16_t)srq->next,
		.buffers = entry + SEGMENT,
		.count = (1u << srq->shift) / SEGMENT - 1,
	};

	srq->next = successor(srq, entry);
	srq->taken++;
	checkLimit(srq);
	return receive;
}

static struct receive takeOwn(struct qp *qp)
{
	uint32_t slot = qp->received & (qp->receives - 1);

	return (struct receive){
		.isTaken = true,
		.index = (uint16_t)qp->received++,
		.buffers = qp->rq + ((uint64_t)slot << qp->receiveShift),
		.count = (1u << qp->receiveShift) / SEGMENT,
	};
}

bool receiveTake(struct qp *qp)
{
	if (!receiveIsPosted(qp))
		return false;
	if (!qp->receive.isTaken)
		qp->receive = qp->srq ? takeShared(qp->srq) : takeOwn(qp);
	return true;
}

void receiveComplete(struct qp *qp, struct completion *completion)
{
	completion->qp = qp;
	completion->counter = qp->receive.index;
	qp->receive.isTaken = false;
	completionAdd(qp->receiveCq, completion);
}

static void flushOne(struct qp *qp)
{
	receiveComplete(qp, &(struct completion){
				    .opcode = CQE_RESPONSE_ERROR,
				    .syndrome = SYNDROME_FLUSHED,
			    });
}

void receivesFlush(struct qp *qp)
{
	if (qp->receive.isTaken)
		flushOne(qp);
	while (!qp->srq && receiveTake(qp))
		flushOne(qp);
	if (qp->srq)
		eventOfQp(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}
