/* SPDX-License-Identifier: BSD-3-Clause */
/* selftest_child.c - one rank of a pass of the self-test, in a process of its own */
#include "gin_info.h"
#include "selftest.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct selftestCalls *selftestLoad(char *why, size_t room)
{
	void *library = openPlugin(SELFTEST_PLUGIN);
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

enum { PATIENCE_SECONDS = 5 }; /* most of a wait for a peer; a short GIN_TIMEOUT allows less */

/* A rank whose pair does not answer comes to a collective before the other ranks give up. */
static struct selftestLimits limitsOf(const struct selftestJob *job)
{
	const uint64_t second = 1000000000, limit = (uint64_t)job->timeout * second / 3;

	return (struct selftestLimits){
		.pair = limit < PATIENCE_SECONDS * second ? limit : PATIENCE_SECONDS * second,
		.until = UINT64_MAX};
}

/* Cells that could not be tested have the reason; the test itself always succeeds. */
static void test(ginComm_t comm, const struct selftestCalls *calls, const struct selftestJob *job,
		 int fd)
{
	const int nRanks = job->nRanks;
	struct selftestAnswer answer = {.made = 1};
	struct selftestCell *cells = calloc((size_t)nRanks, sizeof(*cells));

	if (!cells)
		return;
	calls->run(comm, limitsOf(job), cells);
	writeAll(fd, &answer, sizeof(answer));
	writeAll(fd, cells, (size_t)nRanks * sizeof(*cells));
	free(cells);
}

/* Before the first question to libgin, which reads the environment once. */
static void setVariables(const struct selftestJob *job)
{
	const char *const *settings = selftestPasses[job->pass].settings;
	char timeout[32];

	snprintf(timeout, sizeof(timeout), "%d", job->timeout);
	setenv("GIN_TIMEOUT", timeout, 1);
	setenv("GIN_LOG", "none", 1);
	unsetenv("GIN_BOOTSTRAP");
	if (job->hideGpu)
		setenv("CUDA_VISIBLE_DEVICES", "", 1);
	for (int i = 0; i < SELFTEST_SETTINGS && settings[i]; i++)
		putenv((char *)settings[i]);
}

int selftestChild(void)
{
	struct selftestJob job;
	struct selftestAnswer answer = {0};
	ginComm_t comm;
	int fd = dup(STDOUT_FILENO);

	/* Libraries may print. */
	dup2(STDERR_FILENO, STDOUT_FILENO);
	if (read(STDIN_FILENO, &job, sizeof(job)) != sizeof(job))
		return 1;
	setVariables(&job);
	const struct selftestCalls *calls = selftestLoad(answer.why, sizeof(answer.why));
	if (calls && ginCommInitRank(NULL, &job.id, job.rank, job.nRanks, &comm) == ginSuccess) {
		test(comm, calls, &job, fd);
		close(fd);
		ginCommDestroy(comm);
		return 0;
	}
	if (calls)
		snprintf(answer.why, sizeof(answer.why), "%s", ginGetLastError());
	writeAll(fd, &answer, sizeof(answer));
	return 0;
}
