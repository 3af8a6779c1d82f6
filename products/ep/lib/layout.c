/* SPDX-License-Identifier: BSD-3-Clause */
/* layout.c - the sizes and offsets of an ep's memory */
#include "ep.h"

static uint64_t align(uint64_t bytes, uint64_t to)
{
	return (bytes + to - 1) / to * to;
}

/* Reserves `bytes` at the offset `*end`, and moves it; returns the old offset. */
static uint64_t take(uint64_t *end, uint64_t bytes)
{
	uint64_t at = *end;

	*end = align(at + bytes, 256);
	return at;
}

void epFirstExperts(const ginEpConfig_t *config, uint32_t nRanks, uint32_t *first)
{
	uint32_t each = config->experts / nRanks, more = config->experts % nRanks;

	first[0] = 0;
	for (uint32_t r = 0; r < nRanks; r++)
		first[r + 1] = config->firstExpert ? config->firstExpert[r + 1]
						   : first[r] + each + (r < more);
}

/* For a division of numbers below 2^16 by `by`: multiply, shift right by 31. */
static uint32_t inverseOf(uint32_t by)
{
	return by ? (uint32_t)(((1ull << 31) + by - 1) / by) : 0;
}

struct epFormat epFormatOf(uint32_t rows, uint32_t hidden)
{
	switch (rows) {
	case GIN_EP_ROWS_F8:
		return (struct epFormat){hidden, (hidden + 127) / 128, 4};
	case GIN_EP_ROWS_MXF8:
		return (struct epFormat){hidden, (hidden + 31) / 32, 1};
	case GIN_EP_ROWS_NVF4:
		return (struct epFormat){hidden / 2, hidden / 16, 1};
	default:
		return (struct epFormat){hidden * 2, 0, 0};
	}
}

/* The most bytes of a row with its scales. */
static uint32_t mostBytes(const ginEpConfig_t *config)
{
	uint32_t most = 0;

	for (uint32_t rows = 1; rows <= config->rowTypes; rows *= 2) {
		struct epFormat f = epFormatOf(rows, config->hidden);
		uint32_t bytes = f.bytes + (f.scales * f.scaleBytes + 3) / 4 * 4;

		if (rows & config->rowTypes && bytes > most)
			most = bytes;
	}
	return most;
}

static void numbers(const ginEpConfig_t *config, const uint32_t *first, struct epPlan *plan)
{
	uint32_t fewest = config->topk < plan->nRanks ? config->topk : plan->nRanks;

	plan->experts = config->experts;
	plan->firstLocal = first[plan->rank];
	plan->localExperts = first[plan->rank + 1] - first[plan->rank];
	for (uint32_t r = 0; r < plan->nRanks; r++)
		if (first[r + 1] - first[r] > plan->mostLocal)
			plan->mostLocal = first[r + 1] - first[r];
	plan->even = config->firstExpert == NULL;
	plan->eachRank = config->experts / plan->nRanks;
	plan->moreRanks = config->experts % plan->nRanks;
	plan->inverseEach = inverseOf(plan->eachRank);
	plan->inverseMore = inverseOf(plan->eachRank + 1);
	plan->topk = config->topk;
	plan->hidden = config->hidden;
	plan->maxTokens = config->maxTokens;
	plan->partsOfToken = config->reduce == GIN_EP_REDUCE_NONE ? config->topk : fewest;
	plan->onLost = config->onLost;
	plan->timeout = config->timeout;
	plan->payload =
		(uint32_t)align(sizeof(struct epHeader) + config->topk * sizeof(struct epItem), 16);
	plan->rowBytes = (uint32_t)align(plan->payload + mostBytes(config), 16);
	plan->partBytes = config->hidden * 2;
	plan->received = (uint32_t)align(
		sizeof(struct epReceived) + config->topk * sizeof(struct epAnswer), 16);
	plan->listed = config->maxTokens * config->topk;
}

/* Bytes of a handle; epHandle in args.h. */
static uint64_t handleLayout(struct epPlan *plan)
{
	uint64_t tables = align(2ull * plan->nRanks * 4, 16);

	plan->itemPartsAt = sizeof(struct epHandle) + tables +
			    (uint64_t)plan->nRanks * plan->maxTokens * plan->received;
	return plan->itemPartsAt +
	       (plan->allDirect ? 0 : (uint64_t)plan->listed * sizeof(struct epItemParts));
}

/* The larger of both layouts. */
static uint64_t sendBufferBytes(const ginEpConfig_t *config, const struct epPlan *plan)
{
	uint64_t rows = (uint64_t)plan->nRanks * plan->maxTokens;

	if (!config->sendBuffer)
		return 0;
	return (plan->localExperts > 1 ? plan->localExperts : 1) * rows * plan->partBytes;
}

uint64_t epHtPoolLayout(struct epHtPlan *ht)
{
	uint64_t end = ht->poolAt;

	take(&end, (uint64_t)ht->rows * ht->rowBytes);
	ht->metaAt = take(&end, (uint64_t)ht->rows * ht->metaBytes);
	return end;
}

uint32_t epHtBlocks(const ginEpConfig_t *config, uint32_t asked, uint32_t usual, uint32_t most)
{
	uint32_t blocks = asked ? asked : config->htSms ? config->htSms : usual;

	if (config->maxSms && config->maxSms < most)
		most = config->maxSms;
	return blocks < most ? blocks : most;
}

/* Messages and rings between domains, and their staging. */
static void railLayout(const struct epPlan *plan, uint64_t *end, struct epHtPlan *ht)
{
	uint64_t others = ht->domains - 1, S = ht->domainSize;
	uint64_t ring = others * plan->lanes * EP_HT_DEPTH;

	ht->pairsAt = (uint32_t)align((1 + plan->nRanks + S * plan->mostLocal) * 4, 16);
	ht->messageBytes = align(ht->pairsAt + ht->groups * S * sizeof(struct epHtPair), 256);
	ht->slotBytes =
		align(EP_HT_HEAD + (uint64_t)EP_HT_GROUP * (ht->rowBytes + ht->metaBytes), 256);
	ht->messageAt = take(end, 2 * others * ht->messageBytes);
	ht->stagedMessageAt = take(end, 2 * others * ht->messageBytes);
	ht->ringAt = take(end, ring * ht->slotBytes);
	ht->stagedAt = take(end, ring * ht->slotBytes);
}

/* The words and the pool of high throughput; `end`: what comes before them. */
static uint64_t htLayout(const ginEpConfig_t *config, struct epPlan *plan, uint64_t end,
			 struct epHtPlan *ht)
{
	uint64_t R = plan->nRanks, words = 1 + 2 * config->topk + config->htScaleBytes / 4;

	ht->tokens = config->htTokens;
	ht->rows = config->htRecvTokens;
	ht->rowBytes = config->htRowBytes;
	ht->metaBytes = (uint32_t)align(words * 4, 16);
	ht->units = (ht->tokens + EP_HT_UNIT - 1) / EP_HT_UNIT;
	ht->batches = (ht->tokens + EP_HT_BATCH - 1) / EP_HT_BATCH;
	ht->groups = (ht->tokens + EP_HT_GROUP - 1) / EP_HT_GROUP;
	ht->pageWords = 3 + plan->localExperts;
	ht->placeAt = take(&end, 2 * 2 * R * EP_HT_PLACE * 8);
	ht->doneAt = take(&end, R * ht->units * 8);
	ht->readyAt = take(&end, R * ht->batches * 8);
	ht->pulledAt = take(&end, R * 8);
	plan->wordBytes = end - plan->wordsAt;
	railLayout(plan, &end, ht);
	ht->poolAt = end;
	return epHtPoolLayout(ht);
}

static uint64_t slabLayout(const ginEpConfig_t *config, struct epPlan *plan, int networked,
			   struct epHtPlan *ht)
{
	uint64_t R = plan->nRanks, T = plan->maxTokens, end = 0;
	uint64_t isHt = config->modes == GIN_EP_HT, rows = 2 * R * T * plan->rowBytes;
	uint64_t counts = 2 * R * (1 + (isHt ? R : 0) + plan->mostLocal) * 8;

	plan->rowsAt = take(&end, rows);
	plan->partsAt = take(&end, 2 * T * plan->partsOfToken * plan->partBytes);
	plan->wordsAt = end;
	plan->countsAt = take(&end, counts);
	plan->marksAt = take(&end, R * 8);
	plan->verdictsAt = take(&end, 2 * R * 8);
	plan->wordBytes = end - plan->wordsAt;
	if (isHt)
		return htLayout(config, plan, end, ht);
	if (!networked)
		return end;
	plan->stagedRowsAt = take(&end, rows);
	plan->stagedPartsAt = take(&end, 2 * R * T * plan->partsOfToken * plan->partBytes);
	plan->stagedCountsAt = take(&end, counts);
	plan->stagedMarkAt = take(&end, counts / (2 * R));
	return end;
}

static void stateLayout(const struct epPlan *plan, int networked, struct epSizes *sizes)
{
	uint64_t rings = sizes->ht.domains > 1 ? 2ull * sizes->ht.domains * plan->lanes : 0;
	uint64_t R = plan->nRanks, chunks = (plan->maxTokens + EP_CHUNK - 1) / EP_CHUNK;
	uint64_t end = 0, items = plan->listed > EP_SHORT_LIST ? plan->listed : 0;

	take(&end, sizeof(struct epState));
	sizes->masked = take(&end, R * 4);
	sizes->observed = take(&end, R * 4);
	sizes->owed = take(&end, 2 * 2 * R * 4);
	sizes->chunks = take(&end, networked ? 2 * 2 * R * chunks * 4 : 0);
	sizes->htChunks = take(&end, rings * sizeof(uint64_t));
	sizes->htTickets = take(&end, rings * EP_HT_DEPTH * sizeof(uint32_t));
	sizes->htSeen = take(&end, rings / 2 * EP_HT_SIGNALS * sizeof(uint64_t));
	sizes->zeroed = end;
	sizes->rankOf = take(&end, plan->experts * 4ull);
	sizes->firstExpert = take(&end, (R + 1) * 4);
	sizes->list = take(&end, items * 4);
	sizes->numbers = take(&end, items * 4);
	sizes->slots = take(&end, items * 4);
	sizes->ranked = take(&end, networked ? items * 4 : 0);
	sizes->totals = take(&end, (plan->experts + R) * 4);
	sizes->state = end;
}

static uint32_t lanesOf(const ginEpConfig_t *config, int networked, const struct epHtPlan *ht)
{
	if (config->contexts)
		return config->contexts;
	return ht->domains > 1 ? EP_HT_LANES : networked ? 4 : 1;
}

void epLayout(const ginEpConfig_t *config, const uint32_t *first, uint32_t nRanks, uint32_t rank,
	      int networked, uint32_t domainSize, struct epPlan *plan, struct epSizes *sizes)
{
	struct epHtPlan *ht = &sizes->ht;

	memset(plan, 0, sizeof(*plan));
	memset(&sizes->ht, 0, sizeof(sizes->ht));
	plan->rank = rank;
	plan->nRanks = nRanks;
	plan->allDirect = !networked;
	if (config->modes == GIN_EP_HT) {
		ht->domains = nRanks / domainSize;
		ht->domainSize = domainSize;
		ht->domain = rank / domainSize;
		ht->firstPeer = rank - rank % domainSize;
	}
	plan->lanes = lanesOf(config, networked, ht);
	numbers(config, first, plan);
	sizes->slab = slabLayout(config, plan, networked, ht);
	stateLayout(plan, networked, sizes);
	plan->stateBytes = sizes->zeroed;
	sizes->htPage = align(sizeof(struct epPage) + 2ull * nRanks * 4, 64);
	sizes->page = sizes->htPage + 4ull * EP_HT_TICKETS * sizes->ht.pageWords;
	sizes->handle = handleLayout(plan);
	sizes->sendBuffer = sendBufferBytes(config, plan);
}
