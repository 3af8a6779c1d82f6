/* SPDX-License-Identifier: BSD-3-Clause */
#include "doorbell.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "completion.h"
#include "mlx5/dev/device/device.h"
#include "mlx5/dev/device/fault.h"
#include "mlx5/dev/host/options.h"
#include "requester.h"
#include "mlx5/dev/host/trap.h"
#include "mlx5/dev/host/violation.h"
#include "wqe.h"

enum { REGISTERS = DOORBELL_PAGE_BYTES / DOORBELL_REGISTER_BYTES };

static int pagesFd = -1;
static uint8_t *pages;
static bool used[DOORBELL_PAGES];
static int deviceOf[DOORBELL_PAGES];		    /* two devices may have one QPN */
static uint32_t most;				    /* pages that were ever used */
static uint32_t rungBy[DOORBELL_PAGES * REGISTERS]; /* QPNs, by polling */

void doorbellOpen(void)
{
	size_t bytes = (size_t)DOORBELL_PAGES * DOORBELL_PAGE_BYTES;

	pagesFd = memfd_create("mlx5dev", MFD_CLOEXEC);
	if (pagesFd >= 0 && !ftruncate(pagesFd, (off_t)bytes))
		pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, pagesFd, 0);
	if (!pages || pages == MAP_FAILED) {
		fprintf(stderr, "mlx5dev: doorbell pages: %s\n", strerror(errno));
		exit(2);
	}
	if (!options.polling)
		trapOpen();
}

uint8_t *doorbellMemory(void)
{
	return pages;
}

int doorbellPage(int device)
{
	for (uint32_t i = 0; i < DOORBELL_PAGES; i++) {
		if (used[i])
			continue;
		used[i] = true;
		deviceOf[i] = device;
		if (i >= most)
			most = i + 1;
		memset(pages + (size_t)i * DOORBELL_PAGE_BYTES, 0, DOORBELL_PAGE_BYTES);
		return (int)i;
	}
	return -1;
}

void doorbellPageFree(uint32_t page)
{
	used[page] = false;
}

void *doorbellMap(void *where, size_t bytes, int protection, int flags, uint32_t first)
{
	int granted = options.polling ? protection | PROT_READ : PROT_READ;
	void *at = mmap(where, bytes, granted, flags, pagesFd, (off_t)first * DOORBELL_PAGE_BYTES);

	if (at != MAP_FAILED && !options.polling)
		trapAdd(at, bytes, first);
	return at;
}

static struct qp *qpRung(uint32_t page, uint32_t qpn, uint32_t index)
{
	struct qp *qp = objectFind(&devices[deviceOf[page]], KIND_QP, qpn);

	if (!qp)
		violationAlone("a doorbell for QP 0x%x, which there is not, index %u", qpn, index);
	if (qp->object.destroyed)
		violation(qp, index, NULL, 0, "a doorbell rings after the QP was destroyed");
	if (qp->object.device->removed)
		return NULL;
	if (qp->state != QP_RTS && qp->state != QP_ERROR)
		violation(qp, index, NULL, 0, "a doorbell rings in state %d, which is not RTS",
			  qp->state);
	return qp;
}

static void expectOwnRegister(struct qp *qp, uint32_t page, uint32_t index)
{
	uint32_t id = DOORBELL_PAGE_ID + page;

	if (qp->uar && qp->uar->id != id)
		violation(qp, index, NULL, 0, "a doorbell rings on page 0x%x; the QP has 0x%x", id,
			  qp->uar->id);
}

static void expectNotShared(const struct qp *qp, uint32_t at, uint32_t index)
{
	struct qp *other = rungBy[at] ? objectFind(qp->object.device, KIND_QP, rungBy[at]) : NULL;

	rungBy[at] = qp->object.id;
	if (other && other != qp && !other->object.destroyed)
		violation(qp, index, NULL, 0,
			  "its doorbell register is QP 0x%x's, too, and this device polls: one of "
			  "two doorbells is not seen",
			  other->object.id);
}

/* By polling we do not see which of two registers was stored to first. */
static bool isStale(struct qp *qp, uint32_t at, uint16_t index)
{
	uint32_t before = qp->doorbellRegister;

	expectNotShared(qp, at, index);
	if (requesterIsBehind(qp, index) && before != at)
		return true;
	qp->doorbellRegister = at;
	return false;
}

/* Either the next index and no ds, or the last work request's index and ds. */
static void ring(uint32_t page, uint32_t offset, uint64_t raw)
{
	uint32_t first = be32toh((uint32_t)raw), second = be32toh((uint32_t)(raw >> 32));
	uint16_t index = (uint16_t)(first >> 8);
	struct qp *qp = qpRung(page, second >> 8, index);

	if (!qp || faultOfDoorbell())
		return;
	if (second & 0x3f && qp->state == QP_RTS)
		wqeExpectSegments(qp, index, second & 0x3f);
	index = (uint16_t)(index + ((second & 0x3f) + 3) / 4);
	trace("doorbell: page %u, QP 0x%x, next index %u", page, qp->object.id, index);
	expectOwnRegister(qp, page, index);
	if (!options.polling ||
	    !isStale(qp, page * REGISTERS + offset / DOORBELL_REGISTER_BYTES, index))
		requesterRing(qp, index);
}

/* Polling may see only one of several such doorbells: the records show which other queues rang. */
static void lookAtCqs(const struct device *device)
{
	for (int i = 0; i < 256; i++)
		for (struct object *o = device->objects[KIND_CQ][i]; o; o = o->next)
			if (completionAsks((struct cq *)o))
				completionArm((struct cq *)o);
}

static void ringCq(uint32_t page, uint64_t raw)
{
	uint32_t cqn = be32toh((uint32_t)(raw >> 32)) & 0xffffff;
	struct device *device = &devices[deviceOf[page]];
	struct cq *cq = objectFind(device, KIND_CQ, cqn);

	if (cq)
		completionArm(cq);
	if (options.polling)
		lookAtCqs(device);
}

static uint64_t *registerAt(uint32_t page, uint32_t offset)
{
	return (uint64_t *)(void *)(pages + (size_t)page * DOORBELL_PAGE_BYTES + offset);
}

/* A register's first 8 bytes ring; BlueFlame stores more after them. */
void doorbellStored(uint32_t page, uint32_t offset, size_t bytes)
{
	uint32_t within = offset % DOORBELL_REGISTER_BYTES;

	if (offset == DOORBELL_CQ && bytes == 8) {
		ringCq(page, *registerAt(page, offset));
		return;
	}
	if (offset < DOORBELL_REGISTER)
		violationAlone("%zu bytes stored at 0x%x of doorbell page 0x%x: nothing is there",
			       bytes, offset, DOORBELL_PAGE_ID + page);
	if (bytes < 8 || offset % 8)
		violationAlone("%zu bytes stored at 0x%x of doorbell page 0x%x: a doorbell is 8 "
			       "bytes at once, aligned",
			       bytes, offset, DOORBELL_PAGE_ID + page);
	if (within == 0)
		ring(page, offset, *registerAt(page, offset));
}

static uint64_t takeRegister(uint32_t page, uint32_t offset)
{
	uint64_t *at = registerAt(page, offset);

	if (!__atomic_load_n(at, __ATOMIC_RELAXED))
		return 0;
	return __atomic_exchange_n(at, 0, __ATOMIC_ACQUIRE);
}

/* BlueFlame alternates between two registers, and we do not see which was first. */
static bool pollPage(uint32_t page)
{
	bool rang = false;
	uint64_t cq = takeRegister(page, DOORBELL_CQ);

	if (cq)
		ringCq(page, cq);
	for (uint32_t at = DOORBELL_REGISTER; at < DOORBELL_PAGE_BYTES;
	     at += DOORBELL_REGISTER_BYTES) {
		uint64_t raw = takeRegister(page, at);

		if (raw)
			ring(page, at, raw);
		rang |= raw != 0;
	}
	return rang;
}

bool doorbellPoll(void)
{
	bool rang = false;

	for (uint32_t i = 0; i < most; i++)
		if (used[i])
			rang |= pollPage(i);
	return rang;
}
