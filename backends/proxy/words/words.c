/* SPDX-License-Identifier: BSD-3-Clause */
/* words.c - changes a word in memory that CPUs of this process reach */
#include "words.h"

#include "gin/proxy/descriptor.h"

static uint64_t changeWord8(uint8_t op, uint64_t *word, uint64_t operand, uint64_t compare)
{
	if (op == ginOpFetchAdd)
		return __atomic_fetch_add(word, operand, __ATOMIC_ACQ_REL);
	if (op == ginOpSwap)
		return __atomic_exchange_n(word, operand, __ATOMIC_ACQ_REL);
	__atomic_compare_exchange_n(word, &compare, operand, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	return compare;
}

static uint64_t changeWord4(uint8_t op, uint32_t *word, uint32_t operand, uint32_t compare)
{
	if (op == ginOpFetchAdd)
		return __atomic_fetch_add(word, operand, __ATOMIC_ACQ_REL);
	if (op == ginOpSwap)
		return __atomic_exchange_n(word, operand, __ATOMIC_ACQ_REL);
	__atomic_compare_exchange_n(word, &compare, operand, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
	return compare;
}

/* A, both ends. The engine of the poster publishes the old value: R, by publishOldValue(). */
static uint64_t changeWord(uint8_t op, void *at, uint64_t bytes, uint64_t operand, uint64_t compare)
{
	return bytes == 8 ? changeWord8(op, at, operand, compare)
			  : changeWord4(op, at, (uint32_t)operand, (uint32_t)compare);
}

/*
 * Raises a signal, or sets a barrier's word.
 * S and B, release ends: pair with ginSignalObserve and ginBarrierObserve.
 */
static void raise(uint8_t op, uint64_t *word, uint64_t operand)
{
	if (op == ginOpBarrier)
		__atomic_store_n(word, operand, __ATOMIC_RELEASE);
	else
		__atomic_fetch_add(word, operand, __ATOMIC_RELEASE);
}

uint64_t wordChange(uint8_t op, void *at, uint64_t bytes, uint64_t operand, uint64_t compare)
{
	if (op >= ginOpFetchAdd)
		return changeWord(op, at, bytes, operand, compare);
	raise(op, at, operand);
	return 0;
}
