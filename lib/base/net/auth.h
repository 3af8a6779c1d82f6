/* SPDX-License-Identifier: BSD-3-Clause */
/* auth.h - a keyed hash, and the handshake by which both ends of a connection prove the secret */
#ifndef GIN_LIB_AUTH_H
#define GIN_LIB_AUTH_H

#include <stddef.h>
#include <stdint.h>

#define AUTH_KEY_BYTES 16

/*
 * SipHash-2-4, Aumasson and Bernstein 2012: without the key, nobody can compute the hash of a new
 * message. test/unit checks it against the authors' vectors.
 */
uint64_t siphash(const uint8_t key[AUTH_KEY_BYTES], const void *data, size_t bytes);

/* A key that follows from another and from `data`; `out` may be `key`. */
void authDerive(const uint8_t key[AUTH_KEY_BYTES], const void *data, size_t bytes,
		uint8_t out[AUTH_KEY_BYTES]);

/*
 * The connecting end, which sends its rank. Returns 0, or -1 with errno; EACCES: the listener has
 * another secret.
 */
int authConnect(int fd, const uint8_t key[AUTH_KEY_BYTES], uint32_t rank, uint64_t deadline);

#define AUTH_CHALLENGE_BYTES 16
#define AUTH_ANSWER_BYTES 32

/*
 * The connecting end's answer to a challenge, and the proof that the listener then has to send.
 * Returns 0, or -1 with errno.
 */
int authMakeAnswer(const uint8_t key[AUTH_KEY_BYTES], uint32_t rank, const uint64_t challenge[2],
		   uint8_t answer[AUTH_ANSWER_BYTES], uint64_t *proof);

/*
 * The listening end, which receives the rank, in two steps: it serves other connections until the
 * answer arrives. Results as authConnect()'s. Reads AUTH_ANSWER_BYTES only.
 */
int authChallenge(int fd, uint64_t challenge[2], uint64_t deadline);
int authAnswer(int fd, const uint8_t key[AUTH_KEY_BYTES], const uint64_t challenge[2],
	       uint32_t *rank, uint64_t deadline);

struct authKey {
	uint8_t bytes[AUTH_KEY_BYTES];
	struct authKey *next;
};

/*
 * Reads an answer to `challenge`. Returns the key of the list that the answer proves, with the rank
 * and with the proof that the connecting end gets; NULL, with a proof of 0: it proves no key of the
 * list.
 */
struct authKey *authRead(const uint8_t answer[AUTH_ANSWER_BYTES], struct authKey *keys,
			 const uint64_t challenge[2], uint32_t *rank, uint64_t *proof);

/* As authAnswer(), by any key of a list; *found is the key that the connecting end knows. */
int authAnswerAny(int fd, struct authKey *keys, const uint64_t challenge[2], uint32_t *rank,
		  struct authKey **found, uint64_t deadline);

#endif
