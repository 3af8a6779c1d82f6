/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * auth.c - a keyed hash, and the handshake by which both ends of a connection prove the secret
 *
 * 	listener to connector	challenge
 * 	connector to listener	rank, challenge, proof of the listener's challenge
 * 	listener to connector	proof of the connector's challenge
 *
 * A proof hashes both challenges, the rank and the direction with the secret, so that none can be
 * replayed or reflected. The secret itself is never sent on the connection.
 */
#include "auth.h"

#include <errno.h>
#include <string.h>

#include "lib/base/random.h"
#include "socket.h"

static uint64_t load64(const uint8_t *p, size_t bytes)
{
	uint64_t word = 0;
	for (size_t i = 0; i < bytes; i++)
		word |= (uint64_t)p[i] << (8 * i);
	return word;
}

static uint64_t rotl(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static void rounds(uint64_t v[4], int count)
{
	for (; count; count--) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotl(v[1], 13) ^ v[0];
		v[3] = rotl(v[3], 16) ^ v[2];
		v[0] = rotl(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotl(v[1], 17) ^ v[2];
		v[3] = rotl(v[3], 21) ^ v[0];
		v[2] = rotl(v[2], 32);
	}
}

static void absorb(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	rounds(v, 2);
	v[0] ^= word;
}

uint64_t siphash(const uint8_t key[AUTH_KEY_BYTES], const void *data, size_t bytes)
{
	const uint8_t *p = data;
	uint64_t k0 = load64(key, 8), k1 = load64(key + 8, 8);
	uint64_t v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d, k0 ^ 0x6c7967656e657261,
			 k1 ^ 0x7465646279746573};
	size_t left = bytes;

	for (; left >= 8; left -= 8, p += 8)
		absorb(v, load64(p, 8));
	absorb(v, load64(p, left) | (uint64_t)bytes << 56);
	v[2] ^= 0xff;
	rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Each half of the key hashes `data` with its own key, which no proof uses. */
void authDerive(const uint8_t key[AUTH_KEY_BYTES], const void *data, size_t bytes,
		uint8_t out[AUTH_KEY_BYTES])
{
	uint64_t half[2], part[2];
	uint8_t use[AUTH_KEY_BYTES];

	for (uint64_t i = 0; i < 2; i++) {
		for (uint64_t j = 0; j < 2; j++) {
			uint64_t text[2] = {UINT64_C(0x6465726976652067), i << 32 | j};
			part[j] = siphash(key, text, sizeof(text));
		}
		memcpy(use, part, sizeof(use));
		half[i] = siphash(use, data, bytes);
	}
	memcpy(out, half, sizeof(half));
}

#define GREETING_MAGIC UINT32_C(0x316e6967) /* "gin1" */

struct authGreeting {
	uint32_t magic;
	uint32_t rank;
	uint64_t challenge[2];
	uint64_t proof;
};

_Static_assert(sizeof(struct authGreeting) == AUTH_ANSWER_BYTES,
	       "the listener waits for this many bytes");

enum authDirection { toListener = 1, toConnector = 2 };

static uint64_t prove(const uint8_t *key, enum authDirection direction, uint32_t rank,
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

int authMakeAnswer(const uint8_t key[AUTH_KEY_BYTES], uint32_t rank, const uint64_t challenge[2],
		   uint8_t answer[AUTH_ANSWER_BYTES], uint64_t *proof)
{
	struct authGreeting mine = {.magic = GREETING_MAGIC, .rank = rank};

	if (randomBytes(mine.challenge, sizeof(mine.challenge)))
		return -1;
	mine.proof = prove(key, toListener, rank, challenge, mine.challenge);
	*proof = prove(key, toConnector, rank, challenge, mine.challenge);
	memcpy(answer, &mine, sizeof(mine));
	return 0;
}

int authConnect(int fd, const uint8_t key[AUTH_KEY_BYTES], uint32_t rank, uint64_t deadline)
{
	uint8_t answer[AUTH_ANSWER_BYTES];
	uint64_t theirs[2], proof, due;

	socketProbe(fd, 1);
	if (socketReceive(fd, theirs, sizeof(theirs), deadline))
		return -1;
	socketProbe(fd, 0);
	if (authMakeAnswer(key, rank, theirs, answer, &due) ||
	    socketSend(fd, answer, sizeof(answer), deadline) ||
	    socketReceive(fd, &proof, sizeof(proof), deadline))
		return -1;
	return proof == due ? 0 : refuse();
}

int authChallenge(int fd, uint64_t challenge[2], uint64_t deadline)
{
	size_t bytes = 2 * sizeof(*challenge);

	return randomBytes(challenge, bytes) || socketSend(fd, challenge, bytes, deadline) ? -1 : 0;
}

static int isProof(const struct authGreeting *theirs, const uint8_t key[AUTH_KEY_BYTES],
		   const uint64_t challenge[2])
{
	return theirs->magic == GREETING_MAGIC &&
	       theirs->proof == prove(key, toListener, theirs->rank, challenge, theirs->challenge);
}

struct authKey *authRead(const uint8_t answer[AUTH_ANSWER_BYTES], struct authKey *keys,
			 const uint64_t challenge[2], uint32_t *rank, uint64_t *proof)
{
	struct authGreeting theirs;
	struct authKey *key = keys;

	memcpy(&theirs, answer, sizeof(theirs));
	while (key && !isProof(&theirs, key->bytes, challenge))
		key = key->next;
	*rank = theirs.rank;
	*proof = key ? prove(key->bytes, toConnector, theirs.rank, challenge, theirs.challenge) : 0;
	return key;
}

int authAnswerAny(int fd, struct authKey *keys, const uint64_t challenge[2], uint32_t *rank,
		  struct authKey **found, uint64_t deadline)
{
	uint8_t answer[AUTH_ANSWER_BYTES];
	uint64_t proof;
	uint32_t theirs;

	if (socketReceive(fd, answer, sizeof(answer), deadline))
		return -1;
	struct authKey *key = authRead(answer, keys, challenge, &theirs, &proof);
	/* A connector without a valid proof gets 0, and so learns that the secrets differ. */
	if (socketSend(fd, &proof, sizeof(proof), deadline))
		return -1;
	if (!key)
		return refuse();
	*rank = theirs;
	*found = key;
	return 0;
}

int authAnswer(int fd, const uint8_t key[AUTH_KEY_BYTES], const uint64_t challenge[2],
	       uint32_t *rank, uint64_t deadline)
{
	struct authKey only = {.next = NULL}, *found;

	memcpy(only.bytes, key, sizeof(only.bytes));
	return authAnswerAny(fd, &only, challenge, rank, &found, deadline);
}
