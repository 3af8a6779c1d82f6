/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap_tcp.cc - jobs at GIN_ROOT: by every launcher's variables, over every kind of address,
 * and jobs that cannot start, with the sentence that their ranks get
 *
 * PAIRS pairs of jobs start at one instant at one port, 6 by default.
 *
 * The jobs run all at once, each at a port of its own; a rank is a child process.
 */
/* COMPILE: -O0 */
#include "jobs.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <time.h>

#include <algorithm>
#include <thread>

/* This host's own address that others see, as GIN_ROOT has it; "" when there is none. */
static std::string ownAddress()
{
	char text[INET_ADDRSTRLEN] = "";
	ifaddrs *list = nullptr;

	EXPECT(!getifaddrs(&list));
	for (const ifaddrs *i = list; i && !*text; i = i->ifa_next) {
		sockaddr_in at;
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
			continue;
		memcpy(&at, i->ifa_addr, sizeof(at));
		if (ntohl(at.sin_addr.s_addr) >> 24 != 127)
			inet_ntop(AF_INET, &at.sin_addr, text, sizeof(text));
	}
	freeifaddrs(list);
	return text;
}

static void addresses()
{
	std::string own = ownAddress();
	int v6 = bindPort(AF_INET6, 0);

	for (int n : {1, 2, 4})
		startJob("loopback, " + std::to_string(n), world(n, {newRoot()}));
	startJob("loopback with a secret", world(3, {newRoot(), "GIN_SECRET=a secret"}));
	if (gethostbyname("localhost")) {
		startJob("localhost", world(2, {newRoot("localhost")}));
		startJob("localhost with a secret",
			 world(2, {newRoot("localhost"), "GIN_SECRET=a"}));
	} else {
		printf("left out: GIN_ROOT=localhost: it has no address\n");
	}
	startJob("GIN_BOOTSTRAP=tcp", world(2, {newRoot(), "GIN_BOOTSTRAP=tcp"}));
	if (v6 >= 0) {
		startJob("IPv6", world(3, {newRoot("[::1]")}));
		startJob("IPv6 with a secret", world(2, {newRoot("[::1]"), "GIN_SECRET=a"}));
		close(v6);
	} else {
		printf("left out: GIN_ROOT=[::1]: there is no IPv6 loopback\n");
	}
	if (own.empty()) {
		printf("left out: GIN_ROOT of this host's own address: there is none but "
		       "loopback\n");
		return;
	}
	startJob("own address", world(3, {newRoot(own), "GIN_SECRET=a secret"}));
	std::string open = newRoot(own);
	startJob("own address without a secret",
		 {{rankOf(0, 2, {open}), fails({open, "open to other hosts", "set GIN_SECRET"})},
		  {rankOf(1, 2, {open}), fails({open, "open to other hosts", "set GIN_SECRET"})}});
}

static void launchers()
{
	static const char *const pairs[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
					       {"PMI_RANK", "PMI_SIZE"},
					       {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};
	std::string root = newRoot();

	for (const auto &pair : pairs) {
		std::vector<Process> processes;
		std::string at = newRoot();
		for (int r = 0; r < 2; r++)
			processes.push_back({{at, std::string(pair[0]) + "=" + std::to_string(r),
					      std::string(pair[1]) + "=2"},
					     [=] { meets(r, 2); }});
		startJob(pair[0], processes);
	}
	startJob("RANK goes first",
		 {{rankOf(1, 2, {root, "PMI_RANK=0", "PMI_SIZE=2"}), [] { meets(1, 2); }},
		  {rankOf(0, 2, {root, "PMI_RANK=0", "PMI_SIZE=2"}), [] { meets(0, 2); }}});
}

static void wrongVariables()
{
	std::string root = newRoot();

	startJob("no number", {{{root}, fails({"GIN_ROOT is set", "set RANK (from 0)"})},
			       {{root, "RANK=0"}, fails({"set RANK (from 0) and WORLD_SIZE"})},
			       {{root, "WORLD_SIZE=2"}, fails({"set RANK (from 0)"})}});
	startJob("a wrong number",
		 {{rankOf(2, 2, {root}), fails({"RANK=2 and WORLD_SIZE=2", "less than"})},
		  {rankOf(-1, 2, {root}), fails({"RANK=-1 and WORLD_SIZE=2"})},
		  {rankOf(0, 0, {root}), fails({"RANK=0 and WORLD_SIZE=0"})},
		  {{root, "RANK=one", "WORLD_SIZE=2"}, fails({"RANK=one"})}});
	startJob("no place",
		 {{rankOf(0, 2, {"GIN_BOOTSTRAP=tcp"}),
		   fails({"GIN_BOOTSTRAP=tcp needs GIN_ROOT=host:port"})},
		  {rankOf(0, 2, {"GIN_ROOT=127.0.0.1"}),
		   fails({"GIN_ROOT=127.0.0.1: must be host:port"})},
		  {rankOf(1, 2, {"GIN_ROOT=127.0.0.1:0"}),
		   fails({"GIN_ROOT=127.0.0.1:0", "1 to 65535"})},
		  {rankOf(1, 2, {"GIN_ROOT=no-such-host.invalid:5000", "GIN_TIMEOUT=1"}),
		   fails({"GIN_ROOT=no-such-host.invalid:5000: "}, ginErrorTimeout)},
		  {rankOf(1, 2, {"GIN_ROOT=tcp://127.0.0.1:5000"}),
		   fails({"GIN_ROOT=tcp://127.0.0.1:5000: "})}});
}

/* A network of documentation: this host has no address there. */
static void otherHost()
{
	startJob("GIN_ROOT of another host", {{rankOf(0, 2, {newRoot("192.0.2.1"), "GIN_SECRET=a"}),
					       failsWith({"no address of it is of host",
							  "GIN_ROOT must name the host of rank 0"},
							 ginErrorBootstrap)}});
}

/* Each of several processes would be a job of its own. */
static void staleVariables()
{
	std::string root = newRoot();
	std::vector<Process> all = world(2, {});

	for (Process &process : all) {
		process.variables = {root, "RANK=0", "WORLD_SIZE=1", "SLURM_STEP_NUM_TASKS=2"};
		process.body = fails({"RANK=0 and WORLD_SIZE=1, but SLURM_STEP_NUM_TASKS=2",
				      "GIN_BOOTSTRAP=self"});
	}
	startJob("variables of another job", all);
}

/* The limit counts from the call on, and the shortest limit ends the wait of all. */
static void limits()
{
	std::string root = newRoot();
	auto ends = [](int least, int most, const char *words) {
		return [=] {
			time_t begun = time(nullptr);
			failsWith({words}, ginErrorTimeout)();
			time_t seconds = time(nullptr) - begun;
			EXPECT(seconds >= least && seconds <= most);
		};
	};

	startJob("a rank's limit ends the wait of the others",
		 {{rankOf(0, 3, {root, "GIN_TIMEOUT=600"}),
		   ends(0, 60, "rank 2 did not come within")},
		  {rankOf(1, 3, {root, "GIN_TIMEOUT=2"}),
		   ends(2, 60, "rank 2 did not come within")}});
}

static void lateRoot()
{
	std::string root = newRoot(), never = newRoot();
	std::vector<Process> late = world(3, {root});

	late[0].body = [] {
		usleep(1000000);
		meets(0, 3);
	};
	startJob("rank 0 comes late", late);
	startJob("rank 0 never comes",
		 {{rankOf(1, 2, {never, "GIN_TIMEOUT=2"}),
		   fails({"no connection to rank 0 at GIN_ROOT", "is rank 0 started"},
			 ginErrorTimeout)}});
	startJob("rank 1 never comes",
		 {{rankOf(0, 2, {newRoot(), "GIN_TIMEOUT=2"}), [] {
			   ginComm_t comm = nullptr;
			   /* On a busy machine a part of the limit is over by then. */
			   EXPECT_FAILS(ginCommInit(nullptr, &comm), ginErrorTimeout,
					"rank 1 did not come within ", " s (GIN_TIMEOUT)");
		   }}});
}

/* A rank's own error reaches all ranks, whichever comes last, and the rank itself in any case. */
static void wrongVariableLate()
{
	for (const char *variable : {"GIN_ROUTE=bogus", "GIN_TIMEOUT=abc"}) {
		auto refused = failsWith({variable}, ginErrorInvalidArgument);
		std::string all = newRoot(), root = newRoot(), never = newRoot();
		startJob(std::string(variable) + " on all ranks, one is late",
			 {{rankOf(0, 2, {all, variable}), refused},
			  {rankOf(1, 2, {all, variable}), late(refused)}});
		startJob(std::string(variable) + " on a late rank",
			 {{rankOf(0, 3, {root}), refused},
			  {rankOf(1, 3, {root}), refused},
			  {rankOf(2, 3, {root, variable}), late(refused)}});
		startJob(std::string(variable) + " on rank 0, one is late",
			 {{rankOf(0, 2, {never, variable}), refused},
			  {rankOf(1, 2, {never}), late(refused)}});
	}
	startJob("a wrong variable, and rank 0 never comes",
		 {{rankOf(1, 2, {newRoot(), "GIN_TIMEOUT=1", "GIN_ROUTE=bogus"}),
		   fails({"GIN_ROUTE=bogus"}, ginErrorInvalidArgument)}});
}

/* As a wrong variable. */
static void wrongChoice()
{
	std::string root = newRoot();
	auto opens = [](const char *backend) {
		return [=] {
			ginConfig_t config = GIN_CONFIG_INIT;
			ginComm_t comm = nullptr;
			config.backend = backend;
			EXPECT_FAILS(ginCommInit(&config, &comm), ginErrorInvalidArgument,
				     "ginCommInit: rank 1: config.backend is bogus");
		};
	};

	startJob("a wrong choice on one rank",
		 {{rankOf(0, 2, {root}), opens(nullptr)}, {rankOf(1, 2, {root}), opens("bogus")}});
}

/*
 * A second after rank 0 has destroyed its last communicator, nothing of the root is left, and the
 * port is free. The next communicator brings the root back; rank 1 may come before that.
 */
static void rootEnds()
{
	std::string root = newRoot();
	int *met = newCount(), *ended = newCount();

	startJob("the root ends with the last communicator",
		 {{rankOf(0, 2, {root}),
		   [=] {
			   int files = countFiles();
			   for (int i = 0; i < 2; i++) {
				   meets(0, 2);
				   add(met);
				   for (int ms = 0; ms < 20000 && countFiles() > files; ms++)
					   usleep(1000);
				   EXPECT(countFiles() == files);
				   EXPECT(!isListening(root));
				   add(ended);
			   }
		   }},
		  {rankOf(1, 2, {root}), [=] {
			   meets(1, 2);
			   awaitCount(ended, 1);
			   meets(1, 2);
			   awaitCount(met, 2);
		   }}});
}

/* Rank 0 waits until rank 1 has its sentence: the order of the two processes does not matter. */
static void secrets()
{
	std::string root = newRoot();
	int *refused = newCount();

	startJob("secrets that differ",
		 {{rankOf(0, 2, {root, "GIN_SECRET=a"}),
		   [=] {
			   std::thread([] {
				   ginComm_t comm = nullptr;
				   ginCommInit(nullptr, &comm);
			   }).detach();
			   awaitCount(refused, 1);
			   _exit(0);
		   }},
		  {rankOf(1, 2, {root, "GIN_SECRET=b"}),
		   counted(fails({"has another secret: GIN_SECRET must be the same on all ranks"}),
			   refused)}});
}

/* Another process listens there, and never answers. */
static void takenPort()
{
	std::string root = newRoot();
	int port = atoi(root.c_str() + root.rfind(':') + 1);
	int fd = bindPort(AF_INET, static_cast<uint16_t>(port));

	EXPECT(fd >= 0 && !listen(fd, 5));
	startJob("a port that is taken",
		 {{rankOf(0, 2, {root}),
		   fails({root, "rank 0 cannot listen there: Address already in use",
			  "another job or program has the port; choose another port"})},
		  {rankOf(1, 2, {root, "GIN_TIMEOUT=2"}),
		   fails({"no connection to rank 0 at GIN_ROOT", "timed out"}, ginErrorTimeout)}});
	/* Open until the jobs end. */
}

/* The first job is whole, whatever the second sends. */
static void twoJobs(const std::string &name, const std::string &secret,
		    std::vector<std::string> words, ginResult_t result)
{
	std::string root = newRoot();
	std::vector<Process> all = world(2, {root, "GIN_SECRET=first"});
	std::vector<std::string> second = {root, secret, "GIN_TIMEOUT=2"};
	int *met = newCount(), *gone = newCount();

	for (Process &process : all) {
		std::function<void()> body = process.body;
		process.body = [=] {
			body();
			add(met);
			awaitCount(gone, 2);
			body();
		};
	}
	all.push_back({rankOf(0, 2, second),
		       after(met, 2, counted(fails({"rank 0 cannot listen there"}), gone))});
	all.push_back({rankOf(1, 2, second), after(met, 2, counted(fails(words, result), gone))});
	startJob(name, all);
}

/*
 * Rank 0 of a second job comes while the first job's ranks meet: all get the error, none are mixed.
 */
static void twoJobsMeet()
{
	std::string root = newRoot();
	auto refused = failsWith({"two processes say that they are rank 0"}, ginErrorBootstrap);
	int *gone = newCount();

	startJob("two jobs that start together, with one secret",
		 {{rankOf(0, 3, {root}), refused},
		  {rankOf(1, 3, {root}), refused},
		  {rankOf(2, 3, {root}), after(gone, 1, refused)},
		  {rankOf(0, 3, {root}), [=] {
			   while (!isListening(root))
				   usleep(1000);
			   failsWith({"rank 0 cannot listen there"}, ginErrorBootstrap)();
			   add(gone);
		   }}});
}

/* Two jobs of two ranks each, at one port: shared state of their four processes. */
struct Pair {
	int ready, early, ended, mixed; /* processes */
	uint64_t first, last;		/* the first begin of ginCommInit(), the last end */
};

static Pair *pairs;

/*
 * A communicator of ranks of both jobs fails, if the ranks that it leaves out have come within a
 * second: on a slow machine they may come later.
 */
static void expectMixedFails(Pair *pair, ginComm_t comm)
{
	ginResult_t error = ginSuccess;

	if (pair->last - pair->first > 1000000000u) {
		printf("left out: a communicator of two jobs: other ranks took a second to come\n");
		return;
	}
	for (int ms = 0; ms < 20000 && error == ginSuccess; ms++) {
		EXPECT(ginCommGetAsyncError(comm, &error) == ginSuccess);
		usleep(1000);
	}
	EXPECT(error == ginErrorBootstrap);
	EXPECT_FAILS(ginCommAllgather(comm, nullptr, nullptr, 0), ginErrorBootstrap,
		     "two jobs use this port at one time");
	add(&pair->mixed);
}

static void oneOfTwoJobs(Pair *pair, int job)
{
	ginComm_t comm = nullptr;
	int jobs[2] = {job, job};

	uint64_t none = 0;
	__atomic_compare_exchange_n(&pair->first, &none, nowNs(), false, __ATOMIC_ACQ_REL,
				    __ATOMIC_ACQUIRE);
	ginResult_t result = ginCommInit(nullptr, &comm);
	__atomic_store_n(&pair->last, nowNs(), __ATOMIC_RELEASE);
	add(&pair->early);
	if (result == ginSuccess)
		result = ginCommAllgather(comm, &job, jobs, sizeof(job));
	add(&pair->ended);
	awaitCount(&pair->ended, 4);
	if (result == ginSuccess && jobs[0] != jobs[1])
		expectMixedFails(pair, comm);
	ginCommDestroy(comm); /* its result is the error, if there was one */
}

/*
 * Rank 0 of job 0 has the root. `first`: the processes, 2 * job + rank, that begin; then the
 * others.
 */
static void startPair(const std::string &name, Pair *pair, const std::vector<int> &first)
{
	std::string root = newRoot();
	std::vector<Process> all;

	for (int i = 0; i < 4; i++) {
		bool isFirst = std::find(first.begin(), first.end(), i) != first.end();
		int *count = isFirst ? &pair->ready : &pair->early;
		int least = isFirst ? 4 : static_cast<int>(first.size());
		all.push_back({rankOf(i % 2, 2, {root, "GIN_TIMEOUT=5"}), [=] {
				       add(&pair->ready);
				       awaitCount(count, least);
				       oneOfTwoJobs(pair, i / 2);
			       }});
	}
	startJob(name, all);
}

/*
 * No communicator with ranks of two jobs stays: neither one that this test makes on purpose, nor
 * one that two jobs make by chance when they start at one instant.
 */
static void mixedJobs(int count)
{
	size_t bytes = static_cast<size_t>(count + 1) * sizeof(Pair);
	void *at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	EXPECT(at != MAP_FAILED);
	pairs = static_cast<Pair *>(at);
	startPair("rank 0 of a job and rank 1 of another job", &pairs[0], {0, 3});
	for (int i = 1; i <= count; i++)
		startPair("two jobs that start at one instant, " + std::to_string(i), &pairs[i],
			  {0, 1, 2, 3});
}

static void reportMixed(int count)
{
	int mixed = 0;

	for (int i = 1; i <= count; i++)
		mixed += pairs[i].mixed != 0;
	printf("%d of %d pairs of jobs were mixed by chance, and failed\n", mixed, count);
}

static void oneRankTwice()
{
	std::string root = newRoot();
	std::vector<Process> all = world(4, {root});
	int *informed = newCount();

	for (Process &process : all)
		process.body = counted(
			[] {
				ginComm_t comm = nullptr;
				EXPECT_FAILS(ginCommInit(nullptr, &comm), ginErrorBootstrap,
					     "two processes say that they are rank 1",
					     "each process needs its own rank");
			},
			informed);
	all.push_back(all[1]);
	std::function<void()> late = all[3].body; /* or the four would meet without the fifth */
	all[3].body = after(informed, 3, late);
	std::function<void()> root0 = all[0].body;
	all[0].body = [=] { /* stays for the one that is late */
			    root0();
			    awaitCount(informed, 5);
	};
	startJob("one rank twice", all);
}

/*
 * Ranks of the first start are still alive, and do not meet the ranks of the second. The root has
 * the shorter timeout: it answers before the rank of the second start has waited long enough.
 */
static void restarts()
{
	std::string root = newRoot();
	std::vector<Process> all = world(2, {root, "TORCHELASTIC_RESTART_COUNT=1"});
	int *gone = newCount();
	std::function<void()> body = all[0].body;

	all[0].body = [=] {
		body();
		awaitCount(gone, 1);
	};
	all.push_back({rankOf(1, 2, {root, "TORCHELASTIC_RESTART_COUNT=0"}), [=] {
			       ginComm_t comm = nullptr;
			       EXPECT_FAILS(ginCommInit(nullptr, &comm), ginErrorTimeout,
					    "rank 0 did not come within 3 s (GIN_TIMEOUT)");
			       add(gone);
		       }});
	all[0].variables.push_back("GIN_TIMEOUT=3");
	startJob("restarts", all);
}

static void forkAndEnd(ginComm_t comm)
{
	const char *words = "comm belongs to the process that forked this one";
	int status = -1, error;
	ginResult_t async;
	ginUniqueId_t id;
	pid_t child = fork();

	if (!child) {
		EXPECT_FAILS(ginCommAllgather(comm, &error, &error, 0), ginErrorInvalidUsage,
			     words);
		EXPECT_FAILS(ginCommGetAsyncError(comm, &async), ginErrorInvalidUsage, words);
		EXPECT_FAILS(ginCommAbort(comm), ginErrorInvalidUsage, words);
		EXPECT_FAILS(ginCommDestroy(comm), ginErrorInvalidUsage, words);
		EXPECT_FAILS(ginCommInit(nullptr, &comm), ginErrorBootstrap, "forked this process");
		CHECK(ginGetUniqueId(&id));
		CHECK(ginCommInitRank(nullptr, &id, 0, 1, &comm));
		CHECK(ginCommDestroy(comm));
		exit(0); /* with atexit */
	}
	EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

/* A child that a rank forks cannot use the communicator, ends, or lives on; the ranks go on. */
static void forkAfterInit()
{
	std::vector<Process> all = world(3, {newRoot()});

	for (Process &process : all) {
		std::function<void()> body = process.body;
		process.body = [=] {
			Rank r;
			rankOpen(r, nullptr);
			forkAndEnd(r.comm);
			exchange(r, 1);
			pid_t sleeper = fork();
			if (!sleeper)
				pauseForTest();
			exchange(r, 2);
			rankClose(r);
			body();
			kill(sleeper, SIGKILL);
			EXPECT(waitpid(sleeper, nullptr, 0) == sleeper);
		};
	}
	startJob("forks after the start", all);
}

/*
 * Every socket of this process that waits for connections or datagrams is at the loopback
 * interface.
 */
static void expectOnlyLoopback()
{
	int seen = 0;

	for (int fd = 3; fd < 1024; fd++) {
		sockaddr_storage at;
		socklen_t length = sizeof(at), size = sizeof(int);
		int type = 0, listens = 0;
		if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) ||
		    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) ||
		    (!listens && type != SOCK_DGRAM) ||
		    getsockname(fd, reinterpret_cast<sockaddr *>(&at), &length))
			continue;
		if (at.ss_family == AF_INET6)
			EXPECT(IN6_IS_ADDR_LOOPBACK(
				&reinterpret_cast<sockaddr_in6 *>(&at)->sin6_addr));
		if (at.ss_family == AF_INET)
			EXPECT(ntohl(reinterpret_cast<sockaddr_in *>(&at)->sin_addr.s_addr) >> 24 ==
			       127);
		seen += at.ss_family == AF_INET || at.ss_family == AF_INET6;
	}
	EXPECT(seen);
}

/* Without a secret, communicators made from a communicator listen where it does. */
static void loopbackOnly()
{
	std::vector<Process> all = world(2, {newRoot()});

	for (Process &process : all)
		process.body = [] {
			ginComm_t comm = nullptr, part = nullptr, less = nullptr;
			CHECK(ginCommInit(nullptr, &comm));
			expectOnlyLoopback();
			CHECK(ginCommSplit(comm, 0, 0, &part));
			expectOnlyLoopback();
			CHECK(ginCommShrink(part, nullptr, 0, &less));
			expectOnlyLoopback();
			CHECK(ginCommDestroy(less));
			CHECK(ginCommDestroy(part));
			CHECK(ginCommDestroy(comm));
		};
	startJob("sockets of parts at the loopback interface", all);
}

int main()
{
	int pairsOfJobs = static_cast<int>(numberOr("PAIRS", 6));

	for (const char *name : {"RANK", "WORLD_SIZE", "GIN_ROOT", "GIN_SECRET", "GIN_BOOTSTRAP",
				 "PMIX_NAMESPACE", "TORCHELASTIC_RESTART_COUNT"})
		unsetenv(name);
	setenv("GIN_TIMEOUT", "60", 1);
	setenv("GIN_LOG", "none", 0);
	addresses();
	launchers();
	wrongVariables();
	otherHost();
	staleVariables();
	limits();
	lateRoot();
	wrongVariableLate();
	wrongChoice();
	rootEnds();
	secrets();
	takenPort();
	twoJobs("two jobs at one port", "GIN_SECRET=second", {"has another secret"},
		ginErrorBootstrap);
	twoJobs("two jobs at one port, with one secret", "GIN_SECRET=first",
		{"all ranks of this communicator have met already, without rank 1",
		 "each job needs a port of its own"},
		ginErrorBootstrap);
	twoJobsMeet();
	oneRankTwice();
	restarts();
	forkAfterInit();
	loopbackOnly();
	mixedJobs(pairsOfJobs);
	int failures = endJobs();
	reportMixed(pairsOfJobs);
	return failures != 0;
}
