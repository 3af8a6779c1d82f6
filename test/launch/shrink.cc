/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shrink.cc - ginCommShrink(): ranks die, abort or are excluded, and the others go on with their
 * memory
 *
 *	shrink [NAME...]	the cases with these names; without names, all
 *	RANKS=N			each case with N ranks alone
 *	THREADS=1		the cases in which nobody is killed, with ranks that are threads
 *
 * This program forks the ranks (ranks.h). Bytes and signals of the new communicator go through
 * windows that were registered before it, and all bytes are checked.
 */
#include "shrink.h"

#include <time.h>

#include <algorithm>

namespace
{

/* A case, set before the ranks are forked. */
int ranks;
std::vector<int> victims;
bool asThreads;
unsigned delay; /* time of a victim's death, in microseconds */

bool isVictim(int rank)
{
	return std::find(victims.begin(), victims.end(), rank) != victims.end();
}

int survivorsOf(int n)
{
	return n - static_cast<int>(victims.size());
}

int newRank(int rank)
{
	int before = 0;

	for (int victim : victims)
		before += victim < rank;
	return rank - before;
}

void die()
{
	raise(SIGKILL);
}

void *dieSoon(void *)
{
	usleep(delay);
	die();
	return nullptr;
}

/* The ranks that go on, as the case says. */
void shrinkTo(Rank &r, Rank &s, const std::vector<int> &exclude = {})
{
	ginComm_t comm = nullptr;

	CHECK(ginCommShrink(r.comm, exclude.data(), static_cast<int>(exclude.size()), &comm));
	s = rankTake(comm);
	EXPECT(s.nRanks == survivorsOf(r.nRanks));
	EXPECT(s.rank == newRank(r.rank));
	EXPECT(s.device == r.device);
}

/*
 * The ranks that go on reach each other's memory in a communicator of their own, which is then
 * destroyed.
 */
void goOnAside(Rank &r, Memories m, const std::vector<int> &exclude = {})
{
	Rank s;

	shrinkTo(r, s, exclude);
	m.follow(s);
	verify(s, m, 7);
	rankClose(s);
}

/* `oldFirst`: the communicator that has failed is destroyed before the new one is used. */
void goOn(Rank &r, Memories &m, bool oldFirst, const std::vector<int> &exclude = {})
{
	Rank s;

	shrinkTo(r, s, exclude);
	m.follow(s);
	if (oldFirst)
		rankClose(r);
	verify(s, m, 7);
	rankClose(s);
	if (!oldFirst)
		rankClose(r);
	m.free();
}

int killed(const ginConfig_t *config)
{
	Memories m;
	Rank r;

	rankOpen(r, config);
	m.open(r);
	verify(r, m, 1);
	if (isVictim(r.rank))
		die();
	goOn(r, m, r.rank % 2);
	return 0;
}

/* The others wait in a kernel, which sees the failure first. */
struct WaitForAll {
	ginDevComm dc;
	uint64_t *results;

	GIN_FN void operator()() const { results[0] = GinBarrier(dc, ginTeamWorld(dc), 0).sync(); }
};

int killedInKernel(const ginConfig_t *config)
{
	Memories m;
	Rank r;

	rankOpen(r, config);
	m.open(r);
	{
		Device device(r, 1, 1);
		Results results(r, 1);
		if (isVictim(r.rank))
			die();
		launch(r, 1, 1, WaitForAll{device.dc, results.words});
		EXPECT(results.all(ginErrorPeer));
	}
	goOn(r, m, true);
	return 0;
}

int *destroyed; /* 1: rank 0 has destroyed its device communicator */

/* Signals of a rank that may not know yet that their target is gone. */
struct SignalLate {
	ginDevComm dc;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		ginOptions own;
		own.from = {dc.rank, 1, 1}; /* the victim's death does not end the calls */
		ginResult_t result = ginSuccess;
		for (int i = 0; i < 100 && result == ginSuccess; i++)
			result = gin.signal(0, GinSignalInc{0}, GinThread{}, own);
		results[0] = result == ginSuccess ? gin.flush(GinThread{}, own) : result;
	}
};

/*
 * After the victim's death rank 0 destroys its device communicator at once, and signals of rank 1
 * follow. Rank 1 is healthy: its calls succeed, and it goes on.
 */
int lateSignals(const ginConfig_t *config)
{
	Memories m;
	Rank r;

	rankOpen(r, config);
	m.open(r);
	{
		Device device(r, 1, 1);
		Results results(r, 1);
		ginResult_t error = ginSuccess;
		meet(r); /* all have theirs */
		if (isVictim(r.rank))
			die();
		while (error == ginSuccess) {
			usleep(1000);
			CHECK(ginCommGetAsyncError(r.comm, &error));
		}
		if (r.rank) {
			awaitCount(destroyed, 1);
			launch(r, 1, 1, SignalLate{device.dc, results.words});
			EXPECT(results.all(ginSuccess));
		}
	}
	if (!r.rank)
		add(destroyed);
	goOn(r, m, true);
	return 0;
}

/* No rank inherits the window that the victim never registers. */
int killedInRegister(const ginConfig_t *config)
{
	ginWindow_t late = {}, none = {};
	Memories m;
	Rank r;
	void *at = nullptr;

	rankOpen(r, config);
	m.open(r);
	if (isVictim(r.rank)) {
		pthread_t thread;
		EXPECT(!pthread_create(&thread, nullptr, dieSoon, nullptr));
	}
	CHECK(ginMemAlloc(r.comm, 64, &at));
	for (ginResult_t result = ginSuccess; result == ginSuccess;) {
		late = {};
		result = ginWindowRegister(r.comm, at, 64, 0, &late);
		EXPECT(result == ginSuccess || result == ginErrorPeer);
	}
	Rank s;
	shrinkTo(r, s);
	m.follow(s);
	if (!late.table)
		EXPECT_FAILS(ginWindowInherited(s.comm, late, &none), ginErrorInvalidArgument,
			     "old is NULL");
	verify(s, m, 3);
	rankClose(r);
	verify(s, m, 6);
	rankClose(s);
	return 0;
}

/*
 * The victims die in the call, or before it. If they die after they have joined, a rank may have a
 * communicator with them: that one fails, and the rank calls again.
 */
int killedInShrink(const ginConfig_t *config)
{
	Memories m;
	Rank r, s;
	ginComm_t comm = nullptr;
	pthread_t thread;

	rankOpen(r, config);
	m.open(r);
	if (isVictim(r.rank))
		EXPECT(!pthread_create(&thread, nullptr, dieSoon, nullptr));
	for (;;) {
		ginResult_t result = ginCommShrink(r.comm, nullptr, 0, &comm);
		EXPECT(result == ginSuccess);
		s = rankTake(comm);
		if (isVictim(r.rank))
			pause();
		if (s.nRanks == survivorsOf(r.nRanks))
			break;
		ginResult_t error = ginSuccess; /* the victim died after it had joined */
		while (error == ginSuccess) {
			usleep(1000);
			CHECK(ginCommGetAsyncError(s.comm, &error));
		}
		EXPECT(error == ginErrorPeer);
		rankClose(s);
	}
	m.follow(s);
	verify(s, m, 7);
	rankClose(s);
	rankClose(r);
	return 0;
}

/* One rank after another dies; each communicator is made from the one before. */
int killedOften(const ginConfig_t *config)
{
	Memories m;
	Rank r;

	rankOpen(r, config);
	m.open(r);
	while (r.nRanks > 1) {
		Rank s;
		victims = {r.nRanks == 3 ? 0 : r.nRanks - 1};
		if (isVictim(r.rank))
			die();
		shrinkTo(r, s);
		m.follow(s);
		verify(s, m, 20 + static_cast<uint32_t>(s.nRanks));
		rankClose(r);
		r = s;
	}
	rankClose(r);
	return 0;
}

int aborted(const ginConfig_t *config)
{
	Memories m;
	Rank r;

	rankOpen(r, config);
	m.open(r);
	if (r.rank == r.nRanks / 2)
		CHECK(ginCommAbort(r.comm));
	goOn(r, m, r.rank % 2);
	return 0;
}

/* One rank has left before the others call. */
int left(const ginConfig_t *config)
{
	Memories m;
	Rank r;

	rankOpen(r, config);
	m.open(r);
	if (isVictim(r.rank)) {
		CHECK(ginCommAbort(r.comm));
		rankClose(r);
		return 0;
	}
	goOn(r, m, false);
	return 0;
}

/* Rank `teller` alone lists the victims. They make no call, and the communicator has not failed. */
int excluded(const ginConfig_t *config)
{
	Memories m;
	Rank r;

	rankOpen(r, config);
	m.open(r);
	if (!isVictim(r.rank)) {
		int teller = isVictim(0) ? r.nRanks - 1 : 0;
		goOnAside(r, m, r.rank == teller ? victims : std::vector<int>());
	}
	verify(r, m, 27); /* the communicator that was shrunk works, with all its ranks */
	rankClose(r);
	return 0;
}

/* Rank `teller` masks the victims, which excludes them. */
int masked(const ginConfig_t *config)
{
	Memories m;
	Rank r;

	rankOpen(r, config);
	m.open(r);
	int teller = isVictim(0) ? r.nRanks - 1 : 0;
	for (int victim : victims)
		if (r.rank == teller)
			CHECK(ginCommMask(r.comm, victim));
	if (!isVictim(r.rank))
		goOnAside(r, m);
	meet(r);
	rankClose(r);
	return 0;
}

/* A rank that others exclude gets an error, early or late. */
int excludedCalls(const ginConfig_t *config)
{
	ginComm_t none = nullptr;
	Memories m;
	Rank r;

	rankOpen(r, config);
	m.open(r);
	if (isVictim(r.rank)) {
		usleep(delay);
		EXPECT_FAILS(ginCommShrink(r.comm, nullptr, 0, &none), ginErrorPeer,
			     "has left this rank out");
		EXPECT(!none);
	} else {
		goOnAside(r, m, r.rank == (victims[0] ? 0 : 1) ? victims : std::vector<int>());
	}
	meet(r);
	rankClose(r);
	return 0;
}

/* A wrong argument of one rank is an error of all, at once; then the call can be made again. */
int wrongArguments(const ginConfig_t *config)
{
	ginComm_t none = nullptr;
	Memories m;
	Rank r;

	rankOpen(r, config);
	m.open(r);
	int own = r.rank, beyond = r.nRanks;
	bool wrong = r.rank == r.nRanks - 1;
	EXPECT_FAILS(ginCommShrink(r.comm, &beyond, wrong, &none), ginErrorInvalidArgument,
		     "exclude[0] is ", ": must be 0 to ");
	EXPECT_FAILS(ginCommShrink(r.comm, &own, wrong, &none), ginErrorInvalidArgument,
		     "exclude[0] is this rank");
	EXPECT_FAILS(ginCommShrink(r.comm, nullptr, wrong, &none), ginErrorInvalidArgument,
		     "exclude is NULL and excludes 1");
	EXPECT_FAILS(ginCommShrink(r.comm, nullptr, 0, wrong ? nullptr : &none),
		     ginErrorInvalidArgument, "survivors is NULL");
	EXPECT_FAILS(ginCommShrink(nullptr, nullptr, 0, &none), ginErrorInvalidArgument,
		     "comm is NULL");
	EXPECT(!none);
	goOn(r, m, false);
	return 0;
}

/* A rank that is alive and does not call: an error, after GIN_TIMEOUT. */
int absent(const ginConfig_t *config)
{
	ginComm_t none = nullptr;
	Rank r;

	rankOpen(r, config);
	if (!isVictim(r.rank))
		EXPECT_FAILS(ginCommShrink(r.comm, nullptr, 0, &none), ginErrorTimeout,
			     "no call from rank 0 (host ");
	if (isVictim(r.rank))
		usleep(3400000); /* the others are in meet() then */
	meet(r);
	rankClose(r);
	return 0;
}

void *abortSoon(void *comm)
{
	usleep(50000);
	CHECK(ginCommAbort(static_cast<ginComm_t>(comm)));
	return nullptr;
}

/* A call that waits for a rank ends when another thread aborts; the next call succeeds. */
int abortedInShrink(const ginConfig_t *config)
{
	ginComm_t none = nullptr;
	pthread_t thread;
	Memories m;
	Rank r;

	rankOpen(r, config);
	m.open(r);
	if (isVictim(r.rank)) {
		EXPECT(!pthread_create(&thread, nullptr, abortSoon, r.comm));
		EXPECT_FAILS(ginCommShrink(r.comm, nullptr, 0, &none), ginErrorAborted,
			     "ginCommAbort() was called");
		pthread_join(thread, nullptr);
	} else {
		usleep(150000);
	}
	victims = {};
	goOn(r, m, false);
	return 0;
}

/* The process that replaces the dead rank. A launcher would start it. */
int idPipe[2];

void replacement(int rank)
{
	ginComm_t comm = nullptr;
	ginUniqueId_t id;
	Memories m;
	Rank r;

	if (read(idPipe[0], &id, sizeof(id)) != sizeof(id))
		_exit(1);
	CHECK(ginCommInitRank(nullptr, &id, rank, rank + 1, &comm));
	r = rankTake(comm);
	m.open(r);
	verify(r, m, 9);
	rankClose(r);
	_exit(0);
}

/*
 * The survivors send an id to a new process, in this test by a pipe. Their memory keeps its windows
 * in the old communicators until the new one has its own.
 */
int replaced(const ginConfig_t *config)
{
	ginUniqueId_t id = {};
	Memories m;
	Rank r, s, t;
	ginComm_t comm = nullptr;

	if (isVictim(config->rank) && !fork())
		replacement(config->nRanks - 1);
	close(idPipe[0]);
	rankOpen(r, config);
	m.open(r);
	if (isVictim(r.rank))
		die();
	shrinkTo(r, s);
	std::vector<ginUniqueId_t> ids(static_cast<size_t>(s.nRanks));
	if (!s.rank) {
		CHECK(ginGetUniqueId(&id));
		EXPECT(write(idPipe[1], &id, sizeof(id)) == sizeof(id));
	}
	CHECK(ginCommAllgather(s.comm, &id, ids.data(), sizeof(id)));
	CHECK(ginCommInitRank(nullptr, &ids[0], s.rank, s.nRanks + 1, &comm));
	t = rankTake(comm);
	for (Memory *memory : {&m.inbox, &m.outbox})
		CHECK(ginWindowRegister(t.comm, memory->ptr, memory->bytes, 0, &memory->window));
	CHECK(ginWindowRegister(t.comm, m.source.ptr, m.source.bytes, GIN_WINDOW_LOCAL,
				&m.source.window));
	rankClose(r);
	rankClose(s);
	verify(t, m, 9);
	rankClose(t);
	return 0;
}

enum { ALL_BUT_ONE = -2 }; /* for killedOften(): rank 1 is the last survivor, of two ranks rank 0 */

struct Case {
	const char *name;
	int (*run)(const ginConfig_t *config);
	int least;			       /* ranks */
	std::vector<std::vector<int>> victims; /* -1: the last rank */
	std::vector<unsigned> delays;
	bool dies;	    /* the victims are killed */
	bool forks = false; /* the ranks must be processes, though none is killed */
};

const std::vector<std::vector<int>> nobody = {{}}, one = {{0}, {1}, {-1}},
				    some = {{0}, {1}, {0, 1}, {0, -1}, {1, -1}};

const Case cases[] = {
	{"killed", killed, 2, some, {0}, true},
	{"in a kernel", killedInKernel, 2, {{0}, {1}}, {0}, true},
	{"late signals", lateSignals, 3, {{-1}}, {0}, true},
	{"in register", killedInRegister, 2, {{0}, {-1}}, {300, 2000}, true},
	{"in shrink",
	 killedInShrink,
	 3,
	 {{0}, {1}, {0, 1}},
	 {0, 500, 1500, 3000, 6000, 10000},
	 true},
	{"killed often", killedOften, 2, {{ALL_BUT_ONE}}, {0}, true},
	{"aborted", aborted, 1, nobody, {0}, false},
	{"left", left, 2, one, {0}, false},
	{"excluded", excluded, 2, one, {0}, false},
	{"masked", masked, 2, {{0}, {-1}}, {0}, false},
	{"excluded calls", excludedCalls, 2, {{0}, {-1}}, {0, 100000}, false},
	{"wrong arguments", wrongArguments, 1, nobody, {0}, false},
	{"aborted in shrink", abortedInShrink, 2, {{0}, {-1}}, {0}, false, true},
	{"replaced", replaced, 2, {{0}, {-1}}, {0}, true},
};

/* False where the case needs more ranks. */
bool choose(const std::vector<int> &of)
{
	victims.clear();
	for (int victim : of)
		if (victim != ALL_BUT_ONE)
			victims.push_back(victim < 0 ? ranks - 1 : victim);
	for (int r = 0; !of.empty() && of[0] == ALL_BUT_ONE && r < ranks; r++)
		if (r != (ranks > 2))
			victims.push_back(r);
	std::sort(victims.begin(), victims.end());
	bool once = std::unique(victims.begin(), victims.end()) == victims.end();
	return once && survivorsOf(ranks) >= 1 && (victims.empty() || victims.back() < ranks);
}

void runRanks(const Case &c)
{
	EXPECT(!pipe(idPipe));
	destroyed = newCount();
	const int *result = ranksStart(ranks, asThreads, c.run);
	for (int r = 0; r < ranks; r++) {
		int due = c.dies && isVictim(r) ? 128 + SIGKILL : 0;
		if (result[r] == due)
			continue;
		fprintf(stderr, "%s: rank %d of %d returned %d, victim %d, delay %u\n", c.name, r,
			ranks, result[r], victims.empty() ? -1 : victims[0], delay);
		exit(1);
	}
	close(idPipe[0]);
	close(idPipe[1]);
	munmap(destroyed, sizeof(*destroyed));
}

void runCase(const Case &c, const std::vector<int> &sizes)
{
	uint64_t start = nowNs();
	int jobs = 0;

	for (int n : sizes)
		for (const std::vector<int> &of : c.victims)
			for (unsigned d : c.delays) {
				ranks = n;
				delay = d;
				if (n < c.least || !choose(of))
					continue;
				runRanks(c);
				jobs++;
			}
	printf("shrink: %s: %d jobs, %.1f s\n", c.name, jobs,
	       static_cast<double>(nowNs() - start) / 1e9);
}

/* An unknown name would choose no case, and succeed. */
void checkNames(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		auto hasName = [&](const Case &c) { return !strcmp(c.name, argv[i]); };
		if (std::any_of(std::begin(cases), std::end(cases), hasName))
			continue;
		fprintf(stderr, "shrink: no case has the name %s\n", argv[i]);
		exit(2);
	}
}

} // namespace

int main(int argc, char **argv)
{
	checkNames(argc, argv);
	const char *only = getenv("RANKS");
	std::vector<int> sizes = only ? std::vector<int>{atoi(only)} : std::vector<int>{2, 3, 4};

	asThreads = getenv("THREADS") != nullptr;
	setenv("GIN_LOG", "none", 0);
	setenv("GIN_TIMEOUT", "60", 0);
	for (const Case &c : cases) {
		bool chosen = argc == 1 && !(asThreads && (c.dies || c.forks));
		for (int i = 1; i < argc; i++)
			chosen |= !strcmp(c.name, argv[i]);
		if (chosen)
			runCase(c, sizes);
	}
	if (argc == 1 && !asThreads) { /* GIN_TIMEOUT is read once by a process */
		setenv("GIN_TIMEOUT", "3", 1);
		runCase({"absent", absent, 2, {{0}}, {0}, false}, {3});
	}
	return 0;
}
