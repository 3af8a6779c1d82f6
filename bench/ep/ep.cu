/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ep.cu - times of ginEpDispatch() and ginEpCombine(), and of a program that moves as many bytes
 *
 *	mpirun -n R ep [-e EXPERTS] [-h HIDDEN] [-k TOPK] [-n TOKENS,...] [-a GRID]
 *	ep -r R ...	ranks are threads of this process, and may share a GPU
 *
 * A column is the mean over the calls of one graph, the median of 5 graph launches, the mean of the
 * ranks. `dispatch`, `combine`, `pair`: graphs of that call alone, by events around the graph.
 * `send`, `recv`: by events between the kernels of a pair. The limits of dispatch and combine:
 * programs without a library, in one kernel of a block for each SM, which move as many bytes by
 * plain loads and stores and a release per block. -a: the limit of dispatch, taken apart, and in
 * two kernels. `wire`: KB that a rank sends to others in dispatch and in combine, and the share of
 * their time that a copy engine takes for as many bytes.
 */
#include "bench.cuh"
#include "ranks.h"

/* Bytes in a microsecond, one way between two H200 by a copy engine, measured. */
static const double linkRate = 391000;

struct Options {
	uint32_t experts = 256, hidden = 7168, topk = 8;
	std::vector<uint32_t> tokens = {1, 8, 32, 64, 128};
	int apart = 0, ranks = 0;
};

static Options parse(int argc, char **argv)
{
	Options o;
	for (int i = 1; i + 1 < argc; i += 2) {
		if (!strcmp(argv[i], "-e"))
			o.experts = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "-h"))
			o.hidden = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "-k"))
			o.topk = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "-a"))
			o.apart = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "-r"))
			o.ranks = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "-n")) {
			o.tokens.clear();
			for (char *at = strtok(argv[i + 1], ","); at; at = strtok(nullptr, ","))
				o.tokens.push_back(atoi(at));
		}
	}
	return o;
}

static void row(Layer &layer, uint32_t rows, uint32_t reduce)
{
	layer.dispatch.rows = rows;
	layer.combine.reduce = reduce;
	layer.describe();
	const double dispatch = layer.time([&] { layer.runDispatch(GIN_EP_BOTH); });
	const double combine = layer.time([&] { layer.runCombine(GIN_EP_BOTH); });
	const double pair = layer.time([&] {
		layer.runDispatch(GIN_EP_BOTH);
		layer.runCombine(GIN_EP_BOTH);
	});
	const std::vector<double> step = layer.steps();
	const double limit = layer.limitPart(rows, limitAll, layer.sms);
	const double limitOfCombine = layer.limitOfCombine(reduce == GIN_EP_REDUCE_RANK);
	const double out = layer.meanOfRanks(layer.wireOf(rows, reduce, false));
	const double back = layer.meanOfRanks(layer.wireOf(rows, reduce, true));
	if (layer.rank == 0)
		printf("%6u %4s %4s | %8.1f %8.1f %8.1f | %6.1f %6.1f %6.1f %6.1f | %6.1f %6.1f | "
		       "%6.2f %6.2f | %6.0f %6.0f %3.0f%% %3.0f%%\n",
		       layer.tokens, rows == GIN_EP_ROWS_F8 ? "fp8" : "bf16",
		       reduce == GIN_EP_REDUCE_RANK ? "rank" : "none", dispatch, combine, pair,
		       step[0], step[1], step[2], step[3], limit, limitOfCombine, dispatch / limit,
		       combine / limitOfCombine, out / 1000, back / 1000,
		       100 * out / linkRate / dispatch, 100 * back / linkRate / combine);
	fflush(stdout);
}

/* Each column has one step more than the previous column. */
static void apart(Layer &layer, int grid)
{
	double us[4];
	for (int part = limitStart; part <= limitAll; part++)
		us[part] = layer.limitPart(GIN_EP_ROWS_F8, part, grid);
	const double two = layer.limitInTwo(GIN_EP_ROWS_F8);
	if (layer.rank == 0)
		printf("limit in one kernel, %d blocks, %u tokens, fp8: empty kernel %.1f, flags "
		       "%.1f, rows %.1f, copies %.1f; in two kernels %.1f\n",
		       grid, layer.tokens, us[0], us[1], us[2], us[3], two);
	fflush(stdout);
}

static Options options;

/* Ranks of this process that share a GPU. */
static int sharing()
{
	int gpus = 0;
	CUDA(cudaGetDeviceCount(&gpus));
	return gpus ? std::max(1, (options.ranks + gpus - 1) / gpus) : 1;
}

static int run(const ginConfig_t *config)
{
	const Options &o = options;
	ginComm_t comm;
	GIN(ginCommInit(config, &comm));
	{
		Layer layer(comm, o.experts, o.topk, o.hidden,
			    *std::max_element(o.tokens.begin(), o.tokens.end()), sharing());
		if (layer.rank == 0)
			printf("%d ranks, %d to a GPU, hidden %u, top-%u of %u experts, "
			       "%u of %d peers direct; us\n"
			       "tokens rows  sum | dispatch  combine     pair |  dsend  drecv  "
			       "csend  crecv | limit of both |    ratios     | wire\n",
			       layer.nRanks, sharing(), o.hidden, o.topk, o.experts, layer.direct,
			       layer.nRanks);
		for (uint32_t tokens : o.tokens) {
			layer.setTokens(tokens);
			row(layer, GIN_EP_ROWS_F8, GIN_EP_REDUCE_RANK);
			row(layer, GIN_EP_ROWS_F8, GIN_EP_REDUCE_NONE);
			row(layer, GIN_EP_ROWS_BF16, GIN_EP_REDUCE_RANK);
			if (o.apart)
				apart(layer, o.apart);
		}
	}
	GIN(ginCommDestroy(comm));
	return 0;
}

int main(int argc, char **argv)
{
	options = parse(argc, argv);
	if (!options.ranks)
		return run(NULL);
	const int *result = ranksStart(options.ranks, 1, run);
	return std::any_of(result, result + options.ranks, [](int one) { return one != 0; });
}
