/* SPDX-License-Identifier: BSD-3-Clause */
/* acknowledge.c - cursors and answers that a lane owes to its peers */
#include "lib/base/clock.h"
#include "network.h"

/*
 * Passes of the worker for which a cursor waits for a message to travel with. The kernel often
 * answers a signal at once; a separate cursor would delay the answer by the time of a message.
 */
#define PATIENCE 3

/*
 * On a fabric whose poll() takes a system call, a cursor waits for this many nanoseconds. During
 * this time the lane does not poll, so that the worker takes the answer from its ring sooner.
 * tcp;ofi_rxm would also read and write a descriptor once more.
 */
#define GLANCE 1200

static int hasSlots(const struct networkLane *lane)
{
	return lane->bounce && lane->bounce->memory;
}

void networkOwe(struct networkLane *lane, struct networkPeer *peer)
{
	peer->patience = PATIENCE;
	if (lane->fabric->pollsSlowly && !hasSlots(lane)) {
		peer->patience = 0;
		lane->glancesUntil = clockNow() + GLANCE;
	}
	if (peer->owes)
		return;
	peer->owes = 1;
	peer->nextOwing = lane->owing;
	lane->owing = peer;
}

static int sendCursor(struct networkLane *lane, struct networkPeer *peer, struct messageChannel *c)
{
	const struct message m = {.kind = messageCursor,
				  .rank = (uint32_t)lane->scope->host->rank,
				  .cursor = c->expected};

	if (c->cursorSent == c->expected)
		return fabricOk;
	int sent = networkTransmit(lane, peer, &m);
	if (sent == fabricOk)
		c->cursorSent = m.cursor;
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
	int sent = networkTransmit(lane, peer, &m);

	if (sent != fabricOk)
		return sent;
	c->cursorSent = m.cursor;
	c->firstOwed++;
	lane->glancesUntil = 0; /* the kernel has nothing to answer */
	return sent;
}

/* The cursor frees landing slots, so a lane with slots sends it at once. */
static int mayWait(const struct networkLane *lane, struct networkPeer *peer)
{
	const struct messageChannel *c = peer->channel;

	if (hasSlots(lane) || peer->isLost || c->expected == c->cursorSent ||
	    c->expected - c->cursorSent >= MESSAGES / 2)
		return 0;
	if (lane->glancesUntil)
		return 1;
	if (!peer->patience)
		return 0;
	peer->patience--;
	return 1;
}

/* Returns 1 when everything that is owed to the peer has been sent. */
static int payPeer(struct networkLane *lane, struct networkPeer *peer)
{
	struct messageChannel *c = peer->channel;
	int sent = fabricOk;

	while (sent == fabricOk && c->firstOwed != c->endOwed && !peer->isLost)
		sent = sendAnswer(lane, peer, c);
	if (sent == fabricOk && mayWait(lane, peer))
		return 0;
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
