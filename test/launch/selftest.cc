/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selftest.cc - libgin-selftest.so: which pairs answer, and the sentence of ginCommInit() about a
 * pair that does not
 *
 *	EXPECT_BACKEND=NAME	the route of every pair
 *	EXPECT_FAULT=WORDS	every pair is broken, with these words; otherwise every pair answers
 *	EXPECT_INIT=WORDS	with GIN_SELFTEST=1 ginCommInit() fails on every rank, with WORDS
 *	EXPECT_BROKEN=RANK	with EXPECT_FAULT: only the pairs with that rank are broken
 */
/* NEEDS: libgin-weak.so libgin-selftest.so */
#include "lib/selftest/selftest.h"
#include "ranks.h"
#include "require.h"

#include <dlfcn.h>

#include <vector>

static const char *variable(const char *name)
{
	const char *value = getenv(name);
	return value ? value : "";
}

static const selftestCalls *load()
{
	char path[1024];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 64);

	EXPECT(length > 0);
	path[length] = 0;
	snprintf(strrchr(path, '/'), 64, "/../%s", SELFTEST_PLUGIN);
	void *library = dlopen(path, RTLD_NOW);
	if (!library)
		fprintf(stderr, "%s\n", dlerror());
	EXPECT(library);
	auto calls = static_cast<const selftestCalls *>(dlsym(library, SELFTEST_SYMBOL));
	EXPECT(calls && calls->size == sizeof(*calls));
	return calls;
}

static void expectGood(const selftestCell &cell)
{
	if (cell.state != selftestGood)
		fprintf(stderr, "state %u: %s\n", cell.state, cell.fault);
	EXPECT(cell.state == selftestGood);
	EXPECT(cell.latencyNs > 0 && cell.latencyNs < 4000000000u);
	EXPECT(cell.mbPerS > 0);
	EXPECT(!*cell.fault);
}

static void expectBroken(const selftestCell &cell)
{
	if (cell.state != selftestBroken || !strstr(cell.fault, variable("EXPECT_FAULT")))
		fprintf(stderr, "state %u: %s\n", cell.state, cell.fault);
	EXPECT(cell.state == selftestBroken);
	EXPECT(strstr(cell.fault, variable("EXPECT_FAULT")) != nullptr);
}

static void expectCell(int rank, int peer, const selftestCell &cell)
{
	const char *backend = variable("EXPECT_BACKEND"), *broken = variable("EXPECT_BROKEN");

	if (*backend)
		EXPECT(!strcmp(cell.backend, backend));
	EXPECT(*cell.why);
	if (*variable("EXPECT_FAULT") && (!*broken || atoi(broken) == rank || atoi(broken) == peer))
		expectBroken(cell);
	else
		expectGood(cell);
}

static selftestLimits limits()
{
	const char *limit = variable("GIN_TIMEOUT");

	return {*limit ? strtoull(limit, nullptr, 10) * 1000000000 / 3 : 5000000000, UINT64_MAX};
}

/* Twice on one communicator: resources of the first test do not disturb the second. */
static void testCells(ginComm_t comm, int rank, int nRanks)
{
	const selftestCalls *calls = load();

	for (int round = 0; round < (*variable("EXPECT_FAULT") ? 1 : 2); round++) {
		std::vector<selftestCell> cells(static_cast<size_t>(nRanks));
		ginResult_t result = calls->run(comm, limits(), cells.data());
		if (result != ginSuccess)
			fprintf(stderr, "%s: %s\n", ginGetLastError(), cells[0].fault);
		EXPECT(result == ginSuccess);
		for (int peer = 0; peer < nRanks; peer++)
			expectCell(rank, peer, cells[static_cast<size_t>(peer)]);
	}
}

static int run(const ginConfig_t *config)
{
	ginComm_t comm;
	int rank = -1, nRanks = 0;
	ginResult_t result = ginCommInit(config, &comm);
	const char *words = variable("EXPECT_INIT");

	if (*words) {
		printf("%s\n", ginGetLastError());
		EXPECT(result == ginErrorSystem);
		EXPECT(strstr(ginGetLastError(), words) != nullptr);
		EXPECT(strstr(ginGetLastError(), "gin_info --selftest") != nullptr);
		return 0;
	}
	if (result != ginSuccess)
		fprintf(stderr, "%s\n", ginGetLastError());
	EXPECT(result == ginSuccess);
	EXPECT(ginCommRank(comm, &rank) == ginSuccess);
	EXPECT(ginCommSize(comm, &nRanks) == ginSuccess);
	testCells(comm, rank, nRanks);
	EXPECT(ginCommDestroy(comm) == ginSuccess);
	return 0;
}

int main(int argc, char **argv)
{
	return ranksMain(argc, argv, run);
}
