/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * order [SEED...] - the order that a reliable connection keeps, and that an adversary keeps no
 * other
 */
#include <infiniband/verbs.h>
#include <pthread.h>

#include "child.h"
#include "queue.h"

enum { BUFFER = 1 << 14, WORDS = 128, ROUNDS = 400, STREAM = 3000, SOURCES = 16 };
enum {
	STRICT = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		 IBV_ACCESS_REMOTE_ATOMIC,
	RELAXED = STRICT | IBV_ACCESS_RELAXED_ORDERING
};

/* Where data, flags and results are. */
enum { DATA = 0, FLAG = 4096, RESULT = 4160, SOURCE = 8192 };

static uint64_t memory[BUFFER * 4 / 8] __attribute__((aligned(4096)));
static struct queue queue, peer;
static uint32_t strict, relaxed;

static struct range at(uint32_t offset, uint32_t key)
{
	return (struct range){offset, key};
}

static uint64_t *words(uint32_t offset)
{
	return memory + offset / 8;
}

static uint64_t load(uint32_t offset)
{
	return __atomic_load_n(words(offset), __ATOMIC_ACQUIRE);
}

static void begin(void)
{
	hostOpen();
	strict = hostRegister(memory, sizeof(memory), 0, STRICT);
	relaxed = hostRegister(memory, sizeof(memory), 0, RELAXED);
	EXPECT(strict && relaxed);
	queuePair(&queue, &peer);
}

static uint32_t sourceOf(uint64_t round)
{
	return SOURCE + (uint32_t)(round % SOURCES) * WORDS * 8;
}

/* Data of that round. */
static void putData(uint64_t round, uint32_t key, uint8_t flags)
{
	uint64_t *source = words(sourceOf(round));

	for (int i = 0; i < WORDS; i++)
		source[i] = round;
	queueWrite(&queue, at(DATA, key), at(sourceOf(round), strict), WORDS * 8, flags);
}

static void putFlag(uint64_t round, uint32_t key, uint8_t flags)
{
	queueInline(&queue, at(FLAG, key), &round, sizeof(round), flags);
}

/* Words of data that are older than `round`. */
static int olderThan(uint64_t round)
{
	int older = 0;

	for (uint32_t i = 0; i < WORDS; i++)
		older += load(DATA + 8 * i) < round;
	return older;
}

static void awaitFlag(uint64_t round)
{
	while (load(FLAG) < round)
		usleep(1);
}

/* The flag's region decides: how many of `rounds` flags were there before their data. */
static int flagsBeforeData(uint32_t dataKey, uint32_t flagKey, int rounds)
{
	int early = 0;

	begin();
	for (uint64_t round = 1; round <= (uint64_t)rounds; round++) {
		uint32_t last = queue.producer + 1;

		putData(round, dataKey ? strict : relaxed, 0);
		putFlag(round, flagKey ? strict : relaxed, SIGNALED);
		queueRing(&queue);
		awaitFlag(round);
		early += olderThan(round) > 0;
		queueAwait(&queue, last);
	}
	return early;
}

static void strictFlagAfterRelaxedData(void)
{
	EXPECT_EQUAL(flagsBeforeData(0, 1, ROUNDS), 0);
}

static void strictFlagAfterStrictData(void)
{
	EXPECT_EQUAL(flagsBeforeData(1, 1, ROUNDS), 0);
}

static void relaxedFlagComesEarly(void)
{
	/* Few: the device decides when a late flag comes, and on a loaded machine it sleeps. */
	const int rounds = ROUNDS / 4;
	int early = flagsBeforeData(0, 0, rounds);

	printf("flags before their data: %d of %d\n", early, rounds);
	EXPECT(early > 0);
}

/* A signal: earlier puts are there when it is. */
static void atomicAfterRelaxedData(void)
{
	begin();
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		uint32_t last = queue.producer + 1;

		putData(round, relaxed, 0);
		queueAtomic(&queue, FETCH_ADD, at(FLAG, strict), at(RESULT, strict), 1, 0,
			    SIGNALED);
		queueRing(&queue);
		awaitFlag(round);
		EXPECT_EQUAL(olderThan(round), 0);
		queueAwait(&queue, last);
	}
}

static void *watch(void *unused)
{
	uint64_t flag = 0;

	while (flag < STREAM) {
		flag = load(FLAG);
		EXPECT_EQUAL(olderThan(flag), 0);
	}
	return unused;
}

/* Another thread looks all the time, while the ring is always full. */
static void streamOfFlags(void)
{
	pthread_t watcher;
	uint32_t done = 0;

	begin();
	EXPECT(!pthread_create(&watcher, NULL, watch, NULL));
	for (uint64_t round = 1; round <= STREAM; round++) {
		putData(round, relaxed, 0);
		putFlag(round, strict, SIGNALED);
		queueRing(&queue);
		/* Sources must not change under the device. */
		while (round - done >= SOURCES)
			queueAwait(&queue, 2 * done++ + 1);
	}
	while (done < STREAM)
		queueAwait(&queue, 2 * done++ + 1);
	EXPECT(!pthread_join(watcher, NULL));
}

/*
 * Its completion says that the peer has a WRITE, not that it is in memory: something must push it.
 */
static void writeInPieces(void)
{
	int parts = 0;

	begin();
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		uint32_t index = queue.producer;

		putData(round, relaxed, SIGNALED);
		queueRing(&queue);
		queueAwait(&queue, index);
		int older = olderThan(round);
		parts += older > 0 && older < WORDS;
		putFlag(round, strict, SIGNALED);
		queueRing(&queue);
		queueAwait(&queue, index + 1);
		EXPECT_EQUAL(olderThan(round), 0);
	}
	printf("writes seen in part: %d of %d\n", parts, ROUNDS);
	EXPECT(parts > 0);
}

/* Requests of different queue pairs have no order. */
static void queuesOvertake(void)
{
	int overtaken = 0;

	begin();
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		queueInline(&queue, at(FLAG, strict), &round, sizeof(round), SIGNALED);
		queueInline(&peer, at(FLAG + 8, strict), &round, sizeof(round), SIGNALED);
		queueRing(&queue);
		queueRing(&peer);
		while (load(FLAG + 8) < round)
			usleep(1);
		overtaken += load(FLAG) < round;
		queueAwait(&queue, (uint32_t)round - 1);
		queueAwait(&peer, (uint32_t)round - 1);
	}
	printf("the second queue pair was first: %d of %d\n", overtaken, ROUNDS);
	EXPECT(overtaken > 0);
}

static bool isComplete(void)
{
	const uint8_t *entry = queue.cq + (size_t)(queue.consumer % queue.wqebbs) * 64;
	uint8_t own = __atomic_load_n(entry + 63, __ATOMIC_ACQUIRE);

	return own >> 4 != 15 && (own & 1) == !!(queue.consumer & queue.wqebbs);
}

static void completionsLate(void)
{
	int late = 0;

	begin();
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		putFlag(round, strict, SIGNALED);
		queueRing(&queue);
		awaitFlag(round);
		late += !isComplete();
		queueAwait(&queue, (uint32_t)round - 1);
	}
	printf("data before its completion: %d of %d\n", late, ROUNDS);
	EXPECT(late > 0);
}

/*
 * Until its completion, the device may still read what a request sends: it does not begin with a
 * quarter of the requests when their doorbells ring. While the device is held, time does not decide
 * which sources change before the device reads them: the adversary's choices do.
 */
static void sourcesReadLate(void)
{
	int changed = 0;

	begin();
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		uint32_t index = queue.producer;

		hostHold();
		putData(round, strict, SIGNALED);
		queueRing(&queue);
		hostStep();
		__atomic_store_n(words(sourceOf(round)), ~0ull, __ATOMIC_RELAXED);
		hostRelease();
		queueAwait(&queue, index);
		changed += load(DATA) == ~0ull;
	}
	printf("sources changed in time: %d of %d\n", changed, ROUNDS);
	EXPECT(changed > ROUNDS / 5);
}

static int readsIncomplete(bool dump)
{
	int incomplete = 0;

	begin();
	for (uint64_t round = 1; round <= ROUNDS; round++) {
		uint32_t last;

		for (int i = 0; i < WORDS; i++)
			words(SOURCE)[i] = round;
		queueRead(&queue, at(SOURCE, strict), at(DATA, strict), WORDS * 8,
			  dump ? 0 : SIGNALED);
		if (dump)
			queueDump(&queue, at(DATA, strict), SIGNALED | FENCED);
		last = queue.producer - 1;
		queueRing(&queue);
		queueAwait(&queue, last);
		incomplete += olderThan(round) > 0;
		/* Old data must not come later than new data. */
		queueDump(&queue, at(DATA, strict), SIGNALED);
		queueRing(&queue);
		queueAwait(&queue, last + 1);
	}
	return incomplete;
}

static void readAfterCompletion(void)
{
	EXPECT_EQUAL(readsIncomplete(false), 0);
}

static void readAfterDump(void)
{
	setenv("MLX5DEV_ADVERSARY", "7,weakcqe", 1);
	EXPECT_EQUAL(readsIncomplete(true), 0);
}

static void readAfterWeakCompletion(void)
{
	setenv("MLX5DEV_ADVERSARY", "7,weakcqe", 1);
	int incomplete = readsIncomplete(false);

	printf("reads whose completion came first: %d of %d\n", incomplete, ROUNDS);
	EXPECT(incomplete > 0);
}

/* Of atomics nothing is lost, and each sees another value. */
static void atomicsOfTwo(void)
{
	begin();
	for (uint32_t round = 0; round < ROUNDS; round++) {
		queueAtomic(&queue, FETCH_ADD, at(FLAG, strict), at(RESULT, strict), 1, 0,
			    SIGNALED);
		queueAtomic(&peer, FETCH_ADD, at(FLAG, strict), at(RESULT + 8, strict), 1, 0,
			    SIGNALED);
		queueRing(&queue);
		queueRing(&peer);
		queueAwait(&queue, round);
		queueAwait(&peer, round);
		EXPECT(load(RESULT) != load(RESULT + 8));
		EXPECT_EQUAL(load(FLAG), 2 * (round + 1));
	}
}

static const struct rule {
	const char *name;
	void (*body)(void);
} rules[] = {
	{"a strict flag after strict data", strictFlagAfterStrictData},
	{"a strict flag after relaxed data", strictFlagAfterRelaxedData},
	{"an atomic after relaxed data", atomicAfterRelaxedData},
	{"flags and data, watched", streamOfFlags},
	{"a relaxed flag comes early", relaxedFlagComesEarly},
	{"a write is there in part", writeInPieces},
	{"queue pairs overtake each other", queuesOvertake},
	{"completions come late", completionsLate},
	{"sources are read late", sourcesReadLate},
	{"a read is there with its completion", readAfterCompletion},
	{"weak completions: a read is there after a DUMP", readAfterDump},
	{"weak completions: a read may not be there", readAfterWeakCompletion},
	{"atomics of two queue pairs", atomicsOfTwo},
};

static void check(const struct rule *rule, const char *seed)
{
	char text[8192];

	setenv("MLX5DEV_ADVERSARY", seed, 1);
	int status = childRun(rule->body, text, sizeof(text));
	expectThat(status == 0, __FILE__, __LINE__, "%s, seed %s: status %d; it said \"%s\"",
		   rule->name, seed, status, text);
	printf("ok: %s, seed %s\n", rule->name, seed);
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++) {
		for (int seed = 1; seed < argc; seed++)
			check(&rules[i], argv[seed]);
		if (argc == 1)
			check(&rules[i], "1");
	}
	return 0;
}
