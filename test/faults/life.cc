/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * life.cc - one rank of a job in which something goes wrong; test/faults/run starts it and strikes
 *
 *	life PAGE [LAPS]	the rank is in RANK, the number of ranks in WORLD_SIZE
 *
 * A whole life: communicator, memory, windows, device communicator, laps of kernels that put to the
 * right neighbour and compare what comes from the left one, a split, and the end. PAGE is a file that
 * all ranks and the driver map: what the rank does, and how it ended.
 *
 * With FAULTS_FILES set it counts its descriptors at the end. Exit status 0: no call failed. 3: a call
 * failed, and the rank has cleaned up. 4: wrong data, or a lap with a dead rank that was reported as
 * complete.
 */
#include "harness.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <time.h>

#include <string>

#define WORDS 517

enum Phase : uint32_t { START = 1, INIT, MEMORY, WINDOWS, DEVCOMM, KERNELS, SPLIT, DESTROY, OVER };

/* One rank's part of the page; run has the layout, too. */
struct Line {
	int64_t pid;
	uint64_t phase;
	uint64_t failedAt, endedAt; /* of the first failed call, and of the end; ns; 0: not yet */
	int64_t result;
	uint64_t laps, wrong, falseLaps;
	int64_t files; /* descriptors at the end minus descriptors at the start */
	char why[440];
};

static_assert(sizeof(Line) == 512, "the driver reads 512 bytes");

/* The first line is the driver's: `phase` counts the strikes, `endedAt` is the time of a rank's death. */
static Line *page, *line;

static uint64_t nowNs()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

static uint64_t look(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void enter(Phase phase)
{
	__atomic_store_n(&line->phase, phase, __ATOMIC_RELEASE);
}

/*
 * Is it a connection of a stranger that libfabric has accepted? libfabric 1.17 does not close it at its
 * end. libgin's own sockets do not block.
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

static int countFiles()
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (const struct dirent *entry = dir ? readdir(dir) : nullptr)
		count += !isOfLibfabric(atoi(entry->d_name));
	if (dir)
		closedir(dir);
	return count;
}

static uint64_t wordOf(int rank, uint64_t lap, size_t i)
{
	return (lap * 64 + static_cast<uint64_t>(rank)) * 0x9e3779b97f4a7c15u + i;
}

struct LapKernel {
	ginDevComm dc;
	ginWindow_t inbox, outbox;
	uint64_t lap;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		int right = static_cast<int>((dc.rank + 1) % dc.nRanks);
		ginResult_t result = gin.put(right, inbox, 0, outbox, 0, WORDS * sizeof(uint64_t),
					     GinSignalInc{0});
		if (result == ginSuccess)
			result = gin.waitSignal(0, lap);
		results[0] = result;
	}
};

/* All ranks have compared what came, and may overwrite it. */
struct BarrierKernel {
	ginDevComm dc;
	uint64_t *results;

	GIN_FN void operator()() const { results[0] = GinBarrier(dc, ginTeamWorld(dc), 0).sync(); }
};

struct Life {
	Rank r = {};
	void *memory[2] = {};
	ginWindow_t window[2] = {};
	ginDevComm dc = {};
	ginComm_t half = nullptr;
	int windows = 0, devComms = 0;
	uint64_t lap = 0, lapsAfter = 0; /* lapsAfter: that began after the death of a rank */

	bool ok(ginResult_t seen)
	{
		if (seen == ginSuccess || line->failedAt)
			return seen == ginSuccess;
		line->result = seen;
		snprintf(line->why, sizeof(line->why), "%s", ginGetLastError());
		__atomic_store_n(&line->failedAt, nowNs(), __ATOMIC_RELEASE);
		return false;
	}

	/* A launch that fails, for lack of threads, leaves no sentence. */
	template <class Body> bool run(Body body)
	{
		ginResult_t result = ginHostLaunch(1, 1, runHost<Body>, &body);
		bool isRight = ok(result);

		if (!isRight && !line->why[0])
			snprintf(line->why, sizeof(line->why), "ginHostLaunch: %s",
				 ginGetErrorString(result));
		return isRight;
	}

	/*
	 * A kernel's result: the sentence is the communicator's, which may come later, or else the device
	 * communicator's.
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

	bool open()
	{
		ginConfig_t config = GIN_CONFIG_INIT;
		ginComm_t comm = nullptr;

		enter(INIT);
		if (!ok(ginCommInit(&config, &comm)))
			return false;
		rankTake(r, comm);
		return true;
	}

	bool makeObjects()
	{
		ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;

		want.timeout = strtoull(getenv("GIN_TIMEOUT"), nullptr, 10) * 1000000000u;
		enter(MEMORY);
		for (void *&at : memory)
			if (!ok(ginMemAlloc(r.comm, WORDS * sizeof(uint64_t), &at)))
				return false;
		enter(WINDOWS);
		for (; windows < 2; windows++)
			if (!ok(ginWindowRegister(r.comm, memory[windows], WORDS * sizeof(uint64_t),
						  0, &window[windows])))
				return false;
		enter(DEVCOMM);
		if (!ok(ginDevCommCreate(r.comm, &want, &dc)))
			return false;
		devComms = 1;
		return true;
	}

	/* Without copies by the device: there is no GPU. */
	void fill()
	{
		uint64_t *out = static_cast<uint64_t *>(memory[1]);

		for (size_t i = 0; i < WORDS; i++)
			out[i] = wordOf(r.rank, lap, i);
	}

	void compare()
	{
		const uint64_t *in = static_cast<const uint64_t *>(memory[0]);
		int left = (r.rank + r.nRanks - 1) % r.nRanks;

		for (size_t i = 0; i < WORDS; i++)
			line->wrong += in[i] != wordOf(left, lap, i);
	}

	bool meet(Results &results)
	{
		return run(BarrierKernel{dc, results.words}) && kernelOk(results.words[0]);
	}

	/*
	 * A rank may have done its part of the lap in which it dies. No lap after that one can end, but
	 * one may have begun after the death.
	 */
	void countAfter(uint64_t begun)
	{
		uint64_t died = look(&page->endedAt);

		if (died && begun > died && lapsAfter++)
			line->falseLaps++;
	}

	bool turn()
	{
		uint64_t begun = nowNs();
		Results results(r, 1);

		lap++;
		fill();
		if (!run(LapKernel{dc, window[0], window[1], lap, results.words}) ||
		    !kernelOk(results.words[0]))
			return false;
		compare();
		line->laps = lap;
		if (!meet(results))
			return false;
		countAfter(begun);
		return true;
	}

	bool split()
	{
		enter(SPLIT);
		return ok(ginCommSplit(r.comm, r.rank % 2, 0, &half)) &&
		       ok(ginCommAllgather(half, nullptr, nullptr, 0));
	}

	void live(uint64_t laps)
	{
		if (!open() || !makeObjects())
			return;
		enter(KERNELS);
		for (uint64_t i = 0; i < laps; i++)
			if (!turn())
				return;
		split();
	}

	/* The others wait for a rank whose own call has failed, for lack of memory, say. */
	void tellOthers()
	{
		ginResult_t error = ginSuccess;

		CHECK(ginCommGetAsyncError(r.comm, &error));
		if (error == ginSuccess)
			CHECK(ginCommAbort(r.comm));
	}

	/* Nothing here may hang or crash, however far the life came. */
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
 * Connections to the root, a thread of rank 0, are closed soon, not at once. The root stays for a second:
 * a listener and an epoll descriptor.
 */
static int filesLeft(int before, int rank)
{
	before += rank ? 0 : 2;
	int left = countFiles() - before;

	for (int i = 0; i < 3000 && left > 0; i++) {
		usleep(1000);
		left = countFiles() - before;
	}
	return left;
}

static void printFiles()
{
	for (int fd = 0; fd < 1024; fd++) {
		std::string path = "/proc/self/fd/" + std::to_string(fd);
		char target[128];
		ssize_t length = readlink(path.c_str(), target, sizeof(target) - 1);
		if (length > 0)
			fprintf(stderr, "descriptor %d: %.*s\n", fd, static_cast<int>(length),
				target);
	}
}

int main(int argc, char **argv)
{
	int files = countFiles(), rank = atoi(getenv("RANK") ? getenv("RANK") : "0");
	int fd = argc > 1 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;
	uint64_t laps = argc > 2 ? strtoull(argv[2], nullptr, 10) : 20;

	setenv("GIN_TIMEOUT", "60", 0);
	if (fd < 0) {
		fprintf(stderr, "life PAGE [LAPS]: see life.cc\n");
		return 2;
	}
	page = static_cast<Line *>(
		mmap(nullptr, 65 * sizeof(Line), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	close(fd);
	EXPECT(page != MAP_FAILED);
	line = page + 1 + rank;
	line->pid = getpid();
	enter(START);
	Life life;
	life.live(laps);
	life.end();
	line->files = getenv("FAULTS_FILES") ? filesLeft(files, rank) : 0;
	if (line->files > 0)
		printFiles();
	line->endedAt = nowNs();
	enter(OVER);
	return line->wrong || line->falseLaps ? 4 : line->failedAt ? 3 : 0;
}
