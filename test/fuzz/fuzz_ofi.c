/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_ofi.c - completion entries, as the proxy's network by libfabric takes them from a completion
 * queue
 *
 * A provider of a test completes the operations, in the order, with the status, length, flags
 * and data that the input says. An input is a list of steps: writes, reads and messages begin,
 * entries are written, the endpoint is polled. Each transfer has one event, with its context; a
 * message comes from the buffer of its receive; no buffer and no operation is lost.
 */
/* HEADERS: libfabric */
/* COMPILE: -O1 */
#include "fuzz.h"

#include "ofi_provider.h"

#define SPARE 70

static uint64_t begunTransfers, doneTransfers, messages, immediates;
static uint8_t isUnderWay[1 << 16]; /* transfers, by context */

static void openEnd(void)
{
	openProvider();
	begunTransfers = doneTransfers = messages = immediates = 0;
	EXPECT(!queued && !isProviderFull);
}

/* A completion of something that was begun, or a message that comes with its data alone. */
static void addEntry(struct fuzzInput *in)
{
	uint8_t how = fuzzByte(in), which = fuzzByte(in), error = fuzzByte(in);
	struct fi_cq_data_entry entry = {.flags = fuzzByte(in)};

	if (queued == ENTRIES || (!(how & 1) && !begunCount))
		return;
	entry.len = how & 64 ? fuzzWord(in) : fuzzByte(in);
	entry.data = fuzzWord(in);
	if (how & 1) { /* libfabric writes no context of a receive that is still posted */
		entry.flags |= FI_REMOTE_CQ_DATA;
		immediates++;
	} else {
		size_t at = which & 128 ? which % (size_t)begunCount : begunCount - 1 - which % 16u;
		if (at >= (size_t)begunCount)
			return;
		entry.op_context = begunOps[at];
		if (begunOps[at]->kind == ofiReceive)
			memset(begunOps[at]->message, which, sizeof(begunOps[at]->message));
		begunOps[at] = begunOps[--begunCount];
	}
	queue[queued].entry = entry;
	queue[queued++].error = how & 2 && !(how & 1) ? 1 + error % 64 : 0;
}

static void begin(struct fuzzInput *in)
{
	uint8_t what = fuzzByte(in);
	static char memory[FABRIC_MESSAGE];
	struct fabricPiece piece = {
		.local = memory, .bytes = what % 64u, .isCovered = what >> 2 & 1};
	uint64_t context = 1 + begunTransfers % (sizeof(isUnderWay) - 1);
	int result;

	if (what & 1)
		result = ofiWrite(end, what, &piece, NULL, (void *)(uintptr_t)context);
	else if (what & 2)
		result = ofiRead(end, what, &piece, (void *)(uintptr_t)context);
	else
		result = ofiSendMessage(end, what, memory, what % FABRIC_MESSAGE);
	EXPECT(result == fabricOk || result == fabricBusy);
	if (result != fabricOk || !(what & 3))
		return;
	EXPECT(!isUnderWay[context]);
	isUnderWay[context] = 1;
	begunTransfers++;
}

static void checkEvent(const struct fabricEvent *event)
{
	switch (event->kind) {
	case fabricDone:
		EXPECT((uintptr_t)event->context < sizeof(isUnderWay));
		EXPECT(isUnderWay[(uintptr_t)event->context]);
		isUnderWay[(uintptr_t)event->context] = 0;
		doneTransfers++;
		break;
	case fabricMessage:
		for (int i = 1; i < FABRIC_MESSAGE; i++)
			EXPECT(event->message[i] == event->message[0]);
		break;
	case fabricImmediate:
		EXPECT(immediates-- > 0);
		break;
	default:
		EXPECT(event->kind == fabricLost && event->peer <= UINT8_MAX);
	}
}

static void pollEnd(int most)
{
	static struct fabricEvent events[SPARE + 1];

	memset(&events[most], 0x5a, sizeof(events[0]));
	int count = ofiPoll(end, events, most);
	EXPECT(count >= 0 && count <= most);
	for (int i = 0; i < count; i++)
		checkEvent(&events[i]);
	for (size_t i = 0; i < sizeof(events[0]); i++)
		EXPECT(((const unsigned char *)&events[most])[i] == 0x5a);
}

static void step(struct fuzzInput *in)
{
	uint8_t what = fuzzByte(in);

	switch (what % 8) {
	case 0:
	case 1:
		begin(in);
		break;
	case 2:
		isProviderFull = what >> 3 & 1;
		break;
	case 3:
	case 4:
	case 5:
		addEntry(in);
		break;
	default:
		pollEnd(1 + (what >> 3) * 3 % SPARE);
	}
}

/* All operations end, and the endpoint has all its operations and receives again. */
static void drain(void)
{
	int receives = 0, ops = 0;

	isProviderFull = 0;
	do {
		for (int i = begunCount - 1; i >= 0 && queued < ENTRIES; i--) {
			if (begunOps[i]->kind == ofiReceive)
				continue;
			queue[queued].entry = (struct fi_cq_data_entry){.op_context = begunOps[i]};
			queue[queued++].error = 0;
			begunOps[i] = begunOps[--begunCount];
		}
		pollEnd(SPARE);
	} while (queued);
	pollEnd(SPARE);
	for (int i = 0; i < begunCount; i++)
		receives += begunOps[i]->kind == ofiReceive;
	for (const struct ofiOp *op = end->freeOps; op; op = op->next)
		ops++;
	EXPECT(!immediates && doneTransfers == begunTransfers);
	EXPECT(receives == OFI_RECEIVES && ops == OFI_OPS && begunCount == OFI_RECEIVES);
}

static void fuzzOne(struct fuzzInput *in)
{
	openEnd();
	for (int steps = 0; in->left && steps < 400; steps++)
		step(in);
	drain();
}
