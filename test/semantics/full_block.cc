/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * full_block.cc - kernels run with large blocks on every route
 *
 * A kernel launches with 1,024 threads if it takes at most 64 registers, device calls included. The
 * five kernels of bench/registers run with 1,024 threads without launch bounds. There are more
 * blocks than fit on the GPU at a time. The host checks the received bytes.
 */
/* COMPILE: -O0 */
#include "suite.h"

#include "../../bench/registers/kernels.cuh"

enum { CONTEXTS = 4, BYTES = 256, EACH = 16, HIDDEN = BYTES / 4 };

struct Shape {
	uint32_t blocks, threads;
};

/*
 * At most two such blocks fit on each of an H200's 132 SMs. BLOCKS and THREADS, a power of two, set
 * other numbers.
 */
static Shape shapeFor(const Rank &r)
{
	const char *blocks = getenv("BLOCKS"), *threads = getenv("THREADS");
	Shape shape = {r.device < 0 ? 2u : 300u, r.device < 0 ? 32u : 1024u};

	if (blocks)
		shape.blocks = static_cast<uint32_t>(atoi(blocks));
	if (threads)
		shape.threads = static_cast<uint32_t>(atoi(threads));
	return shape;
}

static ginDevComm deviceFor(Rank &r, const Shape &shape)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginDevComm dc;

	want.contexts = CONTEXTS;
	want.signals = want.barriers = shape.blocks;
	want.timeout = 40000000000ull;
	CHECK(ginDevCommCreate(r.comm, &want, &dc));
	return dc;
}

/* Waits for the signals of PutEach, which ends without a wait. */
struct AwaitEach {
	ginDevComm dc;
	uint64_t *results; /* [block][thread] */

	GIN_FN void operator()() const
	{
		Gin gin(dc, ginBlockIndex() % dc.contexts);
		ginResult_t result = gin.waitSignal(ginBlockIndex(), ginBlockSize(), GinCta{});
		if (result == ginSuccess)
			result = gin.flush(GinCta{});
		gin.resetSignal(ginBlockIndex());
		results[ginBlockIndex() * ginBlockSize() + ginThreadIndex()] = result;
	}
};

/* The memory of one test, and its device communicator. */
struct Setting {
	Rank &r;
	Shape shape;
	Buffer send, recv;
	Buffer scratch;
	Results results;
	KernelArguments arguments;

	Setting(Rank &rank, const Shape &wanted, size_t bytes, size_t each)
	    : r(rank), shape(wanted), send(rank, bytes), recv(rank, bytes),
	      scratch(rank, size_t{shape.blocks} * shape.threads * sizeof(float)),
	      results(rank, size_t{shape.blocks} * shape.threads)
	{
		arguments = {deviceFor(r, shape),
			     send.window,
			     recv.window,
			     each,
			     reinterpret_cast<float *>(scratch.ptr),
			     results.words};
		fillPattern(r, send);
		recv.poison();
		meet(r);
	}

	~Setting()
	{
		meet(r);
		CHECK(ginDevCommDestroy(r.comm, &arguments.dc));
	}

	template <uint32_t routes, class Body> void run(const Body &body)
	{
		results.clear();
		launch(r, shape.blocks, shape.threads, body);
		EXPECT(results.all(ginSuccess));
	}
};

static size_t piecesBytes(const Rank &r, const Shape &shape)
{
	return size_t{static_cast<uint32_t>(r.nRanks)} * shape.blocks * BYTES;
}

/* From every rank, each block's piece for this rank. */
static void expectPieces(Setting &s)
{
	const std::vector<unsigned char> got = s.recv.read();
	const size_t row = size_t{s.shape.blocks} * BYTES;

	for (size_t from = 0; from < static_cast<size_t>(s.r.nRanks); from++)
		for (size_t i = 0; i < row; i++)
			EXPECT(got[from * row + i] ==
			       pattern(static_cast<uint32_t>(from), 0,
				       static_cast<size_t>(s.r.rank) * row + i));
}

template <uint32_t routes> static void exchange(Rank &r)
{
	const Shape shape = shapeFor(r);
	Setting s(r, shape, piecesBytes(r, shape), BYTES);

	s.run<routes>(Exchange<routes>(s.arguments));
	expectPieces(s);
}

struct AwaitLoop {
	ginDevComm dc;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		Gin gin(dc, ginBlockIndex() % dc.contexts);
		ginResult_t result = gin.waitSignal(ginBlockIndex(), dc.nRanks, GinCta{});
		if (result == ginSuccess)
			result = gin.flush(GinCta{});
		results[ginBlockIndex() * ginBlockSize() + ginThreadIndex()] = result;
	}
};

template <uint32_t routes> static void putLoop(Rank &r)
{
	const Shape shape = shapeFor(r);
	Setting s(r, shape, piecesBytes(r, shape), BYTES);

	s.run<routes>(PutLoop<routes>(s.arguments));
	s.shape.threads = 32;
	s.results.clear();
	launch(r, s.shape.blocks, 32, AwaitLoop{s.arguments.dc, s.results.words});
	for (size_t i = 0; i < size_t{s.shape.blocks} * 32; i++)
		EXPECT(s.results.words[i] == ginSuccess);
	expectPieces(s);
}

template <uint32_t routes> static void putEach(Rank &r)
{
	const Shape shape = shapeFor(r);
	Setting s(r, shape, size_t{shape.blocks} * shape.threads * EACH, EACH);

	s.run<routes>(PutEach<routes>(s.arguments));
	launch(r, shape.blocks, shape.threads, AwaitEach{s.arguments.dc, s.results.words});
	EXPECT(s.results.all(ginSuccess));
	const std::vector<unsigned char> got = s.recv.read();
	const int before = (r.rank + r.nRanks - 1) % r.nRanks;
	for (size_t i = 0; i < got.size(); i++)
		EXPECT(got[i] == pattern(static_cast<uint32_t>(before), 0, i));
}

template <uint32_t routes> static void gridAllToAll(Rank &r)
{
	Setting s(r, shapeFor(r), static_cast<size_t>(r.nRanks) * BYTES, BYTES);

	s.run<routes>(GridAllToAll<routes>(s.arguments));
	const std::vector<unsigned char> got = s.recv.read();
	for (size_t i = 0; i < got.size(); i++)
		EXPECT(got[i] == pattern(static_cast<uint32_t>(i / BYTES), 0,
					 static_cast<size_t>(r.rank) * BYTES + i % BYTES));
}

/* Small integers, so that the order of additions does not matter. */
static float tokenValue(uint32_t rank, size_t i)
{
	return static_cast<float>(pattern(rank, 7, i) % 16);
}

static float tokenScale(uint32_t nRanks, size_t token)
{
	float squares = 0;

	for (size_t j = 0; j < HIDDEN; j++) {
		float sum = 0;
		for (uint32_t p = 0; p < nRanks; p++)
			sum += tokenValue(p, token * HIDDEN + j);
		squares += sum * sum;
	}
	return 1.0f / (1.0f + squares / static_cast<float>(HIDDEN));
}

template <uint32_t routes> static void rmsNorm(Rank &r)
{
	const Shape shape = shapeFor(r);
	Setting s(r, shape, piecesBytes(r, shape), BYTES);
	const uint32_t nRanks = static_cast<uint32_t>(r.nRanks);
	const size_t tokens = size_t{nRanks} * s.shape.blocks;
	std::vector<float> values(tokens * HIDDEN);

	for (size_t i = 0; i < values.size(); i++)
		values[i] = tokenValue(static_cast<uint32_t>(r.rank), i);
	copyBytes(r, s.send.ptr, values.data(), values.size() * sizeof(float));
	meet(r);
	s.run<routes>(RmsNorm<routes>(s.arguments));
	copyBytes(r, values.data(), s.send.ptr, values.size() * sizeof(float));
	for (size_t token = 0; token < tokens; token++) {
		const float scale = tokenScale(nRanks, token);
		for (size_t j = 0; j < HIDDEN; j++) {
			float sum = 0;
			for (uint32_t p = 0; p < nRanks; p++)
				sum += tokenValue(p, token * HIDDEN + j);
			float off = values[token * HIDDEN + j] - sum * scale;
			EXPECT(off > -1e-4f && off < 1e-4f);
		}
	}
}

template <uint32_t routes> static void allKernels(Rank &r, const char *compiledFor)
{
	const Test tests[] = {
		{"all-to-all by blocks", exchange<routes>},
		{"a put in a loop", putLoop<routes>},
		{"a put by each thread", putEach<routes>},
		{"all-to-all by the grid", gridAllToAll<routes>},
		{"RMS norm", rmsNorm<routes>},
	};

	runTests(r, compiledFor, tests);
}

/* The route of all ranks; ginRouteNone: they have several. */
static uint32_t routeOfAll(Rank &r)
{
	ginDevComm dc = deviceFor(r, {1, 1});
	const uint32_t route = dc.route;

	CHECK(ginDevCommDestroy(r.comm, &dc));
	return route;
}

/*
 * ROUTES=own: only kernels that are compiled for the ranks' route; all: only kernels for all
 * routes.
 */
static int run(const ginConfig_t *config)
{
	const char *routes = getenv("ROUTES");
	Rank r;

	rankOpen(r, config);
	const uint32_t route = routeOfAll(r);
	const bool own = !routes || strcmp(routes, "all");
	if (own && route == ginRouteDirect)
		allKernels<GIN_ROUTES_DIRECT>(r, "full_block, for direct peers");
	else if (own && route == ginRouteProxy)
		allKernels<GIN_ROUTES_PROXY>(r, "full_block, for route proxy");
	else if (own && route == ginRouteGdaki)
		allKernels<GIN_ROUTES_GDAKI>(r, "full_block, for route gdaki");
	if (!routes || strcmp(routes, "own"))
		allKernels<GIN_ROUTES_ALL>(r, "full_block, for all routes");
	rankClose(r);
	return 0;
}

int main(int argc, char **argv)
{
	return suiteMain(argc, argv, run);
}
