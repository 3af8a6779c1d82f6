/* SPDX-License-Identifier: BSD-3-Clause */
#include "requester.h"

#include <endian.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "mlx5/dev/device/access.h"
#include "mlx5/dev/device/adversary.h"
#include "completion.h"
#include "engine.h"
#include "execute.h"
#include "mlx5/dev/device/fabric.h"
#include "mlx5/dev/device/fault.h"
#include "mlx5/dev/device/late.h"
#include "mlx5/dev/host/memory.h"
#include "mlx5/dev/host/options.h"
#include "packet.h"
#include "qp.h"
#include "mlx5/dev/host/violation.h"

enum { DELAY_NS = 100000, RECORD_NS = 500000000, NAP_NS = 20000 };

static struct request *at(struct qp *qp, uint32_t position)
{
	return &qp->inFlight[position % IN_FLIGHT];
}

/* The bytes that a sentence about a doorbell shows are the record's. */
static void wrong(const struct qp *qp, uint32_t index, const char *format, ...)
	__attribute__((noreturn, format(printf, 3, 4)));

static void wrong(const struct qp *qp, uint32_t index, const char *format, ...)
{
	char text[256];
	uint8_t record[8];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	memoryRead(record, qp->dbr, sizeof(record));
	violation(qp, index, record, sizeof(record), "%s; the record:", text);
}

/* The program's WQEBBs up to `end` must be its own to write. */
static void expectFree(const struct qp *qp, uint32_t end)
{
	if (end - qp->fetched > qp->wqebbs)
		wrong(qp, end - 1, "beyond the ring: of %u WQEBBs the device has not read %u",
		      qp->wqebbs, qp->rung - qp->fetched);
	if (end - qp->freed > qp->wqebbs)
		wrong(qp, end - 1,
		      "the slot of index %u is used again, and no completion says that it is free",
		      end - 1 - qp->wqebbs);
}

/*
 * How far the record is ahead of the doorbell, modulo 65536; 0x8000 or more: it is older. By
 * polling the device may see the doorbell first, because a kernel stores both without a fence
 * between them. So it waits until the record is not older, for RECORD_NS at most.
 */
static uint16_t recordAhead(const struct qp *qp, uint32_t end)
{
	const struct timespec nap = {0, NAP_NS};
	const uint64_t until = deviceClock() + RECORD_NS;

	for (;;) {
		uint16_t ahead = (uint16_t)(memoryRecord(qp->dbr + 4) - end);
		if (ahead < 0x8000 || !options.polling || deviceClock() >= until)
			return ahead;
		nanosleep(&nap, NULL);
	}
}

/*
 * The record must not be older than the doorbell: a device that recovers a queue pair goes by the
 * record. If the record is ahead, the device may read up to the record. This device does not: no
 * document says when hardware recovers a lost doorbell, so programs must ring again.
 */
static void expectRecord(const struct qp *qp, uint32_t end)
{
	const uint16_t ahead = recordAhead(qp, end);

	if (ahead >= 0x8000)
		wrong(qp, end, "the doorbell record, %u, is older than the doorbell",
		      (uint16_t)(end + ahead));
	if (!ahead)
		return;
	expectFree(qp, end + ahead);
	wqeExpect(qp, end, end + ahead, "the doorbell record is ahead of its WQE");
}

bool requesterIsBehind(const struct qp *qp, uint16_t index)
{
	uint16_t forward = (uint16_t)(index - (uint16_t)qp->rung);

	return forward > 0x8000 || (forward == 0x8000 && qp->wqebbs < 0x8000);
}

void requesterRing(struct qp *qp, uint16_t index)
{
	uint16_t forward = (uint16_t)(index - (uint16_t)qp->rung);

	if (requesterIsBehind(qp, index))
		wrong(qp, index, "the doorbell goes backwards: it rang for index %u before",
		      qp->rung & 0xffff);
	expectFree(qp, qp->rung + forward);
	if (qp->state == QP_RTS)
		expectRecord(qp, qp->rung + forward);
	qp->rung += forward;
	/* The delay finds programs that change elements or data before the completion. */
	if (adversaryOnce(4))
		engineWakeAt(qp, deviceClock() + adversaryNumber(DELAY_NS));
	else
		engineWake(qp);
}

static bool isBlocked(const struct qp *qp, const struct wqe *wqe)
{
	if (wqe->fence == FENCE_ALL && qp->oldest != qp->newest)
		return true;
	if ((wqe->fence == FENCE_READS || wqe->fence == FENCE_READS_SMALL) && qp->readsInFlight)
		return true;
	if (qp->isUnreliable) /* such a work request ends with an error */
		return false;
	return wqeResponds(wqe->opcode) && qp->readsInFlight >= qp->path.readsOut;
}

static struct request *add(struct qp *qp, const struct wqe *wqe)
{
	struct request *request = at(qp, qp->newest++);

	*request = (struct request){
		.index = wqe->index,
		.wqebbs = wqe->wqebbs,
		.bytes = wqe->bytes,
		.opcode = wqe->opcode,
		.operandBytes = wqe->operandBytes,
		.signaled = wqe->signaled,
		.sequence = qp->sequence++,
	};
	qp->fetched += wqe->wqebbs;
	qp->started++;
	return request;
}

static void fail(struct qp *qp, struct request *request, uint8_t syndrome)
{
	request->syndrome = syndrome;
	request->done = true;
	qp->failing = true;
}

/* One work request; false when it has to wait. */
static bool start(struct qp *qp)
{
	struct wqe wqe;

	wqeFetch(qp, qp->fetched, qp->rung, &wqe);
	if (qp->state != QP_ERROR && isBlocked(qp, &wqe))
		return false;
	struct request *request = add(qp, &wqe);
	trace("QP 0x%x, index %u: opcode 0x%02x, ds %u, %u bytes, to 0x%llx key 0x%x",
	      qp->object.id, wqe.index, wqe.opcode, wqe.segments, wqe.bytes,
	      (unsigned long long)wqe.address, wqe.key);
	if (qp->state == QP_ERROR) {
		request->done = true;
		request->syndrome = SYNDROME_FLUSHED;
		return true;
	}
	uint8_t syndrome = faultOfRequest(qp);
	if (!syndrome && qp->state == QP_RTS)
		syndrome = execute(qp, request, &wqe);
	if (syndrome == FAULT_LOST)
		request->done = true;
	else if (syndrome == FAULT_NO_ANSWER)
		qp->failing = true;
	else if (syndrome)
		fail(qp, request, syndrome);
	if (options.slowNs)
		qp->readyAt = deviceClock() + options.slowNs;
	return true;
}

static void completed(struct qp *qp, const struct request *request)
{
	completionAdd(qp->sendCq,
		      &(struct completion){
			      .qp = qp,
			      .requester = true,
			      .opcode = request->syndrome ? CQE_REQUEST_ERROR : CQE_REQUEST,
			      .syndrome = request->syndrome,
			      .wqeOpcode = request->opcode,
			      .counter = (uint16_t)request->index,
			      .bytes = request->bytes,
			      .freed = request->index + request->wqebbs,
		      });
}

/* In the order in which they were posted. Whether there was one: others may start then. */
static bool retire(struct qp *qp)
{
	uint32_t before = qp->oldest;

	while (qp->oldest != qp->newest && at(qp, qp->oldest)->done) {
		struct request *request = at(qp, qp->oldest);

		qp->oldest++;
		if (request->responds)
			qp->readsInFlight--;
		if (request->signaled || request->syndrome)
			completed(qp, request);
		if (request->syndrome)
			qpError(qp);
	}
	return qp->oldest != before;
}

static bool canStart(struct qp *qp)
{
	if (qp->state != QP_RTS && qp->state != QP_ERROR)
		return false;
	if (qp->object.device->removed || qp->failing || qp->fetched == qp->rung ||
	    qp->newest - qp->oldest == IN_FLIGHT)
		return false;
	if (!qp->readyAt)
		return true;
	if (qp->readyAt > deviceClock()) {
		engineWakeAt(qp, qp->readyAt);
		return false;
	}
	qp->readyAt = 0;
	return true;
}

bool requesterStep(struct qp *qp)
{
	uint32_t most = options.adversary ? 1 + adversaryNumber(4) : IN_FLIGHT;
	bool more = true;

	if (qp->object.device->removed)
		return false;
	if (adversaryOnce(16))
		qp->readyAt = deviceClock() + adversaryNumber(DELAY_NS);
	while (most-- && more)
		more = canStart(qp) && start(qp);
	more |= retire(qp);
	return canStart(qp) && more;
}

static void place(struct qp *qp, const struct sink *sink, uint32_t offset, const uint8_t *data,
		  uint32_t bytes, bool late)
{
	struct mr *mr = accessFind(qp->pd, sink->key, sink->address + offset, bytes,
				   IBV_ACCESS_LOCAL_WRITE);

	if (mr)
		latePlace(qp, mr, accessAddress(mr, sink->address + offset), data, bytes, late);
}

static void scatter(struct qp *qp, const struct request *request, const struct packet *packet)
{
	uint32_t begin = 0, done = 0;

	for (uint32_t i = 0; i < request->sinkCount && done < packet->bytes; i++) {
		const struct sink *sink = &request->sinks[i];
		uint32_t offset = packet->offset + done - begin;

		if (packet->offset + done < begin + sink->bytes) {
			uint32_t bytes = sink->bytes - offset;

			if (bytes > packet->bytes - done)
				bytes = packet->bytes - done;
			place(qp, sink, offset, packet->data + done, bytes, options.adversary);
			done += bytes;
		}
		begin += sink->bytes;
	}
}

/*
 * Of 8 bytes in the host's order, as the mode says that the kernel sets; of 4 in that of the wire.
 */
static void storeResult(struct qp *qp, const struct request *request, const struct packet *packet)
{
	uint32_t narrow = htobe32((uint32_t)packet->operands[0]);
	const void *result = request->operandBytes == 8 ? (const void *)packet->operands : &narrow;

	place(qp, &request->sinks[0], 0, result, request->operandBytes, false);
}

static void answered(struct qp *qp, struct request *request, const struct packet *packet)
{
	if (packet->syndrome) {
		request->syndrome = packet->syndrome;
		qp->failing = true;
	} else if (wqeIsAtomic(request->opcode)) {
		storeResult(qp, request, packet);
	} else if (request->opcode == WQE_READ) {
		scatter(qp, request, packet);
	}
	if (packet->last)
		request->done = true;
	engineWake(qp);
}

void requesterTake(const struct packet *packet)
{
	struct qp *qp = objectFind(&devices[packet->toDevice], KIND_QP, packet->toQpn);

	if (!qp || qp->object.destroyed || qp->object.device->removed)
		return;
	for (uint32_t i = qp->oldest; i != qp->newest; i++) {
		struct request *request = at(qp, i);

		if (request->sequence == packet->sequence && !request->done)
			answered(qp, request, packet);
	}
}

static void peerDied(struct qp *qp)
{
	for (uint32_t i = qp->oldest; i != qp->newest; i++)
		if (!at(qp, i)->done)
			fail(qp, at(qp, i), SYNDROME_RETRY_EXCEEDED);
	engineWake(qp);
}

void requesterPeerDied(int pid)
{
	for (int i = 0; i < options.devices; i++)
		for (struct qp *qp = devices[i].qps; qp; qp = qp->nextQp) {
			int owner = fabricOwner(qp->path.device, qp->path.qpn);

			if (qp->path.device >= 0 && (owner == pid || !owner))
				peerDied(qp);
		}
}
