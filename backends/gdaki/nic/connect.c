/* SPDX-License-Identifier: BSD-3-Clause */
/* connect.c - a queue pair from its first state to the one in which it sends */
#include "mlx5/prm.h"
#include "path.h"
#include "queues.h"
#include "say.h"

enum { MESSAGE_LOG = 30, RNR_TIMER_640_US = 12, RNR_RETRIES = 7 };

struct mailbox {
	uint8_t in[MODIFY_QP_IN_BYTES];
};

static void set(struct mailbox *m, uint32_t field, uint64_t value)
{
	fieldSet(m->in, fieldAt(QP_IN_QPC, field), value);
}

static int modify(struct queue *queue, uint32_t opcode, struct mailbox *m, char *why)
{
	uint8_t out[COMMAND_BYTES] = {0};

	fieldSet(m->in, IN_OPCODE, opcode);
	fieldSet(m->in, QP_IN_QPN, queue->end.number);
	int error = mlx5dv_devx_obj_modify(queue->qp, m->in, sizeof(m->in), out, sizeof(out));
	return error ? sayCommand(why, error, m->in, out) : 0;
}

static int toInit(const struct rdmaPort *port, struct queue *queue, char *why)
{
	struct mailbox m = {{0}};

	fieldSet(m.in, fieldAt(QP_IN_QPC + QPC_PRIMARY_PATH, ADS_VHCA_PORT_NUM), port->number);
	set(&m, QPC_PM_STATE, QPC_PM_MIGRATED);
	set(&m, QPC_RRE, 1);
	set(&m, QPC_RWE, 1);
	set(&m, QPC_RAE, 1);
	set(&m, QPC_ATOMIC_MODE, port->can.masked ? QPC_ATOMIC_UP_TO_64B : QPC_ATOMIC_IB_SPEC);
	return modify(queue, COMMAND_RST2INIT_QP, &m, why);
}

static uint8_t least(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static int fillReceive(const struct rdmaPort *port, const struct queue *queue,
		       const struct rdmaAddress *address, const struct rdmaEnd *peer,
		       const struct rdmaPath *path, struct mailbox *m, char *why)
{
	uint32_t spread = queue->end.number ^ peer->number << 12;

	set(m, QPC_MTU, least(port->mtu, address->mtu));
	set(m, QPC_LOG_MSG_MAX, MESSAGE_LOG);
	set(m, QPC_REMOTE_QPN, peer->number);
	set(m, QPC_NEXT_RCV_PSN, peer->packet);
	set(m, QPC_LOG_RRA_MAX, port->logReads);
	set(m, QPC_MIN_RNR_NAK, RNR_TIMER_640_US);
	return pathSet(port, address, path, spread, m->in, why);
}

static int toSend(const struct rdmaPort *port, struct queue *queue,
		  const struct rdmaAddress *address, const struct rdmaPath *path, char *why)
{
	struct mailbox m = {{0}};

	fieldSet(m.in, fieldAt(QP_IN_QPC + QPC_PRIMARY_PATH, ADS_ACK_TIMEOUT), path->timeout);
	set(&m, QPC_RETRY_COUNT, path->retries);
	set(&m, QPC_RNR_RETRY, RNR_RETRIES);
	set(&m, QPC_NEXT_SEND_PSN, queue->end.packet);
	set(&m, QPC_LOG_SRA_MAX, least(port->logReadsOut, address->logReads));
	return modify(queue, COMMAND_RTR2RTS_QP, &m, why);
}

/* Where no way leads to the peer, the queue pair is as it was. */
int queueConnect(struct rdmaQueues *q, uint32_t i, const struct rdmaAddress *address,
		 const struct rdmaEnd *peer, const struct rdmaPath *path, char *why)
{
	struct queue *queue = &q->queue[i];
	struct mailbox receive = {{0}};

	if (fillReceive(q->port, queue, address, peer, path, &receive, why) ||
	    toInit(q->port, queue, why) || modify(queue, COMMAND_INIT2RTR_QP, &receive, why))
		return -1;
	return toSend(q->port, queue, address, path, why);
}
