/* SPDX-License-Identifier: BSD-3-Clause */
#include "qp.h"

#include <stdlib.h>

#include "completion.h"
#include "doorbell.h"
#include "engine.h"
#include "mlx5/dev/device/fabric.h"
#include "mlx5/dev/device/late.h"
#include "mlx5/dev/host/memory.h"
#include "mlx5/dev/host/options.h"
#include "packet.h"
#include "receive.h"
#include "wqe.h"

static void count(struct qp *qp, int by)
{
	qp->pd->object.users += by;
	qp->sendCq->object.users += by;
	qp->receiveCq->object.users += by;
	if (qp->srq)
		qp->srq->object.users += by;
	if (qp->memory)
		qp->memory->users += by;
	if (qp->record)
		qp->record->users += by;
	if (qp->uar)
		qp->uar->users += by;
}

void qpAdd(struct qp *qp)
{
	qp->inboundEnd = &qp->inbound;
	qp->path.device = -1;
	qp->nextQp = qp->object.device->qps;
	qp->object.device->qps = qp;
	count(qp, 1);
}

static void inboundDrop(struct qp *qp)
{
	while (qp->inbound) {
		struct packet *first = qp->inbound;

		qp->inbound = first->next;
		free(first);
	}
	qp->inboundEnd = &qp->inbound;
}

void qpReset(struct qp *qp)
{
	lateFlush(qp);
	inboundDrop(qp);
	completionsForget(qp);
	qp->rung = qp->fetched = qp->freed = qp->sequence = qp->started = 0;
	qp->oldest = qp->newest = qp->readsInFlight = 0;
	qp->received = 0;
	qp->receive.isTaken = false;
	qp->failing = false;
	qp->stalledSince = qp->readyAt = 0;
	qp->path.device = -1;
	qp->state = QP_RESET;
}

void qpDestroy(struct qp *qp)
{
	struct qp **at = &qp->object.device->qps;

	if (options.polling) /* a doorbell that came before the command is seen before it */
		doorbellPoll();
	while (*at != qp)
		at = &(*at)->nextQp;
	*at = qp->nextQp;
	fabricForgetQpn(qp->object.device->index, qp->object.id);
	qpReset(qp);
	engineForget(qp);
	count(qp, -1);
	free(qp->late);
	qp->late = NULL;
	qp->object.destroyed = true;
}

void qpError(struct qp *qp)
{
	if (qp->state == QP_ERROR || qp->state == QP_RESET)
		return;
	qp->state = QP_ERROR;
	qp->failing = false;
	for (uint32_t i = qp->oldest; i != qp->newest; i++) {
		struct request *request = &qp->inFlight[i % IN_FLIGHT];

		if (!request->done || request->syndrome)
			request->syndrome = SYNDROME_FLUSHED;
		request->done = true;
	}
	receivesFlush(qp);
	engineWake(qp);
}
