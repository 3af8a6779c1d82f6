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

ginResult_t deviceImport(const struct device *d, int fd, size_t span, void **ptr)
{
	cuAllocation allocation;
	cuResult error = d->cuda->importHandle(&allocation, (void *)(uintptr_t)fd, cuPosixFd);

	if (error)
		return cudaFail(d->cuda, "cuMemImportFromShareableHandle", error);
	ginResult_t result = mapAllocation(d, allocation, span, ptr);
	d->cuda->allocationRelease(allocation);
	return result;
}

void deviceUnmap(const struct device *d, void *ptr, size_t span)
{
	d->cuda->unmap((cuPtr)(uintptr_t)ptr, span);
	d->cuda->unreserve((cuPtr)(uintptr_t)ptr, span);
}
