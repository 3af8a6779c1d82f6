/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.c - the memory and exchanges of a rank, by the functions that allocate */
#include <stdio.h>

#include "bootstrap/root.h"
#include "lib/devcomm/devcomm.h"
#include "lib/base/info.h"

/* A route, and how it moves data. */
struct planRoute {
	int backend;
	enum planNetwork network;
	const char *how;
};

/* Of the proxy, in the order of enum planNetwork. */
static const char *const networks[] = {", shared memory", ", network", ", verbs"};

static int routesOf(int backend)
{
	return backend == BACKENDS_LAST ? (int)(sizeof(networks) / sizeof(networks[0])) : 1;
}

/* The route of this index; its backend is BACKENDS_COUNT if there is none. */
static struct planRoute routeOf(int index)
{
	int b = 0;

	while (b < BACKENDS_COUNT && index >= routesOf(b))
		index -= routesOf(b++);
	return (struct planRoute){b, (enum planNetwork)index,
				  b < BACKENDS_LAST || b == BACKENDS_COUNT ? "" : networks[index]};
}

static int countRoutes(void)
{
	int count = 0;

	for (int b = 0; b < BACKENDS_COUNT; b++)
		count += routesOf(b);
	return count;
}

static void addCost(const struct plan *plan, enum planPhase phase, ginPlanPhase_t *out)
{
	for (uint32_t i = 0; i < plan->exchanges; i++) {
		const struct planExchange *e = &plan->exchange[i];
		struct controlCost once = {0};
		if (e->phase != phase)
			continue;
		if (e->block)
			controlCostAlltoall(plan->nRanks, e->block, &once);
		else
			controlCostAllgather(plan->nRanks, e->bytes, &once);
		out->messages += e->times * once.messages;
		out->received += e->times * once.received;
		out->relayed += e->times * once.relayed;
	}
}

static ginPlanPhase_t phaseOf(const struct plan *plan, enum planPhase phase)
{
	const struct planMemory *memory = &plan->memory[phase];
	ginPlanPhase_t out = {.regions = plan->regions[phase],
			      .heap = memory->heap,
			      .pinned = memory->pinned,
			      .device = memory->device};

	addCost(plan, phase, &out);
	return out;
}

static void makePlan(const struct backendOps *ops, const ginDevCommRequirements_t *want,
		     struct plan *plan)
{
	const struct backendContexts contexts = {.contexts = want->contexts,
						 .signals = want->signals,
						 .counters = want->counters,
						 .barriers = want->barriers,
						 .depth = want->queueDepth};

	plan->want = &contexts;
	commPlan(plan);
	ops->plan(plan);
	devCommPlan(ops->writer, want, plan);
	windowPlan(plan);
	plan->want = NULL;
}

static ginResult_t checkPlan(int index, int nRanks)
{
	if (index < 0 || index >= countRoutes())
		return fail(ginErrorInvalidArgument, "index is %d: must be 0 to %d", index,
			    countRoutes() - 1);
	if (nRanks < 1 || nRanks > ROOT_RANKS)
		return fail(ginErrorInvalidArgument, "nRanks is %d: must be 1 to %d", nRanks,
			    ROOT_RANKS);
	return ginSuccess;
}

ginResult_t ginPlanQuery(int index, int nRanks, const ginDevCommRequirements_t *requirements,
			 ginPlanInfo_t *out)
{
	struct planRoute route = routeOf(index);
	ginPlanInfo_t info = GIN_PLAN_INFO_INIT;
	ginDevCommRequirements_t want;

	errorScope("ginPlanQuery", -1);
	ginResult_t result = checkPlan(index, nRanks);
	if (result == ginSuccess)
		result = devCommRead(requirements, &want);
	if (result != ginSuccess)
		return result;
	struct plan plan = {.nRanks = nRanks,
			    .domainSize = route.backend ? 1 : nRanks,
			    .network = route.network};
	makePlan(backendsTable[route.backend], &want, &plan);
	info.count = countRoutes();
	info.links = controlLinksMost(nRanks);
	info.queuePairs = plan.queuePairs;
	info.addresses = plan.addresses;
	snprintf(info.route, sizeof(info.route), "%s%s", backendsTable[route.backend]->name,
		 route.how);
	info.init = phaseOf(&plan, planStart);
	info.create = phaseOf(&plan, planCreate);
	info.window = phaseOf(&plan, planWindow);
	return infoGive(&info, sizeof(info), "GIN_PLAN_INFO_INIT", out);
}
