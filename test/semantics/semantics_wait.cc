/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * semantics_wait.cc - weak signals, signals in windows, shadows, rolling compares, barriers, teams
 */
#include "suite.h"

/* How the words of a round are announced; the receiver reads all of them. */
enum Kind { weakId, incAt, addAt, weakIncAt, weakAddAt, alone, byFunctions, KINDS };

/* Rounds of a put with a signal; the receiver checks the bytes in its kernel. */
struct Announce {
	ginDevComm dc;
	ginWindow_t target, source, words; /* `words`: a signal at offset 8, an answer at 16 */
	char *in, *out;
	size_t bytes;
	uint32_t rounds;
	Kind kind;
	uint64_t *wrong;

	GIN_FN ginResult_t send(const Gin &gin) const
	{
		GinCta all;
		int to = rightOf(dc);
		switch (kind) {
		case weakId:
			return gin.put(to, target, 0, source, 0, bytes, GinWeakSignalAdd{0, 3},
				       GinNone{}, all);
		case incAt:
			return gin.put(to, target, 0, source, 0, bytes, GinSignalIncAt{words, 8},
				       GinNone{}, all);
		case addAt:
			return gin.put(to, target, 0, source, 0, bytes, GinSignalAddAt{words, 8, 3},
				       GinNone{}, all);
		case weakIncAt:
			return gin.put(to, target, 0, source, 0, bytes,
				       GinWeakSignalIncAt{words, 8}, GinNone{}, all);
		case weakAddAt:
			return gin.put(to, target, 0, source, 0, bytes,
				       GinWeakSignalAddAt{words, 8, 3}, GinNone{}, all);
		case alone:
			return sendAndSignal(gin, to);
		default:
			return ginPut(&dc, 0, to, target.table, 0, source.table, 0, bytes,
				      ginSignalStrong, nullptr, 0, 3, UINT32_MAX, ginCoopCta, 0);
		}
	}

	/* By a caller that has released at GPU scope only. */
	GIN_FN ginResult_t sendAndSignal(const Gin &gin, int to) const
	{
		GinCta all;
		ginOptions released;
		released.given = ginScopeDevice;
		ginResult_t result =
			gin.put(to, target, 0, source, 0, bytes, GinNone{}, GinNone{}, all);
		return result == ginSuccess ? gin.signal(to, GinSignalAdd{0, 3}, all, released)
					    : result;
	}

	GIN_FN ginResult_t await(const Gin &gin, uint32_t round) const
	{
		uint64_t step = kind == incAt || kind == weakIncAt ? 1 : 3;
		if (kind == byFunctions)
			return ginWaitSignal(&dc, 0, nullptr, 0, round * step, ginCoopCta, 0);
		if (kind == weakId || kind == alone)
			return gin.waitSignal(0, round * step, GinCta{});
		return gin.waitSignal(words, 8, round * step, GinCta{});
	}

	/* The left neighbour may send again; the right one has read this rank's words. */
	GIN_FN ginResult_t answer(const Gin &gin, uint32_t round) const
	{
		GinCta all;
		ginResult_t result = gin.signal(leftOf(dc), GinSignalAddAt{words, 16, 1}, all);
		return result == ginSuccess ? gin.waitSignal(words, 16, round, all) : result;
	}

	GIN_FN uint64_t oneRound(const Gin &gin, uint32_t round) const
	{
		uint32_t left = static_cast<uint32_t>(leftOf(dc));
		uint64_t n = 0;
		for (size_t i = ginThreadIndex(); i < bytes; i += ginBlockSize())
			out[i] = static_cast<char>(pattern(dc.rank, round, i));
		if (send(gin) != ginSuccess || await(gin, round) != ginSuccess)
			return UINT64_MAX;
		for (size_t i = ginThreadIndex(); i < bytes; i += ginBlockSize())
			n += static_cast<unsigned char>(in[i]) != pattern(left, round, i);
		return answer(gin, round) == ginSuccess ? n : UINT64_MAX;
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		uint64_t n = 0;
		for (uint32_t round = 1; round <= rounds && n == 0; round++)
			n = oneRound(gin, round);
		wrong[ginThreadIndex()] = n;
	}
};

static void rules1and4_signalsOfEveryKind(Rank &r)
{
	uint32_t block = r.device < 0 ? 3 : 96;
	const size_t bytes = 1001;
	const std::vector<unsigned char> zeros(24, 0);
	Buffer target(r, bytes), source(r, bytes), words(r, 24, wordsAllocator(r));

	for (int kind = 0; kind < KINDS; kind++) {
		Results wrong(r, block);
		words.write(zeros);
		Device device(r, 1, 1);
		launch(r, 1, block,
		       Announce{device.dc, target.window, source.window, words.window, target.ptr,
				source.ptr, bytes, roundsFor(r, 20, 500), static_cast<Kind>(kind),
				wrong.words});
		EXPECT(wrong.all(0));
		meet(r);
	}
}

/*
 * A signal in a window, of each kind that the other tests lack: alone, and by a caller that has
 * released.
 */
struct WordsAlone {
	ginDevComm dc;
	ginWindow_t words;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		int to = rightOf(dc);
		ginOptions released;
		released.given = ginScopeSystem;
		gin.signal(to, GinWeakSignalInc{1});
		gin.signal(to, GinWeakSignalIncAt{words, 0});
		gin.signal(to, GinSignalAdd{1, 10}, GinThread{}, released);
		gin.signal(to, GinSignalAddAt{words, 0, 10}, GinThread{}, released);
		results[0] = gin.waitSignal(1, 11);
		results[1] = gin.waitSignal(words, 0, 11);
		results[2] = gin.readSignal(1) - 11;
		results[3] = gin.readSignal(words, 0) - 11;
		gin.resetSignal(1);
		gin.resetSignal(words, 0);
		results[4] = gin.readSignal(1) + gin.readSignal(words, 0);
	}
};

static void rule4_signalsAlone(Rank &r)
{
	Buffer words(r, 8, wordsAllocator(r));
	Results results(r, 5);

	words.write(std::vector<unsigned char>(8, 0));
	Device device(r, 1, 2);
	launch(r, 1, 1, WordsAlone{device.dc, words.window, results.words});
	EXPECT(results.all(0));
	meet(r);
}

/* Shadows: expected and seen values. */
struct Shadows {
	ginDevComm dc;
	uint64_t *results; /* per thread: results, values of the shadow */

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		GinCta all;
		uint64_t *mine = results + ginThreadIndex() * 7;
		uint64_t before = 0, delta = 0;
		int self = static_cast<int>(dc.rank);

		if (ginThreadIndex() == 0)
			gin.increaseSignalShadow(0, 5);
		gin.signal(self, GinSignalAdd{0, 5}, all);
		mine[0] = gin.waitSignalMeetShadow(0, all);
		gin.signal(self, GinSignalAdd{0, 7}, all);
		mine[1] = gin.waitSignalFollowShadow(0, 3, &before, &delta, all);
		mine[2] = before;
		mine[3] = delta;
		/* Nothing more comes: the shadow does not change. */
		mine[4] =
			gin.waitSignalFollowShadow(0, 1, &before, &delta, all, ginTimeout(1000000));
		mine[5] = *gin.signalShadow(0);
		all.sync();
		if (ginThreadIndex() == 0)
			gin.resetSignal(0);
		all.sync();
		mine[6] = *gin.signalShadow(0);
	}
};

static void shadowsFollow(Rank &r)
{
	uint32_t block = blockFor<GinCta>(r);
	Device device(r, 1, 1);
	Results results(r, block * 7);

	launch(r, 1, block, Shadows{device.dc, results.words});
	for (uint32_t t = 0; t < block; t++) {
		const uint64_t *mine = results.words + t * 7;
		EXPECT(mine[0] == ginSuccess && mine[1] == ginSuccess);
		EXPECT(mine[2] == 5 && mine[3] == 7);
		EXPECT(mine[4] == ginErrorTimeout && mine[5] == 12 && !mine[6]);
	}
}

/* With 32 bits the compare wraps at 2^32, though the signal has 64. */
struct RollNarrow {
	ginDevComm dc;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		int self = static_cast<int>(dc.rank);
		ginOptions comes = ginTimeout(0), stays = ginTimeout(1000000);
		comes.bits = stays.bits = 32;
		gin.signal(self, GinSignalAdd{0, 0xfffffffe});
		results[0] = gin.waitSignal(0, 0xfffffffe, GinThread{}, comes);
		results[1] = gin.waitSignal(0, 1, GinThread{}, stays) == ginErrorTimeout;
		gin.signal(self, GinSignalAdd{0, 4});
		results[2] = gin.waitSignal(0, 2, GinThread{}, comes);
		results[3] = gin.waitSignal(0, 0xffffffff, GinThread{}, comes);
		results[4] = gin.waitSignal(0, 3, GinThread{}, stays) == ginErrorTimeout;
	}
};

static void rule4_narrowCompareRolls(Rank &r)
{
	Device device(r, 1, 1);
	Results results(r, 5);

	launch(r, 1, 1, RollNarrow{device.dc, results.words});
	EXPECT(results.words[0] == 0 && results.words[1] == 1 && results.words[2] == 0);
	EXPECT(results.words[3] == 0 && results.words[4] == 1);
}

/*
 * Rounds in which every rank of the team stores a word into every other's window, without a signal,
 * and after a barrier reads the words that it got. Half of the rounds use arrive and wait.
 */
struct BarrierRounds {
	ginDevComm dc;
	ginTeam team;
	uint32_t index, rounds;
	ginWindow_t window;
	uint64_t *in;
	uint64_t *wrong;

	GIN_FN uint64_t word(int rank, uint32_t round) const
	{
		return static_cast<uint64_t>(rank) * 1000003 + round;
	}

	/* In every third round one rank is late: the others have to wait for it. */
	GIN_FN void comeLate(uint32_t round) const
	{
		uint64_t start = ginNow();
		if (round % 3 == 0 && round / 3 % static_cast<uint32_t>(team.nRanks) ==
					      static_cast<uint32_t>(team.rank))
			while (ginNow() - start < 500000)
				ginYield();
	}

	GIN_FN void scatter(const Gin &gin, uint32_t round) const
	{
		comeLate(round);
		for (int p = static_cast<int>(ginThreadIndex()); p < team.nRanks;
		     p += static_cast<int>(ginBlockSize()))
			gin.putValue(team, p, window, static_cast<size_t>(team.rank) * 8,
				     word(team.rank, round));
	}

	GIN_FN uint64_t countWrong(uint32_t round) const
	{
		uint64_t n = 0;
		for (int p = static_cast<int>(ginThreadIndex()); p < team.nRanks;
		     p += static_cast<int>(ginBlockSize()))
			n += in[p] != word(p, round);
		return n;
	}

	/* Thread 0 releases the block's stores; the barrier leaves the fence out. */
	GIN_FN ginResult_t syncReleased(const GinBarrier &barrier, GinCta all) const
	{
		ginOptions released;
		released.given = ginScopeSystem;
		all.sync();
		ginFence<ginScopeSystem>();
		return barrier.sync(all, released);
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		GinBarrier barrier(dc, team, index);
		GinCta all;
		uint64_t n = 0;
		ginResult_t result = ginSuccess;
		/* A rank that found wrong words goes on: the others wait for it. */
		for (uint32_t round = 1; round <= rounds && result == ginSuccess; round++) {
			scatter(gin, round);
			if (round % 4 == 3)
				result = syncReleased(barrier, all);
			else
				result = round % 2 ? barrier.sync(all) : barrier.arrive(all);
			if (round % 2 == 0 && result == ginSuccess)
				result = barrier.wait(all);
			n += countWrong(round);
			if (result == ginSuccess)
				result = barrier.sync(all); /* all have read the words */
		}
		wrong[ginThreadIndex()] = n + (result != ginSuccess);
	}
};

static void barrierRounds(Rank &r, ginTeam team, uint32_t index, uint32_t block)
{
	Buffer words(r, static_cast<size_t>(r.nRanks) * 8);
	Device device(r, 1, 1);
	Results wrong(r, block);

	launch(r, 1, block,
	       BarrierRounds{device.dc, team, index, roundsFor(r, 25, 1000), words.window,
			     reinterpret_cast<uint64_t *>(words.ptr), wrong.words});
	EXPECT(wrong.all(0));
	meet(r);
}

static void rule10_barrier(Rank &r)
{
	const uint32_t block = blockFor<GinCta>(r);

	barrierRounds(r, {r.nRanks, r.rank, 1}, 0, block);
	if (r.nRanks > 2) /* a thread for each other rank */
		barrierRounds(r, {r.nRanks, r.rank, 1}, 0, static_cast<uint32_t>(r.nRanks) - 1);
	if (r.nRanks % 2 == 0) { /* every second rank: two teams at a time */
		barrierRounds(r, {r.nRanks / 2, r.rank / 2, 2},
			      1 + static_cast<uint32_t>(r.rank) % 2, block);
		barrierRounds(r, {r.nRanks / 2, r.rank % (r.nRanks / 2), 1}, 3, block);
	}
}

/* After a barrier by one context, the puts of all contexts are there. */
struct BarrierOverContexts {
	ginDevComm dc;
	ginTeam team;
	ginWindow_t window;
	uint64_t *in;
	uint32_t each, rounds;
	uint64_t *wrong;

	GIN_FN uint64_t word(int rank, uint32_t round, uint32_t i) const
	{
		return (static_cast<uint64_t>(rank) * 1000 + round) * 1000003 + i;
	}

	GIN_FN void put(uint32_t round) const
	{
		for (uint32_t i = 0; i < each * dc.contexts; i++) {
			Gin gin(dc, dc.contexts - 1 - i / each);
			gin.putValue(team, (team.rank + 1) % team.nRanks, window, i * 8,
				     word(team.rank, round, i));
		}
	}

	GIN_FN uint64_t countWrong(uint32_t round) const
	{
		int left = (team.rank + team.nRanks - 1) % team.nRanks;
		uint64_t n = 0;
		for (uint32_t i = 0; i < each * dc.contexts; i++)
			n += in[i] != word(left, round, i);
		return n;
	}

	GIN_FN void operator()() const
	{
		uint64_t n = 0;
		for (uint32_t round = 1; round <= rounds; round++) {
			/*
			 * The contexts post the barrier round robin, before and after the others.
			 */
			GinBarrier barrier(dc, team, round % dc.contexts);
			put(round);
			n += barrier.sync() != ginSuccess;
			n += countWrong(round);
			n += barrier.sync() != ginSuccess;
		}
		*wrong = n;
	}
};

static void barriersOverContexts(Rank &r, ginTeam team)
{
	const uint32_t contexts = 3, each = 300;
	Buffer words(r, contexts * each * 8);
	Device device(r, contexts, 1);
	Results wrong(r, 1);

	launch(r, 1, 1,
	       BarrierOverContexts{device.dc, team, words.window,
				   reinterpret_cast<uint64_t *>(words.ptr), each,
				   roundsFor(r, 10, 200), wrong.words});
	EXPECT(wrong.all(0));
	meet(r);
}

static void rule10_barrierOverContexts(Rank &r)
{
	barriersOverContexts(r, {r.nRanks, r.rank, 1});
	if (r.nRanks % 2 == 0)
		barriersOverContexts(r, {r.nRanks / 2, r.rank / 2, 2});
}

/* Counters and shadows of all contexts, each raised by a number of its own. */
struct ContextsApart {
	ginDevComm dc;
	ginWindow_t window;
	uint64_t *wrong;

	GIN_FN void operator()() const
	{
		uint64_t n = 0;
		for (uint32_t i = 0; i < dc.contexts * dc.counters; i++)
			for (uint32_t k = 0; k <= i; k++)
				n += Gin(dc, i / dc.counters)
					     .put(static_cast<int>(dc.rank), window, 8, window, 0,
						  8, GinNone{},
						  GinCounterInc{i % dc.counters}) != ginSuccess;
		for (uint32_t i = 0; i < dc.contexts * dc.signals; i++)
			Gin(dc, i / dc.signals).increaseSignalShadow(i % dc.signals, i + 1);
		for (uint32_t i = 0; i < dc.contexts * dc.counters; i++) {
			const Gin gin(dc, i / dc.counters);
			n += gin.waitCounter(i % dc.counters, i + 1) != ginSuccess;
			n += gin.readCounter(i % dc.counters) != i + 1;
		}
		for (uint32_t i = 0; i < dc.contexts * dc.signals; i++)
			n += ginLocalLoad(Gin(dc, i / dc.signals).signalShadow(i % dc.signals)) !=
			     i + 1;
		*wrong = n;
	}
};

static void contextsApart(Rank &r)
{
	Buffer words(r, 16);
	Device device(r, 3, 2); /* fewer signals than counters */
	Results wrong(r, 1);

	launch(r, 1, 1, ContextsApart{device.dc, words.window, wrong.words});
	EXPECT(device.dc.counters > device.dc.signals && wrong.all(0));
	meet(r);
}

/* Sets of peers in one word: the largest numbers, and strides of both signs. */
static void peerSets(Rank &)
{
	static const ginPeerSet sets[] = {{0xfffff, 1, 1},
					  {0, 0xfffff, 1},
					  {0x12345, 3, 0x54321},
					  {7, 8, uint32_t{0} - 1},
					  {0xfffff, 2, uint32_t{0} - 0xfffff}};
	for (const ginPeerSet &set : sets) {
		const ginPeerSet got = ginFromUnpack(ginFromPack(set));
		EXPECT(got.first == set.first && got.count == set.count &&
		       got.stride == set.stride);
	}
}

struct BarrierOnce {
	ginDevComm dc;
	uint64_t timeout;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		GinBarrier barrier(dc, ginTeamWorld(dc), 1);
		results[ginThreadIndex()] = barrier.sync(GinCta{}, ginTimeout(timeout));
	}
};

/* Rank 0 stays away until the others have timed out, twice; then the barrier works again. */
static void rule10_barrierTimeout(Rank &r)
{
	uint32_t block = blockFor<GinCta>(r);
	Device device(r, 1, 1);
	Results results(r, block);
	ginErrorRecord_t record;

	for (int round = 0; r.nRanks > 1 && round < 2; round++) {
		if (r.rank != 0) {
			launch(r, 1, block, BarrierOnce{device.dc, 3000000, results.words});
			EXPECT(results.all(ginErrorTimeout));
			CHECK(ginDevCommGetError(r.comm, &device.dc, &record));
			EXPECT(record.call == ginCallBarrier && record.id == 1);
		}
		meet(r);
	}
	for (int round = 0; round < 3; round++) {
		launch(r, 1, block, BarrierOnce{device.dc, 0, results.words});
		EXPECT(results.all(ginSuccess));
	}
	meet(r);
}

/* Numbers of ranks in teams, there and back. */
struct TeamNumbers {
	ginDevComm dc;
	ginWindow_t window;
	uint64_t *wrong;

	GIN_FN uint64_t check(ginTeam team) const
	{
		uint64_t n = ginTeamToWorld(dc, team, team.rank) != static_cast<int>(dc.rank);
		int members = 0;
		for (int w = 0; w < static_cast<int>(dc.nRanks); w++) {
			int number = ginTeamFromWorld(dc, team, w);
			members += number >= 0;
			n += number >= 0 && ginTeamToWorld(dc, team, number) != w;
		}
		return n + (members != team.nRanks);
	}

	GIN_FN void operator()() const
	{
		ginTeam domain = ginTeamDomain(dc), rail = ginTeamRail(dc);
		uint64_t n = check(ginTeamWorld(dc)) + check(domain) + check(rail);
		n += domain.nRanks * rail.nRanks != static_cast<int>(dc.nRanks);
		for (int p = 0; p < domain.nRanks; p++) { /* all of it can be loaded and stored */
			int w = ginTeamToWorld(dc, domain, p);
			n += p != domain.rank && dc.peers[w].route != ginRouteDirect;
			n += reinterpret_cast<char **>(window.table)[-1 - p] !=
			     reinterpret_cast<ginWindowPeer *>(window.table + 1)[w].address;
		}
		n += window.table->rank != dc.rank || window.table->domainSize != dc.domainSize;
		n += window.table->domainFirst != dc.rank - dc.domainRank;
		*wrong = n;
	}
};

/*
 * All hosts have equally many ranks, and ranks of one host are direct peers; or one rank has no
 * host.
 */
static uint32_t domainSize(Rank &r)
{
	ginCommInfo_t info = GIN_COMM_INFO_INIT;
	CHECK(ginCommQuery(r.comm, &info));
	return static_cast<uint32_t>(isDirect(r) || info.hosts > 1 ? r.nRanks / info.hosts : 1);
}

static void teamsHaveNumbers(Rank &r)
{
	Device device(r, 1, 1);
	Buffer any(r, 8);
	Results wrong(r, 1);

	launch(r, 1, 1, TeamNumbers{device.dc, any.window, wrong.words});
	EXPECT(wrong.all(0));
	EXPECT(device.dc.domainSize == domainSize(r));
	ginCommInfo_t info = GIN_COMM_INFO_INIT;
	CHECK(ginCommQuery(r.comm, &info));
	EXPECT(static_cast<uint32_t>(info.domainSize) == device.dc.domainSize);
	EXPECT(static_cast<uint32_t>(info.domainRank) == device.dc.domainRank);
}

static const Test tests[] = {
	{"rules 1, 4: signals of every kind", rules1and4_signalsOfEveryKind},
	{"rule 4: signals alone", rule4_signalsAlone},
	{"shadows follow", shadowsFollow},
	{"rule 4: a narrow compare rolls", rule4_narrowCompareRolls},
	{"contexts have counters and shadows of their own", contextsApart},
	{"sets of peers in one word", peerSets},
	{"rule 10: barriers order all before to all after", rule10_barrier},
	{"rule 10: barriers order the puts of all contexts", rule10_barrierOverContexts},
	{"rule 10: a barrier that timed out can be repeated", rule10_barrierTimeout},
	{"teams have numbers", teamsHaveNumbers},
};

int main(int argc, char **argv)
{
	return suiteMain(argc, argv, "semantics_wait", tests);
}
