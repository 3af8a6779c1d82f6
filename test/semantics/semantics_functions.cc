/* SPDX-License-Identifier: BSD-3-Clause */
/* semantics_functions.cc - the calls as C functions, by one thread and by coops of every kind */
/* COMPILE: -O0 */
#include "suite.h"

/* The functions that other tests do not use, by one thread, on this rank alone. */
struct Functions {
	ginDevComm dc;
	ginWindow_t window; /* 64 bytes */
	uint64_t *memory;
	uint64_t *wrong;

	GIN_FN uint64_t data(int self) const
	{
		struct ginWindowTable *w = window.table;
		uint64_t old = 0, n = 0;
		uint32_t old32 = 0;
		n += ginPutValue(&dc, 0, self, w, 0, 0x1122334455667788ull, 8, 0, nullptr, 0, 0, 0,
				 0);
		n += ginPutValue(&dc, 0, self, w, 8, 0xaabb, 2, ginSignalWeak, w, 48, 1, 0, 0);
		n += ginBarrierSync(&dc, 1, 0, 1, 0, 0, 0);
		n += ginGet(&dc, 0, self, w, 0, w, 16, 8, ginCoopThread, 0);
		n += ginPutFrom(&dc, 0, self, w, 24, memory, 8, ginSignalStrong, nullptr, 1, 2, 0,
				0, 0);
		n += ginBarrierSync(&dc, 1, 0, 1, 0, 0, 0);
		n += ginAtomicFetchAdd64(&dc, 0, self, w, 16, 1, &old, ginCoopThread, 0);
		n += old != 0x1122334455667788ull;
		n += ginAtomicSwap32(&dc, 0, self, w, 8, 7, nullptr, ginCoopThread, 0);
		n += ginAtomicCompareSwap32(&dc, 0, self, w, 8, 7, 9, &old32, ginCoopThread, 0) +
		     (old32 != 7);
		n += ginAtomicFetchAdd32(&dc, 0, self, w, 8, 1, &old32, ginCoopThread, 0) +
		     (old32 != 9);
		n += ginAtomicCompareSwap64(&dc, 0, self, w, 16, 1, 2, nullptr, ginCoopThread, 0);
		n += ginAtomicSwap64(&dc, 0, self, w, 16, 5, &old, ginCoopThread, 0);
		n += old != 0x1122334455667789ull;
		n += ginPutValue(&dc, 0, self, w, 32, 0x1122334455667788ull, 1, 0, nullptr, 0, 0, 0,
				 0);
		n += ginPutValue(&dc, 0, self, w, 40, 0x1122334455667788ull, 4, 0, nullptr, 0, 0, 0,
				 0);
		n += ginBarrierSync(&dc, 1, 0, 1, 0, 0, 0);
		n += memory[4] != 0x88 || memory[5] != 0x55667788;
		n += memory[0] != memory[3] || memory[2] != 5;
		return n + (ginPointer(w, 8, self) != memory + 1);
	}

	GIN_FN uint64_t waits(int self) const
	{
		struct ginWindowTable *w = window.table;
		struct ginRequest request;
		uint64_t before = 0, delta = 0, n = 0;
		ginFlushAsync(&dc, 0, self, ginCoopThread, &request);
		n += ginWait(&dc, 0, &request, 0, 0) + ginFlush(&dc, 0, 0, 0);
		n += ginWaitSignal(&dc, 0, w, 48, 1, 0, 0) +
		     ginWaitSignal(&dc, 0, nullptr, 1, 2, 0, 0);
		n += ginSignal(&dc, 0, self, ginSignalStrong, nullptr, 1, 4, 0, 0) +
		     ginWaitSignal(&dc, 0, nullptr, 1, 6, 0, 0);
		n += ginReadSignal(&dc, 0, w, 48, 0) != 1 ||
		     ginReadSignal(&dc, 0, nullptr, 1, 0) != 6;
		ginIncreaseSignalShadow(&dc, 0, 1, 6, 0);
		n += ginWaitSignalMeetShadow(&dc, 0, 1, 0, 0) + (*ginSignalShadow(&dc, 0, 1) != 6);
		n += ginWaitSignalFollowShadow(&dc, 0, 1, 0, &before, &delta, 0, 0);
		n += before != 6 || delta != 0;
		ginResetSignal(&dc, 0, nullptr, 1, 0);
		ginResetSignal(&dc, 0, w, 48, 0);
		n += ginReadSignal(&dc, 0, w, 48, 0) + ginReadSignal(&dc, 0, nullptr, 1, 0);
		n += *ginSignalShadow(&dc, 0, 1);
		n += ginWaitCounter(&dc, 0, 0, 1, 0, 0) + (ginReadCounter(&dc, 0, 0, 0) != 1);
		ginResetCounter(&dc, 0, 0, 0);
		n += ginReadCounter(&dc, 0, 0, 0);
		n += ginWaitCounter(&dc, 0, 0, 1, 0, 1000000) != ginErrorTimeout;
		n += ginWaitSignal(&dc, 0, nullptr, 1, 1, 0, 1000000) != ginErrorTimeout;
		/* The word of 4 bytes at 40 is 0x55667788, the next one 0. */
		n += ginWaitValue(&dc, 0, w, 40, 4, 0x55667700, 0, 0);
		n += ginWaitValue(&dc, 0, w, 40, 8, 1ull << 32, 0, 1000000) != ginErrorTimeout;
		n += ginWaitValue(&dc, 0, w, 40, 4, 0x155667788, 0, 1000000);
		n += ginWaitValue(&dc, 0, w, 44, 4, 0x80000001, 0, 1000000) != ginSuccess;
		n += ginWaitValue(&dc, 0, w, 40, 2, 0, 0, 0) != ginErrorInvalidArgument;
		n += ginReadValue(&dc, 0, w, 40, 4, 0) != 0x55667788;
		n += ginReadValue(&dc, 0, w, 40, 8, 0) != 0x55667788;
		n += ginBarrierArrive(&dc, 1, 0, 1, 0, 0, 0) +
		     ginBarrierWait(&dc, 1, 0, 1, 0, 0, 0);
		return n + ginBarrierSync(&dc, 1, 0, 1, 0, 0, 0);
	}

	GIN_FN void operator()() const
	{
		int self = static_cast<int>(dc.rank);
		wrong[0] = data(self);
		wrong[1] = waits(self);
	}
};

static void callsAsFunctions(Rank &r)
{
	Buffer window(r, 64, wordsAllocator(r));
	Results wrong(r, 2);

	window.write(std::vector<unsigned char>(64, 0));
	Device device(r, 1, 2);
	launch(r, 1, 1,
	       Functions{device.dc, window.window, reinterpret_cast<uint64_t *>(window.ptr),
			 wrong.words});
	EXPECT(wrong.all(0));
	meet(r);
}

/* Coops that make calls concurrently. */
enum Kind { byThreads, byWarps, bySpans, byBlock, KINDS };
static const uint32_t WARPS = 3, TIMES = 20;

/*
 * Each coop does atomics in the right neighbour's window, and each thread keeps the old values.
 * Words of the window: a count of all coops, then a word for each coop.
 */
struct ByCoops {
	ginDevComm dc;
	ginWindow_t window;
	Kind kind;
	uint64_t *numbers, *signals; /* [thread][TIMES] */
	uint64_t *wrong;	     /* [thread] */
	uint64_t coops;		     /* of the block */

	/* `which`: number of the calling thread's coop. */
	GIN_FN uint32_t coop(uint32_t *which) const
	{
		uint32_t warp = ginThreadIndex() / GIN_WARP_SIZE, rest = warp > 0;
		*which = kind == byThreads ? ginThreadIndex()
			 : kind == byWarps ? warp
			 : kind == bySpans ? rest
					   : 0;
		return kind == byThreads ? static_cast<uint32_t>(ginCoopThread)
		       : kind == byWarps ? static_cast<uint32_t>(ginCoopWarp)
		       : kind == bySpans ? ginCoopOfSpan(rest, 1 + rest, 1 + rest)
					 : static_cast<uint32_t>(ginCoopCta);
	}

	/* Counts, and reads a signal while the left neighbour raises it. */
	GIN_FN uint64_t count(uint32_t all) const
	{
		uint32_t failed = 0;
		uint64_t n = 0, *mine = numbers + ginThreadIndex() * TIMES;
		for (uint32_t i = 0; i < TIMES; i++) {
			mine[i] = ginFetchAdd64(&dc, 0, rightOf(dc), window.table, 0, 1, all, 0,
						&failed);
			n += ginSignal(&dc, 0, rightOf(dc), ginSignalStrong, nullptr, 0, 1, all, 0);
			signals[ginThreadIndex() * TIMES + i] =
				ginReadSignal(&dc, 0, nullptr, 0, all);
			ginIncreaseSignalShadow(&dc, 0, 0, 1, all);
		}
		return n + failed;
	}

	/* Each returns the old value to all threads. */
	GIN_FN uint64_t atomics(uint32_t all, uint64_t off) const
	{
		struct ginWindowTable *w = window.table;
		const uint64_t large = 0xfedcba9876543210ull;
		uint64_t n = 0, old = 1;
		uint32_t old32 = 1;
		int to = rightOf(dc);
		n += ginCompareSwap64(&dc, 0, to, w, off, 0, large, all, 0, nullptr) != 0;
		n += ginSwap64(&dc, 0, to, w, off, 7, all, 0, nullptr) != large;
		n += ginFetchAdd32(&dc, 0, to, w, off, 1, all, 0, nullptr) != 7;
		n += ginSwap32(&dc, 0, to, w, off, 3, all, 0, nullptr) != 8;
		n += ginCompareSwap32(&dc, 0, to, w, off, 4, 5, all, 0, nullptr) != 3;
		n += ginAtomicFetchAdd64(&dc, 0, to, w, off, 1, &old, all, 0) + (old != 3);
		n += ginAtomicSwap32(&dc, 0, to, w, off, 9, &old32, all, 0) + (old32 != 4);
		return n;
	}

	GIN_FN uint64_t tickets(uint32_t all) const
	{
		uint64_t ticket = ginFlushTicket(&dc, 0, rightOf(dc), all);
		return ginWaitTicket(&dc, 0, rightOf(dc), ticket, all, 0);
	}

	GIN_FN void operator()() const
	{
		uint32_t which, all = coop(&which);
		uint64_t n = count(all) + atomics(all, 8 + 8 * which) + tickets(all);
		GinCta{}.sync();
		n += *ginSignalShadow(&dc, 0, 0) != coops * TIMES;
		wrong[ginThreadIndex()] = n;
	}
};

static uint32_t threadsOf(const Rank &r, Kind kind)
{
	uint32_t warp = r.device < 0 ? GIN_HOST_WARP : 32;
	return kind == byThreads ? 1 : kind == byWarps ? warp : WARPS * warp;
}

/* The first thread of thread `t`'s coop. */
static uint32_t firstOf(const Rank &r, Kind kind, uint32_t t)
{
	uint32_t warp = r.device < 0 ? GIN_HOST_WARP : 32;
	return kind == bySpans ? (t < warp ? 0 : warp)
			       : t / threadsOf(r, kind) * threadsOf(r, kind);
}

static void byCoopsOf(Rank &r, Kind kind)
{
	const uint32_t block = WARPS * (r.device < 0 ? GIN_HOST_WARP : 32);
	Buffer window(r, 8 + 8 * block, wordsAllocator(r));
	Results numbers(r, block * TIMES), signals(r, block * TIMES), wrong(r, block);
	std::vector<bool> seen(block * TIMES);
	uint64_t coops = 0, word = 0;

	for (uint32_t t = 0; t < block; t++)
		coops += firstOf(r, kind, t) == t;
	window.write(std::vector<unsigned char>(8 + 8 * block, 0));
	Device device(r, 1, 1);
	launch(r, 1, block,
	       ByCoops{device.dc, window.window, kind, numbers.words, signals.words, wrong.words,
		       coops});
	EXPECT(wrong.all(0));
	meet(r);
	for (uint32_t t = 0; t < block; t++) {
		uint32_t first = firstOf(r, kind, t);
		for (uint32_t i = 0; i < TIMES; i++) {
			uint64_t number = numbers.words[t * TIMES + i];
			EXPECT(number == numbers.words[first * TIMES + i]);
			EXPECT(signals.words[t * TIMES + i] == signals.words[first * TIMES + i]);
			EXPECT(number < block * TIMES && (t != first || !seen[number]));
			seen[number] = true;
		}
	}
	memcpy(&word, window.read().data(), sizeof(word));
	EXPECT(word == coops * TIMES);
	meet(r);
}

/* All threads of a coop get one result, and the coop counts as one caller. */
static void coopsOfEveryKind(Rank &r)
{
	for (int kind = 0; kind < KINDS; kind++)
		byCoopsOf(r, static_cast<Kind>(kind));
}

/* Calls with options in memory, on this rank alone. */
struct WithOptions {
	ginDevComm dc;
	ginWindow_t window; /* 32 bytes: 1, 0, 0, 0 */
	uint64_t *wrong;

	GIN_FN uint64_t waits(int self) const
	{
		struct ginCallOptions brief = {}, narrow = {};
		uint64_t n = 0;
		brief.size = narrow.size = sizeof(brief);
		narrow.bits = 8;
		n += ginSignalWith(&dc, 0, self, ginSignalStrong, nullptr, 0, 5, ginCoopThread,
				   nullptr);
		n += ginWaitSignalWith(&dc, 0, nullptr, 0, 5, ginCoopThread, &brief);
		n += ginWaitSignalWith(&dc, 0, nullptr, 0, 0x105, ginCoopThread, &narrow);
		brief.timeout = narrow.timeout = 1000000;
		n += ginWaitSignalWith(&dc, 0, nullptr, 0, 0x105, ginCoopThread, &brief) !=
		     ginErrorTimeout;
		return n + (ginWaitSignalWith(&dc, 0, nullptr, 0, 6, ginCoopThread, &narrow) !=
			    ginErrorTimeout);
	}

	GIN_FN void operator()() const
	{
		int self = static_cast<int>(dc.rank);
		struct ginWindowTable *w = window.table;
		struct ginCallOptions by = {};
		by.size = sizeof(by);
		by.copyBy = ginCopyThreads;
		uint64_t n = ginPutWith(&dc, 0, self, w, 8, w, 0, 8, ginSignalStrong, w, 24, 1,
					UINT32_MAX, ginCoopThread, &by);
		n += ginWaitSignalWith(&dc, 0, w, 24, 1, ginCoopThread, nullptr);
		n += ginGetWith(&dc, 0, self, w, 8, w, 16, 8, ginCoopThread, &by);
		n += ginFlush(&dc, 0, ginCoopThread, 0);
		n += ginReadValue(&dc, 0, w, 16, 8, ginCoopThread) != 1;
		wrong[0] = n + waits(self);
	}
};

static void callsWithOptions(Rank &r)
{
	Buffer window(r, 32, wordsAllocator(r));
	Results wrong(r, 1);
	std::vector<unsigned char> bytes(32, 0);

	bytes[0] = 1;
	window.write(bytes);
	Device device(r, 1, 1);
	launch(r, 1, 1, WithOptions{device.dc, window.window, wrong.words});
	EXPECT(wrong.all(0));
	meet(r);
}

static const Test tests[] = {
	{"the calls as C functions", callsAsFunctions},
	{"by coops of every kind", coopsOfEveryKind},
	{"with options", callsWithOptions},
};

int main(int argc, char **argv)
{
	return suiteMain(argc, argv, "semantics_functions", tests);
}
