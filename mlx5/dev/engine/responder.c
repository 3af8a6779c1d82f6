/* SPDX-License-Identifier: BSD-3-Clause */
#include "responder.h"

#include <endian.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "mlx5/dev/device/access.h"
#include "atomic.h"
#include "completion.h"
#include "engine.h"
#include "mlx5/dev/device/event.h"
#include "mlx5/dev/device/late.h"
#include "mlx5/dev/host/memory.h"
#include "mlx5/dev/host/options.h"
#include "packet.h"
#include "qp.h"
#include "receive.h"
#include "wqe.h"

/* No syndrome: nothing is posted for it yet. */
enum { NOT_READY = 0x100 };

enum { STALL_LOOK_NS = 50000 };

/* Below, only what IB has: 8 bytes, without masks. */
enum { ATOMIC_MODE_UP_TO_8 = 3 };

static void answerTo(const struct packet *request, struct packet *answer, uint8_t syndrome)
{
	answer->kind = PACKET_RESPONSE;
	answer->opcode = request->opcode;
	answer->syndrome = syndrome;
	answer->toDevice = request->fromDevice;
	answer->fromDevice = request->toDevice;
	answer->toQpn = request->fromQpn;
	answer->fromQpn = request->toQpn;
	answer->sequence = request->sequence;
	answer->pid = devicePid;
	packetSend(request->pid, answer);
}

/* Of what follows the head only `bytes` count, so that the data need not be cleared. */
static struct packet *blank(void)
{
	static struct packet answers[4];
	static unsigned int next;
	struct packet *answer = &answers[next++ % 4];

	memset(answer, 0, offsetof(struct packet, data));
	return answer;
}

static void acknowledge(const struct packet *request, uint8_t syndrome)
{
	struct packet *answer = blank();

	if (request->isUnreliable)
		return;
	answer->last = true;
	answerTo(request, answer, syndrome);
}

static struct qp *target(const struct packet *packet)
{
	struct device *device = &devices[packet->toDevice];
	struct qp *qp = objectFind(device, KIND_QP, packet->toQpn);

	if (!qp || qp->object.destroyed || device->removed || device->portDown)
		return NULL;
	return qp->state == QP_ERROR ? NULL : qp;
}

void responderTake(const struct packet *packet)
{
	struct qp *qp = target(packet);

	if (!qp) {
		if (packet->last)
			acknowledge(packet, SYNDROME_RETRY_EXCEEDED);
		return;
	}
	*qp->inboundEnd = packetCopy(packet);
	qp->inboundEnd = &(*qp->inboundEnd)->next;
	engineWake(qp);
	/* Or a long message to ourselves would be in memory twice. */
	while (!options.adversary && packet->pid == devicePid && responderStep(qp)) {
	}
}

static bool isAllowed(const struct qp *qp, uint8_t opcode)
{
	if (opcode == WQE_READ)
		return qp->path.readable;
	if (wqeIsAtomic(opcode))
		return qp->path.atomic && options.atomics;
	return qp->path.writable;
}

static uint32_t rights(uint8_t opcode)
{
	if (opcode == WQE_READ)
		return IBV_ACCESS_REMOTE_READ;
	return wqeIsAtomic(opcode) ? IBV_ACCESS_REMOTE_ATOMIC : IBV_ACCESS_REMOTE_WRITE;
}

/* Of all of the message, which its first packet says. */
static struct mr *region(const struct qp *qp, const struct packet *packet, uint32_t bytes)
{
	if (!isAllowed(qp, packet->opcode))
		return NULL;
	return accessFind(qp->pd, packet->key, packet->address, bytes, rights(packet->opcode));
}

static bool isRelaxed(const struct mr *mr)
{
	return options.relaxed && mr->access & IBV_ACCESS_RELAXED_ORDERING;
}

static uint32_t executeWrite(struct qp *qp, const struct packet *packet)
{
	struct mr *mr;

	if (!packet->total)
		return 0;
	mr = region(qp, packet, packet->total);
	if (!mr)
		return SYNDROME_REMOTE_ACCESS;
	latePlace(qp, mr, accessAddress(mr, packet->address) + packet->offset, packet->data,
		  packet->bytes, isRelaxed(mr));
	return 0;
}

static uint32_t executeRead(struct qp *qp, const struct packet *packet)
{
	struct mr *mr = packet->total ? region(qp, packet, packet->total) : NULL;
	uint32_t done = 0;

	if (packet->total && !mr)
		return SYNDROME_REMOTE_ACCESS;
	if (mr)
		lateFlushBeforeRead(mr);
	do {
		struct packet *answer = blank();
		uint32_t left = packet->total - done;

		answer->bytes = left < PACKET_DATA ? left : PACKET_DATA;
		answer->offset = done;
		if (mr)
			memoryRead(answer->data, accessAddress(mr, packet->address) + done,
				   answer->bytes);
		done += answer->bytes;
		answer->last = done == packet->total;
		answerTo(packet, answer, 0);
	} while (done < packet->total);
	return 0;
}

static uint32_t executeAtomic(struct qp *qp, const struct packet *packet)
{
	struct packet *answer = blank();
	struct mr *mr;

	if (packet->address % packet->operandBytes ||
	    (wqeIsMasked(packet->opcode) && qp->path.atomicMode < ATOMIC_MODE_UP_TO_8))
		return SYNDROME_REMOTE_INVALID;
	mr = region(qp, packet, packet->operandBytes);
	if (!mr)
		return SYNDROME_REMOTE_ACCESS;
	if (!isRelaxed(mr))
		lateFlushAll(qp->object.device);
	answer->operands[0] = atomicExecute(packet->opcode, accessAddress(mr, packet->address),
					    packet->operandBytes, packet->operands);
	answer->last = true;
	answerTo(packet, answer, 0);
	return 0;
}

/* Bytes `offset` to `offset + bytes` of a message, into the receive's buffers. */
static uint32_t scatter(struct qp *qp, const struct packet *packet)
{
	const struct receive *receive = &qp->receive;
	const struct pd *pd = qp->srq ? qp->srq->pd : qp->pd;
	uint32_t begin = 0, done = 0;

	for (uint32_t i = 0; i < receive->count && done < packet->bytes; i++) {
		uint32_t words[4];

		memoryRead(words, receive->buffers + (uint64_t)i * SEGMENT, sizeof(words));
		uint32_t room = be32toh(words[0]), at = packet->offset + done;
		uint64_t to = (uint64_t)be32toh(words[2]) << 32 | be32toh(words[3]);
		if (at < begin + room) {
			uint32_t bytes = begin + room - at;

			if (bytes > packet->bytes - done)
				bytes = packet->bytes - done;
			struct mr *mr = accessFind(pd, be32toh(words[1]), to + (at - begin), bytes,
						   IBV_ACCESS_LOCAL_WRITE);
			if (!mr)
				return SYNDROME_REMOTE_OPERATION;
			latePlace(qp, mr, accessAddress(mr, to + (at - begin)), packet->data + done,
				  bytes, isRelaxed(mr));
			done += bytes;
		}
		begin += room;
	}
	return done < packet->bytes ? SYNDROME_REMOTE_INVALID : 0;
}

static uint8_t receiveOpcode(uint8_t opcode)
{
	if (opcode == WQE_WRITE_IMM)
		return CQE_WRITE_IMM;
	return opcode == WQE_SEND ? CQE_SEND : CQE_SEND_IMM;
}

static void received(struct qp *qp, const struct packet *packet)
{
	receiveComplete(qp, &(struct completion){
				    .opcode = receiveOpcode(packet->opcode),
				    .bytes = packet->total,
				    .immediate = packet->immediate,
			    });
}

/* A message whose first packet found no receive has none for the other packets. */
static uint32_t executeSend(struct qp *qp, const struct packet *packet)
{
	if (packet->offset ? !qp->receive.isTaken : !receiveTake(qp))
		return NOT_READY;
	return scatter(qp, packet);
}

/* An immediate takes a receive when its data is there. */
static uint32_t executeWriteImmediate(struct qp *qp, const struct packet *packet)
{
	uint32_t syndrome;

	if (packet->last && !receiveIsPosted(qp))
		return NOT_READY;
	syndrome = executeWrite(qp, packet);
	if (!syndrome && packet->last)
		receiveTake(qp);
	return syndrome;
}

static uint32_t executeData(struct qp *qp, const struct packet *packet)
{
	if (wqeIsSend(packet->opcode))
		return executeSend(qp, packet);
	return packet->opcode == WQE_WRITE_IMM ? executeWriteImmediate(qp, packet)
					       : executeWrite(qp, packet);
}

/*
 * Both ends must agree: on the path MTU, for a message of several packets; on the largest message;
 * on the READs and atomics at a time.
 */
static bool isAgreed(const struct qp *qp, const struct packet *packet)
{
	uint8_t mtu = packet->mtu < qp->path.mtu ? packet->mtu : qp->path.mtu;

	if (packet->mtu != qp->path.mtu && packet->total > 128u << mtu)
		return false;
	if (packet->total > 1u << qp->path.messageLog)
		return false;
	return !wqeResponds(packet->opcode) || packet->inFlight <= qp->path.readsIn;
}

static uint32_t execute(struct qp *qp, const struct packet *packet)
{
	uint32_t syndrome;

	if (!isAgreed(qp, packet))
		return SYNDROME_REMOTE_INVALID;
	if (packet->opcode == WQE_READ)
		return executeRead(qp, packet);
	if (wqeIsAtomic(packet->opcode))
		return executeAtomic(qp, packet);
	syndrome = executeData(qp, packet);
	if (!syndrome && packet->last) {
		acknowledge(packet, 0);
		if (packet->opcode != WQE_WRITE)
			received(qp, packet);
	}
	return syndrome;
}

static void pop(struct qp *qp)
{
	struct packet *first = qp->inbound;

	qp->inbound = first->next;
	if (!qp->inbound)
		qp->inboundEnd = &qp->inbound;
	free(first);
	qp->stalledSince = 0;
}

/*
 * A requester that broke the rules: both queue pairs are in error, and the program gets an event.
 */
static void refuse(struct qp *qp, uint8_t syndrome)
{
	acknowledge(qp->inbound, syndrome);
	pop(qp);
	while (qp->inbound) {
		if (qp->inbound->last)
			acknowledge(qp->inbound, SYNDROME_RETRY_EXCEEDED);
		pop(qp);
	}
	qpError(qp);
	eventOfQp(qp, syndrome == SYNDROME_REMOTE_ACCESS ? IBV_EVENT_QP_ACCESS_ERR
							 : IBV_EVENT_QP_REQ_ERR);
}

/* How many ns the requester of `packet` tries again. 0: for ever. */
static uint64_t patience(const struct packet *packet, bool receiving)
{
	if (receiving)
		return packet->rnrRetries == 7 ? 0 : 640000ull * (packet->rnrRetries + 1u);
	return 2000000000;
}

/*
 * Either nothing is posted, or the program is not that far: the requester tries again, up to a
 * time.
 */
static void stall(struct qp *qp, bool receiving)
{
	uint64_t now = deviceClock(), limit = patience(qp->inbound, receiving);

	if (!qp->stalledSince)
		qp->stalledSince = now;
	if (limit && now - qp->stalledSince > limit) {
		acknowledge(qp->inbound,
			    receiving ? SYNDROME_RNR_RETRY_EXCEEDED : SYNDROME_RETRY_EXCEEDED);
		pop(qp);
		return;
	}
	engineWakeAt(qp, now + STALL_LOOK_NS);
}

static bool isOfPeer(const struct qp *qp, const struct packet *packet)
{
	return packet->fromQpn == qp->path.qpn && packet->fromDevice == qp->path.device &&
	       packet->psn == qp->path.receivePsn && packet->isUnreliable == qp->isUnreliable;
}

/*
 * Without answers the requester does not know: only a receive that is too small is an error, of
 * this end.
 */
static bool isLost(const struct qp *qp, uint32_t syndrome)
{
	return syndrome && qp->isUnreliable && !qp->receive.isTaken;
}

static void executeFirst(struct qp *qp)
{
	uint32_t syndrome = execute(qp, qp->inbound);

	if (isLost(qp, syndrome))
		pop(qp);
	else if (syndrome == NOT_READY)
		stall(qp, true);
	else if (syndrome)
		refuse(qp, (uint8_t)syndrome);
	else
		pop(qp);
}

bool responderStep(struct qp *qp)
{
	struct packet *first = qp->inbound;

	if (!first || qp->state == QP_ERROR)
		return false;
	if (qp->state < QP_RTR && qp->isUnreliable) {
		pop(qp);
	} else if (qp->state < QP_RTR) {
		stall(qp, false);
	} else if (!isOfPeer(qp, first)) {
		trace("QP 0x%x drops a packet of QP 0x%x: it is connected to 0x%x, PSN %u",
		      qp->object.id, first->fromQpn, qp->path.qpn, qp->path.receivePsn);
		if (first->last)
			acknowledge(first, SYNDROME_RETRY_EXCEEDED);
		pop(qp);
	} else {
		executeFirst(qp);
	}
	return qp->inbound && !qp->stalledSince;
}
