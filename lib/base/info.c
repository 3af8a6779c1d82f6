/* SPDX-License-Identifier: BSD-3-Clause */
/* info.c - output structs that start with their size and grow from version to version */
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
