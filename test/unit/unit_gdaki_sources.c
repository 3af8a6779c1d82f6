/* SPDX-License-Identifier: BSD-3-Clause */
/* unit_gdaki_sources.c - the table in which kernels find this rank's memory by its address */
#include "backends/gdaki/memory.h"
#include "expect.h"
#include "pinning.h"

static struct ginSourceEntry entryOf(uint32_t number)
{
	return (struct ginSourceEntry){.address = 4096ull * (number + 1),
				       .bytes = 100 + number,
				       .nicAddress = number % 4096,
				       .nicKey = ~number};
}

static const struct ginSourceEntry *entryAt(const struct gdakiSources *s, uint32_t slot)
{
	return (const struct ginSourceEntry *)(const void *)(s->table + 1) + slot;
}

static void expectEntry(const struct gdakiSources *s, uint32_t slot, uint32_t number)
{
	struct ginSourceEntry due = entryOf(number);

	EXPECT(!memcmp(entryAt(s, slot), &due, sizeof(due)));
}

static void fill(struct gdakiSources *s)
{
	uint32_t slot;

	for (uint32_t i = 0; i < SOURCES_MOST; i++) {
		struct ginSourceEntry entry = entryOf(i);
		EXPECT_SUCCESS(sourcesAdd(s, &entry, &slot));
		EXPECT_EQUAL(slot, i);
		EXPECT_EQUAL(s->table->used, i + 1);
		if (i == 7) /* its place is not the next one's */
			sourcesRemove(s, 7);
	}
}

int main(void)
{
	struct ginSourceEntry more = entryOf(SOURCES_MOST);
	struct gdakiSources s;
	uint32_t slot = 0;

	EXPECT_SUCCESS(sourcesOpen(&hostThreads, &s));
	EXPECT_EQUAL(s.table->used, 0);
	fill(&s);
	for (uint32_t i = 0; i < SOURCES_MOST; i++)
		if (i != 7)
			expectEntry(&s, i, i);
	EXPECT_EQUAL(entryAt(&s, 7)->bytes, 0);
	EXPECT_SUCCESS(sourcesAdd(&s, &more, &slot));
	EXPECT_EQUAL(slot, 7);
	expectEntry(&s, 7, SOURCES_MOST);
	EXPECT_FAILS(sourcesAdd(&s, &more, &slot), ginErrorInvalidUsage,
		     "65536 windows are registered", "deregister some");
	sourcesRemove(&s, SOURCES_MOST - 1);
	EXPECT_SUCCESS(sourcesAdd(&s, &more, &slot));
	EXPECT_EQUAL(slot, SOURCES_MOST - 1);
	EXPECT_EQUAL(s.table->used, SOURCES_MOST);
	sourcesClose(&s);
	printf("ok: %d sources\n", SOURCES_MOST);
	return 0;
}
