/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receives - receive queues that queue pairs share, and queue pairs without answers (UC), by verbs
 *
 * The programs of perftest use both; they compare no data, and break no rule.
 */
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include "child.h"
#include "connect.h"

enum { SENDERS = 3, ENTRIES = 7, MESSAGE = 64, ROOM = 4096, ROUNDS = 200, LOOKS = 20000 };

static uint8_t sent[SENDERS][MESSAGE], arrived[ENTRIES][ROOM] __attribute__((aligned(4096)));
static struct ibv_mr *sentMr, *arrivedMr;
static struct ibv_srq *srq;
static struct ibv_cq *sendCq, *receiveCq[SENDERS];
static struct ibv_qp *sender[SENDERS], *receiver[SENDERS];

static struct ibv_qp *newQp(enum ibv_qp_type type, struct ibv_srq *shared, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attributes = {
		.qp_type = type,
		.cap = {.max_send_wr = 64,
			.max_recv_wr = shared ? 0 : 4,
			.max_send_sge = 1,
			.max_recv_sge = 1},
		.send_cq = cq,
		.recv_cq = cq,
		.srq = shared,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attributes);

	EXPECT(qp);
	return qp;
}

static void beginPairs(enum ibv_qp_type type, int count, bool shares)
{
	struct ibv_srq_init_attr attributes = {.attr = {.max_wr = ENTRIES, .max_sge = 2}};

	begin();
	sentMr = ibv_reg_mr(pd, sent, sizeof(sent), ALL);
	arrivedMr = ibv_reg_mr(pd, arrived, sizeof(arrived), ALL);
	sendCq = ibv_create_cq(context, 64, NULL, NULL, 0);
	srq = shares ? ibv_create_srq(pd, &attributes) : NULL;
	EXPECT(sentMr && arrivedMr && sendCq && (srq || !shares));
	for (int i = 0; i < count; i++) {
		sender[i] = newQp(type, NULL, sendCq);
		receiveCq[i] = ibv_create_cq(context, 64, NULL, NULL, 0);
		EXPECT(receiveCq[i]);
		receiver[i] = newQp(type, srq, receiveCq[i]);
		connectPair(sender[i], receiver[i]);
	}
}

/* Into two pieces, of which the first is one byte short of the message. */
static void postReceive(uint32_t slot)
{
	struct ibv_sge pieces[2] = {
		{(uintptr_t)arrived[slot], MESSAGE - 1, arrivedMr->lkey},
		{(uintptr_t)arrived[slot] + MESSAGE, ROOM - MESSAGE, arrivedMr->lkey},
	};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = pieces, .num_sge = 2}, *bad;

	EXPECT(!ibv_post_srq_recv(srq, &wr, &bad));
}

static void postOwnReceive(struct ibv_qp *qp, uint32_t slot, uint32_t bytes)
{
	struct ibv_sge piece = {(uintptr_t)arrived[slot], bytes, arrivedMr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &piece, .num_sge = 1}, *bad;

	EXPECT(!ibv_post_recv(qp, &wr, &bad));
}

static void post(int from, enum ibv_wr_opcode opcode, uint64_t to, uint32_t key)
{
	struct ibv_sge piece = {(uintptr_t)sent[from], MESSAGE, sentMr->lkey};
	struct ibv_send_wr wr = {
		.opcode = opcode,
		.sg_list = &piece,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htobe32(77),
		.wr.rdma = {to, key},
	};
	struct ibv_send_wr *bad;

	EXPECT(!ibv_post_send(sender[from], &wr, &bad));
}

static struct ibv_wc await(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int count;

	while ((count = ibv_poll_cq(cq, 1, &wc)) == 0)
		sched_yield();
	EXPECT_EQUAL(count, 1);
	return wc;
}

static void expectSent(enum ibv_wc_status status)
{
	EXPECT_EQUAL(await(sendCq).status, status);
}

static void expectNothing(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (int i = 0; i < LOOKS; i++) {
		EXPECT_EQUAL(ibv_poll_cq(cq, 1, &wc), 0);
		sched_yield();
	}
}

/* The sender's message of this round has come. The entry that its completion names. */
static uint32_t expectMessage(int from, int round)
{
	struct ibv_wc wc = await(receiveCq[from]);

	EXPECT_EQUAL(wc.status, IBV_WC_SUCCESS);
	EXPECT(wc.wr_id < ENTRIES);
	EXPECT_EQUAL(wc.byte_len, MESSAGE);
	uint8_t *message = arrived[wc.wr_id];
	EXPECT_EQUAL(message[0], from);
	EXPECT_EQUAL(message[1], (uint8_t)round);
	EXPECT_EQUAL(message[MESSAGE - 2], 0xee);
	EXPECT_EQUAL(message[MESSAGE], 0xff);
	memset(message, 0, ROOM);
	return (uint32_t)wc.wr_id;
}

static void fill(int from, int round)
{
	memset(sent[from], 0xee, MESSAGE);
	sent[from][0] = (uint8_t)from;
	sent[from][1] = (uint8_t)round;
	sent[from][MESSAGE - 1] = 0xff;
	post(from, round % 2 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM, 0, 0);
}

/*
 * The last sender's message takes the last of three entries, and is looked at first: entries come
 * back in another order than that in which they were taken. Four of seven are posted again.
 */
static void shared(void)
{
	uint32_t used[ENTRIES], count = 0;

	beginPairs(IBV_QPT_RC, SENDERS, true);
	for (uint32_t slot = 0; slot < ENTRIES; slot++)
		postReceive(slot);
	for (int round = 0; round < ROUNDS; round++) {
		for (int from = 0; from < SENDERS; from++)
			fill(from, round);
		for (int i = 0; i < SENDERS; i++)
			expectSent(IBV_WC_SUCCESS);
		for (int from = SENDERS; from-- > 0;)
			used[count++] = expectMessage(from, round);
		while (count > SENDERS)
			postReceive(used[--count]);
	}
}

static void sharedIsEmpty(void)
{
	beginPairs(IBV_QPT_RC, 1, true);
	postReceive(3);
	post(0, IBV_WR_SEND, 0, 0);
	expectSent(IBV_WC_SUCCESS);
	EXPECT_EQUAL(await(receiveCq[0]).wr_id, 3);
	post(0, IBV_WR_SEND, 0, 0);
	expectSent(IBV_WC_RNR_RETRY_EXC_ERR);
}

/* How often a message is sent again is the requester's to say; the other end may only receive. */
static void requesterRetries(void)
{
	rnrRetries = 7;
	beginPairs(IBV_QPT_RC, 1, true);
	sender[0] = newQp(IBV_QPT_RC, NULL, sendCq);
	receiver[0] = newQp(IBV_QPT_RC, srq, receiveCq[0]);
	EXPECT(!toInit(sender[0]) && !toRtr(sender[0], receiver[0]->qp_num) && !toRts(sender[0]));
	EXPECT(!toInit(receiver[0]) && !toRtr(receiver[0], sender[0]->qp_num));
	post(0, IBV_WR_SEND, 0, 0);
	usleep(20000);
	postReceive(0);
	expectSent(IBV_WC_SUCCESS);
	EXPECT_EQUAL(await(receiveCq[0]).wr_id, 0);
}

static void sharedLimit(void)
{
	struct ibv_srq_attr attributes = {.srq_limit = 2};

	beginPairs(IBV_QPT_RC, 1, true);
	for (uint32_t slot = 0; slot < 3; slot++)
		postReceive(slot);
	EXPECT(!ibv_modify_srq(srq, &attributes, IBV_SRQ_LIMIT));
	EXPECT(!ibv_query_srq(srq, &attributes));
	EXPECT_EQUAL(attributes.srq_limit, 2);
	EXPECT(attributes.max_wr >= ENTRIES);
	struct pollfd events = {.fd = context->async_fd, .events = POLLIN};
	post(0, IBV_WR_SEND, 0, 0);
	expectSent(IBV_WC_SUCCESS);
	EXPECT_EQUAL(poll(&events, 1, 0), 0);
	post(0, IBV_WR_SEND, 0, 0);
	expectSent(IBV_WC_SUCCESS);
	expectEvent(IBV_EVENT_SRQ_LIMIT_REACHED);
	EXPECT(!ibv_query_srq(srq, &attributes));
	EXPECT_EQUAL(attributes.srq_limit, 0);
}

/* Entries outlive a queue pair in error; they are for the other queue pairs. */
static void sharedOfFailedPair(void)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};

	beginPairs(IBV_QPT_RC, 2, true);
	postReceive(0);
	EXPECT(!ibv_modify_qp(receiver[0], &error, IBV_QP_STATE));
	expectEvent(IBV_EVENT_QP_LAST_WQE_REACHED);
	expectNothing(receiveCq[0]);
	post(1, IBV_WR_SEND, 0, 0);
	expectSent(IBV_WC_SUCCESS);
	EXPECT_EQUAL(await(receiveCq[1]).wr_id, 0);
	EXPECT_EQUAL(ibv_destroy_srq(srq), EBUSY);
	EXPECT(!ibv_destroy_qp(receiver[0]) && !ibv_destroy_qp(receiver[1]));
	EXPECT_EQUAL(ibv_dealloc_pd(pd), EBUSY);
	EXPECT(!ibv_destroy_srq(srq));
}

static void recordBeyondShared(void)
{
	struct mlx5dv_srq driver = {0};
	struct mlx5dv_obj object = {.srq = {.out = &driver}};

	beginPairs(IBV_QPT_RC, 1, true);
	object.srq.in = srq;
	EXPECT(!mlx5dv_init_obj(&object, MLX5DV_OBJ_SRQ));
	*driver.dbrec = htobe32(0x7fff);
	post(0, IBV_WR_SEND, 0, 0);
	sleep(5);
}

static void nextBeyondShared(void)
{
	struct mlx5dv_srq driver = {0};
	struct mlx5dv_obj object = {.srq = {.out = &driver}};

	beginPairs(IBV_QPT_RC, 1, true);
	object.srq.in = srq;
	EXPECT(!mlx5dv_init_obj(&object, MLX5DV_OBJ_SRQ));
	postReceive(0);
	((uint8_t *)driver.buf)[2] = 0x7f;
	post(0, IBV_WR_SEND, 0, 0);
	sleep(5);
}

static void unreliable(void)
{
	beginPairs(IBV_QPT_UC, 1, false);
	memset(sent[0], 5, MESSAGE);
	post(0, IBV_WR_RDMA_WRITE, (uintptr_t)arrived[0], arrivedMr->rkey);
	expectSent(IBV_WC_SUCCESS);
	postOwnReceive(receiver[0], 1, MESSAGE);
	postOwnReceive(receiver[0], 2, MESSAGE);
	post(0, IBV_WR_SEND, 0, 0);
	expectSent(IBV_WC_SUCCESS);
	post(0, IBV_WR_RDMA_WRITE_WITH_IMM, (uintptr_t)arrived[3], arrivedMr->rkey);
	expectSent(IBV_WC_SUCCESS);
	EXPECT_EQUAL(await(receiveCq[0]).wr_id, 1);
	struct ibv_wc wc = await(receiveCq[0]);
	EXPECT_EQUAL(wc.wr_id, 2);
	EXPECT_EQUAL(be32toh(wc.imm_data), 77);
	EXPECT(arrived[0][MESSAGE - 1] == 5 && arrived[1][MESSAGE - 1] == 5);
	EXPECT(arrived[3][MESSAGE - 1] == 5 && arrived[2][0] == 0);
}

/* The message that was posted is lost, and leaves its receive to the next message. */
static void expectNextAlone(void)
{
	expectSent(IBV_WC_SUCCESS);
	expectNothing(receiveCq[0]);
	sent[0][0] = 9;
	post(0, IBV_WR_SEND, 0, 0);
	expectSent(IBV_WC_SUCCESS);
	EXPECT_EQUAL(await(receiveCq[0]).wr_id, 1);
	EXPECT_EQUAL(arrived[1][0], 9);
}

/* Messages without a receive, and writes with a wrong key, are lost, and take no receive. */
static void unreliableLoses(void)
{
	beginPairs(IBV_QPT_UC, 1, false);
	post(0, IBV_WR_SEND, 0, 0);
	post(0, IBV_WR_RDMA_WRITE, (uintptr_t)arrived[0], arrivedMr->rkey + 1);
	expectSent(IBV_WC_SUCCESS);
	expectSent(IBV_WC_SUCCESS);
	expectNothing(receiveCq[0]);
	postOwnReceive(receiver[0], 1, MESSAGE);
	post(0, IBV_WR_RDMA_WRITE_WITH_IMM, (uintptr_t)arrived[0], arrivedMr->rkey + 1);
	expectNextAlone();
}

static void unreliableDrops(void)
{
	setenv("MLX5DEV_FAULT", "drop@0", 1);
	beginPairs(IBV_QPT_UC, 1, false);
	postOwnReceive(receiver[0], 1, MESSAGE);
	post(0, IBV_WR_SEND, 0, 0);
	expectNextAlone();
}

/* The receiving end fails; the sender does not know. */
static void unreliableTooLong(void)
{
	beginPairs(IBV_QPT_UC, 1, false);
	postOwnReceive(receiver[0], 1, MESSAGE - 1);
	post(0, IBV_WR_SEND, 0, 0);
	expectSent(IBV_WC_SUCCESS);
	EXPECT(await(receiveCq[0]).status != IBV_WC_SUCCESS);
	expectEvent(IBV_EVENT_QP_REQ_ERR);
	post(0, IBV_WR_SEND, 0, 0);
	expectSent(IBV_WC_SUCCESS);
}

static void unreliableReads(void)
{
	beginPairs(IBV_QPT_UC, 1, false);
	post(0, IBV_WR_RDMA_READ, (uintptr_t)arrived[0], arrivedMr->rkey);
	expectSent(IBV_WC_LOC_QP_OP_ERR);
}

static void unreliableStates(void)
{
	struct ibv_qp_attr attributes = {.qp_state = IBV_QPS_RTS, .timeout = 14};

	beginPairs(IBV_QPT_UC, 1, false);
	struct ibv_qp *qp = newQp(IBV_QPT_UC, NULL, sendCq);
	EXPECT(!toInit(qp) && !toRtr(qp, sender[0]->qp_num));
	EXPECT_EQUAL(ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT),
		     EINVAL);
	EXPECT(!toRts(qp));
}

/* Of a connection with answers at one end and without at the other, nothing arrives. */
static void typesDiffer(void)
{
	beginPairs(IBV_QPT_RC, 1, false);
	struct ibv_qp *other = newQp(IBV_QPT_UC, NULL, receiveCq[0]);
	sender[0] = newQp(IBV_QPT_RC, NULL, sendCq);
	connectPair(sender[0], other);
	postOwnReceive(other, 1, MESSAGE);
	post(0, IBV_WR_SEND, 0, 0);
	expectSent(IBV_WC_RETRY_EXC_ERR);
	expectNothing(receiveCq[0]);
}

static const struct part {
	const char *name;
	void (*body)(void);
	const char *violation; /* or NULL */
} parts[] = {
	{"a queue that three queue pairs share", shared, NULL},
	{"a shared queue is empty", sharedIsEmpty, NULL},
	{"RNR retries of the requester", requesterRetries, NULL},
	{"a shared queue's limit", sharedLimit, NULL},
	{"a shared queue outlives a queue pair", sharedOfFailedPair, NULL},
	{"a shared queue's record", recordBeyondShared,
	 "its record says that 32767 entries are posted"},
	{"a shared queue's list", nextBeyondShared, "entry 0 names entry 325"},
	{"UC", unreliable, NULL},
	{"UC: messages are lost", unreliableLoses, NULL},
	{"UC: a packet is lost", unreliableDrops, NULL},
	{"UC: a message that is too long", unreliableTooLong, NULL},
	{"UC: no READs", unreliableReads, NULL},
	{"UC: states", unreliableStates, NULL},
	{"UC and RC", typesDiffer, NULL},
};

static void check(const struct part *part)
{
	char text[8192];
	int status = childRun(part->body, text, sizeof(text));

	expectThat((status == 0) == !part->violation, __FILE__, __LINE__,
		   "%s: status %d; it said \"%s\"", part->name, status, text);
	if (part->violation)
		EXPECT_HAS(text, part->violation);
	printf("ok: %s\n", part->name);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		check(&parts[i]);
	return 0;
}
