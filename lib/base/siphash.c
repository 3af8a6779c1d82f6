/* SPDX-License-Identifier: BSD-3-Clause */
/* siphash.c - SipHash-2-4 */
#include "siphash.h"

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

uint64_t siphash(const uint8_t key[SIPHASH_KEY_BYTES], const void *data, size_t bytes)
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
