/* SPDX-License-Identifier: BSD-3-Clause */
/* put.c - puts through slots: chunks to landing slots (chunkPut) and to windows (chunkWrite) */
#include "bounce.h"
#include "network.h"

static int takeLanding(struct bounceChunk *k)
{
	struct bouncePeer *p = &k->peer->bounce;

	if (!p->landings)
		return 0;
	k->landing = (uint8_t)__builtin_ctz(p->landings);
	p->landings &= ~(1u << k->landing);
	return 1;
}

/* Where the chunk's bytes go at the peer. 0: no landing slot is free. */
static int aim(const struct networkLane *lane, struct bounceChunk *k)
{
	const struct bounceOffer *o = &k->peer->bounce.offer;

	if (k->kind == chunkWrite) {
		bounceAimAtWindow(lane, k);
		return 1;
	}
	if (!takeLanding(k))
		return 0;
	k->remote = o->memory;
	k->remote.address += bounceLandingAt(o, (uint32_t)lane->scope->host->rank, k->landing);
	k->named = spotNamed(&k->work->there, k->work->peer) + k->peer->sent;
	return 1;
}

/* Starts the copy out of the source, unless the network reads the source. */
static int copyOutOf(struct networkLane *lane, struct bounceChunk *k)
{
	const struct proxyWork *w = k->work;
	const char *source = w->op == ginOpPutValue ? (const char *)w->value : w->here.at;
	const char *from = source + k->peer->sent;
	const struct copyOrder order = {.to = k->local,
					.from = from,
					.bytes = k->bytes,
					.direction = copyOut,
					.byCpu = w->here.byCpu};

	if (k->slotKind == slotNone) {
		k->local = (char *)(uintptr_t)from;
		return fabricOk;
	}
	int result = copiesStart(&lane->bounce->copies, &order, &k->copy);
	return result == fabricFailed ? bounceCopyFailed(lane) : result;
}

static int putChunk(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	enum bounceSlot slot = bouncesHere(lane, w) ? slotSend : slotNone;
	struct bounceChunk *k =
		bounceTakeFor(lane, peer, w, bouncesThere(w) ? chunkPut : chunkWrite, slot);

	if (!k)
		return fabricBusy;
	int result = aim(lane, k) ? copyOutOf(lane, k) : fabricBusy;
	if (result != fabricOk) {
		bounceGive(lane, k);
		return result;
	}
	bounceQueue(lane, &peer->bounce.ordered, k);
	bounceBegun(k);
	return fabricOk;
}

static int sendValue(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	const struct messageOut out = {.work = w};
	int result = networkRoom(lane, peer);

	if (result != fabricOk)
		return result;
	struct message m = networkMessage(lane, peer, messageValue);
	m.bytes = (uint8_t)w->bytes;
	m.named = spotNamed(&w->there, w->peer);
	m.operand = w->value[0];
	m.compare = w->value[1];
	result = networkSend(lane, peer, &m, &out);
	if (result == fabricOk)
		peer->sent = w->bytes;
	return result;
}

int bouncePut(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	if (w->op == ginOpPutValue && w->bytes <= MESSAGE_VALUE)
		return sendValue(lane, peer, w);
	return putChunk(lane, peer, w);
}

int bounceSendLanded(struct networkLane *lane, struct bounceChunk *k)
{
	struct networkPeer *peer = k->peer;
	const struct messageOut out = {.work = k->work, .landing = (uint8_t)(k->landing + 1)};
	int result = networkRoom(lane, peer);

	if (result != fabricOk)
		return result;
	struct message m = networkMessage(lane, peer, messageLanded);
	m.named = k->named;
	m.operand = messageSlot(k->landing, k->bytes);
	result = networkSend(lane, peer, &m, &out);
	if (result == fabricOk)
		k->landing = BOUNCE_NONE; /* the cursor frees it */
	return result;
}

int bounceWord(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	struct bounceChunk *k = bounceTake(lane, peer, chunkWord, slotNone);

	if (!k)
		return fabricBusy;
	k->work = w;
	bounceQueue(lane, &peer->bounce.ordered, k);
	w->landsAt++;
	return fabricOk;
}
