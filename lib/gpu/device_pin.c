/* SPDX-License-Identifier: BSD-3-Clause */
/* device_pin.c - host memory that kernels load and store */
#include "device.h"
#include "lib/base/error.h"

ginResult_t deviceCheckPinned(const struct device *d, void *ptr)
{
	cuPtr at = 0;
	cuResult result = d->cuda->hostDevicePointer(&at, ptr, 0);

	if (result)
		return cudaFail(d->cuda, "cuMemHostGetDevicePointer", result);
	if (at == (cuPtr)(uintptr_t)ptr)
		return ginSuccess;
	return fail(ginErrorUnsupported,
		    "GPU %d has pinned host memory at another address than the CPU: use "
		    "ginMemAlloc() instead of ginMemAllocHost()",
		    d->ordinal);
}

ginResult_t devicePin(const struct device *d, void *ptr, size_t span)
{
	cuResult error = d->cuda->hostRegister(ptr, span, cuRegisterPortable | cuRegisterMapped);

	if (error == cuOutOfMemory)
		return fail(ginErrorCuda,
			    "the CUDA driver cannot pin %zu bytes of host memory: free some, ask "
			    "for less, or raise ulimit -l",
			    span);
	if (error)
		return cudaFail(d->cuda, "cuMemHostRegister", error);
	ginResult_t result = deviceCheckPinned(d, ptr);
	if (result != ginSuccess)
		deviceUnpin(d, ptr);
	return result;
}

void deviceUnpin(const struct device *d, void *ptr)
{
	d->cuda->hostUnregister(ptr);
}
