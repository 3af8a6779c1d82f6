/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_calls.h - between libgin-rdma.so and libibverbs: looks at work requests and attributes of
 * queue pairs, and lets calls fail
 */
#ifndef GIN_TEST_VERBS_CALLS_H
#define GIN_TEST_VERBS_CALLS_H

#include "backends/proxy/verbs/verbs.h"
#include "nic.h"

#include <dlfcn.h>

/* Of the network. */
static struct rdmaPath path = {.timeout = 14, .retries = 7, .hopLimit = 64};

static struct rdmaWanted port = {.device = "mlx5_0", .gid = -1, .isPlain = 1};

static struct fabricWanted wanted = {
	.provider = "", .interface = "", .address = "", .nic = &port, .path = &path, .peers = 100};

static struct ibv_qp *connected[8];
static uint32_t nConnected;
static struct ibv_qp_attr received, sent; /* of the last one: its attributes in these two states */
static struct ibv_context_ops of;	  /* the device */
static enum { noCall, sendCall, receiveCall, pollCall, notifyCall } failing;
static int callsLeft; /* of that kind, before they fail */

static int fails(int call)
{
	return call == (int)failing && callsLeft-- <= 0;
}

/* With several NICs: the last request of a chain with a write reads from where that has written. */
static void expectConfirmed(const struct ibv_send_wr *wr)
{
	const struct ibv_send_wr *last = wr, *write = NULL;

	for (; wr; last = wr, wr = wr->next)
		write = wr->opcode == IBV_WR_RDMA_WRITE ? wr : write;
	if (!write)
		return;
	EXPECT(last->opcode == IBV_WR_RDMA_READ && last->send_flags & IBV_SEND_SIGNALED);
	EXPECT_EQUAL(last->wr.rdma.remote_addr, write->wr.rdma.remote_addr);
	EXPECT_EQUAL(last->wr.rdma.rkey, write->wr.rdma.rkey);
}

static int post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	if (wanted.isRail)
		expectConfirmed(wr);
	*bad = wr;
	return fails(sendCall) ? ENOMEM : of.post_send(qp, wr, bad);
}

static int postReceive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return fails(receiveCall) ? ENOMEM : of.post_recv(qp, wr, bad);
}

static int pollQueue(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
	return fails(pollCall) ? -1 : of.poll_cq(cq, most, wc);
}

static int notify(struct ibv_cq *cq, int isSolicited)
{
	return fails(notifyCall) ? ENOMEM : of.req_notify_cq(cq, isSolicited);
}

static int (*queryDevice)(struct ibv_context *context, uint8_t number, struct ibv_port_attr *attr,
			  size_t bytes);
static uint32_t mostMessage = 1u << 31; /* bytes */

static int queryPort(struct ibv_context *context, uint8_t number, struct ibv_port_attr *attr,
		     size_t bytes)
{
	int error = queryDevice(context, number, attr, bytes);

	attr->max_msg_sz = mostMessage;
	return error;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	typeof(&ibv_open_device) open = (typeof(&ibv_open_device))dlsym(RTLD_NEXT, __func__);
	struct ibv_context *context = open(device);

	if (context) {
		queryDevice = verbs_get_ctx(context)->query_port;
		verbs_get_ctx(context)->query_port = queryPort;
	}
	return context;
}

static uint32_t mostInline = UINT32_MAX;

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	typeof(&ibv_create_qp) create = (typeof(&ibv_create_qp))dlsym(RTLD_NEXT, __func__);

	errno = EINVAL;
	return attr->cap.max_inline_data > mostInline ? NULL : create(pd, attr);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	typeof(&ibv_modify_qp) modify = (typeof(&ibv_modify_qp))dlsym(RTLD_NEXT, __func__);

	if (attr->qp_state == IBV_QPS_RTR) {
		received = *attr;
		EXPECT_EQUAL(attr->ah_attr.sl, path.serviceLevel);
		EXPECT_EQUAL(attr->ah_attr.grh.hop_limit, path.hopLimit);
		EXPECT_EQUAL(attr->ah_attr.grh.traffic_class, path.trafficClass);
	}
	if (attr->qp_state == IBV_QPS_RTS) {
		EXPECT(nConnected < sizeof(connected) / sizeof(connected[0]));
		connected[nConnected++] = qp;
		sent = *attr;
	}
	struct ibv_context_ops *ops = &qp->context->ops;
	if (ops->post_send != post) {
		of = *ops;
		ops->post_send = post;
		ops->post_recv = postReceive;
		ops->poll_cq = pollQueue;
		ops->req_notify_cq = notify;
	}
	return modify(qp, attr, mask);
}

#endif
