/* SPDX-License-Identifier: BSD-3-Clause */
/* stats.c - counts the descriptors, bytes and times of one context's ring */
#include "stats.h"

#include "lib/base/clock.h"

static int bucketOf(uint64_t value)
{
	int bucket = value ? 63 - __builtin_clzll(value) : 0;

	return bucket < GIN_HISTOGRAM_BUCKETS ? bucket : GIN_HISTOGRAM_BUCKETS - 1;
}

static void note(ginHistogram_t *h, uint64_t value)
{
	statsAdd(&h->count, 1);
	statsAdd(&h->sum, value);
	statsAdd(&h->bucket[bucketOf(value)], 1);
	if (value > h->most)
		__atomic_store_n(&h->most, value, __ATOMIC_RELAXED);
}

void statsBatch(struct proxyStats *s, uint64_t count)
{
	note(&s->batch, count);
}

void statsSample(struct proxyStats *s, const struct proxyWork *w)
{
	s->sampled = w;
	s->nextSample = w->ticket + STATS_SAMPLE;
	s->sampledAt = clockNow();
}

void statsSampleLanded(struct proxyStats *s)
{
	if (s->sampled->op == ginOpPut && s->sampled->result == ginSuccess)
		note(&s->takenToReleased, clockNow() - s->sampledAt);
}

void statsSampleCompleted(struct proxyStats *s, int well)
{
	if (well)
		note(&s->takenToVisible, clockNow() - s->sampledAt);
	s->sampled = NULL;
}

static uint64_t word(const uint64_t *at)
{
	return __atomic_load_n(at, __ATOMIC_RELAXED);
}

static void readHistogram(const ginHistogram_t *h, ginHistogram_t *out)
{
	out->count = word(&h->count);
	out->sum = word(&h->sum);
	out->most = word(&h->most);
	for (int b = 0; b < GIN_HISTOGRAM_BUCKETS; b++)
		out->bucket[b] = word(&h->bucket[b]);
}

void statsAddPeer(const struct proxyPeerStats *s, ginPeerStats_t *out)
{
	out->completed += word(&s->completed);
	out->failed += word(&s->failed);
	out->putBytes += word(&s->putBytes);
	out->getBytes += word(&s->getBytes);
	out->posted += word(&s->posted);
}

uint64_t statsOutstanding(const struct proxyPeerStats *s, uint64_t *ended)
{
	uint64_t done = word(&s->ended), posted = word(&s->posted);

	*ended += done;
	return posted > done ? posted - done : 0;
}

void statsRead(const struct proxyStats *s, ginStats_t *out)
{
	out->counted = GIN_COUNTED_POSTS | GIN_COUNTED_BYTES;
	out->completed = word(&s->completed);
	out->failed = word(&s->failed);
	out->putBytes = word(&s->putBytes);
	out->getBytes = word(&s->getBytes);
	readHistogram(&s->batch, &out->batch);
	readHistogram(&s->takenToReleased, &out->takenToReleased);
	readHistogram(&s->takenToVisible, &out->takenToVisible);
	/*
	 * A batch is counted after all of it was started: some descriptors may be complete already.
	 */
	out->posted = out->batch.sum;
	if (out->posted < out->completed + out->failed)
		out->posted = out->completed + out->failed;
}
