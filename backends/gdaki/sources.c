/* SPDX-License-Identifier: BSD-3-Clause */
#include "sources.h"

#include <stddef.h>
#include <stdlib.h>

/* What is behind `used` nobody reads. */
ginResult_t sourcesOpen(const struct device *d, struct sources *s)
{
	size_t bytes = sizeof(struct ginSources) + SOURCES_MOST * sizeof(struct ginSourceEntry);
	void *table = NULL;

	*s = (struct sources){.device = d, .taken = calloc(SOURCES_MOST, 1)};
	ginResult_t result =
		s->taken ? memoryAlloc(d, bytes, &table) : fail(ginErrorSystem, "no memory");
	if (result == ginSuccess)
		result = deviceWrite(d, table, NULL, sizeof(struct ginSources));
	if (result != ginSuccess) {
		if (table)
			memoryFree(d, table);
		free(s->taken);
		return result;
	}
	pthread_mutex_init(&s->lock, NULL);
	s->table = table;
	return ginSuccess;
}

void sourcesClose(struct sources *s)
{
	if (!s->table)
		return;
	memoryFree(s->device, s->table);
	pthread_mutex_destroy(&s->lock);
	free(s->taken);
}

static struct ginSourceEntry *entryAt(const struct sources *s, uint32_t slot)
{
	return (struct ginSourceEntry *)(void *)(s->table + 1) + slot;
}

/* Release: what was put before is seen by who sees it. One copy is whole before the next begins. */
static ginResult_t put(const struct sources *s, uint64_t *at, uint64_t value)
{
	if (s->device->cuda)
		return deviceWrite(s->device, at, &value, sizeof(value));
	__atomic_store_n(at, value, __ATOMIC_RELEASE);
	return ginSuccess;
}

/* Its size goes last: with it the entry counts. */
static ginResult_t write(struct sources *s, uint32_t slot, const struct ginSourceEntry *entry)
{
	struct ginSourceEntry *at = entryAt(s, slot);
	ginResult_t result = put(s, &at->bytes, 0);

	if (result == ginSuccess)
		result = put(s, &at->address, entry->address);
	if (result == ginSuccess)
		result = put(s, &at->nicAddress, entry->nicAddress);
	if (result == ginSuccess)
		result = put(s, (uint64_t *)(void *)&at->nicKey, entry->nicKey);
	if (result == ginSuccess)
		result = put(s, &at->bytes, entry->bytes);
	if (result == ginSuccess && slot == s->used)
		result = put(s, &s->table->used, slot + 1);
	return result;
}

static uint32_t findPlace(const struct sources *s)
{
	uint32_t slot = s->used;

	if (slot < SOURCES_MOST)
		return slot;
	for (slot = 0; slot < SOURCES_MOST && s->taken[slot];)
		slot++;
	return slot;
}

static ginResult_t addLocked(struct sources *s, const struct ginSourceEntry *entry, uint32_t *out)
{
	uint32_t slot = findPlace(s);

	if (slot == SOURCES_MOST)
		return fail(ginErrorInvalidUsage,
			    "%d windows are registered, and gdaki knows no more at a time: "
			    "deregister some",
			    SOURCES_MOST);
	ginResult_t result = write(s, slot, entry);
	if (result != ginSuccess)
		return result;
	s->taken[slot] = 1;
	s->used += slot == s->used;
	*out = slot;
	return ginSuccess;
}

ginResult_t sourcesAdd(struct sources *s, const struct ginSourceEntry *entry, uint32_t *slot)
{
	pthread_mutex_lock(&s->lock);
	ginResult_t result = addLocked(s, entry, slot);
	pthread_mutex_unlock(&s->lock);
	return result;
}

void sourcesRemove(struct sources *s, uint32_t slot)
{
	pthread_mutex_lock(&s->lock);
	put(s, &entryAt(s, slot)->bytes, 0);
	s->taken[slot] = 0;
	pthread_mutex_unlock(&s->lock);
}
