/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rmsnorm.cc - a sum over the ranks and an RMS norm in one kernel, with its own communication
 *
 * Every rank has an addend of all rows, as after a matrix product that is split over the ranks. An
 * alltoall sends the addends of a row to the rank that owns it, which adds and normalises them, and
 * sends the row to all ranks. A block processes its rows from start to end, in a context of its
 * own, so that blocks never wait for each other.
 *
 * The result is compared with doubles on the host. Addends are multiples of 1/64 below 1, so that
 * the sum is exact. The remaining relative roundings of 2^-24 are: one for each square that is
 * added to the others, one for the mean and one for epsilon, all of which the root halves; one each
 * for the root, its reciprocal and two products. The tolerance, length * 2^-24 + 2^-21, is less
 * than twice that.
 */
#include <math.h>

#include "port.h"

#define EPSILON 1e-5f

enum { ARRIVED = 0, RETURNED = 1 };

GIN_FN float partOf(uint64_t seed, uint32_t rank, uint32_t row, uint32_t column)
{
	int n = static_cast<int>(mix(seed, rank, row, column) % 127) - 63;
	return static_cast<float>(n) / 64;
}

GIN_FN float weightOf(uint32_t column)
{
	return 0.5f + static_cast<float>(column % 7) / 8;
}

struct Norm {
	ginDevComm dc;
	ginWindow_t parts; /* all rows, this rank's addends */
	ginWindow_t inbox; /* own rows, the addends of each rank */
	ginWindow_t mine;  /* own rows, normalised */
	ginWindow_t out;   /* all rows, normalised */
	float *scratch;	   /* a word for each thread */
	uint32_t rows;	   /* rows that a rank owns */
	uint32_t length;

	GIN_FN int self() const { return rankOf(dc.rank); }
	GIN_FN uint32_t firstRow() const { return rows * ginBlockIndex() / ginGridSize(); }
	GIN_FN uint32_t endRow() const { return rows * (ginBlockIndex() + 1) / ginGridSize(); }

	/* The offset of row `row` of `owner`, if rows lie one after the other. */
	GIN_FN size_t place(int owner, uint32_t row) const
	{
		return (static_cast<size_t>(owner) * rows + row) * length * sizeof(float);
	}

	GIN_FN size_t blockBytes() const { return place(0, endRow()) - place(0, firstRow()); }

	GIN_FN float *rowAt(ginWindow_t window, int owner, uint32_t row) const
	{
		return static_cast<float *>(ginPeerPointer(window, place(owner, row), self()));
	}

	/* Every put has its own signal: weak signals suffice. */
	GIN_FN ginResult_t sendParts(const Gin &gin) const
	{
		for (uint32_t p = 0; p < dc.nRanks; p++) {
			int owner = rankOf((dc.rank + p) % dc.nRanks);
			TRY(gin.put(ginTeamWorld(dc), owner, inbox, place(self(), firstRow()),
				    parts, place(owner, firstRow()), blockBytes(),
				    GinWeakSignalInc{ARRIVED}, GinNone{}, GinCta{}));
		}
		return ginSuccess;
	}

	GIN_FN ginResult_t sendBack(const Gin &gin) const
	{
		for (uint32_t p = 0; p < dc.nRanks; p++) {
			int peer = rankOf((dc.rank + p) % dc.nRanks);
			TRY(gin.put(ginTeamWorld(dc), peer, out, place(self(), firstRow()), mine,
				    place(0, firstRow()), blockBytes(), GinWeakSignalInc{RETURNED},
				    GinNone{}, GinCta{}));
		}
		return ginSuccess;
	}

	/* The sum of the values of the block's threads, for all of them. */
	GIN_FN float sumOfBlock(float value) const
	{
		float *own = scratch + static_cast<size_t>(ginBlockIndex()) * ginBlockSize();
		float sum = 0;

		own[ginThreadIndex()] = value;
		GinCta{}.sync();
		for (uint32_t t = 0; t < ginBlockSize(); t++)
			sum += own[t];
		GinCta{}.sync(); /* all threads have read it before the next row */
		return sum;
	}

	GIN_FN float addParts(uint32_t row, uint32_t column) const
	{
		float sum = 0;
		for (uint32_t p = 0; p < dc.nRanks; p++)
			sum += rowAt(inbox, rankOf(p), row)[column];
		return sum;
	}

	GIN_FN void normalise(uint32_t row) const
	{
		float *result = rowAt(mine, 0, row), squares = 0;
		for (uint32_t i = ginThreadIndex(); i < length; i += ginBlockSize()) {
			result[i] = addParts(row, i);
			squares += result[i] * result[i];
		}
		float mean = sumOfBlock(squares) / static_cast<float>(length);
		float scale = 1 / sqrtf(mean + EPSILON);
		for (uint32_t i = ginThreadIndex(); i < length; i += ginBlockSize())
			result[i] = result[i] * scale * weightOf(i);
	}

	GIN_FN ginResult_t run() const
	{
		Gin gin(dc, ginBlockIndex());
		const GinBarrier barrier(dc, ginTeamWorld(dc), ginBlockIndex());
		const uint64_t arrived = gin.readSignal(ARRIVED);
		const uint64_t returned = gin.readSignal(RETURNED);

		TRY(barrier.sync(GinCta{}));
		TRY(sendParts(gin));
		TRY(gin.waitSignal(ARRIVED, arrived + dc.nRanks, GinCta{}));
		for (uint32_t row = firstRow(); row < endRow(); row++)
			normalise(row);
		TRY(sendBack(gin));
		TRY(gin.waitSignal(RETURNED, returned + dc.nRanks, GinCta{}));
		TRY(gin.flush(GinCta{}));
		return barrier.sync(GinCta{});
	}
};

struct Trial {
	Rank &r;
	uint32_t rows, length, ranks;
	uint64_t seed;

	uint32_t allRows() const { return rows * ranks; }

	std::vector<float> parts() const
	{
		std::vector<float> all;
		for (uint32_t row = 0; row < allRows(); row++)
			for (uint32_t i = 0; i < length; i++)
				all.push_back(partOf(seed, static_cast<uint32_t>(r.rank), row, i));
		return all;
	}

	std::vector<double> reference(uint32_t row) const
	{
		std::vector<double> sum(length);
		double squares = 0;
		for (uint32_t i = 0; i < length; i++) {
			for (uint32_t p = 0; p < ranks; p++)
				sum[i] += static_cast<double>(partOf(seed, p, row, i));
			squares += sum[i] * sum[i];
		}
		double scale = 1 / sqrt(squares / length + static_cast<double>(EPSILON));
		for (uint32_t i = 0; i < length; i++)
			sum[i] *= scale * static_cast<double>(weightOf(i));
		return sum;
	}

	void compare(const std::vector<float> &got) const
	{
		const double tolerance = ldexp(length, -24) + ldexp(1, -21);
		for (uint32_t row = 0; row < allRows(); row++) {
			const std::vector<double> wanted = reference(row);
			for (uint32_t i = 0; i < length; i++) {
				double value = static_cast<double>(got[row * length + i]);
				EXPECT(fabs(value - wanted[i]) <= tolerance * fabs(wanted[i]));
			}
		}
	}
};

static void norms(Rank &r, uint32_t rows, uint32_t length)
{
	const Grid grid = portGrid(r);
	const uint32_t ranks = static_cast<uint32_t>(r.nRanks);
	const size_t own = sizeof(float) * rows * length;
	Buffer parts(r, own * ranks), inbox(r, own * ranks), mine(r, own), out(r, own * ranks);
	Buffer scratch(r, sizeof(float) * grid.blocks * grid.threads);
	Results results(r, grid.blocks * grid.threads);
	Communicator device(r, grid.blocks, 2, 0, grid.blocks);

	for (uint64_t round = 0; round < 4; round++) {
		const Trial trial = {r, rows, length, ranks, portSeed() + round};
		writeTo(parts, trial.parts());
		out.poison();
		runOn(r, grid, results,
		      Norm{device.dc, parts.window, inbox.window, mine.window, out.window,
			   reinterpret_cast<float *>(scratch.ptr), rows, length});
		trial.compare(readFrom<float>(out));
	}
	meet(r); /* no rank frees memory while another rank's kernel runs */
}

static int run(const ginConfig_t *config)
{
	Rank r;
	rankOpen(r, config);
	portSay(r, "rmsnorm");
	const uint32_t rows = r.device < 0 ? 5 : 64;
	for (uint32_t length : {1u, 7u, 32u, 97u})
		norms(r, rows, length);
	norms(r, 1, 64); /* fewer rows than blocks */
	if (r.device >= 0)
		norms(r, rows, 1024);
	rankClose(r);
	return 0;
}

int main(int argc, char **argv)
{
	return portMain(argc, argv, run);
}
