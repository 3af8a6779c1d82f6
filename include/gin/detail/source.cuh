/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * source.cuh - where a put reads, and how far that has yet to be released
 */
#ifndef GIN_SOURCE_CUH
#define GIN_SOURCE_CUH

#include "ordering.cuh"
#include "../gdaki/mlx5.h"
#include "../options.cuh"

/*
 * In a window, or at an address in any of this rank's windows. `anywhere` says which, and the compiler knows
 * it of every call: whether a window is NULL it would not.
 */
struct ginSource {
	bool anywhere;
	const void *address; /* if so */
	ginWindow_t window;  /* if not */
	size_t offset;
};

GIN_FN constexpr ginSource ginSourceIn(ginWindow_t window, size_t offset)
{
	return {false, nullptr, window, offset};
}

GIN_FN constexpr ginSource ginSourceAnywhere(const void *address)
{
	return {true, address, {nullptr}, 0};
}

/* How far a source must yet be released, given how far the caller has; all of them enum ginScope. */
GIN_FN uint32_t ginFenceLeft(uint32_t given, uint32_t required)
{
	if (given >= ginScopeSystem) /* whatever is required: most often the compiler knows this */
		return ginScopeThread;
	return given >= required ? static_cast<uint32_t>(ginScopeThread) : required;
}

/* The scope that a put's source needs: that of its window, or what the caller asks for. */
GIN_FN uint32_t ginPutFence(const ginSource &src, uint32_t given, uint32_t asked)
{
	uint32_t required = static_cast<uint32_t>(ginScopeSystem);
	if (!src.anywhere)
		required = src.window.table->fence;
	return ginFenceLeft(given, required < asked ? asked : required);
}

/* Relaxed: windows come and go while kernels run, but not the one that a put reads. */
GIN_FN uint64_t ginSourceWord(const uint64_t *word)
{
	return ginHostWordObserve(word);
}

/* Which window has these bytes: as the NIC reads them. A search among all windows of the rank. */
GIN_FN_COLD bool ginSourceFind(const struct ginSources *sources, const void *address, size_t bytes,
			       struct ginMlx5Memory *found)
{
	const struct ginSourceEntry *entry =
		reinterpret_cast<const struct ginSourceEntry *>(sources + 1);
	uint64_t at = reinterpret_cast<uintptr_t>(address), used = ginSourceWord(&sources->used);

	for (uint64_t i = 0; i < used; i++, entry++) {
		uint64_t size = ginSourceWord(&entry->bytes);
		uint64_t offset = at - ginSourceWord(&entry->address);
		if (offset < size && bytes <= size - offset) {
			*found = {entry->nicAddress + offset, entry->nicKey};
			return true;
		}
	}
	return false;
}

#endif
