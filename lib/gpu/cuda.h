/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda.h - the calls of the CUDA driver API that libgin uses, by dlopen
 *
 * They are declared here, without <cuda.h>: one libgin.so, built without the CUDA toolkit, serves
 * machines with and without a GPU. A test compares types and numbers with <cuda.h>.
 */
#ifndef GIN_LIB_CUDA_H
#define GIN_LIB_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "gin.h"

typedef int cuResult; /* 0: success */
typedef int cuDevice;
typedef void *cuContext;
typedef void *cuStream;
typedef unsigned long long cuPtr;
typedef unsigned long long cuAllocation;

typedef struct {
	char bytes[16];
} cuUuid;

typedef struct {
	char bytes[64];
} cuIpcHandle;

typedef struct {
	int type;
	int id;
} cuLocation;

typedef struct {
	int type;
	int handleTypes;
	cuLocation location;
	void *win32;
	struct {
		unsigned char compression;
		unsigned char gpuDirectRdmaCapable;
		unsigned short usage;
		unsigned char reserved[4];
	} flags;
} cuAllocationProp;

typedef struct {
	cuLocation location;
	int flags;
} cuAccess;

enum {
	cuOutOfMemory = 2,
	cuPeerAccessAlreadyEnabled = 704,
	cuPinned = 1,	/* CU_MEM_ALLOCATION_TYPE_PINNED */
	cuPosixFd = 1,	/* CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR */
	cuOnDevice = 1, /* CU_MEM_LOCATION_TYPE_DEVICE */
	cuOnHost = 2,	/* CU_MEM_LOCATION_TYPE_HOST, .._HOST_NUMA, .._HOST_NUMA_CURRENT */
	cuOnHostNuma = 3,
	cuOnHostNumaCurrent = 4,
	cuReadWrite = 3, /* CU_MEM_ACCESS_FLAGS_PROT_READWRITE */
	cuGranularityMinimum = 0,
	cuRegisterPortable = 1,	   /* CU_MEMHOSTREGISTER_PORTABLE */
	cuRegisterMapped = 2,	   /* CU_MEMHOSTREGISTER_DEVICEMAP */
	cuRegisterIoMemory = 4,	   /* CU_MEMHOSTREGISTER_IOMEMORY */
	cuAlreadyRegistered = 712, /* CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED */
	cuIpcLazyPeerAccess = 1,
	cuNonBlocking = 1,	/* CU_STREAM_NON_BLOCKING */
	cuCaptureRelaxed = 2,	/* CU_STREAM_CAPTURE_MODE_RELAXED */
	cuP2pAccess = 2,	/* CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED */
	cuP2pNativeAtomics = 3, /* CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED */
	cuComputeMode = 20,	/* CU_DEVICE_ATTRIBUTE_COMPUTE_MODE */
	cuComputeProhibited = 2,
	cuComputeMajor = 75, /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR */
	cuComputeMinor = 76,
	cuHostNuma = 134,	  /* CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID */
	cuHasVmm = 102,		  /* CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED */
	cuHasPosixFd = 103,	  /* ..._HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED */
	cuHasRdmaVmm = 110,	  /* ..._GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED */
	cuHasPageableAccess = 88, /* CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS */
	cuDmaBufFd = 1,		  /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */
	cuPointerMemoryType = 2,
	cuPointerDevicePointer = 3,
	cuPointerBufferId = 7,
	cuPointerIsManaged = 8,
	cuPointerOrdinal = 9,
	cuPointerPool = 17,  /* CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE */
	cuMemoryIsHost = 1,  /* CU_MEMORYTYPE_HOST */
	cuMemoryIsDevice = 2 /* CU_MEMORYTYPE_DEVICE */
};

/* Every call returns cuResult. The second column is the name for dlsym(). */
#define CUDA_CALLS(X)                                                                              \
	X(init, "cuInit", (unsigned flags))                                                        \
	X(driverGetVersion, "cuDriverGetVersion", (int *out))                                      \
	X(getErrorString, "cuGetErrorString", (cuResult result, const char **out))                 \
	X(deviceGetCount, "cuDeviceGetCount", (int *out))                                          \
	X(deviceGet, "cuDeviceGet", (cuDevice * out, int ordinal))                                 \
	X(deviceGetName, "cuDeviceGetName", (char *out, int bytes, cuDevice device))               \
	X(deviceGetUuid, "cuDeviceGetUuid_v2", (cuUuid * out, cuDevice device))                    \
	X(deviceGetPciBusId, "cuDeviceGetPCIBusId", (char *out, int bytes, cuDevice device))       \
	X(deviceTotalMem, "cuDeviceTotalMem_v2", (size_t * out, cuDevice device))                  \
	X(deviceGetAttribute, "cuDeviceGetAttribute", (int *out, int which, cuDevice device))      \
	X(deviceGetP2pAttribute, "cuDeviceGetP2PAttribute",                                        \
	  (int *out, int which, cuDevice from, cuDevice to))                                       \
	X(primaryRetain, "cuDevicePrimaryCtxRetain", (cuContext * out, cuDevice device))           \
	X(primaryRelease, "cuDevicePrimaryCtxRelease_v2", (cuDevice device))                       \
	X(ctxGetCurrent, "cuCtxGetCurrent", (cuContext * out))                                     \
	X(ctxGetDevice, "cuCtxGetDevice", (cuDevice * out))                                        \
	X(ctxPush, "cuCtxPushCurrent_v2", (cuContext ctx))                                         \
	X(ctxPop, "cuCtxPopCurrent_v2", (cuContext * out))                                         \
	X(ctxEnablePeerAccess, "cuCtxEnablePeerAccess", (cuContext peer, unsigned flags))          \
	X(exchangeCaptureMode, "cuThreadExchangeStreamCaptureMode", (int *mode))                   \
	X(streamCreate, "cuStreamCreate", (cuStream * out, unsigned flags))                        \
	X(streamSynchronize, "cuStreamSynchronize", (cuStream stream))                             \
	X(copyToDevice, "cuMemcpyHtoDAsync_v2",                                                    \
	  (cuPtr dst, const void *src, size_t bytes, cuStream stream))                             \
	X(copy, "cuMemcpyAsync", (cuPtr dst, cuPtr src, size_t bytes, cuStream stream))            \
	X(streamWrite32, "cuStreamWriteValue32_v2",                                                \
	  (cuStream stream, cuPtr at, uint32_t value, unsigned flags))                             \
	X(streamWrite64, "cuStreamWriteValue64_v2",                                                \
	  (cuStream stream, cuPtr at, uint64_t value, unsigned flags))                             \
	X(streamDestroy, "cuStreamDestroy_v2", (cuStream stream))                                  \
	X(hostRegister, "cuMemHostRegister_v2", (void *ptr, size_t bytes, unsigned flags))         \
	X(hostUnregister, "cuMemHostUnregister", (void *ptr))                                      \
	X(hostDevicePointer, "cuMemHostGetDevicePointer_v2",                                       \
	  (cuPtr * out, void *ptr, unsigned flags))                                                \
	X(granularity, "cuMemGetAllocationGranularity",                                            \
	  (size_t * out, const cuAllocationProp *prop, int which))                                 \
	X(allocationCreate, "cuMemCreate",                                                         \
	  (cuAllocation * out, size_t bytes, const cuAllocationProp *prop,                         \
	   unsigned long long flags))                                                              \
	X(allocationRelease, "cuMemRelease", (cuAllocation allocation))                            \
	X(allocationRetain, "cuMemRetainAllocationHandle", (cuAllocation * out, void *ptr))        \
	X(allocationProp, "cuMemGetAllocationPropertiesFromHandle",                                \
	  (cuAllocationProp * out, cuAllocation allocation))                                       \
	X(exportHandle, "cuMemExportToShareableHandle",                                            \
	  (void *out, cuAllocation allocation, int type, unsigned long long flags))                \
	X(importHandle, "cuMemImportFromShareableHandle",                                          \
	  (cuAllocation * out, void *handle, int type))                                            \
	X(reserve, "cuMemAddressReserve",                                                          \
	  (cuPtr * out, size_t bytes, size_t alignment, cuPtr hint, unsigned long long flags))     \
	X(unreserve, "cuMemAddressFree", (cuPtr ptr, size_t bytes))                                \
	X(map, "cuMemMap",                                                                         \
	  (cuPtr ptr, size_t bytes, size_t offset, cuAllocation allocation,                        \
	   unsigned long long flags))                                                              \
	X(unmap, "cuMemUnmap", (cuPtr ptr, size_t bytes))                                          \
	X(setAccess, "cuMemSetAccess",                                                             \
	  (cuPtr ptr, size_t bytes, const cuAccess *access, size_t count))                         \
	X(addressRange, "cuMemGetAddressRange_v2", (cuPtr * base, size_t * bytes, cuPtr ptr))      \
	X(addressHandle, "cuMemGetHandleForAddressRange",                                          \
	  (void *out, cuPtr ptr, size_t bytes, int type, unsigned long long flags))                \
	X(pointerAttribute, "cuPointerGetAttribute", (void *out, int which, cuPtr ptr))            \
	X(ipcGet, "cuIpcGetMemHandle", (cuIpcHandle * out, cuPtr ptr))                             \
	X(ipcOpen, "cuIpcOpenMemHandle_v2", (cuPtr * out, cuIpcHandle handle, unsigned flags))     \
	X(ipcClose, "cuIpcCloseMemHandle", (cuPtr ptr))

struct cuda {
#define CUDA_MEMBER(name, symbol, args) cuResult(*name) args;
	CUDA_CALLS(CUDA_MEMBER)
#undef CUDA_MEMBER
};

/*
 * The driver's calls; or NULL, and *why says why there are none: no driver, or no GPU. The driver
 * is loaded once per process and never unloaded.
 */
const struct cuda *cudaLoad(const char **why);

/* Fails with the driver's words for `result`: "cuMemCreate: out of memory". */
ginResult_t cudaFail(const struct cuda *cuda, const char *what, cuResult result);

#endif
