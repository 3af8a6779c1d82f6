/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory.h"

#include <endian.h>
#include <string.h>
#include <sys/mman.h>

#include "gpu.h"

#ifdef __SANITIZE_THREAD__
void AnnotateHappensBefore(const char *file, int line, const volatile void *address);
#endif

static void *pointer(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static void plainRead(void *to, uint64_t from, size_t bytes)
{
	memcpy(to, pointer(from), bytes);
}

static bool isWord(uint64_t address, size_t bytes)
{
	return (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) && address % bytes == 0;
}

static void storeWord(uint64_t to, const void *from, size_t bytes)
{
	uint64_t value = 0;

	memcpy(&value, from, bytes);
	if (bytes == 8)
		__atomic_store_n((uint64_t *)pointer(to), value, __ATOMIC_RELEASE);
	else if (bytes == 4)
		__atomic_store_n((uint32_t *)pointer(to), (uint32_t)value, __ATOMIC_RELEASE);
	else if (bytes == 2)
		__atomic_store_n((uint16_t *)pointer(to), (uint16_t)value, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint8_t *)pointer(to), (uint8_t)value, __ATOMIC_RELEASE);
}

/* Every aligned word of 2, 4 or 8 bytes in one store, as a PCIe device writes it. */
static void copyWhole(uint64_t to, const char *from, size_t bytes)
{
	for (size_t at = 0, width; at < bytes; at += width) {
		for (width = 8; (to + at) % width || width > bytes - at;)
			width /= 2;
		storeWord(to + at, from + at, width);
	}
}

/* The last byte comes last: programs poll it. */
static void plainWrite(uint64_t to, const void *from, size_t bytes)
{
	if (!bytes)
		return;
	if (isWord(to, bytes)) {
		storeWord(to, from, bytes);
		return;
	}
	size_t tail = bytes > 8 && (to + bytes) % 8 == 0 ? 8 : 1;
	copyWhole(to, from, bytes - tail);
	storeWord(to + bytes - tail, (const char *)from + bytes - tail, tail);
}

static bool plainExchange(uint64_t at, size_t bytes, uint64_t *seen, uint64_t value)
{
	uint32_t expected = (uint32_t)*seen;

	if (bytes == 8)
		return __atomic_compare_exchange_n((uint64_t *)pointer(at), seen, value, false,
						   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	bool done = __atomic_compare_exchange_n((uint32_t *)pointer(at), &expected, (uint32_t)value,
						false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	*seen = expected;
	return done;
}

void memoryPublishes(uint64_t address)
{
#ifdef __SANITIZE_THREAD__
	AnnotateHappensBefore(__FILE__, __LINE__, pointer(address));
#else
	(void)address;
#endif
}

void memoryRead(void *to, uint64_t from, size_t bytes)
{
	if (gpuHas(from))
		gpuRead(to, from, bytes);
	else
		plainRead(to, from, bytes);
}

void memoryWrite(uint64_t to, const void *from, size_t bytes)
{
	if (gpuHas(to))
		gpuWrite(to, from, bytes);
	else
		plainWrite(to, from, bytes);
}

bool memoryExchange(uint64_t at, size_t bytes, uint64_t *seen, uint64_t value)
{
	return gpuHas(at) ? gpuExchange(at, bytes, seen, value)
			  : plainExchange(at, bytes, seen, value);
}

/* msync() with nothing to do says whether pages are mapped. */
static bool isMapped(uint64_t address, uint64_t bytes)
{
	uint64_t first = address & ~4095ull;

	return !msync(pointer(first), address + bytes - first, MS_ASYNC);
}

bool memoryTake(uint64_t address, uint64_t bytes)
{
	switch (gpuTake(address, bytes)) {
	case GPU_MEMORY:
		return true;
	case GPU_REFUSED:
		return false;
	default:
		return isMapped(address, bytes);
	}
}

void memoryForget(uint64_t address, uint64_t bytes)
{
	gpuForget(address, bytes);
}

static uint32_t plainRecord(uint64_t address)
{
	return be32toh(__atomic_load_n((uint32_t *)pointer(address), __ATOMIC_ACQUIRE));
}

uint32_t memoryRecord(uint64_t address)
{
	uint32_t word;

	if (!gpuHas(address))
		return plainRecord(address);
	gpuRead(&word, address, sizeof(word));
	return be32toh(word);
}
