/* SPDX-License-Identifier: BSD-3-Clause */
/* descriptor.c - reads descriptors from the ring and resolves them to operands and spots */
#include "descriptor.h"

#include <string.h>

/*
 * D, acquire end: pairs with ginDescriptorPublish. Each word acquires: words may arrive one by one.
 */
int descriptorTake(const uint64_t *slot, uint64_t phase, uint64_t words[GIN_DESCRIPTOR_WORDS])
{
	static const uint8_t spilled[] = {2, 3, 4, 5, 7};

	for (int i = 0; i < GIN_DESCRIPTOR_WORDS; i++) {
		words[i] = __atomic_load_n(slot + i, __ATOMIC_ACQUIRE);
		if ((words[i] ^ phase) & GIN_DESCRIPTOR_PHASE)
			return 0;
		words[i] &= ~GIN_DESCRIPTOR_PHASE;
	}
	if (!(words[0] & 31ull << GIN_D0_SPILL))
		return 1; /* nearly always */
	for (unsigned i = 0; i < sizeof(spilled); i++)
		words[spilled[i]] |= words[0] >> (GIN_D0_SPILL + i) << 63;
	return 1;
}

static uint32_t field(uint64_t word, int at, int bits)
{
	return (uint32_t)(word >> at & ((1u << bits) - 1));
}

/* `named`: slot of a window and offset. Checks [offset, offset + bytes) of its part at `rank`. */
static const char *resolveSpot(const struct descriptorScope *scope, uint64_t named, uint32_t rank,
			       uint64_t bytes, struct proxySpot *out)
{
	uint64_t offset = named & ((1ull << GIN_DESCRIPTOR_OFFSET_BITS) - 1);
	const struct proxyWindow *w =
		slotsFind(scope->slots, (uint32_t)(named >> GIN_DESCRIPTOR_OFFSET_BITS) &
						(GIN_DESCRIPTOR_SLOTS - 1));

	if (!w)
		return "it names a window that is not registered";
	const struct proxyPart *part = &w->part[rank];
	if (offset > part->bytes || bytes > part->bytes - offset)
		return "it goes beyond the end of a window";
	if (bytes && !part->isReached)
		return "this rank does not reach a window at the peer";
	*out = (struct proxySpot){w, offset};
	return NULL;
}

/* Memory of this rank. */
static const char *resolveOperand(const struct descriptorScope *scope, uint64_t named,
				  uint64_t bytes, struct proxyOperand *out)
{
	uint32_t rank = scope->rank;
	struct proxySpot spot;
	const char *wrong = resolveSpot(scope, named, rank, bytes, &spot);

	if (wrong)
		return wrong;
	const struct proxyPart *own = &spot.window->part[rank];
	*out = (struct proxyOperand){own->at ? own->at + spot.offset : NULL, own->byCpu};
	return NULL;
}

static const char *resolveAddress(const struct descriptorScope *scope, uint64_t address,
				  uint64_t bytes, struct proxyOperand *out)
{
	void *at = (void *)(uintptr_t)address;

	if (!bytes)
		return NULL;
	const struct proxyWindow *w = slotsSearch(scope->slots, at, bytes);
	if (!w)
		return "its source is in no window of this rank";
	*out = (struct proxyOperand){at, w->part[w->rank].byCpu};
	return NULL;
}

/* A word that the proxy changes: it must be aligned. */
static const char *resolveWord(const struct descriptorScope *scope, uint64_t named, uint32_t bytes,
			       struct proxyWork *work)
{
	const char *wrong = resolveSpot(scope, named, work->peer, bytes, &work->word);

	if (wrong)
		return wrong;
	const struct proxyPart *part = &work->word.window->part[work->peer];
	if (!part->isChangeable)
		return "it changes a word in GPU memory, which the proxy does not change";
	if ((part->skew + work->word.offset) % bytes)
		return "it changes a word that is not aligned";
	work->wordState = wordDue;
	return NULL;
}

static void nameWord(const struct descriptorScope *scope, uint64_t index, struct proxyWork *work)
{
	work->word =
		(struct proxySpot){scope->words, index * GIN_CPU_WORD_STRIDE * sizeof(uint64_t)};
	work->wordState = wordDue;
}

static const char *resolveRaise(const struct descriptorScope *scope, const uint64_t *words,
				struct proxyWork *work)
{
	uint32_t raise = field(words[0], GIN_D0_SIGNAL, 3);

	work->addend = words[7];
	work->isWeak = raise == ginRaiseWeakId || raise == ginRaiseWeakAt;
	if (raise == ginRaiseNone)
		return NULL;
	if (raise == ginRaiseStrongAt || raise == ginRaiseWeakAt)
		return resolveWord(scope, words[6], 8, work);
	if (raise > ginRaiseWeakAt)
		return "it raises a signal in no known way";
	if (words[6] >= scope->signals)
		return "it raises a signal that does not exist";
	nameWord(scope, scope->firstSignal + words[6], work);
	return NULL;
}

static const char *resolvePut(const struct descriptorScope *scope, const uint64_t *words,
			      struct proxyWork *work)
{
	uint32_t counter = field(words[0], GIN_D0_COUNTER, GIN_D0_COUNTER_BITS);
	const char *wrong;

	work->bytes = words[3];
	if (counter > scope->nCounters)
		return "it counts on a counter that does not exist";
	work->counter = counter ? scope->counters + counter - 1 : NULL;
	wrong = resolveSpot(scope, words[1], work->peer, work->bytes, &work->there);
	if (!wrong && field(words[0], GIN_D0_ADDRESS, 1))
		wrong = resolveAddress(scope, words[2], work->bytes, &work->here);
	else if (!wrong)
		wrong = resolveOperand(scope, words[2], work->bytes, &work->here);
	return wrong ? wrong : resolveRaise(scope, words, work);
}

static const char *resolveValue(const struct descriptorScope *scope, const uint64_t *words,
				struct proxyWork *work)
{
	work->bytes = field(words[0], GIN_D0_COUNTER, GIN_D0_COUNTER_BITS);
	if (work->bytes > sizeof(work->value))
		return "its value is longer than 32 bytes";
	memcpy(work->value, words + 2, sizeof(work->value));
	const char *wrong = resolveSpot(scope, words[1], work->peer, work->bytes, &work->there);
	return wrong ? wrong : resolveRaise(scope, words, work);
}

static const char *resolveGet(const struct descriptorScope *scope, const uint64_t *words,
			      struct proxyWork *work)
{
	work->bytes = words[3];
	const char *wrong = resolveSpot(scope, words[1], work->peer, work->bytes, &work->there);
	return wrong ? wrong : resolveOperand(scope, words[2], work->bytes, &work->here);
}

static const char *resolveBarrier(const struct descriptorScope *scope, const uint64_t *words,
				  struct proxyWork *work)
{
	if (words[1] >= scope->nBarrierWords)
		return "it is for a barrier that does not exist";
	nameWord(scope, scope->firstBarrier + words[1], work);
	work->value[0] = words[2];
	return NULL;
}

static const char *resolveAtomic(const struct descriptorScope *scope, const uint64_t *words,
				 struct proxyWork *work)
{
	uint32_t bytes = field(words[0], GIN_D0_COUNTER, GIN_D0_COUNTER_BITS);

	if (bytes != 4 && bytes != 8)
		return "its word has neither 4 nor 8 bytes";
	if (words[4] > GIN_QUEUE_RESULTS)
		return "it names a result slot that does not exist";
	work->bytes = bytes;
	work->value[0] = words[2];
	work->value[1] = words[3];
	work->oldValue = words[4] ? scope->results + words[4] - 1 : NULL;
	work->resultTicket = words[4] ? scope->resultTickets + words[4] - 1 : NULL;
	return resolveWord(scope, words[1], bytes, work);
}

const char *descriptorResolve(const struct descriptorScope *scope, const uint64_t *words,
			      struct proxyWork *work)
{
	work->op = (uint8_t)field(words[0], GIN_D0_OP, 4);
	work->peer = field(words[0], GIN_D0_PEER, 20);
	work->isWeak = 0;
	work->wordState = wordNone;
	work->counter = work->oldValue = work->resultTicket = NULL;
	work->bytes = 0;
	work->here = (struct proxyOperand){NULL, 1};
	work->there = (struct proxySpot){NULL, 0};
	if (work->peer >= scope->nRanks)
		return "it is for a rank that does not exist";
	switch (work->op) {
	case ginOpPut:
		return resolvePut(scope, words, work);
	case ginOpPutValue:
		return resolveValue(scope, words, work);
	case ginOpGet:
		return resolveGet(scope, words, work);
	case ginOpSignal:
		return resolveRaise(scope, words, work);
	case ginOpBarrier:
		return resolveBarrier(scope, words, work);
	case ginOpFetchAdd:
	case ginOpCompareSwap:
	case ginOpSwap:
		return resolveAtomic(scope, words, work);
	case ginOpNothing:
		return NULL;
	}
	return "it names no operation";
}
