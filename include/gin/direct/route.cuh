/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * route.cuh - the direct route: the calling coop works in the peer's memory itself
 *
 * Nothing is queued: when a call returns, its stores have been issued and its source was read, so
 * that there is no room to wait for and nothing left to flush.
 */
#ifndef GIN_DIRECT_CUH
#define GIN_DIRECT_CUH

#include "bulk.cuh"
#include "../options.cuh"

/* What `window` is at `peer`. */
GIN_FN const struct ginWindowPeer &ginWindowAt(ginWindow_t window, int peer)
{
	return reinterpret_cast<const struct ginWindowPeer *>(window.table + 1)[peer];
}

/*
 * Where this rank loads and stores byte `offset` of `window` at `peer`; NULL when the route to it
 * is not direct or its part is empty. Such accesses are ordered by the caller's own means, or, as
 * the puts of a context are, by its strong signals.
 */
GIN_FN void *ginPeerPointer(ginWindow_t window, size_t offset, int peer)
{
	char *address = ginWindowAt(window, peer).address;
	return address ? address + offset : nullptr;
}

/* A value out of registers, by one thread: one store when size and alignment allow it. */
template <class Value> GIN_FN void ginDirectStore(char *dst, const Value &value)
{
	constexpr size_t bytes = sizeof(Value);
	if constexpr (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) {
		if (!ginMisalignment(dst, bytes)) {
			typename ginUint<bytes>::type word;
			memcpy(&word, &value, bytes);
			ginDataStore(dst, word);
			return;
		}
	}
	const Value copy = value; /* the value itself stays in registers */
	ginCopyShort(dst, reinterpret_cast<const char *>(&copy), bytes);
}

/* A direct peer's signals, when they are known without a load: NULL, when it is far or not direct. */
GIN_FN uint64_t *ginDirectNear(const ginDevComm &dc, int peer)
{
	return static_cast<uint32_t>(peer) < GIN_NEAR_RANKS ? dc.nearSignals[peer] : nullptr;
}

/* The word that a remote action raises at the peer. */
GIN_FN uint64_t *ginDirectWord(const ginDevComm &dc, uint64_t *peerSignals, int peer,
			       uint32_t context, const ginSignalOp &op)
{
	if (!op.at)
		return peerSignals + static_cast<size_t>(context) * dc.signals + op.id;
	char *at = ginWindowAt(op.window, peer).address + op.offset;
	return reinterpret_cast<uint64_t *>(at);
}

/*
 * Raise a signal at the peer, by the thread of a coop that has met which says `mine`. S, release
 * end: pairs with ginSignalObserve in the waits and reads of signals. Only one that has no data to
 * cover, being weak and alone or released by the caller already, goes without.
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
