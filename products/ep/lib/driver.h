/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver.h - the calls of the CUDA driver that libgin-ep makes, by dlopen
 *
 * Declared here and not by <cuda.h>: the library is built with and without the CUDA toolkit.
 */
#ifndef GIN_EP_DRIVER_H
#define GIN_EP_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef void *epContext;
typedef void *epLibrary;
typedef void *epFunction;

/* CUlaunchConfig */
struct epLaunchConfig {
	unsigned grid[3], block[3], sharedBytes;
	void *stream;
	void *attributes;
	unsigned attributeCount;
};

/* Every call returns CUresult, 0: success. The second column is the name for dlsym(). */
#define EP_DRIVER_CALLS(X)                                                                         \
	X(getErrorString, "cuGetErrorString", (int result, const char **out))                      \
	X(deviceGet, "cuDeviceGet", (int *out, int ordinal))                                       \
	X(deviceGetAttribute, "cuDeviceGetAttribute", (int *out, int which, int device))           \
	X(primaryRetain, "cuDevicePrimaryCtxRetain", (epContext * out, int device))                \
	X(primaryRelease, "cuDevicePrimaryCtxRelease_v2", (int device))                            \
	X(ctxPush, "cuCtxPushCurrent_v2", (epContext context))                                     \
	X(ctxPop, "cuCtxPopCurrent_v2", (epContext * out))                                         \
	X(libraryLoadData, "cuLibraryLoadData",                                                    \
	  (epLibrary * out, const void *code, int *jitOptions, void **jitValues,                   \
	   unsigned jitCount, int *options, void **values, unsigned count))                        \
	X(libraryUnload, "cuLibraryUnload", (epLibrary library))                                   \
	X(libraryGetKernel, "cuLibraryGetKernel",                                                  \
	  (epFunction * out, epLibrary library, const char *name))                                 \
	X(kernelGetFunction, "cuKernelGetFunction", (epFunction * out, epFunction kernel))         \
	X(kernelSetAttribute, "cuKernelSetAttribute",                                              \
	  (int which, int value, epFunction kernel, int device))                                   \
	X(launchKernelEx, "cuLaunchKernelEx",                                                      \
	  (const struct epLaunchConfig *config, epFunction kernel, void **parameters,              \
	   void **extra))                                                                          \
	X(streamSynchronize, "cuStreamSynchronize", (void *stream))                                \
	X(copyToDevice, "cuMemcpyHtoD_v2",                                                         \
	  (unsigned long long dst, const void *src, size_t bytes))                                 \
	X(memset8, "cuMemsetD8_v2", (unsigned long long dst, unsigned char value, size_t bytes))

struct epDriver {
#define EP_DRIVER_MEMBER(name, symbol, args) int(*name) args;
	EP_DRIVER_CALLS(EP_DRIVER_MEMBER)
#undef EP_DRIVER_MEMBER
	int (*funcLoad)(epFunction function); /* cuFuncLoad; NULL before CUDA 12.4 */
};

/* The driver's calls, loaded once per process; or NULL and the reason. Any thread. */
const struct epDriver *epDriverLoad(const char **why);

#endif
