/* SPDX-License-Identifier: BSD-3-Clause */
/* unit_gdaki_dmabuf.c - a NIC gets GPU memory as a dma-buf descriptor of whole pages */
#include <fcntl.h>

#include "backends/gdaki/gdaki.h"
#include "expect.h"

static struct {
	cuPtr at;
	size_t bytes;
	int type;
	int refuses;
} driver;

static cuResult addressHandle(void *out, cuPtr at, size_t bytes, int type, unsigned long long flags)
{
	EXPECT_EQUAL(flags, 0);
	driver.at = at;
	driver.bytes = bytes;
	driver.type = type;
	if (driver.refuses)
		return 801; /* CUDA_ERROR_NOT_SUPPORTED */
	*(int *)out = open("/dev/null", O_RDONLY);
	return 0;
}

static const struct cuda calls = {.addressHandle = addressHandle};
static const struct device gpu = {.cuda = &calls}, none = {.cuda = NULL};

static void expectRange(uint64_t at, size_t bytes, size_t before, size_t whole)
{
	struct rdmaMemory memory = dmabufOf(&gpu, (void *)(uintptr_t)at, bytes);

	EXPECT_EQUAL((uintptr_t)memory.address, at);
	EXPECT_EQUAL(memory.bytes, bytes);
	EXPECT_EQUAL(memory.dmabufOffset, before);
	EXPECT_EQUAL(driver.at, at - before);
	EXPECT_EQUAL(driver.bytes, whole);
	EXPECT_EQUAL(driver.type, cuDmaBufFd);
	EXPECT(memory.dmabuf >= 0 && fcntl(memory.dmabuf, F_GETFD) >= 0);
	dmabufClose(&memory);
	EXPECT_ERRNO(fcntl(memory.dmabuf, F_GETFD), EBADF);
}

static void expectAddress(const struct device *d)
{
	struct rdmaMemory memory = dmabufOf(d, &driver, sizeof(driver));

	EXPECT_EQUAL(memory.dmabuf, -1);
	EXPECT_EQUAL(memory.dmabufOffset, 0);
	EXPECT(memory.address == &driver && memory.bytes == sizeof(driver));
	dmabufClose(&memory);
}

static struct rdmaMemory given; /* to libgin-rdma.so */
static int refuses;

static int give(const struct rdmaMemory *memory, char *why)
{
	given = *memory;
	EXPECT(given.dmabuf >= 0 && fcntl(given.dmabuf, F_GETFD) >= 0);
	snprintf(why, RDMA_WHY, "refused");
	return refuses ? -1 : 0;
}

static int queuesOpen(struct rdmaPort *port, const struct rdmaSlab *slab,
		      struct rdmaQueues **queues, char *why)
{
	(void)port;
	*queues = NULL;
	return give(&slab->memory, why);
}

static int regionOpen(struct rdmaPort *port, const struct rdmaMemory *memory, unsigned access,
		      struct rdmaRegion **region, struct rdmaKeys *keys, char *why)
{
	(void)port;
	(void)access;
	*region = NULL;
	*keys = (struct rdmaKeys){0};
	return give(memory, why);
}

static const struct rdma rdma = {.queuesOpen = queuesOpen, .regionOpen = regionOpen};

/* Whether or not the NIC takes the memory, the descriptor is closed after the call. */
static void expectClosed(ginResult_t result)
{
	EXPECT_EQUAL(result, refuses ? ginErrorSystem : ginSuccess);
	EXPECT_ERRNO(fcntl(given.dmabuf, F_GETFD), EBADF);
}

static void expectSlabClosed(char *slab)
{
	const struct rdmaSlab shape = {.count = 2, .depth = RDMA_MIN_DEPTH, .registers = 1};
	struct rdmaQueues *queues;

	expectClosed(slabQueues(&gpu, &rdma, NULL, slab, &shape, &queues));
	EXPECT_EQUAL(given.bytes, rdmaSlabBytes(2, RDMA_MIN_DEPTH));
}

static void expectWindowClosed(void *address)
{
	struct backendHost host = {.nRanks = 1, .device = &gpu};
	struct gdaki g = {.host = &host, .rdma = &rdma};
	struct memory memory = {.address = address, .bytes = 4096};
	uint8_t offer[BACKEND_OFFER];
	void *window = NULL;

	expectClosed(gdakiWindowOffer(&g, &memory, offer, &window));
	if (window)
		gdakiWindowDeregister(&g, window);
}

int main(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	expectRange(7 * page, 3 * page, 0, 3 * page);
	expectRange(7 * page + 512, 1, 512, page);
	expectRange(8 * page - 1, 2, page - 1, 2 * page);
	expectRange(7 * page + 8, page, 8, 2 * page);
	for (refuses = 0; refuses < 2; refuses++) {
		expectSlabClosed((char *)(7 * page));
		expectWindowClosed((char *)(7 * page));
	}
	driver.refuses = 1;
	expectAddress(&gpu);
	expectAddress(&none);
	printf("ok: pages, and no pages\n");
	return 0;
}
