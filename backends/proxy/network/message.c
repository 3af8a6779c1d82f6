/* SPDX-License-Identifier: BSD-3-Clause */
/* message.c - what the proxies of two ranks tell each other: the sender's end */
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
