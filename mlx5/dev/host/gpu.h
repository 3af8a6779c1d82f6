/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu.h - memory of GPUs, which a CPU cannot load from: by the CUDA driver of the program
 *
 * It is registered by its address, as with nvidia-peermem. A program that has not loaded the driver
 * has none. Each access is done when the call returns, so that they come one after the other.
 */
#ifndef MLX5DEV_GPU_H
#define MLX5DEV_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gpu_range { GPU_NO_MEMORY, GPU_MEMORY, GPU_REFUSED };

/* Whether it is a GPU's. If so, it can be accessed until gpuForget() is called as often. */
enum gpu_range gpuTake(uint64_t address, uint64_t bytes);
void gpuForget(uint64_t address, uint64_t bytes);

/* Of what gpuTake() has taken. */
bool gpuHas(uint64_t address);

void gpuRead(void *to, uint64_t from, size_t bytes);
void gpuWrite(uint64_t to, const void *from, size_t bytes);
/* As a NIC's: atomic against what this device does alone, and no kernel's. */
bool gpuExchange(uint64_t at, size_t bytes, uint64_t *seen, uint64_t value);

#endif
