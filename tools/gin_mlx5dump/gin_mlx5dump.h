/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gin_mlx5dump.h - what the parts of gin_mlx5dump share
 *
 * read.c gets the bytes, queue.c says what they are.
 */
#ifndef GIN_TOOLS_GIN_MLX5DUMP_H
#define GIN_TOOLS_GIN_MLX5DUMP_H

#include <stddef.h>
#include <stdint.h>

enum format { formatGuess, formatHex, formatBinary };

struct dump {
	uint8_t *bytes; /* the caller frees them */
	size_t count;
};

/* What is expected of a queue; -1: whatever the first WQE has. */
struct expected {
	long first; /* slot at which a WQE begins */
	long index; /* of that WQE */
	long queue;
};

/* 0, or -1 after a sentence on stderr. "-" is the standard input. */
int dumpRead(const char *file, enum format format, struct dump *dump);

/* Both print, and return how many elements were malformed. */
size_t printSendQueue(const struct dump *dump, const struct expected *expected);
size_t printCompletionQueue(const struct dump *dump);

#endif
