/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arguments_window.c - memory and windows: every argument that is wrong, on one rank or on all
 *
 * A collective call with a wrong argument on one rank fails on all ranks with that rank's sentence,
 * and changes nothing.
 */
#include "arguments.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>

/* The rank with the wrong argument. */
#define WRONG 1

struct bad {
	const char *words; /* the argument, as the sentence names it */
	size_t bytes;
	int flags;
	int noPointer, noWindow;
};

static const struct bad bads[] = {
	{"window is NULL", PAGE, 0, 0, 1},
	{"flags is 0x2: must be 0 or GIN_WINDOW_LOCAL", PAGE, 2, 0, 0},
	{"flags is 0x80000000", PAGE, INT_MIN, 0, 0},
	{"ptr is NULL with 4096 bytes", PAGE, 0, 1, 0},
	{"more than the one allocation of 4096 bytes", PAGE + 1, 0, 0, 0},
	{"wraps around", SIZE_MAX - PAGE, 0, 0, 0},
};

#define BADS (sizeof(bads) / sizeof(bads[0]))

/* `first` is the lowest rank that is wrong. */
static void registerBadly(ginComm_t comm, int *page, const struct bad *bad, int wrong, int first)
{
	char rank[64];
	ginWindow_t window = {POISON};
	size_t bytes = wrong ? bad->bytes : PAGE;
	int *ptr = wrong && bad->noPointer ? NULL : page;

	snprintf(rank, sizeof(rank), "ginWindowRegister: rank %d: ", first);
	EXPECT_FAILS(ginWindowRegister(comm, ptr, bytes, wrong ? bad->flags : 0,
				       wrong && bad->noWindow ? NULL : &window),
		     ginErrorInvalidArgument, rank, bad->words);
	EXPECT(window.table == POISON);
}

static int badRegistrations(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	int *page = newPage(comm);

	for (size_t i = 0; i < BADS; i++) {
		registerBadly(comm, page, &bads[i], rankOf(comm) == WRONG, WRONG);
		expectWorks(comm);
		registerBadly(comm, page, &bads[i], 1, 0);
		expectWorks(comm);
	}
	EXPECT_SUCCESS(ginMemFree(comm, page)); /* it is in no window */
	return closeComm(comm);
}

/* A local window concerns one rank: so do its failures. */
static int badLocalWindows(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	int *page = newPage(comm), *own = malloc(PAGE);
	ginWindow_t window = {POISON}, local;

	if (rankOf(comm) == WRONG) {
		EXPECT_FAILS(ginWindowRegister(comm, page, PAGE, GIN_WINDOW_LOCAL, NULL),
			     ginErrorInvalidArgument, "ginWindowRegister: rank 1: window is NULL");
		EXPECT_FAILS(ginWindowRegister(comm, NULL, PAGE, GIN_WINDOW_LOCAL, &window),
			     ginErrorInvalidArgument, "ptr is NULL with 4096 bytes");
		EXPECT_FAILS(ginWindowRegister(comm, page, PAGE + 1, GIN_WINDOW_LOCAL, &window),
			     ginErrorInvalidArgument, "more than the one allocation of 4096 bytes");
		EXPECT_FAILS(ginWindowRegister(comm, page, PAGE, GIN_WINDOW_LOCAL | 2, &window),
			     ginErrorInvalidArgument, "flags is 0x3");
		EXPECT(window.table == POISON);
	}
	EXPECT_SUCCESS(ginWindowRegister(comm, own, PAGE, GIN_WINDOW_LOCAL, &local));
	EXPECT_SUCCESS(ginWindowRegister(comm, page, PAGE, GIN_WINDOW_LOCAL, &window));
	EXPECT_FAILS(ginMemFree(comm, page), ginErrorInvalidUsage, "in a registered window");
	expectWorks(comm);
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	EXPECT_SUCCESS(ginWindowDeregister(comm, local));
	EXPECT_FAILS(ginWindowDeregister(comm, local), ginErrorInvalidArgument,
		     "ginWindowDeregister: rank 0: window is not registered");
	free(own);
	EXPECT_SUCCESS(ginMemFree(comm, page));
	expectWorks(comm);
	return closeComm(comm);
}

/* Calls that are not collective, on a window that is registered all the time. */
static int badPointers(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	int *page = newPage(comm);
	ginWindow_t window, none = {NULL}, foreign = {(struct ginWindowTable *)(void *)page};
	void *at = POISON;

	EXPECT_SUCCESS(ginWindowRegister(comm, page, PAGE, 0, &window));
	EXPECT_FAILS(ginWindowPointer(NULL, window, &at), ginErrorInvalidArgument,
		     "ginWindowPointer", "comm is NULL");
	EXPECT_FAILS(ginWindowPointer(comm, window, NULL), ginErrorInvalidArgument,
		     "ginWindowPointer: rank ", "ptr is NULL");
	EXPECT_FAILS(ginWindowPointer(comm, none, &at), ginErrorInvalidArgument,
		     "window is not registered");
	EXPECT_FAILS(ginWindowPointer(comm, foreign, &at), ginErrorInvalidArgument,
		     "window is not registered");
	EXPECT_FAILS(ginPeerPointer(NULL, window, 0, &at), ginErrorInvalidArgument,
		     "ginPeerPointer", "comm is NULL");
	EXPECT_FAILS(ginPeerPointer(comm, window, 0, NULL), ginErrorInvalidArgument,
		     "ginPeerPointer: rank ", "ptr is NULL");
	EXPECT_FAILS(ginPeerPointer(comm, window, -1, &at), ginErrorInvalidArgument,
		     "peer is -1: must be 0 to 2");
	EXPECT_FAILS(ginPeerPointer(comm, window, 3, &at), ginErrorInvalidArgument, "peer is 3");
	EXPECT_FAILS(ginPeerPointer(comm, window, INT_MAX, &at), ginErrorInvalidArgument,
		     "peer is");
	EXPECT_FAILS(ginPeerPointer(comm, foreign, 0, &at), ginErrorInvalidArgument,
		     "window is not registered");
	EXPECT(at == POISON);
	EXPECT_SUCCESS(ginWindowPointer(comm, window, &at));
	EXPECT(at == page);
	EXPECT_SUCCESS(ginWindowRegister(comm, page, rankOf(comm) == WRONG ? 0 : PAGE, 0, &none));
	for (int r = 0; r < 3; r++) {
		EXPECT_SUCCESS(ginPeerPointer(comm, none, r, &at));
		EXPECT((at == NULL) == (r == WRONG)); /* its part is empty */
	}
	EXPECT_SUCCESS(ginWindowDeregister(comm, none));
	expectPages(comm, window);
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	EXPECT_SUCCESS(ginMemFree(comm, page));
	return closeComm(comm);
}

static int badDeregistrations(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	int *page = newPage(comm);
	ginWindow_t window, none = {NULL};
	int wrong = rankOf(comm) == WRONG;

	EXPECT_FAILS(ginWindowDeregister(NULL, none), ginErrorInvalidArgument,
		     "ginWindowDeregister", "comm is NULL");
	EXPECT_SUCCESS(ginWindowRegister(comm, page, PAGE, 0, &window));
	EXPECT_FAILS(ginWindowDeregister(comm, wrong ? none : window), ginErrorInvalidArgument,
		     "ginWindowDeregister: rank 1: ", "window is not registered");
	expectPages(comm, window);
	expectWorks(comm);
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	EXPECT_FAILS(ginWindowDeregister(comm, window), ginErrorInvalidArgument,
		     "ginWindowDeregister: rank 0: ", "window is not registered");
	expectWorks(comm);
	EXPECT_SUCCESS(ginMemFree(comm, page));
	return closeComm(comm);
}

/* Two windows, and ranks that pass different ones. */
static int differentWindows(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	int *page = newPage(comm);
	ginWindow_t a, b;
	int wrong = rankOf(comm) == WRONG;

	EXPECT_SUCCESS(ginWindowRegister(comm, page, PAGE, 0, &a));
	EXPECT_SUCCESS(ginWindowRegister(comm, page, PAGE, 0, &b));
	EXPECT_RESULT(ginWindowDeregister(comm, wrong ? b : a), ginErrorInvalidArgument);
	expectPages(comm, a);
	expectPages(comm, b);
	EXPECT_SUCCESS(ginWindowDeregister(comm, a));
	EXPECT_SUCCESS(ginWindowDeregister(comm, b));
	EXPECT_SUCCESS(ginMemFree(comm, page));
	return closeComm(comm);
}

/* Two communicators, and the window of one passed to the other. */
static int windowOfAnother(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config), other = openComm(config);
	int *page = newPage(comm);
	ginWindow_t window;
	void *at = POISON;

	EXPECT_SUCCESS(ginWindowRegister(comm, page, PAGE, 0, &window));
	EXPECT_FAILS(ginWindowPointer(other, window, &at), ginErrorInvalidArgument,
		     "window is not registered with this communicator");
	EXPECT_FAILS(ginPeerPointer(other, window, 0, &at), ginErrorInvalidArgument, "window is");
	EXPECT_FAILS(ginWindowDeregister(other, window), ginErrorInvalidArgument,
		     "window is not registered with this communicator");
	EXPECT(at == POISON);
	expectPages(comm, window);
	expectWorks(other);
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	expectWorks(comm);
	EXPECT_SUCCESS(ginMemFree(comm, page));
	closeComm(other);
	expectWorks(comm);
	return closeComm(comm);
}

static int badAllocations(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	void *at = POISON;

	EXPECT_FAILS(ginMemAlloc(comm, PAGE, NULL), ginErrorInvalidArgument,
		     "ginMemAlloc: rank 0: ", "ptr is NULL");
	EXPECT_FAILS(ginMemAlloc(comm, SIZE_MAX, &at), ginErrorInvalidArgument, "bytes");
	EXPECT(at == POISON);
	EXPECT_SUCCESS(ginMemAlloc(comm, 0, &at));
	EXPECT(at == NULL);
	EXPECT_SUCCESS(ginMemAlloc(comm, 1, &at));
	EXPECT(at && (uintptr_t)at % PAGE == 0 && *(char *)at == 0);
	EXPECT_SUCCESS(ginMemFree(comm, at));
	expectWorks(comm);
	return closeComm(comm);
}

/* Without a GPU it works as ginMemAlloc(); neither frees memory of another origin. */
static int badHostAllocations(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	void *at = POISON;

	EXPECT_FAILS(ginMemAllocHost(comm, PAGE, NULL), ginErrorInvalidArgument,
		     "ginMemAllocHost: rank 0: ", "ptr is NULL");
	EXPECT_FAILS(ginMemAllocHost(comm, SIZE_MAX, &at), ginErrorInvalidArgument, "bytes");
	EXPECT_FAILS(ginMemAllocHost(comm, SIZE_MAX / 4, &at), ginErrorSystem, "bytes");
	EXPECT(at == POISON);
	EXPECT_SUCCESS(ginMemAllocHost(comm, 0, &at));
	EXPECT(at == NULL);
	EXPECT_SUCCESS(ginMemAllocHost(comm, PAGE + 1, &at));
	EXPECT((uintptr_t)at % PAGE == 0 && !((char *)at)[0] && !((char *)at)[PAGE]);
	EXPECT_FAILS(ginMemFree(comm, (char *)at + PAGE), ginErrorInvalidArgument,
		     "not from ginMemAlloc or ginMemAllocHost");
	EXPECT_SUCCESS(ginMemFree(comm, at));
	expectWorks(comm);
	return closeComm(comm);
}

/* Memory from before there is a communicator serves as a window, and is freed after it. */
static int memoryWithoutComm(const ginConfig_t *config)
{
	void *at = POISON, *host = NULL;
	ginWindow_t window;

	EXPECT_FAILS(ginMemAlloc(NULL, PAGE, NULL), ginErrorInvalidArgument,
		     "ginMemAlloc: ptr is NULL");
	EXPECT_SUCCESS(ginMemAlloc(NULL, 0, &at));
	EXPECT(at == NULL);
	EXPECT_SUCCESS(ginMemAlloc(NULL, PAGE, &at));
	EXPECT_SUCCESS(ginMemAllocHost(NULL, PAGE, &host));
	EXPECT((uintptr_t)at % PAGE == 0 && (uintptr_t)host % PAGE == 0);
	ginComm_t comm = openComm(config);
	for (int i = 0; i < PAGE / (int)sizeof(int); i++)
		((int *)at)[i] = rankOf(comm) + 1;
	EXPECT_SUCCESS(ginWindowRegister(comm, at, PAGE, 0, &window));
	expectPages(comm, window);
	EXPECT_FAILS(ginMemFree(NULL, at), ginErrorInvalidUsage, "ginMemFree: ptr ",
		     "in a registered window");
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	EXPECT_SUCCESS(ginMemFree(comm, host));
	int failed = closeComm(comm);
	EXPECT_SUCCESS(ginMemFree(NULL, at));
	EXPECT_SUCCESS(ginMemFree(NULL, NULL));
	return failed;
}

/* Parts of odd sizes, among processes; the others see later writes of one rank. */
static int hostMemory(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	size_t words = (size_t)rankOf(comm) * 1001 + 1;
	int *own = NULL;
	void *at = NULL;
	ginWindow_t window;

	EXPECT_SUCCESS(ginMemAllocHost(comm, words * sizeof(int), &at));
	own = at;
	EXPECT_SUCCESS(ginWindowRegister(comm, own, words * sizeof(int), 0, &window));
	own[words - 1] = rankOf(comm) + 1;
	EXPECT_SUCCESS(ginCommAllgather(comm, NULL, NULL, 0));
	for (int r = 0; r < sizeOf(comm); r++) {
		EXPECT_SUCCESS(ginPeerPointer(comm, window, r, &at));
		EXPECT_EQUAL(((int *)at)[r * 1001], r + 1);
	}
	EXPECT_FAILS(ginMemFree(comm, own), ginErrorInvalidUsage, "in a registered window");
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	EXPECT_SUCCESS(ginMemFree(comm, own));
	return closeComm(comm);
}

static int badFrees(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	int *page = newPage(comm), *own = malloc(PAGE);

	EXPECT_SUCCESS(ginMemFree(comm, NULL));
	EXPECT_FAILS(ginMemFree(comm, own), ginErrorInvalidArgument, "ginMemFree: rank 0: ptr ",
		     "not from ginMemAlloc");
	EXPECT_FAILS(ginMemFree(comm, page + 1), ginErrorInvalidArgument, "ptr ",
		     "not from ginMemAlloc");
	EXPECT_EQUAL(page[PAGE / sizeof(int) - 1], 1);
	EXPECT_SUCCESS(ginMemFree(comm, page));
	EXPECT_FAILS(ginMemFree(comm, page), ginErrorInvalidArgument, "ptr ",
		     "not from ginMemAlloc");
	free(own);
	expectWorks(comm);
	return closeComm(comm);
}

/* Memory in two windows, one of which has only its end: free it after both are deregistered. */
static int freeInWindow(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	int *page = newPage(comm);
	ginWindow_t whole, end;

	EXPECT_SUCCESS(ginWindowRegister(comm, page, PAGE, 0, &whole));
	EXPECT_SUCCESS(ginWindowRegister(comm, page + PAGE / 4 - 1, 4, 0, &end));
	EXPECT_FAILS(ginMemFree(comm, page), ginErrorInvalidUsage, "ginMemFree: rank ", "ptr ",
		     "in a registered window", "ginWindowDeregister()");
	expectPages(comm, whole);
	EXPECT_SUCCESS(ginWindowDeregister(comm, whole));
	EXPECT_FAILS(ginMemFree(comm, page), ginErrorInvalidUsage, "ptr ",
		     "in a registered window");
	EXPECT_EQUAL(page[PAGE / 4 - 1], rankOf(comm) + 1);
	EXPECT_SUCCESS(ginWindowDeregister(comm, end));
	EXPECT_SUCCESS(ginMemFree(comm, page));
	return closeComm(comm);
}

/* A part of memory that is in a window cannot be freed by another communicator either. */
static int freeInWindowOfAnother(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config), other = openComm(config);
	int *page = newPage(comm);
	ginWindow_t window;

	EXPECT_SUCCESS(ginWindowRegister(other, page, PAGE, 0, &window));
	expectPages(other, window);
	EXPECT_FAILS(ginMemFree(comm, page), ginErrorInvalidUsage, "ptr ",
		     "in a registered window");
	EXPECT_SUCCESS(ginWindowDeregister(other, window));
	EXPECT_SUCCESS(ginMemFree(comm, page));
	closeComm(other);
	return closeComm(comm);
}

/* malloc() among processes: all ranks fail, and learn which rank used it and the remedy. */
static int privateMemory(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	int *page = newPage(comm), *own = malloc(PAGE);
	ginWindow_t window = {POISON};
	int wrong = rankOf(comm) == WRONG;

	EXPECT_FAILS(ginWindowRegister(comm, wrong ? own : page, PAGE, 0, &window),
		     ginErrorInvalidArgument, "ginWindowRegister: rank 1: ptr ", "private memory",
		     "rank 0", "use ginMemAlloc()");
	EXPECT_FAILS(ginWindowRegister(comm, own, PAGE, 0, &window), ginErrorInvalidArgument,
		     "ginWindowRegister: rank 0: ptr ", "rank 1", "use ginMemAlloc()");
	EXPECT(window.table == POISON);
	free(own);
	EXPECT_SUCCESS(ginMemFree(comm, page));
	expectWorks(comm);
	return closeComm(comm);
}

/* Among threads of one process, and for a single rank, memory of malloc() is allowed. */
static int privateMemoryOfThreads(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	int *own = malloc(PAGE);
	ginWindow_t window;

	for (size_t i = 0; i < PAGE / sizeof(int); i++)
		own[i] = rankOf(comm) + 1;
	EXPECT_SUCCESS(ginWindowRegister(comm, own, PAGE, 0, &window));
	expectPages(comm, window);
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	free(own);
	return closeComm(comm);
}

/* Zero bytes on one rank, or on all, are a window like any other. */
static int emptyWindows(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	int *page = newPage(comm);
	int empty = rankOf(comm) == WRONG;
	ginWindow_t window, nothing;
	void *at = POISON;

	EXPECT_SUCCESS(ginWindowRegister(comm, empty ? NULL : page, empty ? 0 : PAGE, 0, &window));
	EXPECT_SUCCESS(ginWindowRegister(comm, NULL, 0, 0, &nothing));
	EXPECT(window.table && nothing.table && window.table != nothing.table);
	EXPECT_SUCCESS(ginPeerPointer(comm, window, WRONG, &at));
	EXPECT(!at);
	EXPECT_SUCCESS(ginPeerPointer(comm, window, 2, &at));
	EXPECT_EQUAL(*(int *)at, 3);
	EXPECT_SUCCESS(ginWindowPointer(comm, window, &at));
	EXPECT(at == (empty ? NULL : page));
	EXPECT_SUCCESS(ginWindowDeregister(comm, nothing));
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	EXPECT_SUCCESS(ginMemFree(comm, page));
	return closeComm(comm);
}

/* Allows no more file descriptors for this process; returns the previous limit. */
static rlim_t forbidFiles(void)
{
	struct rlimit limit;
	int next = dup(0);

	EXPECT(next >= 0 && !getrlimit(RLIMIT_NOFILE, &limit));
	rlim_t was = limit.rlim_cur;
	close(next);
	limit.rlim_cur = (rlim_t)next;
	EXPECT(!setrlimit(RLIMIT_NOFILE, &limit));
	return was;
}

static void allowFiles(rlim_t was)
{
	struct rlimit limit;

	EXPECT(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = was;
	EXPECT(!setrlimit(RLIMIT_NOFILE, &limit));
}

/* A rank cannot take its peers' descriptors: all ranks fail, and the next attempt works. */
static int noFilesLeft(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	int *page = newPage(comm), wrong = rankOf(comm) == WRONG;
	ginWindow_t window = {POISON};
	void *at = POISON;
	rlim_t was = wrong ? forbidFiles() : 0;

	if (wrong)
		EXPECT_FAILS(ginMemAlloc(comm, PAGE, &at), ginErrorSystem, "shared memory",
			     "Too many open files");
	EXPECT(at == POISON);
	EXPECT_FAILS(ginWindowRegister(comm, page, PAGE, 0, &window), ginErrorSystem,
		     "ginWindowRegister: rank 1: ", "Too many open files");
	EXPECT(window.table == POISON);
	if (wrong)
		allowFiles(was);
	expectWorks(comm);
	EXPECT_SUCCESS(ginMemFree(comm, page));
	return closeComm(comm);
}

int main(void)
{
	prepareTests();
	runForks("bad registrations", 3, badRegistrations);
	runThreads("bad registrations", 3, badRegistrations);
	runForks("bad local windows", 3, badLocalWindows);
	runThreads("bad local windows", 3, badLocalWindows);
	runForks("bad pointers", 3, badPointers);
	runThreads("bad pointers", 3, badPointers);
	runForks("bad deregistrations", 3, badDeregistrations);
	runThreads("bad deregistrations", 3, badDeregistrations);
	runForks("window of another communicator", 3, windowOfAnother);
	runThreads("bad allocations", 1, badAllocations);
	runThreads("bad allocations of host memory", 1, badHostAllocations);
	runForks("memory without a communicator", 3, memoryWithoutComm);
	runThreads("memory without a communicator", 3, memoryWithoutComm);
	runForks("host memory", 3, hostMemory);
	runThreads("host memory", 3, hostMemory);
	runThreads("bad frees", 1, badFrees);
	runForks("memory is freed in a window", 3, freeInWindow);
	runForks("private memory", 3, privateMemory);
	runThreads("private memory of threads", 3, privateMemoryOfThreads);
	runForks("private memory of one rank", 1, privateMemoryOfThreads);
	runForks("empty windows", 3, emptyWindows);
	runThreads("empty windows", 3, emptyWindows);
	runForks("no file descriptors left", 3, noFilesLeft);
	runForks("no file descriptors left", 16, noFilesLeft);
	runForks("deregistering different windows", 3, differentWindows);
	runForks("memory is freed in a window of another communicator", 2, freeInWindowOfAnother);
	return expectFailures != 0;
}
