/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_proxy_messages.c - the network of the proxy: a peer's messages are checked, a network that
 * cannot be opened fails in words, peers alternate at words in GPU memory, and a transport's lane
 * does not poll between a signal and the answer to it
 */
/* NEEDS: libgin-weak.so */
#include "edges.h"
#define RIG_IS_SMALL
#include "network_rig.h"

#include <limits.h>

static int dataIsLocal;

/* Its number and its cursor count from the first ones. */
static void receive(struct message m)
{
	m.number += FIRST_SERIAL;
	m.cursor += FIRST_SERIAL;
	networkReceive(sideLane(&side[0]), (const unsigned char *)&m, sizeof(m));
}

/* A peer sends a wrong message: it is refused in words, and no byte changes. */
static void expectRefused(struct message m, const char *why)
{
	rigStart(1);
	m.rank = 1;
	side[0].data->isLocal = (uint8_t)dataIsLocal;
	struct sideMemory before = side[0].memory;
	receive(m);
	expectThat(side[0].failures, __FILE__, __LINE__, "not refused: %s", why);
	EXPECT_HAS(side[0].why, why);
	EXPECT(!memcmp(&before, &side[0].memory, sizeof(before)));
	rigStop();
}

static uint64_t named(uint32_t slot, uint64_t offset)
{
	return (uint64_t)slot << GIN_DESCRIPTOR_OFFSET_BITS | offset;
}

/* A peer's message is right, or it is refused in words. */
static void expectIf(int isRight, struct message m, const char *why)
{
	if (!isRight) {
		expectRefused(m, why);
		return;
	}
	rigStart(1);
	m.rank = 1;
	receive(m);
	expectThat(!side[0].failures, __FILE__, __LINE__, "refused: %s", side[0].why);
	rigStop();
}

/* The `bytes` that the message names at `name` may end where their window ends, and not later. */
static void expectEdges(struct message *m, uint64_t *name, uint64_t bytes)
{
	const uint64_t end = sizeof(struct sideMemory);

	FOR_EDGES (offset, end, bytes, GIN_DESCRIPTOR_OFFSET_BITS) {
		*name = named(1, offset);
		if (offset > end - bytes)
			expectRefused(*m, "beyond the end of a window");
		else
			expectIf(m->kind != messageWord || !(offset % 8), *m, "not aligned");
	}
	*name = named(1, 0);
}

static void wrongMessages(void)
{
	struct message m = {.kind = messageWord, .op = ginOpSignal, .bytes = 8, .operand = 1};

	m.named = named(7, 0);
	expectRefused(m, "a window that is not registered");
	expectEdges(&m, &m.named, 8);
	m.named = named(2, 0);
	expectRefused(m, "a word in GPU memory");
	m.named = named(1, 0);
	m.op = ginOpGet;
	expectRefused(m, "nothing that is known");
	m.op = ginOpSignal;
	m.bytes = 4;
	expectRefused(m, "nothing that is known");
	m.bytes = 8;
	FOR_EDGES (number, MESSAGES, 1, 32) { /* from 2^31 on it is one of the past */
		m.number = (uint32_t)number;
		expectIf(number < MESSAGES || number >> 31, m, "beyond the window");
	}
	m.number = 0;
	FOR_EDGES (cursor, 1, 1, 32) {
		m.cursor = (uint32_t)cursor;
		expectIf(!cursor || cursor >> 31, m, "acknowledges what was not sent");
	}
	m.cursor = 0;
	m.kind = 9;
	expectRefused(m, "no known kind");
}

/* GIN_WINDOW_LOCAL: a write to the memory may end this process. */
static void localWindows(void)
{
	struct message m = {.kind = messageWord, .op = ginOpSignal, .bytes = 8, .operand = 1};

	dataIsLocal = 1;
	setenv("GIN_BOUNCE", "always", 1);
	m.named = named(1, 0);
	expectRefused(m, "local to this rank");
	m.kind = messageValue;
	expectRefused(m, "local to this rank");
	m.operand = messageSlot(0, 8);
	m.kind = messageLanded;
	expectRefused(m, "local to this rank");
	m.kind = messageFetch;
	expectRefused(m, "local to this rank");
}

/* The word is right, and the data that comes with it is wrong. */
static void wrongData(void)
{
	struct message m = {.kind = messagePut, .op = ginOpPut, .bytes = 8, .operand = 1};

	m.named = named(1, 0);
	m.target = named(7, 0);
	expectRefused(m, "a window that is not registered");
	expectEdges(&m, &m.target, 8);
	m.target = named(2, 0);
	expectRefused(m, "its data is for GPU memory");
	m.target = named(1, 0);
	FOR_EDGES (bytes, MESSAGE_DATA, 0, 8) {
		m.bytes = (uint8_t)bytes;
		expectIf(bytes <= MESSAGE_DATA, m, "its data is not whole");
	}
}

static void wrongSlots(void)
{
	struct message m = {.kind = messageLanded, .named = named(7, 0)};

	setenv("GIN_BOUNCE", "always", 1);
	setenv("GIN_BOUNCE_SLOT", "1024", 1);
	rigStart(1);
	const struct bounceOffer offer = sideLane(&side[0])->bounce->offer;
	rigStop();
	m.operand = messageSlot(0, 8);
	expectRefused(m, "a window that is not registered");
	for (m.kind = messageLanded; m.kind <= messageFetch; m.kind++) {
		uint32_t slots = m.kind == messageLanded ? offer.landings : bounceGetsOf(&offer);
		m.operand = messageSlot(slots - 1, 8);
		expectEdges(&m, &m.named, 8);
		FOR_EDGES (slot, slots, 1, 32) {
			m.operand = messageSlot((uint32_t)slot, 8);
			expectIf(slot < slots, m, "a slot that does not exist");
		}
		FOR_EDGES (bytes, offer.slotBytes, 0, 32) {
			m.operand = messageSlot(0, (uint32_t)bytes);
			expectIf(bytes <= offer.slotBytes, m, "a slot that does not exist");
		}
	}
	m.kind = messageValue;
	m.bytes = 8;
	expectEdges(&m, &m.named, 8);
	FOR_EDGES (bytes, MESSAGE_VALUE, 0, 8) {
		m.bytes = (uint8_t)bytes;
		expectIf(bytes <= MESSAGE_VALUE, m, "its value is too long");
	}
}

/* A word goes by an immediate if each part of its name fits its field. */
static void immediates(void)
{
	struct messageChannel c = {.next = FIRST_SERIAL, .expected = FIRST_SERIAL};

	rigStart(1);
	struct proxyWork w = {.op = ginOpPut, .addend = 1, .word = {.window = side[1].data}};
	uint32_t *slot = &side[1].data->part[0].slot;
	for (int bit = 3; bit < GIN_DESCRIPTOR_OFFSET_BITS; bit++) {
		w.word.offset = 1ull << bit;
		EXPECT_EQUAL(messageFitsImmediate(&w), bit < 3 + 17);
		if (bit < 3 + 17)
			EXPECT_EQUAL(messageOfImmediate(&c, 1, messageImmediate(&c, &w)).named,
				     spotNamed(&w.word, 0));
	}
	w.word.offset = 4;
	EXPECT(!messageFitsImmediate(&w));
	w.word.offset = 8;
	for (*slot = 1; *slot < GIN_DESCRIPTOR_SLOTS; *slot *= 2)
		EXPECT_EQUAL(messageFitsImmediate(&w), *slot < 64);
	*slot = 1;
	rigStop();
}

/*
 * After a failure this rank has destroyed a window, and messages that name it are under way. They
 * change nothing, and the peer, which is healthy, is not lost: its later messages are done.
 */
static void lateMessages(void)
{
	static const uint8_t kinds[] = {messageWord, messagePut, messageValue, messageLanded,
					messageFetch};
	const struct message onTime = {.kind = messageWord,
				       .op = ginOpSignal,
				       .bytes = 8,
				       .rank = 1,
				       .number = 1 + 2 * sizeof(kinds),
				       .operand = 5,
				       .named = named(0, 0)};

	setenv("GIN_BOUNCE", "always", 1);
	rigStart(1);
	struct networkLane *lane = sideLane(&side[0]);
	struct sideMemory before = side[0].memory;
	receive((struct message){.kind = messageLanded,
				 .rank = 1,
				 .named = named(1, offsetof(struct sideMemory, pattern)),
				 .operand = messageSlot(0, 8)}); /* is not copied yet */
	slotsGive(&side[0].slots, side[0].data);
	networkReceiveAll(lane);
	for (uint32_t i = 0; i < 2 * sizeof(kinds); i++) {
		struct message m = {.kind = kinds[i / 2], .op = ginOpSignal, .bytes = 8, .rank = 1};
		m.number = 1 + i;
		m.wantsAnswer = m.kind == messageWord && i % 2;
		m.named = named(m.kind == messagePut && i % 2 ? 0 : 1, 0);
		m.target = named(m.kind == messagePut && i % 2 ? 1 : 0, 0);
		m.operand = m.kind >= messageLanded ? messageSlot(0, 8) : 1;
		receive(m);
	}
	EXPECT(!memcmp(&before, &side[0].memory, sizeof(before)));
	EXPECT_EQUAL(lane->late, 2 * sizeof(kinds));
	receive(onTime);
	EXPECT_EQUAL(*wordOf(&side[0], 0), 5);
	EXPECT_EQUAL(lane->peer[1].channel->expected, FIRST_SERIAL + onTime.number + 1);
	EXPECT_EQUAL(lane->peer[1].channel->endOwed, 0);
	EXPECT_EQUAL(side[0].failures, 0);
	slotsPublish(&side[0].slots, side[0].data);
	rigStop();
}

/* A peer asks for 1 to be added to a word of GPU memory. */
static void askFor(uint32_t rank, uint64_t *number, const void *word)
{
	uint64_t offset = (uint64_t)((const char *)word - (const char *)&side[0].memory);

	receive((struct message){.kind = messageWord,
				 .op = ginOpSignal,
				 .rank = rank,
				 .number = (uint32_t)(*number)++,
				 .named = named(2, offset),
				 .bytes = 8,
				 .operand = 1});
}

/* Rank 0 is its own peer, so that its lane has two peers. */
static struct networkLane *openForTwo(void)
{
	rigCuda = &fakeCuda;
	setenv("GIN_BOUNCE", "always", 1);
	rigStart(1);
	side[0].gpu->part[0].isChangeable = 1;
	side[0].serves[0] = 1;
	return side[0].lanes.lane[TRANSPORT_NETWORK].state;
}

/* Peers that always have a next request are served round robin. */
static void peersTakeTurns(void)
{
	struct networkLane *lane = openForTwo();
	const uint64_t *done[] = {&side[0].memory.added, &side[0].memory.turned};
	uint64_t asked[] = {0, 0};

	while (*done[0] + *done[1] < 200) {
		for (uint32_t r = 0; r < 2; r++)
			while (asked[r] < *done[r] + 4)
				askFor(r, &asked[r], done[r]);
		engineStep();
		bounceTurn(lane);
		EXPECT(*done[0] <= *done[1] + 1 && *done[1] <= *done[0] + 1);
	}
	side[0].serves[0] = 0;
	rigStop();
}

/* A peer that is lost while it waits is left out. */
static void lostWhileWaiting(void)
{
	struct networkLane *lane = openForTwo();
	const uint64_t *done[] = {&side[0].memory.added, &side[0].memory.turned};
	uint64_t asked[] = {0, 0};

	for (uint32_t r = 0; r < 2; r++)
		for (int i = 0; i < 4; i++)
			askFor(r, &asked[r], done[r]);
	networkLose(lane, 1, "the test says so");
	for (int turn = 0; turn < 1000; turn++) {
		engineStep();
		bounceTurn(lane);
	}
	EXPECT(*done[0] == 4 && *done[1] == 0);
	side[0].serves[0] = 0;
	rigStop();
}

static void openFails(const char *words)
{
	rigCuda = &fakeCuda;
	errorScope("ginCommInit", 0);
	rigSearch();
	sidePrepare(&side[0], 0, 1);
	EXPECT(transportNetwork.open(&side[0].scope, &side[0].network) != ginSuccess);
	EXPECT_HAS(ginGetLastError(), words);
	EXPECT_HAS(ginGetLastError(), "GIN_BOUNCE_POOL");
}

static void refusedPins(void)
{
	fakeEngine.pinsFail = 1; /* the first are the streams' counts */
	openFails("cannot pin 12582912 bytes, through which GPU memory reaches the network (weak): "
		  "the CUDA driver cannot pin 12582912 bytes of host memory");
}

static void smallPool(void)
{
	setenv("GIN_BOUNCE_POOL", "100", 1);
	openFails("GIN_BOUNCE_POOL is 100 bytes, too few for slots through which 2 ranks");
}

static const struct fabricCalls *polled;
static int polls, sends, refusesFrom = INT_MAX;

static int countPoll(struct fabricEnd *end, struct fabricEvent *events, int most)
{
	polls++;
	return polled->poll(end, events, most);
}

static int countSend(struct fabricEnd *end, uint64_t peer, const void *message, size_t bytes)
{
	sends++;
	return sends > refusesFrom ? fabricFailed : polled->send(end, peer, message, bytes);
}

static struct networkLane *slowLane(void)
{
	static struct fabricCalls slow;
	struct networkLane *lane;

	rigStart(1);
	lane = side[0].lanes.lane[TRANSPORT_NETWORK].state;
	polled = lane->fabric;
	slow = *polled;
	slow.poll = countPoll;
	slow.send = countSend;
	slow.pollsSlowly = 1;
	lane->fabric = &slow;
	return lane;
}

/* Does the lane poll right after a signal of rank 1? Returns 0 if the test was slow. */
static int pollsAfterSignal(struct networkLane *lane, uint32_t number, uint32_t wantsAnswer)
{
	receive((struct message){.kind = messageWord,
				 .op = wantsAnswer ? ginOpFetchAdd : ginOpSignal,
				 .bytes = 8,
				 .operand = 1,
				 .rank = 1,
				 .number = number,
				 .wantsAnswer = (uint8_t)wantsAnswer,
				 .named = named(1, 0)});
	lane->glancesUntil = lane->glancesUntil ? UINT64_MAX : 0; /* as long as the test needs */
	polls = sends = 0;
	networkChain(lane);
	networkReceiveAll(lane);
	return polls;
}

/* After a signal, neither a poll nor a cursor delays the answer of the kernel. */
static void glances(void)
{
	struct networkLane *lane = slowLane();

	EXPECT_EQUAL(pollsAfterSignal(lane, 0, 0), 0);
	EXPECT_EQUAL(sends, 0);
	lane->glancesUntil = 1; /* long ago */
	networkReceiveAll(lane);
	EXPECT_EQUAL(polls, 1);
	while (!sends)
		networkChain(lane);
	networkReceiveAll(lane);
	EXPECT_EQUAL(polls, 2);
	EXPECT_EQUAL(pollsAfterSignal(lane, 1, 1), 1);
	EXPECT(sends > 0); /* the old value is not delayed */
	rigStop();
}

/* The network refuses the message of a signal: the ticket fails, and the peer is lost. */
static void refusedMessage(void)
{
	slowLane();
	refusesFrom = 0;
	postTo(&side[0],
	       (uint64_t[8]){word0(ginOpSignal, ginRaiseStrongId, 1, 0), 0, 0, 0, 0, 0, STRONG, 1});
	for (int i = 0; i < 10; i++)
		sideTurn(&side[0]);
	EXPECT_EQUAL(sends, 1);
	EXPECT_EQUAL(side[0].ring.done[1], GIN_QUEUE_FAILED | ginErrorPeer);
	EXPECT_TEXT(side[0].why, "rank 1 (host host-1) is lost: its network refuses an operation");
	rigStop();
}

/* A peer is lost that has acknowledged none of the messages, whose numbers wrap around. */
static void lostWithMessages(void)
{
	enum { COUNT = 250 };
	struct networkLane *lane;

	rigStart(1);
	lane = sideLane(&side[0]);
	for (int i = 0; i < COUNT; i++)
		postTo(&side[0], (uint64_t[8]){word0(ginOpSignal, ginRaiseStrongId, 1, 0), 0, 0, 0,
					       0, 0, STRONG, 1});
	while (!lane->peer[1].channel || lane->peer[1].channel->next != FIRST_SERIAL + COUNT)
		sideTurn(&side[0]);
	networkLose(lane, 1, "the test says so");
	for (int i = 0; i < 100; i++)
		sideTurn(&side[0]);
	EXPECT(!engineIsBusy(side[0].engine));
	EXPECT_EQUAL(side[0].ring.done[1], GIN_QUEUE_FAILED | ginErrorPeer);
	rigStop();
}

/* A peer is lost that has acknowledged an atomic, and has not answered it. */
static void lostWithoutAnswer(void)
{
	struct messageChannel *c = NULL;
	struct networkLane *lane;

	rigStart(1);
	lane = sideLane(&side[0]);
	uint64_t word = (uint64_t)side[0].data->slot << GIN_DESCRIPTOR_OFFSET_BITS;
	postTo(&side[0], (uint64_t[8]){word0(ginOpFetchAdd, 0, 1, 8), word, 1, 0, 1});
	while (!c || c->next == FIRST_SERIAL) {
		sideTurn(&side[0]);
		c = lane->peer[1].channel;
	}
	c->acknowledged = c->next;
	networkLose(lane, 1, "the test says so");
	for (int i = 0; i < 100; i++)
		sideTurn(&side[0]);
	EXPECT(!engineIsBusy(side[0].engine));
	EXPECT(side[0].ring.resultTickets[0] & GIN_QUEUE_FAILED);
	rigStop();
}

int main(void)
{
	setenv("GIN_LOG", "error", 1);
	setenv("GIN_TRANSPORT", "weak", 1);
	setenv("WEAK_SEED", "1", 1);
	expectChild("a signal that may be answered", glances);
	expectChild("a message that is refused", refusedMessage);
	expectChild("messages to a peer that is lost", lostWithMessages);
	expectChild("an atomic at a peer that is lost", lostWithoutAnswer);
	expectChild("words by immediates", immediates);
	expectChild("wrong messages", wrongMessages);
	expectChild("wrong messages with data", wrongData);
	expectChild("late messages", lateMessages);
	expectChild("messages for local windows", localWindows);
	expectChild("wrong messages about slots", wrongSlots);
	expectChild("two peers at one word", peersTakeTurns);
	expectChild("a peer that is lost while it waits", lostWhileWaiting);
	expectChild("pinned memory that is refused", refusedPins);
	expectChild("a pool that is too small", smallPool);
	return expectFailures != 0;
}
