/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * combine_send.cuh - what the experts made of each received row, back to the token's rank
 *
 * GIN_EP_REDUCE_RANK adds the rows of a token here and sends one; GIN_EP_REDUCE_NONE sends all. A
 * signal counts received rows, whatever number of rows goes back for each.
 */
#ifndef GIN_EP_COMBINE_SEND_CUH
#define GIN_EP_COMBINE_SEND_CUH

#include "list.cuh"

/* A row of x and its weight; `k` of its item. */
struct epSource {
	const char *x;
	float weight;
	uint32_t k;
};

/* The bf16 sums of eight elements. */
struct epEight {
	float sum[8];

	GIN_FN void add(ginWord16 piece, float weight)
	{
		for (uint32_t i = 0; i < 4; i++) {
			uint32_t pair = static_cast<uint32_t>(piece.half[i / 2] >> i % 2 * 32);
			sum[2 * i] = epFma(weight, epLow(pair), sum[2 * i]);
			sum[2 * i + 1] = epFma(weight, epHigh(pair), sum[2 * i + 1]);
		}
	}

	/* Adds piece `p` of n rows, in order. Four loads are in flight. */
	GIN_FN void addRows(const epSource *from, uint32_t n, uint32_t p)
	{
		for (uint32_t base = 0; base < n; base += 4) {
			ginWord16 piece[4] = {};
			EP_UNROLL
			for (uint32_t i = 0; i < 4; i++)
				if (base + i < n)
					piece[i] = epPieceLoad(from[base + i].x + p * 16);
			EP_UNROLL
			for (uint32_t i = 0; i < 4; i++)
				if (base + i < n)
					add(piece[i], from[base + i].weight);
		}
	}

	GIN_FN ginWord16 rounded() const
	{
		uint64_t pair[4];
		for (uint32_t i = 0; i < 4; i++)
			pair[i] = epBf16Pair(sum[2 * i], sum[2 * i + 1]);
		return {{pair[0] | pair[1] << 32, pair[2] | pair[3] << 32}};
	}
};

/* `direct`: every peer is direct. `reduce`: GIN_EP_REDUCE_RANK or GIN_EP_REDUCE_NONE. */
template <bool direct, uint32_t reduce> class EpCombineSend : public EpBlock
{
	uint32_t epoch, half;
	uint32_t *fate, *rowsOut; /* [ranks] */
	epSource *sources;	  /* [2][GIN_EP_MAX_TOPK] */

public:
	GIN_FN EpCombineSend(const epArgs &a, char *shared) : EpBlock(a, shared), epoch(0), half(0)
	{
		sources = reinterpret_cast<epSource *>(scratch);
		fate = reinterpret_cast<uint32_t *>(sources + 2 * GIN_EP_MAX_TOPK);
		rowsOut = fate + ranks();
	}

	GIN_FN static size_t scratchBytes(const epPlan &plan)
	{
		return 2 * GIN_EP_MAX_TOPK * sizeof(epSource) + 2 * plan.nRanks * sizeof(uint32_t);
	}

	GIN_FN void run()
	{
		if (stopped())
			return;
		startClock();
		epoch = epWordLoad(&plan.state->epoch[1]);
		half = epoch % 2;
		awaitCredits(ginEpCallCombineSend, epPartsFree, epoch, fate);
		for (uint32_t r = thread(); r < ranks(); r += threads())
			rowsOut[r] = 0;
		sync();
		const uint32_t *received = receivedOf(call.handle);
		eachRow([&](uint32_t s) { return received[s]; },
			[&](uint32_t s, uint32_t slot, uint32_t n) {
				if (!fate[s])
					sendRow(s, slot, sources + n % 2 * GIN_EP_MAX_TOPK);
			});
		sync();
		for (uint32_t r = thread(); r < ranks(); r += threads())
			if (rowsOut[r])
				raise(ginEpCallCombineSend, r, 0,
				      signalId(epParts, half, plan.rank), rowsOut[r], epoch);
		leave();
	}

private:
	/* The last block sets what the next kernels read. T. */
	GIN_FN void leave() const
	{
		sync();
		if (thread() != 0)
			return;
		if (!epTicketTake(ticket(ginEpCallCombineSend, half), 1, ginGridSize()))
			return;
		call.handle->combineEpoch = epoch;
		plan.state->epoch[1] = epoch + 1;
	}

	GIN_FN void sendRow(uint32_t s, uint32_t slot, epSource *from)
	{
		const char *record = recordOf(call.handle, s, slot);
		const epReceived row = *reinterpret_cast<const epReceived *>(record);
		const bool ranked = call.layout == GIN_EP_RANK_MAJOR;
		const uint32_t n = ranked && row.kMask ? 1 : epBits(row.kMask);
		for (uint32_t k = thread(); k < plan.topk; k += threads())
			findSource(s, slot, row.kMask, k, from);
		sync();
		if (row.token != EP_NONE)
			sendParts(s, slot, row, from, n);
		if (thread() == 0 && (direct || isDirect(s)))
			rowsOut[s]++;
		if (direct || isDirect(s))
			return;
		sync();
		if (thread() == 0)
			putParts(s, slot, row, from, n);
	}

	/* The row of x of item k, if the received row has it. */
	GIN_FN void findSource(uint32_t s, uint32_t slot, uint32_t kMask, uint32_t k,
			       epSource *from) const
	{
		if (!(kMask >> k & 1))
			return;
		const uint32_t i = epBits(kMask & ((1u << k) - 1));
		if (call.layout == GIN_EP_RANK_MAJOR) {
			if (i == 0)
				from[0] = {call.x.data + s * call.x.outer + slot * call.x.inner,
					   1.0f, k};
			return;
		}
		const epAnswer answer = reinterpret_cast<const epAnswer *>(
			recordOf(call.handle, s, slot) + sizeof(epReceived))[i];
		const uint32_t rows = ranks() * plan.maxTokens;
		from[i] = {call.x.data + answer.row / rows * call.x.outer +
				   answer.row % rows * call.x.inner,
			   answer.weight, k};
	}

	/* Where part i of a row is written: at the peer, or staged. */
	GIN_FN char *partOf(uint32_t s, uint32_t slot, const epReceived &row, const epSource *from,
			    uint32_t i) const
	{
		if (!direct && !isDirect(s))
			return plan.own + stagedPartAt(half, s, slot, i);
		return slabOf(s) + partAt(half, row.token,
					  reduce == GIN_EP_REDUCE_RANK ? row.place : from[i].k);
	}

	GIN_FN void sendParts(uint32_t s, uint32_t slot, const epReceived &row,
			      const epSource *from, uint32_t n) const
	{
		const uint32_t pieces = call.hidden / 8;
		const uint32_t parts = reduce == GIN_EP_REDUCE_RANK ? 1 : n;
		for (uint32_t i = 0; i < parts; i++) {
			char *to = partOf(s, slot, row, from, i);
			for (uint32_t p = thread(); p < pieces; p += threads())
				epPieceStore(to + p * 16,
					     reduce == GIN_EP_REDUCE_RANK
						     ? sumOf(from, n, p)
						     : epPieceLoad(from[i].x + p * 16));
		}
	}

	GIN_FN ginWord16 sumOf(const epSource *from, uint32_t n, uint32_t p) const
	{
		if (call.layout == GIN_EP_RANK_MAJOR)
			return epPieceLoad(from[0].x + p * 16);
		epEight eight = {};
		eight.addRows(from, n, p);
		return eight.rounded();
	}

	/* One put for each staged part; the last one raises the signal. */
	GIN_FN void putParts(uint32_t s, uint32_t slot, const epReceived &row, const epSource *from,
			     uint32_t n) const
	{
		const uint32_t id = signalId(epParts, half, plan.rank);
		const uint32_t lane = slot / EP_CHUNK % plan.lanes;
		const uint32_t parts = reduce == GIN_EP_REDUCE_RANK ? 1 : n;
		ginResult_t result = ginSuccess;
		if (row.token == EP_NONE)
			return raise(ginEpCallCombineSend, s, lane, id, 1, epoch);
		for (uint32_t i = 0; i < parts && result == ginSuccess; i++) {
			ginSignalOp last = ginSignalOf(GinSignalAdd{id, 1});
			last.present = i + 1 == parts;
			const uint32_t place = reduce == GIN_EP_REDUCE_RANK ? row.place : from[i].k;
			result = gin(lane).put(static_cast<int>(s), plan.slab,
					       partAt(half, row.token, place), plan.slab,
					       stagedPartAt(half, s, slot, i), call.hidden * 2ull,
					       last, GinNone{}, GinThread{}, from_(s));
		}
		if (result != ginSuccess)
			lose(ginEpCallCombineSend, s, result, epoch, 1, 0);
	}

	GIN_FN ginOptions from_(uint32_t rank) const { return EpBlock::from(rank); }
};

#endif
