/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.c - communicators, their properties and teams */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "driver.h"

#define MOST_RMA 64 /* of numRmaCtx and numRmaSig */

uint64_t ncclCommKey(uint64_t hash, const void *data, size_t bytes)
{
	const unsigned char *at = data;

	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ at[i]) * 0x100000001b3;
	return hash;
}

/* Counts the ranks of this process, this rank included, and the peers on the proxy route. */
static ginResult_t lookAtPeers(ginComm_t gin, int nRanks, int *local, int *proxies)
{
	ginResult_t result = ginSuccess;

	*local = *proxies = 0;
	for (int r = 0; r < nRanks && result == ginSuccess; r++) {
		ginPeerInfo_t info = GIN_PEER_INFO_INIT;
		result = ginCommQueryPeer(gin, r, &info);
		*local += info.sameProcess;
		*proxies += info.route == ginRouteProxy;
	}
	return result;
}

ncclResult_t ncclTrafficClassCheck(const char *call, const char *field, int trafficClass)
{
	if (trafficClass == NCCL_CONFIG_UNDEF_INT || (trafficClass >= 0 && trafficClass <= 255))
		return ncclSuccess;
	return ncclFail(ncclInvalidArgument, "%s: %s is %d: must be 0 to 255", call, field,
			trafficClass);
}

/* A member of a config, which may be of an older NCCL and end before it. */
#define MEMBER_OF(config, member)                                                                  \
	((config)->size >= offsetof(ncclConfig_t, member) + sizeof(int) ? (config)->member         \
									: NCCL_CONFIG_UNDEF_INT)
#define RMA_CONTEXTS(config) MEMBER_OF(config, numRmaCtx)
#define RMA_SIGNALS(config) MEMBER_OF(config, numRmaSig)

static ncclResult_t checkRmaCount(const char *call, const char *field, int count)
{
	if (count == NCCL_CONFIG_UNDEF_INT || (count >= 1 && count <= MOST_RMA))
		return ncclSuccess;
	return ncclFail(ncclInvalidArgument, "%s: %s is %d: must be 1 to %d", call, field, count,
			MOST_RMA);
}

ncclResult_t ncclConfigCheck(const char *call, const ncclConfig_t *config)
{
	if (!config)
		return ncclSuccess;
	if (config->magic != NCCL_API_MAGIC || config->size > 4096)
		return ncclFail(ncclInvalidArgument,
				"%s: initialize config with NCCL_CONFIG_INITIALIZER", call);
	ncclResult_t result =
		ncclTrafficClassCheck(call, "config.trafficClass", config->trafficClass);
	if (result == ncclSuccess)
		result = checkRmaCount(call, "config.numRmaCtx", RMA_CONTEXTS(config));
	return result == ncclSuccess ? checkRmaCount(call, "config.numRmaSig", RMA_SIGNALS(config))
				     : result;
}

static void choose(int given, int *chosen)
{
	if (given != NCCL_CONFIG_UNDEF_INT)
		*chosen = given;
}

struct ncclChoices ncclConfigChoices(const ncclConfig_t *config, const struct ncclChoices *parent)
{
	struct ncclChoices choices = {NCCL_CONFIG_UNDEF_INT, 1, 1};

	if (parent)
		choices = *parent;
	if (!config)
		return choices;
	choose(config->trafficClass, &choices.trafficClass);
	choose(RMA_CONTEXTS(config), &choices.rmaContexts);
	choose(RMA_SIGNALS(config), &choices.rmaSignals);
	return choices;
}

ncclResult_t ncclCommWrap(ginComm_t gin, uint64_t key, const struct ncclChoices *choices,
			  ncclComm_t *out)
{
	ncclComm_t comm = calloc(1, sizeof(*comm));
	ginCommInfo_t info = GIN_COMM_INFO_INIT;
	int proxies;

	if (!comm) {
		ginCommDestroy(gin);
		return ncclFail(ncclSystemError, "no memory");
	}
	ginResult_t result = ginCommQuery(gin, &info);
	if (result == ginSuccess)
		result = lookAtPeers(gin, info.nRanks, &comm->localRanks, &proxies);
	if (result != ginSuccess) {
		ncclFromGin(result);
		ginCommDestroy(gin);
		free(comm);
		return ncclInternalError;
	}
	comm->gin = gin;
	comm->rank = info.rank;
	comm->nRanks = info.nRanks;
	comm->device = info.device;
	comm->domainSize = info.domainSize;
	comm->choices = *choices;
	comm->key = key;
	comm->lastEnding = &comm->endings;
	pthread_mutex_init(&comm->lock, NULL);
	ncclRmaOpen(comm);
	*out = comm;
	return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	ginUniqueId_t made;

	if (!id)
		return ncclFail(ncclInvalidArgument, "ncclGetUniqueId: id is NULL");
	_Static_assert(sizeof(made) == sizeof(*id), "NCCL's id holds libgin's");
	ginResult_t result = ginGetUniqueId(&made);
	if (result == ginSuccess)
		memcpy(id, &made, sizeof(made));
	return ncclFromGin(result);
}

struct initArgs {
	ncclComm_t *out;
	ncclUniqueId id;
	int rank, nRanks, device;
	struct ncclChoices choices;
};

static ncclResult_t runInit(void *args)
{
	const struct initArgs *a = args;
	ginConfig_t config = GIN_CONFIG_INIT;
	ginUniqueId_t id;
	ginComm_t gin;

	config.device = a->device;
	/* Programs for NCCL put by single threads; a thread is slow at long copies. */
	config.copyEngines = ncclDriverLoad() != NULL;
	memcpy(&id, &a->id, sizeof(id));
	ginResult_t result = ginCommInitRank(&config, &id, a->rank, a->nRanks, &gin);
	if (result != ginSuccess)
		return ncclFromGin(result);
	return ncclCommWrap(gin, ncclCommKey(0xcbf29ce484222325, &id, sizeof(id)), &a->choices,
			    a->out);
}

static ncclResult_t init(ncclComm_t *comm, int nRanks, const ncclUniqueId *id, int rank, int device,
			 const ncclConfig_t *config)
{
	struct initArgs args = {.out = comm, .rank = rank, .nRanks = nRanks, .device = device};

	if (!comm)
		return ncclFail(ncclInvalidArgument, "ncclCommInitRank: comm is NULL");
	args.id = *id;
	args.choices = ncclConfigChoices(config, NULL);
	return ncclGroupDo(comm, runInit, &args, sizeof(args));
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nRanks, ncclUniqueId id, int rank)
{
	return init(comm, nRanks, &id, rank, ncclDriverCurrent(), NULL);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nRanks, ncclUniqueId id, int rank,
				    ncclConfig_t *config)
{
	ncclResult_t result = ncclConfigCheck("ncclCommInitRankConfig", config);

	if (result != ncclSuccess)
		return result;
	return init(comm, nRanks, &id, rank, ncclDriverCurrent(), config);
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int nRanks, int rank, int nIds,
				      ncclUniqueId *ids, ncclConfig_t *config)
{
	if (nIds < 1 || !ids)
		return ncclFail(ncclInvalidArgument, "ncclCommInitRankScalable: there is no id");
	return ncclCommInitRankConfig(comm, nRanks, ids[0], rank, config);
}

/* Without a GPU all ranks are host threads. */
static int deviceOf(const int *list, int i)
{
	if (!ncclDriverLoad())
		return GIN_DEVICE_AUTO;
	return list ? list[i] : i;
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int devices, const int *list)
{
	ncclUniqueId id;
	ncclResult_t result;

	if (!comms || devices < 1)
		return ncclFail(ncclInvalidArgument,
				"ncclCommInitAll: comms is NULL, or there is no device");
	result = ncclGetUniqueId(&id);
	if (result != ncclSuccess)
		return result;
	ncclGroupStart();
	for (int i = 0; i < devices && result == ncclSuccess; i++)
		result = init(comms + i, devices, &id, i, deviceOf(list, i), NULL);
	ncclResult_t ended = ncclGroupEnd();
	return result == ncclSuccess ? ended : result;
}

struct splitArgs {
	ncclComm_t comm;
	int color, key;
	struct ncclChoices choices;
	ncclComm_t *out;
};

static ncclResult_t runSplit(void *args)
{
	const struct splitArgs *a = args;
	const uint64_t name[2] = {++a->comm->splits, (uint64_t)a->color};
	ginComm_t part = NULL;
	ncclResult_t result = ncclEndKept(a->comm);

	if (result == ncclSuccess)
		result = ncclFromGin(ginCommSplit(a->comm->gin, a->color, a->key, &part));
	if (result != ncclSuccess)
		return result;
	*a->out = NULL;
	if (!part)
		return ncclSuccess;
	return ncclCommWrap(part, ncclCommKey(a->comm->key, name, sizeof(name)), &a->choices,
			    a->out);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *part,
			   ncclConfig_t *config)
{
	struct splitArgs args = {.comm = comm, .color = color, .key = key, .out = part};
	ncclResult_t result = ncclConfigCheck("ncclCommSplit", config);

	if (!comm || !part)
		return ncclFail(ncclInvalidArgument, "ncclCommSplit: %s is NULL",
				comm ? "the new communicator" : "comm");
	if (result != ncclSuccess)
		return result;
	args.choices = ncclConfigChoices(config, &comm->choices);
	return ncclGroupDo(comm, runSplit, &args, sizeof(args));
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
	ginResult_t failed = ginSuccess;

	if (!comm || !error)
		return ncclFail(ncclInvalidArgument, "ncclCommGetAsyncError: %s is NULL",
				comm ? "error" : "comm");
	ginResult_t result = ginCommGetAsyncError(comm->gin, &failed);
	if (result != ginSuccess)
		return ncclFromGin(result);
	*error = failed == ginSuccess ? comm->asyncError : ncclFromGin(failed);
	if (*error == ncclSuccess)
		*error = ncclConnectionsReport(comm);
	if (*error == ncclSuccess)
		*error = ncclRmaReport(comm);
	return ncclSuccess;
}

static ncclResult_t setOutput(const struct ncclComm *comm, int value, int *out, const char *call)
{
	if (!comm || !out)
		return ncclFail(ncclInvalidArgument, "%s: an argument is NULL", call);
	*out = value;
	return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
	return setOutput(comm, comm ? comm->nRanks : 0, count, "ncclCommCount");
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
	return setOutput(comm, comm && comm->device > 0 ? comm->device : 0, device,
			 "ncclCommCuDevice");
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
	return setOutput(comm, comm ? comm->rank : 0, rank, "ncclCommUserRank");
}

static void fillProperties(ncclComm_t comm, int proxies, ncclCommProperties_t *p)
{
	*p = (ncclCommProperties_t)NCCL_COMM_PROPERTIES_INITIALIZER;
	p->rank = comm->rank;
	p->nRanks = comm->nRanks;
	p->cudaDev = p->nvmlDev = comm->device > 0 ? comm->device : 0;
	p->deviceApiSupport = true;
	p->hostRmaSupport = comm->rma.size != 0;
	p->ginType = p->railedGinType = proxies ? NCCL_GIN_TYPE_PROXY : NCCL_GIN_TYPE_GDAKI;
	p->ginSupport[p->ginType] = true;
	p->ginConnectionType = NCCL_GIN_CONNECTION_FULL;
	p->ginMinStride = 1;
	p->nLsaTeams = comm->nRanks / comm->domainSize;
	p->commHash = comm->key;
	p->devCommRuntimeVersionSize = sizeof(ncclDevComm_t);
}

ncclResult_t ncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *properties)
{
	ncclCommProperties_t made;
	int local, proxies;

	if (!comm || !properties)
		return ncclFail(ncclInvalidArgument, "ncclCommQueryProperties: %s is NULL",
				comm ? "properties" : "comm");
	if (properties->magic != NCCL_API_MAGIC)
		return ncclFail(ncclInvalidUsage,
				"ncclCommQueryProperties: initialize the properties with "
				"NCCL_COMM_PROPERTIES_INITIALIZER");
	ginResult_t result = lookAtPeers(comm->gin, comm->nRanks, &local, &proxies);
	if (result != ginSuccess)
		return ncclFromGin(result);
	fillProperties(comm, proxies, &made);
	made.version = properties->version;
	made.size = properties->size < sizeof(made) ? properties->size : sizeof(made);
	memcpy(properties, &made, made.size);
	return ncclSuccess;
}

ncclTeam_t ncclTeamWorld(ncclComm_t comm)
{
	return (ncclTeam_t){comm->nRanks, comm->rank, 1};
}

ncclTeam_t ncclTeamLsa(ncclComm_t comm)
{
	return (ncclTeam_t){comm->domainSize, comm->rank % comm->domainSize, 1};
}

ncclTeam_t ncclTeamRail(ncclComm_t comm)
{
	return (ncclTeam_t){comm->nRanks / comm->domainSize, comm->rank / comm->domainSize,
			    comm->domainSize};
}

int ncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank)
{
	return comm->rank + (rank - team.rank) * team.stride;
}

int ncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank)
{
	return comm->rank % comm->domainSize + (rank - team.rank) * team.stride;
}
