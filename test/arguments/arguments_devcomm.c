/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arguments_devcomm.c - device communicators: every argument that is wrong, pairs of ranks without
 * a route, and collective calls that differ
 */
#include "arguments.h"

#include "lib/base/net/socket.h"

#define WRONG 1

static ginDevCommRequirements_t requirements(uint32_t contexts, uint32_t signals)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;

	want.contexts = contexts;
	want.signals = signals;
	return want;
}

/* The output of a failed call must not change. */
static void expectUntouched(const ginDevComm *dc)
{
	for (size_t i = 0; i < sizeof(*dc); i++)
		EXPECT_EQUAL(((const unsigned char *)dc)[i], 0x5a);
}

/* Arguments that are not given have valid values. */
struct bad {
	const char *words;
	int noRequirements, noDevComm, size;
	uint32_t contexts, signals, abi, depth, routes;
	int32_t trafficClass;
	size_t devCommSize;
};

static const struct bad bads[] = {
	{.words = "requirements is NULL", .noRequirements = 1},
	{.words = "requirements is NULL or its size is wrong", .size = -1},
	{.words = "GIN_DEV_COMM_REQUIREMENTS_INIT", .size = 8},
	{.words = "its size is wrong", .size = 4097},
	{.words = "its size is wrong", .size = sizeof(ginDevCommRequirements_t) - 4},
	{.words = "requirements.contexts is 0: must be 1 to 1024", .contexts = 0},
	{.words = "requirements.contexts is 1025: must be 1 to 1024", .contexts = 1025},
	{.words = "requirements.contexts is 4294967295", .contexts = UINT32_MAX},
	{.words = "requirements.signals is 1048577: must be 0 to 1048576",
	 .contexts = 1,
	 .signals = (1u << 20) + 1},
	{.words = "requirements.queueDepth is 65537: must be 1 to 65536",
	 .contexts = 1,
	 .depth = 65537},
	{.words = "requirements.routes is 0x10: must be 0, or a set of GIN_ROUTES_DIRECT",
	 .contexts = 1,
	 .routes = 16},
	{.words = "requirements.trafficClass is 256: must be 0 to 255, or -1 for GIN_NIC_TC",
	 .contexts = 1,
	 .trafficClass = 256},
	{.words = "requirements.trafficClass is -2", .contexts = 1, .trafficClass = -2},
	{.words = "devComm is NULL", .contexts = 1, .noDevComm = 1},
	{.words = "device ABI 4711", .contexts = 1, .abi = 4711},
	{.words = "ginDevComm of 4711 bytes", .contexts = 1, .devCommSize = 4711},
};

static ginDevCommRequirements_t badRequirement(const struct bad *bad)
{
	ginDevCommRequirements_t want = requirements(bad->contexts, bad->signals);

	if (bad->size)
		want.size = bad->size < 0 ? 0 : (size_t)bad->size;
	if (bad->depth)
		want.queueDepth = bad->depth;
	want.routes = bad->routes;
	want.trafficClass = bad->trafficClass;
	return want;
}

static void createBadly(ginComm_t comm, const struct bad *bad, int wrong, int first)
{
	ginDevCommRequirements_t want = wrong ? badRequirement(bad) : requirements(1, 16);
	uint32_t abi = wrong && bad->abi ? bad->abi : GIN_DEVICE_ABI;
	size_t size = wrong && bad->devCommSize ? bad->devCommSize : sizeof(ginDevComm);
	char rank[64];
	ginDevComm dc;

	memset(&dc, 0x5a, sizeof(dc));
	snprintf(rank, sizeof(rank), "ginDevCommCreate: rank %d: ", first);
	EXPECT_FAILS(ginDevCommCreateAbi(comm, wrong && bad->noRequirements ? NULL : &want, abi,
					 size, wrong && bad->noDevComm ? NULL : &dc),
		     bad->abi || bad->devCommSize ? ginErrorAbi : ginErrorInvalidArgument, rank,
		     bad->words);
	expectUntouched(&dc);
}

static int badRequirements(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	ginDevCommRequirements_t want = requirements(1, 1);
	ginDevComm dc;

	memset(&dc, 0x5a, sizeof(dc));
	EXPECT_FAILS(ginDevCommCreate(NULL, &want, &dc), ginErrorInvalidArgument,
		     "ginDevCommCreate", "comm is NULL");
	expectUntouched(&dc);
	for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
		createBadly(comm, &bads[i], rankOf(comm) == WRONG, WRONG);
		expectWorks(comm);
		createBadly(comm, &bads[i], 1, 0);
		expectWorks(comm);
	}
	return closeComm(comm);
}

/* The sentence has both layouts, with their numbers. */
static int otherAbi(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	ginDevCommRequirements_t want = requirements(1, 1);
	char own[96], theirs[96];
	ginDevComm dc;

	snprintf(theirs, sizeof(theirs), "device ABI %u with a ginDevComm of %zu bytes",
		 GIN_DEVICE_ABI + 1, sizeof(dc) + 8);
	snprintf(own, sizeof(own), "this libgin has ABI %u with %zu", GIN_DEVICE_ABI, sizeof(dc));
	EXPECT_FAILS(ginDevCommCreateAbi(comm, &want, GIN_DEVICE_ABI + 1, sizeof(dc) + 8, &dc),
		     ginErrorAbi, theirs, own);
	expectWorks(comm);
	return closeComm(comm);
}

static uint32_t routeTo(ginComm_t comm, int peer)
{
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;

	EXPECT_SUCCESS(ginCommQueryPeer(comm, peer, &info));
	return (uint32_t)info.route;
}

static int anyRoute(ginComm_t comm, uint32_t route)
{
	for (int r = 0; r < sizeOf(comm); r++)
		if (routeTo(comm, r) == route)
			return 1;
	return 0;
}

static void expectDevComm(ginComm_t comm, const ginDevComm *dc, uint32_t contexts, uint32_t signals,
			  uint32_t depth)
{
	EXPECT_EQUAL(dc->size, sizeof(*dc));
	EXPECT_EQUAL(dc->abi, GIN_DEVICE_ABI);
	EXPECT_EQUAL(dc->rank, rankOf(comm));
	EXPECT_EQUAL(dc->nRanks, sizeOf(comm));
	EXPECT_EQUAL(dc->contexts, contexts);
	EXPECT_EQUAL(dc->signals, signals);
	EXPECT_EQUAL(dc->queues != NULL, anyRoute(comm, ginRouteProxy));
	for (uint32_t r = 0; r < dc->nRanks; r++)
		EXPECT_EQUAL(dc->peers[r].route, routeTo(comm, (int)r));
	for (uint32_t c = 0; dc->queues && c < contexts; c++)
		EXPECT_EQUAL(1u << dc->queues[c].logDepth, depth);
}

/* The ends of the ranges, timeouts that differ, and a program with an older header. */
static int goodRequirements(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	ginDevCommRequirements_t many = requirements(1024, 2), none = requirements(1, 0),
				 most = requirements(1, 1u << 20), older = requirements(3, 4);
	ginDevComm dc[4];

	none.queueDepth = 1;
	many.queueDepth = 513;
	most.queueDepth = 65536;

	many.timeout = (uint64_t)rankOf(comm);
	many.trafficClass = rankOf(comm);
	older.size = offsetof(ginDevCommRequirements_t, timeout);
	older.timeout = 99;
	older.queueDepth = 99;
	EXPECT_SUCCESS(ginDevCommCreate(comm, &many, &dc[0]));
	EXPECT_SUCCESS(ginDevCommCreate(comm, &none, &dc[1]));
	EXPECT_SUCCESS(ginDevCommCreate(comm, &most, &dc[2]));
	EXPECT_SUCCESS(ginDevCommCreate(comm, &older, &dc[3]));
	expectDevComm(comm, &dc[0], 1024, 2, 1024);
	expectDevComm(comm, &dc[1], 1, 0, 16);
	expectDevComm(comm, &dc[2], 1, 1u << 20, 65536);
	expectDevComm(comm, &dc[3], 3, 4, 1024);
	EXPECT_EQUAL(dc[0].timeout, rankOf(comm));
	EXPECT_EQUAL(dc[3].timeout, 0);
	for (int i = 0; i < 4; i++)
		EXPECT_SUCCESS(ginDevCommDestroy(comm, &dc[i]));
	return closeComm(comm);
}

static void createDifferently(ginComm_t comm, uint32_t contexts, uint32_t signals, uint32_t depth)
{
	int wrong = rankOf(comm) == WRONG;
	ginDevCommRequirements_t want = requirements(wrong ? contexts : 2, wrong ? signals : 8);
	char words[128];
	ginDevComm dc;

	want.queueDepth = wrong ? depth : 1024;
	memset(&dc, 0x5a, sizeof(dc));
	snprintf(words, sizeof(words),
		 "%u contexts, %u signals, 4 counters, 4 barriers, queues of %u on rank 1",
		 contexts, signals, depth);
	EXPECT_FAILS(ginDevCommCreate(comm, &want, &dc), ginErrorInvalidArgument,
		     "requirements differ", words, "2, 8, 4, 4, 1024 on rank 0");
	expectUntouched(&dc);
	expectWorks(comm);
}

static int differentRequirements(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);

	createDifferently(comm, 3, 8, 1024);
	createDifferently(comm, 2, 9, 1024);
	createDifferently(comm, 2, 8, 512);
	return closeComm(comm);
}

/* Routes for which kernels are compiled: all routes, too few, and others on one rank. */
static int promisedRoutes(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	ginDevCommRequirements_t want = requirements(1, 1);
	uint64_t present = 0;
	ginDevComm dc;

	for (int r = 0; r < sizeOf(comm); r++)
		present |= 1u << routeTo(comm, r);
	want.routes = present;
	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &dc));
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &dc));
	memset(&dc, 0x5a, sizeof(dc));
	want.routes = GIN_ROUTES_ALL & ~present;
	EXPECT_FAILS(ginDevCommCreate(comm, &want, &dc), ginErrorUnsupported,
		     "ginDevCommCreate: rank 0: ", "rank 0 reaches rank 0 (host ",
		     "by a route that requirements.routes leaves out: add GIN_ROUTES_");
	expectUntouched(&dc);
	expectWorks(comm);
	want.routes = rankOf(comm) == WRONG ? GIN_ROUTES_ALL : 0;
	EXPECT_FAILS(ginDevCommCreate(comm, &want, &dc), ginErrorInvalidArgument,
		     "requirements.routes differ: 0xe on rank 1, 0x0 on rank 0");
	expectUntouched(&dc);
	expectWorks(comm);
	return closeComm(comm);
}

static int badDevComms(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config), other = openComm(config);
	ginDevCommRequirements_t want = requirements(1, 1);
	ginDevComm dc, foreign, none = {0};
	const ginDevComm *own = rankOf(comm) == WRONG ? &none : &dc;

	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &dc));
	EXPECT_SUCCESS(ginDevCommCreate(other, &want, &foreign));
	EXPECT_FAILS(ginDevCommDestroy(NULL, &dc), ginErrorInvalidArgument, "ginDevCommDestroy",
		     "comm is NULL");
	EXPECT_FAILS(ginDevCommDestroy(comm, NULL), ginErrorInvalidArgument,
		     "ginDevCommDestroy: rank 0: ", "devComm is not of this communicator");
	EXPECT_FAILS(ginDevCommDestroy(comm, &foreign), ginErrorInvalidArgument,
		     "devComm is not of this communicator");
	EXPECT_FAILS(ginDevCommDestroy(comm, own), ginErrorInvalidArgument,
		     "ginDevCommDestroy: rank 1: ", "devComm is not of this communicator");
	expectWorks(comm);
	ginDevComm copy = dc; /* it is data */
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &copy));
	EXPECT_FAILS(ginDevCommDestroy(comm, &dc), ginErrorInvalidArgument,
		     "devComm is not of this communicator");
	expectWorks(comm);
	EXPECT_SUCCESS(ginDevCommDestroy(other, &foreign));
	closeComm(other);
	return closeComm(comm);
}

static int badGetError(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	ginDevCommRequirements_t want = requirements(1, 1);
	ginDevComm dc, none = {0};
	ginErrorRecord_t record, poison;

	memset(&record, 0x5a, sizeof(record));
	poison = record;
	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &dc));
	EXPECT_FAILS(ginDevCommGetError(NULL, &dc, &record), ginErrorInvalidArgument,
		     "ginDevCommGetError", "comm is NULL");
	EXPECT_FAILS(ginDevCommGetError(comm, &dc, NULL), ginErrorInvalidArgument,
		     "ginDevCommGetError: rank ", "record is NULL");
	EXPECT_FAILS(ginDevCommGetError(comm, NULL, &record), ginErrorInvalidArgument,
		     "devComm is not of this communicator");
	EXPECT_FAILS(ginDevCommGetError(comm, &none, &record), ginErrorInvalidArgument,
		     "devComm is not of this communicator");
	EXPECT(!memcmp(&record, &poison, sizeof(record)));
	EXPECT_SUCCESS(ginDevCommGetError(comm, &dc, &record));
	EXPECT_EQUAL(record.valid, 0);
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &dc));
	EXPECT_FAILS(ginDevCommGetError(comm, &dc, &record), ginErrorInvalidArgument,
		     "devComm is not of this communicator");
	return closeComm(comm);
}

/* Two device communicators, and ranks that pass different ones. */
static int differentDevComms(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	ginDevCommRequirements_t want = requirements(1, 1);
	ginDevComm a, b;

	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &a));
	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &b));
	EXPECT_RESULT(ginDevCommDestroy(comm, rankOf(comm) == WRONG ? &b : &a),
		      ginErrorInvalidArgument);
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &a));
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &b));
	return closeComm(comm);
}

/*
 * One rank makes another collective call than the rest: the sentence names both calls, and the
 * communicator fails.
 */
static int differentCalls(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	ginDevCommRequirements_t want = requirements(1, 1);
	ginResult_t error = ginSuccess, result;
	ginWindow_t window = {POISON};
	ginDevComm dc;

	memset(&dc, 0x5a, sizeof(dc));
	if (rankOf(comm) == WRONG)
		result = ginWindowRegister(comm, NULL, 0, 0, &window);
	else
		result = ginDevCommCreate(comm, &want, &dc);
	EXPECT_FAILS(result, ginErrorInvalidUsage, "ginDevCommCreate", "ginWindowRegister",
		     "rank 1", "same order; with GIN_WINDOW_LOCAL the call is not collective");
	EXPECT(window.table == POISON);
	expectUntouched(&dc);
	EXPECT_SUCCESS(ginCommGetAsyncError(comm, &error));
	EXPECT_EQUAL(error, ginErrorInvalidUsage);
	EXPECT_HAS(ginGetLastError(), "ginWindowRegister");
	EXPECT_FAILS(ginWindowRegister(comm, NULL, 0, 0, &window), ginErrorInvalidUsage,
		     "ginDevCommCreate");
	closeComm(comm);
	comm = openComm(config);
	expectWorks(comm);
	return closeComm(comm);
}

/* Several ranks fail while another leaves, and takes its device communicators with it. */
static int failWhileLeaving(const ginConfig_t *config)
{
	ginDevCommRequirements_t want = requirements(1, 1);
	ginDevComm dc[3];

	for (int round = 0; round < 20; round++) {
		ginResult_t error = ginSuccess;
		ginComm_t comm = openComm(config);
		for (int i = 0; i < 3; i++)
			EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &dc[i]));
		if (rankOf(comm) > 0)
			EXPECT_SUCCESS(ginCommAbort(comm));
		while (error == ginSuccess)
			EXPECT_SUCCESS(ginCommGetAsyncError(comm, &error));
		closeComm(comm);
	}
	return 0;
}

static void expectRoute(ginComm_t comm, int peer, uint32_t route, const char *backend)
{
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;

	EXPECT_SUCCESS(ginCommQueryPeer(comm, peer, &info));
	EXPECT_EQUAL(info.route, route);
	EXPECT_TEXT(info.backend, backend);
}

/* The sentence of every call about a pair without a route. */
static void expectNoRoute(ginComm_t comm, int peer, const char *why)
{
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;

	EXPECT_SUCCESS(ginCommQueryPeer(comm, peer, &info));
	EXPECT_EQUAL(info.route, ginRouteNone);
	EXPECT_TEXT(info.backend, "none");
	EXPECT_HAS(info.why, why);
}

static void expectUnconnected(ginComm_t comm, const char *pair, const char *why)
{
	ginDevCommRequirements_t want = requirements(1, 1);
	ginDevComm dc;

	memset(&dc, 0x5a, sizeof(dc));
	EXPECT_FAILS(ginDevCommCreate(comm, &want, &dc), ginErrorUnsupported, "ginDevCommCreate",
		     pair, why, "direct: ", "proxy: ");
	expectUntouched(&dc);
	expectWindowsWork(comm);
}

/* Every pair, own rank included, is left to the proxy. */
static int networkOnly(const ginConfig_t *config)
{
	setenv("GIN_ROUTE", "network", 1);
	ginComm_t comm = openComm(config);

	for (int r = 0; r < sizeOf(comm); r++)
		expectRoute(comm, r, ginRouteProxy, "proxy");
	expectWorks(comm);
	closeComm(comm);
	return goodRequirements(config);
}

/* One rank alone chooses the proxy: exactly its pairs use it, on both ranks. */
static int networkOnlyOfOne(const ginConfig_t *config)
{
	if (config->rank == WRONG)
		setenv("GIN_ROUTE", "network", 1);
	ginComm_t comm = openComm(config);

	for (int r = 0; r < sizeOf(comm); r++)
		if (r == WRONG || rankOf(comm) == WRONG)
			expectRoute(comm, r, ginRouteProxy, "proxy");
		else
			expectRoute(comm, r, ginRouteDirect, "direct");
	expectWorks(comm);
	closeComm(comm);
	return goodRequirements(config);
}

/*
 * One rank excludes the route that another chooses: both ranks report that the pair has no route.
 */
static int directAgainstNetwork(const ginConfig_t *config)
{
	setenv("GIN_ROUTE", config->rank == WRONG ? "network" : "direct", 1);
	ginComm_t comm = openComm(config);
	int wrong = rankOf(comm) == WRONG;

	expectNoRoute(comm, wrong ? 0 : WRONG,
		      wrong ? "GIN_ROUTE=network rules it out" : "rank 1 does not reach this rank");
	expectNoRoute(comm, wrong ? 0 : WRONG,
		      wrong ? "rank 0 does not reach this rank" : "GIN_ROUTE=direct rules it out");
	expectRoute(comm, rankOf(comm), wrong ? ginRouteProxy : ginRouteDirect,
		    wrong ? "proxy" : "direct");
	expectUnconnected(comm, "rank 0 and rank 1", "rank 1 does not reach this rank");
	return closeComm(comm);
}

static int directOnly(const ginConfig_t *config)
{
	setenv("GIN_ROUTE", "direct", 1);
	ginComm_t comm = openComm(config);

	expectWorks(comm);
	return closeComm(comm);
}

/* Ranks 0 and 2 claim to be on one host, rank 1 on another; there is no network. */
static int twoHosts(const ginConfig_t *config)
{
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;

	setenv("GIN_HOSTID", config->rank == WRONG ? "other" : "one", 1);
	setenv("GIN_TRANSPORT", "ipc", 1);
	ginComm_t comm = openComm(config);
	int wrong = rankOf(comm) == WRONG, *own = malloc(PAGE);
	ginWindow_t window;

	expectNoRoute(comm, wrong ? 0 : WRONG, "another host");
	EXPECT_SUCCESS(ginCommQueryPeer(comm, wrong ? 2 : WRONG, &info));
	EXPECT(!info.sameHost && !info.sameProcess);
	EXPECT_SUCCESS(ginCommQueryPeer(comm, wrong ? 1 : 2 - rankOf(comm), &info));
	EXPECT(info.sameHost && info.route == ginRouteDirect);
	expectUnconnected(comm, "rank 0 and rank 1", "another host");
	/* Private memory of a rank whose routes lead to itself alone. */
	int *page = newPage(comm);
	EXPECT_SUCCESS(ginWindowRegister(comm, wrong ? own : page, PAGE, 0, &window));
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	EXPECT_SUCCESS(ginMemFree(comm, page));
	free(own);
	return closeComm(comm);
}

/* Two hosts meet by another address than loopback. */
static void testTwoHosts(void)
{
	struct netAddress address;

	if (socketAddresses("", &address, 1))
		runForks("two hosts by GIN_HOSTID", 3, twoHosts);
	else
		printf("left out: two hosts by GIN_HOSTID: there is no address but loopback\n");
}

static int countMappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	int lines = 0, c;

	EXPECT(file != NULL);
	while ((c = getc(file)) != EOF)
		lines += c == '\n';
	fclose(file);
	return lines;
}

/* A communicator with rings of the proxy that rank 0 aborts. */
static void abortOnce(const ginConfig_t *config)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginComm_t comm = openComm(config);
	ginDevComm dc;

	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &dc));
	EXPECT_SUCCESS(ginCommAllgather(comm, NULL, NULL, 0));
	if (!config->rank)
		EXPECT_SUCCESS(ginCommAbort(comm));
	while (ginCommAllgather(comm, NULL, NULL, 0) == ginSuccess)
		;
	ginDevCommDestroy(comm, &dc);
	closeComm(comm);
}

/* All ranks are between two communicators. */
static void meetOutside(const ginConfig_t *config)
{
	char none = 0, all[8];

	EXPECT(!config->allgather(config->allgatherArg, &none, all, sizeof(none)));
}

static int manyAborts(const ginConfig_t *config)
{
	int files = 0, mappings = 0;

	for (int i = 0; i < 60; i++) {
		abortOnce(config);
		meetOutside(config);
		if (i == 9) {
			files = countFiles();
			mappings = countMappings();
		}
		meetOutside(config);
	}
	printf("rank %d: %d files, %d after 50 aborts; %d mappings, %d\n", config->rank, files,
	       countFiles(), mappings, countMappings());
	EXPECT(countFiles() <= files + 2);
#if !defined(__SANITIZE_ADDRESS__) &&                                                              \
	!defined(__SANITIZE_THREAD__) /* which map memory of their own */
	EXPECT(countMappings() <= mappings + 10);
#endif
	return 0;
}

/* The log has the sentence of a failure once. */
static int oneLine(const ginConfig_t *config)
{
	char path[64], line[1024];
	int lines = 0;

	setenv("GIN_LOG", "error", 1);
	setenv("GIN_LOG_FILE", "/tmp/arguments_devcomm.%p", 1);
	ginComm_t comm = openComm(config);
	EXPECT_RESULT(ginDevCommDestroy(comm, NULL), ginErrorInvalidArgument);
	snprintf(path, sizeof(path), "/tmp/arguments_devcomm.%d", (int)getpid());
	FILE *log = fopen(path, "r");
	for (; log && fgets(line, sizeof(line), log); lines++)
		EXPECT_HAS(line, "devComm is not of this communicator");
	EXPECT(log && !fclose(log) && !unlink(path));
	EXPECT_EQUAL(lines, 1);
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return expectFailures;
}

int main(void)
{
	prepareTests();
	setenv("GIN_ROUTE", "network", 1);
	runForks("many aborts", 2, manyAborts);
	runThreads("many aborts", 2, manyAborts);
	unsetenv("GIN_ROUTE");
	runForks("bad requirements", 3, badRequirements);
	runThreads("bad requirements", 3, badRequirements);
	runThreads("another ABI", 1, otherAbi);
	runForks("good requirements", 2, goodRequirements);
	runForks("different requirements", 3, differentRequirements);
	runForks("promised routes", 3, promisedRoutes);
	runThreads("promised routes", 3, promisedRoutes);
	runForks("bad device communicators", 3, badDevComms);
	runThreads("bad device communicators", 3, badDevComms);
	runForks("a failure is logged once", 1, oneLine);
	runForks("bad ginDevCommGetError", 2, badGetError);
	runForks("different calls", 3, differentCalls);
	runThreads("different calls", 3, differentCalls);
	runThreads("ranks fail while others leave", 6, failWhileLeaving);
	runForks("GIN_ROUTE=network", 2, networkOnly);
	runForks("GIN_ROUTE=network of one rank", 3, networkOnlyOfOne);
	runForks("GIN_ROUTE=network of one rank, direct of others", 3, directAgainstNetwork);
	runForks("GIN_ROUTE=direct", 3, directOnly);
	testTwoHosts();
	runForks("destroying different device communicators", 3, differentDevComms);
	return expectFailures != 0;
}
