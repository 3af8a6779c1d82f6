/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.c - making, asking and leaving a communicator */
#include "comm.h"

#include "bootstrap/root.h"
#include "lib/base/param.h"

#define NAME_MOST 47

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
	if (config->name && strlen(config->name) > NAME_MOST)
		return fail(ginErrorInvalidArgument, "config.name has %zu characters: at most %d",
			    strlen(config->name), NAME_MOST);
	if (routesForced(config->backend) < 0)
		return fail(ginErrorInvalidArgument,
			    "config.backend is %.40s: must be NULL or one of %s", config->backend,
			    strchr(paramBackendChoices, '|') + 1);
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
	return (struct commStart){.device = config->device,
				  .forced = routesForced(config->backend),
				  .wanted = {.forced = paramText(paramBootstrap),
					     .root = paramText(paramRoot),
					     .secret = paramText(paramSecret),
					     .interface = paramText(paramSocketIfname),
					     .name = config->name ? config->name : "",
					     .seconds = paramNumber(paramTimeout),
					     .allgather = config->allgather,
					     .allgatherArg = config->allgatherArg,
					     .rank = config->rank,
					     .nRanks = config->nRanks}};
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
	return commOpen("ginCommInit", &start, comm);
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
	if (rootMake(&contact, paramText(paramSocketIfname), 1, paramNumber(paramTimeout), why))
		return fail(ginErrorBootstrap, "%s", why);
	*id = (ginUniqueId_t){{0}};
	memcpy(id->bytes, &contact, sizeof(contact));
	return ginSuccess;
}

_Static_assert(sizeof(struct rootContact) <= sizeof(ginUniqueId_t), "a contact is an id");

ginResult_t ginCommInitRank(const ginConfig_t *given, const ginUniqueId_t *id, int rank, int nRanks,
			    ginComm_t *comm)
{
	struct rootContact contact = {0};
	ginConfig_t config;

	errorScope("ginCommInitRank", -1);
	if (!comm || !id)
		return fail(ginErrorInvalidArgument, "%s is NULL", comm ? "id" : "comm");
	memcpy(&contact, id->bytes, sizeof(contact));
	if (contact.magic != ROOT_MAGIC)
		return fail(ginErrorInvalidArgument,
			    "id is not of ginGetUniqueId(): did it travel whole?");
	ginResult_t result = readConfig(given, &config);
	if (result == ginSuccess && config.allgather)
		result = fail(ginErrorInvalidArgument,
			      "config.allgather is set, and so is id: give one of the two");
	if (result == ginSuccess)
		result = checkRank("", rank, nRanks);
	if (result != ginSuccess)
		return result;
	struct commStart start = makeStart(&config);
	start.wanted.uniqueId = &contact;
	start.wanted.rank = rank;
	start.wanted.nRanks = nRanks;
	return commOpen("ginCommInitRank", &start, comm);
}

/*
 * All ranks must have arrived before any memory goes away that others reach. After a failure there
 * is nobody to wait for, and leaving succeeds.
 */
ginResult_t ginCommDestroy(ginComm_t comm)
{
	errorScope("ginCommDestroy", comm ? comm->rank : -1);
	if (!comm)
		return ginSuccess;
	ginResult_t result = ginSuccess;
	if (controlError(&comm->control) == ginSuccess)
		result = controlAgree(&comm->control, "ginCommDestroy", ginSuccess);
	commClose(comm);
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
