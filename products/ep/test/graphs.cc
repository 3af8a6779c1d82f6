/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * graphs.cc - graphs with one, two and three layers, replayed, with eager calls between: the epochs
 * are in device memory, so any number of replays is right; receives on a stream of their own
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

/* A second stream next to the rank's, and the events that join the two. */
struct Second {
	cudaStream_t stream;
	cudaEvent_t event[4];

	Second()
	{
		CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
		for (cudaEvent_t &e : event)
			CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
	}

	~Second()
	{
		for (cudaEvent_t e : event)
			CUDA(cudaEventDestroy(e));
		CUDA(cudaStreamDestroy(stream));
	}

	/* Later work of `to` follows the current work of `from`. */
	void join(int n, cudaStream_t to, cudaStream_t from) const
	{
		CUDA(cudaEventRecord(event[n], from));
		CUDA(cudaStreamWaitEvent(to, event[n], 0));
	}

	/*
	 * What `body` enqueues on this stream, after the work of `first` and before its later work.
	 * By events n, n + 1.
	 */
	template <class Body> void run(int n, cudaStream_t first, Body body) const
	{
		join(n, stream, first);
		body();
		join(n + 1, first, stream);
	}
};

/* Two batches, sent on the rank's stream and received on the second one, the later one first. */
static void layersOnTwo(Rank &r, ginEp_t ep, Batch &a, Batch &b, const Second &second)
{
	EP_CHECK(a.runDispatch(ep, GIN_EP_SEND));
	EP_CHECK(b.runDispatch(ep, GIN_EP_SEND));
	second.run(0, r.stream, [&] {
		for (Batch *one : {&b, &a}) {
			one->dispatch.phase = GIN_EP_RECV;
			EP_CHECK(ginEpDispatch(ep, &one->dispatch, second.stream));
		}
	});
	EP_CHECK(a.runCombine(ep, GIN_EP_SEND));
	EP_CHECK(b.runCombine(ep, GIN_EP_SEND));
	second.run(2, r.stream, [&] {
		for (Batch *one : {&b, &a}) {
			one->combine.phase = GIN_EP_RECV;
			EP_CHECK(ginEpCombine(ep, &one->combine, second.stream));
		}
	});
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

/* Eager calls; the inputs of combine. No rank allocates memory meanwhile. */
static void prepare(Rank &r, ginEp_t ep, Batch &batch)
{
	meet(r);
	EP_CHECK(batch.runDispatch(ep, GIN_EP_BOTH));
	CUDA(cudaStreamSynchronize(r.stream));
	batch.checkDispatch();
	EP_CHECK(batch.runCombine(ep, GIN_EP_BOTH));
	check(r, ep, batch);
}

/* The work that `body` enqueues, as a graph that is ready to run. */
template <class Body> cudaGraphExec_t capture(Rank &r, Body body)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	meet(r); /* no kernel waits for the proxy while a graph takes memory: see gin_proxy(7) */
	CUDA(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeThreadLocal));
	body();
	CUDA(cudaStreamEndCapture(r.stream, &graph));
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
	CUDA(cudaGraphDestroy(graph));
	CUDA(cudaGraphUpload(exec, r.stream));
	CUDA(cudaStreamSynchronize(r.stream));
	meet(r);
	return exec;
}

static void poison(Batch &a, Batch &b)
{
	a.out.poison();
	b.out.poison();
}

/* On two streams, eagerly and in a graph. */
static void twoStreams(Rank &r, ginEp_t ep, int replays)
{
	Batch a(r, roundOf(r, 7, 0), handleBytes(ep)), b(r, roundOf(r, 8, 1), handleBytes(ep));
	const Second second;
	prepare(r, ep, a);
	prepare(r, ep, b);
	poison(a, b);
	layersOnTwo(r, ep, a, b, second);
	check(r, ep, a);
	check(r, ep, b);
	cudaGraphExec_t exec = capture(r, [&] { layersOnTwo(r, ep, a, b, second); });
	poison(a, b);
	for (int i = 0; i < replays; i++)
		CUDA(cudaGraphLaunch(exec, r.stream));
	check(r, ep, a);
	check(r, ep, b);
	meet(r);
	CUDA(cudaGraphExecDestroy(exec));
}

static void graphsOf(Rank &r, ginEp_t ep, int layers, int replays)
{
	Batch a(r, roundOf(r, 5, 0), handleBytes(ep)), b(r, roundOf(r, 6, 1), handleBytes(ep));
	Batch *const order[] = {&a, &b, &a};

	prepare(r, ep, a);
	prepare(r, ep, b);
	cudaGraphExec_t exec = capture(r, [&] {
		for (int i = 0; i < layers; i++)
			layer(ep, *order[i]);
	});
	for (int i = 0; i < replays; i++) {
		CUDA(cudaGraphLaunch(exec, r.stream));
		if (i % 64 != 5)
			continue;
		/*
		 * A copy of pageable memory that waits for kernels holds up the proxy:
		 * gin_proxy(7).
		 */
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
	twoStreams(r, ep, 100);
	if (r.rank == 0)
		printf("ok: two streams, %d ranks\n", r.nRanks);
	fflush(stdout);
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
