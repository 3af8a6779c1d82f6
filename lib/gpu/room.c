/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * room.c - how much host memory is free
 *
 * Linux hands out memory until none is left, and then kills processes. So libgin first checks the
 * available memory and the rest of the limit of a container. Swap counts for the host, where it is
 * a small part of a large memory. It does not count for a container, whatever memory.swap.max
 * allows: most memory here is pinned, or written by other ranks all the time, and memory that does
 * not fit ends the process. The caller of a request that is refused too early gets a sentence
 * instead.
 *
 * The answer must be current, and reading it takes longer than making a device communicator. So
 * cheap questions come first, and the others only if those leave a doubt.
 */
#include "room.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "lib/base/error.h"

#define KIB UINT64_C(1024)

/* For fewer bytes, the free memory is not checked. */
#define ROOM_CHECKED (1u << 20)

/* Free memory that the kernel may keep for itself: a generous estimate. */
#define ROOM_RESERVED(free) ((UINT64_C(1) << 28) + (free) / 16)

static uint64_t totalRoom(void)
{
	struct sysinfo info;

	return sysinfo(&info) ? UINT64_MAX
			      : (uint64_t)(info.totalram + info.totalswap) * info.mem_unit;
}

/* Memory that nobody uses, without the page cache; 0 when it is not known. */
static uint64_t idleRoom(void)
{
	struct sysinfo info;
	uint64_t idle = sysinfo(&info) ? 0 : (uint64_t)info.freeram * info.mem_unit;

	return idle > ROOM_RESERVED(idle) ? idle - ROOM_RESERVED(idle) : 0;
}

/*
 * MemAvailable is an estimate that includes the memory that the page cache can give back. Without
 * /proc, the total memory is returned.
 */
static uint64_t availableRoom(void)
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

static uint64_t hostRoom(uint64_t wanted)
{
	uint64_t idle = idleRoom();

	return idle >= wanted ? idle : availableRoom();
}

/* The number in a file; UINT64_MAX when there is no number, "max" for example. */
static uint64_t readNumber(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[32], *end;

	if (fd < 0)
		return UINT64_MAX;
	ssize_t got = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[got > 0 ? got : 0] = '\0';
	uint64_t number = strtoull(text, &end, 10);
	return end == text ? UINT64_MAX : number;
}

/* The files of one version of control groups. */
struct roomFiles {
	const char *folder, *limit, *usage, *cache; /* `cache`: a field of memory.stat */
};

static const struct roomFiles version1 = {"/memory", "memory.limit_in_bytes",
					  "memory.usage_in_bytes", "total_inactive_file"},
			      version2 = {"", "memory.max", "memory.current", "inactive_file"};

/* The number of a field of memory.stat; 0 when there is none. */
static uint64_t readStat(const char *path, const char *name)
{
	FILE *file = fopen(path, "re");
	char line[128], field[64];
	unsigned long long number, found = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%63s %llu", field, &number) == 2 && !strcmp(field, name))
			found = number;
	if (file)
		fclose(file);
	return found;
}

/*
 * The rest of one control group's limit. The kernel takes back inactive file cache before it kills
 * a process.
 */
static uint64_t groupLeft(const char *group, const struct roomFiles *files, uint64_t wanted)
{
	char path[640];

	snprintf(path, sizeof(path), "%s/%s", group, files->limit);
	uint64_t limit = readNumber(path), total = totalRoom();
	if (limit == UINT64_MAX)
		return UINT64_MAX;
	if (limit > total && limit - total >= wanted) /* the group cannot use more than `total` */
		return limit - total;
	snprintf(path, sizeof(path), "%s/%s", group, files->usage);
	uint64_t usage = readNumber(path);
	if (usage == UINT64_MAX || (usage < limit && limit - usage >= wanted))
		return usage == UINT64_MAX ? limit : limit - usage;
	snprintf(path, sizeof(path), "%s/memory.stat", group);
	uint64_t cache = readStat(path, files->cache);
	usage -= cache < usage ? cache : usage;
	return usage < limit ? limit - usage : 0;
}

/* The least rest of the limits of a control group and the groups that contain it. */
static uint64_t groupsLeft(const char *root, char *group, const struct roomFiles *files,
			   uint64_t wanted)
{
	char path[576];
	uint64_t least = UINT64_MAX;

	if (!strcmp(group, "/"))
		*group = '\0';
	for (;;) {
		snprintf(path, sizeof(path), "%s%s%s", root, files->folder, group);
		uint64_t left = groupLeft(path, files, wanted);
		least = left < least ? left : least;
		char *slash = strrchr(group, '/');
		if (!slash)
			return least;
		*slash = '\0';
	}
}

/* Lines are "0::/group" (version 2) or "4:memory:/group" (version 1). */
uint64_t roomOfContainer(const char *groups, const char *root, uint64_t wanted)
{
	FILE *file = fopen(groups, "re");
	char line[320], *at;
	uint64_t least = UINT64_MAX;

	while (file && fgets(line, sizeof(line), file)) {
		uint64_t left = UINT64_MAX;
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "0::", 3))
			left = groupsLeft(root, line + 3, &version2, wanted);
		else if ((at = strstr(line, ":memory:")))
			left = groupsLeft(root, at + 8, &version1, wanted);
		least = left < least ? left : least;
	}
	if (file)
		fclose(file);
	return least;
}

uint64_t roomLeft(uint64_t wanted, const char **what)
{
	*what = "this host";
	if (wanted < ROOM_CHECKED)
		return UINT64_MAX;
	uint64_t host = hostRoom(wanted),
		 container = roomOfContainer("/proc/self/cgroup", "/sys/fs/cgroup", wanted);

	if (container < host)
		*what = "this container";
	return container < host ? container : host;
}

ginResult_t roomCheck(size_t bytes, const char *kind)
{
	const char *what;
	uint64_t room = roomLeft(bytes, &what);

	if (bytes <= room)
		return ginSuccess;
	return fail(ginErrorSystem, "no %zu bytes of %s: %s has %llu left", bytes, kind, what,
		    (unsigned long long)room);
}
