/* SPDX-License-Identifier: BSD-3-Clause */
/* send.c - this rank's puts and gets through slots, and its replies to peers' gets */
#include "bounce.h"
#include "network.h"

/* A put has at least so many chunks, unless they were shorter than LEAST. */
#define CHUNKS 4u
#define LEAST 65536u

static void append(struct bounceList *list, struct bounceChunk *k)
{
	k->next = NULL;
	if (list->first)
		list->last->next = k;
	else
		list->first = k;
	list->last = k;
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

static int thereBounces(const struct proxyWork *w)
{
	return windowAt(w)->part[w->peer].bounces;
}

static int hereBounces(const struct networkLane *lane, const struct proxyWork *w)
{
	int isReached = w->here.byCpu || lane->reachesGpu;

	return w->op != ginOpPutValue && (!isReached || lane->bouncesAll);
}

int bounceNeeds(const struct networkLane *lane, const struct proxyWork *w)
{
	return thereBounces(w) || hereBounces(lane, w);
}

/* Only with GIN_BOUNCE=never on some rank a work lacks slots. */
int bounceLacks(const struct networkLane *lane, const struct proxyWork *w)
{
	int own = hereBounces(lane, w) || (w->op == ginOpGet && thereBounces(w));

	if (!lane->bounce)
		return own || thereBounces(w);
	return (own && !lane->bounce->memory) ||
	       (thereBounces(w) && !lane->peer[w->peer].bounce.offer.slotBytes);
}

static uint32_t leastOf(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* No aligned word of the target is cut: its two parts would not arrive at one time. */
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

static int takeLanding(struct networkPeer *peer, struct bounceChunk *k)
{
	if (!peer->bounce.landings)
		return 0;
	k->landing = (uint8_t)__builtin_ctz(peer->bounce.landings);
	peer->bounce.landings &= ~(1u << k->landing);
	return 1;
}

/* Where the chunk's bytes go at the peer. 0: no landing slot is free. */
static int aim(const struct networkLane *lane, struct networkPeer *peer, struct bounceChunk *k)
{
	const struct proxyWork *w = k->work;
	uint32_t rank = (uint32_t)lane->scope->host->rank;
	const struct bounceOffer *o = &peer->bounce.offer;

	if (k->kind == chunkPut) {
		if (!takeLanding(peer, k))
			return 0;
		k->remote = o->memory;
		k->remote.address += bounceLandingAt(o, rank, k->landing);
		k->named = spotNamed(&w->there, w->peer) + peer->sent;
		return 1;
	}
	k->remote = networkKeyOf(lane, &windowAt(w)->part[w->peer]);
	k->remote.address += w->there.offset + peer->sent;
	return 1;
}

/* Starts the copy out of the source; or the network reads the source itself. */
static int copyOutOf(struct networkLane *lane, const struct networkPeer *peer,
		     struct bounceChunk *k)
{
	const struct proxyWork *w = k->work;
	const char *from = w->op == ginOpPutValue ? (const char *)w->value : w->here.at;
	const struct copyOrder order = {.to = k->local,
					.from = from + peer->sent,
					.bytes = k->bytes,
					.direction = copyOut,
					.byCpu = w->here.byCpu};

	if (k->slotKind == slotNone) {
		k->local = (char *)(uintptr_t)(from + peer->sent);
		return fabricOk;
	}
	int result = copiesStart(&lane->bounce->copies, &order, &k->copy);
	return result == fabricFailed ? bounceCopyFailed(lane) : result;
}

static int beginPut(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	enum bounceSlot slot = hereBounces(lane, w) ? slotSend : slotNone;
	struct bounceChunk *k =
		bounceTake(lane, peer, thereBounces(w) ? chunkPut : chunkWrite, slot);

	if (!k)
		return fabricBusy;
	k->work = w;
	k->bytes = chunkBytes(lane, peer, w);
	int result = aim(lane, peer, k) ? copyOutOf(lane, peer, k) : fabricBusy;
	if (result != fabricOk) {
		bounceGive(lane, k);
		return result;
	}
	append(&peer->bounce.ordered, k);
	bounceActivate(lane, peer);
	w->landsAt++;
	peer->sent += k->bytes;
	return fabricOk;
}

static int sendMessage(struct networkLane *lane, struct networkPeer *peer, const struct message *m,
		       const struct messageOut *out)
{
	struct messageChannel *c = peer->channel;
	int result = lane->fabric->send(lane->end, peer->address, m, messageLength(m));

	if (result != fabricOk)
		return result;
	messageSent(c, out);
	c->cursorSent = m->cursor;
	out->work->landsAt++;
	return fabricOk;
}

/* The channel with room for one message; or fabricBusy, or fabricFailed. */
static int channelOf(struct networkLane *lane, struct networkPeer *peer)
{
	const struct messageChannel *c = networkChannel(lane, networkRank(lane, peer));

	if (!c)
		return fabricFailed;
	return messageHasRoom(c) ? fabricOk : fabricBusy;
}

static struct message nextMessage(const struct networkLane *lane, const struct networkPeer *peer,
				  enum messageKind kind)
{
	return messageNext(peer->channel, (uint32_t)lane->scope->host->rank, kind);
}

static int sendValue(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	const struct messageOut out = {.work = w};
	int result = channelOf(lane, peer);

	if (result != fabricOk)
		return result;
	struct message m = nextMessage(lane, peer, messageValue);
	m.bytes = (uint8_t)w->bytes;
	m.named = spotNamed(&w->there, w->peer);
	m.operand = w->value[0];
	m.compare = w->value[1];
	result = sendMessage(lane, peer, &m, &out);
	if (result == fabricOk)
		peer->sent = w->bytes;
	return result;
}

/* The bytes are in the landing slot, or will be there before the message. */
static int sendLanded(struct networkLane *lane, struct networkPeer *peer, struct bounceChunk *k)
{
	const struct messageOut out = {.work = k->work, .landing = (uint8_t)(k->landing + 1)};
	int result = channelOf(lane, peer);

	if (result != fabricOk)
		return result;
	struct message m = nextMessage(lane, peer, messageLanded);
	m.named = k->named;
	m.operand = messageSlot(k->landing, k->bytes);
	result = sendMessage(lane, peer, &m, &out);
	if (result == fabricOk)
		k->landing = BOUNCE_NONE; /* the cursor frees it */
	return result;
}

static int sendFetch(struct networkLane *lane, struct networkPeer *peer, struct bounceChunk *k)
{
	const struct messageOut out = {.work = k->work, .chunk = k, .wantsAnswer = 1};
	int result = channelOf(lane, peer);

	if (result != fabricOk)
		return result;
	struct message m = nextMessage(lane, peer, messageFetch);
	m.wantsAnswer = 1;
	m.named = spotNamed(&k->work->there, k->work->peer) + peer->sent;
	m.operand = messageSlot(k->slot, k->bytes);
	return sendMessage(lane, peer, &m, &out);
}

static int beginGet(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	enum bounceKind kind = thereBounces(w) ? chunkFetch : chunkRead;
	struct bounceChunk *k = bounceTake(lane, peer, kind, slotGet);

	if (!k)
		return fabricBusy;
	k->work = w;
	k->bytes = chunkBytes(lane, peer, w);
	k->target = w->here.at + peer->sent;
	k->targetByCpu = (uint8_t)w->here.byCpu;
	aim(lane, peer, k);
	int result = kind == chunkFetch ? sendFetch(lane, peer, k) : fabricOk;
	if (result != fabricOk) {
		bounceGive(lane, k);
		return result;
	}
	if (kind == chunkRead)
		bounceQueueLoose(lane, k);
	w->landsAt++;
	peer->sent += k->bytes;
	return fabricOk;
}

static int beginNext(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	if (w->op == ginOpGet)
		return beginGet(lane, peer, w);
	if (w->op == ginOpPutValue && w->bytes <= MESSAGE_VALUE)
		return sendValue(lane, peer, w);
	return beginPut(lane, peer, w);
}

int bounceData(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	int result = fabricOk;

	while (peer->sent < w->bytes && result == fabricOk)
		result = beginNext(lane, peer, w);
	return result;
}

int bounceWord(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	struct bounceChunk *k = bounceTake(lane, peer, chunkWord, slotNone);

	if (!k)
		return fabricBusy;
	k->work = w;
	append(&peer->bounce.ordered, k);
	w->landsAt++;
	return fabricOk;
}

void bounceQueueLoose(struct networkLane *lane, struct bounceChunk *k)
{
	append(&k->peer->bounce.loose, k);
	bounceActivate(lane, k->peer);
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

/* The send slot may be used again at once; the chunk waits until `landed` is sent. */
static void awaitNotice(struct networkLane *lane, struct bounceChunk *k)
{
	append(&k->peer->bounce.landed, k);
	bounceActivate(lane, k->peer);
}

/* The fabric has taken all of the chunk and has done it. */
static void chunkMoved(struct networkLane *lane, struct bounceChunk *k)
{
	if (k->peer->isLost) {
		complete(lane, k);
	} else if (k->kind == chunkRead) {
		append(&k->peer->bounce.arrived, k);
		bounceActivate(lane, k->peer);
	} else if (k->kind == chunkPut && k->landing != BOUNCE_NONE) {
		awaitNotice(lane, k);
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

void bounceAnswered(struct networkLane *lane, struct bounceChunk *k)
{
	append(&k->peer->bounce.arrived, k);
	bounceActivate(lane, k->peer);
}

/* Gives the fabric the rest of the chunk. */
static int giveBytes(struct networkLane *lane, const struct networkPeer *peer,
		     struct bounceChunk *k)
{
	int result = fabricOk;

	while (k->given < k->bytes && result == fabricOk) {
		uint64_t left = k->bytes - k->given;
		const struct fabricPiece piece = {k->local + k->given,
						  left < lane->mostBytes ? left : lane->mostBytes,
						  {k->remote.address + k->given, k->remote.key}};
		if (k->kind == chunkRead)
			result = lane->fabric->read(lane->end, peer->address, &piece, k);
		else
			result = lane->fabric->write(lane->end, peer->address, &piece, NULL, k);
		if (result == fabricOk) {
			k->given += (uint32_t)piece.bytes;
			k->inAir++;
		}
	}
	return result;
}

static int giveChunk(struct networkLane *lane, struct networkPeer *peer, struct bounceChunk *k)
{
	if (k->kind == chunkWord)
		return networkSendWord(lane, peer, k->work);
	if (!copiesIsMade(&lane->bounce->copies, k->copy))
		return fabricBusy;
	int result = giveBytes(lane, peer, k);
	if (result == fabricOk && k->kind == chunkPut && lane->isOrdered)
		result = sendLanded(lane, peer, k);
	return result;
}

static int giveFirst(struct networkLane *lane, struct networkPeer *peer, struct bounceList *list)
{
	int result = giveChunk(lane, peer, list->first);

	if (result != fabricOk)
		return result;
	struct bounceChunk *k = removeFirst(list);
	k->isGiven = 1;
	if (!k->inAir)
		chunkMoved(lane, k);
	return fabricOk;
}

static int notifyFirst(struct networkLane *lane, struct networkPeer *peer, struct bounceList *list)
{
	int result = sendLanded(lane, peer, list->first);

	if (result == fabricOk)
		complete(lane, removeFirst(list));
	return result;
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

/* A get's bytes are copied out of its slot to the target. */
static int copyFirst(struct networkLane *lane, struct networkPeer *peer, struct bounceList *list)
{
	int result = list->first->isCopying ? fabricOk : startCopyIn(lane, list->first);

	(void)peer;
	if (result != fabricOk)
		return result;
	if (!copiesIsMade(&lane->bounce->copies, list->first->copy))
		return fabricBusy;
	complete(lane, removeFirst(list));
	return fabricOk;
}

typedef int (*listStep)(struct networkLane *lane, struct networkPeer *peer,
			struct bounceList *list);

static int drainList(struct networkLane *lane, struct networkPeer *peer, struct bounceList *list,
		     listStep step)
{
	int result = fabricOk;

	while (list->first && !peer->isLost && result == fabricOk)
		result = step(lane, peer, list);
	return result;
}

/* Starts the copies of all chunks that have arrived: copies and network overlap. */
static void startCopies(struct networkLane *lane, struct bounceList *list)
{
	for (struct bounceChunk *k = list->first; k; k = k->next)
		if (!k->isCopying && startCopyIn(lane, k) != fabricOk)
			return;
}

static void turnPeer(struct networkLane *lane, struct networkPeer *peer)
{
	struct bouncePeer *p = &peer->bounce;
	int failed;

	startCopies(lane, &p->arrived);
	failed = drainList(lane, peer, &p->arrived, copyFirst) == fabricFailed;
	failed |= drainList(lane, peer, &p->landed, notifyFirst) == fabricFailed;
	failed |= drainList(lane, peer, &p->ordered, giveFirst) == fabricFailed;
	failed |= drainList(lane, peer, &p->loose, giveFirst) == fabricFailed;
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

/* Chunks with operations in the air end when these are done. */
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
