/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gin_mlx5dump.h - declarations of gin_mlx5dump
 *
 * gin_mlx5dump.c  the program: options, and numbers in words
 * read.c          reads the bytes of a queue from a file
 * queue.c         decodes, checks and prints the elements of a queue
 */
#ifndef GIN_TOOLS_GIN_MLX5DUMP_H
#define GIN_TOOLS_GIN_MLX5DUMP_H

#include <stddef.h>
#include <stdint.h>

enum dumpFormat { formatGuess, formatHex, formatBinary };

struct dump {
	uint8_t *bytes; /* the caller frees them */
	size_t count;
};

/* What the queue should contain; -1: take the value from the first WQE. */
struct expectedQueue {
	long first; /* slot in which a WQE begins; -1: slot 0 */
	long index; /* index of the WQE in that slot */
	long queue; /* number of the queue pair */
};

/* Reads a file, "-" for standard input. Returns 0, or -1 after printing an error to stderr. */
int dumpRead(const char *file, enum dumpFormat format, struct dump *dump);

/* Both print the queue, and return the number of malformed elements. */
size_t printSendQueue(const struct dump *dump, const struct expectedQueue *expected);
size_t printCompletionQueue(const struct dump *dump);

#endif
