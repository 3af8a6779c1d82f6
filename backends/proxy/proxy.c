/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proxy.c - the proxy backend: CPU threads move the data that kernels ask for
 *
 * Kernels post descriptors into the ring of a context (include/gin/proxy/ring.cuh). A worker thread
 * (worker.c) takes them (engine.c), checks them (descriptor.c) and starts the transport of the peer
 * (transports.c), which moves the data.
 */
#include <stdlib.h>
#include <string.h>

#include "direct_copies.h"
#include "worker.h"

struct proxy {
	const struct backendHost *host;
	struct proxySlots slots;
	struct proxyTransports transports;
	struct proxyWorkers workers;
};

struct proxyContexts {
	struct proxy *proxy;
	struct proxyRings rings;
	uint32_t made; /* engines that have a worker: 0 to made - 1 */
	struct proxyEngine *engine[];
};

static void closeProxy(struct proxy *p)
{
	transportsClose(&p->transports);
	slotsClose(&p->slots);
	free(p);
}

static ginResult_t openWorkers(struct proxy *p)
{
	return workersOpen(p->host, &p->transports, paramNumber(paramProxyThreads), &p->workers);
}

static ginResult_t openProxy(struct proxy *p, const struct backendHost *host)
{
	unsigned threads = paramNumber(paramProxyThreads);

	p->host = host;
	ginResult_t result = slotsOpen(&p->slots);
	if (result == ginSuccess)
		result = transportsOpen(host, &p->slots, threads ? threads : 1, &p->transports);
	if (result == ginSuccess && !transportsNeedConnect(&p->transports))
		result = openWorkers(p);
	return result;
}

static ginResult_t proxyOpen(const struct backendHost *host, void **state)
{
	struct deviceScope scope;
	struct proxy *p = calloc(1, sizeof(*p));

	if (!p)
		return fail(ginErrorSystem, "no memory");
	ginResult_t result = deviceEnter(host->device, &scope);
	if (result == ginSuccess) {
		result = openProxy(p, host);
		deviceLeave(host->device, &scope);
	}
	if (result == ginSuccess)
		*state = p;
	else
		closeProxy(p);
	return result;
}

static ginResult_t startWorkers(struct proxy *p)
{
	struct deviceScope scope;
	ginResult_t result = deviceEnter(p->host->device, &scope);

	if (result != ginSuccess)
		return result;
	result = openWorkers(p);
	deviceLeave(p->host->device, &scope);
	return result;
}

static ginResult_t connectLocks(struct proxy *p, const char *call)
{
	struct deviceScope scope;
	ginResult_t entered = deviceEnter(p->host->device, &scope);
	ginResult_t result = wordLocksConnect(&p->transports.locks, call, entered);

	if (entered == ginSuccess)
		deviceLeave(p->host->device, &scope);
	return result;
}

/* On a network, threads start when every lane is connected, because peers may send at once. */
static ginResult_t proxyConnect(void *state, const char *call)
{
	struct proxy *p = state;
	ginResult_t locked = ginSuccess;

	if (transportsNeedLocks(&p->transports))
		locked = connectLocks(p, call);
	if (locked != ginSuccess || !transportsNeedConnect(&p->transports))
		return locked;
	ginResult_t mine = transportsConnect(&p->transports, call);
	if (mine == ginSuccess)
		mine = startWorkers(p);
	return p->host->allgather(p->host->core, call, mine, NULL, NULL, 0);
}

static void proxyClose(void *state)
{
	struct proxy *p = state;

	workersClose(&p->workers);
	closeProxy(p);
}

static void proxyWindowDeregister(void *state, void *window)
{
	struct proxy *p = state;
	struct proxyWindow *w = window;

	if (w->hasSlot)
		slotsGive(&p->slots, w);
	if (w->isPublished)
		workersQuiesce(&p->workers);
	transportsDeregister(&p->transports, w);
	free(w);
}

static ginResult_t offerWindow(struct proxy *p, const struct memory *memory, void *offer,
			       struct proxyWindow *w)
{
	struct proxyOffer own = {.bytes = 0};
	ginResult_t result = transportsOffer(&p->transports, memory, &own, w);

	if (transportsChangeWords(&p->transports))
		w->part[w->rank].isChangeable = 1;

	if (result == ginSuccess)
		result = slotsTake(&p->slots, w);
	if (result != ginSuccess)
		return result;
	proxyWindowOwn(w, &own);
	memcpy(offer, &own, sizeof(own));
	return ginSuccess;
}

static ginResult_t keepLocal(struct proxy *p, const struct memory *memory, struct proxyWindow *w)
{
	ginResult_t result = transportsLocal(&p->transports, memory, w);

	w->isLocal = 1;
	if (result == ginSuccess)
		result = slotsTake(&p->slots, w);
	if (result == ginSuccess)
		slotsPublish(&p->slots, w);
	return result;
}

static ginResult_t proxyWindowOffer(void *state, const struct memory *memory, void *offer,
				    void **window)
{
	struct proxy *p = state;
	struct proxyWindow *w = NULL;
	ginResult_t result = proxyWindowMake(p->host, memory, &w);

	if (result != ginSuccess)
		return result;
	result = offer ? offerWindow(p, memory, offer, w) : keepLocal(p, memory, w);
	if (result == ginSuccess)
		*window = w;
	else
		proxyWindowDeregister(p, w);
	return result;
}

static ginResult_t proxyWindowRegister(void *state, const char *call, ginResult_t mine,
				       const uint8_t *offers, size_t stride, void *window)
{
	struct proxy *p = state;

	(void)call;
	mine = transportsRegister(&p->transports, mine, offers, stride, window);
	if (mine == ginSuccess)
		slotsPublish(&p->slots, window);
	return mine;
}

static void proxyWindowDescribe(void *window, struct ginWindowTable *table)
{
	const struct proxyWindow *w = window;

	table->slot = w->slot;
	table->fence = w->fence;
	table->agent = proxyWindowAgent(w);
}

static int proxyDeviceAtomics(const void *state)
{
	const struct proxy *p = state;

	return transportsChangeWords(&p->transports);
}

static struct descriptorScope scopeOf(struct proxy *p, const struct proxyContexts *s,
				      const struct proxyRing *host, uint32_t context)
{
	const struct backendContexts *want = &s->rings.want;
	int words = want->words != NULL; /* 0: only copies are valid */

	return (struct descriptorScope){.slots = &p->slots,
					.words = want->words,
					.counters = host->counters,
					.results = host->results,
					.resultTickets = host->resultTickets,
					.firstSignal = (uint64_t)context * want->signals,
					.firstBarrier = (uint64_t)want->contexts * want->signals,
					.signals = words ? want->signals : 0,
					.nCounters = want->counters,
					.nBarrierWords =
						words ? want->barriers * GIN_BARRIER_ROUNDS : 0,
					.rank = (uint32_t)p->host->rank,
					.nRanks = (uint32_t)p->host->nRanks};
}

static ginResult_t makeEngine(struct proxy *p, struct proxyContexts *s, uint32_t context)
{
	const struct proxyRing host = proxyRingOf(&s->rings, context);
	const struct descriptorScope scope = scopeOf(p, s, &host, context);
	ginResult_t result = engineMake(&host, &scope, s->rings.want.depth, &s->engine[context]);

	if (result != ginSuccess)
		return result;
	s->engine[context]->context = context;
	workersAdd(&p->workers, s->engine[context]);
	s->made++;
	return ginSuccess;
}

static ginResult_t proxyContextsStats(void *contexts, uint32_t context, ginStats_t *stats)
{
	struct proxyContexts *s = contexts;
	const struct proxyEngine *engine = s->engine[context];

	statsRead(&engine->stats, stats);
	workersStats(&s->proxy->workers, engine, stats);
	return proxyRingsWaits(&s->rings, context, &stats->waitsForRoom);
}

static ginResult_t proxyContextsPeerStats(void *contexts, int peer, ginPeerStats_t *stats)
{
	const struct proxyContexts *s = contexts;

	stats->counted = GIN_COUNTED_POSTS | GIN_COUNTED_BYTES;
	for (uint32_t c = 0; c < s->made; c++)
		statsAddPeer(&s->engine[c]->flows[peer].stats, stats);
	return ginSuccess;
}

static uint64_t proxyContextsOutstanding(void *contexts, int peer, uint64_t *completed)
{
	const struct proxyContexts *s = contexts;
	uint64_t outstanding = 0;

	for (uint32_t c = 0; c < s->made; c++)
		outstanding += statsOutstanding(&s->engine[c]->flows[peer].stats, completed);
	return outstanding;
}

static ginResult_t failDrain(const struct proxy *p, const struct proxyEngine *engine)
{
	int peer = engineFirstPeer(engine);

	return fail(ginErrorTimeout,
		    "%llu descriptors of context %u, the first to rank %d (host %s), are not done "
		    "within %u s (GIN_TIMEOUT), and are given up",
		    (unsigned long long)(engine->taken - engine->retired), engine->context, peer,
		    p->host->ranks[peer].host, paramNumber(paramTimeout));
}

static ginResult_t proxyContextsDrain(void *state, void *contexts)
{
	struct proxy *p = state;
	struct proxyContexts *s = contexts;

	for (uint32_t c = 0; c < s->made; c++)
		if (!workersDrain(&p->workers, s->engine[c]) && !p->host->hasFailed(p->host->core))
			return failDrain(p, s->engine[c]);
	return ginSuccess;
}

static void proxyContextsClose(void *state, void *contexts)
{
	struct proxy *p = state;
	struct proxyContexts *s = contexts;

	while (s->made)
		workersRemove(&p->workers, s->engine[--s->made]);
	for (uint32_t c = 0; c < s->rings.want.contexts; c++)
		engineFree(s->engine[c]);
	proxyRingsFree(&s->rings);
	free(s);
}

static size_t contextsBytes(size_t contexts)
{
	return sizeof(struct proxyContexts) + contexts * sizeof(struct proxyEngine *);
}

static void planProxy(struct plan *plan)
{
	transportsPlan(plan);
	proxyWindowPlan(plan);
	proxyRingsPlan(plan);
	enginePlan(plan);
	plan->memory[planCreate].heap += contextsBytes(plan->want->contexts);
}

static ginResult_t proxyContextsOpen(void *state, const char *call, ginResult_t mine,
				     const struct backendContexts *want, void **contexts)
{
	struct proxy *p = state;

	(void)call;
	if (mine != ginSuccess)
		return mine;
	struct proxyContexts *s = calloc(1, contextsBytes(want->contexts));
	if (!s)
		return fail(ginErrorSystem, "no memory");
	s->proxy = p;
	mine = proxyRingsMake(p->host->device, p->host->nRanks, want, &s->rings);
	for (uint32_t c = 0; c < want->contexts && mine == ginSuccess; c++)
		mine = makeEngine(p, s, c);
	if (mine == ginSuccess)
		*contexts = s;
	else
		proxyContextsClose(p, s);
	return mine;
}

static void proxyContextsDescribe(void *contexts, ginDevComm *devComm)
{
	struct proxyContexts *s = contexts;

	proxyRingsDescribe(&s->rings, devComm);
	devComm->engineBytes = directCopiesFrom(&s->proxy->transports);
	for (uint32_t c = 0; c < s->rings.want.contexts; c++)
		s->engine[c]->devComm = devComm->id;
}

static int proxyProgress(void *state)
{
	struct proxy *p = state;

	return workersTurn(&p->workers);
}

const struct backendOps backendProxy = {
	.name = "proxy",
	.route = ginRouteProxy,
	.writer = ginWriterCpu,
	.network = 1,
	.copies = 1,
	.probe = transportsProbe,
	.reach = transportsReach,
	.searches = transportsSearches,
	.search = transportsSearch,
	.hasFound = transportsHaveFound,
	.open = proxyOpen,
	.connect = proxyConnect,
	.close = proxyClose,
	.windowOffer = proxyWindowOffer,
	.windowRegister = proxyWindowRegister,
	.windowDeregister = proxyWindowDeregister,
	.windowDescribe = proxyWindowDescribe,
	.deviceAtomics = proxyDeviceAtomics,
	.contextsOpen = proxyContextsOpen,
	.contextsDescribe = proxyContextsDescribe,
	.contextsStats = proxyContextsStats,
	.contextsPeerStats = proxyContextsPeerStats,
	.contextsOutstanding = proxyContextsOutstanding,
	.contextsDrain = proxyContextsDrain,
	.contextsClose = proxyContextsClose,
	.progress = proxyProgress,
	.plan = planProxy,
};
