/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * semantics.cc - the contract of the device API, rule by rule, by public calls only
 *
 * Each test has the name of the rule of gin_memory_model(7) that it checks. Data is a pattern of
 * sender and place, so that a lost, late, doubled or misplaced byte shows; bytes that must not be
 * written are poisoned and compared, too.
 */
/* COMPILE: -O1 */
#include "suite.h"

template <class Coop> struct PutCells {
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
			result = gin.put(rightOf(dc), target, cells.to(c), source, cells.from(c),
					 cells.bytes(c), GinNone{}, GinNone{}, coop);
		if (result == ginSuccess)
			result = gin.signal(rightOf(dc), GinSignalInc{0}, coop);
		if (result == ginSuccess)
			result = gin.waitSignal(0, 1, coop);
		results[ginThreadIndex()] = result;
	}
};

template <class Coop> void putCells(Rank &r, const Cells &cells)
{
	Buffer target(r, cells.total()), source(r, cells.total());
	Results results(r, blockFor<Coop>(r));

	fillPattern(r, source);
	target.poison();
	Device device(r, 1, 1); /* collective: all have poisoned */
	launch(r, 1, blockFor<Coop>(r),
	       PutCells<Coop>{device.dc, target.window, source.window, cells, results.words});
	EXPECT(results.all(ginSuccess));
	EXPECT(target.read() == expectedCells(cells, (r.rank + r.nRanks - 1) % r.nRanks));
	meet(r);
}

static void rule9_putOfAnySizeAndAlignment(Rank &r)
{
	const Cells small = {{0,  1,  2,  3,  4,  5,  7,   8,	9,   15,  16,	17,
			      23, 31, 32, 33, 63, 64, 127, 255, 513, 999, 1024, 2051},
			     24,
			     2112};
	const Cells large = {{65539, 262144}, 2, 262208};

	putCells<GinThread>(r, small);
	putCells<GinWarp>(r, small);
	putCells<GinCta>(r, small);
	putCells<GinCta>(r, large);
}

/* How the message of a round is sent: the bytes that the signal must cover. */
enum Way { together, separate, byThreads, values, otherBlock, WAYS };

/* Threads of another block have put: counted by an atomic, not by a signal. */
GIN_FN void countUp(uint32_t *count)
{
#if GIN_ON_GPU
	__threadfence();
	atomicAdd(count, 1u);
#else
	__atomic_fetch_add(count, 1u, __ATOMIC_RELEASE);
#endif
}

GIN_FN void awaitCount(uint32_t *count, uint32_t least)
{
#if GIN_ON_GPU
	while (atomicAdd(count, 0u) < least)
		;
	__threadfence();
#else
	while (__atomic_load_n(count, __ATOMIC_ACQUIRE) < least)
		sched_yield();
#endif
}

struct Messages {
	ginDevComm dc;
	ginWindow_t target, source;
	char *in, *out;
	uint32_t *count;
	size_t bytes; /* a multiple of 8 and of the block's threads */
	uint32_t rounds;
	Way way;
	uint64_t *wrong;

	GIN_FN void writeSource(uint32_t round) const
	{
		for (size_t i = ginThreadIndex(); i < bytes; i += ginBlockSize())
			out[i] = static_cast<char>(pattern(dc.rank, round, i));
	}

	GIN_FN uint64_t countWrong(uint32_t round) const
	{
		uint32_t left = static_cast<uint32_t>(leftOf(dc));
		uint64_t n = 0;
		for (size_t i = ginThreadIndex(); i < bytes; i += ginBlockSize())
			n += static_cast<unsigned char>(in[i]) != pattern(left, round, i);
		return n;
	}

	GIN_FN ginResult_t putShare(const Gin &gin) const
	{
		size_t share = bytes / ginBlockSize(), at = share * ginThreadIndex();
		return gin.put(rightOf(dc), target, at, source, at, share);
	}

	GIN_FN ginResult_t putValues(const Gin &gin) const
	{
		ginResult_t result = ginSuccess;
		for (size_t i = ginThreadIndex() * 8; i < bytes; i += 8 * ginBlockSize()) {
			uint64_t value = 0;
			for (size_t b = 8; b--;)
				value = value << 8 | static_cast<unsigned char>(out[i + b]);
			if (gin.putValue(rightOf(dc), target, i, value) != ginSuccess)
				result = ginErrorPeer;
		}
		return result;
	}

	GIN_FN ginResult_t send(const Gin &gin, uint32_t round) const
	{
		int to = rightOf(dc);
		GinSignalInc arrived = {0};
		ginResult_t result = ginSuccess;

		if (way == together)
			return gin.put(to, target, 0, source, 0, bytes, arrived, GinNone{},
				       GinCta{});
		GinCta{}.sync(); /* other threads have written a thread's share of the source */
		if (way == separate)
			result = gin.put(to, target, 0, source, 0, bytes, GinNone{}, GinNone{},
					 GinCta{});
		else if (way == byThreads)
			result = putShare(gin);
		else if (way == values)
			result = putValues(gin);
		else if (ginThreadIndex() == 0)
			awaitCount(count, round * ginBlockSize());
		if (way == values) /* the signal's coop synchronises itself */
			return result == ginSuccess ? gin.signal(to, arrived, GinCta{}) : result;
		result = ginAgree(GinCta{}, result);
		if (result == ginSuccess && ginThreadIndex() == 0)
			result = gin.signal(to, arrived);
		return ginAgree(GinCta{}, result);
	}

	/* Block 1 of way otherBlock: puts, and announces that by an atomic alone. */
	GIN_FN void help(const Gin &gin) const
	{
		for (uint32_t round = 1; round <= rounds; round++) {
			GinCta{}.sync();
			if (round > 1 && gin.waitSignal(1, round - 1, GinCta{}) != ginSuccess)
				return;
			writeSource(round);
			GinCta{}.sync();
			putShare(gin);
			countUp(count);
		}
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		uint64_t n = 0;
		if (ginBlockIndex() == 1)
			return help(gin);
		for (uint32_t round = 1; round <= rounds; round++) {
			if (way != otherBlock)
				writeSource(round);
			if (send(gin, round) != ginSuccess ||
			    gin.waitSignal(0, round, GinCta{}) != ginSuccess) {
				n = UINT64_MAX;
				break;
			}
			n += countWrong(round);
			/*
			 * The left neighbour may send the next message; the right one has read this
			 * one.
			 */
			if (gin.signal(leftOf(dc), GinSignalInc{1}, GinCta{}) != ginSuccess ||
			    gin.waitSignal(1, round, GinCta{}) != ginSuccess) {
				n = UINT64_MAX;
				break;
			}
		}
		wrong[ginThreadIndex()] = n;
	}
};

static void rules0to2and5_messages(Rank &r)
{
	uint32_t block = r.device < 0 ? 4 : 128;
	const size_t bytes = block * 40;
	uint32_t zero = 0;
	Buffer target(r, bytes), source(r, bytes), count(r, sizeof(uint32_t));

	for (int way = 0; way < WAYS; way++) {
		Device device(r, 1, 2);
		Results wrong(r, block);
		copyBytes(r, count.ptr, &zero, sizeof(zero));
		launch(r, way == otherBlock ? 2 : 1, block,
		       Messages{device.dc, target.window, source.window, target.ptr, source.ptr,
				reinterpret_cast<uint32_t *>(count.ptr), bytes,
				roundsFor(r, 25, 2000), static_cast<Way>(way), wrong.words});
		EXPECT(wrong.all(0));
	}
}

struct FlushThenReuse {
	ginDevComm dc;
	ginWindow_t target, source;
	char *out;
	size_t bytes;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		ginResult_t result = gin.put(rightOf(dc), target, 0, source, 0, bytes, GinNone{},
					     GinNone{}, GinCta{});
		if (result == ginSuccess)
			result = gin.flush(GinCta{});
		for (size_t i = ginThreadIndex(); i < bytes; i += ginBlockSize())
			out[i] = 0x5a;
		if (result == ginSuccess)
			result = gin.signal(rightOf(dc), GinSignalInc{0}, GinCta{});
		if (result == ginSuccess)
			result = gin.waitSignal(0, 1, GinCta{});
		results[ginThreadIndex()] = result;
	}
};

static void rule3_flushFreesTheSource(Rank &r)
{
	const size_t bytes = 100003;
	uint32_t block = blockFor<GinCta>(r);
	Buffer target(r, bytes), source(r, bytes);
	Device device(r, 1, 1);
	Results results(r, block);

	fillPattern(r, source);
	launch(r, 1, block,
	       FlushThenReuse{device.dc, target.window, source.window, source.ptr, bytes,
			      results.words});
	EXPECT(results.all(ginSuccess));
	std::vector<unsigned char> got = target.read();
	uint32_t left = static_cast<uint32_t>((r.rank + r.nRanks - 1) % r.nRanks);
	for (size_t i = 0; i < bytes; i++)
		EXPECT(got[i] == pattern(left, 0, i));
	meet(r);
}

/* Every thread of every rank raises one signal of every rank. */
struct RaiseAll {
	ginDevComm dc;
	uint32_t context, signal, times;
	uint64_t value;

	GIN_FN void operator()() const
	{
		Gin gin(dc, context);
		for (uint32_t i = 0; i < times; i++)
			for (uint32_t peer = 0; peer < dc.nRanks; peer++)
				gin.signal(static_cast<int>(peer), GinSignalAdd{signal, value});
	}
};

/* One thread: every signal's value, then 0. */
struct ReadAndReset {
	ginDevComm dc;
	uint64_t *values;

	GIN_FN void operator()() const
	{
		for (uint32_t i = 0; i < dc.contexts * dc.signals; i++) {
			Gin gin(dc, i / dc.signals);
			values[i] = gin.readSignal(i % dc.signals);
			gin.resetSignal(i % dc.signals);
		}
	}
};

static void rule4_sumsAreExact(Rank &r)
{
	uint32_t grid = r.device < 0 ? 2 : 8, block = r.device < 0 ? 3 : 96;
	Device device(r, 4, 3);
	Results values(r, 12);

	for (uint64_t round = 1; round <= 3; round++) {
		uint64_t value = round == 3 ? 0x8000000000000001ull : round; /* 3: wraps */
		launch(r, grid, block, RaiseAll{device.dc, 2, 1, 50, value});
		settle(r, device);
		launch(r, 1, 1, ReadAndReset{device.dc, values.words});
		for (uint32_t i = 0; i < 12; i++) {
			uint64_t adders = static_cast<uint64_t>(r.nRanks) * grid * block * 50;
			EXPECT(values.words[i] == (i == 2 * 3 + 1 ? adders * value : 0));
		}
		meet(r);
	}
}

/* Signal (context, id) of the right neighbour gets a value of its own. */
struct RaiseEach {
	ginDevComm dc;

	GIN_FN void operator()() const
	{
		for (uint32_t i = ginThreadIndex(); i < dc.contexts * dc.signals;
		     i += ginBlockSize()) {
			Gin gin(dc, i / dc.signals);
			gin.signal(rightOf(dc),
				   GinSignalAdd{i % dc.signals, i + 1000ull * dc.rank});
		}
	}
};

static void rule4_contextsAreApart(Rank &r)
{
	for (uint32_t contexts : {1u, 4u, 130u, 1024u}) {
		Device device(r, contexts, 3);
		Results values(r, contexts * 3);
		uint64_t left = static_cast<uint64_t>((r.rank + r.nRanks - 1) % r.nRanks);
		launch(r, 1, 4, RaiseEach{device.dc});
		settle(r, device);
		launch(r, 1, 1, ReadAndReset{device.dc, values.words});
		for (uint32_t i = 0; i < contexts * 3; i++)
			EXPECT(values.words[i] == i + 1000 * left);
	}
}

/* The value passes 2^64: the compare rolls. */
struct RollOver {
	ginDevComm dc;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		int self = static_cast<int>(dc.rank);
		gin.signal(self, GinSignalAdd{0, UINT64_MAX - 1});
		results[0] = gin.waitSignal(0, UINT64_MAX - 1);
		gin.signal(self, GinSignalAdd{0, 3});
		results[1] = gin.waitSignal(0, UINT64_MAX);
		results[2] = gin.waitSignal(0, 1);
		results[3] = gin.waitSignal(0, 2, GinThread{}, ginTimeout(1000000));
		results[4] = gin.readSignal(0);
	}
};

static void rule4_compareRolls(Rank &r)
{
	Device device(r, 1, 1);
	Results results(r, 5);

	launch(r, 1, 1, RollOver{device.dc, results.words});
	EXPECT(results.words[0] == ginSuccess && results.words[1] == ginSuccess);
	EXPECT(results.words[2] == ginSuccess && results.words[3] == ginErrorTimeout);
	EXPECT(results.words[4] == 1);
}

template <class Coop> struct WaitOnce {
	ginDevComm dc;
	uint64_t least, timeout;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		results[ginThreadIndex()] = gin.waitSignal(1, least, Coop{}, ginTimeout(timeout));
	}
};

/* All threads get the timeout; it loses nothing, and a repeated wait succeeds. */
template <class Coop> void timeoutThenSuccess(Rank &r)
{
	uint32_t block = blockFor<Coop>(r);
	Device device(r, 1, 2);
	Results results(r, block);
	ginErrorRecord_t record;

	launch(r, 1, block, WaitOnce<Coop>{device.dc, 1, 3000000, results.words});
	EXPECT(results.all(ginErrorTimeout));
	CHECK(ginDevCommGetError(r.comm, &device.dc, &record));
	EXPECT(record.valid && record.result == ginErrorTimeout && record.peer == -1);
	EXPECT(record.call == ginCallWaitSignal && record.id == 1);
	EXPECT(record.expected == 1 && record.seen == 0);
	meet(r);
	launch(r, 1, 1, RaiseAll{device.dc, 0, 1, 1, 1});
	launch(r, 1, block,
	       WaitOnce<Coop>{device.dc, static_cast<uint64_t>(r.nRanks), 0, results.words});
	EXPECT(results.all(ginSuccess));
	meet(r);
}

static void rules6and7_timeouts(Rank &r)
{
	timeoutThenSuccess<GinThread>(r);
	timeoutThenSuccess<GinWarp>(r);
	timeoutThenSuccess<GinCta>(r);
}

/* Block 0 sends values whose halves are equal, block 1 searches for one whose halves differ. */
template <class Value> struct Tear {
	static constexpr uint32_t half = sizeof(Value) * 4; /* bits */

	ginDevComm dc;
	ginWindow_t target, source;
	char *in, *out;
	uint32_t rounds;
	uint64_t *torn;

	GIN_FN void writer(const Gin &gin) const
	{
		Value *value = reinterpret_cast<Value *>(out);
		for (uint32_t i = 1; i <= rounds; i++) {
			*value = static_cast<Value>((static_cast<Value>(i) << half) | i);
			if (i % 2) /* the halves of one aligned value, by either call */
				gin.putValue(rightOf(dc), target, 0, *value);
			else
				gin.put(rightOf(dc), target, 0, source, 0, sizeof(Value));
			gin.flush();
		}
		gin.signal(rightOf(dc), GinSignalInc{0});
	}

	GIN_FN Value look() const
	{
#if GIN_ON_GPU
		return *reinterpret_cast<volatile Value *>(in);
#else
		return __atomic_load_n(reinterpret_cast<Value *>(in), __ATOMIC_RELAXED);
#endif
	}

	/* The proxy's threads may have no other core. */
	GIN_FN void letOthersRun() const
	{
#if !GIN_ON_GPU
		if (dc.queues)
			sched_yield();
#endif
	}

	GIN_FN void reader(const Gin &gin) const
	{
		uint64_t n = 0;
		while (!gin.readSignal(0)) {
			for (int i = 0; i < 100; i++) {
				Value seen = look();
				n += seen >> half != (seen & ((Value{1} << half) - 1));
			}
			letOthersRun();
		}
		*torn = n;
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		ginBlockIndex() == 0 ? writer(gin) : reader(gin);
	}
};

template <class Value> void valuesAreWhole(Rank &r)
{
	Buffer target(r, 64), source(r, 64);
	Results torn(r, 1);

	target.write(std::vector<unsigned char>(64, 0));
	Device device(r, 1, 1);
	launch(r, 2, 1,
	       Tear<Value>{device.dc, target.window, source.window, target.ptr, source.ptr,
			   isDirect(r) ? 20000u : 2000u, torn.words});
	EXPECT(torn.all(0));
	meet(r);
}

static void rule9_alignedValuesAreWhole(Rank &r)
{
	valuesAreWhole<uint64_t>(r);
	valuesAreWhole<uint32_t>(r);
}

/* Writes the last byte of every peer's part, and by pointer the byte before it. */
struct LastBytes {
	ginDevComm dc;
	ginWindow_t target, source;

	/* By the peer's pointer, where there is one. */
	GIN_FN void store(const Gin &gin, int peer, size_t at, char value) const
	{
		void *to = ginPeerPointer(target, at, peer);
		if (to)
			*static_cast<char *>(to) = value;
		else
			gin.putValue(peer, target, at, value);
	}

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		for (uint32_t p = 0; p < dc.nRanks; p++) {
			int peer = static_cast<int>(p);
			size_t last = p * 100 - 1 - dc.rank * 2;
			if (p) {
				gin.put(peer, target, last, source, 0, 1);
				store(gin, peer, last - 1, static_cast<char>(dc.rank + 1));
			}
			gin.signal(peer, GinSignalInc{0});
		}
		gin.waitSignal(0, dc.nRanks);
	}
};

/* Rank r registers r * 100 bytes, rank 0 none; one window before the devcomm, one after. */
static void windowsMayDiffer(Rank &r)
{
	Buffer source(r, 1);
	Device device(r, 1, 1);
	Buffer target(r, static_cast<size_t>(r.rank) * 100);
	unsigned char mine = static_cast<unsigned char>(r.rank + 1);
	void *pointer = &mine;

	copyBytes(r, source.ptr, &mine, 1);
	target.poison();
	meet(r);
	CHECK(ginPeerPointer(r.comm, target.window, 0, &pointer));
	EXPECT(pointer == nullptr);
	CHECK(ginWindowPointer(r.comm, target.window, &pointer));
	EXPECT(pointer == target.ptr);
	launch(r, 1, 1, LastBytes{device.dc, target.window, source.window});
	std::vector<unsigned char> got = target.read();
	for (size_t i = 0; i < got.size(); i++) {
		size_t sender = (got.size() - 1 - i) / 2;
		EXPECT(got[i] == (sender < static_cast<size_t>(r.nRanks) ? sender + 1 : 0x5a));
	}
	meet(r);
}

/* Device communicators made after another was destroyed, and several at a time. */
static void twoCommunicators(const ginConfig_t *config)
{
	Rank first, second;
	rankOpen(first, config);
	rankOpen(second, config);
	rule4_sumsAreExact(second);
	rule4_sumsAreExact(first);
	rankClose(first);
	rule4_compareRolls(second);
	rankClose(second);
}

static const Test tests[] = {
	{"rule 9: puts of any size and alignment", rule9_putOfAnySizeAndAlignment},
	{"rules 0, 1, 2, 5: messages", rules0to2and5_messages},
	{"rule 3: flush frees the source", rule3_flushFreesTheSource},
	{"rule 4: sums are exact", rule4_sumsAreExact},
	{"rule 4: contexts are apart", rule4_contextsAreApart},
	{"rule 4: the compare rolls", rule4_compareRolls},
	{"rules 6, 7: timeouts are uniform and can be repeated", rules6and7_timeouts},
	{"rule 9: aligned values are whole", rule9_alignedValuesAreWhole},
	{"windows may differ per rank", windowsMayDiffer},
};

static int run(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	runTests(r, "semantics", tests);
	rankClose(r);
	twoCommunicators(config);
	return 0;
}

int main(int argc, char **argv)
{
	return suiteMain(argc, argv, run);
}
