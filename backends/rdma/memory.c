/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - registers memory of this process or of its GPU with a NIC port */
#include "memory.h"

#include <unistd.h>

/* cuMemGetHandleForAddressRange takes whole host pages. */
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

static ginResult_t openRegion(const struct rdmaUser *user, const struct rdmaMemory *memory,
			      unsigned access, struct rdmaRegion **region, struct rdmaKeys *keys)
{
	char why[RDMA_WHY];

	if (user->rdma->regionOpen(user->port, memory, access, region, keys, why))
		return fail(ginErrorSystem, "%s: %s", user->name, why);
	return ginSuccess;
}

ginResult_t rdmaRegister(const struct rdmaUser *user, void *address, size_t bytes, unsigned access,
			 struct rdmaRegion **region, struct rdmaKeys *keys)
{
	struct rdmaMemory memory = dmabufOf(user->device, address, bytes);
	ginResult_t result = openRegion(user, &memory, access, region, keys);

	dmabufClose(&memory);
	return result;
}

static ginResult_t openShared(const struct rdmaUser *user, const struct rdmaMemory *memory,
			      struct rdmaWindow *w)
{
	ginResult_t result = openRegion(user, memory, rdmaRemote, &w->strict, &w->strictKeys);

	if (result != ginSuccess)
		return result;
	w->relaxedKeys = w->strictKeys;
	if (user->relaxedOrdering)
		result = openRegion(user, memory, rdmaRemote | rdmaRelaxed, &w->relaxed,
				    &w->relaxedKeys);
	return result;
}

ginResult_t rdmaWindowOpen(const struct rdmaUser *user, void *address, size_t bytes, int isRemote,
			   struct rdmaWindow *w)
{
	struct rdmaMemory whole = dmabufOf(user->device, address, bytes);
	ginResult_t result =
		isRemote ? openShared(user, &whole, w)
			 : openRegion(user, &whole, rdmaLocal, &w->strict, &w->strictKeys);

	dmabufClose(&whole);
	return result;
}

void rdmaWindowClose(const struct rdmaUser *user, struct rdmaWindow *w)
{
	if (w->relaxed)
		user->rdma->regionClose(w->relaxed);
	if (w->strict)
		user->rdma->regionClose(w->strict);
	*w = (struct rdmaWindow){.strict = NULL};
}
