/* SPDX-License-Identifier: BSD-3-Clause */
/* cqe.c - decodes, checks and describes completion queue entries */
#include "cqe.h"

#include "prm.h"
#include "text.h"
#include "words.h"

#include <gin/core/mlx5.h>

void cqeDefect(struct decodedCqe *c, const char *format, ...)
{
	struct text text = {c->defects, sizeof(c->defects), strlen(c->defects)};
	char sentence[120];
	va_list args;

	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	textAdd(&text, "%s%s", text.used ? "; " : "", sentence);
}

bool cqeIsError(const struct decodedCqe *c)
{
	return c->opcode == ginMlx5CqeRequestError || c->opcode == ginMlx5CqeResponseError;
}

bool cqeIsBlank(const struct decodedCqe *c)
{
	return c->opcode == ginMlx5CqeInvalid;
}

/* Is it of a send queue's WQE, completed or failed? */
static bool hasWqe(const struct decodedCqe *c)
{
	return c->opcode == ginMlx5CqeRequest || c->opcode == ginMlx5CqeRequestError;
}

static bool hasImmediate(const struct decodedCqe *c)
{
	return c->opcode == ginMlx5CqeReceivedImmediate ||
	       c->opcode == ginMlx5CqeReceivedSendImmediate;
}

static void check(struct decodedCqe *c)
{
	if (!cqeOpcodeName(c->opcode))
		cqeDefect(c, "there is no CQE opcode %u", c->opcode);
	if (hasWqe(c) && !wqeOpcodeName(c->wqeOpcode))
		cqeDefect(c, "its WQE has opcode 0x%02x, which does not exist", c->wqeOpcode);
	if (cqeIsError(c) && !syndromeText(c->syndrome))
		cqeDefect(c, "there is no syndrome 0x%02x", c->syndrome);
	if (cqeIsError(c) && c->format)
		cqeDefect(c, "format is %u, must be 0 for an error", c->format);
}

void cqeDecode(const void *bytes, struct decodedCqe *c)
{
	struct ginMlx5Cqe raw;

	memcpy(&raw, bytes, sizeof(raw));
	*c = (struct decodedCqe){
		.opcode = (uint8_t)ginMlx5CqeOpcode(raw.state),
		.format = (uint8_t)ginMlx5CqeFormat(raw.state),
		.owner = (uint8_t)ginMlx5CqeOwner(raw.state),
		.signature = (uint8_t)(raw.state >> 16),
		.wqeOpcode = (uint8_t)ginMlx5CqeWqeOpcode(raw.opcodeQueue),
		.counter = (uint16_t)ginMlx5CqeCounter(raw.state),
		.queue = ginMlx5CqeQueueNumber(raw.opcodeQueue),
		.userIndex = be32toh(raw.userIndex) & 0xffffff,
		.bytes = be32toh(raw.byteCount),
		.immediate = be32toh(raw.immediate),
		.timestamp = (uint64_t)be32toh(raw.timestampHigh) << 32 | be32toh(raw.timestampLow),
	};
	if (cqeIsError(c)) {
		c->syndrome = (uint8_t)ginMlx5CqeSyndrome(raw.timestampLow);
		c->vendorSyndrome = (uint8_t)ginMlx5CqeVendorSyndrome(raw.timestampLow);
		c->hardwareSyndrome = (uint8_t)ginMlx5CqeHardwareSyndrome(raw.timestampLow);
	}
	check(c);
}

static void errorText(const struct decodedCqe *c, const char *between, struct text *t)
{
	const char *why = syndromeText(c->syndrome);

	textAdd(t, " failed, index 0x%x%ssyndrome 0x%02x, vendor's 0x%02x", c->counter, between,
		c->syndrome, c->vendorSyndrome);
	if (c->hardwareSyndrome)
		textAdd(t, ", hardware's 0x%02x", c->hardwareSyndrome);
	if (why)
		textAdd(t, ", %s", why);
}

static void doneText(const struct decodedCqe *c, struct text *t)
{
	static const char *const formats[] = {"", ", data in the CQE", ", data in the CQE",
					      ", compressed"};

	textAdd(t, " done, index 0x%x", c->counter);
	if (c->bytes)
		textAdd(t, ", %u bytes", c->bytes);
	if (hasImmediate(c))
		textAdd(t, ", immediate 0x%08x", c->immediate);
	textAdd(t, "%s", formats[c->format]);
}

size_t cqeText(const struct decodedCqe *c, const char *between, char *out, size_t room)
{
	const char *name = cqeOpcodeName(c->opcode), *of = wqeOpcodeName(c->wqeOpcode);
	struct text t = {out, room, 0};

	if (cqeIsBlank(c)) {
		textAdd(&t, "INVALID: not written");
		return t.used;
	}
	if (name)
		textAdd(&t, "%s: ", name);
	else
		textAdd(&t, "opcode %u: ", c->opcode);
	textAdd(&t, "%s of queue 0x%x", !hasWqe(c) ? "request" : of ? of : "WQE", c->queue);
	if (cqeIsError(c))
		errorText(c, between, &t);
	else
		doneText(c, &t);
	return t.used;
}
