/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_selftest.c - GIN_SELFTEST=1: which findings of the self-test let ginCommInit() fail, and
 * with which sentence
 *
 * The self-test is this file's. Rank 0 has the findings, and all ranks get one result.
 */
/* LINK: -Wl,--wrap=pluginOpen */
#include "ranks.h"
#include "expect.h"

#include "lib/base/plugin.h"
#include "lib/comm.h"
#include "lib/selftest/selftest.h"

enum { RANKS = 3 };

static struct {
	enum selftestState state[RANKS]; /* of the pairs of rank 0 */
	int named;			 /* the peer in the sentence; -1: ginCommInit() succeeds */
} plan;

static ginResult_t run(ginComm_t comm, struct selftestLimits limits, struct selftestCell *cells)
{
	(void)limits;
	for (int r = 0; r < RANKS; r++) {
		snprintf(comm->ranks[r].host, sizeof(comm->ranks[r].host), "host-%d", r);
		cells[r].state = comm->rank ? selftestGood : plan.state[r];
		snprintf(cells[r].backend, sizeof(cells[r].backend), "route-%d", r);
		snprintf(cells[r].why, sizeof(cells[r].why), "why-%d; and more", r);
		snprintf(cells[r].fault, sizeof(cells[r].fault), "fault-%d", r);
	}
	return ginSuccess;
}

enum pluginResult __wrap_pluginOpen(const struct plugin *plugin, const void **calls, char *why,
				    size_t room);

enum pluginResult __wrap_pluginOpen(const struct plugin *plugin, const void **calls, char *why,
				    size_t room)
{
	static const struct selftestCalls own = {.size = sizeof(own), .run = run};

	snprintf(why, room, "the test has no such plug-in");
	*calls = &own;
	return strcmp(plugin->file, SELFTEST_PLUGIN) ? pluginMissing : pluginFound;
}

static int start(const ginConfig_t *config)
{
	ginComm_t comm;
	char words[160];

	if (plan.named < 0) {
		EXPECT_SUCCESS(ginCommInit(config, &comm));
		EXPECT_SUCCESS(ginCommDestroy(comm));
		return 0;
	}
	snprintf(words, sizeof(words),
		 "self-test: rank 0 (host host-0) and rank %d (host host-%d), route route-%d "
		 "(why-%d): fault-%d; ",
		 plan.named, plan.named, plan.named, plan.named, plan.named);
	EXPECT_FAILS(ginCommInit(config, &comm), ginErrorSystem, words);
	return 0;
}

static void expectNamed(int named, enum selftestState one, enum selftestState two)
{
	plan.named = named;
	plan.state[0] = selftestGood;
	plan.state[1] = one;
	plan.state[2] = two;
	const int *result = ranksStart(RANKS, 1, start);
	for (int r = 0; r < RANKS; r++)
		EXPECT_EQUAL(result[r], 0);
}

int main(void)
{
	setenv("GIN_LOG", "none", 1);
	setenv("GIN_SELFTEST", "1", 1);
	expectNamed(-1, selftestGood, selftestGood);
	expectNamed(-1, selftestNoRoute, selftestGood);
	expectNamed(1, selftestUntested, selftestGood);
	expectNamed(2, selftestGood, selftestBroken);
	expectNamed(1, selftestUntested, selftestUntested);
	expectNamed(2, selftestUntested, selftestBroken); /* it says more */
	expectNamed(1, selftestBroken, selftestUntested);
	return 0;
}
