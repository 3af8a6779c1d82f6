/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_room.c - what a container has left of its limit, read from folders made here; in a control
 * group, if this process may make one, requests for more are refused
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "expect.h"
#include "lib/gpu/room.h"

#define MIB (1ull << 20)

static const char *memoryInfo; /* what /proc/meminfo has; NULL: the system's */

/* Of this program instead of the C library's. */
FILE *fopen(const char *path, const char *mode)
{
	if (memoryInfo && !strcmp(path, "/proc/meminfo"))
		return fmemopen((void *)(uintptr_t)memoryInfo, strlen(memoryInfo), "r");
	FILE *(*own)(const char *, const char *) =
		(FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
	return own(path, mode);
}

static char root[] = "/tmp/unit_room-XXXXXX";

static void writeFile(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");

	EXPECT(file && fputs(text, file) >= 0 && !fclose(file));
}

/* The file `name` of a control group below `root`. */
static void set(const char *group, const char *name, const char *text)
{
	char path[256];

	for (size_t i = 0; group[i]; i++) {
		snprintf(path, sizeof(path), "%s%.*s", root, (int)i, group);
		EXPECT(group[i] != '/' || !mkdir(path, 0700) || errno == EEXIST);
	}
	snprintf(path, sizeof(path), "%s%s", root, group);
	EXPECT(!mkdir(path, 0700) || errno == EEXIST);
	snprintf(path, sizeof(path), "%s%s/%s", root, group, name);
	writeFile(path, text);
}

/* `groups` is what /proc/self/cgroup would have. */
static void expectLeftOf(const char *groups, uint64_t wanted, uint64_t expected)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/groups", root);
	writeFile(path, groups);
	EXPECT_EQUAL(roomOfContainer(path, root, wanted), expected);
}

static void expectLeft(const char *groups, uint64_t expected)
{
	expectLeftOf(groups, UINT64_MAX, expected);
}

static void version2(void)
{
	set("/job/rank", "memory.max", "104857600\n");
	set("/job/rank", "memory.current", "62914560\n");
	expectLeft("0::/job/rank\n", 40 * MIB);
	set("/job/rank", "memory.stat", "anon 52428800\nactive_file 1\ninactive_file 10485760\n");
	expectLeft("0::/job/rank\n", 50 * MIB);
	expectLeftOf("0::/job/rank\n", 40 * MIB, 40 * MIB); /* enough, whatever the cache uses */
	expectLeftOf("0::/job/rank\n", 40 * MIB + 1, 50 * MIB);
	expectLeftOf("0::/job/rank\n", 60 * MIB, 50 * MIB);
	set("/job", "memory.max", "max\n");
	set("/job", "memory.current", "62914560\n");
	expectLeft("0::/job/rank\n", 50 * MIB);
	set("/job", "memory.max", "68157440\n");
	expectLeft("0::/job/rank\n", 5 * MIB);
	set("/job/rank", "memory.swap.max", "max\n"); /* swap does not count */
	set("/job/rank", "memory.swap.current", "0\n");
	expectLeft("0::/job/rank\n", 5 * MIB);
	set("/job", "memory.current", "99999999\n"); /* a limit that was lowered later */
	expectLeft("0::/job/rank\n", 0);
	expectLeft("0::/\n", UINT64_MAX);
}

static void version1(void)
{
	set("/memory", "memory.limit_in_bytes", "9223372036854771712\n");
	set("/memory", "memory.usage_in_bytes", "123456789\n");
	set("/memory/job", "memory.limit_in_bytes", "104857600\n");
	set("/memory/job", "memory.usage_in_bytes", "94371840\n");
	set("/memory/job", "memory.stat", "inactive_file 1\ntotal_inactive_file 20971520\n");
	expectLeft("5:cpu:/job\n4:memory:/job\n0::/\n", 30 * MIB);
	expectLeft("4:memory:/job/of/another/namespace\n", 30 * MIB);
	EXPECT_EQUAL(roomOfContainer("/nonexistent", root, 1), UINT64_MAX);
}

/* An answer is exact only where it is less than the wanted bytes. */
static void wanted(void)
{
	const char *what;
	uint64_t exact = roomLeft(UINT64_MAX, &what);

	EXPECT_EQUAL(roomLeft(MIB - 1, &what), UINT64_MAX);
	EXPECT(roomLeft(MIB, &what) >= MIB);
	uint64_t large = roomLeft(exact / 8, &what);
	printf("%llu bytes left, at least %llu\n", (unsigned long long)exact,
	       (unsigned long long)large);
	EXPECT(large >= exact / 8);
}

/* A control group of 64 MiB. Returns the version, or 0 if this process may not make one. */
static int enterGroup(char group[64])
{
	static const char *const folders[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/memory"};
	char path[128], pid[32];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	for (int version = 2; version >= 1; version--) {
		snprintf(group, 64, "%s/gin-%d", folders[2 - version], (int)getpid());
		if (mkdir(group, 0700))
			continue;
		snprintf(path, sizeof(path), "%s/%s", group,
			 version == 2 ? "memory.max" : "memory.limit_in_bytes");
		int limit = open(path, O_WRONLY);
		snprintf(path, sizeof(path), "%s/cgroup.procs", group);
		int procs = open(path, O_WRONLY);
		if (limit >= 0 && procs >= 0 && write(limit, "64M", 3) == 3 &&
		    write(procs, pid, strlen(pid)) > 0)
			return version;
		close(limit);
		close(procs);
		rmdir(group);
	}
	return 0;
}

/* More than 64 MiB, though each number is in its documented range. */
static void deviceCommunicator(void)
{
	ginConfig_t config = GIN_CONFIG_INIT;
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginComm_t comm = NULL;
	ginDevComm dc;

	config.device = GIN_DEVICE_NONE;
	EXPECT_SUCCESS(ginCommInit(&config, &comm));
	want.contexts = 64;
	want.signals = 1 << 20;
	EXPECT_FAILS(ginDevCommCreate(comm, &want, &dc), ginErrorSystem,
		     "requirements.contexts 64, signals 1048576, counters ", "this container has ",
		     "ask for fewer");
	want.contexts = 1;
	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &dc));
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &dc));
	EXPECT_SUCCESS(ginCommDestroy(comm));
}

/* What the page cache can give back counts, and free swap, in KiB. */
static void ofHost(void)
{
	const char *what = "";

	memoryInfo =
		"MemTotal: 7 kB\nMemAvailable:    1000 kB\nSwapTotal: 99 kB\nSwapFree: 24 kB\n";
	EXPECT_EQUAL(roomLeft(UINT64_MAX, &what), MIB);
	EXPECT_TEXT(what, "this host");
}

/* Memory that is in use is not offered again. */
static void ownGroup(void)
{
	char group[64];
	const char *what = "";

	if (!enterGroup(group)) {
		printf("no control group of memory for this process: left out\n");
		return;
	}
	deviceCommunicator();
	uint64_t before = roomLeft(UINT64_MAX, &what);
	EXPECT_TEXT(what, "this container");
	void *at = mmap(NULL, 40 * MIB, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	EXPECT(at != MAP_FAILED);
	uint64_t after = roomLeft(UINT64_MAX, &what);
	printf("%s: %llu bytes left, %llu after 40 MiB\n", group, (unsigned long long)before,
	       (unsigned long long)after);
	EXPECT(before <= 64 * MIB && before > 41 * MIB && after < before - 39 * MIB);
	EXPECT_FAILS(roomCheck(40 * MIB, "shared memory"), ginErrorSystem,
		     "no 41943040 bytes of shared memory: this container has ");
}

static void removeGroups(pid_t child)
{
	char group[64];

	snprintf(group, sizeof(group), "/sys/fs/cgroup/gin-%d", (int)child);
	rmdir(group);
	snprintf(group, sizeof(group), "/sys/fs/cgroup/memory/gin-%d", (int)child);
	rmdir(group);
}

/* As expectChild(), and removes the control group of the child. */
static void inOwnGroup(void)
{
	int status = 0;
	pid_t child = fork();

	if (!child) {
		ownGroup();
		exit(0);
	}
	EXPECT(child > 0 && waitpid(child, &status, 0) == child);
	removeGroups(child);
	EXPECT_EQUAL(status, 0);
}

int main(void)
{
	char remove[64];

	setenv("GIN_LOG", "none", 0);
	setenv("GIN_BOOTSTRAP", "self", 1);
	EXPECT(mkdtemp(root) != NULL);
	expectChild("version 1", version1);
	expectChild("version 2", version2);
	expectChild("answers that need not be exact", wanted);
	expectChild("a host", ofHost);
	expectChild("a control group of its own", inOwnGroup);
	snprintf(remove, sizeof(remove), "rm -r %s", root);
	EXPECT(!system(remove));
	return expectFailures != 0;
}
