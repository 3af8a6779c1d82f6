/* SPDX-License-Identifier: BSD-3-Clause */
/* pair.c - the queue pair of an endpoint and a peer */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/random.h"
#include "lib/base/serial.h"
#include "verbs.h"

enum { RNR_TIMER_640_US = 12, RNR_RETRIES = 7 };

static int createQp(struct verbsPeer *peer, uint32_t inlined)
{
	struct fabricEnd *end = peer->end;
	struct ibv_qp_init_attr attr = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.cap = {.max_send_wr = end->depth,
			.max_recv_wr = end->receives,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = inlined},
		.qp_type = IBV_QPT_RC,
	};

	peer->qp = ibv_create_qp(end->fabric->port->pd, &attr);
	if (peer->qp)
		end->fabric->mostInline = attr.cap.max_inline_data;
	return peer->qp ? 0 : -1;
}

/* The random number keeps this connection from accepting packets of an earlier one. */
static int makeQp(struct verbsPeer *peer, char *why)
{
	if (createQp(peer, FABRIC_MESSAGE) && createQp(peer, 0))
		return verbsFailErrno(why, "a queue pair", errno);
	peer->mine.number = peer->qp->qp_num;
	if (randomBytes(&peer->mine.packet, sizeof(peer->mine.packet)))
		return verbsFailErrno(why, "random numbers", errno);
	peer->mine.packet &= 0xffffff;
	return fabricOk;
}

static int toInit(struct verbsPeer *peer, char *why)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = peer->end->fabric->port->number,
				   .qp_access_flags =
					   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
	int error =
		ibv_modify_qp(peer->qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);

	return error ? verbsFailErrno(why, "a queue pair's first state", error) : fabricOk;
}

int verbsReceivePost(struct verbsPeer *peer, uint32_t index)
{
	struct ibv_sge sge = verbsBuffer(peer->end, peer->received[index], VERBS_MESSAGE);
	struct ibv_recv_wr wr = {
		.wr_id = verbsNumber(peer, index) | VERBS_RECEIVE, .sg_list = &sge, .num_sge = 1};
	struct ibv_recv_wr *bad;

	return ibv_post_recv(peer->qp, &wr, &bad);
}

static int postReceives(struct verbsPeer *peer, char *why)
{
	for (uint32_t i = 0; i < peer->end->receives; i++) {
		int error = verbsReceivePost(peer, i);
		if (error)
			return verbsFailErrno(why, "a receive", error);
	}
	return fabricOk;
}

static int openPeer(struct verbsPeer *peer, char *why)
{
	peer->op = calloc(1, verbsOpsBytes(&peer->end->shape));
	if (!peer->op)
		return verbsFail(why, "no memory");
	if (makeQp(peer, why) || toInit(peer, why))
		return fabricFailed;
	return postReceives(peer, why);
}

int verbsPairOpen(struct fabricEnd *end, void *pair, uint64_t *out, char *why)
{
	struct verbsPeer *peer = end->peers < end->room ? calloc(1, sizeof(*peer)) : NULL;

	if (!peer)
		return verbsFail(why, "no memory");
	peer->end = end;
	peer->index = end->peers;
	peer->message = (void *)(end->buffers + end->peers * verbsMessagesBytes(&end->shape));
	peer->received = peer->message + end->depth;
	peer->reported = peer->completed = peer->posted = peer->begun = FIRST_SERIAL;
	if (openPeer(peer, why)) {
		verbsPairClose(peer);
		return fabricFailed;
	}
	end->peer[end->peers++] = peer;
	memcpy(pair, &peer->mine, sizeof(peer->mine));
	*out = (uintptr_t)peer;
	return fabricOk;
}

static uint8_t leastOf(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

/* A global route header where a port requires it, on Ethernet and between subnets. */
static struct ibv_ah_attr pathTo(const struct fabric *f, const struct rdmaAddress *to)
{
	const struct rdmaPort *port = f->port;
	struct ibv_ah_attr attr = {.dlid = to->lid,
				   .sl = f->path.serviceLevel,
				   .port_num = port->number,
				   .grh = {.sgid_index = (uint8_t)port->gid.index,
					   .hop_limit = f->path.hopLimit,
					   .traffic_class = f->path.trafficClass}};

	attr.is_global = to->ethernet || to->grh || f->address.grh ||
			 !gidSameSubnet(port->gid.bytes, to->gid);
	memcpy(attr.grh.dgid.raw, to->gid, sizeof(to->gid));
	return attr;
}

static int toReceive(struct verbsPeer *peer, const struct rdmaAddress *to, char *why)
{
	const struct fabric *f = peer->end->fabric;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = (enum ibv_mtu)leastOf(f->address.mtu, to->mtu),
				   .dest_qp_num = peer->theirs.number,
				   .rq_psn = peer->theirs.packet,
				   .max_dest_rd_atomic = (uint8_t)(1u << f->port->logReads),
				   .min_rnr_timer = RNR_TIMER_640_US,
				   .ah_attr = pathTo(f, to)};
	int error = ibv_modify_qp(peer->qp, &attr,
				  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					  IBV_QP_MIN_RNR_TIMER);

	return error ? verbsFailErrno(
			       why,
			       "the path to the peer's NIC (are both NICs in one network? see "
			       "GIN_NIC, GIN_NIC_GID)",
			       error)
		     : fabricOk;
}

static int toSend(struct verbsPeer *peer, const struct rdmaAddress *to, char *why)
{
	const struct fabric *f = peer->end->fabric;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = f->path.timeout,
		.retry_cnt = f->path.retries,
		.rnr_retry = RNR_RETRIES,
		.sq_psn = peer->mine.packet,
		.max_rd_atomic = (uint8_t)(1u << leastOf(f->port->logReadsOut, to->logReads)),
	};
	int error =
		ibv_modify_qp(peer->qp, &attr,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);

	return error ? verbsFailErrno(why, "a queue pair's last state", error) : fabricOk;
}

int verbsPairConnect(struct fabricEnd *end, uint64_t of, const void *address, const void *theirs,
		     char *why)
{
	struct verbsPeer *peer = (struct verbsPeer *)(uintptr_t)of;
	struct rdmaAddress to;

	memcpy(&to, address, sizeof(to));
	memcpy(&peer->theirs, theirs, sizeof(peer->theirs));
	(void)end;
	if (toReceive(peer, &to, why))
		return fabricFailed;
	return toSend(peer, &to, why);
}

/* A device that has failed refuses, and the kernel has freed the queue pair. */
void verbsPairClose(struct verbsPeer *peer)
{
	if (peer->qp)
		ibv_destroy_qp(peer->qp);
	free(peer->op);
	free(peer);
}
