/* SPDX-License-Identifier: BSD-3-Clause */
/* connect.h - the device by verbs, and queue pairs that are connected, with answers or without */
#ifndef GIN_TEST_MLX5DEV_CONNECT_H
#define GIN_TEST_MLX5DEV_CONNECT_H

#include <infiniband/verbs.h>

#include "expect.h"

enum {
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC
};
/* Attributes that modify_qp() requires of RC queue pairs, and refuses of UC ones. */
enum {
	RC_TO_RTR = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	RC_TO_RTS = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static uint8_t rnrRetries = 1; /* 7: without end */

static inline void begin(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	EXPECT(list && list[0]);
	context = ibv_open_device(list[0]);
	EXPECT(context && (pd = ibv_alloc_pd(context)) != NULL);
	ibv_free_device_list(list);
}

static inline int toInit(struct ibv_qp *qp)
{
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = qp->qp_type == IBV_QPT_RC ? ALL : IBV_ACCESS_REMOTE_WRITE,
	};

	return ibv_modify_qp(qp, &attributes,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static inline int toRtr(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 12,
		.ah_attr = {.dlid = 7, .port_num = 1},
	};

	return ibv_modify_qp(qp, &attributes,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | (qp->qp_type == IBV_QPT_RC ? RC_TO_RTR : 0));
}

static inline int toRts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attributes = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = rnrRetries,
		.max_rd_atomic = 16,
	};

	return ibv_modify_qp(qp, &attributes,
			     IBV_QP_STATE | IBV_QP_SQ_PSN |
				     (qp->qp_type == IBV_QPT_RC ? RC_TO_RTS : 0));
}

static inline void connectPair(struct ibv_qp *one, struct ibv_qp *other)
{
	EXPECT(!toInit(one) && !toInit(other));
	EXPECT(!toRtr(one, other->qp_num) && !toRtr(other, one->qp_num));
	EXPECT(!toRts(one) && !toRts(other));
}

static inline void expectEvent(enum ibv_event_type type)
{
	struct ibv_async_event event;

	EXPECT(!ibv_get_async_event(context, &event));
	EXPECT_EQUAL(event.event_type, type);
	ibv_ack_async_event(&event);
}

#endif
