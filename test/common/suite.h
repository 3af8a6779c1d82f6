/* SPDX-License-Identifier: BSD-3-Clause */
/* suite.h - shared code of the semantics suite: patterns, neighbours, and main() */
#ifndef GIN_TEST_SUITE_H
#define GIN_TEST_SUITE_H

#include "harness.h"

/* Byte i of the message of `sender` in `round`; never the poison's 0x5a. */
GIN_FN unsigned char pattern(uint32_t sender, uint32_t round, size_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + sender * 0xd1342543de82ef95ull +
		     round * 0xaef17502108ef2d9ull;
	unsigned char byte = static_cast<unsigned char>(x >> 32 ^ x >> 11);
	return byte == 0x5a ? 0xa5 : byte;
}

GIN_FN int rightOf(const ginDevComm &dc)
{
	return static_cast<int>((dc.rank + 1) % dc.nRanks);
}
GIN_FN int leftOf(const ginDevComm &dc)
{
	return static_cast<int>((dc.rank + dc.nRanks - 1) % dc.nRanks);
}

/* Threads that make one call together; the host's numbers are small and no multiple of a warp. */
template <class Coop> uint32_t blockFor(const Rank &r);
template <> inline uint32_t blockFor<GinThread>(const Rank &)
{
	return 1;
}
template <> inline uint32_t blockFor<GinWarp>(const Rank &r)
{
	return r.device < 0 ? GIN_HOST_WARP : 32;
}
template <> inline uint32_t blockFor<GinCta>(const Rank &r)
{
	return r.device < 0 ? 6 : 160;
}

/* Puts of every size and alignment: cell after cell, each with poison on both sides. */
struct Cells {
	uint32_t sizes[24];
	uint32_t nSizes, cell;

	GIN_FN uint32_t count() const { return nSizes * 9; }
	GIN_FN size_t bytes(uint32_t c) const { return sizes[c / 9]; }

	/* Offsets of source and target in the cell. */
	GIN_FN size_t from(uint32_t c) const
	{
		return base(c) + (0x7f8483010u >> (c % 9 * 4) & 15);
	}
	GIN_FN size_t to(uint32_t c) const { return base(c) + (0x782845100u >> (c % 9 * 4) & 15); }
	GIN_FN size_t base(uint32_t c) const { return static_cast<size_t>(c) * cell + 16; }
	size_t total() const { return static_cast<size_t>(count()) * cell + 16; }
};

inline void fillPattern(Rank &r, Buffer &source)
{
	std::vector<unsigned char> bytes(source.bytes);
	for (size_t i = 0; i < bytes.size(); i++)
		bytes[i] = pattern(static_cast<uint32_t>(r.rank), 0, i);
	source.write(bytes);
}

/* The expected bytes of `target` after all cells of `sender`. */
inline std::vector<unsigned char> expectedCells(const Cells &cells, int sender)
{
	std::vector<unsigned char> expected(cells.total(), 0x5a);
	for (uint32_t c = 0; c < cells.count(); c++)
		for (size_t i = 0; i < cells.bytes(c); i++)
			expected[cells.to(c) + i] =
				pattern(static_cast<uint32_t>(sender), 0, cells.from(c) + i);
	return expected;
}

inline bool isDirect(Rank &r, int peer)
{
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;
	CHECK(ginCommQueryPeer(r.comm, peer, &info));
	return info.route == ginRouteDirect;
}

/* To all peers? GIN_ROUTE=network says otherwise, and may be another for each rank. */
inline bool isDirect(Rank &r)
{
	for (int peer = 0; peer < r.nRanks; peer++)
		if (!isDirect(r, peer))
			return false;
	return true;
}

/* A test of the suite, with the name of the rule of gin_memory_model(7) that it checks. */
struct Test {
	const char *name;
	void (*run)(Rank &);
};

/*
 * Runs the tests on this rank. VERBOSE=1 prints names; TEST=word selects tests by a word in the
 * name.
 */
template <size_t n> void runTests(Rank &r, const char *suite, const Test (&tests)[n])
{
	const char *only = getenv("TEST");
	size_t ran = 0;
	for (const Test &test : tests) {
		if (only && !strstr(test.name, only))
			continue;
		ran++;
		if (r.rank == 0 && getenv("VERBOSE"))
			fprintf(stderr, "%s\n", test.name);
		test.run(r);
	}
	if (r.rank == 0)
		printf("%s: %zu of %zu tests, %d ranks on %s\n", suite, ran, n, r.nRanks,
		       r.device < 0 ? "host threads" : "GPUs");
}

/* main() of a file of the suite. */
inline int suiteMain(int argc, char **argv, int (*run)(const ginConfig_t *config))
{
	shareGpu();
	return ranksMain(argc, argv, run);
}

/* main() of a file that is a table of tests of one communicator. */
template <size_t n> int suiteMain(int argc, char **argv, const char *suite, const Test (&tests)[n])
{
	static const char *const name = suite;
	static const Test(&all)[n] = tests;

	return suiteMain(argc, argv, [](const ginConfig_t *config) {
		Rank r;
		rankOpen(r, config);
		runTests(r, name, all);
		rankClose(r);
		return 0;
	});
}

/* Ends a test that lacks something. */
[[noreturn]] inline void skip(const char *why)
{
	puts(why);
	fflush(stdout);
	_exit(77);
}

#endif
