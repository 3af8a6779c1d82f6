/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * one_gpu.c - one GPU passes for two: programs with a thread for each GPU run two ranks on it
 *
 * Linked into programs by products/nccl/test/programs/run --one-gpu, with ld's option --wrap for
 * each call. A thread gets back the number that it has chosen; CUDA always gets GPU 0.
 */
#include <cuda_runtime_api.h>

#define GPUS 2

static __thread int chosen;

cudaError_t __wrap_cudaGetDeviceCount(int *count);
cudaError_t __wrap_cudaGetDevice(int *device);
cudaError_t __wrap_cudaSetDevice(int device);
cudaError_t __wrap_cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
cudaError_t __wrap_cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device);
cudaError_t __real_cudaSetDevice(int device);
cudaError_t __real_cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
cudaError_t __real_cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device);

cudaError_t __wrap_cudaGetDeviceCount(int *count)
{
	*count = GPUS;
	return cudaSuccess;
}

cudaError_t __wrap_cudaGetDevice(int *device)
{
	*device = chosen;
	return cudaSuccess;
}

cudaError_t __wrap_cudaSetDevice(int device)
{
	if (device < 0 || device >= GPUS)
		return cudaErrorInvalidDevice;
	chosen = device;
	return __real_cudaSetDevice(0);
}

cudaError_t __wrap_cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
	(void)device;
	return __real_cudaGetDeviceProperties(properties, 0);
}

cudaError_t __wrap_cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device)
{
	(void)device;
	return __real_cudaDeviceGetAttribute(value, what, 0);
}
