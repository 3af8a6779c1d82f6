/* SPDX-License-Identifier: BSD-3-Clause */
/* stage.c - times of phases that all ranks begin together, and resources in use */
#include "stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void stageDie(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s\n", what, why);
	exit(1);
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

struct stageShared *stageShare(const char *path)
{
	size_t bytes = sizeof(struct stageShared);
	int fd = -1, flags = MAP_SHARED | MAP_POPULATE;

	if (path) {
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0 || ftruncate(fd, (off_t)bytes))
			stageDie(path, strerror(errno));
	} else {
		flags |= MAP_ANONYMOUS;
	}
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (at == MAP_FAILED)
		stageDie("mmap", strerror(errno));
	if (fd >= 0)
		close(fd);
	return at;
}

/* A barrier of all ranks. The last rank stores the time at `opened`. */
static void gate(struct stage *s, uint64_t *opened)
{
	struct stageShared *shared = s->shared;
	uint32_t turn = __atomic_load_n(&shared->turn, __ATOMIC_ACQUIRE);

	if (__atomic_add_fetch(&shared->come, 1, __ATOMIC_ACQ_REL) < (uint32_t)s->nRanks) {
		while (__atomic_load_n(&shared->turn, __ATOMIC_ACQUIRE) == turn)
			syscall(SYS_futex, &shared->turn, FUTEX_WAIT, turn, NULL, NULL, 0);
		return;
	}
	shared->come = 0;
	*opened = now();
	__atomic_store_n(&shared->turn, turn + 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &shared->turn, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void stageBegin(struct stage *s, const char *name)
{
	if (s->phase == STAGE_PHASES)
		stageDie(name, "too many phases");
	if (!s->rank)
		s->shared->phase[s->phase] = name;
	gate(s, &s->shared->opened[s->phase]);
}

void stageEnd(struct stage *s)
{
	s->shared->done[s->phase][s->rank] = now();
	s->phase++;
}

/* The number after `name` in a file of /proc/self; 0 when there is no such line. */
static long readField(const char *path, const char *name)
{
	FILE *file = fopen(path, "re");
	char line[256];
	long value = 0;

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			value = atol(line + strlen(name));
	if (file)
		fclose(file);
	return value;
}

/* Counts open file descriptors, except the one used for counting. */
static long countDescriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	struct dirent *entry;
	long count = -1;

	while (directory && (entry = readdir(directory)))
		count += entry->d_name[0] != '.';
	if (directory)
		closedir(directory);
	return count;
}

void stageUse(struct stage *s, const char *name)
{
	if (s->point == STAGE_POINTS)
		stageDie(name, "too many points");
	if (!s->rank)
		s->shared->point[s->point] = name;
	s->shared->use[s->point++][s->rank] =
		(struct stageUse){.resident = readField("/proc/self/status", "VmRSS:"),
				  .proportional = readField("/proc/self/smaps_rollup", "Pss:"),
				  .descriptors = countDescriptors(),
				  .threads = readField("/proc/self/status", "Threads:")};
}

static void keepMost(long *most, long value)
{
	*most = value > *most ? value : *most;
}

static void printUse(const struct stageShared *shared, uint32_t point, const char *who, int from,
		     int to)
{
	struct stageUse most = {LONG_MIN, LONG_MIN, LONG_MIN, LONG_MIN};

	for (int r = from; r < to; r++) {
		const struct stageUse *before = &shared->use[point - 1][r];
		const struct stageUse *after = &shared->use[point][r];
		keepMost(&most.resident, after->resident - before->resident);
		keepMost(&most.proportional, after->proportional - before->proportional);
		keepMost(&most.descriptors, after->descriptors - before->descriptors);
		keepMost(&most.threads, after->threads - before->threads);
	}
	if (from < to)
		printf("use %s %s %ld %ld %ld %ld\n", shared->point[point], who, most.resident,
		       most.proportional, most.descriptors, most.threads);
}

static double microseconds(const struct stage *s, uint32_t phase)
{
	uint64_t last = 0;

	for (int r = 0; r < s->nRanks; r++)
		if (s->shared->done[phase][r] > last)
			last = s->shared->done[phase][r];
	return (double)(last - s->shared->opened[phase]) / 1e3;
}

void stageReport(struct stage *s)
{
	uint64_t opened;

	gate(s, &opened);
	if (s->rank)
		return;
	for (uint32_t phase = 0; phase < s->phase; phase++)
		printf("time %s %.1f\n", s->shared->phase[phase], microseconds(s, phase));
	for (uint32_t point = 1; point < s->point; point++) {
		printUse(s->shared, point, "root", 0, 1);
		printUse(s->shared, point, "other", 1, s->nRanks);
	}
	fflush(stdout);
}
