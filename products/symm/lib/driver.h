/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.h - the calls of the CUDA driver that libgin-symm.so makes, by dlopen */
#ifndef GIN_SYMM_DRIVER_H
#define GIN_SYMM_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned long long symmAddress;

/* CUDA_MEMCPY2D */
struct symmCopy {
	size_t srcX, srcY;
	int srcType;
	const void *srcHost;
	symmAddress srcDevice;
	void *srcArray;
	size_t srcPitch;
	size_t dstX, dstY;
	int dstType;
	void *dstHost;
	symmAddress dstDevice;
	void *dstArray;
	size_t dstPitch;
	size_t width, height;
};

enum {
	symmDriverHost = 1,	   /* CU_MEMORYTYPE_HOST */
	symmDriverDevice = 2,	   /* CU_MEMORYTYPE_DEVICE */
	symmDriverNonBlocking = 1, /* CU_STREAM_NON_BLOCKING */
	symmDriverRelaxed = 2,	   /* CU_STREAM_CAPTURE_MODE_RELAXED */
	symmDriverCapturing = 1	   /* CU_STREAM_CAPTURE_STATUS_ACTIVE */
};

/* Every call returns CUresult, 0: success. The second column is the name for dlsym(). */
#define SYMM_DRIVER_CALLS(X)                                                                       \
	X(init, "cuInit", (unsigned flags))                                                        \
	X(getErrorString, "cuGetErrorString", (int result, const char **out))                      \
	X(deviceGet, "cuDeviceGet", (int *out, int ordinal))                                       \
	X(primaryRetain, "cuDevicePrimaryCtxRetain", (void **context, int device))                 \
	X(ctxPush, "cuCtxPushCurrent_v2", (void *context))                                         \
	X(ctxPop, "cuCtxPopCurrent_v2", (void **context))                                          \
	X(ctxSynchronize, "cuCtxSynchronize", (void))                                              \
	X(exchangeCaptureMode, "cuThreadExchangeStreamCaptureMode", (int *mode))                   \
	X(isCapturing, "cuStreamIsCapturing", (void *stream, int *status))                         \
	X(streamCreate, "cuStreamCreate", (void **stream, unsigned flags))                         \
	X(streamSynchronize, "cuStreamSynchronize", (void *stream))                                \
	X(hostAlloc, "cuMemHostAlloc", (void **out, size_t bytes, unsigned flags))                 \
	X(copy, "cuMemcpyHtoDAsync_v2",                                                            \
	  (symmAddress dst, const void *src, size_t bytes, void *stream))                          \
	X(copyRows, "cuMemcpy2DAsync_v2", (const struct symmCopy *copy, void *stream))             \
	X(clear, "cuMemsetD8Async",                                                                \
	  (symmAddress dst, unsigned char value, size_t bytes, void *stream))                      \
	X(libraryLoadData, "cuLibraryLoadData",                                                    \
	  (void **out, const void *code, int *jitOptions, void **jitValues, unsigned jitCount,     \
	   int *options, void **values, unsigned count))                                           \
	X(libraryGetKernel, "cuLibraryGetKernel", (void **out, void *library, const char *name))   \
	X(kernelGetFunction, "cuKernelGetFunction", (void **out, void *kernel))                    \
	X(launch, "cuLaunchKernel",                                                                \
	  (void *function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,        \
	   unsigned blockY, unsigned blockZ, unsigned sharedBytes, void *stream,                   \
	   void **parameters, void **extra))

struct symmDriver {
#define SYMM_DRIVER_MEMBER(name, symbol, args) int(*name) args;
	SYMM_DRIVER_CALLS(SYMM_DRIVER_MEMBER)
#undef SYMM_DRIVER_MEMBER
	int (*funcLoad)(void *function); /* cuFuncLoad; NULL before CUDA 12.4 */
};

/* The driver's calls, loaded once; or NULL and the reason. */
const struct symmDriver *symmDriverLoad(const char **why);

#endif
