/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lane.c - a lane of the network transport: data by writes and reads, words by messages
 *
 * An ordered fabric carries a word right after the data of its work; otherwise the word is sent
 * when the data has landed.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/serial.h"
#include "network.h"

/* Most events that one call of receive() takes from the fabric. */
#define EVENTS 64

struct messageChannel *networkChannelOpen(struct networkLane *lane, uint32_t rank)
{
	struct networkPeer *peer = &lane->peer[rank];
	struct messageChannel *c = calloc(1, sizeof(*c));

	peer->channel = c;
	if (!c) {
		networkLose(lane, rank, "no memory for messages of its proxy");
		return NULL;
	}
	c->next = c->acknowledged = c->low = FIRST_SERIAL;
	c->expected = c->begun = c->cursorSent = FIRST_SERIAL;
	return c;
}

void networkLanded(struct networkLane *lane, struct proxyWork *w)
{
	if (--w->landsAt)
		return;
	workAppend(&lane->head, &lane->tail, w);
}

static void failPart(struct networkLane *lane, struct proxyWork *w)
{
	w->result = ginErrorPeer;
	networkLanded(lane, w);
}

/* A chunk of a get. The peer may still write into the slot, which no other peer uses. */
static void failChunk(struct networkLane *lane, struct bounceChunk *chunk)
{
	struct proxyWork *w = chunk->work;

	bounceGive(lane, chunk);
	failPart(lane, w);
}

/* The peer may have done any of the messages: all that it has not acknowledged fail. */
static void failMessages(struct networkLane *lane, struct messageChannel *c)
{
	for (uint32_t n = c->low; n != c->next; n++) {
		struct messageOut *out = &c->out[n % MESSAGES];
		int isDone = c->acknowledged - n - 1 < 1u << 31 &&
			     (!out->wantsAnswer || out->isAnswered);
		if (!isDone)
			failPart(lane, out->work);
		if (out->chunk && !out->isAnswered)
			failChunk(lane, out->chunk);
	}
	c->low = c->acknowledged = c->next;
}

void networkLose(struct networkLane *lane, uint32_t rank, const char *why)
{
	const struct backendHost *host = lane->scope->host;
	struct networkPeer *peer = &lane->peer[rank];
	char sentence[2 * BACKEND_WHY];

	if (peer->isLost)
		return;
	peer->isLost = 1;
	if (lane->wordPeer == peer)
		lane->wordPeer = NULL;
	networkStopWaiting(lane, peer);
	if (peer->channel)
		failMessages(lane, peer->channel);
	bounceLose(lane, peer);
	snprintf(sentence, sizeof(sentence), "rank %u (host %.63s) is lost: %.160s", rank,
		 host->ranks[rank].host, why);
	/* Another rank may have reported a failure that follows from this one. */
	logWrite(logInfo, "%s", sentence);
	host->peerFailed(host->core, (int)rank, sentence);
}

static uint64_t dataBytes(const struct proxyWork *w)
{
	return w->op <= ginOpGet ? w->bytes : 0;
}

/* Gives the fabric the next piece of the data, with the immediate if there is one. */
static int sendPiece(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w,
		     const uint32_t *immediate)
{
	const struct networkWindow *there = w->there.window->link[TRANSPORT_NETWORK];
	const struct fabricKey key = networkKeyOf(lane, &there->part[w->peer]);
	char *here = w->op == ginOpPutValue ? (char *)w->value : w->here.at;
	uint64_t left = w->bytes - peer->sent;
	const struct fabricPiece piece = {here + peer->sent,
					  left < lane->mostBytes ? left : lane->mostBytes,
					  {key.address + w->there.offset + peer->sent, key.key},
					  lane->isOrdered && w->wordState == wordUnderWay};
	int result;

	if (w->op == ginOpGet)
		result = lane->fabric->read(lane->end, peer->address, &piece, w);
	else
		result = lane->fabric->write(lane->end, peer->address, &piece, immediate, w);
	if (result == fabricOk) {
		peer->sent += piece.bytes;
		w->landsAt++;
	}
	return result;
}

/* Gives the fabric the data from peer->sent to `end`, which ends a piece. */
static int sendData(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w,
		    uint64_t end)
{
	int result = fabricOk;

	while (peer->sent < end && result == fabricOk)
		result = sendPiece(lane, peer, w, NULL);
	return result;
}

int networkRoom(struct networkLane *lane, struct networkPeer *peer)
{
	if (!peer->channel && !networkChannelOpen(lane, networkRank(lane, peer)))
		return fabricFailed;
	return messageHasRoom(peer->channel) ? fabricOk : fabricBusy;
}

int networkSend(struct networkLane *lane, struct networkPeer *peer, const struct message *m,
		const struct messageOut *out)
{
	int result = networkTransmit(lane, peer, m);

	if (result != fabricOk)
		return result;
	messageSent(peer->channel, out);
	peer->channel->cursorSent = m->cursor;
	out->work->landsAt++;
	return fabricOk;
}

/* Sends the message that changes the work's word. `withData`: it stores the work's data first. */
static int sendMessage(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w,
		       int withData)
{
	int result = networkRoom(lane, peer);

	if (result != fabricOk)
		return result;
	const struct message m =
		messageOf(peer->channel, (uint32_t)lane->scope->host->rank, w, withData);
	const struct messageOut out = {.work = w, .wantsAnswer = m.wantsAnswer};
	return networkSend(lane, peer, &m, &out);
}

int networkSendWord(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	return sendMessage(lane, peer, w, 0);
}

/* Can the immediate of the last write name the word? That saves a message. */
static int fitsImmediate(const struct networkLane *lane, const struct networkPeer *peer,
			 const struct proxyWork *w)
{
	return lane->hasImmediates && w->wordState == wordUnderWay && w->op != ginOpGet &&
	       dataBytes(w) && peer->sent < w->bytes && !peer->bounce.ordered.first &&
	       !bounceNeeds(lane, w) && messageFitsImmediate(w);
}

/* The data, and the word by an immediate. */
static int sendWithImmediate(struct networkLane *lane, struct networkPeer *peer,
			     struct proxyWork *w)
{
	struct messageChannel *c = networkChannel(lane, w->peer);
	const struct messageOut out = {.work = w};

	if (!c)
		return fabricFailed;
	int result = sendData(lane, peer, w, (w->bytes - 1) / lane->mostBytes * lane->mostBytes);
	if (result != fabricOk)
		return result;
	if (!messageHasRoom(c))
		return fabricBusy;
	uint32_t immediate = messageImmediate(c, w);
	result = sendPiece(lane, peer, w, &immediate);
	if (result == fabricOk) {
		messageSent(c, &out);
		w->landsAt++;
	}
	return result;
}

/* A word follows the data of earlier works, which may not be given to the fabric yet. */
static int passWord(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	if (peer->bounce.ordered.first)
		return bounceWord(lane, peer, w);
	return networkSendWord(lane, peer, w);
}

static int sendRest(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	int result = fabricOk;

	if (fitsImmediate(lane, peer, w))
		return sendWithImmediate(lane, peer, w);
	if (dataBytes(w))
		result = bounceNeeds(lane, w) ? bounceData(lane, peer, w)
					      : sendData(lane, peer, w, w->bytes);
	if (result == fabricOk && w->wordState == wordUnderWay)
		result = passWord(lane, peer, w);
	return result;
}

static ginResult_t refused(struct networkLane *lane, uint32_t rank)
{
	networkLose(lane, rank, "its network refuses an operation");
	return ginErrorPeer;
}

/* The work lands when the peer has done the message. */
static ginResult_t startMessage(struct networkLane *lane, struct networkPeer *peer,
				struct proxyWork *w, int withData)
{
	w->landsAt = 0;
	int result = sendMessage(lane, peer, w, withData);
	if (result == fabricFailed)
		return refused(lane, w->peer);
	return result == fabricBusy ? transportBusy : ginSuccess;
}

/*
 * Continues a work. Until all of it is given to the fabric, landsAt counts one more, so that it
 * does not land. 0: the fabric has no room.
 */
static int goOn(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	int result = peer->isLost ? fabricFailed : sendRest(lane, peer, w);

	if (result == fabricBusy)
		return 0;
	if (result == fabricFailed)
		w->result = (uint8_t)refused(lane, w->peer);
	networkLanded(lane, w);
	return 1;
}

/* Can the word's message carry the data? */
static int fitsMessage(const struct networkLane *lane, const struct proxyWork *w)
{
	return w->op != ginOpGet && w->bytes <= MESSAGE_DATA &&
	       (w->op == ginOpPutValue || w->here.byCpu) && w->there.window->part[w->peer].byCpu &&
	       !lane->bouncesAll;
}

/*
 * Can the work be one message? A second one costs as much as the first. But the word follows the
 * data of earlier works, which may not be given to the fabric yet.
 */
static int isMessage(const struct networkLane *lane, const struct networkPeer *peer,
		     const struct proxyWork *w)
{
	return w->wordState == wordUnderWay && !peer->bounce.ordered.first &&
	       (!dataBytes(w) || fitsMessage(lane, w));
}

ginResult_t networkStart(void *state, struct proxyWork *w)
{
	struct networkLane *lane = state;
	struct networkPeer *peer = &lane->peer[w->peer];

	if (!lane->end || peer->isLost)
		return ginErrorPeer;
	if (peer->begun)
		return transportBusy; /* nothing overtakes it */
	lane->glancesUntil = 0;
	if (isMessage(lane, peer, w))
		return startMessage(lane, peer, w, dataBytes(w) != 0);
	if (dataBytes(w) && bounceLacks(lane, w))
		return ginErrorUnsupported; /* GIN_BOUNCE=never */
	w->landsAt = 1;
	peer->sent = 0;
	if (goOn(lane, peer, w))
		return ginSuccess;
	if (w->landsAt == 1)
		return transportBusy;
	peer->begun = w;
	lane->begun++;
	return ginSuccess;
}

ginResult_t networkRaise(void *state, struct proxyWork *w)
{
	struct networkLane *lane = state;
	struct networkPeer *peer = &lane->peer[w->peer];

	if (!lane->end || peer->isLost)
		return ginErrorPeer;
	lane->glancesUntil = 0;
	return startMessage(lane, peer, w, 0);
}

static void goOnAll(struct networkLane *lane)
{
	for (int r = 0; lane->begun && r < lane->scope->host->nRanks; r++) {
		struct networkPeer *peer = &lane->peer[r];
		if (peer->begun && goOn(lane, peer, peer->begun)) {
			peer->begun = NULL;
			lane->begun--;
		}
	}
}

/* The rank with this address of the fabric; nRanks: none. */
static int rankAt(const struct networkLane *lane, uint64_t address)
{
	int r = 0;

	while (r < lane->scope->host->nRanks &&
	       (!lane->scope->serves[r] || lane->peer[r].address != address))
		r++;
	return r;
}

static void loseAt(struct networkLane *lane, uint64_t address, const char *why)
{
	int r = rankAt(lane, address);

	if (r < lane->scope->host->nRanks)
		networkLose(lane, (uint32_t)r, why ? why : "a message over the network is lost");
}

/* The sentence also appears on other ranks. */
static void loseAll(struct networkLane *lane, const char *why)
{
	char sentence[BACKEND_WHY];

	snprintf(sentence, sizeof(sentence), "the NIC of rank %d has failed: %.120s",
		 lane->scope->host->rank, why);
	for (int r = 0; r < lane->scope->host->nRanks; r++)
		if (lane->scope->serves[r])
			networkLose(lane, (uint32_t)r, sentence);
}

/* Returns 0 if the event is of another kind. */
static int handleState(struct networkLane *lane, const struct fabricEvent *event)
{
	if (event->kind == fabricLost)
		loseAt(lane, event->peer, event->why);
	else if (event->kind == fabricDown)
		loseAll(lane, event->why);
	else if (event->kind == fabricNotice)
		logWrite(logWarn, "%s", event->why);
	else
		return 0;
	return 1;
}

static void handle(struct networkLane *lane, const struct fabricEvent *event)
{
	struct proxyWork *w = event->context;

	if (event->kind == fabricMessage) {
		networkReceive(lane, event->message, event->bytes);
		return;
	}
	if (event->kind == fabricImmediate) {
		networkReceiveImmediate(lane, (uint32_t)rankAt(lane, event->peer),
					event->immediate);
		return;
	}
	if (handleState(lane, event))
		return;
	if (bounceOwns(lane->bounce, event->context)) {
		bounceDone(lane, event->context, event->error);
		return;
	}
	if (event->error)
		w->result = (uint8_t)refused(lane, w->peer);
	networkLanded(lane, w);
}

static void chainCopies(struct networkLane *lane)
{
	if (lane->bounce && copiesChain(&lane->bounce->copies) != fabricOk)
		bounceCopyFailed(lane);
}

/* Returns 1 as long as anything is in flight: only another pass finds out that copies are made. */
static uint32_t turnBounce(struct networkLane *lane)
{
	if (!bounceIsActive(lane->bounce))
		return 0;
	bounceTurn(lane);
	chainCopies(lane);
	return 1;
}

/* A work that waits for room needs polls. */
static int glances(struct networkLane *lane)
{
	if (!lane->glancesUntil)
		return 0;
	if (!lane->begun && clockNow() < lane->glancesUntil)
		return 1;
	lane->glancesUntil = 0;
	return 0;
}

uint32_t networkReceiveAll(void *state)
{
	struct networkLane *lane = state;
	struct fabricEvent event[EVENTS];

	if (!lane->end || glances(lane))
		return 0;
	if (lane->bounce)
		copiesRun(&lane->bounce->copies);
	goOnAll(lane);
	int count = lane->fabric->poll(lane->end, event, EVENTS);
	for (int i = 0; i < count; i++)
		handle(lane, &event[i]);
	return (uint32_t)count + turnBounce(lane);
}

int networkArm(void *state, int isBrief)
{
	struct networkLane *lane = state;

	if (!lane->end || !lane->fabric->arm || lane->owing || bounceIsActive(lane->bounce))
		return -1;
	return lane->fabric->arm(lane->end, isBrief);
}

void networkChain(void *state)
{
	struct networkLane *lane = state;

	if (!lane->end)
		return;
	chainCopies(lane);
	if (lane->owing)
		networkAcknowledge(lane);
	if (lane->fabric->submit)
		lane->fabric->submit(lane->end);
}

struct proxyWork *networkNext(void *state)
{
	struct networkLane *lane = state;
	struct proxyWork *w = lane->head;

	if (w)
		lane->head = w->nextSent;
	return w;
}

void networkDrain(void *state)
{
	if (!networkReceiveAll(state))
		sched_yield();
	networkChain(state);
}

void networkStop(void *state)
{
	struct networkLane *lane = state;

	if (lane->end)
		lane->fabric->endClose(lane->end);
	lane->end = NULL;
	lane->head = NULL;
	lane->begun = 0;
	bounceStop(lane);
}

static void freeChannel(struct messageChannel *c)
{
	if (c) {
		free(c->kept);
		free(c->copying);
	}
	free(c);
}

void networkLaneFree(struct networkLane *lane)
{
	if (!lane)
		return;
	networkStop(lane);
	if (lane->late)
		logWrite(logInfo,
			 "%llu late messages named windows that were gone, and were dropped",
			 (unsigned long long)lane->late);
	if (lane->forged)
		logWrite(logInfo, "%llu messages that no rank has sent were dropped",
			 (unsigned long long)lane->forged);
	for (int r = 0; r < lane->scope->host->nRanks; r++)
		freeChannel(lane->peer[r].channel);
	bounceClose(lane);
	deviceWordClose(&lane->word);
	free(lane);
}
