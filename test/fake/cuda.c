/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda.c - a CUDA driver that answers questions about GPUs that do not exist
 *
 * Five GPUs: 0 and 1 have native atomics between them; 2 has peer access with 0 without them, from
 * 3 and to 4 one way only; 3 exports no file descriptors; 4 may not be used for computing. Every
 * other call is refused, the making of contexts included (cuda_refused.c).
 */
#include <stdio.h>
#include <string.h>

#include "lib/gpu/cuda.h"

enum { GPUS = 5, NO_SUCH_DEVICE = 101 };

#pragma GCC visibility push(default)

cuResult cuInit(unsigned flags)
{
	return (cuResult)flags;
}

cuResult cuDriverGetVersion(int *out)
{
	*out = 13000;
	return 0;
}

cuResult cuGetErrorString(cuResult result, const char **out)
{
	*out = result ? "the driver of this test refuses" : "no error";
	return 0;
}

cuResult cuDeviceGetCount(int *out)
{
	*out = GPUS;
	return 0;
}

cuResult cuDeviceGet(cuDevice *out, int ordinal)
{
	*out = ordinal;
	return ordinal < 0 || ordinal >= GPUS ? NO_SUCH_DEVICE : 0;
}

cuResult cuDeviceGetName(char *out, int bytes, cuDevice device)
{
	snprintf(out, (size_t)bytes, "Test GPU %c", 'A' + device);
	return 0;
}

cuResult cuDeviceGetUuid_v2(cuUuid *out, cuDevice device)
{
	for (int i = 0; i < 16; i++)
		out->bytes[i] = (char)(i * 17);
	out->bytes[15] = (char)device;
	return 0;
}

cuResult cuDeviceGetPCIBusId(char *out, int bytes, cuDevice device)
{
	snprintf(out, (size_t)bytes, "0000:%02X:00.0", 0x1b + device);
	return 0;
}

cuResult cuDeviceTotalMem_v2(size_t *out, cuDevice device)
{
	*out = (size_t)(device + 1) << 30;
	return 0;
}

cuResult cuDeviceGetAttribute(int *out, int which, cuDevice device)
{
	switch (which) {
	case cuComputeMajor:
		*out = 9;
		return 0;
	case cuComputeMinor:
		*out = device;
		return 0;
	case cuHostNuma:
		*out = device / 2;
		return device == 2; /* as an older driver, that does not know the question */
	case cuHasVmm:
		*out = 1;
		return 0;
	case cuHasPosixFd:
		*out = device != 3;
		return 0;
	case cuComputeMode:
		*out = device == 4 ? cuComputeProhibited : 0;
		return 0;
	}
	return NO_SUCH_DEVICE;
}

cuResult cuDeviceGetP2PAttribute(int *out, int which, cuDevice from, cuDevice to)
{
	int nvlink = from + to == 1 || (from == 3 && to == 2) || (from == 2 && to == 4);
	int access = nvlink || from + to == 2;

	*out = which == cuP2pAccess ? access : which == cuP2pNativeAtomics && nvlink;
	return 0;
}
