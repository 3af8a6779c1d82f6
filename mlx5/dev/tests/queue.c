/* SPDX-License-Identifier: BSD-3-Clause */
#include "queue.h"

#include <endian.h>

#include "mlx5/prm.h"
#include "expect.h"

enum { PAGE = 4096, IN_BYTES = 272, OUT_BYTES = 16, INVALID_ENTRY = 0xff };

static void *pages(size_t bytes, int value)
{
	void *memory = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE);

	EXPECT(memory);
	memset(memory, value, bytes);
	return memory;
}

void *(*queueMemory)(size_t bytes, int value) = pages;

static void refused(const char *what, const uint8_t *out)
{
	fprintf(stderr, "%s is refused: status 0x%x, syndrome 0x%x\n", what,
		(unsigned int)fieldGet(out, OUT_STATUS), (unsigned int)fieldGet(out, OUT_SYNDROME));
	exit(1);
}

static void createCq(struct queue *queue, const struct queue_options *options, uint32_t logSize,
		     uint32_t records)
{
	uint8_t in[IN_BYTES] = {0}, out[OUT_BYTES] = {0};
	uint32_t bytes = queue->wqebbs * 64;

	queue->cq = queueMemory(bytes, INVALID_ENTRY);
	fieldSet(in, IN_OPCODE, COMMAND_CREATE_CQ);
	fieldSet(in, CREATE_CQ_UMEM_ID, hostUmem(queue->cq, bytes));
	fieldSet(in, CREATE_CQ_UMEM_VALID, 1);
	fieldSet(in, fieldAt(CREATE_CQ_CQC, CQC_DBR_UMEM_VALID), 1);
	fieldSet(in, fieldAt(CREATE_CQ_CQC, CQC_DBR_UMEM_ID), records);
	fieldSet(in, fieldAt(CREATE_CQ_CQC, CQC_DBR_ADDR), 64);
	fieldSet(in, fieldAt(CREATE_CQ_CQC, CQC_CC), queue->collapsed);
	fieldSet(in, fieldAt(CREATE_CQ_CQC, CQC_OI), !options->overrun);
	fieldSet(in, fieldAt(CREATE_CQ_CQC, CQC_LOG_CQ_SIZE), logSize);
	fieldSet(in, fieldAt(CREATE_CQ_CQC, CQC_UAR_PAGE), queue->uar.page);
	fieldSet(in, fieldAt(CREATE_CQ_CQC, CQC_C_EQN), 5);
	queue->cqObject = hostCreate(in, sizeof(in), out, sizeof(out));
	if (!queue->cqObject)
		refused("CREATE_CQ", out);
	queue->cqn = (uint32_t)fieldGet(out, OUT_NUMBER);
}

static void createQp(struct queue *queue, uint32_t logSize, uint32_t records)
{
	uint8_t in[IN_BYTES] = {0}, out[OUT_BYTES] = {0};

	queue->wq = queueMemory((size_t)queue->wqebbs * 64, 0);
	fieldSet(in, IN_OPCODE, COMMAND_CREATE_QP);
	fieldSet(in, CREATE_QP_UMEM_ID, hostUmem(queue->wq, (size_t)queue->wqebbs * 64));
	fieldSet(in, CREATE_QP_UMEM_VALID, 1);
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_PM_STATE), 3);
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_PD), hostPdn());
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_UAR_PAGE), queue->uar.page);
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_RQ_TYPE), 3);
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_CQN_SND), queue->cqn);
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_LOG_SQ_SIZE), logSize);
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_DBR_UMEM_VALID), 1);
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_DBR_UMEM_ID), records);
	fieldSet(in, fieldAt(QP_IN_QPC, QPC_USER_INDEX), 0x123);
	queue->qpObject = hostCreate(in, sizeof(in), out, sizeof(out));
	if (!queue->qpObject)
		refused("CREATE_QP", out);
	queue->qpn = (uint32_t)fieldGet(out, OUT_NUMBER);
}

void queueCreate(struct queue *queue, const struct queue_options *options)
{
	uint32_t logSize = options->logSize ? options->logSize : 6;
	uint32_t records;

	*queue = (struct queue){.wqebbs = 1u << logSize, .collapsed = options->collapsed};
	queue->records = queueMemory(PAGE, 0);
	records = hostUmem(queue->records, PAGE);
	EXPECT(records && hostUar(&queue->uar));
	createCq(queue, options, logSize, records);
	createQp(queue, logSize, records);
}

static void modify(struct queue *queue, uint8_t *in, uint32_t opcode, const char *what)
{
	uint8_t out[OUT_BYTES] = {0};

	fieldSet(in, IN_OPCODE, opcode);
	fieldSet(in, QP_IN_QPN, queue->qpn);
	if (!hostModify(queue->qpObject, in, IN_BYTES, out, sizeof(out)))
		refused(what, out);
}

void queueReset(struct queue *queue)
{
	uint8_t in[OUT_BYTES] = {0}, out[OUT_BYTES] = {0};

	fieldSet(in, IN_OPCODE, COMMAND_2RST_QP);
	fieldSet(in, QP_IN_QPN, queue->qpn);
	if (!hostModify(queue->qpObject, in, sizeof(in), out, sizeof(out)))
		refused("2RST", out);
	queue->producer = queue->consumer = 0;
}

static uint32_t path(uint32_t field)
{
	return fieldAt(QP_IN_QPC, fieldAt(QPC_PRIMARY_PATH, field));
}

static void setRocePath(uint8_t *rtr, const struct queue_options *options)
{
	const uint8_t gid[16] = {[10] = 0xff, 0xff, 10, 9, 0, 1};

	memcpy(rtr + (QP_IN_QPC + QPC_PRIMARY_PATH + ADS_RGID) / 8, gid, sizeof(gid));
	fieldSet(rtr, path(ADS_SRC_ADDR_INDEX), 3);
	fieldSet(rtr, path(ADS_HOP_LIMIT), options->noHops ? 0 : 64);
	fieldSet(rtr, path(ADS_UDP_SPORT), 0xc123);
	fieldSet(rtr, path(ADS_RMAC_47_32), 0x0215);
	fieldSet(rtr, path(ADS_RMAC_31_0), 0xb3000001);
}

static bool isRoce(void)
{
	const char *profile = getenv("MLX5DEV_PROFILE");

	return profile && strstr(profile, "roce");
}

static uint32_t portMtu(void)
{
	return isRoce() ? 3 : 5;
}

static void setPath(uint8_t *rtr, const struct queue_options *options)
{
	if (isRoce())
		setRocePath(rtr, options);
	else
		fieldSet(rtr, path(ADS_RLID), 7);
}

void queueConnect(struct queue *queue, uint32_t qpn, const struct queue_options *options)
{
	uint8_t init[IN_BYTES] = {0}, rtr[IN_BYTES] = {0}, rts[IN_BYTES] = {0};

	fieldSet(init, fieldAt(QP_IN_QPC, QPC_PM_STATE), 3);
	fieldSet(init, fieldAt(QP_IN_QPC, QPC_RRE), 1);
	fieldSet(init, fieldAt(QP_IN_QPC, QPC_RWE), 1);
	fieldSet(init, fieldAt(QP_IN_QPC, QPC_RAE), 1);
	fieldSet(init, fieldAt(QP_IN_QPC, QPC_ATOMIC_MODE),
		 options->atomicMode ? options->atomicMode : 3);
	fieldSet(init, path(ADS_VHCA_PORT_NUM), 1);
	modify(queue, init, COMMAND_RST2INIT_QP, "RST2INIT");
	fieldSet(rtr, fieldAt(QP_IN_QPC, QPC_MTU), options->mtu ? options->mtu : portMtu());
	fieldSet(rtr, fieldAt(QP_IN_QPC, QPC_LOG_MSG_MAX),
		 options->messageLog ? options->messageLog : 30);
	fieldSet(rtr, fieldAt(QP_IN_QPC, QPC_REMOTE_QPN), qpn);
	fieldSet(rtr, fieldAt(QP_IN_QPC, QPC_NEXT_RCV_PSN), options->receivePsn);
	fieldSet(rtr, fieldAt(QP_IN_QPC, QPC_LOG_RRA_MAX), options->answersOne ? 0 : 4);
	fieldSet(rtr, fieldAt(QP_IN_QPC, QPC_MIN_RNR_NAK), 12);
	setPath(rtr, options);
	modify(queue, rtr, COMMAND_INIT2RTR_QP, "INIT2RTR");
	fieldSet(rts, fieldAt(QP_IN_QPC, QPC_NEXT_SEND_PSN), options->sendPsn);
	fieldSet(rts, fieldAt(QP_IN_QPC, QPC_LOG_SRA_MAX),
		 options->oneRead    ? 0
		 : options->readsLog ? options->readsLog
				     : 4);
	fieldSet(rts, fieldAt(QP_IN_QPC, QPC_RETRY_COUNT), options->noRetries ? 0 : 7);
	fieldSet(rts, fieldAt(QP_IN_QPC, QPC_RNR_RETRY), 7);
	fieldSet(rts, path(ADS_ACK_TIMEOUT), options->noTimeout ? 0 : 14);
	modify(queue, rts, COMMAND_RTR2RTS_QP, "RTR2RTS");
}

void queuePair(struct queue *one, struct queue *other)
{
	const struct queue_options options = {0};

	queueCreate(one, &options);
	queueCreate(other, &options);
	queueConnect(one, other->qpn, &options);
	queueConnect(other, one->qpn, &options);
}

void queueDestroy(struct queue *queue)
{
	hostDestroy(queue->qpObject);
	hostDestroy(queue->cqObject);
}

void queueWord(uint8_t *at, uint32_t value)
{
	value = htobe32(value);
	memcpy(at, &value, sizeof(value));
}

void queueDouble(uint8_t *at, uint64_t value)
{
	value = htobe64(value);
	memcpy(at, &value, sizeof(value));
}

uint8_t *queueSlot(struct queue *queue, uint8_t opcode, uint32_t segments, uint8_t flags)
{
	uint8_t *wqe = queue->wq + (size_t)(queue->producer % queue->wqebbs) * 64;

	memset(wqe, 0, 64);
	queueWord(wqe, (queue->producer & 0xffff) << 8 | opcode);
	queueWord(wqe + 4, queue->qpn << 8 | segments);
	wqe[11] = flags;
	queue->producer += (segments + 3) / 4;
	return wqe;
}

void queueRemote(uint8_t *wqe, struct range to)
{
	queueDouble(wqe + 16, to.address);
	queueWord(wqe + 24, to.key);
}

void queueData(uint8_t *at, struct range from, uint32_t bytes)
{
	queueWord(at, bytes);
	queueWord(at + 4, from.key);
	queueDouble(at + 8, from.address);
}

void queueWrite(struct queue *queue, struct range to, struct range from, uint32_t bytes,
		uint8_t flags)
{
	uint8_t *wqe = queueSlot(queue, WRITE, 3, flags);

	queueRemote(wqe, to);
	queueData(wqe + 32, from, bytes);
}

void queueInline(struct queue *queue, struct range to, const void *data, uint32_t bytes,
		 uint8_t flags)
{
	uint8_t *wqe = queueSlot(queue, WRITE, 2 + (4 + bytes + 15) / 16, flags);

	queueRemote(wqe, to);
	queueWord(wqe + 32, 0x80000000 | bytes);
	memcpy(wqe + 36, data, bytes);
}

void queueRead(struct queue *queue, struct range from, struct range to, uint32_t bytes,
	       uint8_t flags)
{
	uint8_t *wqe = queueSlot(queue, READ, 3, flags);

	queueRemote(wqe, from);
	queueData(wqe + 32, to, bytes);
}

void queueAtomic(struct queue *queue, uint8_t opcode, struct range at, struct range result,
		 uint64_t first, uint64_t second, uint8_t flags)
{
	uint8_t *wqe = queueSlot(queue, opcode, 4, flags);

	queueRemote(wqe, at);
	queueDouble(wqe + 32, first);
	queueDouble(wqe + 40, second);
	queueData(wqe + 48, result, 8);
}

void queueNop(struct queue *queue, uint8_t flags)
{
	queueSlot(queue, NOP, 1, flags);
}

void queueDump(struct queue *queue, struct range from, uint8_t flags)
{
	queueData(queueSlot(queue, DUMP, 2, flags) + 16, from, 1);
}

void queueRecord(struct queue *queue)
{
	__atomic_store_n(&queue->records[1], htobe32(queue->producer & 0xffff), __ATOMIC_RELEASE);
}

void queueDoorbell(struct queue *queue, uint32_t index)
{
	uint8_t bytes[8];
	uint64_t value;

	queueWord(bytes, (index & 0xffff) << 8);
	queueWord(bytes + 4, queue->qpn << 8);
	memcpy(&value, bytes, sizeof(value));
	__atomic_store_n(queue->uar.doorbell, value, __ATOMIC_RELEASE);
}

void queueRing(struct queue *queue)
{
	queueRecord(queue);
	queueDoorbell(queue, queue->producer);
}

uint8_t queueEntryOpcode(const uint8_t *entry)
{
	return __atomic_load_n(entry + 63, __ATOMIC_ACQUIRE) >> 4;
}

/* The counter, the signature, opcode and owner bit. */
static uint32_t lastWord(const uint8_t *entry)
{
	const uint32_t *last = (const uint32_t *)(const void *)(entry + 60);

	return be32toh(__atomic_load_n(last, __ATOMIC_ACQUIRE));
}

uint16_t queueEntryCounter(const uint8_t *entry)
{
	return (uint16_t)(lastWord(entry) >> 16);
}

uint8_t queueEntrySyndrome(const uint8_t *entry)
{
	return entry[55];
}

/*
 * Before another look at a completion queue. On a busy machine a thread that yields waits for all
 * others to use up their time; one that has slept does not.
 */
static void lookAgain(uint32_t *looks)
{
	if (++*looks % 64 == 0)
		usleep(1);
}

/* In a full queue: its owner bit changes with each round. */
const uint8_t *queueNext(struct queue *queue)
{
	const uint8_t *entry = queue->cq + (size_t)(queue->consumer % queue->wqebbs) * 64;
	uint8_t owner = queue->consumer & queue->wqebbs ? 1 : 0;
	uint32_t looks = 0;

	for (;;) {
		uint8_t own = __atomic_load_n(entry + 63, __ATOMIC_ACQUIRE);

		if (own >> 4 != 15 && (own & 1) == owner)
			break;
		lookAgain(&looks);
	}
	queue->consumer++;
	__atomic_store_n(&queue->records[16], htobe32(queue->consumer & 0xffffff),
			 __ATOMIC_RELEASE);
	return entry;
}

static void awaitCollapsed(const struct queue *queue, uint32_t index)
{
	uint32_t looks = 0;

	for (;;) {
		uint32_t word = lastWord(queue->cq);
		uint8_t opcode = (word & 0xff) >> 4;

		EXPECT(opcode == 15 || opcode == 0);
		if (opcode == 0 && (int16_t)(uint16_t)((word >> 16) - index) >= 0)
			return;
		lookAgain(&looks);
	}
}

void queueAwait(struct queue *queue, uint32_t index)
{
	const uint8_t *entry;

	if (queue->collapsed) {
		awaitCollapsed(queue, index);
		return;
	}
	entry = queueNext(queue);
	expectThat(queueEntryOpcode(entry) == 0, __FILE__, __LINE__,
		   "opcode %u, syndrome 0x%02x, index %u", queueEntryOpcode(entry),
		   queueEntrySyndrome(entry), queueEntryCounter(entry));
	EXPECT_EQUAL(queueEntryCounter(entry), index & 0xffff);
}

void queueAwaitError(struct queue *queue, uint32_t index, uint8_t syndrome)
{
	const uint8_t *entry = queueNext(queue);

	EXPECT_EQUAL(queueEntryOpcode(entry), 13);
	EXPECT_EQUAL(queueEntrySyndrome(entry), syndrome);
	EXPECT_EQUAL(queueEntryCounter(entry), index & 0xffff);
}
