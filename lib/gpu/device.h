/* SPDX-License-Identifier: BSD-3-Clause */
/* device.h - the GPU of a communicator, or none: host memory and host threads */
#ifndef GIN_LIB_DEVICE_H
#define GIN_LIB_DEVICE_H

#include "cuda.h"

struct device {
	const struct cuda *cuda; /* NULL: no GPU */
	int ordinal;		 /* GIN_DEVICE_NONE without a GPU */
	cuDevice id;
	cuUuid uuid;
	cuContext context; /* the primary context, retained for the life of the process */
	int numaNode;	   /* of the host memory closest to the GPU; -1: not known */
	char pciBusId[32]; /* "0000:1B:00.0"; "": not known, or no GPU */
	char name[96];	   /* "host threads" without a GPU */
};

/*
 * `wanted` is an ordinal, GIN_DEVICE_AUTO or GIN_DEVICE_NONE. GIN_DEVICE_AUTO: the device of the
 * calling thread's current context, otherwise localRank modulo the number of devices, otherwise
 * none.
 */
ginResult_t deviceOpen(struct device *d, int wanted, int localRank);

/* Why libgin cannot use this GPU, or NULL when it can. */
const char *deviceUnusable(const struct cuda *cuda, cuDevice id);

/* Between the two calls, the device's context is current and no call breaks a stream capture. */
struct deviceScope {
	int captureMode;
};

ginResult_t deviceEnter(const struct device *d, struct deviceScope *scope);
void deviceLeave(const struct device *d, const struct deviceScope *scope);

/*
 * Writes device memory and waits only for the copy: not for kernels, and no SM is used. `src` NULL
 * writes zeros. The caller has entered the scope.
 */
ginResult_t deviceWrite(const struct device *d, void *dst, const void *src, size_t bytes);

/* Reads device memory, which kernels may be writing, and waits only for the copy. */
ginResult_t deviceRead(const struct device *d, void *dst, const void *src, size_t bytes);

/* Allocates memory of the GPU and maps it; rounds `span` up to the granularity of the GPU. */
ginResult_t deviceMap(const struct device *d, size_t *span, void **ptr);

/* Maps memory that another rank exported. `fd` stays the caller's. */
ginResult_t deviceImport(const struct device *d, int fd, size_t span, void **ptr);
void deviceUnmap(const struct device *d, void *ptr, size_t span);

/*
 * Pieces of one size, mapped side by side; each is an allocation of the driver. Memory of several
 * pieces is a list of runs that ends with a count of 0, or after DEVICE_RUNS.
 */
struct deviceRun {
	uint64_t bytes, count;
};
#define DEVICE_RUNS 4

/* The number of pieces; a list without a run is one piece. */
uint64_t devicePieces(const struct deviceRun *run);

/* The bytes of piece `i`, and its offset in the memory. */
uint64_t devicePieceAt(const struct deviceRun *run, uint64_t i, uint64_t *offset);

/*
 * deviceImportPiece() opens an allocation that another rank exported; `fd` stays the caller's.
 * deviceMapPieces() maps the pieces side by side, with the bytes that the runs give, and does not
 * release the allocations.
 */
ginResult_t deviceImportPiece(const struct device *d, int fd, cuAllocation *out);
ginResult_t deviceMapPieces(const struct device *d, const struct deviceRun *run,
			    const cuAllocation *piece, void **ptr);
void deviceUnmapPieces(const struct device *d, void *ptr, const struct deviceRun *run);

/*
 * Pins host memory for all GPUs of this process: kernels use the address `ptr`, like CPUs.
 * Unpinning waits for running kernels.
 */
ginResult_t devicePin(const struct device *d, void *ptr, size_t span);
void deviceUnpin(const struct device *d, void *ptr);

/* Fails when this GPU has the pinned memory, which another GPU may have pinned, not at `ptr`. */
ginResult_t deviceCheckPinned(const struct device *d, void *ptr);

#endif
