/* SPDX-License-Identifier: BSD-3-Clause */
/* ht.c - the calls of high throughput */
#include "ep.h"
#include "range.h"

#include <sched.h>
#include <time.h>

/* Thread blocks of dispatch and combine. Measured: more of them do not fill the link better. */
#define BLOCKS 20u
#define HOST_BLOCKS 2u

/* The bit that each ticket has: none is 0, and the places of eight in a row differ at the wrap. */
#define TICKET (1u << 31)

static ginResult_t launch(ginEp_t ep, uint32_t variant, uint32_t grid, size_t shared,
			  struct epHtCall *call, void *stream)
{
	struct epArgs args = ep->args;
	ginResult_t result = epStopped(ep);

	if (result)
		return result;
	call->shared = (uint32_t)shared;
	args.ht.plan = ep->ht;
	args.ht.call = *call;
	result = epRunKernel(ep->gpu, variant, grid, EP_HT_THREADS, shared, &args, stream);
	return result || ep->gpu ? result : epStopped(ep);
}

/* The variant for ranks that are all direct, or the one for several domains. */
static uint32_t variantOf(ginEp_t ep, uint32_t direct, uint32_t rail)
{
	return ep->ht.domains > 1 ? rail : direct;
}

/* Dispatch and combine; all their blocks are resident together. */
static ginResult_t move(ginEp_t ep, uint32_t variant, uint32_t sms, struct epHtCall *call,
			void *stream)
{
	uint32_t most = ep->gpu ? epGpuBlocks(ep->gpu) / 2 : ~0u;
	ginResult_t result;

	if (ep->ht.domains > 1) {
		result =
			launch(ep, epVariantHtRailPlaces, 1,
			       epScratchBytes(epVariantHtRailPlaces, &ep->args.plan), call, stream);
		if (result)
			return result;
	}
	sms = epHtBlocks(&ep->config, sms, ep->gpu ? BLOCKS : HOST_BLOCKS, most);
	return launch(ep, variant, sms, ep->gpu ? epGpuShared(ep->gpu) : 0, call, stream);
}

ginResult_t ginEpHtLayout(ginComm_t comm, const ginEpHtLayoutArgs_t *given, void *stream)
{
	EP_RANGE();
	struct epArgs args = {0};
	struct epPlan *plan = &args.plan;
	struct epGpu *gpu = NULL;
	int nRanks = 0, device = -1;
	ginResult_t result;

	if (!comm || ginCommSize(comm, &nRanks) || ginCommDevice(comm, &device))
		return epFail(ginErrorInvalidArgument, "comm is NULL");
	if ((result = epHtCheckLayout(given, (uint32_t)nRanks, &args.ht.call)))
		return result;
	/* Loaded kernels stay, for the next layout. */
	if (device >= 0 && (result = epGpuOpen(device, &gpu)))
		return result;
	plan->nRanks = (uint32_t)nRanks;
	plan->experts = args.ht.call.experts;
	plan->scratchBytes = (uint32_t)(epScratchBytes(epVariantHtLayout, plan) + 63) / 64 * 64;
	return epRunKernel(gpu, epVariantHtLayout, 1, EP_HT_THREADS, plan->scratchBytes, &args,
			   stream);
}

ginResult_t ginEpHtHandleBytes(ginEp_t ep, uint32_t tokens, uint64_t *bytes)
{
	uint64_t R, groups = (tokens + EP_HT_GROUP - 1) / EP_HT_GROUP;

	if (!ep || !bytes || ep->config.modes != GIN_EP_HT || tokens > ep->ht.tokens)
		return epFail(ginErrorInvalidArgument,
			      "ep or bytes is NULL, ep is not of GIN_EP_HT, or tokens is above "
			      "htTokens");
	R = ep->args.plan.nRanks;
	groups = groups * R + (ep->ht.domains - 1ull) * ep->ht.groups * ep->ht.domainSize;
	*bytes =
		sizeof(struct epHtHandle) + (3 * R + 3) / 4 * 16 + groups * sizeof(struct epHtPair);
	return ginSuccess;
}

ginResult_t ginEpHtNotify(ginEp_t ep, const ginEpHtNotifyArgs_t *args, void *stream,
			  uint32_t *ticket)
{
	EP_RANGE();
	struct epHtCall call = {0};
	uint32_t blocks, most;
	ginResult_t result;

	if (!ep)
		return epFail(ginErrorInvalidArgument, "ep is NULL");
	if ((result = epHtCheckNotify(ep, args, &call)))
		return result;
	most = ep->gpu ? 32 : HOST_BLOCKS;
	blocks = call.tokens / 512 + 1;
	if (ticket)
		ep->ticket = (ep->ticket + 1) | TICKET;
	call.ticket = ticket ? ep->ticket : 0;
	result = launch(ep, variantOf(ep, epVariantHtNotify, epVariantHtRailNotify),
			blocks < most ? blocks : most,
			epScratchBytes(epVariantHtNotify, &ep->args.plan), &call, stream);
	if (!result && ticket)
		*ticket = ep->ticket;
	return result;
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Waits for the ticket's entry: first awake, then asleep between looks. */
static ginResult_t awaitTicket(ginEp_t ep, const uint32_t *entry, uint32_t ticket, uint64_t timeout)
{
	const struct timespec nap = {0, 20000};
	const uint64_t start = now();
	uint64_t spent;
	ginResult_t result;

	while (__atomic_load_n(entry, __ATOMIC_ACQUIRE) != ticket) {
		if ((result = epStopped(ep)))
			return result;
		spent = now() - start;
		if (timeout && spent > timeout)
			return epFail(ginErrorTimeout,
				      "the counts of ticket %u have not come: does every rank call "
				      "ginEpHtNotify()?",
				      ticket);
		if (spent > 200000)
			nanosleep(&nap, NULL);
	}
	return ginSuccess;
}

ginResult_t ginEpHtCounts(ginEp_t ep, uint32_t ticket, uint64_t timeout, ginEpHtCounts_t *counts)
{
	EP_RANGE();
	ginResult_t result;

	if (!ep || ep->config.modes != GIN_EP_HT || !counts || counts->size < sizeof(*counts))
		return epFail(ginErrorInvalidArgument,
			      "ep or counts is NULL, ep is not of GIN_EP_HT, or counts->size is "
			      "not set");
	const uint32_t *entry = ep->ht.page + (size_t)(ticket % EP_HT_TICKETS) * ep->ht.pageWords;
	if (!(ticket & TICKET) || ((ep->ticket - ticket) & ~TICKET) >= EP_HT_TICKETS)
		return epFail(ginErrorInvalidUsage, "the counts of ticket %u are not kept", ticket);
	if ((result = awaitTicket(ep, entry, ticket, timeout)))
		return result;
	counts->rows = entry[1];
	counts->mostRows = entry[2];
	for (uint32_t e = 0; counts->perExpert && e < ep->args.plan.localExperts; e++)
		counts->perExpert[e] = entry[3 + e];
	return ginSuccess;
}

ginResult_t ginEpHtDispatch(ginEp_t ep, const ginEpHtDispatchArgs_t *args, void *stream)
{
	EP_RANGE();
	struct epHtCall call = {0};
	ginResult_t result;

	if (!ep)
		return epFail(ginErrorInvalidArgument, "ep is NULL");
	if ((result = epHtCheckDispatch(ep, args, &call)))
		return result;
	call.number = ginEpCallHtDispatch;
	return move(ep, variantOf(ep, epVariantHtDispatch, epVariantHtRailDispatch), args->sms,
		    &call, stream);
}

ginResult_t ginEpHtCombine(ginEp_t ep, const ginEpHtCombineArgs_t *args, void *stream)
{
	EP_RANGE();
	struct epHtCall call = {0};
	ginResult_t result;

	if (!ep)
		return epFail(ginErrorInvalidArgument, "ep is NULL");
	if ((result = epHtCheckCombine(ep, args, &call)))
		return result;
	call.number = ginEpCallHtCombine;
	return move(ep, variantOf(ep, epVariantHtCombine, epVariantHtRailCombine), args->sms, &call,
		    stream);
}

ginResult_t ginEpHtPool(ginEp_t ep, void **base, uint64_t *bytes)
{
	if (!ep || ep->config.modes != GIN_EP_HT || !base || !bytes)
		return epFail(ginErrorInvalidArgument,
			      "ep, base or bytes is NULL, or ep is not of GIN_EP_HT");
	*base = ep->args.plan.own + ep->ht.poolAt;
	*bytes = (uint64_t)ep->ht.rows * ep->ht.rowBytes;
	return ginSuccess;
}
