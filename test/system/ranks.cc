/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ranks.cc - one rank of a job over several hosts
 *
 *	ranks routes HOST,HOST...	all is as it should be where rank r runs on the r-th host;
 *					ALIAS is the name of all hosts
 *	ranks outlive WORDS...		the communicator comes up, and fails with one of the words
 *	ranks refused WORDS...		ginCommInit() fails with one of the words
 *
 * Without a launcher RANK and WORLD_SIZE say which one; GIN_ROOT brings them together, or else the
 * folder MEET, which all ranks share in any case.
 */
#include "../suite.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <string>

/* An allgather over the files of a folder, such as a program may have. */
struct Folder {
	std::string path;
	int rank, nRanks;
	int calls;
};

static std::string fileOf(const Folder &folder, int rank)
{
	return folder.path + "/gather." + std::to_string(folder.calls) + "." + std::to_string(rank);
}

/* A file is there when it is complete. */
static void leave(const std::string &name, const void *data, size_t bytes)
{
	std::string part = name + ".part";
	int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	EXPECT(fd >= 0 && write(fd, data, bytes) == static_cast<ssize_t>(bytes) && !close(fd));
	EXPECT(!rename(part.c_str(), name.c_str()));
}

static void collect(const std::string &name, void *data, size_t bytes)
{
	int fd;

	while ((fd = open(name.c_str(), O_RDONLY | O_CLOEXEC)) < 0)
		usleep(1000);
	EXPECT(read(fd, data, bytes) == static_cast<ssize_t>(bytes) && !close(fd));
}

static int gatherByFiles(void *arg, const void *in, void *out, size_t bytes)
{
	Folder *folder = static_cast<Folder *>(arg);

	leave(fileOf(*folder, folder->rank), in, bytes);
	for (int r = 0; r < folder->nRanks; r++)
		collect(fileOf(*folder, r), static_cast<char *>(out) + r * bytes, bytes);
	folder->calls++;
	return 0;
}

static ginConfig_t configOf(Folder *folder)
{
	ginConfig_t config = GIN_CONFIG_INIT;

	config.allgather = gatherByFiles;
	config.allgatherArg = folder;
	config.rank = folder->rank;
	config.nRanks = folder->nRanks;
	return config;
}

static const char *variable(const char *name)
{
	const char *value = getenv(name);
	return value ? value : "";
}

/* By the launcher or GIN_ROOT, or by MEET. */
static ginConfig_t worldConfig()
{
	static Folder world;

	if (*variable("GIN_ROOT") || !*variable("MEET"))
		return GIN_CONFIG_INIT;
	world = {variable("MEET"), atoi(variable("RANK")), atoi(variable("WORLD_SIZE")), 0};
	return configOf(&world);
}

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

static void expectPeer(const Rank &r, const Hosts &hosts, int peer)
{
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;
	bool same = hosts[peer] == hosts[r.rank];

	CHECK(ginCommQueryPeer(r.comm, peer, &info));
	expectText(info.host, nameOf(hosts[peer]));
	expectText(info.backend, same ? "direct" : "none");
	expectText(info.why, peer == r.rank ? "the same memory"
			     : same	    ? "shared memory of one host"
					    : "another host (" + nameOf(hosts[peer]) + ")");
	EXPECT(info.route == (same ? ginRouteDirect : ginRouteNone));
	EXPECT(info.sameHost == same && info.sameProcess == (peer == r.rank));
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
			       "): direct: another host (" + nameOf(hosts[other]) +
			       "); this libgin has no network backend";
	EXPECT(ginDevCommCreate(r.comm, &want, &dc) == ginErrorUnsupported);
	expectText(ginGetLastError(), expected);
}

/* Each rank has a cell for each, in both windows. */
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

/* A communicator of each host's own ranks, who meet in a folder that other jobs do not use. */
static void exchangeOnHost(const Rank &world, const Hosts &hosts)
{
	Folder folder = {std::string(getenv("TMPDIR")) + "/ranks" + variable("PMIX_NAMESPACE"), 0,
			 0, 0};
	std::vector<int> ranks;
	Rank r;

	for (int peer = 0; peer < world.nRanks; peer++) {
		if (hosts[peer] != hosts[world.rank])
			continue;
		if (peer == world.rank)
			folder.rank = static_cast<int>(ranks.size());
		ranks.push_back(peer);
	}
	folder.nRanks = static_cast<int>(ranks.size());
	EXPECT(!mkdir(folder.path.c_str(), 0700) || errno == EEXIST);
	ginConfig_t config = configOf(&folder);
	rankOpen(r, &config);
	exchange(r, ranks);
	rankClose(r);
}

static int routes(const Hosts &hosts)
{
	ginConfig_t config = worldConfig();
	char host[64];
	Rank r;

	rankOpen(r, &config);
	EXPECT(r.nRanks == static_cast<int>(hosts.size()));
	EXPECT(!gethostname(host, sizeof(host)) && host == nameOf(hosts[r.rank]));
	for (int peer = 0; peer < r.nRanks; peer++)
		expectPeer(r, hosts, peer);
	expectNoDevComm(r, hosts);
	exchangeOnHost(r, hosts);
	printf("rank %d of %d on %s: routes and data as expected\n", r.rank, r.nRanks, host);
	rankClose(r);
	return 0;
}

static bool saidOneOf(char **words)
{
	for (; *words; words++)
		if (strstr(ginGetLastError(), *words))
			return true;
	return false;
}

/* Says its process in MEET when it is up; then somebody may be killed. */
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
	if (argc > 2 && !strcmp(argv[1], "outlive"))
		return outlive(argv + 2);
	if (argc > 2 && !strcmp(argv[1], "refused"))
		return refused(argv + 2);
	fprintf(stderr, "ranks routes|outlive|refused: see ranks.cc\n");
	return 1;
}
