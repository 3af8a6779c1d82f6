/* SPDX-License-Identifier: BSD-3-Clause */
/* hex.h - bytes as the tests write them: pairs of hex digits, blanks anywhere between */
#ifndef GIN_TEST_HEX_H
#define GIN_TEST_HEX_H

#include "expect.h"

#include <ctype.h>
#include <stdint.h>

/* Returns the number of bytes. */
static inline size_t hexRead(const char *hex, uint8_t *out, size_t room)
{
	size_t n = 0;
	unsigned byte;

	for (; *hex; hex++) {
		if (isspace((unsigned char)*hex))
			continue;
		EXPECT(n < room && sscanf(hex, "%2x", &byte) == 1 &&
		       isxdigit((unsigned char)hex[1]));
		out[n++] = (uint8_t)byte;
		hex++;
	}
	return n;
}

/* Zeros follow the bytes of `hex`, up to `bytes`. */
static inline void hexExpect(const void *seen, size_t bytes, const char *hex, const char *name)
{
	uint8_t expected[256] = {0};

	EXPECT(bytes <= sizeof(expected) && hexRead(hex, expected, bytes) <= bytes);
	for (size_t i = 0; i < bytes; i++) {
		unsigned byte = ((const uint8_t *)seen)[i];
		expectThat(byte == expected[i], __FILE__, __LINE__,
			   "%s: byte %zu is %02x, expected %02x", name, i, byte, expected[i]);
	}
	printf("ok: %s\n", name);
}

#endif
