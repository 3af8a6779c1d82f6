/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * many - 100000 work requests of all kinds through a queue pair made by DEVX, each verified
 *
 * many [collapsed] [batches N]: one CQE that is written again and again; N work requests, in
 * batches alone, up to 41 to a doorbell.
 *
 * The ring has 64 WQEBBs, so that slots are used again and the index goes through 16 bits.
 */
#include <endian.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

#include "expect.h"
#include "queue.h"

enum { BUFFER = 1 << 16, HALF = BUFFER / 2 };
enum {
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC
};

static uint8_t memory[BUFFER] __attribute__((aligned(4096)));
static struct queue queue, peer;
static uint32_t key;

/* Offsets; regions begin at 0, as windows do. */
static struct range at(uint32_t offset)
{
	return (struct range){offset, key};
}

static uint64_t *number(uint32_t offset)
{
	return (uint64_t *)(void *)(memory + offset);
}

static void finish(void)
{
	uint32_t last = queue.producer - 1;

	queueRing(&queue);
	queueAwait(&queue, last);
}

static void put(uint32_t round)
{
	uint32_t bytes = 1 + round * 7 % 4000;

	for (uint32_t i = 0; i < bytes; i++)
		memory[i] = (uint8_t)(round + i);
	queueWrite(&queue, at(HALF), at(0), bytes, SIGNALED);
	finish();
	EXPECT(!memcmp(memory, memory + HALF, bytes));
}

static void putInline(uint32_t round)
{
	uint8_t data[28];
	uint32_t bytes = 1 + round % 28;

	memset(data, (int)round, sizeof(data));
	queueInline(&queue, at(HALF + 3), data, bytes, SIGNALED);
	finish();
	EXPECT(!memcmp(memory + HALF + 3, data, bytes));
}

static void get(uint32_t round)
{
	uint32_t bytes = 1 + round * 13 % 3000;

	for (uint32_t i = 0; i < bytes; i++)
		memory[HALF + i] = (uint8_t)(round * 3 + i);
	queueRead(&queue, at(HALF), at(16), bytes, 0);
	queueDump(&queue, at(16), SIGNALED | FENCED);
	finish();
	EXPECT(!memcmp(memory + 16, memory + HALF, bytes));
}

static void add(uint32_t round)
{
	uint64_t before = *number(HALF + 8192);

	queueAtomic(&queue, FETCH_ADD, at(HALF + 8192), at(8), round, 0, SIGNALED);
	finish();
	EXPECT_EQUAL(*number(8), before);
	EXPECT_EQUAL(*number(HALF + 8192), before + round);
}

static void swap(uint32_t round)
{
	uint64_t before = *number(HALF + 8200), expected = round % 2 ? before : before + 1;

	queueAtomic(&queue, COMPARE_SWAP, at(HALF + 8200), at(8), round, expected, SIGNALED);
	finish();
	EXPECT_EQUAL(*number(8), before);
	EXPECT_EQUAL(*number(HALF + 8200), round % 2 ? round : before);
}

static uint8_t *masked(uint8_t opcode, uint32_t segments, uint8_t modifier)
{
	uint8_t *wqe = queueSlot(&queue, opcode, segments, SIGNALED);

	wqe[0] = modifier;
	queueRemote(wqe, at(HALF + 8208));
	return wqe;
}

/* A carry stays in its field of 16 bits. */
static void maskedAdd(uint32_t round)
{
	uint64_t boundary = 0x8000800080008000ull,
		 addend = 0x0001000100010000ull | (round & 0xffff);
	uint64_t expected = 0, before = *number(HALF + 8208);
	uint8_t *wqe = masked(MASKED_FETCH_ADD, 4, 0x09);

	for (int i = 0; i < 64; i += 16)
		expected |= (((before >> i) + (addend >> i)) & 0xffff) << i;
	queueDouble(wqe + 32, addend);
	queueDouble(wqe + 40, boundary);
	queueData(wqe + 48, at(8), 8);
	finish();
	EXPECT_EQUAL(*number(8), before);
	EXPECT_EQUAL(*number(HALF + 8208), expected);
}

/* Two WQEBBs: they may go around the ring's end. */
static void maskedSwap(uint32_t round)
{
	uint64_t before = *number(HALF + 8208), swapped = round * 0x9e3779b97f4a7c15ull;
	uint32_t index = queue.producer;
	uint8_t *wqe = masked(MASKED_COMPARE_SWAP, 5, 0x09);
	uint8_t *second = queue.wq + (size_t)((index + 1) % queue.wqebbs) * 64;

	queueDouble(wqe + 32, swapped);
	queueDouble(wqe + 40, before);
	queueDouble(wqe + 48, 0x00ff00ff00ff00ffull);
	queueDouble(wqe + 56, 0xffffffff00000000ull);
	memset(second, 0, 64);
	queueData(second, at(8), 8);
	queueRing(&queue);
	queueAwait(&queue, index);
	EXPECT_EQUAL(*number(8), before);
	EXPECT_EQUAL(*number(HALF + 8208),
		     (before & ~0x00ff00ff00ff00ffull) | (swapped & 0x00ff00ff00ff00ffull));
}

static void narrowAdd(uint32_t round)
{
	uint32_t before = (uint32_t)*number(HALF + 8216), result;
	uint8_t *wqe = masked(MASKED_FETCH_ADD, 4, 0x08);

	queueRemote(wqe, at(HALF + 8216));
	queueWord(wqe + 32, round);
	queueData(wqe + 48, at(12), 4);
	finish();
	memcpy(&result, memory + 12, sizeof(result));
	EXPECT_EQUAL(be32toh(result), before);
	EXPECT_EQUAL((uint32_t)*number(HALF + 8216), before + round);
	EXPECT_EQUAL(*number(HALF + 8216) >> 32, 0);
}

/* Without completions but one: the device keeps their order. */
static void batch(uint32_t round)
{
	uint64_t before = *number(HALF + 8192);
	uint32_t count = 1 + round % 20;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t value = (uint64_t)round << 32 | i;

		queueInline(&queue, at(HALF + 128), &value, sizeof(value), 0);
		queueAtomic(&queue, FETCH_ADD, at(HALF + 8192), at(8), 1, 0, 0);
	}
	queueNop(&queue, SIGNALED);
	finish();
	EXPECT_EQUAL(*number(HALF + 128), (uint64_t)round << 32 | (count - 1));
	EXPECT_EQUAL(*number(HALF + 8192), before + count);
}

/* The record may be ahead: the doorbell alone counts. */
static void behindRecord(uint32_t round)
{
	uint64_t value = round;
	uint32_t index = queue.producer;

	queueInline(&queue, at(HALF + 256), &value, sizeof(value), SIGNALED);
	queueNop(&queue, SIGNALED);
	queueRecord(&queue);
	queueDoorbell(&queue, index + 1);
	queueAwait(&queue, index);
	EXPECT_EQUAL(*number(HALF + 256), round);
	queueDoorbell(&queue, index + 2);
	queueAwait(&queue, index + 1);
}

static void (*const kinds[])(uint32_t round) = {
	put, putInline, get, add, swap, maskedAdd, maskedSwap, narrowAdd, batch, behindRecord,
};

static void runAll(uint64_t requests)
{
	uint32_t rounds = 0;

	while (queue.producer < requests) {
		kinds[rounds % (sizeof(kinds) / sizeof(*kinds))](rounds);
		rounds++;
	}
	printf("%u WQEBBs in %u rounds\n", queue.producer, rounds);
}

static void runBatches(uint64_t requests)
{
	uint32_t rounds = 0;

	while (queue.producer < requests)
		batch(rounds++);
	printf("%u WQEBBs in %u batches\n", queue.producer, rounds);
}

int main(int argc, char **argv)
{
	const struct queue_options options = {
		.collapsed = argc > 1 && !strcmp(argv[1], "collapsed"),
		.sendPsn = 0x123456,
		.receivePsn = 0x654321,
	};
	const struct queue_options other = {.sendPsn = 0x654321, .receivePsn = 0x123456};
	uint64_t batches = 0;

	if (argc > 2 && !strcmp(argv[argc - 2], "batches"))
		batches = strtoull(argv[argc - 1], NULL, 10);
	hostOpen();
	key = hostRegister(memory, sizeof(memory), 0, ALL);
	EXPECT(key);
	queueCreate(&queue, &options);
	queueCreate(&peer, &other);
	queueConnect(&queue, peer.qpn, &options);
	queueConnect(&peer, queue.qpn, &other);
	if (batches)
		runBatches(batches);
	else
		runAll(100000);
	queueDestroy(&queue);
	queueDestroy(&peer);
	return 0;
}
