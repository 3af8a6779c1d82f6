/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_device_word.c - lanes that change words in one GPU's memory by streams, which are late: no
 * change is lost, and a lane that fails leaves the lock free
 */
#include "backends/proxy/words/device_word.h"
#include "backends/proxy/transport.h"

#include "expect.h"
#include "fake_engine.h"

#define LANES 4
#define ROUNDS 20000u

static const struct device device = {.cuda = &fakeCuda, .numaNode = -1};
static struct deviceWord lane[LANES];
static uint64_t locks[1];
static _Alignas(8) uint64_t gpuWord;

static void openLanes(void)
{
	fakeEngine.random = 1;
	gpuWord = locks[0] = 0;
	for (int i = 0; i < LANES; i++) {
		lane[i] = (struct deviceWord){.stream = NULL};
		EXPECT_SUCCESS(deviceWordOpen(&device, &lane[i]));
	}
}

static void closeLanes(void)
{
	for (int i = 0; i < LANES; i++)
		deviceWordClose(&lane[i]);
	EXPECT_EQUAL(locks[0], 0);
}

static struct deviceWordOrder orderOf(uint8_t op, uint8_t bytes, uint64_t operand, uint64_t compare)
{
	return (struct deviceWordOrder){.lock = locks,
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
	EXPECT_EQUAL(locks[0], 0);
	fakeEngine.fail = 0;
	EXPECT_SUCCESS(deviceWordStart(&lane[0], &add));
	EXPECT_EQUAL(deviceWordStart(&lane[1], &add), transportBusy);
	deviceWordDrain(&lane[0]);
	fakeEngine.fail = 1;
	EXPECT_EQUAL(deviceWordStep(&lane[0], &old), ginErrorCuda);
	EXPECT_EQUAL(locks[0], 0);
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

int main(void)
{
	expectChild("additions of several lanes", additions);
	expectChild("all operations", operations);
	expectChild("a driver that refuses", refusals);
	expectChild("a lane that closes", closing);
	return expectFailures != 0;
}
