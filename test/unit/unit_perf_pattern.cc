// SPDX-License-Identifier: BSD-3-Clause
// unit_perf_pattern - gin_perf: the comparison finds each wrong byte and no other byte, messages
// differ in each word, message, rank and launch, and percentiles are those of known samples
#include <vector>

#include "expect.h"
#include "tools/gin_perf/pattern.cuh"
#include "tools/gin_perf/statistics.h"

struct NoSignals {
	GIN_FN void clearSignals() const {}
};

struct Shape {
	const char *what;
	uint64_t bytes;
	uint32_t lanes, slots, variants;
	uint32_t written; // messages per lane
	bool self;
};

static const Shape shapes[] = {
	{"one byte", 1, 1, 1, 1, 1, false},
	{"ping-pong of 3 bytes", 3, 1, 2, 3, 7, false},
	{"ping-pong of 24 bytes", 24, 1, 2, 3, 6, false},
	{"a slot that no message uses", 77, 1, 4, 4, 3, false},
	{"whole lines", 64, 1, 4, 4, 9, false},
	{"all to all", 16, 3, 2, 3, 4, true},
	{"each to all others, odd", 13, 3, 3, 3, 3, false},
	{"no bytes", 0, 1, 2, 3, 5, false},
};

// The windows of all ranks of a launch. Rank 1 is the rank whose targets are compared.
class Windows
{
public:
	explicit Windows(const Shape &shape_)
	    : shape(shape_), layout(shape_.bytes, shape_.lanes, shape_.slots, shape_.variants)
	{
		for (int rank = 0; rank < ranks(); rank++)
			windows.emplace_back(layout.total() / 8);
	}

	int ranks() const { return shape.lanes == 1 ? 2 : static_cast<int>(shape.lanes); }

	bool sends(int rank) const { return shape.self || rank != 1; }

	char *at(int rank, uint64_t offset)
	{
		return reinterpret_cast<char *>(windows[static_cast<size_t>(rank)].data()) + offset;
	}

	char *target(int from, uint32_t slot)
	{
		return at(1, layout.target(layout.lane(from), slot));
	}

	void fill(uint64_t run)
	{
		for (int rank = 0; rank < ranks(); rank++)
			Fill<NoSignals>{{}, {}, traffic(rank, run), at(rank, 0)}();
		of = run;
	}

	// Message k of a rank goes to rank 1, from a variant and to a slot that may be wrong ones.
	void deliver(int from, uint32_t variant, uint32_t slot)
	{
		memcpy(target(from, slot), at(from, layout.source(layout.lane(1), variant)),
		       layout.bytes);
	}

	// All messages of a launch, but for the messages of one rank from number `end` on.
	void launch(uint64_t run, int late = -1, uint32_t end = 0)
	{
		fill(run);
		for (int from = 0; from < ranks(); from++)
			for (uint32_t k = 0; k < shape.written && sends(from); k++)
				if (from != late || k < end)
					deliver(from, k % layout.variants, k % layout.slots);
	}

	uint64_t wrong(Finding *first = nullptr)
	{
		Finding finding;
		Compare{{}, traffic(1, of), at(1, 0), &finding}();
		if (first)
			*first = finding;
		return finding.bytes;
	}

	// By 2 x 3 threads.
	uint64_t wrongByThreads()
	{
		Finding findings[6];
		Compare compare = {{}, traffic(1, of), at(1, 0), findings};
		EXPECT(ginHostLaunch(2, 3, bodyFunction<Compare>, &compare) == ginSuccess);
		uint64_t bytes = 0;
		for (const Finding &finding : findings)
			bytes += finding.bytes;
		return bytes;
	}

	const Shape &shape;
	const BufferLayout layout;

private:
	Traffic traffic(int rank, uint64_t run) const
	{
		return {layout, run, rank, 1 - rank, rank == 1, shape.self, shape.written};
	}

	std::vector<std::vector<uint64_t>> windows;
	uint64_t of = 0; // the launch
};

// Each byte of the targets in turn: messages, guards, slots that no message uses.
static void testEachByte(const Shape &shape)
{
	Windows w(shape);
	w.launch(1);
	EXPECT_EQUAL(w.wrong(), 0);
	EXPECT_EQUAL(w.wrongByThreads(), 0);
	for (uint64_t offset = 0; offset < w.layout.sources; offset++)
		for (int bit = 0; bit < 8; bit += 7) {
			Finding first;
			char flip = static_cast<char>(1 << bit);
			*w.at(1, offset) = static_cast<char>(*w.at(1, offset) ^ flip);
			EXPECT_EQUAL(w.wrong(&first), 1);
			EXPECT_EQUAL(first.at, offset / 8 * 8);
			EXPECT(first.expected == (first.seen ^ 1ull << (offset % 8 * 8 + bit)));
			*w.at(1, offset) = static_cast<char>(*w.at(1, offset) ^ flip);
		}
	for (uint64_t offset = 0; offset < w.layout.sources; offset++)
		*w.at(1, offset) = static_cast<char>(~*w.at(1, offset));
	EXPECT_EQUAL(w.wrong(), w.layout.sources);
	EXPECT_EQUAL(w.wrongByThreads(), w.layout.sources);
}

// Messages that do not arrive, of each rank.
static void testMissing(const Shape &shape)
{
	Windows w(shape);
	for (int from = 0; from < w.ranks(); from++) {
		if (!w.sends(from))
			continue;
		w.launch(1, from, 0);
		EXPECT(w.wrong() > 0);
		w.launch(1, from, shape.written - 1);
		// With as many variants as slots, a slot's messages are equal.
		EXPECT((w.wrong() > 0) ==
		       (shape.variants != shape.slots || shape.written <= shape.slots));
	}
}

// A message of the launch before, in each slot.
static void testStale(const Shape &shape)
{
	Windows w(shape);
	std::vector<char> stale(shape.bytes);
	for (int from = 0; from < w.ranks(); from++)
		for (uint32_t slot = 0;
		     slot < std::min(shape.slots, shape.written) && w.sends(from); slot++) {
			w.launch(1);
			memcpy(stale.data(), w.target(from, slot), shape.bytes);
			w.launch(2);
			EXPECT_EQUAL(w.wrong(), 0);
			memcpy(w.target(from, slot), stale.data(), shape.bytes);
			EXPECT(w.wrong() > 0);
		}
}

// The messages of all ranks and variants to rank 1 differ in each word from each other.
static void testDistinct(const Shape &shape)
{
	Windows w(shape);
	std::vector<uint64_t> words;
	w.fill(1);
	for (int from = 0; from < w.ranks(); from++)
		for (uint32_t variant = 0; variant < shape.variants; variant++)
			for (uint64_t in = 0; in + 8 <= shape.bytes; in += 8) {
				uint64_t word, source = w.layout.source(w.layout.lane(1), variant);
				memcpy(&word, w.at(from, source + in), 8);
				words.push_back(word);
			}
	std::sort(words.begin(), words.end());
	EXPECT(std::adjacent_find(words.begin(), words.end()) == words.end());
}

// The message of rank 0 in the slot of rank 2.
static void testWrongRank()
{
	Windows w(shapes[5]);
	w.launch(1);
	memcpy(w.target(2, 1), w.target(0, 1), w.layout.bytes);
	EXPECT(w.wrong() > 0);
}

// A value at the given share of 1, 2, ... count, which come in another order.
static Statistics ofCount(uint32_t count)
{
	std::vector<double> values;
	for (uint64_t i = 0; i < count; i++)
		values.push_back(static_cast<double>(i * 7919 % count + 1)); // 7919 is prime
	return statisticsOf(values);
}

static void testStatistics()
{
	const uint32_t counts[] = {1, 2, 10, 100, 1000, 5000, 10000, 1000000};
	const double expected[][4] = {{1, 1, 1, 1},
				      {1, 2, 2, 2},
				      {5, 9, 10, 10},
				      {50, 90, 99, 100},
				      {500, 900, 990, 999},
				      {2500, 4500, 4950, 4995},
				      {5000, 9000, 9900, 9990},
				      {500000, 900000, 990000, 999000}};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		Statistics s = ofCount(counts[i]);
		EXPECT_EQUAL(s.least, 1);
		EXPECT_EQUAL(s.most, counts[i]);
		EXPECT_EQUAL(2 * s.mean, counts[i] + 1);
		EXPECT_EQUAL(s.p50, expected[i][0]);
		EXPECT_EQUAL(s.p90, expected[i][1]);
		EXPECT_EQUAL(s.p99, expected[i][2]);
		EXPECT_EQUAL(s.p999, expected[i][3]);
	}
	Statistics none = statisticsOf({});
	EXPECT(none.least == 0 && none.p999 == 0 && none.mean == 0);
}

int main()
{
	for (const Shape &shape : shapes) {
		printf("%s\n", shape.what);
		testEachByte(shape);
		if (!shape.bytes)
			continue;
		testMissing(shape);
		testStale(shape);
		testDistinct(shape);
	}
	testWrongRank();
	testStatistics();
	return 0;
}
