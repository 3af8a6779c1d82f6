/* SPDX-License-Identifier: BSD-3-Clause */
/* queues.c - makes queue pairs over one slab, connects them, reads their state, destroys them */
#include "queues.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/random.h"
#include "mlx5/prm.h"
#include "memory.h"
#include "explain.h"

/* libmlx5 45 and later; older versions refuse it. Defined here because headers may be older. */
#define UAR_NC_DEDICATED (1u << 31)

/*
 * Allocates a register of the best kind that this libmlx5, kernel and device have: uncached and not
 * shared (NC_DEDICATED), uncached and shared in the process (NC), or with a write-combining buffer
 * (BF).
 */
static int uarOpen(struct rdmaPort *port, struct nicUar *out, char *why)
{
	static const struct {
		uint32_t flags;
		const char *kind;
	} kinds[] = {
		{UAR_NC_DEDICATED, "NC_DEDICATED"},
		{MLX5DV_UAR_ALLOC_TYPE_NC, "NC"},
		{MLX5DV_UAR_ALLOC_TYPE_BF, "BF"},
	};
	struct mlx5dv_devx_uar *uar = NULL;
	size_t i = 0;

	while (i < sizeof(kinds) / sizeof(kinds[0]) && !uar)
		uar = mlx5dv_devx_alloc_uar(port->context, kinds[i++].flags);
	if (!uar)
		return explainErrno(why, errno, "a doorbell register of any kind");
	*out = (struct nicUar){uar, kinds[i - 1].kind};
	return 0;
}

static int check(const struct rdmaPort *port, const struct rdmaSlab *slab, char *why)
{
	struct rdmaAddress address;
	struct rdmaFeatures can;

	portDescribe(port, &address, &can);
	if (slab->depth & (slab->depth - 1) || slab->depth < RDMA_MIN_DEPTH)
		return explain(why, "a queue depth of %u: a power of two, %d at least", slab->depth,
			       RDMA_MIN_DEPTH);
	if (slab->depth > can.maxDepth)
		return explain(why, "a queue depth of %u: the device has queues of %u at most",
			       slab->depth, can.maxDepth);
	if (slab->count > can.maxQueues)
		return explain(why,
			       "%u queue pairs: the device has %u at most; fewer contexts need "
			       "fewer",
			       slab->count, can.maxQueues);
	if (slab->memory.bytes < rdmaSlabBytes(slab->count, slab->depth) ||
	    (uintptr_t)slab->memory.address % RDMA_PAGE)
		return explain(why, "a slab of %zu bytes at %p does not hold %u queues",
			       slab->memory.bytes, slab->memory.address, slab->count);
	return 0;
}

/* Allocates as many registers as the device gives, up to the number wanted; at least one. */
static int openUars(struct rdmaQueues *q, char *why)
{
	q->uars = calloc(q->slab.registers, sizeof(*q->uars));
	if (!q->uars)
		return explain(why, "no memory");
	while (q->nUars < q->slab.registers && !uarOpen(q->port, &q->uars[q->nUars], why))
		q->nUars++;
	return q->nUars ? 0 : -1;
}

int queuesOpen(struct rdmaPort *port, const struct rdmaSlab *slab, struct rdmaQueues **queues,
	       char *why)
{
	if (check(port, slab, why))
		return -1;
	struct rdmaQueues *q = calloc(1, sizeof(*q) + slab->count * sizeof(q->queue[0]));
	if (!q)
		return explain(why, "no memory");
	q->port = port;
	q->slab = *slab;
	q->slab.registers += !slab->registers;
	if (umemOpen(port, &slab->memory, &q->umem, why) || openUars(q, why)) {
		queuesClose(q);
		return -1;
	}
	*queues = q;
	return 0;
}

/*
 * Errors are ignored: a device that has failed refuses every command, and the kernel has then freed
 * its objects.
 */
void queuesClose(struct rdmaQueues *q)
{
	for (uint32_t i = 0; i < q->slab.count; i++) {
		if (q->queue[i].qp)
			mlx5dv_devx_obj_destroy(q->queue[i].qp);
		if (q->queue[i].cq)
			mlx5dv_devx_obj_destroy(q->queue[i].cq);
	}
	while (q->nUars)
		mlx5dv_devx_free_uar(q->uars[--q->nUars].uar);
	if (q->umem)
		mlx5dv_devx_umem_dereg(q->umem);
	free(q->uars);
	free(q);
}

static const struct nicUar *queueUar(const struct rdmaQueues *q, uint32_t i)
{
	return &q->uars[i % q->nUars];
}

/* A dedicated UAR may be any register of its page: only reg_addr gives its address. */
void queueRegister(const struct rdmaQueues *q, uint32_t i, struct rdmaRegister *where)
{
	const struct nicUar *u = queueUar(q, i);
	uintptr_t at = (uintptr_t)u->uar->reg_addr;

	*where = (struct rdmaRegister){(void *)at, (void *)(at - at % RDMA_PAGE), u->kind};
}

static struct rdmaLayout layoutOf(const struct rdmaQueues *q, uint32_t i)
{
	return rdmaLayoutOf(i, q->slab.depth);
}

static void setCq(uint8_t *in, uint32_t field, uint64_t value)
{
	fieldSet(in, fieldAt(CREATE_CQ_CQC, field), value);
}

static int makeCq(struct rdmaQueues *q, uint32_t i, char *why)
{
	uint8_t in[CREATE_CQ_IN_BYTES] = {0}, out[COMMAND_BYTES] = {0};
	struct nicQueue *queue = &q->queue[i];

	fieldSet(in, IN_OPCODE, COMMAND_CREATE_CQ);
	fieldSet(in, CREATE_CQ_UMEM_OFFSET, layoutOf(q, i).cqe);
	fieldSet(in, CREATE_CQ_UMEM_ID, q->umem->umem_id);
	fieldSet(in, CREATE_CQ_UMEM_VALID, 1);
	setCq(in, CQC_CC, 1);
	setCq(in, CQC_OI, 1);
	setCq(in, CQC_UAR_PAGE, queueUar(q, i)->uar->page_id);
	setCq(in, CQC_C_EQN, q->port->eventQueue);
	setCq(in, CQC_DBR_UMEM_VALID, 1);
	setCq(in, CQC_DBR_UMEM_ID, q->umem->umem_id);
	setCq(in, CQC_DBR_ADDR, layoutOf(q, i).cqRecord);
	queue->cq = mlx5dv_devx_obj_create(q->port->context, in, sizeof(in), out, sizeof(out));
	if (!queue->cq)
		return explainCommand(why, errno, in, out);
	queue->cqNumber = (uint32_t)fieldGet(out, OUT_NUMBER);
	return 0;
}

static void setQp(uint8_t *in, uint32_t field, uint64_t value)
{
	fieldSet(in, fieldAt(QP_IN_QPC, field), value);
}

static void fillQp(const struct rdmaQueues *q, uint32_t i, uint32_t index, uint8_t *in)
{
	const struct nicQueue *queue = &q->queue[i];
	const struct rdmaLayout layout = layoutOf(q, i);

	fieldSet(in, IN_OPCODE, COMMAND_CREATE_QP);
	fieldSet(in, CREATE_QP_UMEM_OFFSET, layout.wqes);
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
	setQp(in, QPC_DBR_ADDR, layout.record);
}

static int makeQp(struct rdmaQueues *q, uint32_t i, uint32_t index, char *why)
{
	uint8_t in[CREATE_QP_IN_BYTES] = {0}, out[COMMAND_BYTES] = {0};
	struct nicQueue *queue = &q->queue[i];

	fillQp(q, i, index, in);
	queue->qp = mlx5dv_devx_obj_create(q->port->context, in, sizeof(in), out, sizeof(out));
	if (!queue->qp)
		return explainCommand(why, errno, in, out);
	queue->end.number = (uint32_t)fieldGet(out, OUT_NUMBER);
	return 0;
}

/* The random number keeps this connection from accepting packets of an earlier one. */
static int choosePacket(struct nicQueue *queue, char *why)
{
	if (randomBytes(&queue->end.packet, sizeof(queue->end.packet)))
		return explainErrno(why, errno, "random numbers");
	queue->end.packet &= 0xffffff;
	return 0;
}

int queueMake(struct rdmaQueues *q, uint32_t i, uint32_t index, struct rdmaEnd *mine, char *why)
{
	struct nicQueue *queue = &q->queue[i];

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

enum { MESSAGE_LOG = 30, RNR_TIMER_640_US = 12, RNR_RETRIES = 7 };

struct queueMailbox {
	uint8_t in[MODIFY_QP_IN_BYTES];
};

static void set(struct queueMailbox *m, uint32_t field, uint64_t value)
{
	fieldSet(m->in, fieldAt(QP_IN_QPC, field), value);
}

static int modify(struct nicQueue *queue, uint32_t opcode, struct queueMailbox *m, char *why)
{
	uint8_t out[COMMAND_BYTES] = {0};

	fieldSet(m->in, IN_OPCODE, opcode);
	fieldSet(m->in, QP_IN_QPN, queue->end.number);
	int error = mlx5dv_devx_obj_modify(queue->qp, m->in, sizeof(m->in), out, sizeof(out));
	return error ? explainCommand(why, error, m->in, out) : 0;
}

static int toInit(const struct rdmaPort *port, struct nicQueue *queue, char *why)
{
	struct queueMailbox m = {{0}};

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

static int fillReceive(const struct rdmaPort *port, const struct nicQueue *queue,
		       const struct rdmaAddress *address, const struct rdmaEnd *peer,
		       const struct rdmaPath *path, struct queueMailbox *m, char *why)
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

static int toSend(const struct rdmaPort *port, struct nicQueue *queue,
		  const struct rdmaAddress *address, const struct rdmaPath *path, char *why)
{
	struct queueMailbox m = {{0}};

	fieldSet(m.in, fieldAt(QP_IN_QPC + QPC_PRIMARY_PATH, ADS_ACK_TIMEOUT), path->timeout);
	set(&m, QPC_RETRY_COUNT, path->retries);
	set(&m, QPC_RNR_RETRY, RNR_RETRIES);
	set(&m, QPC_NEXT_SEND_PSN, queue->end.packet);
	set(&m, QPC_LOG_SRA_MAX, least(port->logReadsOut, address->logReads));
	return modify(queue, COMMAND_RTR2RTS_QP, &m, why);
}

/* If the peer is unreachable, fillReceive() fails before the queue pair changes. */
int queueConnect(struct rdmaQueues *q, uint32_t i, const struct rdmaAddress *address,
		 const struct rdmaEnd *peer, const struct rdmaPath *path, char *why)
{
	struct nicQueue *queue = &q->queue[i];
	struct queueMailbox receive = {{0}};

	if (fillReceive(q->port, queue, address, peer, path, &receive, why) ||
	    toInit(q->port, queue, why) || modify(queue, COMMAND_INIT2RTR_QP, &receive, why))
		return -1;
	return toSend(q->port, queue, address, path, why);
}

int queueFail(struct rdmaQueues *q, uint32_t i, char *why)
{
	uint8_t in[COMMAND_BYTES] = {0}, out[COMMAND_BYTES] = {0};
	struct nicQueue *queue = &q->queue[i];

	fieldSet(in, IN_OPCODE, COMMAND_2ERR_QP);
	fieldSet(in, QP_IN_QPN, queue->end.number);
	int error = mlx5dv_devx_obj_modify(queue->qp, in, sizeof(in), out, sizeof(out));
	return error ? explainCommand(why, error, in, out) : 0;
}

int queueState(struct rdmaQueues *q, uint32_t i, int *state, char *why)
{
	uint8_t in[COMMAND_BYTES] = {0}, out[QUERY_QP_OUT_BYTES] = {0};
	struct nicQueue *queue = &q->queue[i];

	fieldSet(in, IN_OPCODE, COMMAND_QUERY_QP);
	fieldSet(in, QP_IN_QPN, queue->end.number);
	int error = mlx5dv_devx_obj_query(queue->qp, in, sizeof(in), out, sizeof(out));
	if (error)
		return explainCommand(why, error, in, out);
	*state = (int)fieldGet(out, fieldAt(QP_OUT_QPC, QPC_STATE));
	return 0;
}
