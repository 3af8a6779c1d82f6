/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats.h - what went through one context's queue
 *
 * Written by the thread that has the context's turn, read by anybody: relaxed, every word by itself.
 * The clock is read for one descriptor in STATS_SAMPLE, so that counting costs next to nothing.
 */
#ifndef GIN_PROXY_STATS_H
#define GIN_PROXY_STATS_H

#include "work.h"

/* A prime: what repeats among descriptors is not followed. */
#define STATS_SAMPLE 31u

struct proxyStats {
	uint64_t completed, failed;
	uint64_t putBytes, getBytes;
	ginHistogram_t batch, takenToReleased, takenToVisible;

	/* The descriptor whose times are taken. */
	const struct proxyWork *sampled; /* NULL: none */
	uint64_t nextSample;		 /* the ticket of the next, at least */
	uint64_t sampledAt;
};

static inline void statsAdd(uint64_t *word, uint64_t by)
{
	__atomic_store_n(word, *word + by, __ATOMIC_RELAXED);
}

/* `count` descriptors were taken at one look. */
void statsBatch(struct proxyStats *stats, uint64_t count);

void statsSample(struct proxyStats *stats, const struct proxyWork *work);
void statsSampleLanded(struct proxyStats *stats);
void statsSampleCompleted(struct proxyStats *stats, int well);

/* It has been taken. */
static inline void statsTaken(struct proxyStats *s, const struct proxyWork *w)
{
	if (__builtin_expect(w->ticket >= s->nextSample && !s->sampled, 0))
		statsSample(s, w);
}

/* Its data has moved, or has not. */
static inline void statsLanded(struct proxyStats *s, const struct proxyWork *w)
{
	if (__builtin_expect(w == s->sampled, 0))
		statsSampleLanded(s);
}

/* All that hangs on it is done, if `well`; the kernel is yet to be told. */
static inline void statsCompleted(struct proxyStats *s, const struct proxyWork *w, int well)
{
	if (__builtin_expect(w == s->sampled, 0))
		statsSampleCompleted(s, well);
}

/* Before the target or the kernel can know of it: whoever does finds it counted. */
static inline void statsCount(struct proxyStats *s, const struct proxyWork *w, int well)
{
	statsAdd(well ? &s->completed : &s->failed, 1);
	if (well && w->op <= ginOpGet)
		statsAdd(w->op == ginOpGet ? &s->getBytes : &s->putBytes, w->bytes);
}

/* Any thread. */
void statsRead(const struct proxyStats *stats, ginStats_t *out);

#endif
