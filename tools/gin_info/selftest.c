/* SPDX-License-Identifier: BSD-3-Clause */
/* selftest.c - runs the passes of the self-test in child processes, and gathers what they found */
#include "gin_info.h"
#include "selftest.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static const struct selftestPass passes[] = {
	{"as configured", {NULL}},
	{"direct", {"GIN_ROUTE=direct"}},
	{"copy engines", {"GIN_ROUTE=direct", "GIN_COPY_ENGINE=on", "GIN_COPY_ENGINE_BYTES=1"}},
	{"proxy, ipc", {"GIN_ROUTE=network", "GIN_BACKEND=proxy", "GIN_TRANSPORT=ipc"}},
	{"proxy, verbs", {"GIN_ROUTE=network", "GIN_BACKEND=proxy", "GIN_TRANSPORT=verbs"}},
	{"proxy, libfabric", {"GIN_ROUTE=network", "GIN_BACKEND=proxy", "GIN_TRANSPORT=ofi"}},
	{"gdaki", {"GIN_ROUTE=network", "GIN_BACKEND=gdaki"}},
};
enum { PASSES = sizeof(passes) / sizeof(passes[0]) };

/* This rank and its limits. */
struct selftestRank {
	ginComm_t comm;
	int rank, nRanks;
	int hideGpu;	  /* children use host threads: the plug-in has no kernels */
	int seconds;	  /* a child is killed after that time */
	char timeout[32]; /* GIN_TIMEOUT of children */
};

/* A child process, and the pipe from its standard output. */
struct selftestProcess {
	pid_t pid;
	int out;
};

_Static_assert(sizeof(struct selftestJob) <= PIPE_BUF, "a pipe holds a job");

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

/* The variables of a pass are set while its child starts, and then as before. */
struct selftestVariable {
	char name[40];
	char *before;
};

static void setVariable(struct selftestVariable *variable, const char *name, const char *value)
{
	const char *before = getenv(name);

	snprintf(variable->name, sizeof(variable->name), "%s", name);
	variable->before = before ? strdup(before) : NULL;
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

static void resetVariable(struct selftestVariable *variable)
{
	if (variable->before)
		setenv(variable->name, variable->before, 1);
	else
		unsetenv(variable->name);
	free(variable->before);
}

/* Returns how many variables were set. */
static int setAll(const struct selftestRank *r, const struct selftestPass *pass,
		  struct selftestVariable *variables)
{
	int n = 0;

	setVariable(&variables[n++], "GIN_TIMEOUT", r->timeout);
	setVariable(&variables[n++], "GIN_BOOTSTRAP", NULL);
	setVariable(&variables[n++], "GIN_LOG", "none");
	if (r->hideGpu)
		setVariable(&variables[n++], "CUDA_VISIBLE_DEVICES", "");
	for (int i = 0; i < SELFTEST_SETTINGS && pass->settings[i]; i++) {
		char name[40];
		size_t length = strcspn(pass->settings[i], "=");
		snprintf(name, sizeof(name), "%.*s", (int)length, pass->settings[i]);
		setVariable(&variables[n++], name, pass->settings[i] + length + 1);
	}
	return n;
}

static int spawnWith(struct selftestProcess *process, int childIn, int childOut)
{
	char *const arguments[] = {"gin_info", SELFTEST_CHILD, NULL};
	posix_spawn_file_actions_t actions;

	if (posix_spawn_file_actions_init(&actions))
		return 1;
	int failed =
		posix_spawn_file_actions_adddup2(&actions, childIn, STDIN_FILENO) ||
		posix_spawn_file_actions_adddup2(&actions, childOut, STDOUT_FILENO) ||
		posix_spawn(&process->pid, "/proc/self/exe", &actions, NULL, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	return failed;
}

/* The child finds its job in a pipe: its parent writes nothing when the child may have ended. */
static int start(struct selftestProcess *process, const struct selftestJob *job)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC))
		return 1;
	if (pipe2(out, O_CLOEXEC)) {
		close(in[0]);
		close(in[1]);
		return 1;
	}
	int failed = write(in[1], job, sizeof(*job)) != sizeof(*job) ||
		     spawnWith(process, in[0], out[1]);
	close(in[0]);
	close(in[1]);
	close(out[1]);
	process->out = out[0];
	if (failed)
		close(out[0]);
	return failed;
}

/* Reads until the child closes its end. Returns the bytes read; less than `bytes` at the deadline. */
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

static void readAnswer(const struct selftestRank *r, struct selftestProcess *process,
		       struct selftestAnswer *answer, struct selftestCell *cells)
{
	time_t deadline = now() + r->seconds;
	size_t bytes = (size_t)r->nRanks * sizeof(*cells);
	size_t got = readAll(process->out, answer, sizeof(*answer), deadline);
	int whole = got == sizeof(*answer) &&
		    (!answer->made || readAll(process->out, cells, bytes, deadline) == bytes);
	int status = 0, killed = reap(process->pid, whole ? now() + 10 : deadline, &status);

	close(process->out);
	if (!whole)
		describeEnd(r, killed, status, answer);
}

/* Runs this rank's child of a pass. */
static void runChild(const struct selftestRank *r, const struct selftestPass *pass,
		     const ginUniqueId_t *id, struct selftestAnswer *answer,
		     struct selftestCell *cells)
{
	struct selftestJob job = {.id = *id, .rank = r->rank, .nRanks = r->nRanks};
	struct selftestVariable variables[SELFTEST_SETTINGS + 4];
	struct selftestProcess process;
	int n = setAll(r, pass, variables);
	int failed = start(&process, &job);

	while (n)
		resetVariable(&variables[--n]);
	if (failed) {
		snprintf(answer->why, sizeof(answer->why), "rank %d: no child process", r->rank);
		return;
	}
	readAnswer(r, &process, answer, cells);
}

static struct selftestCount countRow(const struct selftestCell *row, int n)
{
	struct selftestCount count = {0};

	for (int i = 0; i < n; i++) {
		count.good += row[i].state == selftestGood;
		count.noRoute += row[i].state == selftestNoRoute;
		count.broken += row[i].state != selftestGood && row[i].state != selftestNoRoute;
	}
	return count;
}

/* Collective: all ranks know the sums, by which they end with one status. */
static ginResult_t countPairs(const struct selftestRank *r, const struct selftestCell *row,
			      struct selftestCount *sum)
{
	struct selftestCount mine = countRow(row, r->nRanks),
			     *all = calloc((size_t)r->nRanks, sizeof(*all));
	ginResult_t result =
		all ? ginCommAllgather(r->comm, &mine, all, sizeof(mine)) : ginErrorSystem;

	for (int i = 0; result == ginSuccess && i < r->nRanks; i++) {
		sum->good += all[i].good;
		sum->noRoute += all[i].noRoute;
		sum->broken += all[i].broken;
	}
	free(all);
	return result;
}

/* A rank whose child has no result, where other ranks have one. */
static void fillRow(const struct selftestAnswer *mine, struct selftestCell *row, int n)
{
	for (int i = 0; !mine->made && i < n; i++)
		snprintf(row[i].fault, sizeof(row[i].fault), "%.*s", (int)sizeof(row[i].fault) - 1,
			 mine->why);
}

/* Collective. Without a communicator on any rank, the answer of the lowest rank stands for all. */
static ginResult_t gather(const struct selftestRank *r, const struct selftestAnswer *mine,
			  struct selftestCell *row, struct selftestResult *result)
{
	size_t n = (size_t)r->nRanks;
	struct selftestAnswer *all = calloc(n, sizeof(*all));
	ginResult_t done =
		all ? ginCommAllgather(r->comm, mine, all, sizeof(*mine)) : ginErrorSystem;

	for (size_t i = 0; done == ginSuccess && i < n; i++)
		if (!i || (all[i].made && !result->answer.made))
			result->answer = all[i];
	free(all);
	if (done != ginSuccess || !result->answer.made)
		return done;
	fillRow(mine, row, r->nRanks);
	if (r->rank == 0) {
		result->cells = calloc(n * n, sizeof(*result->cells));
		if (!result->cells)
			return ginErrorSystem;
	}
	done = gatherRows(r->comm, r->nRanks, row, (char *)result->cells, n * sizeof(*row));
	return done == ginSuccess ? countPairs(r, row, &result->count) : done;
}

/* Collective: rank 0's id for the children of a pass. */
static ginResult_t agreeId(const struct selftestRank *r, ginUniqueId_t *id)
{
	ginUniqueId_t *all = calloc((size_t)r->nRanks, sizeof(*all));
	ginResult_t result = all ? ginSuccess : ginErrorSystem;

	memset(id, 0, sizeof(*id));
	if (result == ginSuccess && r->rank == 0)
		result = ginGetUniqueId(id);
	if (all && ginCommAllgather(r->comm, id, all, sizeof(*id)) == ginSuccess)
		*id = all[0];
	else
		result = ginErrorSystem;
	free(all);
	return result;
}

static ginResult_t runPass(const struct selftestRank *r, const struct selftestPass *pass,
			   struct selftestResult *result)
{
	ginUniqueId_t id;
	struct selftestAnswer answer = {0};
	struct selftestCell *row = calloc((size_t)r->nRanks, sizeof(*row));
	ginResult_t done = row ? agreeId(r, &id) : ginErrorSystem;

	result->pass = pass;
	result->pairs = (long)r->nRanks * r->nRanks;
	if (done == ginSuccess) {
		runChild(r, pass, &id, &answer, row);
		done = gather(r, &answer, row, result);
	}
	if (!result->answer.made && result->answer.ended)
		result->count.broken = result->pairs;
	free(row);
	return done;
}

/* The children end before a collective of their parents does. */
static void chooseLimits(struct selftestRank *r)
{
	ginParamInfo_t info = GIN_PARAM_INFO_INIT;
	int limit = 600;

	for (int i = 0; i == 0 || i < info.count; i++)
		if (ginParamQuery(i, &info) == ginSuccess && !strcmp(info.name, "GIN_TIMEOUT"))
			limit = atoi(info.value);
	r->seconds = 60 + 6 * r->nRanks;
	if (r->seconds > limit * 3 / 4)
		r->seconds = limit * 3 / 4 > 2 ? limit * 3 / 4 : 2;
	snprintf(r->timeout, sizeof(r->timeout), "%d", r->seconds / 2);
}

static int fillReport(struct selftestRank *r, struct selftestReport *report)
{
	int leader = leaderOf(r->comm, r->rank);

	report->nRanks = r->nRanks;
	report->host = calloc((size_t)r->nRanks, sizeof(int));
	report->result = calloc(PASSES, sizeof(*report->result));
	if (!report->host || !report->result ||
	    ginCommAllgather(r->comm, &leader, report->host, sizeof(leader)) != ginSuccess)
		return 1;
	for (int i = 0; i < PASSES; i++) {
		if (runPass(r, &passes[i], &report->result[i]) != ginSuccess)
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
