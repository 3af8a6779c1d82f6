/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * idle.cc - the cost of an idle proxy thread, and its time to wake up
 *
 *	idle [SECONDS [TIMES [CONTEXTS]]]
 *
 * SECONDS	for which CPU use is measured (5)
 * TIMES	puts after each pause (200)
 * CONTEXTS	contexts that the proxy thread polls (1)
 *
 * One rank on host threads, whose route to itself is the proxy. The time of a put of 8 bytes and a
 * flush after a pause, minus that time without a pause, is the time to wake up.
 */
#include <gin.h>
#include <gin_device.cuh>

#include <dirent.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define CHECK(call)                                                                                \
	do {                                                                                       \
		if ((call) != ginSuccess) {                                                        \
			fprintf(stderr, "%s: %s\n", #call, ginGetLastError());                     \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static uint64_t now()
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return static_cast<uint64_t>(t.tv_sec) * 1000000000 + static_cast<uint64_t>(t.tv_nsec);
}

static void pauseFor(uint64_t ns)
{
	struct timespec t = {static_cast<time_t>(ns / 1000000000),
			     static_cast<long>(ns % 1000000000)};
	if (ns)
		nanosleep(&t, nullptr);
}

static std::string readFile(const std::string &path)
{
	char text[256] = "";
	if (FILE *file = fopen(path.c_str(), "re")) {
		if (!fgets(text, sizeof(text), file))
			text[0] = '\0';
		fclose(file);
	}
	return text;
}

/* CPU time of this process's proxy threads, in nanoseconds, and their number. */
static uint64_t ranFor(int *threads)
{
	uint64_t sum = 0;
	DIR *dir = opendir("/proc/self/task");
	*threads = 0;
	while (const struct dirent *entry = dir ? readdir(dir) : nullptr) {
		std::string task = std::string("/proc/self/task/") + entry->d_name;
		if (readFile(task + "/comm") != "gin-proxy\n")
			continue;
		sum += strtoull(readFile(task + "/schedstat").c_str(), nullptr, 10);
		++*threads;
	}
	if (dir)
		closedir(dir);
	return sum;
}

struct IdleRank {
	ginComm_t comm;
	ginWindow_t window;
	ginDevComm dc;
	void *memory;
};

static IdleRank openRank(uint32_t contexts)
{
	ginConfig_t config = GIN_CONFIG_INIT;
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	IdleRank r = {};
	setenv("GIN_ROUTE", "network", 1);
	setenv("GIN_BOOTSTRAP", "self", 1);
	config.device = GIN_DEVICE_NONE;
	want.contexts = contexts;
	CHECK(ginCommInit(&config, &r.comm));
	CHECK(ginMemAlloc(r.comm, 4096, &r.memory));
	CHECK(ginWindowRegister(r.comm, r.memory, 4096, 0, &r.window));
	CHECK(ginDevCommCreate(r.comm, &want, &r.dc));
	return r;
}

static void closeRank(IdleRank &r)
{
	CHECK(ginDevCommDestroy(r.comm, &r.dc));
	CHECK(ginWindowDeregister(r.comm, r.window));
	CHECK(ginMemFree(r.comm, r.memory));
	CHECK(ginCommDestroy(r.comm));
}

static void idle(IdleRank &r, unsigned seconds)
{
	ginStats_t before = GIN_STATS_INIT, after = GIN_STATS_INIT;
	int threads;
	pauseFor(1000000000); /* until the proxy thread sleeps */
	CHECK(ginCommGetStats(r.comm, &r.dc, 0, &before));
	uint64_t ran = ranFor(&threads), begun = now();
	pauseFor(seconds * 1000000000ull);
	ran = ranFor(&threads) - ran;
	double all = static_cast<double>(now() - begun);
	CHECK(ginCommGetStats(r.comm, &r.dc, 0, &after));
	printf("idle for %u s: %d proxy thread%s ran for %.2f %% of a core, and slept %.0f times a "
	       "second\n",
	       seconds, threads, threads == 1 ? "" : "s", 100.0 * static_cast<double>(ran) / all,
	       static_cast<double>(after.sleeps - before.sleeps) / all * 1e9);
}

struct Posts {
	IdleRank *rank;
	uint64_t pause;
	std::vector<uint64_t> took;
};

/* Makes puts of 8 bytes, each after a pause. */
static void post(void *arg)
{
	Posts *p = static_cast<Posts *>(arg);
	Gin gin(p->rank->dc, 0);
	for (uint64_t &took : p->took) {
		pauseFor(p->pause);
		uint64_t begun = now();
		CHECK(gin.putValue(0, p->rank->window, 0, uint64_t{1}));
		CHECK(gin.flush());
		took = now() - begun;
	}
}

static void wakeUp(IdleRank &r, uint64_t pause, size_t times)
{
	Posts p = {&r, pause, std::vector<uint64_t>(times)};
	CHECK(ginHostLaunch(1, 1, post, &p));
	std::sort(p.took.begin(), p.took.end());
	auto us = [&](size_t part) {
		return static_cast<double>(p.took[(times - 1) * part / 100]) / 1e3;
	};
	printf("%8.2f  %8.1f %8.1f %8.1f %8.1f %8.1f\n", static_cast<double>(pause) / 1e6, us(0),
	       us(50), us(90), us(99), us(100));
}

int main(int argc, char **argv)
{
	unsigned seconds = argc > 1 ? static_cast<unsigned>(atoi(argv[1])) : 5;
	size_t times = argc > 2 ? static_cast<size_t>(atoi(argv[2])) : 200;
	uint32_t contexts = argc > 3 ? static_cast<uint32_t>(atoi(argv[3])) : 1;
	if (!seconds || !times)
		return fprintf(stderr, "usage: idle [SECONDS [TIMES [CONTEXTS]]]\n"), 2;
	IdleRank r = openRank(contexts);
	idle(r, seconds);
	printf("\ntime of a put of 8 bytes and a flush after a pause, in us, %zu times\n", times);
	printf("pause/ms       min   median      90%%      99%%      max\n");
	for (uint64_t pause : {0, 100000, 1000000, 5000000, 50000000})
		wakeUp(r, pause, times);
	closeRank(r);
	return 0;
}
