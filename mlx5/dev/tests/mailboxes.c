/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mailboxes - commands that the device refuses: each differs from a good one in one thing
 */
#include <infiniband/verbs.h>

#include "mlx5/dev/command/command.h"
#include "expect.h"
#include "queue.h"

enum { IN_BYTES = 272, OUT_BYTES = 16, UMEM_BYTES = 8192, RECORD_OFFSET = 4096 };

static struct host_uar uar;
static uint32_t umem, cqn;

static uint32_t cqc(uint32_t field)
{
	return fieldAt(CREATE_CQ_CQC, field);
}

static uint32_t qpc(uint32_t field)
{
	return fieldAt(QP_IN_QPC, field);
}

static uint32_t path(uint32_t field)
{
	return qpc(fieldAt(QPC_PRIMARY_PATH, field));
}

static void goodCq(uint8_t *in)
{
	memset(in, 0, IN_BYTES);
	fieldSet(in, IN_OPCODE, COMMAND_CREATE_CQ);
	fieldSet(in, CREATE_CQ_UMEM_ID, umem);
	fieldSet(in, CREATE_CQ_UMEM_VALID, 1);
	fieldSet(in, cqc(CQC_DBR_UMEM_VALID), 1);
	fieldSet(in, cqc(CQC_DBR_UMEM_ID), umem);
	fieldSet(in, cqc(CQC_DBR_ADDR), RECORD_OFFSET);
	fieldSet(in, cqc(CQC_OI), 1);
	fieldSet(in, cqc(CQC_LOG_CQ_SIZE), 4);
	fieldSet(in, cqc(CQC_UAR_PAGE), uar.page);
	fieldSet(in, cqc(CQC_C_EQN), 5);
}

static void goodQp(uint8_t *in)
{
	memset(in, 0, IN_BYTES);
	fieldSet(in, IN_OPCODE, COMMAND_CREATE_QP);
	fieldSet(in, CREATE_QP_UMEM_ID, umem);
	fieldSet(in, CREATE_QP_UMEM_VALID, 1);
	fieldSet(in, qpc(QPC_PM_STATE), 3);
	fieldSet(in, qpc(QPC_PD), hostPdn());
	fieldSet(in, qpc(QPC_UAR_PAGE), uar.page);
	fieldSet(in, qpc(QPC_RQ_TYPE), 3);
	fieldSet(in, qpc(QPC_CQN_SND), cqn);
	fieldSet(in, qpc(QPC_LOG_SQ_SIZE), 4);
	fieldSet(in, qpc(QPC_DBR_UMEM_VALID), 1);
	fieldSet(in, qpc(QPC_DBR_UMEM_ID), umem);
	fieldSet(in, qpc(QPC_DBR_ADDR), RECORD_OFFSET + 64);
}

/* The changed field, and the refusal. */
struct change {
	const char *name;
	uint32_t field;
	uint64_t value;
	uint8_t status;
	uint32_t syndrome;
};

static void expectRefused(const struct change *change, const uint8_t *out)
{
	expectThat(fieldGet(out, OUT_STATUS) == change->status &&
			   fieldGet(out, OUT_SYNDROME) == change->syndrome,
		   __FILE__, __LINE__, "%s: status 0x%x, syndrome 0x%x", change->name,
		   (unsigned int)fieldGet(out, OUT_STATUS),
		   (unsigned int)fieldGet(out, OUT_SYNDROME));
	printf("refused: %s\n", change->name);
}

static void create(void (*good)(uint8_t *in), const struct change *changes, size_t count)
{
	uint8_t in[IN_BYTES], out[OUT_BYTES];
	struct host_object *object;

	for (size_t i = 0; i < count; i++) {
		good(in);
		fieldSet(in, changes[i].field, changes[i].value);
		object = hostCreate(in, sizeof(in), out, sizeof(out));
		expectThat(!object, __FILE__, __LINE__, "%s is taken", changes[i].name);
		expectRefused(&changes[i], out);
	}
	good(in);
	object = hostCreate(in, sizeof(in), out, sizeof(out));
	EXPECT(object);
	hostDestroy(object);
}

static void refuseCqs(void)
{
	const struct change changes[] = {
		{"CREATE_CQ, unknown bit", FIELD(0x60, 1), 1, STATUS_BAD_PARAM,
		 REFUSED_UNKNOWN_BITS},
		{"CREATE_CQ, unknown bit of cqc", cqc(FIELD(0x1f, 1)), 1, STATUS_BAD_PARAM,
		 REFUSED_UNKNOWN_BITS},
		{"CREATE_CQ, entries of 128 bytes", cqc(CQC_CQE_SZ), 1, STATUS_BAD_PARAM,
		 REFUSED_VALUE},
		{"CREATE_CQ, another event queue", cqc(CQC_C_EQN), 6, STATUS_BAD_RES,
		 REFUSED_NO_SUCH_OBJECT},
		{"CREATE_CQ, no doorbell page", cqc(CQC_UAR_PAGE), 0, STATUS_BAD_RES,
		 REFUSED_NO_SUCH_OBJECT},
		{"CREATE_CQ, no umem", CREATE_CQ_UMEM_ID, 0, STATUS_BAD_RES,
		 REFUSED_NO_SUCH_OBJECT},
		{"CREATE_CQ, no umem for the record", cqc(CQC_DBR_UMEM_ID), 0, STATUS_BAD_RES,
		 REFUSED_NO_SUCH_OBJECT},
		{"CREATE_CQ, beyond the umem", cqc(CQC_LOG_CQ_SIZE), 8, STATUS_BAD_PARAM,
		 REFUSED_OUT_OF_UMEM},
		{"CREATE_CQ, unaligned record", cqc(CQC_DBR_ADDR), RECORD_OFFSET + 4,
		 STATUS_BAD_PARAM, REFUSED_ALIGNMENT},
	};

	create(goodCq, changes, sizeof(changes) / sizeof(*changes));
}

static void refuseQps(void)
{
	const struct change changes[] = {
		{"CREATE_QP, unknown bit", qpc(FIELD(0x740 - 0x40, 1)), 1, STATUS_BAD_PARAM,
		 REFUSED_UNKNOWN_BITS},
		{"CREATE_QP, no such service", qpc(QPC_ST), 3, STATUS_BAD_PARAM, REFUSED_VALUE},
		{"CREATE_QP, pm_state", qpc(QPC_PM_STATE), 0, STATUS_BAD_PARAM, REFUSED_VALUE},
		{"CREATE_QP, rq_type", qpc(QPC_RQ_TYPE), 1, STATUS_BAD_PARAM, REFUSED_VALUE},
		{"CREATE_QP, ts_format", qpc(QPC_TS_FORMAT), 3, STATUS_BAD_PARAM, REFUSED_VALUE},
		{"CREATE_QP, no PD", qpc(QPC_PD), 0xffff, STATUS_BAD_RES, REFUSED_NO_SUCH_OBJECT},
		{"CREATE_QP, no CQ", qpc(QPC_CQN_SND), 0xffff, STATUS_BAD_RES,
		 REFUSED_NO_SUCH_OBJECT},
		{"CREATE_QP, no doorbell page", qpc(QPC_UAR_PAGE), 0, STATUS_BAD_RES,
		 REFUSED_NO_SUCH_OBJECT},
		{"CREATE_QP, beyond the umem", qpc(QPC_LOG_SQ_SIZE), 8, STATUS_BAD_PARAM,
		 REFUSED_OUT_OF_UMEM},
		{"CREATE_QP, unaligned queue", CREATE_QP_UMEM_OFFSET, 16, STATUS_BAD_PARAM,
		 REFUSED_ALIGNMENT},
		{"CREATE_QP, unaligned record", qpc(QPC_DBR_ADDR), RECORD_OFFSET + 12,
		 STATUS_BAD_PARAM, REFUSED_ALIGNMENT},
	};

	create(goodQp, changes, sizeof(changes) / sizeof(*changes));
}

static void goodInit(uint8_t *in)
{
	fieldSet(in, IN_OPCODE, COMMAND_RST2INIT_QP);
	fieldSet(in, qpc(QPC_PM_STATE), 3);
	fieldSet(in, qpc(QPC_RWE), 1);
	fieldSet(in, path(ADS_VHCA_PORT_NUM), 1);
}

static void goodRtr(uint8_t *in)
{
	fieldSet(in, IN_OPCODE, COMMAND_INIT2RTR_QP);
	fieldSet(in, qpc(QPC_MTU), 5);
	fieldSet(in, qpc(QPC_LOG_MSG_MAX), 30);
	fieldSet(in, qpc(QPC_REMOTE_QPN), 1);
	fieldSet(in, path(ADS_RLID), 7);
}

static void goodRts(uint8_t *in)
{
	fieldSet(in, IN_OPCODE, COMMAND_RTR2RTS_QP);
}

static void modify(const struct queue *queue, void (*good)(uint8_t *in),
		   const struct change *changes, size_t count)
{
	uint8_t in[IN_BYTES], out[OUT_BYTES];

	for (size_t i = 0; i <= count; i++) {
		memset(in, 0, sizeof(in));
		good(in);
		fieldSet(in, QP_IN_QPN, queue->qpn);
		if (i < count)
			fieldSet(in, changes[i].field, changes[i].value);
		bool taken = hostModify(queue->qpObject, in, sizeof(in), out, sizeof(out));
		expectThat(taken == (i == count), __FILE__, __LINE__, "%s: taken: %d",
			   i < count ? changes[i].name : "the good one", taken);
		if (i < count)
			expectRefused(&changes[i], out);
	}
}

static void refuseTransitions(void)
{
	const struct queue_options options = {0};
	const struct change init[] = {
		{"RST2INIT, no such port", path(ADS_VHCA_PORT_NUM), 2, STATUS_BAD_PARAM,
		 REFUSED_VALUE},
		{"RST2INIT, atomics without their mode", qpc(QPC_RAE), 1, STATUS_BAD_PARAM,
		 REFUSED_VALUE},
		{"INIT2RTR in RESET", IN_OPCODE, COMMAND_INIT2RTR_QP, STATUS_BAD_QP_STATE,
		 REFUSED_STATE},
	};
	const struct change rtr[] = {
		{"INIT2RTR, mtu", qpc(QPC_MTU), 6, STATUS_BAD_PARAM, REFUSED_VALUE},
		{"INIT2RTR, log_msg_max", qpc(QPC_LOG_MSG_MAX), 31, STATUS_BAD_PARAM,
		 REFUSED_VALUE},
		{"INIT2RTR, no LID", path(ADS_RLID), 0, STATUS_BAD_PARAM, REFUSED_VALUE},
		{"INIT2RTR, opt_param_mask", QP_IN_OPT_PARAM_MASK, 1u << 20, STATUS_BAD_PARAM,
		 REFUSED_PARAM_MASK},
	};
	const struct change rts[] = {
		{"RTR2RTS, unknown bit", qpc(FIELD(0x398, 1)), 1, STATUS_BAD_PARAM,
		 REFUSED_UNKNOWN_BITS},
		{"RST2INIT in RTR", IN_OPCODE, COMMAND_RST2INIT_QP, STATUS_BAD_QP_STATE,
		 REFUSED_STATE},
	};
	struct queue queue;

	queueCreate(&queue, &options);
	modify(&queue, goodInit, init, sizeof(init) / sizeof(*init));
	modify(&queue, goodRtr, rtr, sizeof(rtr) / sizeof(*rtr));
	modify(&queue, goodRts, rts, sizeof(rts) / sizeof(*rts));
	queueDestroy(&queue);
}

static void askCapabilities(void)
{
	uint8_t in[16] = {0}, out[4112];

	fieldSet(in, IN_OPCODE, COMMAND_QUERY_HCA_CAP);
	fieldSet(in, IN_OP_MOD, CAP_GENERAL << 1 | 1);
	EXPECT(hostGeneral(in, sizeof(in), out, sizeof(out)));
	EXPECT_EQUAL(fieldGet(out, fieldAt(QUERY_CAP_OUT, CAP_CQE_VERSION)), 1);
	EXPECT_EQUAL(fieldGet(out, fieldAt(QUERY_CAP_OUT, CAP_LOG_MAX_QP_SZ)), 15);
	fieldSet(in, IN_OP_MOD, CAP_ATOMIC << 1 | 1);
	EXPECT(hostGeneral(in, sizeof(in), out, sizeof(out)));
	EXPECT_EQUAL(fieldGet(out, fieldAt(QUERY_CAP_OUT, ATOMIC_OPERATIONS)), 0xf);
	fieldSet(in, FIELD(0x60, 32), 1);
	EXPECT(!hostGeneral(in, sizeof(in), out, sizeof(out)));
	EXPECT_EQUAL(fieldGet(out, OUT_SYNDROME), REFUSED_UNKNOWN_BITS);
}

int main(void)
{
	static uint8_t memory[UMEM_BYTES] __attribute__((aligned(4096)));
	const struct queue_options options = {0};
	struct queue queue;

	hostOpen();
	EXPECT(hostUar(&uar));
	umem = hostUmem(memory, sizeof(memory));
	EXPECT(umem);
	queueCreate(&queue, &options);
	cqn = queue.cqn;
	askCapabilities();
	refuseCqs();
	refuseQps();
	refuseTransitions();
	return 0;
}
