/* SPDX-License-Identifier: BSD-3-Clause */
#include "uverbs.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include "mlx5/dev/device/event.h"
#include "mlx5/dev/device/resources.h"
#include "mlx5/dev/engine/receive.h"

enum { MOST_ENTRIES = 32768, LEAST_SHIFT = 5 };

static uint32_t logOf(uint32_t least)
{
	uint32_t log = 0;

	while (1u << log < least)
		log++;
	return log;
}

static uint32_t gatherOf(const struct srq *srq)
{
	return (1u << srq->shift) / SEGMENT - 1;
}

/* As the kernel computes it: the library's buffer has that form. */
static struct srq filledSrq(const struct call *call, const struct mlx5_ib_create_srq *in)
{
	uint32_t pieces = (uint32_t)attributeNumber(call, UVERBS_ATTR_CREATE_SRQ_MAX_SGE);
	uint32_t most = (uint32_t)attributeNumber(call, UVERBS_ATTR_CREATE_SRQ_MAX_WR);
	uint32_t shift = logOf((1 + pieces) * SEGMENT);

	return (struct srq){
		.pd = objectByHandle(
			call->context, KIND_PD,
			(uint32_t)attributeNumber(call, UVERBS_ATTR_CREATE_SRQ_PD_HANDLE)),
		.userHandle = attributeNumber(call, UVERBS_ATTR_CREATE_SRQ_USER_HANDLE),
		.buffer = in->buf_addr,
		.dbr = in->db_addr,
		.entries = 1u << logOf(most + 1),
		.shift = shift < LEAST_SHIFT ? LEAST_SHIFT : shift,
	};
}

static void answer(const struct call *call, const struct srq *srq)
{
	struct mlx5_ib_create_srq_resp driver = {.srqn = srq->object.id};
	uint32_t most = srq->entries - 1, pieces = gatherOf(srq);

	attributeOutHandle(call, UVERBS_ATTR_CREATE_SRQ_HANDLE, srq->object.handle);
	attributeOut(call, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, &most, sizeof(most));
	attributeOut(call, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, &pieces, sizeof(pieces));
	attributeOut(call, UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, &srq->object.id,
		     sizeof(srq->object.id));
	attributeOut(call, UVERBS_ATTR_UHW_OUT, &driver, sizeof(driver));
}

int uverbsCreateSrq(const struct call *call)
{
	struct mlx5_ib_create_srq in;

	attributeCopy(call, UVERBS_ATTR_UHW_IN, &in, sizeof(in));
	if (attributeNumber(call, UVERBS_ATTR_CREATE_SRQ_TYPE) != IBV_SRQT_BASIC)
		return EOPNOTSUPP;
	struct srq filled = filledSrq(call, &in);
	if (!filled.pd || in.flags || filled.buffer % SEGMENT || filled.dbr % 8 ||
	    filled.entries > MOST_ENTRIES)
		return EINVAL;
	struct srq *srq = srqCreate(call->device, call->context, &filled);
	if (!srq)
		return ENOMEM;
	answer(call, srq);
	return 0;
}

int uverbsDestroySrq(const struct call *call)
{
	uint64_t handle = attributeNumber(call, UVERBS_ATTR_DESTROY_SRQ_HANDLE);
	struct srq *srq = objectByHandle(call->context, KIND_SRQ, (uint32_t)handle);
	struct ib_uverbs_destroy_srq_resp resp = {0};

	if (srq && !srq->object.users)
		resp.events_reported = eventsOfSrq(srq);
	int error = uverbsDestroy(call, KIND_SRQ, handle);
	if (!error)
		attributeOut(call, UVERBS_ATTR_DESTROY_SRQ_RESP, &resp, sizeof(resp));
	return error;
}

/* Only the limit: mlx5 changes no sizes. */
int legacyModifySrq(const struct call *call)
{
	struct ib_uverbs_modify_srq in;

	attributeCopy(call, UVERBS_ATTR_CORE_IN, &in, sizeof(in));
	struct srq *srq = objectByHandle(call->context, KIND_SRQ, in.srq_handle);
	if (!srq || in.attr_mask & ~(uint32_t)IBV_SRQ_LIMIT || in.srq_limit >= srq->entries)
		return EINVAL;
	if (in.attr_mask)
		receiveLimit(srq, in.srq_limit);
	return 0;
}

int legacyQuerySrq(const struct call *call)
{
	struct ib_uverbs_query_srq in;

	attributeCopy(call, UVERBS_ATTR_CORE_IN, &in, sizeof(in));
	struct srq *srq = objectByHandle(call->context, KIND_SRQ, in.srq_handle);
	if (!srq)
		return EINVAL;
	struct ib_uverbs_query_srq_resp out = {
		.max_wr = srq->entries - 1,
		.max_sge = gatherOf(srq),
		.srq_limit = srq->limit,
	};
	attributeOut(call, UVERBS_ATTR_CORE_OUT, &out, sizeof(out));
	return 0;
}
