/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stats.cc - ginCommGetStats() and GIN_LOG=stats against the known posts, and the CPUs on which the
 * proxy's threads run
 *
 * Each test is a process of its own, for its environment variables; all routes are the proxy's.
 */
#include "suite.h"

#include <dirent.h>
#include <sched.h>
#include <sys/wait.h>

#include <algorithm>
#include <string>
#include <thread>

enum { PUTS = 100, PUT_BYTES = 48, VALUES = 7, GETS = 25, GET_BYTES = 32 };
enum { ALL = PUTS + VALUES + GETS + 1 };

/* Puts, values, gets and a signal, one after the other, then a flush; in context 0. */
struct Known {
	ginDevComm dc;
	ginWindow_t target, source;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		int peer = rightOf(dc);
		ginResult_t result = ginSuccess;
		for (int i = 0; i < PUTS && result == ginSuccess; i++)
			result = gin.put(peer, target, 64, source, 0, PUT_BYTES);
		for (int i = 0; i < VALUES && result == ginSuccess; i++)
			result = gin.putValue(peer, target, 128, uint64_t{1});
		for (int i = 0; i < GETS && result == ginSuccess; i++)
			result = gin.get(peer, source, 0, target, 256, GET_BYTES);
		if (result == ginSuccess)
			result = gin.signal(peer, GinSignalInc{0});
		if (result == ginSuccess)
			result = gin.flush();
		results[0] = result;
	}
};

/* A put beyond the end of the window, and its counts. */
struct Wrong {
	ginDevComm dc;
	ginWindow_t target, source;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		results[0] = gin.put(0, target, 0, source, 0, 8);
		results[1] = gin.flush();
		results[2] = gin.put(0, target, 1u << 20, source, 0, 8);
		results[3] = gin.flush();
	}
};

/* A barrier that chooses its context by its index, and one whose context the rank chooses. */
struct Barriers {
	ginDevComm dc;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		const uint32_t context = 2 + dc.rank % 2;

		results[0] = GinBarrier(dc, ginTeamWorld(dc), 1).sync();
		results[1] = GinBarrier(dc, ginTeamWorld(dc), 0, context).sync();
		results[2] = GinBarrier(dc, ginTeamWorld(dc), 0, context).sync();
	}
};

static ginStats_t statsOf(Rank &r, const ginDevComm &dc, uint32_t context)
{
	ginStats_t stats = GIN_STATS_INIT;
	CHECK(ginCommGetStats(r.comm, &dc, context, &stats));
	return stats;
}

/* A histogram's three figures agree. */
static void expectConsistent(const ginHistogram_t &h)
{
	uint64_t count = 0, least = 0, last = 0;
	for (int b = 0; b < GIN_HISTOGRAM_BUCKETS; b++) {
		count += h.bucket[b];
		least += b ? h.bucket[b] << b : 0;
		last = h.bucket[b] ? static_cast<uint64_t>(b) : last;
	}
	EXPECT(h.count == count);
	EXPECT(h.sum >= least && h.sum >= h.most && h.sum <= h.count * h.most);
	EXPECT(!h.count || (h.most < 2 ? last == 0 : h.most >> last == 1));
}

/* Known{} posts to the right neighbour only. */
static void expectPeers(Rank &r, const ginDevComm &dc)
{
	for (int peer = 0; peer < r.nRanks; peer++) {
		const bool isRight = peer == (r.rank + 1) % r.nRanks;
		ginPeerStats_t s = GIN_PEER_STATS_INIT;
		CHECK(ginCommGetPeerStats(r.comm, &dc, peer, &s));
		EXPECT(s.route == ginRouteProxy && !s.failed);
		EXPECT(s.counted == (GIN_COUNTED_POSTS | GIN_COUNTED_BYTES));
		EXPECT(s.posted == isRight * ALL && s.completed == isRight * ALL);
		EXPECT(s.putBytes == isRight * (PUTS * PUT_BYTES + VALUES * 8));
		EXPECT(s.getBytes == isRight * GETS * GET_BYTES);
	}
}

static void expectNothing(const ginStats_t &s)
{
	EXPECT(!s.posted && !s.completed && !s.failed && !s.putBytes && !s.getBytes);
	EXPECT(!s.waitsForRoom && !s.batch.count && !s.takenToReleased.count);
	EXPECT(!s.takenToVisible.count);
}

/* Every 31st descriptor is timed, the last of these a get, which releases no source. */
static void expectSamples(Rank &r, const ginStats_t &s)
{
	uint64_t all = (ALL + 30) / 31, puts = (PUTS + 30) / 31;
	expectConsistent(s.takenToReleased);
	expectConsistent(s.takenToVisible);
	EXPECT(s.takenToVisible.count >= 1 && s.takenToVisible.count <= all);
	EXPECT(s.takenToReleased.count >= 1 && s.takenToReleased.count <= puts);
	if (r.device < 0) { /* copied at once, by the CPU */
		EXPECT(s.takenToVisible.count == all);
		EXPECT(s.takenToReleased.count == puts);
	}
}

/* The batch is counted when its descriptors are in flight or done. */
static ginStats_t statsWithBatches(Rank &r, const ginDevComm &dc)
{
	ginStats_t s = statsOf(r, dc, 0);
	while (s.batch.sum < s.posted) {
		std::this_thread::yield();
		s = statsOf(r, dc, 0);
	}
	return s;
}

/* Runs a test on this rank, with a device communicator. */
template <void (*test)(Rank &, const ginDevComm &), uint32_t contexts = 1, uint32_t depth = 1024>
static int with(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	{
		Device device(r, contexts, 16, depth);
		test(r, device.dc);
	}
	rankClose(r);
	return 0;
}

static void knownNumbers(Rank &r, const ginDevComm &dc)
{
	Buffer target(r, 4096), source(r, 4096);
	Results results(r, 1);
	launch(r, 1, 1, Known{dc, target.window, source.window, results.words});
	EXPECT(results.all(ginSuccess));
	ginStats_t s = statsWithBatches(r, dc);
	EXPECT(s.posted == ALL && s.completed == ALL && s.failed == 0);
	EXPECT(s.putBytes == PUTS * PUT_BYTES + VALUES * 8);
	EXPECT(s.getBytes == GETS * GET_BYTES);
	EXPECT(s.waitsForRoom == 0 && s.batch.sum == ALL && s.batch.most <= ALL);
	expectConsistent(s.batch);
	expectSamples(r, s);
	EXPECT(s.cpus[0] != '\0' && s.counted == (GIN_COUNTED_POSTS | GIN_COUNTED_BYTES));
	expectNothing(statsOf(r, dc, 1));
	expectPeers(r, dc);
	launch(r, 1, 1, Known{dc, target.window, source.window, results.words});
	EXPECT(results.all(ginSuccess));
	s = statsOf(r, dc, 0);
	EXPECT(s.posted == 2 * ALL && s.completed == 2 * ALL);
	meet(r);
}

static void barriers(Rank &r, const ginDevComm &dc)
{
	{
		Results results(r, 3);
		launch(r, 1, 1, Barriers{dc, results.words});
		EXPECT(results.all(ginSuccess));
		meet(r);
	}
	/* Three ranks: two rounds, each with one message. */
	static const uint64_t even[] = {0, 2, 4, 0}, odd[] = {0, 2, 0, 4};
	for (uint32_t c = 0; c < 4; c++)
		EXPECT(statsOf(r, dc, c).posted == (r.rank % 2 ? odd : even)[c]);
}

static void wrongDescriptor(Rank &r, const ginDevComm &dc)
{
	{
		Buffer target(r, 4096), source(r, 4096);
		Results results(r, 4);
		launch(r, 1, 1, Wrong{dc, target.window, source.window, results.words});
		EXPECT(results.words[0] == ginSuccess && results.words[1] == ginSuccess);
		EXPECT(results.words[2] == ginSuccess && results.words[3] != ginSuccess);
	}
	/* The context's failure is reported first. */
	ginStats_t s = statsOf(r, dc, 0);
	while (!s.failed)
		s = statsOf(r, dc, 0);
	EXPECT(s.posted == 2 && s.completed == 1 && s.failed == 1 && s.putBytes == 8);
}

/* No thread takes descriptors: the ring is full after 16, and the next post waits, once. */
static void noRoom(Rank &r, const ginDevComm &dc)
{
	Buffer target(r, 4096), source(r, 4096);
	Results results(r, 1);
	int ended = 0;
	std::thread kernel([&] {
		launch(r, 1, 1, Known{dc, target.window, source.window, results.words});
		__atomic_store_n(&ended, 1, __ATOMIC_RELEASE);
	});
	while (!statsOf(r, dc, 0).waitsForRoom)
		std::this_thread::yield();
	ginStats_t s = statsOf(r, dc, 0);
	EXPECT(s.waitsForRoom == 1 && s.posted == 0 && s.completed == 0);
	while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE))
		CHECK(ginCommProgress(r.comm, nullptr));
	kernel.join();
	EXPECT(results.all(ginSuccess));
	s = statsOf(r, dc, 0);
	EXPECT(s.posted == ALL && s.completed == ALL && s.batch.sum == ALL);
	EXPECT(s.waitsForRoom >= 1 && s.waitsForRoom <= ALL - 16 && s.batch.most <= 16);
	EXPECT(s.sleeps == 0 && s.cpus[0] == '\0');
}

static bool isProxy(const char *thread)
{
	char name[32] = "";
	FILE *file = fopen((std::string("/proc/self/task/") + thread + "/comm").c_str(), "re");
	if (file && !fgets(name, sizeof(name), file))
		name[0] = 0;
	if (file)
		fclose(file);
	return !strcmp(name, "gin-proxy\n");
}

/* The affinity masks of this process's proxy threads. */
static std::vector<cpu_set_t> masksOfProxies()
{
	std::vector<cpu_set_t> masks;
	DIR *dir = opendir("/proc/self/task");
	while (const struct dirent *entry = dir ? readdir(dir) : nullptr) {
		cpu_set_t mask;
		if (isProxy(entry->d_name) &&
		    !sched_getaffinity(atoi(entry->d_name), sizeof(mask), &mask))
			masks.push_back(mask);
	}
	closedir(dir);
	return masks;
}

static cpu_set_t ownMask()
{
	cpu_set_t own;
	EXPECT(!sched_getaffinity(0, sizeof(own), &own));
	return own;
}

static int firstOf(const cpu_set_t &mask)
{
	int cpu = 0;
	while (!CPU_ISSET(cpu, &mask))
		cpu++;
	return cpu;
}

/* In ns; -1: this process may not read it. */
static long timerSlackOf(const char *thread)
{
	long slack = -1;
	FILE *file = fopen((std::string("/proc/") + thread + "/timerslack_ns").c_str(), "re");
	if (file && fscanf(file, "%ld", &slack) != 1)
		slack = -1;
	if (file)
		fclose(file);
	return slack;
}

/* The greatest timer slack of this process's proxy threads, which makes their naps longer. */
static long slackOfProxies()
{
	long most = -1;
	DIR *dir = opendir("/proc/self/task");
	while (const struct dirent *entry = dir ? readdir(dir) : nullptr)
		if (isProxy(entry->d_name))
			most = std::max(most, timerSlackOf(entry->d_name));
	closedir(dir);
	return most;
}

/* Once there are `count` threads. */
static std::vector<cpu_set_t> masksOfProxies(int count)
{
	std::vector<cpu_set_t> masks = masksOfProxies();
	while (masks.size() < static_cast<size_t>(count)) { /* a thread gets its name late */
		std::this_thread::yield();
		masks = masksOfProxies();
	}
	EXPECT(masks.size() == static_cast<size_t>(count));
	return masks;
}

/* One thread for each rank of this process, once each rank has its thread. */
static std::vector<cpu_set_t> masksOfRanks(Rank &r)
{
	return masksOfProxies(r.nRanks);
}

/* The process may use one CPU alone: the proxy uses it, too, and says so. */
static void onOwnCpu(Rank &r, const ginDevComm &dc)
{
	cpu_set_t own = ownMask();

	EXPECT(CPU_COUNT(&own) == 1 && statsOf(r, dc, 0).cpus == std::to_string(firstOf(own)));
	for (const cpu_set_t &mask : masksOfRanks(r))
		EXPECT(CPU_EQUAL(&mask, &own));
	meet(r);
}

static int onOneCpu(const ginConfig_t *config)
{
	cpu_set_t own = ownMask();
	int cpu = firstOf(own);

	CPU_ZERO(&own);
	CPU_SET(cpu, &own);
	EXPECT(!sched_setaffinity(0, sizeof(own), &own));
	return with<onOwnCpu, 1, 16>(config);
}

/* GIN_PROXY_AFFINITY=cpu: each thread has a CPU of the process, and no two threads share one. */
static void pinned(Rank &r, const ginDevComm &dc)
{
	cpu_set_t own = ownMask(), all;
	meet(r);
	CPU_ZERO(&all);
	for (const cpu_set_t &mask : masksOfRanks(r)) {
		EXPECT(CPU_COUNT(&mask) == 1 && CPU_ISSET(firstOf(mask), &own));
		CPU_OR(&all, &all, &mask);
	}
	EXPECT(CPU_COUNT(&all) == std::min(r.nRanks, CPU_COUNT(&own)));
	EXPECT(CPU_ISSET(atoi(statsOf(r, dc, 0).cpus), &all));
	for (int ms = 0; slackOfProxies() > 1; ms++) { /* a thread sets it late */
		EXPECT(ms < 5000);
		usleep(1000);
	}
	meet(r);
}

/* Of two CPUs, a communicator that has ended leaves its one to the next communicator. */
static int freed(const ginConfig_t *config)
{
	cpu_set_t own = ownMask(), all;
	Rank r[3];

	while (CPU_COUNT(&own) > 2)
		CPU_CLR(firstOf(own), &own);
	EXPECT(!sched_setaffinity(0, sizeof(own), &own));
	rankOpen(r[0], config);
	rankOpen(r[1], config);
	rankClose(r[1]);
	rankOpen(r[2], config); // in its turn it would get the CPU of the first one
	CPU_ZERO(&all);
	for (const cpu_set_t &mask : masksOfProxies(2))
		CPU_OR(&all, &all, &mask);
	EXPECT(CPU_EQUAL(&all, &own));
	rankClose(r[0]);
	rankClose(r[2]);
	return 0;
}

/* Runs the test in a process of its own, as `n` threads. Returns its standard error. */
static std::string inChild(const char *name, int n, int (*run)(const ginConfig_t *config))
{
	char path[] = "/tmp/gin-stats-XXXXXX", text[16384];
	int fd = mkstemp(path), status = -1;
	EXPECT(fd >= 0 && unlink(path) == 0);
	fflush(nullptr);
	pid_t child = fork();
	if (child == 0) {
		dup2(fd, 2);
		const int *result = ranksStart(n, 1, run);
		exit(result[0] || result[n - 1]);
	}
	EXPECT(child > 0 && waitpid(child, &status, 0) == child);
	ssize_t length = pread(fd, text, sizeof(text), 0);
	std::string out(text, length > 0 ? static_cast<size_t>(length) : 0);
	close(fd);
	fprintf(stderr, "%s", status ? out.c_str() : "");
	check(status == 0, name);
	printf("ok: %s\n", name);
	return out;
}

static void expectHas(const std::string &text, const char *words, bool has)
{
	bool seen = text.find(words) != std::string::npos;
	if (seen != has)
		fprintf(stderr, "%s\"%s\" in:\n%s", has ? "no " : "", words, text.c_str());
	EXPECT(seen == has);
}

static size_t countOf(const std::string &text, const char *words)
{
	size_t count = 0, at = 0;
	while ((at = text.find(words, at)) != std::string::npos)
		at++, count++;
	return count;
}

static void testPlaces()
{
	setenv("GIN_LOG", "warn", 1);
	std::string log = inChild("2 ranks on one CPU", 2, onOneCpu);
	EXPECT(countOf(log, "share the one CPU") == (sysconf(_SC_NPROCESSORS_ONLN) > 1));
	setenv("GIN_PROXY_AFFINITY", "cpu", 1);
	log = inChild("2 ranks, GIN_PROXY_AFFINITY=cpu", 2, with<pinned, 1, 16>);
	inChild("5 ranks, GIN_PROXY_AFFINITY=cpu", 5, with<pinned, 1, 16>);
	inChild("a communicator has ended, GIN_PROXY_AFFINITY=cpu", 1, freed);
	cpu_set_t own = ownMask();
	EXPECT(CPU_COUNT(&own) < 2 || !countOf(log, "share the one CPU"));
	unsetenv("GIN_PROXY_AFFINITY");
}

int main()
{
	shareGpu();
	setenv("GIN_ROUTE", "network", 1);
	setenv("GIN_BACKEND", "proxy", 1);
	inChild("known numbers, 1 rank", 1, with<knownNumbers, 2>);
	std::string log = inChild("known numbers, 3 ranks", 3, with<knownNumbers, 2>);
	expectHas(log, "STATS", false);
	setenv("GIN_LOG", "stats", 1);
	log = inChild("known numbers, GIN_LOG=stats", 2, with<knownNumbers, 2>);
	expectHas(log, "rank 0 gin STATS device communicator 1, context 0: 266 posted", true);
	expectHas(log, "266 completed, 0 failed; 9712 bytes put, 1600 got; 0 waits", true);
	expectHas(log, "rank 1 gin STATS ", true);
	expectHas(log, "context 1:", false);
	testPlaces();
	inChild("the contexts of barriers", 3, with<barriers, 4>);
	setenv("GIN_LOG", "none", 1);
	inChild("a wrong descriptor", 1, with<wrongDescriptor>);
	setenv("GIN_PROXY_THREADS", "0", 1);
	inChild("no room", 1, with<noRoom, 1, 16>);
	return 0;
}
