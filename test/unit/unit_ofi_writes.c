/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_ofi_writes.c - which writes of libgin-ofi.so fail with an operation of the provider, what
 * the provider is given at a time, and completions that come before a sleep
 */
/* HEADERS: libfabric */
/* COMPILE: -O1 */
#include "expect.h"
#include "ofi_provider.h"

enum { WRITES = 6, PIECE = 60, MOST = 300 }; /* bytes of a write, and of an operation */

static struct fi_ep_attr epAttr = {.max_msg_size = MOST};
static char memory[PIECE];

/* Writes fail by number, and the provider has room for so many operations. */
static int refusedWrite, roomFor;
static size_t widest; /* operation that was given: its writes */

static ssize_t takeSome(const struct fi_msg_rma *message)
{
	size_t bytes = 0;

	for (size_t i = 0; i < message->iov_count; i++)
		bytes += message->msg_iov[i].iov_len;
	EXPECT(bytes <= epAttr.max_msg_size && message->iov_count <= fabric.group);
	EXPECT_EQUAL(message->rma_iov_count, message->iov_count);
	widest = message->iov_count > widest ? message->iov_count : widest;
	if (refusedWrite && message->rma_iov[0].addr == (uint64_t)refusedWrite)
		return -FI_EINVAL;
	return roomFor-- > 0 ? 0 : -FI_EAGAIN;
}

static void openWrites(void)
{
	info.ep_attr = &epAttr;
	openProvider();
	fabric.sharesAcks = 1;
	fabric.group = OFI_GROUP;
	begunCount = 0; /* without the receives */
	roomFor = WRITES;
	providerTakes = takeSome;
}

/* Writes 1 to WRITES, to one peer. */
static void writeAll(void)
{
	for (uint64_t i = 1; i <= WRITES; i++) {
		const struct fabricPiece piece = {memory, PIECE, {i, 0}, 0};
		EXPECT_EQUAL(ofiWrite(end, 1, &piece, NULL, (void *)(uintptr_t)i), fabricOk);
	}
	ofiSubmit(end);
}

/* The provider completes its operations in their order; number `failed` fails. */
static void completeAll(int failed)
{
	for (int i = 0; i < begunCount; i++) {
		queue[queued].entry = (struct fi_cq_data_entry){.op_context = begunOps[i]};
		queue[queued++].error = i + 1 == failed ? FI_EIO + 1 : 0;
	}
	begunCount = 0;
}

/* All writes have an event. Those that have failed are the bits of `wrong`. */
static void expectFailed(unsigned wrong)
{
	struct fabricEvent event[2 * WRITES];
	unsigned seen = 0;
	int count = 0;

	for (int turn = 0; turn < 9; turn++) {
		int got = ofiPoll(end, &event[count], 2 * WRITES - count);
		for (; got > 0; got--, count++) {
			EXPECT_EQUAL(event[count].kind, fabricDone);
			seen |= (unsigned)(event[count].error != 0)
				<< (uintptr_t)event[count].context;
		}
	}
	EXPECT_EQUAL(count, WRITES);
	EXPECT_EQUAL(seen, wrong);
}

/* Four writes are one operation of the provider, and two are another. */
static void togetherFails(void)
{
	openWrites();
	writeAll();
	EXPECT_EQUAL(begunCount, 2);
	EXPECT_EQUAL(widest, OFI_GROUP);
	completeAll(1);
	expectFailed(0x1e);
	writeAll();
	completeAll(2); /* it stands for all before it */
	expectFailed(0x7e);
	writeAll();
	completeAll(0);
	expectFailed(0);
}

/* An operation has at most so many bytes. */
static void longWrites(void)
{
	openWrites();
	epAttr.max_msg_size = 2 * PIECE - 1;
	writeAll();
	EXPECT_EQUAL(widest, 1);
	EXPECT_EQUAL(begunCount, WRITES);
	completeAll(1);
	expectFailed(1u << 1);
}

/* There is room for the first operation of a batch alone: each write is then given by itself. */
static void splitFails(void)
{
	openWrites();
	roomFor = 1;
	writeAll();
	EXPECT_EQUAL(begunCount, 1);
	roomFor = WRITES;
	refusedWrite = 3;
	ofiSubmit(end);
	EXPECT_EQUAL(begunCount, WRITES);
	completeAll(0);
	expectFailed(1u << 3);
}

/* Not as if there were no room, and the operation can be used again. */
static void refused(void)
{
	const struct fabricPiece piece = {memory, PIECE, {9, 0}, 1};

	openWrites();
	refusedWrite = 9;
	for (int i = 0; i <= OFI_OPS; i++)
		EXPECT_EQUAL(ofiWrite(end, 1, &piece, NULL, memory), fabricFailed);
	roomFor = 0;
	refusedWrite = 0;
	EXPECT_EQUAL(ofiWrite(end, 1, &piece, NULL, memory), fabricBusy);
}

/* A receive that fails brings no message, and is posted again. */
static void failedReceive(void)
{
	struct fabricEvent event;

	openProvider();
	EXPECT_EQUAL(begunCount, OFI_RECEIVES);
	begunCount = 1;
	completeAll(1);
	EXPECT_EQUAL(ofiPoll(end, &event, 1), 0);
	EXPECT_EQUAL(begunCount, 1);
}

static int tryWait(struct fid_fabric *of, struct fid **fids, int count)
{
	(void)of, (void)fids, (void)count;
	return 0;
}

static ssize_t readWaiting(struct fid_cq *of, void *out, size_t most, const void *condition,
			   int timeout)
{
	(void)condition, (void)timeout;
	return providerCqRead(of, out, most);
}

/* What resets the descriptor of an endpoint that is not alone may take a completion. */
static void early(void)
{
	struct fi_ops_fabric fabricOps = {.size = sizeof(fabricOps), .trywait = tryWait};
	struct fid_fabric whole = {.ops = &fabricOps};
	struct fabricEvent event;
	int ends[2];

	openProvider();
	fabric.fabric = &whole;
	fabric.opened = 2;
	cqOps.sread = readWaiting;
	begunCount = 0;
	EXPECT(!pipe(ends) && write(ends[1], "", 1) == 1);
	end->wait = ends[0];
	end->socketCq = &cq;
	EXPECT_EQUAL(ofiArm(end, 0), -1); /* a descriptor that is readable for nothing */
	EXPECT_EQUAL(ofiPoll(end, &event, 1), 0);
	EXPECT_EQUAL(ofiSendMessage(end, 1, memory, 1), fabricOk);
	struct ofiOp *op = begunOps[0];
	op->kind = ofiReceive;
	completeAll(0);
	EXPECT_EQUAL(ofiArm(end, 0), -1);
	EXPECT(!queued);
	EXPECT_EQUAL(ofiArm(end, 0), -1);
	EXPECT_EQUAL(ofiPoll(end, &event, 1), 1);
	EXPECT_EQUAL(event.kind, fabricMessage);
	EXPECT_EQUAL(ofiPoll(end, &event, 1), 0);
}

static void groups(void)
{
	static const struct {
		size_t local, remote, group;
	} cases[] = {{8, 8, OFI_GROUP}, {2, 8, 2}, {8, 3, 3}, {8, 0, 1}, {0, 8, 1}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fi_tx_attr tx = {.iov_limit = cases[i].local,
					.rma_iov_limit = cases[i].remote};
		info.tx_attr = &tx;
		EXPECT_EQUAL(groupOf(&info), cases[i].group);
	}
}

int main(void)
{
	expectChild("writes that are given together", togetherFails);
	expectChild("writes too long to be given together", longWrites);
	expectChild("a batch that is split", splitFails);
	expectChild("a write that is refused", refused);
	expectChild("a receive that fails", failedReceive);
	expectChild("a completion before a sleep", early);
	expectChild("how many writes are given together", groups);
	return expectFailures != 0;
}
