/* SPDX-License-Identifier: BSD-3-Clause */
#include "uverbs.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>

#include "mlx5/dev/device/fabric.h"
#include "mlx5/dev/host/options.h"
#include "mlx5/dev/engine/qp.h"

enum { ATOMIC_MODE_UP_TO_8 = 3 }; /* the kernel chooses these */
enum { OPTIONAL_ALWAYS = IBV_QP_STATE | IBV_QP_CUR_STATE };

/* Attributes that a queue pair without answers does not use. */
enum {
	RELIABLE_ONLY = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT |
			IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
};

/* Attributes that verbs require and allow for an RC queue pair. */
static const struct step {
	enum ibv_qp_state from, to;
	uint32_t required, allowed;
} steps[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	{IBV_QPS_INIT, IBV_QPS_RTR,
	 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		 IBV_QP_MIN_RNR_TIMER,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{IBV_QPS_RTR, IBV_QPS_RTS,
	 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		 IBV_QP_MAX_QP_RD_ATOMIC,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_RTS, IBV_QPS_RTS, 0,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
};

static bool isWithin(const struct step *step, uint32_t unused, uint32_t mask)
{
	uint32_t required = step->required & ~unused;

	return (mask & required) == required &&
	       !(mask & ~(required | (step->allowed & ~unused) | OPTIONAL_ALWAYS));
}

static bool isStep(const struct qp *qp, enum ibv_qp_state from, enum ibv_qp_state to, uint32_t mask)
{
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return true;
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
		if (steps[i].from == from && steps[i].to == to)
			return isWithin(&steps[i], qp->isUnreliable ? RELIABLE_ONLY : 0, mask);
	return false;
}

static enum ibv_qp_state verbsState(const struct qp *qp)
{
	return qp->state == QP_ERROR ? IBV_QPS_ERR : (enum ibv_qp_state)qp->state;
}

static int peerOf(const struct ib_uverbs_qp_dest *dest)
{
	return options.roce ? fabricByGid(dest->dgid) : fabricByLid(dest->dlid);
}

static uint32_t atLeastOne(uint8_t number)
{
	return number ? number : 1;
}

static void takePath(struct path *path, const struct ib_uverbs_modify_qp *in, uint32_t mask)
{
	if (mask & IBV_QP_AV)
		path->device = peerOf(&in->dest);
	if (mask & IBV_QP_DEST_QPN)
		path->qpn = in->dest_qp_num;
	if (mask & IBV_QP_PATH_MTU)
		path->mtu = in->path_mtu;
	if (mask & IBV_QP_RQ_PSN)
		path->receivePsn = in->rq_psn & 0xffffff;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		path->readsIn = in->max_dest_rd_atomic;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		path->minRnrTimer = in->min_rnr_timer;
}

static void takeSending(struct path *path, const struct ib_uverbs_modify_qp *in, uint32_t mask)
{
	if (mask & IBV_QP_TIMEOUT)
		path->ackTimeout = in->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		path->retries = in->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		path->rnrRetries = in->rnr_retry;
	if (mask & IBV_QP_SQ_PSN)
		path->sendPsn = in->sq_psn & 0xffffff;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		path->readsOut = atLeastOne(in->max_rd_atomic);
}

static void takeRights(struct path *path, uint32_t access)
{
	path->readable = access & IBV_ACCESS_REMOTE_READ;
	path->writable = access & IBV_ACCESS_REMOTE_WRITE;
	path->atomic = access & IBV_ACCESS_REMOTE_ATOMIC;
	path->atomicMode = ATOMIC_MODE_UP_TO_8;
}

static void turn(struct qp *qp, enum ibv_qp_state to)
{
	if (to == IBV_QPS_RESET)
		qpReset(qp);
	else if (to == IBV_QPS_ERR)
		qpError(qp);
	else
		qp->state = (enum qp_state)to;
}

int legacyModifyQp(const struct call *call)
{
	struct ib_uverbs_modify_qp in;

	attributeCopy(call, UVERBS_ATTR_CORE_IN, &in, sizeof(in));
	struct qp *qp = objectByHandle(call->context, KIND_QP, in.qp_handle);
	if (!qp)
		return EINVAL;
	enum ibv_qp_state from = verbsState(qp);
	enum ibv_qp_state to = in.attr_mask & IBV_QP_STATE ? in.qp_state : from;
	if (!isStep(qp, from, to, in.attr_mask) || (in.attr_mask & IBV_QP_PORT && in.port_num != 1))
		return EINVAL;
	takePath(&qp->path, &in, in.attr_mask);
	takeSending(&qp->path, &in, in.attr_mask);
	if (in.attr_mask & IBV_QP_ACCESS_FLAGS)
		takeRights(&qp->path, in.qp_access_flags);
	turn(qp, to);
	return 0;
}

static uint32_t rightsOf(const struct path *path)
{
	return (path->readable ? IBV_ACCESS_REMOTE_READ : 0) |
	       (path->writable ? IBV_ACCESS_REMOTE_WRITE : 0) |
	       (path->atomic ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

int legacyQueryQp(const struct call *call)
{
	struct ib_uverbs_query_qp in;

	attributeCopy(call, UVERBS_ATTR_CORE_IN, &in, sizeof(in));
	struct qp *qp = objectByHandle(call->context, KIND_QP, in.qp_handle);
	if (!qp)
		return EINVAL;
	const struct path *path = &qp->path;
	struct ib_uverbs_query_qp_resp answer = {
		.max_send_wr = qp->cap[0],
		.max_recv_wr = qp->cap[1],
		.max_send_sge = qp->cap[2],
		.max_recv_sge = qp->cap[3],
		.max_inline_data = qp->cap[4],
		.rq_psn = path->receivePsn,
		.sq_psn = path->sendPsn,
		.dest_qp_num = path->qpn,
		.qp_access_flags = rightsOf(path),
		.qp_state = (uint8_t)verbsState(qp),
		.cur_qp_state = (uint8_t)verbsState(qp),
		.path_mtu = path->mtu,
		.max_rd_atomic = (uint8_t)path->readsOut,
		.max_dest_rd_atomic = (uint8_t)path->readsIn,
		.min_rnr_timer = path->minRnrTimer,
		.port_num = 1,
		.timeout = path->ackTimeout,
		.retry_cnt = path->retries,
		.rnr_retry = path->rnrRetries,
	};
	attributeOut(call, UVERBS_ATTR_CORE_OUT, &answer, sizeof(answer));
	return 0;
}
