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

/* A post that finds no room returns after 1 ms, with nothing posted, and is tried again. */
GIN_FN ginOptions symmBriefly()
{
	return ginTimeout(1000000);
}

/*
 * Ranks without a direct route: edge S of include/gin/core/ordering.cuh. One context for all posts:
 * a signal covers the puts before it.
 */
struct symmFar {
	const struct symmCall &c;
	const Gin gin;

	GIN_FN symmFar(const struct symmCall &call) : c(call), gin(*call.dc, 0) {}

	GIN_FN uint64_t word(uint32_t peer, size_t member) const
	{
		return c.countsAt + peer * sizeof(struct symmCount) + member;
	}
	/* Adds 1 to a word that the peer has for this rank. False: not yet. */
	GIN_FN bool add(uint32_t peer, size_t member) const
	{
		return gin.signal(static_cast<int>(peer),
				  GinSignalIncAt{c.padWindow, word(c.rank, member)}, GinThread{},
				  symmBriefly()) == ginSuccess;
	}
	GIN_FN bool raise(uint32_t peer) const
	{
		struct symmCount *own = &c.counts[peer];
		const size_t passed = word(peer, offsetof(struct symmCount, passed));
		if (gin.readSignal(c.padWindow, passed) != own->raised ||
		    !add(peer, offsetof(struct symmCount, come)))
			return false;
		own->raised++;
		return true;
	}
	GIN_FN bool take(uint32_t peer) const
	{
		struct symmCount *own = &c.counts[peer];
		const size_t come = word(peer, offsetof(struct symmCount, come));
		if (gin.readSignal(c.padWindow, come) == own->taken ||
		    !add(peer, offsetof(struct symmCount, passed)))
			return false;
		own->taken++;
		return true;
	}
	GIN_FN bool put(uint32_t peer) const
	{
		return gin.putFrom(static_cast<int>(peer), c.window, c.at, c.source, c.bytes,
				   GinNone{}, GinNone{}, GinThread{}, symmBriefly()) == ginSuccess;
	}
	GIN_FN bool flush() const { return gin.flush(GinThread{}, symmBriefly()) == ginSuccess; }
};

/* Tries the steps to a peer that are not in *done. */
GIN_FN void symmTryNear(const struct symmCall &c, uint32_t peer, uint8_t *done)
{
	const uint32_t row = c.channel * c.nRanks, todo = c.steps & ~*done;

	if (todo & SYMM_RAISE && symmRaise(c.pads[peer] + row + c.rank))
		*done |= SYMM_RAISE;
	if (todo & SYMM_TAKE && symmTake(c.pads[c.rank] + row + peer))
		*done |= SYMM_TAKE;
}

GIN_FN void symmTryFar(const struct symmCall &c, uint32_t peer, uint8_t *done)
{
	const struct symmFar far(c);
	const uint32_t todo = c.steps & ~*done;

	if (todo & SYMM_PUT && far.put(peer))
		*done |= SYMM_PUT;
	if (todo & SYMM_FLUSH && *done & SYMM_PUT && far.flush())
		*done |= SYMM_FLUSH;
	if (todo & SYMM_RAISE && far.raise(peer))
		*done |= SYMM_RAISE;
	if (todo & SYMM_TAKE && far.take(peer))
		*done |= SYMM_TAKE;
}

/* The steps that are left. A kernel for direct peers alone has no code for the others. */
template <bool hasFar>
GIN_FN uint32_t symmTry(const struct symmCall &c, uint32_t peer, uint8_t *done)
{
	if (hasFar && !c.pads[peer])
		symmTryFar(c, peer, done);
	else
		symmTryNear(c, peer, done);
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
template <bool hasFar> GIN_FN uint32_t symmPass(const struct symmCall &c, uint8_t *single)
{
	uint32_t left = 0;

	for (uint32_t i = ginThreadIndex(); i < c.count; i += ginBlockSize())
		if (!symmLeavesOut(c, c.first + i))
			left |= symmTry<hasFar>(c, c.first + i, symmDone(c, c.first + i, single));
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

/*
 * May what the call has taken be no signal, because the host has released the pads? A GPU, to
 * which the page is far away, looks only after a wait that was long enough for that.
 */
GIN_FN bool symmIsVoid(const struct symmCall &c, uint64_t began)
{
	return (!GIN_ON_GPU || ginNow() - began >= SYMM_GRACE / 2) &&
	       ginLoad<ginRelaxed, ginScopeSystem>(&c.page->isReleased);
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
 * By a block. Words come before the page: a peer that has signalled and left is no failure, until
 * the host changes words.
 */
template <bool hasFar> GIN_FN void symmRun(const struct symmCall &c)
{
	const uint64_t began = ginNow();
	uint8_t single = 0;
	int32_t result = ginSuccess;
	uint32_t looks = 0;

	while (symmPass<hasFar>(c, &single) && result == ginSuccess) {
		ginYield();
		if (++looks % GIN_LOOKS == 0)
			result = symmEnds(c, began);
	}
	bool failed = result != ginSuccess && symmPass<hasFar>(c, &single);
	if (symmIsVoid(c, began)) {
		failed = true;
		result = ginLoad<ginRelaxed, ginScopeSystem>(&c.page->stop);
	}
	if (symmAny(failed))
		symmNote(c, &single, result);
	else
		symmForget(c);
}

#endif
