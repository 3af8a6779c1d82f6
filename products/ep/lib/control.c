/* SPDX-License-Identifier: BSD-3-Clause */
/* control.c - masks, the record of the first failure, reset */
#include "ep.h"
#include "range.h"

#include <stdlib.h>

static const char *const callNames[] = {"none",
					"dispatch send",
					"dispatch receive",
					"combine send",
					"combine receive",
					"ginEpHtNotify()",
					"ginEpHtDispatch()",
					"ginEpHtCombine()"};

ginResult_t ginEpMaskQuery(ginEp_t ep, uint32_t *observed, uint32_t *masked)
{
	if (!ep)
		return epFail(ginErrorInvalidArgument, "ep is NULL");
	const struct epPlan *plan = &ep->args.plan;
	for (uint32_t r = 0; r < plan->nRanks; r++) {
		if (observed)
			observed[r] = __atomic_load_n(&plan->pageObserved[r], __ATOMIC_RELAXED);
		if (masked)
			masked[r] = __atomic_load_n(&plan->pageMasked[r], __ATOMIC_RELAXED);
	}
	return ginSuccess;
}

ginResult_t ginEpMaskSet(ginEp_t ep, int rank, int masked, void *stream)
{
	struct epCallArgs call = {.maskRank = rank, .maskValue = masked != 0};

	if (!ep || rank < 0 || (uint32_t)rank >= ep->args.plan.nRanks ||
	    (uint32_t)rank == ep->args.plan.rank)
		return epFail(ginErrorInvalidArgument,
			      "ep is NULL, or rank %d is not another rank of the communicator",
			      rank);
	return epLaunch(ep, epVariantMask, 1, 128, &call, stream);
}

ginResult_t ginEpMaskClear(ginEp_t ep, void *stream)
{
	struct epCallArgs call = {.maskRank = -1};

	if (!ep)
		return epFail(ginErrorInvalidArgument, "ep is NULL");
	return epLaunch(ep, epVariantMask, 1, 128, &call, stream);
}

/* A call of high throughput whose arguments do not fit. */
static void describeHt(const struct epPage *page, const char *call)
{
	if (page->rank >= 0)
		epFail(ginSuccess,
		       "%s %llu: rank %d has a handle of another ginEpHtNotify(), or rows, scales "
		       "or top-k of another size",
		       call, (unsigned long long)page->epoch, page->rank);
	else if (page->result == ginErrorInvalidUsage)
		epFail(ginSuccess,
		       "%s %llu: the handle is not one of ginEpHtNotify() for %llu tokens: it has "
		       "%llu",
		       call, (unsigned long long)page->epoch, (unsigned long long)page->expected,
		       (unsigned long long)page->seen);
	else
		epFail(ginSuccess,
		       "%s %llu: %llu rows need room: the tensors and the pool have it for %llu; "
		       "give larger tensors, or call ginEpHtGrow()",
		       call, (unsigned long long)page->epoch, (unsigned long long)page->expected,
		       (unsigned long long)page->seen);
}

/* The record in words, for ginEpGetLastError(). An index was out of range, or an expert's again. */
static void describe(const struct ginEp *ep)
{
	const struct epPage *page = ep->page;
	const char *call = callNames[page->call <= ginEpCallHtCombine ? page->call : 0];

	if (page->call >= ginEpCallHtNotify &&
	    (page->result == ginErrorInvalidArgument || page->result == ginErrorInvalidUsage))
		describeHt(page, call);
	else if (page->rank < 0 && page->call == ginEpCallCombineSend)
		epFail(ginSuccess,
		       "%s %llu: rows of x were not ready: %s; a word of `ready` is %llu, must be "
		       "%llu: does the GEMM raise the words of all its blocks?",
		       call, (unsigned long long)page->epoch,
		       ginGetErrorString((ginResult_t)page->result), (unsigned long long)page->seen,
		       (unsigned long long)page->expected);
	else if (page->rank < 0)
		epFail(ginSuccess, "%s %llu: topkIdx %s %lld%s at position %llu", call,
		       (unsigned long long)page->epoch,
		       page->seen < ep->config.experts ? "names expert" : "has the wrong index",
		       (long long)page->seen,
		       page->seen < ep->config.experts ? " again in one token," : "",
		       (unsigned long long)page->expected);
	else if (page->result == ginErrorPeer && page->seen - page->expected >= EP_GAVE_UP &&
		 page->seen > page->expected)
		epFail(ginSuccess, "%s %llu: rank %d has given up an earlier wait", call,
		       (unsigned long long)page->epoch, page->rank);
	else
		epFail(ginSuccess, "%s %llu: rank %d did not answer: %s; expected %llu, seen %llu",
		       call, (unsigned long long)page->epoch, page->rank,
		       ginGetErrorString((ginResult_t)page->result),
		       (unsigned long long)page->expected, (unsigned long long)page->seen);
}

ginResult_t ginEpGetAsyncError(ginEp_t ep, ginEpRecord_t *record)
{
	if (!ep || !record || record->size < sizeof(record->size))
		return epFail(ginErrorInvalidArgument,
			      "ep or record is NULL, or record->size is not set");
	const struct epPage *page = ep->page;
	ginEpRecord_t out = GIN_EP_RECORD_INIT;

	if (__atomic_load_n(&page->valid, __ATOMIC_ACQUIRE)) {
		out = (ginEpRecord_t){sizeof(out), 1,		page->result,	page->call,
				      page->rank,  page->epoch, page->expected, page->seen};
		describe(ep);
	}
	out.size = record->size < sizeof(out) ? record->size : sizeof(out);
	memcpy(record, &out, out.size);
	return ginSuccess;
}

ginResult_t epCannotMeet(ginComm_t comm)
{
	ginCommAllgather(comm, NULL, NULL, 1);
	return epFail(ginErrorSystem, "no memory");
}

/* All ranks go on, or none: a rank has failed alone with the result `mine`, or not. */
static ginResult_t meet(ginEp_t ep, ginResult_t mine)
{
	uint32_t nRanks = ep->args.plan.nRanks;
	int32_t own = (int32_t)mine, *all = calloc(nRanks, sizeof(*all));
	ginResult_t result;

	if (!all)
		return epCannotMeet(ep->comm);
	if ((result = ginCommAllgather(ep->comm, &own, all, sizeof(own))))
		epFailGin(result, "the ranks do not meet");
	for (uint32_t r = 0; r < nRanks && !result && !mine; r++)
		if (all[r])
			result = epFail((ginResult_t)all[r], "rank %u: %s", r,
					ginGetErrorString((ginResult_t)all[r]));
	free(all);
	return mine ? mine : result;
}

static ginResult_t runAlone(ginEp_t ep, uint32_t variant)
{
	struct epCallArgs call = {.maskRank = -1};
	ginResult_t result = epLaunch(ep, variant, 1, 512, &call, NULL);

	return result || !ep->gpu ? result : epGpuSync(ep->gpu);
}

void epFlush(ginEp_t ep)
{
	runAlone(ep, epVariantFlush);
}

ginResult_t epStartAnew(ginEp_t ep)
{
	ginResult_t result = meet(ep, ginSuccess);

	if (result)
		return result;
	result = runAlone(ep, epVariantReset);
	memset(&ep->dispatches, 0, sizeof(ep->dispatches));
	memset(&ep->combines, 0, sizeof(ep->combines));
	return meet(ep, result);
}

ginResult_t ginEpReset(ginEp_t ep)
{
	EP_RANGE();
	if (!ep)
		return epFail(ginErrorInvalidArgument, "ep is NULL");
	if (!ep->haveWindow)
		return epFail(ginErrorInvalidUsage,
			      "ginEpHtGrow() has failed: the ep can only be destroyed");
	epFlush(ep);
	return epStartAnew(ep);
}
