/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_peermem_pieces.c - windows over memory of several pieces, as cuMemMap() makes it
 *
 * A driver whose allocations are files, and whose mappings are mappings of files: ranks that claim
 * to be processes of one host map each other's pieces and see each other's bytes.
 */
#include "backends/peermem/peermem.h"

#include <sys/mman.h>
#include <unistd.h>

#include "expect.h"

#define RANKS 3
#define PAGE 4096u
#define MAPPINGS 4096

enum { OURS = 1 };

/* A mapping of the driver. */
static struct {
	cuPtr at;
	size_t bytes;
	int fd; /* the allocation; -1: a free entry */
	int isPrivate;
} mapping[MAPPINGS];
static int mappings, allocations, exportsLeft = -1;

static int findMapping(cuPtr at)
{
	for (int i = 0; i < mappings; i++)
		if (mapping[i].fd >= 0 && at >= mapping[i].at &&
		    at < mapping[i].at + mapping[i].bytes)
			return i;
	return -1;
}

static cuResult fakeReserve(cuPtr *out, size_t bytes, size_t alignment, cuPtr hint,
			    unsigned long long flags)
{
	(void)alignment, (void)hint, (void)flags;
	void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*out = (cuPtr)(uintptr_t)at;
	return at == MAP_FAILED;
}

static cuResult fakeUnreserve(cuPtr at, size_t bytes)
{
	EXPECT(findMapping(at) < 0);
	return munmap((void *)(uintptr_t)at, bytes);
}

static cuResult fakeMap(cuPtr at, size_t bytes, size_t offset, cuAllocation allocation,
			unsigned long long flags)
{
	EXPECT(!offset && !flags && mappings < MAPPINGS);
	mapping[mappings].at = at;
	mapping[mappings].bytes = bytes;
	mapping[mappings].isPrivate = 0;
	mapping[mappings++].fd = dup((int)allocation);
	return mmap((void *)(uintptr_t)at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		    (int)allocation, 0) == MAP_FAILED;
}

/* The range must be exactly one mapping, as for the driver. */
static cuResult fakeUnmap(cuPtr at, size_t bytes)
{
	int i = findMapping(at);

	EXPECT(i >= 0 && mapping[i].at == at && mapping[i].bytes == bytes);
	close(mapping[i].fd);
	mapping[i].fd = -1;
	return mmap((void *)(uintptr_t)at, bytes, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED;
}

static cuResult fakeAccess(cuPtr at, size_t bytes, const cuAccess *access, size_t count)
{
	EXPECT(count == 1 && access->flags == cuReadWrite && findMapping(at) >= 0 &&
	       findMapping(at + bytes - 1) >= 0);
	return 0;
}

static cuResult fakeRange(cuPtr *base, size_t *bytes, cuPtr at)
{
	int i = findMapping(at);

	if (i < 0)
		return 1;
	*base = mapping[i].at;
	*bytes = mapping[i].bytes;
	return 0;
}

static cuResult fakeRetain(cuAllocation *out, void *ptr)
{
	int i = findMapping((cuPtr)(uintptr_t)ptr);

	if (i < 0)
		return 1;
	allocations++;
	*out = (cuAllocation)dup(mapping[i].fd);
	return 0;
}

static cuResult fakeRelease(cuAllocation allocation)
{
	allocations--;
	return close((int)allocation);
}

static cuResult fakeProp(cuAllocationProp *out, cuAllocation allocation)
{
	int isPrivate = 0;

	(void)allocation;
	for (int i = 0; i < mappings; i++)
		isPrivate |= mapping[i].fd >= 0 && mapping[i].isPrivate;
	out->handleTypes = isPrivate ? 0 : cuPosixFd;
	return 0;
}

static cuResult fakeExport(void *out, cuAllocation allocation, int type, unsigned long long flags)
{
	EXPECT(type == cuPosixFd && !flags);
	if (!exportsLeft--)
		return 2;
	*(int *)out = dup((int)allocation);
	return 0;
}

static cuResult fakeImport(cuAllocation *out, void *handle, int type)
{
	EXPECT_EQUAL(type, cuPosixFd);
	allocations++;
	*out = (cuAllocation)dup((int)(uintptr_t)handle);
	return 0;
}

static cuResult fakePointer(void *out, int which, cuPtr at)
{
	if (which == cuPointerMemoryType)
		*(int *)out = cuMemoryIsDevice;
	else if (which == cuPointerOrdinal)
		*(int *)out = OURS;
	else if (which == cuPointerBufferId)
		*(uint64_t *)out = (uint64_t)findMapping(at) + 1;
	else
		return 1;
	return 0;
}

static cuResult fakeWords(cuResult result, const char **out)
{
	(void)result;
	*out = "the test refuses";
	return 0;
}

static const struct cuda driver = {.reserve = fakeReserve,
				   .unreserve = fakeUnreserve,
				   .map = fakeMap,
				   .unmap = fakeUnmap,
				   .setAccess = fakeAccess,
				   .addressRange = fakeRange,
				   .allocationRetain = fakeRetain,
				   .allocationRelease = fakeRelease,
				   .allocationProp = fakeProp,
				   .exportHandle = fakeExport,
				   .importHandle = fakeImport,
				   .pointerAttribute = fakePointer,
				   .getErrorString = fakeWords};
static const struct device device = {.cuda = &driver, .ordinal = OURS, .id = OURS};

/* Pieces of these numbers of pages, side by side. */
static char *mapPieces(const int *pages, int count)
{
	size_t total = 0, offset = 0;
	cuPtr at = 0;

	for (int i = 0; i < count; i++)
		total += (size_t)pages[i] * PAGE;
	EXPECT(!fakeReserve(&at, total + PAGE, 0, 0, 0));
	for (int i = 0; i < count; i++) {
		int fd = memfd_create("piece", 0);
		EXPECT(fd >= 0 && !ftruncate(fd, pages[i] * (off_t)PAGE));
		EXPECT(!fakeMap(at + offset, (size_t)pages[i] * PAGE, 0, (cuAllocation)fd, 0));
		close(fd);
		offset += (size_t)pages[i] * PAGE;
	}
	return (char *)(uintptr_t)at;
}

/*
 * The exchange of descriptors: the ranks run as threads would, one after the other, in rounds. A
 * rank leaves its descriptor in `box`; the test lets the ranks register in the order of the rounds.
 */
static struct identity identities[RANKS];
static struct backendHost hosts[RANKS];
static struct peermem *instances[RANKS];
static struct peermemWindow *windows[RANKS];
static uint8_t offers[RANKS][BACKEND_OFFER];
static struct memory memories[RANKS];
static uint32_t rounds[RANKS];

/* Descriptor of piece `rounds[rank]` of rank `from`, found by the sender's own rule. */
static ginResult_t exchange(void *core, int fd, const uint8_t *to, const uint8_t *from, int *fds)
{
	const struct backendHost *host = core;
	uint64_t at = 0;
	int sends = 0;

	for (int r = 0; r < RANKS; r++) {
		sends |= to[r];
		fds[r] = -1;
		if (!from[r])
			continue;
		devicePieceAt(memories[r].run, rounds[host->rank], &at);
		int i = findMapping((cuPtr)(uintptr_t)(memories[r].base + at));
		EXPECT(i >= 0 && mapping[i].at == (cuPtr)(uintptr_t)(memories[r].base + at));
		fds[r] = dup(mapping[i].fd);
	}
	rounds[host->rank]++;
	EXPECT(sends == (fd >= 0) || exportsLeft < 0);
	return ginSuccess;
}

static int all(const void *of, int rank)
{
	(void)of;
	return rank < RANKS;
}

static void openAll(void)
{
	for (int r = 0; r < RANKS; r++) {
		const struct peermemPeers peers = {all, &hosts[r]};
		identities[r] = (struct identity){.hostId = 1, .processId = {1, (uint64_t)r}};
		hosts[r] = (struct backendHost){.rank = r,
						.nRanks = RANKS,
						.ranks = identities,
						.device = &device,
						.exchangeHandles = exchange,
						.core = &hosts[r]};
		EXPECT_SUCCESS(peermemOpen(&hosts[r], "test", &peers, &instances[r]));
	}
}

static void offer(int rank, char *at, size_t bytes)
{
	rounds[rank] = 0;
	EXPECT_SUCCESS(memoryDescribe(&device, at, bytes, &memories[rank]));
	EXPECT_EQUAL(memories[rank].kind, memoryVmm);
	EXPECT_SUCCESS(
		peermemOffer(instances[rank], &memories[rank], offers[rank], &windows[rank]));
}

static ginResult_t registerOne(int rank)
{
	return peermemRegister(instances[rank], ginSuccess, offers[0], BACKEND_OFFER,
			       windows[rank]);
}

/* Ranks with different pieces; a window that begins in one piece and ends in another. */
static void severalPieces(void)
{
	static const int pages[RANKS][5] = {{2, 2, 2, 1, 3}, {4}, {1, 1, 1, 1, 1}};
	static const int counts[RANKS] = {5, 1, 5};
	static const size_t first[RANKS] = {100, 0, PAGE},
			    bytes[RANKS] = {9 * PAGE, 4 * PAGE, 3 * PAGE};
	char *memory[RANKS];

	openAll();
	for (int r = 0; r < RANKS; r++) {
		memory[r] = mapPieces(pages[r], counts[r]);
		offer(r, memory[r] + first[r], bytes[r]);
	}
	EXPECT(devicePieces(memories[0].run) == 5 && devicePieces(memories[1].run) == 1);
	EXPECT(devicePieces(memories[2].run) == 3 && memories[2].base == memory[2] + PAGE);
	for (int r = 0; r < RANKS; r++)
		EXPECT_SUCCESS(registerOne(r));
	EXPECT(rounds[0] == 5 && rounds[1] == 5 && rounds[2] == 5 && allocations == 0);
	for (int r = 0; r < RANKS; r++)
		for (int p = 0; p < RANKS; p++) {
			char *at = peermemAddress(windows[r], p);
			for (size_t i = 0; i < bytes[p]; i += 509) {
				at[i] = (char)(i + (size_t)r);
				EXPECT_EQUAL(memory[p][first[p] + i], (char)(i + (size_t)r));
			}
			EXPECT((p == r) == (at == memory[p] + first[p]));
		}
	int before = mappings;
	for (int r = 0; r < RANKS; r++)
		peermemDeregister(instances[r], windows[r]);
	for (int i = 11; i < before; i++) /* the ranks' own mappings are the first 11 */
		EXPECT_EQUAL(mapping[i].fd, -1);
	for (int r = 0; r < RANKS; r++)
		peermemClose(instances[r]);
}

/* A piece that cannot be exported: the rank fails, and still takes part in every exchange. */
static void lostPiece(void)
{
	static const int pages[] = {1, 1, 1};

	openAll();
	for (int r = 0; r < RANKS; r++)
		offer(r, mapPieces(pages, 3), 3 * PAGE);
	exportsLeft = 1; /* the first pieces have been exported */
	EXPECT_EQUAL(registerOne(0), ginErrorCuda);
	EXPECT_HAS(ginGetLastError(), "cuMemExportToShareableHandle");
	EXPECT(rounds[0] == 3 && allocations == 0);
}

static void refusals(void)
{
	static const int many[] = {1, 2, 1, 2, 1}, two[] = {1, 1};
	struct memory m;

	EXPECT_FAILS(memoryDescribe(&device, mapPieces(many, 5), 7 * PAGE, &m),
		     ginErrorInvalidArgument, "pieces whose size changes more than 3 times");
	char *memory = mapPieces(two, 2);
	EXPECT_FAILS(memoryDescribe(&device, memory, 2 * PAGE + 1, &m), ginErrorInvalidArgument,
		     "more than the one allocation");
	EXPECT_SUCCESS(memoryDescribe(&device, memory, 2 * PAGE, &m));
	EXPECT_SUCCESS(memoryDescribeLocal(&device, memory + 5, 2 * PAGE - 5, &m));
	EXPECT_EQUAL(m.span, 2 * PAGE);
}

int main(void)
{
	setenv("GIN_LOG", "none", 1);
	expectChild("pieces of several ranks", severalPieces);
	expectChild("a piece that is not exported", lostPiece);
	expectChild("memory that is refused", refusals);
	return expectFailures != 0;
}
