/* SPDX-License-Identifier: BSD-3-Clause */
/* child.h - a test in a process of its own, and its output */
#ifndef MLX5DEV_TESTS_CHILD_H
#define MLX5DEV_TESTS_CHILD_H

#include "expect.h"

enum { CHILD_SECONDS = 60 };

/* Its exit status, or 128 + the signal; `text` has its standard error. */
static inline int childRun(void (*body)(void), char *text, size_t room)
{
	int ends[2], status = 0;
	size_t used = 0;
	ssize_t got = 0;

	fflush(NULL);
	EXPECT(!pipe(ends));
	pid_t child = fork();
	if (child == 0) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		alarm(CHILD_SECONDS);
		body();
		exit(0);
	}
	EXPECT(child > 0);
	close(ends[1]);
	while (used + 1 < room && (got = read(ends[0], text + used, room - used - 1)) > 0)
		used += (size_t)got;
	text[used] = 0;
	close(ends[0]);
	EXPECT(waitpid(child, &status, 0) == child);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

#endif
