/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_device_word.c - lanes of transports change words in one GPU's memory by streams, which are
 * late: no change is lost, and a lane that fails leaves the lock free. A lane that seldom looks for
 * the lock gets it in the order of tickets, and a lane that does not come back stops no other lane.
 * Contexts of a lane alternate.
 */
#include "backends/proxy/words/device_word.h"
#include "backends/proxy/transport.h"

#include <pthread.h>
#include <sched.h>

#include "expect.h"
#include "fake_engine.h"

#define LANES 4
#define ROUNDS 20000u

static const struct device device = {.cuda = &fakeCuda, .numaNode = -1};
static struct deviceWord lane[LANES];
static struct wordLock lock;
static _Alignas(8) uint64_t gpuWord;

static void openLanes(void)
{
	fakeEngine.random = 1;
	gpuWord = 0;
	lock = (struct wordLock){0};
	for (int i = 0; i < LANES; i++) {
		lane[i] = (struct deviceWord){.stream = NULL};
		EXPECT_SUCCESS(deviceWordOpen(&device, &lane[i]));
	}
}

static void closeLanes(void)
{
	for (int i = 0; i < LANES; i++)
		deviceWordClose(&lane[i]);
	EXPECT_EQUAL(lock.taken, 0);
}

static struct deviceWordOrder orderOf(uint8_t op, uint8_t bytes, uint64_t operand, uint64_t compare)
{
	return (struct deviceWordOrder){.lock = &lock,
					.at = (char *)&gpuWord,
					.operand = operand,
					.compare = compare,
					.op = op,
					.bytes = bytes};
}

/* Each old value of an addition is seen once. */
static void additions(void)
{
	static uint8_t seen[ROUNDS];
	uint32_t begun = 0, ended = 0, busy = 0;
	const struct deviceWordOrder add = orderOf(ginOpFetchAdd, 8, 1, 0);
	uint64_t old = 0;

	openLanes();
	while (ended < ROUNDS) {
		int i = (int)engineChance(LANES);
		engineStep();
		if (lane[i].order.lock && deviceWordStep(&lane[i], &old) == ginSuccess) {
			EXPECT(old < ROUNDS && !seen[old]);
			seen[old] = 1;
			ended++;
		}
		if (begun == ROUNDS)
			continue;
		ginResult_t result = deviceWordStart(&lane[i], &add);
		EXPECT(result == ginSuccess || result == transportBusy);
		begun += result == ginSuccess;
		busy += result != ginSuccess;
	}
	EXPECT_EQUAL(gpuWord, ROUNDS);
	EXPECT(busy > ROUNDS / 10);
	closeLanes();
}

static uint64_t doOne(const struct deviceWordOrder *order)
{
	uint64_t old = 0;

	EXPECT_SUCCESS(deviceWordStart(&lane[0], order));
	while (deviceWordStep(&lane[0], &old) == transportBusy)
		engineStep();
	return old;
}

static void operations(void)
{
	const struct deviceWordOrder raise = orderOf(ginOpSignal, 8, 5, 0),
				     swap = orderOf(ginOpSwap, 8, 1ull << 40 | 7, 0),
				     miss = orderOf(ginOpCompareSwap, 8, 9, 8),
				     hit = orderOf(ginOpCompareSwap, 8, 9, 1ull << 40 | 7),
				     upper = orderOf(ginOpFetchAdd, 4, 3, 0);

	openLanes();
	doOne(&raise);
	EXPECT_EQUAL(gpuWord, 5);
	EXPECT_EQUAL(doOne(&swap), 5);
	EXPECT_EQUAL(doOne(&miss), 1ull << 40 | 7);
	EXPECT_EQUAL(gpuWord, 1ull << 40 | 7);
	EXPECT_EQUAL(doOne(&hit), 1ull << 40 | 7);
	EXPECT_EQUAL(gpuWord, 9);
	gpuWord = UINT64_MAX;
	EXPECT_EQUAL(doOne(&upper), UINT32_MAX);
	EXPECT_EQUAL(gpuWord, 0xffffffff00000002ull); /* the other half is left alone */
	closeLanes();
}

/* The driver refuses the copy, or the write. */
static void refusals(void)
{
	const struct deviceWordOrder add = orderOf(ginOpFetchAdd, 8, 1, 0);
	struct deviceWordOrder nowhere = add;
	uint64_t old = 0;

	openLanes();
	nowhere.lock = NULL;
	EXPECT_EQUAL(deviceWordStart(&lane[0], &nowhere), ginErrorUnsupported);
	fakeEngine.fail = 1;
	EXPECT_EQUAL(deviceWordStart(&lane[0], &add), ginErrorCuda);
	EXPECT_EQUAL(lock.taken, 0);
	fakeEngine.fail = 0;
	EXPECT_SUCCESS(deviceWordStart(&lane[0], &add));
	EXPECT_EQUAL(deviceWordStart(&lane[1], &add), transportBusy);
	deviceWordDrain(&lane[0]);
	fakeEngine.fail = 1;
	EXPECT_EQUAL(deviceWordStep(&lane[0], &old), ginErrorCuda);
	EXPECT_EQUAL(lock.taken, 0);
	fakeEngine.fail = 0;
	closeLanes();
}

/* A lane that closes finishes its word. */
static void closing(void)
{
	const struct deviceWordOrder add = orderOf(ginOpFetchAdd, 8, 1, 0);

	openLanes();
	EXPECT_SUCCESS(deviceWordStart(&lane[2], &add));
	closeLanes();
	EXPECT_EQUAL(gpuWord, 1);
}

static int hasNotFailed(void *core)
{
	(void)core;
	return 0;
}

/* A window of one rank, whose part is `gpuWord`. */
static struct proxyWindow *windowOfWord(void)
{
	struct proxyWindow *window = calloc(1, sizeof(*window) + sizeof(window->part[0]));

	EXPECT(window != NULL);
	window->part[0].at = (char *)&gpuWord;
	return window;
}

/*
 * Two contexts of one lane, with two words each at any time. A context that is done goes on at
 * once.
 */
static void contexts(void)
{
	static const uint8_t serves[] = {1};
	static const struct identity identity;
	static const uint8_t routes[] = {ginRouteNone};
	struct wordLock *const locks[] = {&lock};
	const struct backendHost host = {.nRanks = 1,
					 .ranks = &identity,
					 .routes = routes,
					 .device = &device,
					 .hasFailed = hasNotFailed};
	const struct transportScope scope = {&host, NULL, serves, 1, locks};
	struct proxyWindow *window = windowOfWord();
	struct proxyWork work[5], *w;
	uint32_t done[2] = {0};
	void *ipc = NULL;

	openLanes();
	EXPECT_SUCCESS(transportIpc.open(&scope, &ipc));
	void *of = transportIpc.lane(ipc, 0);
	for (uint32_t i = 0; i < 4; i++) {
		work[i] = (struct proxyWork){.op = ginOpFetchAdd, .context = i / 2, .bytes = 8};
		work[i].word.window = window;
		work[i].value[0] = 1;
		EXPECT_SUCCESS(transportIpc.raise(of, &work[i]));
	}
	while (done[0] + done[1] < 200) {
		engineStep();
		while ((w = transportIpc.landed(of))) {
			EXPECT_EQUAL(w->value[0], done[0] + done[1]);
			done[w->context]++;
			w->value[0] = 1;
			EXPECT_SUCCESS(transportIpc.raise(of, w));
		}
	}
	EXPECT(done[0] >= 99 && done[0] <= 101);
	/* A signal changes 8 bytes, however short its put is. */
	work[4] = (struct proxyWork){.op = ginOpPut, .bytes = 3, .addend = 1ull << 40};
	work[4].word.window = window;
	EXPECT_SUCCESS(transportIpc.raise(of, &work[4]));
	while (transportIpc.landed(of) != &work[4])
		engineStep();
	EXPECT_EQUAL(gpuWord >> 40, 1);
	transportIpc.close(ipc);
	free(window);
	closeLanes();
}

/* Only the lock. */
enum { TURNS = 1000, PASSES = 20000, HELD = 5 };

static struct wordTicket ticket[LANES];
static uint64_t count; /* no atomic: the lock keeps the lanes apart */

static void *increase(void *own)
{
	for (int i = 0; i < PASSES; i++) {
		while (!wordLockTry(&lock, own))
			sched_yield();
		count++;
		wordLockRelease(&lock);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t thread[LANES];

	for (int i = 0; i < LANES; i++)
		EXPECT(!pthread_create(&thread[i], NULL, increase, &ticket[i]));
	for (int i = 0; i < LANES; i++)
		EXPECT(!pthread_join(thread[i], NULL));
	EXPECT_EQUAL(count, LANES * PASSES);
	EXPECT(!lock.taken && lock.served == lock.next);
}

/*
 * All lanes always want the lock and hold it for HELD steps. Lane i looks at every period[i]-th
 * step. Counts how often each gets it, until one has had it TURNS times. Returns the steps.
 */
static uint64_t takeTurns(const uint32_t *period, uint32_t *turns)
{
	uint64_t until = 0;
	int holder = -1;

	for (uint64_t step = 0;; step++) {
		if (holder >= 0 && step == until) {
			wordLockRelease(&lock);
			if (++turns[holder] == TURNS)
				return step;
			holder = -1;
		}
		for (int i = 0; i < LANES; i++) {
			if (i == holder || !period[i] || step % period[i] ||
			    !wordLockTry(&lock, &ticket[i]))
				continue;
			EXPECT_EQUAL(holder, -1);
			holder = i;
			until = step + HELD;
		}
	}
}

/*
 * The first look takes a ticket, the second the lock: the last lane gets it at every second look.
 */
static void seldom(void)
{
	const uint32_t period[LANES] = {1, 1, 2, 97};
	uint32_t turns[LANES] = {0};
	uint64_t looks = takeTurns(period, turns) / period[3];

	EXPECT(looks > 100 && turns[3] >= looks / 2 - 1);
	EXPECT(turns[0] >= TURNS - 2 && turns[1] >= TURNS - 2 && turns[2] >= TURNS - 2);
}

/* Lane 0 takes a ticket and does not look any more; later it looks again. */
static void lost(void)
{
	const uint32_t others[LANES] = {0, 1, 1, 1}, all[LANES] = {1, 1, 1, 1};
	uint32_t turns[LANES] = {0}, later[LANES] = {0};

	EXPECT(wordLockTry(&lock, &ticket[1]));
	EXPECT(!wordLockTry(&lock, &ticket[0]));
	wordLockRelease(&lock);
	takeTurns(others, turns);
	EXPECT_EQUAL(turns[0], 0);
	EXPECT(turns[1] >= TURNS - 2 && turns[2] >= TURNS - 2 && turns[3] >= TURNS - 2);
	takeTurns(all, later);
	EXPECT(later[0] >= TURNS - 2);
}

/* How often a lane looks at a free lock before it passes over the lanes of earlier tickets. */
static void patience(void)
{
	uint32_t looks = 0;

	EXPECT(wordLockTry(&lock, &ticket[0]));
	for (int i = 1; i < LANES; i++)
		EXPECT(!wordLockTry(&lock, &ticket[i]));
	/* The holder is slow, and no lane is lost. */
	for (uint32_t i = 0; i < 3 * WORD_LOCK_LOOKS; i++)
		EXPECT(!wordLockTry(&lock, &ticket[3]));
	wordLockRelease(&lock);
	while (!wordLockTry(&lock, &ticket[3]))
		looks++;
	EXPECT_EQUAL(looks, 2 * WORD_LOCK_LOOKS);
	/* A lane that was passed over takes a new ticket. */
	EXPECT(!wordLockTry(&lock, &ticket[1]) && !wordLockTry(&lock, &ticket[0]));
	wordLockRelease(&lock);
	EXPECT(!wordLockTry(&lock, &ticket[0]));
	EXPECT(wordLockTry(&lock, &ticket[1]));
	wordLockRelease(&lock);
	EXPECT(wordLockTry(&lock, &ticket[0]));
}

/* A lane that waits for one lock takes another lock for which no lane waits. */
static void twoLocks(void)
{
	struct wordLock other = {0};

	EXPECT(wordLockTry(&lock, &ticket[0]));
	EXPECT(!wordLockTry(&lock, &ticket[1]));
	EXPECT(wordLockTry(&other, &ticket[1]));
	EXPECT(!wordLockTry(&other, &ticket[2]));
	wordLockRelease(&other);
	EXPECT(!wordLockTry(&other, &ticket[1]));
	EXPECT(wordLockTry(&other, &ticket[2]));
	wordLockRelease(&lock);
	EXPECT(!wordLockTry(&lock, &ticket[3]));
	EXPECT(wordLockTry(&lock, &ticket[1]));
}

int main(void)
{
	expectChild("additions of several lanes", additions);
	expectChild("all operations", operations);
	expectChild("a driver that refuses", refusals);
	expectChild("a lane that closes", closing);
	expectChild("two contexts at one word", contexts);
	expectChild("lanes as threads", threads);
	expectChild("a lane that looks seldom", seldom);
	expectChild("a lane that is lost", lost);
	expectChild("patience", patience);
	expectChild("two locks", twoLocks);
	return expectFailures != 0;
}
