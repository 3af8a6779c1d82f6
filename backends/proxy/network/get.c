/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * get.c - gets through slots: by reads of windows (chunkRead), by requests to the peer
 * (chunkFetch), and replies to a peer's requests (chunkReply)
 */
#include "bounce.h"
#include "network.h"

static int sendFetch(struct networkLane *lane, struct bounceChunk *k)
{
	struct networkPeer *peer = k->peer;
	const struct messageOut out = {.work = k->work, .chunk = k, .wantsAnswer = 1};
	int result = networkRoom(lane, peer);

	if (result != fabricOk)
		return result;
	struct message m = networkMessage(lane, peer, messageFetch);
	m.wantsAnswer = 1;
	m.named = spotNamed(&k->work->there, k->work->peer) + peer->sent;
	m.operand = messageSlot(k->slot, k->bytes);
	return networkSend(lane, peer, &m, &out);
}

int bounceGet(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	enum bounceKind kind = bouncesThere(w) ? chunkFetch : chunkRead;
	struct bounceChunk *k = bounceTakeFor(lane, peer, w, kind, slotGet);
	int result = fabricOk;

	if (!k)
		return fabricBusy;
	k->target = w->here.at + peer->sent;
	k->targetByCpu = (uint8_t)w->here.byCpu;
	if (kind == chunkFetch)
		result = sendFetch(lane, k);
	else
		bounceAimAtWindow(lane, k);
	if (result != fabricOk) {
		bounceGive(lane, k);
		return result;
	}
	if (kind == chunkRead)
		bounceQueue(lane, &peer->bounce.loose, k);
	bounceBegun(k);
	return fabricOk;
}

static int startCopyIn(struct networkLane *lane, struct bounceChunk *k)
{
	const struct copyOrder order = {.to = k->target,
					.from = k->local,
					.bytes = k->bytes,
					.direction = copyIn,
					.byCpu = k->targetByCpu};
	int result = copiesStart(&lane->bounce->copies, &order, &k->copy);

	k->isCopying = result == fabricOk;
	return result == fabricFailed ? bounceCopyFailed(lane) : result;
}

void bounceStartCopies(struct networkLane *lane, struct bounceList *list)
{
	for (struct bounceChunk *k = list->first; k; k = k->next)
		if (!k->isCopying && startCopyIn(lane, k) != fabricOk)
			return;
}

int bounceCopied(struct networkLane *lane, struct bounceChunk *k)
{
	int result = k->isCopying ? fabricOk : startCopyIn(lane, k);

	if (result != fabricOk)
		return result;
	return copiesIsMade(&lane->bounce->copies, k->copy) ? fabricOk : fabricBusy;
}

struct bounceChunk *bounceReplyTo(struct networkLane *lane, struct networkPeer *peer,
				  const struct message *m)
{
	struct bounceChunk *k = bounceTake(lane, peer, chunkReply, slotReply);
	const struct bounceOffer *theirs = &peer->bounce.offer;

	if (!k)
		return NULL;
	k->number = m->number;
	k->bytes = (uint32_t)m->operand;
	k->remote = theirs->memory;
	k->remote.address += bounceSlotAt(theirs, (uint32_t)lane->scope->host->rank, slotGet,
					  (uint32_t)(m->operand >> 32));
	return k;
}
