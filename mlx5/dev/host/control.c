/* SPDX-License-Identifier: BSD-3-Clause */
#include "control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "options.h"
#include "mlx5/dev/engine/wire.h"

static int listener = -1;

void controlOpen(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control.%d", options.directory,
		 (int)getpid());
	unlink(address.sun_path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(listener, 8)) {
		fprintf(stderr, "mlx5dev: %s: %s\n", address.sun_path, strerror(errno));
		exit(2);
	}
	wireWatch(listener);
}

static void serveOne(int fd, const char *(*take)(const char *word))
{
	const struct timeval limit = {.tv_sec = 1};
	char word[128], answer[256];

	/* All else of the device waits meanwhile. */
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	ssize_t length = recv(fd, word, sizeof(word) - 1, 0);

	if (length > 0) {
		word[length] = 0;
		const char *reason = take(word);
		int used = reason ? snprintf(answer, sizeof(answer), "\"%s\" %s", word, reason)
				  : snprintf(answer, sizeof(answer), "ok");

		send(fd, answer, (size_t)used, MSG_NOSIGNAL);
	}
	close(fd);
}

void controlServe(const char *(*take)(const char *word))
{
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		serveOne(fd, take);
}
