/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * violations - each rule of the device, broken: the process ends, and one sentence says why
 */
#include <signal.h>

#include "pair.h"

/* The device's thread ends the process where it polls. */
static void ring(void)
{
	queueRing(&queue);
	sleep(5);
}

static void recordAhead(void)
{
	begin();
	queueNop(&queue, SIGNALED);
	queue.producer++;
	queueRecord(&queue);
	queueDoorbell(&queue, 1);
	sleep(5);
}

static void beyondRing(void)
{
	begin();
	for (int i = 0; i <= QUEUE_WQEBBS; i++)
		queueNop(&queue, SIGNALED);
	ring();
}

static void wrongIndex(void)
{
	begin();
	queueWord(queueSlot(&queue, NOP, 1, SIGNALED), 7 << 8 | NOP);
	ring();
}

static void wrongQpn(void)
{
	begin();
	queueWord(queueSlot(&queue, NOP, 1, SIGNALED) + 4, peer.qpn << 8 | 1);
	ring();
}

static void wrongSegments(void)
{
	begin();
	queueAtomic(&queue, FETCH_ADD, at(64), at(0), 1, 0, SIGNALED);
	queueWord(queue.wq + 4, queue.qpn << 8 | 3);
	ring();
}

static void noSegments(void)
{
	begin();
	queueWord(queueSlot(&queue, NOP, 1, SIGNALED) + 4, queue.qpn << 8);
	ring();
}

static void moreThanDoorbell(void)
{
	begin();
	queueSlot(&queue, MASKED_COMPARE_SWAP, 5, SIGNALED)[0] = 0x09;
	queue.producer = 1;
	ring();
}

static void inlineOverrun(void)
{
	begin();
	queueInline(&queue, at(64), "12345678", 8, SIGNALED);
	queueWord(queue.wq + 32, 0x80000000 | 60);
	ring();
}

static void unalignedResult(void)
{
	begin();
	queueAtomic(&queue, FETCH_ADD, at(64), at(4), 1, 0, SIGNALED);
	ring();
}

static void atomicOfThree(void)
{
	begin();
	queueAtomic(&queue, FETCH_ADD, at(64), at(0), 1, 0, SIGNALED);
	queueWord(queue.wq + 48, 3);
	ring();
}

static void zeroCount(void)
{
	begin();
	queueWrite(&queue, at(64), at(0), 0, SIGNALED);
	ring();
}

static void reservedBits(void)
{
	begin();
	queueSlot(&queue, NOP, 1, SIGNALED)[9] = 1;
	ring();
}

static void unknownOpcode(void)
{
	begin();
	queueSlot(&queue, 0x3f, 1, SIGNALED);
	ring();
}

static void backwards(void)
{
	begin();
	queueNop(&queue, SIGNALED);
	queueNop(&queue, SIGNALED);
	queueRing(&queue);
	queueAwait(&queue, 0);
	queueAwait(&queue, 1);
	queueDoorbell(&queue, 1);
	sleep(5);
}

static void afterDestroy(void)
{
	begin();
	queueNop(&queue, SIGNALED);
	queueRing(&queue);
	queueAwait(&queue, 0);
	queueDestroy(&queue);
	queueDoorbell(&queue, 2);
	sleep(5);
}

static void notConnected(void)
{
	const struct queue_options options = {0};

	hostOpen();
	queueCreate(&queue, &options);
	queueNop(&queue, SIGNALED);
	ring();
}

static void otherPage(void)
{
	struct host_uar own;

	begin();
	own = queue.uar;
	/* Two registers may be of one page. */
	while (queue.uar.page == own.page)
		EXPECT(hostUar(&queue.uar));
	queueNop(&queue, SIGNALED);
	ring();
}

/* One completion frees one slot, whatever the device has read beyond. */
static void slotReused(void)
{
	begin();
	for (int i = 0; i < QUEUE_WQEBBS; i++)
		queueInline(&queue, at(64), "12345678", 8, i ? 0 : SIGNALED);
	queueRing(&queue);
	queueAwait(&queue, 0);
	queueInline(&queue, at(128), "12345678", 8, 0);
	queueRing(&queue);
	/* It is read, and so is all before. */
	while (__atomic_load_n((uint64_t *)(void *)(memory + 128), __ATOMIC_ACQUIRE) == 0)
		usleep(1000);
	queueInline(&queue, at(64), "12345678", 8, 0);
	ring();
}

static void completionOverrun(void)
{
	const struct queue_options options = {.overrun = true};

	begin();
	queueCreate(&queue, &options);
	queueCreate(&peer, &options);
	queueConnect(&queue, peer.qpn, &options);
	queueConnect(&peer, queue.qpn, &options);
	for (int i = 0; i <= QUEUE_WQEBBS; i++) {
		queueNop(&queue, SIGNALED);
		queueRing(&queue);
		usleep(1000);
	}
	sleep(5);
}

static void notARegister(void)
{
	begin();
	queue.uar.doorbell -= 0x800 / 8 - 0x100 / 8;
	queueNop(&queue, SIGNALED);
	ring();
}

static void halfADoorbell(void)
{
	begin();
	queueNop(&queue, SIGNALED);
	queueRecord(&queue);
	*(volatile uint32_t *)queue.uar.doorbell = 0;
}

/* As rdma-core rings: the last one's control segment. */
static void otherSegments(void)
{
	uint64_t value;

	begin();
	queueNop(&queue, SIGNALED);
	queueRecord(&queue);
	memcpy(&value, queue.wq, sizeof(value));
	value += 1ull << 56;
	__atomic_store_n(queue.uar.doorbell, value, __ATOMIC_RELEASE);
	sleep(5);
}

static void noRecord(void)
{
	begin();
	queueNop(&queue, SIGNALED);
	queueDoorbell(&queue, queue.producer);
	sleep(5);
}

/* The receive counter's half. */
static void otherHalf(void)
{
	begin();
	queueNop(&queue, SIGNALED);
	queue.records[0] = 1u << 24;
	queueDoorbell(&queue, queue.producer);
	sleep(5);
}

static void unswapped(void)
{
	begin();
	queueNop(&queue, SIGNALED);
	queue.records[1] = queue.producer;
	queueDoorbell(&queue, queue.producer);
	sleep(5);
}

/* No code counts the consumed CQEs of a collapsed queue. */
static void collapsedOverrun(void)
{
	const struct queue_options options = {.collapsed = true, .overrun = true};

	begin();
	queueCreate(&queue, &options);
	queueConnect(&queue, queue.qpn, &options);
	for (uint32_t i = 0; i <= QUEUE_WQEBBS; i++) {
		queueNop(&queue, SIGNALED);
		queueRing(&queue);
		queueAwait(&queue, i);
	}
}

static void remoteReserved(void)
{
	begin();
	queueInline(&queue, at(64), "12345678", 8, SIGNALED);
	queueWord(queue.wq + 28, 1);
	ring();
}

static void maskedWithoutMode(void)
{
	begin();
	queueAtomic(&queue, MASKED_FETCH_ADD, at(64), at(0), 1, 0, SIGNALED);
	ring();
}

static void unknownFence(void)
{
	begin();
	queueNop(&queue, SIGNALED | 0xa0);
	ring();
}

/*
 * No violation by polling: a kernel stores record and doorbell without a fence between them, so the
 * doorbell may be there first.
 */
static void lateRecord(void)
{
	begin();
	queueNop(&queue, SIGNALED);
	queueDoorbell(&queue, queue.producer);
	usleep(2000);
	queueRecord(&queue);
	queueAwait(&queue, 0);
}

static const struct rule {
	const char *name;
	void (*body)(void);
	const char *sentence;
	bool byTrap; /* by polling, the device does not look there */
} rules[] = {
	{"record ahead", recordAhead, "the doorbell record is ahead of its WQE", false},
	{"beyond the ring", beyondRing, "beyond the ring", false},
	{"wrong index", wrongIndex, "the control segment says index 7", false},
	{"wrong QPN", wrongQpn, "the control segment says QP", false},
	{"wrong ds", wrongSegments, "ds is 3; opcode 0x12 has 4", false},
	{"no ds", noSegments, "ds is 0", false},
	{"more WQEBBs than rung", moreThanDoorbell, "needs 2 WQEBBs, but the doorbell says 1",
	 false},
	{"inline overrun", inlineOverrun, "60 bytes are inlined", false},
	{"unaligned result", unalignedResult, "is unaligned", false},
	{"atomic of 3 bytes", atomicOfThree, "with a result of 3", false},
	{"byte count 0", zeroCount, "a byte count of 0 means 2 GiB", false},
	{"reserved bits", reservedBits, "reserved bits of the control segment", false},
	{"unknown opcode", unknownOpcode, "opcode 0x3f is not known", false},
	{"doorbell backwards", backwards, "the doorbell goes backwards", false},
	{"use after destroy", afterDestroy, "after the QP was destroyed", false},
	{"not in RTS", notConnected, "rings in state 0, which is not RTS", false},
	{"another's page", otherPage, "rings on page", false},
	{"slot used again", slotReused, "no completion says that it is free", false},
	{"completion overrun", completionOverrun, "overruns CQ", false},
	{"half a doorbell", halfADoorbell, "a doorbell is 8 bytes at once", true},
	{"ds of doorbell and WQE", otherSegments, "the doorbell says ds 2, the control segment 1",
	 false},
	{"no doorbell record", noRecord, "the doorbell record, 0, is older", false},
	{"record in the other half", otherHalf, "the doorbell record, 0, is older", false},
	{"record not swapped", unswapped, "the doorbell record, 0, is older", false},
	{"collapsed completion overrun", collapsedOverrun, "overruns CQ", false},
	{"reserved bits of the remote segment", remoteReserved,
	 "reserved bits of the remote address segment", false},
	{"masked atomic without opmod", maskedWithoutMode, "opmod 0x00 of a masked atomic", false},
	{"unknown fence", unknownFence, "fence mode 5 is not known", false},
	{"not a register", notARegister, "nothing is there", true},
};

static bool isByTrap(void)
{
	const char *how = getenv("MLX5DEV_DOORBELL");

	return getenv("LD_PRELOAD") && !(how && !strcmp(how, "poll"));
}

static void breakRule(const struct rule *rule)
{
	char text[8192];
	int status;

	if (rule->byTrap && !isByTrap()) {
		printf("not here: %s: by trap only\n", rule->name);
		return;
	}
	status = childRun(rule->body, text, sizeof(text));
	expectThat(status == 128 + SIGABRT, __FILE__, __LINE__, "%s: status %d; it said \"%s\"",
		   rule->name, status, text);
	EXPECT_HAS(text, rule->sentence);
	printf("ok: %s\n", rule->name);
}

static void keepRule(void (*body)(void), const char *name)
{
	char text[8192];
	int status;

	if (isByTrap()) {
		printf("not here: %s: by polling only\n", name);
		return;
	}
	status = childRun(body, text, sizeof(text));
	expectThat(status == 0, __FILE__, __LINE__, "%s: status %d; it said \"%s\"", name, status,
		   text);
	printf("ok: %s\n", name);
}

int main(void)
{
	keepRule(lateRecord, "record after the doorbell");
	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
		breakRule(&rules[i]);
	return 0;
}
