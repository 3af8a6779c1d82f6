/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu.h - a CUDA driver whose GPU's memory a CPU cannot access, as it is with real ones
 *
 * Each page is mapped twice: at the GPU's address without any rights, and elsewhere for threads
 * that act as kernels. Copies happen when a caller waits for their stream, and not before.
 */
#ifndef MLX5DEV_FAKE_GPU_H
#define MLX5DEV_FAKE_GPU_H

#include <stddef.h>

/* Page-aligned, zeros; an address for the device. */
void *fakeGpuMemory(size_t bytes);

/* Where a CPU finds it. */
void *fakeGpuThere(const void *address);

/* Copies that were done. */
unsigned long fakeGpuCopies(void);

#endif
