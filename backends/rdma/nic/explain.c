/* SPDX-License-Identifier: BSD-3-Clause */
/* explain.c - sentences about failures of the NIC */
#include "explain.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mlx5/command.h"
#include "mlx5/prm.h"
#include "mlx5/words.h"
#include "backends/rdma/rdma.h"

int explain(char *why, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, RDMA_WHY, format, args);
	va_end(args);
	return -1;
}

static const char *remedy(int error)
{
	switch (error) {
	case EACCES:
	case EPERM:
		return "; this user needs read and write access to /dev/infiniband/uverbs*";
	case EIO:
		return "; the device is gone or has failed: see the kernel log";
	default:
		return "";
	}
}

int explainErrno(char *why, int error, const char *format, ...)
{
	char what[RDMA_WHY / 2];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	return explain(why, "%s: %s%s", what, strerror(error), remedy(error));
}

int explainCommand(char *why, int error, const void *in, const void *out)
{
	const char *name = commandName((unsigned)fieldGet(in, IN_OPCODE));

	if (commandSucceeded(out))
		return explainErrno(why, error, "%s did not reach the device",
				    name ? name : "a command");
	commandText(in, out, why, RDMA_WHY);
	return -1;
}
