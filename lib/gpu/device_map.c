/* SPDX-License-Identifier: BSD-3-Clause */
/* device_map.c - GPU memory by the driver's virtual memory management, new or imported */
#include "device.h"
#include "lib/base/error.h"

static cuAllocationProp allocationProp(const struct device *d)
{
	cuAllocationProp prop = {
		.type = cuPinned, .handleTypes = cuPosixFd, .location = {cuOnDevice, d->id}};
	int rdma = 0;

	d->cuda->deviceGetAttribute(&rdma, cuHasRdmaVmm, d->id);
	prop.flags.gpuDirectRdmaCapable = rdma != 0;
	return prop;
}

static ginResult_t roundSpan(const struct device *d, const cuAllocationProp *prop, size_t *span)
{
	size_t granularity = 0;
	cuResult result = d->cuda->granularity(&granularity, prop, cuGranularityMinimum);

	if (result)
		return cudaFail(d->cuda, "cuMemGetAllocationGranularity", result);
	if (*span > SIZE_MAX - granularity)
		return fail(ginErrorInvalidArgument, "%zu bytes are too many", *span);
	*span = (*span + granularity - 1) / granularity * granularity;
	return ginSuccess;
}

/* Maps the allocation at a new address, with access for this GPU. Does not release it. */
static ginResult_t mapAllocation(const struct device *d, cuAllocation allocation, size_t span,
				 void **ptr)
{
	const struct cuda *cuda = d->cuda;
	cuAccess access = {{cuOnDevice, d->id}, cuReadWrite};
	const char *what = "cuMemAddressReserve";
	cuPtr at = 0;
	cuResult result = cuda->reserve(&at, span, 0, 0, 0);

	if (result)
		goto failed;
	what = "cuMemMap";
	result = cuda->map(at, span, 0, allocation, 0);
	if (result)
		goto unreserve;
	what = "cuMemSetAccess";
	result = cuda->setAccess(at, span, &access, 1);
	if (result)
		goto unmap;
	*ptr = (void *)(uintptr_t)at;
	return ginSuccess;

unmap:
	cuda->unmap(at, span);
unreserve:
	cuda->unreserve(at, span);
failed:
	return cudaFail(cuda, what, result);
}

ginResult_t deviceMap(const struct device *d, size_t *span, void **ptr)
{
	cuAllocationProp prop = allocationProp(d);
	cuAllocation allocation;
	ginResult_t result = roundSpan(d, &prop, span);

	if (result != ginSuccess)
		return result;
	cuResult error = d->cuda->allocationCreate(&allocation, *span, &prop, 0);
	if (error == cuOutOfMemory)
		return fail(ginErrorCuda,
			    "GPU %d has no %zu bytes left: free some, or ask for less", d->ordinal,
			    *span);
	if (error)
		return cudaFail(d->cuda, "cuMemCreate", error);
	result = mapAllocation(d, allocation, *span, ptr);
	d->cuda->allocationRelease(allocation); /* the mapping keeps the memory */
	return result;
}

uint64_t devicePieces(const struct deviceRun *run)
{
	uint64_t count = 0;

	for (int i = 0; i < DEVICE_RUNS && run[i].count; i++)
		count += run[i].count;
	return count ? count : 1;
}

uint64_t devicePieceAt(const struct deviceRun *run, uint64_t i, uint64_t *offset)
{
	*offset = 0;
	for (; i >= run->count; run++) {
		*offset += run->bytes * run->count;
		i -= run->count;
	}
	*offset += run->bytes * i;
	return run->bytes;
}

/* The offset of the end. */
static uint64_t piecesEnd(const struct deviceRun *run, uint64_t count)
{
	uint64_t offset = 0;
	uint64_t bytes = count ? devicePieceAt(run, count - 1, &offset) : 0;

	return offset + bytes;
}

static void unmapFirst(const struct device *d, cuPtr at, const struct deviceRun *run,
		       uint64_t count)
{
	uint64_t offset;

	while (count--) {
		uint64_t bytes = devicePieceAt(run, count, &offset);
		d->cuda->unmap(at + offset, bytes);
	}
}

void deviceUnmapPieces(const struct device *d, void *ptr, const struct deviceRun *run)
{
	cuPtr at = (cuPtr)(uintptr_t)ptr;

	unmapFirst(d, at, run, devicePieces(run));
	d->cuda->unreserve(at, piecesEnd(run, devicePieces(run)));
}

/* Maps all pieces at `at`; on an error *mapped of them are. */
static ginResult_t mapAll(const struct device *d, const struct deviceRun *run,
			  const cuAllocation *piece, cuPtr at, uint64_t *mapped)
{
	cuAccess access = {{cuOnDevice, d->id}, cuReadWrite};
	uint64_t count = devicePieces(run), offset;

	for (*mapped = 0; *mapped < count; ++*mapped) {
		uint64_t bytes = devicePieceAt(run, *mapped, &offset);
		cuResult result = d->cuda->map(at + offset, bytes, 0, piece[*mapped], 0);
		if (result)
			return cudaFail(d->cuda, "cuMemMap", result);
	}
	cuResult result = d->cuda->setAccess(at, piecesEnd(run, count), &access, 1);
	return result ? cudaFail(d->cuda, "cuMemSetAccess", result) : ginSuccess;
}

ginResult_t deviceMapPieces(const struct device *d, const struct deviceRun *run,
			    const cuAllocation *piece, void **ptr)
{
	uint64_t span = piecesEnd(run, devicePieces(run)), mapped = 0;
	cuPtr at = 0;
	cuResult reserved = d->cuda->reserve(&at, span, 0, 0, 0);

	if (reserved)
		return cudaFail(d->cuda, "cuMemAddressReserve", reserved);
	ginResult_t result = mapAll(d, run, piece, at, &mapped);
	if (result == ginSuccess) {
		*ptr = (void *)(uintptr_t)at;
		return ginSuccess;
	}
	unmapFirst(d, at, run, mapped);
	d->cuda->unreserve(at, span);
	return result;
}

ginResult_t deviceImportPiece(const struct device *d, int fd, cuAllocation *out)
{
	cuResult error = d->cuda->importHandle(out, (void *)(uintptr_t)fd, cuPosixFd);

	return error ? cudaFail(d->cuda, "cuMemImportFromShareableHandle", error) : ginSuccess;
}

ginResult_t deviceImport(const struct device *d, int fd, size_t span, void **ptr)
{
	cuAllocation allocation;
	ginResult_t result = deviceImportPiece(d, fd, &allocation);

	if (result != ginSuccess)
		return result;
	result = mapAllocation(d, allocation, span, ptr);
	d->cuda->allocationRelease(allocation);
	return result;
}

void deviceUnmap(const struct device *d, void *ptr, size_t span)
{
	d->cuda->unmap((cuPtr)(uintptr_t)ptr, span);
	d->cuda->unreserve((cuPtr)(uintptr_t)ptr, span);
}
