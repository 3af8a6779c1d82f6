/* SPDX-License-Identifier: BSD-3-Clause */
/* random.h - random bytes for secrets */
#ifndef GIN_LIB_RANDOM_H
#define GIN_LIB_RANDOM_H

#include <errno.h>
#include <sys/random.h>

/* 0, or -1 with errno; at most 256 bytes a call. */
static inline int randomBytes(void *out, size_t bytes)
{
	ssize_t got;
	do
		got = getrandom(out, bytes, 0);
	while (got < 0 && errno == EINTR);
	return got == (ssize_t)bytes ? 0 : -1;
}

#endif
