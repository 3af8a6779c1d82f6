/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_buffer_pool.c - growing byte buffers, and the pool, which cuts small tables out of large
 * pieces
 *
 * The pool's GPU is a driver of this file that uses malloc() and counts mappings.
 */
#include "lib/base/buffer.h"
#include "lib/gpu/pool.h"

#include "expect.h"

/* Without this option AddressSanitizer ends the process where malloc() returns NULL. */
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

static void expectBytes(const struct buffer *b, size_t used)
{
	EXPECT_EQUAL(b->used, used);
	EXPECT(b->size >= used);
	for (size_t i = 0; i < used; i++)
		expectThat(b->data[i] == (uint8_t)(i * 7), __FILE__, __LINE__,
			   "byte %zu of %zu is %u, expected %u", i, used, b->data[i],
			   (uint8_t)(i * 7));
}

/* Appends pieces of all sizes, zero included; no byte moves or is lost. */
static void bufferGrows(void)
{
	uint8_t text[4096];
	struct buffer b = {0};
	size_t used = 0;

	for (size_t piece = 0; piece < sizeof(text); piece = piece * 3 / 2 + 1) {
		for (size_t i = 0; i < piece; i++)
			text[i] = (uint8_t)((used + i) * 7);
		EXPECT(!bufferAppend(&b, text, piece));
		used += piece;
		expectBytes(&b, used);
	}
	bufferFree(&b);
	EXPECT(!b.data && !b.used && !b.size);
}

/* An empty buffer has an address, and appending 0 bytes from NULL is allowed. */
static void bufferOfNothing(void)
{
	struct buffer b = {0};

	EXPECT(!bufferAppend(&b, NULL, 0));
	EXPECT_EQUAL(b.used, 0);
	EXPECT(b.data);
	bufferFree(&b);
	bufferFree(&b);
}

/* A buffer allocates now and then, not for every byte. */
static void bufferGrowsInSteps(void)
{
	struct buffer b = {0};
	size_t steps = 0, size = 0;

	for (size_t i = 0; i < 100000; i++) {
		uint8_t byte = (uint8_t)(i * 7);
		EXPECT(!bufferAppend(&b, &byte, 1));
		steps += b.size != size;
		size = b.size;
	}
	expectBytes(&b, 100000);
	EXPECT(steps < 32);
	bufferFree(&b);
}

static void bufferKeepsItsRoom(void)
{
	struct buffer b = {0};
	uint8_t *room = bufferRoom(&b, 1000);

	EXPECT(room && b.used == 0 && b.size >= 1000);
	for (int i = 0; i < 1000; i++)
		room[i] = (uint8_t)(i * 7);
	EXPECT(bufferRoom(&b, 1000) == room);
	b.used = 1000;
	expectBytes(&b, 1000);
	b.used = 0;
	EXPECT(bufferRoom(&b, 1000) == room); /* one collective after the other uses the buffer */
	bufferFree(&b);
}

static void bufferWithoutMemory(void)
{
	struct buffer b = {0};

	EXPECT(!bufferAppend(&b, "\0\x07", 2));
	EXPECT(!bufferRoom(&b, SIZE_MAX / 4));
	expectBytes(&b, 2);
	bufferFree(&b);
}

#define TABLES 200

/* A table of the pool; filled with its own number. */
struct table {
	unsigned char *at;
	size_t bytes;
};

static void fillTable(struct table *t, int number)
{
	memset(t->at, number, t->bytes);
}

static void expectTable(const struct table *t, int number)
{
	for (size_t i = 0; i < t->bytes; i++)
		expectThat(t->at[i] == number, __FILE__, __LINE__,
			   "byte %zu of table %d is %u: tables overlap", i, number, t->at[i]);
}

static void takeTable(struct pool *pool, struct table *t, size_t bytes, int number)
{
	void *at = NULL;

	EXPECT_SUCCESS(poolAlloc(pool, bytes, &at));
	EXPECT(at && (uintptr_t)at % 64 == 0);
	*t = (struct table){at, bytes};
	fillTable(t, number);
}

static void giveTable(struct pool *pool, struct table *t, int number)
{
	expectTable(t, number);
	poolFree(pool, t->at, t->bytes);
}

/* Takes and returns tables at random: no table overlaps another. */
static void churn(struct pool *pool, unsigned seed)
{
	static struct table tables[TABLES];

	memset(tables, 0, sizeof(tables));
	srandom(seed);
	for (int round = 0; round < 5000; round++) {
		int i = (int)(random() % TABLES);
		if (tables[i].at)
			giveTable(pool, &tables[i], i);
		takeTable(pool, &tables[i], 1 + (size_t)random() % 3000, i);
	}
	for (int i = 0; i < TABLES; i++)
		if (tables[i].at)
			giveTable(pool, &tables[i], i);
}

static void poolOnTheHost(unsigned seed)
{
	const struct device host = {.ordinal = GIN_DEVICE_NONE};
	struct pool pool = {.device = &host};

	churn(&pool, seed);
	poolFree(&pool, NULL, 100);
	poolClose(&pool);
	EXPECT(!pool.chunks);
}

/* The driver: 64 KiB at least, and one allocation for each mapping. */
#define GRANULARITY 65536

static int allocations, mappings;
static size_t mapped;
static int failing; /* the next cuMemCreate */

static cuResult fakeAttribute(int *out, int which, cuDevice device)
{
	*out = which == device; /* 0 */
	return 0;
}

static cuResult fakeGranularity(size_t *out, const cuAllocationProp *prop, int which)
{
	EXPECT_EQUAL(prop->type, cuPinned);
	EXPECT_EQUAL(prop->handleTypes, cuPosixFd);
	EXPECT_EQUAL(which, cuGranularityMinimum);
	*out = GRANULARITY;
	return 0;
}

static cuResult fakeCreate(cuAllocation *out, size_t bytes, const cuAllocationProp *prop,
			   unsigned long long flags)
{
	EXPECT(bytes && bytes % GRANULARITY == 0 && prop && !flags);
	if (failing)
		return cuOutOfMemory;
	*out = bytes;
	allocations++;
	return 0;
}

static cuResult fakeRelease(cuAllocation allocation)
{
	EXPECT(allocation);
	allocations--;
	return 0;
}

static cuResult fakeReserve(cuPtr *out, size_t bytes, size_t alignment, cuPtr hint,
			    unsigned long long flags)
{
	EXPECT(!alignment && !hint && !flags);
	*out = (uintptr_t)aligned_alloc(4096, bytes);
	return 0;
}

static cuResult fakeUnreserve(cuPtr ptr, size_t bytes)
{
	EXPECT(bytes);
	free((void *)(uintptr_t)ptr);
	return 0;
}

static cuResult fakeMap(cuPtr ptr, size_t bytes, size_t offset, cuAllocation allocation,
			unsigned long long flags)
{
	EXPECT(ptr && bytes == allocation && !offset && !flags);
	mappings++;
	mapped += bytes;
	return 0;
}

static cuResult fakeUnmap(cuPtr ptr, size_t bytes)
{
	EXPECT(ptr);
	mappings--;
	mapped -= bytes;
	return 0;
}

static cuResult fakeAccess(cuPtr ptr, size_t bytes, const cuAccess *access, size_t count)
{
	EXPECT(ptr && bytes && count == 1);
	EXPECT_EQUAL(access->flags, cuReadWrite);
	EXPECT_EQUAL(access->location.id, 7);
	return 0;
}

static const struct cuda driver = {
	.deviceGetAttribute = fakeAttribute,
	.granularity = fakeGranularity,
	.allocationCreate = fakeCreate,
	.allocationRelease = fakeRelease,
	.reserve = fakeReserve,
	.unreserve = fakeUnreserve,
	.map = fakeMap,
	.unmap = fakeUnmap,
	.setAccess = fakeAccess,
};

static const struct device gpu = {.cuda = &driver, .ordinal = 3, .id = 7};

static void poolOnAGpu(unsigned seed)
{
	struct pool pool = {.device = &gpu};

	churn(&pool, seed);
	size_t most = mapped;
	EXPECT(mappings > 0 && allocations == 0);
	churn(&pool, seed); /* out of the tables that came back */
	EXPECT_EQUAL(mapped, most);
	poolClose(&pool);
	EXPECT_EQUAL(mappings, 0);
	EXPECT_EQUAL(mapped, 0);
}

/* A returned table is reused for a request that rounds up to the same power of two. */
static void poolGivesOutAgain(void)
{
	struct pool pool = {.device = &gpu};
	struct table a, b;

	takeTable(&pool, &a, 100, 1);
	takeTable(&pool, &b, 100, 2);
	EXPECT(a.at + 128 <= b.at || b.at + 128 <= a.at);
	unsigned char *first = a.at;
	giveTable(&pool, &a, 1);
	takeTable(&pool, &a, 65, 3);
	EXPECT(a.at == first);
	giveTable(&pool, &a, 3);
	takeTable(&pool, &a, 64, 4);
	EXPECT(a.at != first);
	poolClose(&pool);
	EXPECT_EQUAL(mappings, 0);
}

/* A table that is kept stays readable, and comes again when POOL_KEPT later ones are kept. */
static void poolKeepsHandles(const struct device *device)
{
	struct pool pool = {.device = device};
	unsigned char *kept[POOL_KEPT + 1];
	void *at = NULL, *other = NULL;

	for (int i = 0; i <= POOL_KEPT; i++) {
		EXPECT_SUCCESS(poolAllocHandle(&pool, poolWindows, 100, &at));
		kept[i] = memset(at, i, 100);
		poolKeep(&pool, poolWindows, at, 100);
	}
	EXPECT_SUCCESS(poolAllocHandle(&pool, poolDevComms, 100, &other));
	memset(other, 0xff, 100);
	poolKeep(&pool, poolDevComms, other, 100);
	for (int i = 0; i <= POOL_KEPT; i++)
		expectTable(&(struct table){kept[i], 100}, i);
	EXPECT_SUCCESS(poolAllocHandle(&pool, poolWindows, 100, &at));
	EXPECT(at == kept[0]);
	poolKeep(&pool, poolWindows, at, 100);
	poolKeep(&pool, poolWindows, NULL, 100);
	poolClose(&pool);
	EXPECT_EQUAL(mappings, 0);
}

/* A table larger than the GPU's smallest allocation; then a failure, which changes nothing. */
static void poolAndLargeTables(void)
{
	struct pool pool = {.device = &gpu};
	struct table small, large;
	void *at = &pool;

	takeTable(&pool, &small, 10, 1);
	takeTable(&pool, &large, 3 * GRANULARITY, 2);
	failing = 1;
	EXPECT_FAILS(poolAlloc(&pool, 10 * GRANULARITY, &at), ginErrorCuda, "GPU 3", "bytes");
	EXPECT(at == &pool);
	failing = 0;
	expectTable(&small, 1);
	giveTable(&pool, &large, 2);
	takeTable(&pool, &large, 4 * GRANULARITY, 5);
	expectTable(&small, 1);
	poolClose(&pool);
	EXPECT_EQUAL(mappings, 0);
}

int main(void)
{
	unsigned seed = (unsigned)getpid();

	setenv("GIN_LOG", "none", 0);
	printf("unit_buffer_pool: seed %u\n", seed);
	bufferGrows();
	bufferOfNothing();
	bufferGrowsInSteps();
	bufferKeepsItsRoom();
	bufferWithoutMemory();
	poolOnTheHost(seed);
	poolOnAGpu(seed);
	poolGivesOutAgain();
	poolKeepsHandles(&gpu);
	poolKeepsHandles(&(struct device){.ordinal = GIN_DEVICE_NONE});
	poolAndLargeTables();
	printf("unit_buffer_pool: passed\n");
	return 0;
}
