/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * turn.cuh - the memory accesses of a send queue that other threads or the NIC take part in
 *
 * As memory.cuh, whose rules hold here too. The labels:
 *
 *   edge  publishes (release)     observes (acquire)     what it carries
 *   W     ginTurnMark              ginTurnMark, ginTurnTake,
 *         ginTurnPutDown           ginTurnPickUp          WQEs, and what who has the turn has written
 *   N     ginNicRing               the NIC                WQEs, their sources, then the record
 *   K     the NIC: a CQE           ginCqeObserve          its reads of WQEs and sources
 *   F     ginDoneRaise             ginDoneLook            K, from thread to thread
 *
 * W and F are between threads that share the queue: those of the GPU, or of one block.
 */
#ifndef GIN_TURN_CUH
#define GIN_TURN_CUH

#include "memory.cuh"
#include "options.cuh"
#include "send_queue.h"

/* W, both ends: sets the word, and returns what it was. */
GIN_FN uint32_t ginTurnMark(uint32_t *word, uint32_t mark, ginSharing sharing)
{
#if GIN_ON_GPU
	uint32_t old;
	if (sharing == ginSharingCta)
		asm volatile("atom.acq_rel.cta.global.exch.b32 %0, [%1], %2;"
			     : "=r"(old)
			     : "l"(word), "r"(mark)
			     : "memory");
	else
		asm volatile("atom.acq_rel.gpu.global.exch.b32 %0, [%1], %2;"
			     : "=r"(old)
			     : "l"(word), "r"(mark)
			     : "memory");
	return old;
#else
	(void)sharing;
	return __atomic_exchange_n(word, mark, __ATOMIC_ACQ_REL);
#endif
}

/* Sets the word to `value` when it is `compare`, and returns what it was. */
GIN_FN uint32_t ginTurnCas(uint32_t *word, uint32_t compare, uint32_t value, ginSharing sharing)
{
#if GIN_ON_GPU
	uint32_t old;
	if (sharing == ginSharingCta)
		asm volatile("atom.acq_rel.cta.global.cas.b32 %0, [%1], %2, %3;"
			     : "=r"(old)
			     : "l"(word), "r"(compare), "r"(value)
			     : "memory");
	else
		asm volatile("atom.acq_rel.gpu.global.cas.b32 %0, [%1], %2, %3;"
			     : "=r"(old)
			     : "l"(word), "r"(compare), "r"(value)
			     : "memory");
	return old;
#else
	(void)sharing;
	__atomic_compare_exchange_n(word, &compare, value, false, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
	return compare;
#endif
}

/* W, release end, by who has the turn. False: the word is marked, and he still has it. */
GIN_FN bool ginTurnPutDown(uint32_t *word, ginSharing sharing)
{
	return ginTurnCas(word, 0, GIN_TURN, sharing) == 0;
}

/* W, acquire end. False: the turn is not there. */
GIN_FN bool ginTurnPickUp(uint32_t *word, ginSharing sharing)
{
	return ginTurnCas(word, GIN_TURN, 0, sharing) == GIN_TURN;
}

/*
 * W, acquire end, by who has the turn: the mark in the word, which he clears, or 0. On a GPU it is
 * relaxed, and the fence of ginNicRing comes behind it, or that of ginTurnTaken.
 */
GIN_FN uint32_t ginTurnTake(uint32_t *word)
{
#if GIN_ON_GPU
	uint32_t mark;
	asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(mark) : "l"(word) : "memory");
	if (mark)
		asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(0) : "memory");
	return mark;
#else
	uint32_t mark = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	if (mark)
		__atomic_store_n(word, 0, __ATOMIC_RELAXED);
	return mark;
#endif
}

/* W, acquire end behind ginTurnTake, where ginNicRing does not follow. */
GIN_FN void ginTurnTaken()
{
#if GIN_ON_GPU
	asm volatile("fence.acq_rel.gpu;" ::: "memory");
#endif
}

/* Relaxed: by who has found the turn in it. W carries it to those who use the word again. */
GIN_FN void ginTurnClear(uint32_t *word)
{
#if GIN_ON_GPU
	asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(0) : "memory");
#else
	__atomic_store_n(word, 0, __ATOMIC_RELAXED);
#endif
}

/*
 * N, release end; observer: the NIC. The first fence stands between the WQEs, of whoever has handed
 * them over, and the record, by which the NIC may go at any time; the second between the record and
 * the doorbell, so that a NIC that drops the doorbell does not find an older record.
 */
GIN_FN void ginNicRing(uint32_t *record, uint32_t next, uint64_t *doorbell, uint64_t ring)
{
#if GIN_ON_GPU
	asm volatile("fence.acq_rel.sys;" ::: "memory");
	asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(record), "r"(next) : "memory");
	asm volatile("fence.acq_rel.sys;" ::: "memory");
	asm volatile("st.mmio.relaxed.sys.global.u64 [%0], %1;" ::"l"(doorbell), "l"(ring)
		     : "memory");
#else
	__atomic_store_n(record, next, __ATOMIC_RELEASE);
	__atomic_store_n(doorbell, ring, __ATOMIC_RELEASE);
#endif
}

/* K, acquire end: the NIC has read the WQEs that the CQE's state tells of, and their sources. */
GIN_FN uint32_t ginCqeObserve(const uint32_t *state)
{
#if GIN_ON_GPU
	uint32_t value;
	asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(state) : "memory");
	return value;
#else
	return __atomic_load_n(state, __ATOMIC_ACQUIRE);
#endif
}

/* Relaxed: it is right with the CQE's state, or it is of a later one. */
GIN_FN uint32_t ginCqeWord(const uint32_t *word)
{
#if GIN_ON_GPU
	uint32_t value;
	asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
	return value;
#else
	return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

/* F, acquire end. What it returns comes before every later look at the CQE. */
GIN_FN uint64_t ginDoneLook(const uint64_t *done, ginSharing sharing)
{
#if GIN_ON_GPU
	if (sharing == ginSharingThread)
		return *done;
	uint64_t value;
	asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(done) : "memory");
	return value;
#else
	(void)sharing;
	return __atomic_load_n(done, __ATOMIC_ACQUIRE);
#endif
}

/* F, release end. It does not go back: when it is not `from` any more, somebody has raised it. */
GIN_FN void ginDoneRaise(uint64_t *done, uint64_t from, uint64_t to, ginSharing sharing)
{
	if (sharing == ginSharingThread)
		*done = to;
	else
		ginLocalCas(done, from, to);
}

#endif
