/* SPDX-License-Identifier: BSD-3-Clause */
#include "violation.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "options.h"
#include "mlx5/dev/device/device.h"

/*
 * A copy for with-device, because the sentence may be lost in the output of a command's processes.
 */
static void keepCopy(const char *text, size_t length)
{
	char path[128];
	ssize_t written;

	if (!options.directory[0])
		return;
	snprintf(path, sizeof(path), "%s/violation.%d", options.directory, (int)getpid());
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	written = write(fd, text, length);
	(void)written;
	close(fd);
}

/* Often within a store of the program: no buffers of stdio. */
static void sayAndAbort(const char *text, int length)
{
	ssize_t written = write(STDERR_FILENO, text, (size_t)length);

	(void)written;
	keepCopy(text, (size_t)length);
	abort();
}

static int hexadecimal(char *text, size_t room, const uint8_t *bytes, size_t length)
{
	int used = snprintf(text, room, " [bytes");

	for (size_t i = 0; i < length; i++)
		used += snprintf(text + used, room - (size_t)used, "%s%02x", i % 4 ? "" : " ",
				 bytes[i]);
	return used + snprintf(text + used, room - (size_t)used, "]");
}

void violation(const struct qp *qp, uint32_t index, const void *bytes, size_t length,
	       const char *format, ...)
{
	char text[2048];
	va_list args;
	int used = snprintf(text, sizeof(text),
			    "mlx5dev: violation: QP 0x%x, index %u: ", qp->object.id, index);

	va_start(args, format);
	used += vsnprintf(text + used, 512, format, args);
	va_end(args);
	if (length)
		used += hexadecimal(text + used, sizeof(text) - 8 - (size_t)used, bytes,
				    length > 128 ? 128 : length);
	text[used++] = '\n';
	sayAndAbort(text, used);
	abort();
}

void violationAlone(const char *format, ...)
{
	char text[600];
	va_list args;
	int used = snprintf(text, sizeof(text), "mlx5dev: violation: ");

	va_start(args, format);
	used += vsnprintf(text + used, 512, format, args);
	va_end(args);
	text[used++] = '\n';
	sayAndAbort(text, used);
	abort();
}

void noMemory(const char *what)
{
	char text[128];
	int used = snprintf(text, sizeof(text), "mlx5dev: no memory for %s\n", what);

	sayAndAbort(text, used);
	abort();
}
