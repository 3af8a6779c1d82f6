/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.h - the device's reads and writes of registered memory
 *
 * Addresses are the program's. The host's memory is accessed as it is, that of GPUs by their driver
 * (gpu.h).
 */
#ifndef MLX5DEV_MEMORY_H
#define MLX5DEV_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether the program has all of that, as far as the host can tell. Then it is to be forgotten. */
bool memoryTake(uint64_t address, uint64_t bytes);
void memoryForget(uint64_t address, uint64_t bytes);

/* Read bytes were published before: by a record or a doorbell that the device has read. */
void memoryRead(void *to, uint64_t from, size_t bytes);
/* Ordered before all that come after; 8 bytes or fewer, aligned, at once. */
void memoryWrite(uint64_t to, const void *from, size_t bytes);
/* Of 4 or 8 bytes; false with what is there in *seen when that is not `expected`. */
bool memoryExchange(uint64_t at, size_t bytes, uint64_t *seen, uint64_t value);

/*
 * A program may look at `address` for what is written next there or around: ThreadSanitizer takes a
 * load of another address than the store's for something else.
 */
void memoryPublishes(uint64_t address);

/* A big-endian word that the program writes at the same time: a doorbell record. */
uint32_t memoryRecord(uint64_t address);

#endif
