/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * driver.h - a CUDA driver with streams, for libgin-nccl.so alone
 *
 * It has the calls of products/nccl/lib/driver.h, and none that libgin.so needs: libgin's ranks are
 * host threads. A stream is a thread, memory is host memory. The tests call the driver's functions,
 * and the following ones.
 */
#ifndef GIN_NCCL_TEST_FAKE_DRIVER_H
#define GIN_NCCL_TEST_FAKE_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

int cuStreamCreate(void **stream, unsigned flags);
int cuStreamDestroy_v2(void *stream);

/* The driver refuses later copies on the stream, by the thread that uses the stream. */
void fakeRefuse(void *stream);

/* The stream is being captured from now on, or not any more. */
void fakeCapture(void *stream, int captures);

/* Later work on the stream waits for fakeOpen(). */
void fakeGate(void *stream);
void fakeOpen(void);

/* Waits until the stream has done everything. */
void fakeDrain(void *stream);

/* From now on no stream does anything, and questions about events fail. */
void fakeFault(void);

/* How often the primary context is retained now. */
int fakeRetained(void);

/* Events that are not destroyed. */
int fakeEvents(void);

/* Calls that break a capture of a stream, from threads whose capture mode is not relaxed. */
int fakeUnsafe(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
