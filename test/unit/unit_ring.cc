/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_ring.cc - which words of a proxy's ring device calls look at, in rings that the test fills
 * by hand; the rings of several contexts lie beside each other
 */
#include <gin_device.cuh>

#include "expect.h"
#include "ranks.h"

enum { RANKS = 8 }; /* their words and mirrors fill cache lines: an entry more needs another */

static const uint64_t SHORT = 100000, LONG = 30000000000; /* timeouts: nanoseconds */

/* A context whose ring has 4 places, and a device communicator with no other. */
struct Hand {
	uint64_t consumed = 0, done[RANKS + 1] = {}, posted[RANKS + 1] = {};
	uint64_t results[GIN_QUEUE_RESULTS] = {}, tickets[GIN_QUEUE_RESULTS] = {};
	struct ginMirror mirror[RANKS + 1] = {};
	struct ginQueue queue = {};
	struct ginAbortLine line = {};
	struct ginMirroredWord abort = {};
	uint64_t state = 0;
	ginDevComm dc = {};

	Hand()
	{
		queue.consumed = &consumed;
		queue.done = done;
		queue.doneMirror = mirror;
		queue.posted = posted;
		queue.result = results;
		queue.resultTickets = tickets;
		queue.logDepth = 2;
		queue.nRanks = RANKS;
		queue.failed[0].word = queue.failed[1].word = &state;
		abort.word = &line.word;
		dc.abort = &abort;
		dc.abortLine = &line;
		dc.self = &dc;
		dc.queues = &queue;
		dc.contexts = 1;
		dc.nRanks = RANKS;
		dc.timeout = LONG;
	}
	Hand(const Hand &) = delete;
	Hand &operator=(const Hand &) = delete;
};

/* Two peers have failed in different ways: an atomic has the result of its own. */
static void failedAtomic()
{
	Hand h;
	const uint64_t next = 1;
	h.tickets[5] = GIN_QUEUE_FAILED | next;
	h.done[2] = GIN_QUEUE_FAILED | ginErrorUnsupported;
	h.done[RANKS] = GIN_QUEUE_FAILED | ginErrorPeer;
	struct ginPoll poll = ginPollFor(&h.dc, 0, 0);
	EXPECT_EQUAL(ginResultAwait(&h.queue, 5, next, 2, poll).result, ginErrorUnsupported);
	EXPECT_EQUAL(h.queue.freeResults, 1u << 5);
}

/* A post that waits for room twice, as other threads were first, counts once. */
static void waitsForRoom()
{
	Hand h;
	h.queue.producer = h.consumed = 4;
	const uint64_t end = ginPostWait(&h.dc, &h.queue, 0, 1, 0, GIN_POSTED_FULL, 0, 0, 0);
	EXPECT_EQUAL(h.queue.waits, 1);
	EXPECT_EQUAL(ginPostWait(&h.dc, &h.queue, 0, 1, 0, GIN_POSTED_FULL, end, 0, 0), end);
	EXPECT_EQUAL(h.queue.waits, 1);
}

/* A barrier of ranks 0 and 2 waits for posts to rank 2, not for those to rank 1. */
static void drainOfATeam()
{
	for (uint32_t late = 1; late <= 2; late++) {
		Hand h;
		h.posted[1] = h.posted[2] = h.posted[RANKS] = 2;
		h.done[3 - late] = 2;
		h.done[late] = h.done[RANKS] = 1;
		EXPECT_EQUAL(
			ginRingDrain(&h.dc, ginFromPack({0, 2, 2}), late == 2 ? SHORT : LONG, 0),
			late == 2 ? ginErrorTimeout : ginSuccess);
	}
}

static int apart(const ginConfig_t *config)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginComm_t comm;
	ginDevComm dc;

	want.contexts = 3;
	EXPECT_SUCCESS(ginCommInit(config, &comm));
	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &dc));
	for (uint32_t c = 0; c < 3; c++) {
		const struct ginQueue *q = &dc.queues[c];
		const bool isLast = c == 2;
		EXPECT(q->posted + RANKS + 1 <=
		       (isLast ? (uint64_t *)dc.queues[0].doneMirror : q[1].posted));
		EXPECT(isLast || q->doneMirror + RANKS + 1 <= q[1].doneMirror);
	}
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &dc));
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return 0;
}

/* In one block: all `posted`, then all `doneMirror`. */
static void ringsApart()
{
	setenv("GIN_ROUTE", "network", 1);
	setenv("GIN_BACKEND", "proxy", 1);
	const int *result = ranksStart(RANKS, 1, apart);

	for (int r = 0; r < RANKS; r++)
		EXPECT_EQUAL(result[r], 0);
}

int main()
{
	failedAtomic();
	waitsForRoom();
	drainOfATeam();
	ringsApart();
	return expectFailures != 0;
}
