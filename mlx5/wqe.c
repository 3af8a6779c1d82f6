/* SPDX-License-Identifier: BSD-3-Clause */
/* wqe.c - decodes and checks work requests */
#include "wqe.h"

#include "prm.h"
#include "text.h"
#include "words.h"

#include <gin/core/mlx5.h>

enum { RESERVED_FLAGS = 0x11 };

/* The WQE's bytes, the next segment to decode, and the end. */
struct reader {
	const uint8_t *bytes;
	uint32_t next, end;
};

void wqeDefect(struct decodedWqe *w, const char *format, ...)
{
	struct text text = {w->defects, sizeof(w->defects), strlen(w->defects)};
	char sentence[160];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	textAdd(&text, "%s%s", text.used ? "; " : "", sentence);
}

bool wqeIsBlank(const void *queue, uint32_t slot)
{
	static const uint8_t zeros[GIN_MLX5_WQEBB_BYTES];

	return !memcmp((const uint8_t *)queue + (size_t)slot * sizeof(zeros), zeros, sizeof(zeros));
}

static enum wqeKind kindOf(unsigned opcode)
{
	switch (opcode) {
	case ginMlx5OpNop:
		return wqeKindEmpty;
	case ginMlx5OpDump:
		return wqeKindLocal;
	case ginMlx5OpWrite:
	case ginMlx5OpWriteImmediate:
		return wqeKindWrite;
	case ginMlx5OpRead:
		return wqeKindRead;
	case wqeOpcodeSend:
	case wqeOpcodeSendImmediate:
	case wqeOpcodeSendInvalidate:
		return wqeKindSend;
	case ginMlx5OpCompareSwap:
	case ginMlx5OpFetchAdd:
	case ginMlx5OpMaskedCompareSwap:
	case ginMlx5OpMaskedFetchAdd:
		return wqeKindAtomic;
	case wqeOpcodeWait:
		return wqeKindWait;
	default:
		return wqeOpcodeName(opcode) ? wqeKindOpaque : wqeKindUnknown;
	}
}

/* The next segment; NULL and a defect if the WQE has no more segments. */
static const uint8_t *segment(struct reader *r, struct decodedWqe *w, const char *what)
{
	if (r->next >= r->end) {
		wqeDefect(w, "ds %u leaves no room for %s", w->segments, what);
		return NULL;
	}
	return r->bytes + 16 * r->next++;
}

static uint64_t pairGet(const uint8_t *at)
{
	return (uint64_t)wordGet(at, 0) << 32 | wordGet(at, 1);
}

static void readControl(struct decodedWqe *w, const uint8_t *at)
{
	uint32_t word = wordGet(at, 0);

	w->opcode = (uint8_t)word;
	w->opMod = (uint8_t)(word >> 24);
	w->index = (uint16_t)(word >> 8);
	w->queue = wordGet(at, 1) >> 8;
	w->segments = at[7];
	w->signature = at[8];
	w->flags = at[11];
	w->immediate = wordGet(at, 3);
	w->kind = kindOf(w->opcode);
	w->wqebbs = 1;
	if (w->segments > 4 && w->segments <= WQE_SEGMENTS_MOST)
		w->wqebbs = (w->segments + 3u) / 4;
}

static void checkControl(struct decodedWqe *w, const uint8_t *at)
{
	if (w->kind == wqeKindUnknown)
		wqeDefect(w, "there is no opcode 0x%02x", w->opcode);
	if (w->segments == 0)
		wqeDefect(w, "ds is 0");
	if (w->segments > WQE_SEGMENTS_MOST)
		wqeDefect(w, "ds is %u, more than %d", w->segments, WQE_SEGMENTS_MOST);
	if (w->flags & RESERVED_FLAGS)
		wqeDefect(w, "reserved bits of fm_ce_se 0x%02x are set", w->flags);
	if (w->flags >> 5 > 4)
		wqeDefect(w, "there is no fence mode %u", w->flags >> 5);
	if (at[9] || at[10])
		wqeDefect(w, "reserved bytes 9 and 10 are %02x%02x", at[9], at[10]);
}

static void readRemote(struct reader *r, struct decodedWqe *w)
{
	const uint8_t *at = segment(r, w, "the remote address");

	if (!at)
		return;
	w->remote.address = pairGet(at);
	w->remote.key = wordGet(at, 2);
	if (wordGet(at, 3))
		wqeDefect(w, "reserved word of the remote address is 0x%08x", wordGet(at, 3));
}

static void readInline(struct reader *r, struct decodedWqe *w, const uint8_t *at)
{
	uint32_t bytes = wordGet(at, 0) & ~(1u << 31);
	uint32_t room = 16 * (r->end - r->next) + 12;
	uint32_t kept = bytes < room ? bytes : room;

	if (bytes > room)
		wqeDefect(w, "ds %u has room for %u inline bytes, not for %u", w->segments, room,
			  bytes);
	if (w->kind == wqeKindRead || w->kind == wqeKindLocal || w->kind == wqeKindAtomic)
		wqeDefect(w, "inline bytes in place of local memory");
	if (w->inlinedBytes + kept > sizeof(w->inlined))
		return;
	memcpy(w->inlined + w->inlinedBytes, at + 4, kept);
	w->inlinedBytes += kept;
	r->next += (4 + kept + 15) / 16 - 1;
}

static void readLocal(struct reader *r, struct decodedWqe *w)
{
	const uint8_t *at = segment(r, w, "local memory");
	struct wqeMemory *local = &w->local[w->locals];

	if (!at)
		return;
	if (wordGet(at, 0) >> 31) {
		readInline(r, w, at);
		return;
	}
	if (w->locals == WQE_LOCALS_MOST)
		return;
	*local = (struct wqeMemory){pairGet(at + 8), wordGet(at, 1), wordGet(at, 0)};
	w->locals++;
	if (local->bytes == 0)
		wqeDefect(w, "a length of 0, which means 2 GiB");
}

/* All remaining segments. Without any, the message has no bytes. */
static void readLocals(struct reader *r, struct decodedWqe *w)
{
	uint64_t bytes = w->inlinedBytes;

	while (r->next < r->end)
		readLocal(r, w);
	for (uint32_t i = 0; i < w->locals; i++)
		bytes += w->local[i].bytes;
	if (bytes > GIN_MLX5_MESSAGE_BYTES)
		wqeDefect(w, "it moves %llu bytes, more than 1 GiB", (unsigned long long)bytes);
}

static bool isMasked(const struct decodedWqe *w)
{
	return w->opcode == ginMlx5OpMaskedCompareSwap || w->opcode == ginMlx5OpMaskedFetchAdd;
}

static void readOperands4(const uint8_t *at, struct wqeOperands *o)
{
	o->swapOrAdd = wordGet(at, 0);
	o->compare = wordGet(at, 1);
	o->swapMask = wordGet(at, 2);
	o->compareMask = wordGet(at, 3);
}

static void readOperands(struct reader *r, struct decodedWqe *w)
{
	const uint8_t *at = segment(r, w, "the atomic's operands");

	w->width = isMasked(w) && w->opMod == ginMlx5Atomic4 ? 4 : 8;
	if (!at)
		return;
	if (w->width == 4) {
		readOperands4(at, &w->operands);
		return;
	}
	w->operands.swapOrAdd = pairGet(at);
	w->operands.compare = pairGet(at + 8);
	if (w->opcode != ginMlx5OpMaskedCompareSwap)
		return;
	at = segment(r, w, "the masks");
	if (!at)
		return;
	w->operands.swapMask = pairGet(at);
	w->operands.compareMask = pairGet(at + 8);
}

static void checkAtomic(struct decodedWqe *w)
{
	if (isMasked(w) && w->opMod != ginMlx5Atomic4 && w->opMod != ginMlx5Atomic8)
		wqeDefect(w, "op_mod is 0x%02x, of a masked atomic 0x08 or 0x09", w->opMod);
	if (w->remote.address % w->width)
		wqeDefect(w, "remote address 0x%llx is not aligned to %u bytes",
			  (unsigned long long)w->remote.address, w->width);
	if (w->locals && w->local[0].bytes && w->local[0].bytes != w->width)
		wqeDefect(w, "%u bytes for the old value of %u", w->local[0].bytes, w->width);
}

static void readWait(struct reader *r, struct decodedWqe *w)
{
	const uint8_t *at = segment(r, w, "what it waits for");

	if (!at)
		return;
	w->waitIndex = wordGet(at, 2);
	w->waitQueue = wordGet(at, 3) & 0xffffff;
}

static void readSegments(struct reader *r, struct decodedWqe *w)
{
	if (w->kind == wqeKindWrite || w->kind == wqeKindRead || w->kind == wqeKindAtomic)
		readRemote(r, w);
	if (w->kind == wqeKindAtomic)
		readOperands(r, w);
	if (w->kind == wqeKindAtomic || w->kind == wqeKindLocal)
		readLocal(r, w);
	if (w->kind == wqeKindWrite || w->kind == wqeKindRead || w->kind == wqeKindSend)
		readLocals(r, w);
	if (w->kind == wqeKindWait)
		readWait(r, w);
}

static void checkSegments(const struct reader *r, struct decodedWqe *w)
{
	if (w->kind == wqeKindUnknown || w->kind == wqeKindOpaque)
		return;
	if (w->kind == wqeKindAtomic)
		checkAtomic(w);
	if (w->opMod && !isMasked(w))
		wqeDefect(w, "op_mod is 0x%02x, of %s 0", w->opMod, wqeOpcodeName(w->opcode));
	if (r->next < r->end)
		wqeDefect(w, "ds is %u, %s has %u", w->segments, wqeOpcodeName(w->opcode), r->next);
}

/* Copies the WQE, which may wrap around the end of the queue, into `out`. */
static void gather(const uint8_t *queue, uint32_t wqebbs, uint32_t slot, uint32_t count,
		   uint8_t *out)
{
	for (uint32_t i = 0; i < count; i++)
		memcpy(out + GIN_MLX5_WQEBB_BYTES * i,
		       queue + (size_t)((slot + i) % wqebbs) * GIN_MLX5_WQEBB_BYTES,
		       GIN_MLX5_WQEBB_BYTES);
}

void wqeDecode(const void *queue, uint32_t wqebbs, uint32_t slot, struct decodedWqe *w)
{
	uint8_t bytes[GIN_MLX5_WQEBB_BYTES * 16];
	struct reader r = {bytes, 1, 0};

	memset(w, 0, sizeof(*w));
	gather(queue, wqebbs, slot, 1, bytes);
	readControl(w, bytes);
	checkControl(w, bytes);
	if (w->wqebbs > wqebbs) {
		wqeDefect(w, "it takes %u WQEBBs, and there are %u", w->wqebbs, wqebbs);
		w->wqebbs = wqebbs;
	}
	gather(queue, wqebbs, slot, w->wqebbs, bytes);
	r.end = w->segments < 4 * w->wqebbs ? w->segments : 4 * w->wqebbs;
	if (w->segments > 0 && w->segments <= WQE_SEGMENTS_MOST) {
		readSegments(&r, w);
		checkSegments(&r, w);
	}
	w->read = r.next;
}
