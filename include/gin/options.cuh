/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options.cuh - what a call can be told beside its operands
 */
#ifndef GIN_OPTIONS_CUH
#define GIN_OPTIONS_CUH

#include "detail/target.cuh"

/* ginOptions.timeout: wait until success, abort or a peer's failure. */
#define GIN_FOREVER UINT64_MAX

/*
 * Who uses the context while this object does: all threads of the GPU, those of one block, or this
 * thread alone. A promise that routes with queues make use of: a thread that is alone posts without
 * atomics. The direct route has none. Barriers count as use of context index % contexts.
 */
enum ginSharing { ginSharingGpu = 0, ginSharingCta = 1, ginSharingThread = 2 };

/* Ranks first, first + stride, ...: `count` of them. None: all ranks. */
struct ginPeerSet {
	uint32_t first = 0;
	uint32_t count = 0;
	uint32_t stride = 1;
};

struct ginOptions {
	/* Nanoseconds that the call may wait; 0: the device communicator's default. */
	uint64_t timeout = 0;

	/*
	 * Waits: the peers that this one depends on; the failure of another does not end it.
	 * Without, the failure of any peer does.
	 */
	ginPeerSet from = {};

	/*
	 * How far the caller has released its earlier writes already. Signals without data: given the
	 * system, the call orders nothing by itself and costs less. By routes with queues puts and
	 * atomics, too: what was given as far as they need is not released again.
	 */
	ginScope given = ginScopeThread;

	/*
	 * Puts: how far the writes of the source must be released. Routes that read the source
	 * themselves, as direct does, need none.
	 */
	ginScope required = ginScopeDevice;

	/*
	 * Waits for signals and counters: the compare rolls at this many bits, 1 to 64.
	 */
	uint32_t bits = 64;

	/*
	 * Puts: more will follow on this context and peer, the last one without this option; a
	 * route with queues may hold the call back until then. The direct route never does.
	 */
	bool aggregate = false;

	/*
	 * Puts and gets: shared memory of the block that the call may use until it returns, 16-byte
	 * aligned, or NULL. A hint: the direct route moves long copies through it, see bulk.cuh.
	 */
	void *scratch = nullptr;
	uint32_t scratchBytes = 0;
};

/* Just a timeout, in nanoseconds. */
GIN_FN ginOptions ginTimeout(uint64_t nanoseconds)
{
	ginOptions options;
	options.timeout = nanoseconds;
	return options;
}

#endif
