/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * life.h - one rank of a job with a fault: shared code of life.cc and soak.cc
 *
 * The page that the ranks share with the driver, a rank's first failed call, and the end of a rank
 * however far it came. Exit status 0: no call failed. 3: a call failed, and the rank has cleaned
 * up. 4: wrong data, or a lap with a dead rank that was reported as complete.
 */
#ifndef GIN_TEST_FAULTS_LIFE_H
#define GIN_TEST_FAULTS_LIFE_H

#include "files.h"
#include "harness.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <time.h>

#include <string>

enum Phase : uint32_t { START = 1, INIT, MEMORY, WINDOWS, DEVCOMM, KERNELS, SPLIT, DESTROY, OVER };

/* One rank's part of the page; run has the layout, too. */
struct Line {
	int64_t pid;
	uint64_t phase;
	uint64_t failedAt, endedAt; /* of the first failed call, and of the end; ns; 0: not yet */
	int64_t result;
	uint64_t laps, wrong, falseLaps;
	int64_t files;	     /* descriptors at the end minus descriptors at the start */
	uint64_t operations; /* that came from the left neighbour and were compared: soak.cc */
	char why[432];
};

static_assert(sizeof(Line) == 512, "the driver reads 512 bytes");

/*
 * The first line is the driver's: `endedAt` is the time of a rank's death, `laps` asks for the end
 * of soak.cc.
 */
static Line *page;
static thread_local Line *line; /* of the rank of this thread */

static uint64_t look(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void enter(Phase phase)
{
	__atomic_store_n(&line->phase, phase, __ATOMIC_RELEASE);
}

/*
 * Is it a connection of a stranger that libfabric has accepted? libfabric 1.17 does not close it at
 * its end. libgin's own sockets do not block.
 */
static bool isOfLibfabric(int fd)
{
	const char *transport = getenv("GIN_TRANSPORT");
	struct sockaddr_storage own = {};
	socklen_t bytes = sizeof(own);

	return transport && !strcmp(transport, "ofi") &&
	       !getsockname(fd, reinterpret_cast<sockaddr *>(&own), &bytes) &&
	       (own.ss_family == AF_INET || own.ss_family == AF_INET6) &&
	       !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

static int countOwnFiles()
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (const struct dirent *entry = dir ? readdir(dir) : nullptr)
		count += !isOfLibfabric(atoi(entry->d_name));
	if (dir)
		closedir(dir);
	return count;
}

/* All ranks have compared the received bytes, and may overwrite them. */
struct BarrierKernel {
	ginDevComm dc;
	uint64_t *results;

	GIN_FN void operator()() const { results[0] = GinBarrier(dc, ginTeamWorld(dc), 0).sync(); }
};

/* A rank and its objects. */
struct Life {
	enum { WINDOWS_MOST = 4 };

	Rank r = {};
	void *memory[WINDOWS_MOST] = {};
	ginWindow_t window[WINDOWS_MOST] = {};
	ginDevComm dc = {};
	ginComm_t half = nullptr;
	int windows = 0, devComms = 0;
	uint64_t lapsAfter = 0; /* laps that began after the death of a rank */

	bool ok(ginResult_t seen)
	{
		if (seen == ginSuccess || line->failedAt)
			return seen == ginSuccess;
		line->result = seen;
		snprintf(line->why, sizeof(line->why), "%s", ginGetLastError());
		__atomic_store_n(&line->failedAt, nowNs(), __ATOMIC_RELEASE);
		return false;
	}

	/* A launch on the host that fails, for lack of threads, leaves no sentence. */
	template <class Body> bool run(uint32_t blocks, Body body)
	{
#ifdef __CUDACC__
		if (r.device >= 0) {
			launch(r, blocks, 1, body);
			return true;
		}
#endif
		ginResult_t result = ginHostLaunch(blocks, 1, runHost<Body>, &body);
		bool isRight = ok(result);

		if (!isRight && !line->why[0])
			snprintf(line->why, sizeof(line->why), "ginHostLaunch: %s",
				 ginGetErrorString(result));
		return isRight;
	}

	/*
	 * A kernel's result: the sentence is the communicator's, which may come later, otherwise
	 * the device communicator's.
	 */
	bool kernelOk(uint64_t seen)
	{
		ginResult_t error = ginSuccess;
		ginErrorRecord_t record = {};

		for (int i = 0; i < 3000 && seen != ginSuccess && error == ginSuccess; i++) {
			CHECK(ginCommGetAsyncError(r.comm, &error));
			usleep(error == ginSuccess ? 1000 : 0);
		}
		if (seen != ginSuccess && error == ginSuccess)
			CHECK(ginDevCommGetError(r.comm, &dc, &record));
		return ok(static_cast<ginResult_t>(seen));
	}

	bool open(const ginConfig_t *config)
	{
		ginComm_t comm = nullptr;

		enter(INIT);
		if (!ok(ginCommInit(config, &comm)))
			return false;
		r = rankTake(comm);
		return true;
	}

	struct Size {
		size_t bytes;
		Allocator *alloc;
	};

	/* Windows of these sizes, and a device communicator. */
	bool makeObjects(const std::vector<Size> &sizes, ginDevCommRequirements_t want)
	{
		want.timeout = strtoull(getenv("GIN_TIMEOUT"), nullptr, 10) * 1000000000u;
		enter(MEMORY);
		for (size_t i = 0; i < sizes.size(); i++)
			if (!ok(sizes[i].alloc(r.comm, sizes[i].bytes, &memory[i])))
				return false;
		enter(WINDOWS);
		for (; windows < static_cast<int>(sizes.size()); windows++)
			if (!ok(ginWindowRegister(r.comm, memory[windows],
						  sizes[static_cast<size_t>(windows)].bytes, 0,
						  &window[windows])))
				return false;
		enter(DEVCOMM);
		if (!ok(ginDevCommCreate(r.comm, &want, &dc)))
			return false;
		devComms = 1;
		return true;
	}

	/*
	 * A rank may have done its part of the lap in which it dies. No lap after that one can end,
	 * but one may have begun after the death.
	 */
	void countAfter(uint64_t begun)
	{
		uint64_t died = look(&page->endedAt);

		if (died && begun > died && lapsAfter++)
			line->falseLaps++;
	}

	/* The others wait for a rank whose own call has failed, for lack of memory, say. */
	void tellOthers()
	{
		ginResult_t error = ginSuccess;

		CHECK(ginCommGetAsyncError(r.comm, &error));
		if (error == ginSuccess)
			CHECK(ginCommAbort(r.comm));
	}

	/* None of these calls may hang or crash, at any stage of the life. */
	void end()
	{
		enter(DESTROY);
		if (r.comm && line->failedAt)
			tellOthers();
		if (half)
			ok(ginCommDestroy(half));
		if (devComms)
			ok(ginDevCommDestroy(r.comm, &dc));
		for (int i = 0; i < windows; i++)
			ok(ginWindowDeregister(r.comm, window[i]));
		for (void *at : memory)
			if (at)
				ok(ginMemFree(r.comm, at));
		if (r.comm)
			ok(ginCommDestroy(r.comm));
	}
};

/*
 * Connections to the root, a thread of rank 0, are closed soon, not at once. The root stays for a
 * second: a listener and an epoll descriptor.
 */
static int filesLeft(int before, int rank)
{
	before += rank ? 0 : 2;
	int left = countOwnFiles() - before;

	for (int i = 0; i < 3000 && left > 0; i++) {
		usleep(1000);
		left = countOwnFiles() - before;
	}
	return left;
}

/*
 * The CUDA driver opens descriptors when it is first asked, and keeps them, also where no GPU is
 * visible.
 */
static void loadDriver()
{
	void *driver = getenv("FAULTS_FILES") ? dlopen("libcuda.so.1", RTLD_NOW) : nullptr;
	int (*init)(unsigned) =
		driver ? reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit")) : nullptr;

	if (init)
		init(0);
}

static void lifeMap(const char *file)
{
	int fd = open(file, O_RDWR | O_CLOEXEC);

	setenv("GIN_TIMEOUT", "60", 0);
	EXPECT(fd >= 0);
	page = static_cast<Line *>(
		mmap(nullptr, 65 * sizeof(Line), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	close(fd);
	EXPECT(page != MAP_FAILED);
}

static void lifeBegin(int rank)
{
	line = page + 1 + rank;
	line->pid = getpid();
	enter(START);
}

/* Returns the exit status. `files`: how many descriptors there were before. */
static int lifeOver(int files)
{
	line->files =
		getenv("FAULTS_FILES") ? filesLeft(files, static_cast<int>(line - page) - 1) : 0;
	if (line->files > 0)
		printFiles();
	line->endedAt = nowNs();
	enter(OVER);
	return line->wrong || line->falseLaps ? 4 : line->failedAt ? 3 : 0;
}

static int rankOfEnvironment()
{
	return atoi(getenv("RANK") ? getenv("RANK") : "0");
}

#endif
