/* SPDX-License-Identifier: BSD-3-Clause */
#include "dmabuf.h"

#include <unistd.h>

/* The driver wants whole pages of the host. */
struct rdmaMemory dmabufOf(const struct device *d, void *address, size_t bytes)
{
	struct rdmaMemory memory = {address, bytes, -1, 0};
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)address;
	uintptr_t first = at / page * page, end = (at + bytes + page - 1) / page * page;
	int fd = -1;

	if (!d->cuda || d->cuda->addressHandle(&fd, first, end - first, cuDmaBufFd, 0))
		return memory;
	memory.dmabuf = fd;
	memory.dmabufOffset = at - first;
	return memory;
}

void dmabufClose(const struct rdmaMemory *memory)
{
	if (memory->dmabuf >= 0)
		close(memory->dmabuf);
}
