/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_descriptor.c - descriptors of the proxy's ring, which kernels write
 *
 * An input is a list of steps: a descriptor is posted, whole or torn; the transport is busy, holds
 * works, or fails. No work leaves the windows, the counters and the result slots, and each work is
 * completed once. At the end everything posted is done, or the context has failed.
 */
#include "fuzz.h"

#include "test/unit/proxy_rig.h"

static struct ring ring;
static struct proxyWork *held[2 * DEPTH];
static unsigned nHeld;
static int holds;
static uint8_t wordFrom[RANKS];

static int within(const void *at, uint64_t bytes, const void *whole, size_t size)
{
	uintptr_t offset = (uintptr_t)at - (uintptr_t)whole;

	return offset <= size && bytes <= size - offset;
}

static void expectInside(const void *at, uint64_t bytes, uint32_t rank)
{
	EXPECT(!bytes || within(at, bytes, rig.bytes[rank], BYTES) ||
	       within(at, bytes, rig.words64[rank], sizeof(rig.words64[rank])));
}

static void expectWord(const struct proxyWork *w)
{
	uint64_t bytes = w->op >= ginOpFetchAdd ? w->bytes : 8;
	const char *at = spotAddress(&w->word, w->peer);

	expectInside(at, bytes, w->peer);
	EXPECT((uintptr_t)at % bytes == 0);
}

static void expectOwn(const struct proxyWork *w)
{
	EXPECT(w->peer < RANKS);
	EXPECT(!w->counter || within(w->counter, 8, ring.counters, sizeof(ring.counters)));
	EXPECT(!w->oldValue || within(w->oldValue, 8, ring.results, sizeof(ring.results)));
	EXPECT(!w->resultTicket ||
	       within(w->resultTicket, 8, ring.resultTickets, sizeof(ring.resultTickets)));
}

/* Moves the bytes as a transport may: all of them are inside. */
static void moveBytes(const struct proxyWork *w)
{
	char *there = spotAddress(&w->there, w->peer);

	expectOwn(w);
	expectInside(there, w->bytes, w->peer);
	if (w->op == ginOpPutValue) {
		EXPECT(w->bytes <= sizeof(w->value));
		memmove(there, w->value, w->bytes);
		return;
	}
	EXPECT(w->op == ginOpPut || w->op == ginOpGet);
	expectInside(w->here.at, w->bytes, ME);
	if (w->bytes && w->op == ginOpGet)
		memmove(w->here.at, there, w->bytes);
	else if (w->bytes)
		memmove(there, w->here.at, w->bytes);
}

static ginResult_t start(void *state, struct proxyWork *w)
{
	(void)state;
	if ((int)w->peer == transport.busyPeer)
		return transportBusy;
	if ((int)w->peer == transport.failingPeer)
		return ginErrorSystem;
	if (!holds) {
		moveBytes(w);
		w->state = workLanded;
		return ginSuccess;
	}
	EXPECT(nHeld < 2 * DEPTH);
	held[nHeld++] = w;
	return ginSuccess;
}

static ginResult_t raiseWord(void *state, struct proxyWork *w)
{
	(void)state;
	expectWord(w);
	if ((int)w->peer == transport.busyPeer)
		return transportBusy;
	EXPECT(nHeld < 2 * DEPTH);
	held[nHeld++] = w;
	return ginSuccess;
}

static const struct transportOps ops = {.name = "fuzz", .start = start, .raise = raiseWord};
static struct transportLanes fuzzLanes = {
	.lane = {{&ops, NULL, transportHere}, {&ops, NULL, transportUnordered}}, .of = wordFrom};

/* A work that the transport holds has landed, or has failed. */
static void landOne(unsigned which)
{
	struct proxyWork *w = held[which];

	held[which] = held[--nHeld];
	if ((int)w->peer == transport.failingPeer) {
		w->result = ginErrorSystem;
	} else if (w->wordState == wordUnderWay) {
		expectWord(w);
		w->value[0] = wordChange(w->op, spotAddress(&w->word, w->peer), w->bytes,
					 workOperand(w), w->value[1]);
	} else if (w->op <= ginOpGet) {
		moveBytes(w);
	}
	engineLanded(w);
}

static void turn(void)
{
	uint64_t consumed = ring.consumed;

	turnOf(&ring);
	EXPECT(ring.consumed >= consumed && ring.consumed <= ring.posted);
	for (int r = 0; r <= RANKS; r++)
		EXPECT(ring.done[r] & GIN_QUEUE_FAILED || ring.done[r] <= ring.posted);
}

/* A random number, often near a limit. */
static uint64_t anyWord(struct fuzzInput *in)
{
	const struct proxyWindow *windows[] = {rig.words, rig.data, rig.gpu, rig.far, rig.gone};
	uint8_t kind = fuzzByte(in);

	switch (kind % 6) {
	case 0:
		return fuzzWord(in);
	case 1:
	case 2:
		return at(windows[kind / 6 % 5], fuzzShort(in) % (BYTES + 16));
	case 3:
		return (uintptr_t)rig.bytes[ME] + fuzzShort(in) % (BYTES + 16);
	case 4:
		return ~(uint64_t)fuzzByte(in);
	default:
		return fuzzByte(in);
	}
}

static int hasRoomFor(void)
{
	return ring.posted - ring.consumed < DEPTH;
}

static void postMade(struct fuzzInput *in)
{
	uint64_t full[GIN_DESCRIPTOR_WORDS];
	uint8_t op = fuzzByte(in), peer = fuzzByte(in), extra = fuzzByte(in);

	full[0] = word0(op % 16, op >> 4 & 7, peer % (RANKS + 1), extra % 40) |
		  (uint64_t)(op >> 7) << GIN_D0_ADDRESS;
	for (int i = 1; i < GIN_DESCRIPTOR_WORDS; i++)
		full[i] = anyWord(in);
	if (hasRoomFor())
		post(&ring, full);
}

/* As a kernel may write them. With `torn`, one word comes a pass later. */
static void postRaw(struct fuzzInput *in, int torn)
{
	uint64_t lap = ring.posted / DEPTH, phase = lap & 1 ? 0 : GIN_DESCRIPTOR_PHASE;
	uint64_t *slot = ring.place[ring.posted % DEPTH], words[GIN_DESCRIPTOR_WORDS];

	fuzzTake(in, words, sizeof(words));
	if (!hasRoomFor())
		return;
	for (int i = 0; i < GIN_DESCRIPTOR_WORDS; i++)
		slot[i] = (words[i] & ~GIN_DESCRIPTOR_PHASE) | phase;
	if (torn) {
		uint64_t *late = &slot[words[7] % GIN_DESCRIPTOR_WORDS], before = ring.posted;
		*late ^= GIN_DESCRIPTOR_PHASE;
		turn();
		EXPECT(ring.consumed <= before);
		*late ^= GIN_DESCRIPTOR_PHASE;
	}
	ring.posted++;
}

static void step(struct fuzzInput *in)
{
	uint8_t what = fuzzByte(in);

	switch (what % 8) {
	case 0:
	case 1:
	case 2:
		postMade(in);
		break;
	case 3:
		postRaw(in, what & 8);
		break;
	case 4:
		holds = what >> 3 & 1;
		transport.busyPeer = (what >> 4 & 3) - 1;
		break;
	case 5:
		if (what >= 224)
			transport.failingPeer = what >> 3 & 3;
		break;
	case 6:
		if (nHeld)
			landOne((what >> 3) % nHeld);
		break;
	default:
		turn();
	}
}

static void finish(void)
{
	holds = 0;
	transport.busyPeer = -1;
	for (int i = 0; i < 4 * DEPTH && ring.done[RANKS] != ring.posted; i++) {
		while (nHeld)
			landOne(nHeld - 1);
		turn();
		if (ring.done[RANKS] & GIN_QUEUE_FAILED)
			return;
	}
	EXPECT(!nHeld && !engineIsBusy(ring.engine));
	EXPECT(ring.consumed == ring.posted);
	for (int r = 0; r <= RANKS; r++)
		EXPECT(ring.done[r] & GIN_QUEUE_FAILED || ring.done[r] <= ring.posted);
}

static void fuzzOne(struct fuzzInput *in)
{
	static int isOpen;

	if (!isOpen++)
		rigOpen();
	errorQuiet(1);
	memset(&ring, 0, sizeof(ring));
	transport.failingPeer = transport.busyPeer = -1;
	wordFrom[2] = fuzzByte(in) & 1;
	nHeld = 0;
	holds = 0;
	ringOpen(&ring, 1);
	ring.engine->lanes = &fuzzLanes;
	for (int steps = 0; in->left && steps < 400; steps++)
		step(in);
	finish();
	engineFree(ring.engine);
}
