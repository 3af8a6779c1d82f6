/* SPDX-License-Identifier: BSD-3-Clause */
/* selftest.c - runs the passes of the self-test in child processes, and gathers what they found */
#include "gin_info.h"
#include "selftest.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

const struct selftestPass selftestPasses[] = {
	{"as configured", {NULL}},
	{"direct", {"GIN_ROUTE=direct"}},
	{"copy engines", {"GIN_ROUTE=direct", "GIN_COPY_ENGINE=on", "GIN_COPY_ENGINE_BYTES=1"}},
	{"proxy, ipc", {"GIN_ROUTE=network", "GIN_BACKEND=proxy", "GIN_TRANSPORT=ipc"}},
	{"proxy, verbs", {"GIN_ROUTE=network", "GIN_BACKEND=proxy", "GIN_TRANSPORT=verbs"}},
	{"proxy, libfabric", {"GIN_ROUTE=network", "GIN_BACKEND=proxy", "GIN_TRANSPORT=ofi"}},
	{"gdaki", {"GIN_ROUTE=network", "GIN_BACKEND=gdaki"}},
};
enum { PASSES = sizeof(selftestPasses) / sizeof(selftestPasses[0]) };

/* This rank and its limits. */
struct selftestRank {
	ginComm_t comm;
	int rank, nRanks;
	int hideGpu; /* children use host threads: the plug-in has no kernels */
	int seconds; /* a child is killed after that time */
};

static time_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

const char *selftestState(uint32_t state)
{
	static const char *const names[] = {"untested", "no route", "broken", "good"};

	return state <= selftestGood ? names[state] : "unknown";
}

const char *selftestSettings(const struct selftestPass *pass, char *out, size_t room)
{
	size_t used = 0;

	out[0] = 0;
	for (int i = 0; i < SELFTEST_SETTINGS && pass->settings[i] && used < room; i++)
		used += (size_t)snprintf(out + used, room - used, "%s%s", i ? " " : "",
					 pass->settings[i]);
	return out;
}

/* Starts a child whose standard input and output are the socket. */
static int spawnWith(pid_t *pid, int socket)
{
	char *const arguments[] = {"gin_info", SELFTEST_CHILD, NULL};
	posix_spawn_file_actions_t actions;

	if (posix_spawn_file_actions_init(&actions))
		return 1;
	int failed = posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO) ||
		     posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO) ||
		     posix_spawn(pid, "/proc/self/exe", &actions, NULL, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	return failed;
}

/*
 * Returns a socket to the child, or -1. The child finds its job there: its parent writes nothing
 * when the child may have ended.
 */
static int startChild(pid_t *pid, const struct selftestJob *job)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return -1;
	int failed = write(ends[0], job, sizeof(*job)) != sizeof(*job) || spawnWith(pid, ends[1]);
	close(ends[1]);
	if (!failed)
		return ends[0];
	close(ends[0]);
	return -1;
}

/* Reads until the child closes its end. Returns the bytes read: fewer at the deadline. */
static size_t readAll(int fd, void *into, size_t bytes, time_t deadline)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	size_t used = 0;

	while (used < bytes) {
		time_t left = deadline - now();
		if (left <= 0 || poll(&wait, 1, (int)left * 1000) <= 0)
			break;
		ssize_t some = read(fd, (char *)into + used, bytes - used);
		if (some <= 0)
			break;
		used += (size_t)some;
	}
	return used;
}

/*
 * Lets a child that has answered leave its communicator; kills a child that has not ended at the
 * deadline. Returns whether it killed the child.
 */
static int reap(pid_t pid, time_t deadline, int *status)
{
	while (waitpid(pid, status, WNOHANG) == 0) {
		if (now() >= deadline) {
			kill(pid, SIGKILL);
			waitpid(pid, status, 0);
			return 1;
		}
		usleep(2000);
	}
	return 0;
}

static void describeEnd(const struct selftestRank *r, int killed, int status,
			struct selftestAnswer *answer)
{
	answer->made = 0;
	answer->ended = 1;
	if (killed)
		snprintf(answer->why, sizeof(answer->why),
			 "rank %d: the test has no result after %d s", r->rank, r->seconds);
	else if (WIFSIGNALED(status))
		snprintf(answer->why, sizeof(answer->why), "rank %d: signal %d (%s) ended the test",
			 r->rank, WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(answer->why, sizeof(answer->why),
			 "rank %d: the test ended without a result", r->rank);
}

/* Runs this rank's child of a pass. */
static void runChild(const struct selftestRank *r, int pass, const ginUniqueId_t *id,
		     struct selftestAnswer *answer, struct selftestCell *cells)
{
	struct selftestJob job = {*id, r->rank, r->nRanks, pass, r->hideGpu, r->seconds / 2};
	time_t deadline = now() + r->seconds;
	size_t bytes = (size_t)r->nRanks * sizeof(*cells);
	pid_t pid;
	int status = 0, fd = startChild(&pid, &job);

	if (fd < 0) {
		snprintf(answer->why, sizeof(answer->why), "rank %d: no child process", r->rank);
		return;
	}
	int isWhole = readAll(fd, answer, sizeof(*answer), deadline) == sizeof(*answer) &&
		      (!answer->made || readAll(fd, cells, bytes, deadline) == bytes);
	int isKilled = reap(pid, isWhole ? now() + 10 : deadline, &status);
	close(fd);
	if (!isWhole)
		describeEnd(r, isKilled, status, answer);
}

static void countRow(const struct selftestCell *row, int n, struct selftestCount *count)
{
	for (int i = 0; i < n; i++) {
		count->good += row[i].state == selftestGood;
		count->noRoute += row[i].state == selftestNoRoute;
	}
	count->broken = n - count->good - count->noRoute;
}

/* A rank whose child has no result, where other ranks have one. */
static void fillRow(const char *why, struct selftestCell *row, int n)
{
	for (int i = 0; i < n; i++)
		snprintf(row[i].fault, sizeof(row[i].fault), "%.*s", (int)sizeof(row[i].fault) - 1,
			 why);
}

/*
 * Collective: the results of all ranks. All ranks know the sums, so that they end with one status.
 * Without a communicator on any rank, the answer of the lowest rank stands for all.
 */
static ginResult_t gather(const struct selftestRank *r, struct selftestAnswer *mine,
			  struct selftestCell *row, struct selftestResult *result)
{
	size_t n = (size_t)r->nRanks;
	struct selftestCount *sum = &result->count;

	countRow(row, r->nRanks, &mine->count);
	struct selftestAnswer *all = gatherAll(r->comm, r->nRanks, mine, sizeof(*mine));
	if (!all)
		return ginErrorSystem;
	for (size_t i = 0; i < n; i++) {
		if (!i || (all[i].made && !result->answer.made))
			result->answer = all[i];
		sum->good += all[i].count.good;
		sum->noRoute += all[i].count.noRoute;
		sum->broken += all[i].count.broken;
	}
	free(all);
	if (!result->answer.made) {
		*sum = (struct selftestCount){.broken = result->answer.ended ? result->pairs : 0};
		return ginSuccess;
	}
	if (!mine->made)
		fillRow(mine->why, row, r->nRanks);
	if (r->rank == 0 && !(result->cells = calloc(n * n, sizeof(*result->cells))))
		return ginErrorSystem;
	return gatherRows(r->comm, r->nRanks, row, (char *)result->cells, n * sizeof(*row));
}

/* Collective: rank 0's id for the children of a pass. */
static ginResult_t agreeId(const struct selftestRank *r, ginUniqueId_t *id)
{
	ginResult_t result = r->rank == 0 ? ginGetUniqueId(id) : ginSuccess;
	ginUniqueId_t *all = gatherAll(r->comm, r->nRanks, id, sizeof(*id));

	if (!all)
		return ginErrorSystem;
	*id = all[0];
	free(all);
	return result;
}

static ginResult_t runPass(const struct selftestRank *r, int pass, struct selftestResult *result)
{
	ginUniqueId_t id = {0};
	struct selftestAnswer answer = {0};
	struct selftestCell *row = calloc((size_t)r->nRanks, sizeof(*row));
	ginResult_t done = row ? agreeId(r, &id) : ginErrorSystem;

	result->pass = &selftestPasses[pass];
	result->pairs = (long)r->nRanks * r->nRanks;
	if (done == ginSuccess) {
		runChild(r, pass, &id, &answer, row);
		done = gather(r, &answer, row, result);
	}
	free(row);
	return done;
}

/* The children end before a collective of their parents does. */
static void chooseLimits(struct selftestRank *r)
{
	int limit = 600;

	for (int i = 0; i < paramRow(0).count; i++)
		if (!strcmp(paramRow(i).name, "GIN_TIMEOUT"))
			limit = atoi(paramRow(i).value);
	r->seconds = 60 + 6 * r->nRanks;
	if (r->seconds > limit * 3 / 4)
		r->seconds = limit * 3 / 4 > 2 ? limit * 3 / 4 : 2;
}

static int fillReport(struct selftestRank *r, struct selftestReport *report)
{
	int leader = leaderOf(r->comm, r->rank);

	report->nRanks = r->nRanks;
	report->host = gatherAll(r->comm, r->nRanks, &leader, sizeof(leader));
	report->result = calloc(PASSES, sizeof(*report->result));
	if (!report->host || !report->result)
		return 1;
	for (int i = 0; i < PASSES; i++) {
		if (runPass(r, i, &report->result[i]) != ginSuccess)
			return 1;
		report->passes++;
	}
	return 0;
}

static void freeReport(struct selftestReport *report)
{
	for (int i = 0; report->result && i < PASSES; i++)
		free(report->result[i].cells);
	free(report->result);
	free(report->host);
}

/* Broken pairs fail the test; routes that are not there do not. */
static int statusOf(const struct selftestReport *report)
{
	for (int i = 0; i < report->passes; i++)
		if (report->result[i].count.broken)
			return 1;
	return !report->result[0].answer.made;
}

int selftestAll(ginComm_t comm, int json)
{
	struct selftestRank r = {.comm = comm};
	struct selftestReport report = {.device = "kernels"};
	char why[256];
	int device = GIN_DEVICE_NONE, status = 1;
	const struct selftestCalls *calls = selftestLoad(why, sizeof(why));

	if (!calls) {
		fprintf(stderr, "gin_info: no self-test: %s\n", why);
		return 1;
	}
	ginCommRank(comm, &r.rank);
	ginCommSize(comm, &r.nRanks);
	ginCommDevice(comm, &device);
	r.hideGpu = device >= 0 && !calls->kernels;
	if (r.hideGpu)
		report.device = "host threads, because " SELFTEST_PLUGIN " was built without nvcc";
	else if (device < 0)
		report.device = "host threads";
	chooseLimits(&r);
	if (fillReport(&r, &report)) {
		fprintf(stderr, "gin_info: rank %d: the self-test ended: %s\n", r.rank,
			ginGetLastError());
	} else {
		status = statusOf(&report);
		if (r.rank == 0)
			selftestPrint(&report, json);
	}
	freeReport(&report);
	return status;
}
