/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_proxy_descriptor.c - descriptors as a GPU may have written them: every wrong field is
 * refused, in words, and no random descriptor leads to an address outside of the windows
 *
 *	unit_proxy_descriptor [TRIES [SEED]]
 */
#include "edges.h"
#include "proxy_rig.h"

#define BEYOND "beyond the end of a window"
#define UNKNOWN "a window that is not registered"

static struct ring ring;
static struct descriptorScope scope;
static struct proxyWork work;

static char *thereAt(void)
{
	return spotAddress(&work.there, work.peer);
}

/* The word, or NULL. */
static void *wordAt(void)
{
	return work.wordState == wordDue ? spotAddress(&work.word, work.peer) : NULL;
}

static uint64_t random64(uint64_t *state)
{
	uint64_t x = *state += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static void expectResolves(const uint64_t *words)
{
	const char *wrong = descriptorResolve(&scope, words, &work);

	expectThat(!wrong, __FILE__, __LINE__, "a good one is refused: %s", wrong);
}

static void expectRefused(const char *why, const uint64_t *words)
{
	const char *wrong = descriptorResolve(&scope, words, &work);

	expectThat(wrong != NULL, __FILE__, __LINE__, "not refused: %s", why);
	EXPECT_HAS(wrong, why);
}

/* A descriptor is read as all words of a lap or none; full words keep all 64 bits. */
static void words(void)
{
	uint64_t state = 1, place[GIN_DESCRIPTOR_WORDS], full[GIN_DESCRIPTOR_WORDS];
	uint64_t seen[GIN_DESCRIPTOR_WORDS];

	for (int round = 0; round < 1000; round++) {
		uint64_t phase = round % 2 ? 0 : GIN_DESCRIPTOR_PHASE;
		for (int i = 0; i < GIN_DESCRIPTOR_WORDS; i++)
			full[i] = random64(&state);
		full[0] &= ~(GIN_DESCRIPTOR_PHASE | 31ull << GIN_D0_SPILL);
		full[1] &= ~GIN_DESCRIPTOR_PHASE;
		full[6] &= ~GIN_DESCRIPTOR_PHASE;
		writePlace(place, full, phase);
		for (int i = 0; i < GIN_DESCRIPTOR_WORDS; i++) {
			place[i] ^= GIN_DESCRIPTOR_PHASE;
			EXPECT(!descriptorTake(place, phase, seen));
			place[i] ^= GIN_DESCRIPTOR_PHASE;
		}
		EXPECT(descriptorTake(place, phase, seen));
		for (int i = 1; i < GIN_DESCRIPTOR_WORDS; i++)
			EXPECT_EQUAL(seen[i], full[i]);
		EXPECT_EQUAL(seen[0] & ~(31ull << GIN_D0_SPILL), full[0]);
		EXPECT(!descriptorTake(place, phase ^ GIN_DESCRIPTOR_PHASE, seen));
	}
}

static void goodPuts(void)
{
	uint64_t source = (uintptr_t)(rig.bytes[ME] + 5);
	uint64_t put[8] = {word0(ginOpPut, ginRaiseStrongId, 2, COUNTERS),
			   at(rig.data, 9),
			   at(rig.data, 5),
			   7,
			   0,
			   0,
			   SIGNALS - 1,
			   3};
	uint64_t from[8] = {word0(ginOpPut, ginRaiseWeakAt, 1, 0) | 1ull << GIN_D0_ADDRESS,
			    at(rig.gpu, 0),
			    source,
			    BYTES - 5,
			    0,
			    0,
			    at(rig.data, 8),
			    4};
	uint64_t value[8] = {word0(ginOpPutValue, 0, 1, 32), at(rig.data, BYTES - 32), 1, 2, 3, 4};

	expectResolves(put);
	EXPECT(work.peer == 2 && thereAt() == (char *)rig.bytes[2] + 9);
	EXPECT(work.here.at == (char *)rig.bytes[ME] + 5 && work.bytes == 7);
	EXPECT(work.counter == &ring.counters[COUNTERS - 1]);
	EXPECT(wordAt() == rig.words64[2][SIGNALS + SIGNALS - 1] && work.addend == 3);
	EXPECT(!work.isWeak);
	expectResolves(from);
	EXPECT(work.here.at == (char *)rig.bytes[ME] + 5 && work.counter == NULL);
	EXPECT(thereAt() == (char *)rig.bytes[1] && work.isWeak);
	EXPECT(wordAt() == (void *)(rig.bytes[1] + 8) && work.addend == 4);
	expectResolves(value);
	EXPECT(work.bytes == 32 && !memcmp(work.value, value + 2, 32) && !wordAt());
}

static void goodOthers(void)
{
	uint64_t get[8] = {word0(ginOpGet, 0, 1, 0), at(rig.data, 1), at(rig.gpu, 2), BYTES - 2};
	uint64_t barrier[8] = {word0(ginOpBarrier, 0, 1, 0), 2 * GIN_BARRIER_ROUNDS - 1, 9};
	uint64_t atomic[8] = {word0(ginOpCompareSwap, 0, 1, 4), at(rig.data, BYTES - 4), 5, 6,
			      GIN_QUEUE_RESULTS};
	uint64_t unheard[8] = {word0(ginOpSwap, 0, ME, 8), at(rig.data, 8), 5, 0, 0};

	expectResolves(get);
	EXPECT(thereAt() == (char *)rig.bytes[1] + 1 && work.here.at == (char *)rig.bytes[ME] + 2);
	EXPECT(work.bytes == BYTES - 2 && !work.here.byCpu);
	expectResolves(barrier);
	EXPECT(wordAt() == rig.words64[1][FIRST_BARRIER + 63] && work.value[0] == 9);
	expectResolves(atomic);
	EXPECT(wordAt() == (void *)(rig.bytes[1] + BYTES - 4) && work.bytes == 4);
	EXPECT(work.value[0] == 5 && work.value[1] == 6);
	EXPECT(work.oldValue == &ring.results[GIN_QUEUE_RESULTS - 1]);
	EXPECT(work.resultTicket == &ring.resultTickets[GIN_QUEUE_RESULTS - 1]);
	expectResolves((uint64_t[8]){word0(ginOpNothing, 0, 1, 0)});
	EXPECT(!wordAt() && !work.counter && !work.resultTicket && !work.bytes);
	expectResolves(unheard);
	EXPECT(!work.oldValue && !work.resultTicket);
}

/* `good` with one word changed. */
struct change {
	const char *why;
	int word;
	uint64_t to;
};

static void expectAllRefused(const uint64_t *good, const struct change *changes, size_t count)
{
	uint64_t bad[GIN_DESCRIPTOR_WORDS];

	expectResolves(good);
	for (size_t i = 0; i < count; i++) {
		memcpy(bad, good, sizeof(bad));
		bad[changes[i].word] = changes[i].to;
		expectRefused(changes[i].why, bad);
	}
}

#define EXPECT_ALL_REFUSED(good, changes)                                                          \
	expectAllRefused(good, changes, sizeof(changes) / sizeof((changes)[0]))

/* A part of a word: from bit `shift` on. What it says, it says from 0 on. */
struct part {
	const char *why;
	int word, shift, bits;
	uint64_t end, length, alignment;
};

/* `good` with each edge of one part. */
static void expectEdges(const uint64_t *good, const struct part *parts, size_t count)
{
	uint64_t changed[GIN_DESCRIPTOR_WORDS];

	for (const struct part *p = parts; p < parts + count; p++) {
		const uint64_t mask = UINT64_MAX >> (64 - p->bits) << p->shift;
		FOR_EDGES (value, p->end, p->length, p->bits) {
			memcpy(changed, good, sizeof(changed));
			changed[p->word] = (good[p->word] & ~mask) | value << p->shift;
			if (value > p->end - p->length)
				expectRefused(p->why, changed);
			else if (value % p->alignment)
				expectRefused("not aligned", changed);
			else
				expectResolves(changed);
		}
	}
}

#define EXPECT_EDGES(good, ...)                                                                    \
	expectEdges(good, (const struct part[]){__VA_ARGS__},                                      \
		    sizeof((const struct part[]){__VA_ARGS__}) / sizeof(struct part))

static void badHeads(void)
{
	const uint64_t good[8] = {word0(ginOpPut, 0, 1, 1), at(rig.data, 0), at(rig.data, 0), 8};
	const struct change changes[] = {
		{"names no operation", 0, word0(0, 0, 1, 1)},
		{"names no operation", 0, word0(10, 0, 1, 1)},
		{"names no operation", 0, word0(15, 0, 1, 1)},
		{"in no known way", 0, word0(ginOpPut, 5, 1, 1)},
		{"in no known way", 0, word0(ginOpPut, 7, 1, 1)},
		{"a counter that does not exist", 0, word0(ginOpPut, 0, 1, 1 << 24 | 1)},
	};

	EXPECT_ALL_REFUSED(good, changes);
	EXPECT_EDGES(good, {"a rank that does not exist", 0, GIN_D0_PEER, 20, RANKS, 1, 1},
		     {"a counter that does not exist", 0, GIN_D0_COUNTER, 30, COUNTERS, 0, 1});
}

static void badPlaces(void)
{
	const uint64_t put[8] = {word0(ginOpPut, 0, 2, 1), at(rig.data, 0), at(rig.data, 0), 8};
	const uint64_t get[8] = {word0(ginOpGet, 0, 2, 0), at(rig.data, 0), at(rig.data, 0), 8};
	const uint64_t value[8] = {word0(ginOpPutValue, 0, 2, 9), at(rig.data, 0), 1, 2, 3, 4};
	const struct change changes[] = {
		{UNKNOWN, 1, at(rig.gone, 0)},
		{UNKNOWN, 2, at(rig.gone, 0)},
		{UNKNOWN, 1, ~GIN_DESCRIPTOR_PHASE},
		{BEYOND, 3, 1ull << 47},
	};
	const struct change valueChanges[] = {
		{UNKNOWN, 1, at(rig.gone, 0)},
		{"does not reach", 1, at(rig.far, 0)},
	};

	for (int i = 0; i < 2; i++) {
		EXPECT_ALL_REFUSED(i ? get : put, changes);
		EXPECT_EDGES(i ? get : put, {BEYOND, 1, 0, GIN_DESCRIPTOR_OFFSET_BITS, BYTES, 8, 1},
			     {BEYOND, 2, 0, GIN_DESCRIPTOR_OFFSET_BITS, BYTES, 8, 1},
			     {BEYOND, 3, 0, 64, BYTES, 0, 1});
	}
	EXPECT_EDGES(value, {BEYOND, 1, 0, GIN_DESCRIPTOR_OFFSET_BITS, BYTES, 9, 1},
		     {"longer than 32 bytes", 0, GIN_D0_COUNTER, 30, 32, 0, 1});
	EXPECT_ALL_REFUSED(value, valueChanges);
	expectRefused("does not reach", (uint64_t[8]){put[0], at(rig.far, 0), at(rig.data, 0), 8});
	expectRefused(BEYOND, (uint64_t[8]){put[0], at(rig.data, BYTES + 1), at(rig.data, 0), 0});
}

static void badAddresses(void)
{
	uint64_t begin = (uintptr_t)rig.bytes[ME], none = (uintptr_t)&ring;
	const uint64_t good[8] = {word0(ginOpPut, 0, 1, 0) | 1ull << GIN_D0_ADDRESS,
				  at(rig.data, 0), begin, 8};
	const struct change changes[] = {{"in no window", 2, none},
					 {"in no window", 2, begin - 1},
					 {"in no window", 2, begin + BYTES},
					 {"in no window", 2, begin + BYTES - 7},
					 {"in no window", 2, 0},
					 {"in no window", 2, UINT64_MAX},
					 {"in no window", 2, UINT64_MAX - 100}};

	EXPECT_ALL_REFUSED(good, changes);
}

static void badSignals(void)
{
	const uint64_t byId[8] = {word0(ginOpSignal, ginRaiseStrongId, 1, 0), 0, 0, 0, 0, 0, 1, 1};
	const uint64_t atWord[8] = {
		word0(ginOpSignal, ginRaiseWeakAt, 2, 0), 0, 0, 0, 0, 0, at(rig.data, 8), 1};
	const uint64_t barrier[8] = {word0(ginOpBarrier, 0, 1, 0), 0, 1};
	const struct change atChanges[] = {
		{UNKNOWN, 6, at(rig.gone, 0)},
		{"does not reach", 6, at(rig.far, 0)},
		{"GPU memory", 6, at(rig.gpu, 0)},
	};

	EXPECT_ALL_REFUSED(atWord, atChanges);
	EXPECT_EDGES(atWord, {BEYOND, 6, 0, GIN_DESCRIPTOR_OFFSET_BITS, BYTES, 8, 8});
	EXPECT_EDGES(byId, {"a signal that does not exist", 6, 0, 63, SIGNALS, 1, 1});
	EXPECT_EDGES(barrier, {"a barrier that does not exist", 1, 0, 63,
			       BARRIERS * GIN_BARRIER_ROUNDS, 1, 1});
}

static void badAtomics(void)
{
	const uint64_t good8[8] = {word0(ginOpFetchAdd, 0, 2, 8), at(rig.data, 8), 1, 0, 1};
	const uint64_t good4[8] = {word0(ginOpSwap, 0, 2, 4), at(rig.data, 4), 1, 0, 1};
	const struct change changes8[] = {
		{UNKNOWN, 1, at(rig.gone, 0)},
		{"does not reach", 1, at(rig.far, 0)},
		{"GPU memory", 1, at(rig.gpu, 0)},
		{"neither 4 nor 8 bytes", 0, word0(ginOpFetchAdd, 0, 2, 0)},
		{"neither 4 nor 8 bytes", 0, word0(ginOpCompareSwap, 0, 2, 16)},
	};

	EXPECT_ALL_REFUSED(good8, changes8);
	EXPECT_EDGES(good8, {BEYOND, 1, 0, GIN_DESCRIPTOR_OFFSET_BITS, BYTES, 8, 8},
		     {"a result slot that does not exist", 4, 0, 64, GIN_QUEUE_RESULTS, 0, 1});
	EXPECT_EDGES(good4, {BEYOND, 1, 0, GIN_DESCRIPTOR_OFFSET_BITS, BYTES, 4, 4});
	rig.data->part[2].skew = 4; /* the window begins between two words of 8 bytes */
	expectRefused("not aligned", good8);
	expectResolves((uint64_t[8]){good8[0], at(rig.data, 4), 1, 0, 1});
	rig.data->part[2].skew = 0;
}

static int within(const void *place, uint64_t bytes, const void *whole, size_t size)
{
	uintptr_t offset = (uintptr_t)place - (uintptr_t)whole;

	return offset <= size && bytes <= size - offset;
}

/* At one rank, in its bytes or its words. */
static void expectInside(const void *place, uint64_t bytes, uint32_t rank)
{
	EXPECT(!bytes || within(place, bytes, rig.bytes[rank], BYTES) ||
	       within(place, bytes, rig.words64[rank], sizeof(rig.words64[rank])));
}

static void expectAllInside(void)
{
	EXPECT(work.peer < RANKS);
	if (work.op <= ginOpGet) {
		expectInside(thereAt(), work.bytes, work.peer);
		if (work.op != ginOpPutValue)
			expectInside(work.here.at, work.bytes, ME);
		else
			EXPECT(work.bytes <= sizeof(work.value));
	}
	if (wordAt())
		expectInside(wordAt(), work.op >= ginOpFetchAdd ? work.bytes : 8, work.peer);
	EXPECT(!work.counter || within(work.counter, 8, ring.counters, sizeof(ring.counters)));
	EXPECT(!work.oldValue || within(work.oldValue, 8, ring.results, sizeof(ring.results)));
}

/* A random number, often near a limit. */
static uint64_t near(uint64_t *state)
{
	uint64_t x = random64(state), slot = random64(state) % 6;
	const uint64_t some[] = {x, x % 600, slot << GIN_DESCRIPTOR_OFFSET_BITS | x % 300, x % 40,
				 (uintptr_t)rig.bytes[ME] + x % 300};

	return some[random64(state) % 5];
}

static void randomOnes(uint64_t tries, uint64_t seed)
{
	uint64_t full[GIN_DESCRIPTOR_WORDS], state = seed, good = 0;

	printf("random descriptors: seed %llu\n", (unsigned long long)seed);
	for (uint64_t i = 0; i < tries; i++) {
		for (int w = 0; w < GIN_DESCRIPTOR_WORDS; w++)
			full[w] = near(&state);
		if (i % 4)
			full[0] = word0(near(&state) % 11, near(&state) % 6, near(&state) % 4,
					near(&state) % 36) |
				  near(&state) % 2 << GIN_D0_ADDRESS;
		if (descriptorResolve(&scope, full, &work))
			continue;
		good++;
		expectAllInside();
	}
	printf("random descriptors: %llu of %llu are good\n", (unsigned long long)good,
	       (unsigned long long)tries);
	EXPECT(good > tries / 1000);
}

/*
 * All numbers are given out, the next request is refused, and a returned number is given out again.
 */
static void slotsRunOut(void)
{
	static struct proxyWindow windows[GIN_DESCRIPTOR_SLOTS + 1];
	struct proxySlots slots;
	uint32_t n = GIN_DESCRIPTOR_SLOTS;

	EXPECT_SUCCESS(slotsOpen(&slots));
	for (uint32_t i = 0; i < n; i++) {
		EXPECT_SUCCESS(slotsTake(&slots, &windows[i]));
		EXPECT(slotsFind(&slots, i) == NULL);
		slotsPublish(&slots, &windows[i]);
		EXPECT(windows[i].slot == i && slotsFind(&slots, i) == &windows[i]);
	}
	EXPECT_FAILS(slotsTake(&slots, &windows[n]), ginErrorInvalidUsage, "65536 windows",
		     "deregister some");
	slotsGive(&slots, &windows[77]);
	EXPECT(slotsFind(&slots, 77) == NULL);
	EXPECT_SUCCESS(slotsTake(&slots, &windows[n]));
	slotsPublish(&slots, &windows[n]);
	EXPECT(windows[n].slot == 77 && slotsFind(&slots, 77) == &windows[n]);
	slotsClose(&slots);
}

int main(int argc, char **argv)
{
	setenv("GIN_LOG", "none", 0);
	rigOpen();
	scope = scopeFor(&ring, 1);
	words();
	goodPuts();
	goodOthers();
	badHeads();
	badPlaces();
	badAddresses();
	badSignals();
	badAtomics();
	randomOnes(argc > 1 ? strtoull(argv[1], NULL, 10) : 300000,
		   argc > 2 ? strtoull(argv[2], NULL, 10) : 1);
	slotsRunOut();
	rigClose();
	return 0;
}
