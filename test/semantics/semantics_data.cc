/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * semantics_data.cc - gets, values, counters, tickets, atomics, and puts by every kind of coop
 */
#include "suite.h"

/* Gets of every size and alignment from the right neighbour. */
template <class Coop> struct GetCells {
	ginDevComm dc;
	ginWindow_t target, source;
	Cells cells;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		Coop coop;
		ginResult_t result = ginSuccess;
		for (uint32_t c = 0; c < cells.count() && result == ginSuccess; c++)
			result = gin.get(rightOf(dc), source, cells.from(c), target, cells.to(c),
					 cells.bytes(c), coop);
		if (result == ginSuccess)
			result = gin.flush(coop);
		results[ginThreadIndex()] = result;
	}
};

static const Cells mixed = {{0, 1, 3, 4, 7, 8, 15, 16, 17, 33, 64, 100, 257, 1023}, 14, 1088};

template <class Coop> void getCells(Rank &r)
{
	Buffer target(r, mixed.total()), source(r, mixed.total());
	Results results(r, blockFor<Coop>(r));

	fillPattern(r, source);
	target.poison();
	Device device(r, 1, 1); /* collective: all have filled */
	launch(r, 1, blockFor<Coop>(r),
	       GetCells<Coop>{device.dc, target.window, source.window, mixed, results.words});
	EXPECT(results.all(ginSuccess));
	EXPECT(target.read() == expectedCells(mixed, (r.rank + 1) % r.nRanks));
	meet(r);
}

static void rule3_getOfAnySizeAndAlignment(Rank &r)
{
	getCells<GinThread>(r);
	getCells<GinWarp>(r);
	getCells<GinCta>(r);
}

/* A user's coop that cannot vote: the even threads of a block of two. */
struct HomeMade {
	GIN_FN uint32_t thread_rank() const { return ginThreadIndex(); }
	GIN_FN uint32_t size() const { return ginBlockSize(); }
	GIN_FN void sync() const { GinCta{}.sync(); }
};

/* Every coop of the block puts cells of its own, and signals once at the end. */
template <class Coop> struct PutByCoops {
	ginDevComm dc;
	ginWindow_t target, source;
	Cells cells;
	uint32_t coops;
	uint64_t *results;

	GIN_FN void put(Coop coop, uint32_t number) const
	{
		Gin gin(dc, 0, number % 2 ? ginSharingGpu : ginSharingCta);
		ginResult_t result = ginSuccess;
		for (uint32_t c = number; c < cells.count() && result == ginSuccess; c += coops)
			result = gin.put(rightOf(dc), target, cells.to(c), source, cells.from(c),
					 cells.bytes(c), GinNone{}, GinNone{}, coop);
		if (result == ginSuccess)
			result = gin.signal(rightOf(dc), GinSignalInc{0}, coop);
		if (result == ginSuccess)
			result = gin.waitSignal(0, coops, coop);
		results[ginThreadIndex()] = result;
	}

	GIN_FN void operator()() const { select(Coop{}); }

	template <uint32_t n> GIN_FN void select(GinTile<n> coop) const
	{
		put(coop, ginThreadIndex() / n);
	}

	/* The odd lanes and the even lanes of each warp. */
	GIN_FN void select(GinLanes) const
	{
		uint32_t odd = ginThreadIndex() % 2, warp = ginThreadIndex() / GIN_WARP_SIZE;
		uint32_t all = GIN_WARP_SIZE == 32 ? 0xffffffffu : (1u << GIN_WARP_SIZE % 32) - 1;
		put(GinLanes{(odd ? 0xaaaaaaaau : 0x55555555u) & all}, warp * 2 + odd);
	}

	/* The first warp, and the two after it. */
	GIN_FN void select(GinWarpSpan) const
	{
		uint32_t second = ginThreadIndex() >= GIN_WARP_SIZE;
		put(GinWarpSpan{second, 1 + second, 1 + second}, second);
	}

	GIN_FN void select(GinAnyCoop) const { put(GinAnyCoop{ginCoopCta}, 0); }
	GIN_FN void select(HomeMade coop) const { put(coop, 0); }
};

/* `warps` warps, which make `coops` coops. */
template <class Coop> void putByCoops(Rank &r, uint32_t warps, uint32_t coops)
{
	uint32_t block = warps * (r.device < 0 ? GIN_HOST_WARP : 32);
	Buffer target(r, mixed.total()), source(r, mixed.total());
	Results results(r, block);

	fillPattern(r, source);
	target.poison();
	Device device(r, 1, 1);
	launch(r, 1, block,
	       PutByCoops<Coop>{device.dc, target.window, source.window, mixed, coops,
				results.words});
	EXPECT(results.all(ginSuccess));
	EXPECT(target.read() == expectedCells(mixed, (r.rank + r.nRanks - 1) % r.nRanks));
	meet(r);
}

static void rule6_everyKindOfCoop(Rank &r)
{
	uint32_t lanes = r.device < 0 ? GIN_HOST_WARP : 32;
	putByCoops<GinTile<1>>(r, 1, lanes);
	putByCoops<GinTile<2>>(r, 2, lanes);
	putByCoops<GinTile<4>>(r, 2, lanes / 2);
	putByCoops<GinLanes>(r, 2, 4);
	putByCoops<GinWarpSpan>(r, 3, 2);
	putByCoops<GinAnyCoop>(r, 2, 1);
	putByCoops<HomeMade>(r, 2, 1);
}

/* Puts that count locally: the source is written again as soon as the counter says so. */
struct CountThenReuse {
	ginDevComm dc;
	ginWindow_t target, source;
	char *out;
	size_t bytes;
	uint32_t rounds;
	bool waits;
	uint64_t *results;

	GIN_FN void fill(uint32_t round) const
	{
		for (size_t i = ginThreadIndex(); i < bytes; i += ginBlockSize())
			out[i] = static_cast<char>(pattern(dc.rank, round, i));
	}

	/* By the wait, or by the program's own loads, which are acquires, too. */
	GIN_FN ginResult_t count(const Gin &gin, uint64_t least) const
	{
		if (waits)
			return gin.waitCounter(1, least, GinCta{});
		uint64_t begin = ginNow();
		bool late = false;
		while (ginThreadIndex() == 0 && !late && gin.readCounter(1) < least) {
			late = ginNow() - begin > dc.timeout;
			ginYield();
		}
		return GinCta{}.any(late) ? ginErrorTimeout : ginSuccess;
	}

	GIN_FN ginResult_t round(const Gin &gin, uint32_t n) const
	{
		GinCta all;
		fill(n);
		ginResult_t result = gin.putFrom(rightOf(dc), target, n * bytes, out, bytes,
						 GinWeakSignalInc{0}, GinCounterInc{1}, all);
		return result == ginSuccess ? count(gin, n + 1) : result;
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 1);
		ginResult_t result = ginSuccess;
		for (uint32_t n = 0; n < rounds && result == ginSuccess; n++)
			result = round(gin, n);
		if (result == ginSuccess)
			result = gin.waitSignal(0, rounds, GinCta{});
		bool counted = gin.readCounter(1) == rounds && gin.readCounter(0) == 0;
		results[ginThreadIndex()] = counted ? result : ginErrorInvalidUsage;
		GinCta{}.sync();
		if (ginThreadIndex() == 0) {
			gin.resetCounter(1);
			results[ginBlockSize()] = gin.readCounter(1);
		}
	}
};

static void reuseBehindCounters(Rank &r, bool waits)
{
	const size_t bytes = 1027;
	const uint32_t rounds = 40;
	uint32_t block = blockFor<GinCta>(r), left = static_cast<uint32_t>(r.rank + r.nRanks - 1);
	Buffer target(r, bytes * rounds), source(r, bytes);
	Device device(r, 2, 1);
	Results results(r, block + 1);

	launch(r, 1, block,
	       CountThenReuse{device.dc, target.window, source.window, source.ptr, bytes, rounds,
			      waits, results.words});
	EXPECT(results.all(0));
	std::vector<unsigned char> got = target.read();
	for (uint32_t n = 0; n < rounds; n++)
		for (size_t i = 0; i < bytes; i++)
			EXPECT(got[n * bytes + i] ==
			       pattern(left % static_cast<uint32_t>(r.nRanks), n, i));
	meet(r);
}

static void rule3_countersFreeTheSource(Rank &r)
{
	reuseBehindCounters(r, true);
	reuseBehindCounters(r, false);
}

/* Block 0 puts; block 1 writes the source again as soon as the counter allows it. */
struct CountForOthers {
	ginDevComm dc;
	ginWindow_t target, source;
	char *out;
	size_t bytes;
	uint32_t rounds;
	uint64_t *results;

	GIN_FN ginResult_t put(const Gin &gin) const
	{
		ginResult_t result = ginSuccess;
		for (uint32_t n = 0; n < rounds && result == ginSuccess; n++) {
			result = gin.waitSignal(1, n + 1, GinCta{}); /* the source is written */
			if (result == ginSuccess)
				result = gin.put(rightOf(dc), target, n * bytes, source, 0, bytes,
						 GinSignalInc{0}, GinCounterInc{0}, GinCta{});
		}
		return result == ginSuccess ? gin.waitSignal(0, rounds, GinCta{}) : result;
	}

	GIN_FN ginResult_t write(const Gin &gin) const
	{
		ginResult_t result = ginSuccess;
		for (uint32_t n = 0; n < rounds && result == ginSuccess; n++) {
			result = gin.waitCounter(0, n, GinCta{});
			for (size_t i = ginThreadIndex(); i < bytes; i += ginBlockSize())
				out[i] = static_cast<char>(pattern(dc.rank, n, i));
			if (result == ginSuccess)
				result = gin.signal(static_cast<int>(dc.rank), GinSignalInc{1},
						    GinCta{});
		}
		return result;
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		uint32_t thread = ginBlockIndex() * ginBlockSize() + ginThreadIndex();
		results[thread] = ginBlockIndex() == 0 ? put(gin) : write(gin);
	}
};

static void rule3_countersReachOtherBlocks(Rank &r)
{
	const size_t bytes = 515;
	const uint32_t rounds = 60;
	uint32_t block = blockFor<GinCta>(r), left = static_cast<uint32_t>(r.rank + r.nRanks - 1);
	Buffer target(r, bytes * rounds), source(r, bytes);
	Device device(r, 1, 2);
	Results results(r, block * 2);

	launch(r, 2, block,
	       CountForOthers{device.dc, target.window, source.window, source.ptr, bytes, rounds,
			      results.words});
	EXPECT(results.all(ginSuccess));
	std::vector<unsigned char> got = target.read();
	for (uint32_t n = 0; n < rounds; n++)
		for (size_t i = 0; i < bytes; i++)
			EXPECT(got[n * bytes + i] ==
			       pattern(left % static_cast<uint32_t>(r.nRanks), n, i));
	meet(r);
}

/* The ticket is kept in memory between the two steps. */
struct Tickets {
	ginDevComm dc;
	ginWindow_t target, source;
	char *out;
	ginRequest *ticket;
	size_t bytes;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		GinCta all;
		/* Nothing is posted yet: tickets of the block's threads may differ. */
		ginResult_t result = gin.wait(gin.flushAsync(rightOf(dc), all), all);
		if (result == ginSuccess)
			result = gin.put(rightOf(dc), target, 0, source, 0, bytes, GinNone{},
					 GinNone{}, all);
		if (result == ginSuccess) /* another peer's later post is not waited for */
			result = gin.signal(leftOf(dc), GinSignalInc{1}, all);
		ginRequest request = gin.flushAsync(ginTeamWorld(dc), rightOf(dc), all);
		if (ginThreadIndex() == 0)
			*ticket = request;
		all.sync();
		if (result == ginSuccess)
			result = gin.wait(*ticket, all);
		for (size_t i = ginThreadIndex(); i < bytes; i += ginBlockSize())
			out[i] = 0x5a;
		if (result == ginSuccess)
			result = gin.signal(rightOf(dc), GinSignalInc{0}, all);
		if (result == ginSuccess)
			result = gin.waitSignal(0, 1, all);
		results[ginThreadIndex()] = result;
	}
};

static void rule3_ticketsFreeTheSource(Rank &r)
{
	const size_t bytes = 5003;
	uint32_t block = blockFor<GinCta>(r), left = static_cast<uint32_t>(r.rank + r.nRanks - 1);
	Buffer target(r, bytes), source(r, bytes), ticket(r, sizeof(ginRequest));
	Device device(r, 1, 2);
	Results results(r, block);

	static_assert(sizeof(ginRequest) == 16, "kept in 16 bytes by users");
	fillPattern(r, source);
	launch(r, 1, block,
	       Tickets{device.dc, target.window, source.window, source.ptr,
		       reinterpret_cast<ginRequest *>(ticket.ptr), bytes, results.words});
	EXPECT(results.all(ginSuccess));
	std::vector<unsigned char> got = target.read();
	for (size_t i = 0; i < bytes; i++)
		EXPECT(got[i] == pattern(left % static_cast<uint32_t>(r.nRanks), 0, i));
	meet(r);
}

/* Words at rank 0 that all threads of all ranks change. */
struct Atomics {
	ginDevComm dc;
	ginWindow_t window; /* at rank 0: u64 sum, u32 sum, u32 lock, u64 guarded, u64 swapped */
	uint32_t times;
	uint64_t *olds; /* [threads]: the sum of all old values; of all swapped out */

	/* Without a pointer to rank 0, by way of this rank's own part. */
	GIN_FN void increase(const Gin &gin) const
	{
		size_t place = 32 + ginBlockIndex() * 8;
		int self = static_cast<int>(dc.rank);
		gin.get(0, window, 16, window, place, 8);
		gin.flush();
		uint64_t *copy = static_cast<uint64_t *>(ginPeerPointer(window, place, self));
		*copy = *copy + 1;
		gin.put(0, window, 16, window, place, 8);
	}

	GIN_FN void locked(const Gin &gin) const
	{
		uint32_t old = 1;
		ginResult_t result;
		do
			result = gin.atomicCompareSwap(0, window, 12, 0u, 1u, &old);
		while (result == ginSuccess && old != 0);
		if (result != ginSuccess)
			return; /* the guarded word lacks this increment */
		/* Only the lock's acquire and release order these two. */
		uint64_t *guarded = static_cast<uint64_t *>(ginPeerPointer(window, 16, 0));
		if (guarded)
			*guarded = *guarded + 1;
		else
			increase(gin);
		gin.atomicSwap(0, window, 12, 0u);
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		uint32_t thread = ginBlockIndex() * ginBlockSize() + ginThreadIndex();
		uint64_t old = 0, sum = 0, swapped = 0;
		for (uint32_t i = 0; i < times; i++) {
			gin.atomicFetchAdd(0, window, 0, static_cast<uint64_t>(1), &old);
			sum += old;
			gin.atomicFetchAdd(ginTeamWorld(dc), 0, window, 8, 0xffffffffu);
			gin.atomicSwap(0, window, 24, static_cast<uint64_t>(thread + 1), &old);
			swapped += old;
			if (ginThreadIndex() == 0)
				locked(gin);
		}
		olds[thread * 2] = sum;
		olds[thread * 2 + 1] = swapped;
	}
};

/* Equal on every rank: every second word of `words` from `first` on. */
static uint64_t sumOver(Rank &r, const Results &words, size_t first)
{
	std::vector<uint64_t> all(static_cast<size_t>(r.nRanks));
	uint64_t sum = 0;

	for (size_t i = first; i < words.count; i += 2)
		sum += words.words[i];
	CHECK(ginCommAllgather(r.comm, &sum, all.data(), sizeof(sum)));
	sum = 0;
	for (uint64_t each : all)
		sum += each;
	return sum;
}

static void atomicsOfAllRanks(Rank &r)
{
	uint32_t grid = 2, block = r.device < 0 ? 2 : 64, times = 30, zero[8] = {0};
	uint64_t n = static_cast<uint64_t>(r.nRanks) * grid * block * times;
	Buffer words(r, 32 + grid * 8, wordsAllocator(r));
	Device device(r, 1, 1);
	Results olds(r, grid * block * 2);

	copyBytes(r, words.ptr, zero, 32);
	meet(r);
	launch(r, grid, block, Atomics{device.dc, words.window, times, olds.words});
	settle(r, device);
	std::vector<unsigned char> got = words.read();
	uint64_t sum, guarded, swapped;
	uint32_t small, lock;
	memcpy(&sum, &got[0], 8);
	memcpy(&small, &got[8], 4);
	memcpy(&lock, &got[12], 4);
	memcpy(&guarded, &got[16], 8);
	memcpy(&swapped, &got[24], 8);
	if (r.rank == 0) {
		EXPECT(sum == n);
		EXPECT(small == static_cast<uint32_t>(0u - n));
		EXPECT(lock == 0 && guarded == static_cast<uint64_t>(r.nRanks) * grid * times);
	}
	/* Every value below n was an old value exactly once; no swap lost a value. */
	EXPECT(sumOver(r, olds, 0) == n * (n - 1) / 2);
	uint64_t last = r.rank == 0 ? swapped : 0, threads = grid * block;
	uint64_t put = static_cast<uint64_t>(r.nRanks) * times * threads * (threads + 1) / 2;
	Results tail(r, 2);
	tail.words[0] = last;
	EXPECT(sumOver(r, olds, 1) + sumOver(r, tail, 0) == put);
}

template <size_t n> struct Bytes {
	unsigned char byte[n];
};

/* putValue of `n` bytes at offsets 0 to 8 of cells of 64 bytes. */
template <size_t n> struct PutValues {
	ginDevComm dc;
	ginWindow_t target;
	size_t base;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		for (size_t shift = 0; shift < 9; shift++) {
			Bytes<n> value;
			for (size_t i = 0; i < n; i++)
				value.byte[i] = pattern(dc.rank, n, i + shift);
			gin.putValue(rightOf(dc), target, base + shift * 64 + shift, value,
				     GinSignalInc{0}, GinWarp{});
		}
		gin.waitSignal(0, 9, GinWarp{});
	}
};

template <size_t n> void putValues(Rank &r)
{
	Buffer target(r, 9 * 64 + 32);
	std::vector<unsigned char> expected(target.bytes, 0x5a);
	uint32_t left = static_cast<uint32_t>((r.rank + r.nRanks - 1) % r.nRanks);

	target.poison();
	Device device(r, 1, 1);
	launch(r, 1, blockFor<GinWarp>(r), PutValues<n>{device.dc, target.window, 16});
	for (size_t shift = 0; shift < 9; shift++)
		for (size_t i = 0; i < n; i++)
			expected[16 + shift * 64 + shift + i] = pattern(left, n, i + shift);
	EXPECT(target.read() == expected);
	meet(r);
}

static void rule9_valuesOfAnySize(Rank &r)
{
	putValues<1>(r);
	putValues<2>(r);
	putValues<4>(r);
	putValues<7>(r);
	putValues<8>(r);
	putValues<12>(r);
	putValues<28>(r);
	putValues<32>(r);
}

/*
 * One thread, alone on its context, puts cells, values and signals, then gets the source's first
 * word.
 */
struct PutAlone {
	ginDevComm dc;
	ginWindow_t target, source, words;
	Cells cells;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0, ginSharingThread);
		const int to = rightOf(dc);
		ginResult_t result = ginSuccess;
		for (uint32_t c = 0; c < cells.count() && result == ginSuccess; c++) {
			result = gin.put(to, target, cells.to(c), source, cells.from(c),
					 cells.bytes(c), GinSignalInc{0});
			if (result == ginSuccess && c % 3 == 0)
				result = gin.putValue(to, words, 0, uint64_t{c}, GinSignalInc{1});
		}
		if (result == ginSuccess)
			result = gin.waitSignal(0, cells.count());
		if (result == ginSuccess)
			result = gin.waitSignal(1, (cells.count() + 2) / 3);
		if (result == ginSuccess)
			result = gin.get(to, source, 0, words, 8, 8);
		results[0] = result == ginSuccess ? gin.flush() : result;
	}
};

static void sharing_aThreadAlone(Rank &r)
{
	Buffer target(r, mixed.total()), source(r, mixed.total()), words(r, 16);
	Results results(r, 1);

	fillPattern(r, source);
	target.poison();
	Device device(r, 1, 2); /* collective: all have filled */
	launch(r, 1, 1,
	       PutAlone{device.dc, target.window, source.window, words.window, mixed,
			results.words});
	EXPECT(results.all(ginSuccess));
	EXPECT(target.read() == expectedCells(mixed, (r.rank + r.nRanks - 1) % r.nRanks));
	const std::vector<unsigned char> got = words.read();
	for (size_t i = 0; i < 8; i++)
		EXPECT(got[8 + i] == pattern(static_cast<uint32_t>((r.rank + 1) % r.nRanks), 0, i));
	meet(r);
}

static const Test tests[] = {
	{"rule 3: gets of any size and alignment", rule3_getOfAnySizeAndAlignment},
	{"rule 3: counters free the source", rule3_countersFreeTheSource},
	{"rule 3: counters reach other blocks", rule3_countersReachOtherBlocks},
	{"rule 3: tickets free the source", rule3_ticketsFreeTheSource},
	{"rule 6: every kind of coop", rule6_everyKindOfCoop},
	{"atomics of all ranks", atomicsOfAllRanks},
	{"rule 9: values of any size", rule9_valuesOfAnySize},
	{"sharing: a thread alone on its context", sharing_aThreadAlone},
};

int main(int argc, char **argv)
{
	return suiteMain(argc, argv, "semantics_data", tests);
}
