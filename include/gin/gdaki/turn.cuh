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
 *   E     ginEndRaise              ginDoneLook            what was reserved, and said of it, before
 *
 * W, F and E are between threads that share the queue: those of the GPU, or of one block.
 */
#ifndef GIN_TURN_CUH
#define GIN_TURN_CUH

#include "../detail/memory.cuh"
#include "../options.cuh"
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

/* Relaxed: where the turn lies next, by a thread that has the queue for itself. */
GIN_FN void ginTurnLay(uint32_t *word)
{
#if GIN_ON_GPU
	asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(GIN_TURN) : "memory");
#else
	__atomic_store_n(word, GIN_TURN, __ATOMIC_RELAXED);
#endif
}

/* Stands between what the NIC reads and what tells it so; memory of this GPU alone: `near`. */
GIN_FN void ginNicFence(bool near)
{
#if GIN_ON_GPU
	if (near)
		asm volatile("fence.acq_rel.gpu;" ::: "memory");
	else
		asm volatile("fence.acq_rel.sys;" ::: "memory");
#else
	(void)near;
#endif
}

/*
 * N, release end; observer: the NIC. ginNicFence comes before it, between the WQEs, of whoever has
 * handed them over, and the record, by which the NIC may go at any time. The NIC reads this GPU's
 * memory through its L2, which is where the device's scope ends: where the queue is there, `near`, no
 * fence of the system is needed, and none at all for who has released all of them to the device by
 * handing over. Sources elsewhere have been released by their posters.
 *
 * None stands between record and doorbell, each of which would do: it would cost 0.4 us
 * (docs/performance.md). A NIC that drops the doorbell and then finds an older record has all the same
 * to be told again.
 */
GIN_FN void ginNicRing(uint32_t *record, uint32_t next, uint64_t *doorbell, uint64_t ring)
{
#if GIN_ON_GPU
	asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(record), "r"(next) : "memory");
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

/* F and E, acquire end. What it returns of `done` comes before every later look at the CQE. */
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

/*
 * F, release end: raises `done`, and returns true, when it is still `from`. It does not go back, and
 * nobody else raises it while it has GIN_SEND_CREDITING.
 */
GIN_FN bool ginDoneRaise(uint64_t *done, uint64_t from, uint64_t to, ginSharing sharing)
{
	if (sharing != ginSharingThread)
		return ginLocalCas(done, from, to);
	ginLocalStore(done, to);
	return true;
}

/* F, release end, by who has set GIN_SEND_CREDITING: it goes, and the counters are raised. */
GIN_FN void ginDoneCredited(uint64_t *done, uint64_t to)
{
#if GIN_ON_GPU
	asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(done), "l"(to) : "memory");
#else
	__atomic_store_n(done, to, __ATOMIC_RELEASE);
#endif
}

/* Relaxed: which counter the WQE of the slot has; W, N and K carry it to who credits it. */
GIN_FN void ginSlotCounterSet(uint32_t *slot, uint32_t counter)
{
#if GIN_ON_GPU
	asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(slot), "r"(counter) : "memory");
#else
	__atomic_store_n(slot, counter, __ATOMIC_RELAXED);
#endif
}

/* By who credits: the counter, which he clears, or 0. F carries that to who uses the slot next. */
GIN_FN uint32_t ginSlotCounterTake(uint32_t *slot)
{
#if GIN_ON_GPU
	uint32_t counter;
	asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(counter) : "l"(slot) : "memory");
#else
	uint32_t counter = __atomic_load_n(slot, __ATOMIC_RELAXED);
#endif
	if (counter)
		ginSlotCounterSet(slot, 0);
	return counter;
}

/* Relaxed: all who set it set the same. As the slots' counters. */
GIN_FN void ginPointerSet(uint64_t **place, uint64_t *pointer)
{
#if GIN_ON_GPU
	asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(place), "l"(pointer) : "memory");
#else
	__atomic_store_n(place, pointer, __ATOMIC_RELAXED);
#endif
}

GIN_FN uint64_t *ginPointerOf(uint64_t *const *place)
{
#if GIN_ON_GPU
	uint64_t *pointer;
	asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(pointer) : "l"(place) : "memory");
	return pointer;
#else
	return __atomic_load_n(place, __ATOMIC_RELAXED);
#endif
}

/* E, release end: an index, up to which something was posted. */
GIN_FN void ginEndRaise(uint64_t *end, uint64_t to)
{
#if GIN_ON_GPU
	asm volatile("red.release.gpu.global.max.u64 [%0], %1;" ::"l"(end), "l"(to) : "memory");
#else
	ginLocalMax(end, to);
#endif
}

/* A word that only this thread writes; others may look at it. */
GIN_FN uint64_t ginOwnLoad(const uint64_t *word)
{
#if GIN_ON_GPU
	return *word;
#else
	return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

#endif
