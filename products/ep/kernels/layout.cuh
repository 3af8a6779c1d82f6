/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * layout.cuh - where things are: in the slab, in a handle, in the state; and the numbers of signals
 *
 * Arithmetic on the plan, which loads no shared word. args.h has the regions and their order, and
 * products/ep/lib/layout.c reserves them.
 */
#ifndef GIN_EP_LAYOUT_CUH
#define GIN_EP_LAYOUT_CUH

#include "gin_device.cuh"

#include "args.h"

/* The slab of a direct peer; NULL: a network route. */
GIN_FN char *epSlabOf(const epPlan &plan, uint32_t rank)
{
	if (rank == plan.rank)
		return plan.own;
	if (rank < EP_PEER_SLABS)
		return plan.peerSlab[rank];
	return static_cast<char *>(ginPeerPointer(plan.slab, 0, static_cast<int>(rank)));
}

GIN_FN bool epIsDirect(const epPlan &plan, uint32_t rank)
{
	return plan.allDirect || epSlabOf(plan, rank) != nullptr;
}

/* Offsets in the slab. */
GIN_FN size_t epRowAt(const epPlan &plan, uint32_t half, uint32_t source, uint32_t slot)
{
	size_t row = (static_cast<size_t>(half) * plan.nRanks + source) * plan.maxTokens + slot;
	return plan.rowsAt + row * plan.rowBytes;
}

GIN_FN size_t epStagedRowAt(const epPlan &plan, uint32_t half, uint32_t peer, uint32_t slot)
{
	return plan.stagedRowsAt - plan.rowsAt + epRowAt(plan, half, peer, slot);
}

/* Row `part` of parts; staged rows for a peer have the peer's numbers. */
GIN_FN size_t epPartAt(const epPlan &plan, size_t half, uint32_t part)
{
	const size_t row = half * plan.maxTokens * plan.partsOfToken + part;
	return plan.partsAt + row * plan.partBytes;
}

GIN_FN size_t epStagedPartAt(const epPlan &plan, size_t half, uint32_t peer, uint32_t part)
{
	const size_t row = (half * plan.nRanks + peer) * plan.maxTokens * plan.partsOfToken + part;
	return plan.stagedPartsAt + row * plan.partBytes;
}

/* Where the count line of a source begins: [half][source][1 + mostLocal]. */
GIN_FN size_t epLineAt(const epPlan &plan, uint32_t half, uint32_t source)
{
	const size_t line = static_cast<size_t>(half) * plan.nRanks + source;
	return plan.countsAt + line * (1 + plan.mostLocal) * sizeof(uint64_t);
}

GIN_FN size_t epLineBytes(const epPlan &plan)
{
	return (1 + plan.mostLocal) * sizeof(uint64_t);
}

GIN_FN size_t epStagedLineAt(const epPlan &plan, uint32_t half, uint32_t peer)
{
	return plan.stagedCountsAt - plan.countsAt + epLineAt(plan, half, peer);
}

/* Word 0: rows; word 1 + e: items of local expert e. */
GIN_FN size_t epCountAt(const epPlan &plan, uint32_t half, uint32_t source, uint32_t word)
{
	return epLineAt(plan, half, source) + word * sizeof(uint64_t);
}

GIN_FN size_t epVerdictAt(const epPlan &plan, uint32_t half, uint32_t source)
{
	return plan.verdictsAt + (half * plan.nRanks + source) * sizeof(uint64_t);
}

/* The mark of `source` at a rank. */
GIN_FN size_t epMarkAt(const epPlan &plan, uint32_t source)
{
	return plan.marksAt + source * sizeof(uint64_t);
}

/* The rows sent to each rank, in a handle. */
GIN_FN uint32_t *epSentOf(epHandle *handle)
{
	return reinterpret_cast<uint32_t *>(handle + 1);
}

/* The rows that each rank has sent to this rank. */
GIN_FN uint32_t *epReceivedOf(const epPlan &plan, epHandle *handle)
{
	return epSentOf(handle) + plan.nRanks;
}

/* The epReceived of a row, and its answers. */
GIN_FN char *epRecordOf(const epPlan &plan, epHandle *handle, uint32_t source, uint32_t slot)
{
	size_t before = (2 * plan.nRanks * sizeof(uint32_t) + 15) / 16 * 16;
	size_t row = static_cast<size_t>(source) * plan.maxTokens + slot;
	return reinterpret_cast<char *>(handle + 1) + before + row * plan.received;
}

GIN_FN epItemParts *epItemPartsIn(const epPlan &plan, epHandle *handle)
{
	return reinterpret_cast<epItemParts *>(reinterpret_cast<char *>(handle) + plan.itemPartsAt);
}

/* The signal of `family` and half at the rank that waits, raised by or for `rank`. */
GIN_FN uint32_t epSignalId(const epPlan &plan, uint32_t family, uint32_t half, uint32_t rank)
{
	return (family * 2 + half) * plan.nRanks + rank;
}

/* The words of all ranks: 1: a credit of `family`, epRowsFree or epPartsFree, is to be given. */
GIN_FN uint32_t *epOwedOf(const epPlan &plan, uint32_t family, uint32_t half)
{
	return plan.owed + ((family == epPartsFree ? 2 : 0) + half) * plan.nRanks;
}

/* The tickets of a call: one word for each half, so that two receives may overlap. */
GIN_FN uint32_t *epTicketOf(const epPlan &plan, uint32_t number, uint32_t half)
{
	return &plan.state->ticket[(number - 1) * 2 + half];
}

/* High throughput: words, by their index in a region of the slab. */
GIN_FN size_t epHtPlaceAt(const epPlan &plan, const epHtPlan &ht, uint32_t which, uint32_t half,
			  uint32_t peer)
{
	const uint32_t place = (which * 2 + half) * plan.nRanks + peer;
	return ht.placeAt + place * EP_HT_PLACE * sizeof(uint64_t);
}

GIN_FN size_t epHtDoneAt(const epHtPlan &ht, uint32_t source, uint32_t unit)
{
	return ht.doneAt + (size_t{source} * ht.units + unit) * sizeof(uint64_t);
}

GIN_FN size_t epHtReadyAt(const epHtPlan &ht, uint32_t holder, uint32_t batch)
{
	return ht.readyAt + (size_t{holder} * ht.batches + batch) * sizeof(uint64_t);
}

GIN_FN size_t epHtPulledAt(const epHtPlan &ht, uint32_t source)
{
	return ht.pulledAt + source * sizeof(uint64_t);
}

/* The count line of a source: [half][source][1 + ranks + most experts]. */
GIN_FN size_t epHtCountAt(const epPlan &plan, uint32_t half, uint32_t source, uint32_t word)
{
	const size_t line = size_t{half} * plan.nRanks + source;
	return plan.countsAt +
	       (line * (1 + plan.nRanks + plan.mostLocal) + word) * sizeof(uint64_t);
}

/* Parts of a handle. */
GIN_FN uint32_t *epHtTokensOf(epHtHandle *handle)
{
	return reinterpret_cast<uint32_t *>(handle + 1);
}

GIN_FN uint32_t *epHtStartOf(const epPlan &plan, epHtHandle *handle)
{
	return epHtTokensOf(handle) + plan.nRanks;
}

GIN_FN uint32_t *epHtRowsOf(const epPlan &plan, epHtHandle *handle)
{
	return epHtTokensOf(handle) + 2 * plan.nRanks;
}

GIN_FN epHtPair *epHtPairsOf(const epPlan &plan, epHtHandle *handle, uint32_t group)
{
	const size_t words = (size_t{3} * plan.nRanks + 3) / 4 * 4;
	return reinterpret_cast<epHtPair *>(epHtTokensOf(handle) + words) +
	       size_t{group} * plan.nRanks;
}

/* Between domains: the number of domain d among the domains other than `of`. */
GIN_FN uint32_t epHtOther(uint32_t of, uint32_t d)
{
	return d < of ? d : d - 1;
}

/* The pairs of a group of the rail peer's tokens in domain d, for the ranks of this domain. */
GIN_FN const epHtPair *epHtRailPairsOf(const epPlan &plan, const epHtPlan &ht, epHtHandle *handle,
				       uint32_t tokens, uint32_t d, uint32_t group)
{
	const uint32_t own = (tokens + EP_HT_GROUP - 1) / EP_HT_GROUP;
	const size_t index = size_t{epHtOther(ht.domain, d)} * ht.groups + group;
	return epHtPairsOf(plan, handle, own) + index * ht.domainSize;
}

/* Of `base`, messageAt or stagedMessageAt; `other`: epHtOther(). */
GIN_FN size_t epHtMessageAt(const epHtPlan &ht, size_t base, uint32_t half, uint32_t other)
{
	return base + (half * (ht.domains - 1) + other) * ht.messageBytes;
}

/* Of `base`, ringAt or stagedAt. */
GIN_FN size_t epHtSlotAt(const epPlan &plan, const epHtPlan &ht, size_t base, uint32_t other,
			 uint32_t lane, uint32_t slot)
{
	return base + ((size_t{other} * plan.lanes + lane) * EP_HT_DEPTH + slot) * ht.slotBytes;
}

/* The signal number `kind`, below EP_HT_SIGNALS, that ranks of domain d raise. */
GIN_FN uint32_t epHtSignalId(const epHtPlan &ht, uint32_t kind, uint32_t d)
{
	return kind * ht.domains + d;
}

/* Rows of n that go by context `lane` of `lanes`: chunks go round robin. */
GIN_FN uint32_t epShareOf(uint32_t n, uint32_t lane, uint32_t lanes)
{
	uint32_t whole = n / EP_CHUNK;
	uint32_t share = EP_CHUNK * ((whole + lanes - 1 - lane) / lanes);
	return whole % lanes == lane ? share + n % EP_CHUNK : share;
}

#endif
