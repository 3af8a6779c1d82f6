/* SPDX-License-Identifier: BSD-3-Clause */
/* message.c - what the proxies of two ranks tell each other: the sender's end */
#include "message.h"

#include "backends/proxy/window.h"

_Static_assert(sizeof(struct message) == 40, "every process has this layout");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "messages are little-endian");
_Static_assert((MESSAGES & (MESSAGES - 1)) == 0, "numbers wrap around");

/* A signal or a barrier changes 8 bytes, whatever the work moves. */
static uint8_t wordBytes(const struct proxyWork *w)
{
	return w->op >= ginOpFetchAdd ? (uint8_t)w->bytes : 8;
}

struct message messageOf(const struct messageChannel *c, uint32_t rank,
			 const struct proxyWork *work)
{
	const struct proxyPart *part = &work->word.window->part[work->peer];

	return (struct message){
		.kind = messageWord,
		.op = work->op,
		.bytes = wordBytes(work),
		.wantsAnswer = work->oldValue != NULL,
		.rank = rank,
		.number = c->next,
		.cursor = c->expected,
		.named = (uint64_t)part->slot << GIN_DESCRIPTOR_OFFSET_BITS | work->word.offset,
		.operand = workOperand(work),
		.compare = work->value[1],
	};
}

void messageSent(struct messageChannel *c, struct proxyWork *work)
{
	c->out[c->next % MESSAGES] =
		(struct messageOut){.work = work, .wantsAnswer = work->oldValue != NULL};
	c->next++;
}

void messageFree(struct messageChannel *c)
{
	while (c->low != c->acknowledged &&
	       (!c->out[c->low % MESSAGES].wantsAnswer || c->out[c->low % MESSAGES].isAnswered))
		c->low++;
}
