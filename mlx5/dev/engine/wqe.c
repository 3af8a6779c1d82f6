/* SPDX-License-Identifier: BSD-3-Clause */
#include "wqe.h"

#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mlx5/dev/host/memory.h"
#include "mlx5/dev/host/violation.h"

/* Of extended atomics, in the control segment's upper byte. */
enum { MOD_ATOMIC_4 = 0x08, MOD_ATOMIC_8 = 0x09 };

static const uint32_t INLINED = 0x80000000;

static uint32_t word(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return be32toh(value);
}

static uint64_t doubleWord(const uint8_t *at)
{
	return (uint64_t)word(at) << 32 | word(at + 4);
}

static uint64_t slot(const struct qp *qp, uint32_t index)
{
	return qp->sq + (uint64_t)(index & (qp->wqebbs - 1)) * WQEBB;
}

static void wrong(const struct qp *qp, const struct wqe *wqe, const char *format, ...)
	__attribute__((noreturn, format(printf, 3, 4)));

static void wrong(const struct qp *qp, const struct wqe *wqe, const char *format, ...)
{
	char text[256];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	violation(qp, wqe->index, wqe->raw, wqe->wqebbs ? wqe->wqebbs * WQEBB : WQEBB, "%s", text);
}

static void expectControl(const struct qp *qp, uint32_t index, const uint8_t *raw, const char *who)
{
	uint32_t seen = word(raw) >> 8 & 0xffff;

	if (seen != (index & 0xffff))
		violation(qp, index, raw, WQEBB, "%s, but the control segment says index %u", who,
			  seen);
	if (word(raw + 4) >> 8 != qp->object.id)
		violation(qp, index, raw, WQEBB, "%s, but the control segment says QP 0x%x", who,
			  word(raw + 4) >> 8);
}

/* WQEBBs by the control segment; 1 at least. */
static uint32_t wqebbsOf(const uint8_t *raw)
{
	uint32_t segments = raw[7] & 0x3f;

	return segments ? (segments + 3) / 4 : 1;
}

void wqeExpect(const struct qp *qp, uint32_t first, uint32_t end, const char *who)
{
	uint8_t raw[WQEBB];

	while (first != end) {
		memoryRead(raw, slot(qp, first), sizeof(raw));
		expectControl(qp, first, raw, who);
		uint32_t wqebbs = wqebbsOf(raw);
		if (wqebbs > end - first)
			violation(qp, first, raw, WQEBB, "%s: it ends after index %u", who, end);
		first += wqebbs;
	}
}

void wqeExpectSegments(const struct qp *qp, uint32_t index, uint32_t segments)
{
	uint8_t raw[WQEBB];

	memoryRead(raw, slot(qp, index), sizeof(raw));
	if ((raw[7] & 0x3f) != segments)
		violation(qp, index, raw, WQEBB, "the doorbell says ds %u, the control segment %u",
			  segments, raw[7] & 0x3f);
}

/* The offset of the data segments, after the opcode's other segments. */
static uint32_t takeRemote(const struct qp *qp, struct wqe *wqe)
{
	const uint8_t *segment = wqe->raw + SEGMENT;

	if (wqe->segments < 2)
		wrong(qp, wqe, "opcode 0x%02x without remote address: ds is %u", wqe->opcode,
		      wqe->segments);
	wqe->address = doubleWord(segment);
	wqe->key = word(segment + 8);
	if (word(segment + 12))
		wrong(qp, wqe, "reserved bits of the remote address segment are set");
	return 2 * SEGMENT;
}

static void expectSegments(const struct qp *qp, const struct wqe *wqe, uint32_t expected)
{
	if (wqe->segments != expected)
		wrong(qp, wqe, "ds is %u; opcode 0x%02x has %u", wqe->segments, wqe->opcode,
		      expected);
}

static uint32_t takePlainAtomic(const struct qp *qp, struct wqe *wqe)
{
	const uint8_t *operands = wqe->raw + takeRemote(qp, wqe);

	expectSegments(qp, wqe, 4);
	wqe->operandBytes = 8;
	wqe->operands[0] = doubleWord(operands);
	wqe->operands[1] = doubleWord(operands + 8);
	return 3 * SEGMENT;
}

static uint32_t takeMaskedAtomic4(const struct qp *qp, struct wqe *wqe)
{
	const uint8_t *operands = wqe->raw + takeRemote(qp, wqe);

	expectSegments(qp, wqe, 4);
	for (int i = 0; i < 4; i++)
		wqe->operands[i] = word(operands + 4 * i);
	return 3 * SEGMENT;
}

static uint32_t takeMaskedAtomic8(const struct qp *qp, struct wqe *wqe)
{
	const uint8_t *operands = wqe->raw + takeRemote(qp, wqe);
	uint32_t count = wqe->opcode == WQE_MASKED_COMPARE_SWAP ? 4 : 2;

	expectSegments(qp, wqe, count == 4 ? 5 : 4);
	for (uint32_t i = 0; i < count; i++)
		wqe->operands[i] = doubleWord(operands + 8 * i);
	return (2 + count / 2) * SEGMENT;
}

static uint32_t takeMaskedAtomic(const struct qp *qp, struct wqe *wqe)
{
	uint8_t mod = wqe->raw[0];

	if (mod != MOD_ATOMIC_4 && mod != MOD_ATOMIC_8)
		wrong(qp, wqe,
		      "opmod 0x%02x of a masked atomic is neither 0x08 (4 bytes) nor 0x09 (8)",
		      mod);
	wqe->operandBytes = mod == MOD_ATOMIC_4 ? 4 : 8;
	return mod == MOD_ATOMIC_4 ? takeMaskedAtomic4(qp, wqe) : takeMaskedAtomic8(qp, wqe);
}

static uint32_t takeInlined(const struct qp *qp, struct wqe *wqe, uint32_t at)
{
	struct wqe_data *data = &wqe->data[wqe->dataCount++];
	uint32_t end = wqe->segments * SEGMENT;

	data->bytes = word(wqe->raw + at) & ~INLINED;
	data->inlined = wqe->raw + at + 4;
	if (data->bytes > end - at - 4)
		wrong(qp, wqe, "ds is %u, but %u bytes are inlined at byte %u", wqe->segments,
		      data->bytes, at);
	return at + ((4 + data->bytes + SEGMENT - 1) & ~(SEGMENT - 1u));
}

static uint32_t takePointer(const struct qp *qp, struct wqe *wqe, uint32_t at)
{
	struct wqe_data *data = &wqe->data[wqe->dataCount++];

	data->bytes = word(wqe->raw + at);
	if (!data->bytes)
		wrong(qp, wqe, "a byte count of 0 means 2 GiB: no data is no data segment");
	data->key = word(wqe->raw + at + 4);
	data->address = doubleWord(wqe->raw + at + 8);
	data->inlined = NULL;
	return at + SEGMENT;
}

static void takeData(const struct qp *qp, struct wqe *wqe, uint32_t at)
{
	while (at < wqe->segments * SEGMENT) {
		if (wqe->dataCount == SINKS)
			wrong(qp, wqe, "more than %d data segments", SINKS);
		at = word(wqe->raw + at) & INLINED ? takeInlined(qp, wqe, at)
						   : takePointer(qp, wqe, at);
		wqe->bytes += wqe->data[wqe->dataCount - 1].bytes;
	}
}

static void expectResult(const struct qp *qp, const struct wqe *wqe)
{
	const struct wqe_data *result = &wqe->data[0];

	if (wqe->dataCount != 1 || result->inlined || wqe->bytes != wqe->operandBytes)
		wrong(qp, wqe, "an atomic of %u bytes with a result of %u", wqe->operandBytes,
		      wqe->bytes);
	if (result->address % wqe->operandBytes)
		wrong(qp, wqe, "the result's address 0x%llx is unaligned",
		      (unsigned long long)result->address);
}

static void takeByOpcode(const struct qp *qp, struct wqe *wqe)
{
	/* libmlx5 writes no remote address for it; execute() refuses it. */
	if (qp->isUnreliable && wqeResponds(wqe->opcode))
		return;
	switch (wqe->opcode) {
	case WQE_NOP:
		expectSegments(qp, wqe, 1);
		return;
	case WQE_WAIT: /* ends with an error: no queue pair here is a master */
		expectSegments(qp, wqe, 2);
		return;
	case WQE_DUMP:
		expectSegments(qp, wqe, 2);
		takeData(qp, wqe, SEGMENT);
		return;
	case WQE_SEND:
	case WQE_SEND_IMM:
		takeData(qp, wqe, SEGMENT);
		return;
	case WQE_WRITE:
	case WQE_WRITE_IMM:
	case WQE_READ:
		takeData(qp, wqe, takeRemote(qp, wqe));
		return;
	case WQE_COMPARE_SWAP:
	case WQE_FETCH_ADD:
		takeData(qp, wqe, takePlainAtomic(qp, wqe));
		expectResult(qp, wqe);
		return;
	case WQE_MASKED_COMPARE_SWAP:
	case WQE_MASKED_FETCH_ADD:
		takeData(qp, wqe, takeMaskedAtomic(qp, wqe));
		expectResult(qp, wqe);
		return;
	default:
		wrong(qp, wqe, "opcode 0x%02x is not known", wqe->opcode);
	}
}

static void takeControl(const struct qp *qp, struct wqe *wqe)
{
	uint8_t flags = wqe->raw[11];

	expectControl(qp, wqe->index, wqe->raw, "a doorbell rang for it");
	wqe->opcode = wqe->raw[3];
	wqe->fence = flags >> 5;
	wqe->signaled = (flags >> 2 & 3) == 2;
	memcpy(&wqe->immediate, wqe->raw + 12, 4);
	if (wqe->raw[7] & 0xc0 || wqe->raw[9] || wqe->raw[10] || flags & 0x11)
		wrong(qp, wqe, "reserved bits of the control segment are set");
	if (wqe->raw[0] && !wqeIsMasked(wqe->opcode))
		wrong(qp, wqe, "opmod 0x%02x with opcode 0x%02x", wqe->raw[0], wqe->opcode);
	if (wqe->fence > FENCE_READS_SMALL)
		wrong(qp, wqe, "fence mode %u is not known", wqe->fence);
	if ((flags >> 2 & 3) == 3)
		wrong(qp, wqe, "completion mode 3 is not known");
}

void wqeFetch(const struct qp *qp, uint32_t index, uint32_t end, struct wqe *wqe)
{
	*wqe = (struct wqe){.index = index};
	memoryRead(wqe->raw, slot(qp, index), WQEBB);
	wqe->segments = wqe->raw[7] & 0x3f;
	wqe->wqebbs = (wqe->segments + 3) / 4;
	takeControl(qp, wqe);
	if (!wqe->segments)
		wrong(qp, wqe, "ds is 0");
	if (wqe->wqebbs > end - index)
		violation(qp, index, wqe->raw, WQEBB,
			  "ds is %u, which needs %u WQEBBs, but the doorbell says %u",
			  wqe->segments, wqe->wqebbs, end - index);
	for (uint32_t i = 1; i < wqe->wqebbs; i++)
		memoryRead(wqe->raw + (size_t)i * WQEBB, slot(qp, index + i), WQEBB);
	takeByOpcode(qp, wqe);
}
