/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handshake.c - both ends of a connection prove that they know the communicator's secret
 *
 *	listener to connector	challenge
 *	connector to listener	rank, challenge, proof of the listener's challenge
 *	listener to connector	proof of the connector's challenge
 *
 * A proof hashes both challenges, the rank and the direction with the secret, so that none can be
 * replayed or reflected. The secret itself never travels here.
 */
#include "handshake.h"

#include <errno.h>

#include "random.h"
#include "socket.h"

#define GREETING_MAGIC UINT32_C(0x316e6967) /* "gin1" */

struct greeting {
	uint32_t magic;
	uint32_t rank;
	uint64_t challenge[2];
	uint64_t proof;
};

_Static_assert(sizeof(struct greeting) == HANDSHAKE_ANSWER_BYTES, "as the listener awaits it");

enum direction { toListener = 1, toConnector = 2 };

static uint64_t prove(const uint8_t *key, enum direction direction, uint32_t rank,
		      const uint64_t listener[2], const uint64_t connector[2])
{
	uint64_t text[5] = {(uint64_t)direction << 32 | rank, listener[0], listener[1],
			    connector[0], connector[1]};
	return siphash(key, text, sizeof(text));
}

static int refuse(void)
{
	errno = EACCES;
	return -1;
}

int handshakeConnect(int fd, const uint8_t key[SIPHASH_KEY_BYTES], uint32_t rank, uint64_t deadline)
{
	struct greeting mine = {.magic = GREETING_MAGIC, .rank = rank};
	uint64_t theirs[2], proof;

	if (randomBytes(mine.challenge, sizeof(mine.challenge)) ||
	    socketReceive(fd, theirs, sizeof(theirs), deadline))
		return -1;
	mine.proof = prove(key, toListener, rank, theirs, mine.challenge);
	if (socketSend(fd, &mine, sizeof(mine), deadline) ||
	    socketReceive(fd, &proof, sizeof(proof), deadline))
		return -1;
	return proof == prove(key, toConnector, rank, theirs, mine.challenge) ? 0 : refuse();
}

int handshakeChallenge(int fd, uint64_t challenge[2], uint64_t deadline)
{
	size_t bytes = 2 * sizeof(*challenge);

	return randomBytes(challenge, bytes) || socketSend(fd, challenge, bytes, deadline) ? -1 : 0;
}

int handshakeAnswer(int fd, const uint8_t key[SIPHASH_KEY_BYTES], const uint64_t challenge[2],
		    uint32_t *rank, uint64_t deadline)
{
	struct greeting theirs;

	if (socketReceive(fd, &theirs, sizeof(theirs), deadline))
		return -1;
	int knows =
		theirs.magic == GREETING_MAGIC &&
		theirs.proof == prove(key, toListener, theirs.rank, challenge, theirs.challenge);
	/* No proof for who has none: by that he learns that our secret is not his. */
	uint64_t proof =
		knows ? prove(key, toConnector, theirs.rank, challenge, theirs.challenge) : 0;
	if (socketSend(fd, &proof, sizeof(proof), deadline))
		return -1;
	if (!knows)
		return refuse();
	*rank = theirs.rank;
	return 0;
}

int handshakeAccept(int fd, const uint8_t key[SIPHASH_KEY_BYTES], uint32_t *rank, uint64_t deadline)
{
	uint64_t challenge[2];

	if (handshakeChallenge(fd, challenge, deadline))
		return -1;
	return handshakeAnswer(fd, key, challenge, rank, deadline);
}
