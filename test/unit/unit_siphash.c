/* SPDX-License-Identifier: BSD-3-Clause */
/* unit_siphash.c - SipHash-2-4 against its authors' vectors, and keys derived by it */
#include "lib/base/net/auth.h"

#include "expect.h"

#define VECTORS 64

/*
 * Hashes of 00, 01, 02, ... of length 0 to 63 with the key 00 to 0f: the authors publish them with
 * their reference code; OpenSSL's SIPHASH and a model in Python agree.
 */
static const uint64_t vectors[VECTORS] = {
	0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d,
	0xcf2794e0277187b7, 0x18765564cd99a68d, 0xcbc9466e58fee3ce, 0xab0200f58b01d137,
	0x93f5f5799a932462, 0x9e0082df0ba9e4b0, 0x7a5dbbc594ddb9f3, 0xf4b32f46226bada7,
	0x751e8fbc860ee5fb, 0x14ea5627c0843d90, 0xf723ca908e7af2ee, 0xa129ca6149be45e5,
	0x3f2acc7f57c29bdb, 0x699ae9f52cbe4794, 0x4bc1b3f0968dd39c, 0xbb6dc91da77961bd,
	0xbed65cf21aa2ee98, 0xd0f2cbb02e3b67c7, 0x93536795e3a33e88, 0xa80c038ccd5ccec8,
	0xb8ad50c6f649af94, 0xbce192de8a85b8ea, 0x17d835b85bbb15f3, 0x2f2e6163076bcfad,
	0xde4daaaca71dc9a5, 0xa6a2506687956571, 0xad87a3535c49ef28, 0x32d892fad841c342,
	0x7127512f72f27cce, 0xa7f32346f95978e3, 0x12e0b01abb051238, 0x15e034d40fa197ae,
	0x314dffbe0815a3b4, 0x027990f029623981, 0xcadcd4e59ef40c4d, 0x9abfd8766a33735c,
	0x0e3ea96b5304a7d0, 0xad0c42d6fc585992, 0x187306c89bc215a9, 0xd4a60abcf3792b95,
	0xf935451de4f21df2, 0xa9538f0419755787, 0xdb9acddff56ca510, 0xd06c98cd5c0975eb,
	0xe612a3cb9ecba951, 0xc766e62cfcadaf96, 0xee64435a9752fe72, 0xa192d576b245165a,
	0x0a8787bf8ecb74b2, 0x81b3e73d20b49b6f, 0x7fa8220ba3b2ecea, 0x245731c13ca42499,
	0xb78dbfaf3a8d83bd, 0xea1ad565322a1a0b, 0x60e61c23a3795013, 0x6606d7e446282b93,
	0x6ca4ecb15c5f91e1, 0x9f626da15c9625f3, 0xe51b38608ef25f57, 0x958a324ceb064572,
};

static void fillCounting(uint8_t *out, size_t bytes, unsigned first)
{
	for (size_t i = 0; i < bytes; i++)
		out[i] = (uint8_t)(first + i);
}

static void vectorsOfTheAuthors(void)
{
	uint8_t key[AUTH_KEY_BYTES], text[VECTORS];

	fillCounting(key, sizeof(key), 0);
	fillCounting(text, sizeof(text), 0);
	for (size_t n = 0; n < VECTORS; n++) {
		uint64_t seen = siphash(key, text, n);
		expectThat(seen == vectors[n], __FILE__, __LINE__,
			   "hash of %zu bytes is %016llx, expected %016llx", n,
			   (unsigned long long)seen, (unsigned long long)vectors[n]);
	}
}

/* The length's low byte alone is part of the hash: texts longer than 255 bytes. */
static void longText(void)
{
	uint8_t key[AUTH_KEY_BYTES], text[300] = {0};

	fillCounting(key, sizeof(key), 1);
	EXPECT(siphash(key, text, sizeof(text)) == 0xe4759867f845c922);
}

/* Text to hash lies at any address, in the middle of a message say. */
static void anyAlignment(void)
{
	uint8_t key[1 + AUTH_KEY_BYTES], text[VECTORS + 8];

	for (size_t shift = 0; shift < 8; shift++) {
		fillCounting(key + 1, AUTH_KEY_BYTES, 0);
		fillCounting(text + shift, VECTORS, 0);
		EXPECT(siphash(key + 1, text + shift, VECTORS - 1) == vectors[VECTORS - 1]);
	}
}

/* Two hashes of the text, whose keys are hashes, by OpenSSL's SIPHASH. */
static void derivedKey(void)
{
	static const uint64_t expected[2] = {0x0669cf5ee0a452d9, 0x78d93c6ab2c506d5};
	uint8_t key[AUTH_KEY_BYTES], text[20];
	uint64_t seen[2];

	fillCounting(key, sizeof(key), 0);
	fillCounting(text, sizeof(text), 0);
	authDerive(key, text, sizeof(text), (uint8_t *)seen);
	EXPECT(seen[0] == expected[0] && seen[1] == expected[1]);
}

int main(void)
{
	vectorsOfTheAuthors();
	derivedKey();
	longText();
	anyAlignment();
	printf("unit_siphash: %d vectors\n", VECTORS);
	return 0;
}
