/* SPDX-License-Identifier: BSD-3-Clause */
/* doorbell.c - maps doorbell registers for the GPU, or rings doorbells by a thread */
#include "doorbell.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/base/range.h"
#include "lib/base/thread.h"

struct doorbellPage {
	struct doorbellPage *next;
	void *at;
	unsigned users;
	int foreign; /* other code of this process registered the page and unregisters it */
};

static struct doorbellPage *pages;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The link that points to the page; a link to NULL if the page is not in the list. */
static struct doorbellPage **findPage(const void *at)
{
	struct doorbellPage **link = &pages;

	while (*link && (*link)->at != at)
		link = &(*link)->next;
	return link;
}

static ginResult_t refused(const struct device *d, const struct rdmaRegister *where, cuResult error)
{
	const char *text = NULL;

	if (d->cuda->getErrorString(error, &text))
		text = "an unknown error";
	if (paramChoice(paramUarMap) == uarMapPlain)
		return fail(ginErrorCuda,
			    "GPU %d cannot map the NIC's doorbell register (%s) as ordinary "
			    "memory: cuMemHostRegister: %s",
			    d->ordinal, where->kind, text);
	return fail(
		ginErrorCuda,
		"GPU %d cannot map the NIC's doorbell register (%s): cuMemHostRegister: %s; the "
		"NVIDIA driver may need PeerMappingOverride=1, or try GIN_UAR_MAP=plain",
		d->ordinal, where->kind, text);
}

static ginResult_t registerPage(const struct device *d, const struct rdmaRegister *where,
				struct doorbellPage *page)
{
	unsigned io = paramChoice(paramUarMap) == uarMapPlain ? 0 : cuRegisterIoMemory;
	cuResult error = d->cuda->hostRegister(where->page, RDMA_PAGE,
					       cuRegisterPortable | cuRegisterMapped | io);

	page->foreign = error == cuAlreadyRegistered;
	return error && !page->foreign ? refused(d, where, error) : ginSuccess;
}

static ginResult_t addPage(const struct device *d, const struct rdmaRegister *where)
{
	struct doorbellPage *page = calloc(1, sizeof(*page));

	if (!page)
		return fail(ginErrorSystem, "no memory");
	page->at = where->page;
	ginResult_t result = registerPage(d, where, page);
	if (result != ginSuccess) {
		free(page);
		return result;
	}
	page->next = pages;
	pages = page;
	return ginSuccess;
}

static void dropPage(const struct device *d, struct doorbellPage **link)
{
	struct doorbellPage *page = *link;

	if (--page->users)
		return;
	if (!page->foreign)
		d->cuda->hostUnregister(page->at);
	*link = page->next;
	free(page);
}

static ginResult_t mapLocked(const struct device *d, const struct rdmaRegister *where,
			     void **kernels)
{
	cuPtr at = 0;

	if (!*findPage(where->page)) {
		ginResult_t result = addPage(d, where);
		if (result != ginSuccess)
			return result;
	}
	struct doorbellPage **link = findPage(where->page);
	(*link)->users++;
	cuResult error = d->cuda->hostDevicePointer(&at, where->page, 0);
	if (error) {
		dropPage(d, link);
		return cudaFail(d->cuda, "cuMemHostGetDevicePointer", error);
	}
	at += (uintptr_t)where->at - (uintptr_t)where->page;
	*kernels = (void *)(uintptr_t)at;
	return ginSuccess;
}

ginResult_t doorbellMap(const struct device *d, const struct rdmaRegister *where, void **kernels)
{
	if (!d->cuda) {
		*kernels = where->at;
		return ginSuccess;
	}
	pthread_mutex_lock(&lock);
	ginResult_t result = mapLocked(d, where, kernels);
	pthread_mutex_unlock(&lock);
	return result;
}

void doorbellUnmap(const struct device *d, const struct rdmaRegister *where)
{
	if (!d->cuda)
		return;
	pthread_mutex_lock(&lock);
	dropPage(d, findPage(where->page));
	pthread_mutex_unlock(&lock);
}

/*
 * An idle ringer yields until SPIN_NS, then naps: for NAP_NS until LONG_NS, then for LONG_NAP_NS.
 */
enum { SPIN_NS = 1000000, NAP_NS = 20000, LONG_NS = 20000000, LONG_NAP_NS = 400000 };

/*
 * N, relayed: acquires the doorbell that ginNicRing stored and releases it to the NIC, so that all
 * that precedes the doorbell for the kernel precedes it for the NIC. The word is exchanged with 0,
 * not compared with its last value: a kernel may ring again with an equal doorbell.
 */
static int ringOne(uint64_t *word, uint64_t *where)
{
	if (!__atomic_load_n(word, __ATOMIC_RELAXED))
		return 0;
	uint64_t doorbell = __atomic_exchange_n(word, 0, __ATOMIC_ACQ_REL);
	__atomic_store_n(where, doorbell, __ATOMIC_RELEASE);
	return 1;
}

static int ringAll(struct ringerWords *r)
{
	int rung = 0;

	for (uint32_t i = 0; i < r->count; i++)
		rung |= ringOne(&r->words[i], r->registers[i]);
	return rung;
}

static int ringLists(struct gdakiRinger *r)
{
	int rung = 0;

	for (struct ringerWords *w = r->list; w; w = w->next)
		rung |= ringAll(w);
	return rung;
}

/* `last`: when a doorbell was last rung, by clockNow(). */
static void pauseSince(uint64_t last)
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
	struct gdakiRinger *r = arg;
	uint64_t last = clockNow();

	rangeThread("gin-ringer");
	pthread_mutex_lock(&r->lock);
	while (!r->closing) {
		if (!r->list) {
			pthread_cond_wait(&r->wake, &r->lock);
			continue;
		}
		int rung = ringLists(r);
		pthread_mutex_unlock(&r->lock);
		if (rung)
			last = clockNow();
		else
			pauseSince(last);
		pthread_mutex_lock(&r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

ginResult_t ringerOpen(struct gdakiRinger *r)
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

void ringerClose(struct gdakiRinger *r)
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

ginResult_t ringerWordsMake(const struct device *d, uint32_t count, struct ringerWords **words)
{
	struct ringerWords *r = calloc(1, sizeof(*r));
	void *at = NULL;

	if (!r)
		return fail(ginErrorSystem, "no memory");
	r->count = count;
	r->registers = calloc(count, sizeof(uint64_t *));
	ginResult_t result = r->registers
				     ? pinnedAlloc(d, count * sizeof(*r->words), d->numaNode, &at)
				     : fail(ginErrorSystem, "no memory");
	if (result != ginSuccess) {
		ringerWordsFree(d, r);
		return result;
	}
	r->words = at;
	*words = r;
	return ginSuccess;
}

void ringerWordsFree(const struct device *d, struct ringerWords *r)
{
	pinnedFree(d, r->words);
	free(r->registers);
	free(r);
}

void ringerAdd(struct gdakiRinger *r, struct ringerWords *words)
{
	pthread_mutex_lock(&r->lock);
	words->next = r->list;
	r->list = words;
	pthread_cond_signal(&r->wake);
	pthread_mutex_unlock(&r->lock);
}

void ringerRemove(struct gdakiRinger *r, struct ringerWords *words)
{
	pthread_mutex_lock(&r->lock);
	struct ringerWords **at = &r->list;
	while (*at != words)
		at = &(*at)->next;
	*at = words->next;
	ringAll(words);
	pthread_mutex_unlock(&r->lock);
}
