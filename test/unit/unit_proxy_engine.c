/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_proxy_engine.c - one context of the proxy: order, completion, corrupt descriptors, and a
 * transport that fails for one peer
 */
#include "proxy_rig.h"

#include <fcntl.h>

static struct ring a, b;
static uint64_t raised(int rank, int index)
{
	return rig.words64[rank][index][0];
}

static void openAll(void)
{
	rigOpen();
	ringOpen(&a, 0);
	ringOpen(&b, 1);
	for (int i = 0; i < BYTES; i++)
		rig.bytes[ME][i] = (unsigned char)i;
}

static void closeAll(void)
{
	engineFree(a.engine);
	engineFree(b.engine);
	rigClose();
}

/*
 * Byte `to` of the peer gets byte `from`; signal 0 is raised in the given way, and a counter or 0.
 */
static void putByte(struct ring *ring, uint64_t peer, uint64_t to, uint64_t from, uint64_t raise,
		    uint64_t counter)
{
	const uint64_t full[GIN_DESCRIPTOR_WORDS] = {word0(ginOpPut, raise, peer, counter),
						     at(rig.data, to),
						     at(rig.data, from),
						     1,
						     0,
						     0,
						     0,
						     1};

	post(ring, full);
}

static void postSignal(struct ring *ring, uint64_t raise, uint64_t peer, uint64_t value)
{
	const uint64_t full[GIN_DESCRIPTOR_WORDS] = {
		word0(ginOpSignal, raise, peer, 0), 0, 0, 0, 0, 0, 0, value};

	post(ring, full);
}

static void postBarrier(struct ring *ring, uint64_t peer, uint64_t epoch)
{
	const uint64_t full[GIN_DESCRIPTOR_WORDS] = {word0(ginOpBarrier, 0, peer, 0), 3, epoch};

	post(ring, full);
}

static void postAtomic(struct ring *ring, uint64_t op, uint64_t peer, uint64_t bytes,
		       uint64_t operand, uint64_t compare, uint64_t place)
{
	const uint64_t full[GIN_DESCRIPTOR_WORDS] = {word0(op, 0, peer, bytes), at(rig.data, 64),
						     operand, compare, place};

	post(ring, full);
}

static void expectFailed(const struct ring *ring, uint32_t which, ginResult_t why)
{
	EXPECT_EQUAL(ring->done[which], GIN_QUEUE_FAILED | (uint64_t)why);
}

/* Ten laps: phases, the consumed word, and every byte. */
static void laps(void)
{
	openAll();
	for (unsigned i = 0; i < 10 * DEPTH; i++) {
		putByte(&a, 1, i % BYTES, (i * 7) % BYTES, ginRaiseStrongId, 1);
		EXPECT_EQUAL(a.consumed, i);
		EXPECT_EQUAL(turnOf(&a), 1);
		EXPECT_EQUAL(turnOf(&a), 0);
		EXPECT_EQUAL(rig.bytes[1][i % BYTES], (i * 7) % BYTES);
		EXPECT_EQUAL(a.consumed, i + 1);
		EXPECT_EQUAL(a.done[1], i + 1);
		EXPECT_EQUAL(a.done[RANKS], i + 1);
		EXPECT_EQUAL(raised(1, 0), i + 1);
		EXPECT_EQUAL(a.counters[0], i + 1);
	}
	EXPECT_EQUAL(a.done[2], 0);
	closeAll();
}

/* A descriptor whose last word is not written yet holds up the later descriptors. */
static void halfWritten(void)
{
	uint64_t kept;

	openAll();
	putByte(&a, 1, 0, 5, 0, 0);
	putByte(&a, 1, 1, 6, 0, 0);
	kept = a.place[0][7];
	a.place[0][7] = 0;
	EXPECT_EQUAL(turnOf(&a), 0);
	EXPECT_EQUAL(a.consumed, 0);
	a.place[0][7] = kept;
	EXPECT_EQUAL(turnOf(&a), 2);
	EXPECT(rig.bytes[1][0] == 5 && rig.bytes[1][1] == 6);
	closeAll();
}

/* Put 0, weak put 1, strong put 2, to one peer, land from the last to the first. */
static void strongWaitsForEarlier(void)
{
	openAll();
	transport.holds = 1;
	putByte(&a, 1, 0, 10, 0, 1);
	putByte(&a, 1, 1, 11, ginRaiseWeakId, 2);
	putByte(&a, 1, 2, 12, ginRaiseStrongId, 3);
	postSignal(&a, ginRaiseStrongId, 1, 100);
	postBarrier(&a, 1, 5);
	postAtomic(&a, ginOpFetchAdd, 1, 8, 1, 0, 1);
	postSignal(&a, ginRaiseStrongId, 2, 1000); /* to another peer: waits for no work */
	EXPECT_EQUAL(turnOf(&a), 7);
	EXPECT_EQUAL(a.consumed, 7); /* the ring is free, whatever is in flight */
	EXPECT(raised(1, 0) == 0 && raised(2, 0) == 1000 && a.done[2] == 7);
	land(2);
	EXPECT(turnOf(&a) == 0 && raised(1, 0) == 0 && a.counters[2] == 0);
	land(1);
	EXPECT(turnOf(&a) == 0 && raised(1, 0) == 1 && a.done[1] == 0);
	EXPECT(a.resultTickets[0] == 0 && raised(1, FIRST_BARRIER + 3) == 0);
	EXPECT(a.done[RANKS] == 0);
	land(0);
	turnOf(&a);
	EXPECT(raised(1, 0) == 102 && raised(1, FIRST_BARRIER + 3) == 5);
	EXPECT(a.resultTickets[0] == 6 && a.results[0] == 0);
	EXPECT(a.counters[0] == 1 && a.counters[1] == 1 && a.counters[2] == 1);
	EXPECT(a.done[1] == 6 && a.done[RANKS] == 7);
	transport.holds = 0;
	closeAll();
}

/* The word of all peers has the lowest work that is not done. */
static void lowestOfAll(void)
{
	openAll();
	transport.holds = 1;
	putByte(&a, 1, 0, 10, 0, 0);
	putByte(&a, 2, 0, 11, 0, 0);
	putByte(&a, 1, 1, 12, 0, 0);
	turnOf(&a);
	land(1);
	turnOf(&a);
	EXPECT(a.done[2] == 2 && a.done[1] == 0 && a.done[RANKS] == 0);
	land(0);
	turnOf(&a);
	EXPECT(a.done[2] == 2 && a.done[1] == 1 && a.done[RANKS] == 2);
	land(2);
	turnOf(&a);
	EXPECT(a.done[1] == 3 && a.done[RANKS] == 3);
	transport.holds = 0;
	closeAll();
}

/* No more descriptors are taken than can be in flight; later the engine goes on at the next one. */
static void allUnderWay(void)
{
	openAll();
	transport.holds = 1;
	for (int i = 0; i < DEPTH; i++)
		putByte(&a, 1, (uint64_t)i, (uint64_t)i + 1, 0, 0);
	EXPECT_EQUAL(turnOf(&a), DEPTH);
	for (int i = 0; i < DEPTH; i++)
		putByte(&a, 2, (uint64_t)i, (uint64_t)i + 2, 0, 0);
	EXPECT(turnOf(&a) == 0 && a.consumed == DEPTH);
	land(0);
	engineRetire(a.engine);
	EXPECT(turnOf(&a) == 1 && a.consumed == DEPTH + 1);
	for (unsigned i = 1; i < transport.held; i++)
		land(i);
	engineRetire(a.engine);
	EXPECT_EQUAL(turnOf(&a), DEPTH - 1);
	transport.holds = 0;
	for (unsigned i = DEPTH + 1; i < transport.held; i++)
		land(i);
	turnOf(&a);
	EXPECT_EQUAL(a.done[RANKS], 2 * DEPTH);
	for (int i = 0; i < DEPTH; i++)
		EXPECT(rig.bytes[1][i] == i + 1 && rig.bytes[2][i] == i + 2);
	closeAll();
}

static void atomics(void)
{
	const uint64_t big = 0xfedcba9876543210;
	uint64_t *word = (uint64_t *)(void *)(rig.bytes[1] + 64);

	openAll();
	*word = big;
	postAtomic(&a, ginOpFetchAdd, 1, 8, big, 0, 1);
	postAtomic(&a, ginOpSwap, 1, 8, big, 0, 2);
	postAtomic(&a, ginOpCompareSwap, 1, 8, 7, big + 1, 3); /* is not */
	postAtomic(&a, ginOpCompareSwap, 1, 8, 7, big, 4);
	postAtomic(&a, ginOpFetchAdd, 1, 4, UINT32_MAX, 0, 5);
	postAtomic(&a, ginOpSwap, 1, 4, 9, 0, 0);
	postAtomic(&a, ginOpCompareSwap, 1, 4, 11, 9, GIN_QUEUE_RESULTS);
	turnOf(&a);
	EXPECT(a.results[0] == big && a.results[1] == 2 * big && a.results[2] == big);
	EXPECT(a.results[3] == big && a.results[4] == 7 && *word == 11);
	EXPECT(a.results[GIN_QUEUE_RESULTS - 1] == 9);
	for (uint64_t i = 0; i < 5; i++)
		EXPECT_EQUAL(a.resultTickets[i], i + 1);
	EXPECT_EQUAL(a.resultTickets[GIN_QUEUE_RESULTS - 1], 7);
	closeAll();
}

/* Keeps what goes to standard error meanwhile. */
static struct {
	int kept, file;
	char text[4096];
} heard;

static void listen(void)
{
	char name[] = "/tmp/gin-unit-proxy.XXXXXX";

	heard.file = mkostemp(name, O_APPEND);
	EXPECT(heard.file >= 0 && !unlink(name));
	heard.kept = dup(STDERR_FILENO);
	EXPECT(heard.kept >= 0 && dup2(heard.file, STDERR_FILENO) >= 0);
}

static void hear(void)
{
	EXPECT(dup2(heard.kept, STDERR_FILENO) >= 0);
	ssize_t length = pread(heard.file, heard.text, sizeof(heard.text) - 1, 0);
	EXPECT(length >= 0);
	heard.text[length] = '\0';
	close(heard.kept);
	close(heard.file);
}

static void expectContextFailed(const struct ring *ring)
{
	EXPECT_EQUAL(ring->failed[0], ginErrorInvalidArgument);
	EXPECT_EQUAL(ring->failed[1], ginErrorInvalidArgument);
	for (uint32_t r = 0; r <= RANKS; r++)
		expectFailed(ring, r, ginErrorInvalidArgument);
}

/* The context fails and drains, in words; works in flight end; the other context goes on. */
static void corrupt(void)
{
	openAll();
	transport.holds = 1;
	putByte(&a, 1, 0, 10, 0, 1);
	turnOf(&a);
	transport.holds = 0;
	putByte(&a, 1, BYTES, 11, ginRaiseStrongId, 2); /* beyond the end */
	putByte(&a, 2, 2, 12, ginRaiseStrongId, 2);
	putByte(&b, 2, 3, 13, ginRaiseStrongId, 2);
	listen();
	EXPECT_EQUAL(turnOf(&a), 2);
	hear();
	EXPECT_HAS(heard.text, "gin ERROR descriptor 1 of context 0 of device communicator 7 is "
			       "wrong: it goes beyond the end of a window; the context fails");
	expectContextFailed(&a);
	EXPECT_EQUAL(a.consumed, 3);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < DEPTH; i++)
			putByte(&a, 2, 4, 14, ginRaiseStrongId, 1);
		turnOf(&a);
		if (!round)
			land(0);
		engineRetire(a.engine);
		while (turnOf(&a))
			;
	}
	EXPECT_EQUAL(a.consumed, a.posted);
	EXPECT_EQUAL(a.engine->retired, a.posted);
	EXPECT(rig.bytes[1][0] == 10 && rig.bytes[2][2] == 0 && rig.bytes[2][4] == 0);
	EXPECT(raised(1, 0) == 0 && raised(2, 0) == 0 && a.counters[1] == 0);
	expectContextFailed(&a);
	EXPECT_EQUAL(turnOf(&b), 1);
	EXPECT(rig.bytes[2][3] == 13 && raised(2, SIGNALS) == 1 && b.counters[1] == 1);
	EXPECT(b.failed[0] == 0 && b.done[2] == 1 && b.done[RANKS] == 1);
	closeAll();
}

/*
 * One peer cannot be reached: nothing that covers a lost work is done there, its word keeps the
 * first error, and all works to other peers are done.
 */
static void failingPeer(int landsLater)
{
	openAll();
	transport.failingPeer = 1;
	transport.holds = landsLater;
	putByte(&a, 2, 0, 10, ginRaiseStrongId, 1);
	putByte(&a, 1, 0, 11, ginRaiseWeakId, 2);
	putByte(&a, 2, 1, 12, ginRaiseStrongId, 1);
	turnOf(&a);
	for (unsigned i = 0; i < transport.held; i++)
		land(i);
	turnOf(&a);
	expectFailed(&a, 1, ginErrorSystem);
	expectFailed(&a, RANKS, ginErrorSystem);
	EXPECT(a.done[2] == 3 && a.failed[0] == 0 && raised(2, 0) == 2);
	EXPECT_EQUAL(a.failed[1], ginErrorSystem); /* ends waits for counters */
	EXPECT(a.counters[0] == 2 && a.counters[1] == 0 && raised(1, 0) == 0);

	transport.holds = 0;
	transport.failingPeer = -1; /* later works could be done */
	putByte(&a, 1, 5, 13, ginRaiseStrongId, 2);
	postSignal(&a, ginRaiseStrongId, 1, 50);
	postBarrier(&a, 1, 9);
	postAtomic(&a, ginOpSwap, 1, 8, 77, 0, 1);
	postSignal(&a, ginRaiseWeakId, 1, 3);
	postSignal(&a, ginRaiseStrongId, 2, 10);
	turnOf(&a);
	EXPECT_EQUAL(raised(1, 0), 3);
	EXPECT(raised(1, FIRST_BARRIER + 3) == 0 && rig.bytes[1][64] == 0);
	EXPECT_EQUAL(a.resultTickets[0], GIN_QUEUE_FAILED | 7);
	EXPECT(raised(2, 0) == 12 && a.done[2] == 9 && a.failed[0] == 0);
	expectFailed(&a, 1, ginErrorSystem);
	EXPECT_EQUAL(a.engine->retired, 9);
	closeAll();
}

static void failingAtStart(void)
{
	failingPeer(0);
}

static void failingLater(void)
{
	failingPeer(1);
}

static void postGet(struct ring *ring, uint64_t peer, uint64_t to, uint64_t from)
{
	const uint64_t full[GIN_DESCRIPTOR_WORDS] = {word0(ginOpGet, 0, peer, 0),
						     at(rig.data, from), at(rig.data, to), 1};

	post(ring, full);
}

/* No room for peer 1: its works wait in their order, the works to peer 2 go on, none is dropped. */
static void busyTransport(void)
{
	openAll();
	transport.busyPeer = 1;
	putByte(&a, 1, 0, 10, ginRaiseStrongId, 1);
	postSignal(&a, ginRaiseWeakId, 1, 100); /* has no data, and must not overtake the puts */
	putByte(&a, 2, 0, 11, ginRaiseStrongId, 1);
	putByte(&a, 1, 0, 12, ginRaiseStrongId, 1);
	for (int i = 0; i < 3; i++)
		turnOf(&a);
	EXPECT(a.consumed == 4 && transport.started == 1);
	EXPECT(rig.bytes[1][0] == 0 && raised(1, 0) == 0 && a.done[1] == 0);
	EXPECT(rig.bytes[2][0] == 11 && raised(2, 0) == 1 && a.done[2] == 3);
	EXPECT(a.done[RANKS] == 0 && a.counters[0] == 1);
	transport.busyPeer = -1;
	turnOf(&a);
	EXPECT(rig.bytes[1][0] == 12 && raised(1, 0) == 102 && transport.started == 3);
	EXPECT(a.done[1] == 4 && a.done[RANKS] == 4 && a.counters[0] == 3);
	EXPECT(!a.engine->stalled);
	closeAll();
}

/*
 * A transport without order: a word goes out when all that it covers has landed, and the work is
 * done when the word has been changed. Words without room are tried again.
 */
static void unorderedWords(void)
{
	openAll();
	lanes.lane[0].order = transportUnordered;
	transport.holds = 1;
	putByte(&a, 1, 0, 10, 0, 1);		    /* transport.work[0] */
	putByte(&a, 1, 1, 11, ginRaiseStrongId, 1); /* transport.work[1] */
	putByte(&a, 1, 2, 12, ginRaiseWeakId, 1);   /* transport.work[2] */
	postAtomic(&a, ginOpFetchAdd, 1, 8, 5, 0, 1);
	EXPECT(turnOf(&a) == 4 && transport.held == 3);
	land(1);
	EXPECT(transport.held == 3 && a.done[1] == 0); /* put 0 has not landed yet */
	transport.busyPeer = 1;
	land(2);
	EXPECT_EQUAL(transport.held, 3); /* no room for the weak signal */
	land(0);
	EXPECT(transport.held == 3 && a.done[1] == 1 && a.engine->stalled);
	transport.busyPeer = -1;
	turnOf(&a);
	EXPECT(transport.held == 6 && raised(1, 0) == 0 && a.done[1] == 1);
	EXPECT(transport.work[3]->ticket == 1 && transport.work[5]->ticket == 3);
	land(5);
	land(4);
	EXPECT(raised(1, 0) == 1 && a.done[1] == 1 && a.counters[0] == 1);
	EXPECT(a.resultTickets[0] == 4 && a.results[0] == 0);
	land(3);
	turnOf(&a);
	EXPECT(raised(1, 0) == 2 && a.done[1] == 4 && a.done[RANKS] == 4 && a.counters[0] == 3);
	closeAll();
}

/* Neither the word of a lost message nor a later work is reported as done. */
static void unorderedLoss(void)
{
	openAll();
	lanes.lane[0].order = transportUnordered;
	transport.holds = 1;
	postSignal(&a, ginRaiseStrongId, 1, 1);
	putByte(&a, 1, 0, 10, 0, 1);
	postAtomic(&a, ginOpFetchAdd, 1, 8, 5, 0, 1);
	EXPECT(turnOf(&a) == 3 && transport.held == 2);
	land(1); /* the put; then the atomic is sent */
	EXPECT_EQUAL(transport.held, 3);
	transport.failingPeer = 1;
	land(0);
	transport.failingPeer = -1;
	land(2); /* the failure does not take back its old value */
	turnOf(&a);
	expectFailed(&a, 1, ginErrorSystem);
	EXPECT_EQUAL(a.counters[0], 0);
	EXPECT(a.resultTickets[0] == 3 && a.engine->retired == 3);
	postSignal(&a, ginRaiseStrongId, 1, 1);
	turnOf(&a);
	EXPECT(transport.held == 3 && a.engine->retired == 4);
	closeAll();
}

/* An ordered transport gets the word with the data, unless an earlier get is in flight. */
static void orderedWords(void)
{
	openAll();
	lanes.lane[0].order = transportOrdered;
	transport.holds = 1;
	putByte(&a, 1, 0, 10, ginRaiseStrongId, 1); /* transport.work[0] */
	postSignal(&a, ginRaiseStrongId, 1, 1);	    /* transport.work[1] */
	postGet(&a, 1, 3, 64);			    /* transport.work[2] */
	putByte(&a, 1, 2, 12, ginRaiseStrongId, 1); /* transport.work[3] */
	putByte(&a, 1, 3, 13, ginRaiseWeakId, 1);   /* transport.work[4] */
	EXPECT(turnOf(&a) == 5 && transport.held == 5);
	for (unsigned i = 0; i < 5; i++)
		EXPECT_EQUAL(transport.work[i]->wordState == wordUnderWay,
			     i == 0 || i == 1 || i == 4);
	land(1);
	land(0);
	EXPECT(raised(1, 0) == 2 && a.done[1] == 2);
	land(3);
	land(4);
	EXPECT(raised(1, 0) == 3 && transport.held == 5 && a.done[1] == 2);
	land(2); /* the get; now the word of the put after it may go */
	EXPECT(transport.held == 6 && raised(1, 0) == 3);
	land(5);
	turnOf(&a);
	EXPECT(raised(1, 0) == 4 && a.done[1] == 5);
	postSignal(&a, ginRaiseStrongId, 1, 1);
	EXPECT(turnOf(&a) == 1 && transport.work[6]->wordState == wordUnderWay);
	closeAll();
}

/* Values from 2^b on are in bucket b, and those beyond the last bucket in it. */
static void histograms(void)
{
	enum { last = GIN_HISTOGRAM_BUCKETS - 1 };
	struct proxyStats s = {.completed = 0};
	ginStats_t out = GIN_STATS_INIT;

	for (int bit = 0; bit < 64; bit++)
		statsBatch(&s, 1ull << bit);
	statsBatch(&s, 0);
	statsRead(&s, &out);
	for (int b = 1; b < last; b++)
		EXPECT_EQUAL(out.batch.bucket[b], 1);
	EXPECT_EQUAL(out.batch.bucket[0], 2);
	EXPECT_EQUAL(out.batch.bucket[last], 64 - last);
	EXPECT_EQUAL(out.batch.count, 65);
	EXPECT_EQUAL(out.takenToReleased.count, 0);
	EXPECT(out.batch.most == 1ull << 63);
}

int main(void)
{
	setenv("GIN_LOG", "error", 1); /* the test reads the sentence */
	expectChild("laps of the ring", laps);
	expectChild("a descriptor that is half there", halfWritten);
	expectChild("strong signals, barriers and atomics wait, weak ones do not",
		    strongWaitsForEarlier);
	expectChild("the word of all peers is the lowest", lowestOfAll);
	expectChild("all that can be under way is", allUnderWay);
	expectChild("atomics", atomics);
	expectChild("a corrupt descriptor", corrupt);
	expectChild("a transport without room", busyTransport);
	expectChild("words on a network without order", unorderedWords);
	expectChild("words that are lost", unorderedLoss);
	expectChild("words on an ordered network", orderedWords);
	expectChild("a peer that fails when it is sent to", failingAtStart);
	expectChild("a peer that fails later", failingLater);
	expectChild("histograms", histograms);
	return expectFailures != 0;
}
