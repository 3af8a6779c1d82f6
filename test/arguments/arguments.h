/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arguments.h - calls that must fail: ranks to make them, and calls that must work afterwards
 *
 * Each test runs in a process of its own, in which it may set environment variables; its ranks have
 * no GPU, so that results are equal on every machine.
 */
#ifndef GIN_TEST_ARGUMENTS_H
#define GIN_TEST_ARGUMENTS_H

#include "expect.h"
#include "files.h"
#include "ranks.h"

/* The value of an output before a call that must not write it. */
#define POISON ((void *)(uintptr_t)0x5a5a5a5a)
#define POISON_INT 0x5a5a5a5a

static inline ginConfig_t hostConfig(const ginConfig_t *config)
{
	ginConfig_t host = *config;

	host.device = GIN_DEVICE_NONE;
	return host;
}

static inline ginComm_t openComm(const ginConfig_t *config)
{
	ginConfig_t host = hostConfig(config);
	ginComm_t comm = NULL;

	EXPECT_SUCCESS(ginCommInit(&host, &comm));
	return comm;
}

static inline int rankOf(ginComm_t comm)
{
	int rank = -1;

	EXPECT_SUCCESS(ginCommRank(comm, &rank));
	return rank;
}

static inline int sizeOf(ginComm_t comm)
{
	int nRanks = -1;

	EXPECT_SUCCESS(ginCommSize(comm, &nRanks));
	return nRanks;
}

/* A page of ginMemAlloc(), with this rank's number in all its words. */
#define PAGE 4096

static inline int *newPage(ginComm_t comm)
{
	void *at = NULL;

	EXPECT_SUCCESS(ginMemAlloc(comm, PAGE, &at));
	for (size_t i = 0; i < PAGE / sizeof(int); i++)
		((int *)at)[i] = rankOf(comm) + 1;
	return at;
}

/* Every direct peer's page is in `window`. */
static inline void expectPages(ginComm_t comm, ginWindow_t window)
{
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;

	for (int r = 0; r < sizeOf(comm); r++) {
		void *at = POISON;
		EXPECT_SUCCESS(ginCommQueryPeer(comm, r, &info));
		EXPECT_SUCCESS(ginPeerPointer(comm, window, r, &at));
		EXPECT_EQUAL(at != NULL, r == rankOf(comm) || info.route == ginRouteDirect);
		if (at)
			EXPECT_EQUAL(((int *)at)[PAGE / sizeof(int) - 1], r + 1);
	}
}

/* Collective: the communicator is whole, and correct calls work. */
static inline void expectWindowsWork(ginComm_t comm)
{
	ginResult_t error = ginErrorCuda;
	ginWindow_t window;
	int *page = newPage(comm);

	EXPECT_SUCCESS(ginWindowRegister(comm, page, PAGE, 0, &window));
	expectPages(comm, window);
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	EXPECT_SUCCESS(ginMemFree(comm, page));
	EXPECT_SUCCESS(ginCommGetAsyncError(comm, &error));
	EXPECT_SUCCESS(error);
}

static inline void expectWorks(ginComm_t comm)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginErrorRecord_t record;
	ginDevComm dc;

	expectWindowsWork(comm);
	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &dc));
	EXPECT_SUCCESS(ginDevCommGetError(comm, &dc, &record));
	EXPECT(!record.valid);
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &dc));
}

static inline int closeComm(ginComm_t comm)
{
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return 0;
}

/* The ranks that a child process runs. */
static struct {
	int n, asThreads;
	int (*run)(const ginConfig_t *config);
} ranksTest;

static inline void ranksTestRun(void)
{
	const int *result = ranksStart(ranksTest.n, ranksTest.asThreads, ranksTest.run);

	for (int r = 0; r < ranksTest.n; r++)
		expectThat(!result[r], __FILE__, __LINE__, "rank %d returned %d", r, result[r]);
}

static inline void runThreads(const char *name, int n, int (*run)(const ginConfig_t *config))
{
	char text[128];

	ranksTest.n = n;
	ranksTest.asThreads = 1;
	ranksTest.run = run;
	snprintf(text, sizeof(text), "%s, %d threads", name, n);
	expectChild(text, ranksTestRun);
}

static inline void runForks(const char *name, int n, int (*run)(const ginConfig_t *config))
{
	char text[128];

	ranksTest.n = n;
	ranksTest.asThreads = 0;
	ranksTest.run = run;
	snprintf(text, sizeof(text), "%s, %d processes", name, n);
	expectChild(text, ranksTestRun);
}

/* Sets an equal environment on every machine, in which a call that hangs fails. */
static inline void prepareTests(void)
{
	setenv("GIN_LOG", "none", 0);
	setenv("GIN_TIMEOUT", "60", 0);
	setenv("GIN_BACKEND", "proxy", 0);
}

/* Nothing may be written by a call that fails. */
struct guarded {
	union {
		size_t size;
		ginCommInfo_t comm;
		ginBackendInfo_t backend;
		ginParamInfo_t param;
		ginDeviceInfo_t device;
		ginNicInfo_t nic;
		ginStats_t stats;
		char bytes[8192];
	} info;
};

static inline void poison(struct guarded *g, size_t size)
{
	memset(g, 0x5a, sizeof(*g));
	g->info.size = size;
}

static inline int untouched(const struct guarded *g)
{
	struct guarded same;

	poison(&same, g->info.size);
	return !memcmp(g, &same, sizeof(same));
}

#endif
