/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * expert_dispatch.h - tokens to their experts and back, for low latency: the two kernels
 *
 * A warp sends a token's row to an expert as soon as it has a place for it there. The warp in
 * charge of the expert then raises a signal by 1 + the number of rows, so that zero rows are seen,
 * too. Rows to near ranks are stored through pointers, and the signal covers them as well. Experts
 * are spread over the contexts of two device communicators, kept in GPU memory.
 *
 * Everything exists twice, and rounds alternate between the halves. A rank raises a signal of a
 * half again only after it has heard from the signal's owner that the owner reset it.
 *
 * All numbers are small multiples of 1/8, so that the results are exact.
 */
#ifndef GIN_TEST_PORT_EXPERT_DISPATCH_H
#define GIN_TEST_PORT_EXPERT_DISPATCH_H

#include "port.h"

enum { DEVICES = 2, CONTEXTS = 2, TOPK = 3, LOCAL_EXPERTS = 5, NONE = 0xffffffffu };

struct Layout {
	uint32_t ranks, tokens, length; /* floats of a row */

	GIN_FN uint32_t experts() const { return ranks * LOCAL_EXPERTS; }
	GIN_FN uint32_t items() const { return tokens * TOPK; } /* a token for an expert */
	GIN_FN size_t rowBytes() const { return length * sizeof(float); }

	/* At an expert's rank: the rows that one rank sends it. */
	GIN_FN size_t inboxRow(uint32_t half, uint32_t expert, uint32_t from, uint32_t slot) const
	{
		size_t local = half * LOCAL_EXPERTS + expert % LOCAL_EXPERTS;
		return (local * ranks + from) * items() + slot;
	}
	GIN_FN size_t inboxRows() const { return 2ull * LOCAL_EXPERTS * ranks * items(); }

	/* At the token's rank: an expert's answer. */
	GIN_FN size_t answerRow(uint32_t half, uint32_t item) const
	{
		return half * items() + item;
	}

	/* Signals: rows for an expert have come; answers of an expert have come. */
	GIN_FN uint32_t arrived(uint32_t half, uint32_t expert, uint32_t from) const
	{
		return (half * LOCAL_EXPERTS + expert % LOCAL_EXPERTS) * ranks + from;
	}
	GIN_FN uint32_t answered(uint32_t half, uint32_t expert) const
	{
		return 2 * LOCAL_EXPERTS * ranks + half * experts() + expert;
	}
	GIN_FN uint32_t signals() const { return 4 * LOCAL_EXPERTS * ranks; }
};

/* The token's row in `round`, and an expert's answer to it. */
GIN_FN float tokenAt(uint64_t seed, uint32_t rank, uint32_t token, uint32_t i)
{
	return static_cast<float>(mix(seed, rank, token, i) % 16);
}
GIN_FN float expertOf(uint32_t expert, float x)
{
	return x * static_cast<float>(expert + 1) + static_cast<float>(expert % 8) / 8;
}
GIN_FN uint32_t chosen(uint64_t seed, uint32_t rank, uint32_t item, uint32_t experts)
{
	uint64_t bits = mix(seed, rank, item, 1ull << 40);
	return bits % 8 ? static_cast<uint32_t>((bits >> 8) % experts) : NONE;
}
GIN_FN float weightOf(uint64_t seed, uint32_t rank, uint32_t item)
{
	return static_cast<float>(mix(seed, rank, item, 1ull << 41) % 16) / 8;
}

/* The arguments of both kernels. */
struct Experts {
	const ginDevComm *devices; /* in GPU memory */
	Layout at;
	uint32_t near, half;
	ginWindow_t tokens, inbox, lists, slots; /* lists: which item a row is; slots: own lists */
	ginWindow_t made, answers;
	const uint32_t *choice; /* [item] */
	const float *weight;	/* [item] */
	uint32_t *claimed;	/* [expert] rows that have a place */
	uint32_t *sent;		/* [expert] rows that have been sent */
	uint32_t *claim;	/* [warp] */
	uint32_t *counts;	/* [local expert][rank] rows that have come */
	float *result;		/* [token] */

	GIN_FN const ginDevComm &dc() const { return devices[0]; }
	GIN_FN uint32_t self() const { return dc().rank; }
	GIN_FN uint32_t rankOfExpert(uint32_t expert) const { return expert / LOCAL_EXPERTS; }

	/* An expert's rows and signals use one context. */
	GIN_FN Gin lane(uint32_t expert) const
	{
		uint32_t lane = expert % LOCAL_EXPERTS % (DEVICES * CONTEXTS);
		return {devices[lane / CONTEXTS], lane % CONTEXTS};
	}

	template <class T> GIN_FN T *local(ginWindow_t window, size_t index) const
	{
		return static_cast<T *>(ginPeerPointer(window, index * sizeof(T), rankOf(self())));
	}

	/*
	 * Sends one row by all lanes of the warp: through a pointer to a near rank, otherwise by a
	 * put without action.
	 */
	GIN_FN ginResult_t sendRow(const Gin &gin, uint32_t rank, ginWindow_t to, size_t toRow,
				   ginWindow_t from, size_t fromRow) const
	{
		int peer = rankOf(rank);
		void *there = ginPeerPointer(to, toRow * at.rowBytes(), peer);
		if (!isMember(dc(), teamInner(dc(), near), peer) || !there)
			return gin.put(ginTeamWorld(dc()), peer, to, toRow * at.rowBytes(), from,
				       fromRow * at.rowBytes(), at.rowBytes(), GinNone{}, GinNone{},
				       GinWarp{});
		const float *row = local<float>(from, fromRow * at.length);
		for (uint32_t i = GinWarp{}.thread_rank(); i < at.length; i += GinWarp{}.size())
			static_cast<float *>(there)[i] = row[i];
		return ginSuccess;
	}

	/* The rows that this warp has sent may be written again. */
	GIN_FN ginResult_t flushLanes() const
	{
		for (uint32_t l = 0; l < DEVICES * CONTEXTS; l++)
			TRY(Gin(devices[l / CONTEXTS], l % CONTEXTS).flush(GinWarp{}));
		return ginSuccess;
	}
};

struct Dispatch : Experts {
	bool first; /* round: nobody has answered yet */

	/* The next place at the expert, for all lanes of the warp. */
	GIN_FN uint32_t claimSlot(uint32_t expert, uint32_t item) const
	{
		if (GinWarp{}.thread_rank() == 0) {
			uint32_t slot = fetchAdd(&claimed[expert], 1);
			*local<uint32_t>(slots, expert * at.items() + slot) = item;
			claim[gridWarp()] = slot;
		}
		GinWarp{}.sync();
		uint32_t slot = claim[gridWarp()];
		GinWarp{}.sync(); /* all threads have read it before the next one */
		return slot;
	}

	GIN_FN ginResult_t sendItem(uint32_t item) const
	{
		uint32_t expert = choice[item];
		if (expert == NONE)
			return ginSuccess;
		uint32_t slot = claimSlot(expert, item);
		ginResult_t result =
			sendRow(lane(expert), rankOfExpert(expert), inbox,
				at.inboxRow(half, expert, self(), slot), tokens, item / TOPK);
		GinWarp{}.sync();
		if (GinWarp{}.thread_rank() == 0)
			fetchAdd(&sent[expert], 1); /* failed or not: announce() waits for it */
		return result;
	}

	/* How many rows go to the expert, once all warps have sent theirs. */
	GIN_FN uint32_t awaitSent(uint32_t expert) const
	{
		uint32_t count = 0;
		for (uint32_t item = 0; item < at.items(); item++)
			count += choice[item] == expert;
		if (GinWarp{}.thread_rank() == 0)
			while (fetchAdd(&sent[expert], 0) < count)
				relax();
		GinWarp{}.sync();
		return count;
	}

	/*
	 * The list of items goes after the rows, with the signal: a strong one, so that it covers
	 * the rows of other warps. Without rows: an empty put with the signal.
	 */
	GIN_FN ginResult_t announce(uint32_t expert) const
	{
		const size_t word = sizeof(uint32_t);
		uint32_t count = awaitSent(expert), id = at.arrived(half, expert, self());
		return lane(expert).put(ginTeamWorld(dc()), rankOf(rankOfExpert(expert)), lists,
					at.inboxRow(half, expert, self(), 0) * word, slots,
					expert * at.items() * word, count * word,
					GinSignalAdd{id, count + 1ull}, GinNone{}, GinWarp{});
	}

	/* The wait depends on the sender only: the failure of another rank does not end it. */
	GIN_FN ginResult_t receive(uint32_t expert, uint32_t from) const
	{
		const Gin gin = lane(expert);
		const uint32_t id = at.arrived(half, expert, from);
		ginOptions options;
		options.from = {from, 1, 1};

		TRY(gin.waitSignal(id, 1, GinWarp{}, options));
		uint64_t value = gin.readSignal(id);
		GinWarp{}.sync(); /* all threads have read it before it is reset */
		if (GinWarp{}.thread_rank() == 0) {
			counts[expert % LOCAL_EXPERTS * at.ranks + from] =
				static_cast<uint32_t>(value - 1);
			gin.resetSignal(id);
		}
		return ginSuccess;
	}

	/* Several warps have waited for the last round's answers: resets the signals here. */
	GIN_FN ginResult_t cleanLast(uint32_t expert) const
	{
		const uint32_t id = at.answered(1 - half, expert);
		TRY(lane(expert).waitSignal(id, 1,
					    GinWarp{})); /* also signals for which no warp waited */
		if (GinWarp{}.thread_rank() == 0)
			lane(expert).resetSignal(id);
		return ginSuccess;
	}

	GIN_FN ginResult_t run() const
	{
		const uint32_t pairs = LOCAL_EXPERTS * at.ranks;
		ginResult_t result = ginSuccess;

		for (uint32_t item = gridWarp(); item < at.items(); item += gridWarps()) {
			ginResult_t now = sendItem(item);
			result = now == ginSuccess ? result : now;
		}
		TRY(result);
		for (uint32_t e = gridWarp(); e < at.experts(); e += gridWarps())
			TRY(announce(e));
		for (uint32_t p = gridWarp(); p < pairs; p += gridWarps())
			TRY(receive(self() * LOCAL_EXPERTS + p / at.ranks, p % at.ranks));
		for (uint32_t e = gridWarp(); !first && e < at.experts(); e += gridWarps())
			TRY(cleanLast(e));
		return flushLanes();
	}
};

struct Combine : Experts {
	GIN_FN void make(uint32_t expert, size_t row) const
	{
		const float *x = local<float>(inbox, row * at.length);
		float *y = local<float>(made, row * at.length);
		for (uint32_t i = GinWarp{}.thread_rank(); i < at.length; i += GinWarp{}.size())
			y[i] = expertOf(expert, x[i]);
		GinWarp{}.sync();
	}

	GIN_FN ginResult_t answer(uint32_t expert, uint32_t to) const
	{
		const Gin gin = lane(expert);
		uint32_t count = counts[expert % LOCAL_EXPERTS * at.ranks + to];
		for (uint32_t slot = 0; slot < count; slot++) {
			size_t row = at.inboxRow(half, expert, to, slot);
			uint32_t item = *local<uint32_t>(lists, row);
			make(expert, row);
			TRY(sendRow(gin, to, answers, at.answerRow(half, item), made, row));
		}
		return gin.signal(ginTeamWorld(dc()), rankOf(to),
				  GinSignalAdd{at.answered(half, expert), count + 1ull}, GinWarp{});
	}

	GIN_FN void addAnswer(uint32_t item) const
	{
		float *sum = result + static_cast<size_t>(item / TOPK) * at.length;
		const float *y = local<float>(answers, at.answerRow(half, item) * at.length);
		for (uint32_t i = GinWarp{}.thread_rank(); i < at.length; i += GinWarp{}.size())
			sum[i] += weight[item] * y[i];
	}

	/* Signals of experts that several warps wait for stay until the next round. */
	GIN_FN ginResult_t gather(uint32_t token) const
	{
		for (uint32_t item = token * TOPK; item < (token + 1) * TOPK; item++) {
			if (choice[item] == NONE)
				continue;
			TRY(lane(choice[item])
				    .waitSignal(at.answered(half, choice[item]), 1, GinWarp{}));
			addAnswer(item);
		}
		return ginSuccess;
	}

	GIN_FN ginResult_t run() const
	{
		const uint32_t pairs = LOCAL_EXPERTS * at.ranks;
		for (uint32_t p = gridWarp(); p < pairs; p += gridWarps())
			TRY(answer(self() * LOCAL_EXPERTS + p / at.ranks, p % at.ranks));
		for (uint32_t token = gridWarp(); token < at.tokens; token += gridWarps())
			TRY(gather(token));
		return flushLanes();
	}
};

#endif
