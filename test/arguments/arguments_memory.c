/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arguments_memory.c - memory of the caller: registration finds out what a transfer cannot use
 *
 * A put into such memory would end the owner's process, in a thread of libgin or in libfabric. On a
 * network route the ranks are processes, else threads, and one rank alone. What works as a source
 * only is a local window.
 */
/* NEEDS: libgin-ofi.so libgin-rdma.so */
#include "arguments.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define PAGES 4

struct kind {
	const char *name;
	int access;	/* of PAGES pages */
	int fileBytes;	/* -1: of no file */
	int flags;	/* of mmap() */
	int unmapped;	/* pages from here on are not mapped; 0: all are */
	int isSource;	/* it works as a local window */
	const char *no; /* words of the refusal */
	int from, to;	/* the bytes that it names */
};

#define READ_WRITE (PROT_READ | PROT_WRITE)

static const struct kind kinds[] = {
	{"read-only", PROT_READ, -1, MAP_PRIVATE, 0, 1, "are read-only", 0, PAGES},
	{"no access", PROT_NONE, -1, MAP_PRIVATE, 0, 0, "may not be read", 0, PAGES},
	{"file, read-only", PROT_READ, PAGES *PAGE, MAP_SHARED, 0, 1, "are read-only", 0, PAGES},
	{"hole", READ_WRITE, -1, MAP_PRIVATE, 2, 0, "are not mapped", 2, PAGES},
	{"short file", READ_WRITE, PAGE, MAP_SHARED, 0, 0, "are not in their file", 0, PAGES},
	{"short file, private", READ_WRITE, PAGE, MAP_PRIVATE, 0, 0, "are not in their file", 0,
	 PAGES},
};

static void *mapKind(const struct kind *k)
{
	int fd = k->fileBytes < 0 ? -1 : memfd_create("kind", MFD_CLOEXEC);

	EXPECT(k->fileBytes < 0 || !ftruncate(fd, k->fileBytes));
	char *at =
		mmap(NULL, PAGES * PAGE, k->access, k->flags | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
	EXPECT(at != MAP_FAILED);
	if (fd >= 0)
		close(fd);
	if (k->unmapped)
		EXPECT(!munmap(at + k->unmapped * PAGE, (size_t)(PAGES - k->unmapped) * PAGE));
	return at;
}

/* The range begins and ends inside pages. */
static void refuseTarget(ginComm_t comm, const struct kind *k, char *at, int *page)
{
	char range[80], rank[80];
	int wrong = sizeOf(comm) - 1, isWrong = rankOf(comm) == wrong;
	ginWindow_t window = {POISON};

	snprintf(range, sizeof(range), "the bytes from %p to %p ",
		 (void *)(at + (k->from ? k->from * PAGE : 24)), (void *)(at + k->to * PAGE - 24));
	snprintf(rank, sizeof(rank), "ginWindowRegister: rank %d: ptr ", wrong);
	EXPECT_FAILS(ginWindowRegister(comm, isWrong ? at + 24 : (void *)page,
				       isWrong ? PAGES * PAGE - 48 : PAGE, 0, &window),
		     ginErrorInvalidArgument, rank, k->no, isWrong ? range : "");
	EXPECT(window.table == POISON);
}

static void trySource(ginComm_t comm, const struct kind *k, char *at)
{
	ginWindow_t window = {POISON};

	if (!k->isSource) {
		EXPECT_FAILS(ginWindowRegister(comm, at + 24, PAGES * PAGE - 48, GIN_WINDOW_LOCAL,
					       &window),
			     ginErrorInvalidArgument, k->no);
		EXPECT(window.table == POISON);
		return;
	}
	EXPECT_SUCCESS(
		ginWindowRegister(comm, at + 24, PAGES * PAGE - 48, GIN_WINDOW_LOCAL, &window));
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
}

static int refused(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	int *page = newPage(comm);

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		char *at = mapKind(&kinds[i]);
		refuseTarget(comm, &kinds[i], at, page);
		trySource(comm, &kinds[i], at);
		munmap(at, PAGES * PAGE);
	}
	expectWorks(comm);
	EXPECT_SUCCESS(ginMemFree(comm, page));
	return closeComm(comm);
}

/* Registration allocates no pages. */
static int untouched4GiB(const ginConfig_t *config)
{
	const size_t bytes = (size_t)4 << 30;
	ginComm_t comm = openComm(config);
	void *at =
		mmap(NULL, bytes, READ_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unsigned char *isThere = malloc(bytes / PAGE);
	ginWindow_t window;
	size_t pages = 0;

	EXPECT(at != MAP_FAILED && isThere);
	EXPECT_SUCCESS(ginWindowRegister(comm, at, bytes, 0, &window));
	EXPECT(!mincore(at, bytes, isThere));
	for (size_t i = 0; i < bytes / PAGE; i++)
		pages += isThere[i] & 1;
	EXPECT_EQUAL(pages, 0);
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	munmap(at, bytes);
	free(isThere);
	return closeComm(comm);
}

/* A target in a file has all its pages: a put cannot find the file system full. */
static int sharedFile(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	int fd = memfd_create("pages", MFD_CLOEXEC);
	ginWindow_t window;
	struct stat file;

	EXPECT(!ftruncate(fd, PAGES * PAGE));
	void *at = mmap(NULL, PAGES * PAGE, READ_WRITE, MAP_SHARED, fd, 0);
	EXPECT(at != MAP_FAILED && !fstat(fd, &file));
	EXPECT_EQUAL(file.st_blocks, 0);
	if (!madvise(at, 0, 22)) { /* MADV_POPULATE_READ */
		EXPECT_SUCCESS(ginWindowRegister(comm, at, PAGES * PAGE, 0, &window));
		EXPECT(!fstat(fd, &file));
		EXPECT_EQUAL(file.st_blocks * 512, PAGES * PAGE);
		EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	}
	munmap(at, PAGES * PAGE);
	close(fd);
	return closeComm(comm);
}

int main(void)
{
	const char *route = getenv("GIN_ROUTE");

	prepareTests();
	if (route && !strcmp(route, "network")) {
		runForks("memory that cannot be a window", 2, refused);
		return expectFailures != 0;
	}
	runForks("memory that cannot be a window", 1, refused);
	runThreads("memory that cannot be a window", 3, refused);
	runThreads("4 GiB that nobody touches", 1, untouched4GiB);
	runThreads("a file without pages", 1, sharedFile);
	return expectFailures != 0;
}
