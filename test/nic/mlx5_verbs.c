/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mlx5_verbs.c - gin/core/mlx5.h makes the bytes that libmlx5 puts into its queues
 *
 * Each work request goes through ibv_post_send() and through ibv_wr_*(), in a loop on one device:
 * the send queue then has the bytes of our encoder, our words for libmlx5's CQE agree with ibv_wc,
 * and the data has moved. Runs on the software device (mlx5/dev/with-device), or on hardware.
 */
/* PACKAGES: libmlx5 libibverbs */
#include "mlx5/cqe.h"
#include "mlx5/wqe.h"

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "expect.h"
#include "mlx5_encoders.h"

#include <endian.h>
#include <time.h>

enum { PORT = 1, WQES = 64, BYTES = 1 << 16, ROUNDS = 700, PATIENCE_S = 10 };

/* One loop: requests of `sender` take effect at `receiver`. */
struct loop {
	const char *name;
	struct ibv_qp *sender, *receiver;
	struct ibv_qp_ex *ex; /* of the sender, when requests go through ibv_wr_*() */
	struct mlx5dv_qp queue;
	struct mlx5dv_cq completions, received;
	uint32_t posted;   /* WQEBBs */
	uint32_t polled;   /* CQEs */
	uint32_t receives; /* that were used */
};

struct device {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *sent, *received;
	struct ibv_mr *mr;
	int atomics;	 /* it has them */
	uint8_t *memory; /* [2 * BYTES]: local bytes, then the bytes of the peer's keys */
};

/* A work request, as both encoders get it. */
struct request {
	enum ibv_wr_opcode opcode;
	uint32_t flags; /* IBV_SEND_ */
	uint32_t bytes, localOffset, remoteOffset;
	uint64_t first, second; /* add; compare and swap */
	uint32_t immediate;	/* big-endian */
	uint32_t rkeyError;	/* added to the key */
};

static struct device device;

static uint64_t localAddress(const struct request *r)
{
	return (uintptr_t)device.memory + r->localOffset;
}

static uint64_t remoteAddress(const struct request *r)
{
	return (uintptr_t)device.memory + BYTES + r->remoteOffset;
}

static struct ibv_context *openDevice(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (int i = 0; list && list[i] && !context; i++) {
		if (mlx5dv_is_supported(list[i]))
			context = ibv_open_device(list[i]);
	}
	if (list)
		ibv_free_device_list(list);
	if (!context) {
		printf("no mlx5 device\n");
		exit(getenv("MLX5DEV_DIR") ? 1 : 77);
	}
	return context;
}

static void openAll(void)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC;

	struct ibv_device_attr attr;

	device.context = openDevice();
	EXPECT(!ibv_query_device(device.context, &attr));
	device.atomics = attr.atomic_cap != IBV_ATOMIC_NONE;
	device.memory = aligned_alloc(4096, 2 * BYTES);
	EXPECT(device.memory);
	device.pd = ibv_alloc_pd(device.context);
	EXPECT(device.pd);
	device.mr = ibv_reg_mr(device.pd, device.memory, 2 * BYTES, access);
	EXPECT(device.mr);
}

static void closeAll(void)
{
	EXPECT(!ibv_dereg_mr(device.mr) && !ibv_dealloc_pd(device.pd));
	EXPECT(!ibv_close_device(device.context));
	free(device.memory);
}

static struct ibv_cq *makeCq(struct mlx5dv_cq *raw)
{
	struct ibv_cq *cq = ibv_create_cq(device.context, 2 * WQES, NULL, NULL, 0);
	struct mlx5dv_obj object = {.cq = {cq, raw}};

	EXPECT(cq);
	EXPECT(!mlx5dv_init_obj(&object, MLX5DV_OBJ_CQ));
	EXPECT_EQUAL(raw->cqe_size, 64);
	return cq;
}

static struct ibv_qp *makeQp(int extended)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = device.sent,
		.recv_cq = device.received,
		.cap = {.max_send_wr = WQES,
			.max_recv_wr = WQES,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = 60},
		.pd = device.pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};

	if (extended) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE |
				      IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ;
	}
	if (extended && device.atomics)
		attr.send_ops_flags |=
			IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	struct ibv_qp *qp = ibv_create_qp_ex(device.context, &attr);
	EXPECT(qp);
	return qp;
}

static void toInit(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = PORT,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						      IBV_ACCESS_REMOTE_READ |
						      IBV_ACCESS_REMOTE_ATOMIC};

	EXPECT(!ibv_modify_qp(
		qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
}

static void toPeer(struct ibv_qp *qp, uint32_t peer, const struct ibv_port_attr *port)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = port->active_mtu,
				   .dest_qp_num = peer,
				   .max_dest_rd_atomic = 4,
				   .min_rnr_timer = 12,
				   .ah_attr = {.dlid = port->lid, .port_num = PORT}};

	if (port->link_layer == IBV_LINK_LAYER_ETHERNET) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.hop_limit = 64;
		attr.ah_attr.grh.sgid_index = 1;
		EXPECT(!ibv_query_gid(device.context, PORT, 1, &attr.ah_attr.grh.dgid));
	}
	EXPECT(!ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = 14,
				    .retry_cnt = 7,
				    .rnr_retry = 7,
				    .max_rd_atomic = 4};
	EXPECT(!ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static void loopOpen(struct loop *l, int extended)
{
	struct ibv_port_attr port;
	struct mlx5dv_obj object = {.qp = {.out = &l->queue}};

	*l = (struct loop){.name = extended ? "ibv_wr_" : "ibv_post_send"};
	device.sent = makeCq(&l->completions);
	device.received = makeCq(&l->received);
	l->sender = makeQp(extended);
	l->receiver = makeQp(0);
	if (extended)
		l->ex = ibv_qp_to_qp_ex(l->sender);
	object.qp.in = l->sender;
	EXPECT(!mlx5dv_init_obj(&object, MLX5DV_OBJ_QP));
	EXPECT_EQUAL(l->queue.sq.stride, GIN_MLX5_WQEBB_BYTES);
	EXPECT(!ibv_query_port(device.context, PORT, &port));
	toInit(l->sender);
	toInit(l->receiver);
	toPeer(l->sender, l->receiver->qp_num, &port);
	toPeer(l->receiver, l->sender->qp_num, &port);
}

static void loopClose(struct loop *l)
{
	EXPECT(!ibv_destroy_qp(l->sender) && !ibv_destroy_qp(l->receiver));
	EXPECT(!ibv_destroy_cq(device.sent) && !ibv_destroy_cq(device.received));
}

/*
 * Stores libgin's WQE for the request into `wqe`, two WQEBBs of zeros; returns the number of
 * WQEBBs.
 */
static uint32_t encode(const struct loop *l, const struct request *r, struct ginMlx5TwoWqebbs *wqe)
{
	struct ginMlx5Slot slot = {ginMlx5Queue(l->sender->qp_num), l->posted, 0};
	struct ginMlx5Memory here = {localAddress(r), ginMlx5Key(device.mr->lkey)};
	struct ginMlx5Memory there = {remoteAddress(r), ginMlx5Key(device.mr->rkey + r->rkeyError)};
	uint32_t value[8] = {0};

	slot.flags = (r->flags & IBV_SEND_SIGNALED ? ginMlx5Signaled : 0) |
		     (r->flags & IBV_SEND_SOLICITED ? ginMlx5Solicited : 0) |
		     (r->flags & IBV_SEND_FENCE ? ginMlx5FenceAndSmall : 0);
	if (r->flags & IBV_SEND_INLINE) {
		memcpy(value, device.memory + r->localOffset, r->bytes);
		if (r->bytes == 32)
			*wqe = ginMlx5WriteInline32(slot, there, value);
		else
			wqe->wqebb[0] = ginMlx5WriteInline(slot, there, value, r->bytes);
		return r->bytes == 32 ? 2 : 1;
	}
	if (r->opcode == IBV_WR_RDMA_WRITE)
		wqe->wqebb[0] = ginMlx5Write(slot, there, here, r->bytes);
	else if (r->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		wqe->wqebb[0] = ginMlx5WriteImmediate(slot, there, here, r->bytes, r->immediate);
	else if (r->opcode == IBV_WR_RDMA_READ)
		wqe->wqebb[0] = ginMlx5Read(slot, there, here, r->bytes);
	else if (r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wqe->wqebb[0] = ginMlx5FetchAdd(slot, there, here, r->first);
	else
		wqe->wqebb[0] = ginMlx5CompareSwap(slot, there, here, r->first, r->second);
	return 1;
}

static void postSend(const struct loop *l, const struct request *r)
{
	struct ibv_sge piece = {localAddress(r), r->bytes, device.mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = l->posted,
				       .sg_list = &piece,
				       .num_sge = 1,
				       .opcode = r->opcode,
				       .send_flags = r->flags,
				       .imm_data = r->immediate};

	if (r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || r->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = remoteAddress(r);
		wr.wr.atomic.rkey = device.mr->rkey + r->rkeyError;
		wr.wr.atomic.compare_add = r->first;
		wr.wr.atomic.swap = r->second;
	} else {
		wr.wr.rdma.remote_addr = remoteAddress(r);
		wr.wr.rdma.rkey = device.mr->rkey + r->rkeyError;
	}
	EXPECT(!ibv_post_send(l->sender, &wr, &bad));
}

static void postExtended(const struct loop *l, const struct request *r)
{
	uint32_t rkey = device.mr->rkey + r->rkeyError;
	struct ibv_qp_ex *qp = l->ex;

	ibv_wr_start(qp);
	qp->wr_id = l->posted;
	qp->wr_flags = r->flags & ~(uint32_t)IBV_SEND_INLINE;
	if (r->opcode == IBV_WR_RDMA_WRITE)
		ibv_wr_rdma_write(qp, rkey, remoteAddress(r));
	else if (r->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		ibv_wr_rdma_write_imm(qp, rkey, remoteAddress(r), r->immediate);
	else if (r->opcode == IBV_WR_RDMA_READ)
		ibv_wr_rdma_read(qp, rkey, remoteAddress(r));
	else if (r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		ibv_wr_atomic_fetch_add(qp, rkey, remoteAddress(r), r->first);
	else
		ibv_wr_atomic_cmp_swp(qp, rkey, remoteAddress(r), r->first, r->second);
	if (r->flags & IBV_SEND_INLINE)
		ibv_wr_set_inline_data(qp, device.memory + r->localOffset, r->bytes);
	else
		ibv_wr_set_sge(qp, device.mr->lkey, localAddress(r), r->bytes);
	EXPECT(!ibv_wr_complete(qp));
}

static uint8_t *wqebbAt(const struct loop *l, uint32_t index)
{
	return (uint8_t *)l->queue.sq.buf +
	       (size_t)(index % l->queue.sq.wqe_cnt) * GIN_MLX5_WQEBB_BYTES;
}

/* libmlx5 leaves old bytes that it does not need: zero them, as libgin does. */
static void clearNext(const struct loop *l)
{
	memset(wqebbAt(l, l->posted), 0, GIN_MLX5_WQEBB_BYTES);
	memset(wqebbAt(l, l->posted + 1), 0, GIN_MLX5_WQEBB_BYTES);
}

static void compareWqe(const struct loop *l, const struct ginMlx5TwoWqebbs *ours, uint32_t wqebbs)
{
	char text[512];
	struct decodedWqe w;

	wqeDecode(l->queue.sq.buf, l->queue.sq.wqe_cnt, l->posted % l->queue.sq.wqe_cnt, &w);
	wqeText(&w, "; ", text, sizeof(text));
	expectThat(!*w.defects, __FILE__, __LINE__, "%s: %s: %s", l->name, text, w.defects);
	EXPECT_EQUAL(w.wqebbs, wqebbs);
	for (uint32_t i = 0; i < wqebbs * GIN_MLX5_WQEBB_BYTES; i++) {
		uint8_t theirs =
			wqebbAt(l, l->posted + i / GIN_MLX5_WQEBB_BYTES)[i % GIN_MLX5_WQEBB_BYTES];
		uint8_t own = ((const uint8_t *)ours)[i];
		expectThat(theirs == own, __FILE__, __LINE__,
			   "%s, %s: byte %u is %02x, of libgin's %02x", l->name, text, i, theirs,
			   own);
	}
}

/* Posts the request, and compares the queue and the doorbell record with libgin's. */
static void post(struct loop *l, const struct request *r)
{
	struct ginMlx5TwoWqebbs ours = {0};
	uint32_t wqebbs = encode(l, r, &ours);

	clearNext(l);
	(l->ex ? postExtended : postSend)(l, r);
	compareWqe(l, &ours, wqebbs);
	l->posted += wqebbs;
	EXPECT_EQUAL(l->queue.dbrec[MLX5_SND_DBR], ginMlx5RecordWord(l->posted));
}

static struct ibv_wc pollOne(struct ibv_cq *cq, const struct loop *l)
{
	time_t end = time(NULL) + PATIENCE_S;
	struct ibv_wc wc;
	int count;

	while ((count = ibv_poll_cq(cq, 1, &wc)) == 0)
		expectThat(time(NULL) < end, __FILE__, __LINE__, "%s: no completion in %d s",
			   l->name, PATIENCE_S);
	EXPECT_EQUAL(count, 1);
	return wc;
}

/* The CQE that libmlx5 has just polled. */
static struct decodedCqe cqeOf(const struct mlx5dv_cq *cq, uint32_t index)
{
	struct decodedCqe c;

	cqeDecode((const uint8_t *)cq->buf + (size_t)(index % cq->cqe_cnt) * 64, &c);
	EXPECT_TEXT(c.defects, "");
	EXPECT_EQUAL(c.owner, index / cq->cqe_cnt & 1);
	return c;
}

static struct decodedCqe pollSent(struct loop *l, struct ibv_wc *wc, uint32_t first)
{
	*wc = pollOne(device.sent, l);
	struct decodedCqe c = cqeOf(&l->completions, l->polled++);
	EXPECT_EQUAL(wc->wr_id, first);
	EXPECT_EQUAL(c.counter, first & 0xffff);
	EXPECT_EQUAL(c.queue, wc->qp_num);
	EXPECT_EQUAL(c.queue, l->sender->qp_num);
	return c;
}

/* One valid request, from post to completion. */
static void complete(struct loop *l, const struct request *r)
{
	uint32_t first = l->posted;
	struct ibv_wc wc;

	post(l, r);
	if (!(r->flags & IBV_SEND_SIGNALED))
		return;
	struct decodedCqe c = pollSent(l, &wc, first);
	expectThat(wc.status == IBV_WC_SUCCESS, __FILE__, __LINE__, "%s: %s", l->name,
		   ibv_wc_status_str(wc.status));
	EXPECT_EQUAL(c.opcode, ginMlx5CqeRequest);
	EXPECT_EQUAL(c.wqeOpcode, wqebbAt(l, first)[3]);
	if (wc.opcode == IBV_WC_RDMA_READ || wc.opcode == IBV_WC_FETCH_ADD)
		EXPECT_EQUAL(c.bytes, wc.byte_len);
}

static uint8_t pattern(uint32_t at)
{
	return (uint8_t)(at * 29 + at / 251);
}

static void fill(void)
{
	for (uint32_t i = 0; i < 2 * BYTES; i++)
		device.memory[i] = pattern(i);
}

/* `bytes` at the peer's offset equal the bytes at our offset. */
static void expectMoved(const struct loop *l, const struct request *r)
{
	expectThat(!memcmp(device.memory + r->localOffset, device.memory + BYTES + r->remoteOffset,
			   r->bytes),
		   __FILE__, __LINE__, "%s: %u bytes have not moved", l->name, r->bytes);
}

static void transfers(struct loop *l)
{
	static const struct request requests[] = {
		{IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 8, 0, 0, 0, 0, 0, 0},
		{IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 1, 3, 5, 0, 0, 0, 0},
		{IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, BYTES, 0, 0, 0, 0, 0, 0},
		{IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED | IBV_SEND_FENCE, 100, 7, 9, 0, 0, 0, 0},
		{IBV_WR_RDMA_READ, IBV_SEND_SIGNALED, 4097, 64, 1, 0, 0, 0, 0},
		{IBV_WR_RDMA_READ, IBV_SEND_SIGNALED | IBV_SEND_FENCE, 1, 64, 1, 0, 0, 0, 0},
	};

	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		fill();
		complete(l, &requests[i]);
		expectMoved(l, &requests[i]);
	}
	printf("ok: %s: writes and reads\n", l->name);
}

static void inlineWrites(struct loop *l)
{
	for (uint32_t bytes = 1; bytes <= 32; bytes += bytes == 28 ? 4 : 1) {
		struct request r = {.opcode = IBV_WR_RDMA_WRITE,
				    .flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
				    .bytes = bytes,
				    .localOffset = 100,
				    .remoteOffset = 3};
		fill();
		complete(l, &r);
		expectMoved(l, &r);
		EXPECT_EQUAL(device.memory[BYTES + 3 + bytes], pattern(BYTES + 3 + bytes));
	}
	printf("ok: %s: inline writes of 1 to 28, and of 32 bytes\n", l->name);
}

static void atomics(struct loop *l)
{
	struct request r = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
			    .flags = IBV_SEND_SIGNALED,
			    .bytes = 8,
			    .remoteOffset = 64,
			    .first = 0x1122334455667788};
	uint64_t *old = (uint64_t *)device.memory, *word = (uint64_t *)(device.memory + BYTES + 64);

	fill();
	*word = 5;
	complete(l, &r);
	EXPECT_EQUAL(*old, 5);
	EXPECT_EQUAL(*word, 0x112233445566778d);
	r.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	r.first = 0x112233445566778d;
	r.second = 0xd0d1d2d3d4d5d6d7;
	complete(l, &r);
	EXPECT_EQUAL(*old, 0x112233445566778d);
	EXPECT_EQUAL(*word, 0xd0d1d2d3d4d5d6d7);
	complete(l, &r); /* differs now */
	EXPECT_EQUAL(*old, 0xd0d1d2d3d4d5d6d7);
	EXPECT_EQUAL(*word, 0xd0d1d2d3d4d5d6d7);
	printf("ok: %s: atomics\n", l->name);
}

static void immediates(struct loop *l)
{
	struct request r = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
			    .flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED,
			    .bytes = 40,
			    .immediate = htobe32(0x11223344)};
	struct ibv_recv_wr *bad, receive = {.wr_id = 77};

	fill();
	EXPECT(!ibv_post_recv(l->receiver, &receive, &bad));
	complete(l, &r);
	expectMoved(l, &r);
	struct ibv_wc wc = pollOne(device.received, l);
	struct decodedCqe c = cqeOf(&l->received, l->receives++);
	EXPECT(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_EQUAL(wc.wr_id, 77);
	EXPECT_EQUAL(c.opcode, ginMlx5CqeReceivedImmediate);
	EXPECT_EQUAL(c.immediate, be32toh(wc.imm_data));
	EXPECT_EQUAL(c.immediate, 0x11223344);
	EXPECT_EQUAL(c.bytes, wc.byte_len);
	EXPECT_EQUAL(c.queue, wc.qp_num);
	printf("ok: %s: a write with immediate\n", l->name);
}

static struct request any(void)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
						     IBV_WR_ATOMIC_FETCH_AND_ADD,
						     IBV_WR_ATOMIC_CMP_AND_SWP};
	struct request r = {.opcode = opcodes[rand() % (device.atomics ? 4 : 2)],
			    .bytes = 1 + (uint32_t)rand() % 4096,
			    .localOffset = (uint32_t)rand() % (BYTES - 4096),
			    .remoteOffset = (uint32_t)rand() % (BYTES - 4096),
			    .first = (uint64_t)rand() << 32 | (uint32_t)rand(),
			    .second = (uint64_t)rand() << 32 | (uint32_t)rand()};

	if (r.opcode != IBV_WR_RDMA_WRITE && r.opcode != IBV_WR_RDMA_READ) {
		r.bytes = 8;
		r.localOffset &= ~7u;
		r.remoteOffset &= ~7u;
	} else if (r.opcode == IBV_WR_RDMA_WRITE && rand() % 2) {
		r.bytes = 1 + (uint32_t)rand() % GIN_MLX5_INLINE_BYTES;
		r.flags = IBV_SEND_INLINE;
	}
	r.flags |= rand() % 2 ? IBV_SEND_FENCE : 0;
	return r;
}

/* Several times round the queue, three unsignaled for each signaled one. */
static void many(struct loop *l, unsigned seed)
{
	srand(seed);
	for (int i = 0; i < ROUNDS; i++) {
		struct request r = any();
		r.flags |= i % 4 == 3 ? IBV_SEND_SIGNALED : 0;
		complete(l, &r);
	}
	EXPECT(l->posted > 2 * l->queue.sq.wqe_cnt);
	printf("ok: %s: %d requests, round the queue (seed %u)\n", l->name, ROUNDS, seed);
}

/* A key that does not exist; later requests are flushed. Ends the queue pair. */
static void errors(struct loop *l)
{
	struct request r = {.opcode = IBV_WR_RDMA_WRITE,
			    .flags = IBV_SEND_SIGNALED,
			    .bytes = 8,
			    .rkeyError = 0x100000};
	uint32_t first = l->posted;
	struct ibv_wc wc;

	post(l, &r);
	struct decodedCqe c = pollSent(l, &wc, first);
	EXPECT_EQUAL(wc.status, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQUAL(c.opcode, ginMlx5CqeRequestError);
	EXPECT_EQUAL(c.syndrome, ginMlx5RemoteAccess);
	EXPECT_EQUAL(c.vendorSyndrome, wc.vendor_err);
	EXPECT_EQUAL(c.wqeOpcode, ginMlx5OpWrite);
	first = l->posted;
	post(l, &r);
	c = pollSent(l, &wc, first);
	EXPECT_EQUAL(wc.status, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQUAL(c.syndrome, ginMlx5Flushed);
	EXPECT_EQUAL(c.vendorSyndrome, wc.vendor_err);
	printf("ok: %s: an error, and a flush\n", l->name);
}

int main(int argc, char **argv)
{
	unsigned seed = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : 20261121;

	setvbuf(stdout, NULL, _IOLBF, 0);
	openAll();
	for (int extended = 0; extended < 2; extended++) {
		struct loop l;
		loopOpen(&l, extended);
		transfers(&l);
		inlineWrites(&l);
		if (device.atomics)
			atomics(&l);
		immediates(&l);
		many(&l, seed);
		errors(&l);
		loopClose(&l);
	}
	closeAll();
	return 0;
}
