/* SPDX-License-Identifier: BSD-3-Clause */
#include "ringer.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/base/thread.h"

enum { SPIN_NS = 1000000, NAP_NS = 20000, LONG_NS = 20000000, LONG_NAP_NS = 400000 };

/*
 * Taken, not looked at: a kernel may ring once more with what it has rung with before. Acquire: the
 * record comes before the doorbell.
 */
static int ringOne(uint64_t *word, uint64_t *where)
{
	if (!__atomic_load_n(word, __ATOMIC_RELAXED))
		return 0;
	uint64_t doorbell = __atomic_exchange_n(word, 0, __ATOMIC_ACQ_REL);
	__atomic_store_n(where, doorbell, __ATOMIC_RELEASE);
	return 1;
}

static int ringAll(struct rings *r)
{
	int rung = 0;

	for (uint32_t i = 0; i < r->count; i++)
		rung |= ringOne(&r->words[i], r->registers[i]);
	return rung;
}

static int turn(struct ringer *r)
{
	int rung = 0;

	for (struct rings *rings = r->rings; rings; rings = rings->next)
		rung |= ringAll(rings);
	return rung;
}

/* `last`: when something was rung. */
static void rest(uint64_t last)
{
	uint64_t idle = clockNow() - last;
	const struct timespec nap = {0, idle < LONG_NS ? NAP_NS : LONG_NAP_NS};

	if (idle < SPIN_NS)
		sched_yield();
	else
		nanosleep(&nap, NULL);
}

static void *ringerBody(void *arg)
{
	struct ringer *r = arg;
	uint64_t last = clockNow();

	pthread_mutex_lock(&r->lock);
	while (!r->closing) {
		if (!r->rings) {
			pthread_cond_wait(&r->wake, &r->lock);
			continue;
		}
		int rung = turn(r);
		pthread_mutex_unlock(&r->lock);
		if (rung)
			last = clockNow();
		else
			rest(last);
		pthread_mutex_lock(&r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

ginResult_t ringerOpen(struct ringer *r)
{
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->wake, NULL);
	errno = threadStart(&r->thread, "gin-ringer", ringerBody, r);
	r->started = !errno;
	if (r->started)
		return ginSuccess;
	ginResult_t result = failErrno("a thread that rings doorbells");
	pthread_cond_destroy(&r->wake);
	pthread_mutex_destroy(&r->lock);
	return result;
}

void ringerClose(struct ringer *r)
{
	if (!r->started)
		return;
	pthread_mutex_lock(&r->lock);
	r->closing = 1;
	pthread_cond_signal(&r->wake);
	pthread_mutex_unlock(&r->lock);
	pthread_join(r->thread, NULL);
	pthread_cond_destroy(&r->wake);
	pthread_mutex_destroy(&r->lock);
}

ginResult_t ringsMake(const struct device *d, uint32_t count, struct rings **rings)
{
	struct rings *r = calloc(1, sizeof(*r));
	void *words = NULL;

	if (!r)
		return fail(ginErrorSystem, "no memory");
	r->count = count;
	r->registers = calloc(count, sizeof(uint64_t *));
	ginResult_t result =
		r->registers ? pinnedAlloc(d, count * sizeof(*r->words), d->numaNode, &words)
			     : fail(ginErrorSystem, "no memory");
	if (result != ginSuccess) {
		ringsFree(d, r);
		return result;
	}
	r->words = words;
	*rings = r;
	return ginSuccess;
}

void ringsFree(const struct device *d, struct rings *r)
{
	pinnedFree(d, r->words);
	free(r->registers);
	free(r);
}

void ringerAdd(struct ringer *r, struct rings *rings)
{
	pthread_mutex_lock(&r->lock);
	rings->next = r->rings;
	r->rings = rings;
	pthread_cond_signal(&r->wake);
	pthread_mutex_unlock(&r->lock);
}

void ringerRemove(struct ringer *r, struct rings *rings)
{
	pthread_mutex_lock(&r->lock);
	struct rings **at = &r->rings;
	while (*at != rings)
		at = &(*at)->next;
	*at = rings->next;
	ringAll(rings);
	pthread_mutex_unlock(&r->lock);
}
