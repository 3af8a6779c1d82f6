/* SPDX-License-Identifier: BSD-3-Clause */
/* state.c - which state a queue pair is in, and putting it into the last one */
#include "mlx5/prm.h"
#include "queues.h"
#include "say.h"

int queueFail(struct rdmaQueues *q, uint32_t i, char *why)
{
	uint8_t in[COMMAND_BYTES] = {0}, out[COMMAND_BYTES] = {0};
	struct queue *queue = &q->queue[i];

	fieldSet(in, IN_OPCODE, COMMAND_2ERR_QP);
	fieldSet(in, QP_IN_QPN, queue->end.number);
	int error = mlx5dv_devx_obj_modify(queue->qp, in, sizeof(in), out, sizeof(out));
	return error ? sayCommand(why, error, in, out) : 0;
}

int queueState(struct rdmaQueues *q, uint32_t i, int *state, char *why)
{
	uint8_t in[COMMAND_BYTES] = {0}, out[QUERY_QP_OUT_BYTES] = {0};
	struct queue *queue = &q->queue[i];

	fieldSet(in, IN_OPCODE, COMMAND_QUERY_QP);
	fieldSet(in, QP_IN_QPN, queue->end.number);
	int error = mlx5dv_devx_obj_query(queue->qp, in, sizeof(in), out, sizeof(out));
	if (error)
		return sayCommand(why, error, in, out);
	*state = (int)fieldGet(out, fieldAt(QP_OUT_QPC, QPC_STATE));
	return 0;
}
