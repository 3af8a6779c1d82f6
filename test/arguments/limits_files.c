/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limits_files.c - a rank without file descriptors, address space or threads
 *
 * The other ranks report this rank's sentence, which names the limit. Nothing leaks, and once the
 * limit is lifted everything works in these processes.
 */
#include "resource_limits.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>

#define NOBODY 65534

static rlim_t softLimit(int resource)
{
	struct rlimit limit;

	EXPECT(!getrlimit((__rlimit_resource_t)resource, &limit));
	return limit.rlim_cur;
}

/* The hard limit stays, so that the soft limit can be raised again. */
static void setLimit(int resource, rlim_t value)
{
	struct rlimit limit;

	EXPECT(!getrlimit((__rlimit_resource_t)resource, &limit));
	limit.rlim_cur = value;
	EXPECT(!setrlimit((__rlimit_resource_t)resource, &limit));
}

/* How many more descriptors a rank may open once its communicator is there; -1: any. */
static int filesMore = -1;

/* The limit holds from the start. */
static int fewFilesFromTheBeginning(const ginConfig_t *config)
{
	rlim_t was = softLimit(RLIMIT_NOFILE);
	int lived = 0;

	expectLife(config);
	const struct holdings before = holdingsNow();
	for (rlim_t files = 3; !lived; files++) {
		if (isLacking(config))
			setLimit(RLIMIT_NOFILE, files);
		struct life life = live(config, NULL);
		setLimit(RLIMIT_NOFILE, was);
		expectHoldings(before);
		if (life.failed)
			expectSameWords(&life.outcome, life.failed, "raise ulimit -n");
		lived = allLived(config, &life);
		EXPECT(lived ? files > 8 : files < 100);
	}
	expectLife(config);
	return 0;
}

static void limitFiles(void)
{
	int next = dup(0);

	EXPECT(next >= 0);
	close(next);
	if (filesMore >= 0)
		setLimit(RLIMIT_NOFILE, (rlim_t)(next + filesMore));
}

/* One descriptor more in each life, until there are enough. */
static int fewFiles(const ginConfig_t *config)
{
	rlim_t was = softLimit(RLIMIT_NOFILE);
	int lived = 0;

	expectLife(config);
	const struct holdings before = holdingsNow();
	for (int more = 0; !lived; more++) {
		filesMore = isLacking(config) ? more : -1;
		struct life life = live(config, limitFiles);
		setLimit(RLIMIT_NOFILE, was);
		expectHoldings(before);
		if (life.failed)
			expectSameWords(&life.outcome, life.failed, "raise ulimit -n");
		if (life.allocated != ginSuccess)
			EXPECT_HAS(life.allocWords, "raise ulimit -n");
		lived = allLived(config, &life);
		EXPECT(lived ? more > 2 : more < 50);
	}
	expectLife(config);
	expectHoldings(before);
	return 0;
}

#ifndef __SANITIZE_ADDRESS__ /* whose shadow is larger than any limit */
static rlim_t bytesLater;

static void limitAddresses(void)
{
	if (bytesLater)
		setLimit(RLIMIT_AS, bytesLater);
}

static size_t addressesInUse(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	EXPECT(file && fscanf(file, "%lu", &pages) == 1);
	fclose(file);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Address space for a page more in each life: mappings of peers' memory do not fit. */
static int fewAddresses(const ginConfig_t *config)
{
	rlim_t was = softLimit(RLIMIT_AS);
	int failures = 0;

	expectLife(config);
	const struct holdings before = holdingsNow();
	for (size_t pages = 0; pages < 200; pages++) {
		bytesLater = isLacking(config) ? addressesInUse() + pages * 4096 : 0;
		struct life life = live(config, limitAddresses);
		setLimit(RLIMIT_AS, was);
		expectHoldings(before);
		if (life.failed)
			expectSameWords(&life.outcome, life.failed, "ulimit -v");
		if (life.allocated != ginSuccess)
			EXPECT_HAS(life.allocWords, "ulimit -v");
		if (allLived(config, &life))
			break;
		failures++;
	}
	EXPECT(failures > 0);
	expectLife(config);
	return 0;
}

#endif

static int notRoot(void)
{
	if (geteuid())
		printf("left out: full directories, a rank of another user: not root\n");
	return geteuid() != 0;
}

static int mountAlone(void)
{
	return unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

/* Containers may forbid it, and in a chroot nothing is mounted at /. */
static int mayMount(void)
{
	int status = 1;
	pid_t child = fork();

	if (!child)
		_exit(mountAlone());
	waitpid(child, &status, 0);
	if (status)
		printf("left out: full directories: no mount namespace\n");
	return !status;
}

/* As in two containers of one pod. */
static int twoUsers(const ginConfig_t *config)
{
	EXPECT(!isLacking(config) || (!setgid(NOBODY) && !setuid(NOBODY)));
	expectLife(config);
	return 0;
}

/* A rank whose /tmp is full, and whose /dev/shm is not there: libgin needs neither. */
static int fullDirectories(const ginConfig_t *config)
{
	unsetenv("TMPDIR");
	EXPECT(!isLacking(config) ||
	       (!mountAlone() && !mount("none", "/dev", "tmpfs", 0, "size=4k") &&
		!mount("none", "/tmp", "tmpfs", 0, "nr_inodes=1")));
	expectLife(config);
	return 0;
}

static int noThreads(const ginConfig_t *config)
{
	EXPECT(!setgid(NOBODY) && !setuid(NOBODY));
	rlim_t was = softLimit(RLIMIT_NPROC);

	expectLife(config);
	const struct holdings before = holdingsNow();
	if (isLacking(config))
		setLimit(RLIMIT_NPROC, 0);
	struct life life = live(config, NULL);
	setLimit(RLIMIT_NPROC, was);
	EXPECT(life.failed && !strcmp(life.failed, "ginCommInit"));
	expectSameWords(&life.outcome, life.failed, "raise ulimit -u");
	expectHoldings(before);
	expectLife(config);
	return 0;
}

/* Nothing of the host's is locked. */
static int noLockedMemory(const ginConfig_t *config)
{
	setLimit(RLIMIT_MEMLOCK, 0);
	expectLife(config);
	return 0;
}

#define UNDER_WAY 64

/* Returns a socket that has that many descriptors in flight. */
static void sendMany(int pair[2])
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(UNDER_WAY * sizeof(int))];
	} ancillary;
	char byte = 0;
	int fds[UNDER_WAY] = {0};
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = ancillary.bytes,
				 .msg_controllen = sizeof(ancillary.bytes)};

	ancillary.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
					    .cmsg_type = SCM_RIGHTS,
					    .cmsg_len = CMSG_LEN(sizeof(fds))};
	memcpy(CMSG_DATA(&ancillary.header), fds, sizeof(fds));
	EXPECT(!socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair));
	EXPECT(sendmsg(pair[0], &message, 0) == 1);
}

static void *endLater(void *arg)
{
	const int *pair = arg;

	usleep(300000);
	close(pair[0]);
	close(pair[1]);
	return NULL;
}

/* More descriptors in flight than this user's limit: the window's descriptors wait. */
static int manyFilesUnderWay(const ginConfig_t *config)
{
	rlim_t was = softLimit(RLIMIT_NOFILE);
	pthread_t ending;
	int pair[2];

	EXPECT(!setgid(NOBODY) && !setuid(NOBODY));
	expectLife(config);
	if (isLacking(config)) {
		sendMany(pair);
		setLimit(RLIMIT_NOFILE, UNDER_WAY / 2);
		EXPECT(!pthread_create(&ending, NULL, endLater, pair));
	}
	expectLife(config);
	setLimit(RLIMIT_NOFILE, was);
	if (isLacking(config))
		pthread_join(ending, NULL);
	expectLife(config);
	return 0;
}

/* Memory that does not exist, or that this process may not have: an error, no signal. */
static int tooMuchMemory(const ginConfig_t *config)
{
	struct sysinfo info;
	ginComm_t comm = NULL;
	void *at = NULL;
	rlim_t was = softLimit(RLIMIT_FSIZE);

	EXPECT(!sysinfo(&info));
	const size_t whole = (size_t)(info.totalram + info.totalswap) * info.mem_unit;
	EXPECT_SUCCESS(openHost(config, &comm));
	const struct holdings before = holdingsNow();
	EXPECT_FAILS(ginMemAlloc(comm, (size_t)1 << 62, &at), ginErrorSystem, "ginMemAlloc: rank ",
		     "4611686018427387904 bytes of shared memory");
	EXPECT_FAILS(ginMemAlloc(comm, SIZE_MAX - 5000, &at), ginErrorInvalidArgument,
		     "are too many");
	EXPECT_FAILS(ginMemAlloc(comm, whole, &at), ginErrorSystem, "bytes of shared memory: this ",
		     " left");
	setLimit(RLIMIT_FSIZE, 1 << 20);
	EXPECT_FAILS(ginMemAlloc(comm, (1 << 20) + 1, &at), ginErrorSystem,
		     "no 1052672 bytes of shared memory", "1048576", "raise ulimit -f");
	EXPECT(!at);
	EXPECT_SUCCESS(ginMemAlloc(comm, 1 << 20, &at));
	setLimit(RLIMIT_FSIZE, was);
	EXPECT_SUCCESS(ginMemFree(comm, at));
	expectHoldings(before);
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return 0;
}

#define MANY 10000
#define PART 64

/* The word of window `i` at `rank`. */
static uint64_t wordOf(int rank, int i)
{
	return (uint64_t)(rank + 1) << 32 | (uint64_t)i;
}

static void expectWord(ginComm_t comm, ginWindow_t window, int peer, int i)
{
	void *at = NULL;

	EXPECT_SUCCESS(ginPeerPointer(comm, window, peer, &at));
	EXPECT(at && *(uint64_t *)at == wordOf(peer, i));
}

/* A barrier that costs the ranks nothing. */
static void meet(const ginConfig_t *config)
{
	int none = 0, all[MOST_RANKS];

	gather(config, &none, all, sizeof(none));
}

static void registerMany(const ginConfig_t *config, ginComm_t comm, char *const *at, int many,
			 ginWindow_t *windows)
{
	int peer = (config->rank + 1) % config->nRanks;

	for (int i = 0; i < many; i++)
		*(uint64_t *)at[i] = wordOf(config->rank, i);
	for (int i = 0; i < many; i++)
		EXPECT_SUCCESS(ginWindowRegister(comm, at[i], PART, 0, &windows[i]));
	for (int i = 0; i < many; i++)
		expectWord(comm, windows[i], peer, i);
	meet(config);
}

static void deregisterMany(ginComm_t comm, int many, const ginWindow_t *windows)
{
	for (int i = 0; i < many; i++) /* in an order that is hard for a list */
		EXPECT_SUCCESS(ginWindowDeregister(comm, windows[(i * 7919L) % many]));
}

/* Windows in one allocation take no descriptor, and one mapping for all. */
static int manyWindows(const ginConfig_t *config)
{
	static ginWindow_t windows[MANY];
	static char *at[MANY];
	ginComm_t comm = NULL;
	ginWindow_t first;
	void *memory = NULL;

	alarm(120);
	EXPECT_SUCCESS(openHost(config, &comm));
	EXPECT_SUCCESS(ginMemAlloc(comm, MANY * PART, &memory));
	const struct holdings none = holdingsNow();
	EXPECT_SUCCESS(ginWindowRegister(comm, memory, PART, 0, &first));
	const struct holdings one = holdingsNow();
	EXPECT_EQUAL(one.files, none.files);
	EXPECT_EQUAL(one.mappings, none.mappings + config->nRanks - 1);
	for (int i = 0; i < MANY; i++)
		at[i] = (char *)memory + (size_t)i * PART;
	registerMany(config, comm, at, MANY, windows);
	expectHoldings(one);
	EXPECT_SUCCESS(ginWindowDeregister(comm, first));
	deregisterMany(comm, MANY, windows);
	expectHoldings(none);
	EXPECT_SUCCESS(ginMemFree(comm, memory));
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return 0;
}

/* Allocations of their own, as many as there are descriptors; the first that is too many says so.
 */
static int manyAllocations(const ginConfig_t *config)
{
	static ginWindow_t windows[1024];
	static char *at[1024];
	ginComm_t comm = NULL;
	void *more = NULL;
	int count = 0;

	alarm(120);
	EXPECT_SUCCESS(openHost(config, &comm));
	const struct holdings before = holdingsNow();
	setLimit(RLIMIT_NOFILE, 1024);
	while (ginMemAlloc(comm, PART, &more) == ginSuccess)
		at[count++] = more;
	EXPECT_HAS(ginGetLastError(), "Too many open files: this process may open 1024, raise "
				      "ulimit -n");
	EXPECT(count > 900);
	EXPECT_FAILS(ginWindowRegister(comm, at[0], PART, 0, &windows[0]), ginErrorSystem,
		     "ginWindowRegister: rank 0: ", "may open 1024, raise ulimit -n");
	while (count > 900)
		EXPECT_SUCCESS(ginMemFree(comm, at[--count]));
	registerMany(config, comm, at, 900, windows);
	deregisterMany(comm, 900, windows);
	while (count)
		EXPECT_SUCCESS(ginMemFree(comm, at[--count]));
	expectHoldings(before);
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return 0;
}

int main(void)
{
	setenv("GIN_LOG", "none", 0);
	setenv("GIN_TIMEOUT", "60", 0); /* longer than a life may last */
	runLacking("few file descriptors", 3, fewFiles);
	runLacking("few file descriptors", 6, fewFiles);
	runLacking("few file descriptors from the beginning", 3, fewFilesFromTheBeginning);
	runLacking("few file descriptors from the beginning", 6, fewFilesFromTheBeginning);
#ifndef __SANITIZE_ADDRESS__
	runLacking("little address space", 3, fewAddresses);
#endif
	runRanks("no memory may be locked", 2, noLockedMemory);
	runRanks("too much memory", 1, tooMuchMemory);
	runRanks("many windows", 3, manyWindows);
	runRanks("many allocations", 3, manyAllocations);
	if (!notRoot()) {
		runLacking("a rank of another user", 3, twoUsers);
		if (mayMount())
			runLacking("directories that are full or missing", 3, fullDirectories);
		runLacking("no threads", 3, noThreads);
		runLacking("many descriptors under way", 3, manyFilesUnderWay);
	}
	return expectFailures != 0;
}
