/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_cuda_abi.c - lib/gpu/cuda.h agrees with the toolkit's <cuda.h>
 *
 * The compiler compares types and numbers, the program compares the names of the calls: <cuda.h>
 * renames calls whose arguments have changed, cuCtxPushCurrent to cuCtxPushCurrent_v2 say. The
 * program unit_cuda_abi_toolkit has the toolkit's <cuda.h>; without it the test is skipped.
 */
#include "lib/gpu/cuda.h"

/* Without the toolkit this may be libgin's own cuda.h, which has no CUDA_VERSION. */
#if defined(__has_include)
#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#endif

#include <stdio.h>
#include <string.h>

#ifndef CUDA_VERSION

int main(void)
{
	printf("compiled without <cuda.h>: see \"unit_cuda_abi with cuda.h\"\n");
	return 77;
}

#else

#define SAME_SIZE(own, theirs)                                                                     \
	_Static_assert(sizeof(own) == sizeof(theirs) && _Alignof(own) == _Alignof(theirs),         \
		       #own " is not as large as " #theirs)

SAME_SIZE(cuResult, CUresult);
SAME_SIZE(cuDevice, CUdevice);
SAME_SIZE(cuContext, CUcontext);
SAME_SIZE(cuStream, CUstream);
SAME_SIZE(cuPtr, CUdeviceptr);
SAME_SIZE(cuAllocation, CUmemGenericAllocationHandle);
SAME_SIZE(cuUuid, CUuuid);
SAME_SIZE(cuIpcHandle, CUipcMemHandle);
SAME_SIZE(cuLocation, CUmemLocation);
SAME_SIZE(cuAllocationProp, CUmemAllocationProp);
SAME_SIZE(cuAccess, CUmemAccessDesc);

/* Types that lib/gpu/cuda.h has as plain int. */
SAME_SIZE(int, CUdevice_attribute);
SAME_SIZE(int, CUdevice_P2PAttribute);
SAME_SIZE(int, CUpointer_attribute);
SAME_SIZE(int, CUmemorytype);
SAME_SIZE(int, CUstreamCaptureMode);
SAME_SIZE(int, CUmemAllocationHandleType);
SAME_SIZE(int, CUmemRangeHandleType);
SAME_SIZE(int, CUmemAllocationGranularity_flags);

#define SAME_MEMBER(own, member, theirs, other)                                                    \
	_Static_assert(offsetof(own, member) == offsetof(theirs, other) &&                         \
			       sizeof(((own *)0)->member) == sizeof(((theirs *)0)->other),         \
		       #own "." #member " is not where " #theirs "." #other " is")

SAME_MEMBER(cuUuid, bytes, CUuuid, bytes);
SAME_MEMBER(cuIpcHandle, bytes, CUipcMemHandle, reserved);
SAME_MEMBER(cuLocation, type, CUmemLocation, type);
SAME_MEMBER(cuLocation, id, CUmemLocation, id);
SAME_MEMBER(cuAllocationProp, type, CUmemAllocationProp, type);
SAME_MEMBER(cuAllocationProp, handleTypes, CUmemAllocationProp, requestedHandleTypes);
SAME_MEMBER(cuAllocationProp, location, CUmemAllocationProp, location);
SAME_MEMBER(cuAllocationProp, win32, CUmemAllocationProp, win32HandleMetaData);
SAME_MEMBER(cuAllocationProp, flags.compression, CUmemAllocationProp, allocFlags.compressionType);
SAME_MEMBER(cuAllocationProp, flags.gpuDirectRdmaCapable, CUmemAllocationProp,
	    allocFlags.gpuDirectRDMACapable);
SAME_MEMBER(cuAllocationProp, flags.usage, CUmemAllocationProp, allocFlags.usage);
SAME_MEMBER(cuAllocationProp, flags.reserved, CUmemAllocationProp, allocFlags.reserved);
SAME_MEMBER(cuAccess, location, CUmemAccessDesc, location);
SAME_MEMBER(cuAccess, flags, CUmemAccessDesc, flags);

#define SAME_NUMBER(own, theirs)                                                                   \
	_Static_assert((int)(own) == (int)(theirs), #own " is not " #theirs)

SAME_NUMBER(0, CUDA_SUCCESS);
SAME_NUMBER(cuOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SAME_NUMBER(cuPeerAccessAlreadyEnabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME_NUMBER(cuPinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME_NUMBER(cuPosixFd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME_NUMBER(cuOnDevice, CU_MEM_LOCATION_TYPE_DEVICE);
SAME_NUMBER(cuReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME_NUMBER(cuGranularityMinimum, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME_NUMBER(cuRegisterPortable, CU_MEMHOSTREGISTER_PORTABLE);
SAME_NUMBER(cuRegisterMapped, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME_NUMBER(cuRegisterIoMemory, CU_MEMHOSTREGISTER_IOMEMORY);
SAME_NUMBER(cuAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
SAME_NUMBER(cuIpcLazyPeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME_NUMBER(cuNonBlocking, CU_STREAM_NON_BLOCKING);
SAME_NUMBER(cuCaptureRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME_NUMBER(cuP2pAccess, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED);
SAME_NUMBER(cuP2pNativeAtomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
SAME_NUMBER(cuComputeMode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
SAME_NUMBER(cuComputeProhibited, CU_COMPUTEMODE_PROHIBITED);
SAME_NUMBER(cuComputeMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_NUMBER(cuComputeMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_NUMBER(cuHostNuma, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
SAME_NUMBER(cuHasVmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME_NUMBER(cuHasPosixFd, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
SAME_NUMBER(cuHasRdmaVmm, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
SAME_NUMBER(cuHasPageableAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
SAME_NUMBER(cuDmaBufFd, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
SAME_NUMBER(cuPointerMemoryType, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME_NUMBER(cuPointerDevicePointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
SAME_NUMBER(cuPointerBufferId, CU_POINTER_ATTRIBUTE_BUFFER_ID);
SAME_NUMBER(cuPointerIsManaged, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME_NUMBER(cuPointerOrdinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME_NUMBER(cuPointerPool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
SAME_NUMBER(cuMemoryIsHost, CU_MEMORYTYPE_HOST);
SAME_NUMBER(cuMemoryIsDevice, CU_MEMORYTYPE_DEVICE);

/* A member of struct cuda, and the name that programs use for the call. */
#define TOOLKIT_CALLS(X)                                                                           \
	X(init, cuInit)                                                                            \
	X(driverGetVersion, cuDriverGetVersion)                                                    \
	X(getErrorString, cuGetErrorString)                                                        \
	X(deviceGetCount, cuDeviceGetCount)                                                        \
	X(deviceGet, cuDeviceGet)                                                                  \
	X(deviceGetName, cuDeviceGetName)                                                          \
	X(deviceGetUuid, cuDeviceGetUuid)                                                          \
	X(deviceGetPciBusId, cuDeviceGetPCIBusId)                                                  \
	X(deviceTotalMem, cuDeviceTotalMem)                                                        \
	X(deviceGetAttribute, cuDeviceGetAttribute)                                                \
	X(deviceGetP2pAttribute, cuDeviceGetP2PAttribute)                                          \
	X(primaryRetain, cuDevicePrimaryCtxRetain)                                                 \
	X(primaryRelease, cuDevicePrimaryCtxRelease)                                               \
	X(ctxGetCurrent, cuCtxGetCurrent)                                                          \
	X(ctxGetDevice, cuCtxGetDevice)                                                            \
	X(ctxPush, cuCtxPushCurrent)                                                               \
	X(ctxPop, cuCtxPopCurrent)                                                                 \
	X(ctxEnablePeerAccess, cuCtxEnablePeerAccess)                                              \
	X(exchangeCaptureMode, cuThreadExchangeStreamCaptureMode)                                  \
	X(streamCreate, cuStreamCreate)                                                            \
	X(streamSynchronize, cuStreamSynchronize)                                                  \
	X(copyToDevice, cuMemcpyHtoDAsync)                                                         \
	X(copy, cuMemcpyAsync)                                                                     \
	X(streamWrite32, cuStreamWriteValue32)                                                     \
	X(streamWrite64, cuStreamWriteValue64)                                                     \
	X(streamDestroy, cuStreamDestroy)                                                          \
	X(hostRegister, cuMemHostRegister)                                                         \
	X(hostUnregister, cuMemHostUnregister)                                                     \
	X(hostDevicePointer, cuMemHostGetDevicePointer)                                            \
	X(granularity, cuMemGetAllocationGranularity)                                              \
	X(allocationCreate, cuMemCreate)                                                           \
	X(allocationRelease, cuMemRelease)                                                         \
	X(allocationRetain, cuMemRetainAllocationHandle)                                           \
	X(allocationProp, cuMemGetAllocationPropertiesFromHandle)                                  \
	X(exportHandle, cuMemExportToShareableHandle)                                              \
	X(importHandle, cuMemImportFromShareableHandle)                                            \
	X(reserve, cuMemAddressReserve)                                                            \
	X(unreserve, cuMemAddressFree)                                                             \
	X(map, cuMemMap)                                                                           \
	X(unmap, cuMemUnmap)                                                                       \
	X(setAccess, cuMemSetAccess)                                                               \
	X(addressRange, cuMemGetAddressRange)                                                      \
	X(addressHandle, cuMemGetHandleForAddressRange)                                            \
	X(pointerAttribute, cuPointerGetAttribute)                                                 \
	X(ipcGet, cuIpcGetMemHandle)                                                               \
	X(ipcOpen, cuIpcOpenMemHandle)                                                             \
	X(ipcClose, cuIpcCloseMemHandle)

#define NUMBER_OWN(name, symbol, args) row_##name,
enum row { CUDA_CALLS(NUMBER_OWN) ROWS };

static const struct {
	const char *name, *symbol;
} own[ROWS] = {
#define SAY_OWN(name, symbol, args) {#name, symbol},
	CUDA_CALLS(SAY_OWN)};

#define SAY_EXPANDED(call) SAY(call)
#define SAY(call) #call

static const char *const theirs[ROWS] = {
#define SAY_THEIRS(name, call) [row_##name] = SAY_EXPANDED(call),
	TOOLKIT_CALLS(SAY_THEIRS)};

int main(void)
{
	int wrong = 0;

	for (int i = 0; i < ROWS; i++) {
		if (theirs[i] && !strcmp(own[i].symbol, theirs[i]))
			continue;
		fprintf(stderr, "%s: libgin looks for %s, <cuda.h> has %s\n", own[i].name,
			own[i].symbol, theirs[i] ? theirs[i] : "no row in this test");
		wrong++;
	}
	printf("unit_cuda_abi: %d calls against <cuda.h> of CUDA %d.%d, %d wrong\n", ROWS,
	       CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10, wrong);
	return wrong != 0;
}

#endif
