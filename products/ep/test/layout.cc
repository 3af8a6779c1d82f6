/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * layout.cc - does the address of each thing follow the one before it, in regions that are full?
 *
 * Each region is walked in the order that args.h writes down: an address of layout.cuh has to be
 * where the thing before it ends. The end of a region, rounded up to 256, has to be where
 * lib/layout.c begins the next one.
 */
#include "expect.h"

extern "C" {
#include "products/ep/lib/ep.h"
}
#include "products/ep/kernels/layout.cuh"

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

static void walkSlab()
{
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
	halves(1 + plan.mostLocal, 8, [](uint32_t half, uint32_t source, uint32_t word) {
		return epCountAt(plan, half, source, word);
	});
	regionBegins(plan.marksAt);
	for (uint32_t source = 0; source < plan.nRanks; source++)
		follows(epMarkAt(plan, source), 8);
	regionBegins(plan.verdictsAt);
	halves(1, 8, [](uint32_t half, uint32_t source, uint32_t) {
		return epVerdictAt(plan, half, source);
	});
	if (!plan.allDirect)
		walkStaged();
	regionBegins(sizes.slab);
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
	shares();
	return 0;
}
