/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gdaki_rig.h - a rank's send queues without a NIC
 *
 * Rank 0 of two, on a queue for each peer in this file's memory: the test checks doorbells and
 * writes completions.
 */
#ifndef GIN_TEST_GDAKI_RIG_H
#define GIN_TEST_GDAKI_RIG_H

#include <gin_device.cuh>
#include <string.h>

#include "require.h"

enum { PEER = 1, DEPTH_LOG = 4, DEPTH = 1 << DEPTH_LOG, SIGNALS = 4, COUNTERS = 3, CONTEXTS = 2 };
static const uint64_t GIB = 1ull << 30, SHORT = 200000; /* of patience: nanoseconds */

struct Table {
	struct ginWindowTable head;
	struct ginWindowPeer peers[2];
};

/* One queue's memory. */
struct Queue {
	struct ginMlx5Wqebb wqes[DEPTH];
	uint32_t turn[DEPTH], counter[DEPTH];
	struct ginMlx5Cqe cqe;
	struct ginMlx5DoorbellRecord record;
	uint64_t doorbell;

	void lay(struct ginSendQueue *q, uint32_t number)
	{
		*q = {};
		turn[0] = GIN_TURN;
		cqe.state = ginMlx5CqeEmpty();
		q->fixed.wqes = wqes;
		q->fixed.turn = turn;
		q->fixed.counter = counter;
		q->fixed.cqe = &cqe;
		q->fixed.record = &record;
		q->fixed.doorbell = &doorbell;
		q->fixed.queue = ginMlx5Queue(number);
		q->fixed.logDepth = DEPTH_LOG;
		q->fixed.masked = 1;
		q->fixed.sink = 0x1000;
		q->fixed.sinkKey = ginMlx5Key(0x51);
	}

	void complete(uint64_t index, uint32_t opcode = ginMlx5CqeRequest, uint32_t syndrome = 0,
		      uint32_t vendorSyndrome = 0)
	{
		cqe.timestampLow = syndrome << 24 | vendorSyndrome << 16;
		cqe.state = ginMlx5Swap(static_cast<uint32_t>(index & 0xffff) << 16 | opcode << 4);
	}

	uint32_t rung() const { return ginMlx5Swap(static_cast<uint32_t>(doorbell)) >> 8 & 0xffff; }
};

class Rig
{
public:
	ginDevComm dc;
	ginWindow_t window;
	struct ginSendQueue queues[CONTEXTS * 2], *q;
	Queue memory[CONTEXTS * 2], *m;
	struct ginSendResults results[CONTEXTS + 1];
	uint64_t old[GIN_QUEUE_RESULTS], counters[CONTEXTS * COUNTERS];
	struct ginErrorRecord error;
	struct ginPeer peers[2];
	struct {
		struct ginSources head;
		struct ginSourceEntry entry[2];
	} sources;
	struct ginAbortLine line;

	Rig()
	    : dc(), window(), queues(), q(&queues[PEER]), memory(), m(&memory[PEER]), results(),
	      old(), counters(), error(), peers(), sources(), line(), table(), claim(0)
	{
		for (uint32_t i = 0; i < CONTEXTS * 2; i++)
			memory[i].lay(&queues[i], 0x100 + i);
		for (uint32_t i = 0; i < 2; i++)
			peers[i] = {ginRouteGdaki,	     ginPeerAlive,	   nullptr,
				    0x90000000 + i * 0x1000, ginMlx5Key(0x61 + i), i};
		for (uint32_t i = 0; i <= CONTEXTS; i++) {
			results[i].result = old;
			results[i].nicAddress = 0x7000;
			results[i].nicKey = ginMlx5Key(0x71);
			results[i].freeResults = UINT32_MAX;
		}
		fillTable();
		fillComm();
	}

	/* The peer is direct: `part` is its window's. Its queue, of all contexts, stands last. */
	void makeDirect(char *part, uint64_t *signals)
	{
		dc.route = ginRouteNone;
		peers[PEER].route = ginRouteDirect;
		peers[PEER].signals = signals;
		dc.directSignals[PEER] = signals;
		table.peers[PEER].address = part;
		peers[PEER].sendQueue = 0;
		dc.nSendQueues = 1;
		q = &queues[CONTEXTS];
		m = &memory[CONTEXTS];
	}

	Rig(const Rig &) = delete;
	Rig &operator=(const Rig &) = delete;

private:
	Table table;
	struct ginMirroredWord watch = {&line.word, {0, 0, 0}, 0};
	uint32_t claim;

	void fillTable()
	{
		table.head.fence = ginScopeDevice;
		table.head.agent = ginAgentNic;
		table.head.nicKey = ginMlx5Key(0x31);
		table.head.nicAddress = 0x4000000;
		for (uint32_t i = 0; i < 2; i++)
			table.peers[i] = {nullptr, 64 * GIB, (i + 1) << 16, ginMlx5Key(0x41 + i),
					  ginMlx5Key(0x45 + i)};
		window.table = &table.head;
		sources.head.used = 2;
		sources.entry[1] = {0x5000, 0x100, 0x995000, ginMlx5Key(0x91), 0};
	}

	void fillComm()
	{
		dc.nRanks = 2;
		dc.contexts = CONTEXTS;
		dc.signals = SIGNALS;
		dc.counters = COUNTERS;
		dc.domainSize = 1;
		dc.route = ginRouteGdaki;
		dc.timeout = SHORT;
		dc.peers = peers;
		dc.counter = counters;
		dc.abortLine = &line;
		dc.abort = &watch;
		dc.self = &dc;
		dc.errorRecord = &error;
		dc.errorClaim = &claim;
		dc.sendQueues = queues;
		dc.nSendQueues = 2;
		dc.results = results;
		dc.sources = &sources.head;
	}
};

static const struct ginMlx5Memory there = {0x20000 + 64, ginMlx5Key(0x42)},
				  strict = {0x20000 + 64, ginMlx5Key(0x46)},
				  base = {0x4000000, ginMlx5Key(0x31)},
				  here = {0x4000000 + 8, ginMlx5Key(0x31)},
				  sink = {0x1000, ginMlx5Key(0x51)};

static inline struct ginMlx5Memory part(struct ginMlx5Memory memory, uint64_t offset)
{
	return {memory.address + offset, memory.key};
}

/* The signal's word: context 0. */
static inline struct ginMlx5Memory word(uint32_t id)
{
	return {0x90001000 + id * 8, ginMlx5Key(0x62)};
}

/* Checks the WQEs in the queue to the peer, from its beginning on. */
class Expected
{
public:
	explicit Expected(Rig &rig) : r(rig), index(rig.q->handed) {}

	struct ginMlx5Slot slot(uint32_t flags = 0) const
	{
		return {r.q->fixed.queue, static_cast<uint32_t>(index), flags};
	}

	/* Only the first `bytes` of the WQE: a value's unused bytes are undefined. */
	void first(struct ginMlx5Wqebb wqe, size_t bytes)
	{
		EXPECT(!memcmp(&r.m->wqes[index % DEPTH], &wqe, bytes));
		index++;
	}

	void one(struct ginMlx5Wqebb wqe) { first(wqe, sizeof(wqe)); }

	/* Instead of another WQE: the NIC reads the control segment alone. */
	void nothing(uint32_t flags = 0)
	{
		first(ginMlx5Nop(slot(flags)), sizeof(struct ginMlx5Segment));
	}

	/* No more WQEs were posted, and the doorbell has announced all. */
	void end()
	{
		EXPECT(r.q->reserved == index && r.q->handed == index);
		EXPECT(r.m->rung() == (index & 0xffff));
		r.m->complete(index - 1);
		EXPECT(Gin(r.dc, 0).flush() == ginSuccess);
	}

private:
	Rig &r;
	uint64_t index;
};

static const uint32_t CQE = ginMlx5Signaled;

template <size_t bytes> struct Value {
	unsigned char byte[bytes];
};

template <size_t bytes> inline Value<bytes> valueOf()
{
	Value<bytes> value;
	for (size_t i = 0; i < bytes; i++)
		value.byte[i] = static_cast<unsigned char>(i * 7 + 1);
	return value;
}

#endif
