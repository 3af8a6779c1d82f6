/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench.cuh - one MoE layer of low latency
 */
#ifndef GIN_BENCH_EP_CUH
#define GIN_BENCH_EP_CUH

#include "limit_combine.cuh"
#include "measure.cuh"

struct Layer : Measured {
	int sms;
	/*
	 * Blocks of a kernel, at most. Ranks that share a GPU have SMs of their own: kernels that
	 * need different amounts of shared memory may not run on an SM at a time, and one rank's
	 * receive waits for the other rank's send.
	 */
	int blocks;
	uint32_t experts, topk, hidden, maxTokens, tokens, local, direct;
	void *x, *idx, *weights, *handle, *recvX, *recvScales, *recvCount, *y, *out;
	ginEpDispatchArgs_t dispatch = GIN_EP_DISPATCH_ARGS_INIT;
	ginEpCombineArgs_t combine = GIN_EP_COMBINE_ARGS_INIT;
	Limit limits;
	LimitOfCombine partLimits;
	std::vector<int64_t> chosen; /* experts of the tokens */

	/* `sharing`: ranks of one GPU. */
	Layer(ginComm_t c, uint32_t e, uint32_t k, uint32_t h, uint32_t most, int sharing)
	    : Measured(c), experts(e), topk(k), hidden(h), maxTokens(most), tokens(most)
	{
		ginEpConfig_t config = GIN_EP_CONFIG_INIT;
		ginEpInfo_t info = GIN_EP_INFO_INIT;
		CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
		blocks = sharing > 1 ? sms / sharing : 2 * sms;
		sms = std::min(sms, blocks);
		config.experts = experts;
		config.topk = topk;
		config.hidden = hidden;
		config.maxTokens = most;
		config.timeout = 5000000000ull;
		if (sharing > 1)
			config.maxSms = blocks;
		if (getenv("EP_SMS"))
			config.maxSms = atoi(getenv("EP_SMS"));
		EP(ginEpCreate(comm, &config, &ep));
		EP(ginEpQuery(ep, &info));
		local = info.localExperts;
		direct = info.directPeers;
		limits.open(comm, rank, nRanks, most, topk, hidden, blocks);
		partLimits.open(&limits, hidden);
		allocate(info);
	}

	~Layer()
	{
		partLimits.close();
		limits.close();
	}

	void allocate(const ginEpInfo_t &info)
	{
		const size_t rows = (size_t)local * info.recvRows;
		const size_t bytes = std::max(rows * hidden * 2, limits.outBytes());
		x = take((size_t)maxTokens * hidden * 2);
		idx = take((size_t)maxTokens * topk * 8);
		weights = take((size_t)maxTokens * topk * 4);
		handle = take(info.handleBytes);
		recvX = take(bytes);
		recvScales = take(rows * ((hidden + 127) / 128) * 4);
		recvCount = take(local * 4);
		y = take(bytes);
		out = take((size_t)maxTokens * hidden * 2);
	}

	/* Distinct random experts for each token. */
	void setTokens(uint32_t n)
	{
		tokens = n;
		chosen.clear();
		std::vector<float> w(n * topk, 1.0f / topk);
		uint64_t bits = 12345 + rank;
		for (uint32_t t = 0; t < n; t++)
			while (chosen.size() < (size_t)(t + 1) * topk) {
				bits = bits * 6364136223846793005ull + 1442695040888963407ull;
				int64_t e = (bits >> 33) % experts;
				if (std::find(chosen.begin() + t * topk, chosen.end(), e) ==
				    chosen.end())
					chosen.push_back(e);
			}
		CUDA(cudaMemcpy(idx, chosen.data(), chosen.size() * 8, cudaMemcpyHostToDevice));
		CUDA(cudaMemcpy(weights, w.data(), w.size() * 4, cudaMemcpyHostToDevice));
		limits.setTokens(chosen, n, experts);
	}

	/*
	 * Bytes of the rows that go to other ranks, for the tokens of this rank: in a dispatch, a
	 * header of 16 bytes, 8 for each expert, the row and its scales; in a combine the rows that
	 * come back.
	 */
	double wireOf(uint32_t rows, uint32_t reduce, bool ofCombine) const
	{
		const uint32_t each = (experts + nRanks - 1) / nRanks;
		const uint32_t row =
			rows == GIN_EP_ROWS_F8 ? hidden + (hidden + 127) / 128 * 4 : hidden * 2;
		double bytes = 0;
		for (uint32_t t = 0; t < tokens; t++) {
			std::vector<uint32_t> items(nRanks);
			for (uint32_t k = 0; k < topk; k++)
				items[chosen[t * topk + k] / each]++;
			for (int r = 0; r < nRanks; r++) {
				const uint32_t n = r == rank ? 0 : items[r];
				const uint32_t back = reduce == GIN_EP_REDUCE_RANK ? n > 0 : n;
				bytes += ofCombine ? back * hidden * 2.0
					 : n	   ? 16 + 8.0 * n + row
						   : 0;
			}
		}
		return bytes;
	}

	void describe()
	{
		const int64_t T = tokens, K = topk, H = hidden, R = (int64_t)nRanks * maxTokens;
		const bool f8 = dispatch.rows == GIN_EP_ROWS_F8;
		dispatch.handle = combine.handle = handle;
		dispatch.hidden = combine.hidden = hidden;
		dispatch.x = tensorOf(x, ginEpBf16, {T, H});
		dispatch.topkIdx = combine.topkIdx = tensorOf(idx, ginEpI64, {T, K});
		dispatch.topkWeights = combine.topkWeights = tensorOf(weights, ginEpF32, {T, K});
		dispatch.recvX = tensorOf(recvX, f8 ? ginEpF8E4m3 : ginEpBf16, {local, R, H});
		dispatch.recvScales = tensorOf(recvScales, ginEpF32, {local, R, (H + 127) / 128});
		dispatch.recvScales.stride[1] = 1;
		dispatch.recvScales.stride[2] = R;
		dispatch.recvCount = tensorOf(recvCount, ginEpI32, {local});
		combine.x = tensorOf(y, ginEpBf16, {local, R, H});
		combine.out = tensorOf(out, ginEpBf16, {T, H});
	}

	void runDispatch(uint32_t phase)
	{
		dispatch.phase = phase;
		EP(ginEpDispatch(ep, &dispatch, stream));
	}

	void runCombine(uint32_t phase)
	{
		combine.phase = phase;
		EP(ginEpCombine(ep, &combine, stream));
	}

	/* Microseconds of the four kernels of a pair, by events between them. */
	std::vector<double> steps()
	{
		cudaEvent_t event[CALLS][5];
		std::vector<double> sum[4], mean;
		for (auto &one : event)
			for (cudaEvent_t &e : one)
				CUDA(cudaEventCreate(&e));
		const auto mark = [&](cudaEvent_t e) {
			CUDA(cudaEventRecordWithFlags(e, stream, cudaEventRecordExternal));
		};
		cudaGraphExec_t exec = capture([&] {
			for (auto &e : event) {
				mark(e[0]);
				runDispatch(GIN_EP_SEND);
				mark(e[1]);
				runDispatch(GIN_EP_RECV);
				mark(e[2]);
				runCombine(GIN_EP_SEND);
				mark(e[3]);
				runCombine(GIN_EP_RECV);
				mark(e[4]);
			}
		});
		for (int i = 0; i < LAUNCHES; i++) {
			GIN(ginCommAllgather(comm, nullptr, nullptr, 0));
			CUDA(cudaGraphLaunch(exec, stream));
			CUDA(cudaStreamSynchronize(stream));
			check();
			for (int c = 3; c < CALLS; c++)
				for (int s = 0; s < 4; s++) {
					float ms = 0;
					CUDA(cudaEventElapsedTime(&ms, event[c][s],
								  event[c][s + 1]));
					sum[s].push_back(ms * 1000);
				}
		}
		for (auto &s : sum)
			mean.push_back(meanOfRanks(median(s)));
		/* The kernels of all ranks have ended. */
		CUDA(cudaGraphExecDestroy(exec));
		for (auto &one : event)
			for (cudaEvent_t e : one)
				CUDA(cudaEventDestroy(e));
		return mean;
	}

	/* One part of a dispatch by the limit program, in one kernel of `grid` blocks. */
	double limitPart(uint32_t kind, int part, int grid)
	{
		return time([&] { limits.runPart(kind, part, grid, recvX, stream); });
	}

	double limitInTwo(uint32_t rows)
	{
		return time([&] { limits.run(rows, recvX, stream); });
	}

	double limitOfCombine(bool sums)
	{
		partLimits.setTokens(chosen, tokens, experts, sums);
		return time([&] { partLimits.run(sums, sms, y, stream); });
	}
};

#endif
