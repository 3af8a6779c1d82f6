/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_selftest.c - GIN_SELFTEST=1: a new communicator is tested before the caller gets it */
#include "comm.h"

#include <stdio.h>

#include "lib/base/clock.h"
#include "lib/base/deadline.h"
#include "lib/base/log.h"
#include "lib/base/param.h"
#include "lib/base/plugin.h"
#include "lib/selftest/selftest.h"

/* The findings of one rank. All ranks return the sentence of the first rank with a fault. */
struct selftestVerdict {
	uint32_t broken; /* pairs */
	uint32_t good;
	char fault[448];
};

static ginResult_t loadSelftest(const struct selftestCalls **calls)
{
	static const struct plugin plugin = {SELFTEST_PLUGIN, SELFTEST_SYMBOL,
					     sizeof(struct selftestCalls)};
	const void *found = NULL;
	char why[160];
	enum pluginResult opened = pluginOpen(&plugin, &found, why, sizeof(why));

	*calls = found;
	if (opened == pluginFound)
		return ginSuccess;
	return fail(ginErrorUnsupported,
		    opened == pluginMissing ? "GIN_SELFTEST=1, but %s has no " SELFTEST_PLUGIN
					      ": install it, or unset GIN_SELFTEST"
					    : "GIN_SELFTEST=1, but %s; unset GIN_SELFTEST",
		    why);
}

static void describeFault(ginComm_t comm, int peer, const struct selftestCell *cell, char *fault,
			  size_t room)
{
	snprintf(fault, room,
		 "self-test: rank %d (host %.32s) and rank %d (host %.32s), route %s (%.*s): "
		 "%.120s; gin_info --selftest shows all pairs and routes; GIN_ROUTE, GIN_BACKEND "
		 "and GIN_TRANSPORT choose another route",
		 comm->rank, comm->ranks[comm->rank].host, peer, comm->ranks[peer].host,
		 cell->backend, (int)strcspn(cell->why, ";"), cell->why, cell->fault);
}

static void judgeCells(ginComm_t comm, const struct selftestCell *cells,
		       struct selftestVerdict *verdict)
{
	for (int peer = 0; peer < comm->nRanks; peer++) {
		const struct selftestCell *cell = &cells[peer];

		verdict->good += cell->state == selftestGood;
		if (cell->state != selftestBroken && cell->state != selftestUntested)
			continue;
		/* A broken pair says more than an untested one. */
		if (!verdict->broken || cell->state == selftestBroken)
			describeFault(comm, peer, cell, verdict->fault, sizeof(verdict->fault));
		verdict->broken++;
		if (cell->state == selftestBroken)
			return;
	}
}

/*
 * A communicator that has failed in the test has no collectives: each rank then has its own
 * sentence.
 */
static ginResult_t agreeVerdict(ginComm_t comm, ginResult_t mine,
				const struct selftestVerdict *verdict)
{
	struct selftestVerdict *all = calloc((size_t)comm->nRanks, sizeof(*all));
	char fault[sizeof(verdict->fault)] = "";

	if (mine == ginSuccess && !all)
		mine = fail(ginErrorSystem, "no memory");
	ginResult_t met =
		controlAllgather(&comm->control, "self-test", mine, verdict, all, sizeof(*verdict));
	if (met != ginSuccess && verdict->broken)
		snprintf(fault, sizeof(fault), "%s", verdict->fault);
	for (int r = comm->nRanks - 1; met == ginSuccess && r >= 0; r--)
		if (all[r].broken)
			memcpy(fault, all[r].fault, sizeof(fault));
	free(all);
	fault[sizeof(fault) - 1] = 0;
	if (*fault)
		return fail(ginErrorSystem, "%s", fault);
	return met;
}

/* The network may be slow: the user's limit holds. */
static struct selftestLimits limitsOf(void)
{
	return (struct selftestLimits){.pair = paramNumber(paramTimeout) * SECOND / 3,
				       .until = deadlineHere()};
}

ginResult_t commSelftest(ginComm_t comm, const char *call)
{
	const struct selftestCalls *calls = NULL;
	struct selftestVerdict verdict = {0};
	struct selftestCell *cells;

	if (!paramNumber(paramSelftest))
		return ginSuccess;
	ginResult_t result = loadSelftest(&calls);
	cells = calloc((size_t)comm->nRanks, sizeof(*cells));
	if (result == ginSuccess && !cells)
		result = fail(ginErrorSystem, "no memory");
	result = controlAgree(&comm->control, "self-test", result);
	if (result == ginSuccess) {
		calls->run(comm, limitsOf(), cells);
		errorScope(call, comm->rank);
		judgeCells(comm, cells, &verdict);
		result = agreeVerdict(comm, ginSuccess, &verdict);
	}
	if (result == ginSuccess)
		logWrite(logInfo, "the self-test has passed with %u of %d ranks", verdict.good,
			 comm->nRanks);
	free(cells);
	return result;
}
