/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mirror.cuh - many threads wait for one word in host memory
 *
 * A GPU loads words in one 32-byte sector of host memory one after the other, about a microsecond
 * each. If a hundred threads poll one word, their loads wait for each other, and so do stream
 * operations, among them the copies for which the threads wait (docs/performance.md). So one thread
 * at a time polls the word, and the other threads poll a mirror in GPU memory (edge M,
 * ordering.cuh).
 *
 * A mirror may be older than the word, and may go back for a moment: callers have to look again.
 */
#ifndef GIN_MIRROR_CUH
#define GIN_MIRROR_CUH

#include "ordering.cuh"

/* Lets another host thread run: the awaited thread may need this core. */
GIN_FN void ginYield()
{
#if !GIN_ON_GPU
	sched_yield();
#endif
}

/*
 * How one thread looks at a word of the host again and again. Every look acquires the edge of the
 * word: S, C, Q, R or Z. A thread that was alone at its last look loads the word while it checks
 * whether it still is alone.
 */
class ginHostLook
{
public:
	/* `itsMirror` NULL: no other thread waits for the word. */
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
	uint32_t came; /* threads that came during the last look of this thread, itself included */

	GIN_FN uint64_t lookForAll()
	{
		if (ginMirrorCome(&mirror->looking))
			return ginMirrorObserve(&mirror->seen);
		ginYield(); /* other host threads may come, as they do during a GPU's long load */
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

/* One look at a word that other threads may poll. */
GIN_FN uint64_t ginMirroredLook(struct ginMirroredWord *watch)
{
	return ginHostLook(watch->word, &watch->mirror)();
}

/* ginMirroredLook(), as a call with GIN_CALLS. */
GIN_FN_COLD uint64_t ginMirroredLookCalled(struct ginMirroredWord *watch)
{
	return ginMirroredLook(watch);
}

#endif
