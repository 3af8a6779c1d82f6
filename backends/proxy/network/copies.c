/* SPDX-License-Identifier: BSD-3-Clause */
/* copies.c - copies between a lane's slots and windows, which the network does not reach */
#include "copies.h"

#include <string.h>

#include "backends/proxy/cpu_copy.h"
#include "fabric.h"
#include "lib/base/log.h"

#define LINE 8 /* words of a cache line */

/* A ticket: the number of the copy in its stream or by the CPU, and which of them makes it. */
enum { byStream = 0, byCpu = 2, BY_BITS = 2 };

static copyTicket ticketOf(uint64_t number, unsigned by)
{
	return number << BY_BITS | by;
}

static ginResult_t openStreams(struct copies *c)
{
	void *lines = NULL;
	ginResult_t result =
		pinnedAlloc(c->device, 2 * LINE * sizeof(uint64_t), c->device->numaNode, &lines);
	cuResult made = 0;

	if (result != ginSuccess)
		return result;
	c->lines = lines;
	for (int d = 0; d < 2 && !made; d++) {
		c->stream[d].done = c->lines + d * LINE;
		made = c->device->cuda->streamCreate(&c->stream[d].stream, cuNonBlocking);
	}
	return made ? cudaFail(c->device->cuda, "cuStreamCreate", made) : ginSuccess;
}

ginResult_t copiesOpen(const struct device *device, const struct proxySlots *slots,
		       struct copies *c)
{
	c->device = device;
	c->slots = slots;
	return device->cuda ? openStreams(c) : ginSuccess;
}

void copiesWait(const struct copies *c)
{
	for (int d = 0; d < 2; d++)
		if (c->stream[d].stream)
			c->device->cuda->streamSynchronize(c->stream[d].stream);
}

void copiesClose(struct copies *c)
{
	copiesWait(c);
	for (int d = 0; d < 2; d++)
		if (c->stream[d].stream)
			c->device->cuda->streamDestroy(c->stream[d].stream);
	if (c->lines)
		pinnedFree(c->device, c->lines);
}

static int refused(const struct copies *c, const char *call, cuResult result)
{
	const char *words = "unknown error";

	c->device->cuda->getErrorString(result, &words);
	logWrite(logError, "a thread of the proxy: %s: %s", call, words);
	return fabricFailed;
}

static int startByCpu(struct copies *c, const struct copyOrder *order, copyTicket *ticket)
{
	if (c->ordered - c->made == COPY_ORDERS)
		return fabricBusy;
	c->order[c->ordered++ % COPY_ORDERS] = *order;
	*ticket = ticketOf(c->ordered, byCpu);
	return fabricOk;
}

static copyTicket nextInStream(struct copies *c, enum copyDirection direction)
{
	return ticketOf(++c->stream[direction].sent, byStream + direction);
}

int copiesStart(struct copies *c, const struct copyOrder *order, copyTicket *ticket)
{
	const struct copyStream *s = &c->stream[order->direction];

	if (order->byCpu)
		return startByCpu(c, order, ticket);
	cuResult result =
		c->device->cuda->copy((cuPtr)(uintptr_t)order->to, (cuPtr)(uintptr_t)order->from,
				      order->bytes, s->stream);
	if (result)
		return refused(c, "cuMemcpyAsync", result);
	*ticket = nextInStream(c, order->direction);
	return fabricOk;
}

/* The driver reads `from`, which is not pinned, before it returns. */
static cuResult sendValue(const struct copies *c, const struct copyOrder *order)
{
	const struct cuda *cuda = c->device->cuda;
	cuStream stream = c->stream[copyIn].stream;
	cuPtr to = (cuPtr)(uintptr_t)order->to;
	uint64_t word = 0;

	if (order->bytes != 8 && order->bytes != 4)
		return cuda->copyToDevice(to, order->from, order->bytes, stream);
	if (to % order->bytes)
		return cuda->copyToDevice(to, order->from, order->bytes, stream);
	memcpy(&word, order->from, order->bytes);
	return order->bytes == 8 ? cuda->streamWrite64(stream, to, word, 0)
				 : cuda->streamWrite32(stream, to, (uint32_t)word, 0);
}

int copiesStartValue(struct copies *c, const struct copyOrder *order, copyTicket *ticket)
{
	if (order->byCpu) {
		copyByCpu(order->to, order->from, order->bytes);
		*ticket = 0;
		return fabricOk;
	}
	cuResult result = sendValue(c, order);
	if (result)
		return refused(c, "a value", result);
	*ticket = nextInStream(c, copyIn);
	return fabricOk;
}

int copiesIsMade(const struct copies *c, copyTicket ticket)
{
	unsigned by = ticket & ((1u << BY_BITS) - 1);

	if (!ticket)
		return 1;
	if (by == byCpu)
		return c->made >= ticket >> BY_BITS;
	/* Acquire: the stream's write to `done` follows its copies, which are visible here. */
	return __atomic_load_n(c->stream[by].done, __ATOMIC_ACQUIRE) >= ticket >> BY_BITS;
}

/*
 * Is the window still registered? The caller holds the worker's lock: ginWindowDeregister() frees
 * the slot, and then waits for the lock before the memory may be freed.
 */
static int isRegistered(const struct copies *c, const struct copyOrder *order)
{
	return !order->window || slotsFind(c->slots, order->slot) == order->window;
}

void copiesRun(struct copies *c)
{
	for (; c->made != c->ordered; c->made++) {
		const struct copyOrder *order = &c->order[c->made % COPY_ORDERS];
		if (isRegistered(c, order))
			copyByCpu(order->to, order->from, order->bytes);
	}
}

static int chainStream(const struct copies *c, struct copyStream *s)
{
	if (s->chained == s->sent)
		return fabricOk;
	cuResult result =
		c->device->cuda->streamWrite64(s->stream, (cuPtr)(uintptr_t)s->done, s->sent, 0);
	s->chained = s->sent;
	return result ? refused(c, "cuStreamWriteValue64", result) : fabricOk;
}

int copiesChain(struct copies *c)
{
	int out = chainStream(c, &c->stream[copyOut]);
	int in = chainStream(c, &c->stream[copyIn]);

	return out == fabricOk ? in : out;
}
