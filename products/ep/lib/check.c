/* SPDX-License-Identifier: BSD-3-Clause */
/* check.c - configurations and arguments, before anything is done */
#include "ep.h"

#include <stddef.h>

#define BAD(...) epFail(ginErrorInvalidArgument, __VA_ARGS__)

/*
 * A struct of a caller that was compiled with another gin_ep.h: fields that the caller does not
 * have get the values of INIT, which `own` has. Fields that this library does not have must be 0.
 */
ginResult_t epTakeStruct(const char *name, const char *init, const void *in, size_t least,
			 void *own, size_t size)
{
	const size_t given = in ? *(const size_t *)in : 0;
	const char *bytes = in;

	if (given < least)
		return BAD("%s is NULL, or %s->size is wrong: use %s", name, name, init);
	for (size_t i = size; i < given; i++)
		if (bytes[i])
			return epFail(ginErrorUnsupported,
				      "%s has fields of a newer libgin-ep: byte %zu is not 0", name,
				      i);
	memcpy(own, in, given < size ? given : size);
	memcpy(own, &size, sizeof(size));
	return ginSuccess;
}

static ginResult_t checkExperts(const ginEpConfig_t *c, uint32_t nRanks)
{
	uint32_t most = (c->experts + nRanks - 1) / nRanks;

	for (uint32_t r = 0; c->firstExpert && r < nRanks; r++) {
		if (c->firstExpert[r + 1] < c->firstExpert[r])
			return BAD("firstExpert[%u] is below firstExpert[%u]", r + 1, r);
		if (c->firstExpert[r + 1] - c->firstExpert[r] > most)
			most = c->firstExpert[r + 1] - c->firstExpert[r];
	}
	if (c->firstExpert && (c->firstExpert[0] || c->firstExpert[nRanks] != c->experts))
		return BAD("firstExpert goes from %u to %u, not from 0 to experts = %u",
			   c->firstExpert[0], c->firstExpert[nRanks], c->experts);
	/*
	 * Counts in the scratch of a block: EP_SCRATCH. Rows of the experts of a rank have 32-bit
	 * numbers.
	 */
	_Static_assert(12000ull * GIN_EP_MAX_TOKENS < UINT32_MAX, "rows of a rank's experts");
	if ((nRanks + 1ull) * (3 + most) > 12000)
		return BAD("%u ranks with %u experts on one rank: (ranks + 1) * (experts + 3) must "
			   "be at most 12000",
			   nRanks, most);
	return ginSuccess;
}

static ginResult_t checkRange(const char *name, uint32_t value, uint32_t least, uint32_t most)
{
	if (value >= least && value <= most)
		return ginSuccess;
	return BAD("%s is %u, must be %u to %u", name, value, least, most);
}

/* The fields of high throughput; those with a default get it. */
static ginResult_t checkHt(ginEpConfig_t *c, uint32_t nRanks)
{
	uint64_t all = (uint64_t)nRanks * c->htTokens;
	ginResult_t result;

	if ((result = checkRange("ranks", nRanks, 1, GIN_EP_HT_MAX_RANKS)) ||
	    (result = checkRange("htTokens", c->htTokens, 1, GIN_EP_HT_MAX_TOKENS)))
		return result;
	if (c->onLost != GIN_EP_LOST_ERROR)
		return epFail(ginErrorUnsupported, "GIN_EP_HT has no GIN_EP_LOST_MASK");
	if (c->sendBuffer)
		return BAD("sendBuffer is %u, must be 0 with GIN_EP_HT", c->sendBuffer);
	c->htRecvTokens =
		c->htRecvTokens && c->htRecvTokens < all ? c->htRecvTokens : (uint32_t)all;
	c->htRowBytes = c->htRowBytes ? c->htRowBytes : 2 * c->hidden;
	c->htScaleBytes = c->htScaleBytes ? c->htScaleBytes : (c->hidden + 127) / 128 * 4;
	c->maxTokens = 0;
	if (c->htRowBytes % 16 || c->htRowBytes > 4 * GIN_EP_MAX_HIDDEN)
		return BAD("htRowBytes is %u, must be a multiple of 16, at most %u", c->htRowBytes,
			   4 * GIN_EP_MAX_HIDDEN);
	if (c->htScaleBytes % 4 || c->htScaleBytes > 4 * GIN_EP_MAX_HIDDEN)
		return BAD("htScaleBytes is %u, must be a multiple of 4, at most %u",
			   c->htScaleBytes, 4 * GIN_EP_MAX_HIDDEN);
	return ginSuccess;
}

static ginResult_t checkMode(ginEpConfig_t *c, uint32_t nRanks)
{
	if (c->modes == GIN_EP_HT)
		return checkHt(c, nRanks);
	if (c->modes != GIN_EP_LL)
		return BAD("modes is %u, must be GIN_EP_LL or GIN_EP_HT", c->modes);
	if (c->htTokens || c->htRecvTokens || c->htRowBytes || c->htScaleBytes || c->htSms ||
	    c->htWindow.table)
		return BAD("htTokens, htRecvTokens, htRowBytes, htScaleBytes, htSms and htWindow "
			   "must be 0 with GIN_EP_LL");
	return checkRange("maxTokens", c->maxTokens, 1, GIN_EP_MAX_TOKENS);
}

static ginResult_t checkChoices(const ginEpConfig_t *c)
{
	if (!c->rowTypes || c->rowTypes & ~GIN_EP_ROWS_ALL)
		return BAD("rowTypes is %u, must be the sum of GIN_EP_ROWS_ values", c->rowTypes);
	if (c->reduce != GIN_EP_REDUCE_RANK && c->reduce != GIN_EP_REDUCE_NONE)
		return BAD("reduce is %u, must be GIN_EP_REDUCE_RANK or GIN_EP_REDUCE_NONE",
			   c->reduce);
	if (c->onLost > GIN_EP_LOST_MASK)
		return BAD("onLost is %u, must be GIN_EP_LOST_ERROR or GIN_EP_LOST_MASK",
			   c->onLost);
	return ginSuccess;
}

ginResult_t epCheckConfig(const ginEpConfig_t *config, uint32_t nRanks, ginEpConfig_t *own)
{
	const size_t first = offsetof(ginEpConfig_t, htRowBytes); /* the size of 0.1.0 */
	const ginEpConfig_t init = GIN_EP_CONFIG_INIT;
	ginResult_t result;

	*own = init;
	if ((result = epTakeStruct("config", "GIN_EP_CONFIG_INIT", config, first, own,
				   sizeof(*own))) ||
	    (result = checkChoices(own)) ||
	    (result = checkRange("experts", own->experts, 1, GIN_EP_MAX_EXPERTS)) ||
	    (result = checkRange("topk", own->topk, 1, GIN_EP_MAX_TOPK)) ||
	    (result = checkRange("hidden", own->hidden, 16, GIN_EP_MAX_HIDDEN)) ||
	    (result = checkRange("contexts", own->contexts, 0, GIN_MAX_CONTEXTS)) ||
	    (result = checkRange("ranks", nRanks, 1, GIN_EP_MAX_RANKS)))
		return result;
	if (own->sendBuffer > 1)
		return BAD("sendBuffer is %u, must be 0 or 1", own->sendBuffer);
	if (own->hidden % 16)
		return BAD("hidden is %u, must be a multiple of 16", own->hidden);
	if ((result = checkMode(own, nRanks)))
		return result;
	return checkExperts(own, nRanks);
}

int epElementBytes(int32_t type)
{
	static const int bytes[] = {2, 4, 1, 4, 4, 8, 1};

	return type >= 0 && type < 7 ? bytes[type] : 0;
}

/* A tensor that a call needs: `nDims` dimensions of at least size[], of type `type`. */
ginResult_t epNeed(const char *name, const ginEpTensor_t *t, int type, int nDims,
		   const int64_t *size)
{
	if (!t->data)
		return BAD("%s is missing", name);
	if (t->type != type)
		return BAD("%s has elements of type %d, must be %d (enum ginEpType)", name, t->type,
			   type);
	if (t->nDims != nDims)
		return BAD("%s has %d dimensions, must be %d", name, t->nDims, nDims);
	for (int i = 0; i < nDims; i++)
		if (t->size[i] < size[i])
			return BAD("%s.size[%d] is %lld, must be at least %lld", name, i,
				   (long long)t->size[i], (long long)size[i]);
	return ginSuccess;
}

/* A tensor without gaps; or none, if `optional`. */
ginResult_t epNeedPacked(const char *name, const ginEpTensor_t *t, int type, int nDims,
			 const int64_t *size, int optional)
{
	int64_t step = 1;
	ginResult_t result;

	if (!t->data && optional)
		return ginSuccess;
	if ((result = epNeed(name, t, type, nDims, size)))
		return result;
	for (int i = nDims - 1; i >= 0; i--) {
		if (t->stride[i] != step && size[i] > 1)
			return BAD("%s.stride[%d] is %lld, must be %lld: the tensor must be "
				   "contiguous",
				   name, i, (long long)t->stride[i], (long long)step);
		step *= t->size[i];
		if (i && t->size[i] != size[i])
			return BAD("%s.size[%d] is %lld, must be %lld", name, i,
				   (long long)t->size[i], (long long)size[i]);
	}
	return ginSuccess;
}

/* Rows of a tensor of `nDims` dimensions, the last of them contiguous: aligned to 16 bytes. */
ginResult_t epNeedRows(const char *name, const ginEpTensor_t *t, int type, int nDims,
		       const int64_t *size, struct epRowsOf *rows)
{
	int64_t bytes = epElementBytes(type);
	ginResult_t result = epNeed(name, t, type, nDims, size);

	if (result)
		return result;
	rows->data = t->data;
	rows->outer = nDims == 3 ? t->stride[0] * bytes : 0;
	rows->inner = t->stride[nDims - 2] * bytes;
	if (t->stride[nDims - 1] != 1)
		return BAD("%s.stride[%d] is %lld, must be 1", name, nDims - 1,
			   (long long)t->stride[nDims - 1]);
	if ((uintptr_t)rows->data % 16 || rows->outer % 16 || rows->inner % 16)
		return BAD("the rows of %s are not aligned to 16 bytes", name);
	return ginSuccess;
}

/* The type of a tensor of which only bytes are moved: any of one byte. */
static int byteType(const ginEpTensor_t *t)
{
	return epElementBytes(t->type) == 1 ? t->type : ginEpU8;
}

/* [..][scales of a row] of the call's rows, with any strides. */
static ginResult_t needScales(const char *name, const ginEpTensor_t *t, int nDims,
			      const int64_t *size, const struct epCallArgs *call,
			      struct epScalesOf *scales)
{
	int bytes = call->byteScales ? 1 : 4, ue8m0 = t->type == ginEpUe8m0x4;
	int type = bytes == 1 ? byteType(t) : ue8m0 ? ginEpUe8m0x4 : ginEpF32;
	int64_t full[3] = {0};
	ginResult_t result;

	memcpy(full, size, (size_t)(nDims - 1) * sizeof(*full));
	full[nDims - 1] = type == ginEpUe8m0x4 ? (call->scaleCount + 3) / 4 : call->scaleCount;
	if ((result = epNeed(name, t, type, nDims, full)))
		return result;
	scales->data = t->data;
	scales->outer = nDims == 3 ? t->stride[0] * bytes : 0;
	scales->inner = t->stride[nDims - 2] * bytes;
	scales->each = t->stride[nDims - 1] * bytes;
	return ginSuccess;
}

/* recvScales of one byte in blocks of 128 rows and 4 scales: 512 bytes. */
static ginResult_t needBlocks(const char *name, const ginEpTensor_t *t, const int64_t *size,
			      const struct epCallArgs *call, struct epScalesOf *scales)
{
	int64_t words = (call->scaleCount + 3) / 4, rows = (size[1] + 127) / 128 * 128;
	int64_t full[3] = {size[0], rows, words * 4};
	ginResult_t result = epNeedPacked(name, t, byteType(t), 3, full, 0);

	if (result)
		return result;
	if ((uintptr_t)t->data % 4)
		return BAD("%s is not aligned to 4 bytes", name);
	*scales = (struct epScalesOf){t->data, rows * words * 4, words * 512, 512};
	return ginSuccess;
}

/* Can scales of one byte be stored four at a time? */
static int inWords(const struct epScalesOf *s, uint32_t count)
{
	return s->each == 1 && count % 4 == 0 && s->outer % 4 == 0 && s->inner % 4 == 0 &&
	       (uintptr_t)s->data % 4 == 0;
}

static ginResult_t needRecvScales(const ginEpDispatchArgs_t *in, const int64_t *size,
				  struct epCallArgs *call)
{
	const ginEpTensor_t *t = &in->recvScales;
	int ue8m0 = in->scaleKind == GIN_EP_SCALE_UE8M0;
	ginResult_t result;

	if (!call->scaleCount)
		return ginSuccess;
	if (!call->byteScales && t->data && (t->type == ginEpUe8m0x4) != ue8m0)
		return BAD(
			"recvScales must be ginEpUe8m0x4 with GIN_EP_SCALE_UE8M0, else ginEpF32");
	if (in->scaleKind == GIN_EP_SCALE_BLOCKS) {
		call->byteScales = 0;
		return needBlocks("recvScales", t, size, call, &call->recvScales);
	}
	if ((result = needScales("recvScales", t, 3, size, call, &call->recvScales)))
		return result;
	if (call->byteScales && inWords(&call->recvScales, call->scaleCount)) {
		call->byteScales = 0;
		call->recvScales.each = 4;
	}
	return ginSuccess;
}

/* topkIdx and topkWeights, [T][K]; sets tokens and topk of the call. */
static ginResult_t needIndices(ginEp_t ep, const ginEpTensor_t *idx, const ginEpTensor_t *weights,
			       int64_t tokens, struct epCallArgs *call)
{
	int64_t size[2] = {tokens, idx->size[1]};
	int type = idx->type == ginEpI64 ? ginEpI64 : ginEpI32;
	ginResult_t result;

	call->tokens = (uint32_t)tokens;
	if (!tokens)
		return ginSuccess;
	if ((result = epNeedPacked("topkIdx", idx, type, 2, size, 0)) ||
	    (result = epNeedPacked("topkWeights", weights, ginEpF32, 2, size, 1)))
		return result;
	if (idx->size[1] < 1 || idx->size[1] > ep->config.topk)
		return BAD("topkIdx.size[1] is %lld, must be 1 to topk = %u of the configuration",
			   (long long)idx->size[1], ep->config.topk);
	call->topk = (uint32_t)idx->size[1];
	call->indexBytes = type == ginEpI64 ? 8 : 4;
	call->topkIdx = idx->data;
	call->topkWeights = weights->data;
	return ginSuccess;
}

static ginResult_t checkCall(ginEp_t ep, uint32_t mode, uint32_t phase, uint32_t layout,
			     void *handle, int64_t hidden, struct epCallArgs *call)
{
	if (mode != GIN_EP_LL)
		return BAD("mode is %u, must be GIN_EP_LL: GIN_EP_HT has calls of its own", mode);
	if (ep->config.modes != GIN_EP_LL)
		return epFail(ginErrorInvalidUsage,
			      "the ep is of GIN_EP_HT: call ginEpHtDispatch(), ginEpHtCombine()");
	if (phase < GIN_EP_SEND || phase > GIN_EP_BOTH)
		return BAD("phase is %u, must be GIN_EP_SEND, GIN_EP_RECV or GIN_EP_BOTH", phase);
	if (layout > GIN_EP_RANK_MAJOR)
		return BAD("layout is %u, must be GIN_EP_EXPERT_MAJOR or GIN_EP_RANK_MAJOR",
			   layout);
	if (!handle || (uintptr_t)handle % 16)
		return BAD("handle is %p, must be memory aligned to 16 bytes", handle);
	if (hidden < 16 || hidden % 16 || hidden > ep->config.hidden)
		return BAD("hidden is %lld, must be a multiple of 16, 16 to hidden = %u of the "
			   "configuration",
			   (long long)hidden, ep->config.hidden);
	call->hidden = (uint32_t)hidden;
	call->layout = layout;
	call->handle = handle;
	call->maskRank = -1;
	return ginSuccess;
}

static ginResult_t checkTokens(ginEp_t ep, const char *name, int64_t tokens)
{
	if (tokens >= 0 && tokens <= ep->config.maxTokens)
		return ginSuccess;
	return BAD("%s.size[0] is %lld, must be 0 to maxTokens = %u of the configuration", name,
		   (long long)tokens, ep->config.maxTokens);
}

/* The type of quantised rows. */
static int typeOf(const ginEpDispatchArgs_t *in, const ginEpTensor_t *t)
{
	return in->rows == GIN_EP_ROWS_NVF4 ? byteType(t) : ginEpF8E4m3;
}

/* One f32 in the device's memory, of any dimensions. */
static ginResult_t needGlobalScale(const ginEpDispatchArgs_t *in, struct epCallArgs *call)
{
	const ginEpTensor_t *t = &in->xGlobalScale;
	int64_t count = 1;

	if (!t->data)
		return BAD("xGlobalScale is missing: GIN_EP_ROWS_NVF4 of bf16 x needs 448 * 6 / "
			   "the largest magnitude of x");
	for (int i = 0; i < t->nDims && i < 4; i++)
		count *= t->size[i];
	if (t->type != ginEpF32 || count != 1)
		return BAD("xGlobalScale has %lld elements of type %d, must be one float: all "
			   "experts share a global scale",
			   (long long)count, t->type);
	call->globalScale = t->data;
	return ginSuccess;
}

static ginResult_t checkX(const ginEpDispatchArgs_t *in, struct epCallArgs *call)
{
	int given = epElementBytes(in->x.type) == 1, type = typeOf(in, &in->x);
	int64_t size[2] = {call->tokens, call->hidden};
	ginResult_t result;

	if (!call->tokens)
		return ginSuccess;
	if (given && in->rows == GIN_EP_ROWS_BF16)
		return BAD("x is e4m3 or bytes, rows must be GIN_EP_ROWS_F8, _MXF8 or _NVF4");
	if (given)
		size[1] = call->pieces * 16;
	if ((result = epNeedRows("x", &in->x, given ? type : ginEpBf16, 2, size, &call->x)))
		return result;
	call->xIsGiven = given;
	call->xScalesUe8m0 = in->scales.type == ginEpUe8m0x4;
	if (given)
		return needScales("scales", &in->scales, 2, size, call, &call->scales);
	return in->rows == GIN_EP_ROWS_NVF4 ? needGlobalScale(in, call) : ginSuccess;
}

static ginResult_t checkSend(ginEp_t ep, const ginEpDispatchArgs_t *in, struct epCallArgs *call)
{
	int64_t tokens = in->x.size[0];
	ginResult_t result;

	if ((result = checkTokens(ep, "x", tokens)) ||
	    (result = needIndices(ep, &in->topkIdx, &in->topkWeights, tokens, call)))
		return result;
	call->longList = call->tokens * call->topk > EP_SHORT_LIST;
	return checkX(in, call);
}

/* The small outputs of RECV. */
static ginResult_t checkReports(ginEp_t ep, const ginEpDispatchArgs_t *in, struct epCallArgs *call)
{
	const struct epPlan *p = &ep->args.plan;
	int ranked = call->layout == GIN_EP_RANK_MAJOR;
	int64_t rows = (int64_t)p->nRanks * p->maxTokens;
	int64_t outer = ranked ? p->nRanks : p->localExperts;
	int64_t info[2] = {outer, ranked ? p->maxTokens : rows};
	int64_t range[2] = {p->localExperts, p->nRanks}, ranks[1] = {p->nRanks};
	int64_t items[3] = {p->nRanks, p->maxTokens, call->topk};
	ginResult_t result;

	if ((result = epNeedPacked("recvCount", &in->recvCount, ginEpI32, 1, &outer, outer == 0)) ||
	    (result = epNeedPacked("srcInfo", &in->srcInfo, ginEpI32, 2, info, 1)) ||
	    (result = epNeedPacked("layoutRange", &in->layoutRange, ginEpI64, 2, range, 1)) ||
	    (result = epNeedPacked("recvStats", &in->recvStats, ginEpI32, 1, range, 1)) ||
	    (result = epNeedPacked("waitCost", &in->waitCost, ginEpI64, 1, ranks, 1)) ||
	    (result = epNeedPacked("recvTopkIdx", &in->recvTopkIdx, ginEpI32, 3, items, 1)) ||
	    (result = epNeedPacked("recvTopkWeights", &in->recvTopkWeights, ginEpF32, 3, items, 1)))
		return result;
	call->recvCount = in->recvCount.data;
	call->srcInfo = in->srcInfo.data;
	call->layoutRange = ranked ? NULL : in->layoutRange.data;
	call->recvStats = in->recvStats.data;
	call->waitCost = in->waitCost.data;
	call->recvTopkIdx = in->recvTopkIdx.data;
	call->recvTopkWeights = in->recvTopkWeights.data;
	return ginSuccess;
}

static ginResult_t checkRecv(ginEp_t ep, const ginEpDispatchArgs_t *in, struct epCallArgs *call)
{
	const struct epPlan *p = &ep->args.plan;
	int ranked = call->layout == GIN_EP_RANK_MAJOR;
	int type = call->scaleCount ? typeOf(in, &in->recvX) : ginEpBf16;
	int64_t rows = (int64_t)p->nRanks * p->maxTokens;
	int64_t size[3] = {ranked ? p->nRanks : p->localExperts, ranked ? p->maxTokens : rows,
			   call->scaleCount ? call->pieces * 16 : call->hidden};
	ginResult_t result;

	if (!call->topk)
		call->topk =
			in->recvTopkIdx.data ? (uint32_t)in->recvTopkIdx.size[2] : ep->config.topk;
	if ((result = checkReports(ep, in, call)))
		return result;
	if (!size[0])
		return ginSuccess; /* a rank without experts */
	if ((result = epNeedRows("recvX", &in->recvX, type, 3, size, &call->recvX)))
		return result;
	return needRecvScales(in, size, call);
}

/* The last size of a tensor; -1: it is left out. */
static int64_t lastSize(const ginEpTensor_t *t, int nDims)
{
	return t->data || t->size[nDims - 1] ? t->size[nDims - 1] : -1;
}

/* Elements of a row. Where both tensors are left out, this rank has no rows. */
static int64_t hiddenOf(ginEp_t ep, uint32_t given, int64_t sent, int64_t received)
{
	if (given)
		return given;
	if (sent >= 0)
		return sent;
	return received >= 0 ? received : ep->config.hidden;
}

/* Elements of a row of x or recvX; two are in a byte of nvfp4. */
static int64_t elementsOf(const ginEpDispatchArgs_t *in, const ginEpTensor_t *t, int nDims)
{
	int64_t size = lastSize(t, nDims);
	int packed = in->rows == GIN_EP_ROWS_NVF4 && t->type != ginEpBf16;

	return packed && size > 0 ? 2 * size : size;
}

/* The kind of rows and of scales. */
static ginResult_t checkRows(ginEp_t ep, const ginEpDispatchArgs_t *in, struct epCallArgs *call)
{
	int bytes = in->rows == GIN_EP_ROWS_MXF8 || in->rows == GIN_EP_ROWS_NVF4;

	if (!in->rows || in->rows & (in->rows - 1) || !(in->rows & ep->config.rowTypes))
		return BAD("rows is %u, must be one of rowTypes = %u of the configuration",
			   in->rows, ep->config.rowTypes);
	if (!bytes && in->scaleKind > GIN_EP_SCALE_UE8M0)
		return BAD("scaleKind is %u, must be GIN_EP_SCALE_F32, _POW2 or _UE8M0",
			   in->scaleKind);
	if (bytes && in->scaleKind != GIN_EP_SCALE_STRIDED && in->scaleKind != GIN_EP_SCALE_BLOCKS)
		return BAD("scaleKind is %u, must be GIN_EP_SCALE_STRIDED or _BLOCKS with rows "
			   "GIN_EP_ROWS_MXF8 or GIN_EP_ROWS_NVF4",
			   in->scaleKind);
	if (bytes && call->hidden % 32)
		return BAD("hidden is %u, must be a multiple of 32 with rows GIN_EP_ROWS_MXF8 or "
			   "GIN_EP_ROWS_NVF4",
			   call->hidden);
	struct epFormat f = epFormatOf(in->rows, call->hidden);
	call->rows = in->rows;
	call->scaleKind = in->scaleKind;
	call->pieces = f.bytes / 16;
	call->scaleCount = f.scales;
	call->scaleWords = (f.scales * f.scaleBytes + 3) / 4;
	call->byteScales = bytes;
	return ginSuccess;
}

ginResult_t epCheckDispatch(ginEp_t ep, const ginEpDispatchArgs_t *given, struct epCallArgs *call)
{
	const size_t first = offsetof(ginEpDispatchArgs_t, xGlobalScale); /* the size of 0.1.0 */
	ginEpDispatchArgs_t own = GIN_EP_DISPATCH_ARGS_INIT, *in = &own;
	ginResult_t result;

	if ((result = epTakeStruct("args", "GIN_EP_DISPATCH_ARGS_INIT", given, first, in,
				   sizeof(own))))
		return result;
	memset(call, 0, sizeof(*call));
	int64_t sent = in->phase & GIN_EP_SEND ? elementsOf(in, &in->x, 2) : -1;
	int64_t hidden = hiddenOf(ep, in->hidden, sent, elementsOf(in, &in->recvX, 3));
	if ((result = checkCall(ep, in->mode, in->phase, in->layout, in->handle, hidden, call)) ||
	    (result = checkRows(ep, in, call)))
		return result;
	if (in->phase & GIN_EP_SEND && (result = checkSend(ep, in, call)))
		return result;
	return in->phase & GIN_EP_RECV ? checkRecv(ep, in, call) : ginSuccess;
}

/* Words that say which rows of x are complete. */
static ginResult_t checkReady(const struct epPlan *p, const ginEpCombineArgs_t *in,
			      struct epCallArgs *call)
{
	int64_t rows = (int64_t)p->nRanks * p->maxTokens,
		each = in->readyRows ? in->readyRows : rows;
	int64_t size[2] = {p->localExperts, (rows + each - 1) / each};
	int nDims = in->readyRows ? 2 : 1;
	ginResult_t result = epNeed("ready", &in->ready, ginEpI32, nDims, size);

	if (result)
		return result;
	if (in->layout != GIN_EP_EXPERT_MAJOR)
		return BAD("ready needs GIN_EP_EXPERT_MAJOR: rank-major rows are sums of experts");
	if (!in->readyAt || in->readyAt > INT32_MAX)
		return BAD("readyAt is %u, must be 1 to %d", in->readyAt, INT32_MAX);
	call->ready = in->ready.data;
	call->readyOuter = in->ready.stride[0] * 4;
	call->readyInner = in->readyRows ? in->ready.stride[1] * 4 : 0;
	call->readyRows = (uint32_t)each;
	call->readyAt = in->readyAt;
	return ginSuccess;
}

static ginResult_t checkOut(ginEp_t ep, const ginEpCombineArgs_t *in, struct epCallArgs *call)
{
	int64_t ranks[1] = {ep->args.plan.nRanks};
	int64_t tokens = in->out.size[0], size[2] = {tokens, call->hidden};
	ginResult_t result;

	if ((result = checkTokens(ep, "out", tokens)) ||
	    (result = needIndices(ep, &in->topkIdx, &in->topkWeights, tokens, call)) ||
	    (result = epNeedPacked("waitCost", &in->waitCost, ginEpI64, 1, ranks, 1)))
		return result;
	call->waitCost = in->waitCost.data;
	return tokens ? epNeedRows("out", &in->out, ginEpBf16, 2, size, &call->out) : ginSuccess;
}

ginResult_t epCheckCombine(ginEp_t ep, const ginEpCombineArgs_t *given, struct epCallArgs *call)
{
	const size_t first = offsetof(ginEpCombineArgs_t, ready); /* the size of 0.1.0 */
	ginEpCombineArgs_t own = GIN_EP_COMBINE_ARGS_INIT, *in = &own;
	const struct epPlan *p = &ep->args.plan;
	ginResult_t result;

	if ((result = epTakeStruct("args", "GIN_EP_COMBINE_ARGS_INIT", given, first, in,
				   sizeof(own))))
		return result;
	int ranked = in->layout == GIN_EP_RANK_MAJOR;
	int64_t size[3] = {ranked ? p->nRanks : p->localExperts,
			   ranked ? p->maxTokens : (int64_t)p->nRanks * p->maxTokens, 0};
	int64_t sent = in->phase & GIN_EP_SEND ? lastSize(&in->x, 3) : -1;
	int64_t hidden = hiddenOf(ep, in->hidden, sent, lastSize(&in->out, 2));

	memset(call, 0, sizeof(*call));
	if ((result = checkCall(ep, in->mode, in->phase, in->layout, in->handle, hidden, call)))
		return result;
	if (in->reduce != GIN_EP_REDUCE_RANK && in->reduce != GIN_EP_REDUCE_NONE)
		return BAD("reduce is %u, must be GIN_EP_REDUCE_RANK or GIN_EP_REDUCE_NONE",
			   in->reduce);
	if (in->reduce == GIN_EP_REDUCE_NONE && ep->config.reduce != GIN_EP_REDUCE_NONE)
		return BAD(
			"reduce is GIN_EP_REDUCE_NONE, the configuration has GIN_EP_REDUCE_RANK");
	if (ranked && in->reduce != GIN_EP_REDUCE_RANK)
		return BAD("rank-major rows need GIN_EP_REDUCE_RANK");
	if (in->bias[0].data || in->bias[1].data)
		return epFail(ginErrorUnsupported, "bias is not part of this version");
	call->reduce = in->reduce;
	call->sms = in->sms;
	size[2] = call->hidden;
	if (in->phase & GIN_EP_SEND && size[0] &&
	    (result = epNeedRows("x", &in->x, ginEpBf16, 3, size, &call->x)))
		return result;
	if (in->phase & GIN_EP_SEND && in->ready.data && (result = checkReady(p, in, call)))
		return result;
	return in->phase & GIN_EP_RECV ? checkOut(ep, in, call) : ginSuccess;
}
