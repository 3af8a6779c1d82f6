/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * post.c - writes, reads and messages become work requests
 *
 * Work requests collect in a chain for each peer; the last one of a chain is signaled, and its
 * completion stands for all before it. Everything that a provider could refuse is checked before:
 * libmlx5 rings the doorbell even if it has refused some requests of a chain.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "verbs.h"

static struct ibv_send_wr *next(struct verbsPeer *peer)
{
	uint32_t at = peer->begun - peer->posted;
	struct ibv_send_wr *wr = &peer->wr[at];

	wr->wr_id = verbsNumber(peer, peer->begun);
	wr->sg_list = &peer->sge[at];
	wr->num_sge = 1;
	wr->send_flags = 0;
	return wr;
}

static void addOp(struct verbsPeer *peer, const struct verbsOp *op)
{
	peer->op[verbsSlot(peer, peer->begun)] = *op;
	peer->begun++;
}

static void chain(struct verbsPeer *peer)
{
	struct fabricEnd *end = peer->end;

	if (peer->isChained)
		return;
	peer->isChained = 1;
	peer->nextChained = end->chained;
	end->chained = peer;
}

/*
 * PCIe does not order the writes of two NICs, so the peer could handle a message by another NIC
 * before the bytes of this chain are visible. A read of these bytes by this NIC does not pass its
 * writes.
 */
static void confirm(struct verbsPeer *peer)
{
	const struct verbsOp op = {.bytes = 1, .kind = verbsConfirm};
	const struct ibv_send_wr *write = peer->write;

	if (!write)
		return;
	struct ibv_send_wr *wr = next(peer);
	wr->opcode = IBV_WR_RDMA_READ;
	wr->wr.rdma = write->wr.rdma;
	*wr->sg_list = verbsBuffer(peer->end, peer->message[verbsSlot(peer, peer->begun)], 1);
	addOp(peer, &op);
	peer->write = NULL;
}

static void postChain(struct verbsPeer *peer)
{
	if (!peer->isDead)
		confirm(peer);
	uint32_t count = peer->begun - peer->posted;
	struct ibv_send_wr *bad = NULL;
	char why[FABRIC_WHY];

	if (!count || peer->isDead)
		return;
	for (uint32_t i = 0; i < count; i++)
		peer->wr[i].next = i + 1 < count ? &peer->wr[i + 1] : NULL;
	peer->wr[count - 1].send_flags |= IBV_SEND_SIGNALED;
	int error = ibv_post_send(peer->qp, peer->wr, &bad);
	peer->posted = peer->begun;
	if (!error)
		return;
	verbsFailErrno(why, "its queue pair refuses a work request", error);
	verbsPeerDies(peer, peer->completed, why);
}

/* The peer with room for a work request; NULL: it has none, or is dead, which poll() reports. */
static struct verbsPeer *peerWithRoom(uint64_t of)
{
	struct verbsPeer *peer = (struct verbsPeer *)(uintptr_t)of;

	uint32_t spare = peer->end->fabric->isRail; /* for confirm() */

	if (peer->isDead || peer->begun - peer->reported + spare >= peer->end->depth)
		return NULL;
	if (peer->begun - peer->posted + spare >= VERBS_CHAIN)
		postChain(peer);
	return peer->isDead ? NULL : peer;
}

static int begin(struct verbsPeer *peer, const struct verbsOp *op)
{
	addOp(peer, op);
	chain(peer);
	return fabricOk;
}

/* Copies data that the caller may change at once into a buffer of the peer. */
static void copyToBuffer(struct verbsPeer *peer, struct ibv_send_wr *wr, const void *from,
			 uint32_t bytes)
{
	struct fabric *f = peer->end->fabric;
	unsigned char *at = peer->message[verbsSlot(peer, peer->begun)];

	memcpy(at, from, bytes);
	if (bytes <= f->mostInline) {
		*wr->sg_list = (struct ibv_sge){(uintptr_t)at, bytes, 0};
		wr->send_flags |= IBV_SEND_INLINE;
	} else {
		*wr->sg_list = verbsBuffer(peer->end, at, bytes);
	}
}

static int fillTransfer(struct verbsPeer *peer, struct ibv_send_wr *wr,
			const struct fabricPiece *piece, uint8_t *isGpu)
{
	*isGpu = 0;
	wr->wr.rdma.remote_addr = piece->remote.address;
	wr->wr.rdma.rkey = (uint32_t)piece->remote.key;
	if (verbsMemoryFind(peer->end->fabric, piece->local, piece->bytes, wr->sg_list, isGpu))
		return fabricOk;
	if (wr->opcode == IBV_WR_RDMA_READ || piece->bytes > FABRIC_VALUE)
		return fabricFailed;
	copyToBuffer(peer, wr, piece->local, (uint32_t)piece->bytes);
	return fabricOk;
}

int verbsPostWrite(struct fabricEnd *end, uint64_t of, const struct fabricPiece *piece,
		   const uint32_t *immediate, void *context)
{
	struct verbsPeer *peer = peerWithRoom(of);

	(void)end;
	if (!peer)
		return fabricBusy;
	struct ibv_send_wr *wr = next(peer);
	wr->opcode = immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	if (immediate)
		wr->imm_data = htonl(*immediate);
	struct verbsOp op = {
		.context = context, .bytes = (uint32_t)piece->bytes, .kind = verbsWrite};
	uint8_t isGpu;
	if (fillTransfer(peer, wr, piece, &isGpu))
		return fabricFailed;
	if (!immediate && piece->bytes && peer->end->fabric->isRail)
		peer->write = wr;
	return begin(peer, &op);
}

int verbsPostRead(struct fabricEnd *end, uint64_t of, const struct fabricPiece *piece,
		  void *context)
{
	struct verbsPeer *peer = peerWithRoom(of);

	(void)end;
	if (!peer)
		return fabricBusy;
	struct ibv_send_wr *wr = next(peer);
	wr->opcode = IBV_WR_RDMA_READ;
	struct verbsOp op = {
		.context = context, .bytes = (uint32_t)piece->bytes, .kind = verbsRead};
	if (fillTransfer(peer, wr, piece, &op.intoGpu))
		return fabricFailed;
	return begin(peer, &op);
}

int verbsPostMessage(struct fabricEnd *end, uint64_t of, const void *message, size_t bytes)
{
	struct verbsPeer *peer = peerWithRoom(of);

	(void)end;
	if (!peer)
		return fabricBusy;
	struct ibv_send_wr *wr = next(peer);
	wr->opcode = IBV_WR_SEND;
	copyToBuffer(peer, wr, message, (uint32_t)bytes);
	const struct verbsOp op = {.bytes = (uint32_t)bytes, .kind = verbsSend};
	return begin(peer, &op);
}

int verbsPostFlush(struct fabricEnd *end, const struct fabricRegion *gpu, void *to)
{
	const struct verbsOp op = {.bytes = sizeof(uint64_t), .kind = verbsFlush};
	struct verbsPeer *peer = peerWithRoom((uintptr_t)end->self);

	if (!peer)
		return fabricBusy;
	struct ibv_send_wr *wr = next(peer);
	wr->opcode = IBV_WR_RDMA_READ;
	wr->wr.rdma.remote_addr = gpu->keys.first;
	wr->wr.rdma.rkey = gpu->keys.remote;
	*wr->sg_list = verbsBuffer(end, to, sizeof(uint64_t));
	begin(peer, &op);
	postChain(peer);
	return fabricOk;
}

void verbsSubmit(struct fabricEnd *end)
{
	while (end->chained) {
		struct verbsPeer *peer = end->chained;
		end->chained = peer->nextChained;
		peer->isChained = 0;
		postChain(peer);
	}
	if (end->used)
		verbsReceivesRenew(end);
}
