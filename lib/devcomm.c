/* SPDX-License-Identifier: BSD-3-Clause */
/* devcomm.c - device communicators: what kernels read, and how they learn of failures */
#include <stdio.h>

#include "comm.h"
#include "lines.h"
#include "log.h"

#define MOST_SIGNALS (1u << 20)

struct devComm {
	ginDevComm device; /* what the user has */
	void *signals;	   /* this rank's, class gpu; memoryAlloc's, NULL when there are none */
	struct shared shared;
	struct contexts contexts;
	struct hostLines *lines;
	size_t peersBytes;
	struct devComm *next;
};

static ginResult_t readRequirements(const ginDevCommRequirements_t *given,
				    ginDevCommRequirements_t *want)
{
	*want = (ginDevCommRequirements_t)GIN_DEV_COMM_REQUIREMENTS_INIT;
	if (!given || given->size < offsetof(ginDevCommRequirements_t, timeout) ||
	    given->size > 4096)
		return fail(ginErrorInvalidArgument,
			    "requirements is NULL or its size is wrong: initialize with "
			    "GIN_DEV_COMM_REQUIREMENTS_INIT");
	memcpy(want, given, given->size < sizeof(*want) ? given->size : sizeof(*want));
	if (want->contexts < 1 || want->contexts > GIN_MAX_CONTEXTS)
		return fail(ginErrorInvalidArgument, "requirements.contexts is %u: must be 1 to %u",
			    want->contexts, GIN_MAX_CONTEXTS);
	if (want->signals > MOST_SIGNALS)
		return fail(ginErrorInvalidArgument, "requirements.signals is %u: must be 0 to %u",
			    want->signals, MOST_SIGNALS);
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

static ginResult_t checkRoutes(ginComm_t comm)
{
	char why[BACKEND_WHY];

	for (int r = 0; r < comm->nRanks; r++)
		if (comm->routes[r] == ginRouteNone)
			return fail(ginErrorUnsupported,
				    "no backend connects rank %d and rank %d (host %s): direct: "
				    "%s; this libgin has no network backend",
				    comm->rank, r, comm->ranks[r].host, commRouteWhy(comm, r, why));
	return ginSuccess;
}

/* Kernels compute addresses in each other's arrays: the shapes must be equal. */
static ginResult_t agreeShape(ginComm_t comm, ginResult_t mine,
			      const ginDevCommRequirements_t *want)
{
	uint32_t shape[2] = {want->contexts, want->signals};
	uint32_t(*all)[2] = calloc((size_t)comm->nRanks, sizeof(*all));

	if (mine == ginSuccess && !all)
		mine = fail(ginErrorSystem, "no memory");
	mine = controlAllgather(&comm->control, "ginDevCommCreate", mine, shape, all,
				sizeof(shape));
	for (int r = 1; mine == ginSuccess && r < comm->nRanks; r++)
		if (memcmp(all[r], all[0], sizeof(shape)))
			mine = fail(
				ginErrorInvalidArgument,
				"requirements differ: %u contexts and %u signals on rank %d, %u "
				"and %u on rank 0",
				all[r][0], all[r][1], r, all[0][0], all[0][1]);
	free(all);
	return mine;
}

static void freeDevComm(ginComm_t comm, struct devComm *dc)
{
	routesContextsClose(comm, &dc->contexts);
	routesUnshare(comm, &dc->shared);
	if (dc->signals)
		memoryFree(&comm->device, dc->signals);
	poolFree(&comm->pool, dc->device.peers, dc->peersBytes);
	poolFree(&comm->pool, dc->device.errorClaim, sizeof(uint32_t));
	linesFree(&comm->device, dc->lines);
	free(dc);
}

/* Zeroed before any peer knows where they are. */
static ginResult_t makeSignals(ginComm_t comm, struct devComm *dc,
			       const ginDevCommRequirements_t *want, struct memory *memory)
{
	size_t bytes = (size_t)want->contexts * want->signals * sizeof(uint64_t);
	ginResult_t result = ginSuccess;

	if (bytes)
		result = memoryAlloc(&comm->device, bytes, &dc->signals);
	if (result == ginSuccess && bytes)
		result = deviceWrite(&comm->device, dc->signals, NULL, bytes);
	if (result == ginSuccess)
		result = memoryDescribe(&comm->device, dc->signals, bytes, memory);
	return result;
}

static ginResult_t makeLines(ginComm_t comm, struct devComm *dc)
{
	void *at = NULL;
	ginResult_t result = linesAlloc(&comm->device, &dc->lines);

	if (result == ginSuccess)
		result = poolAlloc(&comm->pool, sizeof(uint32_t), &at);
	if (result != ginSuccess)
		return result;
	dc->device.errorClaim = at;
	dc->device.abortLine = &dc->lines->abort;
	dc->device.errorRecord = &dc->lines->error;
	return deviceWrite(&comm->device, at, NULL, sizeof(uint32_t));
}

static ginResult_t makePeers(ginComm_t comm, struct devComm *dc)
{
	void *at = NULL;

	dc->peersBytes = (size_t)comm->nRanks * sizeof(struct ginPeer);
	struct ginPeer *peers = calloc(1, dc->peersBytes);
	if (!peers)
		return fail(ginErrorSystem, "no memory");
	for (int r = 0; r < comm->nRanks; r++)
		peers[r] =
			(struct ginPeer){comm->routes[r], ginPeerAlive,
					 (uint64_t *)(void *)routesAddress(comm, &dc->shared, r)};
	ginResult_t result = poolAlloc(&comm->pool, dc->peersBytes, &at);
	if (result == ginSuccess) {
		dc->device.peers = at;
		result = deviceWrite(&comm->device, at, peers, dc->peersBytes);
	}
	free(peers);
	return result;
}

static void fillDevice(ginComm_t comm, struct devComm *dc, const ginDevCommRequirements_t *want)
{
	ginDevComm *d = &dc->device;

	d->size = sizeof(*d);
	d->abi = GIN_DEVICE_ABI;
	d->rank = (uint32_t)comm->rank;
	d->nRanks = (uint32_t)comm->nRanks;
	d->contexts = want->contexts;
	d->signals = want->signals;
	d->timeout = want->timeout;
	d->signal[ginWriterGpu] = dc->signals;
	d->id = ++comm->devCommSerial;
}

static ginResult_t build(ginComm_t comm, struct devComm *dc, const ginDevCommRequirements_t *want)
{
	static const char call[] = "ginDevCommCreate";
	const struct backendContexts queues = {want->contexts, want->signals};
	struct memory memory = {0};
	ginResult_t mine = makeSignals(comm, dc, want, &memory);

	if (mine == ginSuccess)
		mine = makeLines(comm, dc);
	mine = routesShare(comm, call, mine, &memory, &dc->shared);
	if (mine != ginSuccess)
		return mine;
	fillDevice(comm, dc, want);
	return routesContextsOpen(comm, call, makePeers(comm, dc), &queues, &dc->contexts);
}

/* A failure from now on reaches its kernels; one before has been seen by the last agreement. */
static void addDevComm(ginComm_t comm, struct devComm *dc)
{
	pthread_mutex_lock(&comm->lock);
	dc->next = comm->devComms;
	comm->devComms = dc;
	pthread_mutex_unlock(&comm->lock);
	if (controlError(&comm->control) != ginSuccess)
		devCommsFail(comm, -1, controlError(&comm->control));
}

static ginResult_t create(ginComm_t comm, const ginDevCommRequirements_t *want,
			  struct devComm **out)
{
	struct deviceScope scope;
	struct devComm *dc = calloc(1, sizeof(*dc));
	ginResult_t entered = deviceEnter(&comm->device, &scope);
	ginResult_t mine = dc ? entered : fail(ginErrorSystem, "no memory");

	mine = controlAgree(&comm->control, "ginDevCommCreate", mine);
	if (mine == ginSuccess) {
		mine = build(comm, dc, want);
		if (mine != ginSuccess)
			freeDevComm(comm, dc);
	} else {
		free(dc);
	}
	if (entered == ginSuccess)
		deviceLeave(&comm->device, &scope);
	if (mine == ginSuccess)
		*out = dc;
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
	result = readRequirements(requirements, &want);
	if (result == ginSuccess)
		result = checkAbi(abi, devCommSize, devComm);
	if (result == ginSuccess)
		result = checkRoutes(comm);
	result = agreeShape(comm, result, &want);
	if (result == ginSuccess)
		result = create(comm, &want, &dc);
	if (result != ginSuccess)
		return result;
	addDevComm(comm, dc);
	*devComm = dc->device;
	return ginSuccess;
}

static struct devComm **findDevComm(ginComm_t comm, const ginDevComm *devComm)
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
	struct devComm **at = findDevComm(comm, devComm);
	struct devComm *dc = at ? *at : NULL;
	if (dc)
		*at = dc->next;
	pthread_mutex_unlock(&comm->lock);
	return dc;
}

ginResult_t ginDevCommDestroy(ginComm_t comm, const ginDevComm *devComm)
{
	struct deviceScope scope;
	ginResult_t result = commEnter(comm, "ginDevCommDestroy");

	if (result != ginSuccess)
		return result;
	pthread_mutex_lock(&comm->lock);
	ginResult_t mine = findDevComm(comm, devComm) ? ginSuccess : ginErrorInvalidArgument;
	pthread_mutex_unlock(&comm->lock);
	result = controlAgree(&comm->control, "ginDevCommDestroy", mine);
	if (mine != ginSuccess ||
	    (result != ginSuccess && controlError(&comm->control) == ginSuccess))
		return result;
	struct devComm *dc = takeDevComm(comm, devComm);
	result = deviceEnter(&comm->device, &scope);
	freeDevComm(comm, dc);
	if (result == ginSuccess)
		deviceLeave(&comm->device, &scope);
	return result;
}

void devCommsFree(ginComm_t comm)
{
	if (comm->devComms)
		logWrite(logWarn, "rank %d: device communicators were not destroyed", comm->rank);
	while (comm->devComms) {
		struct devComm *dc = comm->devComms;
		comm->devComms = dc->next;
		freeDevComm(comm, dc);
	}
}

static const char *callName(uint32_t call)
{
	static const char *const names[] = {"no call", "put",	     "putValue",
					    "signal",  "waitSignal", "flush"};

	return call < sizeof(names) / sizeof(names[0]) ? names[call] : "unknown call";
}

/* The record in words, for ginGetLastError. */
static void sayRecord(const ginErrorRecord_t *r)
{
	char text[SENTENCE_BYTES], where[64] = "";
	int used = snprintf(text, sizeof(text), "%s in context %u", callName(r->call), r->context);

	if (r->peer >= 0)
		snprintf(where, sizeof(where), ", rank %d", r->peer);
	if (r->call == ginCallWaitSignal)
		used += snprintf(text + used, sizeof(text) - (size_t)used,
				 ", signal %u: expected at least %llu, saw %llu", r->signal,
				 (unsigned long long)r->expected, (unsigned long long)r->seen);
	snprintf(text + used, sizeof(text) - (size_t)used, "%s: %s", where,
		 ginGetErrorString((ginResult_t)r->result));
	failAs((ginResult_t)r->result, text);
}

ginResult_t ginDevCommGetError(ginComm_t comm, const ginDevComm *devComm, ginErrorRecord_t *record)
{
	ginErrorRecord_t copy = {0};
	ginResult_t result = commEnter(comm, "ginDevCommGetError");

	if (result != ginSuccess)
		return result;
	if (!record)
		return fail(ginErrorInvalidArgument, "record is NULL");
	pthread_mutex_lock(&comm->lock);
	struct devComm **at = findDevComm(comm, devComm);
	/* E, acquire end: pairs with ginErrorPublish of the device. */
	if (at && __atomic_load_n(&(*at)->lines->error.valid, __ATOMIC_ACQUIRE))
		copy = (*at)->lines->error;
	pthread_mutex_unlock(&comm->lock);
	if (!at)
		return ginErrorInvalidArgument;
	if (copy.valid)
		sayRecord(&copy);
	*record = copy;
	return ginSuccess;
}

/* Relaxed: the kernels' ginPeerObserve looks at the state alone. */
static void failPeer(ginComm_t comm, struct devComm *dc, int rank)
{
	static const uint32_t failed = ginPeerFailed;
	struct ginPeer *peer = &dc->device.peers[rank];

	if (comm->device.cuda)
		deviceWrite(&comm->device, &peer->state, &failed, sizeof(failed));
	else
		__atomic_store_n(&peer->state, failed, __ATOMIC_RELAXED);
}

/*
 * To a kernel every failure but an abort is one of its peers: a timeout of the host's must not look
 * like one of its own. Relaxed: pairs with nothing, the word says all.
 */
static void writeLine(struct devComm *dc, int rank, ginResult_t result)
{
	uint32_t told = result == ginErrorAborted ? ginErrorAborted : ginErrorPeer;
	uint64_t word = (uint64_t)(uint32_t)rank << 32 | told;

	__atomic_store_n(&dc->lines->abort.word, word, __ATOMIC_RELAXED);
}

/* All of them when the communicator as a whole has failed, or this rank has given up. */
static void failPeers(ginComm_t comm, struct devComm *dc, int rank)
{
	int all = rank < 0 || rank == comm->rank;

	for (int r = all ? 0 : rank; r < (all ? comm->nRanks : rank + 1); r++)
		failPeer(comm, dc, r);
}

/* The lines first: they end waits at once, and a call that finds its peer failed reads there why.
 */
void devCommsFail(ginComm_t comm, int rank, ginResult_t result)
{
	struct deviceScope scope;

	pthread_mutex_lock(&comm->lock);
	for (struct devComm *dc = comm->devComms; dc; dc = dc->next)
		writeLine(dc, rank, result);
	if (comm->devComms && deviceEnter(&comm->device, &scope) == ginSuccess) {
		for (struct devComm *dc = comm->devComms; dc; dc = dc->next)
			failPeers(comm, dc, rank);
		deviceLeave(&comm->device, &scope);
	}
	pthread_mutex_unlock(&comm->lock);
}
