/* SPDX-License-Identifier: BSD-3-Clause */
/* command.c - describes the device's answer to a command */
#include "command.h"

#include "prm.h"
#include "text.h"
#include "words.h"

bool commandSucceeded(const void *out)
{
	return fieldGet(out, OUT_STATUS) == STATUS_OK;
}

size_t commandText(const void *in, const void *out, char *text, size_t room)
{
	unsigned opcode = (unsigned)fieldGet(in, IN_OPCODE);
	unsigned status = (unsigned)fieldGet(out, OUT_STATUS);
	const char *name = commandName(opcode);
	struct text t = {text, room, 0};

	if (name)
		textAdd(&t, "%s", name);
	else
		textAdd(&t, "command 0x%03x", opcode);
	textAdd(&t, ": %s (status 0x%02x, syndrome 0x%06x)", commandStatusText(status), status,
		(unsigned)fieldGet(out, OUT_SYNDROME));
	return t.used;
}
