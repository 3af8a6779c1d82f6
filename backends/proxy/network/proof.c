/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proof.c - proofs of messages, where any process that reaches an endpoint can send to it
 *
 * A proof is a keyed hash of the message, 64 bits. Each direction of each pair of lanes has a key,
 * which follows from the communicator's. The hash also covers how often the message's number and
 * cursor have wrapped around, so that a recorded message is never valid as a later one. Without its
 * proof a message changes nothing. Immediates cannot carry proofs: such a network has none.
 */
#include <string.h>

#include "lib/base/log.h"
#include "lib/base/serial.h"
#include "network.h"

_Static_assert(sizeof(struct message) + MESSAGE_PROOF <= FABRIC_MESSAGE, "both are one message");

/* Of messages from one rank to another by their lanes with this index. */
static void deriveKey(const struct networkLane *lane, uint32_t from, uint32_t to,
		      uint8_t key[AUTH_KEY_BYTES])
{
	const uint64_t text[] = {0x736567617373656d, (uint64_t)from << 32 | to, lane->index};

	authDerive(lane->scope->host->key, text, sizeof(text), key);
}

void networkMakeKeys(struct networkLane *lane, uint32_t rank)
{
	uint32_t own = (uint32_t)lane->scope->host->rank;

	deriveKey(lane, own, rank, lane->peer[rank].keyTo);
	deriveKey(lane, rank, own, lane->peer[rank].keyFrom);
}

/* How often a number of this rank's messages, or of the peer's, has wrapped around. */
static uint32_t lapOf(const struct messageChannel *c, uint32_t number, int isOwn)
{
	if (!c)
		return messageLap(number, FIRST_SERIAL, 0);
	return isOwn ? messageLap(number, c->next, c->nextLap)
		     : messageLap(number, c->expected, c->expectedLap);
}

/* An answer has the number of its receiver's message, and a cursor alone has no number. */
static uint64_t proofOf(const struct messageChannel *c, const uint8_t *key, const struct message *m,
			size_t bytes, int isSent)
{
	unsigned char text[2 * sizeof(uint32_t) + sizeof(*m)];
	int isOwn = (m->kind == messageAnswer) != isSent;
	const uint32_t laps[] = {m->kind == messageCursor ? 0 : lapOf(c, m->number, isOwn),
				 lapOf(c, m->cursor, !isSent)};

	memcpy(text, laps, sizeof(laps));
	memcpy(text + sizeof(laps), m, bytes);
	return siphash(key, text, sizeof(laps) + bytes);
}

int networkTransmit(struct networkLane *lane, const struct networkPeer *peer,
		    const struct message *m)
{
	struct {
		unsigned char bytes[FABRIC_MESSAGE];
	} out;
	size_t bytes = messageLength(m);

	if (!lane->proves)
		return lane->fabric->send(lane->end, peer->address, m, bytes);
	uint64_t proof = proofOf(peer->channel, peer->keyTo, m, bytes, 1);
	memcpy(out.bytes, m, bytes);
	memcpy(out.bytes + bytes, &proof, sizeof(proof));
	return lane->fabric->send(lane->end, peer->address, out.bytes, bytes + sizeof(proof));
}

void networkForged(struct networkLane *lane)
{
	if (!lane->forged++)
		logWrite(logWarn,
			 "a message that no rank of the communicator has sent was dropped: close "
			 "the network's ports to other processes, see gin_security(7)");
}

static int isProven(const struct networkLane *lane, const struct message *m, uint32_t bytes,
		    uint64_t proof)
{
	if (m->rank >= (uint32_t)lane->scope->host->nRanks || !lane->scope->serves[m->rank])
		return 0;
	const struct networkPeer *peer = &lane->peer[m->rank];
	return proofOf(peer->channel, peer->keyFrom, m, bytes, 0) == proof;
}

uint32_t networkProven(struct networkLane *lane, const unsigned char *bytes, uint32_t length)
{
	struct message m = {.kind = 0};
	uint64_t proof;

	if (!lane->proves)
		return length;
	uint32_t left = length - MESSAGE_PROOF;
	if (length >= MESSAGE_SHORT + MESSAGE_PROOF && left <= sizeof(m)) {
		memcpy(&m, bytes, left);
		memcpy(&proof, bytes + left, sizeof(proof));
		if (isProven(lane, &m, left, proof))
			return left;
	}
	networkForged(lane);
	return 0;
}
