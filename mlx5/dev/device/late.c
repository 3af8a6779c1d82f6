/* SPDX-License-Identifier: BSD-3-Clause */
#include "late.h"

#include <stdlib.h>
#include <string.h>

#include "adversary.h"
#include "mlx5/dev/host/gpu.h"
#include "mlx5/dev/host/memory.h"
#include "mlx5/dev/host/options.h"
#include "mlx5/dev/host/violation.h"

enum { PIECES = 64 };

static void flushOne(struct qp *qp, uint32_t at)
{
	struct late_piece *piece = &qp->late[at];

	memoryWrite(piece->address, piece->data, piece->bytes);
	qp->late[at] = qp->late[--qp->lateCount];
}

/* An older write must not undo a later write to its place. */
static bool overlaps(const struct qp *qp, uint64_t to, uint32_t bytes)
{
	for (uint32_t i = 0; i < qp->lateCount; i++)
		if (to < qp->late[i].address + qp->late[i].bytes &&
		    qp->late[i].address < to + bytes)
			return true;
	return false;
}

static bool isGpus(const struct mr *mr)
{
	return options.weakCqe && (mr->mapped || gpuHas(mr->address));
}

static void keep(struct qp *qp, uint64_t to, const void *data, uint32_t bytes, bool gpus)
{
	if (!qp->late)
		qp->late = malloc(LATE_MAX * sizeof(*qp->late));
	if (!qp->late)
		noMemory("data that comes late");
	if (qp->lateCount == LATE_MAX)
		flushOne(qp, adversaryNumber(LATE_MAX));
	struct late_piece *piece = &qp->late[qp->lateCount++];
	piece->address = to;
	piece->bytes = bytes;
	piece->gpus = gpus;
	memcpy(piece->data, data, bytes);
}

static void placePiece(struct qp *qp, uint64_t to, const char *data, uint32_t bytes, bool late,
		       bool gpus)
{
	if (late && bytes <= LATE_BYTES && !adversaryOnce(4)) {
		keep(qp, to, data, bytes, gpus);
		return;
	}
	memoryWrite(to, data, bytes);
	adversaryPause();
}

/* Splits a write at multiples of 8: every device writes an aligned word of 8 bytes at once. */
static uint32_t cut(uint64_t to, uint32_t bytes, uint32_t *offsets)
{
	uint32_t count = 0, at = 0;

	while (at < bytes && count < PIECES - 1) {
		offsets[count++] = at;
		at += 8 * (1 + adversaryNumber(LATE_BYTES / 8)) - (uint32_t)((to + at) % 8);
	}
	offsets[count] = count == PIECES - 1 && at < bytes ? at : bytes;
	if (offsets[count] < bytes)
		offsets[++count] = bytes;
	return count;
}

void latePlace(struct qp *qp, const struct mr *mr, uint64_t to, const void *data, uint32_t bytes,
	       bool late)
{
	bool gpus = isGpus(mr);
	uint32_t offsets[PIECES + 1], order[PIECES], count;

	if (!options.adversary) {
		memoryWrite(to, data, bytes);
		return;
	}
	if (!late && gpus)
		lateFlushAll(qp->object.device);
	else if (!late)
		lateFlushHostAll(qp->object.device);
	else if (overlaps(qp, to, bytes))
		lateFlush(qp);
	late |= gpus;
	count = cut(to, bytes, offsets);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t j = adversaryNumber(i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t from = offsets[order[i]];

		placePiece(qp, to + from, (const char *)data + from, offsets[order[i] + 1] - from,
			   late, gpus);
	}
}

void lateFlush(struct qp *qp)
{
	while (qp->lateCount)
		flushOne(qp, adversaryNumber(qp->lateCount));
}

void lateFlushAll(struct device *device)
{
	for (struct qp *qp = device->qps; qp; qp = qp->nextQp)
		lateFlush(qp);
}

void lateFlushHost(struct qp *qp)
{
	for (uint32_t i = 0; i < qp->lateCount;)
		if (qp->late[i].gpus)
			i++;
		else
			flushOne(qp, i);
}

void lateFlushHostAll(struct device *device)
{
	for (struct qp *qp = device->qps; qp; qp = qp->nextQp)
		lateFlushHost(qp);
}

void lateFlushBeforeRead(const struct mr *mr)
{
	if (!options.weakCqe || isGpus(mr))
		lateFlushAll(mr->object.device);
	else
		lateFlushHostAll(mr->object.device);
}

bool lateTrickle(struct qp *qp)
{
	if (qp->lateCount && adversaryOnce(4))
		flushOne(qp, adversaryNumber(qp->lateCount));
	return qp->lateCount;
}
