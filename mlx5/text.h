/* SPDX-License-Identifier: BSD-3-Clause */
/* text.h - appends formatted text to a buffer of fixed size */
#ifndef GIN_MLX5_TEXT_H
#define GIN_MLX5_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* Text without room is cut off, and `used` exceeds `room`. Always ends in a NUL. */
struct text {
	char *out;
	size_t room, used;
};

__attribute__((format(printf, 2, 3))) static inline void textAdd(struct text *t, const char *format,
								 ...)
{
	size_t left = t->used < t->room ? t->room - t->used : 0;
	va_list args;

	va_start(args, format);
	int length = vsnprintf(left ? t->out + t->used : NULL, left, format, args);
	va_end(args);
	if (length > 0)
		t->used += (size_t)length;
}

#endif
