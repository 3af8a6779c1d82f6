/* SPDX-License-Identifier: BSD-3-Clause */
/* create.c - ginEpCreate(), ginEpDestroy(), and the memory of an ep */
#include "ep.h"
#include "range.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Fields that are equal on all ranks. The last four are not those of a configuration. */
static const struct {
	const char *name;
	size_t at; /* in ginEpConfig_t, uint32_t */
} fields[] = {
	{"experts", offsetof(ginEpConfig_t, experts)},
	{"topk", offsetof(ginEpConfig_t, topk)},
	{"hidden", offsetof(ginEpConfig_t, hidden)},
	{"maxTokens", offsetof(ginEpConfig_t, maxTokens)},
	{"rowTypes", offsetof(ginEpConfig_t, rowTypes)},
	{"reduce", offsetof(ginEpConfig_t, reduce)},
	{"contexts", offsetof(ginEpConfig_t, contexts)},
	{"modes", offsetof(ginEpConfig_t, modes)},
	{"htTokens", offsetof(ginEpConfig_t, htTokens)},
	{"htRecvTokens", offsetof(ginEpConfig_t, htRecvTokens)},
	{"htRowBytes", offsetof(ginEpConfig_t, htRowBytes)},
	{"htScaleBytes", offsetof(ginEpConfig_t, htScaleBytes)},
	{"whether there is an htWindow", 0},
	{"the number of ranks of a domain", 0},
	{"firstExpert", 0},
	{"the version of libgin-ep", 0},
};

enum { FIELDS = sizeof(fields) / sizeof(*fields), HT_RECV_TOKENS = 9 };

/* A rank's message to the other ranks: the result so far, and the fields that must be equal. */
struct epHello {
	int32_t result;
	uint32_t networked;
	uint64_t fields[FIELDS];
	char sentence[192];
};

static uint64_t hashOf(const uint32_t *words, size_t count)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ words[i]) * 0x100000001b3ull;
	return hash;
}

/*
 * Does the ranks' allgather. Returns the result of the first rank that has failed, or that differs.
 */
static ginResult_t agree(ginEp_t ep, struct epHello *mine, uint32_t *networked)
{
	uint32_t nRanks = ep->args.plan.nRanks;
	struct epHello *all = calloc(nRanks, sizeof(*all));
	ginResult_t result;

	if (mine->result)
		snprintf(mine->sentence, sizeof(mine->sentence), "%s", ginEpGetLastError());
	if (!all)
		return epCannotMeet(ep->comm);
	if ((result = ginCommAllgather(ep->comm, mine, all, sizeof(*mine))))
		epFailGin(result, "the ranks do not meet");
	for (uint32_t r = 0; r < nRanks && !result; r++) {
		if (all[r].result)
			result = epFail((ginResult_t)all[r].result, "rank %u: %s", r,
					all[r].sentence);
		*networked |= all[r].networked;
	}
	for (uint32_t r = 1; r < nRanks && !result; r++)
		for (int i = 0; i < FIELDS && !result; i++)
			if (all[r].fields[i] != all[0].fields[i])
				result =
					epFail(ginErrorInvalidArgument,
					       "%s differs: %llu on rank 0, %llu on rank %u",
					       fields[i].name, (unsigned long long)all[0].fields[i],
					       (unsigned long long)all[r].fields[i], r);
	free(all);
	return result;
}

/* Counts the direct peers; *networked: there are other peers. */
static ginResult_t countPeers(ginEp_t ep, uint32_t *networked)
{
	for (uint32_t r = 0; r < ep->args.plan.nRanks; r++) {
		ginPeerInfo_t info = GIN_PEER_INFO_INIT;
		ginResult_t result = ginCommQueryPeer(ep->comm, (int)r, &info);

		if (result)
			return epFailGin(result, "ginCommQueryPeer");
		ep->directPeers += info.route == ginRouteDirect || r == ep->args.plan.rank;
		*networked |= info.route != ginRouteDirect;
	}
	return ginSuccess;
}

/* GIN_EP_DOMAIN in place of `most` ranks; 0: it is no number that divides them. */
static unsigned long domainWanted(const char *text, unsigned long most)
{
	char *end;
	unsigned long wanted = strtoul(text, &end, 10);

	return *end || !wanted || most % wanted ? 0 : wanted;
}

ginResult_t ginEpHtDomain(ginComm_t comm, uint32_t *ranks)
{
	const char *text = getenv("GIN_EP_DOMAIN");
	ginCommInfo_t info = GIN_COMM_INFO_INIT;
	unsigned long found;
	ginResult_t result;

	if (!comm || !ranks)
		return epFail(ginErrorInvalidArgument, "comm or ranks is NULL");
	result = ginCommQuery(comm, &info);
	if (result)
		return epFailGin(result, "ginCommQuery");
	found = (unsigned long)info.domainSize;
	if (text && *text)
		found = domainWanted(text, found);
	if (!found)
		return epFail(ginErrorInvalidArgument,
			      "GIN_EP_DOMAIN is %.32s, must be a number that divides the %d ranks "
			      "of a domain evenly",
			      text, info.domainSize);
	*ranks = (uint32_t)found;
	return ginSuccess;
}

static ginResult_t findDomain(ginEp_t ep)
{
	if (ep->config.modes != GIN_EP_HT)
		return ginSuccess;
	return ginEpHtDomain(ep->comm, &ep->domainSize);
}

/* High throughput: this rank's memory of the caller's window. */
static ginResult_t findWindow(ginEp_t ep)
{
	void *at = NULL;
	ginResult_t result;

	if (!ep->config.htWindow.table)
		return ginSuccess;
	if ((result = ginWindowPointer(ep->comm, ep->config.htWindow, &at)))
		return epFailGin(result, "htWindow");
	ep->window = at;
	return ginSuccess;
}

/* First step, on this rank alone: arguments, routes, kernels. */
static ginResult_t begin(ginEp_t ep, const ginEpConfig_t *config, uint32_t *networked)
{
	ginResult_t result = epCheckConfig(config, ep->args.plan.nRanks, &ep->config);

	if (result || (result = countPeers(ep, networked)) || (result = findDomain(ep)) ||
	    (result = findWindow(ep)))
		return result;
	return ep->device < 0 ? ginSuccess : epGpuOpen(ep->device, &ep->gpu);
}

static void fillHello(ginEp_t ep, struct epHello *hello)
{
	const ginEpConfig_t *c = &ep->config;

	for (int i = 0; i < FIELDS - 4; i++)
		hello->fields[i] = *(const uint32_t *)((const char *)c + fields[i].at);
	hello->fields[FIELDS - 4] = c->htWindow.table != NULL;
	hello->fields[FIELDS - 3] = ep->domainSize;
	hello->fields[FIELDS - 2] = 0;
	if (!hello->result && c->firstExpert)
		hello->fields[FIELDS - 2] = hashOf(c->firstExpert, ep->args.plan.nRanks + 1ull);
	hello->fields[FIELDS - 1] = GIN_DEVICE_ABI;
}

static ginResult_t makeSlab(ginEp_t ep, uint64_t bytes)
{
	ginResult_t result;

	if (!(ep->slab = calloc(1, sizeof(*ep->slab))))
		return epFail(ginErrorSystem, "no memory for an ep");
	ep->slab->bytes = bytes;
	ep->slab->users = 1;
	result = ginMemAlloc(ep->comm, bytes, &ep->slab->at);
	return result ? epFailGin(result, "memory of the ep") : ginSuccess;
}

/* Takes the slab of the ep that is shrunk. */
static ginResult_t shareSlab(ginEp_t ep, ginEp_t old, uint64_t bytes)
{
	if (bytes > old->slab->bytes)
		return epFail(ginErrorInvalidArgument,
			      "the configuration needs %llu bytes, the ep that is shrunk has %llu",
			      (unsigned long long)bytes, (unsigned long long)old->slab->bytes);
	ep->slab = old->slab;
	__atomic_fetch_add(&ep->slab->users, 1, __ATOMIC_RELAXED);
	return ginSuccess;
}

static ginResult_t releaseSlab(ginEp_t ep)
{
	struct epSlab *slab = ep->slab;
	ginResult_t result = ginSuccess;

	if (!slab || __atomic_sub_fetch(&slab->users, 1, __ATOMIC_ACQ_REL))
		return ginSuccess;
	result = ginMemFree(ep->comm, slab->at);
	ep->slab = NULL;
	free(slab);
	return result;
}

static ginResult_t allocate(ginEp_t ep, ginEp_t old, const struct epSizes *sizes)
{
	ginResult_t result = old ? shareSlab(ep, old, sizes->slab) : makeSlab(ep, sizes->slab);

	if (result)
		return result;
	if ((result = ginMemAlloc(ep->comm, sizes->state, &ep->state)) ||
	    (result = ginMemAllocHost(ep->comm, sizes->page, &ep->page)))
		return epFailGin(result, "memory of the ep");
	if (sizes->sendBuffer &&
	    (result = ginMemAlloc(ep->comm, sizes->sendBuffer, &ep->sendBuffer)))
		return epFailGin(result, "memory of the ep");
	ep->bytes = sizes->slab + sizes->state + sizes->sendBuffer;
	ep->handleBytes = sizes->handle;
	memset(ep->page, 0, sizes->page);
	return ep->gpu ? epGpuClear(ep->gpu, ep->state, sizes->state) : ginSuccess;
}

static ginResult_t writeTable(ginEp_t ep, uint64_t at, const void *src, size_t bytes)
{
	if (ep->gpu)
		return epGpuWrite(ep->gpu, (char *)ep->state + at, src, bytes);
	memcpy((char *)ep->state + at, src, bytes);
	return ginSuccess;
}

static ginResult_t writeTables(ginEp_t ep, const struct epSizes *sizes, const uint32_t *first)
{
	uint32_t nRanks = ep->args.plan.nRanks, experts = ep->config.experts;
	uint32_t *rankOf = calloc(experts, sizeof(*rankOf));
	ginResult_t result;

	if (!rankOf)
		return epFail(ginErrorSystem, "no memory for %u experts", experts);
	for (uint32_t r = 0; r < nRanks; r++)
		for (uint32_t e = first[r]; e < first[r + 1]; e++)
			rankOf[e] = r;
	result = writeTable(ep, sizes->rankOf, rankOf, experts * sizeof(*rankOf));
	if (!result)
		result = writeTable(ep, sizes->firstExpert, first, (nRanks + 1) * sizeof(*first));
	free(rankOf);
	return result;
}

static void *stateAt(ginEp_t ep, uint64_t offset)
{
	return (char *)ep->state + offset;
}

static ginResult_t fillPointers(ginEp_t ep, const struct epSizes *sizes)
{
	struct epPlan *plan = &ep->args.plan;

	plan->own = ep->slab->at;
	plan->state = ep->state;
	plan->masked = stateAt(ep, sizes->masked);
	plan->observed = stateAt(ep, sizes->observed);
	plan->owed = stateAt(ep, sizes->owed);
	plan->chunks = stateAt(ep, sizes->chunks);
	plan->rankOf = stateAt(ep, sizes->rankOf);
	plan->firstExpert = stateAt(ep, sizes->firstExpert);
	plan->list = stateAt(ep, sizes->list);
	plan->numbers = stateAt(ep, sizes->numbers);
	plan->slots = stateAt(ep, sizes->slots);
	plan->ranked = stateAt(ep, sizes->ranked);
	plan->totals = stateAt(ep, sizes->totals);
	ep->ht.chunks = stateAt(ep, sizes->htChunks);
	ep->ht.tickets = stateAt(ep, sizes->htTickets);
	ep->ht.seen = stateAt(ep, sizes->htSeen);
	plan->page = ep->page;
	plan->pageObserved = (uint32_t *)(plan->page + 1);
	plan->pageMasked = plan->pageObserved + plan->nRanks;
	ep->ht.page = (uint32_t *)((char *)ep->page + sizes->htPage);
	ep->ticket = EP_FIRST_TICKET;
	for (uint32_t v = 0; v < EP_VARIANT_COUNT; v++)
		if (epScratchBytes(v, plan) > plan->scratchBytes)
			plan->scratchBytes = (uint32_t)epScratchBytes(v, plan);
	plan->scratchBytes = (plan->scratchBytes + 63) / 64 * 64;
	return plan->scratchBytes <= EP_SCRATCH
		       ? ginSuccess
		       : epFail(ginErrorInvalidArgument, "a block needs %u bytes of scratch",
				plan->scratchBytes);
}

/* Second step, on this rank alone: memory and tables. */
static ginResult_t prepare(ginEp_t ep, ginEp_t old, uint32_t networked, struct epSizes *sizes)
{
	uint32_t rank = ep->args.plan.rank, nRanks = ep->args.plan.nRanks;
	uint32_t *first = calloc(nRanks + 1, sizeof(*first));
	ginResult_t result;

	if (!first)
		return epFail(ginErrorSystem, "no memory for %u ranks", nRanks);
	epFirstExperts(&ep->config, nRanks, first);
	epLayout(&ep->config, first, nRanks, rank, (int)networked, ep->domainSize, &ep->args.plan,
		 sizes);
	ep->config.firstExpert = NULL;
	ep->ht = sizes->ht;
	ep->ht.window = ep->config.htWindow;
	if (!(result = allocate(ep, old, sizes)) && !(result = writeTables(ep, sizes, first)))
		result = fillPointers(ep, sizes);
	free(first);
	return result;
}

static ginResult_t makeDevComm(ginEp_t ep)
{
	struct epPlan *plan = &ep->args.plan;
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginResult_t result;

	want.contexts = plan->lanes;
	want.signals = ep->ht.domains > 1 ? EP_HT_SIGNALS * ep->ht.domains
					  : EP_FAMILIES * 2 * plan->nRanks;
	want.counters = 0;
	want.barriers = 0;
	want.timeout = plan->timeout;
	if ((result = ginDevCommCreate(ep->comm, &want, &ep->args.dc)))
		return epFailGin(result, "ginDevCommCreate");
	ep->haveDevComm = 1;
	return ginSuccess;
}

static ginResult_t openWindow(ginEp_t ep, ginEp_t old, uint64_t bytes)
{
	struct epPlan *plan = &ep->args.plan;
	ginResult_t result = old ? ginWindowInherited(ep->comm, old->args.plan.slab, &plan->slab)
				 : ginWindowRegister(ep->comm, ep->slab->at, bytes, 0, &plan->slab);

	if (result)
		return epFailGin(result, old ? "ginWindowInherited" : "ginWindowRegister");
	ep->haveWindow = 1;
	return ginSuccess;
}

static ginResult_t findSlabs(ginEp_t ep)
{
	struct epPlan *plan = &ep->args.plan;

	for (uint32_t r = 0; r < plan->nRanks && r < EP_PEER_SLABS; r++) {
		void *at = NULL;
		ginResult_t result = ginPeerPointer(ep->comm, plan->slab, (int)r, &at);

		if (result)
			return epFailGin(result, "ginPeerPointer");
		plan->peerSlab[r] = r == plan->rank ? plan->own : at;
	}
	return ginSuccess;
}

/* Third step, collective: the window and the device communicator. */
static ginResult_t connectRanks(ginEp_t ep, ginEp_t old, const struct epSizes *sizes)
{
	ginResult_t result = openWindow(ep, old, sizes->slab);

	if (result || (result = findSlabs(ep)) || (result = makeDevComm(ep)))
		return result;
	return epStartAnew(ep);
}

static ginResult_t open(ginEp_t ep, ginResult_t mine, ginEp_t old, const ginEpConfig_t *config)
{
	struct epHello hello = {0};
	struct epSizes sizes = {0};
	uint32_t networked = 0;
	ginResult_t result;

	hello.result = (int32_t)(mine ? mine : begin(ep, config, &hello.networked));
	fillHello(ep, &hello);
	if ((result = agree(ep, &hello, &networked)))
		return result;
	hello.result = (int32_t)prepare(ep, old, networked, &sizes);
	if ((result = agree(ep, &hello, &networked)))
		return result;
	return connectRanks(ep, old, &sizes);
}

/* Frees all that the ep has; after a failed ginEpCreate() that may be incomplete. */
static ginResult_t close(ginEp_t ep)
{
	ginResult_t result = ginSuccess, now;

	if (ep->haveDevComm && (now = ginDevCommDestroy(ep->comm, &ep->args.dc)))
		result = epFailGin(now, "ginDevCommDestroy");
	if (ep->haveWindow && (now = ginWindowDeregister(ep->comm, ep->args.plan.slab)))
		result = epFailGin(now, "ginWindowDeregister");
	if ((now = ginMemFree(ep->comm, ep->sendBuffer)) ||
	    (now = ginMemFree(ep->comm, ep->page)) || (now = ginMemFree(ep->comm, ep->state)) ||
	    (now = releaseSlab(ep)))
		result = epFailGin(now, "ginMemFree");
	epGpuClose(ep->gpu);
	free(ep);
	return result;
}

/*
 * `mine`: the result of this rank so far. `old` NULL, or the ep whose slab the new one takes. A
 * rank with a wrong argument meets the others, which do not wait for it; without `comm` it cannot.
 */
static ginResult_t create(ginComm_t comm, ginResult_t mine, ginEp_t old,
			  const ginEpConfig_t *config, ginEp_t *out)
{
	ginEp_t ep = calloc(1, sizeof(*ep));
	int rank = 0, nRanks = 0;
	ginResult_t result;

	if (!ep)
		return epCannotMeet(comm);
	ep->comm = comm;
	if (!comm || ginCommRank(comm, &rank) || ginCommSize(comm, &nRanks) ||
	    ginCommDevice(comm, &ep->device)) {
		free(ep);
		return epFail(ginErrorInvalidArgument, "comm is NULL");
	}
	ep->args.plan.rank = (uint32_t)rank;
	ep->args.plan.nRanks = (uint32_t)nRanks;
	if (!out)
		mine = epFail(ginErrorInvalidArgument, "the place for the new ep is NULL");
	if (!(result = open(ep, mine, old, config))) {
		*out = ep;
		return ginSuccess;
	}
	char sentence[256];
	snprintf(sentence, sizeof(sentence), "%s", ginEpGetLastError());
	close(ep);
	return epFail(result, "%s", sentence);
}

ginResult_t ginEpCreate(ginComm_t comm, const ginEpConfig_t *config, ginEp_t *out)
{
	EP_RANGE();
	return create(comm, ginSuccess, NULL, config, out);
}

ginResult_t ginEpShrink(ginEp_t ep, ginComm_t survivors, const ginEpConfig_t *config, ginEp_t *out)
{
	EP_RANGE();
	ginResult_t mine = ep ? ginSuccess : epFail(ginErrorInvalidArgument, "ep is NULL");

	if (ep)
		epFlush(ep); /* before another rank clears the memory: all meet in create() */
	return create(survivors, mine, ep, config, out);
}

/* The memory of the old slab is free before the new one is made. No rank uses it any more. */
static ginResult_t replaceSlab(ginEp_t ep, uint64_t bytes)
{
	struct epHello hello = {0};
	uint32_t networked = 0;
	ginResult_t result = ginWindowDeregister(ep->comm, ep->args.plan.slab);

	ep->haveWindow = 0;
	if (result)
		return epFailGin(result, "ginWindowDeregister");
	if ((result = releaseSlab(ep)))
		return epFailGin(result, "ginMemFree");
	hello.result = (int32_t)makeSlab(ep, bytes);
	if ((result = agree(ep, &hello, &networked)))
		return result;
	ep->args.plan.own = ep->slab->at;
	if ((result = openWindow(ep, NULL, bytes)) || (result = findSlabs(ep)))
		return result;
	return epStartAnew(ep);
}

ginResult_t ginEpHtGrow(ginEp_t ep, uint32_t rows)
{
	EP_RANGE();
	struct epHello hello = {0};
	uint32_t networked = 0;
	uint64_t before;
	ginResult_t result;

	if (!ep || ep->config.modes != GIN_EP_HT)
		return epFail(ginErrorInvalidArgument, "ep is NULL, or not of GIN_EP_HT");
	if (ep->ht.domains > 1)
		epFlush(ep); /* before another rank's window goes: all meet in agree() */
	if (rows <= ep->ht.rows)
		hello.result = (int32_t)epFail(ginErrorInvalidArgument,
					       "rows is %u, the pool has %u", rows, ep->ht.rows);
	fillHello(ep, &hello);
	hello.fields[HT_RECV_TOKENS] = rows;
	if ((result = agree(ep, &hello, &networked)))
		return result;
	before = epHtPoolLayout(&ep->ht);
	ep->config.htRecvTokens = ep->ht.rows = rows;
	ep->bytes += epHtPoolLayout(&ep->ht) - before;
	if ((result = replaceSlab(ep, epHtPoolLayout(&ep->ht))))
		((struct epPage *)ep->page)->failed = (uint32_t)result;
	return result;
}

ginResult_t ginEpDestroy(ginEp_t ep)
{
	EP_RANGE();
	return ep ? close(ep) : ginSuccess;
}

ginResult_t ginEpBytes(const ginEpConfig_t *config, int nRanks, uint64_t *bytes)
{
	ginEpConfig_t own;
	struct epSizes sizes;
	struct epPlan plan;
	ginResult_t result;

	if (!bytes || nRanks < 1)
		return epFail(ginErrorInvalidArgument, "bytes is NULL, or nRanks is %d", nRanks);
	if ((result = epCheckConfig(config, (uint32_t)nRanks, &own)))
		return result;
	uint32_t *first = calloc((size_t)nRanks + 1, sizeof(*first));
	if (!first)
		return epFail(ginErrorSystem, "no memory for %d ranks", nRanks);
	epFirstExperts(&own, (uint32_t)nRanks, first);
	epLayout(&own, first, (uint32_t)nRanks, 0, nRanks > 1, 1, &plan, &sizes);
	free(first);
	*bytes = sizes.slab + sizes.state + sizes.sendBuffer;
	return ginSuccess;
}

ginResult_t ginEpSendBuffer(ginEp_t ep, uint32_t layout, ginEpTensor_t *x)
{
	if (!ep || !x || layout > GIN_EP_RANK_MAJOR)
		return epFail(ginErrorInvalidArgument, "ep or x is NULL, or layout is %u", layout);
	if (!ep->config.sendBuffer)
		return epFail(ginErrorInvalidUsage, "the ep was made with config.sendBuffer 0");
	const struct epPlan *plan = &ep->args.plan;
	int ranked = layout == GIN_EP_RANK_MAJOR;
	int64_t outer = ranked ? plan->nRanks : plan->localExperts;
	int64_t inner = ranked ? plan->maxTokens : (int64_t)plan->nRanks * plan->maxTokens;
	*x = (ginEpTensor_t){ep->sendBuffer,
			     ginEpBf16,
			     3,
			     {outer, inner, plan->hidden, 0},
			     {inner * plan->hidden, plan->hidden, 1, 0}};
	return ginSuccess;
}

ginResult_t ginEpQuery(ginEp_t ep, ginEpInfo_t *info)
{
	if (!ep || !info || info->size < sizeof(info->size))
		return epFail(ginErrorInvalidArgument,
			      "ep or info is NULL, or info->size is not set");
	const struct epPlan *plan = &ep->args.plan;
	ginEpInfo_t out = {
		.rank = (int32_t)plan->rank,
		.nRanks = (int32_t)plan->nRanks,
		.device = ep->device,
		.directPeers = (int32_t)ep->directPeers,
		.experts = plan->experts,
		.firstExpert = plan->firstLocal,
		.localExperts = plan->localExperts,
		.topk = plan->topk,
		.hidden = plan->hidden,
		.maxTokens = plan->maxTokens,
		.recvRows = plan->nRanks * plan->maxTokens,
		.contexts = plan->lanes,
		.handleBytes = ep->config.modes == GIN_EP_HT ? 0 : ep->handleBytes,
		.bytes = ep->bytes,
		.htTokens = ep->ht.tokens,
		.htRecvTokens = ep->ht.rows,
	};
	snprintf(out.kernels, sizeof(out.kernels), "%s",
		 ep->gpu ? epGpuKernels(ep->gpu) : "host threads");
	out.size = info->size < sizeof(out) ? info->size : sizeof(out);
	memcpy(info, &out, out.size);
	return ginSuccess;
}
