/* SPDX-License-Identifier: BSD-3-Clause */
/* launch.c - ginEpDispatch(), ginEpCombine() */
#include "ep.h"
#include "range.h"

#include <stdlib.h>

/* Host threads of a rank: few, because all ranks may share the CPUs. */
#define HOST_BLOCKS 2u
#define HOST_THREADS 4u

static uint32_t mostBlocks(ginEp_t ep)
{
	uint32_t blocks = ep->gpu ? epGpuBlocks(ep->gpu) : HOST_BLOCKS;

	return ep->config.maxSms && (ep->config.maxSms < blocks || !ep->gpu) ? ep->config.maxSms
									     : blocks;
}

ginResult_t epRunKernel(struct epGpu *gpu, uint32_t variant, uint32_t grid, uint32_t block,
			size_t shared, struct epArgs *args, void *stream)
{
	struct epPlan *plan = &args->plan;
	ginResult_t result;

	if (gpu)
		return epGpuLaunch(gpu, variant, grid, block, shared, args, stream);
	if (!(plan->scratch = aligned_alloc(64, (size_t)grid * plan->scratchBytes)))
		return epFail(ginErrorSystem, "no memory for the scratch of %u blocks", grid);
	result = epHostRun(variant, grid, HOST_THREADS, args);
	free(plan->scratch);
	return result ? epFail(result, "the system did not start %u threads", grid * HOST_THREADS)
		      : ginSuccess;
}

ginResult_t epLaunch(ginEp_t ep, uint32_t variant, uint32_t grid, uint32_t block,
		     const struct epCallArgs *call, void *stream)
{
	struct epArgs args = ep->args;
	uint32_t most = mostBlocks(ep);

	args.call = *call;
	if (call->sms && call->sms < most)
		most = call->sms;
	grid = grid < 1 ? 1 : grid > most ? most : grid;
	return epRunKernel(ep->gpu, variant, grid, block, epScratchBytes(variant, &args.plan),
			   &args, stream);
}

ginResult_t epStopped(ginEp_t ep)
{
	const struct epPage *page = ep->page;
	ginResult_t failed = (ginResult_t)__atomic_load_n(&page->failed, __ATOMIC_ACQUIRE);

	if (!failed)
		return ginSuccess;
	return epFail(failed,
		      "rank %d: a kernel has failed: %s; ginEpGetAsyncError() has the "
		      "record, ginEpReset() starts anew",
		      (int)ep->args.plan.rank, ginGetErrorString(failed));
}

/* Threads of a block: one for 16 elements of a row, whole warps. */
static uint32_t blockFor(const struct epCallArgs *call)
{
	uint32_t threads = (call->hidden / 16 + 31) / 32 * 32;

	return threads < 128 ? 128 : threads > 512 ? 512 : threads;
}

static ginResult_t sendBegin(const struct epSends *sends, const void *handle, const char *name)
{
	if (sends->handle[0] == handle || sends->handle[1] == handle)
		return epFail(ginErrorInvalidUsage,
			      "%s: a send with this handle still waits for its RECV", name);
	if (sends->handle[sends->next])
		return epFail(ginErrorInvalidUsage,
			      "%s: two sends are outstanding: make the RECV of the older one first",
			      name);
	return ginSuccess;
}

/* `handle` NULL: the kernel receives, too. */
static void sendDone(struct epSends *sends, const void *handle)
{
	sends->handle[sends->next] = handle;
	sends->next = 1 - sends->next;
}

static ginResult_t recvDone(struct epSends *sends, const void *handle, const char *name)
{
	for (int i = 0; i < 2; i++) {
		if (sends->handle[i] != handle)
			continue;
		sends->handle[i] = NULL;
		return ginSuccess;
	}
	return epFail(ginErrorInvalidUsage, "%s: RECV without a send with this handle", name);
}

/* The most rows of all ranks. */
static uint32_t mostRows(ginEp_t ep)
{
	return ep->args.plan.nRanks * ep->args.plan.maxTokens;
}

/*
 * Blocks for the rows that other ranks send, if they have as many tokens as this rank; one for each
 * SM.
 */
static uint32_t recvBlocks(ginEp_t ep, uint32_t tokens)
{
	uint32_t rows = ep->args.plan.nRanks * tokens, sms = ep->gpu ? epGpuBlocks(ep->gpu) / 2 : 1;

	rows = rows < sms ? sms : rows;
	return rows < mostRows(ep) ? rows : mostRows(ep);
}

/*
 * The kernels of combine are fastest with one block for each SM. With few rows there is one block
 * more than rows: the last block sends no row and gives credits.
 */
static uint32_t combineBlocks(ginEp_t ep)
{
	uint32_t sms = ep->gpu ? epGpuBlocks(ep->gpu) / 2 : mostRows(ep), blocks = mostRows(ep) + 1;

	return blocks < sms ? blocks : sms;
}

/* Send and receive in one kernel, where every peer is direct. */
static int fused(ginEp_t ep, uint32_t phase)
{
	return phase == GIN_EP_BOTH && ep->args.plan.allDirect;
}

/* Kernels that number the items of a long list. */
static ginResult_t countList(ginEp_t ep, const struct epCallArgs *call, void *stream)
{
	uint32_t block = blockFor(call), all = mostBlocks(ep);
	ginResult_t result;

	if (!call->longList)
		return ginSuccess;
	if ((result = epLaunch(ep, epVariantMakeList, all, block, call, stream)))
		return result;
	return epLaunch(ep, epVariantCountList, all, block, call, stream);
}

/* Is it a call of the usual kind, with kernels that lack the code for other calls? */
static int isPlain(ginEp_t ep, const struct epCallArgs *call)
{
	const struct epPlan *plan = &ep->args.plan;

	return plan->even && !plan->moreRanks && plan->nRanks <= EP_PEER_SLABS &&
	       plan->onLost == GIN_EP_LOST_ERROR && !call->longList && !call->waitCost &&
	       call->indexBytes == 8 && call->layout == GIN_EP_EXPERT_MAJOR;
}

static uint32_t dispatchVariant(ginEp_t ep, const struct epCallArgs *call)
{
	uint32_t first = !ep->args.plan.allDirect			   ? epVariantMixedBf16
			 : call->phase == GIN_EP_BOTH && isPlain(ep, call) ? epVariantPlainBf16
									   : epVariantDirectBf16;

	if (call->rows == GIN_EP_ROWS_BF16)
		return first;
	return first + (call->rows != GIN_EP_ROWS_F8 ? 3 : call->xIsGiven ? 2 : 1);
}

/* The send; call->phase: and the receive, in one kernel. */
static ginResult_t dispatchSend(ginEp_t ep, const struct epCallArgs *call, void *stream)
{
	int both = call->phase == GIN_EP_BOTH;
	uint32_t blocks = call->tokens + ep->args.plan.nRanks + 1; /* see countsOf() */
	ginResult_t result = sendBegin(&ep->dispatches, call->handle, "ginEpDispatch");

	if (both && blocks < recvBlocks(ep, call->tokens))
		blocks = recvBlocks(ep, call->tokens);
	if (result || (result = countList(ep, call, stream)))
		return result;
	result = epLaunch(ep, dispatchVariant(ep, call), blocks, blockFor(call), call, stream);
	if (!result)
		sendDone(&ep->dispatches, both ? NULL : call->handle);
	return result;
}

static ginResult_t dispatchRecv(ginEp_t ep, const struct epCallArgs *call, void *stream)
{
	ginResult_t result = recvDone(&ep->dispatches, call->handle, "ginEpDispatch");

	if (result)
		return result;
	return epLaunch(ep, dispatchVariant(ep, call), mostRows(ep), blockFor(call), call, stream);
}

typedef ginResult_t phaseFn(ginEp_t ep, const struct epCallArgs *call, void *stream);

/* The phases of a call, in one kernel or in two. */
static ginResult_t runPhases(ginEp_t ep, struct epCallArgs *call, uint32_t phase, phaseFn *send,
			     phaseFn *receive, void *stream)
{
	ginResult_t result = epStopped(ep);
	int both = fused(ep, phase);

	if (!result && phase & GIN_EP_SEND) {
		call->phase = both ? GIN_EP_BOTH : GIN_EP_SEND;
		result = send(ep, call, stream);
	}
	if (!result && !both && phase & GIN_EP_RECV) {
		call->phase = GIN_EP_RECV;
		result = receive(ep, call, stream);
	}
	return result || ep->gpu ? result : epStopped(ep);
}

ginResult_t ginEpDispatch(ginEp_t ep, const ginEpDispatchArgs_t *args, void *stream)
{
	EP_RANGE();
	struct epCallArgs call;
	ginResult_t result;

	if (!ep)
		return epFail(ginErrorInvalidArgument, "ep is NULL");
	if ((result = epCheckDispatch(ep, args, &call)))
		return result;
	return runPhases(ep, &call, args->phase, dispatchSend, dispatchRecv, stream);
}

static uint32_t combineVariant(ginEp_t ep, const struct epCallArgs *call)
{
	uint32_t first = !ep->args.plan.allDirect		      ? epVariantMixedRank
			 : call->phase == GIN_EP_BOTH && !call->ready ? epVariantBothRank
								      : epVariantDirectRank;

	return first + (call->reduce == GIN_EP_REDUCE_NONE);
}

/* The send; call->phase: and the receive, in one kernel. */
static ginResult_t combineSend(ginEp_t ep, const struct epCallArgs *call, void *stream)
{
	ginResult_t result = sendBegin(&ep->combines, call->handle, "ginEpCombine");

	if (result)
		return result;
	result = epLaunch(ep, combineVariant(ep, call), combineBlocks(ep), blockFor(call), call,
			  stream);
	if (!result)
		sendDone(&ep->combines, call->phase == GIN_EP_BOTH ? NULL : call->handle);
	return result;
}

static ginResult_t combineRecv(ginEp_t ep, const struct epCallArgs *call, void *stream)
{
	ginResult_t result = recvDone(&ep->combines, call->handle, "ginEpCombine");

	if (result)
		return result;
	return epLaunch(ep, combineVariant(ep, call), call->tokens, blockFor(call), call, stream);
}

ginResult_t ginEpCombine(ginEp_t ep, const ginEpCombineArgs_t *args, void *stream)
{
	EP_RANGE();
	struct epCallArgs call;
	ginResult_t result;

	if (!ep)
		return epFail(ginErrorInvalidArgument, "ep is NULL");
	if ((result = epCheckCombine(ep, args, &call)))
		return result;
	return runPhases(ep, &call, args->phase, combineSend, combineRecv, stream);
}
