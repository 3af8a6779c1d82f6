/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graphs.cc - graphs with one, two and three layers, replayed, with eager calls between: the epochs
 * are in device memory, so any number of replays is right
 *
 * REPLAYS=n sets the number of replays.
 */
#include "rig.h"

#ifdef __CUDACC__

static Round roundOf(Rank &r, uint64_t seed, uint32_t kind)
{
	Round round = {};
	round.ranks = static_cast<uint32_t>(r.nRanks);
	round.experts = 8 * round.ranks;
	round.topk = 6;
	round.hidden = 2048;
	round.maxTokens = 24;
	round.seed = seed;
	round.tokens.assign(round.ranks, 24);
	round.rows = kind % 2 ? GIN_EP_ROWS_F8 : GIN_EP_ROWS_BF16;
	round.reduce = kind % 2 ? GIN_EP_REDUCE_RANK : GIN_EP_REDUCE_NONE;
	round.weighted = round.wide = true;
	for (uint32_t i = 0; i <= round.ranks; i++)
		round.first.push_back(8 * i);
	return round;
}

/* recvStats grows by one dispatch after the other: only the other outputs are compared. */
static void layer(ginEp_t ep, Batch &batch)
{
	EP_CHECK(batch.runDispatch(ep, GIN_EP_SEND));
	EP_CHECK(batch.runDispatch(ep, GIN_EP_RECV));
	EP_CHECK(batch.runCombine(ep, GIN_EP_BOTH));
}

static void check(Rank &r, ginEp_t ep, Batch &batch)
{
	CUDA(cudaStreamSynchronize(r.stream));
	ginEpRecord_t record = GIN_EP_RECORD_INIT;
	EP_CHECK(ginEpGetAsyncError(ep, &record));
	if (record.valid)
		fprintf(stderr, "rank %d: %s\n", r.rank, ginEpGetLastError());
	EXPECT(!record.valid);
	batch.checkCombine();
}

static void graphsOf(Rank &r, ginEp_t ep, int layers, int replays)
{
	ginEpInfo_t info = GIN_EP_INFO_INIT;
	EP_CHECK(ginEpQuery(ep, &info));
	Batch a(r, roundOf(r, 5, 0), info.handleBytes), b(r, roundOf(r, 6, 1), info.handleBytes);
	Batch *const order[] = {&a, &b, &a};
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	for (Batch *one : {&a, &b}) { /* eager, and the inputs of combine */
		EP_CHECK(one->runDispatch(ep, GIN_EP_BOTH));
		CUDA(cudaStreamSynchronize(r.stream));
		one->checkDispatch();
		EP_CHECK(one->runCombine(ep, GIN_EP_BOTH));
		check(r, ep, *one);
	}
	meet(r); /* no kernel waits for the proxy while a graph takes memory: see gin_proxy(7) */
	CUDA(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal));
	for (int i = 0; i < layers; i++)
		layer(ep, *order[i]);
	CUDA(cudaStreamEndCapture(r.stream, &graph));
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
	CUDA(cudaGraphUpload(exec, r.stream));
	CUDA(cudaStreamSynchronize(r.stream));
	meet(r);
	for (int i = 0; i < replays; i++) {
		CUDA(cudaGraphLaunch(exec, r.stream));
		if (i % 64 != 5)
			continue;
		/* A copy of pageable memory that waits for kernels holds up the proxy: gin_proxy(7). */
		CUDA(cudaStreamSynchronize(r.stream));
		b.out.poison();
		layer(ep, b); /* an eager call beside */
		check(r, ep, b);
		a.out.poison();
	}
	layer(ep, a);
	check(r, ep, a);
	check(r, ep, b);
	meet(r);
	CUDA(cudaGraphExecDestroy(exec));
	CUDA(cudaGraphDestroy(graph));
}

static int run(const ginConfig_t *config)
{
	const char *given = getenv("REPLAYS");
	ginEpConfig_t c = GIN_EP_CONFIG_INIT;
	Rank r;
	rankOpen(r, config);
	if (r.device < 0) {
		printf("there is no GPU\n");
		return 77;
	}
	const Round round = roundOf(r, 1, 0);
	c.experts = round.experts;
	c.topk = round.topk;
	c.hidden = round.hidden;
	c.maxTokens = round.maxTokens;
	c.timeout = 8000000000ull;
	ginEp_t ep = makeEp(r, c);
	for (int layers = 1; layers <= 3; layers++) {
		graphsOf(r, ep, layers, given ? atoi(given) : 1000);
		if (r.rank == 0)
			printf("ok: graphs of %d layers, %d ranks\n", layers, r.nRanks);
		fflush(stdout);
	}
	EP_CHECK(ginEpDestroy(ep));
	rankClose(r);
	return 0;
}

#else

static int run(const ginConfig_t *)
{
	printf("built without nvcc\n");
	return 77;
}

#endif

int main(int argc, char **argv)
{
	return ranksMain(argc, argv, run);
}
