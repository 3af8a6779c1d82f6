/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * network.c - the transport over a network, by a plug-in with a fabric
 *
 * Data goes by writes and reads of the fabric, words by messages (message.h). An ordered fabric
 * carries a word right after the data of its work; else the word is sent when the data has landed.
 */
#include <arpa/inet.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/log.h"
#include "load.h"
#include "network.h"

/* Most events that one call of receive() takes from the fabric. */
#define EVENTS 64

struct networkTransport {
	const struct transportScope *scope;
	const struct fabricCalls *calls;
	struct fabricAbout about;
	struct fabric *fabric;
	struct networkLane *lane[];
};

/* A window that is registered with the fabric. */
struct networkWindow {
	struct fabricRegion *region; /* NULL: empty */
	struct fabricKey key[];	     /* [nRanks] */
};

static ginResult_t networkFail(const char *what, const char *why)
{
	return fail(ginErrorSystem, "%s: %s", what, why);
}

struct messageChannel *networkChannel(struct networkLane *lane, uint32_t rank)
{
	struct networkPeer *peer = &lane->peer[rank];

	if (!peer->channel)
		peer->channel = calloc(1, sizeof(*peer->channel));
	if (!peer->channel)
		networkLose(lane, rank, "no memory for messages of its proxy");
	return peer->channel;
}

void networkLanded(struct networkLane *lane, struct proxyWork *w)
{
	if (--w->landsAt)
		return;
	w->nextSent = NULL;
	if (lane->head)
		lane->tail->nextSent = w;
	else
		lane->head = w;
	lane->tail = w;
}

static void failPart(struct networkLane *lane, struct proxyWork *w)
{
	w->result = ginErrorPeer;
	networkLanded(lane, w);
}

/* It is not known which of the messages the peer has done. */
static void failMessages(struct networkLane *lane, struct messageChannel *c)
{
	for (uint32_t n = c->low; n != c->next; n++) {
		struct messageOut *out = &c->out[n % MESSAGES];
		int isDone = c->acknowledged - n - 1 < 1u << 31 &&
			     (!out->wantsAnswer || out->isAnswered);
		if (!isDone)
			failPart(lane, out->work);
	}
	c->low = c->acknowledged = c->next;
}

void networkLose(struct networkLane *lane, uint32_t rank, const char *why)
{
	struct networkPeer *peer = &lane->peer[rank];

	if (peer->isLost)
		return;
	peer->isLost = 1;
	if (peer->channel)
		failMessages(lane, peer->channel);
	lane->scope->host->peerFailed(lane->scope->host->core, (int)rank, why);
}

static uint64_t dataBytes(const struct proxyWork *w)
{
	return w->op <= ginOpGet ? w->bytes : 0;
}

/* Gives the fabric the data from peer->sent on, in pieces. */
static int sendData(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	const struct networkWindow *there = w->there.window->link[TRANSPORT_NETWORK];
	const struct fabricKey *key = &there->key[w->peer];
	char *here = w->op == ginOpPutValue ? (char *)w->value : w->here.at;
	int result = fabricOk;

	while (peer->sent < w->bytes && result == fabricOk) {
		uint64_t left = w->bytes - peer->sent;
		const struct fabricPiece piece = {
			here + peer->sent,
			left < lane->mostBytes ? left : lane->mostBytes,
			{key->address + w->there.offset + peer->sent, key->key}};
		result = (w->op == ginOpGet ? lane->fabric->read : lane->fabric->write)(
			lane->end, peer->address, &piece, w);
		if (result == fabricOk) {
			peer->sent += piece.bytes;
			w->landsAt++;
		}
	}
	return result;
}

static int sendWord(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	struct messageChannel *c = networkChannel(lane, w->peer);

	if (!c)
		return fabricFailed;
	if (!messageHasRoom(c))
		return fabricBusy;
	const struct message m = messageOf(c, (uint32_t)lane->scope->host->rank, w);
	int result = lane->fabric->send(lane->end, peer->address, &m, messageLength(&m));
	if (result == fabricOk) {
		messageSent(c, w);
		c->told = m.cursor;
		w->landsAt++;
	}
	return result;
}

static int sendRest(struct networkLane *lane, struct networkPeer *peer, struct proxyWork *w)
{
	int result = dataBytes(w) ? sendData(lane, peer, w) : fabricOk;

	if (result == fabricOk && w->wordState == wordUnderWay)
		result = sendWord(lane, peer, w);
	return result;
}

static ginResult_t refused(struct networkLane *lane, uint32_t rank)
{
	networkLose(lane, rank, "its network refuses an operation");
	return ginErrorPeer;
}

/*
 * Goes on with a work. While it is begun, landsAt counts one more, so that the work does not land.
 * 0: the fabric has no room.
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

static ginResult_t networkStart(void *state, struct proxyWork *w)
{
	struct networkLane *lane = state;
	struct networkPeer *peer = &lane->peer[w->peer];

	if (!lane->end || peer->isLost)
		return ginErrorPeer;
	if (dataBytes(w) && !w->here.byCpu)
		return ginErrorUnsupported; /* GIN_WINDOW_LOCAL in GPU memory */
	if (peer->begun)
		return transportBusy; /* nothing overtakes it */
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

static ginResult_t networkRaise(void *state, struct proxyWork *w)
{
	struct networkLane *lane = state;
	struct networkPeer *peer = &lane->peer[w->peer];

	if (!lane->end || peer->isLost)
		return ginErrorPeer;
	w->landsAt = 0;
	int result = sendWord(lane, peer, w);
	if (result == fabricFailed)
		return refused(lane, w->peer);
	return result == fabricBusy ? transportBusy : ginSuccess;
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

static void loseAt(struct networkLane *lane, uint64_t address)
{
	for (int r = 0; r < lane->scope->host->nRanks; r++)
		if (lane->scope->serves[r] && lane->peer[r].address == address)
			networkLose(lane, (uint32_t)r, "a message over the network is lost");
}

static void handle(struct networkLane *lane, const struct fabricEvent *event)
{
	struct proxyWork *w = event->context;

	if (event->kind == fabricMessage) {
		networkReceive(lane, event->message, event->bytes);
		return;
	}
	if (event->kind == fabricLost) {
		loseAt(lane, event->peer);
		return;
	}
	if (event->error)
		w->result = (uint8_t)refused(lane, w->peer);
	networkLanded(lane, w);
}

static uint32_t networkReceiveAll(void *state)
{
	struct networkLane *lane = state;
	struct fabricEvent event[EVENTS];

	if (!lane->end)
		return 0;
	goOnAll(lane);
	int count = lane->fabric->poll(lane->end, event, EVENTS);
	for (int i = 0; i < count; i++)
		handle(lane, &event[i]);
	return (uint32_t)count;
}

static int networkArm(void *state)
{
	struct networkLane *lane = state;

	return lane->end && lane->fabric->arm && !lane->owing ? lane->fabric->arm(lane->end) : -1;
}

static void networkChain(void *state)
{
	struct networkLane *lane = state;

	if (lane->end)
		networkAcknowledge(lane);
}

static struct proxyWork *networkNext(void *state)
{
	struct networkLane *lane = state;
	struct proxyWork *w = lane->head;

	if (w)
		lane->head = w->nextSent;
	return w;
}

static void networkDrain(void *state)
{
	if (!networkReceiveAll(state))
		sched_yield();
	networkChain(state);
}

static void networkStop(void *state)
{
	struct networkLane *lane = state;

	if (lane->end)
		lane->fabric->endClose(lane->end);
	lane->end = NULL;
	lane->head = NULL;
	lane->begun = 0;
}

static void freeChannel(struct messageChannel *c)
{
	if (c)
		free(c->kept);
	free(c);
}

static void closeLane(struct networkLane *lane)
{
	if (!lane)
		return;
	networkStop(lane);
	for (int r = 0; r < lane->scope->host->nRanks; r++)
		freeChannel(lane->peer[r].channel);
	free(lane);
}

static void networkClose(void *state)
{
	struct networkTransport *t = state;

	for (uint32_t i = 0; i < t->scope->lanes; i++)
		closeLane(t->lane[i]);
	if (t->fabric)
		t->calls->close(t->fabric);
	free(t);
}

static ginResult_t openLane(struct networkTransport *t, struct networkLane **out)
{
	size_t n = (size_t)t->scope->host->nRanks;
	struct networkLane *lane = *out = calloc(1, sizeof(*lane) + n * sizeof(lane->peer[0]));

	if (!lane)
		return fail(ginErrorSystem, "no memory");
	lane->scope = t->scope;
	lane->fabric = t->calls;
	lane->mostBytes = t->about.mostBytes;
	return ginSuccess;
}

static int hasAddress(const struct identity *of, const struct netAddress *address)
{
	for (unsigned a = 0; a < of->addresses; a++)
		if (!memcmp(&of->address[a], address, sizeof(*address)))
			return 1;
	return 0;
}

/* Hosts with containers have one address in common, which leads to no other host. */
static int isOwn(const struct backendHost *host, const struct netAddress *address)
{
	for (int r = 0; r < host->nRanks; r++)
		if (!identitySameHost(&host->ranks[r], &host->ranks[host->rank]) &&
		    hasAddress(&host->ranks[r], address))
			return 0;
	return 1;
}

/* The first address of this rank's control plane that no other host has; alone: loopback. */
static void localAddress(const struct transportScope *scope, char *text, size_t room)
{
	const struct backendHost *host = scope->host;
	const struct identity *me = &host->ranks[host->rank];
	int leaves = 0;

	snprintf(text, room, "127.0.0.1");
	for (int r = 0; r < host->nRanks; r++)
		leaves |= scope->serves[r] && !identitySameHost(&host->ranks[r], me);
	for (unsigned a = 0; leaves && a < me->addresses; a++)
		if (isOwn(host, &me->address[a])) {
			inet_ntop(me->address[a].family, me->address[a].bytes, text,
				  (socklen_t)room);
			return;
		}
}

static ginResult_t openAll(struct networkTransport *t)
{
	char why[FABRIC_WHY] = "", local[INET6_ADDRSTRLEN];
	ginResult_t result = ginSuccess;

	localAddress(t->scope, local, sizeof(local));
	if (t->calls->open(local, &t->fabric, why))
		return networkFail(t->about.name, why);
	for (uint32_t i = 0; i < t->scope->lanes && result == ginSuccess; i++)
		result = openLane(t, &t->lane[i]);
	return result;
}

static ginResult_t networkOpen(const struct transportScope *scope, void **state)
{
	struct networkTransport *t = calloc(1, sizeof(*t) + scope->lanes * sizeof(t->lane[0]));

	if (!t)
		return fail(ginErrorSystem, "no memory");
	t->scope = scope;
	t->calls = networkLoaded(&t->about);
	ginResult_t result = openAll(t);
	if (result == ginSuccess)
		*state = t;
	else
		networkClose(t);
	return result;
}

static ginResult_t networkAddress(void *state, uint32_t index, void *address)
{
	struct networkTransport *t = state;
	char why[FABRIC_WHY] = "";

	if (t->calls->endOpen(t->fabric, &t->lane[index]->end, address, why))
		return networkFail(t->about.name, why);
	return ginSuccess;
}

static ginResult_t networkConnect(void *state, uint32_t index, int peer, const void *address)
{
	struct networkTransport *t = state;
	struct networkLane *lane = t->lane[index];
	char why[FABRIC_WHY] = "";

	if (t->calls->connect(lane->end, address, &lane->peer[peer].address, why))
		return networkFail(t->about.name, why);
	return ginSuccess;
}

static void *networkLaneOf(void *state, uint32_t index)
{
	struct networkTransport *t = state;

	return t->lane[index];
}

static enum transportOrder networkOrder(const void *state)
{
	const struct networkTransport *t = state;

	return t->about.ordered ? transportOrdered : transportUnordered;
}

static void networkWindowDeregister(void *state, void *link)
{
	struct networkTransport *t = state;
	struct networkWindow *w = link;

	if (w->region)
		t->calls->memoryRemove(w->region);
	free(w);
}

static ginResult_t networkWindowOffer(void *state, const struct memory *memory,
				      struct proxyOffer *offer, void **link)
{
	struct networkTransport *t = state;
	size_t n = (size_t)t->scope->host->nRanks;
	struct networkWindow *w = calloc(1, sizeof(*w) + n * sizeof(w->key[0]));
	struct fabricKey key = {0, 0};
	char why[FABRIC_WHY] = "";

	if (!w)
		return fail(ginErrorSystem, "no memory");
	*link = w;
	if (!memory->bytes)
		return ginSuccess;
	if (!proxyReachedByCpu(t->scope->host->device, memory->kind))
		return fail(ginErrorUnsupported,
			    "the network of the proxy (%s) moves host memory only: allocate the "
			    "window by ginMemAllocHost()",
			    t->about.name);
	if (t->calls->memoryAdd(t->fabric, memory->address, memory->bytes, &w->region, &key, why))
		return networkFail(t->about.name, why);
	memcpy(offer->network, &key, sizeof(key));
	return ginSuccess;
}

static ginResult_t networkWindowRegister(void *state, ginResult_t mine, const uint8_t *offers,
					 size_t stride, void *link)
{
	struct networkTransport *t = state;
	struct networkWindow *w = link;

	for (int r = 0; r < t->scope->host->nRanks && mine == ginSuccess; r++)
		memcpy(&w->key[r],
		       offers + (size_t)r * stride + offsetof(struct proxyOffer, network),
		       sizeof(w->key[r]));
	return mine;
}

static void networkWindowDescribe(void *state, void *link, int peer, struct proxyPart *part)
{
	(void)state, (void)link, (void)peer;
	part->isReached = 1;
}

static int networkReach(const struct backendHost *host, int peer, const void *mine,
			const void *theirs, char *why)
{
	(void)host, (void)peer;
	return networkReaches(mine, theirs, why);
}

const struct transportOps transportNetwork = {
	.name = "network",
	.reach = networkReach,
	.open = networkOpen,
	.close = networkClose,
	.address = networkAddress,
	.connect = networkConnect,
	.lane = networkLaneOf,
	.order = networkOrder,
	.windowOffer = networkWindowOffer,
	.windowRegister = networkWindowRegister,
	.windowDeregister = networkWindowDeregister,
	.windowDescribe = networkWindowDescribe,
	.start = networkStart,
	.raise = networkRaise,
	.receive = networkReceiveAll,
	.arm = networkArm,
	.chain = networkChain,
	.landed = networkNext,
	.drain = networkDrain,
	.stop = networkStop,
};
