/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats.h - counts the descriptors, bytes and times of one context's ring
 *
 * The context's worker writes, any thread reads. Accesses are relaxed: each word is correct by
 * itself. The clock is read for one descriptor in STATS_SAMPLE, to keep the cost low.
 */
#ifndef GIN_PROXY_STATS_H
#define GIN_PROXY_STATS_H

#include "work.h"

/* A prime number, so that sampling does not follow a pattern of descriptors. */
#define STATS_SAMPLE 31u

/* Of the descriptors to one peer. */
struct proxyPeerStats {
	uint64_t posted, completed, failed;
	uint64_t putBytes, getBytes;
	uint64_t ended; /* signal and atomic are done, too, or have failed */
};

struct proxyStats {
	uint64_t completed, failed;
	uint64_t putBytes, getBytes;
	ginHistogram_t batch, takenToReleased, takenToVisible;

	/* The descriptor whose times are measured. */
	const struct proxyWork *sampled; /* NULL: none */
	uint64_t nextSample;		 /* lowest ticket of the next sample */
	uint64_t sampledAt;
};

static inline void statsAdd(uint64_t *word, uint64_t by)
{
	__atomic_store_n(word, *word + by, __ATOMIC_RELAXED);
}

/* `count` descriptors were taken in one batch. */
void statsBatch(struct proxyStats *stats, uint64_t count);

void statsSample(struct proxyStats *stats, const struct proxyWork *work);
void statsSampleLanded(struct proxyStats *stats);
void statsSampleCompleted(struct proxyStats *stats, int well);

/* The engine calls one of the functions below for each event of a descriptor. */

/* The descriptor was taken. */
static inline void statsTaken(struct proxyStats *s, const struct proxyWork *w)
{
	if (__builtin_expect(w->ticket >= s->nextSample && !s->sampled, 0))
		statsSample(s, w);
}

/* The data has moved, or the transfer has failed. */
static inline void statsLanded(struct proxyStats *s, const struct proxyWork *w)
{
	if (__builtin_expect(w == s->sampled, 0))
		statsSampleLanded(s);
}

/*
 * The data of all earlier descriptors to the peer has moved, too. Called before the target or the
 * kernel can observe the transfer, so that an observer finds it counted.
 */
static inline void statsTurn(struct proxyStats *s, struct proxyPeerStats *peer,
			     const struct proxyWork *w)
{
	int well = w->result == ginSuccess;

	statsAdd(well ? &s->completed : &s->failed, 1);
	statsAdd(well ? &peer->completed : &peer->failed, 1);
	if (well && w->op <= ginOpGet) {
		statsAdd(w->op == ginOpGet ? &s->getBytes : &s->putBytes, w->bytes);
		statsAdd(w->op == ginOpGet ? &peer->getBytes : &peer->putBytes, w->bytes);
	}
}

/* Signal and atomic are done, if `well`; the done word is not yet published. */
static inline void statsCompleted(struct proxyStats *s, const struct proxyWork *w, int well)
{
	if (__builtin_expect(w == s->sampled, 0))
		statsSampleCompleted(s, well);
}

/* The ring has failed: the descriptor is taken, and not done. */
static inline void statsDropped(struct proxyStats *s, const struct proxyWork *w)
{
	statsAdd(&s->failed, 1);
	statsCompleted(s, w, 0);
}

/* Any thread. */
void statsRead(const struct proxyStats *stats, ginStats_t *out);
/* How many descriptors are not done; adds those that are to *ended. */
uint64_t statsOutstanding(const struct proxyPeerStats *stats, uint64_t *ended);
/* Adds to the numbers of other contexts. */
void statsAddPeer(const struct proxyPeerStats *stats, ginPeerStats_t *out);

#endif
