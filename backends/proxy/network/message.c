/* SPDX-License-Identifier: BSD-3-Clause */
/* message.c - messages between the proxies of two ranks: the sender's end */
#include "message.h"

#include <string.h>

#include "backends/proxy/window.h"

_Static_assert(sizeof(struct message) == 88, "every process has this layout");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "messages are little-endian");
_Static_assert((MESSAGES & (MESSAGES - 1)) == 0, "numbers wrap around");

/* A signal or a barrier changes 8 bytes, whatever the work moves. */
static uint8_t wordBytes(const struct proxyWork *w)
{
	return w->op >= ginOpFetchAdd ? (uint8_t)w->bytes : 8;
}

struct message messageNext(const struct messageChannel *c, uint32_t rank, enum messageKind kind)
{
	return (struct message){
		.kind = (uint8_t)kind, .rank = rank, .number = c->next, .cursor = c->expected};
}

static void addData(struct message *m, const struct proxyWork *w)
{
	const void *from = w->op == ginOpPutValue ? (const char *)w->value : w->here.at;

	m->target = spotNamed(&w->there, w->peer);
	m->dataBytes = w->bytes;
	memcpy(m->data, from, w->bytes);
}

struct message messageOf(const struct messageChannel *c, uint32_t rank,
			 const struct proxyWork *work, int withData)
{
	struct message m = messageNext(c, rank, withData ? messagePut : messageWord);

	m.op = work->op;
	m.bytes = wordBytes(work);
	m.wantsAnswer = work->oldValue != NULL;
	m.named = spotNamed(&work->word, work->peer);
	m.operand = workOperand(work);
	m.compare = work->value[1];
	if (withData)
		addData(&m, work);
	return m;
}

/*
 * The bits of an immediate, from the top: the last bits of the number and of the cursor, the rank,
 * the receiver's slot of the word's window, and the offset of the word in units of 8 bytes.
 */
struct immediateForm {
	uint32_t number, cursor, rank, slot, offset;
};

static struct immediateForm formOf(uint32_t bits)
{
	if (bits == 64)
		return (struct immediateForm){10, 10, 16, 11, 17};
	return (struct immediateForm){1, 8, 0, 6, 17};
}

static int fitsBits(uint64_t number, uint32_t bits)
{
	return !(number >> bits);
}

static uint32_t lastBits(uint64_t number, uint32_t bits)
{
	return (uint32_t)number & ((1u << bits) - 1);
}

int messageFitsImmediate(const struct proxyWork *w, uint32_t rank, uint32_t bits)
{
	const struct immediateForm form = formOf(bits);

	return w->op < ginOpBarrier && w->addend == 1 && w->word.offset % 8 == 0 &&
	       (!form.rank || fitsBits(rank, form.rank)) &&
	       fitsBits(w->word.offset / 8, form.offset) &&
	       fitsBits(w->word.window->part[w->peer].slot, form.slot);
}

_Static_assert(MESSAGES <= 1u << 8, "the last 8 bits tell almost all cursors of a window apart");

/* The last 8 bits do not tell a whole window of messages from none. */
uint32_t messageImmediateCursor(const struct messageChannel *c)
{
	return c->expected - c->cursorSent < MESSAGES ? c->expected : c->cursorSent;
}

uint64_t messageImmediate(const struct messageChannel *c, uint32_t rank, const struct proxyWork *w,
			  uint32_t bits)
{
	const struct immediateForm form = formOf(bits);
	uint64_t out = lastBits(c->next, form.number);

	out = out << form.cursor | lastBits(messageImmediateCursor(c), form.cursor);
	out = out << form.rank | (form.rank ? rank : 0);
	out = out << form.slot | w->word.window->part[w->peer].slot;
	return out << form.offset | w->word.offset / 8;
}

uint32_t messageImmediateRank(uint64_t immediate)
{
	const struct immediateForm form = formOf(64);

	return lastBits(immediate >> (form.offset + form.slot), form.rank);
}

int messageIsNext(const struct messageChannel *c, uint64_t immediate, uint32_t bits)
{
	return bits == 64 || lastBits(c->come, 1) == (immediate >> 31 & 1);
}

/* The number that is next to `near` and has these last bits. */
static uint32_t wholeNumber(uint32_t near, uint32_t last, uint32_t bits)
{
	uint32_t ahead = (last - near) << (32 - bits);

	return near + (uint32_t)((int32_t)ahead >> (32 - bits));
}

/* Of 32 bits: nothing overtakes it. */
static uint32_t wholeCursor(uint32_t acknowledged, uint32_t last, uint32_t bits)
{
	if (bits == 8)
		return acknowledged + lastBits(last - acknowledged, bits);
	return wholeNumber(acknowledged, last, bits);
}

struct message messageOfImmediate(const struct messageChannel *c, uint32_t rank, uint64_t immediate,
				  uint32_t bits)
{
	const struct immediateForm form = formOf(bits);
	uint64_t slot = lastBits(immediate >> form.offset, form.slot);
	uint64_t offset = lastBits(immediate, form.offset) * 8ull;
	uint32_t number = (uint32_t)(immediate >> (bits - form.number));
	uint32_t cursor = (uint32_t)(immediate >> (bits - form.number - form.cursor));

	return (struct message){
		.kind = messageWord,
		.op = ginOpSignal,
		.bytes = 8,
		.rank = rank,
		.number = wholeNumber(c->come, number, form.number),
		.cursor = wholeCursor(c->acknowledged, cursor, form.cursor),
		.named = slot << GIN_DESCRIPTOR_OFFSET_BITS | offset,
		.operand = 1,
	};
}

void messageSent(struct messageChannel *c, const struct messageOut *out)
{
	c->out[c->next % MESSAGES] = *out;
	c->next++;
}

void messageFree(struct messageChannel *c)
{
	while (c->low != c->acknowledged &&
	       (!c->out[c->low % MESSAGES].wantsAnswer || c->out[c->low % MESSAGES].isAnswered))
		c->low++;
}
