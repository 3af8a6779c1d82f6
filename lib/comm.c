/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.c - making, asking and leaving a communicator */
#include "comm.h"

#include <unistd.h>

#include "log.h"
#include "param.h"

ginResult_t commEnter(ginComm_t comm, const char *call)
{
	errorScope(call, comm ? comm->rank : -1);
	return comm ? ginSuccess : fail(ginErrorInvalidArgument, "comm is NULL");
}

/* Members that the caller's older header does not have keep their default. */
static ginResult_t readConfig(const ginConfig_t *given, ginConfig_t *config)
{
	*config = (ginConfig_t)GIN_CONFIG_INIT;
	if (!given)
		return ginSuccess;
	if (given->size < offsetof(ginConfig_t, allgather) || given->size > 4096)
		return fail(ginErrorInvalidArgument,
			    "config.size is %zu: initialize with GIN_CONFIG_INIT", given->size);
	memcpy(config, given, given->size < sizeof(*config) ? given->size : sizeof(*config));
	if (config->device < GIN_DEVICE_NONE)
		return fail(ginErrorInvalidArgument,
			    "config.device is %d: a CUDA ordinal, GIN_DEVICE_AUTO or "
			    "GIN_DEVICE_NONE",
			    config->device);
	if (config->allgather &&
	    (config->nRanks < 1 || config->rank < 0 || config->rank >= config->nRanks))
		return fail(ginErrorInvalidArgument,
			    "config.rank is %d and config.nRanks %d: rank must be 0 to nRanks - 1",
			    config->rank, config->nRanks);
	return ginSuccess;
}

static ginResult_t openBootstrap(ginComm_t comm, const ginConfig_t *config)
{
	struct bootstrapCaller caller = {config->allgather, config->allgatherArg, config->rank,
					 config->nRanks};
	char why[BOOTSTRAP_WHY] = "";

	comm->bootstrap =
		bootstrapChoose(config->allgather != NULL, paramText(paramBootstrap), why);
	if (!comm->bootstrap ||
	    comm->bootstrap->open(&caller, &comm->bootstrapState, &comm->rank, &comm->nRanks, why))
		return fail(ginErrorBootstrap, "%s", why);
	return ginSuccess;
}

static ginResult_t allocRanks(ginComm_t comm)
{
	size_t n = (size_t)comm->nRanks;

	comm->ranks = calloc(n, sizeof(*comm->ranks));
	comm->deviceNames = calloc(n, sizeof(*comm->deviceNames));
	comm->routes = calloc(n, 1);
	if (comm->ranks && comm->deviceNames && comm->routes)
		return ginSuccess;
	return fail(ginErrorSystem, "no memory");
}

static void freeRanks(ginComm_t comm)
{
	free(comm->ranks);
	free(comm->deviceNames);
	free(comm->routes);
}

static ginResult_t checkIdentities(ginComm_t comm)
{
	for (int r = 0; r < comm->nRanks; r++)
		if (comm->ranks[r].magic != IDENTITY_MAGIC)
			return fail(ginErrorBootstrap,
				    "rank %d (host %.63s) could not start or has another libgin "
				    "than %d.%d.%d: see its own message",
				    r, comm->ranks[r].host, GIN_VERSION_MAJOR, GIN_VERSION_MINOR,
				    GIN_VERSION_PATCH);
	return ginSuccess;
}

/* A rank that cannot go on takes part all the same, so that nobody waits for it. */
static ginResult_t gatherIdentities(ginComm_t comm, int *listener)
{
	struct identity me = {0};
	char why[BOOTSTRAP_WHY] = "";
	ginResult_t mine = identityMake(&me);

	*listener = -1;
	if (mine == ginSuccess)
		mine = controlListen(&me.port, listener);
	if (mine != ginSuccess)
		me.magic = 0;
	if (comm->bootstrap->allgather(comm->bootstrapState, &me, comm->ranks, sizeof(me),
				       paramNumber(paramTimeout), why))
		mine = fail(ginErrorBootstrap, "%s", why);
	if (mine == ginSuccess)
		mine = checkIdentities(comm);
	if (mine != ginSuccess && *listener >= 0)
		close(*listener);
	return mine;
}

static void commFailed(void *arg, int rank, ginResult_t result)
{
	devCommsFail(arg, rank, result);
}

static ginResult_t openControl(ginComm_t comm)
{
	int listener;
	ginResult_t result = gatherIdentities(comm, &listener);

	if (result != ginSuccess)
		return result;
	return controlOpen(&comm->control, listener, comm->rank, comm->nRanks, comm->ranks,
			   commFailed, comm);
}

static int localRank(const struct ginComm *comm)
{
	int local = 0;

	for (int r = 0; r < comm->rank; r++)
		local += identitySameHost(&comm->ranks[r], &comm->ranks[comm->rank]);
	return local;
}

static ginResult_t openDevice(ginComm_t comm, int wanted)
{
	ginResult_t result = deviceOpen(&comm->device, wanted, localRank(comm));

	return controlAllgather(&comm->control, "device", result, comm->device.name,
				comm->deviceNames, sizeof(comm->device.name));
}

static ginResult_t hostAllgather(void *core, const char *call, ginResult_t mine, const void *in,
				 void *out, size_t bytes)
{
	return controlAllgather(&((ginComm_t)core)->control, call, mine, in, out, bytes);
}

static ginResult_t hostExchange(void *core, int fd, const uint8_t *to, const uint8_t *from,
				int *fds)
{
	return handlesExchange(&((ginComm_t)core)->handles, fd, to, from, fds);
}

static void hostPeerFailed(void *core, int peer, const char *why)
{
	controlReport(&((ginComm_t)core)->control, peer, why);
}

static ginResult_t openRoutes(ginComm_t comm)
{
	comm->pool.device = &comm->device;
	comm->host = (struct backendHost){.rank = comm->rank,
					  .nRanks = comm->nRanks,
					  .ranks = comm->ranks,
					  .device = &comm->device,
					  .routes = comm->routes,
					  .allgather = hostAllgather,
					  .exchangeHandles = hostExchange,
					  .peerFailed = hostPeerFailed,
					  .core = comm};
	return routesOpen(comm);
}

/* Opens everything in order, undoes it in reverse when a step fails. */
static ginResult_t openAll(ginComm_t comm, const ginConfig_t *config)
{
	ginResult_t result = openBootstrap(comm, config);

	if (result != ginSuccess)
		return result;
	errorScope("ginCommInit", comm->rank);
	result = allocRanks(comm);
	if (result == ginSuccess)
		result = openControl(comm);
	if (result != ginSuccess)
		goto closeBootstrap;
	result = openDevice(comm, config->device);
	if (result != ginSuccess)
		goto closeControl;
	result = handlesOpen(&comm->handles, &comm->control);
	if (result != ginSuccess)
		goto closeControl;
	result = openRoutes(comm);
	if (result == ginSuccess)
		return ginSuccess;

	routesClose(comm);
	handlesClose(&comm->handles);
closeControl:
	deviceClose(&comm->device);
	controlClose(&comm->control);
closeBootstrap:
	comm->bootstrap->close(comm->bootstrapState);
	freeRanks(comm);
	return result;
}

static ginResult_t makeComm(const ginConfig_t *config, ginComm_t *out)
{
	ginComm_t comm = calloc(1, sizeof(*comm));

	if (!comm)
		return fail(ginErrorSystem, "no memory");
	pthread_mutex_init(&comm->lock, NULL);
	ginResult_t result = openAll(comm, config);
	if (result != ginSuccess) {
		pthread_mutex_destroy(&comm->lock);
		free(comm);
		return result;
	}
	logWrite(logInfo, "rank %d of %d: bootstrap %s, device %s", comm->rank, comm->nRanks,
		 comm->bootstrap->name, comm->device.name);
	*out = comm;
	return ginSuccess;
}

ginResult_t ginCommInit(const ginConfig_t *given, ginComm_t *comm)
{
	ginConfig_t config;

	errorScope("ginCommInit", -1);
	ginResult_t result = paramCheck();
	if (result == ginSuccess && !comm)
		result = fail(ginErrorInvalidArgument, "comm is NULL");
	if (result == ginSuccess)
		result = readConfig(given, &config);
	return result == ginSuccess ? makeComm(&config, comm) : result;
}

/*
 * All ranks must have arrived before any memory goes away that others reach. After a failure there
 * is nobody to wait for, and leaving succeeds.
 */
ginResult_t ginCommDestroy(ginComm_t comm)
{
	struct deviceScope scope;

	errorScope("ginCommDestroy", comm ? comm->rank : -1);
	if (!comm)
		return ginSuccess;
	ginResult_t result = controlError(&comm->control);
	if (result == ginSuccess)
		result = controlAgree(&comm->control, "ginCommDestroy", ginSuccess);
	else
		result = ginSuccess;
	ginResult_t entered = deviceEnter(&comm->device, &scope);
	devCommsFree(comm);
	windowsFree(comm);
	routesClose(comm);
	poolClose(&comm->pool);
	if (entered == ginSuccess)
		deviceLeave(&comm->device, &scope);
	handlesClose(&comm->handles);
	controlClose(&comm->control);
	deviceClose(&comm->device);
	comm->bootstrap->close(comm->bootstrapState);
	freeRanks(comm);
	pthread_mutex_destroy(&comm->lock);
	free(comm);
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
