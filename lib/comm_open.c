/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_open.c - what a communicator consists of: opened in order, closed in reverse */
#include "comm.h"

#include <stdio.h>
#include <unistd.h>

#include "log.h"
#include "param.h"

static ginResult_t openBootstrap(ginComm_t comm, const struct commStart *start)
{
	char why[BOOTSTRAP_WHY] = "";

	comm->bootstrap =
		start->bootstrap ? start->bootstrap : bootstrapChoose(&start->wanted, why);
	if (comm->bootstrap && !comm->bootstrap->open(&start->wanted, &comm->bootstrapState,
						      &comm->rank, &comm->nRanks, why))
		return ginSuccess;
	return fail(ginErrorBootstrap, "%s", why);
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

_Static_assert(sizeof(struct identity) <= BOOTSTRAP_DATA, "an identity travels in an entry");

/* Until all have been gathered, messages may name a rank whose host is not known. */
static void keepIdentities(ginComm_t comm, const struct identity *me,
			   const struct bootstrapEntry *root, const struct bootstrapEntry *parent)
{
	for (int r = 0; r < comm->nRanks; r++)
		snprintf(comm->ranks[r].host, sizeof(comm->ranks[r].host), "not known yet");
	memcpy(&comm->ranks[0], root->data, sizeof(*me));
	memcpy(&comm->ranks[controlParent(comm->rank)], parent->data, sizeof(*me));
	comm->ranks[comm->rank] = *me;
}

/* A rank that cannot go on takes part all the same, so that nobody waits for it. */
static ginResult_t meetRanks(ginComm_t comm, struct identity *me, int *listener)
{
	struct bootstrapEntry entry = {.magic = IDENTITY_MAGIC}, root, parent;
	char why[BOOTSTRAP_WHY] = "";
	ginResult_t mine = paramCheck();

	*listener = -1;
	gethostname(entry.host, sizeof(entry.host) - 1);
	if (mine == ginSuccess)
		mine = allocRanks(comm);
	if (mine == ginSuccess)
		mine = identityMake(me);
	if (mine == ginSuccess)
		mine = controlListen(&me->port, listener);
	if (mine == ginSuccess)
		memcpy(entry.data, me, sizeof(*me));
	else
		snprintf(entry.refusal, sizeof(entry.refusal), "%s", ginGetLastError());
	int failed = comm->bootstrap->exchange(comm->bootstrapState, &entry,
					       controlParent(comm->rank), &root, &parent, why);
	if (mine == ginSuccess && failed)
		mine = fail(ginErrorBootstrap, "%s", why);
	if (mine == ginSuccess)
		keepIdentities(comm, me, &root, &parent);
	else if (*listener >= 0)
		close(*listener);
	return mine;
}

static void commFailed(void *arg, int rank, ginResult_t result)
{
	devCommsFail(arg, rank, result);
}

static ginResult_t openControl(ginComm_t comm)
{
	struct identity me;
	int listener;
	ginResult_t mine = meetRanks(comm, &me, &listener);

	if (mine == ginSuccess)
		mine = controlOpen(&comm->control, listener, comm->rank, comm->nRanks, comm->ranks,
				   commFailed, comm);
	if (mine != ginSuccess)
		return mine;
	mine = controlAllgather(&comm->control, "identities", ginSuccess, &me, comm->ranks,
				sizeof(me));
	if (mine != ginSuccess)
		controlClose(&comm->control);
	return mine;
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
static ginResult_t openAll(ginComm_t comm, const char *call, const struct commStart *start)
{
	ginResult_t result = openBootstrap(comm, start);

	if (result != ginSuccess)
		return result;
	errorScope(call, comm->rank);
	result = openControl(comm);
	if (result != ginSuccess)
		goto closeBootstrap;
	result = openDevice(comm, start->device);
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

ginResult_t commOpen(const char *call, const struct commStart *start, ginComm_t *out)
{
	ginComm_t comm = calloc(1, sizeof(*comm));

	if (!comm)
		return fail(ginErrorSystem, "no memory");
	pthread_mutex_init(&comm->lock, NULL);
	ginResult_t result = openAll(comm, call, start);
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

void commClose(ginComm_t comm)
{
	struct deviceScope scope;
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
}
