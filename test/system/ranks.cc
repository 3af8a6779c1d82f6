/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ranks.cc - one rank of a job over several hosts
 *
 *	ranks routes HOST,HOST...	all is right where rank r runs on the r-th host;
 *					ALIAS is the name of all hosts. With GIN_TRANSPORT=ipc ranks
 *					of two hosts have no route, without it libfabric connects
 *	ranks idle HOST,HOST...		as routes; then threads of the proxy sleep
 *	ranks names HOST,HOST...	two threads make communicators of two names concurrently
 *	ranks outlive WORDS...		the communicator comes up, and fails with one of the words
 *	ranks refused WORDS...		ginCommInit() fails with one of the words
 *
 */
#include "meeting.h"

#include <dirent.h>

#include <thread>

static std::vector<std::string> split(const std::string &list)
{
	std::vector<std::string> parts;
	for (size_t at = 0, end = 0; end != list.npos; at = end + 1) {
		end = list.find(',', at);
		parts.push_back(list.substr(at, end - at));
	}
	return parts;
}

/* Where each rank runs. */
typedef std::vector<std::string> Hosts;

static std::string nameOf(const std::string &host)
{
	return *variable("ALIAS") ? variable("ALIAS") : host;
}

static void expectText(const std::string &seen, const std::string &expected)
{
	if (seen != expected)
		fprintf(stderr, "seen: %s\nexpected: %s\n", seen.c_str(), expected.c_str());
	EXPECT(seen == expected);
}

/* Machines have different reasons to have no NIC. */
static std::string withoutNic(std::string text)
{
	size_t from = text.find("gdaki: "), to = text.find("proxy: ");
	EXPECT(from != text.npos && to != text.npos && from < to);
	return text.substr(0, from) + text.substr(to);
}

/* A pair of two hosts gives this reason for having no route. */
static std::string elsewhere(const std::string &host)
{
	return "direct: another host (" + nameOf(host) +
	       "); proxy: GIN_TRANSPORT=ipc rules a network out";
}

static bool hasNetwork()
{
	return strcmp(variable("GIN_TRANSPORT"), "ipc") != 0;
}

/* Provider, interface and speed; the interface is eth0 of every host. */
static void expectNetwork(const ginPeerInfo_t &info)
{
	std::string why = info.why;

	expectText(info.backend, "proxy");
	EXPECT(info.route == ginRouteProxy);
	expectText(why.substr(0, why.find(';')),
		   std::string("libfabric ") +
			   (*variable("PROVIDER") ? variable("PROVIDER") : "net") +
			   ", eth0 (10 Gb/s)");
	EXPECT(why.find("; not gdaki: ") != why.npos);
}

static void expectPeer(const Rank &r, const Hosts &hosts, int peer)
{
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;
	bool same = hosts[peer] == hosts[r.rank];

	CHECK(ginCommQueryPeer(r.comm, peer, &info));
	expectText(info.host, nameOf(hosts[peer]));
	EXPECT(info.sameHost == same && info.sameProcess == (peer == r.rank));
	if (!same && hasNetwork()) {
		expectNetwork(info);
		return;
	}
	expectText(info.backend, same ? "direct" : "none");
	if (same)
		expectText(info.why,
			   peer == r.rank ? "the same memory" : "shared memory of one host");
	else
		expectText(withoutNic(info.why), elsewhere(hosts[peer]));
	EXPECT(info.route == (same ? ginRouteDirect : ginRouteNone));
}

/* All ranks get the sentence of rank 0, about the first rank that is elsewhere. */
static void expectNoDevComm(const Rank &r, const Hosts &hosts)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginDevComm dc;
	int other = 0;

	while (other < r.nRanks && hosts[other] == hosts[0])
		other++;
	if (other == r.nRanks)
		return;
	std::string expected = "ginDevCommCreate: rank 0: no backend connects rank 0 and rank " +
			       std::to_string(other) + " (host " + nameOf(hosts[other]) +
			       "): " + elsewhere(hosts[other]);
	EXPECT(ginDevCommCreate(r.comm, &want, &dc) == ginErrorUnsupported);
	expectText(withoutNic(ginGetLastError()), expected);
}

/* Each rank has a cell for each rank, in both windows. */
struct Exchange {
	ginDevComm dc;
	ginWindow_t to, from;
	size_t cell;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		ginResult_t result = ginSuccess;
		for (uint32_t peer = 0; peer < dc.nRanks && result == ginSuccess; peer++)
			result = gin.put(static_cast<int>(peer), to, dc.rank * cell, from,
					 peer * cell, cell, GinSignalInc{0}, GinNone{}, GinCta{});
		if (result == ginSuccess)
			result = gin.waitSignal(0, dc.nRanks, GinCta{});
		results[ginThreadIndex()] = result;
	}
};

/* `ranks`: the numbers in the job of this communicator's ranks, so that hosts differ in data. */
static void exchange(Rank &r, const std::vector<int> &ranks)
{
	const size_t cell = 65553, n = ranks.size();
	std::vector<unsigned char> sent(n * cell), expected(n * cell);
	Buffer to(r, n * cell), from(r, n * cell);
	Results results(r, blockFor<GinCta>(r));
	int me = ranks[r.rank];

	for (size_t peer = 0; peer < n; peer++)
		for (size_t i = 0; i < cell; i++) {
			sent[peer * cell + i] = pattern(me, ranks[peer], i);
			expected[peer * cell + i] = pattern(ranks[peer], me, i);
		}
	from.write(sent);
	to.poison();
	Device device(r, 1, 1); /* collective: all have poisoned */
	launch(r, 1, blockFor<GinCta>(r),
	       Exchange{device.dc, to.window, from.window, cell, results.words});
	EXPECT(results.all(ginSuccess));
	EXPECT(to.read() == expected);
	meet(r);
}

static Rank part(const Rank &whole, int color, int key)
{
	Rank r = whole;

	CHECK(ginCommSplit(whole.comm, color, key, &r.comm));
	CHECK(ginCommRank(r.comm, &r.rank));
	CHECK(ginCommSize(r.comm, &r.nRanks));
	return r;
}

/* The ranks of each host by themselves, the last of them first. */
static void exchangeOnHost(const Rank &world, const Hosts &hosts)
{
	std::vector<int> ranks;

	for (int peer = world.nRanks - 1; peer >= 0; peer--)
		if (hosts[peer] == hosts[world.rank])
			ranks.push_back(peer);
	Rank r = part(world, ranks.back(), -world.rank);
	EXPECT(r.nRanks == static_cast<int>(ranks.size()) && ranks[r.rank] == world.rank);
	for (int peer = 0; peer < r.nRanks; peer++) {
		ginPeerInfo_t info = GIN_PEER_INFO_INIT;
		CHECK(ginCommQueryPeer(r.comm, peer, &info));
		EXPECT(info.route == ginRouteDirect);
	}
	exchange(r, ranks);
	rankClose(r);
}

/* By the network and directly. */
static void exchangeAll(Rank &world)
{
	std::vector<int> ranks;

	for (int peer = 0; peer < world.nRanks; peer++)
		ranks.push_back(peer);
	exchange(world, ranks);
}

static Rank openWorld(const ginConfig_t &config, const Hosts &hosts)
{
	char host[64];
	Rank r;

	rankOpen(r, &config);
	EXPECT(r.nRanks == static_cast<int>(hosts.size()));
	EXPECT(!gethostname(host, sizeof(host)) && host == nameOf(hosts[r.rank]));
	return r;
}

static int routes(const Hosts &hosts)
{
	Rank r = openWorld(worldConfig(), hosts);

	for (int peer = 0; peer < r.nRanks; peer++)
		expectPeer(r, hosts, peer);
	if (hasNetwork())
		exchangeAll(r);
	else
		expectNoDevComm(r, hosts);
	exchangeOnHost(r, hosts);
	printf("rank %d of %d: routes and data as expected\n", r.rank, r.nRanks);
	rankClose(r);
	return 0;
}

/* CPU time of this process's proxy threads, in ns. */
static uint64_t proxyCpuTime()
{
	uint64_t sum = 0;
	DIR *dir = opendir("/proc/self/task");

	EXPECT(dir != nullptr);
	while (const struct dirent *entry = readdir(dir)) {
		std::string task = std::string("/proc/self/task/") + entry->d_name;
		char name[32] = "";
		unsigned long long ran = 0;
		FILE *file = fopen((task + "/comm").c_str(), "re");
		if (!file || !fgets(name, sizeof(name), file) || strcmp(name, "gin-proxy\n"))
			name[0] = 0;
		if (file)
			fclose(file);
		file = name[0] ? fopen((task + "/schedstat").c_str(), "re") : nullptr;
		if (file && fscanf(file, "%llu", &ran) == 1)
			sum += ran;
		if (file)
			fclose(file);
	}
	closedir(dir);
	return sum;
}

/* A thread that polls all the time would use a second of CPU time, or its share. */
static int idle(const Hosts &hosts)
{
	Rank r = openWorld(worldConfig(), hosts);

	exchangeAll(r);
	usleep(100000);
	uint64_t before = proxyCpuTime();
	sleep(1);
	uint64_t ran = (proxyCpuTime() - before) / 1000000;
	printf("rank %d: the proxy used %llu ms of CPU time in an idle second\n", r.rank,
	       static_cast<unsigned long long>(ran));
	EXPECT(before > 0 && ran < 40);
	meet(r);
	rankClose(r);
	return 0;
}

/* Several communicators of one name; the colors show that ranks have met by name and number. */
static void makeNamed(const char *name, int color, const Hosts &hosts)
{
	for (int turn = 0; turn < 3; turn++) {
		ginConfig_t config = worldConfig();
		config.name = name;
		Rank r = openWorld(config, hosts);
		Rank same = part(r, color + turn, r.rank);
		EXPECT(same.nRanks == r.nRanks && same.rank == r.rank);
		rankClose(same);
		exchangeOnHost(r, hosts);
		rankClose(r);
	}
}

/* Every other rank begins with the other name; these are the first communicators of the process. */
static int names(const Hosts &hosts)
{
	int rank = atoi(variable(*variable("RANK") ? "RANK" : "OMPI_COMM_WORLD_RANK"));

	auto left = [&] { makeNamed("left", 0, hosts); };
	auto right = [&] { makeNamed("right", 10, hosts); };
	std::thread first = rank % 2 ? std::thread(right) : std::thread(left);
	usleep(50000);
	std::thread second = rank % 2 ? std::thread(left) : std::thread(right);
	first.join();
	second.join();
	printf("rank %d: two names, each with its own\n", rank);
	return 0;
}

static bool saidOneOf(char **words)
{
	for (; *words; words++)
		if (strstr(ginGetLastError(), *words))
			return true;
	return false;
}

/* Writes its process id into MEET when it is up; then the test may kill a rank. */
static int outlive(char **words)
{
	ginConfig_t config = worldConfig();
	ginResult_t error = ginSuccess;
	Rank r;

	rankOpen(r, &config);
	std::string pid = std::to_string(getpid());
	leave(variable("MEET") + ("/up." + std::to_string(r.rank)), pid.data(), pid.size());
	while (error == ginSuccess) {
		usleep(10000);
		CHECK(ginCommGetAsyncError(r.comm, &error));
	}
	printf("rank %d: %s\n", r.rank, ginGetLastError());
	EXPECT(error == ginErrorPeer && saidOneOf(words));
	rankClose(r);
	return 0;
}

static int refused(char **words)
{
	ginConfig_t config = worldConfig();
	ginComm_t comm;

	EXPECT(ginCommInit(&config, &comm) != ginSuccess);
	printf("%s\n", ginGetLastError());
	EXPECT(saidOneOf(words));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "routes"))
		return routes(split(argv[2]));
	if (argc == 3 && !strcmp(argv[1], "idle"))
		return idle(split(argv[2]));
	if (argc == 3 && !strcmp(argv[1], "names"))
		return names(split(argv[2]));
	if (argc > 2 && !strcmp(argv[1], "outlive"))
		return outlive(argv + 2);
	if (argc > 2 && !strcmp(argv[1], "refused"))
		return refused(argv + 2);
	fprintf(stderr, "ranks routes|names|outlive|refused: see ranks.cc\n");
	return 1;
}
