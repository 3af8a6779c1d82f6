/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * route.cuh - the direct route: the calling coop loads and stores the peer's memory
 *
 * When a call returns, it has read its source and issued its stores: there is no room to wait for,
 * and nothing to flush.
 */
#ifndef GIN_DIRECT_CUH
#define GIN_DIRECT_CUH

#include "bulk.cuh"
#include "../core/window.cuh"

/*
 * The address at which this rank loads and stores byte `offset` of `window` at `peer`; NULL if the
 * route to the peer is not direct, or its part is empty. A strong signal to a direct peer covers
 * the earlier stores into its memory, as it covers puts; otherwise the caller orders its accesses.
 */
GIN_FN void *ginPeerPointer(ginWindow_t window, size_t offset, int peer)
{
	char *address = ginWindowAt(window, peer).address;
	return address ? address + offset : nullptr;
}

/*
 * Stores the low `bytes` bytes of a word, 1 to 8, by one thread: in as few stores as the alignment
 * allows.
 */
GIN_FN_COLD void ginStoreLow(char *dst, uint64_t word, uint32_t bytes)
{
	GIN_NO_UNROLL
	for (uint32_t at = 0, width; at < bytes; at += width, word >>= 8 * (width & 7)) {
		const uint32_t left = bytes - at;
		if (left >= 8 && !ginMisalignment(dst + at, 8))
			width = 8, ginDataStore(dst + at, word);
		else if (left >= 4 && !ginMisalignment(dst + at, 4))
			width = 4, ginDataStore(dst + at, static_cast<uint32_t>(word));
		else if (left >= 2 && !ginMisalignment(dst + at, 2))
			width = 2, ginDataStore(dst + at, static_cast<uint16_t>(word));
		else
			width = 1, ginDataStore(dst + at, static_cast<uint8_t>(word));
	}
}

/* Stores a value, by one thread; in one store if size and alignment allow that. */
template <class Value> GIN_FN void ginDirectStore(char *dst, const Value &value)
{
	constexpr uint32_t bytes = sizeof(Value);
	if constexpr (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) {
		if (!ginMisalignment(dst, bytes)) {
			typename ginUint<bytes>::type word;
			memcpy(&word, &value, bytes);
			ginDataStore(dst, word);
			return;
		}
	}
	uint64_t words[(bytes + 7) / 8] = {};
	memcpy(words, &value, bytes);
	for (uint32_t i = 0; i < (bytes + 7) / 8; i++)
		ginStoreLow(dst + 8 * i, words[i], bytes - 8 * i < 8 ? bytes - 8 * i : 8);
}

/*
 * The signals of a direct peer below GIN_DIRECT_SIGNALS, without a load from memory; otherwise
 * NULL.
 */
GIN_FN uint64_t *ginDirectSignals(const ginDevComm &dc, int peer)
{
	return static_cast<uint32_t>(peer) < GIN_DIRECT_SIGNALS ? dc.directSignals[peer] : nullptr;
}

/*
 * The word that a remote action raises at the peer. 32 bits are enough to number a rank's signals:
 * wordIndex().
 */
GIN_FN uint64_t *ginDirectWord(const ginDevComm &dc, uint64_t *peerSignals, int peer,
			       uint32_t context, const ginSignalOp &op)
{
	if (!op.at)
		return peerSignals + (context * dc.signals + op.id);
	char *at = ginWindowAt(op.window, peer).address + op.offset;
	return reinterpret_cast<uint64_t *>(at);
}

/*
 * Raises a signal at the peer, by the thread with `mine`; the coop has met. S, release end: pairs
 * with ginSignalObserve in waits and reads of signals. No release is needed without data, if the
 * signal is weak or the caller has released to the system (`given`).
 */
GIN_FN void ginDirectSignal(bool mine, uint64_t *word, const ginSignalOp &op, bool hasData,
			    ginScope given)
{
	if (!hasData && (!op.strong || given == ginScopeSystem))
		ginSignalPublishRelaxed(mine, word, op.value);
	else
		ginSignalPublish(mine, word, op.value);
}

#endif
