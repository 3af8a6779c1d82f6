/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_proxy_messages.c - the network of the proxy: what a peer sends is checked, what cannot be opened
 * fails in words, a lane does not poll between a signal and the answer to it, and a cursor waits for
 * the answer
 */
#include "network_rig.h"

static int dataIsLocal;

/* What a peer sends is wrong: it is refused in words, and no byte changes. */
static void expectRefused(struct message m, const char *why)
{
	rigStart(1);
	m.rank = 1;
	side[0].data->isLocal = (uint8_t)dataIsLocal;
	struct sideMemory before = side[0].memory;
	while (!side[0].failures) {
		networkReceive(side[0].lanes.lane[TRANSPORT_NETWORK].state,
			       (const unsigned char *)&m, sizeof(m));
		expectThat(side[0].failures, __FILE__, __LINE__, "not refused: %s", why);
	}
	EXPECT_HAS(side[0].why, why);
	EXPECT(!memcmp(&before, &side[0].memory, sizeof(before)));
	rigStop();
}

static uint64_t named(uint32_t slot, uint64_t offset)
{
	return (uint64_t)slot << GIN_DESCRIPTOR_OFFSET_BITS | offset;
}

static void wrongMessages(void)
{
	struct message m = {.kind = messageWord, .op = ginOpSignal, .bytes = 8, .operand = 1};
	uint64_t end = sizeof(struct sideMemory);

	m.named = named(7, 0);
	expectRefused(m, "a window that is not registered");
	m.named = named(1, end - 4);
	expectRefused(m, "beyond the end of a window");
	m.named = named(1, end + 8);
	expectRefused(m, "beyond the end of a window");
	m.named = named(1, 4);
	expectRefused(m, "not aligned");
	m.named = named(2, 0);
	expectRefused(m, "a word in GPU memory");
	m.named = named(1, 0);
	m.op = ginOpGet;
	expectRefused(m, "nothing that is known");
	m.op = ginOpSignal;
	m.bytes = 4;
	expectRefused(m, "nothing that is known");
	m.bytes = 8;
	m.number = MESSAGES;
	expectRefused(m, "beyond the window");
	m.number = 0;
	m.cursor = 1;
	expectRefused(m, "acknowledges what was not sent");
	m.cursor = 0;
	m.kind = 9;
	expectRefused(m, "no known kind");
}

/* Of 32 bits: a number that is not the next one says that something is lost. */
static void wrongImmediate(void)
{
	const struct messageChannel theirs = {.next = 1};
	struct proxyWork w = {.op = ginOpPut, .addend = 1};

	setenv("WEAK_ORDERED", "1", 1);
	setenv("WEAK_IMMEDIATES", "32", 1);
	rigStart(1);
	w.word.window = side[1].words;
	uint64_t immediate = messageImmediate(&theirs, 1, &w, 32);
	networkReceiveImmediate(side[0].lanes.lane[TRANSPORT_NETWORK].state, 1, immediate);
	EXPECT_HAS(side[0].why, "it is not the next immediate");
	EXPECT_EQUAL(*wordOf(&side[0], STRONG), 0);
	rigStop();
}

/* GIN_WINDOW_LOCAL: the memory may be such that a write to it ends this process. */
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

/* The word is right, and what comes with it is not. */
static void wrongData(void)
{
	struct message m = {.kind = messagePut, .op = ginOpPut, .bytes = 8, .operand = 1};
	uint64_t end = sizeof(struct sideMemory);

	m.named = named(1, 0);
	m.dataBytes = 8;
	m.target = named(7, 0);
	expectRefused(m, "a window that is not registered");
	m.target = named(1, end - 4);
	expectRefused(m, "beyond the end of a window");
	m.target = named(2, 0);
	expectRefused(m, "its data is for GPU memory");
	m.target = named(1, 0);
	m.dataBytes = MESSAGE_DATA + 1;
	expectRefused(m, "its data is not whole");
	m.dataBytes = UINT64_MAX;
	expectRefused(m, "its data is too long");
}

static void wrongSlots(void)
{
	struct message m = {.kind = messageLanded, .named = named(1, 0)};

	setenv("GIN_BOUNCE", "always", 1);
	m.operand = messageSlot(BOUNCE_LANDINGS_MOST, 8);
	expectRefused(m, "a slot that does not exist");
	m.operand = messageSlot(0, 262144 + 1);
	expectRefused(m, "a slot that does not exist");
	m.operand = messageSlot(0, 8);
	m.named = named(7, 0);
	expectRefused(m, "a window that is not registered");
	m.named = named(1, sizeof(struct sideMemory) - 4);
	expectRefused(m, "beyond the end of a window");
	m.kind = messageFetch;
	expectRefused(m, "beyond the end of a window");
	m.named = named(1, 0);
	m.operand = messageSlot(BOUNCE_LANDINGS_MOST / 2, 8);
	expectRefused(m, "a slot that does not exist");
	m.operand = messageSlot(0, 262144 + 1);
	expectRefused(m, "a slot that does not exist");
	m.kind = messageValue;
	m.bytes = 17;
	expectRefused(m, "its value is too long");
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
static int polls, sends;

static int countPoll(struct fabricEnd *end, struct fabricEvent *events, int most)
{
	polls++;
	return polled->poll(end, events, most);
}

static int countSend(struct fabricEnd *end, uint64_t peer, const void *message, size_t bytes)
{
	sends++;
	return polled->send(end, peer, message, bytes);
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

/* Does the lane poll, if it is asked to at once after a signal of rank 1? Not if the test was slow. */
static int pollsAfterSignal(struct networkLane *lane, uint32_t number, uint32_t wantsAnswer)
{
	const struct message m = {.kind = messageWord,
				  .op = wantsAnswer ? ginOpFetchAdd : ginOpSignal,
				  .bytes = 8,
				  .operand = 1,
				  .rank = 1,
				  .number = number,
				  .wantsAnswer = (uint8_t)wantsAnswer,
				  .named = named(1, 0)};

	networkReceive(lane, (const unsigned char *)&m, sizeof(m));
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

/* Of `told`: messages with a number; cursors; immediates. */
static struct {
	struct networkLane *lane;
	uint32_t numbered, cursors, immediates, cursor;
	uint64_t immediate;
} told;

static int noteSend(struct fabricEnd *end, uint64_t peer, const void *message, size_t bytes)
{
	const struct message *m = message;

	(void)end, (void)peer, (void)bytes;
	told.numbered += m->kind != messageCursor;
	told.cursors += m->kind == messageCursor;
	told.cursor = m->cursor;
	return fabricOk;
}

static int noteWrite(struct fabricEnd *end, uint64_t peer, const struct fabricPiece *piece,
		     const uint64_t *immediate, void *context)
{
	(void)end, (void)peer, (void)piece, (void)context;
	told.immediates += immediate != NULL;
	told.immediate = immediate ? *immediate : 0;
	return fabricOk;
}

static int noEvent(struct fabricEnd *end, struct fabricEvent *events, int most)
{
	(void)end, (void)events, (void)most;
	return 0;
}

static void openNoted(const char *bits)
{
	static struct fabricCalls noted;

	setenv("WEAK_ORDERED", "1", 1);
	setenv("WEAK_IMMEDIATES", bits, 1);
	rigStart(1);
	told.lane = side[0].lanes.lane[TRANSPORT_NETWORK].state;
	noted = *told.lane->fabric;
	noted.send = noteSend;
	noted.write = noteWrite;
	noted.poll = noEvent;
	told.lane->fabric = &noted;
}

/* Rank 1 raises a signal, and no kernel answers for so many turns. Returns the cursors sent. */
static uint32_t cursorsAfterSignal(uint32_t turns)
{
	static uint32_t number;
	const struct message m = {.kind = messageWord,
				  .op = ginOpSignal,
				  .bytes = 8,
				  .operand = 1,
				  .rank = 1,
				  .number = number++,
				  .named = named(1, 0)};

	networkReceive(told.lane, (const unsigned char *)&m, MESSAGE_SHORT);
	told.numbered = told.cursors = told.immediates = 0;
	while (turns--)
		sideTurn(&side[0]);
	return told.cursors;
}

/* The kernel answers by a put and a signal. */
static void answer(uint64_t bytes)
{
	postTo(&side[0], (uint64_t[8]){word0(ginOpPut, ginRaiseStrongId, 1, 0), inHost(&side[0], 0),
				       inHost(&side[0], 0), bytes, 0, 0, STRONG, 1});
	sideTurn(&side[0]);
}

/* An answer of 8 bytes is a message, and carries the cursor. */
static void answered(void)
{
	openNoted("64");
	EXPECT_EQUAL(cursorsAfterSignal(20), 1); /* nobody is known to answer */
	answer(8);
	for (uint32_t i = 2; i < 10; i++) {
		EXPECT_EQUAL(cursorsAfterSignal(20), 0);
		answer(8);
		EXPECT_EQUAL(told.numbered, 1);
		EXPECT_EQUAL(told.cursor, i);
		EXPECT_EQUAL(told.cursors, 0);
	}
	rigStop();
}

/* A longer answer is a write with an immediate, which carries the cursor too. */
static void answeredAtLength(const char *bits)
{
	const struct messageChannel theirs = {.next = 3, .acknowledged = 1};

	openNoted(bits);
	cursorsAfterSignal(20);
	answer(CELL_BYTES);
	EXPECT_EQUAL(cursorsAfterSignal(20), 0);
	answer(CELL_BYTES);
	EXPECT_EQUAL(told.immediates, 1);
	EXPECT_EQUAL(told.cursors, 0);
	EXPECT_EQUAL(
		messageOfImmediate(&theirs, 0, told.immediate, told.lane->immediateBits).cursor, 2);
	rigStop();
}

static void answeredBy32(void)
{
	answeredAtLength("32");
}

static void answeredBy64(void)
{
	answeredAtLength("64");
}

/* An immediate of 64 bits that something has overtaken is as good as one that comes in time. */
static void overtaken(void)
{
	const struct messageChannel early = {.next = 7, .expected = 3, .cursorSent = 2};
	const struct messageChannel own = {.come = 9, .acknowledged = 5, .next = 5};
	struct proxyWork w = {.op = ginOpPut, .addend = 1};

	openNoted("64");
	w.word.window = side[1].words;
	const struct message m =
		messageOfImmediate(&own, 1, messageImmediate(&early, 1, &w, 64), 64);
	EXPECT_EQUAL(m.number, 7);
	EXPECT_EQUAL(m.cursor, 3);
	rigStop();
}

/* The cursors of a rank that no longer answers soon go at once, but for one now and then. */
static void unanswered(void)
{
	uint32_t late = 0;

	openNoted("64");
	cursorsAfterSignal(20);
	answer(8);
	for (int i = 0; i < 1000; i++) {
		late += !cursorsAfterSignal(10);
		while (!told.cursors)
			sideTurn(&side[0]);
		for (int k = 0; k < 10; k++)
			sideTurn(&side[0]);
		answer(8); /* 20 turns later or more */
	}
	EXPECT(late > 0);
	EXPECT(late < 20);
	rigStop();
}

int main(void)
{
	setenv("GIN_LOG", "error", 1);
	setenv("GIN_TRANSPORT", "weak", 1);
	setenv("WEAK_SEED", "1", 1);
	expectChild("a signal that may be answered", glances);
	expectChild("a cursor that travels with the answer", answered);
	expectChild("a cursor in an immediate of 32 bits", answeredBy32);
	expectChild("a cursor in an immediate of 64 bits", answeredBy64);
	expectChild("an immediate that is overtaken", overtaken);
	expectChild("a cursor that no answer carries", unanswered);
	expectChild("an immediate with a wrong number", wrongImmediate);
	expectChild("wrong messages", wrongMessages);
	expectChild("wrong messages with data", wrongData);
	expectChild("messages for local windows", localWindows);
	expectChild("wrong messages about slots", wrongSlots);
	expectChild("pinned memory that is refused", refusedPins);
	expectChild("a pool that is too small", smallPool);
	return expectFailures != 0;
}
