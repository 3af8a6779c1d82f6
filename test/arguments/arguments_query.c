/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arguments_query.c - queries of a communicator and of the environment, and the allgather: answers,
 * every argument that is wrong, and structs of older and newer callers
 */
#include "arguments.h"

#include <limits.h>

/* One of the query calls, which is identified by its output. */
typedef ginResult_t (*query_t)(ginComm_t comm, void *info);

static ginResult_t queryComm(ginComm_t comm, void *info)
{
	return ginCommQuery(comm, info);
}

static ginResult_t queryBackend(ginComm_t comm, void *info)
{
	return ginCommQueryBackend(comm, 0, info);
}

static ginResult_t queryParam(ginComm_t comm, void *info)
{
	(void)comm;
	return ginParamQuery(0, info);
}

static ginResult_t queryDevice(ginComm_t comm, void *info)
{
	(void)comm;
	return ginDeviceQuery(0, info);
}

static ginResult_t queryNic(ginComm_t comm, void *info)
{
	(void)comm;
	return ginNicQuery(0, info);
}

static ginResult_t queryPlan(ginComm_t comm, void *info)
{
	const ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;

	(void)comm;
	return ginPlanQuery(1, 100, &want, info);
}

static const struct {
	query_t query;
	size_t size;
	const char *initializer;
} queries[] = {
	{queryComm, sizeof(ginCommInfo_t), "GIN_COMM_INFO_INIT"},
	{queryBackend, sizeof(ginBackendInfo_t), "GIN_BACKEND_INFO_INIT"},
	{queryParam, sizeof(ginParamInfo_t), "GIN_PARAM_INFO_INIT"},
	{queryDevice, sizeof(ginDeviceInfo_t), "GIN_DEVICE_INFO_INIT"},
	{queryNic, sizeof(ginNicInfo_t), "GIN_NIC_INFO_INIT"},
	{queryPlan, sizeof(ginPlanInfo_t), "GIN_PLAN_INFO_INIT"},
};

enum { QUERIES = sizeof(queries) / sizeof(queries[0]) };

static void badSizes(ginComm_t comm)
{
	static const size_t sizes[] = {0, 1, sizeof(size_t), 4097, SIZE_MAX};
	struct guarded g;

	for (int q = 0; q < QUERIES; q++) {
		EXPECT_FAILS(queries[q].query(comm, NULL), ginErrorInvalidArgument, "info is NULL",
			     queries[q].initializer);
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
			poison(&g, sizes[s]);
			EXPECT_FAILS(queries[q].query(comm, &g), ginErrorInvalidArgument,
				     "its size is wrong", queries[q].initializer);
			EXPECT(untouched(&g));
		}
	}
}

/*
 * A caller of an older libgin gets the fields that it knows; a caller of a newer one gets this
 * libgin's.
 */
static void otherSizes(ginComm_t comm)
{
	struct guarded whole, g;

	for (int q = 0; q < QUERIES; q++) {
		poison(&whole, queries[q].size);
		EXPECT_SUCCESS(queries[q].query(comm, &whole));
		for (size_t size = sizeof(size_t) + sizeof(int); size <= 4096; size += 52) {
			size_t due = size < queries[q].size ? size : queries[q].size;
			poison(&g, size);
			EXPECT_SUCCESS(queries[q].query(comm, &g));
			EXPECT_EQUAL(g.info.size, due);
			EXPECT(!memcmp(g.info.bytes + sizeof(size_t),
				       whole.info.bytes + sizeof(size_t), due - sizeof(size_t)));
			for (size_t i = due; i < sizeof(g.info.bytes); i++)
				EXPECT_EQUAL(g.info.bytes[i], 0x5a);
		}
	}
}

static void badIndexes(ginComm_t comm)
{
	static const int indexes[] = {-1, 1000, INT_MIN, INT_MAX, 0}; /* 0: the count */
	ginCommInfo_t info = GIN_COMM_INFO_INIT;
	ginParamInfo_t param = GIN_PARAM_INFO_INIT;
	struct guarded g;

	EXPECT_SUCCESS(ginCommQuery(comm, &info));
	EXPECT_SUCCESS(ginParamQuery(0, &param));

	for (size_t i = 0; i < sizeof(indexes) / sizeof(indexes[0]); i++) {
		poison(&g, sizeof(ginBackendInfo_t));
		EXPECT_FAILS(ginCommQueryBackend(comm, indexes[i] ? indexes[i] : info.backends,
						 &g.info.backend),
			     ginErrorInvalidArgument, "ginCommQueryBackend: rank ", "index is ",
			     "must be 0 to ");
		EXPECT(untouched(&g));
		poison(&g, sizeof(ginParamInfo_t));
		EXPECT_FAILS(ginParamQuery(indexes[i] ? indexes[i] : param.count, &g.info.param),
			     ginErrorInvalidArgument, "ginParamQuery: index is ", "must be 0 to ");
		EXPECT(untouched(&g));
	}
	poison(&g, sizeof(ginNicInfo_t));
	EXPECT_FAILS(ginNicQuery(-1, &g.info.nic), ginErrorInvalidArgument,
		     "ginNicQuery: index is -1", "must be 0 or more");
	EXPECT(untouched(&g));
}

static void withoutComm(void)
{
	struct guarded g;
	char byte = 1, out[4];

	poison(&g, sizeof(ginCommInfo_t));
	EXPECT_FAILS(ginCommQuery(NULL, &g.info.comm), ginErrorInvalidArgument,
		     "ginCommQuery: comm is NULL");
	EXPECT_FAILS(ginCommQueryBackend(NULL, 0, &g.info.backend), ginErrorInvalidArgument,
		     "ginCommQueryBackend: comm is NULL");
	EXPECT_FAILS(ginCommAllgather(NULL, &byte, out, 1), ginErrorInvalidArgument,
		     "ginCommAllgather: comm is NULL");
	EXPECT(untouched(&g));
}

static int badQueries(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);

	withoutComm();
	badSizes(comm);
	otherSizes(comm);
	badIndexes(comm);
	expectWorks(comm);
	return closeComm(comm);
}

/* Ranks 0, 2 and 3 on one host, 1 and 4 on another. */
static int localRanksOf(const ginConfig_t *config)
{
	static const int local[] = {0, 0, 1, 2, 1}, locals[] = {3, 2, 3, 3, 2};
	int r = config->rank, there = locals[r] == 2;

	setenv("GIN_HOSTID", there ? "there" : "here", 1);
	setenv("GIN_TRANSPORT", "ipc", 1);
	ginComm_t comm = openComm(config);
	ginCommInfo_t info = GIN_COMM_INFO_INIT;
	ginBackendInfo_t backend = GIN_BACKEND_INFO_INIT;
	EXPECT_SUCCESS(ginCommQuery(comm, &info));
	EXPECT_EQUAL(info.rank, r);
	EXPECT_EQUAL(info.nRanks, 5);
	EXPECT_EQUAL(info.localRank, local[r]);
	EXPECT_EQUAL(info.localRanks, locals[r]);
	EXPECT_EQUAL(info.hosts, 2);
	EXPECT_EQUAL(info.device, GIN_DEVICE_NONE);
	EXPECT_TEXT(info.bootstrap, "caller");
	EXPECT_TEXT(info.deviceName, "host threads");
	EXPECT(*info.host && info.backends >= 1);
	EXPECT_SUCCESS(ginCommQueryBackend(comm, 0, &backend));
	EXPECT_TEXT(backend.name, "direct");
	EXPECT_TEXT(backend.why, "");
	EXPECT_EQUAL(backend.usable, 1);
	EXPECT_EQUAL(backend.pairs, locals[r]);
	return closeComm(comm);
}

/* Two ranks of each host, and perhaps one of the last one: a domain has equally many of each. */
static int domains(const ginConfig_t *config)
{
	char host[16];
	ginCommInfo_t info = GIN_COMM_INFO_INIT;

	snprintf(host, sizeof(host), "h%d", config->rank / 2);
	setenv("GIN_HOSTID", host, 1);
	setenv("GIN_TRANSPORT", "ipc", 1);
	ginComm_t comm = openComm(config);
	EXPECT_SUCCESS(ginCommQuery(comm, &info));
	EXPECT_EQUAL(info.domainSize, 2 - config->nRanks % 2);
	EXPECT_EQUAL(info.domainRank, config->rank % info.domainSize);
	return closeComm(comm);
}

static int ruledOut(const ginConfig_t *config)
{
	setenv("GIN_ROUTE", "network", 1);
	ginComm_t comm = openComm(config);
	ginBackendInfo_t backend = GIN_BACKEND_INFO_INIT;

	EXPECT_SUCCESS(ginCommQueryBackend(comm, 0, &backend));
	EXPECT_EQUAL(backend.usable, 0);
	EXPECT_EQUAL(backend.pairs, 0);
	EXPECT_HAS(backend.why, "GIN_ROUTE=network rules it out");
	return closeComm(comm);
}

/* Of every critical size, the largest included; the input may lie inside the output. */
static int allgathers(const ginConfig_t *config)
{
	static const size_t sizes[] = {1, 7, 4096, GIN_ALLGATHER_BYTES};
	unsigned char *out = malloc(3 * GIN_ALLGATHER_BYTES);
	ginComm_t comm = openComm(config);

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		size_t n = sizes[s], me = (size_t)config->rank;
		memset(out, 0x5a, 3 * n);
		memset(out + me * n, config->rank + 1, n);
		EXPECT_SUCCESS(ginCommAllgather(comm, out + me * n, out, n));
		for (size_t i = 0; i < 3 * n; i++)
			EXPECT_EQUAL(out[i], i / n + 1);
	}
	free(out);
	return closeComm(comm);
}

/* Zero bytes are a barrier: the counts that other ranks made before are there. */
static int *counted;

static int barriers(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);

	for (int round = 1; round <= 200; round++) {
		__atomic_fetch_add(counted, 1, __ATOMIC_RELAXED);
		EXPECT_SUCCESS(ginCommAllgather(comm, NULL, NULL, 0));
		EXPECT_EQUAL(__atomic_load_n(counted, __ATOMIC_RELAXED), 3 * round);
		EXPECT_SUCCESS(ginCommAllgather(comm, NULL, NULL, 0));
	}
	return closeComm(comm);
}

/*
 * One rank passes a wrong argument: all ranks learn it, no output is written, and the next call
 * works.
 */
static void oneIsWrong(ginComm_t comm, int wrong, const void *in, void *out, size_t bytes,
		       const char *words)
{
	char good[16] = "good", mine[3 * 16], same[3 * 16];

	memset(mine, 0x5a, sizeof(mine));
	memcpy(same, mine, sizeof(same));
	if (rankOf(comm) == wrong)
		EXPECT_FAILS(ginCommAllgather(comm, in, out, bytes), ginErrorInvalidArgument,
			     "ginCommAllgather: rank 1: ", words);
	else
		EXPECT_FAILS(ginCommAllgather(comm, good, mine, sizeof(good)),
			     ginErrorInvalidArgument, "ginCommAllgather: rank 1: ", words);
	EXPECT(!memcmp(mine, same, sizeof(mine)));
	expectWindowsWork(comm);
}

static void sizesDiffer(ginComm_t comm)
{
	char in[8] = "12345678", out[3 * 8], same[3 * 8];
	size_t bytes = rankOf(comm) == 2 ? 4 : 8;

	memset(out, 0x5a, sizeof(out));
	memcpy(same, out, sizeof(same));
	EXPECT_FAILS(ginCommAllgather(comm, in, out, bytes), ginErrorInvalidUsage,
		     bytes == 8 ? "rank 2 passed 4 bytes, this rank 8"
				: "rank 0 passed 8 bytes, this rank 4");
	EXPECT(!memcmp(out, same, sizeof(out)));
	expectWindowsWork(comm);
}

static int badAllgathers(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	char *big = malloc(3 * (GIN_ALLGATHER_BYTES + 1));

	oneIsWrong(comm, 1, NULL, big, 16, "in is NULL");
	oneIsWrong(comm, 1, big, NULL, 16, "out is NULL");
	oneIsWrong(comm, 1, big, big, GIN_ALLGATHER_BYTES + 1, "at most 65536");
	oneIsWrong(comm, 1, big, big, SIZE_MAX, "at most 65536");
	sizesDiffer(comm);
	free(big);
	expectWorks(comm);
	return closeComm(comm);
}

static ginParamInfo_t param(const char *name)
{
	ginParamInfo_t info = GIN_PARAM_INFO_INIT;

	info.count = 1;
	for (int i = 0; i < info.count; i++) {
		EXPECT_SUCCESS(ginParamQuery(i, &info));
		if (!strcmp(info.name, name))
			return info;
	}
	expectThat(0, __FILE__, __LINE__, "there is no %s", name);
	return info;
}

static void params(void)
{
	setenv("GIN_TIMEOUT", "30", 1);
	setenv("GIN_ROUTE", "nowhere", 1);
	setenv("GIN_HOSTID", "", 1);
	unsetenv("GIN_BOOTSTRAP");
	ginParamInfo_t info = param("GIN_TIMEOUT");
	EXPECT(info.isSet && !info.isBad);
	EXPECT_TEXT(info.value, "30");
	EXPECT_TEXT(info.preset, "600");
	EXPECT_TEXT(info.choices, "number");
	EXPECT_HAS(info.meaning, "seconds");
	info = param("GIN_ROUTE");
	EXPECT(info.isSet && info.isBad);
	EXPECT_TEXT(info.value, "nowhere");
	EXPECT_TEXT(info.choices, "auto|direct|network");
	info = param("GIN_HOSTID");
	EXPECT(!info.isSet && !info.isBad);
	EXPECT_TEXT(info.choices, "text");
	info = param("GIN_BOOTSTRAP");
	EXPECT(!info.isSet && !info.isBad);
	EXPECT_TEXT(info.value, info.preset);
	setenv("GIN_TIMEOUT", "40", 1); /* it was read already */
	EXPECT_TEXT(param("GIN_TIMEOUT").value, "30");
}

int main(void)
{
	prepareTests();
	counted = mmap(NULL, sizeof(*counted), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	EXPECT(counted != MAP_FAILED);
	runForks("bad queries", 3, badQueries);
	runForks("ranks of two hosts", 5, localRanksOf);
	runForks("domains of two hosts", 4, domains);
	runForks("domains of two hosts, one of one rank", 3, domains);
	runForks("GIN_ROUTE rules a backend out", 2, ruledOut);
	runForks("allgather", 3, allgathers);
	runThreads("allgather", 3, allgathers);
	runForks("barrier", 3, barriers);
	runForks("bad allgathers", 3, badAllgathers);
	runThreads("bad allgathers", 3, badAllgathers);
	expectChild("environment variables", params);
	return expectFailures != 0;
}
