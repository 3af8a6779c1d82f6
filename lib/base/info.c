/* SPDX-License-Identifier: BSD-3-Clause */
/* info.c - structs that start with their size and grow from version to version */
#include "info.h"

#include <string.h>

#include "error.h"

enum { LEAST = sizeof(size_t) + sizeof(int), MOST = 4096 };

ginResult_t infoGive(const void *info, size_t bytes, const char *initializer, void *out)
{
	size_t room = 0;

	if (out)
		memcpy(&room, out, sizeof(room));
	if (room < LEAST || room > MOST)
		return fail(ginErrorInvalidArgument,
			    "info is NULL or its size is wrong: initialize with %s", initializer);
	if (room > bytes)
		room = bytes;
	memcpy(out, info, room);
	memcpy(out, &room, sizeof(room));
	return ginSuccess;
}

int infoTake(const void *given, size_t least, void *out, size_t bytes)
{
	size_t size;

	memcpy(&size, given, sizeof(size));
	/*
	 * A struct that starts with a size_t has no other sizes, and a piece of a pointer would be
	 * no pointer.
	 */
	if (size < least || size > MOST || size % sizeof(size_t))
		return 0;
	memcpy(out, given, size < bytes ? size : bytes);
	return 1;
}
