/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * room.c - how much host memory is free
 *
 * Linux hands out shared memory until none is left, and then kills processes. So the available
 * memory and the limit of a container are checked first.
 */
#include "room.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#define KIB UINT64_C(1024)

static uint64_t totalRoom(void)
{
	struct sysinfo info;

	return sysinfo(&info) ? UINT64_MAX
			      : (uint64_t)(info.totalram + info.totalswap) * info.mem_unit;
}

/*
 * MemAvailable is an estimate that includes what the page cache can give back. Without /proc, the
 * total memory is returned.
 */
static uint64_t hostRoom(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	char line[128];
	unsigned long long kib, sum = 0;
	int found = 0;

	while (file && fgets(line, sizeof(line), file)) {
		int available = sscanf(line, "MemAvailable: %llu", &kib) == 1;
		if (available || sscanf(line, "SwapFree: %llu", &kib) == 1)
			sum += kib;
		found |= available;
	}
	if (file)
		fclose(file);
	return found ? sum * KIB : totalRoom();
}

/* The number in a file; UINT64_MAX when there is no number, "max" for example. */
static uint64_t readNumber(const char *path)
{
	FILE *file = fopen(path, "re");
	unsigned long long number = UINT64_MAX;

	if (file && fscanf(file, "%llu", &number) != 1)
		number = UINT64_MAX;
	if (file)
		fclose(file);
	return number;
}

/* The least limit of a control group and of the groups that contain it. */
static uint64_t groupLimit(const char *root, char *group, const char *name)
{
	char path[512];
	uint64_t least = UINT64_MAX;

	for (;;) {
		snprintf(path, sizeof(path), "%s%s/%s", root, group, name);
		uint64_t limit = readNumber(path);
		least = limit < least ? limit : least;
		char *slash = strrchr(group, '/');
		if (!slash)
			return least;
		*slash = '\0';
	}
}

/* Lines are "0::/group" (version 2) or "4:memory:/group" (version 1). */
static uint64_t containerLimit(void)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[320], *at;
	uint64_t least = UINT64_MAX;

	while (file && fgets(line, sizeof(line), file)) {
		uint64_t limit = UINT64_MAX;
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "0::", 3))
			limit = groupLimit("/sys/fs/cgroup", line + 3, "memory.max");
		else if ((at = strstr(line, ":memory:")))
			limit = groupLimit("/sys/fs/cgroup/memory", at + 8,
					   "memory.limit_in_bytes");
		least = limit < least ? limit : least;
	}
	if (file)
		fclose(file);
	return least;
}

uint64_t roomLeft(const char **what)
{
	uint64_t host = hostRoom(), container = containerLimit();

	*what = container < host ? "this container" : "this host";
	return container < host ? container : host;
}
