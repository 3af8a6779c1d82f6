/* SPDX-License-Identifier: BSD-3-Clause */
/* devcomm.c - device communicators: creates and destroys the structures that kernels read */
#include <string.h>

#include "devcomm.h"
#include "lib/base/deadline.h"
#include "lib/base/info.h"
#include "lib/base/log.h"
#include "lib/gpu/pinned.h"
#include "lib/gpu/room.h"

#define MOST_SIGNALS (1u << 20)
#define MOST_BARRIERS (1u << 16)
#define LEAST_QUEUE_DEPTH 16u
#define MOST_QUEUE_DEPTH 65536u

/* The depth that rings have: the next power of two. */
static uint32_t roundDepth(uint32_t depth)
{
	uint32_t rounded = LEAST_QUEUE_DEPTH;

	while (rounded < depth)
		rounded *= 2;
	return rounded;
}

ginResult_t devCommRead(const ginDevCommRequirements_t *given, ginDevCommRequirements_t *want)
{
	*want = (ginDevCommRequirements_t)GIN_DEV_COMM_REQUIREMENTS_INIT;
	if (!given ||
	    !infoTake(given, offsetof(ginDevCommRequirements_t, timeout), want, sizeof(*want)))
		return fail(ginErrorInvalidArgument,
			    "requirements is NULL or its size is wrong: initialize with "
			    "GIN_DEV_COMM_REQUIREMENTS_INIT");
	if (want->contexts < 1 || want->contexts > GIN_MAX_CONTEXTS)
		return fail(ginErrorInvalidArgument, "requirements.contexts is %u: must be 1 to %u",
			    want->contexts, GIN_MAX_CONTEXTS);
	if (want->signals > MOST_SIGNALS)
		return fail(ginErrorInvalidArgument, "requirements.signals is %u: must be 0 to %u",
			    want->signals, MOST_SIGNALS);
	if (want->counters > MOST_SIGNALS)
		return fail(ginErrorInvalidArgument, "requirements.counters is %u: must be 0 to %u",
			    want->counters, MOST_SIGNALS);
	if (want->barriers > MOST_BARRIERS)
		return fail(ginErrorInvalidArgument, "requirements.barriers is %u: must be 0 to %u",
			    want->barriers, MOST_BARRIERS);
	if (want->queueDepth < 1 || want->queueDepth > MOST_QUEUE_DEPTH)
		return fail(ginErrorInvalidArgument,
			    "requirements.queueDepth is %u: must be 1 to %u", want->queueDepth,
			    MOST_QUEUE_DEPTH);
	want->queueDepth = roundDepth(want->queueDepth);
	if (want->routes & ~(uint64_t)GIN_ROUTES_ALL)
		return fail(ginErrorInvalidArgument,
			    "requirements.routes is 0x%llx: must be 0, or a set of "
			    "GIN_ROUTES_DIRECT, GIN_ROUTES_PROXY and GIN_ROUTES_GDAKI",
			    (unsigned long long)want->routes);
	if (want->streams > 1)
		return fail(ginErrorInvalidArgument, "requirements.streams is %u: must be 0 or 1",
			    want->streams);
	if (want->trafficClass < -1 || want->trafficClass > 255)
		return fail(
			ginErrorInvalidArgument,
			"requirements.trafficClass is %d: must be 0 to 255, or -1 for GIN_NIC_TC",
			want->trafficClass);
	return ginSuccess;
}

static ginResult_t checkAbi(uint32_t abi, size_t bytes, const void *devComm)
{
	if (abi != GIN_DEVICE_ABI || bytes != sizeof(ginDevComm))
		return fail(ginErrorAbi,
			    "the program was compiled for device ABI %u with a ginDevComm of %zu "
			    "bytes, this libgin has ABI %u with %zu: compile it again",
			    abi, bytes, GIN_DEVICE_ABI, sizeof(ginDevComm));
	return devComm ? ginSuccess : fail(ginErrorInvalidArgument, "devComm is NULL");
}

/* Kernels may have no code for other routes than `promised`; 0: they have code for all. */
static ginResult_t checkPromise(ginComm_t comm, uint64_t promised)
{
	static const char *const names[] = {"none", "DIRECT", "PROXY", "GDAKI"};

	for (int r = 0; promised && r < comm->nRanks; r++)
		if (!(promised >> comm->routes[r] & 1))
			return fail(ginErrorUnsupported,
				    "rank %d reaches rank %d (host %s) by a route that "
				    "requirements.routes leaves out: add GIN_ROUTES_%s and compile "
				    "the kernels for it, or change GIN_ROUTE",
				    comm->rank, r, comm->ranks[r].host, names[comm->routes[r]]);
	return ginSuccess;
}

static ginResult_t checkRoutes(ginComm_t comm)
{
	char why[BACKEND_WHY];

	for (int r = 0; r < comm->nRanks; r++)
		if (comm->routes[r] == ginRouteNone)
			return fail(ginErrorUnsupported,
				    "no backend connects rank %d and rank %d (host %s): %s",
				    comm->rank, r, comm->ranks[r].host, routesWhy(comm, r, why));
	return ginSuccess;
}

/* The requirements, equal on all ranks. */
struct devCommShape {
	uint32_t contexts, signals, counters, barriers, queueDepth, routes;
};

static struct devCommShape shapeOf(const ginDevCommRequirements_t *want)
{
	return (struct devCommShape){want->contexts, want->signals,    want->counters,
				     want->barriers, want->queueDepth, (uint32_t)want->routes};
}

/* A kernel computes addresses in the arrays of other ranks: the requirements must be equal. */
static ginResult_t compareShape(const struct devCommShape *a, const struct devCommShape *b,
				int rank)
{
	if (a->contexts == b->contexts && a->signals == b->signals && a->counters == b->counters &&
	    a->barriers == b->barriers && a->queueDepth == b->queueDepth && a->routes == b->routes)
		return ginSuccess;
	if (a->routes != b->routes)
		return fail(ginErrorInvalidArgument,
			    "requirements.routes differ: 0x%x on rank %d, 0x%x on rank 0",
			    b->routes, rank, a->routes);
	return fail(
		ginErrorInvalidArgument,
		"requirements differ: %u contexts, %u signals, %u counters, %u barriers, queues "
		"of %u on rank %d, %u, %u, %u, %u, %u on rank 0",
		b->contexts, b->signals, b->counters, b->barriers, b->queueDepth, rank, a->contexts,
		a->signals, a->counters, a->barriers, a->queueDepth);
}

static ginResult_t agreeShape(ginComm_t comm, ginResult_t mine,
			      const ginDevCommRequirements_t *want)
{
	struct devCommShape own = {0}, *all = calloc((size_t)comm->nRanks, sizeof(*all));

	if (mine == ginSuccess && !all)
		mine = fail(ginErrorSystem, "no memory");
	if (mine == ginSuccess)
		own = shapeOf(want);
	mine = controlAllgather(&comm->control, "ginDevCommCreate", mine, &own, all, sizeof(own));
	for (int r = 1; mine == ginSuccess && r < comm->nRanks; r++)
		mine = compareShape(&all[0], &all[r], r);
	free(all);
	return mine;
}

/* After a failure, peers may still write into host words. */
static void freeHostWords(ginComm_t comm, void *words)
{
	if (controlError(&comm->control) == ginSuccess)
		pinnedFree(&comm->device, words);
	else
		pinnedAbandon(&comm->device, words);
}

static void freeWords(ginComm_t comm, struct devComm *dc)
{
	for (int writer = 0; writer < GIN_WRITER_CLASSES; writer++) {
		shareRelease(comm, &dc->shared[writer]);
		if (writer == ginWriterCpu)
			freeHostWords(comm, dc->words[writer]);
		else if (dc->words[writer])
			memoryFree(&comm->device, dc->words[writer]);
	}
}

static void freeDevComm(ginComm_t comm, struct devComm *dc)
{
	queuesClose(comm, &dc->queues);
	freeWords(comm, dc);
	poolFree(&comm->pool, dc->device.peers, dc->peersBytes);
	poolFree(&comm->pool, dc->local, dc->localBytes);
	if (dc->self) {
		deviceWrite(&comm->device, &dc->self->id, NULL, sizeof(uint64_t));
		poolKeep(&comm->pool, poolDevComms, dc->self, sizeof(*dc->self));
	}
	traceClose(comm, dc);
	pinnedFree(&comm->device, dc->lines);
	free(dc->stalled);
	free(dc);
}

static size_t wordBytes(const ginDevCommRequirements_t *want, int writer)
{
	size_t words = (size_t)want->contexts * want->signals +
		       (size_t)want->barriers * GIN_BARRIER_ROUNDS;

	return words * sizeof(uint64_t) * (writer == ginWriterCpu ? GIN_CPU_WORD_STRIDE : 1);
}

/* Signals, followed by the barriers' words; zeroed before any peer knows their address. */
static ginResult_t makeWords(ginComm_t comm, struct devComm *dc, int writer, size_t bytes,
			     struct memory *memory)
{
	void **words = &dc->words[writer];
	ginResult_t result = ginSuccess;

	if (bytes && writer == ginWriterCpu)
		result = pinnedAllocShared(&comm->device, bytes, comm->device.numaNode, words);
	else if (bytes)
		result = memoryAlloc(&comm->device, bytes, words);
	/* New host memory is zero. */
	if (result == ginSuccess && bytes && writer != ginWriterCpu && comm->device.cuda)
		result = deviceWrite(&comm->device, *words, NULL, bytes);
	if (result == ginSuccess)
		result = memoryDescribe(&comm->device, *words, bytes, memory);
	memory->cpuOnly = writer == ginWriterCpu;
	return result;
}

/* Collective, for each writer class that a backend in use has: at least one. */
static ginResult_t shareWords(ginComm_t comm, const char *call, ginResult_t mine,
			      struct devComm *dc, const ginDevCommRequirements_t *want)
{
	for (int writer = 0; writer < GIN_WRITER_CLASSES; writer++) {
		struct memory memory = {0};
		int used = shareHasWriter(comm, writer);
		if (mine == ginSuccess && used)
			mine = makeWords(comm, dc, writer, wordBytes(want, writer), &memory);
		if (used)
			mine = shareMemory(comm, call, mine, &memory, writer, &dc->shared[writer],
					   NULL);
		if (mine == ginSuccess && used)
			dc->device.signal[writer] = (uint64_t *)(void *)memory.address;
	}
	return mine;
}

/* GPU copies of the words that CPUs raise. */
static void setMirrors(ginDevComm *d, struct ginMirror *at, size_t signals)
{
	d->signalMirror = at;
	d->counterMirror = at + signals;
}

static size_t mirrorsOf(int byCpu, const ginDevCommRequirements_t *want)
{
	return byCpu ? (size_t)want->contexts * ((size_t)want->counters + want->signals) : 0;
}

static size_t localBytesOf(int byCpu, const ginDevCommRequirements_t *want)
{
	size_t each = (size_t)want->counters + want->signals;

	return sizeof(struct ginMirroredWord) + mirrorsOf(byCpu, want) * sizeof(struct ginMirror) +
	       (want->contexts * each + want->barriers + 1) * sizeof(uint64_t) +
	       GIN_WAITS * sizeof(uint32_t);
}

#define QUEUE_ENTRY 64u /* bytes of an entry of a queue, on every network route */

/* Host memory that the device communicator will take, except for small tables. */
static size_t hostBytesOf(ginComm_t comm, const ginDevCommRequirements_t *want)
{
	size_t bytes = 0;

	if (!comm->device.cuda)
		bytes += sizeof(ginDevComm) +
			 localBytesOf(shareHasWriter(comm, ginWriterCpu), want) +
			 wordBytes(want, ginWriterGpu);
	if (shareHasWriter(comm, ginWriterCpu))
		bytes += wordBytes(want, ginWriterCpu);
	if (shareHasWriter(comm, ginWriterCpu) || comm->host.copiesOnly)
		bytes += (size_t)want->contexts * ((size_t)want->queueDepth * QUEUE_ENTRY +
						   (size_t)want->counters * sizeof(uint64_t));
	return bytes;
}

/*
 * Each piece is checked again when it is allocated. This check comes before all allocations:
 * zeroing some pieces, only to find that there is no room for the others, takes many seconds.
 */
static ginResult_t checkHostMemory(ginComm_t comm, const ginDevCommRequirements_t *want)
{
	const char *what;
	size_t bytes = hostBytesOf(comm, want);
	uint64_t room = roomLeft(bytes, &what);

	if (bytes <= room)
		return ginSuccess;
	return fail(ginErrorSystem,
		    "requirements.contexts %u, signals %u, counters %u, barriers %u and queueDepth "
		    "%u take %zu bytes of host memory: %s has %llu left; ask for fewer",
		    want->contexts, want->signals, want->counters, want->barriers, want->queueDepth,
		    bytes, what, (unsigned long long)room);
}

/* Its address is a handle of kernels. */
static ginResult_t makeSelf(ginComm_t comm, struct devComm *dc)
{
	void *at = NULL;
	ginResult_t result = poolAllocHandle(&comm->pool, poolDevComms, sizeof(*dc->self), &at);

	dc->self = at;
	dc->device.self = at;
	return result;
}

/*
 * The memory that only this rank's kernels use, in this order: the watch of the abort line,
 * mirrors, counters, shadows, epochs, the claims on the error record and on records of waits.
 */
static ginResult_t makeLocal(ginComm_t comm, struct devComm *dc,
			     const ginDevCommRequirements_t *want)
{
	size_t counters = (size_t)want->contexts * want->counters;
	size_t signals = (size_t)want->contexts * want->signals;
	int byCpu = shareHasWriter(comm, ginWriterCpu);
	size_t mirrors = mirrorsOf(byCpu, want);
	const struct ginMirroredWord watch = {.word = &dc->lines->abort.word};
	void *at = NULL;

	dc->localBytes = localBytesOf(byCpu, want);
	ginResult_t result = poolAlloc(&comm->pool, dc->localBytes, &at);
	if (result != ginSuccess)
		return result;
	dc->local = at;
	dc->device.abort = at;
	struct ginMirror *mirror = (struct ginMirror *)(dc->device.abort + 1);
	if (mirrors)
		setMirrors(&dc->device, mirror, signals);
	dc->device.counter = (uint64_t *)(mirror + mirrors);
	dc->device.shadow = dc->device.counter + counters;
	dc->device.epoch = dc->device.shadow + signals;
	dc->device.errorClaim = (uint32_t *)(dc->device.epoch + want->barriers);
	dc->device.waitClaims = dc->device.errorClaim + 2;
	result = deviceWrite(&comm->device, at, NULL, dc->localBytes);
	return result == ginSuccess
		       ? deviceWrite(&comm->device, dc->device.abort, &watch, sizeof(watch))
		       : result;
}

_Static_assert(sizeof(struct hostLines) <= PINNED_SMALL, "it is a small block");

/* Of devComm.stalled, lost and unconnected, which are one piece of memory. */
static size_t ranksBytes(int nRanks)
{
	return (size_t)nRanks * (sizeof(struct stalled) + 2);
}

static ginResult_t makeLost(ginComm_t comm, struct devComm *dc, const uint8_t *unconnected)
{
	dc->whyRank = -1;
	dc->stalled = calloc(1, ranksBytes(comm->nRanks));
	if (!dc->stalled)
		return fail(ginErrorSystem, "no memory");
	dc->lost = (uint8_t *)(dc->stalled + comm->nRanks);
	dc->unconnected = dc->lost + comm->nRanks;
	if (unconnected)
		memcpy(dc->unconnected, unconnected, (size_t)comm->nRanks);
	return ginSuccess;
}

static ginResult_t makeLines(ginComm_t comm, struct devComm *dc)
{
	void *at = NULL;
	ginResult_t result = pinnedAllocSmall(&comm->device, sizeof(*dc->lines), &at);

	if (result != ginSuccess)
		return result;
	dc->lines = at;
	dc->question = 1;
	dc->device.abortLine = &dc->lines->abort;
	dc->device.errorRecord = &dc->lines->error;
	dc->device.waits = dc->lines->waits;
	return ginSuccess;
}

static void fillPeer(ginComm_t comm, const struct devComm *dc, int r, struct ginPeer *peer)
{
	char *signals = shareAddress(comm, &dc->shared[ginWriterGpu], r);

	*peer = (struct ginPeer){.route = comm->routes[r],
				 .state = dc->unconnected[r] ? ginPeerUnconnected : ginPeerAlive,
				 .signals = (uint64_t *)(void *)signals};
	queuesDescribePeer(comm, &dc->queues, r, peer);
}

static size_t peersBytes(int nRanks)
{
	return (size_t)nRanks * sizeof(struct ginPeer);
}

/*
 * The ranks compare their requirements, share the words of the route's writer class and agree. The
 * words are a window of the backend, whose share of a window `plan` has already.
 */
void devCommPlan(uint32_t writer, const ginDevCommRequirements_t *want, struct plan *plan)
{
	struct planMemory *memory = &plan->memory[planCreate];
	int byCpu = writer == ginWriterCpu;

	memory->heap += plan->memory[planWindow].heap + ranksBytes(plan->nRanks);
	plan->regions[planCreate] += plan->regions[planWindow];
	*(byCpu ? &memory->pinned : &memory->device) += wordBytes(want, (int)writer);
	memory->device += sizeof(ginDevComm) + localBytesOf(byCpu, want) +
			  peersBytes(plan->nRanks) + traceRingBytes(plan->nRanks);
	planAdd(plan, (struct planExchange){planCreate, 1, sizeof(struct devCommShape), 0});
	sharePlan(plan, planCreate);
	planAdd(plan, (struct planExchange){planCreate, 1, 0, 0});
}

/* Call it when the queues are open. */
static ginResult_t makePeers(ginComm_t comm, struct devComm *dc)
{
	void *at = NULL;

	dc->peersBytes = peersBytes(comm->nRanks);
	struct ginPeer *peers = calloc(1, dc->peersBytes);
	if (!peers)
		return fail(ginErrorSystem, "no memory");
	for (int r = 0; r < comm->nRanks; r++)
		fillPeer(comm, dc, r, &peers[r]);
	for (int r = 0; r < comm->nRanks && r < (int)GIN_DIRECT_SIGNALS; r++)
		dc->device.directSignals[r] = dc->unconnected[r] ? NULL : peers[r].signals;
	ginResult_t result = poolAlloc(&comm->pool, dc->peersBytes, &at);
	if (result == ginSuccess) {
		dc->device.peers = at;
		result = deviceWrite(&comm->device, at, peers, dc->peersBytes);
	}
	free(peers);
	return result;
}

/* The route to all peers if there is only one, and all are connected; otherwise none. */
static uint32_t commonRoute(const struct ginComm *comm, const struct devComm *dc)
{
	for (int r = 0; r < comm->nRanks; r++)
		if (comm->routes[r] != comm->routes[0] || dc->unconnected[r])
			return ginRouteNone;
	return comm->routes[0];
}

static void fillDevice(ginComm_t comm, struct devComm *dc, const ginDevCommRequirements_t *want)
{
	ginDevComm *d = &dc->device;

	d->size = sizeof(*d);
	d->abi = GIN_DEVICE_ABI;
	d->rank = (uint32_t)comm->rank;
	d->nRanks = (uint32_t)comm->nRanks;
	d->domainSize = (uint32_t)comm->domainSize;
	d->domainRank = d->rank % d->domainSize;
	d->route = commonRoute(comm, dc);
	if (d->route == ginRouteDirect)
		d->signalMirror = NULL; /* the proxy copies, but raises no signal */
	d->contexts = want->contexts;
	d->signals = want->signals;
	d->counters = want->counters;
	d->barriers = want->barriers;
	d->timeout = want->timeout;
	d->id = ++comm->devCommSerial;
}

static ginResult_t build(ginComm_t comm, struct devComm *dc, const ginDevCommRequirements_t *want)
{
	static const char call[] = "ginDevCommCreate";
	const struct backendContexts queues = {.contexts = want->contexts,
					       .signals = want->signals,
					       .counters = want->counters,
					       .barriers = want->barriers,
					       .depth = want->queueDepth,
					       .trafficClass = want->trafficClass};
	ginResult_t mine = makeLost(comm, dc, want->unconnected);

	if (mine == ginSuccess && want->streams)
		mine = devCommStreamCalls(comm, &dc->stream);
	if (mine == ginSuccess)
		mine = makeLines(comm, dc);
	if (mine == ginSuccess)
		mine = makeSelf(comm, dc);
	if (mine == ginSuccess)
		mine = makeLocal(comm, dc, want);
	mine = shareWords(comm, call, mine, dc, want);
	if (mine == ginSuccess)
		fillDevice(comm, dc, want);
	mine = queuesOpen(comm, call, mine, &queues, dc->shared, &dc->queues);
	if (mine == ginSuccess) {
		queuesDescribe(comm, &dc->queues, &dc->device);
		mine = makePeers(comm, dc);
	}
	if (mine == ginSuccess)
		mine = traceOpen(comm, dc);
	if (mine == ginSuccess)
		mine = deviceWrite(&comm->device, dc->self, &dc->device, sizeof(dc->device));
	return controlAgree(&comm->control, call, mine);
}

/*
 * After this, devCommsFail() reaches the kernels of `dc`. Passes on what devCommsFail() and
 * ginCommMask() have noted before.
 */
static void addDevComm(ginComm_t comm, struct devComm *dc)
{
	pthread_mutex_lock(&comm->lock);
	dc->next = comm->devComms;
	comm->devComms = dc;
	devCommTellLost(comm, dc);
	pthread_mutex_unlock(&comm->lock);
}

static ginResult_t create(ginComm_t comm, ginResult_t mine, const ginDevCommRequirements_t *want,
			  struct devComm **out)
{
	struct deviceScope scope;
	struct devComm *dc = calloc(1, sizeof(*dc));

	if (mine == ginSuccess && !dc)
		mine = fail(ginErrorSystem, "no memory");
	ginResult_t entered = mine == ginSuccess ? deviceEnter(&comm->device, &scope) : mine;
	uint64_t before = deadlineBegin();
	mine = agreeShape(comm, entered, want);
	if (mine == ginSuccess)
		mine = build(comm, dc, want);
	deadlineEnd(before);
	if (mine == ginSuccess)
		*out = dc;
	else if (dc)
		freeDevComm(comm, dc);
	if (entered == ginSuccess)
		deviceLeave(&comm->device, &scope);
	return mine;
}

ginResult_t ginDevCommCreateAbi(ginComm_t comm, const ginDevCommRequirements_t *requirements,
				uint32_t abi, size_t devCommSize, ginDevComm *devComm)
{
	ginDevCommRequirements_t want;
	struct devComm *dc = NULL;
	ginResult_t result = commEnter(comm, "ginDevCommCreate");

	if (result != ginSuccess)
		return result;
	result = devCommRead(requirements, &want);
	if (result == ginSuccess)
		result = checkAbi(abi, devCommSize, devComm);
	if (result == ginSuccess)
		result = checkRoutes(comm);
	if (result == ginSuccess)
		result = checkPromise(comm, want.routes);
	if (result == ginSuccess)
		result = checkHostMemory(comm, &want);
	result = create(comm, result, &want, &dc);
	if (result != ginSuccess)
		return result;
	addDevComm(comm, dc);
	*devComm = dc->device;
	windowsRelease(comm);
	return ginSuccess;
}

struct devComm **devCommFind(ginComm_t comm, const ginDevComm *devComm)
{
	for (struct devComm **at = &comm->devComms; devComm && *at; at = &(*at)->next)
		if ((*at)->device.id == devComm->id &&
		    (*at)->lines == (const void *)devComm->abortLine)
			return at;
	fail(ginErrorInvalidArgument, "devComm is not of this communicator");
	return NULL;
}

static struct devComm *takeDevComm(ginComm_t comm, const ginDevComm *devComm)
{
	pthread_mutex_lock(&comm->lock);
	struct devComm **at = devCommFind(comm, devComm);
	struct devComm *dc = at ? *at : NULL;
	if (dc)
		*at = dc->next;
	pthread_mutex_unlock(&comm->lock);
	return dc;
}

/*
 * The posts of kernels must complete on all ranks before any rank frees the queues and the words
 * that they use. A rank that gives some of them up ends the communicator: its queues take part in
 * transfers that are in progress.
 */
static void drainAll(ginComm_t comm, struct devComm *dc)
{
	ginResult_t drained = ginSuccess;

	if (controlError(&comm->control) == ginSuccess)
		drained = queuesDrain(comm, &dc->queues);
	if (drained != ginSuccess)
		controlEndAll(&comm->control, drained);
	devCommLogStats(comm, dc);
	if (queuesAny(&dc->queues))
		controlAgree(&comm->control, "ginDevCommDestroy", ginSuccess);
}

/* `alone`: the communicator has failed already. */
static ginResult_t destroy(ginComm_t comm, const ginDevComm *devComm, ginResult_t mine, int alone)
{
	struct deviceScope scope;
	ginResult_t result = controlAgreeOn(&comm->control, "ginDevCommDestroy", mine,
					    mine == ginSuccess ? devComm->id : 0);

	if (mine != ginSuccess ||
	    (result != ginSuccess && controlError(&comm->control) == ginSuccess))
		return result;
	struct devComm *dc = takeDevComm(comm, devComm);
	result = deviceEnter(&comm->device, &scope);
	drainAll(comm, dc);
	freeDevComm(comm, dc);
	if (result == ginSuccess)
		deviceLeave(&comm->device, &scope);
	/* A rank that dies meanwhile is no failure of this call. */
	return !alone && controlError(&comm->control) == ginErrorTimeout ? ginErrorTimeout : result;
}

ginResult_t ginDevCommDestroy(ginComm_t comm, const ginDevComm *devComm)
{
	ginResult_t result = commEnter(comm, "ginDevCommDestroy");

	if (result != ginSuccess)
		return result;
	/* First, because it replaces the thread's sentence, which then says what is wrong here. */
	int alone = controlError(&comm->control) != ginSuccess;
	pthread_mutex_lock(&comm->lock);
	struct devComm **at = devCommFind(comm, devComm);
	struct devComm *found = at ? *at : NULL;
	pthread_mutex_unlock(&comm->lock);
	ginResult_t mine = found ? devCommCheckIdle(comm, found) : ginErrorInvalidArgument;
	if (mine != ginSuccess && alone)
		return mine;
	uint64_t before = deadlineBegin();
	result = destroy(comm, devComm, mine, alone);
	deadlineEnd(before);
	return result;
}

void devCommsFree(ginComm_t comm)
{
	if (comm->devComms)
		logWrite(logWarn,
			 "ginCommDestroy() found device communicators that were not destroyed");
	pthread_mutex_lock(&comm->lock); /* devCommsFail() may walk the list */
	struct devComm *left = comm->devComms;
	comm->devComms = NULL;
	pthread_mutex_unlock(&comm->lock);
	while (left) {
		struct devComm *dc = left;
		left = dc->next;
		freeDevComm(comm, dc);
	}
}
