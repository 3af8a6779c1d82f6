/* SPDX-License-Identifier: BSD-3-Clause */
/* window.cuh - how device calls find a peer's part of a window, and the window of an address */
#ifndef GIN_WINDOW_CUH
#define GIN_WINDOW_CUH

#include "mlx5.h"
#include "ordering.cuh"

/* The part of `window` at `peer`. */
GIN_FN const struct ginWindowPeer &ginWindowAt(ginWindow_t window, int peer)
{
	const uint32_t at = ginUnshared(static_cast<uint32_t>(peer)) *
				    static_cast<uint32_t>(sizeof(struct ginWindowPeer)) +
			    static_cast<uint32_t>(sizeof(struct ginWindowTable));
	return *reinterpret_cast<const struct ginWindowPeer *>(
		reinterpret_cast<const char *>(window.table) + at);
}

/*
 * Where the NIC reads `bytes` at an address, by a search in all windows of this rank; false: no
 * window has them. Relaxed loads: windows come and go while kernels run, but the window of a put
 * stays.
 */
GIN_FN bool ginSourceFind(const struct ginSources *sources, uint64_t address, size_t bytes,
			  struct ginMlx5Memory *found)
{
	const struct ginSourceEntry *entry =
		reinterpret_cast<const struct ginSourceEntry *>(sources + 1);
	uint64_t used = ginHostWordObserve(&sources->used);

	for (uint64_t i = 0; i < used; i++, entry++) {
		uint64_t size = ginHostWordObserve(&entry->bytes);
		uint64_t offset = address - ginHostWordObserve(&entry->address);
		if (offset < size && bytes <= size - offset) {
			*found = {entry->nicAddress + offset, entry->nicKey};
			return true;
		}
	}
	return false;
}

#endif
