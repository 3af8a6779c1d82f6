/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernels.cuh - all kernels and their variants
 *
 * EP_VARIANTS in variants.h names them.
 */
#ifndef GIN_EP_KERNELS_CUH
#define GIN_EP_KERNELS_CUH

#include "combine_recv.cuh"
#include "combine_send.cuh"
#include "control.cuh"
#include "dispatch_recv.cuh"
#include "dispatch_send.cuh"
#include "ht/combine.cuh"
#include "ht/dispatch.cuh"
#include "ht/notify.cuh"
#include "ht/rail.cuh"
#include "ht/rail_combine.cuh"
#include "ht/rail_dispatch.cuh"
#include "ht/rail_places.cuh"

/*
 * Send and receive in one kernel. Every block ends its sends before it waits, and all blocks are
 * resident together, so no block waits for a block that cannot start. `isPlain`: see EpBlock.
 */
template <class Send, class Recv, bool isPlain = false> class EpBoth : public EpBlock
{
	char *const shared;

public:
	GIN_FN EpBoth(const epArgs &a, char *s) : EpBlock(a, s), shared(s) {}

	GIN_FN static size_t scratchBytes(const epPlan &plan)
	{
		const size_t a = Send::scratchBytes(plan),
			     b = Send::keptBytes(plan) + Recv::scratchBytes(plan);
		return !plan.allDirect ? 0 /* not run */ : a > b ? a : b;
	}

	GIN_FN void run()
	{
		Send send(args, shared, isPlain);
		Recv recv(args, shared + Send::keptBytes(plan), isPlain);
		uint32_t epoch;
		if (!send.send(false, &epoch))
			return;
		recv.begin();
		send.signal();
		recv.receive(epoch, true);
	}
};

/*
 * The send, the receive or both, by call.phase. Both in one kernel need direct peers: see EpBoth. A
 * send and its receive are one kernel, launched twice, so that profiles have one name.
 */
template <class Send, class Recv> class EpPhases : public EpBlock
{
	char *const shared;

public:
	GIN_FN EpPhases(const epArgs &a, char *s) : EpBlock(a, s), shared(s) {}

	GIN_FN static size_t scratchBytes(const epPlan &plan)
	{
		const size_t a = Send::scratchBytes(plan),
			     b = (plan.allDirect ? Send::keptBytes(plan) : 0) +
				 Recv::scratchBytes(plan);
		return a > b ? a : b;
	}

	GIN_FN void run()
	{
		const bool receives = call.phase & GIN_EP_RECV, sends = call.phase & GIN_EP_SEND;
		Recv recv(args, shared + (sends && receives ? Send::keptBytes(plan) : 0));
		uint32_t epoch;
		if (sends) {
			Send send(args, shared);
			if (!send.send(!receives, &epoch))
				return;
			if (receives)
				recv.begin();
			send.signal();
			if (!receives)
				return;
		} else if (!recv.enter(&epoch)) {
			return;
		}
		recv.receive(epoch, sends);
	}
};

template <bool direct, uint32_t reduce> using EpCombine =
	EpPhases<EpCombineSend<direct, reduce, true>, EpCombineRecv<direct, reduce>>;

template <uint32_t reduce> using EpCombineBoth =
	EpBoth<EpCombineSend<true, reduce, false>, EpCombineRecv<true, reduce>>;

template <class Kernel> GIN_FN void epRun(const epArgs &args, char *shared)
{
	Kernel kernel(args, shared);
	kernel.run();
}

#endif
