/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pad.cuh - the steps of a call in the pads of a group
 *
 *   label  carries                       released by        acquired by
 *   X      what a rank did before it     symmRaise()        symmTake()
 *          raised a word of a pad
 */
#ifndef GIN_SYMM_PAD_CUH
#define GIN_SYMM_PAD_CUH

#include "gin_device.cuh"

#include "call.h"

/* X, release end. False: the owner has not taken the signal before. */
GIN_FN bool symmRaise(uint32_t *word)
{
	return ginCas<ginRelease, ginScopeSystem>(word, 0u, 1u) == 0;
}

/* X, acquire end. False: there is no signal. */
GIN_FN bool symmTake(uint32_t *word)
{
	return ginCas<ginAcquire, ginScopeSystem>(word, 1u, 0u) == 1;
}

/* Tries the steps to a peer that are not in *done. The steps that are left. */
GIN_FN uint32_t symmTry(const struct symmCall &c, uint32_t peer, uint8_t *done)
{
	const uint32_t row = c.channel * c.nRanks, todo = c.steps & ~*done;

	if (todo & SYMM_RAISE && symmRaise(c.pads[peer] + row + c.rank))
		*done |= SYMM_RAISE;
	if (todo & SYMM_TAKE && symmTake(c.pads[c.rank] + row + peer))
		*done |= SYMM_TAKE;
	return c.steps & ~*done;
}

/* The steps that this thread's peers have done: kept for the next call, or in *single. */
GIN_FN uint8_t *symmDone(const struct symmCall &c, uint32_t peer, uint8_t *single)
{
	return c.done ? c.done + peer : single;
}

/* Has the call nothing to do for this peer? */
GIN_FN bool symmLeavesOut(const struct symmCall &c, uint32_t peer)
{
	return c.count > 1 && peer == c.rank;
}

/* Tries the steps of this thread's peers once. The steps that are left. */
GIN_FN uint32_t symmPass(const struct symmCall &c, uint8_t *single)
{
	uint32_t left = 0;

	for (uint32_t i = ginThreadIndex(); i < c.count; i += ginBlockSize())
		if (!symmLeavesOut(c, c.first + i))
			left |= symmTry(c, c.first + i, symmDone(c, c.first + i, single));
	return left;
}

/* Why a wait that began at `began` ends; ginSuccess: it goes on. */
GIN_FN int32_t symmEnds(const struct symmCall &c, uint64_t began)
{
	const int32_t stop = ginLoad<ginRelaxed, ginScopeSystem>(&c.page->stop);

	if (stop != ginSuccess)
		return stop;
	return c.timeout && ginNow() - began >= c.timeout ? ginErrorTimeout : ginSuccess;
}

/* True if it is true on any thread of the block. A rank without a GPU calls with one thread. */
GIN_FN bool symmAny(bool mine)
{
#if GIN_ON_GPU
	return __syncthreads_or(mine);
#else
	return mine;
#endif
}

/* A barrier that is complete begins anew at the next call. One that has failed goes on. */
GIN_FN void symmForget(const struct symmCall &c)
{
	for (uint32_t peer = ginThreadIndex(); c.done && peer < c.nRanks; peer += ginBlockSize())
		c.done[peer] = 0;
}

/* What is missing, for the sentence; then, by the threads that waited, the record. */
GIN_FN void symmNote(const struct symmCall &c, uint8_t *single, int32_t result)
{
	uint8_t *missing = c.page->missing + c.record * c.nRanks;
	struct symmPage::symmRecord *record = &c.page->record[c.record];

	for (uint32_t peer = ginThreadIndex(); peer < c.nRanks; peer += ginBlockSize()) {
		const bool isOurs = peer - c.first < c.count && !symmLeavesOut(c, peer);
		missing[peer] = isOurs ? c.steps & ~*symmDone(c, peer, single) : 0;
	}
	symmAny(true);
	if (result == ginSuccess)
		return;
	record->channel = c.channel;
	record->steps = c.steps;
	ginStore<ginRelease, ginScopeSystem>(&record->result, result);
}

/*
 * By a block. Words come before the page: a peer that has signalled and left is no failure.
 */
GIN_FN void symmRun(const struct symmCall &c)
{
	const uint64_t began = ginNow();
	uint8_t single = 0;
	int32_t result = ginSuccess;
	uint32_t looks = 0;

	while (symmPass(c, &single) && result == ginSuccess) {
		ginYield();
		if (++looks % GIN_LOOKS == 0)
			result = symmEnds(c, began);
	}
	if (symmAny(result != ginSuccess && symmPass(c, &single)))
		symmNote(c, &single, result);
	else
		symmForget(c);
}

#endif
