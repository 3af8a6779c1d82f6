/* SPDX-License-Identifier: BSD-3-Clause */
#include "completion.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "mlx5/dev/device/adversary.h"
#include "mlx5/dev/device/event.h"
#include "mlx5/dev/device/late.h"
#include "mlx5/dev/host/memory.h"
#include "mlx5/dev/host/options.h"
#include "mlx5/dev/host/violation.h"

enum { HOLD_NS = 200000 };

/* Byte offsets within an entry. */
enum {
	CQE_USER_INDEX = 32,
	CQE_IMMEDIATE = 36,
	CQE_BYTE_COUNT = 44,
	CQE_TIMESTAMP = 48,
	CQE_ERROR = 52, /* the word that has the syndromes */
	CQE_VENDOR_SYNDROME = 54,
	CQE_SYNDROME = 55,
	CQE_OPCODE_QPN = 56,
	CQE_COUNTER = 60,
	CQE_OP_OWN = 63,
};

static struct completion *held, **heldEnd = &held;

static void put(uint8_t *entry, uint32_t offset, uint32_t value)
{
	value = htobe32(value);
	memcpy(entry + offset, &value, sizeof(value));
}

static bool isError(const struct completion *completion)
{
	return completion->opcode == CQE_REQUEST_ERROR || completion->opcode == CQE_RESPONSE_ERROR;
}

static void fill(uint8_t *entry, const struct completion *completion)
{
	uint64_t now = deviceClock();

	memset(entry, 0, CQE_BYTES);
	put(entry, CQE_USER_INDEX, completion->qp->userIndex);
	memcpy(entry + CQE_IMMEDIATE, &completion->immediate, 4);
	put(entry, CQE_BYTE_COUNT, completion->bytes);
	put(entry, CQE_TIMESTAMP, (uint32_t)(now >> 32));
	put(entry, CQE_TIMESTAMP + 4, (uint32_t)now);
	if (isError(completion)) {
		put(entry, CQE_TIMESTAMP + 4, 0);
		entry[CQE_VENDOR_SYNDROME] = 0x88;
		entry[CQE_SYNDROME] = completion->syndrome;
	}
	put(entry, CQE_OPCODE_QPN,
	    (uint32_t)completion->wqeOpcode << 24 | completion->qp->object.id);
	entry[CQE_COUNTER] = (uint8_t)(completion->counter >> 8);
	entry[CQE_COUNTER + 1] = (uint8_t)completion->counter;
}

static void expectRoom(const struct cq *cq, const struct completion *completion)
{
	uint32_t consumed;

	if (cq->ignoreOverrun)
		return;
	consumed = memoryRecord(cq->dbr) & 0xffffff;
	if (((cq->producer - consumed) & 0xffffff) >= cq->cqes)
		violation(completion->qp, completion->counter, NULL, 0,
			  "its completion overruns CQ 0x%x of %u: the program has seen %u of %u",
			  cq->object.id, cq->cqes, consumed, cq->producer);
}

/*
 * The owner bit comes last, with the word it is in, which programs may load at once. So is the word
 * that has the syndromes: programs look at it while the next error overwrites it.
 */
static void writeEntry(struct cq *cq, uint8_t *entry, const struct completion *completion)
{
	uint32_t at = cq->collapsed ? 0 : cq->producer & (cq->cqes - 1);
	uint8_t owner = !cq->collapsed && cq->producer & cq->cqes;
	uint64_t to = cq->buffer + (uint64_t)at * CQE_BYTES;

	entry[CQE_OP_OWN] = (uint8_t)(completion->opcode << 4 | owner);
	if (isError(completion)) {
		memoryWrite(to, entry, CQE_ERROR);
		memoryWrite(to + CQE_ERROR, entry + CQE_ERROR, CQE_OPCODE_QPN - CQE_ERROR);
		memoryWrite(to + CQE_OPCODE_QPN, entry + CQE_OPCODE_QPN, 4);
	} else {
		memoryWrite(to, entry, CQE_COUNTER);
	}
	memoryPublishes(to + CQE_OP_OWN);
	memoryPublishes(to + CQE_COUNTER);
	memoryWrite(to + CQE_COUNTER, entry + CQE_COUNTER, CQE_BYTES - CQE_COUNTER);
	cq->producer++;
}

static void writeNow(struct cq *cq, const struct completion *completion)
{
	uint8_t entry[CQE_BYTES];

	expectRoom(cq, completion);
	fill(entry, completion);
	/*
	 * To the entry of a receive, which is a write in order, PCIe brings all writes before it.
	 */
	if (!completion->requester)
		lateFlushHostAll(completion->qp->object.device);
	else if (!options.weakCqe)
		lateFlush(completion->qp);
	/* Before the entry is there: the program may post as soon as it is. */
	if (completion->requester)
		completion->qp->freed = completion->freed;
	writeEntry(cq, entry, completion);
	trace("CQ 0x%x: QP 0x%x, index %u, opcode %u, syndrome 0x%02x", cq->object.id,
	      completion->qp->object.id, completion->counter, completion->opcode,
	      completion->syndrome);
	if (cq->armed) {
		cq->armed = false;
		eventCompletion(cq);
	}
}

static struct cq *cqOf(const struct completion *completion)
{
	return completion->requester ? completion->qp->sendCq : completion->qp->receiveCq;
}

static bool isHeld(const struct qp *qp, const struct completion *end)
{
	for (const struct completion *c = held; c != end; c = c->next)
		if (c->qp == qp)
			return true;
	return false;
}

static void hold(const struct completion *completion)
{
	struct completion *copy = malloc(sizeof(*copy));

	if (!copy)
		noMemory("a completion");
	*copy = *completion;
	copy->next = NULL;
	copy->due = deviceClock() + adversaryNumber(HOLD_NS);
	*heldEnd = copy;
	heldEnd = &copy->next;
}

void completionAdd(struct cq *cq, const struct completion *completion)
{
	if (isHeld(completion->qp, NULL) || adversaryOnce(2))
		hold(completion);
	else
		writeNow(cq, completion);
}

static struct completion **drop(struct completion **at)
{
	struct completion *gone = *at;

	*at = gone->next;
	if (heldEnd == &gone->next)
		heldEnd = at;
	free(gone);
	return at;
}

void completionsForget(struct qp *qp)
{
	struct completion **at = &held;

	while (*at)
		at = (*at)->qp == qp ? drop(at) : &(*at)->next;
}

uint64_t completionsDue(uint64_t now)
{
	struct completion **at = &held;
	uint64_t next = 0;

	while (*at) {
		struct completion *completion = *at;

		if (completion->due <= now && !isHeld(completion->qp, completion)) {
			writeNow(cqOf(completion), completion);
			at = drop(at);
			continue;
		}
		if (!next || completion->due < next)
			next = completion->due;
		at = &completion->next;
	}
	return next;
}

void completionArm(struct cq *cq)
{
	uint32_t consumed = memoryRecord(cq->dbr) & 0xffffff;

	cq->request = memoryRecord(cq->dbr + 4);
	/* CQEs that came since the program's last poll make an event at once. */
	cq->armed = (cq->producer & 0xffffff) == consumed;
	if (!cq->armed)
		eventCompletion(cq);
}

bool completionAsks(const struct cq *cq)
{
	return cq->request != memoryRecord(cq->dbr + 4);
}
