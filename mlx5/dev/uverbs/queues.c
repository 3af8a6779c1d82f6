/* SPDX-License-Identifier: BSD-3-Clause */
#include "uverbs.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <string.h>

#include "mlx5/dev/device/event.h"
#include "mlx5/dev/device/resources.h"

int legacyCreateChannel(const struct call *call)
{
	struct ib_uverbs_create_comp_channel_resp answer;
	int fd = eventOpenChannel();

	if (fd < 0)
		return EMFILE;
	answer.fd = (uint32_t)fd;
	attributeOut(call, UVERBS_ATTR_CORE_OUT, &answer, sizeof(answer));
	return 0;
}

static uint32_t powerOfTwo(uint32_t least)
{
	uint32_t power = 1;

	while (power < least)
		power <<= 1;
	return power;
}

int uverbsCreateCq(const struct call *call)
{
	struct mlx5_ib_create_cq in;

	attributeCopy(call, UVERBS_ATTR_UHW_IN, &in, sizeof(in));
	if (in.cqe_size != CQE_BYTES || in.cqe_comp_en || in.db_addr % 8)
		return EINVAL;
	struct cq filled = {
		.buffer = in.buf_addr,
		.dbr = in.db_addr,
		.cqes = powerOfTwo((uint32_t)attributeNumber(call, UVERBS_ATTR_CREATE_CQ_CQE) + 1),
		.userHandle = attributeNumber(call, UVERBS_ATTR_CREATE_CQ_USER_HANDLE),
	};
	if (attributeHas(call, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL))
		filled.channel = eventChannel(
			(int)attributeNumber(call, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL));
	struct cq *cq = cqCreate(call->device, call->context, &filled);
	if (!cq)
		return ENOMEM;
	struct mlx5_ib_create_cq_resp driver = {.cqn = cq->object.id};
	uint32_t entries = cq->cqes - 1;
	attributeOutHandle(call, UVERBS_ATTR_CREATE_CQ_HANDLE, cq->object.handle);
	attributeOut(call, UVERBS_ATTR_CREATE_CQ_RESP_CQE, &entries, sizeof(entries));
	attributeOut(call, UVERBS_ATTR_UHW_OUT, &driver, sizeof(driver));
	return 0;
}

int uverbsDestroyCq(const struct call *call)
{
	uint64_t handle = attributeNumber(call, UVERBS_ATTR_DESTROY_CQ_HANDLE);
	struct cq *cq = objectByHandle(call->context, KIND_CQ, (uint32_t)handle);
	struct ib_uverbs_destroy_cq_resp answer = {0};

	if (cq && !cq->object.users)
		answer.comp_events_reported = eventsOfCq(cq);
	int error = uverbsDestroy(call, KIND_CQ, handle);
	if (!error)
		attributeOut(call, UVERBS_ATTR_DESTROY_CQ_RESP, &answer, sizeof(answer));
	return error;
}

static void *byAttribute(const struct call *call, enum kind kind, uint32_t id)
{
	return objectByHandle(call->context, kind, (uint32_t)attributeNumber(call, id));
}

/* Receives come first in the buffer. */
static struct qp filledQp(const struct call *call, const struct mlx5_ib_create_qp *in)
{
	struct qp qp = {
		.pd = byAttribute(call, KIND_PD, UVERBS_ATTR_CREATE_QP_PD_HANDLE),
		.sendCq = byAttribute(call, KIND_CQ, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE),
		.receiveCq = byAttribute(call, KIND_CQ, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE),
		.userHandle = attributeNumber(call, UVERBS_ATTR_CREATE_QP_USER_HANDLE),
		.isUnreliable = attributeNumber(call, UVERBS_ATTR_CREATE_QP_TYPE) == IBV_QPT_UC,
		.userIndex = in->uidx & 0xffffff,
		.path = {.messageLog = 30},
		.dbr = in->db_addr,
		.rq = in->buf_addr,
		.receives = in->rq_wqe_count,
		.receiveShift = in->rq_wqe_shift,
		.wqebbs = in->sq_wqe_count,
	};

	qp.sq = qp.rq + ((uint64_t)qp.receives << qp.receiveShift);
	if (attributeHas(call, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE))
		qp.srq = byAttribute(call, KIND_SRQ, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE);
	if (in->flags & MLX5_QP_FLAG_UAR_PAGE_INDEX)
		qp.uar = objectFind(call->device, KIND_UAR, in->bfreg_index);
	return qp;
}

static bool isPowerOfTwo(uint32_t number)
{
	return !(number & (number - 1));
}

static bool hasType(const struct call *call)
{
	uint64_t type = attributeNumber(call, UVERBS_ATTR_CREATE_QP_TYPE);

	return type == IBV_QPT_RC || type == IBV_QPT_UC;
}

static bool hasQueues(const struct call *call, const struct qp *qp)
{
	bool shares = attributeHas(call, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE);

	if (!qp->pd || !qp->sendCq || !qp->receiveCq || (shares && !qp->srq))
		return false;
	return qp->dbr % 8 == 0 && qp->rq % WQEBB == 0 && isPowerOfTwo(qp->wqebbs) &&
	       isPowerOfTwo(qp->receives);
}

int uverbsCreateQp(const struct call *call)
{
	struct mlx5_ib_create_qp in;
	struct mlx5_ib_create_qp_resp driver = {0};

	attributeCopy(call, UVERBS_ATTR_UHW_IN, &in, sizeof(in));
	if (!hasType(call))
		return EOPNOTSUPP;
	struct qp filled = filledQp(call, &in);
	if (!hasQueues(call, &filled))
		return EINVAL;
	attributeCopy(call, UVERBS_ATTR_CREATE_QP_CAP, filled.cap, sizeof(filled.cap));
	struct qp *qp = qpCreate(call->device, call->context, &filled);
	if (!qp)
		return ENOMEM;
	attributeOutHandle(call, UVERBS_ATTR_CREATE_QP_HANDLE, qp->object.handle);
	attributeOut(call, UVERBS_ATTR_CREATE_QP_RESP_CAP, qp->cap, sizeof(qp->cap));
	attributeOut(call, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &qp->object.id,
		     sizeof(qp->object.id));
	attributeOut(call, UVERBS_ATTR_UHW_OUT, &driver, sizeof(driver));
	return 0;
}

int uverbsDestroyQp(const struct call *call)
{
	uint64_t handle = attributeNumber(call, UVERBS_ATTR_DESTROY_QP_HANDLE);
	struct qp *qp = objectByHandle(call->context, KIND_QP, (uint32_t)handle);
	struct ib_uverbs_destroy_qp_resp answer = {0};

	if (qp)
		answer.events_reported = eventsOfQp(qp);
	int error = uverbsDestroy(call, KIND_QP, handle);
	if (!error)
		attributeOut(call, UVERBS_ATTR_DESTROY_QP_RESP, &answer, sizeof(answer));
	return error;
}
