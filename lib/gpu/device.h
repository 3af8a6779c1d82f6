/* SPDX-License-Identifier: BSD-3-Clause */
/* device.h - the GPU of a communicator, or none: host memory and host threads */
#ifndef GIN_LIB_DEVICE_H
#define GIN_LIB_DEVICE_H

#include "cuda.h"

struct device {
	const struct cuda *cuda; /* NULL: no GPU */
	int ordinal;		 /* GIN_DEVICE_NONE without */
	cuDevice id;
	cuUuid uuid;
	cuContext context; /* the primary one, retained for the life of the process */
	int numaNode;	   /* of the host, near to the GPU; -1: not known */
	char pciBusId[32]; /* "0000:1B:00.0"; "": not known, or no GPU */
	char name[96];	   /* "host threads" without */
};

/*
 * `wanted` is an ordinal, GIN_DEVICE_AUTO or GIN_DEVICE_NONE. Auto: the calling thread's current
 * context's device, else localRank modulo the number of devices, else none.
 */
ginResult_t deviceOpen(struct device *d, int wanted, int localRank);

/* Why libgin cannot use this GPU, or NULL when it can. */
const char *deviceUnusable(const struct cuda *cuda, cuDevice id);

/* Between enter and leave the device's context is current, and no call breaks a capture. */
struct deviceScope {
	int captureMode;
};

ginResult_t deviceEnter(const struct device *d, struct deviceScope *scope);
void deviceLeave(const struct device *d, const struct deviceScope *scope);

/*
 * Writes device memory and waits for the copy alone: no kernel is waited for, and no SM used. `src`
 * NULL writes zeros. The scope is entered.
 */
ginResult_t deviceWrite(const struct device *d, void *dst, const void *src, size_t bytes);

/* The same the other way: reads device memory, also what kernels write meanwhile. */
ginResult_t deviceRead(const struct device *d, void *dst, const void *src, size_t bytes);

/* Physical memory of the GPU, mapped for it; `span` is rounded up to what the GPU can map. */
ginResult_t deviceMap(const struct device *d, size_t *span, void **ptr);

/* Maps memory that another rank exported by `fd`, which stays the caller's. */
ginResult_t deviceImport(const struct device *d, int fd, size_t span, void **ptr);
void deviceUnmap(const struct device *d, void *ptr, size_t span);

/*
 * Pins host memory for all GPUs of this process: kernels load and store it at `ptr`, as CPUs do.
 * Unpinning waits for kernels that run.
 */
ginResult_t devicePin(const struct device *d, void *ptr, size_t span);
void deviceUnpin(const struct device *d, void *ptr);

/* Is pinned memory, of another GPU's rank say, at `ptr` for this GPU as well? */
ginResult_t deviceCheckPinned(const struct device *d, void *ptr);

#endif
