/* SPDX-License-Identifier: BSD-3-Clause */
/* driver.h - the calls of the CUDA driver that libgin-nccl.so makes, by dlopen */
#ifndef GIN_NCCL_DRIVER_H
#define GIN_NCCL_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef unsigned long long cuAddress;

#define NCCL_DRIVER_CALLS(X)                                                                       \
	X(init, "cuInit", (unsigned flags))                                                        \
	X(ctxGetCurrent, "cuCtxGetCurrent", (void **context))                                      \
	X(ctxGetDevice, "cuCtxGetDevice", (int *ordinal))                                          \
	X(ctxPush, "cuCtxPushCurrent_v2", (void *context))                                         \
	X(ctxPop, "cuCtxPopCurrent_v2", (void **context))                                          \
	X(primaryRetain, "cuDevicePrimaryCtxRetain", (void **context, int ordinal))                \
	X(primaryRelease, "cuDevicePrimaryCtxRelease_v2", (int ordinal))                           \
	X(exchangeCaptureMode, "cuThreadExchangeStreamCaptureMode", (int *mode))                   \
	X(deviceGetAttribute, "cuDeviceGetAttribute", (int *out, int which, int ordinal))          \
	X(streamCreate, "cuStreamCreate", (void **stream, unsigned flags))                         \
	X(streamSynchronize, "cuStreamSynchronize", (void *stream))                                \
	X(streamDestroy, "cuStreamDestroy_v2", (void *stream))                                     \
	X(streamIsCapturing, "cuStreamIsCapturing", (void *stream, int *state))                    \
	X(streamWrite32, "cuStreamWriteValue32_v2",                                                \
	  (void *stream, cuAddress at, uint32_t value, unsigned flags))                            \
	X(streamWait32, "cuStreamWaitValue32_v2",                                                  \
	  (void *stream, cuAddress at, uint32_t value, unsigned flags))                            \
	X(eventCreate, "cuEventCreate", (void **event, unsigned flags))                            \
	X(eventRecord, "cuEventRecord", (void *event, void *stream))                               \
	X(eventQuery, "cuEventQuery", (void *event))                                               \
	X(eventDestroy, "cuEventDestroy_v2", (void *event))                                        \
	X(streamWaitEvent, "cuStreamWaitEvent", (void *stream, void *event, unsigned flags))       \
	X(copy, "cuMemcpyAsync", (cuAddress dst, cuAddress src, size_t bytes, void *stream))       \
	X(fill, "cuMemsetD8Async", (cuAddress dst, unsigned char value, size_t bytes, void *stream))

struct ncclDriver {
#define NCCL_DRIVER_FIELD(name, symbol, args) int(*name) args;
	NCCL_DRIVER_CALLS(NCCL_DRIVER_FIELD)
#undef NCCL_DRIVER_FIELD
};

enum {
	ncclDriverNonBlocking = 1,     /* CU_STREAM_NON_BLOCKING */
	ncclDriverNoTiming = 2,	       /* CU_EVENT_DISABLE_TIMING */
	ncclDriverWaitGreater = 0,     /* CU_STREAM_WAIT_VALUE_GEQ */
	ncclDriverNoCapture = 0,       /* CU_STREAM_CAPTURE_STATUS_NONE */
	ncclDriverRelaxed = 2,	       /* CU_STREAM_CAPTURE_MODE_RELAXED */
	ncclDriverClockKilohertz = 13, /* CU_DEVICE_ATTRIBUTE_CLOCK_RATE */
	ncclDriverNotReady = 600       /* CUDA_ERROR_NOT_READY */
};

/* NULL: there is no driver, or it lacks a call. */
const struct ncclDriver *ncclDriverLoad(void);

/* The device of the calling thread's current context, or GIN_DEVICE_AUTO. */
int ncclDriverCurrent(void);

/*
 * Fills memory of GPU `device`, or of the host for GIN_DEVICE_NONE, with zeros, and copies `bytes`
 * bytes of host memory to it. Waits for both. Returns 0, or -1.
 */
int ncclDriverClear(int device, void *memory, size_t bytes);
int ncclDriverWrite(int device, void *memory, const void *from, size_t bytes);

#endif
