/* SPDX-License-Identifier: BSD-3-Clause */
/* handshake.h - both ends of a connection prove that they know the communicator's secret */
#ifndef GIN_LIB_HANDSHAKE_H
#define GIN_LIB_HANDSHAKE_H

#include <stdint.h>

#include "siphash.h"

/* The connecting end, which says its rank; 0, or -1 with errno. EACCES: the other's secret is not
 * ours. */
int handshakeConnect(int fd, const uint8_t key[SIPHASH_KEY_BYTES], uint32_t rank,
		     uint64_t deadline);

/* The listening end, which learns the rank; reads a bounded number of bytes only. */
int handshakeAccept(int fd, const uint8_t key[SIPHASH_KEY_BYTES], uint32_t *rank,
		    uint64_t deadline);

/* The same in two steps, for a listener that serves others until the answer is there. */
#define HANDSHAKE_ANSWER_BYTES 32
int handshakeChallenge(int fd, uint64_t challenge[2], uint64_t deadline);
int handshakeAnswer(int fd, const uint8_t key[SIPHASH_KEY_BYTES], const uint64_t challenge[2],
		    uint32_t *rank, uint64_t deadline);

#endif
