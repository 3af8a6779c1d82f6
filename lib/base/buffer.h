/* SPDX-License-Identifier: BSD-3-Clause */
/* buffer.h - a growing array of bytes */
#ifndef GIN_LIB_BUFFER_H
#define GIN_LIB_BUFFER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct buffer {
	uint8_t *data;
	size_t used;
	size_t size;
};

#define BUFFER_KEEP 65536 /* bytes that bufferTrim() keeps allocated */

/* Makes room for `bytes` more at the end, or returns NULL. The caller adds to `used`. */
static inline uint8_t *bufferRoom(struct buffer *b, size_t bytes)
{
	if (b->used + bytes > b->size) {
		size_t least = b->used + bytes, size = 2 * b->size > least ? 2 * b->size : least;
		uint8_t *data = realloc(b->data, size);
		if (!data)
			return NULL;
		b->data = data;
		b->size = size;
	}
	return b->data + b->used;
}

/* 0, or -1 when there is no memory. */
static inline int bufferAppend(struct buffer *b, const void *data, size_t bytes)
{
	uint8_t *room = bufferRoom(b, bytes + !bytes);

	if (!room)
		return -1;
	if (bytes)
		memcpy(room, data, bytes);
	b->used += bytes;
	return 0;
}

static inline void bufferFree(struct buffer *b)
{
	free(b->data);
	*b = (struct buffer){0};
}

/* Empties the buffer, and frees it if it is large: large messages are rare. */
static inline void bufferTrim(struct buffer *b)
{
	b->used = 0;
	if (b->size > BUFFER_KEEP)
		bufferFree(b);
}

#endif
