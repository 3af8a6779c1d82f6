/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * elastic_pipeline.cc - chunks around the ranks, and the other calls that a large framework uses
 *
 * Ring: every rank's message goes once around, added up on the way; a slot is sent on from where it
 * arrived and then given back to the left neighbour. Hierarchy: rails by put, the rest by pointer.
 * Fetch and Collect: gets whose requests are kept in GPU memory between two kernels. Late: waits
 * that end by time, in both ways.
 */
#include "elastic_pipeline.h"

static std::vector<uint32_t> messageOf(uint32_t rank, size_t words, uint64_t round)
{
	std::vector<uint32_t> message(words);
	for (size_t i = 0; i < words; i++)
		message[i] = static_cast<uint32_t>(mix(portSeed(), rank, round, i));
	return message;
}

static uint32_t sumOf(const uint32_t *words, size_t count)
{
	uint32_t sum = 0;
	for (size_t i = 0; i < count; i++)
		sum += words[i];
	return sum;
}

/* All ranks' messages, word by word. */
static std::vector<uint32_t> totalOf(uint32_t ranks, size_t words, uint64_t round)
{
	std::vector<uint32_t> total(words);
	for (uint32_t rank = 0; rank < ranks; rank++) {
		std::vector<uint32_t> message = messageOf(rank, words, round);
		for (size_t i = 0; i < words; i++)
			total[i] += message[i];
	}
	return total;
}

static void ringRounds(Rank &r, uint32_t chunks, uint32_t chunkWords)
{
	const Grid grid = portGrid(r);
	const uint32_t ranks = static_cast<uint32_t>(r.nRanks), channels = grid.blocks;
	const size_t words = static_cast<size_t>(chunks) * chunkWords; /* of a channel */
	Buffer input(r, channels * words * 4), total(r, channels * words * 4);
	Buffer slots(r, channels * (chunks + 2) * chunkWords * 4ull),
		credits(r, channels * 8, wordsAllocator(r));
	Buffer sums(r, ranks * channels * 8);
	credits.write(std::vector<unsigned char>(credits.bytes, 0));
	Results results(r, grid.blocks * grid.threads);
	Communicator device(r, channels + 1, 2, 1, 0);

	for (uint64_t round = 0; round < 6; round++) {
		std::vector<uint32_t> wanted = totalOf(ranks, channels * words, round);
		writeTo(input, messageOf(static_cast<uint32_t>(r.rank), channels * words, round));
		total.write(std::vector<unsigned char>(total.bytes, 0));
		runOn(r, grid, results,
		      Ring{device.dc, input.window, slots.window, credits.window, sums.window,
			   reinterpret_cast<uint32_t *>(total.ptr), chunks, chunkWords});
		EXPECT(readFrom<uint32_t>(total) == wanted);
		std::vector<uint64_t> sum = readFrom<uint64_t>(sums);
		for (size_t i = 0; i < sum.size(); i++)
			EXPECT(sum[i] == widen(sumOf(&wanted[i % channels * words], words)));
	}
	meet(r); /* no rank frees memory while another rank's kernel runs */
}

static void hierarchyOf(Rank &r, uint32_t near, size_t words)
{
	const uint32_t ranks = static_cast<uint32_t>(r.nRanks);
	const Grid grid = {1, portGrid(r).threads};
	Buffer mine(r, words * 4), all(r, ranks * words * 4);
	Results results(r, grid.threads);
	Communicator device(r, 1, 1, 0, 2);

	for (uint64_t round = 0; round < 4; round++) {
		writeTo(mine, messageOf(static_cast<uint32_t>(r.rank), words, round));
		all.poison();
		runOn(r, grid, results,
		      Hierarchy{device.dc, mine.window, all.window, words * 4, near});
		std::vector<uint32_t> got = readFrom<uint32_t>(all);
		for (uint32_t rank = 0; rank < ranks; rank++)
			EXPECT(std::vector<uint32_t>(&got[rank * words],
						     &got[rank * words] + words) ==
			       messageOf(rank, words, round));
	}
	meet(r);
}

static void hierarchies(Rank &r)
{
	std::vector<uint32_t> sizes;
	{
		Communicator device(r, 1, 1, 0, 2);
		sizes = innerSizes(device.dc);
	}
	for (uint32_t near : sizes)
		hierarchyOf(r, near, 333);
}

static void fetches(Rank &r)
{
	const uint32_t ranks = static_cast<uint32_t>(r.nRanks), rows = 40, picks = 9, words = 13;
	const Grid grid = portGrid(r);
	Buffer table(r, rows * words * 4), fetched(r, ranks * picks * words * 4);
	Buffer requests(r, ranks * sizeof(ginRequest));
	Results results(r, grid.blocks * grid.threads);
	Communicator device(r, 2, 0, 0, 0);
	Fetch fetch = {device.dc,
		       table.window,
		       fetched.window,
		       words * 4,
		       rows,
		       picks,
		       0,
		       reinterpret_cast<ginRequest *>(requests.ptr)};

	writeTo(table, messageOf(static_cast<uint32_t>(r.rank), rows * words, 0));
	meet(r); /* all tables are written */
	for (fetch.seed = portSeed(); fetch.seed < portSeed() + 5; fetch.seed++) {
		fetched.poison();
		runOn(r, grid, results, fetch);
		runOn(r, grid, results, Collect{fetch});
		std::vector<uint32_t> got = readFrom<uint32_t>(fetched);
		for (uint32_t i = 0; i < ranks * picks; i++) {
			uint32_t peer = i / picks, row = fetch.pick(peer, i % picks);
			std::vector<uint32_t> wanted = messageOf(peer, rows * words, 0);
			EXPECT(!memcmp(&got[i * words], &wanted[row * words], words * 4));
		}
	}
	meet(r);
}

static void lateness(Rank &r)
{
	Buffer words(r, 64, wordsAllocator(r));
	words.write(std::vector<unsigned char>(64, 0));
	Results results(r, 1);
	Communicator device(r, 1, 1, 0, 0);

	for (int round = 0; round < 3; round++)
		runOn(r, Grid{1, 1}, results, Late{device.dc, words.window});
	meet(r);
}

static int run(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	portSay(r, "elastic_pipeline");
	ringRounds(r, 1, 5);
	ringRounds(r, 4, 37);
	ringRounds(r, 7, r.device < 0 ? 250 : 25000);
	hierarchies(r);
	fetches(r);
	lateness(r);
	rankClose(r);
	return 0;
}

int main(int argc, char **argv)
{
	return portMain(argc, argv, run);
}
