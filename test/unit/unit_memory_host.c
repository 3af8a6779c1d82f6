/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_memory_host.c - host memory for a GPU and for peers, with a driver of this file
 *
 * The driver records the memory that it pins; a test may have it refuse, or map elsewhere.
 */
#include "lib/base/error.h"
#include "expect.h"
#include "resource_limits.h"
#include "lib/gpu/memory.h"
#include "pinning.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

static const size_t sizes[] = {1, 4095, 4096, 4097, 300001};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static size_t roundUp(size_t bytes)
{
	return (bytes + 4095) / 4096 * 4096;
}

/* Whole pages, zero, pinned as one; a window may lie anywhere in it. */
static void oneOf(size_t bytes)
{
	struct memory m;
	void *at = NULL;

	EXPECT_SUCCESS(memoryAllocHost(&pinningGpu, bytes, &at));
	EXPECT_EQUAL((uintptr_t)at % 4096, 0);
	EXPECT_EQUAL(pinnedSpan(at), roundUp(bytes));
	for (size_t i = 0; i < bytes; i++)
		EXPECT_EQUAL(((char *)at)[i], 0);
	EXPECT_SUCCESS(memoryDescribe(&pinningGpu, (char *)at + bytes / 2, bytes - bytes / 2, &m));
	EXPECT_EQUAL(m.kind, memoryShared);
	EXPECT(m.base == at && m.fd >= 0 && m.address == (char *)at + bytes / 2);
	EXPECT_EQUAL(m.span, roundUp(bytes));
	EXPECT_SUCCESS(memoryDescribeLocal(&pinningGpu, at, bytes, &m));
	EXPECT(m.address == at);
	EXPECT_SUCCESS(memoryFree(&pinningGpu, at));
	EXPECT_EQUAL(pinnedSpan(at), 0);
}

static void ofAllSizes(void)
{
	struct holdings before = holdingsNow();

	for (size_t i = 0; i < SIZES; i++)
		oneOf(sizes[i]);
	expectHoldings(before);
}

/* A window must have one address for kernels and CPUs, up to its end. */
static void onlyWhatIsPinned(void)
{
	struct memory m;
	void *at = NULL, *own = malloc(4096);

	EXPECT_SUCCESS(memoryAllocHost(&pinningGpu, 8192, &at));
	EXPECT_FAILS(memoryDescribe(&pinningGpu, at, 8193, &m), ginErrorInvalidArgument,
		     "host memory", "ginMemAllocHost()");
	EXPECT_FAILS(memoryDescribe(&pinningGpu, own, 4096, &m), ginErrorInvalidArgument,
		     "host memory", "ginMemAllocHost()", "GIN_WINDOW_LOCAL");
	pinningMoves = 0x100000;
	EXPECT_FAILS(memoryDescribe(&pinningGpu, at, 8192, &m), ginErrorInvalidArgument,
		     "host memory");
	pinningMoves = 0;
	EXPECT_SUCCESS(memoryFree(&pinningGpu, at));
	EXPECT_SUCCESS(memoryAlloc(&hostThreads, 4096, &at));
	EXPECT_FAILS(memoryDescribe(&pinningGpu, at, 4096, &m), ginErrorInvalidArgument,
		     "host memory");
	EXPECT_SUCCESS(memoryFree(&hostThreads, at));
	free(own);
}

/* Dropped memory stays as long as another rank of this process uses it. */
static void droppedWhileUsed(void)
{
	struct holdings before = holdingsNow();
	struct memory m;
	void *at = NULL;

	EXPECT_SUCCESS(memoryAllocHost(&hostThreads, 8192, &at));
	EXPECT_SUCCESS(memoryDescribe(&hostThreads, at, 8192, &m));
	memoryUse((char *)at + 4096, m.id, 1);
	memoryUse((char *)at + 4096, m.id - 1, -1); /* of an earlier allocation at this address */
	memoryDrop(at);
	*(char *)at = 1;
	EXPECT(memoryFind(&m));
	memoryUse((char *)at + 4096, m.id, -1);
	EXPECT(!memoryFind(&m));
	expectHoldings(before);
	EXPECT_SUCCESS(memoryAllocHost(&hostThreads, 8192, &at));
	memoryDrop(at);
	expectHoldings(before);
}

/* Memory that its rank frees stays, too, and cannot be freed twice. */
static void freedWhileUsed(void)
{
	struct holdings before = holdingsNow();
	struct memory m;
	void *at = NULL;

	EXPECT_SUCCESS(memoryAllocHost(&hostThreads, 8192, &at));
	EXPECT_SUCCESS(memoryDescribe(&hostThreads, at, 8192, &m));
	memoryUse(at, m.id, 1);
	EXPECT_SUCCESS(memoryFree(&hostThreads, at));
	*(char *)at = 1;
	EXPECT_FAILS(memoryFree(&hostThreads, at), ginErrorInvalidArgument, "not from ginMemAlloc");
	memoryUse(at, m.id, -1);
	EXPECT(!memoryFind(&m));
	expectHoldings(before);
}

static void sendTo(int channel, int fd)
{
	char byte = 0, space[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = space,
				 .msg_controllen = sizeof(space)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	EXPECT_EQUAL(sendmsg(channel, &message, 0), 1);
}

/*
 * Abandoned memory serves again when no peer holds it: not while a peer maps it, not while the
 * descriptor is on its way to a peer, and not while a process that will be killed maps it.
 */
static void abandoned(void)
{
	struct holdings before = holdingsNow();
	void *at = NULL, *there = NULL;
	int channel[2], status;
	struct memory m;

	EXPECT_SUCCESS(memoryAllocHost(&pinningGpu, 8192, &at));
	for (int holder = 0; holder < 3; holder++) {
		pid_t child = 0;
		EXPECT_SUCCESS(memoryDescribe(&pinningGpu, at, 8192, &m));
		EXPECT(!memoryReclaim(at));
		EXPECT(!socketpair(AF_UNIX, SOCK_STREAM, 0, channel));
		if (holder == 0)
			EXPECT_SUCCESS(memoryHostImport(NULL, m.fd, m.span, 7, &there));
		else if (holder == 1)
			sendTo(channel[0], m.fd);
		else
			child = fork();
		if (holder == 2 && !child) {
			EXPECT_SUCCESS(memoryHostImport(NULL, m.fd, m.span, 7, &there));
			close(m.fd);
			EXPECT(write(channel[1], "", 1) == 1);
			pause();
		}
		if (child)
			EXPECT(read(channel[0], &status, 1) == 1);
		memoryAbandon((char *)at + 4096);
		memoryAbandon((char *)at + 4096);
		EXPECT(!memoryFind(&m) && !memoryReclaim(at));
		if (holder == 0)
			memoryHostUnmap(NULL, there, m.span);
		if (child) {
			kill(child, SIGKILL);
			EXPECT(waitpid(child, &status, 0) == child);
		}
		close(channel[0]);
		close(channel[1]);
		EXPECT(memoryReclaim((char *)at + 4096));
		EXPECT(!memoryReclaim(at));
		EXPECT_EQUAL(countFiles(), before.files + 1);
	}
	EXPECT_SUCCESS(memoryDescribe(&pinningGpu, at, 8192, &m));
	EXPECT_SUCCESS(memoryHostImport(NULL, m.fd, m.span, 7, &there));
	*(char *)at = 5;
	EXPECT_EQUAL(*(char *)there, 5);
}

/* Memory that a rank of this process uses in place is not reclaimed. */
static void abandonedInPlace(void)
{
	struct memory m;
	void *at = NULL;

	EXPECT_SUCCESS(memoryAllocHost(&pinningGpu, 4096, &at));
	EXPECT_SUCCESS(memoryDescribe(&pinningGpu, at, 4096, &m));
	memoryUse(at, m.id, 1);
	memoryAbandon(at);
	EXPECT(!memoryReclaim(at));
	memoryUse(at, m.id, -1);
	EXPECT(memoryReclaim(at));
}

/* Abandoned memory that peers keep costs this process a bounded number of descriptors. */
static void muchAbandoned(void)
{
	enum { MANY = MEMORY_LOST + 9 };
	struct holdings before = holdingsNow();
	void *at[MANY], *there[MANY];
	struct memory m;

	for (int i = 0; i < MANY; i++) {
		EXPECT_SUCCESS(memoryAllocHost(&pinningGpu, 4096, &at[i]));
		EXPECT_SUCCESS(memoryDescribe(&pinningGpu, at[i], 4096, &m));
		EXPECT_SUCCESS(memoryHostImport(NULL, m.fd, m.span, 7, &there[i]));
		memoryAbandon(at[i]);
	}
	EXPECT_EQUAL(countFiles(), before.files + MEMORY_LOST);
	for (int i = 0; i < MANY; i++) {
		memoryHostUnmap(NULL, there[i], 4096);
		EXPECT_EQUAL(memoryReclaim(at[i]), i < MEMORY_LOST);
	}
}

static void freedByTheRightOne(void)
{
	struct device by = hostThreads;
	void *at = NULL;

	EXPECT_SUCCESS(memoryAllocHost(&pinningGpu, 4096, &at));
	EXPECT_SUCCESS(memoryDevice(at, &by));
	EXPECT(!memcmp(&by, &pinningGpu, sizeof(by)));
	EXPECT_FAILS(memoryDevice((char *)at + 1, &by), ginErrorInvalidArgument,
		     "not from ginMemAlloc or ginMemAllocHost");
	EXPECT_FAILS(memoryFree(&hostThreads, at), ginErrorInvalidArgument,
		     "from a communicator with a GPU");
	EXPECT_FAILS(memoryFree(&pinningGpu, (char *)at + 1), ginErrorInvalidArgument,
		     "not from ginMemAlloc or ginMemAllocHost");
	memoryHold(at, 1);
	EXPECT_FAILS(memoryFree(&pinningGpu, at), ginErrorInvalidUsage, "in a registered window");
	memoryHold(at, -1);
	EXPECT_EQUAL(pinnedSpan(at), 4096);
	EXPECT_SUCCESS(memoryFree(&pinningGpu, at));
	EXPECT_FAILS(memoryFree(&pinningGpu, at), ginErrorInvalidArgument, "not from ginMemAlloc");
}

/* Nothing stays when the driver refuses. */
static void refused(void)
{
	struct holdings before = holdingsNow();
	void *at = &before;

	pinningRefuses = cuOutOfMemory;
	EXPECT_FAILS(memoryAllocHost(&pinningGpu, 5000, &at), ginErrorCuda, "8192 bytes",
		     "ulimit -l");
	pinningRefuses = 999;
	EXPECT_FAILS(memoryAllocHost(&pinningGpu, 5000, &at), ginErrorCuda, "cuMemHostRegister");
	pinningRefuses = 0;
	pinningMoves = 0x100000;
	EXPECT_FAILS(memoryAllocHost(&pinningGpu, 5000, &at), ginErrorUnsupported,
		     "another address", "ginMemAlloc()");
	pinningMoves = 0;
	EXPECT_FAILS(memoryAllocHost(&pinningGpu, SIZE_MAX, &at), ginErrorInvalidArgument, "bytes");
	EXPECT(at == &before);
	EXPECT_EQUAL(pinnedCount, 0);
	expectHoldings(before);
}

/* A peer has the bytes at another address, pinned there as well. */
static void ofAPeer(void)
{
	struct holdings before = holdingsNow();
	void *at = NULL, *there = NULL;
	struct memory m;

	EXPECT_SUCCESS(memoryAllocHost(&pinningGpu, 10000, &at));
	EXPECT_SUCCESS(memoryDescribe(&pinningGpu, at, 10000, &m));
	EXPECT_FAILS(memoryHostImport(&pinningGpu, m.fd, m.span + 1, 7, &there), ginErrorSystem,
		     "rank 7 is smaller");
	EXPECT_SUCCESS(memoryHostImport(&pinningGpu, m.fd, m.span, 7, &there));
	EXPECT(there != at);
	EXPECT_EQUAL(pinnedSpan(there), m.span);
	strcpy((char *)at + 9000, "by the owner");
	EXPECT_TEXT((char *)there + 9000, "by the owner");
	memoryHostUnmap(&pinningGpu, there, m.span);
	EXPECT_EQUAL(pinnedSpan(there), 0);
	pinningRefuses = cuOutOfMemory;
	EXPECT_FAILS(memoryHostImport(&pinningGpu, m.fd, m.span, 7, &there), ginErrorCuda,
		     "ulimit -l");
	pinningRefuses = 0;
	EXPECT_SUCCESS(memoryFree(&pinningGpu, at));
	expectHoldings(before);
}

static void expectSealed(int fd, size_t span)
{
	EXPECT_ERRNO(ftruncate(fd, 0), EPERM);
	EXPECT_ERRNO(ftruncate(fd, (off_t)span - 4096), EPERM);
	EXPECT_ERRNO(ftruncate(fd, (off_t)span + 4096), EPERM);
	EXPECT_ERRNO(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), EPERM);
	EXPECT_EQUAL(lseek(fd, 0, SEEK_END), span);
}

/* A peer can neither shorten the file whose descriptor it gets, nor open another way to do so. */
static void ofFixedLength(void)
{
	void *at = NULL, *there = NULL;
	struct memory m;

	EXPECT_SUCCESS(memoryAllocHost(&hostThreads, 12288, &at));
	EXPECT_SUCCESS(memoryDescribe(&hostThreads, at, 12288, &m));
	strcpy((char *)at + 12000, "by the owner");
	EXPECT_SUCCESS(memoryHostImport(NULL, m.fd, m.span, 7, &there));
	expectSealed(m.fd, m.span);
	int again = memoryHostReopen(m.fd);
	expectSealed(again, m.span);
	EXPECT_TEXT((char *)there + 12000, "by the owner");
	memoryHostUnmap(NULL, there, m.span);
	close(again);
	EXPECT_SUCCESS(memoryFree(&hostThreads, at));
}

/* A file of a peer that is long enough now, and need not stay so. */
static void ofAnyLength(void)
{
	int fd = memfd_create("any", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	FILE *plain = tmpfile();
	void *there = NULL;

	EXPECT(plain && !ftruncate(fd, 8192) && !ftruncate(fileno(plain), 8192));
	EXPECT_FAILS(memoryHostImport(NULL, fd, 8192, 7, &there), ginErrorSystem,
		     "the memory of rank 7 can become shorter");
	EXPECT_FAILS(memoryHostImport(NULL, fileno(plain), 8192, 7, &there), ginErrorSystem,
		     "the memory of rank 7 can become shorter");
	EXPECT(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	EXPECT_SUCCESS(memoryHostImport(NULL, fd, 8192, 7, &there));
	memoryHostUnmap(NULL, there, 8192);
	fclose(plain);
	close(fd);
}

int main(void)
{
	setenv("GIN_LOG", "none", 0);
	expectChild("host memory of every size", ofAllSizes);
	expectChild("a window in what is pinned alone", onlyWhatIsPinned);
	expectChild("dropped while it is used", droppedWhileUsed);
	expectChild("memory that is freed while it is used", freedWhileUsed);
	expectChild("abandoned memory", abandoned);
	expectChild("abandoned memory that is used in place", abandonedInPlace);
	expectChild("much abandoned memory", muchAbandoned);
	expectChild("freed by the right one", freedByTheRightOne);
	expectChild("the driver refuses", refused);
	expectChild("memory of a peer", ofAPeer);
	expectChild("memory that a peer cannot shorten", ofFixedLength);
	expectChild("memory that a peer could shorten", ofAnyLength);
	return expectFailures != 0;
}
