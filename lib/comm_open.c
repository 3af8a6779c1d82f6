/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_open.c - the components of a communicator: opened in order, closed in reverse */
#include "comm.h"

#include <stdio.h>
#include <unistd.h>

#include "attach.h"
#include "lib/base/log.h"
#include "lib/base/param.h"
#include "reach.h"

static ginResult_t openBootstrap(ginComm_t comm, const struct commStart *start)
{
	char why[BOOTSTRAP_WHY] = "";
	int failed = -1;

	comm->bootstrap =
		start->bootstrap ? start->bootstrap : bootstrapChoose(&start->wanted, why);
	if (comm->bootstrap)
		failed = comm->bootstrap->open(&start->wanted, &comm->bootstrapState, &comm->rank,
					       &comm->nRanks, why);
	if (!failed)
		return ginSuccess;
	return fail(failed == BOOTSTRAP_LATE ? ginErrorTimeout : ginErrorBootstrap, "%s", why);
}

static void closeBootstrap(ginComm_t comm)
{
	if (comm->bootstrap->close)
		comm->bootstrap->close(comm->bootstrapState);
}

/* The tables of a communicator: one allocation. */
struct commTables {
	char *at; /* NULL: only their size is wanted */
	size_t used;
};

static void *layTable(struct commTables *tables, size_t bytes)
{
	void *at = tables->at ? tables->at + tables->used : NULL;

	tables->used += (bytes + 15) / 16 * 16;
	return at;
}

/* Returns the bytes of all tables. `ranks` comes first: freeing it frees all. */
static size_t layTables(ginComm_t comm, int nRanks, char *at)
{
	struct commTables tables = {at, 0};
	size_t n = (size_t)nRanks;

	comm->ranks = layTable(&tables, n * sizeof(*comm->ranks));
	comm->localIndex = layTable(&tables, n * sizeof(*comm->localIndex));
	comm->deviceNames = layTable(&tables, n * sizeof(*comm->deviceNames));
	comm->probed = layTable(&tables, n * sizeof(*comm->probed));
	comm->routes = layTable(&tables, n);
	comm->reached = layTable(&tables, n);
	comm->reachedFirst = layTable(&tables, n);
	comm->lost = layTable(&tables, n);
	return tables.used;
}

static size_t tablesBytes(int nRanks)
{
	struct ginComm comm;

	return layTables(&comm, nRanks, NULL);
}

static ginResult_t allocRanks(ginComm_t comm)
{
	char *at = calloc(1, tablesBytes(comm->nRanks));

	layTables(comm, comm->nRanks, at);
	comm->lostFirst = -1;
	return at ? ginSuccess : fail(ginErrorSystem, "no memory");
}

_Static_assert(sizeof(struct identity) <= BOOTSTRAP_DATA, "an entry holds an identity");

/* Until all identities are gathered, messages may name a rank whose host is not known. */
static void keepIdentities(ginComm_t comm, const struct identity *me,
			   const struct bootstrapEntry *root, const struct bootstrapEntry *parent)
{
	for (int r = 0; r < comm->nRanks; r++)
		snprintf(comm->ranks[r].host, sizeof(comm->ranks[r].host), "not known yet");
	memcpy(&comm->ranks[0], root->data, sizeof(*me));
	memcpy(&comm->ranks[controlParent(comm->rank)], parent->data, sizeof(*me));
	identityBound(&comm->ranks[0]);
	identityBound(&comm->ranks[controlParent(comm->rank)]);
	comm->ranks[comm->rank] = *me;
}

/* Without allgather, config.rank and config.nRanks are only compared; 0 of 0 or 1 is not given. */
static ginResult_t checkFound(ginComm_t comm, const struct bootstrapWanted *wanted)
{
	if (wanted->allgather || (!wanted->rank && (wanted->nRanks == 0 || wanted->nRanks == 1)))
		return ginSuccess;
	if (wanted->rank == comm->rank && wanted->nRanks == comm->nRanks)
		return ginSuccess;
	return fail(ginErrorInvalidArgument,
		    "config.rank is %d and config.nRanks %d, but this is rank %d of %d (bootstrap "
		    "%s): set config.allgather too, or call ginCommInitRank()",
		    wanted->rank, wanted->nRanks, comm->rank, comm->nRanks, comm->bootstrap->name);
}

/* A rank that cannot go on still takes part, so that no other rank waits for it. */
static ginResult_t meetRanks(ginComm_t comm, const struct commStart *start, struct identity *me)
{
	struct bootstrapEntry entry = {.magic = IDENTITY_MAGIC}, root, parent;
	char why[BOOTSTRAP_WHY] = "";
	ginResult_t mine = paramCheck();

	if (mine == ginSuccess)
		mine = checkFound(comm, &start->wanted);
	gethostname(entry.host, sizeof(entry.host) - 1);
	if (mine == ginSuccess && start->config)
		mine = commCheckConfig(start->config);
	if (mine == ginSuccess)
		mine = allocRanks(comm);
	if (mine == ginSuccess)
		mine = identityMake(me);
	me->local = comm->bootstrap->isLocal && comm->bootstrap->isLocal(comm->bootstrapState);
	if (mine == ginSuccess)
		mine = controlPrepare(&comm->control, comm->rank, comm->nRanks, me);
	entry.refused = mine;
	if (mine == ginSuccess)
		memcpy(entry.data, me, sizeof(*me));
	else
		snprintf(entry.refusal, sizeof(entry.refusal), "%s", ginGetLastError());
	int failed = comm->bootstrap->exchange(comm->bootstrapState, &entry,
					       controlParent(comm->rank), &root, &parent, why);
	if (failed > 0)
		return failAs(errorReceived((uint32_t)failed), why);
	if (failed && mine != ginSuccess)
		return mine; /* no other rank knows of an error */
	if (failed)
		return fail(failed == BOOTSTRAP_LATE ? ginErrorTimeout : ginErrorBootstrap, "%s",
			    why);
	keepIdentities(comm, me, &root, &parent);
	return ginSuccess;
}

static void commFailed(void *arg, int rank, ginResult_t result)
{
	devCommsFail(arg, rank, result);
}

static void commTick(void *arg)
{
	devCommsTick(arg);
	attachTick(arg);
}

_Static_assert(BOOTSTRAP_KEY == AUTH_KEY_BYTES, "a bootstrap derives a key of the control plane");

static void deriveKey(ginComm_t comm, uint8_t key[AUTH_KEY_BYTES])
{
	const uint8_t *nonce = comm->ranks[0].nonce;

	if (comm->bootstrap->derive)
		comm->bootstrap->derive(comm->bootstrapState, nonce, AUTH_KEY_BYTES, key);
	else
		memcpy(key, nonce, AUTH_KEY_BYTES);
}

static ginResult_t openControl(ginComm_t comm, const struct commStart *start)
{
	struct identity me;
	struct netAddress address;
	uint8_t key[AUTH_KEY_BYTES];
	ginResult_t result = meetRanks(comm, start, &me);

	if (result == ginSuccess && comm->bootstrap->lost)
		comm->control.news = (struct controlNews){
			.fd = comm->bootstrap->watch ? comm->bootstrap->watch(comm->bootstrapState)
						     : -1,
			.isAsked = !comm->bootstrap->watch,
			.lost = comm->bootstrap->lost,
			.arg = comm->bootstrapState,
		};
	if (result == ginSuccess) {
		comm->control.interrupt = start->interrupt;
		comm->control.onTick = commTick;
		comm->control.tickMs = *paramText(paramTrace) ? 20 : 250;
		deriveKey(comm, key);
		result = controlOpen(&comm->control, comm->ranks, key, commFailed, comm);
	}
	if (result == ginSuccess && controlOwnAddress(&comm->control, &address))
		identityProve(&me, &address);
	memset(me.nonce, 0, sizeof(me.nonce)); /* where it is the key, it is not sent */
	if (result == ginSuccess && comm->bootstrap->joined)
		controlWatch(&comm->control, comm->bootstrap->joined(comm->bootstrapState));
	if (result == ginSuccess)
		result = controlAllgather(&comm->control, "identities", ginSuccess, &me,
					  comm->ranks, sizeof(me));
	for (int r = 0; result == ginSuccess && r < comm->nRanks; r++)
		identityBound(&comm->ranks[r]);
	if (result == ginSuccess)
		controlRanksKnown(&comm->control);
	else
		controlClose(&comm->control);
	return result;
}

static ginResult_t hostAllgather(void *core, const char *call, ginResult_t mine, const void *in,
				 void *out, size_t bytes)
{
	return controlAllgather(&((ginComm_t)core)->control, call, mine, in, out, bytes);
}

static ginResult_t hostAlltoall(void *core, const char *call, ginResult_t mine, const void *in,
				void *out, size_t block)
{
	return controlAlltoall(&((ginComm_t)core)->control, call, mine, in, out, block);
}

static ginResult_t hostExchange(void *core, int fd, const uint8_t *to, const uint8_t *from,
				int *fds)
{
	return handlesExchange(&((ginComm_t)core)->handles, fd, to, from, fds);
}

static int indexOf(ginComm_t comm, uint32_t route)
{
	int b = 0;

	while (comm->backend[b].ops->route != route)
		b++;
	return b;
}

static const void *hostBlob(void *core, int rank, uint32_t route)
{
	ginComm_t comm = core;

	return comm->probed[rank][indexOf(comm, route)].blob;
}

static int hostFoundFirst(void *core, int peer, uint32_t route)
{
	ginComm_t comm = core;

	return comm->reachedFirst[peer] >> indexOf(comm, route) & 1;
}

enum { NEWS_MS = 50 };

/*
 * After the death of a rank the others may destroy their objects at once, and their NICs then stop
 * answering. So the control plane gets some time to deliver the news of the first death, which
 * names the rank that died. In a communicator that has failed, a peer that a network has lost is
 * lost to kernels of this rank only: the peer may be healthy, and the ranks that go on need it.
 */
static void hostPeerFailed(void *core, int peer, const char *why)
{
	ginComm_t comm = core;

	for (int ms = 0; ms < NEWS_MS && controlError(&comm->control) == ginSuccess; ms++)
		usleep(1000);
	if (controlError(&comm->control) != ginSuccess && peer != comm->rank)
		devCommQueueFailed(comm, NULL, peer, why);
	else
		controlReport(&comm->control, peer, why);
}

static int hostQueueFailed(void *core, const void *contexts, int peer, const char *why)
{
	return devCommQueueFailed(core, contexts, peer, why);
}

static int hostHasFailed(void *core)
{
	return controlError(&((ginComm_t)core)->control) != ginSuccess;
}

static void fillHost(ginComm_t comm)
{
	comm->pool.device = &comm->device;
	comm->host = (struct backendHost){.rank = comm->rank,
					  .nRanks = comm->nRanks,
					  .ranks = comm->ranks,
					  .device = &comm->device,
					  .key = comm->control.key,
					  .routes = comm->routes,
					  .allgather = hostAllgather,
					  .alltoall = hostAlltoall,
					  .exchangeHandles = hostExchange,
					  .blob = hostBlob,
					  .foundFirst = hostFoundFirst,
					  .peerFailed = hostPeerFailed,
					  .queueFailed = hostQueueFailed,
					  .hasFailed = hostHasFailed,
					  .core = comm};
}

/* The description of a rank's device and backends, which one allgather sends to all ranks. */
struct commIntroduction {
	char device[sizeof(((struct device *)0)->name)];
	struct backendProbe probed[BACKENDS_COUNT];
	uint8_t forced;	     /* as in ginComm */
	uint8_t copyEngines; /* as in commStart */
};

static ginResult_t makeIntroduction(ginComm_t comm, const struct commStart *start,
				    struct commIntroduction *mine)
{
	ginResult_t result =
		deviceOpen(&comm->device, start->device, (int)comm->localIndex[comm->rank]);

	if (result == ginSuccess)
		result = handlesBind(&comm->handles, &comm->control);
	if (result != ginSuccess)
		return result;
	memcpy(mine->device, comm->device.name, sizeof(mine->device));
	mine->forced = (uint8_t)start->forced;
	mine->copyEngines = start->copyEngines != 0;
	routesProbe(comm, mine->probed);
	return ginSuccess;
}

static ginResult_t keepIntroductions(ginComm_t comm, const struct commIntroduction *all)
{
	ginResult_t result = ginSuccess;
	uint8_t *forced = comm->routes; /* not in use yet */

	for (int r = 0; r < comm->nRanks && result == ginSuccess; r++) {
		forced[r] = all[r].forced < BACKENDS_COUNT ? all[r].forced : 0;
		comm->copyEngines |= all[r].copyEngines != 0;
		memcpy(comm->deviceNames[r], all[r].device, sizeof(all[r].device) - 1);
		memcpy(comm->probed[r], all[r].probed, sizeof(all[r].probed));
		result = handlesConnect(&comm->handles, r);
	}
	return result == ginSuccess ? routesForce(comm, forced) : result;
}

/* Identities, introductions, reach; then all ranks agree on the routes. */
void commPlan(struct plan *plan)
{
	plan->memory[planStart].heap +=
		tablesBytes(plan->nRanks) + controlBytes(plan->nRanks) + handlesBytes(plan->nRanks);
	planAdd(plan, (struct planExchange){planStart, 1, sizeof(struct identity), 0});
	planAdd(plan, (struct planExchange){planStart, 1, sizeof(struct commIntroduction), 0});
	reachPlan(plan);
	planAdd(plan, (struct planExchange){planStart, 1, 0, 0});
}

/* Device, handles and routes, in three rounds of the control plane. */
static ginResult_t openRoutes(ginComm_t comm, const struct commStart *start)
{
	struct commIntroduction mine = {.device = ""},
				*all = calloc((size_t)comm->nRanks, sizeof(*all));
	ginResult_t result = all ? ginSuccess : fail(ginErrorSystem, "no memory");

	fillHost(comm);
	if (result == ginSuccess)
		result = identityCount(comm->ranks, comm->nRanks, comm->localIndex);
	if (result == ginSuccess)
		result = makeIntroduction(comm, start, &mine);
	result = controlAllgather(&comm->control, "devices", result, &mine, all, sizeof(mine));
	int met = result == ginSuccess;
	if (met)
		result = reachAgree(comm, keepIntroductions(comm, all));
	if (met)
		result = routesOpen(comm, result);
	free(all);
	return result;
}

/* Opens all components in order; closes them in reverse when a step fails. */
static ginResult_t openAll(ginComm_t comm, const char *call, const struct commStart *start)
{
	ginResult_t result = openBootstrap(comm, start);

	if (result != ginSuccess)
		return result;
	errorScope(call, comm->rank);
	logRank(comm->rank);
	result = openControl(comm, start);
	if (result != ginSuccess)
		goto failed;
	result = openRoutes(comm, start);
	if (result == ginSuccess)
		return ginSuccess;

	routesClose(comm);
	handlesClose(&comm->handles);
	controlClose(&comm->control);
failed:
	closeBootstrap(comm);
	free(comm->ranks);
	return result;
}

/* Before there is a control plane, config.poll ends the waits of this thread. */
static ginResult_t openInterruptibly(ginComm_t comm, const char *call,
				     const struct commStart *start)
{
	struct interrupt interrupt = start->interrupt;
	struct interrupt *before = interruptSet(&interrupt);
	ginResult_t result = openAll(comm, call, start);

	interruptSet(before);
	if (result != ginSuccess && interrupt.ended)
		result = fail(ginErrorAborted, "config.poll has ended the call");
	return result;
}

ginResult_t commOpen(const char *call, const struct commStart *start, ginComm_t *out)
{
	ginComm_t comm = calloc(1, sizeof(*comm));

	if (!comm)
		return fail(ginErrorSystem, "no memory");
	pthread_mutex_init(&comm->lock, NULL);
	comm->attach.listener = -1;
	ginResult_t result = openInterruptibly(comm, call, start);
	if (result != ginSuccess) {
		pthread_mutex_destroy(&comm->lock);
		free(comm);
		return result;
	}
	logWrite(logInfo, "%d ranks: bootstrap %s, device %s", comm->nRanks, comm->bootstrap->name,
		 comm->device.name);
	routesLog(comm);
	attachOpen(comm);
	commOpened(comm);
	*out = comm;
	return ginSuccess;
}

void commClose(ginComm_t comm)
{
	struct deviceScope scope;
	commClosing(comm);
	attachClose(comm);
	ginResult_t entered = deviceEnter(&comm->device, &scope);

	devCommsFree(comm);
	windowsFree(comm);
	routesClose(comm);
	poolClose(&comm->pool);
	if (entered == ginSuccess)
		deviceLeave(&comm->device, &scope);
	handlesClose(&comm->handles);
	controlClose(&comm->control);
	closeBootstrap(comm);
	free(comm->ranks);
	pthread_mutex_destroy(&comm->lock);
	windowsCallReleased(comm);
	free(comm);
}

ginResult_t commDrop(ginComm_t comm, ginResult_t result)
{
	char why[SENTENCE_BYTES];

	snprintf(why, sizeof(why), "%s", ginGetLastError());
	commClose(comm);
	return failAs(result, why);
}
