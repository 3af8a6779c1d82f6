/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mirror.cuh - many threads wait for one word in host memory
 *
 * A GPU loads what lies in the same 32 bytes of host memory once at a time, a microsecond each, whoever
 * asks. A hundred threads that look at one word get in line, and the operations of streams, and so
 * the copies that they wait for, behind them (docs/performance.md). So one of them looks, and the
 * others at a mirror in GPU memory.
 *
 *   edge  publishes (release)     observes (acquire)     what it carries
 *   M     ginMirrorPublish         ginMirrorObserve       what the looker has acquired, to others
 *
 * A mirror may be behind the word, and go back for a moment: only those who look again may use it.
 */
#ifndef GIN_MIRROR_CUH
#define GIN_MIRROR_CUH

#include "ordering.cuh"

/* On the host the thread waited for may need this core. */
GIN_FN void ginYield()
{
#if !GIN_ON_GPU
	sched_yield();
#endif
}

/*
 * The looks of one thread at a word, all with the acquire that the word's edge asks for. Who has found
 * himself alone loads the word while he asks whether he still is.
 */
class ginHostLook
{
public:
	/* `mirror` NULL: nobody else looks. */
	GIN_FN ginHostLook(const uint64_t *hostWord, struct ginMirror *itsMirror)
	    : word(hostWord), mirror(itsMirror), came(0)
	{
	}

	GIN_FN bool present() const { return word; }

	GIN_FN uint64_t operator()()
	{
		if (!mirror)
			return ginAcquireSystem(word);
		return came == 1 ? lookAlone() : lookForAll();
	}

private:
	const uint64_t *word;
	struct ginMirror *mirror;
	uint32_t came; /* during the last look of this thread */

	GIN_FN uint64_t lookForAll()
	{
		if (ginMirrorCome(&mirror->looking))
			return ginMirrorObserve(&mirror->seen);
		ginYield(); /* as long as on a GPU a look takes */
		uint64_t seen = ginAcquireSystem(word);
		if (seen != ginLocalLoad(&mirror->seen))
			ginMirrorPublish(&mirror->seen, seen);
		came = ginMirrorLeave(&mirror->looking);
		return seen;
	}

	GIN_FN uint64_t lookAlone()
	{
		uint32_t before = ginMirrorCome(&mirror->looking);
		uint64_t seen = ginAcquireSystem(word);
		came = 0;
		if (!before)
			came = ginMirrorLeave(&mirror->looking);
		return seen;
	}
};

/* One look at a word that others may look at. */
GIN_FN uint64_t ginWatchLook(struct ginWatch *watch)
{
	return ginHostLook(watch->word, &watch->mirror)();
}

#endif
