/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ht.cu - times of high throughput, and of programs that move as many bytes on as many SMs
 *
 *	mpirun -n R ht [-e EXPERTS] [-h HIDDEN] [-k TOPK] [-n TOKENS] [-g BLOCKS,...] [-l 0]
 *	ht -r R ...	ranks are threads of this process, and may share a GPU
 *
 * A column is the mean over the calls of one graph, the median of 5 graph launches, the mean of the
 * ranks; its limit is measured next to it, but not with `-l 0`: limit_ht.cuh, the fastest of its
 * shapes. `through`:
 * recvX, or x of combine, is memory of its own; `straight`: it is the pool. `wire`: GB/s that a
 * rank stores at others, or loads from them. `host`: from the call of layout to the counts.
 */
#include "measure.cuh"

#include "limit_ht.cuh"
#include "ranks.h"

#include <chrono>

struct Options {
	uint32_t experts = 256, hidden = 7168, topk = 8, tokens = 4096;
	std::vector<int> blocks = {12, 20, 24};
	int ranks = 0;
	bool limits = true;
};

static Options options;

static Options parse(int argc, char **argv)
{
	Options o;
	for (int i = 1; i + 1 < argc; i += 2) {
		const uint32_t n = atoi(argv[i + 1]);
		if (!strcmp(argv[i], "-e"))
			o.experts = n;
		else if (!strcmp(argv[i], "-h"))
			o.hidden = n;
		else if (!strcmp(argv[i], "-k"))
			o.topk = n;
		else if (!strcmp(argv[i], "-n"))
			o.tokens = n;
		else if (!strcmp(argv[i], "-r"))
			o.ranks = n;
		else if (!strcmp(argv[i], "-l"))
			o.limits = n;
		else if (!strcmp(argv[i], "-g")) {
			o.blocks.clear();
			for (char *at = strtok(argv[i + 1], ","); at; at = strtok(nullptr, ","))
				o.blocks.push_back(atoi(at));
		}
	}
	return o;
}

/* The calls of one layer. */
struct HtLayer : Measured {
	const uint32_t T, K, H, E;
	uint32_t n = 0, ticket = 0; /* rows of this rank */
	void *x, *scales, *idx, *weights, *goes, *perRank, *perExpert, *handle, *pool;
	void *recvX, *recvScales, *recvIdx, *recvWeights, *y, *out;
	LimitHt limit;
	bool failed = false;

	HtLayer(ginComm_t c, const Options &o)
	    : Measured(c), T(o.tokens), K(o.topk), H(o.hidden), E(o.experts)
	{
		ginEpConfig_t config = GIN_EP_CONFIG_INIT;
		uint64_t bytes;
		config.modes = GIN_EP_HT;
		config.experts = E;
		config.topk = K;
		config.hidden = H;
		config.htTokens = T;
		config.timeout = 5000000000ull;
		EP(ginEpCreate(comm, &config, &ep));
		EP(ginEpHtPool(ep, &pool, &bytes));
		EP(ginEpHtHandleBytes(ep, T, &bytes));
		handle = take(bytes);
		x = take((size_t)T * H * 2);
		scales = take((size_t)T * (H / 128) * 4);
		idx = take((size_t)T * K * 8);
		weights = take((size_t)T * K * 4);
		goes = take((size_t)T * nRanks);
		perRank = take(nRanks * 4);
		perExpert = take(E * 4);
		out = take((size_t)T * H * 2);
		limit.open(comm, rank, nRanks, T, H);
		route();
	}

	~HtLayer() { limit.close(); }

	/* Distinct random experts for each token; the rows that come. */
	void route()
	{
		std::vector<int64_t> chosen;
		std::vector<uint8_t> to((size_t)T * nRanks);
		std::vector<float> w(T * K, 1.0f / K);
		uint64_t bits = 777 + rank;
		while (chosen.size() < (size_t)T * K) {
			bits = bits * 6364136223846793005ull + 1442695040888963407ull;
			const int64_t e = (bits >> 33) % E;
			const auto token = chosen.end() - chosen.size() % K;
			if (std::find(token, chosen.end(), e) == chosen.end())
				chosen.push_back(e);
		}
		CUDA(cudaMemcpy(idx, chosen.data(), chosen.size() * 8, cudaMemcpyHostToDevice));
		CUDA(cudaMemcpy(weights, w.data(), w.size() * 4, cudaMemcpyHostToDevice));
		n = counts().rows;
		CUDA(cudaMemcpy(to.data(), goes, to.size(), cudaMemcpyDeviceToHost));
		recvX = take((size_t)n * H * 2);
		recvScales = take((size_t)n * (H / 128) * 4);
		recvIdx = take((size_t)n * K * 8);
		recvWeights = take((size_t)n * K * 4);
		y = take((size_t)n * H * 2);
		limit.setTokens(to, T);
	}

	void layout()
	{
		ginEpHtLayoutArgs_t in = GIN_EP_HT_LAYOUT_ARGS_INIT;
		in.experts = E;
		in.topkIdx = tensorOf(idx, ginEpI64, {T, K});
		in.tokensPerRank = tensorOf(perRank, ginEpI32, {nRanks});
		in.tokensPerExpert = tensorOf(perExpert, ginEpI32, {E});
		in.isTokenInRank = tensorOf(goes, ginEpU8, {T, nRanks});
		EP(ginEpHtLayout(comm, &in, stream));
	}

	void notify(uint32_t *ticketOf)
	{
		ginEpHtNotifyArgs_t in = GIN_EP_HT_NOTIFY_ARGS_INIT;
		in.handle = handle;
		in.isTokenInRank = tensorOf(goes, ginEpU8, {T, nRanks});
		in.tokensPerExpert = tensorOf(perExpert, ginEpI32, {E});
		EP(ginEpHtNotify(ep, &in, stream, ticketOf));
	}

	ginEpHtCounts_t counts()
	{
		ginEpHtCounts_t seen = GIN_EP_HT_COUNTS_INIT;
		layout();
		notify(&ticket);
		EP(ginEpHtCounts(ep, ticket, 5000000000ull, &seen));
		return seen;
	}

	/* Without a handle's experts when `cached`. */
	void dispatch(bool f8, bool cached, bool straight, int blocks)
	{
		ginEpHtDispatchArgs_t in = GIN_EP_HT_DISPATCH_ARGS_INIT;
		const int type = f8 ? ginEpF8E4m3 : ginEpBf16;
		in.handle = handle;
		in.sms = blocks;
		in.x = tensorOf(x, type, {T, H});
		in.recvX = tensorOf(straight ? pool : recvX, type, {n, H});
		if (f8) {
			in.scales = tensorOf(scales, ginEpF32, {T, H / 128});
			in.recvScales = tensorOf(recvScales, ginEpF32, {n, H / 128});
		}
		if (!cached) {
			in.topkIdx = tensorOf(idx, ginEpI64, {T, K});
			in.topkWeights = tensorOf(weights, ginEpF32, {T, K});
			in.recvTopkIdx = tensorOf(recvIdx, ginEpI64, {n, K});
			in.recvTopkWeights = tensorOf(recvWeights, ginEpF32, {n, K});
		}
		EP(ginEpHtDispatch(ep, &in, stream));
	}

	void combine(bool straight, int blocks)
	{
		ginEpHtCombineArgs_t in = GIN_EP_HT_COMBINE_ARGS_INIT;
		in.handle = handle;
		in.sms = blocks;
		in.x = tensorOf(straight ? pool : y, ginEpBf16, {n, H});
		in.out = tensorOf(out, ginEpBf16, {T, H});
		EP(ginEpHtCombine(ep, &in, stream));
	}

	/* The whole of layout, notify and counts, as the host sees them. */
	double host()
	{
		std::vector<double> times;
		for (int i = 0; i < 30; i++) {
			GIN(ginCommAllgather(comm, nullptr, nullptr, 0));
			const auto begin = std::chrono::steady_clock::now();
			counts();
			times.push_back(std::chrono::duration<double, std::micro>(
						std::chrono::steady_clock::now() - begin)
						.count());
			CUDA(cudaStreamSynchronize(stream));
		}
		return meanOfRanks(median(times));
	}

	/* The limit's time by one shape; 0: there is no room, or its bytes are wrong. */
	double limitOf(const LimitHtShape &shape, bool sums, bool f8, int blocks)
	{
		const uint32_t row = f8 ? H : 2 * H;
		const uint32_t meta = ((f8 ? 4 + H / 128 * 4 : 4) + 15) / 16 * 16;
		double us = 0;
		/* Equal on all ranks: tables have the size of the tokens, which are equal. */
		if (!options.limits || !limit.describe(shape, sums, row, meta, blocks))
			return 0;
		limit.fill(sums, row);
		GIN(ginCommAllgather(comm, nullptr, nullptr, 0));
		for (int i = 0; i < 2; i++) {
			limit.run(blocks, stream);
			CUDA(cudaStreamSynchronize(stream));
			GIN(ginCommAllgather(comm, nullptr, nullptr, 0));
		}
		const double wrong = meanOfRanks(limit.wrong());
		if (wrong) {
			fprintf(stderr, "the limit program, %s, %d blocks: wrong bytes\n",
				shape.name, blocks);
			failed = true;
			return 0;
		}
		us = time([&] { limit.run(blocks, stream); });
		GIN(ginCommAllgather(comm, nullptr, nullptr, 0));
		return us;
	}

	template <size_t many> double limitOf(const LimitHtShape (&shapes)[many], int blocks)
	{
		double best = 0;
		for (const LimitHtShape &shape : shapes) {
			const double us = limitOf(shape, true, false, blocks);
			best = us && (!best || us < best) ? us : best;
		}
		return best;
	}

	void row(const char *name, int blocks, bool f8, double us, double least)
	{
		const double bytes = meanOfRanks(limit.wire(f8 ? H : 2 * H, 0));
		if (rank == 0)
			printf("%-28s %6d %8.1f %8.1f %6.2f %6.0f\n", name, blocks, us, least,
			       least ? us / least : 0, bytes / us / 1000);
		fflush(stdout);
	}

	void dispatches(bool f8, int blocks)
	{
		const LimitHtShape &through = f8 ? limitHtThroughF8 : limitHtThrough;
		const char *const names[] = {"dispatch bf16, through", "dispatch bf16, straight",
					     "dispatch bf16, experts", "dispatch fp8, through",
					     "dispatch fp8, straight", "dispatch fp8, experts"};
		const double least = limitOf(through, false, f8, blocks);
		row(names[f8 * 3], blocks, f8, time([&] { dispatch(f8, true, false, blocks); }),
		    least);
		row(names[f8 * 3 + 1], blocks, f8, time([&] { dispatch(f8, true, true, blocks); }),
		    limitOf(limitHtStraight, false, f8, blocks));
		row(names[f8 * 3 + 2], blocks, f8,
		    time([&] { dispatch(f8, false, false, blocks); }), least);
	}

	void combines(int blocks)
	{
		row("combine, through", blocks, false, time([&] { combine(false, blocks); }),
		    limitOf(limitHtStagedSums, blocks));
		row("combine, straight", blocks, false, time([&] { combine(true, blocks); }),
		    limitOf(limitHtSums, blocks));
	}
};

static int run(const ginConfig_t *config)
{
	const Options &o = options;
	ginComm_t comm;
	bool failed;
	GIN(ginCommInit(config, &comm));
	{
		HtLayer layer(comm, o);
		const double layout = layer.time([&] { layer.layout(); });
		const double notify = layer.time([&] { layer.notify(nullptr); });
		const double host = layer.host();
		if (layer.rank == 0)
			printf("%d ranks, %u tokens, hidden %u, top-%u of %u experts; us\n"
			       "layout %.1f, notify %.1f, host: layout to counts %.1f\n%-28s %6s "
			       "%8s %8s %6s %6s\n",
			       layer.nRanks, o.tokens, o.hidden, o.topk, o.experts, layout, notify,
			       host, "", "blocks", "us", "limit", "ratio", "wire");
		for (int blocks : o.blocks) {
			layer.dispatches(true, blocks);
			layer.dispatches(false, blocks);
			layer.combines(blocks);
		}
		failed = layer.failed;
	}
	GIN(ginCommDestroy(comm));
	return failed;
}

int main(int argc, char **argv)
{
	options = parse(argc, argv);
	if (!options.ranks)
		return run(NULL);
	const int *result = ranksStart(options.ranks, 1, run);
	return std::any_of(result, result + options.ranks, [](int one) { return one != 0; });
}
