/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.c - does what a peer's message asks for, exactly once and in the order of numbers
 *
 * A peer is trusted no more than a GPU: everything that a message names is checked against what is
 * registered here. A wrong message fails the peer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/proxy/words.h"
#include "network.h"

static void owe(struct networkLane *lane, struct networkPeer *peer)
{
	if (peer->owes)
		return;
	peer->owes = 1;
	peer->nextOwing = lane->owing;
	lane->owing = peer;
}

static int isKnown(const struct message *m)
{
	if (m->op == ginOpPut || m->op == ginOpPutValue || m->op == ginOpSignal ||
	    m->op == ginOpBarrier)
		return m->bytes == 8 && !m->wantsAnswer;
	return m->op >= ginOpFetchAdd && m->op <= ginOpSwap && (m->bytes == 4 || m->bytes == 8);
}

/* The word that the message names, or NULL and what is wrong with it. */
static void *wordOf(const struct networkLane *lane, const struct message *m, const char **wrong)
{
	uint64_t offset = m->named & ((1ull << GIN_DESCRIPTOR_OFFSET_BITS) - 1);
	const struct proxyWindow *w =
		slotsFind(lane->scope->slots, (uint32_t)(m->named >> GIN_DESCRIPTOR_OFFSET_BITS) &
						      (GIN_DESCRIPTOR_SLOTS - 1));

	*wrong = "it names a window that is not registered";
	if (!w)
		return NULL;
	const struct proxyPart *own = &w->part[w->rank];
	*wrong = "it goes beyond the end of a window";
	if (offset > own->bytes || m->bytes > own->bytes - offset)
		return NULL;
	*wrong = "it changes a word in GPU memory, which a CPU cannot change";
	if (!own->byCpu)
		return NULL;
	*wrong = "it changes a word that is not aligned";
	if ((own->skew + offset) % m->bytes)
		return NULL;
	*wrong = NULL;
	return own->at + offset;
}

static const char *answerLater(struct messageChannel *c, uint32_t number, uint64_t old)
{
	if (c->endOwed - c->firstOwed >= MESSAGES)
		return "more atomics are under way than there is room for";
	c->owed[c->endOwed++ % MESSAGES] = (struct messageOwed){number, old};
	return NULL;
}

/* Changes the word. Returns NULL, or what is wrong with the message. */
static const char *doWord(struct networkLane *lane, struct messageChannel *c,
			  const struct message *m)
{
	const char *wrong = "it asks for nothing that is known";

	if (!isKnown(m))
		return wrong;
	void *at = wordOf(lane, m, &wrong);
	if (!at)
		return wrong;
	uint64_t old = wordChange(m->op, at, m->bytes, m->operand, m->compare);
	return m->wantsAnswer ? answerLater(c, m->number, old) : NULL;
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

/* Does the message if it is its turn, and then the kept messages that follow; else keeps it. */
static const char *takeWord(struct networkLane *lane, struct networkPeer *peer,
			    struct messageChannel *c, const struct message *m)
{
	uint32_t ahead = m->number - c->expected;

	if (ahead >= 1u << 31 || (ahead < MESSAGES && c->isKept[m->number % MESSAGES]))
		return NULL; /* it has come before */
	if (ahead >= MESSAGES)
		return "its number is beyond the window";
	if (ahead)
		return keep(c, m);
	const char *wrong = doWord(lane, c, m);
	for (c->expected++; !wrong && c->isKept[c->expected % MESSAGES]; c->expected++) {
		c->isKept[c->expected % MESSAGES] = 0;
		wrong = doWord(lane, c, &c->kept[c->expected % MESSAGES]);
	}
	owe(lane, peer);
	return wrong;
}

static const char *takeAnswer(struct networkLane *lane, struct messageChannel *c,
			      const struct message *m)
{
	struct messageOut *out = &c->out[m->number % MESSAGES];

	if (m->number - c->low >= c->next - c->low || out->isAnswered)
		return NULL; /* it has come before */
	if (!out->wantsAnswer)
		return "it answers what asks for no answer";
	out->isAnswered = 1;
	out->work->value[0] = m->operand;
	if (c->acknowledged - m->number - 1 < 1u << 31) /* else the cursor comes later */
		networkLanded(lane, out->work);
	messageFree(c);
	return NULL;
}

static const char *takeCursor(struct networkLane *lane, struct messageChannel *c, uint32_t cursor)
{
	if (cursor - c->acknowledged >= 1u << 31)
		return NULL; /* a later one has overtaken it */
	if (!messageIsSent(c, cursor))
		return "it acknowledges what was not sent";
	for (; c->acknowledged != cursor; c->acknowledged++) {
		const struct messageOut *out = &c->out[c->acknowledged % MESSAGES];
		if (!out->wantsAnswer || out->isAnswered)
			networkLanded(lane, out->work);
	}
	messageFree(c);
	return NULL;
}

static const char *take(struct networkLane *lane, struct networkPeer *peer,
			struct messageChannel *c, const struct message *m)
{
	const char *wrong = takeCursor(lane, c, m->cursor);

	if (wrong || m->kind == messageCursor)
		return wrong;
	if (m->kind == messageWord)
		return takeWord(lane, peer, c, m);
	if (m->kind == messageAnswer)
		return takeAnswer(lane, c, m);
	return "it is of no known kind";
}

void networkReceive(struct networkLane *lane, const unsigned char *bytes, uint32_t length)
{
	struct message m = {.kind = 0};
	char why[BACKEND_WHY];

	if (length < MESSAGE_SHORT || length > sizeof(m))
		return;
	memcpy(&m, bytes, length);
	if (m.rank >= (uint32_t)lane->scope->host->nRanks || !lane->scope->serves[m.rank])
		return;
	struct networkPeer *peer = &lane->peer[m.rank];
	struct messageChannel *c = peer->isLost ? NULL : networkChannel(lane, m.rank);
	const char *wrong = c ? take(lane, peer, c, &m) : NULL;
	if (!wrong)
		return;
	snprintf(why, sizeof(why), "message %u of its proxy is wrong: %s", m.number, wrong);
	networkLose(lane, m.rank, why);
}

static int sendCursor(struct networkLane *lane, struct networkPeer *peer, struct messageChannel *c)
{
	const struct message m = {.kind = messageCursor,
				  .rank = (uint32_t)lane->scope->host->rank,
				  .cursor = c->expected};

	if (c->told == c->expected)
		return fabricOk;
	int sent = lane->fabric->send(lane->end, peer->address, &m, MESSAGE_SHORT);
	if (sent == fabricOk)
		c->told = m.cursor;
	return sent;
}

static int sendAnswer(struct networkLane *lane, struct networkPeer *peer, struct messageChannel *c)
{
	const struct messageOwed *owed = &c->owed[c->firstOwed % MESSAGES];
	const struct message m = {.kind = messageAnswer,
				  .rank = (uint32_t)lane->scope->host->rank,
				  .number = owed->number,
				  .cursor = c->expected,
				  .operand = owed->old};
	int sent = lane->fabric->send(lane->end, peer->address, &m, MESSAGE_SHORT);

	if (sent != fabricOk)
		return sent;
	c->told = m.cursor;
	c->firstOwed++;
	return sent;
}

/* 1: nothing is owed any more. */
static int payPeer(struct networkLane *lane, struct networkPeer *peer)
{
	struct messageChannel *c = peer->channel;
	int sent = fabricOk;

	while (sent == fabricOk && c->firstOwed != c->endOwed && !peer->isLost)
		sent = sendAnswer(lane, peer, c);
	if (sent == fabricOk && !peer->isLost)
		sent = sendCursor(lane, peer, c);
	if (sent == fabricFailed)
		networkLose(lane, networkRank(lane, peer), "its network takes no message");
	return sent != fabricBusy;
}

void networkAcknowledge(struct networkLane *lane)
{
	struct networkPeer **at = &lane->owing;

	while (*at) {
		struct networkPeer *peer = *at;
		if (!payPeer(lane, peer)) {
			at = &peer->nextOwing;
			continue;
		}
		peer->owes = 0;
		*at = peer->nextOwing;
	}
}
