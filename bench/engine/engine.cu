// SPDX-License-Identifier: BSD-3-Clause
// engine - puts to another GPU and to the own rank, by threads and by a copy engine
//
//   GIN_COPY_ENGINE=on mpirun --bind-to none -n 2 engine [rates | sizes]
//
// Rank 0 puts, rank 1 answers the strong signal of each put by a weak signal. A time is that of put
// and answer, on rank 0, or of put and flush. The bytes of every row are compared at rank 1.
#include "../proxy/rank.cuh"

#include <string>

constexpr size_t MOST = 256u << 20;
enum { TIMES_MOST = 33, SCRATCH = 65536 };

// Byte i of the source of a row.
__device__ unsigned char byteOf(uint32_t row, size_t i)
{
	return static_cast<unsigned char>((i + 1) * 0x9e3779b97f4a7c15ull >> 40 ^ row * 37 ^
					  i >> 20);
}

struct FillRow {
	char *at;
	size_t bytes;
	uint32_t row;
	bool poison;

	__device__ void operator()() const
	{
		size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
		for (; i < bytes; i += static_cast<size_t>(gridDim.x) * blockDim.x)
			at[i] = poison ? 0x5a : static_cast<char>(byteOf(row, i));
	}
};

struct CountWrong {
	const char *at;
	size_t bytes;
	uint32_t row;
	unsigned long long *wrong;

	__device__ void operator()() const
	{
		size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
		unsigned long long n = 0;
		for (; i < bytes; i += static_cast<size_t>(gridDim.x) * blockDim.x)
			n += static_cast<unsigned char>(at[i]) != byteOf(row, i);
		if (n)
			atomicAdd_system(wrong, n);
	}
};

// The work of a row: `count` coops, each with its own `bytes`, `times` times.
struct Row {
	const char *name;
	size_t bytes;
	uint32_t coops, times;
	uint64_t pause; // ns before each put
	ginCopyBy copyBy;
	bool scratch;
	bool together; // one answer for all `times` puts
	// The first puts, before the time begins: a put may have to wake up the proxy's thread.
	uint32_t untimed = 0;
	int peer = 1;	    // 0: the puts go to the own rank, and no other rank answers
	bool quiet = false; // no signals: a flush after each put
};

template <class Coop> struct PutRow {
	ginDevComm dc;
	ginWindow_t to, from;
	Row row;
	uint64_t *ns; // of coop 0

	__device__ void pause() const
	{
		uint64_t end = ginNow() + row.pause;
		while (row.pause && ginNow() < end)
			__nanosleep(1000);
	}

	__device__ ginResult_t put(const Gin &gin, uint32_t coop, const ginOptions &options) const
	{
		size_t at = coop * row.bytes;
		if (row.quiet)
			return gin.put(row.peer, to, at, from, at, row.bytes, GinNone{}, GinNone{},
				       Coop{}, options);
		return gin.put(row.peer, to, at, from, at, row.bytes, GinSignalInc{0}, GinNone{},
			       Coop{}, options);
	}

	__device__ void operator()() const
	{
		extern __shared__ char scratch[];
		Gin gin(dc, 0);
		Coop all;
		uint32_t coop = (blockIdx.x * blockDim.x + threadIdx.x) / all.size();
		ginOptions options;
		uint64_t start = 0;
		options.copyBy = row.copyBy;
		options.scratch = row.scratch ? scratch : nullptr;
		options.scratchBytes = row.scratch ? SCRATCH : 0;
		for (uint32_t i = 0; i < row.times; i++) {
			pause();
			if (!row.together || i == row.untimed)
				start = ginNow();
			ginResult_t result = put(gin, coop, options);
			if (result == ginSuccess && row.quiet)
				result = gin.flush(all);
			else if (result == ginSuccess && (!row.together || i + 1 == row.times))
				result = gin.waitSignal(0, row.together ? 1 : i + 1, all);
			if (coop == 0 && all.thread_rank() == 0)
				ns[i] = result == ginSuccess ? ginNow() - start : 0;
		}
	}
};

// Gets by one coop of rank 0, each complete before the next.
template <class Coop> struct GetRow {
	ginDevComm dc;
	ginWindow_t from, to;
	Row row;
	uint64_t *ns;

	__device__ void operator()() const
	{
		Gin gin(dc, 0);
		Coop all;
		ginOptions options;
		options.copyBy = row.copyBy;
		for (uint32_t i = 0; i < row.times; i++) {
			uint64_t start = ginNow();
			ginResult_t result = gin.get(1, from, 0, to, 0, row.bytes, all, options);
			if (result == ginSuccess)
				result = gin.flush(all);
			if (all.thread_rank() == 0)
				ns[i] = result == ginSuccess ? ginNow() - start : 0;
		}
	}
};

struct Answer {
	ginDevComm dc;
	Row row;

	__device__ void operator()() const
	{
		Gin gin(dc, 0);
		uint64_t puts = row.together ? row.times * row.coops : row.coops;
		for (uint32_t i = 1; i <= (row.together ? 1 : row.times); i++)
			if (gin.waitSignal(0, i * puts) == ginSuccess)
				gin.signal(0, GinWeakSignalInc{0});
	}
};

struct Rows {
	Rank &rank;
	Buffer to, from;
	Pinned<uint64_t> ns;
	Pinned<unsigned long long> wrong;
	uint32_t rows = 0;

	explicit Rows(Rank &r) : rank(r), to(r, MOST), from(r, MOST), ns(TIMES_MOST), wrong(1) {}

	void prepare(size_t bytes, int source, int target)
	{
		rows++;
		if (rank.rank == source)
			launch(rank, 264, 512, FillRow{from.ptr, bytes, rows, false});
		if (rank.rank == target)
			launch(rank, 264, 512, FillRow{to.ptr, bytes, rows, true});
		meet(rank);
	}

	void compare(const Row &row, int target)
	{
		if (rank.rank == target) {
			launch(rank, 264, 512,
			       CountWrong{to.ptr, row.bytes * row.coops, rows, wrong.at});
			if (*wrong.at)
				printf("WRONG %s: %llu bytes\n", row.name, *wrong.at);
		}
		meet(rank);
	}

	// The median time in us. A device communicator of its own, so that signals begin at 0.
	template <class Coop> double measure(uint32_t grid, uint32_t block, const Row &row)
	{
		Device device(rank, 1, 1, 1024);
		prepare(row.bytes * row.coops, 0, row.peer);
		if (rank.rank == 0)
			launchShared(rank, grid, block, row.scratch ? SCRATCH : 0,
				     PutRow<Coop>{device.dc, to.window, from.window, row, ns.at});
		else if (row.peer && !row.quiet)
			launch(rank, 1, 1, Answer{device.dc, row});
		meet(rank);
		compare(row, row.peer);
		if (row.together)
			return static_cast<double>(ns.at[row.times - 1]) / 1e3;
		return middle(row);
	}

	template <class Coop> double measureGet(uint32_t block, const Row &row)
	{
		Device device(rank, 1, 1, 1024);
		prepare(row.bytes, 1, 0);
		if (rank.rank == 0)
			launch(rank, 1, block,
			       GetRow<Coop>{device.dc, from.window, to.window, row, ns.at});
		meet(rank);
		compare(row, 0);
		return middle(row);
	}

	double middle(const Row &row) const
	{
		std::vector<double> each(ns.at, ns.at + row.times);
		return median(each) / 1e3;
	}
};

static std::string inBytes(size_t bytes)
{
	return bytes < 1024 ? std::to_string(bytes) + " B" : std::to_string(bytes >> 10) + " KiB";
}

// What a call takes by threads, with scratch memory, by an engine, and by the way that libgin
// chooses
template <class Coop> void measureSize(Rows &rows, const char *by, uint32_t block, size_t bytes,
				       int peer = 1, bool quiet = false)
{
	uint32_t times = bytes < 65536 ? 33 : bytes < 4u << 20 ? 9 : 5;
	auto row = [&](ginCopyBy copyBy, bool scratch) {
		return rows.measure<Coop>(
			1, block, {by, bytes, 1, times, 0, copyBy, scratch, false, 0, peer, quiet});
	};
	double threads = row(ginCopyThreads, false), scratch = row(ginCopyThreads, true);
	double engine = row(ginCopyEngine, false);
	double chosen = row(ginCopyAuto, false), given = row(ginCopyAuto, true);
	double best = std::min(threads, engine);
	if (rows.rank.rank == 0)
		printf("| %s | %s | %.1f | %.1f | %.1f | %.1f | %.2f | %.1f | %.2f |\n", by,
		       inBytes(bytes).c_str(), threads, scratch, engine, chosen, chosen / best,
		       given, given / std::min(best, scratch));
}

template <class Coop> void measureMany(Rows &rows, const char *what, uint32_t grid, uint32_t block,
				       uint32_t coops, size_t bytes)
{
	Row row = {what, bytes, coops, 1, 0, ginCopyThreads, false, true};
	double threads = rows.measure<Coop>(grid, block, row);
	row.copyBy = ginCopyEngine;
	double engine = rows.measure<Coop>(grid, block, row);
	row.copyBy = ginCopyAuto;
	double chosen = rows.measure<Coop>(grid, block, row);
	if (rows.rank.rank == 0)
		printf("| %s | %zu KiB | %.0f | %.0f | %.0f | %.2f |\n", what, bytes >> 10, threads,
		       engine, chosen, chosen / std::min(threads, engine));
}

template <class Coop> void measureGet(Rows &rows, const char *by, uint32_t block, size_t bytes)
{
	Row row = {by, bytes, 1, 5, 0, ginCopyThreads, false, false};
	double threads = rows.measureGet<Coop>(block, row);
	row.copyBy = ginCopyEngine;
	double engine = rows.measureGet<Coop>(block, row);
	if (rows.rank.rank == 0)
		printf("| %s | %zu KiB | %.1f | %.1f | %.1f |\n", by, bytes >> 10, threads, engine,
		       threads / engine);
}

static void measureRate(Rows &rows, size_t bytes, uint32_t times, int peer = 1)
{
	double us = rows.measure<GinThread>(
		1, 1, {"rate", bytes, 1, times + 1, 0, ginCopyAuto, false, true, 1, peer});
	if (rows.rank.rank == 0)
		printf("| %zu MiB, %u puts one after the other%s | %.0f GB/s |\n", bytes >> 20,
		       times, peer ? "" : " to the own rank",
		       static_cast<double>(bytes) * times / us / 1e3);
}

static void measureIdle(Rows &rows, uint64_t pause, const char *what)
{
	size_t bytes = 256u << 10;
	Row row = {what, bytes, 1, 9, pause, ginCopyEngine, false, false};
	double middle = rows.measure<GinThread>(1, 1, row);
	if (rows.rank.rank == 0)
		printf("| %s | %.1f | %.1f |\n", what, middle,
		       static_cast<double>(*std::max_element(rows.ns.at, rows.ns.at + 9)) / 1e3);
}

static void measureRates(Rows &rows)
{
	if (rows.rank.rank == 0)
		printf("\n| by one thread, the engine by itself | |\n|---|---|\n");
	measureRate(rows, 16u << 20, 1);
	measureRate(rows, 16u << 20, 16);
	measureRate(rows, 256u << 20, 4);
	measureRate(rows, 16u << 20, 16, 0);
}

static void printSizes(Rows &rows, const char *what)
{
	if (rows.rank.rank == 0)
		printf("\n| %s | bytes | us by threads | us with scratch | us by engine | us as "
		       "chosen "
		       "| / best | us as chosen, scratch given | / best |\n"
		       "|---|---|---|---|---|---|---|---|---|\n",
		       what);
}

// Every coop, from 8 bytes to 16 MiB
static void measureSizes(Rows &rows)
{
	static const size_t sizes[] = {8,     64,	512,	   1024,    2048,    4096,    8192,
				       16384, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};

	printSizes(rows, "by");
	for (size_t bytes : sizes)
		measureSize<GinThread>(rows, "a thread", 1, bytes);
	for (size_t bytes : sizes)
		measureSize<GinThread>(rows, "a thread, put and flush", 1, bytes, 1, true);
	for (size_t bytes : sizes)
		measureSize<GinWarp>(rows, "a warp", 32, bytes);
	for (size_t bytes : sizes)
		measureSize<GinCta>(rows, "a block of 512", 512, bytes);
}

static void measureMany(Rows &rows)
{
	if (rows.rank.rank == 0)
		printf("\n| many at once | each | us by threads | us by engine | us as chosen | / "
		       "best "
		       "|\n|---|---|---|---|---|---|\n");
	for (size_t bytes : {8u << 10, 64u << 10, 256u << 10}) {
		measureMany<GinThread>(rows, "4 threads of a warp", 1, 4, 4, bytes);
		measureMany<GinThread>(rows, "32 threads of a warp", 1, 32, 32, bytes);
		measureMany<GinThread>(rows, "1024 threads", 8, 128, 1024, bytes);
	}
	measureMany<GinWarp>(rows, "128 warps", 32, 128, 128, 2u << 20);
	measureMany<GinCta>(rows, "16 blocks of 512", 16, 512, 16, 16u << 20);
}

static void measureOwn(Rows &rows)
{
	printSizes(rows, "to the own rank, by");
	for (size_t bytes = 16384; bytes <= 16u << 20; bytes *= 4)
		measureSize<GinThread>(rows, "a thread", 1, bytes, 0);
	for (size_t bytes = 256u << 10; bytes <= 16u << 20; bytes *= 4)
		measureSize<GinWarp>(rows, "a warp", 32, bytes, 0);
}

static void measureAll(Rows &rows)
{
	bool prints = rows.rank.rank == 0;
	measureSizes(rows);
	if (prints)
		printf("\n| get by | bytes | us by threads | us by engine | x |\n"
		       "|---|---|---|---|---|\n");
	measureGet<GinThread>(rows, "a thread", 1, 256u << 10);
	measureGet<GinThread>(rows, "a thread", 1, 16u << 20);
	measureGet<GinWarp>(rows, "a warp", 32, 16u << 20);
	measureOwn(rows);
	measureRates(rows);
	measureMany(rows);
	if (prints)
		printf("\n| 256 KiB by a thread and an engine, after | us, median | most "
		       "|\n|---|---|---|\n");
	measureIdle(rows, 0, "no pause");
	measureIdle(rows, 5000000, "5 ms");
	measureIdle(rows, 60000000, "60 ms");
}

int main(int argc, char **argv)
{
	ginConfig_t config = GIN_CONFIG_INIT;
	config.copyEngines = 1;
	Rank r = rankOpen(&config);
	if (r.nRanks != 2 || r.device < 0) {
		printf("2 ranks with a GPU each are needed\n");
		return 77;
	}
	CUDA(cudaFuncSetAttribute(runKernel<PutRow<GinThread>>,
				  cudaFuncAttributeMaxDynamicSharedMemorySize, SCRATCH));
	CUDA(cudaFuncSetAttribute(runKernel<PutRow<GinWarp>>,
				  cudaFuncAttributeMaxDynamicSharedMemorySize, SCRATCH));
	CUDA(cudaFuncSetAttribute(runKernel<PutRow<GinCta>>,
				  cudaFuncAttributeMaxDynamicSharedMemorySize, SCRATCH));
	{
		Rows rows(r);
		if (argc > 1 && !strcmp(argv[1], "sizes")) {
			measureSizes(rows);
			measureMany(rows);
		} else if (argc > 1) {
			measureRates(rows);
			measureOwn(rows);
		} else {
			measureAll(rows);
		}
	}
	rankClose(r);
	return 0;
}
