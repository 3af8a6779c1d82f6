/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arguments_stats.c - ginCommGetStats() and ginCommGetPeerStats(): every argument that is wrong,
 * structs of older and newer callers, and a device communicator without queues
 */
#include <limits.h>

#include "arguments.h"

static ginDevComm twoContexts(ginComm_t comm)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginDevComm dc;

	want.contexts = 2;
	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &dc));
	return dc;
}

static void badSizes(ginComm_t comm, const ginDevComm *dc)
{
	static const size_t sizes[] = {0, 1, sizeof(size_t), 4097, SIZE_MAX};
	struct guarded g;

	EXPECT_FAILS(ginCommGetStats(comm, dc, 0, NULL), ginErrorInvalidArgument, "info is NULL",
		     "GIN_STATS_INIT");
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		poison(&g, sizes[s]);
		EXPECT_FAILS(ginCommGetStats(comm, dc, 0, &g.info.stats), ginErrorInvalidArgument,
			     "its size is wrong", "GIN_STATS_INIT");
		EXPECT(untouched(&g));
	}
}

/*
 * A caller of an older libgin gets the fields that it knows; a caller of a newer one gets this
 * libgin's.
 */
static void otherSizes(ginComm_t comm, const ginDevComm *dc)
{
	struct guarded g;

	for (size_t size = 16; size <= 4096; size += 72) {
		size_t due = size < sizeof(ginStats_t) ? size : sizeof(ginStats_t);
		poison(&g, size);
		EXPECT_SUCCESS(ginCommGetStats(comm, dc, 1, &g.info.stats));
		EXPECT_EQUAL(g.info.size, due);
		EXPECT_EQUAL(g.info.stats.posted, 0);
		for (size_t i = due; i < sizeof(g.info.bytes); i++)
			EXPECT_EQUAL(g.info.bytes[i], 0x5a);
	}
}

static void badArguments(ginComm_t comm, const ginDevComm *dc)
{
	static const uint32_t contexts[] = {2, 1024, UINT32_MAX};
	ginDevComm none = {0};
	struct guarded g;

	poison(&g, sizeof(ginStats_t));
	EXPECT_FAILS(ginCommGetStats(NULL, dc, 0, &g.info.stats), ginErrorInvalidArgument,
		     "ginCommGetStats: comm is NULL");
	EXPECT_FAILS(ginCommGetStats(comm, NULL, 0, &g.info.stats), ginErrorInvalidArgument,
		     "ginCommGetStats: rank ", "devComm is not of this communicator");
	EXPECT_FAILS(ginCommGetStats(comm, &none, 0, &g.info.stats), ginErrorInvalidArgument,
		     "devComm is not of this communicator");
	for (size_t c = 0; c < sizeof(contexts) / sizeof(contexts[0]); c++)
		EXPECT_FAILS(ginCommGetStats(comm, dc, contexts[c], &g.info.stats),
			     ginErrorInvalidArgument, "context is ", "must be 0 to 1");
	EXPECT(untouched(&g));
}

static void badPeers(ginComm_t comm, const ginDevComm *dc)
{
	static const int peers[] = {-1, 2, INT_MAX, INT_MIN};
	ginPeerStats_t stats = GIN_PEER_STATS_INIT, older = {.size = 16, .posted = 77};

	EXPECT_FAILS(ginCommGetPeerStats(NULL, dc, 0, &stats), ginErrorInvalidArgument,
		     "ginCommGetPeerStats: comm is NULL");
	EXPECT_FAILS(ginCommGetPeerStats(comm, NULL, 0, &stats), ginErrorInvalidArgument,
		     "devComm is not of this communicator");
	EXPECT_FAILS(ginCommGetPeerStats(comm, dc, 0, NULL), ginErrorInvalidArgument,
		     "info is NULL", "GIN_PEER_STATS_INIT");
	for (size_t p = 0; p < sizeof(peers) / sizeof(peers[0]); p++)
		EXPECT_FAILS(ginCommGetPeerStats(comm, dc, peers[p], &stats),
			     ginErrorInvalidArgument, "peer is ", "must be 0 to 1");
	EXPECT_SUCCESS(ginCommGetPeerStats(comm, dc, 1, &older));
	EXPECT(older.size == 16 && older.route == ginRouteProxy && older.posted == 77);
}

static int badCalls(const ginConfig_t *config)
{
	setenv("GIN_ROUTE", "network", 1);
	ginComm_t comm = openComm(config);
	ginDevComm dc = twoContexts(comm);
	struct guarded g;

	badSizes(comm, &dc);
	otherSizes(comm, &dc);
	badArguments(comm, &dc);
	badPeers(comm, &dc);
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &dc));
	poison(&g, sizeof(ginStats_t));
	EXPECT_FAILS(ginCommGetStats(comm, &dc, 0, &g.info.stats), ginErrorInvalidArgument,
		     "devComm is not of this communicator");
	EXPECT(untouched(&g));
	return closeComm(comm);
}

static int withoutQueues(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	ginDevComm dc = twoContexts(comm);
	struct guarded g;

	poison(&g, sizeof(ginStats_t));
	EXPECT_FAILS(ginCommGetStats(comm, &dc, 2, &g.info.stats), ginErrorInvalidArgument,
		     "context is 2: must be 0 to 1");
	EXPECT(untouched(&g));
	EXPECT_SUCCESS(ginCommGetStats(comm, &dc, 0, &g.info.stats));
	EXPECT(!g.info.stats.counted && !g.info.stats.posted && !g.info.stats.cpus[0]);
	ginPeerStats_t peer = GIN_PEER_STATS_INIT;
	EXPECT_SUCCESS(ginCommGetPeerStats(comm, &dc, 1, &peer));
	EXPECT(peer.route == ginRouteDirect && !peer.counted && !peer.posted && !peer.putBytes);
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &dc));
	return closeComm(comm);
}

int main(void)
{
	prepareTests();
	runForks("bad ginCommGetStats", 2, badCalls);
	runThreads("without queues", 2, withoutQueues);
	return expectFailures != 0;
}
