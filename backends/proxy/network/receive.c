/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.c - executes a peer's messages, each exactly once and in the order of numbers
 *
 * Data in a landing slot is copied into its window; copies of several messages overlap. A word
 * waits for all of them. The cursor does not pass a message before its copy is made.
 *
 * A peer is trusted no more than a GPU: everything that a message names is checked against the
 * windows of this rank. A wrong message fails the peer. A message that names a window which this
 * rank has had is late: it changes nothing, gets no answer, and fails nobody.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/proxy/cpu_copy.h"
#include "backends/proxy/words/words.h"
#include "network.h"

static int isKnown(const struct message *m)
{
	if (m->op == ginOpPut || m->op == ginOpPutValue || m->op == ginOpSignal ||
	    m->op == ginOpBarrier)
		return messageWordBytes(m) == 8 && !m->wantsAnswer;
	return m->kind == messageWord && m->op >= ginOpFetchAdd && m->op <= ginOpSwap &&
	       (m->bytes == 4 || m->bytes == 8);
}

/* The place that a message names, after its checks. */
struct named {
	char *at;
	const struct proxyWindow *window;
	const struct proxyPart *own; /* this rank's part */
	uint64_t offset;
};

static uint32_t slotOf(uint64_t named)
{
	return (uint32_t)(named >> GIN_DESCRIPTOR_OFFSET_BITS) & (GIN_DESCRIPTOR_SLOTS - 1);
}

/* Returns NULL, or what is wrong. */
static const char *findNamed(const struct networkLane *lane, uint64_t named, uint64_t bytes,
			     struct named *out)
{
	uint64_t offset = named & ((1ull << GIN_DESCRIPTOR_OFFSET_BITS) - 1);
	const struct proxyWindow *w = slotsFind(lane->scope->slots, slotOf(named));

	if (!w)
		return "it names a window that is not registered";
	if (w->isLocal)
		return "it names a window that is local to this rank";
	const struct proxyPart *own = &w->part[w->rank];
	if (offset > own->bytes || bytes > own->bytes - offset)
		return "it goes beyond the end of a window";
	*out = (struct named){own->at + offset, w, own, offset};
	return NULL;
}

static const char *findWord(const struct networkLane *lane, const struct message *m,
			    struct named *out)
{
	uint32_t bytes = messageWordBytes(m);
	const char *wrong = findNamed(lane, m->named, bytes, out);

	if (wrong)
		return wrong;
	if (!out->own->isChangeable)
		return "it changes a word in GPU memory, which the proxy does not change";
	if ((out->own->skew + out->offset) & (bytes - 1))
		return "it changes a word that is not aligned";
	return NULL;
}

static const char *answerLater(struct messageChannel *c, uint32_t number, uint64_t old)
{
	if (c->endOwed - c->firstOwed >= MESSAGES)
		return "more atomics are under way than there is room for";
	c->owed[c->endOwed++ % MESSAGES] = (struct messageOwed){number, old};
	return NULL;
}

/* The outcome of an attempt to begin a message. */
struct begun {
	const char *wrong; /* the peer fails; NULL: nothing */
	int isBlocked;	   /* it begins later */
	copyTicket copy;   /* of its data, into the window */
	uint64_t old;	   /* the old value of its word */
};

static const struct begun blocked = {.isBlocked = 1};

static struct begun begunUnless(const char *wrong)
{
	return (struct begun){.wrong = wrong};
}

static int isBegun(const struct begun *out)
{
	return !out->wrong && !out->isBlocked;
}

/* Stores the data of a messagePut. */
static const char *doData(struct networkLane *lane, const struct message *m)
{
	struct named target;
	const char *wrong = findNamed(lane, m->target, m->bytes, &target);

	if (wrong)
		return wrong;
	if (!target.own->byCpu)
		return "its data is for GPU memory, which a CPU cannot change";
	copyByCpu(target.at, (const char *)m->data, m->bytes);
	return NULL;
}

/* Finishes the word of a message whose peer is lost, to free the lock. */
static void forgetWord(struct networkLane *lane)
{
	uint64_t old;

	if (!lane->wordPeer && lane->word.order.lock)
		deviceWordStep(&lane->word, &old);
}

/* The pointer to the peer in the lane's list, or to the list's end. */
static struct networkPeer **placeOf(struct networkLane *lane, const struct networkPeer *peer)
{
	struct networkPeer **at = &lane->waiting;

	while (*at && *at != peer)
		at = &(*at)->nextWaiting;
	return at;
}

void networkStopWaiting(struct networkLane *lane, struct networkPeer *peer)
{
	if (peer->isWaiting)
		*placeOf(lane, peer) = peer->nextWaiting;
	peer->nextWaiting = NULL;
	peer->isWaiting = 0;
}

/*
 * Serves peers in order of arrival, so that a busy peer cannot starve the one that would release a
 * lock the busy peer polls. Returns whether the peer is the first.
 */
static int waitInTurn(struct networkLane *lane, struct networkPeer *peer)
{
	if (!peer->isWaiting)
		*placeOf(lane, peer) = peer;
	peer->isWaiting = 1;
	return lane->waiting == peer;
}

static struct begun ofWord(ginResult_t result)
{
	if (result == transportBusy)
		return blocked;
	return begunUnless(result == ginSuccess ? NULL
						: "its word in GPU memory cannot be changed");
}

/* Blocked until the stream has changed the word: the message is begun again. */
static struct begun changeInGpu(struct networkLane *lane, struct networkPeer *peer,
				const struct message *m, char *at)
{
	const struct deviceWordOrder order = {.lock = lane->scope->locks[lane->scope->host->rank],
					      .at = at,
					      .operand = m->operand,
					      .compare = m->compare,
					      .op = m->op,
					      .bytes = (uint8_t)messageWordBytes(m)};
	uint64_t old = 0;
	struct begun out;

	if (lane->wordPeer == peer) {
		out = ofWord(deviceWordStep(&lane->word, &old));
		out.old = old;
		if (isBegun(&out))
			lane->wordPeer = NULL;
		return out;
	}
	forgetWord(lane);
	if (!waitInTurn(lane, peer))
		return blocked;
	out = ofWord(deviceWordStart(&lane->word, &order));
	if (!isBegun(&out))
		return out;
	lane->wordPeer = peer;
	networkStopWaiting(lane, peer);
	return blocked;
}

static struct begun change(struct networkLane *lane, struct networkPeer *peer,
			   const struct message *m, const struct named *word)
{
	if (!word->own->byCpu)
		return changeInGpu(lane, peer, m, word->at);
	return (struct begun){
		.old = wordChange(m->op, word->at, messageWordBytes(m), m->operand, m->compare)};
}

/* Changes the word when all earlier messages are done. */
static struct begun doWord(struct networkLane *lane, struct networkPeer *peer,
			   const struct message *m)
{
	struct messageChannel *c = peer->channel;
	struct named word;

	if (c->begun != c->expected)
		return blocked;
	if (!isKnown(m))
		return begunUnless("it asks for nothing that is known");
	const char *wrong = findWord(lane, m, &word);
	if (!wrong && m->kind == messagePut && lane->wordPeer != peer)
		wrong = doData(lane, m);
	if (wrong)
		return begunUnless(wrong);
	struct begun out = change(lane, peer, m, &word);
	if (isBegun(&out) && m->wantsAnswer)
		out.wrong = answerLater(c, m->number, out.old);
	return out;
}

static struct begun ofCopy(struct networkLane *lane, int result, copyTicket copy)
{
	if (result == fabricBusy)
		return blocked;
	if (result == fabricOk)
		return (struct begun){.copy = copy};
	bounceCopyFailed(lane);
	return begunUnless("its data cannot be copied on");
}

static struct copyOrder orderOf(const struct named *n, const char *from, uint64_t bytes)
{
	return (struct copyOrder){.to = n->at,
				  .from = from,
				  .bytes = bytes,
				  .direction = copyIn,
				  .byCpu = n->own->byCpu,
				  .window = n->window,
				  .slot = n->window->slot};
}

static struct begun doValue(struct networkLane *lane, const struct message *m)
{
	const uint64_t value[] = {m->operand, m->compare};
	struct named target;
	copyTicket copy = 0;

	if (m->bytes > MESSAGE_VALUE)
		return begunUnless("its value is too long");
	const char *wrong = findNamed(lane, m->named, m->bytes, &target);
	if (wrong)
		return begunUnless(wrong);
	const struct copyOrder order = orderOf(&target, (const char *)value, m->bytes);
	int result = copiesStartValue(&lane->bounce->copies, &order, &copy);
	return ofCopy(lane, result, copy);
}

static struct begun doLanded(struct networkLane *lane, const struct message *m)
{
	const struct bounceOffer *own = &lane->bounce->offer;
	uint32_t slot = (uint32_t)(m->operand >> 32), bytes = (uint32_t)m->operand;
	struct named target;
	copyTicket copy = 0;

	if (slot >= own->landings || bytes > own->slotBytes)
		return begunUnless("it names a slot that does not exist");
	const char *wrong = findNamed(lane, m->named, bytes, &target);
	if (wrong)
		return begunUnless(wrong);
	const struct copyOrder order =
		orderOf(&target, lane->bounce->memory + bounceLandingAt(own, m->rank, slot), bytes);
	int result = copiesStart(&lane->bounce->copies, &order, &copy);
	return ofCopy(lane, result, copy);
}

static const char *checkFetch(const struct networkLane *lane, const struct networkPeer *peer,
			      const struct message *m, struct named *source)
{
	const struct bounceOffer *own = &lane->bounce->offer, *theirs = &peer->bounce.offer;
	uint32_t slot = (uint32_t)(m->operand >> 32), bytes = (uint32_t)m->operand;

	if (slot >= bounceGetsOf(theirs) || bytes > own->slotBytes || bytes > theirs->slotBytes)
		return "it names a slot that does not exist";
	return findNamed(lane, m->named, bytes, source);
}

/* The cursor may pass a fetch once it is begun: the answer follows later. */
static struct begun doFetch(struct networkLane *lane, struct networkPeer *peer,
			    const struct message *m)
{
	struct named source;
	const char *wrong = checkFetch(lane, peer, m, &source);

	if (wrong)
		return begunUnless(wrong);
	struct bounceChunk *k = bounceReplyTo(lane, peer, m);
	if (!k)
		return blocked;
	struct copyOrder order = orderOf(&source, source.at, k->bytes);
	order.to = k->local;
	order.direction = copyOut;
	struct begun out = ofCopy(lane, copiesStart(&lane->bounce->copies, &order, &k->copy), 0);
	if (isBegun(&out))
		bounceQueue(lane, &peer->bounce.loose, k);
	else
		bounceGive(lane, k);
	return out;
}

static int namesGone(const struct networkLane *lane, uint64_t named)
{
	const struct proxySlots *slots = lane->scope->slots;
	uint32_t slot = slotOf(named);

	return !slotsFind(slots, slot) && slotsHad(slots, slot);
}

/*
 * The peer has sent the message before it knew that this rank destroys the window: after a failure
 * no rank waits for another.
 */
static int isLate(const struct networkLane *lane, const struct message *m)
{
	return namesGone(lane, m->named) || (m->kind == messagePut && namesGone(lane, m->target));
}

static struct begun dropLate(struct networkLane *lane, struct networkPeer *peer)
{
	if (lane->wordPeer == peer)
		lane->wordPeer = NULL;
	networkStopWaiting(lane, peer);
	lane->late++;
	return (struct begun){.copy = 0};
}

static struct begun beginMessage(struct networkLane *lane, struct networkPeer *peer,
				 const struct message *m)
{
	int bounces = lane->bounce && lane->bounce->memory;

	if (isLate(lane, m))
		return dropLate(lane, peer);
	if (m->kind == messageWord || m->kind == messagePut)
		return doWord(lane, peer, m);
	if (m->kind == messageValue && lane->bounce)
		return doValue(lane, m);
	if (m->kind == messageLanded && bounces)
		return doLanded(lane, m);
	if (m->kind == messageFetch && bounces)
		return doFetch(lane, peer, m);
	return begunUnless("it asks for nothing that is known");
}

static const char *noteCopy(struct messageChannel *c, copyTicket copy)
{
	if (copy && !c->copying)
		c->copying = calloc(MESSAGES, sizeof(*c->copying));
	if (copy && !c->copying)
		return "there is no memory for it";
	if (c->copying)
		c->copying[c->begun % MESSAGES] = copy;
	c->begun++;
	return NULL;
}

/* Begins the message with the number `begun`. */
static struct begun beginNext(struct networkLane *lane, struct networkPeer *peer,
			      const struct message *m)
{
	struct begun out = beginMessage(lane, peer, m);

	if (isBegun(&out))
		out.wrong = noteCopy(peer->channel, out.copy);
	return out;
}

static const char *keep(struct messageChannel *c, const struct message *m)
{
	if (!c->kept)
		c->kept = calloc(MESSAGES, sizeof(*c->kept));
	if (!c->kept)
		return "there is no memory for it";
	c->kept[m->number % MESSAGES] = *m;
	c->isKept[m->number % MESSAGES] = 1;
	return NULL;
}

/* Begins the kept message that is due; blocked if there is none. */
static struct begun beginKept(struct networkLane *lane, struct networkPeer *peer)
{
	struct messageChannel *c = peer->channel;
	uint32_t slot = c->begun % MESSAGES;

	if (!c->isKept[slot])
		return blocked;
	struct begun out = beginNext(lane, peer, &c->kept[slot]);
	c->isKept[slot] = !isBegun(&out);
	return out;
}

/* Moves the cursor over the messages that are done. */
static void passDone(const struct networkLane *lane, struct messageChannel *c)
{
	while (c->expected != c->begun &&
	       (!c->copying ||
		copiesIsMade(&lane->bounce->copies, c->copying[c->expected % MESSAGES])))
		c->expectedLap += !++c->expected;
}

/* Returns NULL, or what is wrong with a kept message. */
static const char *advance(struct networkLane *lane, struct networkPeer *peer)
{
	struct messageChannel *c = peer->channel;
	uint32_t before = c->expected;
	struct begun out;

	do {
		passDone(lane, c);
		out = beginKept(lane, peer);
	} while (isBegun(&out));
	if (c->expected != before)
		networkOwe(lane, peer);
	if (c->expected != c->begun || c->isKept[c->begun % MESSAGES])
		bounceActivate(lane, peer);
	return out.wrong;
}

static void loseBy(struct networkLane *lane, uint32_t rank, uint32_t number, const char *wrong)
{
	char why[BACKEND_WHY];

	snprintf(why, sizeof(why), "message %u of its proxy is wrong: %s", number, wrong);
	networkLose(lane, rank, why);
}

void networkAdvance(struct networkLane *lane, struct networkPeer *peer)
{
	if (!peer->channel || peer->isLost)
		return;
	const char *wrong = advance(lane, peer);
	if (wrong)
		loseBy(lane, networkRank(lane, peer), peer->channel->begun, wrong);
}

int networkIsBehind(const struct messageChannel *c)
{
	return c && (c->expected != c->begun || c->isKept[c->begun % MESSAGES]);
}

void networkOweAnswer(struct networkLane *lane, struct networkPeer *peer, uint32_t number)
{
	const char *wrong = answerLater(peer->channel, number, 0);

	networkOwe(lane, peer);
	if (wrong)
		loseBy(lane, networkRank(lane, peer), number, wrong);
}

/* Has the message arrived before? It is within MESSAGES after `expected`. */
static int hasCome(const struct messageChannel *c, uint32_t number)
{
	return c->begun - number - 1 < 1u << 31 || c->isKept[number % MESSAGES];
}

/* Begins the message if it is due, and then the kept messages that follow; otherwise keeps it. */
static const char *takeNumbered(struct networkLane *lane, struct networkPeer *peer,
				struct messageChannel *c, const struct message *m)
{
	uint32_t ahead = m->number - c->expected;

	if (ahead >= 1u << 31 || (ahead < MESSAGES && hasCome(c, m->number)))
		return NULL;
	if (ahead >= MESSAGES)
		return "its number is beyond the window";
	struct begun out = blocked;
	if (m->number == c->begun)
		out = beginNext(lane, peer, m);
	if (out.isBlocked)
		out.wrong = keep(c, m);
	return out.wrong ? out.wrong : advance(lane, peer);
}

static const char *takeAnswer(struct networkLane *lane, struct messageChannel *c,
			      const struct message *m)
{
	struct messageOut *out = &c->out[m->number % MESSAGES];

	if (m->number - c->low >= c->next - c->low || out->isAnswered)
		return NULL; /* it has arrived before */
	if (!out->wantsAnswer)
		return "it answers what asks for no answer";
	out->isAnswered = 1;
	if (out->chunk)
		bounceQueue(lane, &out->chunk->peer->bounce.arrived, out->chunk);
	else
		out->work->value[0] = m->operand;
	if (c->acknowledged - m->number - 1 < 1u << 31) /* otherwise the cursor comes later */
		networkLanded(lane, out->work);
	messageFree(c);
	return NULL;
}

/* The peer has done all of this rank's messages below `cursor`. */
static void takeCursor(struct networkLane *lane, struct networkPeer *peer, struct messageChannel *c,
		       uint32_t cursor)
{
	for (; c->acknowledged != cursor; c->acknowledged++) {
		const struct messageOut *out = &c->out[c->acknowledged % MESSAGES];
		if (out->landing)
			peer->bounce.landings |= 1u << (out->landing - 1);
		if (!out->wantsAnswer || out->isAnswered)
			networkLanded(lane, out->work);
	}
	messageFree(c);
}

static const char *takeKind(struct networkLane *lane, struct networkPeer *peer,
			    struct messageChannel *c, const struct message *m)
{
	if (m->kind == messageWord || (m->kind >= messageValue && m->kind <= messagePut))
		return takeNumbered(lane, peer, c, m);
	if (m->kind == messageAnswer)
		return takeAnswer(lane, c, m);
	return m->kind == messageCursor ? NULL : "it is of no known kind";
}

/*
 * The word comes before the cursor, because a kernel waits for it. Later messages have overtaken an
 * older cursor.
 */
static const char *take(struct networkLane *lane, struct networkPeer *peer,
			struct messageChannel *c, const struct message *m)
{
	int isLater = m->cursor - c->acknowledged < 1u << 31;

	if (isLater && !messageIsSent(c, m->cursor))
		return "it acknowledges what was not sent";
	const char *wrong = takeKind(lane, peer, c, m);
	if (!wrong && isLater && !peer->isLost)
		takeCursor(lane, peer, c, m->cursor);
	return wrong;
}

void networkReceive(struct networkLane *lane, const unsigned char *bytes, uint32_t length)
{
	struct message m = {.kind = 0};

	length = networkProven(lane, bytes, length);
	if (length < MESSAGE_SHORT || length > sizeof(m))
		return;
	memcpy(&m, bytes, length);
	if (m.kind == messageMeet) /* once more */
		return;
	if (m.rank >= (uint32_t)lane->scope->host->nRanks || !lane->scope->serves[m.rank])
		return;
	struct networkPeer *peer = &lane->peer[m.rank];
	struct messageChannel *c = peer->isLost ? NULL : networkChannel(lane, m.rank);
	const char *wrong = NULL;
	if (m.kind == messagePut && length < messageLength(&m))
		wrong = "its data is not whole";
	else if (c)
		wrong = take(lane, peer, c, &m);
	if (wrong && c)
		loseBy(lane, m.rank, m.number, wrong);
}

void networkReceiveImmediate(struct networkLane *lane, uint32_t rank, uint32_t immediate)
{
	if (lane->proves) {
		networkForged(lane);
		return;
	}
	if (rank >= (uint32_t)lane->scope->host->nRanks || !lane->scope->serves[rank])
		return;
	struct networkPeer *peer = &lane->peer[rank];
	struct messageChannel *c = peer->isLost ? NULL : networkChannel(lane, rank);
	if (!c)
		return;
	if (!lane->hasImmediates) {
		loseBy(lane, rank, c->expected,
		       "it sends an immediate, which this network has not");
		return;
	}
	const struct message m = messageOfImmediate(c, rank, immediate);
	const char *wrong = take(lane, peer, c, &m);
	if (wrong)
		loseBy(lane, rank, m.number, wrong);
}
