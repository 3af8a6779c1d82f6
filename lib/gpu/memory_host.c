/* SPDX-License-Identifier: BSD-3-Clause */
/* memory_host.c - host memory that other processes can map, pinned when there is a GPU */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/file.h"
#include "room.h"

#define PAGE 4096u

static ginResult_t checkRoom(size_t span)
{
	struct rlimit file = {0};

	getrlimit(RLIMIT_FSIZE, &file);
	if (span > file.rlim_cur) {
		errno = EFBIG;
		return failErrno("no %zu bytes of shared memory, %llu at most", span,
				 (unsigned long long)file.rlim_cur);
	}
	return roomCheck(span, "shared memory");
}

#define MOST_NODES 1024
#define WORD_BITS (sizeof(unsigned long) * CHAR_BIT)

/* For pages not yet allocated. A container may forbid it: the kernel then chooses the node. */
static void preferNode(void *at, size_t span, int node)
{
	unsigned long nodes[MOST_NODES / WORD_BITS] = {0};

	if (node < 0 || node >= MOST_NODES)
		return;
	nodes[(size_t)node / WORD_BITS] = 1ul << ((size_t)node % WORD_BITS);
	/* The kernel expects one more than the number of bits. */
	syscall(SYS_mbind, at, span, MPOL_PREFERRED, nodes, MOST_NODES + 1, 0);
}

/*
 * A signal interrupts fallocate(), which then gives back what it has allocated. Bytes of one piece
 * are allocated between two signals, even with a profiler's timer.
 */
#define PIECE ((off_t)256 << 10)

/* 0, or -1 with errno. */
static int allocPages(int fd, off_t span)
{
	for (off_t at = 0; at < span; at += PIECE) {
		off_t bytes = span - at < PIECE ? span - at : PIECE;
		while (fallocate(fd, 0, at, bytes))
			if (errno != EINTR)
				return -1;
	}
	return 0;
}

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static ginResult_t mapPages(int fd, size_t span, int node, void **ptr)
{
	ginResult_t result = checkRoom(span);

	if (result != ginSuccess)
		return result;
	void *at = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return failErrno("cannot map %zu bytes of shared memory", span);
	preferNode(at, span, node);
	/*
	 * Allocate the pages now: without them a later access would end in a SIGBUS. So it would if
	 * a peer, which gets the file, made it shorter.
	 */
	if (allocPages(fd, (off_t)span) || fcntl(fd, F_ADD_SEALS, SEALS)) {
		result = failErrno("no %zu bytes of shared memory", span);
		munmap(at, span);
		return result;
	}
	*ptr = at;
	return ginSuccess;
}

static int isSealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & F_SEAL_SHRINK);
}

static ginResult_t make(size_t span, int node, int *fd, void **ptr)
{
	int made = fileAboveStandard(memfd_create("libgin", MFD_CLOEXEC | MFD_ALLOW_SEALING));

	if (made < 0)
		return failErrno("cannot create %zu bytes of shared memory", span);
	ginResult_t result = mapPages(made, span, node, ptr);
	if (result == ginSuccess)
		*fd = made;
	else
		close(made);
	return result;
}

/* Unmaps `at` when the GPU cannot pin it. */
static ginResult_t pin(const struct device *d, void *at, size_t span, void **ptr)
{
	ginResult_t result = d && d->cuda ? devicePin(d, at, span) : ginSuccess;

	if (result == ginSuccess)
		*ptr = at;
	else
		munmap(at, span);
	return result;
}

int memoryHostReopen(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return fileAboveStandard(open(path, O_RDWR | O_CLOEXEC));
}

/*
 * For memory that may be abandoned: peers get an open file that the mapping of this process does
 * not keep open. Without /proc they get the file that it does keep open, whose lock never ends: the
 * memory is never reclaimed.
 */
static int forPeers(const struct device *d, int fd)
{
	int other = d && d->cuda ? memoryHostReopen(fd) : -1;

	if (other < 0)
		return fd;
	close(fd);
	return other;
}

ginResult_t memoryHostMap(const struct device *d, size_t *span, int node, int *fd, void **ptr)
{
	void *at = NULL;
	int made = -1;

	if (*span > SIZE_MAX / 2)
		return fail(ginErrorInvalidArgument, "%zu bytes are too many", *span);
	*span = (*span + PAGE - 1) / PAGE * PAGE;
	ginResult_t result = make(*span, node, &made, &at);
	if (result != ginSuccess)
		return result;
	result = pin(d, at, *span, ptr);
	if (result == ginSuccess)
		*fd = forPeers(d, made);
	else
		close(made);
	return result;
}

ginResult_t memoryHostImport(const struct device *d, int fd, size_t span, int owner, void **ptr)
{
	struct stat file;

	if (!isSealed(fd))
		return fail(
			ginErrorSystem,
			"the memory of rank %d can become shorter: its file has no F_SEAL_SHRINK",
			owner);
	if (fstat(fd, &file) || (uint64_t)file.st_size < span)
		return fail(ginErrorSystem,
			    "the memory of rank %d is smaller than the rank announced", owner);
	void *at = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return failErrno("cannot map the %zu bytes in which the window of rank %d lies",
				 span, owner);
	return pin(d, at, span, ptr);
}

void memoryHostUnmap(const struct device *d, void *ptr, size_t span)
{
	if (d && d->cuda)
		deviceUnpin(d, ptr);
	munmap(ptr, span);
}
