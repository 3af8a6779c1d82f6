/* SPDX-License-Identifier: BSD-3-Clause */
/* ht_check.c - the arguments of high throughput, before anything is done */
#include "ep.h"

#define BAD(...) epFail(ginErrorInvalidArgument, __VA_ARGS__)

/* A tensor of a type whose elements have 1, 2 or 4 bytes. */
static ginResult_t needBytes(const char *name, const ginEpTensor_t *t, int bytes, int nDims,
			     const int64_t *size)
{
	if (epElementBytes(t->type) == bytes)
		return epNeedPacked(name, t, t->type, nDims, size, 0);
	return BAD("%s has elements of type %d, must have %d byte%s", name, t->type, bytes,
		   bytes == 1 ? "" : "s");
}

/* topkIdx, contiguous [tokens][K]. */
static ginResult_t needIndex(const char *name, const ginEpTensor_t *idx, int64_t tokens,
			     struct epHtCall *call)
{
	int64_t size[2] = {tokens, idx->size[1]};
	int type = idx->type == ginEpI64 ? ginEpI64 : ginEpI32;
	ginResult_t result;

	if ((result = epNeedPacked(name, idx, type, 2, size, tokens == 0)))
		return result;
	if (size[1] < 1 || size[1] > GIN_EP_MAX_TOPK)
		return BAD("%s.size[1] is %lld, must be 1 to %u", name, (long long)size[1],
			   GIN_EP_MAX_TOPK);
	call->topk = (uint32_t)size[1];
	call->indexBytes = type == ginEpI64 ? 8 : 4;
	return ginSuccess;
}

static ginResult_t needHandle(ginEp_t ep, void *handle, struct epHtCall *call)
{
	if (ep->config.modes != GIN_EP_HT)
		return epFail(ginErrorInvalidUsage, "the ep is of GIN_EP_LL");
	if (!handle || (uintptr_t)handle % 16)
		return BAD("handle is %p, must be memory aligned to 16 bytes", handle);
	call->handle = handle;
	return ginSuccess;
}

static ginResult_t needTokens(const char *name, int64_t tokens, uint32_t most,
			      struct epHtCall *call)
{
	call->tokens = (uint32_t)tokens;
	if (tokens >= 0 && tokens <= most)
		return ginSuccess;
	return BAD("%s.size[0] is %lld, must be 0 to htTokens = %u of the configuration", name,
		   (long long)tokens, most);
}

/* Received rows: m of them, at least one where the tensor has data. */
static ginResult_t needRoom(const char *name, int64_t rows, struct epHtCall *call)
{
	call->room = (uint32_t)rows;
	if (rows >= 0 && rows < INT32_MAX)
		return ginSuccess;
	return BAD("%s.size[0] is %lld", name, (long long)rows);
}

ginResult_t epHtCheckLayout(const ginEpHtLayoutArgs_t *given, uint32_t nRanks,
			    struct epHtCall *call)
{
	ginEpHtLayoutArgs_t in = GIN_EP_HT_LAYOUT_ARGS_INIT;
	int64_t goes[2], ranks = nRanks, experts;
	ginResult_t result;

	if ((result = epTakeStruct("args", "GIN_EP_HT_LAYOUT_ARGS_INIT", given, sizeof(in), &in,
				   sizeof(in))))
		return result;
	if (nRanks > GIN_EP_HT_MAX_RANKS)
		return epFail(ginErrorUnsupported,
			      "comm has %u ranks, the most of GIN_EP_HT are %u", nRanks,
			      GIN_EP_HT_MAX_RANKS);
	goes[0] = in.topkIdx.size[0];
	goes[1] = ranks;
	experts = in.experts;
	if (!experts || experts > GIN_EP_MAX_EXPERTS)
		return BAD("experts is %u, must be 1 to %u", in.experts, GIN_EP_MAX_EXPERTS);
	if ((result = needTokens("topkIdx", goes[0], GIN_EP_HT_MAX_TOKENS, call)) ||
	    (result = needIndex("topkIdx", &in.topkIdx, goes[0], call)) ||
	    (result = epNeedPacked("tokensPerRank", &in.tokensPerRank, ginEpI32, 1, &ranks, 0)) ||
	    (result = epNeedPacked("tokensPerExpert", &in.tokensPerExpert, ginEpI32, 1, &experts,
				   0)) ||
	    (goes[0] && (result = needBytes("isTokenInRank", &in.isTokenInRank, 1, 2, goes))))
		return result;
	call->experts = in.experts;
	call->topkIdx = in.topkIdx.data;
	call->tokensPerRank = in.tokensPerRank.data;
	call->tokensPerExpert = in.tokensPerExpert.data;
	call->isTokenInRank = in.isTokenInRank.data;
	return ginSuccess;
}

ginResult_t epHtCheckNotify(ginEp_t ep, const ginEpHtNotifyArgs_t *given, struct epHtCall *call)
{
	ginEpHtNotifyArgs_t in = GIN_EP_HT_NOTIFY_ARGS_INIT;
	const struct epPlan *p = &ep->args.plan;
	int64_t goes[2], experts = p->experts, counts = 1 + (int64_t)p->localExperts;
	int64_t matrix[2] = {p->nRanks, p->nRanks};
	ginResult_t result;

	if ((result = epTakeStruct("args", "GIN_EP_HT_NOTIFY_ARGS_INIT", given, sizeof(in), &in,
				   sizeof(in))) ||
	    (result = needHandle(ep, in.handle, call)))
		return result;
	goes[0] = in.isTokenInRank.size[0];
	goes[1] = p->nRanks;
	if ((result = needTokens("isTokenInRank", goes[0], ep->ht.tokens, call)) ||
	    (goes[0] && (result = needBytes("isTokenInRank", &in.isTokenInRank, 1, 2, goes))) ||
	    (result = epNeedPacked("tokensPerExpert", &in.tokensPerExpert, ginEpI32, 1, &experts,
				   0)) ||
	    (result = epNeedPacked("rankPrefix", &in.rankPrefix, ginEpI32, 2, matrix, 1)) ||
	    (result = epNeedPacked("recvCounts", &in.recvCounts, ginEpI32, 1, &counts, 1)))
		return result;
	call->alignment = in.expertAlignment ? in.expertAlignment : 1;
	call->isTokenInRank = in.isTokenInRank.data;
	call->tokensPerExpert = in.tokensPerExpert.data;
	call->rankPrefix = in.rankPrefix.data;
	call->recvCounts = in.recvCounts.data;
	return ginSuccess;
}

/* Bytes of a row of a tensor [..][H]; the same for all ranks. */
static ginResult_t needRowBytes(ginEp_t ep, const char *name, const ginEpTensor_t *t,
				struct epHtCall *call)
{
	int bytes = epElementBytes(t->type);
	int64_t row = t->size[1] * bytes;

	if (bytes < 1 || bytes > 4)
		return BAD("%s has elements of type %d, must have 1, 2 or 4 bytes", name, t->type);
	if (row < 16 || row % 16 || row > ep->ht.rowBytes)
		return BAD("a row of %s has %lld bytes, must be a multiple of 16, at most "
			   "htRowBytes = %u of the configuration",
			   name, (long long)row, ep->ht.rowBytes);
	call->rowBytes = (uint32_t)row;
	return ginSuccess;
}

/*
 * The tensor of a pair that says how many columns both have; NULL: both are left out. One that is
 * empty has no data: this rank has no tokens, or gets no rows.
 */
static const ginEpTensor_t *present(const ginEpTensor_t *in, const ginEpTensor_t *out)
{
	if (in->data || in->size[1])
		return in;
	return out->data || out->size[1] ? out : NULL;
}

static ginResult_t checkScales(ginEp_t ep, const ginEpHtDispatchArgs_t *in, struct epHtCall *call)
{
	const ginEpTensor_t *t = &in->scales, *out = &in->recvScales, *like = present(t, out);
	ginResult_t result;

	if (!like)
		return ginSuccess;
	int64_t size[2] = {call->tokens, like->size[1]}, received[2] = {call->room, like->size[1]};
	int bytes = epElementBytes(call->tokens ? t->type : out->type) == 1 ? 1 : 4;
	uint32_t most = ep->config.htScaleBytes / (uint32_t)bytes;
	if (size[1] < 1 || size[1] > most)
		return BAD("scales.size[1] is %lld, must be 1 to htScaleBytes / %d = %u of the "
			   "configuration",
			   (long long)size[1], bytes, most);
	if (call->tokens && epElementBytes(t->type) != bytes)
		return BAD("scales has elements of type %d, must have 1 or 4 bytes", t->type);
	if ((call->tokens && (result = epNeed("scales", t, t->type, 2, size))) ||
	    (call->room && (result = needBytes("recvScales", out, bytes, 2, received))))
		return result;
	call->byteScales = bytes == 1 ? (uint32_t)size[1] : 0;
	call->scaleWords = (uint32_t)(size[1] * bytes + 3) / 4;
	call->scales = (struct epHtRows){t->data, t->stride[0] * bytes};
	call->scaleStep = t->stride[1] * bytes;
	call->recvScales = out->data;
	return ginSuccess;
}

static ginResult_t checkExpertsOfRows(ginEp_t ep, const ginEpHtDispatchArgs_t *in,
				      struct epHtCall *call)
{
	const ginEpTensor_t *like = present(&in->topkIdx, &in->recvTopkIdx);
	ginResult_t result;

	if (!like)
		return ginSuccess;
	int64_t size[2] = {call->tokens, like->size[1]}, received[2] = {call->room, like->size[1]};
	if ((result = needIndex("topkIdx", call->tokens ? &in->topkIdx : like, call->tokens, call)))
		return result;
	if (call->topk > ep->config.topk)
		return BAD("topkIdx.size[1] is %u, must be at most topk = %u of the configuration",
			   call->topk, ep->config.topk);
	if ((result = epNeedPacked("topkWeights", &in->topkWeights, ginEpF32, 2, size,
				   !call->tokens)) ||
	    (result = epNeedPacked("recvTopkIdx", &in->recvTopkIdx, like->type, 2, received,
				   !call->room)) ||
	    (result = epNeedPacked("recvTopkWeights", &in->recvTopkWeights, ginEpF32, 2, received,
				   !call->room)))
		return result;
	call->topkIdx = in->topkIdx.data;
	call->topkWeights = in->topkWeights.data;
	call->recvTopkIdx = in->recvTopkIdx.data;
	call->recvTopkWeights = in->recvTopkWeights.data;
	return ginSuccess;
}

/* Is the tensor in the window, at a place that fits a word? */
static void findInWindow(ginEp_t ep, uintptr_t at, struct epHtCall *call)
{
	uint64_t offset = at - (uintptr_t)ep->window, bytes = (uint64_t)call->room * call->rowBytes;
	uint64_t all = ep->config.htWindowBytes;

	if (!ep->window || offset >= all || bytes > all - offset || offset % EP_HT_ALIGN ||
	    offset / EP_HT_ALIGN >= UINT32_MAX)
		return;
	call->inPool = 1;
	call->where = (uint32_t)(offset / EP_HT_ALIGN + 1);
}

/* Is the tensor the pool? A tensor that overlaps it in another way is refused. */
static ginResult_t findPool(ginEp_t ep, const char *name, const ginEpTensor_t *t,
			    struct epHtCall *call)
{
	uintptr_t pool = (uintptr_t)ep->args.plan.own + ep->ht.poolAt, at = (uintptr_t)t->data;
	uint64_t bytes = (uint64_t)ep->ht.rows * ep->ht.rowBytes;

	if (at)
		findInWindow(ep, at, call);
	if (!at || at + (uint64_t)call->room * call->rowBytes <= pool || at >= pool + bytes)
		return ginSuccess;
	if (at != pool || (uint64_t)call->room * call->rowBytes > bytes)
		return BAD("%s is not at the beginning of the pool, or larger: see ginEpHtPool()",
			   name);
	call->inPool = 1;
	return ginSuccess;
}

static uint32_t metaBytesOf(uint32_t words)
{
	return (words * 4 + 15) / 16 * 16;
}

ginResult_t epHtCheckDispatch(ginEp_t ep, const ginEpHtDispatchArgs_t *given, struct epHtCall *call)
{
	ginEpHtDispatchArgs_t in = GIN_EP_HT_DISPATCH_ARGS_INIT;
	struct epRowsOf rows = {0};
	ginResult_t result;

	if ((result = epTakeStruct("args", "GIN_EP_HT_DISPATCH_ARGS_INIT", given, sizeof(in), &in,
				   sizeof(in))) ||
	    (result = needHandle(ep, in.handle, call)) ||
	    (result = needTokens("x", in.x.size[0], ep->ht.tokens, call)) ||
	    (result = needRoom("recvX", in.recvX.size[0], call)) ||
	    (result = needRowBytes(ep, "x", &in.x, call)))
		return result;
	int64_t size[2] = {call->tokens, in.x.size[1]}, received[2] = {call->room, in.x.size[1]};
	int64_t all = call->room;
	if ((call->tokens && (result = epNeedRows("x", &in.x, in.x.type, 2, size, &rows))) ||
	    (result = epNeedPacked("recvX", &in.recvX, in.x.type, 2, received, !call->room)) ||
	    (result = checkScales(ep, &in, call)) || (result = checkExpertsOfRows(ep, &in, call)) ||
	    (result = epNeedPacked("srcInfo", &in.srcInfo, ginEpI32, 1, &all, 1)) ||
	    (result = findPool(ep, "recvX", &in.recvX, call)))
		return result;
	if ((uintptr_t)in.recvX.data % 16)
		return BAD("the rows of recvX are not aligned to 16 bytes");
	call->x = (struct epHtRows){rows.data, rows.inner};
	call->recvX = in.recvX.data;
	call->srcInfo = in.srcInfo.data;
	call->metaBytes = metaBytesOf(1 + 2 * call->topk + call->scaleWords);
	return ginSuccess;
}

/* Rows of this rank's tokens: out, or a bias. */
static ginResult_t needTokenRows(const char *name, const ginEpTensor_t *t, int64_t hidden,
				 const struct epHtCall *call, struct epHtRows *rows)
{
	int64_t size[2] = {call->tokens, hidden};
	struct epRowsOf found = {0};
	ginResult_t result =
		call->tokens ? epNeedRows(name, t, ginEpBf16, 2, size, &found) : ginSuccess;

	*rows = (struct epHtRows){found.data, found.inner};
	return result;
}

static ginResult_t checkWeights(ginEp_t ep, const ginEpHtCombineArgs_t *in, struct epHtCall *call)
{
	const ginEpTensor_t *like = present(&in->topkWeights, &in->outWeights);
	ginResult_t result;

	if (!like)
		return ginSuccess;
	int64_t size[2] = {call->room, like->size[1]}, out[2] = {call->tokens, like->size[1]};
	if (size[1] < 1 || size[1] > ep->config.topk)
		return BAD("topkWeights.size[1] is %lld, must be 1 to topk = %u of the "
			   "configuration",
			   (long long)size[1], ep->config.topk);
	if ((result = epNeedPacked("topkWeights", &in->topkWeights, ginEpF32, 2, size,
				   !call->room)) ||
	    (result = epNeedPacked("outWeights", &in->outWeights, ginEpF32, 2, out, !call->tokens)))
		return result;
	call->topk = (uint32_t)size[1];
	call->topkWeights = in->topkWeights.data;
	call->outWeights = in->outWeights.data;
	return ginSuccess;
}

/* The order in which a token's rows are added. */
static ginResult_t checkOrder(ginEp_t ep, const ginEpTensor_t *idx, struct epHtCall *call)
{
	struct epHtCall order = {0};
	ginResult_t result;

	if (!present(idx, idx))
		return ginSuccess;
	if (ep->ht.domains > 1)
		return BAD("topkIdx is for one domain, there are %u: give none", ep->ht.domains);
	if ((result = needIndex("topkIdx", idx, call->tokens, &order)))
		return result;
	call->topkIdx = idx->data;
	call->orderTopk = order.topk;
	call->indexBytes = order.indexBytes;
	return ginSuccess;
}

ginResult_t epHtCheckCombine(ginEp_t ep, const ginEpHtCombineArgs_t *given, struct epHtCall *call)
{
	ginEpHtCombineArgs_t in = GIN_EP_HT_COMBINE_ARGS_INIT;
	static const char *const biases[] = {"bias[0]", "bias[1]"};
	ginResult_t result;

	if ((result = epTakeStruct("args", "GIN_EP_HT_COMBINE_ARGS_INIT", given, sizeof(in), &in,
				   sizeof(in))) ||
	    (result = needHandle(ep, in.handle, call)) ||
	    (result = needTokens("out", in.out.size[0], ep->ht.tokens, call)) ||
	    (result = needRoom("x", in.x.size[0], call)) ||
	    (result = needRowBytes(ep, "x", &in.x, call)))
		return result;
	int64_t size[2] = {call->room, in.x.size[1]};
	if ((result = epNeedPacked("x", &in.x, ginEpBf16, 2, size, !call->room)) ||
	    (result = needTokenRows("out", &in.out, size[1], call, &call->out)) ||
	    (result = checkWeights(ep, &in, call)) ||
	    (result = checkOrder(ep, &in.topkIdx, call)) ||
	    (result = findPool(ep, "x", &in.x, call)))
		return result;
	for (int i = 0; i < 2; i++)
		if (in.bias[i].data &&
		    (result = needTokenRows(biases[i], &in.bias[i], size[1], call, &call->bias[i])))
			return result;
	if ((uintptr_t)in.x.data % 16)
		return BAD("the rows of x are not aligned to 16 bytes");
	call->x = (struct epHtRows){in.x.data, call->rowBytes};
	call->metaBytes = metaBytesOf(call->topk);
	return ginSuccess;
}
