/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * queue.h - a queue pair made by DEVX commands, and work requests written into it by hand
 *
 * Written apart from the library's encoder: the device is tested with two encoders.
 */
#ifndef MLX5DEV_TESTS_QUEUE_H
#define MLX5DEV_TESTS_QUEUE_H

#include "host.h"

enum { QUEUE_WQEBBS = 64 };

enum queue_opcode {
	NOP = 0x00,
	WRITE = 0x08,
	WRITE_IMM = 0x09,
	READ = 0x10,
	COMPARE_SWAP = 0x11,
	FETCH_ADD = 0x12,
	MASKED_COMPARE_SWAP = 0x14,
	MASKED_FETCH_ADD = 0x15,
	DUMP = 0x23,
};

enum queue_flags { SIGNALED = 0x08, FENCED = 0x40 };

struct queue {
	struct host_object *cqObject, *qpObject;
	struct host_uar uar;
	uint8_t *wq, *cq;
	uint32_t *records; /* 0, 1: of the queue pair; 16, 17: of the completion queue */
	uint32_t qpn, cqn, wqebbs;
	bool collapsed;
	uint32_t producer, consumer; /* WQEBBs; completions, or WQEBBs when they are collapsed */
};

struct queue_options {
	bool collapsed, overrun; /* overrun: the record of the completion queue counts */
	uint32_t logSize;	 /* 0: QUEUE_WQEBBS */
	uint32_t mtu, sendPsn, receivePsn, readsLog, atomicMode, messageLog;
	bool oneRead, answersOne; /* READs and atomics at a time, as requester and as responder */
	bool noRetries, noTimeout, noHops;
};

/* One end of a message. */
struct range {
	uint64_t address;
	uint32_t key;
};

/* Page-aligned memory with that byte everywhere; another one where a GPU is to reach it. */
extern void *(*queueMemory)(size_t bytes, int value);

void queueCreate(struct queue *queue, const struct queue_options *options);
/* Up to RTS, with the queue pair of that number on the first device, as its port wants it. */
void queueConnect(struct queue *queue, uint32_t qpn, const struct queue_options *options);
/* Back to where queueConnect() begins, from any state; the memory stays as it is. */
void queueReset(struct queue *queue);
void queuePair(struct queue *one, struct queue *other);
void queueDestroy(struct queue *queue);

/* A cleared WQEBB of the next index, with its control segment, taken. */
uint8_t *queueSlot(struct queue *queue, uint8_t opcode, uint32_t segments, uint8_t flags);
void queueWord(uint8_t *at, uint32_t value);
void queueDouble(uint8_t *at, uint64_t value);
void queueRemote(uint8_t *wqe, struct range to);
void queueData(uint8_t *at, struct range from, uint32_t bytes);

void queueWrite(struct queue *queue, struct range to, struct range from, uint32_t bytes,
		uint8_t flags);
void queueInline(struct queue *queue, struct range to, const void *data, uint32_t bytes,
		 uint8_t flags);
void queueRead(struct queue *queue, struct range from, struct range to, uint32_t bytes,
	       uint8_t flags);
/* Of 8 bytes: add, or swap and compare. */
void queueAtomic(struct queue *queue, uint8_t opcode, struct range at, struct range result,
		 uint64_t first, uint64_t second, uint8_t flags);
void queueNop(struct queue *queue, uint8_t flags);
void queueDump(struct queue *queue, struct range from, uint8_t flags);

/* The record, then the doorbell. */
void queueRecord(struct queue *queue);
void queueDoorbell(struct queue *queue, uint32_t index);
void queueRing(struct queue *queue);

/* The next completion: its entry. */
const uint8_t *queueNext(struct queue *queue);
/* That of the work request at `index` is there, without an error. */
void queueAwait(struct queue *queue, uint32_t index);
/* The next one is an error of that syndrome, for that index. */
void queueAwaitError(struct queue *queue, uint32_t index, uint8_t syndrome);

uint8_t queueEntryOpcode(const uint8_t *entry);
uint16_t queueEntryCounter(const uint8_t *entry);
uint8_t queueEntrySyndrome(const uint8_t *entry);

#endif
