/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * processes.cc - a rank that is killed or stopped: the others go on, and a rank comes back
 *
 *	processes --forks N	a rank is killed after its send; MASK=1: it is masked. Then the
 *				others go on by ginEpShrink(); then they and a new process
 *				make a new communicator
 *	TWICE=1			rank 0 is killed and masked, then rank 1
 *	SENDING=1		it is killed in its send, on route direct
 *	STOPPED=1		it is stopped in its send, on route direct, and taken in again
 *	EXCLUDED=1		it is stopped in its send, on route direct, and excluded; it
 *				runs again when the others have a new ep, and stores the
 *				rest of its rows
 */
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>

#include "faults.h"

static int forks; /* ranks of a communicator */
static struct ranksShared *firstRanks, *laterRanks;

/* Opens rank `rank` of the processes that meet in `shared`. */
static void openForked(Rank &r, struct ranksShared *shared, int rank)
{
	static struct ranksOne one;
	one = {shared, rank, forks, nullptr};
	ginConfig_t config = GIN_CONFIG_INIT;
	config.allgather = ranksAllgather;
	config.allgatherArg = &one;
	config.rank = rank;
	config.nRanks = forks;
	rankOpen(r, &config);
}

static std::vector<pid_t> pidsOf(Rank &r)
{
	const pid_t own = getpid();
	std::vector<pid_t> pid(r.nRanks);
	CHECK(ginCommAllgather(r.comm, &own, pid.data(), sizeof(own)));
	return pid;
}

/* The survivors and a new process that becomes rank 1: a new communicator, and a new ep. */
static void joined(int rank)
{
	Rank r;
	openForked(r, laterRanks, rank);
	ginEp_t ep = epFor(r, roundOf(r, 141), GIN_EP_LOST_ERROR, 60000);
	for (uint64_t i = 0; i < 3; i++)
		full(r, ep, roundOf(r, 142 + i));
	EP_CHECK(ginEpDestroy(ep));
	rankClose(r);
}

/* The survivors go on in the memory of the ep. They destroy it before its successor, or after. */
static void shrunk(Rank &r, ginEp_t ep, bool before, const std::vector<bool> &gone)
{
	const int dead = static_cast<int>(std::count(gone.begin(), gone.end(), true));
	const int below = static_cast<int>(std::count(gone.begin(), gone.begin() + r.rank, true));
	ginComm_t comm = nullptr;
	ginEp_t next = nullptr;
	Rank rest;
	CHECK(ginCommShrink(r.comm, nullptr, 0, &comm));
	rest = rankTake(comm);
	EXPECT(rest.nRanks == r.nRanks - dead && rest.rank == r.rank - below);
	ginEpConfig_t config = configFor(roundOf(rest, 0), GIN_EP_LOST_ERROR, 60000);
	ginEpConfig_t more = config;
	more.hidden *= 4;
	EP_FAILS(ginEpShrink(ep, comm, &more, &next), ginErrorInvalidArgument);
	EXPECT(strstr(ginEpGetLastError(), "the ep that is shrunk has"));
	EP_CHECK(ginEpShrink(ep, comm, &config, &next));
	if (before)
		ginEpDestroy(ep);
	for (uint64_t i = 0; i < 5; i++)
		full(rest, next, roundOf(rest, 200 + i));
	EP_CHECK(ginEpDestroy(next));
	rankClose(rest);
	if (!before)
		ginEpDestroy(ep);
}

/* Rank 1 is killed between its send and its receive. */
static void killed(Rank &r, uint32_t onLost)
{
	Round round = roundOf(r, 121);
	ginEp_t ep = epFor(r, round, onLost, 4000);
	std::vector<bool> gone(r.nRanks);
	full(r, ep, round);
	{
		Batch batch(r, round, handleBytes(ep));
		EP_CHECK(dispatch(ep, batch, GIN_EP_SEND));
		meet(r);
		if (r.rank == 1)
			raise(SIGKILL);
		ginResult_t result = dispatch(ep, batch, GIN_EP_RECV);
		if (result == ginSuccess)
			result = combine(ep, batch);
		if (onLost == GIN_EP_LOST_ERROR) {
			EP_FAILS(result, ginErrorPeer);
			EP_FAILS(dispatch(ep, batch), ginErrorPeer);
			EXPECT(lostOne(ep, ginErrorPeer));
		} else {
			EXPECT(result == ginSuccess);
		}
	}
	gone[1] = true;
	for (uint32_t i = 0; i < 3 && onLost == GIN_EP_LOST_MASK; i++)
		without(r, ep, roundOf(r, 130 + i), gone);
	EXPECT(ginEpReset(ep) != ginSuccess); /* a dead process needs a new communicator */
	shrunk(r, ep, onLost == GIN_EP_LOST_MASK, gone);
}

/*
 * Rank 0 is killed, then rank 1 while the others wait for its rows: they learn of both deaths long
 * before the ep's limit, which this test does not reach.
 */
static void killedTwice(Rank &r)
{
	ginEp_t ep = epFor(r, roundOf(r, 171), GIN_EP_LOST_MASK, 600000);
	std::vector<bool> gone(r.nRanks);
	full(r, ep, roundOf(r, 171));
	for (int victim = 0; victim < 2; victim++) {
		if (r.rank == victim)
			raise(SIGKILL);
		gone[victim] = true;
		for (uint64_t i = 0; i < 2; i++)
			without(r, ep, roundOf(r, 172 + 2 * victim + i), gone);
	}
	shrunk(r, ep, false, gone);
}

static char *stopPage; /* the last row of rank 1's x begins it */

static void die(int)
{
	kill(getpid(), SIGKILL);
}

/* Once. The threads that came to the row read it when the process runs again. */
static void stop(int)
{
	static std::atomic<bool> stopped;
	if (stopped.exchange(true))
		return;
	raise(SIGSTOP);
	mprotect(stopPage, static_cast<size_t>(sysconf(_SC_PAGESIZE)), PROT_READ);
}

/*
 * A copy of x whose last row lies in a page that cannot be read: a kernel that comes to it calls
 * `then`.
 */
static void *rowsThatStop(const Batch &batch, void (*then)(int))
{
	const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
	const size_t row = batch.round.hidden * 2, before = (batch.T - 1) * row;
	void *at =
		mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(at != MAP_FAILED && before <= page);
	stopPage = static_cast<char *>(at) + page;
	memcpy(stopPage - before, batch.x.at(), before + row);
	EXPECT(!mprotect(stopPage, page, PROT_NONE));
	signal(SIGSEGV, then);
	return stopPage - before;
}

/*
 * The others do not get all rows of rank 1: its rows are zeros, then it is left out. Rank 1 has one
 * block, which sends all counts before the first row.
 */
static void othersGoOn(Rank &r, ginEp_t ep, Batch &batch)
{
	std::vector<bool> gone(r.nRanks);
	gone[1] = true;
	EP_CHECK(dispatch(ep, batch, GIN_EP_RECV));
	batch.zeros[1] = true;
	batch.checkDispatch();
	batch.gone = gone;
	EP_CHECK(combine(ep, batch));
	batch.checkCombine();
	for (uint32_t i = 0; i < 3; i++)
		without(r, ep, roundOf(r, 160 + i), gone);
}

/* Rank 1 dies when its counts and most rows are sent. */
static void killedSending(Rank &r)
{
	Round round = roundOf(r, 151);
	ginEp_t ep = epFor(r, round, GIN_EP_LOST_MASK, 4000, r.rank == 1);
	full(r, ep, round);
	{
		Batch batch(r, round, handleBytes(ep));
		if (r.rank == 1)
			batch.dispatch.x.data = rowsThatStop(batch, die);
		else /* signals to a rank that is known to be dead would mask it */
			EP_CHECK(dispatch(ep, batch, GIN_EP_SEND));
		meet(r);
		if (r.rank == 1)
			dispatch(ep, batch, GIN_EP_SEND);
		othersGoOn(r, ep, batch);
	}
	ginEpDestroy(ep);
}

/* Waits until the process is stopped, then continues it. */
static void resume(pid_t pid)
{
	char path[64], text[512] = "";
	snprintf(path, sizeof(path), "/proc/%d/stat", static_cast<int>(pid));
	while (!strstr(text, ") T ")) {
		FILE *file = fopen(path, "r");
		EXPECT(file && fgets(text, sizeof(text), file));
		fclose(file);
		usleep(1000);
	}
	EXPECT(!kill(pid, SIGCONT));
}

/* Rank 1 runs again: the others' rows of its call are there, their answers are not. */
static void resumed(Rank &r, ginEp_t ep, Batch &batch)
{
	EP_CHECK(dispatch(ep, batch, GIN_EP_RECV));
	batch.checkDispatch();
	batch.gone.assign(r.nRanks, true);
	batch.gone[1] = false;
	EP_CHECK(combine(ep, batch));
	batch.checkCombine();
}

/*
 * Rank 1 is stopped when its counts and most rows are sent, and the others go on without it. It
 * runs again and sends the rest; after a reset it takes part again.
 */
static void stoppedSending(Rank &r)
{
	Round round = roundOf(r, 181);
	measure(r);
	ginEp_t ep = epFor(r, round, GIN_EP_LOST_MASK, patience(), r.rank == 1);
	const std::vector<pid_t> pid = pidsOf(r);
	full(r, ep, round);
	{
		Batch batch(r, round, handleBytes(ep));
		if (r.rank == 1)
			batch.dispatch.x.data = rowsThatStop(batch, stop);
		EP_CHECK(dispatch(ep, batch, GIN_EP_SEND));
		if (r.rank == 1)
			resumed(r, ep, batch);
		else
			othersGoOn(r, ep, batch);
		if (r.rank == 0)
			resume(pid[1]);
	}
	EP_CHECK(ginEpReset(ep));
	if (r.rank == 1)
		usleep(100000); /* the others look for its counts before they have come */
	for (uint64_t i = 0; i < 5; i++)
		full(r, ep, roundOf(r, 190 + i));
	EP_CHECK(ginEpDestroy(ep));
}

/*
 * Rank 1 runs again while rows of the others' first dispatch lie in memory, and stores the rest of
 * its rows: in the memory of its ep they would be at slots of the new ep.
 */
static void withExcluded(Rank &rest, ginEp_t ep, pid_t excluded)
{
	Batch batch(rest, roundOf(rest, 210), handleBytes(ep));
	EP_CHECK(dispatch(ep, batch, GIN_EP_SEND));
	meet(rest);
	if (rest.rank == 0)
		resume(excluded);
	while (!laterRanks->result[1])
		usleep(1000);
	EP_CHECK(dispatch(ep, batch, GIN_EP_RECV));
	batch.checkDispatch();
	EP_CHECK(combine(ep, batch));
	batch.checkCombine();
}

/*
 * Rank 1 is excluded and alive: a new ep, in memory that rank 1 does not know. See ginEpShrink(3).
 */
static void exclude(Rank &r, ginEp_t ep, pid_t excluded)
{
	const int out = 1;
	ginComm_t comm = nullptr;
	Rank rest;
	CHECK(ginCommAbort(r.comm)); /* rank 1 does not respond */
	EP_CHECK(ginEpDestroy(ep));  /* before the new communicator inherits its window */
	CHECK(ginCommShrink(r.comm, &out, 1, &comm));
	rest = rankTake(comm);
	EXPECT(rest.nRanks == r.nRanks - 1);
	ginEp_t next = epFor(rest, roundOf(rest, 0), GIN_EP_LOST_ERROR, 60000);
	withExcluded(rest, next, excluded);
	for (uint64_t i = 0; i < 5; i++)
		full(rest, next, roundOf(rest, 211 + i));
	EP_CHECK(ginEpDestroy(next));
	rankClose(rest);
}

static void excludedSending(Rank &r)
{
	Round round = roundOf(r, 181);
	measure(r);
	ginEp_t ep = epFor(r, round, GIN_EP_LOST_MASK, patience(), r.rank == 1);
	const std::vector<pid_t> pid = pidsOf(r);
	full(r, ep, round);
	full(r, ep, round); /* the next dispatch is in the half of a new ep's first dispatch */
	Batch batch(r, round, handleBytes(ep));
	if (r.rank == 1)
		batch.dispatch.x.data = rowsThatStop(batch, stop);
	EP_CHECK(dispatch(ep, batch, GIN_EP_SEND));
	if (r.rank == 1)
		laterRanks->result[1] = 1; /* its rows are stored */
	else
		EP_CHECK(dispatch(ep, batch, GIN_EP_RECV));
	if (r.rank == 1)
		ginEpDestroy(ep);
	else
		exclude(r, ep, pid[1]);
}

/* One process of --forks. The last process is a spare: it is no rank of the first communicator. */
static int runForked(const ginConfig_t *config)
{
	const bool spare = config->rank == forks;
	const bool joins =
		!getenv("TWICE") && !getenv("SENDING") && !getenv("STOPPED") && !getenv("EXCLUDED");
	Rank r;
	if (!spare) {
		openForked(r, firstRanks, config->rank);
		if (getenv("STOPPED"))
			stoppedSending(r);
		else if (getenv("EXCLUDED"))
			excludedSending(r);
		else if (getenv("SENDING"))
			killedSending(r);
		else if (getenv("TWICE"))
			killedTwice(r);
		else
			killed(r, getenv("MASK") ? GIN_EP_LOST_MASK : GIN_EP_LOST_ERROR);
		ginCommDestroy(r.comm);
	}
	if (joins)
		joined(spare ? 1 : config->rank);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 3 || strcmp(argv[1], "--forks")) {
		fprintf(stderr, "processes --forks N\n");
		return 2;
	}
	forks = atoi(argv[2]);
	firstRanks = ranksShare(forks);
	laterRanks = ranksShare(forks);
	const char *name = getenv("STOPPED")	? "stopped"
			   : getenv("EXCLUDED") ? "excluded"
						: "killed";
	const int last = strcmp(name, "killed") ? 0 : 128 + SIGKILL; /* of those that die */
	const int *result = ranksStart(forks + 1, 0, runForked);
	for (int r = 0; r <= forks; r++)
		EXPECT(result[r] == (r == 1 || (r == 0 && getenv("TWICE")) ? last : 0));
	printf("ok: %s, %d ranks\n", name, forks);
	return 0;
}
