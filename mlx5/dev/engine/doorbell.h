/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doorbell.h - doorbell pages (UARs): shared memory that programs map, and the registers in them
 *
 * By trap, programs have the pages read-only: each store faults, is done through the device's own
 * mapping, and rings in the thread that stored. By polling, the device's thread looks into the
 * registers, and a register is of one queue pair, for a second store would hide the first.
 */
#ifndef MLX5DEV_DOORBELL_H
#define MLX5DEV_DOORBELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DOORBELL_PAGE_BYTES = 4096, DOORBELL_PAGES = 8192, DOORBELL_PAGE_ID = 0x40 };
enum { DOORBELL_REGISTER = 0x800, DOORBELL_REGISTER_BYTES = 0x100, DOORBELL_CQ = 0x20 };

void doorbellOpen(void);

/* A page of that device, or -1. */
int doorbellPage(int device);
void doorbellPageFree(uint32_t page);

/* As mmap() of pages from `first` on: in *address what programs get. */
void *doorbellMap(void *where, size_t bytes, int protection, int flags, uint32_t first);

/* The device's own mapping of all pages. */
uint8_t *doorbellMemory(void);

/* `bytes` were stored at that place. */
void doorbellStored(uint32_t page, uint32_t offset, size_t bytes);

/* Checks all pages in use; returns whether one rang. */
bool doorbellPoll(void);

#endif
