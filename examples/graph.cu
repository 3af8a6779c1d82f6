// SPDX-License-Identifier: BSD-3-Clause
// graph - a kernel that communicates is captured in a CUDA graph once, and replayed many times
//
// Each rank adds 1 to the word that it received and passes it on, so the word counts the replays.
//
// Signals keep their values from one replay to the next. A captured kernel has fixed arguments, so
// it cannot wait for absolute values. It waits for an increase instead: the signal's shadow has the
// value up to which earlier waits have come. Without a GPU, the body is called once per replay.
//   mpirun -n 2 ./graph [REPLAYS]
#include "launch.h"

struct PassOn {
	ginDevComm dc;
	ginWindow_t inbox, outbox; // one word each
	uint64_t *in, *out;
	ginResult_t *result;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		int n = static_cast<int>(dc.nRanks), rank = static_cast<int>(dc.rank);
		uint64_t before, delta;
		ginResult_t status = gin.put((rank + 1) % n, inbox, 0, outbox, 0, sizeof(uint64_t),
					     GinSignalInc{0});
		if (status == ginSuccess) // wait for this replay's put of the left neighbour
			status = gin.waitSignalFollowShadow(0, 1, &before, &delta);
		if (status == ginSuccess) // this rank's put has read *out, which may be overwritten
			status = gin.flush();
		if (status == ginSuccess) {
			*out = *in + 1;
			// Tell the left neighbour that *in was read: it may put again.
			status = gin.signal((rank + n - 1) % n, GinSignalInc{1});
		}
		if (status == ginSuccess)
			status = gin.waitSignalFollowShadow(1, 1, &before, &delta);
		if (status != ginSuccess)
			*result = status;
	}
};

#ifdef __CUDACC__
static void replay(const Rank &r, PassOn passOn, unsigned replays)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CUDA(cudaStreamBeginCapture(r.stream, cudaStreamCaptureModeGlobal));
	runKernel<<<1, 1, 0, r.stream>>>(passOn);
	CUDA(cudaStreamEndCapture(r.stream, &graph));
	CUDA(cudaGraphInstantiate(&exec, graph, 0));
	for (unsigned i = 0; i < replays; i++)
		CUDA(cudaGraphLaunch(exec, r.stream));
	CUDA(cudaStreamSynchronize(r.stream));
	cudaGraphExecDestroy(exec);
	cudaGraphDestroy(graph);
}
#endif

static void run(const Rank &r, PassOn passOn, unsigned replays)
{
#ifdef __CUDACC__
	if (r.device >= 0) {
		replay(r, passOn, replays);
		return;
	}
#endif
	for (unsigned i = 0; i < replays; i++)
		launch(r, 1, 1, passOn);
}

// Number of replays: the argument, or 50. Returns 0 for a wrong argument.
static unsigned replaysOf(int argc, char **argv)
{
	char *end;
	if (argc < 2)
		return 50;
	unsigned long replays = strtoul(argv[1], &end, 10);
	return argc == 2 && !*end && replays <= 1000000 ? static_cast<unsigned>(replays) : 0;
}

int main(int argc, char **argv)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	unsigned replays = replaysOf(argc, argv);
	if (!replays) {
		fprintf(stderr, "usage: %s [REPLAYS] (from 1 to 1000000)\n", argv[0]);
		return 2;
	}
	ginDevComm dc;
	Rank r = rankOpen();
	std::vector<uint64_t> word(1, 0);
	Window in = registerCopy(r, word), out = registerCopy(r, word);
	ginResult_t *result = resultWord<ginResult_t>(r);

	CHECK(ginDevCommCreate(r.comm, &want, &dc));
	run(r,
	    PassOn{dc, in.window, out.window, static_cast<uint64_t *>(in.ptr),
		   static_cast<uint64_t *>(out.ptr), result},
	    replays);
	checkKernel(r, dc, *result);
	copyBytes(r, word.data(), out.ptr, sizeof(uint64_t));
	if (r.rank == 0)
		printf("the word was passed on %llu times in %u replays\n",
		       static_cast<unsigned long long>(word[0]), replays);
	int status = report(r, word[0] != replays);
	CHECK(ginDevCommDestroy(r.comm, &dc));
	freeWindow(r, in);
	freeWindow(r, out);
	rankClose(r);
	return status;
}
