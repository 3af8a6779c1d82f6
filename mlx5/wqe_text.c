/* SPDX-License-Identifier: BSD-3-Clause */
/* wqe_text.c - describes work requests */
#include "wqe.h"

#include "text.h"
#include "words.h"

#include <gin/core/mlx5.h>

enum { INLINE_SHOWN = 32 };

static void flagsText(const struct decodedWqe *w, struct text *t)
{
	static const char *const completions[] = {"", ", CQE on the first error", ", CQE",
						  ", CQE and event"};
	static const char *const fences[8] = {"", ", fence: initiator small", ", fence",
					      ", fence: strong", ", fence and small"};
	const char *fence = fences[w->flags >> 5];

	textAdd(t, "%s%s%s", completions[w->flags >> 2 & 3], fence ? fence : "",
		w->flags & ginMlx5Solicited ? ", solicited" : "");
}

static void controlText(const struct decodedWqe *w, struct text *t)
{
	const char *name = wqeOpcodeName(w->opcode);

	if (name)
		textAdd(t, "%s", name);
	else
		textAdd(t, "opcode 0x%02x", w->opcode);
	if (w->opMod)
		textAdd(t, " op_mod 0x%02x", w->opMod);
	textAdd(t, ", index 0x%x, queue 0x%x, ds %u", w->index, w->queue, w->segments);
	flagsText(w, t);
	if (w->opcode == ginMlx5OpWriteImmediate || w->opcode == wqeOpcodeSendImmediate)
		textAdd(t, ", immediate 0x%08x", w->immediate);
	if (w->opcode == wqeOpcodeSendInvalidate)
		textAdd(t, ", invalidates key 0x%08x", w->immediate);
	if (w->signature)
		textAdd(t, ", signature 0x%02x", w->signature);
}

static void inlineText(const struct decodedWqe *w, const char *between, struct text *t)
{
	uint32_t shown = w->inlinedBytes < INLINE_SHOWN ? w->inlinedBytes : INLINE_SHOWN;

	textAdd(t, "%s%u bytes inline:", between, w->inlinedBytes);
	for (uint32_t i = 0; i < shown; i++)
		textAdd(t, "%s%02x", i % 4 ? "" : " ", w->inlined[i]);
	if (shown < w->inlinedBytes)
		textAdd(t, " ...");
}

static void localsText(const struct decodedWqe *w, const char *between, struct text *t)
{
	const char *way = w->kind == wqeKindRead || w->kind == wqeKindAtomic ? "to" : "from";

	for (uint32_t i = 0; i < w->locals; i++)
		textAdd(t, "%s%u bytes %s 0x%llx lkey 0x%x", between, w->local[i].bytes, way,
			(unsigned long long)w->local[i].address, w->local[i].key);
	if (w->inlinedBytes)
		inlineText(w, between, t);
}

static void operandsText(const struct decodedWqe *w, const char *between, struct text *t)
{
	unsigned long long first = w->operands.swapOrAdd, second = w->operands.compare;

	switch (w->opcode) {
	case ginMlx5OpFetchAdd:
		textAdd(t, "%sadd 0x%llx", between, first);
		return;
	case ginMlx5OpMaskedFetchAdd:
		textAdd(t, "%sadd 0x%llx, boundary 0x%llx", between, first, second);
		return;
	case ginMlx5OpCompareSwap:
		textAdd(t, "%sif 0x%llx then 0x%llx", between, second, first);
		return;
	default:
		textAdd(t, "%sif 0x%llx by mask 0x%llx then 0x%llx by mask 0x%llx", between, second,
			(unsigned long long)w->operands.compareMask, first,
			(unsigned long long)w->operands.swapMask);
	}
}

static bool hasRemote(const struct decodedWqe *w)
{
	return (w->kind == wqeKindWrite || w->kind == wqeKindRead || w->kind == wqeKindAtomic) &&
	       w->read > 1;
}

size_t wqeText(const struct decodedWqe *w, const char *between, char *out, size_t room)
{
	struct text t = {out, room, 0};

	controlText(w, &t);
	if (hasRemote(w))
		textAdd(&t, "%s%s 0x%llx rkey 0x%x", between,
			w->kind == wqeKindRead ? "from" : "to",
			(unsigned long long)w->remote.address, w->remote.key);
	if (w->kind == wqeKindAtomic && w->read > 2)
		operandsText(w, between, &t);
	if (w->kind == wqeKindWait && w->read > 1)
		textAdd(&t, "%suntil index 0x%x of completion queue 0x%x", between, w->waitIndex,
			w->waitQueue);
	localsText(w, between, &t);
	return t.used;
}
