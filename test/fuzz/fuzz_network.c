/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_network.c - messages and immediates that a peer sends to the proxy over a network
 *
 * Two ranks of one thread, on the weak network. An input is a list of steps: rank 0 gets a message
 * of the input's, as if rank 1 had sent it; the ranks post and make passes. Memory next to the
 * windows of rank 0 does not change, and the ranks can be closed at any moment. fuzz_bounce: data
 * goes through slots.
 */
/* NEEDS: libgin-weak.so */
#include "fuzz.h"

#define RIG_IS_SMALL
#include "test/unit/network_rig.h"

#ifndef FUZZ_BOUNCE
#define FUZZ_BOUNCE "auto"
#define FUZZ_ORDERED "1" /* then there are immediates */
#define FUZZ_CUDA NULL
#endif

static struct networkLane *laneOf(const struct side *s)
{
	return s->lanes.lane[TRANSPORT_NETWORK].state;
}

/* A window, and an offset that is often near its end. */
static uint64_t anySpot(struct fuzzInput *in)
{
	uint8_t slot = fuzzByte(in), where = fuzzByte(in);
	uint64_t offset = fuzzShort(in);

	if (where & 1)
		offset = sizeof(struct sideMemory) - offset % 64;
	if (where & 2)
		offset &= ~(uint64_t)7;
	return (uint64_t)(slot % 6) << GIN_DESCRIPTOR_OFFSET_BITS | offset;
}

static void receiveMade(struct fuzzInput *in)
{
	const struct messageChannel *c = networkChannel(laneOf(&side[0]), 1);
	uint8_t odd = fuzzByte(in), ahead = fuzzByte(in);
	struct message m = {
		.kind = fuzzByte(in) % 9, .op = fuzzByte(in) % 10, .rank = odd & 1 ? 0 : 1};
	static const uint8_t sizes[] = {8, 4, 8, 16, 1, 32, 8, 0};

	EXPECT(c != NULL);
	m.bytes = sizes[odd >> 1 & 7];
	m.wantsAnswer = odd >> 4 & 1;
	m.number = c->expected + (odd & 32 ? ahead : 0);
	m.cursor = c->acknowledged + (odd & 64 ? ahead % 8 : 0);
	m.named = anySpot(in);
	m.operand = m.kind >= messageLanded ? messageSlot(fuzzByte(in) % 40, fuzzShort(in))
					    : fuzzByte(in);
	m.compare = fuzzByte(in);
	if (m.kind == messagePut) {
		m.target = anySpot(in);
		m.bytes = fuzzByte(in) % (MESSAGE_DATA + 2);
	}
	fuzzTake(in, m.data, sizeof(m.data));
	uint32_t length = odd & 128 ? fuzzByte(in) : (uint32_t)sizeof(m);
	networkReceive(laneOf(&side[0]), (const unsigned char *)&m, length);
}

static void receiveRaw(struct fuzzInput *in)
{
	struct fuzzInput part = fuzzPart(in, fuzzByte(in) % 128);
	unsigned char *copy = malloc(part.left + 1); /* a message ends where its memory ends */

	EXPECT(copy != NULL);
	memcpy(copy, part.at, part.left);
	networkReceive(laneOf(&side[0]), copy, (uint32_t)part.left);
	free(copy);
}

/* The rank posts a put, a value, a signal, or an atomic that wants its old value. */
static void postSome(struct fuzzInput *in, struct side *s)
{
	uint8_t what = fuzzByte(in), at = fuzzByte(in);
	uint64_t cell = offsetof(struct sideMemory, cell) + at * 8ul;
	uint64_t source = offsetof(struct sideMemory, source) + at * 8ul;
	uint64_t target = inData(s, cell), bytes = 1 + what * 16ul;
	const uint64_t some[4][GIN_DESCRIPTOR_WORDS] = {
		{word0(ginOpPut, ginRaiseStrongId, s->other->rank, 1), target, inData(s, source),
		 bytes, 0, 0, 0, 1},
		{word0(ginOpPutValue, ginRaiseWeakId, s->other->rank, what % 33), target, 1, 2, 3,
		 4, 1, 1},
		{word0(ginOpGet, 0, s->other->rank, 0), target, inData(s, source), bytes},
		{word0(ginOpFetchAdd, 0, s->other->rank, 8), inHost(s, cell), 1, 0, 1 + at % 8},
	};

	if (hasRoom(s))
		postTo(s, some[what % 4]);
}

/* A network without immediates loses a peer that sends one. */
static void receiveImmediate(struct fuzzInput *in, uint32_t rank)
{
	struct networkLane *lane = laneOf(&side[0]);

	networkReceiveImmediate(lane, rank, (uint32_t)fuzzWord(in));
	EXPECT(lane->hasImmediates || !rank || lane->peer[rank].isLost);
}

static void step(struct fuzzInput *in)
{
	uint8_t what = fuzzByte(in);

	switch (what % 8) {
	case 0:
	case 1:
	case 2:
		receiveMade(in);
		break;
	case 3:
		receiveRaw(in);
		break;
	case 4:
		receiveImmediate(in, what >> 3 & 1);
		break;
	case 5:
		postSome(in, &side[what >> 3 & 1]);
		break;
	default:
		sideTurn(&side[what >> 3 & 1]);
	}
}

/* The members of rank 0 before its memory, which no message may change. */
static void copyBefore(const void **out)
{
	const struct side *s = &side[0];
	const void *all[] = {s->network, s->words, s->data, s->shared, s->gpu, s->engine};

	memcpy(out, all, sizeof(all));
}

static void resetEngine(void)
{
	while (fakeEngine.streams)
		free(fakeEngine.stream[--fakeEngine.streams]);
	memset(&fakeEngine, 0, sizeof(fakeEngine));
}

static void fuzzOne(struct fuzzInput *in)
{
	const void *before[6], *after[6];

	setenv("GIN_TRANSPORT", "weak", 1);
	setenv("GIN_BOUNCE", FUZZ_BOUNCE, 1);
	setenv("GIN_BOUNCE_POOL", "65536", 1);
	setenv("GIN_BOUNCE_SLOT", "1024", 1);
	setenv("WEAK_SEED", "1", 1);
	setenv("WEAK_ORDERED", FUZZ_ORDERED, 1);
	setenv("WEAK_REUSE", "1", 1);
	errorQuiet(1);
	rigCuda = FUZZ_CUDA;
	rigStart(1);
	copyBefore(before);
	for (int steps = 0; in->left && steps < 300; steps++)
		step(in);
	for (int i = 0; i < 8; i++)
		sideTurn(&side[i & 1]);
	copyBefore(after);
	EXPECT(!memcmp(before, after, sizeof(before)));
	for (uint64_t i = side[0].postedCount; i < DEPTH; i++)
		EXPECT(!side[0].ring.place[i][0] && !side[0].ring.place[i][7]);
	rigStop();
	resetEngine();
}
