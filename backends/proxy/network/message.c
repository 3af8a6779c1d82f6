/* SPDX-License-Identifier: BSD-3-Clause */
/* message.c - messages between the proxies of two ranks: the sender's side */
#include "message.h"

#include <string.h>

#include "backends/proxy/window.h"

_Static_assert(sizeof(struct message) == 72, "every process has this layout");
_Static_assert(offsetof(struct message, data) + MESSAGE_DATA == sizeof(struct message),
	       "a message whose length fits has no longer data");
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

	m->bytes = (uint8_t)w->bytes;
	m->target = spotNamed(&w->there, w->peer);
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
 * The bits of an immediate, from the top: the last bits of the number, the receiver's slot of the
 * word's window, and the offset of the word in units of 8 bytes.
 */
enum { NUMBER_BITS = 9, SLOT_BITS = 6, OFFSET_BITS = 17 };

_Static_assert(NUMBER_BITS + SLOT_BITS + OFFSET_BITS == 32, "they fill an immediate");
_Static_assert(MESSAGES < 1u << NUMBER_BITS, "these bits tell all numbers in flight apart");

int messageFitsImmediate(const struct proxyWork *w)
{
	return w->op < ginOpBarrier && w->addend == 1 && w->word.offset % 8 == 0 &&
	       !(w->word.offset / 8 >> OFFSET_BITS) &&
	       !(w->word.window->part[w->peer].slot >> SLOT_BITS);
}

uint32_t messageImmediate(const struct messageChannel *c, const struct proxyWork *w)
{
	return (c->next << SLOT_BITS | w->word.window->part[w->peer].slot) << OFFSET_BITS |
	       (uint32_t)(w->word.offset / 8);
}

/* The number closest to `expected` that has these last bits. */
static uint32_t wholeNumber(uint32_t expected, uint32_t last)
{
	uint32_t ahead = (last - expected) << (32 - NUMBER_BITS);

	return expected + (uint32_t)((int32_t)ahead >> (32 - NUMBER_BITS));
}

struct message messageOfImmediate(const struct messageChannel *c, uint32_t rank, uint32_t immediate)
{
	uint64_t slot = immediate >> OFFSET_BITS & ((1u << SLOT_BITS) - 1);
	uint64_t offset = (immediate & ((1u << OFFSET_BITS) - 1)) * 8;

	return (struct message){
		.kind = messageWord,
		.op = ginOpSignal,
		.bytes = 8,
		.rank = rank,
		.number = wholeNumber(c->expected, immediate >> (32 - NUMBER_BITS)),
		.cursor = c->acknowledged,
		.named = slot << GIN_DESCRIPTOR_OFFSET_BITS | offset,
		.operand = 1,
	};
}

void messageSent(struct messageChannel *c, const struct messageOut *out)
{
	c->out[c->next % MESSAGES] = *out;
	c->nextLap += !++c->next;
}

void messageFree(struct messageChannel *c)
{
	while (c->low != c->acknowledged &&
	       (!c->out[c->low % MESSAGES].wantsAnswer || c->out[c->low % MESSAGES].isAnswered))
		c->low++;
}
