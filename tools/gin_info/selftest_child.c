/* SPDX-License-Identifier: BSD-3-Clause */
/* selftest_child.c - one rank of a pass of the self-test, in a process of its own */
#include "selftest.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Beside libgin.so in a build tree, in libgin0/ in an installation; else where the loader looks. */
static void *openPlugin(void)
{
	static const char *const folders[] = {"/", "/libgin0/"};
	char path[1200];
	Dl_info self;
	const char *slash = NULL;

	if (dladdr((const void *)ginCommInit, &self) && self.dli_fname)
		slash = strrchr(self.dli_fname, '/');
	for (int i = 0; slash && i < 2; i++) {
		snprintf(path, sizeof(path), "%.*s%s" SELFTEST_PLUGIN,
			 (int)(slash - self.dli_fname), self.dli_fname, folders[i]);
		if (!access(path, F_OK))
			return dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	return dlopen(SELFTEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
}

const struct selftestCalls *selftestLoad(char *why, size_t room)
{
	void *library = openPlugin();
	const struct selftestCalls *calls = library ? dlsym(library, SELFTEST_SYMBOL) : NULL;

	if (calls && calls->size == sizeof(*calls))
		return calls;
	snprintf(why, room, "%s", calls ? SELFTEST_PLUGIN " belongs to another libgin" : dlerror());
	return NULL;
}

static void writeAll(int fd, const void *from, size_t bytes)
{
	const char *at = from;
	ssize_t some;

	while (bytes && (some = write(fd, at, bytes)) > 0) {
		at += some;
		bytes -= (size_t)some;
	}
}

/* Cells that could not be tested have the reason; the test itself always succeeds. */
static void test(ginComm_t comm, const struct selftestCalls *calls, int nRanks, int fd)
{
	struct selftestAnswer answer = {.made = 1};
	struct selftestCell *cells = calloc((size_t)nRanks, sizeof(*cells));

	if (!cells)
		return;
	calls->run(comm, cells);
	writeAll(fd, &answer, sizeof(answer));
	writeAll(fd, cells, (size_t)nRanks * sizeof(*cells));
	free(cells);
}

int selftestChild(void)
{
	struct selftestJob job;
	struct selftestAnswer answer = {0};
	ginComm_t comm;
	int fd = dup(STDOUT_FILENO);
	const struct selftestCalls *calls = selftestLoad(answer.why, sizeof(answer.why));

	/* Libraries may print. */
	dup2(STDERR_FILENO, STDOUT_FILENO);
	if (read(STDIN_FILENO, &job, sizeof(job)) != sizeof(job))
		return 1;
	if (calls && ginCommInitRank(NULL, &job.id, job.rank, job.nRanks, &comm) == ginSuccess) {
		test(comm, calls, job.nRanks, fd);
		close(fd);
		ginCommDestroy(comm);
		return 0;
	}
	if (calls)
		snprintf(answer.why, sizeof(answer.why), "%s", ginGetLastError());
	writeAll(fd, &answer, sizeof(answer));
	return 0;
}
