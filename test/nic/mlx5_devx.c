/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mlx5_devx.c - queues made by the commands of mlx5/prm.h, and driven by gin/core/mlx5.h alone
 *
 * One thread does the work of a GPU: it stores WQEs, the doorbell record and the doorbell, and
 * polls a collapsed completion queue. Each kind of WQE is tested, also the kinds that libmlx5
 * cannot make. Two queue pairs in a loop on one device: the software one (mlx5/dev/with-device), or
 * hardware.
 */
/* PACKAGES: libmlx5 libibverbs */
#include "mlx5/command.h"
#include "mlx5/cqe.h"
#include "mlx5/prm.h"

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "expect.h"
#include "mlx5_encoders.h"

#include <time.h>

enum { PORT = 1, LOG_WQEBBS = 6, WQEBBS = 1 << LOG_WQEBBS, PAGE = 4096, PATIENCE_S = 10 };
enum { CQE_AT = PAGE, RECORD_AT = 2 * PAGE, CQ_RECORD_AT = RECORD_AT + 64, QUEUE_BYTES = 3 * PAGE };
enum { BYTES = 1 << 16, GID_INDEX = 1, QP_STATE_RTS = 3, QP_STATE_ERROR = 6 };

/* Send queue, its one CQE and the doorbell records are in `memory`. */
struct queue {
	uint8_t *memory;
	struct mlx5dv_devx_umem *umem;
	struct mlx5dv_devx_obj *cq, *qp;
	uint32_t cqn, qpn;
	uint32_t posted; /* WQEBBs */
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct mlx5dv_devx_uar *uar;
static struct ibv_port_attr port;
static uint32_t pdn, eqn;
static uint8_t *memory;	  /* [2 * BYTES]: local bytes, then the peer's */
static int plain, masked; /* the device has these atomics, the latter of 4 and 8 bytes */

static void openDevice(void)
{
	struct mlx5dv_context_attr attr = {.flags = MLX5DV_CONTEXT_FLAGS_DEVX};
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; list && list[i] && !context; i++) {
		if (mlx5dv_is_supported(list[i]))
			context = mlx5dv_open_device(list[i], &attr);
	}
	if (list)
		ibv_free_device_list(list);
	if (!context) {
		printf("no mlx5 device that takes commands (DEVX)\n");
		exit(getenv("MLX5DEV_DIR") ? 1 : 77);
	}
}

static void openAll(void)
{
	struct mlx5dv_pd numbers;
	struct mlx5dv_obj object = {.pd = {.out = &numbers}};

	openDevice();
	EXPECT(!ibv_query_port(context, PORT, &port));
	object.pd.in = pd = ibv_alloc_pd(context);
	EXPECT(pd && !mlx5dv_init_obj(&object, MLX5DV_OBJ_PD));
	pdn = numbers.pdn;
	memory = aligned_alloc(PAGE, 2 * BYTES);
	EXPECT(memory);
	mr = ibv_reg_mr(pd, memory, 2 * BYTES,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				IBV_ACCESS_REMOTE_ATOMIC);
	EXPECT(mr);
	uar = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_NC);
	EXPECT(uar && !mlx5dv_devx_query_eqn(context, 0, &eqn));
}

static void closeAll(void)
{
	mlx5dv_devx_free_uar(uar);
	EXPECT(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
	free(memory);
}

/* Checks answers of the device, and reports wrong ones in words. */
static void expectAnswer(int failed, const void *in, const void *out)
{
	char text[256];

	commandText(in, out, text, sizeof(text));
	expectThat(!failed && commandSucceeded(out), __FILE__, __LINE__, "%s: %s", text,
		   strerror(errno));
}

static uint64_t capability(enum capabilityGroup group, uint32_t field)
{
	uint8_t in[COMMAND_BYTES] = {0}, out[QUERY_CAP_OUT_BYTES] = {0};

	fieldSet(in, IN_OPCODE, COMMAND_QUERY_HCA_CAP);
	fieldSet(in, IN_OP_MOD, group << 1 | 1);
	int failed = mlx5dv_devx_general_cmd(context, in, sizeof(in), out, sizeof(out));
	expectAnswer(failed, in, out);
	return fieldGet(out, fieldAt(QUERY_CAP_OUT, field));
}

static void capabilities(void)
{
	struct ibv_device_attr attr;
	int ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;

	EXPECT(!ibv_query_device(context, &attr));
	EXPECT_EQUAL(capability(CAP_GENERAL, CAP_RC), 1);
	EXPECT_EQUAL(capability(CAP_GENERAL, CAP_CQE_VERSION), 1);
	EXPECT_EQUAL(capability(CAP_GENERAL, CAP_PORT_TYPE), ethernet);
	EXPECT_EQUAL(capability(CAP_GENERAL, CAP_NUM_PORTS), attr.phys_port_cnt);
	EXPECT_EQUAL(capability(CAP_GENERAL, CAP_ATOMIC_SUPPORTED),
		     attr.atomic_cap != IBV_ATOMIC_NONE);
	uint64_t operations = capability(CAP_ATOMIC, ATOMIC_OPERATIONS);
	plain = operations & ATOMIC_FETCH_ADD && operations & ATOMIC_COMPARE_SWAP;
	masked = operations & ATOMIC_MASKED_FETCH_ADD && operations & ATOMIC_MASKED_COMPARE_SWAP &&
		 (capability(CAP_ATOMIC, ATOMIC_SIZE_QP) & 12) == 12;
	printf("ok: capabilities\n");
}

static void makeCq(struct queue *q)
{
	uint8_t in[CREATE_CQ_IN_BYTES] = {0}, out[COMMAND_BYTES] = {0};
	struct ginMlx5Cqe *cqe = (void *)(q->memory + CQE_AT);

	cqe->state = ginMlx5CqeEmpty();
	fieldSet(in, IN_OPCODE, COMMAND_CREATE_CQ);
	fieldSet(in, CREATE_CQ_UMEM_OFFSET, CQE_AT);
	fieldSet(in, CREATE_CQ_UMEM_ID, q->umem->umem_id);
	fieldSet(in, CREATE_CQ_UMEM_VALID, 1);
	fieldSet(in, fieldAt(CREATE_CQ_CQC, CQC_CC), 1);
	fieldSet(in, fieldAt(CREATE_CQ_CQC, CQC_OI), 1);
	fieldSet(in, fieldAt(CREATE_CQ_CQC, CQC_UAR_PAGE), uar->page_id);
	fieldSet(in, fieldAt(CREATE_CQ_CQC, CQC_C_EQN), eqn);
	fieldSet(in, fieldAt(CREATE_CQ_CQC, CQC_DBR_UMEM_VALID), 1);
	fieldSet(in, fieldAt(CREATE_CQ_CQC, CQC_DBR_UMEM_ID), q->umem->umem_id);
	fieldSet(in, fieldAt(CREATE_CQ_CQC, CQC_DBR_ADDR), CQ_RECORD_AT);
	q->cq = mlx5dv_devx_obj_create(context, in, sizeof(in), out, sizeof(out));
	expectAnswer(!q->cq, in, out);
	q->cqn = (uint32_t)fieldGet(out, OUT_NUMBER);
}

static void fillCreateQp(const struct queue *q, uint32_t cqn, uint8_t *in)
{
	fieldSet(in, IN_OPCODE, COMMAND_CREATE_QP);
	fieldSet(in, CREATE_QP_UMEM_ID, q->umem->umem_id);
	fieldSet(in, CREATE_QP_UMEM_VALID, 1);
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_ST), QPC_SERVICE_RC);
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_PM_STATE), QPC_PM_MIGRATED);
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_PD), pdn);
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_UAR_PAGE), uar->page_id);
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_RQ_TYPE), QPC_RQ_NONE);
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_CQN_SND), cqn);
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_LOG_SQ_SIZE), LOG_WQEBBS);
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_DBR_UMEM_VALID), 1);
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_DBR_UMEM_ID), q->umem->umem_id);
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_DBR_ADDR), RECORD_AT);
	if (capability(CAP_GENERAL, CAP_SQ_TS_FORMAT))
		fieldSet(in, fieldAt(QP_IN_QPC, QPC_TS_FORMAT), QPC_TS_DEFAULT);
}

static void makeQp(struct queue *q)
{
	uint8_t in[CREATE_QP_IN_BYTES] = {0}, out[COMMAND_BYTES] = {0};

	fillCreateQp(q, q->cqn, in);
	q->qp = mlx5dv_devx_obj_create(context, in, sizeof(in), out, sizeof(out));
	expectAnswer(!q->qp, in, out);
	q->qpn = (uint32_t)fieldGet(out, OUT_NUMBER);
}

/* A queue pair with a completion queue that does not exist: the device refuses, and says so. */
static void refused(const struct queue *q)
{
	uint8_t in[CREATE_QP_IN_BYTES] = {0}, out[COMMAND_BYTES] = {0};
	char text[256];

	fillCreateQp(q, 0xffffff, in);
	EXPECT(!mlx5dv_devx_obj_create(context, in, sizeof(in), out, sizeof(out)));
	EXPECT(!commandSucceeded(out));
	commandText(in, out, text, sizeof(text));
	EXPECT_HAS(text, "CREATE_QP: bad ");
	printf("ok: refused: %s\n", text);
}

static void queueOpen(struct queue *q)
{
	*q = (struct queue){.memory = aligned_alloc(PAGE, QUEUE_BYTES)};
	EXPECT(q->memory);
	memset(q->memory, 0, QUEUE_BYTES);
	q->umem = mlx5dv_devx_umem_reg(context, q->memory, QUEUE_BYTES, IBV_ACCESS_LOCAL_WRITE);
	EXPECT(q->umem);
	makeCq(q);
	makeQp(q);
}

static void queueClose(struct queue *q)
{
	EXPECT(!mlx5dv_devx_obj_destroy(q->qp) && !mlx5dv_devx_obj_destroy(q->cq));
	EXPECT(!mlx5dv_devx_umem_dereg(q->umem));
	free(q->memory);
}

static void modify(struct queue *q, uint8_t *in, uint32_t opcode)
{
	uint8_t out[COMMAND_BYTES] = {0};

	fieldSet(in, IN_OPCODE, opcode);
	fieldSet(in, QP_IN_QPN, q->qpn);
	int failed = mlx5dv_devx_obj_modify(q->qp, in, MODIFY_QP_IN_BYTES, out, sizeof(out));
	expectAnswer(failed, in, out);
}

static uint32_t inPath(uint32_t field)
{
	return fieldAt(QP_IN_QPC + QPC_PRIMARY_PATH, field);
}

/* The address of this port, by its entry of the GID table. */
static void setRoce(uint8_t *to)
{
	uint8_t in[COMMAND_BYTES] = {0}, out[QUERY_ROCE_OUT_BYTES] = {0};
	union ibv_gid gid;

	fieldSet(in, IN_OPCODE, COMMAND_QUERY_ROCE_ADDRESS);
	fieldSet(in, QUERY_ROCE_INDEX, GID_INDEX);
	fieldSet(in, QUERY_ROCE_PORT, 0);
	expectAnswer(mlx5dv_devx_general_cmd(context, in, sizeof(in), out, sizeof(out)), in, out);
	EXPECT(!ibv_query_gid(context, PORT, GID_INDEX, &gid));
	EXPECT(!memcmp(fieldBytes(out, QUERY_ROCE_OUT + ROCE_ADDR_GID), gid.raw, 16));
	EXPECT_EQUAL(fieldGet(out, fieldAt(QUERY_ROCE_OUT, ROCE_ADDR_VERSION)), 2);
	memcpy(fieldBytes(to, QP_IN_QPC + QPC_PRIMARY_PATH + ADS_RGID), gid.raw, 16);
	fieldSet(to, inPath(ADS_RMAC_47_32),
		 fieldGet(out, fieldAt(QUERY_ROCE_OUT, ROCE_ADDR_MAC_47_32)));
	fieldSet(to, inPath(ADS_RMAC_31_0),
		 fieldGet(out, fieldAt(QUERY_ROCE_OUT, ROCE_ADDR_MAC_31_0)));
	fieldSet(to, inPath(ADS_SRC_ADDR_INDEX), GID_INDEX);
	fieldSet(to, inPath(ADS_HOP_LIMIT), 64);
	fieldSet(to, inPath(ADS_UDP_SPORT), capability(CAP_ROCE, ROCE_MIN_SRC_UDP_PORT));
}

static void toPeer(struct queue *q, uint32_t peer)
{
	uint8_t init[MODIFY_QP_IN_BYTES] = {0}, rtr[MODIFY_QP_IN_BYTES] = {0},
		rts[MODIFY_QP_IN_BYTES] = {0};

	fieldSet(init, inPath(ADS_VHCA_PORT_NUM), PORT);
	fieldSet(init, fieldAt(QP_IN_QPC, QPC_PM_STATE), QPC_PM_MIGRATED);
	fieldSet(init, fieldAt(QP_IN_QPC, QPC_RRE), 1);
	fieldSet(init, fieldAt(QP_IN_QPC, QPC_RWE), 1);
	fieldSet(init, fieldAt(QP_IN_QPC, QPC_RAE), plain);
	fieldSet(init, fieldAt(QP_IN_QPC, QPC_ATOMIC_MODE),
		 masked ? QPC_ATOMIC_UP_TO_64B : QPC_ATOMIC_IB_SPEC);
	modify(q, init, COMMAND_RST2INIT_QP);

	fieldSet(rtr, fieldAt(QP_IN_QPC, QPC_MTU), port.active_mtu);
	fieldSet(rtr, fieldAt(QP_IN_QPC, QPC_LOG_MSG_MAX), 30);
	fieldSet(rtr, fieldAt(QP_IN_QPC, QPC_REMOTE_QPN), peer);
	fieldSet(rtr, fieldAt(QP_IN_QPC, QPC_LOG_RRA_MAX), 4);
	fieldSet(rtr, fieldAt(QP_IN_QPC, QPC_MIN_RNR_NAK), 12);
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET)
		setRoce(rtr);
	else
		fieldSet(rtr, inPath(ADS_RLID), port.lid);
	modify(q, rtr, COMMAND_INIT2RTR_QP);

	fieldSet(rts, fieldAt(QP_IN_QPC, QPC_LOG_SRA_MAX), 4);
	fieldSet(rts, fieldAt(QP_IN_QPC, QPC_RETRY_COUNT), 7);
	fieldSet(rts, fieldAt(QP_IN_QPC, QPC_RNR_RETRY), 7);
	fieldSet(rts, inPath(ADS_ACK_TIMEOUT), 14);
	modify(q, rts, COMMAND_RTR2RTS_QP);
}

static uint64_t query(struct queue *q, uint32_t field)
{
	uint8_t in[COMMAND_BYTES] = {0}, out[QUERY_QP_OUT_BYTES] = {0};

	fieldSet(in, IN_OPCODE, COMMAND_QUERY_QP);
	fieldSet(in, QP_IN_QPN, q->qpn);
	expectAnswer(mlx5dv_devx_obj_query(q->qp, in, sizeof(in), out, sizeof(out)), in, out);
	return fieldGet(out, fieldAt(QP_OUT_QPC, field));
}

static struct ginMlx5Slot slot(const struct queue *q)
{
	return (struct ginMlx5Slot){ginMlx5Queue(q->qpn), q->posted, ginMlx5Signaled};
}

static struct ginMlx5Memory here(uint32_t offset)
{
	return (struct ginMlx5Memory){(uintptr_t)memory + offset, ginMlx5Key(mr->lkey)};
}

static struct ginMlx5Memory there(uint32_t offset)
{
	return (struct ginMlx5Memory){(uintptr_t)memory + BYTES + offset, ginMlx5Key(mr->rkey)};
}

static void store(struct queue *q, struct ginMlx5Wqebb wqebb)
{
	struct ginMlx5Wqebb *queue = (void *)q->memory;

	ginMlx5StoreWqebb(&queue[q->posted++ % WQEBBS], wqebb);
}

static void ring(struct queue *q)
{
	struct ginMlx5DoorbellRecord *record = (void *)(q->memory + RECORD_AT);
	uint64_t doorbell = ginMlx5Doorbell(ginMlx5Queue(q->qpn), q->posted);

	__atomic_store_n(&record->send, ginMlx5RecordWord(q->posted), __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n((uint64_t *)uar->reg_addr, doorbell, __ATOMIC_RELAXED);
}

struct seen {
	uint32_t opcode, counter;
};

/* The collapsed CQE, once it says that the WQE at `index` is done, or that one has failed. */
static struct seen await(const struct queue *q, uint32_t index)
{
	const struct ginMlx5Cqe *cqe = (const void *)(q->memory + CQE_AT);
	time_t end = time(NULL) + PATIENCE_S;

	for (;;) {
		uint32_t state = __atomic_load_n(&cqe->state, __ATOMIC_ACQUIRE);
		struct seen seen = {ginMlx5CqeOpcode(state), ginMlx5CqeCounter(state)};
		if (seen.opcode != ginMlx5CqeInvalid &&
		    (seen.opcode != ginMlx5CqeRequest || (int16_t)(seen.counter - index) >= 0))
			return seen;
		expectThat(time(NULL) < end, __FILE__, __LINE__, "WQE 0x%x is not done in %d s",
			   index, PATIENCE_S);
	}
}

/* One WQE of `count` WQEBBs, from store to completion. */
static void run(struct queue *q, const struct ginMlx5Wqebb *wqe, uint32_t count, const char *name)
{
	uint32_t first = q->posted;

	for (uint32_t i = 0; i < count; i++)
		store(q, wqe[i]);
	ring(q);
	struct seen seen = await(q, first);
	expectThat(seen.opcode == ginMlx5CqeRequest && seen.counter == (first & 0xffff), __FILE__,
		   __LINE__, "%s: CQE opcode %u, index 0x%x of 0x%x", name, seen.opcode,
		   seen.counter, first);
}

static void one(struct queue *q, struct ginMlx5Wqebb wqe, const char *name)
{
	run(q, &wqe, 1, name);
}

static void two(struct queue *q, struct ginMlx5TwoWqebbs wqe, const char *name)
{
	run(q, wqe.wqebb, 2, name);
}

static void fill(void)
{
	for (uint32_t i = 0; i < 2 * BYTES; i++)
		memory[i] = (uint8_t)(i * 29 + i / 251);
}

static void expectSame(uint32_t local, uint32_t remote, uint32_t bytes, const char *name)
{
	expectThat(!memcmp(memory + local, memory + BYTES + remote, bytes), __FILE__, __LINE__,
		   "%s: %u bytes have not moved", name, bytes);
}

static void transfers(struct queue *q)
{
	uint32_t value[8];

	fill();
	memcpy(value, memory + 100, sizeof(value));
	one(q, ginMlx5Nop(slot(q)), "NOP");
	one(q, ginMlx5Dump(slot(q), here(0), 1), "DUMP");
	one(q, ginMlx5Write(slot(q), there(5), here(3), 5001), "RDMA_WRITE");
	expectSame(3, 5, 5001, "RDMA_WRITE");
	one(q, ginMlx5Read(slot(q), there(20000), here(9000), 4999), "RDMA_READ");
	expectSame(9000, 20000, 4999, "RDMA_READ");
	one(q, ginMlx5WriteInline4(slot(q), there(8), 0x01020304), "inline, 4 bytes");
	EXPECT_EQUAL(*(uint32_t *)(memory + BYTES + 8), 0x01020304);
	one(q, ginMlx5WriteInline8(slot(q), there(16), 0x0102030405060708), "inline, 8 bytes");
	EXPECT_EQUAL(*(uint64_t *)(memory + BYTES + 16), 0x0102030405060708);
	one(q, ginMlx5WriteInline(slot(q), there(1), value, 27), "inline, 27 bytes");
	expectSame(100, 1, 27, "inline, 27 bytes");
	two(q, ginMlx5WriteInline32(slot(q), there(33), value), "inline, 32 bytes");
	expectSame(100, 33, 32, "inline, 32 bytes");
	printf("ok: transfers\n");
}

/* Checks the remote word and the atomic's old value. */
static void expectWord(uint64_t word, uint64_t old, const char *name)
{
	uint64_t seenWord, seenOld;

	memcpy(&seenWord, memory + BYTES, 8);
	memcpy(&seenOld, memory, 8);
	expectThat(seenWord == word && seenOld == old, __FILE__, __LINE__,
		   "%s: the word is 0x%llx, expected 0x%llx; it was 0x%llx, expected 0x%llx", name,
		   (unsigned long long)seenWord, (unsigned long long)word,
		   (unsigned long long)seenOld, (unsigned long long)old);
	printf("ok: %s\n", name);
}

static void setWord(uint64_t word)
{
	memcpy(memory + BYTES, &word, 8);
	memset(memory, 0, 8);
}

static void atomics(struct queue *q)
{
	setWord(0xffffffff);
	one(q, ginMlx5FetchAdd(slot(q), there(0), here(0), 3), "FA");
	expectWord(0x100000002, 0xffffffff, "fetch-add");
	setWord(5);
	one(q, ginMlx5CompareSwap(slot(q), there(0), here(0), 5, 6ull << 40), "CS");
	expectWord(6ull << 40, 5, "compare-swap");
	one(q, ginMlx5CompareSwap(slot(q), there(0), here(0), 5, 7), "CS");
	expectWord(6ull << 40, 6ull << 40, "compare-swap of another value");
}

/* An atomic on four bytes changes no other bytes, and returns the old value in the wire's order. */
static void maskedAtomics(struct queue *q)
{
	setWord(0xaaaaaaaaffffffff);
	one(q, ginMlx5MaskedFetchAdd4(slot(q), there(0), here(0), 3, 0), "FA4");
	expectWord(0xaaaaaaaa00000002, ginMlx5Swap(0xffffffff), "fetch-add of 4 bytes");
	setWord(0xaaaaaaaa0000ffff);
	one(q, ginMlx5MaskedFetchAdd4(slot(q), there(0), here(0), 0x00010001, 1u << 15), "FA4");
	expectWord(0xaaaaaaaa00010000, ginMlx5Swap(0x0000ffff),
		   "fetch-add of 4 bytes, in two fields");
	setWord(0x00000001ffffffff);
	one(q, ginMlx5MaskedFetchAdd8(slot(q), there(0), here(0), 1, 1u << 31), "FA8");
	expectWord(0x0000000100000000, 0x00000001ffffffff, "fetch-add of 8 bytes, in two fields");
	setWord(0xaaaaaaaa00000005);
	one(q,
	    ginMlx5MaskedCompareSwap4(slot(q), there(0), here(0),
				      (struct ginMlx5Swap4){5, ~0u, 9, ~0u}),
	    "CS4");
	expectWord(0xaaaaaaaa00000009, ginMlx5Swap(5), "compare-swap of 4 bytes");
	setWord(0xaaaaaaaa12345678);
	one(q,
	    ginMlx5MaskedCompareSwap4(
		    slot(q), there(0), here(0),
		    (struct ginMlx5Swap4){.swap = 0x0000ff00, .swapMask = 0xffff}),
	    "CS4");
	expectWord(0xaaaaaaaa1234ff00, ginMlx5Swap(0x12345678), "swap of 2 bytes");
	setWord(0x1122334455667788);
	two(q,
	    ginMlx5MaskedCompareSwap8(slot(q), there(0), here(0),
				      (struct ginMlx5Swap8){.compare = 0x88,
							    .compareMask = 0xff,
							    .swap = 0xffull << 56,
							    .swapMask = 0xffull << 56}),
	    "CS8");
	expectWord(0xff22334455667788, 0x1122334455667788, "compare-swap of one byte for another");
	two(q,
	    ginMlx5MaskedCompareSwap8(slot(q), there(0), here(0),
				      (struct ginMlx5Swap8){.swap = 7, .swapMask = ~0ull}),
	    "CS8");
	expectWord(7, 0xff22334455667788, "swap of 8 bytes");
}

/* Many times round: half of each batch unsignaled, one doorbell for all of it. */
static void batches(struct queue *q)
{
	enum { BATCHES = 300, EACH = 32 };
	uint64_t count = 0;

	setWord(0);
	for (int batch = 0; batch < BATCHES; batch++) {
		for (int i = 0; i < EACH; i++) {
			struct ginMlx5Slot at = slot(q);
			at.flags = i % 2 ? ginMlx5Signaled : 0;
			store(q, ginMlx5FetchAdd(at, there(0), here(0), 1));
		}
		ring(q);
		count += EACH;
		struct seen seen = await(q, q->posted - 1);
		EXPECT_EQUAL(seen.opcode, ginMlx5CqeRequest);
		EXPECT(!memcmp(memory + BYTES, &count, 8));
	}
	printf("ok: %llu atomics, by %d doorbells\n", (unsigned long long)count, BATCHES);
}

/* Reads beyond the peer's memory. */
static void failure(struct queue *q)
{
	struct decodedCqe cqe;
	uint32_t first = q->posted;
	char text[512];

	EXPECT_EQUAL(query(q, QPC_STATE), QP_STATE_RTS);
	store(q, ginMlx5Read(slot(q), there(BYTES - 4), here(0), 8));
	ring(q);
	EXPECT_EQUAL(await(q, first).opcode, ginMlx5CqeRequestError);
	cqeDecode(q->memory + CQE_AT, &cqe);
	cqeText(&cqe, "; ", text, sizeof(text));
	EXPECT_TEXT(cqe.defects, "");
	EXPECT_EQUAL(cqe.queue, q->qpn);
	EXPECT_EQUAL(cqe.counter, first & 0xffff);
	EXPECT_EQUAL(cqe.syndrome, ginMlx5RemoteAccess);
	EXPECT_EQUAL(query(q, QPC_STATE), QP_STATE_ERROR);
	printf("ok: %s\n", text);
}

int main(void)
{
	struct queue near, far;

	setvbuf(stdout, NULL, _IOLBF, 0);
	openAll();
	capabilities();
	queueOpen(&near);
	queueOpen(&far);
	refused(&near);
	toPeer(&near, far.qpn);
	toPeer(&far, near.qpn);
	transfers(&near);
	if (plain) {
		atomics(&near);
		batches(&near);
	}
	if (masked)
		maskedAtomics(&near);
	printf("%s atomics, %s masked ones\n", plain ? "with" : "without",
	       masked ? "with" : "without");
	failure(&near);
	queueClose(&near);
	queueClose(&far);
	closeAll();
	return 0;
}
