/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_proxy_proofs.c - the network of the proxy, where strangers can send: what no rank of the
 * communicator has sent, or has sent before, changes nothing
 *
 * Messages are taken from the sender's lane, changed and given to the receiver's. Then a stranger
 * sends over TCP by libfabric, to the endpoints of two ranks that exchange signals and atomics.
 */
/* NEEDS: libgin-weak.so libgin-ofi.so */
#include "network_rig.h"

#include <unistd.h>

static struct {
	unsigned char bytes[FABRIC_MESSAGE];
	uint32_t length;
} sent;

static int takeSent(struct fabricEnd *end, uint64_t peer, const void *message, size_t bytes)
{
	(void)end, (void)peer;
	memcpy(sent.bytes, message, bytes);
	sent.length = (uint32_t)bytes;
	return fabricOk;
}

/* Two ranks; what rank 0 sends is in `sent`. */
static struct networkLane *openTaken(void)
{
	static struct fabricCalls taken;

	setenv("WEAK_STRANGERS", "1", 1);
	setenv("WEAK_ORDERED", "1", 1);
	rigStart(1);
	taken = *sideLane(&side[0])->fabric;
	taken.send = takeSent;
	sideLane(&side[0])->fabric = &taken;
	return sideLane(&side[1]);
}

static const struct message messages[] = {
	{.kind = messageWord, .op = ginOpSignal, .bytes = 8, .operand = 1},
	{.kind = messageWord, .op = ginOpCompareSwap, .bytes = 8, .operand = 1},
	{.kind = messagePut, .op = ginOpPut, .bytes = MESSAGE_DATA, .operand = 1, .target = 64},
	{.kind = messageCursor},
};

#define KINDS (sizeof(messages) / sizeof(messages[0]))

/* With the next number, in `sent`. Rank 0 then counts it as sent. */
static void makeMessage(struct message m, uint32_t number)
{
	struct networkLane *lane = sideLane(&side[0]);
	struct messageChannel *c = networkChannelOpen(lane, 1);

	m.cursor = c->expected;
	m.number = c->next += number;
	memset(m.data, 7, sizeof(m.data));
	EXPECT_EQUAL(networkTransmit(lane, &lane->peer[1], &m), fabricOk);
	free(c);
	lane->peer[1].channel = NULL;
}

/* Nothing at rank 1 changes but the count. */
static void expectDropped(struct networkLane *lane, const unsigned char *bytes, uint32_t length)
{
	static struct sideMemory before;
	static struct messageChannel was;
	const struct networkPeer peer = lane->peer[0];
	uint64_t forged = lane->forged;

	before = side[1].memory;
	if (peer.channel)
		memcpy(&was, peer.channel, sizeof(was));
	networkReceive(lane, bytes, length);
	EXPECT_EQUAL(lane->forged, forged + 1);
	EXPECT(!memcmp(&before, &side[1].memory, sizeof(before)));
	EXPECT(lane->peer[0].channel == peer.channel && lane->peer[0].owes == peer.owes);
	EXPECT(!peer.channel || !memcmp(peer.channel, &was, sizeof(was)));
	EXPECT(!side[1].failures);
}

static void flip(struct networkLane *lane)
{
	unsigned char bytes[FABRIC_MESSAGE];

	for (uint32_t bit = 0; bit < 8 * sent.length; bit++) {
		memcpy(bytes, sent.bytes, sizeof(bytes));
		bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
		expectDropped(lane, bytes, sent.length);
	}
	for (uint32_t length = 0; length <= sizeof(bytes); length++) {
		memset(bytes, 0, sizeof(bytes));
		memcpy(bytes, sent.bytes, length < sent.length ? length : sent.length);
		if (length != sent.length)
			expectDropped(lane, bytes, length);
	}
}

/* Each bit of each message, and each length; then the message itself, twice. */
static void changed(void)
{
	struct networkLane *lane = openTaken();
	uint64_t *word = side[1].memory.word[0];

	for (uint32_t i = 0; i < KINDS; i++) {
		makeMessage(messages[i], i);
		flip(lane);
		flip(lane); /* nothing has come before by a wrong message */
		uint64_t forged = lane->forged;
		networkReceive(lane, sent.bytes, sent.length);
		uint64_t now = *word;
		networkReceive(lane, sent.bytes, sent.length);
		EXPECT_EQUAL(lane->forged, forged);
		EXPECT_EQUAL(*word, now);
	}
	EXPECT_EQUAL(*word, 2); /* of the first and the third message */
	EXPECT_EQUAL(((unsigned char *)side[1].memory.word)[64 + MESSAGE_DATA - 1], 7);
	EXPECT(!side[1].failures);
	rigStop();
}

/* A message for one lane of one rank is of no use elsewhere, or when its number comes again. */
static void elsewhere(void)
{
	struct networkLane *lane = openTaken(), *own = sideLane(&side[0]);

	makeMessage(messages[0], 0);
	networkReceive(own, sent.bytes, sent.length); /* to its sender, in the receiver's name: */
	sent.bytes[offsetof(struct message, rank)] = 1;
	networkReceive(own, sent.bytes, sent.length);
	EXPECT_EQUAL(own->forged, 2);
	sent.bytes[offsetof(struct message, rank)] = 0;
	lane->index = 1;
	networkMakeKeys(lane, 0);
	expectDropped(lane, sent.bytes, sent.length);
	lane->index = 0;
	side[1].host.rank = 2;
	networkMakeKeys(lane, 0);
	expectDropped(lane, sent.bytes, sent.length);
	side[1].host.rank = 1;
	networkMakeKeys(lane, 0);
	networkReceive(lane, sent.bytes, sent.length);
	EXPECT_EQUAL(side[1].memory.word[0][0], 1);
	lane->peer[0].channel->expected--; /* 2^32 messages later */
	lane->peer[0].channel->begun--;
	lane->peer[0].channel->expectedLap++;
	expectDropped(lane, sent.bytes, sent.length);
	lane->peer[0].channel->expectedLap--;
	lane->peer[0].channel->nextLap++; /* of the cursor */
	expectDropped(lane, sent.bytes, sent.length);
	lane->peer[0].channel->nextLap--;
	networkReceive(lane, sent.bytes, sent.length);
	EXPECT_EQUAL(side[1].memory.word[0][0], 2);
	rigStop();
}

static void immediates(void)
{
	struct networkLane *lane = openTaken();

	networkReceiveImmediate(lane, 0, 0);
	networkReceiveImmediate(lane, 99, UINT32_MAX);
	EXPECT_EQUAL(lane->forged, 2);
	EXPECT(!side[1].memory.word[0][0] && !side[1].failures && !lane->peer[0].channel);
	rigStop();
}

static struct {
	const struct fabricCalls *calls;
	struct fabric *fabric;
	struct fabricEnd *end;
	uint64_t peer[RANKS_OF_RIG], sent[RANKS_OF_RIG];
} stranger;

/* It is told the addresses; a port scan finds them, too. */
static void openStranger(void)
{
	unsigned char address[FABRIC_ADDRESS];
	struct fabricAbout about;
	char why[FABRIC_WHY] = "";

	stranger.calls = networkLoaded(rigPlugin, &about);
	EXPECT(stranger.calls != NULL);
	const struct fabricWanted want = {
		.provider = about.provider, .interface = "lo", .address = "127.0.0.1"};
	EXPECT_EQUAL(stranger.calls->open(&want, &stranger.fabric, why), fabricOk);
	EXPECT_EQUAL(stranger.calls->endOpen(stranger.fabric, &stranger.end, address, why),
		     fabricOk);
	for (int r = 0; r < RANKS_OF_RIG; r++)
		EXPECT_EQUAL(stranger.calls->connect(stranger.end, rigAddress[r], &stranger.peer[r],
						     why),
			     fabricOk);
}

static void turnAll(void)
{
	struct fabricEvent event[8];

	sideTurn(&side[0]);
	sideTurn(&side[1]);
	stranger.calls->poll(stranger.end, event, 8);
}

/* In the name of the other rank, with the number that comes next, and some later ones. */
static void forge(uint32_t to, const struct message *m, uint32_t ahead)
{
	const struct messageChannel *c = sideLane(&side[to])->peer[1 - to].channel;
	unsigned char bytes[FABRIC_MESSAGE] = {0};
	struct message forged = *m;

	forged.rank = 1 - to;
	forged.number = (c ? c->expected : FIRST_SERIAL) + ahead;
	forged.cursor = FIRST_SERIAL + ahead;
	memcpy(bytes, &forged, messageLength(m));
	uint32_t length = (uint32_t)messageLength(m) + (ahead % 2 ? MESSAGE_PROOF : 0);
	while (stranger.calls->send(stranger.end, stranger.peer[to], bytes, length) != fabricOk)
		turnAll();
	stranger.sent[to]++;
}

static void postBoth(struct side *s)
{
	postTo(s, (uint64_t[8]){word0(ginOpSignal, ginRaiseStrongId, s->other->rank, 0), 0, 0, 0, 0,
				0, STRONG, 1});
	postTo(s, (uint64_t[8]){word0(ginOpFetchAdd, 0, s->other->rank, 8),
				inData(s, offsetof(struct sideMemory, added)), 1, 0, 1});
}

static int areDone(void)
{
	for (int r = 0; r < RANKS_OF_RIG; r++)
		if (side[r].ring.done[RANKS_OF_RIG] != side[r].postedCount ||
		    sideLane(&side[r])->forged < stranger.sent[r])
			return 0;
	return 1;
}

#define ROUNDS 50u

/* GIN_TRANSPORT=ofi: every answer comes, and each signal once. */
static void overTcp(void)
{
	char why[BACKEND_WHY];

	if (!networkPlugin("ofi", why)) {
		printf("left out: a stranger, over TCP: %s\n", why);
		return;
	}
	setenv("GIN_TRANSPORT", "ofi", 1);
	setenv("GIN_LOG", "none", 1);
	rigPlugin = "ofi";
	rigStart(1);
	openStranger();
	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (uint32_t i = 0; i < 4 * KINDS; i++)
			forge(i % 2, &messages[i / 4], round % 3 + i % 4 / 2);
		postBoth(&side[0]);
		postBoth(&side[1]);
		while (!areDone())
			turnAll();
	}
	for (uint32_t r = 0; r < RANKS_OF_RIG; r++) {
		EXPECT_EQUAL(side[r].memory.word[STRONG][0], ROUNDS);
		EXPECT_EQUAL(side[r].memory.added, ROUNDS);
		EXPECT_EQUAL(side[r].ring.results[0], ROUNDS - 1);
		EXPECT_EQUAL(sideLane(&side[r])->forged, stranger.sent[r]);
		EXPECT(!side[r].failures);
	}
	stranger.calls->endClose(stranger.end);
	stranger.calls->close(stranger.fabric);
	rigStop();
}

int main(void)
{
	setenv("GIN_LOG", "error", 1);
	setenv("GIN_TRANSPORT", "weak", 1);
	setenv("WEAK_SEED", "1", 1);
	alarm(60);
	expectChild("messages that are changed", changed);
	expectChild("messages that are sent elsewhere, and again", elsewhere);
	expectChild("immediates", immediates);
	expectChild("a stranger, over TCP", overTcp);
	return expectFailures != 0;
}
