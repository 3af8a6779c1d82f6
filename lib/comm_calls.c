/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_calls.c - calls that make, query, drive and leave a communicator */
#include <stdio.h>

#include "bootstrap/root.h"
#include "comm.h"
#include "lib/base/deadline.h"
#include "lib/base/info.h"
#include "lib/base/param.h"
#include "lib/base/range.h"
#include "lib/control/recover.h"

#define NAME_MOST 47

static ginResult_t readConfig(const ginConfig_t *given, ginConfig_t *config)
{
	*config = (ginConfig_t)GIN_CONFIG_INIT;
	if (!given)
		return ginSuccess;
	if (!infoTake(given, offsetof(ginConfig_t, allgather), config, sizeof(*config)))
		return fail(ginErrorInvalidArgument,
			    "config.size is %zu: initialize with GIN_CONFIG_INIT", given->size);
	if (config->name && strlen(config->name) > NAME_MOST)
		return fail(ginErrorInvalidArgument, "config.name has %zu characters: at most %d",
			    strlen(config->name), NAME_MOST);
	return ginSuccess;
}

ginResult_t commCheckConfig(const ginConfig_t *config)
{
	if (routesForced(config->backend) < 0)
		return fail(ginErrorInvalidArgument,
			    "config.backend is %.40s: must be NULL or one of %s", config->backend,
			    strchr(paramBackendChoices, '|') + 1);
	if (config->copyEngines != 0 && config->copyEngines != 1)
		return fail(ginErrorInvalidArgument, "config.copyEngines is %d: must be 0 or 1",
			    config->copyEngines);
	return ginSuccess;
}

static ginResult_t checkRank(const char *what, int rank, int nRanks)
{
	if (nRanks > ROOT_RANKS && rank >= 0)
		return fail(ginErrorInvalidArgument, "%snRanks is %d: at most %d", what, nRanks,
			    ROOT_RANKS);
	if (nRanks >= 1 && rank >= 0 && rank < nRanks)
		return ginSuccess;
	return fail(ginErrorInvalidArgument,
		    "%srank is %d and %snRanks %d: rank must be 0 to nRanks - 1", what, rank, what,
		    nRanks);
}

static struct commStart makeStart(const ginConfig_t *config)
{
	return (struct commStart){.config = config,
				  .device = config->device,
				  .forced = routesForced(config->backend),
				  .copyEngines = routesWantCopies(config->copyEngines),
				  .interrupt = {.poll = config->poll, .arg = config->pollArg},
				  .wanted = {.forced = paramText(paramBootstrap),
					     .root = paramText(paramRoot),
					     .secret = paramText(paramSecret),
					     .interface = paramText(paramSocketIfname),
					     .name = config->name ? config->name : "",
					     .seconds = paramNumber(paramTimeout),
					     .deadline = deadlineHere(),
					     .allgather = config->allgather,
					     .allgatherArg = config->allgatherArg,
					     .rank = config->rank,
					     .nRanks = config->nRanks}};
}

static ginResult_t openAndTest(const char *call, const struct commStart *start, ginComm_t *out)
{
	ginComm_t comm = NULL;
	ginResult_t result = commOpen(call, start, &comm);

	if (result != ginSuccess)
		return result;
	result = commSelftest(comm, call);
	if (result != ginSuccess)
		return commDrop(comm, result);
	routesNoteTransport(comm);
	*out = comm;
	return ginSuccess;
}

/* Opens a communicator of a whole job, and tests it where GIN_SELFTEST says so. */
static ginResult_t openTested(const char *call, const struct commStart *start, ginComm_t *out)
{
	uint64_t before = deadlineBegin();
	ginResult_t result = openAndTest(call, start, out);

	deadlineEnd(before);
	return result;
}

ginResult_t ginCommInit(const ginConfig_t *given, ginComm_t *comm)
{
	ginConfig_t config;

	errorScope("ginCommInit", -1);
	if (!comm)
		return fail(ginErrorInvalidArgument, "comm is NULL");
	ginResult_t result = readConfig(given, &config);
	if (result == ginSuccess && config.allgather)
		result = checkRank("config.", config.rank, config.nRanks);
	if (result != ginSuccess)
		return result;
	struct commStart start = makeStart(&config);
	return openTested("ginCommInit", &start, comm);
}

ginResult_t ginGetUniqueId(ginUniqueId_t *id)
{
	struct rootContact contact;
	char why[BOOTSTRAP_WHY];

	errorScope("ginGetUniqueId", -1);
	ginResult_t result = paramCheck();
	if (result == ginSuccess && !id)
		result = fail(ginErrorInvalidArgument, "id is NULL");
	if (result != ginSuccess)
		return result;
	if (rootMakeId(&contact, paramText(paramSocketIfname), paramNumber(paramTimeout), why))
		return fail(ginErrorBootstrap, "%s", why);
	rootToId(&contact, (uint8_t *)id->bytes);
	return ginSuccess;
}

_Static_assert(sizeof(ginUniqueId_t) == ROOT_ID_BYTES, "an id holds a contact");

ginResult_t ginCommInitRank(const ginConfig_t *given, const ginUniqueId_t *id, int rank, int nRanks,
			    ginComm_t *comm)
{
	struct rootContact contact = {0};
	ginConfig_t config;

	errorScope("ginCommInitRank", -1);
	if (!comm || !id)
		return fail(ginErrorInvalidArgument, "%s is NULL", comm ? "id" : "comm");
	rootFromId((const uint8_t *)id->bytes, &contact);
	if (contact.magic != ROOT_MAGIC)
		return fail(ginErrorInvalidArgument,
			    "id is not from ginGetUniqueId(): give every rank all bytes of it");
	ginResult_t result = readConfig(given, &config);
	if (result == ginSuccess && config.allgather)
		result = fail(ginErrorInvalidArgument,
			      "config.allgather is set, and so is id: give only one of them");
	if (result == ginSuccess)
		result = checkRank("", rank, nRanks);
	if (result != ginSuccess)
		return result;
	struct commStart start = makeStart(&config);
	start.wanted.uniqueId = &contact;
	start.wanted.rank = rank;
	start.wanted.nRanks = nRanks;
	return openTested("ginCommInitRank", &start, comm);
}

_Static_assert(GIN_ALLGATHER_BYTES == CONTROL_BYTES, "gin.h says what control.h allows");

static ginResult_t give(int value, int *out, const char *name)
{
	if (!out)
		return fail(ginErrorInvalidArgument, "%s is NULL", name);
	*out = value;
	return ginSuccess;
}

ginResult_t ginCommRank(ginComm_t comm, int *rank)
{
	ginResult_t result = commEnter(comm, "ginCommRank");

	return result == ginSuccess ? give(comm->rank, rank, "rank") : result;
}

ginResult_t ginCommSize(ginComm_t comm, int *nRanks)
{
	ginResult_t result = commEnter(comm, "ginCommSize");

	return result == ginSuccess ? give(comm->nRanks, nRanks, "nRanks") : result;
}

ginResult_t ginCommDevice(ginComm_t comm, int *device)
{
	ginResult_t result = commEnter(comm, "ginCommDevice");

	return result == ginSuccess ? give(comm->device.ordinal, device, "device") : result;
}

static void fillPeer(ginComm_t comm, int peer, ginPeerInfo_t *info)
{
	const struct identity *me = &comm->ranks[comm->rank], *other = &comm->ranks[peer];

	*info = (ginPeerInfo_t)GIN_PEER_INFO_INIT;
	info->route = comm->routes[peer];
	info->sameHost = identitySameHost(me, other);
	info->sameProcess = identitySameProcess(me, other);
	snprintf(info->host, sizeof(info->host), "%s", other->host);
	snprintf(info->device, sizeof(info->device), "%s", comm->deviceNames[peer]);
	snprintf(info->backend, sizeof(info->backend), "%s", routesName(comm, peer));
	routesWhy(comm, peer, info->why);
}

ginResult_t ginCommQueryPeer(ginComm_t comm, int peer, ginPeerInfo_t *out)
{
	ginPeerInfo_t info;
	ginResult_t result = commEnter(comm, "ginCommQueryPeer");

	if (result != ginSuccess)
		return result;
	if (peer < 0 || peer >= comm->nRanks)
		return fail(ginErrorInvalidArgument, "peer is %d: must be 0 to %d", peer,
			    comm->nRanks - 1);
	fillPeer(comm, peer, &info);
	return infoGive(&info, sizeof(info), "GIN_PEER_INFO_INIT", out);
}

static void countRanks(const struct ginComm *comm, ginCommInfo_t *info)
{
	for (int r = 0; r < comm->nRanks; r++) {
		int local = identitySameHost(&comm->ranks[r], &comm->ranks[comm->rank]);
		info->localRanks += local;
		info->hosts += !comm->localIndex[r];
	}
	info->localRank = (int)comm->localIndex[comm->rank];
}

static int deviceAtomics(const struct ginComm *comm)
{
	for (int b = 0; b < BACKENDS_COUNT; b++) {
		const struct backendUse *use = &comm->backend[b];
		if (use->used && !use->copiesOnly && use->ops->deviceAtomics &&
		    !use->ops->deviceAtomics(use->state))
			return !comm->device.cuda;
	}
	return 1;
}

ginResult_t ginCommQuery(ginComm_t comm, ginCommInfo_t *out)
{
	ginCommInfo_t info = GIN_COMM_INFO_INIT;
	ginResult_t result = commEnter(comm, "ginCommQuery");

	if (result != ginSuccess)
		return result;
	info.rank = comm->rank;
	info.nRanks = comm->nRanks;
	info.device = comm->device.ordinal;
	info.backends = BACKENDS_COUNT;
	info.deviceAtomics = deviceAtomics(comm);
	info.domainSize = comm->domainSize;
	info.domainRank = comm->rank % comm->domainSize;
	info.streams = commHasStreams(comm);
	countRanks(comm, &info);
	snprintf(info.bootstrap, sizeof(info.bootstrap), "%s", comm->bootstrap->name);
	snprintf(info.host, sizeof(info.host), "%s", comm->ranks[comm->rank].host);
	snprintf(info.deviceName, sizeof(info.deviceName), "%s", comm->device.name);
	return infoGive(&info, sizeof(info), "GIN_COMM_INFO_INIT", out);
}

static void fillBackend(ginComm_t comm, const struct backendUse *use, ginBackendInfo_t *info)
{
	info->usable = routesUsable(use, info->why);
	for (int r = 0; r < comm->nRanks; r++)
		info->pairs += comm->routes[r] == use->ops->route;
	snprintf(info->name, sizeof(info->name), "%s", use->ops->name);
}

ginResult_t ginCommQueryBackend(ginComm_t comm, int index, ginBackendInfo_t *out)
{
	ginBackendInfo_t info = GIN_BACKEND_INFO_INIT;
	ginResult_t result = commEnter(comm, "ginCommQueryBackend");

	if (result != ginSuccess)
		return result;
	if (index < 0 || index >= BACKENDS_COUNT)
		return fail(ginErrorInvalidArgument, "index is %d: must be 0 to %d", index,
			    BACKENDS_COUNT - 1);
	fillBackend(comm, &comm->backend[index], &info);
	return infoGive(&info, sizeof(info), "GIN_BACKEND_INFO_INIT", out);
}

static ginResult_t checkAllgather(const void *in, const void *out, size_t bytes)
{
	if (bytes > CONTROL_BYTES)
		return fail(ginErrorInvalidArgument,
			    "bytes is %zu: the control plane takes at most %d from each rank; "
			    "use windows for data",
			    bytes, CONTROL_BYTES);
	if (bytes && (!in || !out))
		return fail(ginErrorInvalidArgument, "%s is NULL", in ? "out" : "in");
	return ginSuccess;
}

/* A rank with a wrong argument still takes part, so that no other rank waits for it. */
ginResult_t ginCommAllgather(ginComm_t comm, const void *in, void *out, size_t bytes)
{
	ginResult_t result = commEnter(comm, "ginCommAllgather");

	if (result != ginSuccess)
		return result;
	rangeBegin("ginCommAllgather");
	result = controlAllgather(&comm->control, "ginCommAllgather",
				  checkAllgather(in, out, bytes), in, out, bytes);
	if (result == ginSuccess)
		windowsRelease(comm);
	rangeEnd();
	return result;
}

static int progressAll(ginComm_t comm)
{
	int did = 0;

	for (int b = 0; b < BACKENDS_COUNT; b++) {
		struct backendUse *use = &comm->backend[b];
		if (use->state && use->ops->progress)
			did |= use->ops->progress(use->state);
	}
	return did;
}

ginResult_t ginCommProgress(ginComm_t comm, int *did)
{
	struct deviceScope scope;
	ginResult_t result = commEnter(comm, "ginCommProgress");

	if (result != ginSuccess)
		return result;
	result = deviceEnter(&comm->device, &scope);
	if (result != ginSuccess)
		return result;
	int some = progressAll(comm);
	deviceLeave(&comm->device, &scope);
	if (did)
		*did = some;
	return ginSuccess;
}

/*
 * All ranks must have arrived before any rank frees memory that peers reach. After a failure no
 * rank waits for another, and the call succeeds. A rank that refuses takes part, so that no rank
 * frees anything.
 */
ginResult_t ginCommDestroy(ginComm_t comm)
{
	if (!comm)
		return ginSuccess;
	ginResult_t result = commEnter(comm, "ginCommDestroy");
	if (result != ginSuccess)
		return result;
	int alone = controlError(&comm->control) != ginSuccess;
	ginResult_t mine = devCommsCheckIdle(comm);
	uint64_t before = deadlineBegin();
	result = alone ? mine : controlAgree(&comm->control, "ginCommDestroy", mine);
	if (mine != ginSuccess || result == ginErrorInvalidUsage) {
		deadlineEnd(before);
		return result;
	}
	/* The new communicator may know of a death earlier than this one. */
	if (result == ginErrorPeer && recoverFinished(&comm->control))
		result = ginSuccess;
	commClose(comm);
	deadlineEnd(before);
	return result;
}

ginResult_t ginCommAbort(ginComm_t comm)
{
	ginResult_t result = commEnter(comm, "ginCommAbort");

	if (result == ginSuccess)
		controlAbort(&comm->control);
	return result;
}

ginResult_t ginCommGetAsyncError(ginComm_t comm, ginResult_t *error)
{
	ginResult_t result = commEnter(comm, "ginCommGetAsyncError");

	if (result != ginSuccess)
		return result;
	if (!error)
		return fail(ginErrorInvalidArgument, "error is NULL");
	*error = controlError(&comm->control);
	return ginSuccess;
}
