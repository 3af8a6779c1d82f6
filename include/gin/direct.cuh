/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * direct.cuh - the direct route: the calling coop stores into the peer's memory itself
 *
 * Nothing is queued: when a call returns, its stores have been issued and its source was read, so
 * that there is no room to wait for and nothing left to flush.
 */
#ifndef GIN_DIRECT_CUH
#define GIN_DIRECT_CUH

#include "copy.cuh"

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
	ginCopyFew(dst, reinterpret_cast<const char *>(&value), bytes);
}

/*
 * Raise a signal at the peer, by one thread of a coop that has synchronised. S, release end: pairs
 * with ginSignalObserve in Gin::waitSignal and Gin::readSignal.
 */
GIN_FN void ginDirectSignal(const ginDevComm &dc, const struct ginPeer &peer, uint32_t context,
			    uint32_t id, uint64_t value)
{
	ginSignalPublish(peer.signals + static_cast<size_t>(context) * dc.signals + id, value);
}

#endif
