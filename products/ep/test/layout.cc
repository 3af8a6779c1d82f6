/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * layout.cc - does the address of each thing follow the one before it, in regions that are full?
 *
 * Each region is walked in the order that args.h writes down: an address of layout.cuh has to be
 * where the thing before it ends. The end of a region, rounded up to 256, has to be where
 * lib/layout.c begins the next one.
 *
 * And are conversions of numbers those of reference.h?
 */
#include "expect.h"

extern "C" {
#include "products/ep/lib/ep.h"
}
#include "products/ep/kernels/ht/rail.cuh"
#include "reference.h"

#include <vector>

static epPlan plan;
static epSizes sizes;
static uint64_t end; /* of what has been walked */

static void follows(uint64_t seen, uint64_t bytes)
{
	EXPECT_EQUAL(seen, end);
	end += bytes;
}

static void regionBegins(uint64_t at)
{
	EXPECT_EQUAL(at, (end + 255) / 256 * 256);
	end = at;
}

/* One walk over [half][rank][n]. */
template <class At> static void halves(uint32_t n, uint64_t bytes, At at)
{
	for (uint32_t half = 0; half < 2; half++)
		for (uint32_t r = 0; r < plan.nRanks; r++)
			for (uint32_t i = 0; i < n; i++)
				follows(at(half, r, i), bytes);
}

static void walkStaged()
{
	const uint32_t parts = plan.maxTokens * plan.partsOfToken;
	regionBegins(plan.stagedRowsAt);
	halves(plan.maxTokens, plan.rowBytes, [](uint32_t half, uint32_t peer, uint32_t slot) {
		return epStagedRowAt(plan, half, peer, slot);
	});
	regionBegins(plan.stagedPartsAt);
	halves(parts, plan.partBytes, [](uint32_t half, uint32_t peer, uint32_t part) {
		return epStagedPartAt(plan, half, peer, part);
	});
	regionBegins(plan.stagedCountsAt);
	halves(1, epLineBytes(plan), [](uint32_t half, uint32_t peer, uint32_t) {
		return epStagedLineAt(plan, half, peer);
	});
	regionBegins(plan.stagedMarkAt);
	end += epLineBytes(plan);
}

/* High throughput: words; between domains messages and rings, and what is staged of them. */
static void walkHt()
{
	const epHtPlan &ht = sizes.ht;
	const uint32_t others = ht.domains - 1;
	regionBegins(ht.placeAt);
	for (uint32_t which = 0; which < 2; which++)
		halves(1, 8 * EP_HT_PLACE, [&](uint32_t half, uint32_t peer, uint32_t) {
			return epHtPlaceAt(plan, ht, which, half, peer);
		});
	regionBegins(ht.doneAt);
	for (uint32_t i = 0; i < plan.nRanks * ht.units; i++)
		follows(epHtDoneAt(ht, i / ht.units, i % ht.units), 8);
	regionBegins(ht.readyAt);
	for (uint32_t i = 0; i < plan.nRanks * ht.batches; i++)
		follows(epHtReadyAt(ht, i / ht.batches, i % ht.batches), 8);
	regionBegins(ht.pulledAt);
	for (uint32_t source = 0; source < plan.nRanks; source++)
		follows(epHtPulledAt(ht, source), 8);
	for (uint64_t base : {ht.messageAt, ht.stagedMessageAt}) {
		regionBegins(base);
		for (uint32_t i = 0; i < 2 * others; i++)
			follows(epHtMessageAt(ht, base, i / others, i % others), ht.messageBytes);
	}
	for (uint64_t base : {ht.ringAt, ht.stagedAt}) {
		regionBegins(base);
		for (uint32_t i = 0; i < others * plan.lanes * EP_HT_DEPTH; i++)
			follows(epHtSlotAt(plan, ht, base, i / EP_HT_DEPTH / plan.lanes,
					   i / EP_HT_DEPTH % plan.lanes, i % EP_HT_DEPTH),
				ht.slotBytes);
	}
	regionBegins(ht.poolAt);
	end += uint64_t{ht.rows} * ht.rowBytes;
	regionBegins(ht.metaAt);
	end += uint64_t{ht.rows} * ht.metaBytes;
}

static void walkSlab()
{
	const bool isHt = sizes.ht.domains;
	end = 0;
	regionBegins(plan.rowsAt);
	halves(plan.maxTokens, plan.rowBytes, [](uint32_t half, uint32_t source, uint32_t slot) {
		return epRowAt(plan, half, source, slot);
	});
	regionBegins(plan.partsAt);
	for (uint32_t half = 0; half < 2; half++)
		for (uint32_t part = 0; part < plan.maxTokens * plan.partsOfToken; part++)
			follows(epPartAt(plan, half, part), plan.partBytes);
	regionBegins(plan.countsAt);
	halves(1 + (isHt ? plan.nRanks : 0) + plan.mostLocal, 8,
	       [&](uint32_t half, uint32_t source, uint32_t word) {
		       return isHt ? epHtCountAt(plan, half, source, word)
				   : epCountAt(plan, half, source, word);
	       });
	regionBegins(plan.marksAt);
	for (uint32_t source = 0; source < plan.nRanks; source++)
		follows(epMarkAt(plan, source), 8);
	regionBegins(plan.verdictsAt);
	halves(1, 8, [](uint32_t half, uint32_t source, uint32_t) {
		return epVerdictAt(plan, half, source);
	});
	if (isHt)
		walkHt();
	else if (!plan.allDirect)
		walkStaged();
	regionBegins(sizes.slab);
}

/* A handle of high throughput for `tokens`, as ginEpHtHandleBytes() has room for it. */
static void walkHtHandle(uint32_t tokens)
{
	static epHtHandle handle;
	const epHtPlan &ht = sizes.ht;
	const uint32_t groups = (tokens + EP_HT_GROUP - 1) / EP_HT_GROUP;
	static struct ginEp ep;
	uint64_t bytes = 0;
	const auto offset = [](const void *at) {
		return static_cast<uint64_t>(static_cast<const char *>(at) -
					     reinterpret_cast<const char *>(&handle));
	};
	end = sizeof(handle);
	follows(offset(epHtTokensOf(&handle)), plan.nRanks * 4);
	follows(offset(epHtStartOf(plan, &handle)), plan.nRanks * 4);
	follows(offset(epHtRowsOf(plan, &handle)), plan.nRanks * 4);
	end = (end + 15) / 16 * 16;
	for (uint32_t group = 0; group < groups; group++)
		follows(offset(epHtPairsOf(plan, &handle, group)), plan.nRanks * sizeof(epHtPair));
	for (uint32_t d = 0; d < ht.domains; d++)
		for (uint32_t group = 0; d != ht.domain && group < ht.groups; group++)
			follows(offset(epHtRailPairsOf(plan, ht, &handle, tokens, d, group)),
				ht.domainSize * sizeof(epHtPair));
	ep.config.modes = GIN_EP_HT;
	ep.args.plan = plan;
	ep.ht = ht;
	EXPECT_SUCCESS(ginEpHtHandleBytes(&ep, tokens, &bytes));
	EXPECT_EQUAL(end, bytes);
}

/* Domains of one, two and four of four ranks. */
static void walkAllHt()
{
	static const uint32_t first[] = {0, 3, 6, 8, 10};
	for (uint32_t domainSize = 1; domainSize <= 4; domainSize *= 2) {
		ginEpConfig_t config = GIN_EP_CONFIG_INIT;
		config.modes = GIN_EP_HT;
		config.experts = 10;
		config.topk = 3;
		config.htTokens = 70;
		config.htRecvTokens = 50;
		config.htRowBytes = 96;
		config.htScaleBytes = 8;
		epLayout(&config, first, 4, 1, domainSize < 4, domainSize, &plan, &sizes);
		walkSlab();
		walkHtHandle(33);
		const epHtPlan &ht = sizes.ht;
		EXPECT(ht.pairsAt >= (1 + 4 + domainSize * plan.mostLocal) * 4);
		EXPECT(ht.messageBytes >= ht.pairsAt + ht.groups * domainSize * sizeof(epHtPair));
	}
}

/* As many ranks as there may be: each token goes to the ranks of its two experts. */
static void layoutOfManyRanks()
{
	enum { RANKS = GIN_EP_HT_MAX_RANKS };
	static int32_t perRank[RANKS], perExpert[RANKS], experts[RANKS][2];
	static uint8_t goes[RANKS][RANKS];
	epArgs args = {};
	epHtCall &call = args.ht.call;
	args.plan.nRanks = args.plan.experts = call.experts = call.tokens = RANKS;
	call.topk = 2;
	call.indexBytes = 4;
	call.topkIdx = reinterpret_cast<const char *>(experts);
	call.tokensPerRank = perRank;
	call.tokensPerExpert = perExpert;
	call.isTokenInRank = &goes[0][0];
	for (int t = 0; t < RANKS; t++)
		experts[t][0] = t, experts[t][1] = (t + 63) % RANKS;
	std::vector<char> scratch(EpHtLayout::scratchBytes(args.plan));
	EpHtLayout(args, scratch.data()).run();
	for (int t = 0; t < RANKS; t++) {
		EXPECT_EQUAL(perRank[t], 2);
		EXPECT_EQUAL(perExpert[t], 2);
		for (int rank = 0; rank < RANKS; rank++)
			EXPECT_EQUAL(goes[t][rank], rank == t || rank == (t + 63) % RANKS);
	}
}

/* No memory is read: the handle begins at an address of which offsets are taken. */
static void walkHandle()
{
	static epHandle handle;
	const auto offset = [](const void *at) {
		return static_cast<uint64_t>(static_cast<const char *>(at) -
					     reinterpret_cast<const char *>(&handle));
	};
	end = sizeof(handle);
	follows(offset(epSentOf(&handle)), plan.nRanks * 4);
	follows(offset(epReceivedOf(plan, &handle)), plan.nRanks * 4);
	end = (end + 15) / 16 * 16;
	for (uint32_t source = 0; source < plan.nRanks; source++)
		for (uint32_t slot = 0; slot < plan.maxTokens; slot++) {
			EXPECT_EQUAL(end % 16, 0u); /* GPUs load 16 bytes at a time */
			follows(offset(epRecordOf(plan, &handle, source, slot)), plan.received);
		}
	if (!plan.allDirect)
		follows(offset(epItemPartsIn(plan, &handle)),
			plan.maxTokens * plan.topk * sizeof(epItemParts));
	EXPECT_EQUAL(end, sizes.handle);
}

/* Words of the state that are numbered: none is used for two things. */
static void walkNumbers()
{
	static epState state;
	uint32_t owed[4];
	plan.state = &state;
	plan.owed = owed;
	end = 0;
	for (uint32_t family = 0; family < EP_FAMILIES; family++)
		halves(1, 1, [&](uint32_t half, uint32_t rank, uint32_t) {
			return epSignalId(plan, family, half, rank);
		});
	end = 0;
	for (uint32_t n = 0; n < 2; n++)
		for (uint32_t half = 0; half < 2; half++)
			follows(static_cast<uint64_t>(
					epOwedOf(plan, n ? epPartsFree : epRowsFree, half) - owed),
				plan.nRanks);
	end = 0;
	for (uint32_t call = ginEpCallDispatchSend; call <= ginEpCallCombineRecv; call++)
		for (uint32_t half = 0; half < 2; half++)
			follows(static_cast<uint64_t>(epTicketOf(plan, call, half) - state.ticket),
				1);
	EXPECT_EQUAL(end * sizeof(uint32_t), sizeof(state.ticket));
}

/* Each row is counted for one context, that of its chunk. */
static void shares()
{
	for (uint32_t lanes = 1; lanes <= 5; lanes++)
		for (uint32_t n = 0; n < 200; n++) {
			uint32_t rows[5] = {};
			for (uint32_t i = 0; i < n; i++)
				rows[i / EP_CHUNK % lanes]++;
			for (uint32_t l = 0; l < lanes; l++)
				EXPECT_EQUAL(epShareOf(n, l, lanes), rows[l]);
		}
}

/* Of the larger of both layouts: a rank without experts sends rank-major rows, too. */
static void expectSendBuffer(uint32_t localExperts)
{
	const uint64_t rows = uint64_t{localExperts > 1 ? localExperts : 1} * plan.nRanks;
	EXPECT_EQUAL(sizes.sendBuffer, rows * plan.maxTokens * plan.hidden * 2);
}

/* The call's wish goes before the configuration's; both limits hold. */
static void blocks()
{
	static const struct {
		uint32_t htSms, maxSms, asked, most, expected;
	} rows[] = {{0, 0, 0, ~0u, 20}, {30, 0, 0, ~0u, 30}, {30, 0, 40, ~0u, 40},
		    {0, 7, 0, ~0u, 7},	{30, 7, 8, ~0u, 7},  {30, 50, 0, 29, 29},
		    {0, 21, 0, 66, 20}};

	for (const auto &row : rows) {
		ginEpConfig_t config = GIN_EP_CONFIG_INIT;
		config.htSms = row.htSms;
		config.maxSms = row.maxSms;
		EXPECT_EQUAL(epHtBlocks(&config, row.asked, 20, row.most), row.expected);
	}
}

/* Conversions of all bf16, and of what lies in the middle of two bf16 and beside it. */
static void numbers()
{
	for (uint32_t bits = 0; bits < 1u << 16; bits++) {
		const float value = floatOf(static_cast<uint16_t>(bits));
		EXPECT_EQUAL(epToE4m3(value), roundToE4m3(value));
		if (fabsf(value) < 1e6f) /* the reference subtracts */
			EXPECT_EQUAL(epToE2m1(value), roundToE2m1(value));
		if (bits < 0x7f80) /* not negative, finite */
			EXPECT_EQUAL(epMxExponent(value),
				     value > 0 ? std::max(ilogbf(value) - 8, -127) + 127 : 0);
		for (uint32_t beside = 0x7fff; beside <= 0x8001; beside++) {
			const float near = epFloatOf(bits << 16 | beside);
			EXPECT_EQUAL(epToBf16(near), roundToBf16(near));
		}
	}
}

int main()
{
	static const uint32_t first[] = {0, 2, 8, 8};
	for (uint32_t trial = 0; trial < 12; trial++) {
		ginEpConfig_t config = GIN_EP_CONFIG_INIT;
		config.experts = 8;
		config.topk = 1 + trial / 3;
		config.sendBuffer = 1;
		config.hidden = 48;
		config.maxTokens = trial % 3 ? 37 : 5;
		config.reduce = trial % 4 < 2 ? GIN_EP_REDUCE_NONE : GIN_EP_REDUCE_RANK;
		epLayout(&config, first, 3, trial % 3, trial % 2, 1, &plan, &sizes);
		expectSendBuffer(first[trial % 3 + 1] - first[trial % 3]);
		walkSlab();
		walkHandle();
		walkNumbers();
	}
	walkAllHt();
	layoutOfManyRanks();
	shares();
	blocks();
	numbers();
	return 0;
}
