/* SPDX-License-Identifier: BSD-3-Clause */
/* siphash.h - a keyed hash for messages and identities */
#ifndef GIN_LIB_SIPHASH_H
#define GIN_LIB_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

#define SIPHASH_KEY_BYTES 16

/*
 * SipHash-2-4, Aumasson and Bernstein 2012: without the key nobody can tell the hash of a message
 * that he has not seen hashed. Checked against the authors' vectors by a test.
 */
uint64_t siphash(const uint8_t key[SIPHASH_KEY_BYTES], const void *data, size_t bytes);

#endif
