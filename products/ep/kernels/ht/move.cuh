/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * move.cuh - a team moves rows: each is loaded once, and stored to one or more places
 *
 * epMove() moves the items 0 to n - 1 of `Items`, a class with
 *
 *	source(i), bytes(i)	an item's row: multiples of 16
 *	metaWords()		words of its meta; 0: none
 *	metaAt(i, w)		where word w of the meta is; NULL: it is the number meta(i, w)
 *	places()		places that an item may have
 *	place(i, n, &to)	place n of item i; false: the item does not go there
 *	done(end)		the items below `end` are at their places; by the whole team
 *	tells			is done() called before the end, too?
 *
 * With bulk copies a warp keeps a ring of stages in flight, each for a row and its meta, which the
 * warp gathers by copies of 4 bytes; a lane stores to a place. Otherwise the team loads and stores.
 */
#ifndef GIN_EP_HT_MOVE_CUH
#define GIN_EP_HT_MOVE_CUH

#include "gin/direct/bulk.cuh"

#include "../block.cuh"

/* done() is called after so many items, and again at the end. */
#define EP_HT_STEP 8u

/*
 * Measured on two H200: groups of stores that may still read their stage, groups that done() leaves
 * in flight, the most stages of a team.
 */
#define EP_HT_READING 2
#define EP_HT_FLYING 4
#define EP_HT_STAGES 6u

/* Where a row and its meta go. */
struct epHtTo {
	char *row, *meta;
};

/* A word that a gather has loaded, or a number. */
template <class Items> GIN_FN uint32_t epMetaWord(const Items &items, uint32_t i, uint32_t w)
{
	const char *const at = items.metaAt(i, w);
	return at ? ginLoadWeak<uint32_t>(at) : items.meta(i, w);
}

/* By loads and stores. */
template <class Items> GIN_FN void epMoveByThreads(uint32_t n, const Items &items)
{
	const uint32_t lane = epTeamLane(), lanes = epTeamSize();
	GIN_NO_UNROLL
	for (uint32_t i = 0; i < n; i++) {
		const char *const from = items.source(i);
		GIN_NO_UNROLL
		for (uint32_t p = 0; p < items.places(); p++) {
			epHtTo to;
			if (!items.place(i, p, &to))
				continue;
			GIN_NO_UNROLL
			for (uint32_t b = lane * 16; b < items.bytes(i); b += lanes * 16)
				epPieceStore(to.row + b, epPieceLoad(from + b));
			GIN_NO_UNROLL
			for (uint32_t w = lane; w < items.metaWords(); w += lanes)
				reinterpret_cast<uint32_t *>(to.meta)[w] = epMetaWord(items, i, w);
		}
		if (Items::tells && (i + 1) % EP_HT_STEP == 0 && i + 1 < n) {
			epTeamSync();
			items.done(i + 1);
		}
	}
	epTeamSync();
	items.done(n);
}

#define EP_HT_MOST_STAGES 16u /* their barriers take 128 bytes */

/* A team's ring of stages in shared memory; `count` 0: there is none, threads load and store. */
struct epStages {
	uint32_t barriers, base, count, size; /* shared memory addresses; bytes of a stage */
	uint32_t at, phase;		      /* the stage whose load is awaited next */
};

#if GIN_HAS_BULK

/* A ring of at most `most` stages in `bytes` of scratch, by all threads of the team. */
GIN_FN epStages epStagesOpen(char *scratch, uint32_t bytes, uint32_t size, uint32_t most)
{
	epStages s = {ginBulkShared(scratch),
		      ginBulkShared(scratch) + 128,
		      0,
		      (size + 127) / 128 * 128,
		      0,
		      0};
	s.count = (bytes - 128) / s.size;
	if (s.count > most)
		s.count = most;
	if (s.count <= EP_HT_READING)
		s.count = 0;
	for (uint32_t i = ginLane(); i < s.count; i += 32)
		ginBulkInit(s.barriers + 8 * i, 1);
	ginBulkFence();
	__syncwarp();
	return s;
}

/* A word of memory into a stage. */
GIN_FN void epStageWord(uint32_t to, const char *from)
{
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

/* What a stage has. */
GIN_FN ginWord16 epStagedWord(uint32_t at)
{
	ginWord16 word;
	asm volatile("ld.shared.v2.u64 {%0, %1}, [%2];"
		     : "=l"(word.half[0]), "=l"(word.half[1])
		     : "r"(at)
		     : "memory");
	return word;
}

GIN_FN float epStagedFloat(uint32_t at)
{
	float value;
	asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(at) : "memory");
	return value;
}

/*
 * The stage's barrier expects one arrival more: that of this lane's words. By lanes, before the
 * load itself arrives.
 */
GIN_FN void epStageExpectWords(uint32_t barrier)
{
	asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

/* Loads item i into a stage: its meta by all lanes, the row by one bulk copy. */
template <class Items>
GIN_FN void epStageLoad(const epStages &s, uint32_t stage, uint32_t i, const Items &items)
{
	const uint32_t to = s.base + stage * s.size, barrier = s.barriers + 8 * stage;
	GIN_NO_UNROLL
	for (uint32_t w = ginLane(); w < items.metaWords(); w += 32) {
		const uint32_t word = to + items.bytes(i) + w * 4;
		const char *const at = items.metaAt(i, w);
		if (at)
			epStageWord(word, at);
		else
			asm volatile("st.shared.u32 [%0], %1;" ::"r"(word), "r"(items.meta(i, w))
				     : "memory");
	}
	if (items.metaWords()) {
		epStageExpectWords(barrier);
		__syncwarp();
	}
	if (ginLane() == 0) {
		ginBulkExpect(barrier, items.bytes(i));
		ginBulkRead(to, items.source(i), items.bytes(i), barrier);
	}
}

/*
 * Item i, when it is in its stage, to all its places: one group of each lane. A lane finds its
 * place while the load is on its way.
 */
template <class Items> GIN_FN void epStageStore(const epStages &s, uint32_t i, const Items &items)
{
	const uint32_t from = s.base + s.at * s.size, bytes = items.bytes(i);
	const uint32_t metaBytes = (items.metaWords() * 4 + 15) / 16 * 16;
	uint32_t p = ginLane();
	epHtTo to;
	bool goes = p < items.places() && items.place(i, p, &to);
	ginBulkPass(s.barriers + 8 * s.at, s.phase);
	if (metaBytes)
		ginBulkFence(); /* the meta is written by threads */
	while (p < items.places()) {
		if (goes) {
			ginBulkWrite(to.row, from, bytes);
			if (metaBytes)
				ginBulkWrite(to.meta, from + bytes, metaBytes);
		}
		p += 32;
		goes = p < items.places() && items.place(i, p, &to);
	}
	ginBulkCommit();
}

template <class Items> GIN_FN void epMoveInBulk(epStages &s, uint32_t n, const Items &items)
{
	uint32_t next = 0, into = s.at;
	const auto load = [&] {
		epStageLoad(s, into, next++, items);
		into = into + 1 < s.count ? into + 1 : 0;
	};
	ginBulkFence(); /* other agents have written the rows */
	GIN_NO_UNROLL
	while (next < n && next < s.count)
		load();
	GIN_NO_UNROLL
	for (uint32_t i = 0; i < n; i++) {
		epStageStore(s, i, items);
		if (++s.at == s.count)
			s.at = 0, s.phase ^= 1;
		if (i >= EP_HT_READING && next < n) { /* into the stage of item i - READING */
			ginBulkHaveRead<EP_HT_READING>();
			__syncwarp();
			load();
		}
		if (Items::tells && i + 1 >= EP_HT_STEP + EP_HT_FLYING &&
		    (i + 1 - EP_HT_FLYING) % EP_HT_STEP == 0) {
			ginBulkHaveWritten<EP_HT_FLYING>();
			ginBulkFence();
			__syncwarp();
			items.done(i + 1 - EP_HT_FLYING);
		}
	}
	ginBulkHaveWritten<0>();
	ginBulkFence();
	__syncwarp();
	items.done(n);
}

#else

GIN_FN epStages epStagesOpen(char *, uint32_t, uint32_t, uint32_t)
{
	return {};
}

#endif

/* By all threads of a team. */
template <class Items> GIN_FN void epMove(epStages &stages, uint32_t n, const Items &items)
{
#if GIN_HAS_BULK
	if (stages.count) {
		epMoveInBulk(stages, n, items);
		return;
	}
#endif
	(void)stages;
	epMoveByThreads(n, items);
}

#endif
