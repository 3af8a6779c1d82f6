/* SPDX-License-Identifier: BSD-3-Clause */
/* file.h - keeps file descriptors of libgin above standard input, output and error */
#ifndef GIN_LIB_FILE_H
#define GIN_LIB_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/*
 * A process that has closed descriptor 2 still writes messages to it: they must not reach a socket
 * or memory of libgin. Takes a new descriptor or -1; returns the file's descriptor, which is 3 or
 * higher and closed by exec, or -1 with errno.
 */
static inline int fileAboveStandard(int fd)
{
	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	int reason = errno;
	close(fd);
	errno = reason;
	return moved;
}

#endif
