/* SPDX-License-Identifier: BSD-3-Clause */
/* cpu_copy.c - copies bytes that others read during the copy */
#include "cpu_copy.h"

#include <stdint.h>
#include <string.h>

/* Makes one store of 4 bytes if address and length allow that, otherwise of 1. Returns its size. */
static size_t copyOne(char *to, const char *from, size_t bytes)
{
	uintptr_t at = (uintptr_t)to;

	if (bytes >= 4 && at % 4 == 0) {
		uint32_t half;
		memcpy(&half, from, 4);
		__atomic_store_n((uint32_t *)(void *)to, half, __ATOMIC_RELAXED);
		return 4;
	}
	__atomic_store_n(to, *from, __ATOMIC_RELAXED);
	return 1;
}

/* `to` is aligned to 8 bytes. Returns the bytes of the whole words. */
static size_t copyWords(char *to, const char *from, size_t bytes)
{
	size_t whole = bytes / 8 * 8;
	uint64_t word;

	for (size_t at = 0; at < whole; at += 8) {
		memcpy(&word, from + at, 8);
		__atomic_store_n((uint64_t *)(void *)(to + at), word, __ATOMIC_RELAXED);
	}
	return whole;
}

void copyByCpu(char *to, const char *from, size_t bytes)
{
	size_t done = 0;

	while (done < bytes && (uintptr_t)(to + done) % 8)
		done += copyOne(to + done, from + done, bytes - done);
	done += copyWords(to + done, from + done, bytes - done);
	while (done < bytes)
		done += copyOne(to + done, from + done, bytes - done);
}
