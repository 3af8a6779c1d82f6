/* SPDX-License-Identifier: BSD-3-Clause */
/* chunks.c - cuts works into chunks, gives the chunks to the fabric, and ends them */
#include "bounce.h"
#include "network.h"

/* A put has at least this many chunks, unless they would be shorter than LEAST. */
#define CHUNKS 4u
#define LEAST 65536u

void bounceQueue(struct networkLane *lane, struct bounceList *list, struct bounceChunk *k)
{
	k->next = NULL;
	if (list->first)
		list->last->next = k;
	else
		list->first = k;
	list->last = k;
	bounceActivate(lane, k->peer);
}

static struct bounceChunk *removeFirst(struct bounceList *list)
{
	struct bounceChunk *k = list->first;

	list->first = k->next;
	return k;
}

static const struct networkWindow *windowAt(const struct proxyWork *w)
{
	return w->there.window->link[TRANSPORT_NETWORK];
}

int bouncesThere(const struct proxyWork *w)
{
	return windowAt(w)->part[w->peer].bounces;
}

int bouncesHere(const struct networkLane *lane, const struct proxyWork *w)
{
	int isReached = w->here.byCpu || lane->reachesGpu;

	return w->op != ginOpPutValue && (!isReached || lane->bouncesAll);
}

int bounceNeeds(const struct networkLane *lane, const struct proxyWork *w)
{
	return bouncesThere(w) || bouncesHere(lane, w);
}

/* A work lacks slots only with GIN_BOUNCE=never on some rank. */
int bounceLacks(const struct networkLane *lane, const struct proxyWork *w)
{
	int own = bouncesHere(lane, w) || (w->op == ginOpGet && bouncesThere(w));

	if (!lane->bounce)
		return own || bouncesThere(w);
	return (own && !lane->bounce->memory) ||
	       (bouncesThere(w) && !lane->peer[w->peer].bounce.offer.slotBytes);
}

static uint32_t leastOf(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* No aligned word of the target is cut: its two pieces would not arrive at the same time. */
static uint64_t cutAtWord(uint64_t targetAt, uint64_t bytes)
{
	uint64_t beyond = (targetAt + bytes) % 8;

	return bytes > beyond ? bytes - beyond : bytes;
}

/* Where the work's bytes from `from` on go, modulo 8. */
static uint64_t targetSkew(const struct proxyWork *w, uint64_t from)
{
	const struct proxyPart *part = &w->there.window->part[w->peer];
	uint64_t at = w->op == ginOpGet ? (uintptr_t)w->here.at : part->skew + w->there.offset;

	return (at + from) % 8;
}

static uint32_t chunkBytes(const struct networkLane *lane, const struct networkPeer *peer,
			   const struct proxyWork *w)
{
	const struct bounceOffer *own = &lane->bounce->offer, *theirs = &peer->bounce.offer;
	uint64_t left = w->bytes - peer->sent, part = w->bytes / CHUNKS;
	uint32_t most = own->slotBytes ? own->slotBytes : theirs->slotBytes;

	if (theirs->slotBytes)
		most = leastOf(most, theirs->slotBytes);
	if (part > LEAST && part < most)
		most = (uint32_t)part;
	return (uint32_t)(left <= most ? left : cutAtWord(targetSkew(w, peer->sent), most));
}

struct bounceChunk *bounceTakeFor(struct networkLane *lane, struct networkPeer *peer,
				  struct proxyWork *w, enum bounceKind kind, enum bounceSlot slot)
{
	struct bounceChunk *k = bounceTake(lane, peer, kind, slot);

	if (!k)
		return NULL;
	k->work = w;
	k->bytes = chunkBytes(lane, peer, w);
	return k;
}

void bounceAimAtWindow(const struct networkLane *lane, struct bounceChunk *k)
{
	const struct proxyWork *w = k->work;

	k->remote = networkKeyOf(lane, &windowAt(w)->part[w->peer]);
	k->remote.address += w->there.offset + k->peer->sent;
}

void bounceBegun(struct bounceChunk *k)
{
	k->work->landsAt++;
	k->peer->sent += k->bytes;
}

int bounceData(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	int result = fabricOk;

	while (peer->sent < w->bytes && result == fabricOk)
		result = w->op == ginOpGet ? bounceGet(lane, peer, w) : bouncePut(lane, peer, w);
	return result;
}

/* The chunk is done, or has failed: its slot is free. */
static void complete(struct networkLane *lane, struct bounceChunk *k)
{
	struct proxyWork *w = k->work;

	if (w && k->peer->isLost)
		w->result = ginErrorPeer;
	bounceGive(lane, k);
	if (w)
		networkLanded(lane, w);
}

/* The fabric has taken all of the chunk and has done it. */
static void chunkMoved(struct networkLane *lane, struct bounceChunk *k)
{
	if (k->peer->isLost) {
		complete(lane, k);
	} else if (k->kind == chunkRead) {
		bounceQueue(lane, &k->peer->bounce.arrived, k);
	} else if (k->kind == chunkPut && k->landing != BOUNCE_NONE) {
		bounceQueue(lane, &k->peer->bounce.landed, k);
	} else {
		if (k->kind == chunkReply)
			networkOweAnswer(lane, k->peer, k->number);
		complete(lane, k);
	}
}

void bounceDone(struct networkLane *lane, struct bounceChunk *k, int error)
{
	k->inAir--;
	if (error)
		networkLose(lane, networkRank(lane, k->peer), "its network refuses an operation");
	if (k->isGiven && !k->inAir)
		chunkMoved(lane, k);
}

/* Gives the fabric the rest of the chunk. */
static int giveBytes(struct networkLane *lane, struct bounceChunk *k)
{
	uint64_t peer = k->peer->address;
	int result = fabricOk;

	while (k->given < k->bytes && result == fabricOk) {
		uint64_t left = k->bytes - k->given;
		const struct fabricPiece piece = {k->local + k->given,
						  left < lane->mostBytes ? left : lane->mostBytes,
						  {k->remote.address + k->given, k->remote.key},
						  0};
		if (k->kind == chunkRead)
			result = lane->fabric->read(lane->end, peer, &piece, k);
		else
			result = lane->fabric->write(lane->end, peer, &piece, NULL, k);
		if (result == fabricOk) {
			k->given += (uint32_t)piece.bytes;
			k->inAir++;
		}
	}
	return result;
}

static int giveChunk(struct networkLane *lane, struct bounceChunk *k)
{
	if (k->kind == chunkWord)
		return networkSendWord(lane, k->peer, k->work);
	if (!copiesIsMade(&lane->bounce->copies, k->copy))
		return fabricBusy;
	int result = giveBytes(lane, k);
	if (result == fabricOk && k->kind == chunkPut && lane->isOrdered)
		result = bounceSendLanded(lane, k);
	return result;
}

static void chunkGiven(struct networkLane *lane, struct bounceChunk *k)
{
	k->isGiven = 1;
	if (!k->inAir)
		chunkMoved(lane, k);
}

/*
 * Calls `step` for the chunks of a peer in order while it returns fabricOk; `then` ends each chunk.
 */
static int drainList(struct networkLane *lane, struct bounceList *list,
		     int (*step)(struct networkLane *lane, struct bounceChunk *k),
		     void (*then)(struct networkLane *lane, struct bounceChunk *k))
{
	int result = fabricOk;

	while (list->first && !list->first->peer->isLost && result == fabricOk) {
		result = step(lane, list->first);
		if (result == fabricOk)
			then(lane, removeFirst(list));
	}
	return result;
}

static void turnPeer(struct networkLane *lane, struct networkPeer *peer)
{
	struct bouncePeer *p = &peer->bounce;
	int failed;

	bounceStartCopies(lane, &p->arrived);
	failed = drainList(lane, &p->arrived, bounceCopied, complete) == fabricFailed;
	failed |= drainList(lane, &p->landed, bounceSendLanded, complete) == fabricFailed;
	failed |= drainList(lane, &p->ordered, giveChunk, chunkGiven) == fabricFailed;
	failed |= drainList(lane, &p->loose, giveChunk, chunkGiven) == fabricFailed;
	networkAdvance(lane, peer);
	if (failed)
		networkLose(lane, networkRank(lane, peer), "its network refuses an operation");
}

static int isBusy(const struct networkPeer *peer)
{
	const struct bouncePeer *p = &peer->bounce;

	return p->ordered.first || p->loose.first || p->landed.first || p->arrived.first ||
	       networkIsBehind(peer->channel);
}

void bounceTurn(struct networkLane *lane)
{
	struct networkPeer **at = &lane->bounce->active;

	while (*at) {
		struct networkPeer *peer = *at;
		turnPeer(lane, peer);
		if (!peer->isLost && isBusy(peer)) {
			at = &peer->bounce.nextActive;
			continue;
		}
		peer->bounce.isActive = 0;
		*at = peer->bounce.nextActive;
	}
}

/* Chunks with operations in flight end when the operations are done. */
static void failList(struct networkLane *lane, struct bounceList *list)
{
	while (list->first) {
		struct bounceChunk *k = removeFirst(list);
		k->isGiven = 1;
		if (!k->inAir)
			complete(lane, k);
	}
}

void bounceLose(struct networkLane *lane, struct networkPeer *peer)
{
	struct bouncePeer *p = &peer->bounce;

	if (!lane->bounce)
		return;
	failList(lane, &p->ordered);
	failList(lane, &p->loose);
	failList(lane, &p->landed);
	failList(lane, &p->arrived);
}
