/* SPDX-License-Identifier: BSD-3-Clause */
/* unit_gdaki_dmabuf.c - GPU memory as a NIC is given it: whole pages behind a descriptor */
#include <fcntl.h>

#include "backends/gdaki/memory.h"
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

int main(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	expectRange(7 * page, 3 * page, 0, 3 * page);
	expectRange(7 * page + 512, 1, 512, page);
	expectRange(8 * page - 1, 2, page - 1, 2 * page);
	expectRange(7 * page + 8, page, 8, 2 * page);
	driver.refuses = 1;
	expectAddress(&gpu);
	expectAddress(&none);
	printf("ok: pages, and no pages\n");
	return 0;
}
