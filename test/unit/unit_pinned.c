/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_pinned.c - memory through which CPU threads and a GPU talk: kept, near, zero
 *
 * The driver is in this file, and counts what it pins. The system says where a page lies.
 */
#include "lib/gpu/pinned.h"

#include <linux/mempolicy.h>
#include <pthread.h>
#include <sys/syscall.h>

#include "resource_limits.h"
#include "lib/gpu/memory.h"
#include "pinning.h"

#define SOME 100000

typedef ginResult_t (*allocator)(const struct device *d, size_t bytes, int node, void **ptr);

static const allocator allocators[] = {pinnedAlloc, pinnedAllocShared};

static char *take(const struct device *d, allocator alloc, size_t bytes, int node)
{
	void *at = NULL;

	EXPECT_SUCCESS(alloc(d, bytes, node, &at));
	EXPECT_EQUAL((uintptr_t)at % 64, 0);
	for (size_t i = 0; i < bytes; i++)
		EXPECT_EQUAL(((char *)at)[i], 0);
	return memset(at, 0x5a, bytes);
}

/* Freed memory stays pinned, and serves a later request of its size and NUMA node. */
static void keptOn(void)
{
	char *first = take(&pinningGpu, pinnedAlloc, SOME, 0);
	char *second = take(&pinningGpu, pinnedAlloc, SOME, 0);

	EXPECT(first != second && pinnedSpan(first) >= SOME && pinnedSpan(second) >= SOME);
	pinnedFree(&pinningGpu, first);
	EXPECT_EQUAL(pinnedCount, 2);
	char *elsewhere = take(&pinningGpu, pinnedAlloc, SOME, -1);
	char *larger = take(&pinningGpu, pinnedAlloc, 2 * SOME, 0);
	char *smaller = take(&pinningGpu, pinnedAlloc, SOME / 3, 0);
	EXPECT(elsewhere != first && larger != first && smaller != first);
	EXPECT(take(&pinningGpu, pinnedAllocShared, SOME - 5000, 0) == first);
	pinnedFree(&pinningGpu, first);
	pinnedFree(&pinningGpu, second);
	pinnedFree(&pinningGpu, elsewhere);
	pinnedFree(&pinningGpu, larger);
	pinnedFree(&pinningGpu, smaller);
	pinnedFree(&pinningGpu, NULL);
	EXPECT_EQUAL(pinnedCount, 5);
	EXPECT_EQUAL(pinnedEver, 5);
}

/* Small requests as well: a page each. */
static void small(void)
{
	char *word = take(&pinningGpu, pinnedAlloc, 8, -1);

	pinnedFree(&pinningGpu, word);
	EXPECT(take(&pinningGpu, pinnedAllocShared, 100, -1) == word);
	EXPECT(take(&pinningGpu, pinnedAlloc, 100, -1) != word);
	EXPECT_EQUAL(pinnedEver, 2);
}

/* Small blocks share pinned memory; a freed block does not serve as a page. */
static void smallShared(void)
{
	enum { MANY = 65 };
	void *at[MANY];

	for (int i = 0; i < MANY; i++) {
		EXPECT_SUCCESS(pinnedAllocSmall(&pinningGpu, 200, &at[i]));
		EXPECT_EQUAL((uintptr_t)at[i] % 64, 0);
		for (int j = 0; j < i; j++)
			EXPECT(labs((char *)at[i] - (char *)at[j]) >= PINNED_SMALL);
		memset(at[i], i, PINNED_SMALL);
	}
	EXPECT_EQUAL(pinnedEver, 2);
	pinnedFree(&pinningGpu, at[7]);
	char *page = take(&pinningGpu, pinnedAllocShared, 200, -1), *again = NULL;
	for (int i = 0; i < MANY; i++)
		EXPECT(page + 4096 <= (char *)at[i] || page >= (char *)at[i] + PINNED_SMALL);
	EXPECT_EQUAL(pinnedEver, 3);
	EXPECT_SUCCESS(pinnedAllocSmall(&pinningGpu, PINNED_SMALL, (void **)&again));
	for (int i = 0; i < PINNED_SMALL; i++)
		EXPECT_EQUAL(again[i], 0);
	EXPECT_EQUAL(((char *)at[6])[0], 6);
	EXPECT_EQUAL(pinnedEver, 3);
}

/*
 * 100 communicators that fail: memory that a peer still maps is not reused before the peer unmaps
 * it.
 */
static void abandoned(void)
{
	struct memory m;
	void *there = NULL;
	int files = 0;

	for (int i = 0; i < 100; i++) {
		char *lost = take(&pinningGpu, pinnedAllocShared, SOME, 0);
		EXPECT_SUCCESS(memoryDescribe(&pinningGpu, lost, SOME, &m));
		EXPECT_SUCCESS(memoryHostImport(NULL, m.fd, m.span, 1, &there));
		pinnedAbandon(&pinningGpu, lost);
		char *next = take(&pinningGpu, pinnedAllocShared, SOME, 0);
		EXPECT(next != lost);
		((char *)there)[1] = 7; /* a late write of the peer */
		EXPECT_EQUAL(next[1], 0x5a);
		pinnedFree(&pinningGpu, next);
		memoryHostUnmap(NULL, there, m.span);
		files = i ? files : countFiles();
	}
	EXPECT_EQUAL(pinnedEver, 2);
	EXPECT_EQUAL(countFiles(), files);
	char *last = take(&pinningGpu, pinnedAllocShared, SOME, 0);
	EXPECT(take(&pinningGpu, pinnedAllocShared, SOME, 0) != last);
	pinnedAbandon(&pinningGpu, NULL);
	EXPECT_EQUAL(pinnedEver, 2);
}

/* Memory of pinnedAllocShared can be offered to peers, with a GPU and without. */
static void canBeOffered(void)
{
	const struct device *devices[] = {&pinningGpu, &hostThreads};
	struct memory m;

	for (int i = 0; i < 2; i++) {
		char *at = take(devices[i], pinnedAllocShared, SOME, -1);
		EXPECT_SUCCESS(memoryDescribe(devices[i], at, SOME, &m));
		EXPECT_EQUAL(m.kind, memoryShared);
		EXPECT(m.fd >= 0 && m.base == at && m.span >= SOME);
		pinnedFree(devices[i], at);
	}
}

/* Without a GPU no freed memory is kept. */
static void hostMemory(void)
{
	struct holdings before = holdingsNow();

	for (int i = 0; i < 2; i++) {
		char *at = take(&hostThreads, allocators[i], SOME, 0);
		EXPECT_EQUAL(countMappings() - before.mappings, i);
		pinnedFree(&hostThreads, at);
		pinnedFree(&hostThreads, NULL);
	}
	expectHoldings(before);
}

static void refused(void)
{
	void *at = &at;

	for (int i = 0; i < 2; i++) {
		EXPECT(allocators[i](&pinningGpu, SIZE_MAX, 0, &at) != ginSuccess);
		EXPECT(allocators[i](&hostThreads, SIZE_MAX, 0, &at) != ginSuccess);
	}
	pinningRefuses = cuOutOfMemory;
	EXPECT_FAILS(pinnedAlloc(&pinningGpu, SOME, 0, &at), ginErrorCuda, "ulimit -l");
	pinningRefuses = 0;
	pinnedFree(&pinningGpu, take(&pinningGpu, pinnedAlloc, SOME, 0));
	pinningMoves = 0x100000; /* for the GPU that takes it next */
	EXPECT_FAILS(pinnedAlloc(&pinningGpu, SOME, 0, &at), ginErrorUnsupported, "GPU 0");
	pinningMoves = 0;
	EXPECT(at == &at);
	take(&pinningGpu, pinnedAlloc, SOME, 0);
	EXPECT_EQUAL(pinnedEver, 1);
}

/* Where the page at `at` lies, or -1. */
static int nodeOf(void *at)
{
	int node = -1;

	return syscall(SYS_get_mempolicy, &node, NULL, 0, at, MPOL_F_NODE | MPOL_F_ADDR) ? -1
											 : node;
}

/* The policy of the memory at `at`, so that a machine with one node can check it as well. */
static int policyOf(void *at)
{
	int mode = -1;

	return syscall(SYS_get_mempolicy, &mode, NULL, 0, at, MPOL_F_ADDR) ? -1 : mode;
}

/* Can this process place a page on `node`? */
static int canChoose(int node)
{
	unsigned long nodes[16] = {0};
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	EXPECT(page != MAP_FAILED);
	nodes[node / 64] = 1ul << node % 64;
	int can = !syscall(SYS_mbind, page, 4096, MPOL_PREFERRED, nodes, 1025, 0);
	*page = 1;
	can = can && nodeOf(page) == node;
	munmap(page, 4096);
	return can;
}

/* Memory lies elsewhere if the system does not let us choose, or the node does not exist. */
static void onANode(void)
{
	int chosen = 0;

	for (int node = 0; node < 1024; node++) {
		if (!canChoose(node))
			continue;
		char *at = take(&pinningGpu, pinnedAllocShared, SOME, node);
		EXPECT_EQUAL(policyOf(at), MPOL_PREFERRED);
		EXPECT_EQUAL(nodeOf(at), node);
		EXPECT_EQUAL(nodeOf(at + SOME - 1), node);
		chosen++;
	}
	for (int node = 1023; node < 1026; node++)
		take(&pinningGpu, pinnedAlloc, SOME, node);
	printf("%d NUMA nodes to choose from\n", chosen);
}

static void *takeAndFree(void *stop)
{
	(void)stop;
	for (int i = 0; i < 300; i++) {
		char *a = take(&pinningGpu, pinnedAlloc, 64, -1);
		char *b = take(&pinningGpu, pinnedAllocShared, 64, -1);
		EXPECT(a != b);
		a[0] = b[0] = (char)i;
		pinnedFree(&pinningGpu, b);
		EXPECT_EQUAL(a[0], (char)i);
		pinnedFree(&pinningGpu, a);
	}
	return NULL;
}

/* Ranks are threads: no two get one block. */
static void ofThreads(void)
{
	pthread_t threads[3];

	for (int i = 0; i < 8; i++) /* this file's driver serves one thread only */
		take(&pinningGpu, pinnedAlloc, 64, -1);
	for (int i = 0; i < 8; i++)
		pinnedFree(&pinningGpu, pinnedNow[i].at);
	for (int i = 0; i < 3; i++)
		EXPECT(!pthread_create(&threads[i], NULL, takeAndFree, NULL));
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	EXPECT_EQUAL(pinnedEver, 8);
}

int main(void)
{
	setenv("GIN_LOG", "none", 0);
	expectChild("kept, and taken again", keptOn);
	expectChild("small ones", small);
	expectChild("small ones that share pages", smallShared);
	expectChild("abandoned, and taken again", abandoned);
	expectChild("what can be offered", canBeOffered);
	expectChild("without a GPU", hostMemory);
	expectChild("the driver refuses", refused);
	expectChild("on a NUMA node", onANode);
	expectChild("threads", ofThreads);
	return expectFailures != 0;
}
