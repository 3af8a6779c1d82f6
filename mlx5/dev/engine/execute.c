/* SPDX-License-Identifier: BSD-3-Clause */
#include "execute.h"

#include <infiniband/verbs.h>
#include <string.h>

#include "mlx5/dev/device/access.h"
#include "mlx5/dev/device/adversary.h"
#include "mlx5/dev/device/fabric.h"
#include "mlx5/dev/device/late.h"
#include "mlx5/dev/host/memory.h"
#include "packet.h"

/* Where the next byte of a message comes from. */
struct gather {
	const struct qp *qp;
	const struct wqe *wqe;
	uint32_t segment, offset;
};

static struct packet *head(const struct qp *qp, const struct request *request,
			   const struct wqe *wqe)
{
	static struct packet packet;

	memset(&packet, 0, offsetof(struct packet, data));
	packet.kind = PACKET_REQUEST;
	packet.opcode = wqe->opcode;
	packet.fromDevice = (int16_t)qp->object.device->index;
	packet.toDevice = (int16_t)qp->path.device;
	packet.fromQpn = qp->object.id;
	packet.toQpn = qp->path.qpn;
	packet.pid = devicePid;
	packet.sequence = request->sequence;
	packet.psn = qp->path.sendPsn;
	packet.mtu = qp->path.mtu;
	packet.isUnreliable = qp->isUnreliable;
	packet.rnrRetries = qp->path.rnrRetries;
	packet.total = wqe->bytes;
	packet.address = wqe->address;
	packet.key = wqe->key;
	packet.immediate = wqe->immediate;
	packet.operandBytes = wqe->operandBytes;
	memcpy(packet.operands, wqe->operands, sizeof(packet.operands));
	return &packet;
}

static int peer(const struct qp *qp)
{
	const struct device *device = qp->object.device;

	return device->portDown ? 0 : fabricOwner(qp->path.device, qp->path.qpn);
}

/* Keys were found good before; they cannot have gone since. */
static void gatherRead(struct gather *gather, uint8_t *to, uint32_t bytes)
{
	while (bytes) {
		const struct wqe_data *data = &gather->wqe->data[gather->segment];
		uint32_t now = data->bytes - gather->offset;

		if (now > bytes)
			now = bytes;
		if (data->inlined) {
			memcpy(to, data->inlined + gather->offset, now);
		} else {
			uint64_t from = data->address + gather->offset;

			memoryRead(
				to,
				accessAddress(accessFind(gather->qp->pd, data->key, from, now, 0),
					      from),
				now);
		}
		to += now;
		bytes -= now;
		gather->offset += now;
		if (gather->offset == data->bytes) {
			gather->segment++;
			gather->offset = 0;
		}
	}
}

/* The region's rights are asked for, and more: the atomics' result and what is read are written. */
static uint8_t localAccess(const struct qp *qp, const struct wqe *wqe)
{
	uint32_t rights = wqeResponds(wqe->opcode) ? IBV_ACCESS_LOCAL_WRITE : 0;

	for (uint32_t i = 0; i < wqe->dataCount; i++) {
		const struct wqe_data *data = &wqe->data[i];

		if (data->inlined)
			continue;
		if (!accessFind(qp->pd, data->key, data->address, data->bytes, rights))
			return SYNDROME_LOCAL_PROTECTION;
	}
	return 0;
}

/*
 * At most this many bytes are in a packet: a multiple of 8, as every MTU is. Long messages would be
 * in very many packets.
 */
static uint32_t packetLimit(uint32_t bytes)
{
	uint32_t least = bytes / 32 + 256;

	if (!adversaryOnce(4) || least > PACKET_DATA)
		return PACKET_DATA;
	return (least + adversaryNumber(PACKET_DATA - least + 1)) & ~7u;
}

/* Without answers a message is done when it has left; it is unknown whether it arrives. */
static uint8_t sendData(const struct qp *qp, struct request *request, const struct wqe *wqe)
{
	struct gather gather = {.qp = qp, .wqe = wqe};
	uint32_t done = 0, limit = packetLimit(wqe->bytes);

	do {
		struct packet *packet = head(qp, request, wqe);

		packet->offset = done;
		packet->bytes = wqe->bytes - done < limit ? wqe->bytes - done : limit;
		gatherRead(&gather, packet->data, packet->bytes);
		done += packet->bytes;
		packet->last = done == wqe->bytes;
		if (!packetSend(peer(qp), packet) && !qp->isUnreliable)
			return SYNDROME_RETRY_EXCEEDED;
	} while (done < wqe->bytes);
	if (qp->isUnreliable)
		request->done = true;
	return 0;
}

static uint8_t sendQuestion(struct qp *qp, struct request *request, const struct wqe *wqe)
{
	struct packet *packet = head(qp, request, wqe);

	for (uint32_t i = 0; i < wqe->dataCount; i++)
		request->sinks[i] = (struct sink){
			.address = wqe->data[i].address,
			.bytes = wqe->data[i].bytes,
			.key = wqe->data[i].key,
		};
	request->sinkCount = (uint8_t)wqe->dataCount;
	request->responds = true;
	packet->inFlight = (uint8_t)++qp->readsInFlight;
	packet->last = true;
	return packetSend(peer(qp), packet) ? 0 : SYNDROME_RETRY_EXCEEDED;
}

/* A read pushes earlier writes. */
static uint8_t dump(struct qp *qp, struct request *request, const struct wqe *wqe)
{
	struct gather gather = {.qp = qp, .wqe = wqe};
	const struct wqe_data *first = &wqe->data[0];
	uint8_t bytes[256];

	if (wqe->dataCount)
		lateFlushBeforeRead(
			accessFind(qp->pd, first->key, first->address, first->bytes, 0));
	gatherRead(&gather, bytes, wqe->bytes < sizeof(bytes) ? wqe->bytes : sizeof(bytes));
	request->done = true;
	return 0;
}

static uint8_t checks(const struct qp *qp, const struct wqe *wqe)
{
	if (wqe->bytes > 1u << qp->path.messageLog)
		return SYNDROME_LOCAL_LENGTH;
	if (qp->isUnreliable && wqeResponds(wqe->opcode))
		return SYNDROME_LOCAL_QP_OP;
	if (wqe->opcode == WQE_READ)
		for (uint32_t i = 0; i < wqe->dataCount; i++)
			if (wqe->data[i].inlined)
				return SYNDROME_LOCAL_QP_OP;
	return localAccess(qp, wqe);
}

uint8_t execute(struct qp *qp, struct request *request, const struct wqe *wqe)
{
	uint8_t syndrome = checks(qp, wqe);

	if (syndrome)
		return syndrome;
	switch (wqe->opcode) {
	case WQE_NOP:
		request->done = true;
		return 0;
	case WQE_DUMP:
		return dump(qp, request, wqe);
	case WQE_WRITE:
	case WQE_WRITE_IMM:
	case WQE_SEND:
	case WQE_SEND_IMM:
		return sendData(qp, request, wqe);
	case WQE_WAIT:
		return SYNDROME_LOCAL_QP_OP;
	default:
		return sendQuestion(qp, request, wqe);
	}
}
